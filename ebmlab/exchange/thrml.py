"""Ising models of thrml and hamon: E(s) = -beta (sum b_i s_i + sum w_ij s_i s_j), so that h = beta b and J = beta w.

Edges that are listed twice add up. Their states are booleans, of which True is +1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import UserError, explained
from ebmlab.exchange.foreign import Foreign, spins
from ebmlab.exchange.format import Format, has, needed, only


def take(given: Any) -> Foreign:
    """An `IsingEBM`; its nodes are numbered in the order of its list.

    Raises:
        UserError: an edge ends at a node that has no bias, or lists have different lengths.
    """
    place = {id(node): i for i, node in enumerate(given.nodes)}
    beta = float(np.asarray(given.beta))
    biases, weights = (np.asarray(part, np.float64) for part in (given.biases, given.weights))
    if biases.shape != (len(place),) or weights.shape != (len(given.edges),):
        raise UserError("its lists of nodes and biases, or of edges and weights, have different lengths")
    with explained("one of its edges ends at a node that is not in its list of nodes", KeyError):
        rows, columns = ([place[id(edge[end])] for edge in given.edges] for end in (0, 1))
    energy = spins(rows, columns, beta * weights, beta * biases)
    return Foreign(energy, "thrml", form="bits", facts={"beta": beta})


def make(foreign: Foreign) -> Any:
    """Thrml's `IsingEBM` with beta 1, whose nodes are new."""
    thrml = needed("thrml", "its models", None)
    jnp = needed("jax.numpy", "its models", None)
    ising = needed("thrml.models.ising", "its models", None)
    energy = only(foreign, Ising, "thrml")
    nodes = [thrml.SpinNode() for _ in range(energy.domain.size)]
    edges = energy.edges()
    upper = edges.rows < edges.columns
    ends = zip(edges.rows[upper].tolist(), edges.columns[upper].tolist(), strict=True)
    return ising.IsingEBM(
        nodes,
        [(nodes[i], nodes[j]) for i, j in ends],
        jnp.asarray(energy.field.cpu().numpy()),
        jnp.asarray(edges.values[upper].cpu().numpy()),
        jnp.asarray(1.0),
    )


FORMAT = Format(
    "thrml", "thrml, hamon: IsingEBM", accepts=has("nodes", "edges", "biases", "weights", "beta"), take=take, make=make
)
