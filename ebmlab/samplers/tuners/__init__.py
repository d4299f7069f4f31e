"""How a sampler's settings are found before its samples count."""

from ebmlab.samplers.tuners.base import Tuner

__all__ = ["Tuner"]
