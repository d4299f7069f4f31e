"""Hidden units in contrastive divergence: those of data and of chains, and those that a buffer keeps."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.samplers import BipartiteState, BlockGibbs, Leg, Sampler, State
from ebmlab.samplers.initial_states import Start

Hidden = tuple[Tensor | None, Tensor | None]
"""Hidden units `(B, H)` and their inputs `(B, H)`; None where they are not known."""


@torch.no_grad()
def hidden_of_data(energy: Energy, x: Tensor, *, density: str) -> Hidden:
    """Hidden units drawn for the joint density; none for the marginal density."""
    if density == "marginal":
        return None, None
    assert isinstance(energy, Bipartite)
    inputs = energy.hidden_given_visible(x)
    return energy.units.sample(inputs), inputs


def hidden_of_state(energy: Energy, state: State, *, density: str) -> Hidden:
    """Hidden units of chains: drawn for the joint density, their mean for the marginal density."""
    if not isinstance(state, BipartiteState) or state.logits is None:
        return None, None
    units = cast(Bipartite, energy).units
    if density == "marginal":
        return units.mean(state.logits), state.logits
    return units.sample(state.logits) if state.hidden is None else state.hidden, state.logits


def check_sampler(start: Start, sampler: Sampler, *, compiled: bool) -> None:
    """Raises `UserError` if chains shall keep hidden units that these steps do not go on from."""
    if isinstance(start, ReplayBuffer) and start.keep_hidden and (compiled or type(sampler) is not BlockGibbs):
        other = "compile_chains" if compiled else type(sampler).__name__
        raise UserError(
            f"ReplayBuffer keeps hidden units for plain steps of BlockGibbs, not for {other}: set keep_hidden to false"
        )


def leg_of(start: Start, x: Tensor) -> Leg | None:
    """How chains go on from the states x that `draw` has given: with their hidden units, if these are kept."""
    hidden = start.drawn_hidden(x.dtype) if isinstance(start, ReplayBuffer) else None
    return None if hidden is None else Leg(known=BipartiteState(x=x, hidden=hidden))


def put_back(start: Start, state: State) -> None:
    """Hands over the last state of the chains, with its hidden units if they are kept."""
    if isinstance(start, ReplayBuffer) and start.keep_hidden and isinstance(state, BipartiteState):
        start.put_back(state.x, state.hidden)
    else:
        start.put_back(state.kept)
