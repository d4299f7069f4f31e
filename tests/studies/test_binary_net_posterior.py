"""The binary network's posterior: by hand, by autograd, in chunks, by minibatches, and sampled exactly."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers_finite import Exact, bias, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from jsonargparse import ArgumentParser, set_parsing_settings
from torch import Tensor

from ebmlab.data.tables import Rows
from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, DULA, dmala
from ebmlab.samplers.discrete_langevin import GuidedEnergy
from ebmlab.studies.targets import BinaryNetPosterior, binary_net_posterior


def table(n: int = 6, features: int = 1, seed: int = 0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    x = 1.5 * torch.randn(n, features, dtype=torch.float64, generator=generator)
    return Rows(
        x, torch.rand(n, dtype=torch.float64, generator=generator), x.flip(0) + 0.3, 1 - 0.7 * torch.arange(n) / n
    )


def tiny(**options: Any) -> BinaryNetPosterior:
    """A network of seven weights whose law is neither uniform nor concentrated on one state."""
    return BinaryNetPosterior(table(), **{"hidden_dim": 2, "sharpness": 20.0, "batch_size": 2, **options})


def by_hand(w: list[float], x: list[float], hidden: int) -> float:
    """The output of one network on one row, in plain Python."""
    f = len(x)
    logit = w[-1]
    for h in range(hidden):
        inner = w[f * hidden + h] + sum(x[i] * w[i * hidden + h] for i in range(f))
        logit += w[(f + 1) * hidden + h] * math.tanh(inner)
    return 1 / (1 + math.exp(-logit))


def test_energy_prediction_and_scores_by_hand() -> None:
    data = table(5, 3)
    energy = BinaryNetPosterior(data, hidden_dim=4, sharpness=30.0)
    assert energy.domain.event_shape == ((3 + 2) * 4 + 1,)
    w = energy.domain.random(3).double()
    assert data.test_x is not None and data.test_y is not None
    train, test = (
        torch.tensor(
            [[by_hand(row, features, 4) for features in x.tolist()] for row in w.tolist()], dtype=torch.float64
        )
        for x in (data.train_x, data.test_x)
    )
    errors = (train - data.train_y).square().mean(1)
    torch.testing.assert_close(energy(w), 30 * errors)
    torch.testing.assert_close(energy.log_likelihood(w), -errors)
    torch.testing.assert_close(energy.predict(w, data.test_x), test)
    torch.testing.assert_close(energy.test_rmse(w), (test.mean(0) - data.test_y).square().mean().sqrt())
    torch.testing.assert_close(
        energy.rmse(w, data.train_x, data.train_y), (train.mean(0) - data.train_y).norm() / 5**0.5
    )


@pytest.mark.parametrize("chunk", [2**24, 3 * 4 * 2, 1])
@pytest.mark.parametrize("inference", [False, True])
def test_gradient_is_that_of_autograd_for_all_chunk_sizes(
    chunk: int, inference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = table(7, 3)
    order = torch.tensor([0, 1, 2, 3, 4, 5, 6, 6, 2, 6])  # some rows are there more than once
    energy = BinaryNetPosterior(Rows(data.train_x[order], data.train_y[order]), hidden_dim=4)
    w = torch.randn(3, 21, dtype=torch.float64, generator=torch.Generator().manual_seed(1))  # not on the domain
    expected = Energy.value_and_grad(energy, w)  # the base class differentiates `forward`
    monkeypatch.setattr(binary_net_posterior, "CHUNK", chunk)
    with torch.inference_mode(inference):
        value, grad = energy.value_and_grad(w)
        torch.testing.assert_close(energy(w), value)
    torch.testing.assert_close((value, grad), expected)
    one = energy.value_and_grad(w[1:2])
    torch.testing.assert_close((one[0][0], one[1][0]), (value[1], grad[1]))
    single = energy.float().value_and_grad(w)
    assert single[0].dtype == single[1].dtype == torch.float32
    torch.testing.assert_close(single[1].double(), grad, rtol=1e-3, atol=1e-4)


def test_hidden_units_are_never_all_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk, sizes = 600, []
    monkeypatch.setattr(binary_net_posterior, "CHUNK", chunk)
    own = torch.Tensor.sigmoid_
    monkeypatch.setattr(torch.Tensor, "sigmoid_", lambda x: (sizes.append(x.numel()), own(x))[1])
    energy = BinaryNetPosterior(table(50, 2), hidden_dim=10)
    energy.value_and_grad(energy.domain.random(6))
    assert sum(sizes) == 6 * 50 * 10 and max(sizes) <= chunk


@pytest.mark.slow
def test_rows_with_the_same_features_are_computed_once() -> None:
    data = table(5, 3)
    order = torch.tensor([3, 0, 0, 4, 2, 1, 0, 3])
    x, y = data.train_x[order], torch.linspace(0, 1, 8, dtype=torch.float64)
    energy = BinaryNetPosterior(Rows(x, y), hidden_dim=4, sharpness=30.0)
    w = torch.randn(3, 21, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    expected = 30 * (energy.predict(w, x) - y).square().mean(1)
    assert len(energy.inputs) == 5
    torch.testing.assert_close(energy(w).detach(), expected)
    torch.testing.assert_close(energy.value_and_grad(w.detach()), Energy.value_and_grad(energy, w.detach()))
    torch.manual_seed(0)
    parts = torch.stack([energy.minibatch(3)(w.detach()) for _ in range(2000)])
    assert ((parts.mean(0) - expected) / (parts.std(0) / 2000**0.5)).abs().max() < 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.uint8, torch.bool])
def test_rows_of_any_type_are_counted_exactly(dtype: torch.dtype) -> None:
    x = torch.arange(3.0).repeat(300).unsqueeze(1)
    y = (torch.rand(900, generator=torch.Generator().manual_seed(0)) < 0.6).to(dtype)
    features = x.double() if dtype == torch.float64 else x
    energy = BinaryNetPosterior(Rows(features, y), hidden_dim=4, sharpness=30.0)
    w = torch.randn(3, 13, generator=torch.Generator().manual_seed(1)).to(features.dtype)
    expected = 30 * (energy.predict(w, features) - y.to(w)).square().mean(1)
    precise = {"rtol": 1e-13, "atol": 0.0} if dtype == torch.float64 else {}
    torch.testing.assert_close(energy(w), expected, **precise)
    torch.testing.assert_close(energy.value_and_grad(w)[0], expected, **precise)


def test_saturated_networks_have_finite_energies_and_gradients() -> None:
    data = table(5, 3)
    energy = BinaryNetPosterior(Rows(1e4 * data.train_x, data.train_y), hidden_dim=300, sharpness=1e4)
    value, grad = energy.value_and_grad(torch.ones(2, energy.domain.size))
    assert value.isfinite().all() and grad.isfinite().all()
    assert (grad.abs() < 1e-100).all()
    after, info = DMALA(0.4).sample(energy, torch.ones(2, energy.domain.size), 3)
    energy.domain.validate(after)
    assert info.acceptance.isfinite().all()


@pytest.mark.parametrize("size", [1, 2, 6])
def test_the_mean_over_all_minibatches_is_the_energy_and_its_gradient(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    energy = tiny(batch_size=size)
    w = energy.domain.enumerate().double()
    means = [torch.zeros(len(w)), torch.zeros_like(w)]
    orders = [
        torch.tensor(rows) for rows in itertools.combinations(range(6), size)
    ]  # each set of rows is equally likely to be drawn
    for order in orders:
        monkeypatch.setattr(torch, "randperm", lambda n, device=None, order=order: order)
        for mean, part in zip(means, energy.minibatch().value_and_grad(w), strict=True):
            mean += part / len(orders)
    torch.testing.assert_close(tuple(means), energy.value_and_grad(w), check_dtype=False, rtol=1e-5, atol=1e-5)


def test_minibatches_are_fresh_and_of_the_size_asked_for() -> None:
    torch.manual_seed(0)
    energy = BinaryNetPosterior(table(50, 2), hidden_dim=10, sharpness=7.0)
    w = energy.domain.random(2).double()
    assert len(energy.minibatch().targets) == 50  # the default size exceeds the number of rows
    torch.testing.assert_close(energy.minibatch()(w), energy(w))
    draws = torch.stack([energy.minibatch(10)(w) for _ in range(1000)])
    assert len(draws[:, 0].unique()) == 1000
    deviation = (draws.mean(0) - energy(w)) / (draws.std(0) / 1000**0.5)
    assert deviation.abs().max() < 4
    assert (
        len(energy.minibatch(10).targets) == 10 and energy.minibatch(10).domain.event_shape == energy.domain.event_shape
    )


@cases("step_size", [0.4, 2.0], fast=[0])
def test_dmala_is_exact_on_seven_weights(step_size: float) -> None:
    energy = tiny()
    assert bias(DMALA(step_size), energy) < 1e-10
    law = Exact(energy).probabilities
    assert law.max() > 20 * law.min() and law.max() < 0.2  # neither flat nor concentrated


@pytest.mark.slow
def test_dmala_guided_by_minibatches_is_exact() -> None:
    sampler, energy = DMALA(2.0, stochastic=True), tiny()
    assert invariance_p(sampler, energy) > PASS
    assert convergence_distance(sampler, energy, 40, num_chains=10_000) < 0.06


MUTANTS = {
    "energy of the minibatch": ("self.energy(x)", "self.guide(x)"),
    "another minibatch for the way back": ("self.guide.value_and_grad(x)", "self.energy.minibatch().value_and_grad(x)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_wrong_guides_are_caught(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dmala, "GuidedEnergy", mutant(GuidedEnergy, old, new))
    assert invariance_p(DMALA(2.0, stochastic=True), tiny()) < FAIL


def test_dula_by_minibatches_runs_and_learns() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=generator)
    y = (x[:, 0] > 0).float()
    energy = BinaryNetPosterior(Rows(x[:300], y[:300], x[300:], y[300:]), hidden_dim=20, batch_size=50)
    w = energy.domain.random(8)
    before = energy.log_likelihood(w).mean()
    after, info = DULA(0.4, stochastic=True).sample(energy, w, 200)
    energy.domain.validate(after)
    assert before < -0.3 and energy.log_likelihood(after).mean() > -0.15
    assert energy.test_rmse(after) < 0.35
    assert info.evaluations == 1


class FromYAML:
    """A source of data as a config names it."""

    def __init__(self, rows: int = 5) -> None:
        self.rows = rows

    def load(self) -> Rows:
        return table(self.rows)


def test_built_from_a_config() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--energy", type=Energy)
    here = f"{__name__}.FromYAML"
    set_parsing_settings(import_path_allowlist=[here])  # the command line, in a test before, denies other code
    spec = {
        "class_path": "ebmlab.studies.targets.binary_net_posterior.BinaryNetPosterior",
        "init_args": {"data": {"class_path": here, "init_args": {"rows": 9}}, "hidden_dim": 3},
    }
    energy = parser.instantiate(parser.parse_object({"energy": spec})).energy
    assert isinstance(energy, BinaryNetPosterior) and len(energy.targets) == 9 and energy.domain.event_shape == (10,)
    assert energy.state_dict() == {}  # the data are not saved in checkpoints


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BinaryNetPosterior(Rows(torch.ones(3), torch.ones(3))), r"features have shape \(3,\)"),
        (lambda: BinaryNetPosterior(Rows(torch.ones(3, 2), torch.ones(3, 1))), r"targets \(3, 1\)"),
        (lambda: BinaryNetPosterior(Rows(torch.ones(0, 2), torch.ones(0))), "N and F at least 1"),
        (lambda: tiny(hidden_dim=0), "hidden_dim is 0"),
        (lambda: tiny(batch_size=0), "batch_size is 0"),
        (lambda: tiny(sharpness=0.0), "sharpness is 0.0"),
    ],
)
def test_what_does_not_fit_is_refused(build: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build()


def test_scores_without_test_rows_are_refused() -> None:
    energy = BinaryNetPosterior(Rows(torch.ones(3, 2), torch.ones(3)), hidden_dim=2)
    assert isinstance(energy.domain, Spin)
    with pytest.raises(UserError, match="no test rows"):
        energy.test_rmse(energy.domain.random(2))


def test_moves_and_casts_with_the_module() -> None:
    energy = tiny().float()
    w: Tensor = energy.domain.random(3)
    torch.testing.assert_close(energy(w).double(), tiny()(w.double()), rtol=1e-5, atol=1e-5)
