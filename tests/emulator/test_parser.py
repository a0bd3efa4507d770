"""PTX text: scopes, operands, line information, and what is refused."""

import pytest

from emulator import mini, one_kernel
from kgen.emu.cfg import ControlFlow
from kgen.emu.parser import parse
from kgen.emu.ptx import Imm, Mem, Pair, Reg, Special, Vec
from kgen.errors import EmulatorError


def code(body: str):
    return parse(one_kernel.text(body)).kernels["k"].code


def test_operands():
    kernel = code("""
    @!%p1 shfl.sync.idx.b32 %r1|%p2, %r2, 0, 31, -1;
    ld.global.v2.f32 {%f1, %f2}, [%rd1+-8];
    mov.f32 %f3, 0f3F800000;
    mov.u32 %r5, %tid.x;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, -3}], [%r2];
""")[4:]
    shuffle, load, constant, special, store = kernel[:5]
    assert shuffle.guard == Reg("%p1") and shuffle.guard_negated
    assert shuffle.operands[0] == Pair(Reg("%r1"), Reg("%p2"))
    assert shuffle.operands[4] == Imm(-1)
    assert load.operands == (Vec((Reg("%f1"), Reg("%f2"))), Mem(Reg("%rd1"), -8))
    assert constant.operands[1] == Imm(0x3F800000, is_float=True)
    assert special.operands[1] == Special("%tid.x")
    assert store.operands[0] == Mem(Reg("%rd1"), 0, (Reg("%r1"), Imm(-3)))
    assert store.parts[6] == "shared::cta"


def test_scopes_of_inline_assembly():
    """Two blocks with the same names: each branch finds its own label, each register is its own."""
    kernel = code("""
    {
        .reg .pred p;
        setp.ne.u32 p, %r0, 1;
    AGAIN:
        @!p bra AGAIN;
    }
    {
        .reg .pred p;
        setp.ne.u32 p, %r0, 2;
    AGAIN:
        @!p bra AGAIN;
    }
""")
    branches = [i for i in kernel if i.root == "bra"]
    assert branches[0].guard != branches[1].guard
    assert [kernel[b.target] for b in branches] == branches


def test_multi_line_instruction_and_comments():
    kernel = code(
        '    add.u32 // one\n      %r1, /* two\n lines */ %r0,\n      1;\n    .pragma "nounroll";'
    )
    assert kernel[4].operands == (Reg("%r1"), Reg("%r0"), Imm(1))


def test_declarations():
    text = one_kernel.text(
        "",
        params=".param .align 64 .b8 map[128], .param .u32 n",
        shared=".shared .align 16 .b8 s[48];",
    )
    kernel = parse(text).kernels["k"]
    assert kernel.param_offsets() == {"out": 0, "map": 64, "n": 192}
    offsets, static = kernel.shared_layout(1024)
    assert (offsets, static) == ({"s": 1024}, 48)


def test_functions_and_debug_sections_are_read_over():
    text = (
        one_kernel.text("") + ".visible .func (.param .b32 r) helper(.param .b32 a) { { ret; } }\n"
    )
    text += ".section .debug_str { info: .b8 95, 0 }\n"
    assert set(parse(text).kernels) == {"k"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ptx:1: not PTX"),
        ("int main() { return 0; }", "ptx:1: not PTX"),
        (".version 8.0\n.target sm_90a\n", "no .entry"),
        (mini.PTX[:1500], "stops in the middle"),
        (mini.PTX[: mini.PTX.index("DONE:")], "stops in the middle"),
        (one_kernel.text("    bra NOWHERE;"), "branch to an unknown label"),
        (one_kernel.text("    add.u32 %nope, %r0, 1;"), "register %nope is not declared"),
        (one_kernel.text("    add.u32 %r1, %r0, #;"), "not PTX"),
        (
            ".version 8.0\n.target sm_90a\n.nonsense x;\n",
            "ptx:3: unknown directive '.nonsense'",
        ),
    ],
)
def test_refused_text(text, message):
    with pytest.raises(EmulatorError, match=message.replace(".", r"\.")):
        parse(text)


def test_every_truncation_is_refused_cleanly():
    """No cut of a kernel ends in anything but an EmulatorError."""
    text = mini.PTX.strip()
    for length in range(0, len(text) - 1, 97):
        with pytest.raises(EmulatorError):
            parse(text[:length])


def test_uniform_registers():
    """Addresses and loop counters of a warp-specialised kernel are uniform, lane-dependent values
    are not.
    """
    flow = ControlFlow(parse(mini.PTX).kernels["mini"])
    assert {"%r0", "%r13", "%f0", "%r18", "%p8"} <= flow.varying
    assert flow.varying.isdisjoint(
        {"%r2", "%r5", "%r6", "%r7", "%r9", "%rd2", "%p1", "%p2", "%r20"}
    )


def test_register_set_under_a_varying_branch_is_varying():
    kernel = parse(
        one_kernel.text("""
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r0, 5;
    @!%p1 bra JOIN;
    mov.u32 %r1, 1;
    mov.u32 %r3, 2;
    add.u32 %r3, %r3, 1;
JOIN:
    add.u32 %r4, %r1, %r2;
""")
    ).kernels["k"]
    varying = ControlFlow(kernel).varying
    assert {"%r1", "%r4"} <= varying
    assert varying.isdisjoint({"%r2", "%r3"})
