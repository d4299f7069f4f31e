"""Hidden units in contrastive divergence: those of data and those of chains."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, Energy
from ebmlab.samplers import BipartiteState, BlockGibbs, Leg, Sampler, State
from ebmlab.samplers.block_gibbs import BlockGibbsState, Drawn
from ebmlab.samplers.initial_states import Start

Hidden = tuple[Tensor | None, Tensor | None]
"""Hidden units `(B, H)` and their inputs `(B, H)`; None where they are not known."""


def hidden_of_data(energy: Energy, x: Tensor, *, density: str) -> Hidden:
    """Hidden units drawn for the joint density; none for the marginal density."""
    if density == "marginal":
        return None, None
    assert isinstance(energy, Bipartite)
    with torch.no_grad():
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


def hidden_at_start(sampler: Sampler, start: Start) -> Leg | None:
    """Where chains of block Gibbs go on: at the hidden units that the last training step drew, if they were kept."""
    hidden = start.hidden() if type(sampler) is BlockGibbs else None
    return None if hidden is None else Leg(known=Drawn(hidden))


def keep_hidden(start: Start, state: State) -> None:
    """Keeps the hidden units of chains of block Gibbs, which saves the next training step a product with W."""
    if isinstance(state, BlockGibbsState) and state.hidden is not None:
        start.keep_hidden(state.hidden)
