"""A file or an object of another package as a problem."""

from __future__ import annotations

from typing import Any

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange import Foreign, read
from ebmlab.problems.clique import Clique
from ebmlab.problems.independent_set import IndependentSet
from ebmlab.problems.max_cut import MaxCut
from ebmlab.problems.normalised_cut import NormalisedCut
from ebmlab.problems.problem import Problem
from ebmlab.problems.qubo import Qubo

GRAPHS = ("gset", "dimacs", "edges", "networkx")
OF_GRAPHS: dict[str, Any] = {
    "max_cut": MaxCut,
    "independent_set": IndependentSet,
    "clique": Clique,
    "normalised_cut": NormalisedCut,
}


def pose(given: Any, problem: str | None = None) -> Problem:
    r"""The problem that a graph or a quadratic model poses.

    Args:
        given: a path, an object of another package, or what `ebmlab.exchange.read` made of one.
        problem: max_cut, independent_set, clique or normalised_cut, which a graph does not say by itself; qubo for any
            other model. None takes max_cut for a G-set graph and qubo for a model that is no graph.

    Raises:
        UserError: it cannot be read, is no such problem, or does not say which.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("c5.col").write_text("p edge 5 5\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\n")
        >>> pose("c5.col", "independent_set").decode(torch.ones(1, 5)).value.tolist()
        [2.0]
    """
    found = given if isinstance(given, Foreign) else read(given)
    where = found.source or f"the {found.kind} object"
    if found.kind not in GRAPHS:
        if problem not in (None, "qubo"):
            raise UserError(f"{where} is no graph, as {problem} needs, but {found.kind}: leave the problem out")
        return Qubo(found)
    if problem is None and found.kind == "gset":
        problem = "max_cut"
    if problem not in OF_GRAPHS:
        wrong = f", not {problem}" if problem else ""
        raise UserError(f"{where} is a graph: say which problem, {', '.join(OF_GRAPHS)}{wrong}", option="problem")
    assert isinstance(found.energy, Ising)
    entries = found.energy.edges()
    if problem != "max_cut" and len(entries.values) != 2 * found.facts["edges"]:
        raise UserError(f"{where} has edges of weight 0, which {problem} cannot tell from none: leave them out")
    made: Problem = OF_GRAPHS[problem](entries.with_values(-entries.values))
    return made
