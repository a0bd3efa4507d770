"""ALU instructions against plain Python, in both forms that the lowering emits: uniform integers
and rows of lanes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator import one_kernel
from kgen.emu import emulate
from kgen.emu.api import load_program
from kgen.emu.launch import Array, Constant, Launch, Pointer, Scalar
from kgen.emu.program import Program

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def truncated_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def bit_field(a: int, position: int, length: int) -> int:
    position, length = position & 255, length & 255
    return (a >> position) & ((1 << length) - 1) if length else 0


def bit_insert(a: int, b: int, position: int, length: int) -> int:
    position, length = position & 255, min(length & 255, 32)
    mask = ((1 << length) - 1) << position & M32
    return b & ~mask | a << position & mask


def permuted(a: int, b: int, selector: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    out = []
    for index in range(4):
        choice = selector >> 4 * index & 15
        byte = source[choice & 7]
        out.append((0xFF if byte & 0x80 else 0) if choice & 8 else byte)
    return int.from_bytes(bytes(out), "little")


# opcode -> (operand widths, expected result as an unsigned integer)
INTEGER: dict[str, tuple[tuple[int, ...], Callable[..., int]]] = {
    "add.u32": ((32, 32), lambda a, b: a + b & M32),
    "sub.s32": ((32, 32), lambda a, b: a - b & M32),
    "add.s64": ((64, 64), lambda a, b: a + b & M64),
    "mul.lo.s32": ((32, 32), lambda a, b: a * b & M32),
    "mul.hi.u32": ((32, 32), lambda a, b: a * b >> 32),
    "mul.hi.s32": ((32, 32), lambda a, b: signed(a, 32) * signed(b, 32) >> 32 & M32),
    "mul.hi.u64": ((64, 64), lambda a, b: a * b >> 64),
    "mul.lo.u64": ((64, 64), lambda a, b: a * b & M64),
    "mul.wide.u32": ((32, 32), lambda a, b: a * b),
    "mul.wide.s32": ((32, 32), lambda a, b: signed(a, 32) * signed(b, 32) & M64),
    "mad.lo.s32": ((32, 32, 32), lambda a, b, c: a * b + c & M32),
    "mad.wide.u32": ((32, 32, 64), lambda a, b, c: a * b + c & M64),
    "div.u32": ((32, 32), lambda a, b: a // b if b else M32),
    "div.s32": (
        (32, 32),
        lambda a, b: truncated_division(signed(a, 32), signed(b, 32)) & M32 if b else M32,
    ),
    "rem.u32": ((32, 32), lambda a, b: a % b if b else a),
    "rem.s32": (
        (32, 32),
        lambda a, b: (
            signed(a, 32) - truncated_division(signed(a, 32), signed(b, 32)) * signed(b, 32) & M32
            if b
            else a
        ),
    ),
    "min.s32": ((32, 32), lambda a, b: min(signed(a, 32), signed(b, 32)) & M32),
    "max.u32": ((32, 32), max),
    "max.s64": ((64, 64), lambda a, b: max(signed(a, 64), signed(b, 64)) & M64),
    "abs.s32": ((32,), lambda a: abs(signed(a, 32)) & M32),
    "neg.s32": ((32,), lambda a: -a & M32),
    "sad.u32": ((32, 32, 32), lambda a, b, c: abs(a - b) + c & M32),
    "and.b32": ((32, 32), lambda a, b: a & b),
    "or.b64": ((64, 64), lambda a, b: a | b),
    "xor.b32": ((32, 32), lambda a, b: a ^ b),
    "not.b32": ((32,), lambda a: ~a & M32),
    "cnot.b32": ((32,), lambda a: int(a == 0)),
    "shl.b32": ((32, 32), lambda a, b: a << min(b, 64) & M32),
    "shl.b64": ((64, 32), lambda a, b: a << min(b, 64) & M64),
    "shr.u32": ((32, 32), lambda a, b: a >> b),
    "shr.s32": ((32, 32), lambda a, b: signed(a, 32) >> b & M32),
    "shr.u64": ((64, 32), lambda a, b: a >> b),
    "shf.l.wrap.b32": ((32, 32, 32), lambda a, b, c: (b << 32 | a) << (c & 31) >> 32 & M32),
    "shf.r.clamp.b32": ((32, 32, 32), lambda a, b, c: (b << 32 | a) >> min(c, 32) & M32),
    "popc.b32": ((32,), int.bit_count),
    "clz.b32": ((32,), lambda a: 32 - a.bit_length()),
    "brev.b32": ((32,), lambda a: int(f"{a:032b}"[::-1], 2)),
    "bfind.u32": ((32,), lambda a: (a.bit_length() - 1) & M32),
    "bfe.u32": ((32, 32, 32), bit_field),
    "bfi.b32": ((32, 32, 32, 32), bit_insert),
    "prmt.b32": ((32, 32, 32), permuted),
    "cvt.u64.u32": ((32,), lambda a: a),
    "cvt.s64.s32": ((32,), lambda a: signed(a, 32) & M64),
    "cvt.u32.u64": ((64,), lambda a: a & M32),
    "cvt.u32.u16": ((32,), lambda a: a & 0xFFFF),
    "cvt.s32.s8": ((32,), lambda a: signed(a & 0xFF, 8) & M32),
}
RESULT_64 = {"mul.wide.u32", "mul.wide.s32", "mad.wide.u32", "cvt.u64.u32", "cvt.s64.s32"}


def _program(opcode: str, widths: tuple[int, ...], wide: bool, varying: bool) -> Program:
    """out[t] = opcode(in[t][0], in[t][1], ...); the uniform form reads in[0] in every thread."""
    index = "%r0" if varying else "%r40"
    loads = []
    names = []
    for position, width in enumerate(widths):
        register = f"%rd{10 + position}" if width == 64 else f"%r{10 + position}"
        loads.append(f"ld.global.u{width} {register}, [%rd3+{8 * position}];")
        names.append(register)
    result = "%rd9" if wide else "%r9"
    store = (
        "st.global.u64 [%rd0], %rd9;"
        if wide
        else "cvt.u64.u32 %rd9, %r9;\n st.global.u64 [%rd0], %rd9;"
    )
    body = f"""
    ld.param.u64 %rd2, [in];
    mov.u32 %r40, 0;
    mul.wide.u32 %rd4, {index}, 32;
    add.u64 %rd3, %rd2, %rd4;
    {" ".join(loads)}
    {opcode} {result}, {", ".join(names)};
    {store}
"""
    return load_program(one_kernel.text(body, params=".param .u64 in"))


def _run(program: Program, rows: list[tuple[int, ...]], tmp) -> list[int]:
    data = np.zeros((32, 4), np.uint64)
    for lane, row in enumerate(rows):
        data[lane, : len(row)] = row
    path = tmp / "in.npy"
    np.save(path, data)
    from kgen.emu.launch import File

    arrays = (
        Array("out", "u64", (32,), Constant(0)),
        Array("in", "u64", (32, 4), File(str(path)), role="in"),
    )
    launch = Launch("k", (1, 1, 1), (32, 1, 1), arrays, (Pointer("out"), Pointer("in")))
    report = emulate(program, launch, ("early",))
    assert not report.findings, str(report)
    return [int(v) for v in report.outputs["out"]]


EDGES = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF,
         0x80000000, 0x80000001, 0xFFFFFFFE, M32, 1 << 32, 1 << 63, M64 - 1, M64]  # fmt: skip


def _word(width: int) -> st.SearchStrategy[int]:
    limit = (1 << width) - 1
    return st.sampled_from([edge & limit for edge in EDGES]) | st.integers(0, limit)


@pytest.mark.parametrize("opcode", INTEGER)
def test_integer_instruction(opcode, tmp_path_factory):
    """Thirty-two operand sets at once as rows, and the first of them again as uniform integers."""
    widths, expected = INTEGER[opcode]
    wide = opcode in RESULT_64 or (opcode.endswith("64") and not opcode.startswith("cvt.u32"))
    rows_form = _program(opcode, widths, wide, varying=True)
    uniform_form = _program(opcode, widths, wide, varying=False)
    tmp = tmp_path_factory.mktemp("alu")

    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(*[_word(w) for w in widths]), min_size=32, max_size=32))
    def check(operands):
        right = [expected(*row) for row in operands]
        assert _run(rows_form, operands, tmp) == right
        assert _run(uniform_form, operands, tmp)[:1] == right[:1]

    check()


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq.b32": lambda a, b: a == b,
    "ne.u32": lambda a, b: a != b,
    "lt.u32": lambda a, b: a < b,
    "lt.s32": lambda a, b: signed(a, 32) < signed(b, 32),
    "ge.s32": lambda a, b: signed(a, 32) >= signed(b, 32),
    "hi.u32": lambda a, b: a > b,
    "le.s32": lambda a, b: signed(a, 32) <= signed(b, 32),
}


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparison_and_selection(compare, tmp_path):
    """setp, with and without a second predicate, and selp."""
    for varying in (True, False):
        index = "%r0" if varying else "%r40"
        body = f"""
    ld.param.u64 %rd2, [in];
    mov.u32 %r40, 0;
    mul.wide.u32 %rd4, {index}, 32;
    add.u64 %rd3, %rd2, %rd4;
    ld.global.u32 %r10, [%rd3];
    ld.global.u32 %r11, [%rd3+8];
    setp.{compare} %p1, %r10, %r11;
    setp.{compare.replace(".", ".and.")} %p2, %r10, %r11, %p1;
    not.pred %p3, %p1;
    selp.u32 %r12, 1, 2, %p1;
    selp.u32 %r13, 4, 8, %p2;
    selp.u32 %r14, 16, 32, %p3;
    add.u32 %r15, %r12, %r13;
    add.u32 %r15, %r15, %r14;
    cvt.u64.u32 %rd9, %r15;
    st.global.u64 [%rd0], %rd9;
"""
        program = load_program(one_kernel.text(body, params=".param .u64 in"))
        rows = [(EDGES[i % 20] & M32, EDGES[(i * 7) % 20] & M32) for i in range(32)]
        found = _run(program, rows, tmp_path)
        for lane, row in enumerate(rows if varying else rows[:1]):
            holds = COMPARISONS[compare](*row)
            assert found[lane] == (1 + 4 + 32 if holds else 2 + 8 + 16), (row, varying)


def _f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


FLOAT: dict[str, tuple[int, Callable[..., Any]]] = {
    "add.f32": (2, lambda a, b: a + b),
    "sub.rn.f32": (2, lambda a, b: a - b),
    "mul.f32": (2, lambda a, b: a * b),
    "fma.rn.f32": (
        3,
        lambda a, b, c: np.float32(np.longdouble(a) * np.longdouble(b) + np.longdouble(c)),
    ),
    "neg.f32": (1, lambda a: -a),
    "abs.f32": (1, abs),
    "max.f32": (2, lambda a, b: max(a, b)),
    "div.rn.f32": (2, lambda a, b: a / b),
}


@pytest.mark.parametrize("opcode", FLOAT)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
@example(data=None)
def test_f32_instruction(opcode, data):
    """Against numpy's float32; products and sums of ordinary numbers, so that long double is exact
    enough.
    """
    count, expected = FLOAT[opcode]
    from kgen.emu.semantics import operation

    found = operation(opcode)
    assert found is not None
    if data is None:
        values = [np.float32(1.5), np.float32(-2.25), np.float32(0.125)][:count]
    else:
        ordinary = st.integers(-(1 << 20), 1 << 20).map(lambda v: np.float32(v / 64))
        values = [data.draw(ordinary.filter(bool)) for _ in range(count)]
    rows = [np.full(3, _f32(float(v)), np.uint32) for v in values]
    result = found.run(*rows)
    assert result.tolist() == [_f32(float(np.float32(expected(*values))))] * 3


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_packed_conversion(high, low):
    """cvt.rn.f16x2.f32 d, a, b: a goes to the upper half."""
    from kgen.emu.semantics import operation

    found = operation("cvt.rn.f16x2.f32")
    assert found is not None
    word = int(found.run(*[np.array([_f32(v)], np.uint32) for v in (high, low)])[0])
    with np.errstate(over="ignore"):
        halves = [int(np.float16(np.float32(v)).view(np.uint16)) for v in (high, low)]
    assert word == halves[0] << 16 | halves[1]


def test_many_conversions_become_one_operation():
    """A run over registers gives what the single instructions give."""
    single = "".join(
        f"cvt.rn.bf16x2.f32 %r{20 + i}, %f{2 * i + 1}, %f{2 * i};\n{'' if i % 2 else 'xor.b32 %r60, %r60, 0;'}\n"  # noqa: E501
        for i in range(8)
    )
    batch = "".join(f"cvt.rn.bf16x2.f32 %r{20 + i}, %f{2 * i + 1}, %f{2 * i};\n" for i in range(8))
    setup = "".join(
        f"cvt.rn.f32.u32 %f{i}, %r0;\nmul.f32 %f{i}, %f{i}, 0f{0x3F800000 + i * 0x40000:08X};\n"
        for i in range(16)
    )
    total = "mov.u32 %r61, 0;\n" + "".join(
        f"mad.lo.u32 %r61, %r61, 31, %r{20 + i};\n" for i in range(8)
    )
    end = "cvt.u64.u32 %rd9, %r61;\nst.global.u64 [%rd0], %rd9;"
    results = [
        one_kernel.values("mov.u32 %r60, 0;\n" + setup + part + total + end)
        for part in (single, batch)
    ]
    assert np.array_equal(results[0], results[1])
    assert len(set(results[0].tolist())) > 16


def test_packing_and_unpacking_moves():
    """mov.b64 {lo, hi} and back, and through 16-bit registers."""
    body = """
    mov.b64 %rd5, {%r0, 7};
    mov.b64 {%r1, %r2}, %rd5;
    mov.b32 %r3, {%h1, %h2};
    cvt.u16.u32 %h1, %r0;
    mov.u16 %h2, 3;
    mov.b32 %r3, {%h1, %h2};
    mov.b32 {%h3, %h4}, %r3;
    cvt.u32.u16 %r4, %h4;
    mad.lo.u32 %r5, %r1, 256, %r2;
    mad.lo.u32 %r5, %r4, 65536, %r5;
    cvt.u64.u32 %rd9, %r5;
    st.global.u64 [%rd0], %rd9;
"""
    assert one_kernel.values(body).tolist() == [256 * t + 7 + 3 * 65536 for t in range(32)]


def test_parameters_and_special_registers():
    """ld.param of a signed byte-sized value, %ctaid, %ntid, %laneid."""
    body = """
    ld.param.s32 %r1, [number];
    mov.u32 %r2, %laneid;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r1, %r3, %r2;
    cvt.s64.s32 %rd9, %r4;
    st.global.u64 [%rd0], %rd9;
"""
    found = one_kernel.values(
        body, threads=64, params=".param .s32 number", arguments=[Scalar("s32", -2)]
    )
    assert found.view(np.int64).tolist() == [-128 + t % 32 for t in range(64)]


@pytest.mark.parametrize("hints", ["L2::128B", "nc.L1::no_allocate.L2::128B"])
def test_a_cache_hint_leaves_a_load_as_it_is(hints: str) -> None:
    """The word behind `::` may begin with a digit."""
    got = one_kernel.values(f"""
    st.global.u32 [%rd0], %r0;
    ld.global.{hints}.u32 %r1, [%rd0];
    add.u32 %r1, %r1, 5;
    cvt.u64.u32 %rd9, %r1;
    st.global.u64 [%rd0], %rd9;
""")
    assert np.array_equal(got, np.arange(32) + 5)


def test_a_predicate_of_lanes_takes_the_same_value_for_all() -> None:
    """A comparison of 16-bit registers, equal in all lanes, into a predicate that varied."""
    body = """
    setp.lt.u32 %p1, %r0, 5;
    mov.u16 %h1, 3;
    setp.eq.s16 %p1, %h1, 3;
    selp.u64 %rd2, 7, 9, %p1;
    st.global.u64 [%rd0], %rd2;
    """
    assert one_kernel.values(body).tolist() == [7] * 32
