"""StopAtCorrelation and ClosedForm: numbers held against loops and exact moments, and runs that end in time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from helpers_family import write_family

from ebmlab.callbacks import ClosedForm, StopAtCorrelation
from ebmlab.callbacks.stop_at_correlation import pearson_and_slope
from ebmlab.datamodules import Alignment, IsingSamples
from ebmlab.energies import RBM, Energy, Ising, Potts
from ebmlab.energies.pairwise.statistics import connected
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData, PseudoLikelihood, ReplayBuffer
from ebmlab.learners.closed_form import independent_, mean_field_
from ebmlab.samplers import BlockGibbs, GibbsSweep, Info

SITES = 8
QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False
)
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*validation_step.*")


@pytest.fixture
def data(tmp_path: Path) -> Alignment:
    return Alignment(str(write_family(tmp_path / "family.fasta", sites=SITES)), batch_size=20)


class Still(GibbsSweep):
    """Chains that stay where they are."""

    def step(self, energy: Energy, state: Any) -> Any:
        return state, Info(torch.ones(len(state.x)), torch.zeros(len(state.x)))


def learner() -> ContrastiveDivergence:
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.0)  # noqa: E731
    return ContrastiveDivergence(Potts(SITES, 21), GibbsSweep(), start=ReplayBuffer(200), optimizer=optimizer)


def fit(
    model: pl.LightningModule, data: pl.LightningDataModule, *callbacks: pl.Callback, epochs: int = 3
) -> pl.Trainer:
    trainer = pl.Trainer(max_epochs=epochs, callbacks=list(callbacks), accelerator="cpu", limit_val_batches=0, **QUIET)
    trainer.fit(model, data)
    return trainer


def by_loops(x: np.ndarray, w: np.ndarray, q: int, share: float) -> np.ndarray:
    """C_ij(a, b) of integer states `(N, d)`, entry by entry."""
    w, found = w / w.sum(), []
    for i in range(x.shape[1]):
        for j in range(i + 1, x.shape[1]):
            for a in range(q):
                for b in range(q):
                    both = (1 - share) * w[(x[:, i] == a) & (x[:, j] == b)].sum() + share / q**2
                    first, second = ((1 - share) * w[x[:, k] == c].sum() + share / q for k, c in ((i, a), (j, b)))
                    found.append(both - first * second)
    return np.array(found)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_it_measures_weighted_data_and_chains(share: float, data: Alignment) -> None:
    callback, model = StopAtCorrelation(1.0, pseudo_count=share), learner()
    scores = fit(model, data, callback, epochs=1).callback_metrics
    assert isinstance(model.start, ReplayBuffer) and model.start.slots is not None
    weights = data.weights("train").double().numpy()
    assert weights.std() > 0.1
    x = by_loops(data.states("train").argmax(-1).numpy(), weights, 21, share)
    slots = model.start.slots.argmax(-1).numpy()
    y = by_loops(slots, np.ones(len(slots)), 21, 0.0)
    assert float(scores["correlation/pearson"]) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)
    assert float(scores["correlation/slope"]) == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-5)


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_training_ends_at_the_target_and_no_earlier(data: Alignment, tmp_path: Path) -> None:
    """A buffer of data correlates fully at once; one of noise never does. A run that has ended stays so."""
    done, going = learner(), learner()
    of_data = data.states("train")
    index = torch.multinomial(data.weights("train"), 200, replacement=True, generator=torch.Generator().manual_seed(0))
    assert isinstance(done.start, ReplayBuffer)
    done.start.slots = of_data[index].to(torch.int8)
    done.sampler = Still()
    trainer = fit(done, data, StopAtCorrelation(0.9), epochs=4)
    assert trainer.current_epoch == 1 and float(trainer.callback_metrics["correlation/pearson"]) >= 0.9
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    for target, epochs in ((0.9, 1), (1.0, 2)):  # which no buffer of finitely many chains has
        callbacks: list[pl.Callback] = [StopAtCorrelation(target)]
        again = pl.Trainer(max_epochs=2, callbacks=callbacks, accelerator="cpu", limit_val_batches=0, **QUIET)
        again.fit(learner(), data, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
        assert again.current_epoch == epochs
    trainer = fit(going, data, StopAtCorrelation(0.9), epochs=4)
    assert trainer.current_epoch == 4 and float(trainer.callback_metrics["correlation/pearson"]) < 0.5


def test_pearson_and_slope_of_a_line() -> None:
    x = torch.randn(50, dtype=torch.float64)
    assert pearson_and_slope(x, -3 * x + 1) == pytest.approx((-1.0, -3.0))


def test_connected_with_a_share_of_the_uniform_law() -> None:
    x = torch.randint(3, (40, 4), generator=torch.Generator().manual_seed(0))
    w = torch.rand(40, dtype=torch.float64)
    found = connected(torch.nn.functional.one_hot(x, 3).double(), w, 0.2)
    np.testing.assert_allclose(found.numpy(), by_loops(x.numpy(), w.numpy(), 3, 0.2), atol=1e-12)


@pytest.mark.parametrize("method", ["independent", "mean_field"])
def test_a_fit_starts_from_the_estimate(method: Any, data: Alignment) -> None:
    model, expected = learner(), Potts(SITES, 21)
    fit(model, data, ClosedForm(method, pseudo_count=0.4), epochs=1)  # its rate is 0
    given = data.states("train"), data.weights("train"), 0.4
    (independent_ if method == "independent" else mean_field_)(expected, *given)
    torch.testing.assert_close(model.energy.field, expected.field, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.energy.coupling, expected.coupling, rtol=1e-4, atol=1e-4)
    assert bool(expected.coupling.any()) == (method == "mean_field")


@pytest.mark.parametrize("make", [lambda: Potts(3, 2), lambda: Ising.learnable(3)], ids=["Potts", "Ising"])
def test_both_regressions_of_a_pair_start_from_the_estimate_and_go_on_from_what_they_found(make: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    energy = make()
    index = torch.rand(60, 3, generator=generator) < torch.tensor([0.5, 0.7, 0.9])  # skewed, so that they differ
    x = energy.domain.from_index(index.long())

    def train(learner: PseudoLikelihood, *callbacks: Any) -> None:
        trainer = pl.Trainer(max_epochs=9, callbacks=[*callbacks], accelerator="cpu", **QUIET)
        trainer.fit(learner, torch.utils.data.DataLoader(x, 60))

    expected, rate = make(), 0.0
    mean_field_(expected, x)
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=rate)  # noqa: E731
    still = PseudoLikelihood(energy, form="asymmetric", optimizer=optimizer)
    train(still, ClosedForm())
    assert expected.coupling.abs().max() > 0.01
    torch.testing.assert_close(energy(x) - energy(x[:1]), expected(x) - expected(x[:1]))
    going, rate = PseudoLikelihood(make(), form="asymmetric", optimizer=optimizer), 0.5
    train(going)
    here, there = going.regressions.detach().clone()
    assert (here - there).abs().max() > 1e-4
    rate = 0.0
    train(going)
    torch.testing.assert_close(going.regressions.detach(), torch.stack([here, there]))


def test_independent_sites_have_the_datas_means() -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randint(3, (60, 2), generator=generator), torch.rand(60, generator=generator)
    states = torch.nn.functional.one_hot(x, 3).float()
    energy = Potts(2, 3)
    torch.nn.init.normal_(energy.coupling)
    independent_(energy, states, w, 0.1)
    expected = 0.9 * (w.view(-1, 1, 1) * states).sum(0) / w.sum() + 0.1 / 3
    torch.testing.assert_close(energy.field.detach().exp(), expected)
    assert not energy.coupling.any()


def test_a_resumed_run_keeps_its_parameters(data: Alignment, tmp_path: Path) -> None:
    model = learner()
    trainer = fit(model, data, epochs=1)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = learner()
    trainer = pl.Trainer(max_epochs=1, callbacks=[ClosedForm()], accelerator="cpu", limit_val_batches=0, **QUIET)
    trainer.fit(again, data, ckpt_path=tmp_path / "a.ckpt")
    assert not again.energy.coupling.any()


def test_what_does_not_suit_is_one_line(data: Alignment, tmp_path: Path) -> None:
    for value in (0.0, 1.1):
        with pytest.raises(UserError, match=f"target is {value}, but must be above 0"):
            StopAtCorrelation(value)
    with pytest.raises(UserError, match="pseudo_count is 1, but must be at least 0"):
        StopAtCorrelation(pseudo_count=1)
    with pytest.raises(UserError, match="the learner has none: use BoltzmannLearning, or"):
        fit(ContrastiveDivergence(Potts(SITES, 21), GibbsSweep(), start=FromData()), data, StopAtCorrelation())
    with pytest.raises(UserError, match='"sideways", but must be "independent"'):
        ClosedForm("sideways")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="pseudo_count is 0"):
        ClosedForm(pseudo_count=0)
    with pytest.raises(UserError, match='"tap" needs an Ising energy that learns, got Potts'):
        fit(PseudoLikelihood(Potts(SITES, 21)), data, ClosedForm("tap"))
    spins = IsingSamples(side=3, num_samples=20, num_sweeps=2, batch_size=20, root=str(tmp_path))
    with pytest.raises(UserError, match='"tap" needs an Ising energy that learns, got Ising'):
        fit(PseudoLikelihood(Ising.lattice(3, 0.2)), spins, ClosedForm("tap"))
    with pytest.raises(UserError, match='"mean_field" needs a Potts or Ising energy that learns, got RBM'):
        fit(ContrastiveDivergence(RBM(9, 2), BlockGibbs()), spins, ClosedForm())


@pytest.mark.parametrize("value", [0.1, 0.3])
def test_nothing_correlates_with_a_constant(value: float) -> None:
    """Rounding of the sums gave numbers before, since 0.1 has no end in binary."""
    for size in (7, 1000, 99_999):
        x, constant = torch.linspace(0, 1, size), torch.full((size,), value)
        assert all(math.isnan(number) for number in pearson_and_slope(constant, x))
        assert math.isnan(pearson_and_slope(x, constant)[0])
