"""The law exp(-E) / Z of an energy on a space that is small enough to enumerate."""

from __future__ import annotations

import copy

import torch
from scipy import stats
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.noise import categorical

MAX_STATES = 4096  # of a law: its transition matrices have the square of that many entries
RARE = 10  # expected counts; cells with fewer are joined


class ExactLaw:
    """The law exp(-E) / Z of an energy, state by state, in float64.

    Args:
        energy: on a finite domain with at most 4,096 states.
        caller: who asks, for error messages.

    Attributes:
        energy: a copy of the energy in float64.
        states: all states in the order of `domain.enumerate()`, `(N, *event)`.
        probabilities: their probabilities, `(N,)`.

    Raises:
        UserError: the domain is not finite or has too many states, or the energies give no law.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.testing import ExactLaw
        >>> ExactLaw(Ising([[0.0]], field=1.0)).probabilities  # e^-1 and e^1, normalised
        tensor([0.1192, 0.8808], dtype=torch.float64)
    """

    def __init__(self, energy: Energy, caller: str = "ExactLaw") -> None:
        domain, name = energy.domain, type(energy).__name__
        if not isinstance(domain, Finite) or domain.num_values**domain.size > MAX_STATES:
            has = "is not finite" if not isinstance(domain, Finite) else f"has {domain.num_values}^{domain.size} states"
            raise UserError(
                f"{caller}: {domain} of {name} {has}, but only spaces of at most {MAX_STATES} states are enumerated: "
                "take a smaller energy of the same kind, or assert_exact_starts, which knows no size"
            )
        self.domain = domain
        self.energy = copy.deepcopy(energy).double().requires_grad_(False)
        self.states = domain.enumerate().double()
        energies = self.energy(self.states).detach()
        if not (energies > -torch.inf).all() or not energies.isfinite().any():
            raise UserError(f"{caller}: {name} has no law: an energy is NaN or -inf, or all are inf")
        self.probabilities: Tensor = (-energies).softmax(0)

    def sample(self, n: int) -> Tensor:
        """Independent draws `(n, *event)`."""
        return self.states[categorical(self.probabilities.log(), num_draws=n)]

    def number(self, x: Tensor) -> Tensor:
        """The row of each x `(B, *event)` in `states`, `(B,)`."""
        digits = self.domain.to_index(x).flatten(1)
        powers = self.domain.num_values ** torch.arange(digits.shape[1] - 1, -1, -1)
        return (digits * powers).sum(1)

    def counts(self, x: Tensor) -> Tensor:
        """How often each state occurs in x `(B, *event)`, `(N,)`."""
        return torch.bincount(self.number(x), minlength=len(self.states))

    def p_value(self, x: Tensor) -> float:
        """Chi-square test that x are independent draws from this law."""
        return chi_square_p(self.counts(x), self.probabilities)

    def mean(self) -> Tensor:
        """The mean of x, `event_shape`."""
        return torch.einsum("n,n...->...", self.probabilities, self.states)

    def name(self, number: int) -> str:
        """How a message names a state."""
        state = self.domain.to_index(self.states[number : number + 1])[0].flatten()
        values = self.domain.values if self.domain.values.dim() == 1 else torch.arange(self.domain.num_values)
        return f"x = ({', '.join(f'{float(values[k]):g}' for k in state)})"


def chi_square_p(counts: Tensor, probabilities: Tensor) -> float:
    """p-value of Pearson's test; cells with fewer than 10 expected counts join the fullest cell.

    Args:
        counts: how often each cell has occurred, `(N,)`.
        probabilities: of the cells up to a factor, `(N,)`.

    Example:
        >>> import torch
        >>> from ebmlab.testing import chi_square_p
        >>> round(chi_square_p(torch.tensor([60, 40]), torch.tensor([0.5, 0.5])), 4)  # z = 2
        0.0455
    """
    expected = probabilities / probabilities.sum() * counts.sum()
    counts = counts.to(expected)
    rare, fullest = expected < RARE, expected.argmax()
    for cells in (expected, counts):
        cells[fullest] += cells[rare].sum()
    expected, counts = expected[~rare], counts[~rare]
    return float(stats.chi2.sf(float(((counts - expected).square() / expected).sum()), len(expected) - 1))
