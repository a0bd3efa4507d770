"""Keys of recorded work: digests over everything that its outcome depends on.

A change of any part is another key, so exactly that work is done again; the parts are kept beside
the key (`kgen results key`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from kgen._version import __version__
from kgen.bench.protocol import Settings

SCHEMA = 2  # raise it when the same parts come to mean other work
MEANINGS = {
    "schema": "what kgen takes these parts to mean",
    "stage": "the kind of work",
    "source": "digest of the rendered code (a template or spec that changes it changes this)",
    "toolchain": "compiler, release, digest of its lock file",
    "gpu": "the device's name",
    "driver": "the display driver",
    "reference": "what speed is measured against, with its version",
    "problem": "M x N x K in elements",
    "protocol": "windows, rounds, warm-up and rest",
    "schedules": "of the emulator",
    "kgen": "the version whose emulator or gates judged",
}


@dataclass(frozen=True)
class Key:
    """A digest and the parts that it is made of."""

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """16 hex digits."""
        text = json.dumps(self.parts, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(stage: str, **parts: str) -> Key:
    named = {"schema": str(SCHEMA), "stage": stage, **parts}
    return Key(tuple(sorted(named.items())))


def build_key(source: str, toolchain: str) -> Key:
    """Of one compilation."""
    return _key("build", source=source, toolchain=toolchain)


def emulate_key(source: str, toolchain: str, schedules: tuple[str, ...]) -> Key:
    """Of one kernel in the emulator."""
    named = ",".join(schedules)
    return _key("emulate", source=source, toolchain=toolchain, schedules=named, kgen=__version__)


def verify_key(source: str, toolchain: str, facts: dict[str, Any]) -> Key:
    """Of one kernel on a GPU, over all the shapes that follow from its tile."""
    return _key("verify", source=source, toolchain=toolchain, kgen=__version__, **_device(facts))


def timing_key(
    stage: str,
    source: str,
    toolchain: str,
    facts: dict[str, Any],
    problem: str,
    settings: Settings,
) -> Key:
    """Of one kernel on one problem: a screen or a final."""
    protocol = (
        f"windows {','.join(map(str, settings.windows))}, {settings.rounds} rounds, "
        f"{settings.warmup} warm-up, {settings.cooldown_s:g} s rest"
    )
    return _key(
        stage,
        source=source,
        toolchain=toolchain,
        problem=problem,
        protocol=protocol,
        reference=str(facts["reference"]),
        **_device(facts),
    )


def _device(facts: dict[str, Any]) -> dict[str, str]:
    return {"gpu": str(facts["name"]), "driver": str(facts["driver"])}


def device_id(facts: dict[str, Any]) -> str:
    """12 hex digits over what a GPU is, whichever of its kind it is."""
    kept = {k: facts[k] for k in sorted(facts) if k != "pci_bus_id"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]
