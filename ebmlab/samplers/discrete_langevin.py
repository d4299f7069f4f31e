"""The discrete Langevin proposal of DULA, DMALA and ACS, and its options (Zhang et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.settings import require_all_positive, require_count, require_inside, require_positive


class Options(NamedTuple):
    """`LangevinOptions` as steps take them."""

    precondition: Tensor | None = None
    window: int | None = None
    stochastic: bool = False


class LangevinOptions(nn.Module):
    """The options of the discrete Langevin proposal besides step size and balance.

    Args:
        owner: name of the sampler, used in error messages.
        precondition: c, a scale for each coordinate's squared distance, in the shape of the domain (App. H).
        window: propose only values within this distance of the current one (App. C); Ordinal domains only.
        stochastic: each step uses the gradient of a new minibatch (Sec. 6), which the energy must provide by
            `energy.minibatch()`.
    """

    precondition: Tensor | None

    def __init__(
        self,
        owner: str,
        precondition: Sequence[float] | Tensor | None = None,
        window: int | None = None,
        stochastic: bool = False,
    ) -> None:
        super().__init__()
        if window is not None:
            require_count(owner, window=window)
        scale = None if precondition is None else as_numbers(precondition, f"{owner}: precondition")
        if scale is not None:
            require_all_positive(owner, precondition=scale)
        self.owner = owner
        self.register_buffer("precondition", scale, persistent=False)
        self.window = window
        self.stochastic = stochastic

    def plain(self) -> Options:
        """The options as steps take them."""
        return Options(self.precondition, self.window, self.stochastic)

    def check(self, energy: Energy) -> None:
        """Raises `UserError` if the options do not suit the energy."""
        domain = cast(Finite, energy.domain)
        if self.window is not None and not isinstance(domain, Ordinal):
            raise UserError(
                f"{self.owner}: a window needs an Ordinal domain, but {type(energy).__name__} lives on {domain}"
            )
        if self.precondition is not None and tuple(self.precondition.shape) != domain.shape:
            raise UserError(
                f"{self.owner}: precondition has shape {tuple(self.precondition.shape)}, but {domain} has "
                f"{domain.shape}"
            )
        if self.stochastic and not hasattr(energy, "minibatch"):
            raise UserError(
                f"{self.owner}: stochastic gradients need an energy that is a sum over data (BinaryNetPosterior), "
                f"but {type(energy).__name__} has no minibatch"
            )


def propose(energy: Energy, x: Tensor, grad: Tensor, settings: Sequence[Number], options: Options) -> Proposal:
    """Softmax over y_i of -beta dE/dx_i (y_i - x_i) - (y_i - x_i)^2 / (2 alpha), for each coordinate (Eq. 2).

    Args:
        energy: the energy that is sampled.
        x: `(B, *event)`.
        grad: dE/dx there.
        settings: the step size alpha, and the balance beta, the weight of the gradient; 1/2 in the paper.
        options: as in the class.
    """
    alpha, beta = settings
    stiffness = 1 / alpha if options.precondition is None else 1 / (alpha * options.precondition.to(x))
    return factorised(energy.domain, x, grad, stiffness=stiffness, window=options.window, weight=-beta)


class DiscreteLangevin(Sampler):
    """A sampler that proposes with a constant step size and balance: `DULA` accepts every proposal, `DMALA` decides.

    Args:
        step_size: alpha; tunable.
        balance: beta, the weight of the gradient; 1/2 in the paper; tunable.
        precondition: see `LangevinOptions`.
        window: see `LangevinOptions`.
        stochastic: see `LangevinOptions`.
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    step_size: Tensor
    balance: Tensor

    def __init__(
        self,
        step_size: float,
        balance: float = 0.5,
        *,
        precondition: Sequence[float] | Tensor | None = None,
        window: int | None = None,
        stochastic: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_langevin(name, step_size, balance)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("balance", torch.tensor(float(balance)), persistent=False)
        self.options = LangevinOptions(name, precondition, window, stochastic)

    def check(self, energy: Energy) -> None:
        super().check(energy)
        self.options.check(energy)

    def settings(self) -> Tensor:
        """Step size and balance, `(1, 2)`."""
        return torch.stack([self.step_size, self.balance]).unsqueeze(0)


class GuidedEnergy(Energy):
    """The energy of all data with the gradient of one minibatch, which is drawn independently of x.

    Args:
        energy: a sum over data that provides `minibatch()`.
    """

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.domain, self.energy = energy.domain, energy
        self.guide: Energy = energy.minibatch()  # type: ignore[operator]

    @property
    def dtype(self) -> torch.dtype:
        """The inner energy's."""
        return self.energy.dtype

    def as_states(self, x: Tensor) -> Tensor:
        """As the inner energy takes them."""
        return self.energy.as_states(x)

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.energy(x)
        return value

    def gradient(self, x: Tensor) -> Tensor:
        """dE/dx of the minibatch, `(B, *event)`."""
        return self.guide.value_and_grad(x)[1]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self.gradient(x)


def check_langevin(name: str, step_size: float, balance: float) -> None:
    """Raises `UserError` unless step size and balance are valid."""
    require_positive(name, step_size=step_size)
    require_inside(name, "[0, 1]", balance=balance)
