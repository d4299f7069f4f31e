from __future__ import annotations

import itertools
import math

import pytest
import torch

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.errors import UserError
from ebmlab.evaluation import mmd
from ebmlab.evaluation.mmd import hamming_mmd, log_mmd

DOMAINS: list[Finite] = [Binary((2, 3)), Spin(5), Ordinal(4, 5), Categorical((2, 2), 3), Ordinal(3, 1)]


def naive(x, y, kernel, unbiased, domain):
    """By a double loop over states."""
    x, y = domain.to_index(x).flatten(1).tolist(), domain.to_index(y).flatten(1).tolist()
    d = domain.size

    def k(a, b):
        distance = sum(i != j for i, j in zip(a, b, strict=True))
        return math.exp(-distance / d) if kernel == "exponential" else d - distance

    def within(a):
        pairs = itertools.permutations(a, 2) if unbiased else itertools.product(a, a)
        return sum(k(*pair) for pair in pairs) / (len(a) * (len(a) - unbiased))

    return within(x) + within(y) - 2 * sum(k(*pair) for pair in itertools.product(x, y)) / (len(x) * len(y))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", ["exponential", "linear"])
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("chunk", [1, 40, 2**22])
def test_agrees_with_a_double_loop(domain, kernel, unbiased, chunk, monkeypatch):
    monkeypatch.setattr(mmd, "CHUNK", chunk)
    torch.manual_seed(0)
    x, y = domain.random(13), domain.random(9)
    y[:4] = y[:1]
    expected = pytest.approx(naive(x, y, kernel, unbiased, domain), abs=1e-12)
    value = hamming_mmd(x, y, kernel=kernel, unbiased=unbiased, domain=domain)
    assert value.dtype == torch.float64 and value.shape == ()
    assert value.item() == expected
    if not isinstance(domain, Categorical):
        assert hamming_mmd(x.double(), y.double(), kernel=kernel, unbiased=unbiased).item() == expected


def test_the_linear_kernel_compares_only_marginals():
    """d - H is the inner product of one-hot codes: on {0, 1}^d the squared MMD is twice that of the means."""
    torch.manual_seed(1)
    x, y = (torch.rand(50, 7) < 0.3).float(), (torch.rand(60, 7) < 0.6).float()
    expected = 2 * (x.mean(0) - y.mean(0)).square().sum().item()
    assert hamming_mmd(x, y, kernel="linear").item() == pytest.approx(expected, rel=1e-5)
    pairs, opposites = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert hamming_mmd(pairs, opposites, kernel="linear") == 0
    assert hamming_mmd(pairs, opposites) > 0.1


@pytest.mark.parametrize("kernel", ["exponential", "linear"])
def test_reordered_or_repeated_states_have_distance_zero(kernel):
    torch.manual_seed(2)
    x = Binary(20).random(100)
    assert hamming_mmd(x, x, kernel=kernel) == 0
    assert log_mmd(x, x, kernel=kernel) == -torch.inf
    shuffled = x[torch.randperm(100)].repeat(3, 1)
    assert 0 <= hamming_mmd(x, shuffled, kernel=kernel) < 1e-14
    assert log_mmd(x, shuffled, kernel=kernel) < -32


@pytest.mark.parametrize("kernel", ["exponential", "linear"])
def test_symmetry(kernel):
    torch.manual_seed(3)
    x, y = Ordinal(6, 4).random(30), Ordinal(6, 4).random(40)
    permutation = torch.randperm(6)
    value = hamming_mmd(x, y, kernel=kernel)
    torch.testing.assert_close(hamming_mmd(y, x, kernel=kernel), value)
    torch.testing.assert_close(hamming_mmd(x[:, permutation], y[:, permutation], kernel=kernel), value)
    torch.testing.assert_close(hamming_mmd(3 - x, 3 - y, kernel=kernel), value)


def test_estimates_of_one_law_have_the_stated_means():
    """Over 300 pairs of samples of one law the U-statistic has mean 0, and the V-statistic the stated mean above 0."""
    torch.manual_seed(4)
    d, n, m = 10, 20, 30
    draws = [((torch.rand(n, d) < 0.3).float(), (torch.rand(m, d) < 0.3).float()) for _ in range(300)]
    unbiased = torch.stack([hamming_mmd(x, y, unbiased=True) for x, y in draws])
    biased = torch.stack([hamming_mmd(x, y) for x, y in draws])
    error = unbiased.std() / 300**0.5
    assert unbiased.mean().abs() < 4 * error
    assert (unbiased < 0).double().mean() > 0.3
    differ = 2 * 0.3 * 0.7
    floor = (1 / n + 1 / m) * (1 - (1 - differ + differ * math.exp(-1 / d)) ** d)
    assert (biased.mean() - floor).abs() < 4 * error
    assert (biased > 0).all()


def test_a_permutation_test_tells_two_laws_apart():
    torch.manual_seed(5)

    def rank(p):
        x, y = (torch.rand(60, 10) < 0.5).float(), (torch.rand(60, 10) < p).float()
        value, both = hamming_mmd(x, y), torch.cat([x, y])
        shuffled = [both[torch.randperm(120)] for _ in range(99)]
        return sum(bool(hamming_mmd(s[:60], s[60:]) >= value) for s in shuffled)

    assert rank(0.7) == 0
    assert rank(0.5) > 4


def test_log_is_natural():
    torch.manual_seed(6)
    x, y = Spin(5).random(10), Spin(5).random(20)
    assert log_mmd(x, y).item() == pytest.approx(math.log(hamming_mmd(x, y).item()))
    one_hot = Categorical(5, 3)
    x, y = one_hot.random(10), one_hot.random(20)
    assert log_mmd(x, y, kernel="linear", domain=one_hot).item() == pytest.approx(
        math.log(hamming_mmd(x, y, kernel="linear", domain=one_hot).item())
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, '"exponential" or "linear"'),
        ({"y": torch.zeros(5, 3)}, "same number of coordinates"),
        ({"y": torch.zeros(0, 4)}, "sets of 1 or more"),
        ({"y": torch.zeros(1, 4), "unbiased": True}, "sets of 2 or more"),
        ({"x": torch.full((5, 4), 0.5)}, "integers"),
        ({"x": torch.full((5, 4), torch.nan)}, "integers"),
        ({"domain": Spin(4)}, "-1 or"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        hamming_mmd(**{"x": torch.zeros(5, 4), "y": torch.ones(6, 4), **change})


def test_bits_may_be_booleans():
    x, y = torch.rand(20, 4) < 0.5, torch.rand(30, 4) < 0.3
    assert hamming_mmd(x, y) == hamming_mmd(x.float(), y.float())


@pytest.mark.parametrize("x", [torch.zeros(5), torch.zeros(5, 0), torch.full((5, 2), torch.inf)])
def test_states_have_coordinates_and_finite_values(x):
    with pytest.raises(UserError, match="hamming_mmd compares states"):
        hamming_mmd(x, x)
