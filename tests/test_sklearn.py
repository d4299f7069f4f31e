"""The scikit-learn estimator: its contract, likelihoods by enumeration and quadrature, and pipelines."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import refused
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from ebmlab import sklearn as module
from ebmlab.data.weighted import ByWeight
from ebmlab.domains import Binary
from ebmlab.energies import MLP, RBM, Ising
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA
from ebmlab.samplers import DMALA, BlockGibbs, Gibbs
from ebmlab.sklearn import EBM

DOCS = Path(__file__).parents[1] / "docs"


def bits(n: int = 400) -> NDArray[Any]:
    """Rows of six bits: the first three are equal, and the last two mostly."""
    generator = np.random.default_rng(0)
    x = (generator.random((n, 6)) < [0.3, 0.3, 0.3, 0.6, 0.5, 0.5]).astype(float)
    x[:, 1] = x[:, 2] = x[:, 0]
    x[:, 5] = np.where(generator.random(n) < 0.9, x[:, 4], x[:, 5])
    return x


def reals(n: int = 400) -> NDArray[Any]:
    """Two distant clusters in features of scale 100 and 0.01, and a constant feature."""
    generator = np.random.default_rng(0)
    side = generator.choice([-1, 1], n)
    x = generator.normal(size=(n, 2)) * [20, 0.004] + side[:, None] * [100, 0.01] + [500, 0.1]
    return np.column_stack([x, np.full(n, 7.0)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks() -> None:
    by_chance = {"check_sample_weight_equivalence_on_dense_data": "rows are drawn by their weights"}
    results = check_estimator(EBM(num_epochs=2), on_fail=None, expected_failed_checks=by_chance)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_likelihoods_of_bits_sum_to_one_and_improve() -> None:
    model = EBM("RBM", num_hidden=8, num_epochs=1, random_state=0).fit(bits())
    states = Binary(6).enumerate().double().numpy()
    assert np.exp(model.score_samples(states)).sum() == pytest.approx(1, abs=1e-9)
    assert model.log_z_error_ == 0
    longer = EBM("RBM", num_hidden=8, num_epochs=100, learning_rate=0.02, random_state=1).fit(bits())
    assert longer.score(bits()) > model.score(bits()) + 0.5
    drawn = longer.sample(2000, num_steps=100, random_state=0)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.9 and abs(drawn.mean(0) - bits().mean(0)).max() < 0.1


@pytest.mark.slow
def test_likelihoods_by_ais_are_those_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    model = EBM("RBM", num_hidden=5, num_epochs=5, random_state=0).fit(bits())
    exact = model.score_samples(bits())
    monkeypatch.setattr(module, "SUMMABLE", 0)
    monkeypatch.setattr(module, "AIS_TEMPERATURES", 500)
    model = clone(model).fit(bits())
    assert model.log_z_error_ > 0 and model.log_z_ == model.log_z_
    assert model.log_z_error_ >= abs(model._log_z().gap)
    np.testing.assert_allclose(model.score_samples(bits()), exact, atol=4 * model.log_z_error_)


@pytest.mark.slow
def test_densities_are_in_the_units_of_the_data() -> None:
    """The density integrates to 1 over the two features that vary, and falls with the unit."""
    x = reals()[:, :2]
    model = EBM(num_hidden=6, num_epochs=20, random_state=0).fit(x)
    a, b = np.linspace(-300, 1300, 301), np.linspace(-0.06, 0.26, 301)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(-1, 2)
    density = np.exp(model.score_samples(grid)).reshape(301, 301)
    assert np.trapezoid(np.trapezoid(density, b), a) == pytest.approx(1, abs=1e-3)
    other = EBM(num_hidden=6, num_epochs=20, random_state=0).fit(x * 1000)
    assert other.score(x * 1000) == pytest.approx(model.score(x) - 2 * np.log(1000), abs=1e-2)
    drawn = model.sample(2000, num_steps=200, random_state=0)
    assert abs(drawn.mean(0) / x.mean(0) - 1).max() < 0.1 and abs(drawn.std(0) / x.std(0) - 1).max() < 0.2


def test_a_constant_feature() -> None:
    model = EBM(num_hidden=6, num_epochs=2, random_state=0).fit(reals())
    assert model.scale_[2] == 1 and np.isfinite(model.score_samples(reals())).all()


def test_features_are_the_hidden_units() -> None:
    model = EBM("RBM", num_hidden=5, num_epochs=1, random_state=0).fit(bits())
    x = torch.tensor(bits())
    expected = torch.sigmoid(model.energy_.hidden_given_visible(x))
    np.testing.assert_array_equal(model.transform(bits()), expected)
    assert list(model.get_feature_names_out()) == [f"ebm{i}" for i in range(5)]
    pipeline = make_pipeline(EBM("RBM", 8, learning_rate=0.05, num_epochs=20, random_state=0), LogisticRegression())
    assert pipeline.fit(bits(), bits()[:, 0]).score(bits(), bits()[:, 0]) == 1


def test_seeds_decide_and_the_global_generator_stays() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1]
    models = [EBM("RBM", num_hidden=4, num_epochs=2, random_state=seed).fit(bits()) for seed in (0, 0, 1)]
    draws = [model.sample(50, num_steps=5, random_state=2) for model in models]
    scores = [model.score(bits()) for model in models]
    assert torch.equal(torch.get_rng_state(), before) and np.array_equal(np.random.get_state()[1], numpy_before)
    assert scores[0] == scores[1] != scores[2] and np.array_equal(draws[0], draws[1])
    again = pickle.loads(pickle.dumps(models[0]))
    assert again.score(bits()) == scores[0] and np.array_equal(again.transform(bits()), models[0].transform(bits()))


def test_an_energy_and_a_sampler_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AIS_TEMPERATURES", 200)
    energy = RBM(6, 3)
    before = energy.W.clone()
    model = EBM(energy, sampler=DMALA(0.2), num_epochs=2, random_state=0).fit(bits())
    assert torch.equal(energy.W, before) and model.transform(bits()).shape == (400, 3)
    mlp = EBM(MLP(6, hidden_dim=4), sampler=DMALA(0.2), num_epochs=1, random_state=0).fit(bits())
    assert np.isfinite(mlp.score_samples(bits()[:5])).all()
    with pytest.raises(UserError, match="MLP has no hidden units to transform into"):
        mlp.transform(bits())
    spins = EBM(Ising.learnable(6), sampler=Gibbs(), num_epochs=2, random_state=0).fit(2 * bits() - 1)
    assert set(np.unique(spins.sample(20, num_steps=20))) == {-1, 1}


def test_samples_come_by_the_step_size_that_training_has_found() -> None:
    many = (np.random.default_rng(0).random((400, 6)) < 0.9).astype(float)
    given = AdaptiveDMALA(0.02, gain=1.0)
    model = EBM("RBM", 2, sampler=given, num_epochs=5, random_state=0).fit(many)
    assert float(given.step_size) == pytest.approx(0.02) and float(model.sampler_.step_size) > 0.2
    assert model.sample(1000, num_steps=50, random_state=0).mean() == pytest.approx(0.9, abs=0.03)


def test_log_z_that_few_chains_carry_is_not_to_be_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of two temperatures do not follow a law that is far narrower than the data's."""
    monkeypatch.setattr(module, "AIS_TEMPERATURES", 2)
    model = EBM("RBM", num_hidden=20, num_epochs=1, random_state=0).fit(bits())
    model.energy_.W.copy_(torch.randn(6, 20, generator=torch.Generator().manual_seed(0)) * 10)
    with pytest.warns(UserWarning, match="do not trust these log-likelihoods: .*chains are effective"):
        assert np.isfinite(model.log_z_)
    assert np.isnan(model.log_z_error_)


def test_a_fit_that_fails_leaves_an_earlier_one_as_it_was() -> None:
    model = EBM(num_hidden=3, num_epochs=2, random_state=0).fit(reals())
    before = model.score_samples(reals())
    with pytest.raises(UserError, match="training has diverged"):
        model.set_params(learning_rate=1e18).fit(5 * reals() + 1)
    assert np.array_equal(model.score_samples(reals()), before)
    with pytest.raises(UserError, match="training has diverged"):
        (other := clone(model)).fit(reals())
    with pytest.raises(NotFittedError):
        other.score_samples(reals())


def test_samples_take_a_step_at_least() -> None:
    model = EBM("RBM", num_hidden=4, num_epochs=1, random_state=0).fit(bits())
    for wrong in ({"num_steps": 0}, {"n_samples": 0}):
        with pytest.raises(UserError, match="but must be at least 1"):
            model.sample(**wrong)


def test_fractions_are_probabilities_of_bits() -> None:
    """Bits are drawn in each epoch anew, so that rows of 0.5 give independent fair bits."""
    model = EBM("RBM", num_hidden=3, num_epochs=20, random_state=0).fit(np.full((500, 3), 0.5))
    law = np.exp(model.score_samples(Binary(3).enumerate().numpy()))
    np.testing.assert_allclose(law, np.full(8, 1 / 8), atol=0.05)


def test_the_likelihood_of_probabilities_is_the_mean_over_bits() -> None:
    model = EBM("RBM", num_hidden=8, num_epochs=1, random_state=0).fit(bits())
    rows = np.vstack([np.linspace(0.1, 0.9, 6), bits(1)[0]])
    states = Binary(6).enumerate().numpy()
    odds = np.where(states == 1, rows[0], 1 - rows[0]).prod(1)
    terms = model.score_samples(states)
    mean = (odds * terms).sum()
    error = np.sqrt((odds * (terms - mean) ** 2).sum() / 100)
    found = model.score_samples(rows)
    assert abs(found[0] - mean) < 3 * error
    assert found[1] == pytest.approx(model.score_samples(rows[1:])[0])
    np.testing.assert_array_equal(found[:1], model.score_samples(rows[:1]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (EBM("RBM"), r"RBM takes features in \[0, 1\], but X has others"),
        (EBM("rbm"), r"energy is 'rbm', but must be \"GRBM\", \"RBM\" or an Energy"),
        (EBM(RBM), r"energy is <class .*RBM'>, but must be \"GRBM\", \"RBM\" or an Energy"),
        (EBM(None), r"energy is None, but must be \"GRBM\", \"RBM\" or an Energy"),
        (EBM(np.eye(3)), r"energy is array.*, but must be \"GRBM\", \"RBM\" or an Energy"),
        (EBM("GRBM", num_hidden=-1), "num_hidden is -1, but must be at least 1"),
        (EBM("GRBM", num_hidden="a"), "num_hidden is 'a', but must be a whole number"),
        (EBM(num_epochs=-1), "EBM: num_epochs is -1, but must be at least 0"),
        (EBM(num_epochs=1.5), "EBM: num_epochs is 1.5, but must be a whole number"),
        (EBM(num_epochs=None), "EBM: num_epochs is None, but must be a whole number"),
        (EBM(num_steps=0), "EBM: num_steps is 0, but must be at least 1"),
        (EBM(num_steps=True), "EBM: num_steps is True, but must be a whole number"),
        (EBM(batch_size=0), "EBM: batch_size is 0, but must be at least 1"),
        (EBM(batch_size=[3]), r"EBM: batch_size is \[3\], but must be a whole number"),
        (EBM(sampler="BlockGibbs"), r"EBM: sampler is 'BlockGibbs', but must be a Sampler, such as BlockGibbs\(\)"),
        (EBM(sampler=BlockGibbs), r"EBM: sampler is <class .*BlockGibbs'>, but must be a Sampler, such as BlockGibbs"),
        (EBM(learning_rate="a"), "EBM: learning_rate is 'a', but must be a number"),
        (EBM(learning_rate=None), "EBM: learning_rate is None, but must be a number"),
        (EBM(accelerator="abacus"), "EBM: accelerator is 'abacus', which is not at hand: .*Available names are"),
        (EBM(accelerator=None), "EBM: accelerator is None, which is not at hand: .*Available names are"),
        (EBM(random_state="a"), r"EBM: random_state is 'a', but must be None, a whole number from 0 to 2\*\*32 - 1 or"),
        (EBM(random_state=-1), "EBM: random_state is -1, but must be None, a whole number from 0"),
        (EBM(RBM(5, 2)), r"X has 3 features, but RBM models 5 numbers"),
        (EBM(MLP(3)), r"BlockGibbs needs a bipartite energy"),
        (EBM(learning_rate=1e18, num_epochs=3), r"training has diverged; take a learning_rate below 1e\+18"),
        (EBM(learning_rate=1e30), r"EBM: learning_rate is 1e\+30, but must be 0 or a positive number up to 1e\+18"),
    ],
)
def test_one_clear_line(model: EBM, message: str) -> None:
    with refused(message):
        model.fit(bits()[:, :3] if isinstance(model.energy, MLP) else reals())
    assert not hasattr(model, "energy_")


def test_counts_of_numpy_are_taken() -> None:
    one = np.int64(1)
    EBM("RBM", one, num_steps=one, batch_size=np.int64(64), num_epochs=one, random_state=one).fit(bits())


def test_an_epoch_has_each_row_as_often_as_its_weight_says() -> None:
    torch.manual_seed(0)
    share = torch.tensor([0.0, 0.3, 2.5, 0.2, 1.0])
    epochs = [list(ByWeight(10 * share.repeat(2))) for _ in range(1000)]
    counts = torch.stack([torch.bincount(torch.tensor(epoch), minlength=10) for epoch in epochs]).float()
    expected = share.repeat(2) * 10 / (2 * share.sum())
    assert (counts >= expected.floor() - 1e-3).all() and (counts <= expected.ceil() + 1e-3).all()
    assert (counts.mean(0) - expected).abs().max() < 0.07
    assert len({tuple(epoch) for epoch in epochs}) > 900


def test_weights_count_as_repeated_rows_do() -> None:
    """The means that are learnt from draws are those of repeated rows, which are far from those of the rows alone."""
    states = Binary(3).enumerate().double().numpy()
    counts = np.array([9, 1, 0, 1, 8, 2, 1, 2])
    rows, weights = states.repeat(25, 0), counts.repeat(25) / 7
    model = EBM(RBM(3, 1), learning_rate=0.05, num_epochs=60, batch_size=100, random_state=0)
    fitted = [
        clone(model).fit(rows, sample_weight=weights),
        clone(model).fit(states.repeat(8 * counts, 0)),
        clone(model).fit(rows),
    ]
    weighted, repeated, alike = (np.exp(each.score_samples(states)) @ states for each in fitted)
    assert abs(weighted - repeated).max() < 0.06 and abs(alike - repeated).max() > 0.2
    mean = counts @ states / counts.sum()
    np.testing.assert_allclose(fitted[0]._base.logits.sigmoid(), mean, rtol=1e-5)
    assert abs(fitted[0]._starts.numpy().mean(0) - mean).max() < 0.02
    assert abs(weighted - mean).max() < 0.06


def test_weighted_features_are_standardised_as_repeated_ones_and_rows_without_weight_left_out() -> None:
    counts = np.random.default_rng(0).integers(0, 4, 400)
    x = reals()
    x[counts == 0] = 1e9
    weighted = EBM(num_epochs=1, random_state=0).fit(x, sample_weight=counts)
    repeated = EBM(num_epochs=1, random_state=0).fit(x.repeat(counts, 0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-12)
    np.testing.assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-12)
    assert all(buffer.isfinite().all() for buffer in weighted._base.buffers())
    without = EBM(num_epochs=1, random_state=0).fit(x[counts > 0], sample_weight=counts[counts > 0])
    assert weighted.energy_.W.equal(without.energy_.W)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(400), "must contain at least one non-zero number"),
        (np.full(400, np.nan), "sample_weight contains NaN"),
        (np.full(400, np.inf), "sample_weight contains infinity"),
        (np.arange(400) - 1, "Negative values in data passed to `sample_weight`"),
        (np.ones(399), r"sample_weight.shape == \(399,\), expected \(400,\)"),
        (np.ones((400, 2)), "Sample weights must be 1D array or scalar"),
    ],
)
def test_weights_that_are_none_are_refused_in_one_line(weights: NDArray[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        EBM().fit(reals(), sample_weight=weights)
    assert "\n" not in str(error.value)


def test_weights_reach_an_estimator_in_a_pipeline() -> None:
    weights = np.arange(400) % 3
    alone = EBM("RBM", 3, num_epochs=1, random_state=0).fit(bits(), sample_weight=weights)
    steps = [clone(alone), LogisticRegression()]
    by_name = make_pipeline(*steps).fit(bits(), bits()[:, 0], ebm__sample_weight=weights)
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(
            steps[0].set_fit_request(sample_weight=True), steps[1].set_fit_request(sample_weight=False)
        )
        routed.fit(bits(), bits()[:, 0], sample_weight=weights)
    for pipeline in (by_name, routed):
        assert pipeline[0].energy_.W.equal(alone.energy_.W)


def test_a_short_last_batch_ruins_scikit_learns_rbm_as_the_page_says() -> None:
    rare = (np.random.default_rng(0).random((101, 10)) < 0.3).astype(float)
    means = []
    for rows in (100, 101):
        machine = BernoulliRBM(8, batch_size=100, learning_rate=0.05, n_iter=200, random_state=0).fit(rare[:rows])
        v = np.zeros((500, 10))
        for _ in range(100):
            v = machine.gibbs(v)
        means.append(v.mean())
    assert abs(means[0] - rare.mean()) < 0.05 and means[1] < 0.05


@pytest.mark.parametrize("method", ["transform", "score_samples", "score"])
def test_columns_in_another_order_are_refused(method: str) -> None:
    rows = pytest.importorskip("pandas").DataFrame(reals(), columns=["a", "b", "c"])
    model = EBM(num_hidden=2, num_epochs=1, random_state=0).fit(rows)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    getattr(model, method)(rows)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        getattr(model, method)(rows[["c", "b", "a"]])


@pytest.mark.slow
def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Features classify digits as well as BernoulliRBM's, as the page's table says."""
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "sklearn.md").read_text(), re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    printed = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert float(printed["EBM, GRBM"]) > float(printed["BernoulliRBM"]) + 0.005
    assert abs(float(printed["EBM, RBM"]) - float(printed["BernoulliRBM"])) < 0.015


def test_a_large_offset_leaves_the_scale_of_a_feature() -> None:
    """float32 would round these numbers to multiples of 128."""
    x = 1.7e9 + 5 * np.random.default_rng(0).standard_normal((200, 2))
    model = EBM(num_hidden=2, num_epochs=1, random_state=0).fit(x)
    assert np.allclose(model.scale_, x.std(0), rtol=1e-6)
    assert 1 < model.sample(200, 10, random_state=0).std() < 25
