"""How good a fit is."""

from ebmlab.evaluation.classifier import LabelClassifier, load_or_train
from ebmlab.evaluation.frechet import FrechetDistance, frechet_distance, inception_extractor, require_inception

__all__ = [
    "FrechetDistance",
    "LabelClassifier",
    "frechet_distance",
    "inception_extractor",
    "load_or_train",
    "require_inception",
]
