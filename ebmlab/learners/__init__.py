"""Learners, which fit an energy to data."""

from ebmlab.learners.adaptive_dmala import AdaptiveDMALA
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence
from ebmlab.learners.estimators import EnergyDiscrepancy, Estimator, Exact, GradientGuided, UniformSubset
from ebmlab.learners.learner import Learner
from ebmlab.learners.persistent_acs import PersistentACS
from ebmlab.learners.pseudo_likelihood import PseudoLikelihood
from ebmlab.learners.ratio_matching import RatioMatching
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.samplers.initial_states import FromData, FromMode, FromNoise, FromPoint, Start

__all__ = [
    "AdaptiveDMALA",
    "ContrastiveDivergence",
    "EnergyDiscrepancy",
    "Estimator",
    "Exact",
    "FromData",
    "FromMode",
    "FromNoise",
    "FromPoint",
    "GradientGuided",
    "Learner",
    "PersistentACS",
    "PseudoLikelihood",
    "RatioMatching",
    "ReplayBuffer",
    "Start",
    "UniformSubset",
]
