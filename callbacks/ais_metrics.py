"""What `AIS` logs, and whether it is to be trusted."""

from __future__ import annotations

import math

import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.evaluation import LogZ

LOGGED = (
    *("log_likelihood", "log_likelihood_lower", "train_log_likelihood", "bits_per_dim", "log_z", "std_error", "gap"),
    "entropy",
    *("ess", "max_weight", "families", "spread", "trusted"),
)


def metrics_of(found: LogZ, mean_energy: float) -> dict[str, float]:
    """The estimates of log Z, and the likelihood of data with this mean energy."""
    metrics = {
        "ais/log_likelihood": -mean_energy - found.log_z,
        "ais/log_z": found.log_z,
        "ais/std_error": found.std_error,
        "ais/ess": found.ess,
        "ais/max_weight": found.max_weight,
        "ais/families": float(found.num_families),
    }
    if found.backward is not None:
        metrics["ais/log_likelihood_lower"] = -mean_energy - found.backward.log_z
        metrics["ais/gap"] = found.gap
    if len(found.replicates) > 1:
        metrics["ais/spread"] = float(torch.tensor(found.replicates).std())
    return metrics


def entropy(found: LogZ, energies: Tensor) -> float:
    """The entropy of the model's law in nats, log Z + E[E(x)], which is that of a law on a finite domain.

    Args:
        found: of annealed chains that went forward.
        energies: of their last states, `(replicates * chains,)`; each counts by its weight.
    """
    return found.log_z + float(found.log_weights.flatten().softmax(0) @ energies)


def bits_per_dim(log_likelihood: float, data: Data, energy: Energy) -> float:
    """Bits per coordinate of the raw numbers, from the mean log-likelihood of the states in nats."""
    raw = data.preprocessing
    nats = log_likelihood + (0.0 if raw is None else raw.log_jacobian(energy.domain))
    return -nats / (energy.domain.size * math.log(2))


def judge(metrics: dict[str, float], found: LogZ, energy: Energy, quiet: bool) -> bool:
    """Whether the likelihood is to be trusted. If not, warns and takes the standard error out of the metrics."""
    likelihood, doubts = metrics["ais/log_likelihood"], list(found.doubts)
    if math.isnan(likelihood):
        doubts = ["it is NaN: an energy of the data or of a chain is not finite"]
    elif likelihood > 0 and isinstance(energy.domain, Finite):
        doubts.insert(0, "above 0 is impossible for discrete data: log Z is far too small")
    metrics["ais/trusted"] = float(not doubts)
    if not doubts:
        return True
    del metrics["ais/std_error"]
    if quiet:
        return False
    rank_zero_warn(
        f"AIS: do not trust the mean log-likelihood of {likelihood:.4g} nats: {'; '.join(doubts)}. Use "
        'schedule "adaptive" with resample 0.5, reverse, more temperatures or moves, or another sampler'
    )
    return False
