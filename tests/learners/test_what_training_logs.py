"""Energies that are logged in training, validation and test."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_grbm import make_grbm
from helpers_learner import Fake, make_learner, tiny_trainer
from helpers_trainer import quiet_trainer
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader

from ebmlab.energies import GRBM, RBM
from ebmlab.learners import ContrastiveDivergence, FromData, ReplayBuffer
from ebmlab.samplers import DMALA, BlockGibbs, GibbsLangevin, Sampler

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


def test_logs_marginal_energies_of_data_and_of_the_last_states() -> None:
    grbm = make_grbm(2)
    torch.manual_seed(0)
    data, last = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    sampler = Fake(lambda k, x: (last if k == 3 else 9 * last, None))
    learner, logged = make_learner(grbm, sampler, num_steps=3, burn_in=0)
    learner.training_step(data, 0)
    assert logged["train/energy_data"] == pytest.approx(grbm(data).mean().item())
    assert logged["train/energy_negative"] == pytest.approx(grbm(last).mean().item())
    assert logged["train/energy_gap"] == pytest.approx(logged["train/energy_negative"] - logged["train/energy_data"])
    assert logged["sampler/acceptance"] == pytest.approx(1.0)


@pytest.mark.parametrize("sampler", [BlockGibbs(), DMALA(0.2)], ids=lambda sampler: type(sampler).__name__)
def test_energies_are_marginal_whether_or_not_the_sampler_knows_hidden_units(sampler: Sampler) -> None:
    torch.manual_seed(0)
    rbm = RBM(9, 30)
    nn.init.normal_(rbm.W)
    learner, logged = make_learner(rbm, sampler, start=(chains := ReplayBuffer(50)), num_steps=3)
    learner.training_step(torch.rand(50, 9).round(), 0)
    assert chains.slots is not None
    assert logged["train/energy_negative"] == pytest.approx(rbm(chains.slots.float()).mean().item(), rel=1e-5)


def test_training_metrics_are_logged_when_they_are_written_and_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    """Two epochs of 7 batches, written at every 5th step: steps 5 and 10, and 7 and 14 for the callbacks."""
    learner = ContrastiveDivergence(GRBM(4, 3), GibbsLangevin(0.1), num_steps=2)
    logger = CSVLogger(tmp_path)
    trainer = quiet_trainer(tmp_path, max_epochs=2, limit_val_batches=0, logger=logger, log_every_n_steps=5)
    log, logged_at = learner.log, []

    def watch(name: str, *values: Any, **options: Any) -> None:
        alike = name in ("train/grad_norm", "train/learning_rate")  # on all processes
        assert alike or options["sync_dist"], f"{name} would be that of one process"
        logged_at.append((name, trainer.global_step + 1))
        log(name, *values, **options)

    learner.log = watch  # type: ignore[method-assign]
    torch.manual_seed(0)
    loader = DataLoader(torch.randn(56, 4), batch_size=8)
    trainer.fit(learner, loader, loader)
    names = {"train/energy_data", "train/energy_negative", "train/energy_gap", "train/grad_norm", "train/learning_rate"}
    names |= {"sampler/acceptance", "sampler/hops"}
    assert set(logged_at) == {(name, step) for name in names for step in (5, 7, 10, 14)}
    rows = csv.DictReader(Path(logger.log_dir, "metrics.csv").read_text().splitlines())
    assert [int(row["step"]) + 1 for row in rows if row["train/energy_gap"]] == [5, 10]
    gap = trainer.callback_metrics["train/energy_negative"] - trainer.callback_metrics["train/energy_data"]
    assert trainer.callback_metrics["train/energy_gap"] == pytest.approx(float(gap))


def test_energies_are_those_of_the_loss_and_logged_energies_are_marginal(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    grbm, x, y = make_grbm(2), torch.randn(7, 2, dtype=torch.float64), torch.randn(7, 2, dtype=torch.float64)
    learner, logged = ContrastiveDivergence(grbm, Fake(lambda k, x: (y, y.new_zeros(7, 3))), start=FromData()), {}
    monkeypatch.setattr(learner, "log_dict", lambda values, **_: logged.update(values))
    monkeypatch.setattr(learner, "log", lambda *_, **__: None)
    loss = learner.training_step(x, 0)
    assert learner.energies is not None
    data, negative = (grbm.joint_energy(v, torch.sigmoid(grbm.hidden_given_visible(v))).mean() for v in (x, y))
    torch.testing.assert_close(learner.energies, (data.detach(), negative.detach()))
    torch.testing.assert_close(loss, data - negative)
    torch.testing.assert_close(logged["train/energy_data"], grbm(x).mean())
    torch.testing.assert_close(logged["train/energy_negative"], grbm(y).mean())


def test_validate_and_test_report_the_mean_energy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    grbm, data = GRBM(4, 3), torch.randn(10, 4)
    learner, trainer = ContrastiveDivergence(grbm, BlockGibbs()), tiny_trainer(tmp_path)
    expected = grbm(data).mean().item()
    loader = DataLoader(data, batch_size=4)  # the last batch is short: the mean is over samples, not over batches
    assert trainer.validate(learner, loader, verbose=False)[0]["val/energy"] == pytest.approx(expected, rel=1e-5)
    assert trainer.test(learner, loader, verbose=False)[0]["test/energy"] == pytest.approx(expected, rel=1e-5)
