"""The tuner of the any-scale balanced samplers: sigma and alpha, then the curvature, then sigma and alpha again."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.energies.pairwise.pairwise import Pairwise
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.curvature import GradientDifferences, diagonal_max, diagonal_shift, diagonal_trace
from ebmlab.samplers.tuners.pattern_search import PatternSearch, Setting, warn_of_an_early_end
from ebmlab.samplers.tuners.tuner import Tuner

DIAGONALS = {"shift": diagonal_shift, "max": diagonal_max, "trace": diagonal_trace}
LARGE = 100.0  # in units of the domain's width squared; exp(-|y_i - x_i|^2 / (2 sigma)) is then 0.995 or more
RUNGS = 4  # of the ladder of step sizes from the first search's to the largest


class AnyScaleTuner(Tuner):
    """Tunes all settings of an `AnyScale` sampler (Sun et al. 2023, Alg. 1).

    The first half of the steps searches sigma and alpha with W = D = 0 and records the moves of the chains. Then W is
    fitted to these moves by least squares, and D follows from W by the rule of the sampler's variant. The second half
    searches sigma and alpha again. It starts at alpha = 1 and a sigma so large that it has no effect. No proposal is
    rejected there if the quadratic fit is exact. Its first round also tries the setting of the first search, and step
    sizes between the two. A warning says so if the steps ended before the search. Variant `first` has no W: all its
    steps are one search. Variant `edges` takes for W the couplings of the energy, an Ising model: all its steps are the
    second search.

    Args:
        search: how sigma and alpha are searched; `PatternSearch()` when None.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import AnyScale
        >>> from ebmlab.samplers.tuners import AnyScaleTuner
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = AnyScaleTuner().tune(AnyScale("trace"), ising, ising.domain.random(50), num_steps=600)
        >>> tuned.curvature.shape
        torch.Size([9, 9])
    """

    def __init__(self, search: PatternSearch | None = None) -> None:
        self.search = PatternSearch() if search is None else search

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, AnyScale):
            raise UserError(f"AnyScaleTuner tunes AnyScale samplers, not {type(sampler).__name__}; try PatternSearch")

    def _tune(self, sampler: AnyScale, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        assert isinstance(energy.domain, Finite)
        if sampler.variant == "first":
            x, over = self.search.search(sampler, energy, x, num_steps)
        elif sampler.variant == "edges":
            sampler.set_curvature(_couplings(energy))
            others = _start_of_the_second_search(sampler, energy.domain)
            x, over = self.search.search(sampler, energy, x, num_steps, others=others)
        else:
            sampler.set_curvature(None)
            pairs = GradientDifferences(energy.domain.size, x.device)

            def observe(before: Any, after: Any) -> None:
                pairs.add(after.x - before.x, before.grad - after.grad)  # f = -E

            x, _ = self.search.search(sampler, energy, x, num_steps // 2, observe=observe)
            W = pairs.curvature().to(x)
            if sampler.variant == "diagonal":
                sampler.set_curvature(W.diagonal().clone())
            else:
                sampler.set_curvature(W, DIAGONALS[sampler.variant](W))
            others = _start_of_the_second_search(sampler, energy.domain)
            x, over = self.search.search(sampler, energy, x, num_steps - num_steps // 2, others=others)
        if not over:
            warn_of_an_early_end(sampler)
        return sampler, x


def _couplings(energy: Energy) -> Edges:
    if not isinstance(energy, Pairwise):
        raise UserError(
            f"AnyScaleTuner: variant edges takes the couplings of an energy over pairs, such as Ising, but "
            f"{type(energy).__name__} has none: take another variant"
        )
    return energy.edges()


def _start_of_the_second_search(sampler: AnyScale, domain: Finite) -> list[Setting]:
    """Sets sigma to a large value and alpha to 1. Returns what else to try: the setting before, and those between."""
    before = float(sampler.step_size), float(sampler.balance)
    width = float(domain.values.max() - domain.values.min())
    largest = LARGE * width**2
    sampler.step_size.fill_(largest)
    sampler.balance.fill_(1.0)
    return [before, *((largest * (before[0] / largest) ** (k / RUNGS), 1.0) for k in range(1, RUNGS + 1))]
