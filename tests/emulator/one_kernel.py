"""Runs a few lines of PTX in one CTA and gives back what it stored: `out[thread]`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgen.emu import Launch, Report, emulate
from kgen.emu.launch import Array, Constant, Pointer, Scalar

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
DECLARATIONS = (
    ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %rd<32>;"
    " .reg .f32 %f<32>; .reg .f64 %fd<8>;"
)


def text(body: str, params: str = "", shared: str = "") -> str:
    """A kernel `k` with parameter `out`; %rd0 holds the address of the thread's own 8 bytes, %r0
    the thread.
    """
    extra = f", {params}" if params else ""
    return f"""{HEADER}
.visible .entry k(.param .u64 out{extra})
{{
    {DECLARATIONS}
    {shared}
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 8;
    add.u64 %rd0, %rd0, %rd1;
{body}
    ret;
}}
"""


def launch(
    threads: int = 32,
    arguments: Sequence[Scalar] = (),
    ctas: int = 1,
    cluster: int = 1,
    shared: int = 0,
) -> Launch:
    array = Array("out", "u64", (threads,), Constant(0), role="inout")
    return Launch(
        "k",
        (ctas, 1, 1),
        (threads, 1, 1),
        (array,),
        (Pointer("out"), *arguments),
        cluster=(cluster, 1, 1),
        dynamic_shared_bytes=shared,
    )


def report(
    body: str,
    threads: int = 32,
    schedules: Sequence[str] = ("early",),
    max_steps: int = 100_000,
    **options,
) -> Report:
    """Emulates `body`; options: params, shared (declarations), arguments, ctas, cluster."""
    source = text(body, options.pop("params", ""), options.pop("shared", ""))
    return emulate(source, launch(threads, **options), schedules, max_steps)


def values(body: str, threads: int = 32, **options) -> np.ndarray:
    """out[thread] as uint64, of a kernel without findings."""
    result = report(body, threads, **options)
    assert not result.findings, str(result)
    return result.outputs["out"]
