"""The Python interface: what the commands do, as functions. `import kgen` offers these names."""

from __future__ import annotations

from kgen.build.compile import Artifact, Compiler, Emit, compile_source
from kgen.plan import KernelPlan, lower
from kgen.render import Rendered, render
from kgen.spec import LoadedSpec, load_spec

__all__ = [
    "Artifact",
    "KernelPlan",
    "LoadedSpec",
    "Rendered",
    "build",
    "load_spec",
    "lower",
    "render",
]


def build(
    plan: KernelPlan,
    *,
    compiler: Compiler = "nvrtc",
    emit: Emit = "cubin",
    toolchain: str = "private",
    line_info: bool = False,
) -> Artifact:
    """Compile a plan's rendered source and hold the result against the ptxas gate.

    Raises CompileError, with the spec field to change, when the gate finds anything.
    """
    artifact = compile_source(
        render(plan).source,
        name=plan.name,
        target=plan.target,
        compiler=compiler,
        emit=emit,
        toolchain=toolchain,
        line_info=line_info,
    )
    artifact.require_clean()
    return artifact
