"""Where annealing misses modes of an RBM, `log_likelihood` finds log Z by replica exchange, or says that it cannot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import RBM, reference
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.samplers import BlockGibbs
from ebmlab.trained import likelihood
from ebmlab.trained.likelihood import computed_log_z


def rugged(num_visible: int, num_hidden: int, hidden_bias: float) -> tuple[RBM, Tensor]:
    """Weights N(0, 2^2), visible biases N(0, 1), equal hidden biases; and 200 exact states, by the law of h."""
    generator = torch.Generator().manual_seed(0)
    rbm = RBM(num_visible, num_hidden).double().requires_grad_(False)
    rbm.W.data = 2 * torch.randn(rbm.W.shape, generator=generator).double()
    rbm.b_v.data = torch.randn(num_visible, generator=generator).double()
    rbm.b_h.data.fill_(hidden_bias)
    h = Binary(num_hidden).enumerate().double()
    field = rbm.visible_given_hidden(h)
    law = (h @ rbm.b_h + torch.nn.functional.softplus(field).sum(1)).softmax(0)
    drawn = torch.multinomial(law, 200, replacement=True, generator=generator)
    return rbm, torch.bernoulli(field[drawn].sigmoid(), generator=generator)


def test_replica_exchange_takes_the_place_of_annealing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)
    monkeypatch.setattr(likelihood, "RUNGS", 6)
    rbm, x = rugged(100, 10, -36.0)
    found = computed_log_z(rbm, [], x, chains=40, temperatures=4)
    assert found.trusted and found.method.startswith("replica exchange")
    assert found.log_z == pytest.approx(float(exact_log_z(rbm)), abs=4 * found.std_error)
    assert found.std_error < 0.3


def test_where_neither_is_right_the_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two temperatures are too few for either, from states that the law never has."""
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)
    monkeypatch.setattr(likelihood, "RUNGS", 2)
    monkeypatch.setattr(likelihood, "STEPS", 2)
    rbm, x = rugged(100, 10, -36.0)
    found = computed_log_z(rbm, [], 1 - x[:50], chains=40, temperatures=4)
    assert not found.trusted and any(doubt.startswith("replica exchange: ") for doubt in found.doubts)
    assert found.std_error != found.std_error


def test_an_estimate_below_that_of_annealing_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "RUNGS", 4)
    monkeypatch.setattr(likelihood, "STEPS", 10)
    rbm, x = rugged(20, 6, -12.0)
    base = reference(rbm.domain)
    torch.manual_seed(0)
    annealed = ais(rbm, BlockGibbs(), num_chains=40, num_temperatures=100, base=base)
    same = likelihood._by_exchange(rbm, BlockGibbs(), base, x, annealed, 20, 4)
    assert not any("below that of annealing" in doubt for doubt in same.doubts)
    object.__setattr__(annealed, "log_z", annealed.log_z + 5)
    other = likelihood._by_exchange(rbm, BlockGibbs(), base, x, annealed, 20, 4)
    assert any("nats below that of annealing" in doubt for doubt in other.doubts)


@pytest.mark.slow
def test_the_rbm_of_200_visible_and_14_hidden_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward annealing by 1,000 temperatures and 100 chains has less than 10 effective chains here."""
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)
    rbm, x = rugged(200, 14, -60.0)
    found = computed_log_z(rbm, [], x, chains=100, temperatures=1000)
    truth = float(exact_log_z(rbm))
    assert not found.trusted or found.log_z == pytest.approx(truth, abs=4 * max(found.std_error, 0.05))
    assert found.trusted, found.doubts
