"""cuBLASLt's candidates on a GPU: in every arithmetic that a fast kernel has, one is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.api import load_spec, lower
from kgen.bench import cublaslt
from kgen.bench.device import device_bench
from kgen.errors import DeviceError
from kgen.paths import data_folder
from kgen.run.launch import require_device
from kgen.sweep import benches
from kgen.verify.problem import numerics_of

pytestmark = pytest.mark.gpu
FAST = sorted(data_folder("specs").glob("hopper/fast/*.yaml"))


@pytest.mark.parametrize("path", FAST, ids=[path.stem for path in FAST])
@pytest.mark.parametrize("size", [(512, 1024, 256), (64, 528, 272)])
def test_the_fastest_candidate_computes_the_product(
    gpu: None, path: Path, size: tuple[int, int, int]
) -> None:
    """Its output is the exact product, on the operands that kernels are screened with."""
    plan = lower(load_spec(path))
    if numerics_of(plan).block_k:
        pytest.skip("candidates with block scales are not looked for")
    try:
        require_device(plan)
    except DeviceError as error:
        pytest.skip(str(error))
    bench = benches.bench_for(plan, size)
    try:
        found = benches.with_tuned(bench, plan, device_bench())
        assert not isinstance(bench.tuned, str), bench.tuned
        print(cublaslt.version(), found[-1].note)
    finally:
        benches._benches.clear()
