"""Has a sampler take its steps by kernels in Triton."""

from __future__ import annotations

from importlib import import_module
from itertools import chain

import torch

from ebmlab.domains import Domain
from ebmlab.energies import RBM, Energy, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.fused.interpreter import require_triton
from ebmlab.samplers import DMALA, BlockGibbs, ChromaticGibbs, GibbsSweep, Kernel, Sampler

FORMS: dict[tuple[type[Sampler], type[Energy]], str] = {  # each is a module of this folder
    (DMALA, RBM): "dmala",
    (BlockGibbs, RBM): "block_gibbs",
    (ChromaticGibbs, Ising): "colours",
    (GibbsSweep, Potts): "potts",
}


class Fused(Sampler):
    """Takes the steps of another sampler by kernels in Triton: the same law from other random numbers.

    A plain step on a GPU is dozens of small operations, whose results pass through memory. Fused, it is two or three.
    Neither the energy nor the sampler may be of a derived class, which might change what a step does. Energies are in
    float32. After `torch.set_float32_matmul_precision("high")` tensor cores multiply bits with three bfloat16 pieces of
    the weights, which lose no digit. They round the other product of a gradient, which only proposes. No GPU has
    run these kernels yet: they are tested on Triton's interpreter (`TRITON_INTERPRET=1`).

    Args:
        sampler: `DMALA` without options or `BlockGibbs`, both on an `RBM` whose hidden units are bits; `ChromaticGibbs`
            on an `Ising` model (`SignedGraph` where all couplings are +J and -J); or `GibbsSweep` on a `Potts` model.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.fused import Fused
        >>> from ebmlab.samplers import DMALA
        >>> sampler = Fused(DMALA(step_size=0.2))
        >>> if torch.cuda.is_available():
        ...     rbm = RBM(6, 3).cuda()
        ...     x, info = sampler.cuda().sample(rbm, rbm.random(4), num_steps=10)
    """

    domains = (Domain,)

    def __init__(self, sampler: Sampler) -> None:
        super().__init__()
        self.sampler = sampler

    @property
    def exact(self) -> bool:
        return self.sampler.exact

    def check(self, energy: Energy) -> None:
        """Raises `UserError` unless there is a fused form of this sampler on this energy, and a machine to run it."""
        self.sampler.check(energy)
        mine, theirs = type(self.sampler), type(energy)
        if (mine, theirs) not in FORMS:
            pairs = ", ".join(f"{s.__name__} on {e.__name__}" for s, e in FORMS)
            raise UserError(f"Fused has no kernel for {mine.__name__} on {theirs.__name__}, but for {pairs}")
        require_triton(next(chain(energy.parameters(), energy.buffers())).device)
        if energy.dtype != torch.float32:
            raise UserError(f"Fused computes in float32, but {theirs.__name__} is in {energy.dtype}: call float()")

    def kernel_on(self, energy: Energy) -> Kernel:
        self.check(energy)
        module = import_module(f"ebmlab.fused.{FORMS[type(self.sampler), type(energy)]}")
        kernel: Kernel = module.kernel(self.sampler, energy)
        return kernel

    def compilable(self, energy: Energy) -> None:
        """No kernel: there is nothing left to compile."""
