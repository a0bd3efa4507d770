"""cuBLASLt's candidates on a GPU: in every arithmetic that a kernel has, one computes the product."""

from __future__ import annotations

import pytest
from conftest import SPECS

from kgen.api import load_spec, lower
from kgen.bench import cublaslt
from kgen.bench.device import device_bench
from kgen.errors import DeviceError
from kgen.run.launch import require_device
from kgen.sweep.benches import _benches, bench_for, with_tuned

pytestmark = pytest.mark.gpu
FAST = [path for path in SPECS if path.parent.name == "fast"]


@pytest.mark.parametrize("path", FAST, ids=[path.stem for path in FAST])
@pytest.mark.parametrize("size", [(512, 1024, 256), (64, 520, 264)])
def test_the_fastest_candidate_computes_the_product(gpu: None, path, size) -> None:
    """What is timed against is right, for rows of D that fill a cache line and such that do not."""
    plan = lower(load_spec(path))
    try:
        require_device(plan)
    except DeviceError as error:
        pytest.skip(str(error))
    bench = bench_for(plan, size)
    try:
        found = with_tuned(bench, plan, device_bench())
        assert not isinstance(bench.tuned, str), bench.tuned
        print(cublaslt.version(), found[-1].note)
        found[-1].launchers[0]()
    finally:
        _benches.clear()
