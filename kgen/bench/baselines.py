"""cuBLAS through torch.mm as a baseline, on the candidate's own buffers. Imports torch only when
called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgen.errors import DeviceError, KgenError

TORCH_F32 = "torch.mm"
TORCH_F16 = "torch.mm, f16 accumulation"
# Raw storage has no bf16; torch sees those bits as its own type.
_VIEWS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            "the baseline needs torch; fix: pip install cupy-cuda13x cuda-bindings torch"
        ) from error
    return torch


def as_tensor(array: Any, name: str) -> Any:
    """Raw storage as a torch tensor of format `name`, sharing its memory.

    Raises  KgenError for a format without a torch type here
    """
    torch = _torch()
    if name not in _VIEWS:
        raise KgenError(f"no torch type for {name!r}; known: {', '.join(_VIEWS)}")
    return torch.from_dlpack(array).view(getattr(torch, _VIEWS[name]))


def torch_mm(
    a: Any, b: Any, d: Any, formats: tuple[str, str, str], *, f16_accumulation: bool = False
) -> Callable[[], None]:
    """A launcher of d = a @ b.T through torch.mm, as a user of torch would get it.

    Shapes  a (M, K), b (N, K), d (M, N) raw storage, cupy or numpy; formats: names of a, b and d
    f16_accumulation  let cuBLAS accumulate in f16; the switch is global, so each launch sets and
        restores it
    """
    torch = _torch()
    left, right, out = (as_tensor(x, name) for x, name in zip((a, b, d), formats, strict=True))
    turned = right.T
    switches = torch.backends.cuda.matmul

    def launch() -> None:
        torch.mm(left, turned, out=out)

    def launch_f16() -> None:
        before = switches.allow_fp16_accumulation
        switches.allow_fp16_accumulation = True
        try:
            torch.mm(left, turned, out=out)
        finally:
            switches.allow_fp16_accumulation = before

    return launch_f16 if f16_accumulation else launch
