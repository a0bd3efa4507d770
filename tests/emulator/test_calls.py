"""Device functions: `call`, parameters, return values, and what stays unmodelled."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from emulator import one_kernel
from emulator.test_divergence import out
from kgen.emu import emulate
from kgen.emu.launch import Array, Constant, Launch, Pointer, Raw
from kgen.errors import EmulatorError

TWICE = """
.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0)
{
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    .loc 1 20 3
    ld.param.u32 %r1, [twice_param_0];
    setp.gt.u32 %p1, %r1, 20;
    @%p1 bra LARGE;
    add.u32 %r2, %r1, %r1;
    st.param.b32 [func_retval0+0], %r2;
    ret;
LARGE:
    mov.u32 %r2, 7;
    st.param.b32 [func_retval0+0], %r2;
    ret;
}
"""


def call(value: str, result: str, function: str = "twice", line: int = 50) -> str:
    """A call as nvcc writes it."""
    return f"""
    .loc 1 {line} 1
    {{
    .param .b32 param0;
    st.param.b32 [param0+0], {value};
    .param .b32 retval0;
    call.uni (retval0), {function}, (param0);
    ld.param.b32 {result}, [retval0+0];
    }}
"""


def run(body: str, functions: str, *schedules: str):
    text = one_kernel.text(body).replace(".visible .entry", functions + ".visible .entry")
    files = '\n.file 1 "k.cu"\n'
    return emulate(text + files, one_kernel.launch(), schedules or ("early",), 20_000)


def test_a_function_called_from_two_places_with_lanes_that_part_inside():
    body = call("%r0", "%r1") + call("%r1", "%r2", line=60)
    report = run(body + out("%r2"), TWICE)
    assert report.verdict == "clean", str(report)

    def twice(x: int) -> int:
        return 2 * x if x <= 20 else 7

    assert report.outputs["out"].tolist() == [twice(twice(t)) for t in range(32)]


def test_a_function_called_by_some_lanes_and_declared_before():
    declaration = TWICE[: TWICE.index("{")] + ";\n"
    body = f"""
    mov.u32 %r1, 100;
    setp.ge.u32 %p1, %r0, 4;
    @%p1 bra SKIP;
    {call("%r0", "%r1")}
SKIP:
"""
    text = one_kernel.text(body + out("%r1")).replace(".visible .entry", declaration + ".entry")
    report = emulate(text + TWICE, one_kernel.launch(), ("early",), 20_000)
    assert report.verdict == "clean", str(report)
    assert report.outputs["out"].tolist() == [0, 2, 4, 6] + [100] * 28


def test_functions_that_call_functions():
    outer = f"""
.func (.param .b32 func_retval0) outer(.param .b32 outer_param_0)
{{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [outer_param_0];
    {call("%r1", "%r2", line=30)}
    add.u32 %r2, %r2, 1;
    st.param.b32 [func_retval0+0], %r2;
    ret;
}}
"""
    report = run(call("%r0", "%r1", "outer") + out("%r1"), TWICE + outer)
    assert report.verdict == "clean", str(report)
    assert report.outputs["out"][:5].tolist() == [1, 3, 5, 7, 9]


def test_parameters_of_several_pieces_and_narrow_ones():
    functions = """
.func (.param .align 8 .b8 func_retval0[16]) mix(
    .param .align 8 .b8 mix_param_0[16], .param .b32 mix_param_1, .param .b32 mix_param_2)
{
    .reg .b16 %rs<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    ld.param.v2.u32 {%r1, %r2}, [mix_param_0+8];
    ld.param.u64 %rd1, [mix_param_0];
    ld.param.s8 %rs1, [mix_param_1];
    ld.param.u16 %rs2, [mix_param_2];
    cvt.s32.s16 %r3, %rs1;
    cvt.u32.u16 %r4, %rs2;
    add.s32 %r1, %r1, %r3;
    add.u32 %r2, %r2, %r4;
    st.param.v2.b32 [func_retval0+0], {%r1, %r2};
    st.param.b64 [func_retval0+8], %rd1;
    ret;
}
"""
    body = """
    mov.u32 %r1, 1000;
    mov.u32 %r2, 2000;
    cvt.u64.u32 %rd3, %r0;
    mov.u32 %r3, 0x1ff;
    mov.u32 %r4, 0x50003;
    {
    .param .align 8 .b8 param0[16];
    st.param.b64 [param0+0], %rd3;
    st.param.v2.b32 [param0+8], {%r1, %r2};
    .param .b32 param1;
    st.param.b32 [param1+0], %r3;
    .param .b32 param2;
    st.param.b32 [param2+0], %r4;
    .param .align 8 .b8 retval0[16];
    call.uni (retval0), mix, (param0, param1, param2);
    ld.param.v2.b32 {%r5, %r6}, [retval0+0];
    ld.param.b64 %rd4, [retval0+8];
    }
    cvt.u32.u64 %r7, %rd4;
    mad.lo.u32 %r7, %r5, 10000, %r7;
    mad.lo.u32 %r7, %r6, 100, %r7;
"""
    report = run(body + out("%r7"), functions)
    assert report.verdict == "clean", str(report)
    expected = [999 * 10000 + 2003 * 100 + t for t in range(32)]
    assert report.outputs["out"].tolist() == expected


def test_a_finding_names_the_line_and_the_call():
    functions = """
.func bad(.param .b64 bad_param_0)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    .loc 1 20 3
    ld.param.u64 %rd1, [bad_param_0];
    ld.global.u32 %r1, [%rd1+1000000];
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
    body = """
    .loc 1 55 1
    {
    .param .b64 param0;
    st.param.b64 [param0+0], %rd0;
    call.uni bad, (param0);
    }
"""
    (found,) = run(body, functions).findings
    assert (found.kind, found.line) == ("global-bounds", "k.cu:20 (called at 55)")


def test_a_line_of_a_function_counts_as_reached_if_one_call_reaches_it():
    """The second call never takes the branch for large values; the first does."""
    small = "    and.b32 %r3, %r0, 3;\n"
    both = run(call("%r0", "%r1") + small + call("%r3", "%r2") + out("%r2"), TWICE)
    assert both.verdict == "clean" and not both.coverage.missing
    few = run(small + call("%r3", "%r2") + out("%r2"), TWICE)
    missing = [few.coverage.places[pc] for pc in few.coverage.missing]
    assert len(missing) == 3 and all("k.cu:20 (called at 50)" in place for place in missing)


def test_what_stays_unmodelled():
    recursive = TWICE.replace("    mov.u32 %r2, 7;\n", call("%r1", "%r2"))
    unknown = call("%r0", "%r1", "somewhere")
    through_register = """
    mov.u64 %rd3, 0;
    { .param .b32 param0; st.param.b32 [param0+0], %r0;
      prototype_0 : .callprototype _ (.param .b32 _);
      call %rd3, (param0), prototype_0; }
"""
    split = TWICE.replace("ld.param.u32 %r1, [twice_param_0]", "ld.param.u8 %r1, [twice_param_0+1]")
    for body, functions in (
        (call("%r0", "%r1"), recursive),
        (unknown, TWICE),
        (through_register, TWICE),
        (call("%r0", "%r1"), split),
    ):
        report = run(body, functions)
        assert report.verdict == "incomplete", str(report)
        assert [f.kind for f in report.findings] == ["unmodelled"]


def _with_problem(body: str):
    text = one_kernel.text(body, ".param .align 8 .b8 problem[16]")
    launch = Launch(
        "k", (1, 1, 1), (32, 1, 1),
        (Array("out", "u64", (32,), Constant(0)),),
        (Pointer("out"), Raw("01000000020000000300000004000000")),
    )  # fmt: skip
    return emulate(text, launch, ("early",), 20_000)


def test_parameters_read_through_a_generic_address():
    """What a function does with a reference to a __grid_constant__ parameter."""
    body = """
    mov.b64 %rd5, problem;
    cvta.param.u64 %rd5, %rd5;
    ld.v2.u32 {%r1, %r2}, [%rd5+8];
    mad.lo.u32 %r1, %r1, 1000, %r2;
"""
    report = _with_problem(body + out("%r1"))
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs["out"], [3 * 1000 + 4] * 32)
    beyond = _with_problem(body.replace("+8]", "+24]"))
    assert {f.kind for f in beyond.findings} == {"global-bounds"}
    written = _with_problem(body + "    st.u32 [%rd5], %r1;\n")
    assert {f.kind for f in written.findings} == {"unmodelled"}


@pytest.mark.parametrize("text", ["call;", "call.uni (), ();", "call f, 3, 4, 5;", "st.param.b32;"])
def test_calls_that_are_not_calls(text):
    """Refused with the line, or left unmodelled; never an error of the emulator."""
    body = call("%r0", "%r1") + f"    {text}\n"
    with suppress(EmulatorError):
        assert run(body + out("%r1"), TWICE).verdict == "incomplete"
