"""Quadratic problems on bits or spins, as dimod and its kin pose them."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange import Foreign
from ebmlab.problems.problem import Problem, Solutions


class Qubo(Problem):
    """The energy that a package gives its problem: `scale * E(x) + offset`. Every state is feasible.

    Args:
        found: what `ebmlab.exchange.read` made of a file or an object.

    Raises:
        UserError: it is no Ising model, or its energies grow where E falls.

    Example:
        >>> from ebmlab.exchange import read
        >>> problem = Qubo(read({("a", "a"): 1.0, ("a", "b"): -3.0}))
        >>> problem.decode(torch.tensor([[1, 1], [1, -1]])).value.tolist()
        [-2.0, 1.0]
    """

    goal: ClassVar[Literal["max", "min"]] = "min"
    unit: ClassVar[str] = "energy"
    energy: Ising

    def __init__(self, found: Foreign) -> None:
        if not isinstance(found.energy, Ising):
            raise UserError(
                f"Qubo: {found.source or 'it'} holds a {type(found.energy).__name__}, and must hold an Ising model"
            )
        if found.scale <= 0:
            raise UserError(f"Qubo: {found.source or 'it'} is a graph, whose cut is to be large: pose it as max_cut")
        self.energy, self.found = found.energy, found

    @torch.no_grad()
    def decode(self, x: Tensor) -> Solutions:
        """The bits, 1 for a spin +1, and the package's own energy."""
        return Solutions((x > 0).to(torch.int8), self.found.value(x))
