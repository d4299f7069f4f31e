"""The scikit-learn estimator: its contract, likelihoods by enumeration and quadrature, and pipelines."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from ebmlab import sklearn as module
from ebmlab.domains import Binary
from ebmlab.energies import MLP, RBM, Ising
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, Gibbs
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
    results = check_estimator(EBM(num_epochs=2), on_fail=None)
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
        (EBM(RBM(5, 2)), r"X has 3 features, but RBM models 5 numbers"),
        (EBM(MLP(3)), r"BlockGibbs needs a bipartite energy"),
        (EBM(learning_rate=1e18, num_epochs=3), r"training has diverged; take a learning_rate below 1e\+18"),
        (EBM(learning_rate=1e30), r"EBM: learning_rate is 1e\+30, but must be 0 or a positive number up to 1e\+18"),
    ],
)
def test_one_clear_line(model: EBM, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        model.fit(reals() if "RBM" in message or model.energy == "GRBM" or "rbm" in message else bits()[:, :3])
    assert "\n" not in str(error.value) and not hasattr(model, "energy_")


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
