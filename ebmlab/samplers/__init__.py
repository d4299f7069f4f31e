"""How x is drawn from an energy."""

from ebmlab.samplers.base import EnergyState, GradientState, Info, Sampler, State
from ebmlab.samplers.block_gibbs import BlockGibbs
from ebmlab.samplers.discrete_langevin import DMALA, DULA
from ebmlab.samplers.gibbs_langevin import GibbsLangevin
from ebmlab.samplers.langevin import Langevin
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.schedules import Constant, Cosine, Schedule

__all__ = [
    "DMALA",
    "DULA",
    "BlockGibbs",
    "Constant",
    "Cosine",
    "EnergyState",
    "GibbsLangevin",
    "GradientState",
    "Info",
    "Langevin",
    "MetropolisSampler",
    "Sampler",
    "Schedule",
    "State",
]
