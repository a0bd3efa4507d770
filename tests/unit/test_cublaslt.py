"""cuBLASLt's candidates, on a library in Python that multiplies what the descriptors say."""
# ruff: noqa: N802, N815 - the methods have the names of the library

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import V6
from strict_cupy import strict_cupy

from kgen.api import load_spec, lower
from kgen.bench import cublaslt, tuned
from kgen.bench.device import Buffers, buffer_set
from kgen.bench.protocol import Bench
from kgen.errors import DeviceError
from kgen.verify import inputs
from kgen.verify.check import make_reference
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.shapes import shape

SIZE = (48, 40, 72)
MICROSECONDS = (30.0, 10.0, 20.0)  # of the candidates, in the heuristic's order


class Library:
    """Stands in for libcublasLt: column-major products of f16 and f32 with f32 sums.

    wrong, refused  candidates that compute something else, and that do not run
    """

    def __init__(self, wrong: tuple[int, ...] = (), refused: tuple[int, ...] = ()) -> None:
        self.objects: dict[int, Any] = {}
        self.wrong, self.refused = wrong, refused
        self.now = 0.0

    def _made(self, where: Any, what: Any) -> int:
        number = len(self.objects) + 1
        self.objects[number] = what
        where._obj.value = number
        return 0

    def cublasLtCreate(self, where: Any) -> int:
        return self._made(where, "handle")

    def cublasLtMatmulDescCreate(self, where: Any, compute: Any, scale: Any) -> int:
        return self._made(where, {"compute": compute.value, "scale": scale.value})

    def cublasLtMatmulDescSetAttribute(self, what: Any, name: int, value: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self.objects[what.value][name] = value._obj.value
        return 0

    cublasLtMatmulPreferenceSetAttribute = cublasLtMatmulDescSetAttribute

    def cublasLtMatrixLayoutCreate(self, where: Any, *values: Any) -> int:
        return self._made(where, tuple(x.value for x in values))

    def cublasLtMatmulPreferenceCreate(self, where: Any) -> int:
        return self._made(where, {})

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        preference, count, found, returned = arguments[6:]
        assert self.objects[preference.value] == {1: cublaslt.WORKSPACE_BYTES}
        returned._obj.value = min(count.value, len(MICROSECONDS))
        for place in range(returned._obj.value):
            found[place].algorithm[0] = place
        return 0

    def _matrix(self, address: Any, layout: Any) -> np.ndarray:
        kind, rows, cols, ld = self.objects[layout.value]
        form = {2: np.float16, 0: np.float32}[kind]
        size = (cols - 1) * ld + rows
        raw = (ctypes.c_char * (size * form().itemsize)).from_address(address.value)
        flat = np.frombuffer(raw, dtype=form)
        strides = (form().itemsize, ld * form().itemsize)
        return np.lib.stride_tricks.as_strided(flat, (rows, cols), strides, writeable=True)

    def cublasLtMatmul(self, *arguments: Any) -> int:
        _, task, _, a, a_layout, b, b_layout, _, c, _, d, d_layout, candidate = arguments[:13]
        place = candidate._obj.algorithm[0]
        if place in self.refused:
            return 15
        assert c.value == d.value
        task = self.objects[task.value]
        left, right = self._matrix(a, a_layout), self._matrix(b, b_layout)
        left, right = (left.T if task[3] else left), (right.T if task[4] else right)
        out = self._matrix(d, d_layout)
        product = left.astype("float32") @ right.astype("float32")
        out[...] = (product + (place in self.wrong)).astype(out.dtype)
        self.now += MICROSECONDS[place] * 1e-6
        return 0

    def bench(self) -> Bench:
        """A clock that the launches move."""

        def elapsed(body: Any) -> float:
            before = self.now
            body()
            return self.now - before

        return Bench(elapsed, lambda: None, lambda seconds: None)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """The tuned contestant of a plan on a library, and the buffer set that it was tried on."""
    pytest.importorskip("torch", reason="torch is not installed: no exact reference")
    cupy: Any = strict_cupy()
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cublaslt, "WORKSPACE_BYTES", 4096)

    def find(library: Library, a_major: str = "k", b_major: str = "k") -> Any:
        monkeypatch.setattr(cublaslt, "_library", lambda: library)
        cublaslt._handle.cache_clear()
        cublaslt._workspace.cache_clear()
        text = V6.replace("accumulator: f16", "accumulator: f32").replace("m: 256", "m: 128")
        text = text.replace("consumers: 4", "consumers: 2").split("verify:")[0]
        for operand, major in (("a", a_major), ("b", b_major)):
            text = text.replace(f"{operand}: {{dtype: f16, major: k}}",
                                f"{operand}: {{dtype: f16, major: {major}}}")  # fmt: skip
        path = tmp_path / "k.yaml"
        path.write_text(text)
        plan = lower(load_spec(path))
        numerics, layout = numerics_of(plan), shape(tile_of(plan), *SIZE, "test")
        operands = inputs.exact(*SIZE, numerics, xp=cupy)
        exact = buffer_set(plan, operands, layout)
        product = make_reference(operands, numerics).product
        buffers = Buffers(layout, (exact,))
        return tuned.tuned_on(numerics, buffers, exact, product, library.bench()), exact, product

    yield find
    cublaslt._handle.cache_clear()
    cublaslt._workspace.cache_clear()


@pytest.mark.parametrize("a_major", ["k", "m"])
@pytest.mark.parametrize("b_major", ["k", "n"])
def test_the_fastest_candidate_computes_the_product(found, a_major: str, b_major: str) -> None:
    """The descriptors mean A @ B.T whatever lies contiguously, and the clock decides."""
    best, exact, product = found(Library(), a_major, b_major)
    assert best.name == "cuBLASLt, best candidate"
    assert best.note == "f32 accumulation, f16 output; candidate 2 of 3"
    exact.d.view[...] = exact.d.view * 0
    best.launchers[0]()
    assert bool((exact.d.view.astype("float64") == product).all())


def test_candidates_that_are_wrong_or_do_not_run_are_left_out(found) -> None:
    best, _, _ = found(Library(wrong=(1,)))
    assert best.note.endswith("candidate 3 of 3")
    best, _, _ = found(Library(refused=(1, 2)))
    assert best.note.endswith("candidate 1 of 3")
    with pytest.raises(DeviceError, match="none of cuBLASLt's 3 candidates computes the product"):
        found(Library(wrong=(0, 1), refused=(2,)))


def test_a_refused_call_is_named_with_its_status(found) -> None:
    library = Library()
    library.cublasLtMatrixLayoutCreate = lambda *_: 7  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="cublasLtMatrixLayoutCreate: status 7"):
        found(library)


def test_the_result_of_the_heuristic_has_the_size_of_the_headers() -> None:
    """cublasLtMatmulHeuristicResult_t: 64 + 8 + 4 + 4 + 16 bytes."""
    assert ctypes.sizeof(cublaslt._Heuristic) == 96


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.zeros((3, 8)), cublaslt.Stored(8, 3, 8, True)),
        (np.zeros((3, 8))[:, :5], cublaslt.Stored(5, 3, 8, True)),
        (np.zeros((8, 3)).T, cublaslt.Stored(3, 8, 3, False)),
        (np.zeros((1, 8))[:, :5], cublaslt.Stored(5, 1, 8, True)),
        (np.zeros((8, 4)).T[:1], cublaslt.Stored(1, 8, 4, False)),
    ],
)
def test_how_a_view_lies_in_memory(array: np.ndarray, wanted: cublaslt.Stored) -> None:
    assert cublaslt.stored(array) == wanted


def test_a_view_without_a_contiguous_axis_is_refused() -> None:
    with pytest.raises(DeviceError, match="is no matrix that cuBLASLt takes"):
        cublaslt.stored(np.zeros((8, 8))[::2, ::2])
