"""Shipping: kernels, dispatch tables and bindings as a folder to commit in another repository."""
