"""kgen: a YAML spec to one self-contained, readable CUDA GEMM kernel, with the evidence for it."""

from kgen._version import __version__

__all__ = ["__version__"]
