"""Deciding whether an output is right: operands, references, gates and the shapes to try."""
