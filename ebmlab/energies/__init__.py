"""What p(x) = exp(-E(x)) / Z is."""

from ebmlab.energies.base import Energy, Evaluation
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.grbm import GRBM

__all__ = ["GRBM", "Bipartite", "Energy", "Evaluation"]
