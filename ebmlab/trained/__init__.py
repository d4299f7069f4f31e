"""Trained models that know their data: everything takes and gives raw data, as the user's files hold them."""

from ebmlab.trained.likelihood import LogLikelihood
from ebmlab.trained.loading import load
from ebmlab.trained.model import TrainedModel
from ebmlab.trained.mutations import MutationScan, mutation_scores

__all__ = ["LogLikelihood", "MutationScan", "TrainedModel", "load", "mutation_scores"]
