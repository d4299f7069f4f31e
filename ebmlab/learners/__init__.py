"""How an energy is fit to data."""

from ebmlab.learners.chains import Chains, FromData, FromNoise
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence

__all__ = ["Chains", "ContrastiveDivergence", "FromData", "FromNoise"]
