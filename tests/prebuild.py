"""Builds everything that `make gpu` and `make bench` load, for GPU machines without a compiler.

Run it where the toolchain is installed, carry the folder KGEN_CACHE along, and point the same
variable at it there: artefacts are found by content, so nothing is compiled again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import harmful
from persistent import on_device
from variants import VARIANTS, variant

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import build_shared_library, compile_source
from kgen.check import find_specs
from kgen.paths import data_folder


def main() -> None:
    """Build every shipped kernel with its C launcher, every variant, and those that do harm."""
    for spec in find_specs([data_folder("specs")]):
        plan = lower(load_spec(spec))
        print(build(plan).path)
        source = render(plan).source
        print(build_shared_library(source, name=plan.name, target=plan.target))
    for plan in on_device().values():
        print(build(plan).path)
        source = render(plan).source
        print(build_shared_library(source, name=plan.name, target=plan.target))
    for name in VARIANTS:
        print(build(lower(variant(name))).path)
    with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
        for one in harmful.candidates(Path(folder)):
            name, target = one.plan.name, one.plan.target
            print(compile_source(one.rendered.source, name=name, target=target).path)


if __name__ == "__main__":
    main()
