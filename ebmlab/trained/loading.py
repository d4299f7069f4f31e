"""Finds a checkpoint, and makes the model in it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.errors import UserError, how_many
from ebmlab.evaluation.headline import Headline
from ebmlab.io import zoo
from ebmlab.io.described import fill
from ebmlab.io.files import load_checkpoint
from ebmlab.samplers.draws import Draws
from ebmlab.trained.model import TrainedModel
from ebmlab.trained.record import recorded

if TYPE_CHECKING:
    from ebmlab.learners import Learner

PREPROCESSING = "preprocessing"


def load(path: str | Path, learner: Learner | None = None, *, device: str = "cpu") -> TrainedModel:
    """A trained model that turns raw data into states and back by what its checkpoint says.

    Nothing in the file is executed. A class outside ebmlab and torch must have been imported before.

    Args:
        path: a checkpoint, the folder of a run, or `zoo/NAME`, a model of the zoo. Of a folder the best checkpoint is
            taken, or the last if none is called best.
        learner: one that is built as for the training, for checkpoints that do not say how to build it; its parameters
            are replaced by the checkpoint's. Log Z of such a model is kept nowhere, because the file does not tell it
            from another learner's.
        device: where the model computes.

    Raises:
        UserError: there is no checkpoint, it is damaged, or it does not say how to make the learner.

    Example:
        >>> import pytorch_lightning as pl
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import BlockGibbs
        >>> quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
        >>> trainer = pl.Trainer(max_steps=1, accelerator="cpu", log_every_n_steps=1, **quiet)
        >>> data = torch.ones(8, 1, 6)
        >>> trainer.fit(ContrastiveDivergence(RBM(6, 3), BlockGibbs()), data, data)
        >>> trainer.save_checkpoint("a.ckpt")
        >>> load("a.ckpt").features(torch.ones(2, 6)).shape
        torch.Size([2, 3])
    """
    path = checkpoint_in(Path(path))
    checkpoint = load_checkpoint(path)
    model = _drawing(path, checkpoint) if learner is None else learner
    if learner is not None:
        fill(learner, checkpoint, path)
    saved = checkpoint.get(PREPROCESSING)
    if PREPROCESSING not in checkpoint:
        warnings.warn(f"{path} does not say how raw data become states: give it states", stacklevel=2)
    preprocessing = Preprocessing(model.energy.domain.event_shape) if saved is None else Preprocessing.from_dict(saved)
    about = _about(checkpoint)
    return TrainedModel(model.to(device), preprocessing, path=path if learner is None else None, about=about)


def _drawing(path: Path, checkpoint: dict[str, Any]) -> Draws:
    """The record in a checkpoint; where it takes a learner to draw, or to describe the model, the learner."""
    if (record := recorded(path, checkpoint)) is not None:
        return record
    from ebmlab.learners import Learner  # loads Lightning

    learner = Learner.from_content(path, checkpoint)
    fill(learner, checkpoint, path)
    return learner


def _about(checkpoint: dict[str, Any]) -> list[str]:
    """The steps of the training, and the scores that its evaluations say count."""
    steps = checkpoint.get("global_step")
    callbacks = checkpoint.get("callbacks")
    states = callbacks.values() if isinstance(callbacks, dict) else ()
    found = [Headline.kept(state.get("headline")) for state in states if isinstance(state, dict)]
    trained = [how_many(steps, "step")] if type(steps) is int and steps else []
    return trained + [str(headline) for headline in found if headline is not None]


def checkpoint_in(path: Path, first: str = "best") -> Path:
    """The file itself, the best or last checkpoint of a run's folder, or the model that `zoo/NAME` stands for.

    Args:
        path: of a file or folder, or `zoo/NAME`.
        first: the checkpoint of a folder that is taken if it is there: `best`, or `last` to train on.

    Raises:
        UserError: there is none.
    """
    if path.is_file():
        return path
    if (model := zoo.checkpoint(path)) is not None:
        return model
    if not path.is_dir():
        raise UserError(f"{path}: no such file; give a .ckpt file, or the folder of a run")
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    found = [file for file in folder.glob("[!.]*.ckpt") if file.is_file()]
    if not found:
        raise UserError(f"{path}: there is no checkpoint in {folder}; give a .ckpt file, or the folder of a run")
    return max(found, key=lambda file: (file.stem == first, file.stem == "last", file.stat().st_mtime_ns))
