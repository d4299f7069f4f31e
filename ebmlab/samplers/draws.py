"""What draws samples: an energy with a sampler, in training or after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from ebmlab.energies import Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.io.progress import Meter
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import BipartiteState, State, hidden_given_state


class Draws(nn.Module):
    """Chains of a sampler on an energy, for a class that holds both, such as a `Learner`.

    Attributes:
        energy: the model.
        sampler: draws from it.
        num_steps: steps of its chains, unless a caller says otherwise.
    """

    energy: Energy
    sampler: Sampler
    num_steps: int

    @torch.no_grad()
    def trajectory(self, x: Tensor, num_steps: int | None = None, *, denoise: bool = False) -> Iterator[Tensor]:
        """The states `(B, *event)` of chains from x after each step.

        Args:
            x: first states, `(B, *event)`.
            num_steps: at least 1; `num_steps` of the object by default.
            denoise: yield E[v | h] of drawn hidden units instead of v (bipartite energies only).

        Raises:
            UserError: num_steps is below 1, the energy has no law, or energies of the last states are not finite.
        """
        if num_steps is not None and num_steps < 1:
            raise UserError(f"num_steps is {num_steps}, but a chain must take at least 1 step")
        self.energy.check_law()
        for state in self.walk(x, self.num_steps if num_steps is None else num_steps):
            yield self._mean_visible(state) if denoise else state.x
        if bad := int((~self.energy(state.x).isfinite()).sum()):
            raise UserError(
                f"the energies of {bad} of {len(x)} samples are not finite, so they do not come from the model: take "
                "an earlier checkpoint if training has diverged, smaller steps if the sampler has"
            )

    def walk(self, x: Tensor, num_steps: int) -> Iterator[State]:
        """The states of chains from x `(B, *event)` after each step; a class that draws otherwise overrides it."""
        return (state for state, _ in self.sampler.chain(self.energy, x, num_steps))

    def walk_length(self, num_steps: int) -> int:
        """How many states `walk` yields; a class whose walk has another length overrides it."""
        return num_steps

    @torch.no_grad()
    def draw(self, x: Tensor, num_steps: int | None = None, *, denoise: bool = False) -> Tensor:
        """The last state of `trajectory`."""
        return deque(self.trajectory(x, num_steps, denoise=denoise), maxlen=1).pop()

    @torch.no_grad()
    def draws(
        self,
        sizes: Sequence[int],
        num_steps: int | None = None,
        *,
        denoise: bool = False,
        title: str = "sampling",
        shown: bool = True,
    ) -> Iterator[Tensor]:
        """The last states of new chains from noise, batch by batch, and how far their steps are if they take long.

        Args:
            sizes: chains of each batch; one of none is empty.
            num_steps: see `trajectory`.
            denoise: see `trajectory`.
            title: of the progress.
            shown: whether this process may show progress.
        """
        steps = self.walk_length(self.num_steps if num_steps is None else num_steps)
        with Meter(title, "step", steps * len(sizes), shown=shown) as meter:
            for before, n in enumerate(sizes):
                last = self.energy.random(n)
                states = self.trajectory(last, num_steps, denoise=denoise) if n else ()
                for taken, last in enumerate(states, 1):  # noqa: B007
                    meter.passed(steps * before + taken)
                yield last

    def _mean_visible(self, state: State) -> Tensor:
        if not isinstance(self.energy, Bipartite):
            raise UserError(
                f"denoise gives E[v | h], but {type(self.energy).__name__} has no hidden units: set it to false"
            )
        if isinstance(state, BipartiteState) and state.hidden is not None:
            return self.energy.mean_visible(state.hidden)
        return self.energy.mean_visible(self.energy.units.sample(hidden_given_state(self.energy, state)))

    def shows_mean(self, denoise: bool | None) -> bool:
        """Whether to show E[v | h]: `denoise`, or if that is None, whether the energy has hidden units."""
        return isinstance(self.energy, Bipartite) if denoise is None else denoise
