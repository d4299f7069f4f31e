"""Tuners, which find a sampler's settings before its samples count."""

from ebmlab.samplers.tuners.acs_search import ACSTuner
from ebmlab.samplers.tuners.any_scale_search import AnyScaleTuner
from ebmlab.samplers.tuners.dual_averaging import DualAveraging
from ebmlab.samplers.tuners.equal_rejection import EqualRejection
from ebmlab.samplers.tuners.jump_distance import JumpDistance
from ebmlab.samplers.tuners.pattern_search import PatternSearch
from ebmlab.samplers.tuners.preconditioner import Preconditioner
from ebmlab.samplers.tuners.swap_rate import SwapRate
from ebmlab.samplers.tuners.swap_stages import SwapStages
from ebmlab.samplers.tuners.target_acceptance import TargetAcceptance
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.samplers.tuners.warm_up import WarmUp

__all__ = [
    "ACSTuner",
    "AnyScaleTuner",
    "DualAveraging",
    "EqualRejection",
    "JumpDistance",
    "PatternSearch",
    "Preconditioner",
    "SwapRate",
    "SwapStages",
    "TargetAcceptance",
    "Tuner",
    "WarmUp",
]
