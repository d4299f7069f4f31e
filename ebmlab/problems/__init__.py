"""Combinatorial problems as energies, and their solution by annealed sampling.

Example:
    >>> from ebmlab.problems import IndependentSet, minimise
    >>> from ebmlab.graphs import lattice_edges
    >>> from ebmlab.samplers import ChromaticMetropolis
    >>> problem = IndependentSet(lattice_edges(4, 1.0))
    >>> found = minimise(problem.energy, ChromaticMetropolis(), num_chains=10, num_steps=100)
    >>> problem.decode(found.x).value.max().item()
    8.0
"""

from ebmlab.problems.annealing import Geometric, Linear, Schedule, beta_range
from ebmlab.problems.clique import Clique, MissingEdges
from ebmlab.problems.independent_set import IndependentSet
from ebmlab.problems.instances import Planted, erdos_renyi, frustrated_loops, plus_minus_j
from ebmlab.problems.max_cut import MaxCut
from ebmlab.problems.minimise import Minimum, minimise
from ebmlab.problems.normalised_cut import CutShares, NormalisedCut
from ebmlab.problems.posed import pose
from ebmlab.problems.problem import Problem, Solutions
from ebmlab.problems.qubo import Qubo
from ebmlab.problems.reheated import Heat, Reheated
from ebmlab.problems.resampled import Resampled

__all__ = [
    "Clique",
    "CutShares",
    "Geometric",
    "Heat",
    "IndependentSet",
    "Linear",
    "MaxCut",
    "Minimum",
    "MissingEdges",
    "NormalisedCut",
    "Planted",
    "Problem",
    "Qubo",
    "Reheated",
    "Resampled",
    "Schedule",
    "Solutions",
    "beta_range",
    "erdos_renyi",
    "frustrated_loops",
    "minimise",
    "plus_minus_j",
    "pose",
]
