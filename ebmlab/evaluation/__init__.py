"""How good a fit is, and how good a sampler."""

from ebmlab.evaluation.annealing import AISResult, ais, reverse_ais
from ebmlab.evaluation.classifier import LabelClassifier, load_or_train
from ebmlab.evaluation.coupling import coupling_rmse
from ebmlab.evaluation.effective_sample_size import effective_sample_size
from ebmlab.evaluation.exact import exact_log_z, exact_mean, exact_samples
from ebmlab.evaluation.frechet import FrechetDistance, frechet_distance, inception_extractor, require_inception
from ebmlab.evaluation.graph_mmd import GraphMMD, graph_mmd, graph_mmds
from ebmlab.evaluation.mmd import HammingMMD, hamming_mmd, log_mmd
from ebmlab.evaluation.orbits import orbit_counts
from ebmlab.evaluation.r_hat import split_r_hat

__all__ = [
    "AISResult",
    "FrechetDistance",
    "GraphMMD",
    "HammingMMD",
    "LabelClassifier",
    "ais",
    "coupling_rmse",
    "effective_sample_size",
    "exact_log_z",
    "exact_mean",
    "exact_samples",
    "frechet_distance",
    "graph_mmd",
    "graph_mmds",
    "hamming_mmd",
    "inception_extractor",
    "load_or_train",
    "log_mmd",
    "orbit_counts",
    "require_inception",
    "reverse_ais",
    "split_r_hat",
]
