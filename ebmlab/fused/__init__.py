"""Steps that are a few kernels in Triton each, for NVIDIA GPUs. No GPU has run them yet.

A file of this folder is one algorithm. Its `kernel(sampler, energy)` offers `start` and `step` as `Sampler.kernel_on`
does, so that the engine runs them as any others, also as a CUDA graph. `FORMS` in `fused.py` says which sampler on
which energy has such a file, both by their exact class. A file is imported when it is asked for, and Triton with it.

Programs of one kernel never wait for each other. What a chain needs from several tiles is written as a number for each
tile, and the next kernel adds these up. Random numbers are a function of a seed, which torch's generator draws for each
step, and of the place of the number that they decide.
"""

from ebmlab.fused.fused import Fused
from ebmlab.fused.signed_graph import SignedGraph
from ebmlab.fused.square_lattice import SquareLattice

__all__ = ["Fused", "SignedGraph", "SquareLattice"]
