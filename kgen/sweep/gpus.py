"""Which GPUs of this machine a sweep may use, and the locks that make each of them its own."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kgen.build import cache
from kgen.errors import DeviceError, KgenError
from kgen.files import make_folder
from kgen.sweep.child import Child
from kgen.sweep.database import exclusive
from kgen.sweep.lanes import Work

READY = "gpu"  # the status with which a GPU's process answers that it can begin


@dataclass(frozen=True)
class Gpus:
    """Processes, one per GPU, and the facts that all these GPUs share.

    notes  GPUs that are left out, and why
    """

    children: tuple[Child, ...]
    facts: dict[str, Any]
    notes: tuple[str, ...]


def find_gpus(work: Work, locks: ExitStack) -> Gpus:
    """Every GPU like the first that no other sweep is timing on; `locks` keeps them until it ends.

    Raises  DeviceError saying why there is none; its processes are ended
    """
    first = Child((work.facts, READY))
    children, notes = [first], []
    try:
        facts = first.start().value
        for place, name in enumerate(_names(int(facts["devices"]))):
            if place:
                child = Child((work.facts, READY), {"CUDA_VISIBLE_DEVICES": name})
                children.append(child)
                other = child.start().value
            else:
                child, other = first, facts
            if why := _unusable(facts, other, locks):
                notes.append(f"GPU {name} is left out: {why}")
                children.remove(child)
                child.close()
        if not children:
            raise DeviceError("; ".join(notes))
    except BaseException:
        for child in children:
            child.close()
        raise
    return Gpus(tuple(children), facts, tuple(notes))


def _names(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES calls each visible GPU; the first process uses the first."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in given.split(",") if name.strip()]
    return (names or [str(i) for i in range(count)])[: max(count, 1)]


def _unusable(facts: dict[str, Any], other: dict[str, Any], locks: ExitStack) -> str:
    if other["name"] != facts["name"]:
        return f"it is {other['name']}, and the others are {facts['name']}: times do not compare"
    folder = cache.root() / "locks"
    make_folder(folder)
    place = "".join(c if c.isalnum() else "-" for c in str(other["pci_bus_id"]))
    try:
        locks.enter_context(
            exclusive(folder / f"gpu-{place}.lock", "another kgen sweep is timing on it")
        )
    except KgenError as error:
        return str(error)
    return ""
