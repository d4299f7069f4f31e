"""The likelihood that AIS logs, against sums over all states."""

from __future__ import annotations

import io
import math
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import nn
from torch.nn.functional import softplus

from ebmlab.callbacks import AIS
from ebmlab.callbacks.ais import base_law
from ebmlab.callbacks.ais_metrics import entropy
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, RBM, Bernoulli, Ising, StandardNormal
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ, exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import DMALA, DULA, MALA, BlockGibbs, Gibbs, Tempered

pytestmark = pytest.mark.usefixtures("drafts")


def learner(scale: float = 0.3, sampler: Any = None) -> ContrastiveDivergence:
    torch.manual_seed(0)
    rbm = RBM(64, 6)
    nn.init.normal_(rbm.W, std=scale)
    nn.init.normal_(rbm.b_v, std=0.5)
    return ContrastiveDivergence(
        rbm, sampler or BlockGibbs(), start=FromData(), optimizer=partial(torch.optim.SGD, lr=0.5)
    )


def likelihood(model: ContrastiveDivergence, split: str) -> float:
    data = Digits(binarize=True)
    with torch.no_grad():
        return float(-model(data.to_states(data.raw(split))).double().mean() - exact_log_z(model.energy))


def quick(**settings: Any) -> AIS:
    return AIS(**{"num_chains": 200, "num_temperatures": 150, "reverse": False} | settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler", [None, pytest.param(DMALA(0.2), marks=pytest.mark.slow)], ids=["learner's", "DMALA"]
)
def test_likelihood_of_each_stages_split(setup, tmp_path, sampler) -> None:
    callback = quick(num_temperatures=400, test_temperatures=500, sampler=sampler, reverse=True, num_replicates=2)
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1.0)
    for stage, split in (("validate", "val"), ("test", "test")):
        getattr(trainer, stage)(model, datamodule=Digits(binarize=True), verbose=False)
        found = trainer.callback_metrics
        expected = likelihood(model, split)
        assert abs(float(found["ais/log_likelihood"]) - expected) < 4 * float(found["ais/std_error"]) < 1
        assert float(found["ais/log_likelihood_lower"]) == pytest.approx(expected, abs=0.5)
        assert float(found["ais/bits_per_dim"]) == pytest.approx(-expected / 64 / math.log(2), abs=0.02)
        assert 1 < float(found["ais/ess"]) <= 400
        assert 0 < float(found["ais/max_weight"]) < 0.2
        assert float(found["ais/spread"]) < 1
        assert found["ais/trusted"] == 1 and abs(float(found["ais/gap"])) < 1
    assert len(list(tmp_path.rglob("images/ais-samples*.png"))) == 1
    assert not list(tmp_path.rglob("ais-*.pt"))


def test_the_entropy_takes_chains_by_their_weights() -> None:
    """A chain at each state, drawn from the uniform law: their weights are exp(-E)."""
    energy = Ising.lattice(3, 0.4, field=0.3)
    log_p = (-energy(energy.domain.enumerate()).double()).log_softmax(0)
    found = LogZ(float(exact_log_z(energy)), 0.0, log_weights=log_p.view(2, -1))
    expected = float(-(log_p.exp() * log_p).sum())
    assert entropy(found, energy(energy.domain.enumerate()).double()) == pytest.approx(expected, abs=1e-5)


def test_the_entropy_is_that_of_exact_draws(setup) -> None:
    """Hidden units are drawn from the sum over all their states, and visible ones given them."""
    model, trainer = setup([quick()], learner=learner(), limit_val_batches=1.0)
    trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    rbm, hidden = model.energy, torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 6)
    with torch.no_grad():
        logits = rbm.visible_given_hidden(hidden)
        law = (hidden @ rbm.b_h + softplus(logits).sum(1)).softmax(0)
        h = torch.multinomial(law, 20_000, replacement=True)
        expected = rbm(torch.bernoulli(logits[h].sigmoid())).double().mean() + exact_log_z(rbm)
    assert float(trainer.callback_metrics["ais/entropy"]) == pytest.approx(float(expected), abs=1.2)
    assert float(expected) > 10


def test_bits_per_dimension_of_levels(setup) -> None:
    """The density of levels from 0 to 16, by the change of variables written out."""
    torch.manual_seed(0)
    model = ContrastiveDivergence(GRBM(64, 5), BlockGibbs(), start=FromData())
    nn.init.normal_(model.energy.b, std=0.5)
    _, trainer = setup([quick()], learner=model, limit_val_batches=1.0)
    data = Digits()
    trainer.validate(model, datamodule=data, verbose=False)
    states = data.to_states(data.raw("val"))
    slope = torch.autograd.functional.jacobian(lambda raw: data.to_states(raw / 16).flatten(), torch.rand(1, 1, 8, 8))
    log_p = -model.energy(states.flatten(1)).detach().double() - exact_log_z(model.energy)
    nats = log_p.mean() + torch.logdet(slope.view(64, 64).double())
    found = trainer.callback_metrics
    assert float(found["ais/bits_per_dim"]) == pytest.approx(float(-nats / 64 / math.log(2)), abs=0.01)
    assert float(found["ais/log_likelihood"]) == pytest.approx(float(log_p.mean()), abs=0.5)


def test_the_averaged_weights_are_evaluated(setup) -> None:
    """With a decay of 1 the average stays at the first step's weights, whatever training does."""
    model, trainer = setup(
        [EMAWeightAveraging(decay=1.0), quick(every_n_epochs=1)], learner=learner(), max_epochs=2, limit_train_batches=5
    )
    seen = []
    plain = AIS.evaluate
    AIS.evaluate = lambda self, t, m: seen.append(m.energy.W.clone()) or plain(self, t, m)
    try:
        trainer.fit(model, datamodule=Digits(binarize=True))
    finally:
        AIS.evaluate = plain
    assert len(seen) == 2 and torch.equal(seen[0], seen[1])


@pytest.mark.slow
def test_training_goes_on_as_if_nothing_had_been_evaluated(setup) -> None:
    weights = []
    for callbacks in ([], [quick(every_n_epochs=1, at_start=True)]):
        model, trainer = setup(callbacks, learner=learner(), folder=str(len(callbacks)))
        trainer.fit(model, datamodule=Digits(binarize=True))
        weights.append(model.energy.W)
    assert torch.equal(*weights)


def test_impossible_and_nan_likelihoods_are_warned_of(setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(*args: Any, **_: Any) -> LogZ:
        return LogZ.of_chains(torch.full((1, 3), -1e4, dtype=torch.float64), torch.zeros(3, 64))

    monkeypatch.setattr("ebmlab.evaluation.bracket.ais", impossible)
    model, trainer = setup([quick()], learner=learner(), limit_val_batches=1.0)
    with pytest.warns(UserWarning, match="above 0 is impossible"):
        trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    nn.init.constant_(model.energy.b_v, float("nan"))
    with pytest.warns(UserWarning, match="is NaN"):
        trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)


def test_an_impossible_likelihood_is_never_the_best(setup, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a likelihood that reverse AIS contradicts ever the best."""
    log_z = iter((50.0, 50.5, -1e4, -1e4, 100.0, 49.0))  # forward and backward estimates in turn

    def sided(reverse: bool, *args: Any, **_: Any) -> LogZ:
        sign = -1 if reverse else 1
        return LogZ.of_chains(
            torch.full((1, 12), sign * next(log_z), dtype=torch.float64), torch.zeros(12, 64), reverse=reverse
        )

    monkeypatch.setattr("ebmlab.evaluation.bracket.ais", partial(sided, False))
    monkeypatch.setattr("ebmlab.evaluation.bracket.reverse_ais", partial(sided, True))
    best = ModelCheckpoint(tmp_path / "best", monitor="ais/log_likelihood", mode="max", save_on_train_epoch_end=True)
    callbacks = [evaluation := AIS(num_chains=12, num_temperatures=5, every_n_epochs=1), best]
    model, trainer = setup(callbacks, learner=learner(), max_epochs=3, limit_train_batches=1, enable_checkpointing=True)
    with pytest.warns(UserWarning) as said:
        trainer.fit(model, datamodule=Digits(binarize=True))
    warned = " ".join(str(w.message) for w in said)
    assert "above 0 is impossible" in warned and "log Z backward is -51 nats" in warned
    assert "epoch=0" in best.best_model_path and float(best.best_model_score) < 0
    assert math.isnan(evaluation.state_dict()["metrics"]["ais/log_likelihood"])  # for a resumed run


class Asked:
    """Replaces `ais` and records its arguments and the seed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log_z: float = 0.0) -> None:
        self.calls: list[dict[str, Any]] = []
        self.log_z = log_z
        monkeypatch.setattr("ebmlab.evaluation.bracket.ais", self)

    def __call__(
        self, energy: Any, sampler: Any, *, base: Any, num_chains: int, num_temperatures: int, **_: Any
    ) -> LogZ:
        chains, steps = num_chains, num_temperatures
        self.calls.append({"chains": chains, "steps": steps, "base": base, "seed": torch.initial_seed()})
        x = energy.domain.random(chains)
        return LogZ.of_chains(torch.full((1, chains), self.log_z, dtype=torch.float64), x)


def test_each_stage_has_its_number_of_temperatures_and_the_base_is_fit_to_training_data(setup, monkeypatch) -> None:
    asked, data = Asked(monkeypatch), Digits(binarize=True)
    model, trainer = setup([quick(test_temperatures=270)], learner=learner(), limit_val_batches=1.0)
    trainer.validate(model, datamodule=data, verbose=False)
    trainer.test(model, datamodule=data, verbose=False)
    assert [(call["chains"], call["steps"]) for call in asked.calls] == [(200, 150), (200, 270)]
    expected = Bernoulli(data.states("train").flatten(1).mean(0))
    for call in asked.calls:
        torch.testing.assert_close(call["base"].logits, expected.logits)


@pytest.mark.slow
def test_ranks_anneal_different_chains(setup, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    for rank in (0, 1):
        model, trainer = setup([quick(seed=3)], learner=learner(), limit_val_batches=1.0, folder=str(rank))
        monkeypatch.setattr(pl.Trainer, "global_rank", property(lambda self, rank=rank: rank))
        trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    first, second = (call["seed"] for call in asked.calls)
    assert first == 3 != second


def test_fast_dev_run_takes_few_chains_through_two_temperatures(setup, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    model, trainer = setup([quick()], learner=learner(), fast_dev_run=True)
    trainer.test(model, datamodule=Digits(binarize=True), verbose=False)
    assert [(call["chains"], call["steps"]) for call in asked.calls] == [(16, 2)]


def test_densities_of_real_numbers_may_be_above_1(setup, squares, monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, log_z=-1e4)
    model, trainer = setup([quick(sampler=BlockGibbs())], limit_val_batches=1.0)
    with pytest.warns(UserWarning) as said:
        trainer.validate(model, datamodule=squares, verbose=False)
    warned = " ".join(str(w.message) for w in said)
    assert "do not trust" in warned and "impossible" not in warned
    assert trainer.callback_metrics["ais/log_likelihood"] > 0


def test_callbacks_that_differ_in_one_setting_have_different_state_keys() -> None:
    keys = [
        quick(**settings).state_key
        for settings in ({}, {"sampler": DMALA(0.2)}, {"reverse": True}, {"test_temperatures": 7}, {"seed": 1})
    ]
    assert len(set(keys)) == 5
    assert quick(every_n_epochs=1).state_key == quick(every_n_epochs=2).state_key  # so that it may change when resuming
    assert quick(compile=True).state_key == quick().state_key and "compile" not in quick().state_key


@pytest.mark.slow
def test_no_alarm_without_cause(setup) -> None:
    callback = quick(num_temperatures=100, schedule="adaptive", num_moves=4, resample=0.5, reverse=True)
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*AIS")
        trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    assert trainer.callback_metrics["ais/trusted"] == 1 and "ais/std_error" in trainer.callback_metrics


def test_an_untrusted_likelihood_is_marked(setup) -> None:
    """One direction alone is not trusted: no standard error, and the warning says what to change."""
    model, trainer = setup([quick()], learner=learner(), limit_val_batches=1.0)
    with pytest.warns(UserWarning, match="do not trust .* no backward estimate.*Use schedule"):
        (row,) = trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    assert row["ais/trusted"] == 0 and "ais/std_error" not in row and "ais/gap" not in row


def test_what_cannot_be_evaluated_is_refused(setup) -> None:
    def validate(callback: pl.Callback, model: Any, **data: Any) -> None:
        _, trainer = setup([callback], learner=model, limit_val_batches=1.0)
        trainer.validate(model, **data, verbose=False)

    digits = {"datamodule": Digits(binarize=True)}
    with pytest.raises(UserError, match="needs an exact sampler, and DULA is not"):
        validate(quick(), learner(sampler=DULA(0.1)), **digits)
    validate(quick(sampler=BlockGibbs()), learner(sampler=DULA(0.1)), **digits)
    loader = torch.utils.data.DataLoader(torch.zeros(4, 64))
    validate(quick(), learner(), dataloaders=loader)


def test_sigterm_stops_annealing(setup, monkeypatch) -> None:
    """Lightning reacts before the next batch only, which here would be hours later."""
    model, trainer = setup([quick()], learner=learner(), limit_test_batches=1)
    monkeypatch.setattr(pl.Trainer, "received_sigterm", True)
    monkeypatch.setattr(BlockGibbs, "step", lambda *_: pytest.fail("a step was taken"))
    with pytest.raises(SIGTERMException):
        trainer.test(model, datamodule=Digits(binarize=True), verbose=False)


def test_double_precision(setup) -> None:
    model, trainer = setup([quick(num_temperatures=3)], learner=learner(), precision="64-true")
    trainer.test(model, datamodule=Digits(binarize=True), verbose=False)
    assert model.energy.W.dtype == torch.float64
    assert math.isfinite(float(trainer.callback_metrics["ais/log_likelihood"]))


def test_large_real_states_are_not_loaded_for_a_base_that_does_not_use_them() -> None:
    model = ContrastiveDivergence(GRBM(2001, 2), MALA(0.1), start=FromData())
    data: Any = None  # any look at it is an error
    assert isinstance(base_law(model, data), StandardNormal)


def test_the_picture_of_the_weights_and_data_moved_by_tempering(setup, tmp_path) -> None:
    callback = quick(reverse=True, equilibrate=Tempered(BlockGibbs(), num_temperatures=3))
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1.0)
    trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    found = trainer.callback_metrics
    assert float(found["ais/log_likelihood_lower"]) == pytest.approx(likelihood(model, "val"), abs=0.5)
    assert list((Path(trainer.default_root_dir) / "images").glob("ais-weights_step*.png"))
    with pytest.raises(UserError, match="equilibrate is DULA, whose chains do not follow"):
        quick(equilibrate=DULA(0.1))


@pytest.mark.slow
def test_likelihoods_along_training_and_their_picture(setup) -> None:
    callback = quick(num_temperatures=400, every_n_epochs=1, reverse=True)
    model, trainer = setup([callback], learner=learner(), limit_train_batches=3)
    trainer.fit(model, datamodule=Digits(binarize=True))
    assert [point.step for point in callback._history] == [3, 6]
    data, point = Digits(binarize=True), callback._history[-1]
    train = data.states("train", len(data.states("val")))
    with torch.no_grad():
        expected = float(-model(train).double().mean() - exact_log_z(model.energy))
    assert point.held_out == pytest.approx(likelihood(model, "val"), abs=0.5)
    assert point.train == pytest.approx(expected, abs=0.5) and point.train != point.held_out
    assert float(trainer.callback_metrics["ais/train_log_likelihood"]) == pytest.approx(point.train)
    pictures = sorted((Path(trainer.default_root_dir) / "images").glob("ais-likelihood_step*.png"))
    assert [picture.stem[-1] for picture in pictures] == ["3", "6"]


def test_a_resumed_run_keeps_its_likelihoods_and_a_rolled_back_one_forgets_those_ahead() -> None:
    callback, resumed = quick(), quick()
    metrics = {"ais/log_likelihood": -9.0, "ais/train_log_likelihood": -8.0, "ais/trusted": 1.0}
    metrics["ais/log_likelihood_lower"] = -9.5
    for step in (10, 20, 30):
        callback._extended(step, metrics)
    resumed.load_state_dict(torch.load(saved(callback.state_dict()), weights_only=True))
    assert resumed._history == callback._history != []
    assert [point.step for point in resumed._extended(20, metrics)] == [10, 20]
    older = {key: value for key, value in callback.state_dict().items() if key != "history"}
    resumed.load_state_dict(older)
    assert resumed._history == []


def saved(state: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def test_temperatures_that_cannot_be_compiled_are_refused_before_training(setup) -> None:
    model, trainer = setup([AIS(compile=True, sampler=Gibbs())], learner=learner())
    with pytest.raises(UserError, match=r"AIS: Gibbs cannot move its chains: ais\(compile=True\): Gibbs"):
        trainer.fit(model, datamodule=Digits(binarize=True))
    callback = AIS(compile=True, sampler=DMALA(0.2), resample=0.5)
    model, trainer = setup([callback], learner=learner(), folder="second")
    with pytest.raises(
        UserError, match=r"resample is 0\.5 and num_moves 1, but compiled temperatures neither resample"
    ):
        trainer.fit(model, datamodule=Digits(binarize=True))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_temperatures_give_the_likelihood(setup) -> None:
    callback = quick(num_temperatures=1000, sampler=DMALA(0.2), reverse=True, compile=True)
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1.0)
    trainer.validate(model, datamodule=Digits(binarize=True), verbose=False)
    found = trainer.callback_metrics
    assert abs(float(found["ais/log_likelihood"]) - likelihood(model, "val")) < 4 * float(found["ais/std_error"]) < 1
    assert found["ais/trusted"] == 1
