"""How x is drawn from an energy."""

from ebmlab.samplers.base import Info, Sampler, State
from ebmlab.samplers.block_gibbs import BlockGibbs
from ebmlab.samplers.gibbs_langevin import GibbsLangevin
from ebmlab.samplers.langevin import Langevin
from ebmlab.samplers.schedules import Constant, Cosine, Schedule

__all__ = ["BlockGibbs", "Constant", "Cosine", "GibbsLangevin", "Info", "Langevin", "Sampler", "Schedule", "State"]
