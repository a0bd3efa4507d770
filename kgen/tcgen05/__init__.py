"""The tcgen05 instructions as data: which forms exist, and the bits of their descriptors.

ptxas looks into neither descriptor, so what is legal is decided here and nowhere else.
"""

from kgen.tcgen05.descriptor import MatrixDescriptor, k_major, mn_major, scale_block
from kgen.tcgen05.forms import Finding, IllegalMma, MmaForm, MmaRequest, mma_form
from kgen.tcgen05.kinds import BlockScale, Kind, kind_of

__all__ = [
    "BlockScale",
    "Finding",
    "IllegalMma",
    "Kind",
    "MatrixDescriptor",
    "MmaForm",
    "MmaRequest",
    "k_major",
    "kind_of",
    "mma_form",
    "mn_major",
    "scale_block",
]
