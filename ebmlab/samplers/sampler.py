"""A sampler draws from an energy: `init` makes a state, `step` makes one transition, `sample` makes many."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, SupportsIndex

import torch
from torch import Tensor, nn

from ebmlab import engine
from ebmlab.domains import Domain
from ebmlab.energies import Bridge, Energy, PerChain
from ebmlab.energies.laws import num_laws
from ebmlab.energies.layers import require_one_law
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded
from ebmlab.numerics.noise import wide
from ebmlab.numerics.products import fast_products
from ebmlab.samplers.kernel import Kernel, UnevenKernel
from ebmlab.samplers.state import Info, Leg, State
from ebmlab.samplers.tally import tallied

WITH_KERNEL = "DMALA, ACS, AnyScale, GWG, PathAuxiliary, DULA, Langevin, GibbsLangevin, BlockGibbs and ChromaticGibbs"
CACHED, SMALLEST = 2**19, 100  # coordinates of the chains that move at a time on a CPU, but not fewer chains


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
    _by_steps: ClassVar[bool] = False  # whether `init` and `step` make the steps, and not `kernel`
    _watched: ClassVar[bool] = False  # whether `chain` must see every step
    _compiling = staticmethod(engine.compiling)  # for subclasses with programs of their own

    @property
    def exact(self) -> bool:
        """Whether every step from `init` leaves p(x) = exp(-E(x)) / Z invariant."""
        raise NotImplementedError

    @property
    def converges(self) -> bool:
        """Whether chains follow p after enough steps. Exact samplers do, and so do some others, such as `Tempered`."""
        return self.exact

    def __repr__(self) -> str:
        numbers = [f"{name}={b.item():.4g}" for name, b in self.named_buffers(recurse=False) if b.numel() == 1]
        parts = [f"{name}={part!r}" for name, part in self.named_children() if isinstance(part, Sampler)]
        return f"{type(self).__name__}({', '.join([*numbers, *parts])})"

    def check(self, energy: Energy) -> None:
        """Raises `UserError` if this sampler does not support the energy."""
        mine, theirs = type(self).__name__, type(energy).__name__
        if not isinstance(energy, Energy):
            raise UserError(f"{theirs} is no Energy: derive it from ebmlab.energies.Energy")
        if type(self).step is Sampler.step and type(self).kernel_on is Sampler.kernel_on:
            proposes = "derive it from MetropolisSampler, whose steps follow a proposal"
            hint = proposes if hasattr(self, "proposal") else "define it, or kernel_on(energy)"
            raise UserError(f"{mine} has no step(energy, state): {hint}")
        if not self.domains:
            raise UserError(f"{mine} does not say what it samples: set domains = (Binary,), or others")
        if not isinstance(energy.domain, self.domains):
            kinds = " or ".join(kind.__name__ for kind in self.domains)
            raise UserError(f"{mine} samples {kinds} domains, but {theirs} lives on {energy.domain}")

    def kernel_on(self, energy: Energy) -> Kernel | None:
        """The steps on this energy as functions without side effects; None for a sampler that writes `init` and `step`.

        A sampler that offers them gets both, and with them `torch.compile`, CUDA graphs and compiled annealing.
        """
        return None

    def uneven_on(self, energy: Energy) -> UnevenKernel | None:
        """The same for compiled chains whose steps take unequal times; None for all but `NUTS` and `HMC`."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Notes who makes the steps of a class, and has its own `init` and `chain` take states of any numeric type.

        A class that writes `init` or `step` is run by them, even if its base has a kernel. One that watches its steps
        in `chain` must see each of them, and so cannot be compiled.
        """
        super().__init_subclass__(**kwargs)
        own = vars(cls).keys()
        if "kernel_on" in own or own & {"init", "step"}:
            cls._by_steps = "kernel_on" not in own
            if not own & {"_in_place", "_sweep"}:  # those of the base move chains by its kernel
                cls._in_place = Sampler._in_place  # type: ignore[method-assign]
        if "chain" in own:
            cls._watched = True
        for name in ("init", "chain"):
            if inspect.isfunction(method := vars(cls).get(name)):
                setattr(cls, name, _takes_starts(method))

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> Any:
        """The state before the first step: x alone, unless the kernel keeps more.

        Args:
            energy: the energy to sample.
            x: initial states of the chains, `(B, *event)`.
            horizon: how many steps are planned; step sizes that follow a schedule need it.
            known: `state.known` of an earlier state at x on a `Bridge`, so that x is not evaluated again.
        """
        kernel, x = self.kernel_on(energy), energy.as_states(x).contiguous()
        return State(x=x) if kernel is None else engine.start(kernel, energy, x, known)

    def step(self, energy: Energy, state: Any) -> tuple[Any, Info]:
        """One transition of every chain."""
        kernel = self.kernel_on(energy)
        if kernel is None:
            raise NotImplementedError(f"{type(self).__name__} has neither a kernel nor a step")
        after: tuple[Any, Info] = engine.step(kernel, energy, state)
        return after

    def chain(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[State, Info]]:
        """Yields the state and the `Info` of each of `num_steps` steps from x, alone or as a leg of a longer chain."""
        self.check(energy)
        leg, x = leg or Leg(), energy.as_states(x).contiguous()
        kernel = None if self._by_steps else self.kernel_on(energy)
        if kernel is None:
            return self._step_by_step(energy, x, num_steps, leg)
        return engine.steps(kernel, energy, x, num_steps, leg.first, leg.known)

    def _step_by_step(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg) -> Iterator[tuple[State, Info]]:
        state = self.init(energy, x, leg.first + num_steps if leg.horizon is None else leg.horizon, leg.known)
        state.step = leg.first
        for _ in range(num_steps):
            state, info = self.step(energy, state)
            yield state, info
            del info

    def sample(self, energy: Energy, x: Tensor, num_steps: int, *, compile: bool = False) -> tuple[Tensor, Info]:
        """Runs the chains from x `(B, *event)`.

        On a CPU, many chains run in blocks, one after the other, so that their tensors stay in the cache.

        Args:
            energy: the energy to sample.
            x: where the chains start.
            num_steps: how many steps each of them takes.
            compile: as in `last_states`.

        Returns:
            The last x, and the mean of `Info` over the steps (on the device; no host synchronisation).

        Raises:
            UserError: the sampler does not support the energy, x is not a batch of states of its domain, or num_steps
                is no number of steps. With `compile` also as `last_states`.
        """
        x = self.check_chains(energy, x, num_steps)
        if (moved := self._at_once(energy, x, num_steps)) is not None:
            return moved
        with fast_products(energy, len(x)):
            if compile:
                x, info = self._compiled(energy, x, num_steps, "sample(compile=True)", report=True)
                assert info is not None
                return x, info
            blocks = [self._reported(energy, block, num_steps) for block in x.chunk(self._blocks(energy, x))]
        return torch.cat([block for block, _ in blocks]), Info.cat([info for _, info in blocks])

    def last_states(self, energy: Energy, x: Tensor, num_steps: int, *, compile: bool = False) -> Tensor:
        """The last x of `sample` alone, which saves time where steps are short.

        Args:
            energy: as in `sample`.
            x: as in `sample`.
            num_steps: as in `sample`.
            compile: let `torch.compile` make one program of eight steps, which may draw other random numbers. The first
                run with a number of chains takes longer, of which the next process saves most (docs/howto/compiled.md).
                Later ones take as little as 0.3 of the time (docs/performance.md).

        Raises:
            UserError: as `sample`; with `compile` also if the kernel cannot be compiled, or there is no C++ compiler.

        Example:
            >>> from ebmlab.energies import RBM
            >>> from ebmlab.samplers import BlockGibbs
            >>> rbm = RBM(6, 3)
            >>> BlockGibbs().last_states(rbm, rbm.domain.random(4), num_steps=10).shape
            torch.Size([4, 6])
        """
        x = self.check_chains(energy, x, num_steps)
        if (moved := self._at_once(energy, x, num_steps)) is not None:
            return moved[0]
        with fast_products(energy, len(x)):
            if compile:
                return self._compiled(energy, x, num_steps, "last_states(compile=True)")[0]
            blocks = [self._run(energy, block, num_steps) for block in x.chunk(self._blocks(energy, x))]
        return blocks[0] if len(blocks) == 1 and num_steps > 0 else torch.cat(blocks)

    def compilable(self, energy: Energy) -> Kernel | None:
        """The kernel on an energy for compiled programs; None where there is none, or it is slower as a program."""
        return None if self._by_steps or self._watched or not engine.worth_compiling(energy) else self.kernel_on(energy)

    def require_compilable(self, energy: Energy, caller: str) -> Kernel:
        """`compilable`, or a `UserError` that names the caller where it is None."""
        if (kernel := self.compilable(energy)) is None:
            raise self._not_compilable(energy, caller)
        return kernel

    def _not_compilable(self, energy: Energy, caller: str) -> UserError:
        target = energy.energy if isinstance(energy, Bridge) else energy
        return UserError(
            f"{caller}: {type(self).__name__} on {type(target).__name__} cannot be compiled with these settings. "
            f"Samplers that offer a kernel can, such as {WITH_KERNEL}; a ResNet runs faster as it is"
        )

    def _reported(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info]:
        hops = wide(x.new_zeros(len(x)))
        if (last := self._in_place(energy, x, num_steps, hops)) is not None:
            return last, Info(torch.full_like(hops, num_steps), hops, evaluations=num_steps) / max(num_steps, 1)
        last, total = tallied(energy.domain, x, self.chain(energy, x, num_steps))
        return last, total / max(num_steps, 1)

    def _run(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        if (last := self._in_place(energy, x, num_steps)) is not None:
            return last
        for pair in self.chain(energy, x, num_steps):
            x = pair[0].x
            del pair  # as in `tallied`
        return x

    def _in_place(self, energy: Energy, x: Tensor, num_steps: int, hops: Tensor | None = None) -> Tensor | None:
        """The last states of chains moved in place, which adds to `hops`; None where steps are taken one by one."""
        return None

    def _at_once(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info] | None:
        """What `sample` returns, where a kernel in C++ takes all steps in one call; None elsewhere."""
        return None

    def _compiled(
        self, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool = False
    ) -> tuple[Tensor, Info | None]:
        """Blocks of one shape share one program: copies of the first chains fill up the last block, and are dropped."""
        blocks = self._blocks(energy, x)
        rows = -(-len(x) // blocks)
        filled = torch.cat([x, x[: rows * blocks - len(x)]])
        done = [self._program(energy, part, num_steps, caller, report) for part in filled.chunk(blocks)]
        last = torch.cat([part.x for part in done])[: len(x)]
        if not report:
            return last, None
        acceptance, hops = (torch.cat([getattr(part, name) for part in done]) for name in ("acceptance", "hops"))
        cost = sum(part.evaluations for part in done) / blocks
        return last, Info(acceptance[: len(x)], hops[: len(x)], evaluations=cost) / max(num_steps, 1)

    def _program(self, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool) -> engine.Ran:
        """Runs one block of chains as compiled programs."""
        uneven = self.uneven_on(energy) if engine.worth_compiling(energy) and not self._watched else None
        if uneven is not None:
            return engine.run_uneven(uneven, energy, x, num_steps, caller)
        return engine.run_compiled(self.require_compilable(energy, caller), energy, x, num_steps, caller, report)

    def _blocks(self, energy: Energy, x: Tensor) -> int:
        """The number of blocks that move one after the other."""
        rows = max(SMALLEST, CACHED // max(1, energy.domain.size))
        own = num_laws(energy) > 1  # which are in the order of x
        return 1 if own or x.device.type != "cpu" or not self.independent else -(-len(x) // rows)

    def check_chains(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        """The states x in the energy's type, in rows; `UserError` unless chains can take that many steps from them."""
        self.check(energy)
        require_one_law(energy)
        x = energy.as_states(x).contiguous()  # noise is drawn in its order, so that a seed repeats a run
        energy.domain.validate(x)
        if len(x) == 0:
            raise UserError(f"{type(self).__name__}: there are no chains, as x has shape {tuple(x.shape)}")
        if not isinstance(num_steps, SupportsIndex) or num_steps.__index__() < 0:
            raise UserError(f"{type(self).__name__}: num_steps is {num_steps}, but must be a whole number from 0 on")
        return x


def _takes_starts(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of samplers `(energy, x, ...)` with x in the energy's floating type, in rows."""

    @wraps(method)
    def entered(self: Sampler, energy: Energy, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return method(self, energy, energy.as_states(x).contiguous(), *args, **kwargs)

    return entered
