"""Samplers, which draw x from an energy."""

from ebmlab.samplers.acs import ACS
from ebmlab.samplers.alternate import Alternate
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.bfloat16_proposals import Bfloat16Proposals
from ebmlab.samplers.block_gibbs import BlockGibbs
from ebmlab.samplers.chromatic_gibbs import ChromaticGibbs
from ebmlab.samplers.chromatic_metropolis import ChromaticMetropolis
from ebmlab.samplers.discrete_hams import DiscreteHAMS
from ebmlab.samplers.discrete_svgd import DiscreteSVGD
from ebmlab.samplers.dlmc import DLMC
from ebmlab.samplers.dmala import DMALA
from ebmlab.samplers.dula import DULA
from ebmlab.samplers.gibbs import Gibbs
from ebmlab.samplers.gibbs_langevin import GibbsLangevin
from ebmlab.samplers.gibbs_sweep import GibbsSweep
from ebmlab.samplers.gwg import GWG
from ebmlab.samplers.hamming_ball import HammingBall
from ebmlab.samplers.hmc import HMC
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.langevin import MALA, ULA, Langevin
from ebmlab.samplers.locally_balanced import LocallyBalanced
from ebmlab.samplers.metropolis import MetropolisSampler, decide
from ebmlab.samplers.nuts import NUTS
from ebmlab.samplers.path_auxiliary import PathAuxiliary
from ebmlab.samplers.random_walk import RandomWalk
from ebmlab.samplers.regularised_langevin import RegularisedLangevin
from ebmlab.samplers.relaxed_mala import RelaxedMALA
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.schedules import Constant, Cosine, Schedule
from ebmlab.samplers.state import BipartiteState, EnergyState, GradientState, Info, Leg, State, hidden_given_state
from ebmlab.samplers.swendsen_wang import SwendsenWang
from ebmlab.samplers.tempered import Tempered
from ebmlab.samplers.trajectory_tempered import TrajectoryTempered
from ebmlab.samplers.underdamped_langevin import UnderdampedLangevin
from ebmlab.samplers.wolff import Wolff

__all__ = [
    "ACS",
    "DLMC",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "MALA",
    "NUTS",
    "ULA",
    "Alternate",
    "AnyScale",
    "Bfloat16Proposals",
    "BipartiteState",
    "BlockGibbs",
    "ChromaticGibbs",
    "ChromaticMetropolis",
    "Constant",
    "Cosine",
    "DiscreteHAMS",
    "DiscreteSVGD",
    "EnergyState",
    "Gibbs",
    "GibbsLangevin",
    "GibbsSweep",
    "GradientState",
    "HammingBall",
    "Info",
    "Kernel",
    "Langevin",
    "Leg",
    "LocallyBalanced",
    "MetropolisSampler",
    "PathAuxiliary",
    "RandomWalk",
    "RegularisedLangevin",
    "RelaxedMALA",
    "Sampler",
    "Schedule",
    "State",
    "SwendsenWang",
    "Tempered",
    "TrajectoryTempered",
    "UnderdampedLangevin",
    "Wolff",
    "decide",
    "hidden_given_state",
]
