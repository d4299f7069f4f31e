"""Bernoulli noise has the right frequencies on both of its paths, at any logit and size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ebmlab.numerics.noise import bernoulli, categorical, drawn_by_column

SMALL, LARGE = 2**12, 2**20  # float32 tensors of 2^14 entries or more are drawn by numpy
PATHS = [(torch.float32, SMALL), (torch.float32, LARGE), (torch.float64, SMALL), (torch.float64, LARGE)]


@pytest.mark.parametrize(("dtype", "size"), PATHS, ids=str)
@pytest.mark.parametrize("logit", [-12.0, -7.0, -2.0, -0.1, 0.0, 0.7, 3.0, 7.0, 12.0])
def test_frequencies(dtype: torch.dtype, size: int, logit: float) -> None:
    torch.manual_seed(0)
    draws = bernoulli(torch.full((size,), logit, dtype=dtype))
    assert draws.dtype == dtype and set(draws.unique().tolist()) <= {0.0, 1.0}
    p = 1 / (1 + np.exp(-logit))
    z = (draws.double().sum().item() - size * p) / (size * p * (1 - p)) ** 0.5
    assert abs(z) < 5  # less than one false alarm in 10,000, also where few ones are expected


@pytest.mark.parametrize(("dtype", "size"), PATHS, ids=str)
def test_neighbouring_entries_are_independent(dtype: torch.dtype, size: int) -> None:
    torch.manual_seed(0)
    pairs = bernoulli(torch.zeros(size, dtype=dtype)).view(-1, 2).long()
    counts = torch.bincount(pairs[:, 0] * 2 + pairs[:, 1], minlength=4).double()
    chi_square = ((counts - size / 8).square() / (size / 8)).sum()
    assert chi_square < 27  # 3 degrees of freedom: 6e-6


@pytest.mark.parametrize(("dtype", "size"), PATHS, ids=str)
@pytest.mark.parametrize("logit", [40.0, 1e4, float("inf")])
def test_extreme_logits_are_certain(dtype: torch.dtype, size: int, logit: float) -> None:
    torch.manual_seed(0)
    assert bernoulli(torch.full((size,), logit, dtype=dtype)).all()
    assert not bernoulli(torch.full((size,), -logit, dtype=dtype)).any()


@pytest.mark.parametrize("bits", [-(2**31), -(2**31) + 1, -1, 0, 2**31 - 64, 2**31 - 1])
def test_extreme_logits_are_certain_whatever_the_random_bits(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def __init__(self, seed: int) -> None: ...

        def random_raw(self, n: int) -> np.ndarray:
            return np.full(2 * n, bits, dtype=np.int32).view(np.uint64)

    monkeypatch.setattr(np.random, "SFC64", Fixed)
    assert bernoulli(torch.full((LARGE,), 1e4)).all()
    assert not bernoulli(torch.full((LARGE,), -1e4)).any()


@pytest.mark.parametrize(("dtype", "size"), PATHS, ids=str)
def test_torch_seed_decides_everything(dtype: torch.dtype, size: int) -> None:
    logits = torch.zeros(size, dtype=dtype)
    torch.manual_seed(1)
    first, second = bernoulli(logits), bernoulli(logits)
    torch.manual_seed(1)
    assert torch.equal(bernoulli(logits), first) and torch.equal(bernoulli(logits), second)
    assert not torch.equal(first, second)
    torch.manual_seed(2)
    assert not torch.equal(bernoulli(logits), first)


@pytest.mark.parametrize("shape", [(1,), (3, 7), (129, 129), (2**14 + 1,), (2**14 - 1,)], ids=str)
def test_odd_counts_and_layouts_match_their_own_logit(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    want = torch.randint(2, shape).float()
    logits = 100 * (2 * want - 1)
    assert torch.equal(bernoulli(logits), want)
    assert torch.equal(bernoulli(logits.T.contiguous().T if len(shape) == 2 else logits), want)
    assert torch.equal(logits, 100 * (2 * want - 1)), "the logits were changed in place"


@pytest.mark.parametrize("p", [1e-4, 1e-3, 0.002])
def test_rare_bits_keep_their_odds_in_half_precision(p: float) -> None:
    torch.manual_seed(0)
    logits = torch.full((2**20,), p, dtype=torch.float64).logit().bfloat16()
    draws = bernoulli(logits)
    assert draws.dtype == torch.bfloat16
    expected = float(2**20 * torch.sigmoid(logits.double()[0]))
    assert abs(draws.double().sum().item() - expected) < 5 * expected**0.5


def test_choices_reach_every_index_in_half_precision() -> None:
    torch.manual_seed(0)
    draws = categorical(torch.full((20_000, 625), 1 / 625).log().bfloat16())
    assert len(draws.unique()) == 625


@pytest.mark.parametrize("values", [1, 3, 300])
def test_draws_by_column_have_the_odds_of_their_weights(values: int) -> None:
    """By chi-square; weights of 0 are not drawn."""
    torch.manual_seed(0)
    weights = torch.rand(values, 1)
    weights[1::2] = 0
    index, total = drawn_by_column(weights.expand(-1, 60_000))
    assert torch.allclose(total, weights.sum())
    counts = torch.bincount(index, minlength=values)
    kept = weights.flatten() > 0
    assert counts[~kept].sum() == 0
    expected = (60_000 * weights / weights.sum()).flatten()[kept]
    enough = expected > 5
    found = torch.cat([counts[kept][enough], counts[kept][~enough].sum().view(1)])
    wanted = torch.cat([expected[enough], expected[~enough].sum().view(1)])
    assert float(((found - wanted).square() / wanted.clamp(min=1)).sum()) < 2 * values + 20
