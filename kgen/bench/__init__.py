"""Timing kernels against baselines, keeping what was measured, and tables made from it."""
