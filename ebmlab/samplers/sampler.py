"""A sampler draws from an energy: `init` makes a state, `step` makes one transition, `sample` makes many."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, SupportsIndex

import torch
from torch import Tensor, nn

from ebmlab.domains import Domain, Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.energies.layers import require_one_law
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded
from ebmlab.numerics.products import fast_products
from ebmlab.samplers.compiled import PureSteps, run_compiled
from ebmlab.samplers.state import Info, Leg, State
from ebmlab.settings import require_positive

CACHED = 2**19  # coordinates of the chains that `run` moves at a time on a CPU
SMALLEST = 100  # but not fewer chains than this


class Sampler(Recorded, nn.Module):
    """A Markov kernel. It holds its own settings (step sizes are buffers), never the energy.

    The law of a chain does not depend on the other chains of its batch (`DiscreteSVGD` is the exception).

    Attributes:
        domains: kinds of domain that the kernel supports.
        independent: whether chains may run apart from each other; all but those of `DiscreteSVGD` may.
        keeps_values: whether a state holds values at x, so that `init` evaluates the energy as a step does.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA
        >>> ising, sampler = Ising.lattice(3, 0.2), DMALA(step_size=0.2)
        >>> state = sampler.init(ising, ising.domain.random(5))
        >>> state, info = sampler.step(ising, state)
        >>> state.step
        1
    """

    domains: ClassVar[tuple[type[Domain], ...]] = ()
    independent: ClassVar[bool] = True
    keeps_values: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Chains start at states of any numeric type: `init` and `chain` of every kernel convert them."""
        super().__init_subclass__(**kwargs)
        for name in ("init", "chain"):
            if inspect.isfunction(method := cls.__dict__.get(name)):
                setattr(cls, name, _takes_starts(method))

    @property
    def exact(self) -> bool:
        """Whether every step from `init` leaves p(x) = exp(-E(x)) / Z invariant."""
        raise NotImplementedError

    @property
    def converges(self) -> bool:
        """Whether chains follow p after enough steps. Exact samplers do, and so do some others, such as `Tempered`."""
        return self.exact

    def check(self, energy: Energy) -> None:
        """Raises `UserError` if this sampler does not support the energy."""
        if type(self).step is Sampler.step:
            hint = (
                "derive it from MetropolisSampler, whose steps follow a proposal" if hasattr(self, "proposal") else ""
            )
            raise UserError(f"{type(self).__name__} has no step(energy, state): {hint or 'define it'}")
        if not self.domains:
            raise UserError(f"{type(self).__name__} does not say what it samples: set domains = (Binary,), or others")
        if not isinstance(energy.domain, self.domains):
            mine = " or ".join(d.__name__ for d in self.domains)
            raise UserError(
                f"{type(self).__name__} samples {mine} domains, but {type(energy).__name__} lives on {energy.domain}"
            )

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> State:
        """The state before the first step: x alone, unless the kernel keeps more.

        Args:
            energy: the energy to sample.
            x: initial states of the chains, `(B, *event)`.
            horizon: how many steps are planned; step sizes that follow a schedule need it.
            known: `state.known` of an earlier state at x on a `Bridge`, so that x is not evaluated again.
        """
        return State(x=energy.as_states(x))

    def step(self, energy: Energy, state: Any) -> tuple[State, Info]:
        """One transition of every chain."""
        raise NotImplementedError

    def chain(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[State, Info]]:
        """Yields the state and the `Info` of each of `num_steps` steps from x, alone or as a leg of a longer chain."""
        self.check(energy)
        leg = leg or Leg()
        state = self.init(energy, x, leg.first + num_steps if leg.horizon is None else leg.horizon, leg.known)
        state.step = leg.first
        for _ in range(num_steps):
            state, info = self.step(energy, state)
            yield state, info

    def sample(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info]:
        """Runs the chains from x `(B, *event)`.

        Returns:
            The last x, and the mean of `Info` over the steps (on the device; no host synchronisation).

        Raises:
            UserError: the sampler does not support the energy, x is not a batch of states of its domain, or num_steps
                is no number of steps.
        """
        x = self.check_chains(energy, x, num_steps)
        total = Info(acceptance=x.new_zeros(len(x)), hops=x.new_zeros(len(x)), evaluations=0.0)
        with fast_products(energy, len(x)):
            for state, info in self.chain(energy, x, num_steps):
                x = state.x
                total = total + info
        return x, total / max(num_steps, 1)

    def pure_steps(self, energy: Energy) -> PureSteps | None:
        """The kernel on this energy as functions of tensors, which can be compiled; None if it has no such form."""
        return None

    def require_pure_steps(self, energy: Energy, caller: str) -> PureSteps:
        """`pure_steps`, or a `UserError` that names the caller where the kernel has no such form."""
        kernel = self.pure_steps(energy)
        if kernel is None:
            raise UserError(
                f"{caller}: {type(self).__name__} on {type(energy).__name__} cannot be compiled with these settings. "
                "DMALA, ACS, AnyScale first and GWG can for bits and spins, Langevin with a constant step size, "
                "BlockGibbs for an RBM, ChromaticGibbs for an Ising model of few colours; a ResNet runs faster as it is"
            )
        return kernel

    def run(self, energy: Energy, x: Tensor, num_steps: int, compile: bool = False) -> Tensor:
        """The last x of `sample` alone. Acceptance and hops are not computed, which saves time where steps are short.

        On a CPU, many chains run in blocks, one after the other, so that their tensors stay in the cache. The law of
        each chain is that in `sample`. The random numbers are others if there is more than one block, or if the kernel
        draws them in another order, as `Langevin` does.

        Args:
            energy: as in `sample`.
            x: as in `sample`.
            num_steps: as in `sample`.
            compile: let `torch.compile` make one program of eight steps, which may draw other random numbers. The first
                run with a number of chains takes 10 to 20 seconds longer, the next ones as little as 0.3 of the time
                (docs/performance.md).

        Raises:
            UserError: as `sample`; with `compile` also if the kernel cannot be compiled, or there is no C++ compiler.

        Example:
            >>> from ebmlab.energies import RBM
            >>> from ebmlab.samplers import BlockGibbs
            >>> rbm = RBM(6, 3)
            >>> BlockGibbs().run(rbm, rbm.domain.random(4), num_steps=10).shape
            torch.Size([4, 6])
        """
        x = self.check_chains(energy, x, num_steps)
        with fast_products(energy, len(x)):
            if compile:
                return self._run_compiled(energy, x, num_steps)
            return torch.cat([self._run(energy, block, num_steps) for block in x.chunk(self._blocks(energy, x))])

    def _run_compiled(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        """Blocks of one shape share one program: copies of the first chains fill up the last block, and are dropped."""
        kernel, blocks = self.require_pure_steps(energy, "run(compile=True)"), self._blocks(energy, x)
        rows = -(-len(x) // blocks)
        filled = torch.cat([x, x[: rows * blocks - len(x)]])
        return torch.cat([run_compiled(kernel, energy, block, num_steps) for block in filled.chunk(blocks)])[: len(x)]

    def _blocks(self, energy: Energy, x: Tensor) -> int:
        """The number of blocks that `run` moves one after the other."""
        rows = max(SMALLEST, CACHED // max(1, energy.domain.size))
        return 1 if x.device.type != "cpu" or not self.independent else -(-len(x) // rows)

    def check_chains(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        """X in the energy's floating type; `UserError` unless chains of the energy can take that many steps from it."""
        self.check(energy)
        require_one_law(energy)
        x = energy.as_states(x)
        energy.domain.validate(x)
        if len(x) == 0:
            raise UserError(f"{type(self).__name__}: there are no chains, as x has shape {tuple(x.shape)}")
        if not isinstance(num_steps, SupportsIndex) or num_steps.__index__() < 0:
            raise UserError(f"{type(self).__name__}: num_steps is {num_steps}, but must be a whole number from 0 on")
        return x

    def _run(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        for state, _ in self.chain(energy, x, num_steps):
            x = state.x
        return x


def _takes_starts(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of samplers `(energy, x, ...)` with x in the energy's floating type."""

    @wraps(method)
    def entered(self: Sampler, energy: Energy, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return method(self, energy, energy.as_states(x), *args, **kwargs)

    return entered


def require_bipartite(sampler: Sampler, energy: Energy) -> None:
    """Raises `UserError` unless the energy has hidden units.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> require_bipartite(BlockGibbs(), RBM(6, 3))
    """
    if not isinstance(energy, Bipartite):
        other = "Langevin" if isinstance(energy.domain, Real) else "DMALA"
        raise UserError(
            f"{type(sampler).__name__} needs a bipartite energy (an RBM or GRBM: it draws hidden units), "
            f"but {type(energy).__name__} has none; use {other}, for example"
        )


def check_settings(name: str, step_size: float, adjust_from: int | None, temperature: float) -> None:
    """Raises `UserError` unless a Langevin-like sampler's settings are valid.

    Example:
        >>> check_settings("Langevin", step_size=0.1, adjust_from=None, temperature=1.0)
    """
    require_positive(name, step_size=step_size, temperature=temperature)
    if adjust_from is not None and adjust_from < 0:
        raise UserError(f"{name}: adjust_from is {adjust_from}, but must be a step (0 is the first) or null for never")
