"""Every tcgen05 spec builds without a spill; SASS has what its spec asks for and nothing else.

Mnemonics: what ptxas 13.5 makes of each PTX instruction, seen in disassembly. The K step is not
among them; it is a bit of the instruction descriptor, which the test reads out of the PTX.
"""

from __future__ import annotations

import re

import pytest
from blackwell import SHIPPED, VARIANTS, variant

from kgen.api import build, load_spec, lower
from kgen.build.compile import disassemble
from kgen.plan import KernelPlan
from kgen.plan.tcgen05_model import Tcgen05Plan
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import schedule_of

PLANS: dict[str, KernelPlan] = {name: lower(variant(name)) for name in VARIANTS} | {
    f"{spec.parent.name}/{spec.stem}": lower(load_spec(spec)) for spec in SHIPPED
}


def expected(plan: Tcgen05Plan) -> dict[str, bool]:
    """Patterns of SASS, and whether the plan calls for them."""
    spec = plan.budget.spec
    s = schedule_of(spec)
    kind = {
        "f16": "UTCHMMA",
        "tf32": "UTCHMMA",
        "f8f6f4": "UTCQMMA",
        "mxf8f6f4": "UTCQMMA",
        "mxf4": "UTCOMMA",
        "mxf4nvf4": "UTCOMMA",
    }[re.search(r"kind::(\w+)", plan.mnemonic)[1]]  # type: ignore[index]
    pair = r"\.2CTA" if plan.is_pair else r"(?!\.2CTA)"
    keeps_b = s.collector != "none"
    keeps_a = s.collector == "ab_five_reads"
    block = spec.gemm.block_scale.block if spec.gemm.block_scale else 0
    policies = {"a": plan.form_a.policy, "b": plan.form_b.policy}
    found = {
        rf"{kind}{pair}": True,
        r"\bUTC[HQO]MMA\.2CTA": plan.is_pair,
        r"\.B_KEEP": keeps_b,
        r"\.B_REUSE": keeps_b,
        r"\.A_KEEP": keeps_a,
        r"\.A_REUSE": keeps_a,
        r"UTCCP": plan.is_scaled,
        r"MMA_READ_SHM_A": isinstance(s, Tcgen05WsSplit),
        r"UTMALDG\.2D\.MULTICAST": plan.a_shared or plan.b_shared,
        r"UTMALDG\.3D": plan.is_scaled,
        r"UTMALDG\.3D\.MULTICAST": plan.sfb_shared,
        r"UTCATOMSWS(?:\.2CTA)?\.FIND_AND_SET\.ALIGN": not plan.is_exclusive,
        r"UTCATOMSWS(?:\.2CTA)?\.FIND_AND_SET(?!\.ALIGN)": plan.is_exclusive,
        r"UTMASTG\.2D": True,
        r"ACQBULK": plan.pdl,
        r"PREEXIT": plan.pdl,
        r"UGETNEXTWORKID": plan.takes_over,
        r"UGETNEXTWORKID\.BROADCAST": plan.takes_over and plan.clustered,
        r"UTMALDG\.2D.*desc\[": any(policies.values()),
    }
    if kind == "UTCOMMA" and spec.target == "sm_107a":
        found[r"UTCOMMA.*\.BLOCK16"] = block == 16  # a scale for 32 is what no modifier means
    return found


@pytest.mark.parametrize("name", PLANS)
def test_a_spec_builds_clean_and_sass_is_what_it_asks_for(name: str) -> None:
    plan = PLANS[name]
    assert isinstance(plan, Tcgen05Plan)
    artifact = build(plan)
    kernel = next(r for r in artifact.resources if r.kernel == plan.name)
    assert (kernel.stack_bytes, kernel.spill_store_bytes) == (0, 0)
    assert kernel.registers <= plan.budget.launch_cap
    estimate = max(role.registers for role in plan.budget.roles)
    assert abs(kernel.registers - estimate) <= 24, (kernel.registers, estimate)
    sass = disassemble(artifact.path)
    wrong = {
        pattern: wanted
        for pattern, wanted in expected(plan).items()
        if bool(re.search(pattern, sass)) != wanted
    }
    assert not wrong, sorted(set(re.findall(r"\bUT\w+[.\w]*", sass)))


@pytest.mark.parametrize("name", PLANS)
def test_the_descriptor_in_the_ptx_is_the_one_of_the_legality_table(name: str) -> None:
    plan = PLANS[name]
    assert isinstance(plan, Tcgen05Plan)
    ptx = build(plan, emit="ptx").data.decode()
    issued = re.findall(r"tcgen05\.mma\.[^;]*?\[%\w+\],\s*%\w+,\s*%\w+,\s*(%?\w+)", ptx)
    assert len(issued) == len(plan.issues)
    wanted = [int(plan.idesc, 16) | int(x.idesc_bits or "0", 16) for x in plan.issues]
    assert [_value(x, ptx) for x in issued] == wanted


def _value(operand: str, ptx: str) -> int:
    """A constant operand: spelt out, or moved into a register once."""
    if operand.startswith("%"):
        moves = re.findall(rf"mov\.\w+\s+\{operand}, (-?\d+);", ptx)
        assert len(moves) == 1, (operand, moves)
        operand = moves[0]
    return int(operand) & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["bf16_pair_4x2_pdl", "rubin_nvfp4_split_4x2"])
def test_both_compilers_agree(name: str) -> None:
    by_nvcc, by_nvrtc = (build(PLANS[name], compiler=c) for c in ("nvcc", "nvrtc"))
    assert by_nvcc.resources[0].registers == by_nvrtc.resources[0].registers
