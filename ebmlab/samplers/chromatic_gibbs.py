"""Chromatic Gibbs sampling: coordinates that do not interact are redrawn together (Gonzalez et al., 2011)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.energies.evaluation import Merge
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.native import coins
from ebmlab.native.ising_sweeps import HEAT_BATH
from ebmlab.native.word_sweeps import by_kernel
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.multi_spin import MultiSpin, multi_spin
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.spin_rules import Rule, heat_bath
from ebmlab.samplers.state import Info, State
from ebmlab.samplers.sweeps_in_cpp import swept as swept_by_kernel

Sweep = Callable[[Energy, Tensor, Tensor], Tensor]
COLOURS = 8  # largest number in a compiled sweep: with many, the program is long and takes minutes to compile


class Coloured(Protocol):
    """An energy over a graph whose sites are coloured so that no two sites of the same colour interact.

    Attributes:
        domain: a finite domain.
        colours: for each colour its sites, as indices into the flattened domain shape, int64.
    """

    domain: Finite
    colours: list[Tensor]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i | all others) for the k sites, `(B, k, num_values)`.

        Where there are two values, `(B, k)`: log of the odds of the second one, 1 or +1.
        """


def draw_sites(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Draws a value for every site and chain, in index form `(k, B)`, from logits `(k, B, K)` or log-odds `(k, B)`.

    Log-odds may be infinite. With more than two values, the largest logit of a site must be finite: otherwise its
    product with 0 is NaN.

    Returns:
        The values, and finite numbers `(k, B)`, NaN where a law is not valid.
    """
    if logits.dim() > 2:
        return categorical(logits.log_softmax(-1)), logits.amax(2) * 0
    p = torch.sigmoid(logits)
    return coins(p), p


def sweep(energy: Energy, table: Tensor, x: Tensor, *, groups: Iterable[Tensor] | None = None) -> Tensor:
    """Draws the sites of one colour after the other from p(x_i | all others) (Alg. 1), into the table.

    Args:
        energy: over a coloured graph.
        table: the states, each site one row of memory, `(d, B, ...)`.
        x: a view of it, `(B, *event)`.
        groups: sites that do not interact, in place of the colours.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the laws was not valid.
    """
    graph, total = cast(Coloured, energy), x.new_zeros(len(x))
    for sites in graph.colours if groups is None else groups:
        values, finite = draw_sites(graph.conditional(x, sites).transpose(0, 1))
        total += finite.sum(0)
        table[sites] = graph.domain.from_index(values).to(x.dtype)
    return total


def start(energy: Energy, x: Tensor, settings: Sequence[Number]) -> State:
    """x, of which each site is one row of memory."""
    return State(x=sites_first(energy, x)[1])


def swept(energy: Energy, state: State, sweep: Sweep, ties: float = HEAT_BATH) -> tuple[State, Tensor]:
    """The state after a sweep, and `(B,)`, whether its laws were valid. Chains of others stay where they were."""
    table, x = sites_first(energy, state.x)
    total = swept_by_kernel(energy, table, betas=[1.0], ties=ties)
    total = sweep(energy, table, x) if total is None else total
    # not NaN; a program asks one number after the other for `isnan` (findings/torch_compiled_isnan.sh)
    valid = total == total
    if not torch.compiler.is_compiling():
        return State(x=Merge(valid)(x, state.x)), valid
    before = cast(Finite, energy.domain).flat(state.x).transpose(0, 1)
    rows = torch.where(valid.view(-1, *[1] * (table.dim() - 2)), table, before)  # a program keeps each site a row
    return State(x=rows.transpose(0, 1).view(x.shape)), valid


def step(energy: Energy, state: State, settings: Sequence[Number]) -> tuple[State, Info]:
    """A sweep over all sites."""
    new, valid = swept(energy, state, sweep)
    acceptance = lambda: new.x.new_ones(len(new.x)).masked_fill(~valid, torch.nan)  # noqa: E731
    return new, Info(acceptance, Moved(energy.domain, new.x, state.x))


class ChromaticGibbs(Sampler):
    """One step is a sweep over all coordinates, one colour after the other (Gonzalez et al. 2011, Alg. 1).

    The sites of one colour are independent given the others, so each colour is one block of Gibbs sampling. On a
    lattice the colours form a checkerboard. A sweep costs about one evaluation of the energy and counts as one.

    `sample` and `last_states` put many chains of an Ising model into the bits of words, if its couplings and fields are
    small multiples of one number (`MultiSpin`). Kernels in C++ sweep other Ising models and `Potts.lattice`, where a
    compiler is at hand. The law is the same.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ChromaticGibbs
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = ChromaticGibbs().sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains: ClassVar[tuple[type[Domain], ...]] = (Binary, Spin, Ordinal, Categorical)
    keeps_values = False
    exact = True

    @property
    def _rule(self) -> Rule:
        """What moves the spins of chains in words."""
        return heat_bath

    def _sweep(self, energy: Energy, table: Tensor, x: Tensor) -> Tensor:
        """Moves all sites in place, one colour after the other; as the function of this name."""
        return sweep(energy, table, x)

    @property
    def _ties(self) -> float | None:
        """The setting by which sweeps in C++ follow the law of `_sweep`; None if a subclass overrides that."""
        return HEAT_BATH if type(self)._sweep is ChromaticGibbs._sweep else None

    @torch.no_grad()
    def annealed(self, energy: Energy, x: Tensor, *, betas: Sequence[float]) -> Tensor:
        """The chains after a sweep at each inverse temperature, in place over one table.

        Args:
            energy: over a coloured graph.
            x: the chains, `(B, *event)`.
            betas: of the sweeps.

        Raises:
            UserError: a conditional law is NaN.
        """
        table, y = sites_first(energy, x)
        total = self._swept_in_cpp(energy, table, betas)
        if total is None:
            at, total = tempered(energy, 1.0), x.new_zeros(len(x))
            for beta in betas:
                at.beta.fill_(beta)
                total += self._sweep(at, table, y)
        if bool(total.isnan().any()):
            raise UserError(f"{type(energy).__name__}: the law of a site given the others is NaN")
        return y

    def check(self, energy: Energy) -> None:
        super().check(energy)
        if getattr(energy, "colours", None) is None or not hasattr(energy, "conditional"):
            raise UserError(
                f"{type(self).__name__} needs an energy over a coloured graph (Ising or Potts), but "
                f"{type(energy).__name__} has no colours; Gibbs works on any finite domain"
            )

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step)

    def compilable(self, energy: Energy) -> Kernel | None:
        return super().compilable(energy) if len(cast(Coloured, energy).colours) <= COLOURS else None

    def sample(self, energy: Energy, x: Tensor, num_steps: int, *, compile: bool = False) -> tuple[Tensor, Info]:
        """As in `Sampler`. Many chains of an Ising model with few local fields share words, see `MultiSpin`."""
        if (coded := self._in_words(energy, x, num_steps, compile)) is None:
            return super().sample(energy, x, num_steps, compile=compile)
        x = self.check_chains(energy, x, num_steps)
        last, flips = self._swept_in_words(coded, x, num_steps, report=True)
        assert flips is not None
        hops = flips.to(torch.promote_types(x.dtype, torch.float32))
        return last, self._report(energy, hops / num_steps)

    def last_states(self, energy: Energy, x: Tensor, num_steps: int, *, compile: bool = False) -> Tensor:
        """As in `Sampler`, in words as `sample`."""
        if (coded := self._in_words(energy, x, num_steps, compile)) is None:
            return super().last_states(energy, x, num_steps, compile=compile)
        return self._swept_in_words(coded, self.check_chains(energy, x, num_steps), num_steps)[0]

    @property
    def _own_steps(self) -> bool:
        """Whether a subclass makes its steps, or must see each of them."""
        return self._watched or self._by_steps or type(self)._in_place is not ChromaticGibbs._in_place

    def _in_words(self, energy: Energy, x: Tensor, num_steps: int, compile: bool = False) -> MultiSpin | None:
        """The energy for chains in words, where they take so many steps that this pays."""
        if self._own_steps or not (isinstance(x, Tensor) and isinstance(num_steps, int)):  # which is checked later
            return None
        if x.device.type != "cpu" or x.dim() == 0 or len(x) == 0 or num_steps < 1:
            return None
        if not by_kernel(x.device) and (compile or min(len(x), 8 * num_steps) < 64):
            return None
        coded = multi_spin(energy)
        return coded if coded is not None and coded.pays(self._rule, len(x)) else None

    def _swept_in_words(
        self, coded: MultiSpin, x: Tensor, num_steps: int, report: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The last states, and how often each chain has flipped a spin, `(B,)`, if asked for."""
        words = coded.packed(x)
        flips = coded.sweeps(words, [1.0] * num_steps, self._rule, report=report)
        return coded.unpacked(words, len(x), x.dtype), None if flips is None else flips[: len(x)]

    def _report(self, energy: Energy, hops: Tensor) -> Info:
        """The report of chains that have moved this far in a sweep, `(B,)`."""
        return Info(torch.ones_like(hops), hops)

    def _swept_in_cpp(
        self, energy: Energy, table: Tensor, betas: Sequence[float], hops: Tensor | None = None
    ) -> Tensor | None:
        ties = self._ties
        return None if ties is None else swept_by_kernel(energy, table, betas=betas, ties=ties, hops=hops)

    def _compiled(
        self, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool = False
    ) -> tuple[Tensor, Info | None]:
        """As in `Sampler`, but by the kernel where there is one: it is ahead of programs."""
        if self._own_steps or self._swept_in_cpp(energy, sites_first(energy, x)[0], []) is None:
            return super()._compiled(energy, x, num_steps, caller, report)
        return self._reported(energy, x, num_steps) if report else (self._run(energy, x, num_steps), None)

    @torch.no_grad()
    def _in_place(self, energy: Energy, x: Tensor, num_steps: int, hops: Tensor | None = None) -> Tensor | None:
        """Sweeps over one table in place, where `step` copies it, and adds up hops.

        Returns:
            The last states; None if a law was not valid, or a subclass must see each step.
        """
        if self._watched or self._by_steps:
            return None
        table, y = sites_first(energy, x)
        if (found := self._swept_in_cpp(energy, table, [1.0] * num_steps, hops)) is not None:
            return None if found.isnan().any() else y
        total, before = x.new_zeros(len(x)), torch.empty_like(table)
        for _ in range(num_steps):
            if hops is not None:
                before.copy_(table)
            total += self._sweep(energy, table, y)
            if hops is not None:  # the difference takes the place of the states before
                torch.ne(table, before, out=before)
                hops += energy.domain.lengths(before.transpose(0, 1))
        return None if total.isnan().any() else y


def sites_first(energy: Energy, x: Tensor) -> tuple[Tensor, Tensor]:
    """A copy of x in which each site is one row of memory, `(d, B, ...)`, and a view of it in the shape of x."""
    table = cast(Finite, energy.domain).flat(x).transpose(0, 1).clone(memory_format=torch.contiguous_format)
    return table, table.transpose(0, 1).view(x.shape)
