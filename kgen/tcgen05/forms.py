"""One question: does this tcgen05.mma exist, and what are its K and its instruction descriptor?

The K step of 64 bytes is nothing but a descriptor bit, a different one for each kind, so a free
integer descriptor does not exist in kgen: `mma_form` is the only place that makes one.

Sources: PTX ISA, "Matrix shape" and "Instruction descriptor" tables of tcgen05.mma; for sm_107a the
descriptor classes of CUTLASS 4. Where sources differ, the choice satisfies all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.arch import Arch
from kgen.dtypes import dtype
from kgen.nearest import nearest_multiples
from kgen.tcgen05.kinds import FP8, KINDS, BlockScale, Kind

LARGEST_N = 256
NARROW_STEP, WIDE_STEP = 32, 64  # bytes of K that one MMA takes
_D_CODES = {"f16": 0, "f32": 1}


@dataclass(frozen=True)
class MmaRequest:
    """What one MMA should multiply. m and n of the whole MMA: of both CTAs with cta_group 2."""

    kind: str
    m: int
    n: int
    k_bytes: int
    cta_group: int
    a: str
    b: str
    accumulator: str = "f32"
    scale: BlockScale | None = None
    a_major: str = "k"
    b_major: str = "k"


@dataclass(frozen=True)
class Finding:
    """What is wrong with one field of a request."""

    field: str
    what: str


class IllegalMma(ValueError):  # noqa: N818 - it reads as what it is
    """The target has no such MMA; `findings` has every reason."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        super().__init__("; ".join(f"{f.field}: {f.what}" for f in findings))


@dataclass(frozen=True)
class MmaForm:
    """A legal MMA. k in elements; scales is how many one row of A or B needs per MMA, else 0."""

    request: MmaRequest
    k: int
    idesc: int
    scales: int

    @property
    def mnemonic(self) -> str:
        """The instruction without collectors."""
        r = self.request
        text = f"tcgen05.mma.cta_group::{r.cta_group}.kind::{r.kind}"
        return text + (f".block_scale.block{r.scale.block}" if r.scale else "")

    @property
    def rows_per_cta(self) -> int:
        """Rows of A, and of the accumulator, that each CTA holds."""
        return self.request.m // self.request.cta_group

    @property
    def scale_words(self) -> int:
        """32-bit words of scales per row that one MMA reads, partly filled ones included."""
        return -(-self.scales // 4)


def mma_form(arch: Arch, request: MmaRequest) -> MmaForm:
    """The MMA of a request: its K in elements and its instruction descriptor.

    Raises  IllegalMma with every field that has no such form on `arch`
    """
    kind = KINDS.get(request.kind)
    if kind is None:
        known = ", ".join(KINDS)
        raise IllegalMma((Finding("kind", f"{request.kind} is none of {known}"),))
    findings = tuple(_findings(arch, kind, request))
    if findings:
        raise IllegalMma(findings)
    k = request.k_bytes * 8 // dtype(request.a).bits
    scales = k // request.scale.block if request.scale else 0
    return MmaForm(request, k, _idesc(kind, request), scales)


def _findings(arch: Arch, kind: Kind, r: MmaRequest) -> Iterator[Finding]:
    if arch.family != "tcgen05":
        yield Finding("target", f"{arch.target} has no tcgen05.mma")
        return
    yield from _types(arch, kind, r)
    yield from _k_step(arch, kind, r)
    yield from _shape(kind, r)


def _types(arch: Arch, kind: Kind, r: MmaRequest) -> Iterator[Finding]:
    equal = kind.equal_operands and r.a in kind.codes
    if equal and r.a != r.b:
        yield Finding("b", f"A is {r.a}, B is {r.b}; kind {kind.name} takes equal types")
    for operand, name in (("a", r.a),) if equal else (("a", r.a), ("b", r.b)):
        if name not in kind.codes:
            taken = " and ".join(kind.codes)
            yield Finding(operand, f"{name} is no operand of kind {kind.name}, which takes {taken}")
    narrow = kind.name == "f16" and r.a != "f16"
    if r.accumulator not in kind.accumulators or (narrow and r.accumulator == "f16"):
        yield Finding("accumulator", f"{kind.name} of {r.a} does not accumulate in {r.accumulator}")
    if kind.is_scaled and (r.scale is None or r.scale not in kind.scales):
        known = " or ".join(f"{s.dtype} per {s.block}" for s in kind.scales)
        yield Finding("scale", f"{kind.name} needs a scale of {known} elements")
    if not kind.is_scaled and r.scale is not None:
        yield Finding("scale", f"{kind.name} takes no block scales")
    if r.scale is not None and r.scale.dtype == "ue5m3" and arch.target != "sm_107a":
        yield Finding("scale", f"{arch.target} has no ue5m3 scales")
    for operand, major in (("a", r.a_major), ("b", r.b_major)):
        if major != "k" and not kind.mn_major:
            yield Finding(f"{operand}_major", f"{kind.name} operands must be K-major")


def _k_step(arch: Arch, kind: Kind, r: MmaRequest) -> Iterator[Finding]:
    """64 bytes: sm_107a only, and only where the kind has a bit for it."""
    if r.k_bytes == NARROW_STEP:
        return
    narrow = NARROW_STEP * 8 // dtype(r.a).bits
    if r.k_bytes != WIDE_STEP:
        yield Finding("k_bytes", f"{r.k_bytes} bytes; an MMA takes 32 or 64 bytes of K")
    elif kind.wide_bit is None:
        yield Finding(
            "k_bytes",
            f"{kind.name} has no 64-byte K step; its K is always {narrow} (32 bytes)",
        )
    elif WIDE_STEP not in arch.mma_k_bytes:
        yield Finding("k_bytes", f"{arch.target} has no 64-byte K step; sm_107a has")
    elif r.accumulator != "f32":
        yield Finding(
            "accumulator",
            "a 64-byte K step with f16 accumulation is not confirmed by any compiler; use f32",
        )


def _shape(kind: Kind, r: MmaRequest) -> Iterator[Finding]:
    if r.cta_group not in (1, 2):
        yield Finding("cta_group", f"{r.cta_group}; an MMA runs on 1 CTA or on a pair, 2")
        return
    rows = [64, 128]
    why = ""
    if kind.is_scaled:
        # cta_group 2 with M 128 exists, with scales of B laid out unlike every other form.
        rows, why = [128], " with block scales"
    elif r.k_bytes == WIDE_STEP:
        rows, why = [128], " with a 64-byte K step"  # CuTe takes 64 too, the PTX table does not
    legal = [x * r.cta_group for x in rows]
    if r.m not in legal:
        shown = " or ".join(map(str, legal))
        yield Finding("m", f"{r.m} rows; cta_group {r.cta_group} takes {shown}{why}")
    # PTX gives steps of 8 and 16; one published table wants twice that. 64 rows need no caution.
    step = 8 if (r.cta_group, r.m) == (1, 64) else 16 * r.cta_group
    if r.b in FP8 and r.b_major != "k":
        step = max(step, 16 * r.cta_group)
    if r.n % step or not step <= r.n <= LARGEST_N:
        near = nearest_multiples(r.n, step, LARGEST_N)
        what = f"{r.n} columns; must be a multiple of {step} up to {LARGEST_N}; {near}"
        yield Finding("n", what)


def _idesc(kind: Kind, r: MmaRequest) -> int:
    """The 32 bits. Sparsity, negation, saturation, shift, scale ids and bit 26 stay 0."""
    bits = kind.codes[r.a] << 7 | kind.codes[r.b] << 10 | r.n >> 3 << 17
    bits |= (r.a_major != "k") << 15 | (r.b_major != "k") << 16
    if kind.is_scaled:
        assert r.scale is not None
        bits |= kind.scales[r.scale] << 23 | r.m >> 7 << 27
    else:
        bits |= _D_CODES[r.accumulator] << 4 | r.m >> 4 << 24
    if r.k_bytes == WIDE_STEP:
        assert kind.wide_bit is not None
        bits |= 1 << kind.wide_bit
    return bits


def scale_id_bits(a: int, b: int) -> int:
    """Descriptor bits that select the byte within a word of scales; only where a word is shared.

    a, b  0 to 3, the first byte of A's and B's scales of this MMA
    """
    return a << 29 | b << 4
