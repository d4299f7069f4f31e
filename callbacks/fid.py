"""The Frechet distance between samples and data, logged together with its protocol."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from torch import nn

from ebmlab.callbacks.periodic import epoch_of, shows_progress
from ebmlab.callbacks.requirements import data_showing, held_out, images, learner_of, require_split
from ebmlab.callbacks.sample_evaluation import SampleEvaluation, metric_device
from ebmlab.data.interface import Data, Images
from ebmlab.data.weighted import drawn_states
from ebmlab.errors import UserError
from ebmlab.evaluation import LabelClassifier, load_or_train
from ebmlab.evaluation.headline import Headline
from ebmlab.evaluation.metrics import FrechetDistance
from ebmlab.io.files import write_table
from ebmlab.learners import Learner

COLUMNS = [
    *("stage", "step", "epoch", "name", "extractor", "fid"),
    *("samples", "real", "split", "num_steps", "denoise", "seed", "dtype"),
]


class FID(SampleEvaluation):
    """Draws samples by new chains from noise and logs the Frechet distance between their features and the data's.

    Logs `fid/classifier` or `fid/inception`. Each rank draws its share of the samples. Only scores of the same protocol
    can be compared. The protocol, which names the classifier's hash, is sent to the loggers as hyper-parameters and
    written, with every score, to `fid.csv` in the run's folder. Under `fast_dev_run` the classifier is not trained.

    Args:
        extractor: "classifier" or "inception". The first has the features of a small classifier, trained once on the
            data's labels and cached (`ebmlab.evaluation.load_or_train`). The second has those of published FIDs, and
            needs `ebmlab[fid]`.
        num_samples: number of chains, over all ranks.
        split: of the real images, all of which are used. By default "test" in `test`, and "val" otherwise.
        num_steps: steps of each chain; default as in training.
        denoise: use E[v | h] in place of v; default: if the energy has hidden units.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains; the ranks derive different ones from it.

    Example:
        >>> FID(num_samples=500, every_n_epochs=5).extractor
        'classifier'
    """

    least = 2

    needs_images = True
    logs = ("fid/classifier", "fid/inception")

    def __init__(
        self,
        extractor: Literal["inception", "classifier"] = "classifier",
        num_samples: int = 2000,
        *,
        split: Literal["train", "val", "test"] | None = None,
        num_steps: int | None = None,
        denoise: bool | None = None,
        batch_size: int = 500,
        every_n_epochs: int = 10,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)
        self.extractor = extractor
        self.split = split
        self.denoise = denoise
        self._metric: FrechetDistance | None = None
        self._data: Data | None = None  # whose real images `_metric` holds
        self._real: dict[str, Any] = {}  # what `_metric` holds: the split, the number of images and the extractor

    def alike(self, other: pl.Callback) -> bool:
        return isinstance(other, FID) and other.extractor == self.extractor

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = data_showing(trainer, Images, self)
        learner_of(pl_module, self)
        require_split(data, self._split(trainer), self, "set `split` to one of the splits that it gives")
        if self.extractor == "inception":
            from ebmlab.evaluation.inception import require_inception  # here and below, because it loads torchvision

            require_inception()
        elif data.num_classes is None:
            raise UserError(f'FID: {data.title} has no labels to train a classifier on: use extractor "inception"')
        elif data.num_classes < 2:
            raise UserError(f'FID: {data.title} has one class, so that no classifier can be trained: use "inception"')
        elif len(shape := data.event_shape or ()) == 3 and shape[1] != shape[2]:
            raise UserError(
                f"FID: the classifier takes square images, but {data.title} has {shape[1]} x {shape[2]} pixels: give "
                'its size as one number, or use extractor "inception"'
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = data_showing(trainer, Images, self), learner_of(pl_module, self)
        n, num_steps = self.size(trainer, learner)
        denoise = learner.shows_mean(self.denoise)
        name, split = self.key(trainer, f"fid/{self.extractor}"), self._split(trainer)
        if self._metric is None or self._real["split"] != split or self._data is not data:
            self._metric, self._data = self._prepare(trainer, learner, data, split), data
        metric = self._metric.to(metric_device(learner))
        metric.reset()
        title = f"sampling for {name}"
        for samples in self.samples(trainer, learner, n, num_steps, denoise, self.batch_size, title):
            metric.update(images(data, samples).float().to(metric.device), real=False)
        fid = float(metric.compute())
        protocol = {
            "name": name,
            **self._real,
            "samples": n,
            "num_steps": num_steps,
            "denoise": denoise,
            "seed": self.seed,
            "dtype": str(samples.dtype).removeprefix("torch."),
        }
        self._report(trainer, pl_module, fid, protocol)

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("FID", metrics[f"fid/{self.extractor}"], about=self.extractor)

    def _split(self, trainer: pl.Trainer) -> str:
        return self.split or held_out(trainer)

    def _prepare(self, trainer: pl.Trainer, learner: Learner, data: Data, split: str) -> FrechetDistance:
        """The metric with this rank's share of the real images in it."""
        extractor, name = self._classifier(trainer, data) if self.extractor == "classifier" else _inception(trainer)
        metric = FrechetDistance(extractor).to(metric_device(learner))
        real = images(data, drawn_states(data, split)).float()
        self._real = {"extractor": name, "real": len(real), "split": split}
        for batch in torch.split(real[trainer.global_rank :: trainer.world_size], self.batch_size):
            metric.update(batch.to(metric.device), real=True)
        return metric

    def _classifier(self, trainer: pl.Trainer, data: Data) -> tuple[nn.Module, str]:
        labels = data.labels("train")
        if labels is None or data.num_classes is None:
            raise UserError(f'FID: {data.title} has no labels to train a classifier on: use extractor "inception"')
        num_classes, pictures = data.num_classes, images(data, data.states("train")).float()

        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            untrained = LabelClassifier(pictures.shape[1], num_classes, size=pictures.shape[2])
            return untrained.requires_grad_(False).eval(), "untrained classifier"

        def get() -> tuple[nn.Module, str]:
            return load_or_train(pictures, labels, num_classes=num_classes, progress=shows_progress(trainer))

        found = get() if trainer.is_global_zero else None
        trainer.strategy.barrier("FID classifier")  # the others find it in the cache
        model, digest = found or get()
        return model, f"{data.name}-classifier-{digest}"

    def _report(self, trainer: pl.Trainer, pl_module: pl.LightningModule, fid: float, protocol: dict[str, Any]) -> None:
        self.log_metrics(trainer, pl_module, {f"fid/{self.extractor}": fid})
        if not trainer.is_global_zero:
            return
        stage = TrainerFn(trainer.state.fn).value
        row = {"stage": stage, "step": trainer.global_step, "epoch": epoch_of(trainer), "fid": fid, **protocol}
        if _add_row(Path(trainer.default_root_dir, "fid.csv"), row):
            for logger in trainer.loggers:
                logger.log_hyperparams({protocol["name"]: protocol})


def _inception(trainer: pl.Trainer) -> tuple[nn.Module, str]:
    from ebmlab.evaluation.inception import inception_extractor

    found = inception_extractor() if trainer.is_global_zero else None  # one rank downloads
    trainer.strategy.barrier("FID Inception")
    return found or inception_extractor(), "inception"


def _add_row(path: Path, row: dict[str, Any]) -> bool:
    """Adds a row. It replaces one of the same stage, step and protocol, which a resumed run repeats.

    Returns:
        Whether it is the first row of its protocol.
    """
    new = {column: str(row[column]) for column in COLUMNS}
    rows: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    protocol = [c for c in COLUMNS if c not in ("stage", "step", "epoch", "fid")]
    first = all(any(old[c] != new[c] for c in protocol) for old in rows)
    keys = [*protocol, "stage", "step"]
    rows = [old for old in rows if any(old[c] != new[c] for c in keys)]
    write_table(path, COLUMNS, [*rows, new])
    return first
