"""Energies at other temperatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.laws import of_states
from ebmlab.native import sum_softplus
from ebmlab.numerics.means import as_floats
from ebmlab.settings import require_positive


def tempered(energy: Energy, beta: float | Tensor) -> Tempering:
    """The energy at inverse temperature `beta`; for a bipartite one the joint energy, which block Gibbs needs.

    Args:
        energy: held, not copied.
        beta: a positive number, or one per chain, `(B,)`.

    Example:
        >>> from ebmlab.energies import RBM
        >>> type(tempered(RBM(3, 2), beta=0.5)).__name__
        'TemperedBipartite'
    """
    if isinstance(energy, Bipartite) and energy.has_bits:  # h^2 / 2 would be scaled, too
        return TemperedBipartite(energy, beta)
    return TemperedEnergy(energy, beta)


class Tempering(Energy):
    """An energy with an inverse temperature, one for all chains or one for each.

    With one beta per chain, a batch of n * B states holds n states of the first chain, then n of the second, and so on.
    `flip_differences` orders neighbours in this way.
    """

    beta: Tensor
    per_chain = "beta"

    def __init__(self, energy: Energy, beta: float | Tensor) -> None:
        super().__init__()
        self.domain = energy.domain
        self.energy = energy
        given = as_floats(beta) if isinstance(beta, Tensor) else torch.tensor(beta, dtype=energy.dtype)
        self.register_buffer("beta", given.to(energy.device), persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """The inner energy's."""
        return self.energy.dtype

    def as_states(self, x: Tensor) -> Tensor:
        """As the inner energy takes them."""
        return self.energy.as_states(x)

    def energies_at(self, x: Tensor, betas: Tensor, *, known: PerChain | None = None) -> Tensor:
        """Energies `(B, n)` of x at other inverse temperatures `(B, n)`, from one evaluation of the inner energy.

        With `known`, that of an earlier evaluation at x, there is none.
        """
        raise NotImplementedError

    def check_law(self) -> None:
        self.energy.check_law()

    def step_unit(self) -> Tensor | float:
        return self.energy.step_unit()

    def beta_of(self, value: Tensor) -> Tensor:
        """Beta in a shape that broadcasts against `value`, whose first axis is the batch."""
        beta = self.beta.to(value)
        if beta.dim() == 0:
            return beta
        return of_states(beta, len(value)).view(-1, *[1] * (value.dim() - 1))


@dataclass
class AtOne(PerChain):
    """E(x) `(B,)` and dE/dx at beta = 1, from which those at any beta follow."""

    energy: Tensor
    grad: Tensor


@dataclass
class Inputs(PerChain):
    """The inputs of the hidden units `(B, H)` at beta = 1."""

    inputs: Tensor


class TemperedEnergy(Tempering):
    """beta E(x).

    Example:
        >>> from ebmlab.energies import Ising
        >>> energy = TemperedEnergy(Ising.lattice(2, coupling=0.5), beta=torch.tensor([1.0, 0.25]))
        >>> energy(torch.ones(2, 4)).tolist()
        [-2.0, -0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        return self._scale(self.energy(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self.energy.value_and_grad(x)
        return self._scale(value), self._scale(grad)

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        if self.beta.dim() == 0:  # chains of one temperature have nobody to swap with
            return super().evaluate(x)
        at = known if isinstance(known, AtOne) else AtOne(*self.energy.value_and_grad(x))
        return Evaluation(self._scale(at.energy), self._scale(at.grad), known=at)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self._scale(self.energy.flip_differences(x, index))

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self._scale(self.energy.value_differences(x, index))

    def energies_at(self, x: Tensor, betas: Tensor, *, known: PerChain | None = None) -> Tensor:
        here: Tensor = known.energy if isinstance(known, AtOne) else self.energy(x)
        return betas * here.unsqueeze(1)

    @property
    def colours(self) -> list[Tensor]:
        """The inner energy's colours, if it has any; used by `ChromaticGibbs`."""
        return self.energy.colours  # type: ignore[return-value]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) given the rest, for the sites of one colour."""
        return self._scale(self.energy.conditional(x, sites))  # type: ignore[operator]

    @property
    def minibatch(self) -> Callable[[], TemperedEnergy]:
        """The inner energy's `minibatch`, if it has one, at the same temperature."""
        inner = self.energy.minibatch
        return lambda: TemperedEnergy(inner(), self.beta)  # type: ignore[operator]

    def _scale(self, value: Tensor) -> Tensor:
        return self.beta_of(value) * value


class Scaled(TemperedEnergy):
    """E(x) / temperature: a higher temperature makes the law flatter.

    For a bipartite energy this scales the marginal energy and has no hidden units; `tempered` scales the joint energy.

    Args:
        energy: held, not copied.
        temperature: positive; 1 is the energy's own law.

    Raises:
        UserError: the temperature is not a positive number.

    Example:
        >>> from ebmlab.energies import Ising
        >>> Scaled(Ising.lattice(2, coupling=0.5), temperature=4.0)(torch.ones(1, 4)).item()
        -0.5
    """

    domains = (Domain,)

    def __init__(self, energy: Energy, temperature: float) -> None:
        require_positive("Scaled", temperature=temperature)
        super().__init__(energy, torch.tensor(1 / temperature, dtype=energy.dtype, device=energy.device))
        self.temperature = temperature


class TemperedBipartite(Tempering, Bipartite):
    """The joint energy beta E(v, h), and with it E(v) = -log of the sum over h of exp(-beta E(v, h)).

    Both conditionals keep their form: the logits of h are scaled by beta, and v is drawn at temperature 1 / beta.

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(3, 2)
        >>> v, h = torch.ones(5, 3), torch.ones(5, 2)
        >>> torch.equal(TemperedBipartite(rbm, beta=0.5).joint_energy(v, h), 0.5 * rbm.joint_energy(v, h))
        True
    """

    energy: Bipartite

    def __init__(self, energy: Bipartite, beta: float | Tensor) -> None:
        super().__init__(energy, beta)
        self.num_hidden = energy.num_hidden

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        value = self.energy.joint_energy(v, h)
        return self.beta_of(value) * value

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        logits = self.energy.hidden_given_visible(v)
        return self.beta_of(logits) * logits

    def visible_given_hidden(self, h: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        parameters = self.energy.visible_given_hidden(h)
        if isinstance(parameters, tuple):
            mean, variance = parameters
            return mean, variance / self.beta_of(mean)
        return self.beta_of(parameters) * parameters

    def visible_energy(self, v: Tensor) -> Tensor:
        value = self.energy.visible_energy(v)
        return self.beta_of(value) * value

    def hidden_logits(self, v: Tensor, known: PerChain | None = None) -> tuple[Tensor, PerChain | None]:
        if self.beta.dim() == 0:
            return super().hidden_logits(v)
        at = known if isinstance(known, Inputs) else Inputs(self.energy.hidden_given_visible(v))
        return self.beta_of(at.inputs) * at.inputs, at

    def energies_at(self, x: Tensor, betas: Tensor, *, known: PerChain | None = None) -> Tensor:
        logits = known.inputs if isinstance(known, Inputs) else self.energy.hidden_given_visible(x)
        without = self.energy.visible_energy(x)
        scaled = betas.unsqueeze(2) * logits.unsqueeze(1)
        return betas * without.unsqueeze(1) - sum_softplus(scaled.flatten(0, 1)).view_as(betas)
