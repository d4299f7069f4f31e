"""The tuner of the any-scale balanced samplers: sigma and alpha, then the curvature, then sigma and alpha again."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.curvature import GradientDifferences, diagonal_max, diagonal_shift, diagonal_trace
from ebmlab.samplers.tuners.jump_distance import JumpDistance
from ebmlab.samplers.tuners.tuner import Tuner

DIAGONALS = {"shift": diagonal_shift, "max": diagonal_max, "trace": diagonal_trace}


class AnyScaleTuner(Tuner):
    """Tunes all settings of an `AnyScale` sampler (Sun et al. 2023, Alg. 1).

    The first half of the steps searches sigma and alpha with W = D = 0 and records the moves of the chains. Then W is
    fitted to these moves by least squares, and D follows from W by the rule of the sampler's variant. The second half
    searches sigma and alpha again. Variant `first` has no W: all its steps search sigma and alpha.

    Args:
        search: how sigma and alpha are searched; `JumpDistance()` when None.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import AnyScale
        >>> from ebmlab.samplers.tuners import AnyScaleTuner
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = AnyScaleTuner().tune(AnyScale("trace"), ising, ising.domain.random(50), num_steps=40)
        >>> tuned.curvature.shape
        torch.Size([9, 9])
    """

    def __init__(self, search: JumpDistance | None = None) -> None:
        self.search = JumpDistance() if search is None else search

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, AnyScale):
            raise UserError(f"AnyScaleTuner tunes AnyScale samplers, not {type(sampler).__name__}; try JumpDistance")
        self.search.check(sampler)

    def _tune(self, sampler: AnyScale, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        assert isinstance(energy.domain, Finite)
        if sampler.variant == "first":
            return self.search.tune(sampler, energy, x, num_steps)
        sampler.set_curvature(None)
        pairs = GradientDifferences(energy.domain.size, x.device)

        def observe(before: Any, after: Any) -> None:
            pairs.add(after.x - before.x, before.grad - after.grad)  # f = -E

        state = self.search.search(sampler, energy, sampler.init(energy, x), num_steps // 2, observe)
        W = pairs.curvature().to(x)
        if sampler.variant == "diagonal":
            sampler.set_curvature(W.diagonal().clone())
        else:
            sampler.set_curvature(W, DIAGONALS[sampler.variant](W))
        state = self.search.search(sampler, energy, state, num_steps - num_steps // 2)
        return sampler, state.x
