"""ebmlab: train, sample and evaluate energy-based models with PyTorch Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebmlab.learners import Learner
    from ebmlab.trained import TrainedModel

__version__ = "0.1.0"


def load(path: str | Path, learner: Learner | None = None, device: str = "cpu") -> TrainedModel:
    """A trained model, which takes and gives raw data; see `ebmlab.trained.load`.

    Args:
        path: a checkpoint, the folder of a run, or `zoo/NAME`, a model that comes with ebmlab.
        learner: one that is built as for the training, if the checkpoint does not say how to build it.
        device: where the model computes.
    """
    from ebmlab import trained  # importing ebmlab itself loads nothing

    return trained.load(path, learner, device=device)
