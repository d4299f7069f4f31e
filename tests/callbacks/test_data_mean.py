"""DataMean starts training from Bernoulli(data mean)."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer

from ebmlab.callbacks import DataMean
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, RBM, Energy, Ising, ResNet
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import BlockGibbs, Gibbs, Sampler


def fit(energy: Energy, sampler: Sampler, folder: Path, ckpt_path: str | None = None, max_steps: int = 1) -> pl.Trainer:
    learner = ContrastiveDivergence(energy, sampler, start=FromData(), num_steps=1)
    trainer = quiet_trainer(folder, max_steps=max_steps, callbacks=[DataMean()], limit_val_batches=0)
    trainer.fit(learner, datamodule=Digits(batch_size=200, binarize=True), ckpt_path=ckpt_path, weights_only=True)
    return trainer


@pytest.mark.filterwarnings("ignore")
def test_an_energy_starts_from_the_mean_and_a_resumed_run_does_not(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rbm = RBM(64, 8)
    trainer = fit(rbm, BlockGibbs(), tmp_path)
    data = Digits(batch_size=200, binarize=True)
    data.setup("fit")
    mean = torch.cat([b[0] if isinstance(b, list | tuple) else b for b in data.train_dataloader()]).flatten(1).mean(0)
    assert (rbm.b_v.sigmoid() - mean.clamp(0.01, 0.99)).abs().max() < 0.02  # training has taken one step
    with torch.no_grad():
        rbm.b_v.fill_(3.0)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    again = RBM(64, 8)
    fit(again, BlockGibbs(), tmp_path, str(tmp_path / "x.ckpt"), max_steps=2)
    assert again.b_v.min() > 2.9


def test_base_of_an_rbm_without_weights_is_bernoulli() -> None:
    rbm = RBM(5, 3).double()
    with torch.no_grad():
        rbm.W.zero_()
    mean = torch.tensor([0.1, 0.5, 0.9, 0.3, 0.02], dtype=torch.float64)
    rbm.set_base(mean)
    x = rbm.domain.enumerate().double()
    p = (-rbm(x)).softmax(0)
    torch.testing.assert_close(p @ x, mean)


def test_base_of_a_grbm_without_weights_is_normal() -> None:
    grbm, mean = GRBM(3, 2), torch.tensor([0.5, -1.0, 2.0])
    with torch.no_grad():
        grbm.W.zero_()
    grbm.set_base(mean)
    x = torch.randn(5, 3)
    expected = (x - mean).square().sum(1) / 2
    torch.testing.assert_close(grbm(x) - grbm(mean[None]), expected)


def test_errors_say_what_would_be_right(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="4 numbers given, but a state has 5"):
        RBM(5, 3).set_base(torch.zeros(4))
    with pytest.raises(UserError, match="4 numbers given, but a state has 5"):
        GRBM(5, 3).set_base(torch.zeros(4))
    with pytest.raises(UserError, match="DataMean: Ising takes no data mean; RBM, GRBM, ResNet and RGCN do"):
        DataMean().setup(
            type("T", (), {"ckpt_path": None})(),  # type: ignore[arg-type]
            type("M", (), {"energy": Ising.lattice(2, 0.1), "sampler": Gibbs()})(),  # type: ignore[arg-type]
            "fit",
        )
    assert hasattr(ResNet((1, 8, 8), channels=2), "set_base")
