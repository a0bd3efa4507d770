"""The names that no kernel can have: the committed list holds what the toolchain's headers take."""

from __future__ import annotations

import pytest
import reserve

from kgen.build.compile import compile_source
from kgen.errors import CompileError


def test_the_list_holds_every_name_of_the_installed_headers():
    missing = reserve.derive() - reserve.recorded()
    assert not missing, f"run python tests/reserve.py; it adds {sorted(missing)[:20]}"


@pytest.mark.parametrize("name", ["threadIdx", "warpSize", "int4", "NAN", "M_PI"])
def test_a_reserved_name_does_not_compile(name):
    source = f'#include <cuda_runtime.h>\nextern "C" __global__ void {name}(int x) {{}}\n'
    with pytest.raises(CompileError):
        compile_source(source, name=name, target="sm_90a", compiler="nvcc")
