"""Learners, which fit an energy to data."""

from ebmlab.learners.adaptive_dmala import AdaptiveDMALA
from ebmlab.learners.boltzmann_learning import BoltzmannLearning
from ebmlab.learners.conditional_noise_contrast import ConditionalNoiseContrast
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence
from ebmlab.learners.denoising_score_matching import DenoisingScoreMatching
from ebmlab.learners.diffusion_recovery import DiffusionRecovery
from ebmlab.learners.energy_matching import EnergyMatching
from ebmlab.learners.estimators import EnergyDiscrepancy, Estimator, Exact, GradientGuided, UniformSubset
from ebmlab.learners.joint_classifier import JointClassifier
from ebmlab.learners.learner import Learner
from ebmlab.learners.noise_contrast import NoiseContrast
from ebmlab.learners.persistent_acs import PersistentACS
from ebmlab.learners.pseudo_likelihood import PseudoLikelihood
from ebmlab.learners.ratio_matching import RatioMatching
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.learners.score_matching import ScoreMatching
from ebmlab.samplers.initial_states import FromData, FromMode, FromNoise, FromPoint, Start

__all__ = [
    "AdaptiveDMALA",
    "BoltzmannLearning",
    "ConditionalNoiseContrast",
    "ContrastiveDivergence",
    "DenoisingScoreMatching",
    "DiffusionRecovery",
    "EnergyDiscrepancy",
    "EnergyMatching",
    "Estimator",
    "Exact",
    "FromData",
    "FromMode",
    "FromNoise",
    "FromPoint",
    "GradientGuided",
    "JointClassifier",
    "Learner",
    "NoiseContrast",
    "PersistentACS",
    "PseudoLikelihood",
    "RatioMatching",
    "ReplayBuffer",
    "ScoreMatching",
    "Start",
    "UniformSubset",
]
