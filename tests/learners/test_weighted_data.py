"""Weighted data: a weight of k counts a sample k times, and a learner that would not heed weights refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.domains import Binary, Categorical
from ebmlab.energies import MLP, CategoricalRBM, Energy, Gaussian, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.evaluation import compare_families, data_law
from ebmlab.learners import (
    ContrastiveDivergence,
    EnergyDiscrepancy,
    Estimator,
    Exact,
    FromData,
    FromNoise,
    GradientGuided,
    Learner,
    PseudoLikelihood,
    RatioMatching,
    ReplayBuffer,
    UniformSubset,
)
from ebmlab.learners.closed_form import independent_, mean_field_, tap_
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.samplers import Gibbs
from ebmlab.samplers.initial_states import Start

WEIGHTS = torch.tensor([3.0, 1.0, 2.0])


class Pairs(Data, pl.LightningDataModule):
    """Three sequences with weights, or each as often as its weight says."""

    weighted, domains = True, (Categorical,)

    def __init__(self, repeated: bool = False, weights: Tensor = WEIGHTS) -> None:
        super().__init__()
        x = Categorical(3, 4).from_index(torch.tensor([[0, 1, 2], [3, 1, 0], [2, 2, 1]]))
        self.batch: Any = (x, weights / weights.mean())
        if repeated:
            self.batch = (x.repeat_interleave(weights.long(), 0), torch.ones(int(weights.sum())))

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader([self.batch], batch_size=None)

    val_dataloader = train_dataloader


def energies() -> list[Energy]:
    made: list[Energy] = [Potts(3, 4), CategoricalRBM(3, 4, num_hidden=2)]
    for energy in made:
        for p in energy.parameters():
            torch.nn.init.normal_(p, generator=torch.Generator().manual_seed(0))
    return made


class Fixed(FromNoise):
    """As many chains from one state as there are data: equal means for any number of them."""

    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        state: Tensor = energy.domain.from_index(torch.tensor([[1, 1, 1]]))  # type: ignore[attr-defined]
        return state.expand(n, -1, -1).clone()


class Stays(Gibbs):
    """Chains that do not move."""

    def step(self, energy: Energy, state: Any) -> Any:
        old = state.x
        state, info = super().step(energy, state)
        state.x = old
        return state, info


def learners(k: int) -> list[Learner]:
    energy = energies()[k]
    return [
        ContrastiveDivergence(energy, Stays(), start=Fixed()),
        PseudoLikelihood(energy),
        RatioMatching(energy, Exact()),
    ]


@pytest.mark.parametrize("k", [0, 1], ids=["Potts", "CategoricalRBM"])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["contrastive divergence", "pseudo-likelihood", "ratio matching"])
def test_weights_count_samples_that_often(k: int, which: int, tmp_path: Path) -> None:
    ends = []
    for data in (Pairs(), Pairs(repeated=True), Pairs(weights=torch.ones(3))):
        learner = learners(k)[which]
        trainer = quiet_trainer(tmp_path, max_epochs=2, log_every_n_steps=1)
        trainer.fit(learner, datamodule=data)
        ends.append((torch.cat([p.detach().flatten() for p in learner.parameters()]), trainer.callback_metrics))
    torch.testing.assert_close(ends[0][0], ends[1][0])
    assert not torch.allclose(ends[0][0], ends[2][0])
    for name in ("val/energy", "train/loss", "train/energy_data"):
        if name in ends[0][1]:
            torch.testing.assert_close(ends[0][1][name], ends[1][1][name])


@pytest.mark.parametrize(
    ("weights", "message"),
    [(torch.tensor([1, 2, 3]), "must be floats"), (-WEIGHTS, "at least 0"), (torch.ones(2), "one for each sample")],
)
def test_wrong_weights_are_refused(weights: Tensor, message: str) -> None:
    data = Pairs()
    with pytest.raises(UserError, match=message):
        data.batch_weights((data.batch[0], weights))
    with pytest.raises(UserError, match="a pair of tensors"):
        data.batch_weights(data.batch[0])


def by_weights(w: Tensor) -> dict[str, Callable[[], object]]:
    """What takes weights of samples in Python, each with those of four samples."""
    bits, one_hot = torch.eye(4)[:, :3], torch.eye(3)[torch.tensor([[0, 1, 2], [1, 2, 0], [0, 0, 0], [1, 1, 2]])]
    spins, ising = 2 * bits - 1, Ising.learnable(3)
    return {
        "compare_families": lambda: compare_families(one_hot, w, samples=one_hot),
        "data_law, bits": lambda: data_law(Binary(3), bits, weights=w),
        "data_law, categories": lambda: data_law(Categorical(3, 3), one_hot, weights=w),
        "Gaussian": lambda: Gaussian.fit(bits, weights=w),
        "independent_": lambda: independent_(ising, spins, w),
        "mean_field_": lambda: mean_field_(ising, spins, w),
        "mean_field_, Potts": lambda: mean_field_(Potts(3, 3), one_hot, w),
        "tap_": lambda: tap_(ising, spins, w),
    }


@pytest.mark.parametrize("name", by_weights(torch.ones(4)))
def test_weights_of_other_samples_are_refused(name: str) -> None:
    by_weights(torch.tensor([1.0, 0.0, 2.0, 0.5]))[name]()
    owner = name.partition(",")[0]
    for wrong in (torch.ones(1), torch.ones(3), torch.ones(4, 1)):
        with pytest.raises(UserError, match=rf"^{owner}: weights have the shape .* must be \(4,\), one for each"):
            by_weights(wrong)[name]()
    for wrong in (torch.zeros(4), -torch.ones(4), torch.tensor([1.0, torch.nan, 1.0, 1.0])):
        with pytest.raises(UserError, match=f"^{owner}: weights must be finite, at least 0 and not all 0"):
            by_weights(wrong)[name]()


ESTIMATORS = [Exact(), UniformSubset(4), GradientGuided(4), GradientGuided(4, advanced=True), EnergyDiscrepancy(8)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 1)])
def test_a_loss_refuses_weights_of_other_samples(estimator: Estimator, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"weights have the shape .* must be \(3,\), one for each sample"):
        estimator.loss(energies()[0], Pairs().batch[0], weights=torch.ones(shape))
    with pytest.raises(UserError, match=r"weights have the shape .* must be \(3,\), one for each sample"):
        weighted_mean(torch.ones(3), torch.ones(shape))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("k", [0, 1], ids=["Potts", "CategoricalRBM"])
def test_losses_without_chains_count_states_by_their_weights(estimator: Estimator, k: int) -> None:
    """With the same random numbers a loss is the sum of what each state adds, times its weight."""
    energy, x = energies()[k], Pairs().batch[0]

    def loss(weights: Tensor | None) -> Tensor:
        torch.manual_seed(0)
        return estimator.loss(energy, x, weights=weights).detach()

    each = torch.stack([loss(row) for row in torch.eye(3)])
    torch.testing.assert_close(loss(WEIGHTS), (WEIGHTS * each).sum())
    torch.testing.assert_close(loss(torch.ones(3)), loss(None))
    if isinstance(estimator, Exact):
        alone = torch.stack([estimator.loss(energy, one) for one in x.split(1)])
        torch.testing.assert_close(each, alone.detach() / 3)


class Unweighted(RatioMatching):
    takes_weights = False


def test_a_learner_that_would_not_heed_weights_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Pairs()
    monkeypatch.setattr(data, "domains", (Binary,), raising=False)
    with pytest.raises(UserError, match="gives weights, which Unweighted would not heed"):
        Unweighted(MLP(4)).check_data(data)


@pytest.mark.parametrize("start", [FromData(), ReplayBuffer(3, init="data")], ids=["data", "buffer"])
def test_chains_start_at_data_by_their_weights(start: Start, tmp_path: Path) -> None:
    """Chains that stay where they start are the data again, and there is nothing to learn."""
    learner = ContrastiveDivergence(energies()[0], Stays(), start=start)
    before = [p.detach().clone() for p in learner.parameters()]
    quiet_trainer(tmp_path, max_epochs=2).fit(learner, datamodule=Pairs(weights=torch.tensor([3.0, 0.0, 0.0])))
    torch.testing.assert_close(list(learner.parameters()), before)


class OneByOne(Pairs):
    """Batches of one sequence each, whose weights are not 1 on average."""

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader([(x[None], w[None]) for x, w in zip(*self.batch, strict=True)], None)


@pytest.mark.parametrize("k", [0, 1], ids=["Potts", "CategoricalRBM"])
def test_chains_from_a_heavy_sample_count_as_much_as_it_does(k: int, tmp_path: Path) -> None:
    """Chains that stay at the data are the data again, however small a batch is, and there is nothing to learn."""
    learner = ContrastiveDivergence(energies()[k], Stays(), start=FromData(), num_steps=3, burn_in=1)
    before = [p.detach().clone() for p in learner.parameters()]
    trainer = quiet_trainer(tmp_path, max_epochs=1, log_every_n_steps=1)
    trainer.fit(learner, datamodule=OneByOne())
    torch.testing.assert_close(list(learner.parameters()), before)
    assert abs(float(trainer.callback_metrics["train/energy_gap"])) < 1e-5


@pytest.mark.parametrize("start", [FromNoise(), ReplayBuffer(5)], ids=["noise", "buffer"])
def test_what_adds_a_constant_to_energies_does_not_move(start: Start, tmp_path: Path) -> None:
    """Such is the sum of the fields of a site: as much weight is added as is taken away."""
    energy = Potts(3, 4)
    fit = quiet_trainer(tmp_path, max_epochs=2).fit
    fit(ContrastiveDivergence(energy, Gibbs(), start=start), datamodule=OneByOne())
    assert energy.field.abs().max() > 1e-3 and energy.field.sum(1).abs().max() < 1e-7
