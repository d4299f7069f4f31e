"""Whether samples of any origin follow the law of an energy: z-scores of its mean, of sites and of pairs."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.evaluation.effective_sample_size import effective_sample_size
from ebmlab.evaluation.exact import all_states

DOUBT = 1e-3  # probability below which a deviation is no accident
FEW = 30  # samples below which means are not compared
EVENTS = 5  # rare values that are expected at least, where the error of a mean is taken for normal
BATCH = 2**14


@dataclass(frozen=True)
class LawCheck:
    """The deviations of samples from a law.

    Attributes:
        count: samples.
        distinct: different states among them.
        names: of the statistics: `E`, `x0`, `x0 x1`, ...
        found: their means over the samples.
        expected: their means under the law.
        z: differences in standard errors.

    Example:
        >>> zeros, ones, z = torch.zeros(2), torch.ones(2), torch.tensor([-1.0, 5.0])
        >>> check = LawCheck(100, 9, names=("E", "x0"), found=zeros, expected=ones, z=z)
        >>> check.worst, check.follows, f"{check.p:.1e}"
        (1, False, '1.1e-06')
    """

    count: int
    distinct: int
    _: KW_ONLY
    names: tuple[str, ...]
    found: Tensor
    expected: Tensor
    z: Tensor

    @property
    def worst(self) -> int:
        """The statistic that deviates most."""
        return int(self.z.abs().nan_to_num(math.inf).argmax())

    @property
    def p(self) -> float:
        """The chance that any of them deviates as much under the law (Bonferroni's bound)."""
        z = float(self.z.abs().nan_to_num(math.inf).max())
        return min(1.0, len(self.names) * math.erfc(z / math.sqrt(2)))

    @property
    def follows(self) -> bool:
        """Whether nothing speaks against the law."""
        return self.p >= DOUBT

    def __str__(self) -> str:
        worst, verdict = self.worst, "no sign against the law" if self.follows else "NOT samples of the law"
        return (
            f"{verdict} (p {self.p:.2g}): mean energy {self.found[0]:.5g}, expected {self.expected[0]:.5g}; largest "
            f"deviation {self.names[worst]} {self.found[worst]:.4g}, expected {self.expected[worst]:.4g} "
            f"(z {self.z[worst]:.1f}); {self.distinct} of {self.count} samples are distinct"
        )


@torch.no_grad()
def law_check(energy: Energy, x: Tensor, *, reference: Tensor | None = None) -> LawCheck:
    """Compares means over samples with those under exp(-E(x)) / Z.

    Independent samples are taken as such. Of chains each statistic counts with its effective sample size.

    Args:
        energy: on bits, spins or ordinal numbers.
        x: independent samples `(n, *event)`, or chains `(num_steps, num_chains, *event)`.
        reference: samples that are known to follow the law, in one of both forms, for energies with too many states to
            sum over.

    Raises:
        UserError: there are too few samples, or too many states and no reference.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_samples
        >>> energy = Ising.lattice(3, coupling=0.3, field=0.1)
        >>> law_check(energy, exact_samples(energy, 1000)).follows, law_check(energy, energy.random(1000)).follows
        (True, False)
    """
    domain = energy.domain
    if not isinstance(domain, Binary | Spin | Ordinal):
        raise UserError(f"the check needs bits, spins or ordinal numbers, {type(energy).__name__} lives on {domain}")
    upper = torch.triu_indices(domain.size, domain.size, 1)
    rare = _rare(domain, upper)
    states = _states(energy, x)
    found = _statistics(energy, states, upper)
    sizes = _sizes(found, x, domain)
    if reference is None:
        mean, variance = _exact(energy, domain, upper)
        error = torch.maximum(variance, rare / sizes) / sizes
    else:
        values = _statistics(energy, _states(energy, reference), upper)
        mean, known = values.mean(0), _sizes(values, reference, domain)
        error = torch.maximum(found.var(0), rare / sizes) / sizes
        error += torch.maximum(values.var(0), rare / known) / known
    gap = found.mean(0) - mean
    scale = 1e-9 * (1 + mean.abs())  # of rounding, where a statistic is constant
    z = torch.where(gap.abs() <= scale, 0.0, gap / (error.sqrt() + scale))
    names = ("E", *(f"x{i}" for i in range(domain.size)), *(f"x{i} x{j}" for i, j in upper.T.tolist()))
    distinct = len(torch.unique(states.flatten(1), dim=0))
    return LawCheck(len(states), distinct, names=names, found=found.mean(0), expected=mean, z=z)


def _states(energy: Energy, x: Tensor) -> Tensor:
    """Samples or chains as states of the energy, `(n, *event)`."""
    states = energy.as_states(x.reshape(-1, *energy.domain.event_shape)).to(energy.device)
    energy.domain.validate(states)
    if len(states) < FEW:
        raise UserError(f"the check needs at least {FEW} samples, got {len(states)}")
    return states


def _statistics(energy: Energy, x: Tensor, upper: Tensor) -> Tensor:
    """E, x_i and x_i x_j of each state, float64 `(n, 1 + d + d (d - 1) / 2)`, on the CPU."""
    flat = x.flatten(1).double().cpu()
    energies = torch.cat([energy(part) for part in torch.split(x, BATCH)]).double().cpu()
    return torch.cat([energies[:, None], flat, flat[:, upper[0]] * flat[:, upper[1]]], 1)


def _exact(energy: Energy, domain: Finite, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances of all statistics under the law."""
    total = torch.tensor(-math.inf, dtype=torch.float64)
    sums = torch.zeros(2, 1 + domain.size + upper.shape[1], dtype=torch.float64)  # of the statistics and their squares
    for part in all_states(domain, BATCH, energy):
        x, energies = part.flatten(1).double(), energy(part.to(energy.device, energy.dtype)).double().cpu()
        new = torch.logaddexp(total, (-energies).logsumexp(0))
        weights = (-energies - new).exp()
        sums *= (total - new).exp()
        for row, (values, states) in zip(sums, ((energies, x), (energies.square(), x.square())), strict=True):
            pairs = (states.T @ (weights[:, None] * states))[upper[0], upper[1]]
            row += torch.cat([(weights @ values).view(1), weights @ states, pairs])
        total = new
    mean, square = sums
    return mean, (square - mean.square()).clamp(min=0)


def _rare(domain: Finite, upper: Tensor) -> Tensor:
    """The variance, times the number of samples, of a statistic that takes its rarest value `EVENTS` times."""
    values = domain.values.double()
    products = values[:, None] * values
    site, pair = (float((v.max() - v.min()).square()) for v in (values, products))
    zeros = torch.zeros(1, dtype=torch.float64)
    return EVENTS * torch.cat([zeros, zeros.new_full((domain.size,), site), zeros.new_full((upper.shape[1],), pair)])


def _sizes(found: Tensor, x: Tensor, domain: Finite) -> Tensor | float:
    """How many independent samples each mean over samples or chains x is worth."""
    if x.dim() != 2 + len(domain.event_shape):
        return float(len(found))
    sizes = effective_sample_size(found.view(*x.shape[:2], -1)).clamp(min=1)
    constant = found.amax(0) == found.amin(0)  # which says nothing of how fast the chains move
    least = float(sizes[~constant].min()) if not constant.all() else float(x.shape[1])
    return sizes.masked_fill(constant, least)
