"""The golden file: what a GPU left in memory after each micro-test, small enough to commit.

An .npz with `index` (JSON text) and `data` (bytes). Arrays up to FULL_BYTES are kept whole, larger
ones as a digest. The index also holds the digest of each module's PTX, so that a golden file of
other kernels is noticed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FULL_BYTES = 2304


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


def module_digest(text: str) -> str:
    """Of PTX text, comments and blank lines left out."""
    lines = (line.split("//")[0].strip() for line in text.splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()[:32]


@dataclass
class Golden:
    """results: case -> array -> bytes, whole or (in `digested`) only their digest."""

    modules: dict[str, str]
    device: str = ""
    results: dict[str, dict[str, bytes]] = field(default_factory=dict)
    digested: set[tuple[str, str]] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)

    def matches(self, case: str, array: str, data: bytes) -> bool:
        expected = self.results[case][array]
        return expected == (digest(data) if (case, array) in self.digested else data)

    def save(self, path: Path, full_bytes: int = FULL_BYTES) -> None:
        """full_bytes: arrays above this size are written as digests."""
        index: dict[str, dict[str, list[int | bool]]] = {}
        data, at = [], 0
        for case, arrays in self.results.items():
            for name, content in arrays.items():
                digested = (case, name) in self.digested
                if len(content) > full_bytes:
                    content, digested = digest(content), True
                index.setdefault(case, {})[name] = [at, len(content), digested]
                data.append(content)
                at += len(content)
        head = {
            "device": self.device,
            "modules": self.modules,
            "failures": self.failures,
            "cases": index,
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        np.savez_compressed(
            path, index=np.frombuffer(text, np.uint8), data=np.frombuffer(b"".join(data), np.uint8)
        )


def load(path: Path) -> Golden:
    with np.load(path) as stored:
        head, data = json.loads(stored["index"].tobytes()), stored["data"].tobytes()
    golden = Golden(head["modules"], head["device"], failures=head["failures"])
    for case, arrays in head["cases"].items():
        for name, (at, size, digested) in arrays.items():
            golden.results.setdefault(case, {})[name] = data[at : at + size]
            if digested:
                golden.digested.add((case, name))
    return golden
