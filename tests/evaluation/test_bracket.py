"""Wrong likelihood estimates that only reverse AIS reveals."""

from __future__ import annotations

import math

import pytest
import torch

from ebmlab.energies import RBM, Bernoulli
from ebmlab.evaluation import LogZ, ais, exact_log_z, exact_samples, reverse_ais
from ebmlab.evaluation.bracket import equilibrated
from ebmlab.samplers import BlockGibbs


def both_ways(rbm: RBM, base: Bernoulli | None) -> tuple[LogZ, LogZ]:
    """AIS with 1,000 temperatures and 100 chains: forward, and against backward chains from exact samples."""
    sampler = BlockGibbs()
    x = equilibrated(rbm, sampler, exact_samples(rbm, 100), 100)
    forward = ais(rbm, sampler, num_chains=100, num_temperatures=1000, base=base)
    return forward, forward.against(reverse_ais(rbm, sampler, x, num_temperatures=1000, base=base))


@pytest.mark.slow
def test_a_wrong_estimate_with_many_effective_chains_is_found() -> None:
    """Log Z is tens of nats too low with nearly all of 100 chains effective; only backward annealing shows it."""
    torch.manual_seed(1)
    rbm = RBM(200, 14).requires_grad_(False)
    rbm.W.normal_(0, 3)
    rbm.b_v.zero_()
    rbm.b_h.fill_(-140)  # at -120 one chain of 100 may find the mass, and be the only effective one
    log_z = float(exact_log_z(rbm))
    torch.manual_seed(0)
    forward, wrong = both_ways(rbm, None)
    assert wrong.log_z == forward.log_z < log_z - 20 and wrong.ess == forward.ess > 90 and forward.std_error < 0.1
    assert not wrong.trusted and wrong.gap > 20 and "nats from log Z forward" in wrong.doubts[0]
    forward, right = both_ways(rbm, Bernoulli(exact_samples(rbm, 2000).mean(0)))  # a base in the right mode
    assert right.trusted and abs(right.log_z - log_z) < 0.2
    assert right.std_error == pytest.approx(math.hypot(forward.std_error, right.gap))


@pytest.mark.slow
def test_the_stated_error_covers_a_small_mode_that_forward_chains_miss() -> None:
    """The spread of the weights alone is a fifth of the error: no chain starts in a mode of a quarter of the mass."""
    torch.manual_seed(1)
    rbm = RBM(200, 14).requires_grad_(False)
    rbm.W.normal_(0, 2)
    rbm.b_v.zero_()
    rbm.b_h.fill_(-60)
    log_z, base = float(exact_log_z(rbm)), Bernoulli(exact_samples(rbm, 2000).mean(0))
    alone = covered = 0
    for _ in range(5):
        forward, both = both_ways(rbm, base)
        error = abs(both.log_z - log_z)
        alone += error < 1.96 * forward.std_error
        covered += both.trusted and error < 1.96 * both.std_error
    assert alone <= 2 and covered >= 4


def result(log_weights: list[float], families: list[int] | None = None, reverse: bool = False) -> LogZ:
    kept = None if families is None else torch.tensor([families])
    return LogZ.of_chains(
        torch.tensor([log_weights], dtype=torch.float64), torch.zeros(1), reverse=reverse, families=kept
    )


def test_each_doubt_alone_is_enough() -> None:
    good, back = result([0.0] * 20), result([0.0] * 20, reverse=True)
    assert good.against(back).trusted and good.against(result([-0.9] * 20, reverse=True)).trusted
    assert not good.trusted and not back.trusted
    assert not good.against(result([-1.1] * 20, reverse=True)).trusted
    assert not good.against(result([1.1] * 20, reverse=True)).trusted
    assert not result([3.0] + [0.0] * 19).against(back).trusted  # few effective chains
    assert not result([0.0] * 20, families=[k // 3 for k in range(20)]).against(back).trusted  # few families
    assert not result([float("nan")] * 20).against(back).trusted
