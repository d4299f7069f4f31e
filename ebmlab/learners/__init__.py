"""How an energy is fit to data."""

from ebmlab.learners.chains import Chains, FromData, FromNoise, ReplayBuffer
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence
from ebmlab.learners.estimators import EnergyDiscrepancy, Estimator, Exact, GradientGuided, UniformSubset
from ebmlab.learners.learner import Learner
from ebmlab.learners.ratio_matching import RatioMatching

__all__ = [
    "Chains",
    "ContrastiveDivergence",
    "EnergyDiscrepancy",
    "Estimator",
    "Exact",
    "FromData",
    "FromNoise",
    "GradientGuided",
    "Learner",
    "RatioMatching",
    "ReplayBuffer",
    "UniformSubset",
]
