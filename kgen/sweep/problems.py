"""Problem lists of a sweep: in the file itself, or a CSV or JSON list such as a model's layers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgen.files import read_regular
from kgen.sweep.model import ProblemSize

LONGEST_LIST = 1 << 20  # bytes
FIELDS = ("name", "m", "n", "k")


@dataclass(frozen=True, order=True)
class Problem:
    """D[M,N] = A[M,K] @ B[N,K].T, in elements, and what reports call it."""

    m: int
    n: int
    k: int
    name: str

    @property
    def size(self) -> tuple[int, int, int]:
        """M, N, K."""
        return self.m, self.n, self.k

    @property
    def flops(self) -> int:
        """Multiply-adds count twice."""
        return 2 * self.m * self.n * self.k

    @property
    def label(self) -> str:
        """MxNxK."""
        return f"{self.m}x{self.n}x{self.k}"


class ProblemError(ValueError):
    """A problem that is none, with its index in the list; -1 where the list itself is wrong."""

    def __init__(self, index: int, what: str) -> None:
        self.index = index
        super().__init__(what)


def problem_of(value: Any) -> Problem:
    """A problem from [m, n, k] or a map. Raises ValueError saying what is wrong."""
    if isinstance(value, list | tuple):
        if len(value) != 3:
            raise ValueError(f"{len(value)} numbers; a problem is [m, n, k]")
        value = dict(zip(("m", "n", "k"), value, strict=True))
    if not isinstance(value, dict):
        raise ValueError("a problem is [m, n, k], or a map of m, n, k and name")
    try:
        size = ProblemSize.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}") from None
    return Problem(size.m, size.n, size.k, size.name or f"{size.m}x{size.n}x{size.k}")


def problems_of(values: Iterable[Any]) -> tuple[Problem, ...]:
    """Every problem once; of two of one size the first keeps its name. Raises ProblemError."""
    found: dict[tuple[int, int, int], Problem] = {}
    for index, value in enumerate(values):
        try:
            problem = problem_of(value)
        except ValueError as error:
            raise ProblemError(index, str(error)) from None
        found.setdefault(problem.size, problem)
    if not found:
        raise ProblemError(-1, "no problem in the list")
    return tuple(found.values())


def read_problems(path: Path) -> tuple[Problem, ...]:
    """Problems of a `.csv` (columns m, n, k and perhaps name) or `.json` file (a list).

    Raises  ProblemError; OSError where the file cannot be read
    """
    raw = read_regular(path, LONGEST_LIST)
    if len(raw) > LONGEST_LIST:
        raise ProblemError(-1, f"{path}: more than {LONGEST_LIST} bytes")
    try:
        text = raw.decode("utf-8-sig")
        values = list(_csv_rows(text)) if path.suffix == ".csv" else _json_rows(text)
        return problems_of(values)
    except ProblemError as error:
        where = f"{path}: " + (f"entry {error.index + 1}: " if error.index >= 0 else "")
        raise ProblemError(-1, where + str(error)) from None
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise ProblemError(-1, f"{path}: {error}") from None


def _csv_rows(text: str) -> Iterator[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = [name.strip().lower() for name in reader.fieldnames or []]
    if not {"m", "n", "k"} <= set(names):
        raise ProblemError(-1, f"wants a first line with columns m, n, k; it is {', '.join(names)}")
    reader.fieldnames = names
    for row in reader:
        kept = {key: row[key] for key in FIELDS if row.get(key)}
        yield {key: _number(x) if key != "name" else x for key, x in kept.items()}


def _number(text: str) -> Any:
    return int(text) if text.strip().isdecimal() else text


def _json_rows(text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except RecursionError:
        raise ProblemError(-1, "nested too deeply") from None
    if not isinstance(values, list):
        raise ProblemError(-1, "wants a JSON list of problems")
    keep = (*FIELDS,)
    return [{k: v for k, v in x.items() if k in keep} if isinstance(x, dict) else x for x in values]
