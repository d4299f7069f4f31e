"""How a sampler's settings are found before its samples count."""

from ebmlab.samplers.tuners.acs import ACSTuner
from ebmlab.samplers.tuners.any_scale import AnyScaleTuner
from ebmlab.samplers.tuners.base import Tuner
from ebmlab.samplers.tuners.jump_distance import JumpDistance
from ebmlab.samplers.tuners.swap_rate import SwapRate
from ebmlab.samplers.tuners.target_acceptance import TargetAcceptance

__all__ = ["ACSTuner", "AnyScaleTuner", "JumpDistance", "SwapRate", "TargetAcceptance", "Tuner"]
