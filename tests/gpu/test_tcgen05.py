"""Every tcgen05 variant and shipped spec on a device of its target; nobody here has one yet."""

from __future__ import annotations

import pytest
from blackwell import SHIPPED, VARIANTS, variant

from kgen.api import build, load_spec, lower
from kgen.errors import DeviceError
from kgen.run import Kernel
from kgen.run.launch import require_device
from kgen.spec import LoadedSpec
from kgen.verify.device import shapes_of, verify_on_gpu

pytestmark = pytest.mark.gpu

SPECS = {name: lambda name=name: variant(name) for name in VARIANTS} | {
    path.stem: lambda path=path: load_spec(path) for path in SHIPPED
}


def spec_of(name: str) -> LoadedSpec:
    return SPECS[name]()


@pytest.mark.parametrize("name", SPECS)
def test_every_derived_shape_is_right(gpu: None, name: str) -> None:
    """As `kgen verify --on gpu`: all shapes, exact and random operands, repeats of the largest."""
    plan = lower(spec_of(name))
    try:
        cupy = require_device(plan)
    except DeviceError as error:
        pytest.skip(str(error))
    facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    kernel = Kernel(plan, build(plan).path)
    cases = verify_on_gpu(plan, kernel, shapes_of(plan, facts["multiProcessorCount"]))
    wrong = [f"{c.shape.label} ({c.shape.why}) {c.report}" for c in cases if not c.passed]
    assert not wrong, "\n".join(wrong[:3])
