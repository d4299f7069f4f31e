"""The laws that Metropolis kernels propose from: value objects that can be drawn from, evaluated and merged."""

from ebmlab.samplers.proposals.factorised import factorised
from ebmlab.samplers.proposals.gaussian import Gaussian
from ebmlab.samplers.proposals.moves import Path, first_order_moves
from ebmlab.samplers.proposals.proposal import Draw, Proposal

__all__ = ["Draw", "Gaussian", "Path", "Proposal", "factorised", "first_order_moves"]
