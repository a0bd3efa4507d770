"""Text that is nearly PTX: it is refused with its line, or it runs to a verdict; nothing else."""

from __future__ import annotations

import random
import re

import pytest

from emulator import mini, one_kernel
from kgen.emu import emulate
from kgen.errors import EmulatorError

MUTATIONS = 400
TOKEN = re.compile(r"\s+|[\w.:%$]+|.", re.S)
LINE = re.compile(r"    (@!?%p\d+ )?([a-z][\w.:]*) (.*);")
COMMA = re.compile(r", ?(?![^{\[]*[}\]])")
_OPERANDS = (
    "%p0 %r3 %rd2 %rd11 %f0 _ 1 0xffffffff -7 smem map_a [%r3] [%r3+20480] [%rd11] [smem] [%p0] "
    "[%f0] {%f0,%f1} {%f0,%f1,%f2} {} !%p0 _|%p8 %r1|%p1 [%rd11,{%r0}] %tid.x DONE 0f3f800000"
)
OPERANDS = tuple(_OPERANDS.split())
_OPCODES = (
    "mov mov.b64 mov.pred add add.cc.u32 mad.lo.u32 mul.wide.u32 setp setp.lt.and.u32 selp.b64 cvt "
    "cvt.u32.u64 cvt.rn.bf16x2.f32 prmt.b32 dp4a.u32.u32 fma.rn.f32 ld ld.shared.v4.b32 "
    "ld.shared.pred st st.shared.b128 st.shared.u16 atom.cas.b32 red.global.add.u32 shfl.sync "
    "vote.sync.ballot.b32 match.any.sync.b32 redux.sync.add.u32 mma.sync elect.sync bar.sync "
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 stmatrix.sync.aligned.m8n8.x1.shared.b16 "
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 cp.async.cg.shared.global mapa.u32 "
    "cp.async.bulk.tensor mbarrier.try_wait mbarrier.test_wait.shared::cta.b64 bar.red.popc.u32"
)
OPCODES = tuple(_OPCODES.split())


def tokens_changed(generator: random.Random) -> str:
    """One or two tokens dropped, doubled, replaced or exchanged."""
    tokens = TOKEN.findall(mini.PTX)
    places = [place for place, token in enumerate(tokens) if token.strip()]
    for _ in range(generator.choice((1, 1, 2))):
        here, there = generator.choice(places), generator.choice(places)
        change = generator.randrange(4)
        if change == 0:
            tokens[here] = ""
        elif change == 1:
            tokens[here] = generator.choice((tokens[there], *OPERANDS))
        elif change == 2:
            tokens[here] += f" {tokens[there]}"
        else:
            tokens[here], tokens[there] = tokens[there], tokens[here]
    return "".join(tokens)


def operands_changed(generator: random.Random) -> str:
    """One instruction with another opcode, or with operands that are not its own."""
    lines: list[str] = [*mini.PTX.split("\n")]
    place = generator.choice([i for i, line in enumerate(lines) if LINE.match(line)])
    match = LINE.match(lines[place])
    assert match is not None
    opcode, operands = match.group(2), COMMA.split(match.group(3))
    at = generator.randrange(len(operands))
    change = generator.randrange(5)
    if change == 0:
        operands[at] = generator.choice(OPERANDS)
    elif change == 1:
        operands.insert(at, generator.choice(OPERANDS))
    elif change == 2:
        operands.pop(at)
    elif change == 3:
        opcode = generator.choice(OPCODES)
    else:
        opcode = generator.choice(OPCODES)
        operands = generator.choices(OPERANDS, k=generator.randrange(6))
    lines[place] = f"    {match.group(1) or ''}{opcode} {', '.join(operands)};"
    return "\n".join(lines)


def test_nothing_but_a_verdict_or_a_refusal():
    generator = random.Random(0)
    launch = mini.launch(128)
    seen: set[str] = set()
    for number in range(MUTATIONS):
        text = (tokens_changed, operands_changed)[number % 2](generator)
        try:
            seen.add(emulate(text, launch, ("early",), 20_000).verdict)
        except EmulatorError as refusal:
            what = str(refusal)
            seen.add("refused" if what.startswith(("ptx:", "kernel: ", "launch of ")) else what)
        except Exception as error:
            error.add_note(text)
            raise
    assert seen == {"clean", "error", "incomplete", "refused"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    bra;", "ptx:13: branch to an unknown label"),
        ("    mov.u32 %r1;", r"ptx:13: mov.u32: takes 2 operands, found 1"),
        ("    mov.u32 %r1, {};", "mov.u32: an empty vector"),
        ("    add.u32 %r1, %r0,, 1;", "ptx:13: unexpected ','"),
        ("    add.u32 %r1, %r0 1;", "ptx:13: expected ',', found '1'"),
        ("    add.u32 %r1, %r0, %p1;", "add.u32: %p1 is not a number"),
        ("    add.u32 %r1, %r0, %rd1;", "add.u32: %rd1 has 64 bits, the instruction 32"),
        ("    add.u64 %rd1, %rd1, %r0;", "add.u64: %r0 has 32 bits, the instruction 64"),
        ("    add.u64 %rd1, %rd1, %tid.x;", "add.u64: %tid.x has 32 bits, the instruction 64"),
        ("    selp.b32 %r1, %r0, %r0, %r0;", "selp.b32: %r0 is not a predicate"),
        ("    @%r0 mov.u32 %r1, 0;", "mov.u32: the guard %r0 is not a predicate"),
        ("    ld.global.v2.u32 %r1, [%rd0];", "1 registers for 2 elements"),
        ("    ld.global.u32 [%rd0], %r1;", "operand 1 is not a register"),
        ("    shfl.sync.idx.b32 %r1, %r0, 0, 31;", "takes 5 operands, found 4"),
        ("    .reg .b32 %x<99999999999999999999>;", "does not fit 64 bits"),
        ("    .reg .b32 %x<99999999>;", "%x<99999999> are over 1048576 registers"),
        ("    .reg %x;", "ptx:13: registers of no type"),
        ("    .shared .align 0 .b8 s[4];", "ptx:13: .align 0 is not a power of two"),
        ("    .shared .align .b8 s[4];", "ptx:13: '.b8' is not a number"),
        ("    .shared .b8 s[;", "ptx:13: not a declaration"),
        ("    mov.u32 %r1, " + "!" * 3000 + "%p1;", "ptx:13: operands within operands"),
    ],
)
def test_malformed_text_is_refused_with_its_line(body, message):
    with pytest.raises(EmulatorError, match=message):
        one_kernel.report(body)
