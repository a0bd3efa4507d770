"""A quantiser for torch tensors: what a kernel with block scales is given, and what it means.

It rounds as `kgen.blockscale.quantise`, on the CPU, so it is for references and not for speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.blockscale import pack_scales, quantise


@dataclass(frozen=True)
class QuantisedTensor:
    """A matrix (rows, K) as a launch takes it; tensors on the device of the matrix.

    elements  uint8 (rows, K), or (rows, K / 2) for four bits: even K in the low half
    scales    uint8 (bytes,), in the layout of `<name>_pack_scales`
    values    float32 (rows, K): element x scale, without the global scale
    """

    elements: Any
    scales: Any
    values: Any
    global_scale: float


def quantise_tensor(
    matrix: Any, name: str, scale: str, block: int, *, with_global: bool = False
) -> QuantisedTensor:
    """Quantise a torch tensor (rows, K) of any floating type.

    A block's scale is its largest magnitude over the type's largest value; scales and elements
    round to nearest even and saturate.
    with_global  one more factor for the matrix; the launch's alpha is that of A times that of B
    """
    import torch

    found = quantise(
        matrix.detach().double().cpu().numpy(), name, scale, block, with_global=with_global
    )

    def there(array: Any) -> Any:
        return torch.from_numpy(array).to(matrix.device)

    packed = pack_scales(found.layout, found.scales)
    return QuantisedTensor(
        there(found.storage), there(packed), there(found.values()), found.global_scale
    )
