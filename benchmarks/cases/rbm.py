"""Training an RBM of 784 and 500 units on 60,000 random images, bare and in Lightning's Trainer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor

from benchmarks import packages
from benchmarks.cases.targets import HIDDEN, VISIBLE, bits, rbm
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Make, Race, race
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.energies import Energy
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.numerics.noise import bernoulli, coins
from ebmlab.numerics.products import by_onednn
from ebmlab.samplers import BlockGibbs, Sampler

BATCH, IMAGES, RATE = 100, 60_000, 0.01
SGD = partial(torch.optim.SGD, lr=RATE)
QUIET: dict[str, Any] = dict.fromkeys(("enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)


class Bits(TensorDataModule):
    """Random 0/1 vectors."""

    def __init__(self, num_bits: int, num_samples: int, batch_size: int) -> None:
        super().__init__((num_bits,), batch_size, seed=0, binarize=True)
        self.data = bits(num_samples, num_bits).byte()

    max_value = 1.0

    def load(self, split: str) -> tuple[Tensor, None]:
        return self.data if split == "train" else self.data[:100], None


class Unlogged(ContrastiveDivergence):
    """A learner in the training steps that a trainer does not log, nine of ten on the command line."""

    log_is_due = False  # type: ignore[assignment]


def training(energy: Energy, sampler: Sampler, batches: Sequence[Tensor], **settings: Any) -> Contestant:
    """Training step, backward pass and optimizer step on every batch, without a trainer."""
    learner = Unlogged(energy, sampler, **settings)
    (optimizer,), _ = learner.configure_optimizers()

    def run() -> None:
        for k, batch in enumerate(batches):
            optimizer.zero_grad()
            learner.training_step(batch, k).backward()
            optimizer.step()

    return Contestant(run)


def in_trainer(learner: pl.LightningModule, data: pl.LightningDataModule) -> Contestant:
    """One epoch by `Trainer.fit`, with a logger and without checkpoints."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            trainer = pl.Trainer(max_epochs=1, logger=CSVLogger(folder), limit_val_batches=0, **QUIET)
            trainer.fit(learner, datamodule=data)

    return Contestant(run)


def training_floor(batch: int, steps: int, times: int) -> Contestant:
    """Hidden units of the data, `steps` pairs of layers, and the two products of W's gradient."""
    up, down = (batch, VISIBLE, HIDDEN), (batch, HIDDEN, VISIBLE)
    products = [up, *[down, up] * steps, *[(VISIBLE, batch, HIDDEN)] * 2]
    return floor(products, uniforms=steps * batch * (VISIBLE + HIDDEN), times=times)


def written_out(batches: Sequence[Tensor]) -> Contestant:
    """PCD-1 as the algorithm is written (Tieleman, 2008): nothing is checked, logged or differentiated."""
    model = rbm()
    W, b_v, b_h = (p.detach() for p in (model.W, model.b_v, model.b_h))
    kept = {"h": bits(BATCH, HIDDEN)}

    def run() -> None:
        with by_onednn(BATCH * VISIBLE * HIDDEN):
            for x in batches:
                data = torch.sigmoid(torch.addmm(b_h, x, W))
                v = bernoulli(torch.addmm(b_v, kept["h"], W.T))
                model_h = torch.sigmoid(torch.addmm(b_h, v, W))
                kept["h"] = coins(model_h)
                rise = torch.mm(x.T, data).addmm_(v.T, model_h, alpha=-1)
                W.add_(rise, alpha=RATE / BATCH)
                b_v.add_(x.sum(0) - v.sum(0), alpha=RATE / BATCH)
                b_h.add_(data.sum(0) - model_h.sum(0), alpha=RATE / BATCH)

    return Contestant(run)


def pcd(batch: int, steps: int) -> dict[str, Any]:
    return {"start": ReplayBuffer(batch), "num_steps": steps, "optimizer": SGD}


@race("rbm-pcd", 1, 10)
def rbm_step(steps: int) -> Race:
    batch = BATCH if steps == 1 else 500
    units = 20 if steps == 1 else 2
    x = bits(batch)

    def repeated(run: Any) -> Contestant:
        return Contestant(lambda: [run() for _ in range(units)])

    entries: dict[str, Make] = {
        "ebmlab": lambda: training(rbm(), BlockGibbs(), [x] * units, **pcd(batch, steps)),
        "rbms": lambda: repeated(packages.rbms_training(rbm(), x, steps, RATE)),
        "ebmkit": lambda: repeated(packages.ebmkit_training(rbm(), x, steps, RATE)),
        "floor": lambda: training_floor(batch, steps, units),
    }
    if steps == 1:
        entries["floor, written out"] = lambda: written_out([x] * units)
    return Race(f"A training step of PCD-{steps}, RBM 784-500, batch {batch}", units, entries)


@race("rbm-epoch", "bare", "trainer")
def epoch(where: str) -> Race:
    """600 updates by persistent CD."""
    data = Bits(VISIBLE, IMAGES, BATCH)

    def ours() -> Contestant:
        settings = pcd(BATCH, 1)
        if where == "bare":
            return training(rbm(), BlockGibbs(), data.data.float().split(BATCH), **settings)
        return in_trainer(ContrastiveDivergence(rbm(), BlockGibbs(), **settings), data)

    return Race(
        f"An epoch of 60,000 by PCD-1, RBM 784-500, batch 100, {'bare' if where == 'bare' else 'in the Trainer'}",
        1,
        {
            "ebmlab": ours,
            "scikit-learn": lambda: Contestant(packages.sklearn_epoch(rbm(), data.data.float(), BATCH, RATE)),
            "floor": lambda: training_floor(BATCH, 1, IMAGES // BATCH),
            "floor, written out": lambda: written_out(data.data.float().split(BATCH)),
        },
        unit="s",
    )
