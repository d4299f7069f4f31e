"""Callbacks: pictures, scores, guards and exact resume.

Example:
    >>> import pytorch_lightning as pl
    >>> trainer = pl.Trainer(callbacks=[SampleGrid(every_n_epochs=5), DivergenceGuard(), RunState()], logger=False)
"""

from callbacks.acceleration import Acceleration
from callbacks.ais_evaluation import AISEvaluation
from callbacks.centred_gradient import CentredGradient
from callbacks.coupling_rmse import CouplingRMSE
from callbacks.data_mean import DataMean
from callbacks.density2d import Density2D
from callbacks.divergence_guard import DivergenceGuard
from callbacks.energy_landscape import EnergyLandscape
from callbacks.equilibrium_check import EquilibriumCheck
from callbacks.fid import FID
from callbacks.graph_grid import GraphGrid
from callbacks.graph_mmd_evaluation import GraphMMDEvaluation
from callbacks.hamming_mmd_evaluation import HammingMMDEvaluation
from callbacks.image_log import log_image
from callbacks.out_of_distribution import OutOfDistribution
from callbacks.parameter_images import ParameterImages
from callbacks.periodic import PeriodicEvaluation
from callbacks.progress import Progress
from callbacks.run_state import RunState
from callbacks.sample_grid import SampleGrid
from callbacks.sampler_monitor import SamplerMonitor
from callbacks.trajectory_likelihood import TrajectoryLikelihood

__all__ = [
    "FID",
    "AISEvaluation",
    "Acceleration",
    "CentredGradient",
    "CouplingRMSE",
    "DataMean",
    "Density2D",
    "DivergenceGuard",
    "EnergyLandscape",
    "EquilibriumCheck",
    "GraphGrid",
    "GraphMMDEvaluation",
    "HammingMMDEvaluation",
    "OutOfDistribution",
    "ParameterImages",
    "PeriodicEvaluation",
    "Progress",
    "RunState",
    "SampleGrid",
    "SamplerMonitor",
    "TrajectoryLikelihood",
    "log_image",
]
