"""Measures of the quality of a fit and of a sampler.

The metrics that gather sets over batches and ranks are in `ebmlab.evaluation.metrics`.
"""

from ebmlab.evaluation.annealing import ais, reverse_ais
from ebmlab.evaluation.base_laws import data_law, mean_field
from ebmlab.evaluation.bracket import log_z
from ebmlab.evaluation.calibration import calibration_error
from ebmlab.evaluation.classifier import LabelClassifier, load_or_train
from ebmlab.evaluation.classifier_two_sample import ClassifierTest, classifier_test
from ebmlab.evaluation.contacts import ContactPrediction, contact_prediction, contact_scores, pair_couplings
from ebmlab.evaluation.coupling import coupling_rmse
from ebmlab.evaluation.effective_sample_size import effective_sample_size
from ebmlab.evaluation.energy_distance import energy_distance
from ebmlab.evaluation.exact import exact_log_z, exact_mean, exact_samples
from ebmlab.evaluation.exchange import exchange_log_z
from ebmlab.evaluation.families import FamilyComparison, compare_families
from ebmlab.evaluation.frechet import frechet_distance
from ebmlab.evaluation.graph_mmd import graph_mmd, graph_mmds
from ebmlab.evaluation.graph_novelty import GraphNovelty, graph_novelty
from ebmlab.evaluation.kernel_distance import kernel_distance
from ebmlab.evaluation.ladder import Ladder
from ebmlab.evaluation.law_check import LawCheck, law_check
from ebmlab.evaluation.log_z import LogZ
from ebmlab.evaluation.mmd import hamming_mmd, log_mmd
from ebmlab.evaluation.nearest_neighbour import AdversarialAccuracy, adversarial_accuracy
from ebmlab.evaluation.orbits import orbit_counts
from ebmlab.evaluation.precision_recall import PrecisionRecall, precision_recall
from ebmlab.evaluation.quadrature import PlaneIntegral, plane_integral
from ebmlab.evaluation.r_hat import split_r_hat
from ebmlab.evaluation.replica_exchange import ExchangeReport, RoundTrips, exchange_report
from ebmlab.evaluation.sliced_wasserstein import sliced_wasserstein
from ebmlab.evaluation.stein import SteinTest, stein_discrepancy, stein_test

__all__ = [
    "AdversarialAccuracy",
    "ClassifierTest",
    "ContactPrediction",
    "ExchangeReport",
    "FamilyComparison",
    "GraphNovelty",
    "LabelClassifier",
    "Ladder",
    "LawCheck",
    "LogZ",
    "PlaneIntegral",
    "PrecisionRecall",
    "RoundTrips",
    "SteinTest",
    "adversarial_accuracy",
    "ais",
    "calibration_error",
    "classifier_test",
    "compare_families",
    "contact_prediction",
    "contact_scores",
    "coupling_rmse",
    "data_law",
    "effective_sample_size",
    "energy_distance",
    "exact_log_z",
    "exact_mean",
    "exact_samples",
    "exchange_log_z",
    "exchange_report",
    "frechet_distance",
    "graph_mmd",
    "graph_mmds",
    "graph_novelty",
    "hamming_mmd",
    "kernel_distance",
    "law_check",
    "load_or_train",
    "log_mmd",
    "log_z",
    "mean_field",
    "orbit_counts",
    "pair_couplings",
    "plane_integral",
    "precision_recall",
    "reverse_ais",
    "sliced_wasserstein",
    "split_r_hat",
    "stein_discrepancy",
    "stein_test",
]
