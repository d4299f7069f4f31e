"""Callbacks: pictures, scores, guards and exact resume.

Example:
    >>> import pytorch_lightning as pl
    >>> trainer = pl.Trainer(callbacks=[SampleGrid(every_n_epochs=5), DivergenceGuard(), RunState()], logger=False)
"""

if __name__ != "ebmlab.callbacks":  # in a checkout, this folder also lies on the path by itself
    raise ImportError("these modules are imported as ebmlab.callbacks")

from ebmlab.callbacks.acceleration import Acceleration
from ebmlab.callbacks.ais import AIS
from ebmlab.callbacks.centred_gradient import CentredGradient
from ebmlab.callbacks.chain_schedules import AnnealedSteps, ShortChains
from ebmlab.callbacks.closed_form import ClosedForm
from ebmlab.callbacks.contacts import Contacts
from ebmlab.callbacks.coupling_rmse import CouplingRMSE
from ebmlab.callbacks.data_mean import DataMean
from ebmlab.callbacks.decimation import Decimation
from ebmlab.callbacks.density2d import Density2D
from ebmlab.callbacks.divergence_guard import DivergenceGuard
from ebmlab.callbacks.edge_activation import EdgeActivation
from ebmlab.callbacks.energy_histograms import EnergyHistograms
from ebmlab.callbacks.energy_landscape import EnergyLandscape
from ebmlab.callbacks.equilibrium_check import EquilibriumCheck
from ebmlab.callbacks.family_report import FamilyReport
from ebmlab.callbacks.fid import FID
from ebmlab.callbacks.graph_grid import GraphGrid
from ebmlab.callbacks.image_log import log_image
from ebmlab.callbacks.low_rank_start import LowRankStart
from ebmlab.callbacks.mmd import GraphMMD, HammingMMD
from ebmlab.callbacks.out_of_distribution import OutOfDistribution
from ebmlab.callbacks.parameter_images import ParameterImages
from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.progress import Progress
from ebmlab.callbacks.run_state import RunState
from ebmlab.callbacks.sample_distances import SampleDistances
from ebmlab.callbacks.sample_grid import SampleGrid
from ebmlab.callbacks.sample_table import SampleTable
from ebmlab.callbacks.sampler_monitor import SamplerMonitor
from ebmlab.callbacks.stop_at_correlation import StopAtCorrelation
from ebmlab.callbacks.trajectory_likelihood import TrajectoryLikelihood
from ebmlab.evaluation.headline import Headline

__all__ = [
    "AIS",
    "FID",
    "Acceleration",
    "AnnealedSteps",
    "CentredGradient",
    "ClosedForm",
    "Contacts",
    "CouplingRMSE",
    "DataMean",
    "Decimation",
    "Density2D",
    "DivergenceGuard",
    "EdgeActivation",
    "EnergyHistograms",
    "EnergyLandscape",
    "EquilibriumCheck",
    "FamilyReport",
    "GraphGrid",
    "GraphMMD",
    "HammingMMD",
    "Headline",
    "LowRankStart",
    "OutOfDistribution",
    "ParameterImages",
    "PeriodicEvaluation",
    "Progress",
    "RunState",
    "SampleDistances",
    "SampleGrid",
    "SampleTable",
    "SamplerMonitor",
    "ShortChains",
    "StopAtCorrelation",
    "TrajectoryLikelihood",
    "log_image",
]
