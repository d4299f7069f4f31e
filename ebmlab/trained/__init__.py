"""Trained models that know their data: everything takes and gives raw data, as the user's files hold them."""

from ebmlab.trained.likelihood import LogLikelihood
from ebmlab.trained.loading import load
from ebmlab.trained.model import TrainedModel

__all__ = ["LogLikelihood", "TrainedModel", "load"]
