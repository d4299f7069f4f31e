"""The proposal laws of Metropolis kernels: objects that draw moves, give their probabilities and can be merged."""

from ebmlab.samplers.proposals.factorised import factorised
from ebmlab.samplers.proposals.gaussian import Gaussian
from ebmlab.samplers.proposals.moves import Path, first_order_moves
from ebmlab.samplers.proposals.proposal import Draw, Proposal

__all__ = ["Draw", "Gaussian", "Path", "Proposal", "factorised", "first_order_moves"]
