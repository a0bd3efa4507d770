"""What the generated tcgen05 kernels look like, whatever their spec."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from blackwell import VARIANTS, variant

from kgen.plan import lower
from kgen.plan.tcgen05_model import Tcgen05Plan
from kgen.render import Rendered, render
from kgen.spec.blackwell import Tcgen05WsSplit


@pytest.fixture(params=VARIANTS)
def plan(request) -> Tcgen05Plan:
    found = lower(variant(request.param))
    assert isinstance(found, Tcgen05Plan)
    return found


@pytest.fixture
def rendered(plan: Tcgen05Plan) -> Rendered:
    return render(plan)


@pytest.fixture
def code(rendered: Rendered, code_only: Callable[[str], str]) -> str:
    return code_only(rendered.source)


def test_lines_are_short_clean_and_ascii(rendered):
    for name, text in rendered.files.items():
        assert text.isascii() and "\t" not in text and "\n\n\n" not in text
        for number, line in enumerate(text.splitlines(), 1):
            assert len(line) <= 100, f"{name}:{number} has {len(line)} columns"
            assert line == line.rstrip(), f"{name}:{number} ends in blanks"
        for leftover in ("{%", "{#", "#}", "Undefined", "None", "True", "False"):
            assert leftover not in text, leftover


def test_no_scope_opens_or_closes_with_an_empty_line(rendered):
    text = re.sub(r"(?:namespace \w* ?|extern \"C\" )\{\n\n", "", rendered.source)
    assert not re.search(r"\{\n\n", text)
    assert not re.search(r"\n\n\s*\}(?!  // )", text)


def test_statements_are_indented_with_their_scope(rendered):
    """A template that strips too much would leave a statement of a function at the margin."""
    inside = False
    for line in rendered.source.splitlines():
        if re.match(r"(?:__device__|extern \"C\") .*\{$|.*\) \{$", line) and line[0] != " ":
            inside = True
        elif line == "}":
            inside = False
        elif inside and line and not line.startswith(("    ", "#", "}", "{")):
            assert re.match(r"(?:public|private):$", line), line


def test_every_constant_is_used_and_defined(code):
    defined = re.findall(r"^constexpr .*?\b(k[A-Z]\w*) =", code, re.M)
    assert len(defined) == len(set(defined)) >= 20
    for name in defined:
        assert len(re.findall(rf"\b{name}\b", code)) > 1, f"{name} is never used"
    known = set(defined) | set(re.findall(r"template <int (k[A-Z]\w*)>", code))
    assert set(re.findall(r"\bk[A-Z]\w*\b", code)) <= known


def test_every_ptx_wrapper_is_used_and_defined_before_its_use(code):
    wrappers = re.findall(r"__forceinline__ \w+ (\w+)\(", code.partition("struct Tile")[0])
    wrappers = [w for w in wrappers if w != "locate_cta"]
    assert len(wrappers) == len(set(wrappers)) > 15
    for name in wrappers:
        uses = [m.start() for m in re.finditer(rf"\b{name}\b", code)]
        assert len(uses) > 1, f"ptx::{name} is never used"
        assert re.search(rf"__forceinline__ \w+ {name}\(", code[: uses[1]]), f"{name} comes late"
    assert set(re.findall(r"ptx::(\w+)", code)) <= set(wrappers)


def test_device_code_needs_no_header(rendered):
    assert "#include" not in rendered.source.partition("#else")[0], "NVRTC has no headers"
    feature = {"sm_100a": 100, "sm_103a": 103, "sm_107a": 107}
    target = re.search(r"// target (\w+)", rendered.source)
    assert target
    guard = f"!defined(__CUDA_ARCH_FEAT_SM{feature[target[1]]}_ALL)"
    assert rendered.source.count(guard) == 1, "the macro of the suffix guards the kernel"


def test_shared_memory_is_one_block_held_against_the_budget(rendered, code):
    assert rendered.source.count("static_assert(sizeof(SharedStorage) == kSmemBytes,") == 1
    assert code.count("__shared__") == 1
    assert code.count("__launch_bounds__(kThreads, 1)") == 1


def test_no_evidence_of_a_run_is_claimed(rendered):
    assert "//   none recorded\n" in rendered.source
    assert "// Built, not run on hardware.\n" in rendered.source


def test_tensor_memory_is_freed_last_and_by_the_warp_that_took_it(code, plan):
    body = code.partition("__global__")[2]
    order = ["tcgen05_alloc", "fence_before", "tcgen05_relinquish", "tcgen05_dealloc"]
    places = [body.index(f"ptx::{name}" if name[0] == "t" else name) for name in order]
    assert places == sorted(places)
    barrier = "ptx::cluster_barrier();" if plan.clustered else "__syncthreads();"
    first, last = body.index(barrier), body.rindex(barrier)
    # Everyone meets between the allocation and the first use, and between the last use and the end.
    assert places[0] < first < body.index("smem.tmem;") < last < places[2]
    assert body.count("if (warp == kMmaWarp)") == 3


def _has_two_rings(plan) -> bool:
    return isinstance(plan.budget.spec.schedule, Tcgen05WsSplit)


def test_every_ring_is_drained_before_the_kernel_ends(code, plan):
    """A commit of another CTA may still be on its way to a barrier of this one."""
    for prefix in ("a_", "b_") if _has_two_rings(plan) else ("",):
        waits = [
            m.start() for m in re.finditer(rf"mbarrier_wait\(&smem\.{prefix}empty\[stage\]", code)
        ]
        assert len(waits) == 2


def _body(code: str, function: str) -> str:
    """The body of one device function."""
    found = re.search(rf"__forceinline__ \w+ {function}\([^{{]*\{{\n(.*?)\n\}}", code, re.S)
    assert found, function
    return found[1]


def test_every_role_takes_its_tiles_from_the_scheduler_that_the_spec_names(code, plan):
    roles = ["produce_a", "produce_b"] if _has_two_rings(plan) else ["produce"]
    loops = {f: re.findall(r"for \(int index = .*\{", _body(code, f)) for f in [*roles, "multiply"]}
    loops["drain"] = re.findall(r"for \(int index = .*\{", _body(code, "drain"))
    if not plan.takes_over:
        every = "for (int index = work.first; index < work.end; index += work.step) {"
        assert all(found == [every] for found in loops.values())
        for word in ("clusterlaunchcontrol", "tile_full", "kSchedulerWarp", "next_tile"):
            assert word not in code
        return
    start = "for (int index = work.first; index >= 0; index = "
    for role, found in loops.items():
        call = "next_tile_of_warp" if role == "drain" else "next_tile"
        assert found == [f"{start}{call}(smem, work)) {{"]
    take = _body(code, "next_tile")
    order = ["tile_full", "first_cta_taken", "fence_proxy_async", "tile_empty", "++work.slot"]
    assert sorted(order, key=take.index) == order
    ask = _body(code, "schedule")
    order = ["while (index >= 0)", "expect_tx(full", "tile_empty", "take_over_cluster", "next_tile"]
    assert sorted(order, key=ask.index) == order
    assert ("if (cta.rank == 0) {" in ask) == plan.clustered
    assert code.count("else if (warp == kSchedulerWarp)") == 1


def test_loads_and_mmas_cover_the_stage_once(plan):
    """Boxes tile A's and B's bytes without gap or overlap; every accumulator starts once."""
    g = plan.budget.shape  # type: ignore[attr-defined]
    for operand, loads, size, shares in (
        ("a", plan.a_loads, g.a_bytes, g.a_shares),
        ("b", plan.b_loads, g.b_bytes, g.b_shares),
    ):
        box = plan.budget.box(operand)
        offsets = [x.offset for x in loads if x.operand == operand]
        assert len(offsets) == box.count
        step = size // len(offsets)
        assert offsets == list(range(0, size, step))
        assert box.bytes * shares == step
    starts = [x.column for x in plan.issues if x.starts]
    assert sorted(starts) == list(range(0, g.accumulator_columns, g.form.request.n))
    assert len(plan.issues) == g.k_steps * len(starts)


def test_a_descriptor_never_carries_out_of_its_address_field(plan):
    g, total = plan.budget.shape, plan.budget.smem.total  # type: ignore[attr-defined]
    field = int(plan.descriptor_mask, 16)
    assert total // 16 <= field
    for x in plan.issues:
        assert x.a * 16 < g.a_bytes and x.b * 16 < g.b_bytes
    for c in plan.copies:
        assert c.offset * 16 < max(g.sfa_bytes, g.sfb_bytes)


def test_scales_are_where_the_mmas_look_for_them(plan):
    """Column of word w of row block b of an MMA: first + 4 (w x blocks + b). Source: PTX ISA."""
    g = plan.budget.shape  # type: ignore[attr-defined]
    if not g.words:
        assert not plan.copies
        return
    origin = {"sfa": plan.constant("kColumnSfa"), "sfb": plan.constant("kColumnSfb")}
    assert g.accumulator_columns * plan.constant("kAccBuffers") <= min(origin.values())
    holds: dict[int, tuple[str, int, int]] = {}
    for c in plan.copies:
        block, word = divmod(c.offset // 32, g.words)
        first = origin[c.operand] + c.column
        for column in range(first, first + 4):
            assert column not in holds, "two blocks of scales in one column"
            holds[column] = (c.operand, block, word)
    assert len(holds) == 4 * g.words * (g.sfa_blocks + g.sfb_blocks)
    steps = len(plan.issues) // (g.m_tiles * g.n_tiles)
    for index, x in enumerate(plan.issues):
        step = index // (len(plan.issues) // steps)
        m, n = x.column // g.tile_n, x.column % g.tile_n // g.form.request.n
        first = step * g.form.scales
        n_blocks = g.form.request.n // 128
        for scale in range(first, first + g.form.scales):
            word = scale // 4
            ahead = word - first // 4
            assert holds[origin["sfa"] + x.sfa + 4 * ahead] == ("sfa", m, word)
            for block in range(n_blocks):
                column = origin["sfb"] + x.sfb + 4 * (ahead * n_blocks + block)
                assert holds[column] == ("sfb", n * n_blocks + block, word)
        wanted = first % 4
        assert int(x.idesc_bits or "0", 16) == wanted << 29 | wanted << 4
