"""What every generated file looks like, whatever its spec: layout, no leftovers, 64-bit indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from variants import variant

from kgen.plan import KernelPlan, lower
from kgen.render import Rendered, render

A_M = {"a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}"}
B_N = {"b: {dtype: f16, major: k}": "b: {dtype: f16, major: n}"}
TWO = {"accumulator: f16": "accumulator: f32", "m: 256": "m: 128", "consumers: 4": "consumers: 2"}
VARIANTS: dict[str, dict[str, str]] = {
    "v6": {},
    "f32": TWO,
    "bf16_out": {**TWO, "d: {dtype: f16": "d: {dtype: bf16"},
    "along_m": {"along: n": "along: m"},
    "release_same": {"release: previous": "release: same"},
    "warpgroup": {**TWO, "producer: warp": "producer: warpgroup"},
    "own_buffers": {**TWO, "store_buffers: 1": "store_buffers: 2", "stages: 3": "stages: 2"},
    "mn_major": {**A_M, **B_N},
    "narrow_swizzle": {"producer: warp": "producer: warp\n  swizzle_bytes: 32"},
    "two_panels": {**TWO, "k: 64": "k: 128", "n: 256, k": "n: 64, k"},
    "no_promotion": {"promotion_bytes: 128": "promotion_bytes: 0"},
    "one_consumer": {"m: 256": "m: 64", "consumers: 4": "consumers: 1"},
}
# Of tests/variants.py: the other schedules, and the fields that V6 has no use for.
OTHERS = (
    "two_slabs",
    "two_slabs_take_turns",
    "direct_f16_accumulation",
    "direct_bf16_m_major",
    "direct_n_104_warpgroup",
    "single_one_stage",
    "single_two_consumers_f16_accumulation",
    "single_swizzle_32",
    "sync_one_stage_bf16",
    "sync_f16_accumulation",
    "sync_four_panels_swizzle_32",
)
ROOT = Path(__file__).resolve().parents[2]
STANDARD = {"atomic", "cstddef", "cstdint", "stddef.h", "stdint.h"}
TOOLKIT = {"cuda.h", "cuda_runtime.h"}


@pytest.fixture(params=[*VARIANTS, *OTHERS])
def rendered(request, plan_of: Callable[..., KernelPlan]) -> Rendered:
    if request.param in OTHERS:
        loaded = variant(request.param)
        renamed = loaded.spec.model_copy(update={"name": "sample"})
        return render(lower(replace(loaded, spec=renamed, label="sample.yaml")))
    return render(plan_of(VARIANTS[request.param]))


@pytest.fixture
def code(rendered: Rendered, code_only: Callable[[str], str]) -> str:
    return code_only(rendered.source)


def test_lines_are_short_clean_and_ascii(rendered):
    for name, text in rendered.files.items():
        assert text.isascii()
        assert "\t" not in text
        assert "\r" not in text
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\n\n\n" not in text
        for number, line in enumerate(text.splitlines(), 1):
            assert len(line) <= 100, f"{name}:{number} has {len(line)} columns"
            assert line == line.rstrip(), f"{name}:{number} ends in blanks"


def test_no_scope_opens_or_closes_with_an_empty_line(rendered):
    # A namespace may breathe; functions, structs and loops may not.
    namespaces = r"(?:namespace \w* ?|extern \"C\" )\{\n\n"
    text = re.sub(namespaces, "", rendered.source)
    assert not re.search(r"\{\n\n", text)
    assert not re.search(r"\n\n\s*\}(?!  // )", text)


def test_nothing_is_left_of_the_templates(rendered, code):
    for text in rendered.files.values():
        for leftover in ("{%", "{#", "#}", "Undefined", "None", "True", "False"):
            assert leftover not in text, leftover
        assert not re.search(r"\bp\.\w", text)
    assert not re.search(r"\bif (?:constexpr )?\((?:true|false|0|1)\)", code)
    assert "if constexpr" not in code
    assert [line for line in rendered.source.splitlines() if line.startswith("#if")] == [
        "#ifdef __CUDACC_RTC__",
        # Compiled for another target, the kernel traps; built in one unit with its header, the
        # status enum comes from there.
        "#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)",
        "#ifndef __CUDACC_RTC__",
        "#ifndef KGEN_sample_H  // the header declares the same",
    ]


def test_every_constant_is_used(code):
    constants = re.findall(r"^constexpr .*?\b(k[A-Z]\w*) =", code, re.M)
    assert len(constants) == len(set(constants)) >= 15
    for name in constants:
        assert len(re.findall(rf"\b{name}\b", code)) > 1, f"{name} is never used"


def test_every_constant_that_is_used_is_defined(code):
    defined = set(re.findall(r"\b(k[A-Z]\w*) =", code))
    defined |= set(re.findall(r"template <int (k[A-Z]\w*)>", code))
    assert set(re.findall(r"\bk[A-Z]\w*\b", code)) <= defined


def test_every_ptx_wrapper_is_used_and_defined_before_its_use(code):
    wrappers = re.findall(r"__forceinline__ \w+ (\w+)\(", code.partition("struct Tile")[0])
    assert len(wrappers) == len(set(wrappers)) > 7
    for name in wrappers:
        uses = [m.start() for m in re.finditer(rf"\b{name}\b", code)]
        assert len(uses) > 1, f"ptx::{name} is never used"
        assert re.search(rf"__forceinline__ \w+ {name}\(", code[: uses[1]]), f"{name} comes late"
    assert set(re.findall(r"ptx::(\w+)", code)) <= set(wrappers)


def test_only_headers_of_cuda_and_the_standard_are_included(rendered):
    for text in rendered.files.values():
        includes = re.findall(r"^\s*#\s*include\s*(\S+)", text, re.M)
        assert {i.strip('<>"') for i in includes} <= STANDARD | TOOLKIT
        assert all(i.startswith("<") for i in includes)
    device = rendered.source.partition("#else")[0]
    assert "#include" not in device, "NVRTC has no headers"


def test_the_layout_is_held_against_the_budget_by_the_compiler(rendered):
    check = "static_assert(sizeof(SharedStorage) == kSmemBytes,"
    assert rendered.source.count(check) == 1


def test_there_is_one_shared_memory_block_and_launch_bounds_have_a_minimum(code):
    assert re.findall(r"__shared__.*", code) == [
        "__shared__ __align__(1024) uint8_t shared_memory[];"
    ]
    assert code.count("__launch_bounds__(kThreads, 1)") == 1


def test_accumulators_are_tied_to_the_last_wait(code):
    if "wgmma" not in code:
        return  # mma.sync answers in registers
    body = re.split(r"void (?:consume|compute)\(", code)[1]
    last_wait = body.rindex("ptx::wgmma_wait<0>();")
    after = body[last_wait:].split(";")
    ties = [i for i, part in enumerate(after) if "ptx::wgmma_tie(acc" in part]
    reads = [
        i
        for i, part in enumerate(after)
        if i not in ties and re.search(r"acc\[|(?:slab|rows)\(.*\bacc\b", part)
    ]
    assert ties
    assert max(ties) < min(reads)


def test_evidence_is_one_marked_block_in_the_header(rendered):
    lines = rendered.source.splitlines()
    begin = lines.index("// evidence (about a build; not part of the source digest)")
    assert lines[begin + 1 : begin + 4] == ["//   none recorded", "// end of evidence", ""]
    assert all(line.startswith("//") for line in lines[:begin])


def test_a_comment_cannot_be_closed_or_continued(rendered):
    for text in rendered.files.values():
        assert "/*" not in text
        assert "*/" not in text
        assert not re.search(r"\\$", text, re.M)
        assert "??/" not in text


# --- indices (a 32-bit product of an extent and a stride overflows from 2^31 elements on) ---------

WIDE_TYPES = {"int64_t", "uint64_t", "cuuint64_t", "size_t", "uintptr_t"}
TYPES = WIDE_TYPES | {
    "void", "int", "uint32_t", "uint16_t", "uint8_t", "char", "bool", "TensorMap", "float",
    "SharedStorage", "CUtensorMap", "unsigned", "const",
}  # fmt: skip
TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+|\d[\w.]*|->|::|<<|>>|\+\+|--|[^\s\w]")
Token = str


def products(code: str) -> Iterator[list[list[Token]]]:
    """Every chain of multiplicative operands, left to right; each operand is its tokens."""
    tokens = TOKEN.findall(code)
    for i, token in enumerate(tokens):
        if token == "*" and is_product(tokens, i) and not continues(tokens, i):
            yield chain(tokens, i)


def is_product(tokens: list[Token], i: int) -> bool:
    """Whether the `*` at `i` multiplies, rather than declares or follows a pointer."""
    before, after = tokens[i - 1], tokens[i + 1]
    if before in TYPES or after in ("const", ")", ">", ",", "=", "&"):
        return False
    return bool(re.match(r"\w|[)\]]", before)) and before not in ("return", "case")


def operand_before(tokens: list[Token], i: int) -> int:
    """Where the operand that ends just before `i` starts."""
    start = i - 1
    while True:
        if tokens[start] in (")", "]"):
            start = opening(tokens, start)
            if start > 0 and tokens[start - 1] == ">":
                start = opening(tokens, start - 1)  # static_cast<type>(value)
            if start > 0 and re.match(r"\w|[)\]]", tokens[start - 1]):
                start -= 1
                continue
        if start > 1 and tokens[start - 1] in (".", "->", "::"):
            start -= 2
            continue
        return start


def operand_after(tokens: list[Token], i: int) -> int:
    """Where the operand that starts just after `i` ends (exclusive)."""
    end = i + 1
    if tokens[end] == "(":
        end = closing(tokens, end)
    while end + 1 < len(tokens):
        following = tokens[end + 1]
        if following in (".", "->", "::"):
            end += 2
        elif following in ("(", "[") or (following == "<" and tokens[end].endswith("_cast")):
            end = closing(tokens, end + 1)
        else:
            break
    return end + 1


PAIRS = {"(": ")", "[": "]", "<": ">"}


def opening(tokens: list[Token], i: int) -> int:
    close = tokens[i]
    open_ = next(o for o, c in PAIRS.items() if c == close)
    depth = 0
    for j in range(i, -1, -1):
        depth += (tokens[j] == close) - (tokens[j] == open_)
        if depth == 0:
            return j
    raise AssertionError(f"unbalanced {close}")


def closing(tokens: list[Token], i: int) -> int:
    open_, close = tokens[i], PAIRS[tokens[i]]
    depth = 0
    for j in range(i, len(tokens)):
        depth += (tokens[j] == open_) - (tokens[j] == close)
        if depth == 0:
            return j
    raise AssertionError(f"unbalanced {open_}")


def continues(tokens: list[Token], i: int) -> bool:
    """Whether an earlier operator of the same chain has already covered this one."""
    start = operand_before(tokens, i)
    return start > 0 and tokens[start - 1] == "*" and is_product(tokens, start - 1)


def chain(tokens: list[Token], i: int) -> list[list[Token]]:
    start = operand_before(tokens, i)
    while start > 0 and tokens[start - 1] in ("/", "%"):
        start = operand_before(tokens, start - 1)
    rows = [tokens[start:i]]
    while i < len(tokens) and tokens[i] in ("*", "/", "%"):
        end = operand_after(tokens, i)
        if tokens[i] == "*":
            rows.append(tokens[i + 1 : end])
        i = end
    return rows


def wide_names(code: str) -> set[str]:
    """Variables and functions that the text declares with a 64-bit type."""
    types = "|".join(sorted(WIDE_TYPES))
    return set(re.findall(rf"\b(?:{types}) (\w+)\b", code))


def is_wide(operand: list[Token], names: set[str]) -> bool:
    if operand[0] in ("static_cast", "reinterpret_cast"):
        return operand[2] in WIDE_TYPES
    if operand[0] == "sizeof":
        return True
    called = operand.index("(") if "(" in operand else len(operand)
    return operand[called - 1] in names if called else False


def is_runtime(operand: list[Token]) -> bool:
    """Whether it is more than literals, constants and the position of the thread."""
    words = [t for t in operand if re.match(r"[A-Za-z_]", t)]
    return any(not re.match(r"k[A-Z]", w) for w in words) and not set(words) & {"threadIdx"}


STRIDES = re.compile(r"ld[abd]?|\w*stride\w*|pitch")


def narrow_products(code: str) -> list[str]:
    """Products that involve a stride, or two run-time values, and are computed in 32 bits."""
    names = wide_names(code)
    found = []
    for rows in products(code):
        strides = [r for r in rows if any(STRIDES.fullmatch(t) for t in r)]
        runtime = [r for r in rows if is_runtime(r)]
        if not strides and len(runtime) < 2:
            continue
        # The first product decides: int * int * int64 has overflowed before it is widened.
        if not any(is_wide(r, names) for r in rows[:2]):
            found.append(" * ".join("".join(r) for r in rows))
    return found


def test_no_32_bit_product_of_an_extent_and_a_stride(code):
    all_products = ["*".join("".join(r) for r in rows) for rows in products(code)]
    assert "static_cast<int64_t>(row)*problem.ldd" in all_products
    assert "tiles(m,kTileM)*tiles(n,kTileN)" in all_products
    assert len(all_products) > 15
    assert narrow_products(code) == []


# Of resident kernels: tiles are counted in int, and a cluster's are no more than all; the other is
# an offset in shared memory.
SMALL = {"whole * share.whole_step", "i * 8 * kPanelN * sizeof(*buffer)"}


@pytest.mark.parametrize(
    "file", sorted((ROOT / "generated/hopper/fast").glob("*.cu")), ids=lambda p: p.stem
)
def test_resident_kernels_have_none_either(file, code_only):
    found = narrow_products(code_only(file.read_text()))
    assert {x for x in found if not x.startswith("uint4 * ")} <= SMALL  # those declare pointers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int ldd; d + row * ldd;", ["row * ldd"]),
        ("int ldd; d + row * problem.ldd;", ["row * problem.ldd"]),
        ("int64_t ldd; d + row * problem.ldd;", []),
        ("int ld; x = static_cast<int64_t>(row) * ld;", []),
        ("int ld; x = static_cast<int64_t>(row * ld);", ["row * ld"]),
        ("int ld; x = (row + 1) * ld;", ["(row+1) * ld"]),
        ("int64_t ld; x = row * col * ld;", ["row * col * ld"]),
        ("int m; int n; x = m * n;", ["m * n"]),
        ("int m; x = m * kTileM;", []),
        ("int m; x = threadIdx.x % 128 / 32 * 16 + m * 4;", []),
        ("const void* a; int* b = &c[2]; *b = 3; f(uint16_t* d);", []),
        ("int lda; x = lda * k_tile;", ["lda * k_tile"]),
        ("int lda; x = 2 * lda;", ["2 * lda"]),
        ("int64_t tiles(int x); y = tiles(m, 3) * tiles(n, 3);", []),
        ("int tiles(int x); y = tiles(m, 3) * tiles(n, 3);", ["tiles(m,3) * tiles(n,3)"]),
    ],
)
def test_the_scan_finds_narrow_products(text, found):
    assert narrow_products(text) == found


def test_the_grid_has_one_axis(code):
    grid = re.search(r"const dim3 ctas\(", code)
    assert grid
    tokens = TOKEN.findall(code[grid.end() - 1 :])
    inside = tokens[1 : closing(tokens, 0)]
    depth, commas = 0, 0
    for token in inside:
        depth += (token in "([{") - (token in ")]}")
        commas += token == "," and depth == 0
    assert commas == 0, "tiles go on x: y and z end at 65535"
    assert re.findall(r"\b(?:blockIdx|gridDim|blockDim)\.\w", code) == ["blockIdx.x"]
    assert "tiles(m, kTileM) * tiles(n, kTileN) > kMaxTiles" in code
    assert re.search(r"kMaxTiles = 2147483647;", code)


def test_the_header_and_the_source_have_the_same_statuses(rendered):
    enum = re.compile(r"enum \w+_status \{\n(.*?)\};", re.S)
    in_source, in_header = enum.findall(rendered.source), enum.findall(rendered.header)
    assert in_source == in_header
    assert len(in_source) == 1
    assert in_source[0].count("\n") == 23


def test_the_header_of_v6_tells_the_budget_and_the_limits_of_f16(source_of):
    head = source_of().partition("#ifdef")[0]
    for line in (
        "// target sm_90a (H100, H200), CUDA 12.5 or newer, C++17:",
        "//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a",
        "//   total       230400   of 232448 bytes",
        "// registers: 96 per thread at launch of 544 threads",
        "//   empty    3 x 4 arrivals: one thread of each consumer; producer waits",
        "// f16 accumulation: partial sums overflow at 65504 and lose increments below 1 "
        "from 2048 on.",
    ):
        assert line in head.splitlines()
