"""Losses without chains: ratio matching over all or some neighbours, and energy discrepancy."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.energies.accumulated import Accumulated
from ebmlab.energies.energy import Around
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded
from ebmlab.learners.neighbours import estimated_falls, number_of_neighbours, rises
from ebmlab.learners.objectives import Bounded, Exponential, Objective
from ebmlab.learners.perturbations import perturbed
from ebmlab.native import uniform
from ebmlab.numerics.noise import uniform_numbers, wide
from ebmlab.numerics.products import fast_products
from ebmlab.numerics.unrounded import no_autocast
from ebmlab.settings import require_count, require_factor, require_inside, require_one_each, require_positive

ROWS = 2**12  # largest number of neighbours whose autograd graph is in memory at once

Form = Literal["bounded", "exponential"]


class Estimator(Recorded):
    """A loss of an energy on data. It uses no chains and keeps nothing from one step to the next.

    Attributes:
        domains: kinds of domain on which it is defined.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import Estimator, Exact
        >>> estimator: Estimator = Exact()
        >>> estimator.loss(RBM(6, 3), RBM(6, 3).random(4)).shape
        torch.Size([])
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (Binary, Spin)

    def loss(self, energy: Energy, x: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The mean loss over states x `(B, *event)`, times their weights `(B,)` if given, a scalar to differentiate."""
        raise NotImplementedError


class Exact(Estimator):
    """The sum over all one-flip neighbours: exact ratio matching (Liu et al. 2023, Eq. 2 and 3).

    Where a coordinate has q values, a state has q - 1 neighbours there. The bounded form compares each with x by their
    own ratio, so that its minimum is still at the law of the data.

    Its time grows with the number of neighbours; its memory does not.

    Args:
        objective: `bounded` (Eq. 2) or `exponential` (Eq. 3).

    Example:
        >>> from ebmlab.energies import Ising
        >>> ising = Ising.learnable(9)
        >>> Exact().loss(ising, ising.random(4))  # E is 0: 9 neighbours with sigmoid(0)^2 each
        tensor(2.2500, grad_fn=<_KnownBackward>)
    """

    domains = (Finite,)

    def __init__(self, objective: Form = "bounded") -> None:
        self.objective = make_objective(objective)

    def loss(self, energy: Energy, x: Tensor, *, weights: Tensor | None = None) -> Tensor:
        everything = torch.arange(_size(energy), device=x.device).expand(len(x), -1)
        with fast_products(energy, min(ROWS, everything.numel())):
            return _mean_of_sums(energy, x, energy.around(x), self.objective, everything, _column(x, weights))


class UniformSubset(Estimator):
    """RMwRAND: neighbours drawn uniformly without replacement; unbiased (Liu et al. 2023, Sec. 5.1).

    Args:
        num_samples: s, number of neighbours drawn for each state.
        objective: `bounded` (Eq. 2) or `exponential` (Eq. 3).

    Example:
        >>> from ebmlab.energies import Ising
        >>> ising = Ising.learnable(9)
        >>> float(UniformSubset(num_samples=3).loss(ising, ising.random(4)).detach())
        2.25
    """

    domains = (Finite,)

    def __init__(self, num_samples: int = 10, objective: Form = "bounded") -> None:
        require_count("UniformSubset", num_samples=num_samples)
        self.num_samples = num_samples
        self.objective = make_objective(objective)

    def loss(self, energy: Energy, x: Tensor, *, weights: Tensor | None = None) -> Tensor:
        size = _size(energy)
        k = min(self.num_samples, size)
        index = uniform_numbers(len(x), size, device=x.device).topk(k, 1).indices
        with fast_products(energy, min(ROWS, index.numel())):
            each = _column(x, weights)
            return size / k * _mean_of_sums(energy, x, energy.around(x), self.objective, index, each)


class GradientGuided(Estimator):
    """RMwGGIS: neighbours drawn in proportion to a first-order estimate of their terms (Liu et al. 2023, Alg. 1).

    The proposal n(i) is proportional to f at (x_i - y_i) dE/dx_i, the first-order estimate of E(x) - E(x_-i). For the
    exponential objective this is Eq. 10: softmax(2 (2x - 1) dE/dx) on bits. Neighbours are drawn with replacement, as
    in the paper. Neither the proposal nor the weights are differentiated.

    Args:
        num_samples: s, number of neighbours drawn for each state.
        advanced: if true, add the drawn terms without weights (Eq. 11). This is biased: it overweights likely
            neighbours. The exponential form then has its minimum where q(x)^6 times the sum of q(y)^2 over x's
            neighbours y is proportional to the data's law. For many bits near 1/2 q is its power 1/8, in place of 1/4.
            If false, weight the terms by 1 / (s n(i)), which is unbiased (Eq. 6). The paper prefers true, with the
            exponential form; with the bounded form false draws the shapes of `configs/rm_*.yaml`.
        objective: `bounded` (Eq. 2) or `exponential` (Eq. 3).

    Example:
        >>> from ebmlab.energies import Ising
        >>> ising = Ising.learnable(9)
        >>> round(float(GradientGuided(num_samples=3).loss(ising, ising.random(4)).detach()), 4)
        2.25
    """

    domains = (Finite,)

    def __init__(self, num_samples: int = 10, advanced: bool = False, *, objective: Form = "bounded") -> None:
        require_count("GradientGuided", num_samples=num_samples)
        self.num_samples = num_samples
        self.advanced = advanced
        self.objective = make_objective(objective)

    def loss(self, energy: Energy, x: Tensor, *, weights: Tensor | None = None) -> Tensor:
        with fast_products(energy, min(ROWS, len(x) * self.num_samples)):
            around, grad = _around_and_grad(energy, x)
            proposal = self.proposal(energy, x, grad)
            index = _draw(proposal, self.num_samples)
            factors = _column(x, weights)
            if not self.advanced:
                importance = (self.num_samples * proposal.gather(1, index)).reciprocal()
                factors = importance if factors is None else importance * factors
            return _mean_of_sums(energy, x, around, self.objective, index, factors)

    def proposal(self, energy: Energy, x: Tensor, grad: Tensor) -> Tensor:
        """n(i) of all K neighbours, `(B, K)`, from x and dE/dx `(B, *event)`; for bits K is their number."""
        assert isinstance(energy.domain, Finite)
        return wide(self.objective.log(estimated_falls(energy.domain, x, grad))).softmax(1)


class EnergyDiscrepancy(Estimator):
    """Energy discrepancy (Schroeder et al., 2023, Energy Discrepancies; on mixed tables 2024, arXiv 2412.01019).

    The loss is log(w / M + mean of exp(E(x) - E(z_j)) over j = 1..M). Here z_j is x perturbed twice: y is x with noise,
    and every z_j is y with noise again (`perturbed`). Bits, spins and categories change with the probability p, and
    real numbers get normal noise. It needs only energies, no gradients in x and no chains, and takes any domain.

    What it cannot see: the weights of modes that hardly any noise connects. More noise sees them, but makes the mean
    over few z_j coarser.

    Args:
        num_samples: M, number of perturbed states for each state of the data.
        flip_probability: p, above 0 and up to 1/2.
        noise_level: standard deviation of the noise on real numbers, in the units of the states.
        stabilizer: w, at least 0. A positive w bounds the loss from below, which matters for a small M.

    Example:
        >>> from ebmlab.energies import Ising
        >>> ising = Ising.learnable(9)
        >>> loss = EnergyDiscrepancy(num_samples=4, stabilizer=0.0).loss(ising, ising.random(4))
        >>> float(loss.detach())  # E is 0 everywhere
        0.0
    """

    domains = (Domain,)

    def __init__(
        self,
        num_samples: int = 32,
        flip_probability: float = 0.1,
        *,
        noise_level: float = 0.5,
        stabilizer: float = 1.0,
    ) -> None:
        require_count("EnergyDiscrepancy", num_samples=num_samples)
        self.num_samples = num_samples
        require_inside("EnergyDiscrepancy", "(0, 0.5]", flip_probability=flip_probability)
        require_positive("EnergyDiscrepancy", noise_level=noise_level)
        require_factor("EnergyDiscrepancy", stabilizer=stabilizer)
        self.flip_probability = flip_probability
        self.noise_level = noise_level
        self.stabilizer = stabilizer

    def loss(self, energy: Energy, x: Tensor, *, weights: Tensor | None = None) -> Tensor:
        require_one_each("loss", weights, len(x))
        total = Accumulated(energy.parameters())
        with fast_products(energy, min(ROWS, len(x) * self.num_samples)):
            each = x.new_ones(len(x)) if weights is None else weights.to(x)
            size = max(1, ROWS // self.num_samples)
            for part, weight in zip(torch.split(x, size), torch.split(each, size), strict=True):
                y = self._perturb(energy, part)
                z = self._perturb(energy, y.repeat_interleave(self.num_samples, 0))
                rise = energy(part).unsqueeze(1) - energy(z).view(len(part), -1)
                log_w = rise.new_full((len(part), 1), self.stabilizer).log()
                total.add((weight * torch.cat([log_w, rise], 1).logsumexp(1)).sum() / len(x))
        return total.value() - each.mean() * math.log(self.num_samples)

    def _perturb(self, energy: Energy, x: Tensor) -> Tensor:
        noise = {"flip_probability": self.flip_probability, "noise_level": self.noise_level}
        return perturbed(energy.domain, x, **noise)


def _column(x: Tensor, weights: Tensor | None) -> Tensor | None:
    """Weights of states `(B,)` as factors of all their neighbours, `(B, 1)`."""
    require_one_each("loss", weights, len(x))
    return None if weights is None else weights.unsqueeze(1)


def make_objective(name: str) -> Objective:
    """Makes the objective with the given name."""
    if name not in ("bounded", "exponential"):
        raise UserError(f'objective is "{name}", but must be "bounded" (Eq. 2) or "exponential" (Eq. 3)')
    return Bounded() if name == "bounded" else Exponential()


def _mean_of_sums(
    energy: Energy, x: Tensor, around: Around, objective: Objective, index: Tensor, factors: Tensor | None
) -> Tensor:
    """Mean over x `(B, *event)` of the sum over k of w_k f(E(x) - E(x_-k)), for neighbours `index` `(B, K)`.

    The factors w are `(B, K)`, or `(B, 1)` for all neighbours alike; 1 when None.
    """
    factors = None if factors is None else factors.expand(index.shape)
    total = Accumulated(energy.parameters(), around)
    width = max(1, ROWS // len(x))
    for begin in range(0, index.shape[1], width):
        columns = slice(begin, begin + width)
        terms = objective(-rises(energy, x, index[:, columns], total.shared))
        total.add((terms if factors is None else factors[:, columns] * terms).sum() / len(x))
    return total.value()


def _around_and_grad(energy: Energy, x: Tensor) -> tuple[Around, Tensor]:
    """`energy.around(x)`, to differentiate, and dE/dx `(B, *event)`; one evaluation if autograd is on."""
    if not torch.is_grad_enabled():
        return energy.around(x), energy.value_and_grad(x)[1]
    x = x.detach().requires_grad_()
    around = energy.around(x)
    with no_autocast(x.device):
        return around, torch.autograd.grad(around[0].sum(), x, retain_graph=True)[0]


def _draw(probabilities: Tensor, k: int) -> Tensor:
    """Draws `(B, k)` indices with replacement from rows `(B, d)`; twice as fast as `multinomial` on a CPU."""
    up_to = probabilities.cumsum(1)
    total = up_to[:, -1:]
    where = torch.minimum(uniform(up_to.new_empty(len(up_to), k)) * total, total.nextafter(total.new_zeros(())))
    return torch.searchsorted(up_to, where, right=True).clamp_(max=up_to.shape[1] - 1)  # a row with NaN gives d


def _size(energy: Energy) -> int:
    assert isinstance(energy.domain, Finite)
    return number_of_neighbours(energy.domain)
