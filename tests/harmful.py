"""A sweep for a GPU whose kernels hang, read wild or do nothing, by their raster group.

`tests/prebuild.py` builds them for machines without a compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conftest import F32, V6, changed

from kgen.render import Rendered
from kgen.sweep.candidate import Candidate, prepare
from kgen.sweep.load import Sweep, load_sweep
from kgen.sweep.space import Point, points_of

GOOD, HANGS, READS_WILD, IDLES, GOOD_TOO = 1, 2, 3, 4, 5  # raster groups
PROBLEMS = "[[512, 512, 128], {name: large, m: 1024, n: 1024, k: 128}]"
_BODY = "    extern __shared__ __align__(1024) uint8_t shared_memory[];\n"
_PLANTED = {
    HANGS: '    while (true) asm volatile("nanosleep.u32 1000;");\n',
    READS_WILD: '    asm volatile("st.global.u32 [%0], 1;" ::"l"(16ull) : "memory");\n',
    IDLES: "    if (problem.m >= 0) return;\n",
}


def sweep(folder: Path) -> Sweep:
    """The sweep, written into a folder."""
    text = changed(F32 | {"n: 256": "n: 64", "stages: 3": "stages: 2"}, V6.split("verify:")[0])
    (folder / "base.yaml").write_text(text)
    groups = [GOOD, HANGS, READS_WILD, IDLES, GOOD_TOO]
    file = folder / "harmful.sweep.yaml"
    file.write_text(
        f"base: base.yaml\naxes: {{schedule.raster.group: {groups}}}\nproblems: {PROBLEMS}\n"
        "finals: {keep: 1, rounds: 3, cooldown_s: 0}\ntimeouts: {screen_s: 10, finals_s: 200}\n"
    )
    return load_sweep(file)


def planted(point: Point) -> Candidate:
    """A point's kernel, with the line that does its harm at the start of its body."""
    found = prepare(point)
    line = _PLANTED.get(point.values["schedule.raster.group"], "")
    assert found.rendered.source.count(_BODY) == 1
    source = found.rendered.source.replace(_BODY, _BODY + line)
    return replace(found, rendered=Rendered(found.rendered.name, source, found.rendered.header))


def candidates(folder: Path) -> Iterator[Candidate]:
    """Every kernel of the sweep."""
    return map(planted, points_of(sweep(folder)))
