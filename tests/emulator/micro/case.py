"""What a micro-test is, and the helpers that build one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from kgen.emu.launch import Argument, Array, Integers, Launch, Scalar

from .inputs import WORDS

SHARED = 1024 + 16384
"""Barriers and tile of the compiled kernels, in bytes."""


@dataclass(frozen=True)
class Case:
    """A kernel, its launch and what is known about it.

    waits_forever: the kernel gives up a wait that can never succeed; the emulator says deadlock.
    finding: the one kind of finding that the emulator reports, where the kernel does wrong.
    """

    name: str
    module: str
    launch: Launch
    waits_forever: bool = False
    finding: str = ""


@cache
def scratch() -> Path:
    return Path(mkdtemp(prefix="micro-"))


@cache
def words_file(name: str) -> str:
    """The words of inputs.py as a .npy file, the form in which a launch takes exact contents."""
    path = scratch() / f"{name}.npy"
    np.save(path, WORDS[name]())
    return str(path)


def s32(*values: int) -> tuple[Scalar, ...]:
    return tuple(Scalar("s32", v) for v in values)


def u64(*values: int) -> tuple[Scalar, ...]:
    return tuple(Scalar("u64", v) for v in values)


def launch_of(
    kernel: str,
    threads: int,
    arrays: list[Array],
    arguments: list[Argument],
    shared: int = 0,
    ctas: int = 1,
    cluster: int = 1,
) -> Launch:
    return Launch(
        kernel,
        (ctas, 1, 1),
        (threads, 1, 1),
        tuple(arrays),
        tuple(arguments),
        (cluster, 1, 1),
        shared,
    ).validate()


def operand_array(name: str, dtype: str, count: int, seed: int, limit: int = 4) -> Array:
    """`count` small integers of a matrix dtype, laid out flat."""
    lo = 0 if dtype == "u8" else -limit
    return Array(name, dtype, (count,), Integers(lo, limit, seed), role="in")
