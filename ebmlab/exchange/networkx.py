"""Undirected graphs of networkx, with the attribute `weight` of edges, which is 1 where it is missing."""

from __future__ import annotations

from typing import Any

from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, labels_of
from ebmlab.exchange.format import Format, has, needed
from ebmlab.exchange.weighted_graph import edges_of, graph


def take(given: Any) -> Foreign:
    """A `networkx.Graph`; names are its nodes, in its order."""
    if given.is_directed() or given.is_multigraph():
        raise UserError("it is directed or has parallel edges: give a networkx.Graph")
    edges = [(i, j, float(w), f"{i} {j} {w}") for i, j, w in given.edges(data="weight", default=1)]
    return graph("networkx", [labels_of(node) for node in given.nodes], edges, "those of the graph")


def make(foreign: Foreign) -> Any:
    """The graph with its weights."""
    networkx = needed("networkx", "its graphs", "graphs")
    names = foreign.names or tuple(range(foreign.energy.domain.size))
    made = networkx.Graph()
    made.add_nodes_from(names)
    made.add_weighted_edges_from((names[i], names[j], w) for i, j, w in edges_of(foreign, "networkx"))
    return made


FORMAT = Format(
    "networkx",
    "graphs of networkx",
    accepts=has("nodes", "edges", "is_directed", "is_multigraph"),
    take=take,
    make=make,
)
