"""Kernels in C++ for a CPU, where they are ahead of torch's. They are compiled once on a machine with a compiler."""

from ebmlab.native.bit_products import add_product, affine
from ebmlab.native.block_gibbs import block_gibbs_steps
from ebmlab.native.dmala import dmala_steps
from ebmlab.native.few_chains import Moved, Weights

__all__ = ["Moved", "Weights", "add_product", "affine", "block_gibbs_steps", "dmala_steps"]
