"""Hidden units in contrastive divergence: those of data and those of chains."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, Energy
from ebmlab.samplers import BipartiteState, State

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
