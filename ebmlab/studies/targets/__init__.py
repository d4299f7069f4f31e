"""Laws that papers have compared samplers on. Nothing else in ebmlab depends on them."""

from ebmlab.data.tables import Rows, TabularSource
from ebmlab.studies.targets.binary_net_posterior import BinaryNetPosterior
from ebmlab.studies.targets.lattice_gaussian import LatticeGaussian
from ebmlab.studies.targets.logistic_posterior import LogisticPosterior
from ebmlab.studies.targets.mode_grid import ModeGrid
from ebmlab.studies.targets.quartic_mixture import QuarticMixture

__all__ = [
    "BinaryNetPosterior",
    "LatticeGaussian",
    "LogisticPosterior",
    "ModeGrid",
    "QuarticMixture",
    "Rows",
    "TabularSource",
]
