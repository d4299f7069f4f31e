"""Proofs of samplers and learners, for ours and for yours: each raises one line that says what is wrong, and where."""

from ebmlab.testing.exact_starts import ExactStarts, assert_exact_starts
from ebmlab.testing.gradients import Gradient, assert_gradient, log_likelihood_loss
from ebmlab.testing.invariance import Invariance, assert_invariant
from ebmlab.testing.law import ExactLaw, chi_square_p
from ebmlab.testing.planted import Tilted, planted_rbm
from ebmlab.testing.targets import Rugged
from ebmlab.testing.transitions import transition_matrix

__all__ = [
    "ExactLaw",
    "ExactStarts",
    "Gradient",
    "Invariance",
    "Rugged",
    "Tilted",
    "assert_exact_starts",
    "assert_gradient",
    "assert_invariant",
    "chi_square_p",
    "log_likelihood_loss",
    "planted_rbm",
    "transition_matrix",
]
