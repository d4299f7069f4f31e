"""Small trained models of every kind, for tests of loaded models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Digits, GrayCode2D
from ebmlab.domains import Binary
from ebmlab.energies import GRBM, MLP, RBM, Energy
from ebmlab.learners import ContrastiveDivergence, FromData, GradientGuided, Learner, RatioMatching, ReplayBuffer
from ebmlab.samplers import (
    DMALA,
    BlockGibbs,
    Gibbs,
    GibbsLangevin,
)
from ebmlab.trained import TrainedModel

PASS = 1e-3  # a right sampler fails a test with this probability


def trained(folder: Path, learner: Learner, data: Any, steps: int = 2) -> Path:
    """A checkpoint that a plain `Trainer` saved."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", limit_val_batches=0, enable_checkpointing=False, **quiet, barebones=False
    )
    torch.manual_seed(0)
    trainer.fit(learner, data)
    trainer.save_checkpoint(folder / "model.ckpt", weights_only=False)
    return folder / "model.ckpt"


def wild(energy: Any) -> Any:
    torch.manual_seed(3)
    for p in energy.parameters():
        nn.init.normal_(p, std=0.7)
    return energy


def model_of(energy: Energy, raw: Preprocessing | None = None, **settings: Any) -> TrainedModel:
    sampler = BlockGibbs() if isinstance(energy, RBM | GRBM) else Gibbs()
    learner = ContrastiveDivergence(energy, sampler, **settings)
    return TrainedModel(learner, raw or Preprocessing(energy.domain.event_shape))


def rbm_on_digits() -> tuple[Learner, Any]:
    return ContrastiveDivergence(RBM(64, 12), BlockGibbs(), start=ReplayBuffer(20), num_steps=2), Digits(
        binarize=True, batch_size=20
    )


def grbm_on_digits() -> tuple[Learner, Any]:
    return ContrastiveDivergence(GRBM(64, 12), GibbsLangevin(0.1), start=FromData(), num_steps=2), Digits()


def ratio_matching() -> tuple[Learner, Any]:
    return RatioMatching(MLP(32, 16), GradientGuided(4, objective="exponential"), sampler=DMALA(0.1)), GrayCode2D(
        "moons"
    )


KINDS: dict[str, Callable[[], tuple[Learner, Any]]] = {
    "RBM": rbm_on_digits,
    "GRBM": grbm_on_digits,
    "ratio matching": ratio_matching,
}


class Hot(Energy):
    """An energy with the parameters of an RBM that has another law."""

    domains = (Binary,)

    def __init__(self, rbm: RBM) -> None:
        super().__init__()
        self.domain, self.parts = rbm.domain, [rbm]
        self.W, self.b_v, self.b_h = rbm.W, rbm.b_v, rbm.b_h

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](x) / 3


def binary_model() -> TrainedModel:
    return model_of(RBM(6, 2), Preprocessing((1, 2, 3)))
