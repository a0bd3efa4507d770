"""The part of the contract with the templates that only tcgen05 kernels have."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.plan.model import KernelPlan


@dataclass(frozen=True)
class LoadForm:
    """The form of one operand's loads: everything of the instruction but its operands."""

    operand: str
    qualifiers: str  # behind .mbarrier::complete_tx::bytes
    is_multicast: bool
    eviction: str
    policy: str | None  # the 64-bit L2 eviction policy, hexadecimal; None for normal
    policy_operand: int  # its number in the asm statement


@dataclass(frozen=True)
class BulkLoad:
    """One TMA load of a stage: bytes into the operand's stage, and what it reads, in elements.

    first and second are the coordinates as CUDA text, innermost first.
    """

    operand: str  # wrapper load_<operand>, map map_<operand>, member of SharedStorage
    offset: int  # bytes into the stage
    first: str
    second: str
    form: LoadForm


@dataclass(frozen=True)
class ScaleCopy:
    """One block of scales from shared to tensor memory."""

    operand: str  # sfa or sfb
    column: int  # from the operand's first column of scales
    offset: int  # into the descriptor, units of 16 bytes


@dataclass(frozen=True)
class Issue:
    """One MMA of a stage. Offsets of a and b in the descriptor's unit of 16 bytes."""

    function: str  # the wrapper, which names the collectors
    column: int  # of its accumulator, from the tile's first
    a: int
    b: int
    idesc_bits: str  # what selects its scales within a word; empty for none
    sfa: int  # columns, from the operand's first
    sfb: int
    starts: bool  # first along K: it overwrites the accumulator in the first stage
    waits_for: int | None  # accumulator that it is the first to write, if not the tile's first one


@dataclass(frozen=True, kw_only=True)
class Tcgen05Plan(KernelPlan):
    """One kernel of a tcgen05 schedule."""

    budget: Tcgen05Budget
    takes_over: bool  # cluster launch control: a cluster takes over ones that have not started
    is_pair: bool  # cta_group 2
    a_shared: bool  # A is loaded in slices by the CTAs of a cluster along N
    b_shared: bool
    sfb_shared: bool  # each CTA of a pair loads half of B's scales
    multicasts_empty: bool  # a stage is freed in more CTAs than one
    is_scaled: bool
    two_rows: bool  # two MMAs along M
    is_exclusive: bool
    mnemonic: str
    idesc: str
    idesc_note: str
    cta_group: int
    descriptor_mask: str
    a_loads: tuple[BulkLoad, ...]
    b_loads: tuple[BulkLoad, ...]  # scales included
    forms: tuple[LoadForm, ...]
    copies: tuple[ScaleCopy, ...]
    issues: tuple[Issue, ...]
    packs: str | None  # wrapper that packs two f32 into 16-bit storage; None when D is f32
    load_columns: int  # of one tcgen05.ld
    load_rows: tuple[tuple[int, ...], ...]  # its registers, eight a line
    value_rows: tuple[tuple[int, ...], ...]  # the same, four a line

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Rows and columns of D that a cluster computes at a time; a pair shares one tile."""
        return self.budget.shape.cluster_tile

    def form(self, operand: str) -> LoadForm:
        """The form of one operand's loads."""
        return next(f for f in self.forms if f.operand == operand)

    @property
    def shares_words(self) -> bool:
        """Several MMAs find their scales in one word."""
        return any(x.idesc_bits for x in self.issues)

    @property
    def hinted(self) -> tuple[LoadForm, ...]:
        """The operands that L2 is told something about."""
        return tuple(f for f in self.forms if f.policy)

    @property
    def form_a(self) -> LoadForm:
        """How A is loaded."""
        return self.form("a")

    @property
    def form_b(self) -> LoadForm:
        """How B is loaded."""
        return self.form("b")

    @property
    def form_sfa(self) -> LoadForm:
        """How the scales of A are loaded."""
        return self.form("sfa")

    @property
    def form_sfb(self) -> LoadForm:
        """How the scales of B are loaded."""
        return self.form("sfb")
