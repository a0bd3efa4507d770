"""The record that `make gpu` leaves: which sources its tests ran on a GPU, and how they ended."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from kgen.errors import KgenError
from kgen.files import read_regular
from kgen.records import LARGEST_BYTES


class _Tested(BaseModel):
    sources: dict[str, str]  # kernel name to source digest; the rest is for people


def stale_tests(record: Path, digests: dict[str, str]) -> dict[str, str]:
    """Kernels that were tested with another source than the current one, and that source's digest.

    digests  kernel name to current digest
    Raises  KgenError naming the file, if it is no such record
    """
    try:
        tested = _Tested.model_validate_json(read_regular(record, LARGEST_BYTES)).sources
    except ValidationError as error:
        first = error.errors()[0]
        raise KgenError(f"{record}: not a record of GPU tests: {first['msg']}") from error
    return {name: digest for name, digest in tested.items() if digests.get(name) != digest}
