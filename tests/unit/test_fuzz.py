"""No text, however broken, brings up anything but a KgenError, and what is accepted renders."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors import KgenError
from kgen.plan import lower
from kgen.render import render
from kgen.spec import parse_spec

# KGEN_FUZZ=5000 searches longer; without it, the same examples every time.
EXAMPLES = int(os.environ.get("KGEN_FUZZ", "150"))
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="KGEN_FUZZ" not in os.environ, database=None
)

BASE = """\
name: sample
target: sm_90a
gemm:
  a: {dtype: f16, major: k}
  b: {dtype: f16, major: k}
  d: {dtype: f16, major: n}
  accumulator: f16
schedule:
  kind: wgmma_ws
  tile: {m: 256, n: 256, k: 64}
  consumers: 4
  stages: 3
  producer: warp
  registers: auto
  release: previous
  swizzle_bytes: auto
  smem_limit: 227KiB
  raster: {along: n, group: 8}
  l2: {promotion_bytes: 128}
  epilogue: {kind: tma_turns, store_buffers: 1}
verify:
  shapes: [[512, 512, 256], [8192, 8192, 8192]]
  tolerance: {factor: 2, reason: long enough}
"""
LINES = BASE.splitlines()

FRAGMENTS = st.sampled_from(
    [
        *("{", "}", "[", "]", ":", ",", "- ", "? ", "| ", "> ", "&a ", "*a ", "!!int ", "!x ", "%"),
        *("\t", "  ", "\n", "#", "'", '"', "\\", "~", "null", "no", "off", "true", ".inf", ".nan"),
        *("-1", "0", "1", "2", "7", "16", "48", "64", "128", "257", "512", "1024", "99999999999"),
        *("1e400", "0x10", "1_0", "0o7", "1:30", "2026-01-01", "3.5", "KiB", "64KiB", "0B", "<<: "),
        *("auto", "same", "warpgroup", "bf16", "f32", "m", "k", "n", "{producer: 24, consumer: 8}"),
        *("a", "int", "\x00", "\x85", "\u2028", "\ufeff", "é", "\U0001f600", "---\n", "...\n"),
    ]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The base spec after a few edits of its text."""
    lines: list[str] = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["drop", "double", "insert", "replace", "value", "indent"]))
        line = lines[at]
        column = draw(st.integers(0, len(line)))
        piece = draw(FRAGMENTS | st.text(max_size=8))
        if kind == "drop":
            del lines[at]
        elif kind == "double":
            lines.insert(draw(st.integers(0, len(lines))), line)
        elif kind == "insert":
            lines[at] = line[:column] + piece + line[column:]
        elif kind == "replace":
            lines[at] = line[:column] + piece + line[column + len(piece) :]
        elif kind == "value":
            lines[at] = f"{line.partition(':')[0]}: {piece}"
        else:
            lines[at] = " " * draw(st.integers(0, 6)) + line.lstrip()
    return "\n".join(lines)


# Values that are mostly legal, so that rules and budget are reached.
CHOICES = {
    "dtype": ["f16", "bf16"],
    "accumulator": ["f16", "f32"],
    "major_a": ["k", "m"],
    "major_b": ["k", "n"],
    "n": [8, 64, 96, 128, 192, 256, 320, 1024],
    "k": [8, 16, 32, 48, 64, 96, 128, 256, 512, 1024],
    "consumers": [1, 2, 3, 4, 5, 8],
    "stages": ["auto", 1, 2, 3, 4, 8, 64],
    "producer": ["warp", "warpgroup"],
    "registers": ["auto", "{producer: 24, consumer: 240}", "{producer: 40, consumer: 112}"],
    "release": ["same", "previous"],
    "swizzle": ["auto", 32, 64, 128],
    "limit": ["1B", "16KiB", "100KiB", "227KiB", "1MiB"],
    "group": [1, 8, 32],
    "along": ["m", "n"],
    "promotion": [0, 64, 128, 256],
    "buffers": [1, 2, 4, 8],
}


@st.composite
def plausible(draw: st.DrawFn) -> str:
    v = {name: draw(st.sampled_from(values)) for name, values in CHOICES.items()}
    d = draw(st.sampled_from(["f16", "bf16"]))
    rows = v["consumers"] * 64 if draw(st.integers(0, 9)) else 64
    return (
        f"name: sample\ntarget: sm_90a\ngemm:\n"
        f"  a: {{dtype: {v['dtype']}, major: {v['major_a']}}}\n"
        f"  b: {{dtype: {v['dtype']}, major: {v['major_b']}}}\n"
        f"  d: {{dtype: {d}}}\n  accumulator: {v['accumulator']}\nschedule:\n  kind: wgmma_ws\n"
        f"  tile: {{m: {rows}, n: {v['n']}, k: {v['k']}}}\n  consumers: {v['consumers']}\n"
        f"  stages: {v['stages']}\n  producer: {v['producer']}\n  registers: {v['registers']}\n"
        f"  release: {v['release']}\n  swizzle_bytes: {v['swizzle']}\n"
        f"  smem_limit: {v['limit']}\n  raster: {{along: {v['along']}, group: {v['group']}}}\n"
        f"  l2: {{promotion_bytes: {v['promotion']}}}\n"
        f"  epilogue: {{kind: tma_turns, store_buffers: {v['buffers']}}}\n"
    )


def survives(text: str) -> None:
    try:
        plan = lower(parse_spec(text, "spec.yaml"))
    except KgenError as error:
        first = str(error).split("\n", 1)[0]
        assert first.startswith("spec.yaml")
        assert len(first) > len("spec.yaml: ")
        return
    assert plan.smem_bytes <= 232448
    assert plan.threads <= 1024
    source = render(plan).source
    assert f"constexpr int kSmemBytes = {plan.smem_bytes};" in source
    assert max(map(len, source.splitlines())) <= 100


@FUZZ
@given(mutated())
def test_a_mutated_spec_is_refused_or_renders(text):
    survives(text)


@FUZZ
@given(plausible())
def test_a_plausible_spec_is_refused_or_renders(text):
    survives(text)


@FUZZ
@given(st.text(max_size=200))
def test_any_text_is_refused(text):
    survives(text)
