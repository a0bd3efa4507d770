"""Spec files: models, loading, positions and rules between fields."""

from kgen.spec.load import LoadedSpec, load_spec, opening_line, parse_spec
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

__all__ = ["KernelSpec", "LoadedSpec", "Violation", "load_spec", "opening_line", "parse_spec"]
