"""Random numbers in C++: their laws, tails and independence, layouts, seeds, threads, and mutants of the text."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers_native import compiled, replace, unchecked
from helpers_tier import cases
from scipy import stats
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ebmlab.native import bernoulli, coins, draws, normal, normal_, uniform
from ebmlab.numerics import noise
from ebmlab.testing import chi_square_p

pytestmark = pytest.mark.skipif(draws.kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
PASS, FAIL = 1e-4, 1e-6
COUNT = 2**22 + 5
LAGS = (1, 8, 16, 32, 4096, 3 * 4096 + 16)  # neighbours, lanes, coordinates of one point, blocks
LEVELS = torch.tensor([2.0**-18, 2.0**-14, 2.0**-10, 2.0**-7, *torch.arange(1, 32) / 32]).double()
LOGITS = torch.tensor([-9.0, -3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0, 9.0])
Draw = Callable[[Tensor], Tensor]


def levels_of_normals(out: Tensor) -> Tensor:
    """Uniform, if the numbers are normal; small ones keep their digits."""
    return torch.special.ndtr(out.double())


def law_p(u: Tensor) -> float:
    """That numbers are uniform: of 2^-18 of them at both ends, and of 32 parts in between."""
    ends = torch.cat([LEVELS.sort().values, 1 - LEVELS[:4].flip(0)])
    probabilities = torch.diff(ends, prepend=ends.new_zeros(1), append=ends.new_ones(1))
    counts = torch.bincount(torch.bucketize(u, ends), minlength=len(probabilities))
    return chi_square_p(counts, probabilities)


def pair_p(u: Tensor) -> float:
    """That numbers are independent of those before, in 16 x 16 cells: the least p-value times the number of lags."""
    cell = (16 * u).long().clamp(max=15)
    even = torch.full((256,), 1 / 256, dtype=torch.float64)
    found = []
    for lag in LAGS:
        pairs = cell[: len(cell) // (2 * lag) * 2 * lag].view(-1, 2, lag)
        found.append(chi_square_p(torch.bincount((16 * pairs[:, 0] + pairs[:, 1]).flatten(), minlength=256), even))
    return min(found) * len(found)


def square_p(u: Tensor) -> float:
    """That the distances from the middle are independent: those of the two coordinates of a point, above all."""
    return pair_p((2 * u - 1).abs())


def normal_levels(seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    return levels_of_normals(normal(torch.empty(COUNT)))


def uniform_levels(seed: int = 2) -> Tensor:
    torch.manual_seed(seed)
    return uniform(torch.empty(COUNT)).double() + 2.0**-25


def last_digits(seed: int = 3) -> Tensor:
    """The last eight of 24 digits, as uniform numbers."""
    torch.manual_seed(seed)
    return (uniform(torch.empty(COUNT)).double() * 2**24).remainder(256) / 256 + 2.0**-25


def least_p(levels: Tensor) -> float:
    return 3 * min(law_p(levels), pair_p(levels), square_p(levels))


@pytest.mark.parametrize("levels", [normal_levels, uniform_levels])
def test_numbers_follow_their_law_and_are_independent(levels: Callable[[], Tensor]) -> None:
    assert least_p(levels()) > PASS


def test_the_last_digits_are_as_good() -> None:
    u = last_digits()
    even = torch.full((256,), 1 / 256, dtype=torch.float64)
    assert chi_square_p(torch.bincount((256 * u).long(), minlength=256), even) > PASS
    assert pair_p(u) > PASS


def test_uniform_numbers_are_multiples_below_one() -> None:
    u = uniform(torch.empty(COUNT)).double()
    assert u.min() >= 0 and u.max() < 1 and torch.equal((u * 2**24).round(), u * 2**24)
    assert u.unique().numel() > 0.8 * COUNT


def test_moments_of_normal_numbers() -> None:
    """Up to the sixth, whose standard deviations are known."""
    torch.manual_seed(4)
    z = normal(torch.empty(COUNT)).double()
    for k, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)]:
        assert abs(float(z.pow(k).mean()) - mean) < 4.5 * math.sqrt(variance / COUNT)


def test_rows_of_normal_numbers_are_points_of_a_normal_law() -> None:
    """In 64 dimensions: their lengths, and their coordinates along axes that mix all numbers of a row."""
    torch.manual_seed(10)
    rows = normal(torch.empty(60_000, 64)).double()
    axes = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64)).Q
    assert stats.kstest(rows.square().sum(1).numpy(), stats.chi2(64).cdf).pvalue > PASS
    assert 64 * min(stats.kstest(along.numpy(), "norm").pvalue for along in (rows @ axes).T) > PASS
    covariance = (rows @ axes).T.cov() - torch.eye(64, dtype=torch.float64)
    assert covariance.abs().max() < 5.5 / math.sqrt(len(rows) / 2)


@pytest.mark.parametrize("draw", [bernoulli, lambda logits: coins(logits.sigmoid())], ids=["logits", "p"])
def test_bits_have_their_odds_and_are_independent(draw: Draw) -> None:
    """The joint law of each bit and the next, and the one a block later, is the product."""
    torch.manual_seed(5)
    repeats = 4096 * 64
    bits = draw(LOGITS.expand(repeats, -1)).long()
    p = LOGITS.double().sigmoid()
    for column, one in zip(bits.T, p, strict=True):
        law = torch.stack([1 - one, one])
        for lag in (1, 4096):
            pairs = column.view(-1, 2, lag)
            counts = torch.bincount((2 * pairs[:, 0] + pairs[:, 1]).flatten(), minlength=4)
            assert chi_square_p(counts, torch.outer(law, law).flatten()) > PASS / 20
    assert bits.unique().tolist() == [0, 1]


@pytest.mark.parametrize("certain", [0.0, 1.0])
def test_what_is_certain_happens(certain: float) -> None:
    p = torch.full((2**20,), certain)
    assert (coins(p) == certain).all()
    assert (bernoulli(2e4 * p - 1e4) == certain).all()
    assert (bernoulli((2 * p - 1) * torch.inf) == certain).all()


def test_what_is_no_number_is_as_before() -> None:
    """Never 1, as by torch: energies tell."""
    odd = torch.full((4096,), torch.nan)
    for ours, theirs in ((coins, noise.coins), (bernoulli, noise.bernoulli)):
        assert torch.equal(ours(odd), theirs(odd))


@pytest.mark.parametrize("draw", [normal, uniform, coins, bernoulli])
@pytest.mark.parametrize("shape", [(2048,), (70, 41), (3, 5, 7, 31), (100, 784)])
def test_seeds_repeat_numbers_of_any_shape_and_threads_change_none(draw: Draw, shape: tuple[int, ...]) -> None:
    like, before, found = torch.full(shape, 0.3), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(6)
            found.append((draw(like), draw(like), torch.get_rng_state()))
    finally:
        torch.set_num_threads(before)
    (one, next_one, state), (three, next_three, same_state) = found
    assert one.shape == shape and not torch.equal(one, next_one)
    assert torch.equal(one, three) and torch.equal(next_one, next_three) and torch.equal(state, same_state)


@pytest.mark.parametrize("draw", [normal, uniform, coins, bernoulli])
def test_layouts_stay_and_numbers_come_in_the_order_of_memory(draw: Draw) -> None:
    rows = torch.rand(50, 60)
    torch.manual_seed(7)
    by_rows = draw(rows)
    torch.manual_seed(7)
    by_columns = draw(rows.T)
    assert by_columns.stride() == (1, 60) and torch.equal(by_columns.T, by_rows)
    torch.manual_seed(7)
    assert torch.equal(draw(rows.repeat(2, 1)[:50]), by_rows)


def test_bits_of_slices_are_those_of_their_numbers() -> None:
    certain = torch.arange(100 * 100).view(100, 100).remainder(3).eq(0).float()
    for part in (certain[:, 20:80], certain[::2], certain.T[5:90], certain.view(10, 10, 10, 10).permute(0, 3, 1, 2)):
        assert torch.equal(coins(part), part)
        assert torch.equal(bernoulli(1000 * part - 500), part)


def test_only_what_is_asked_for_is_overwritten() -> None:
    whole = torch.zeros(4, 4096)
    normal_(whole[1], std=3.0)
    assert whole[[0, 2, 3]].count_nonzero() == 0 and 8 < whole[1].square().mean() < 10
    wide = torch.zeros(64, 100)
    normal_(wide[:, 10:60])
    assert wide[:, :10].count_nonzero() == wide[:, 60:].count_nonzero() == 0 and wide[:, 10:60].count_nonzero() == 3200


def test_autograd_notices_that_numbers_were_overwritten() -> None:
    x = torch.ones(4096, requires_grad=True)
    factor = torch.ones(4096)
    product = (x * factor).sum()
    normal_(factor)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_what_torch_refuses_to_overwrite_is_refused() -> None:
    leaf = torch.ones(4096, requires_grad=True)
    with torch.inference_mode():
        frozen = torch.ones(4096)
        assert (normal_(torch.ones(4096)) != 1).all()
    for numbers in (leaf, frozen):
        with pytest.raises(RuntimeError, match=r"leaf Variable|inference"):
            normal_(numbers)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_torch(dtype: torch.dtype) -> None:
    torch_draws(torch.full((5000,), 0.5, dtype=dtype))


def torch_draws(like: Tensor) -> None:
    """Asserts that torch draws numbers like this one."""
    for ours, theirs in ((normal, noise.normal), (uniform, noise.uniform), (coins, noise.coins)):
        torch.manual_seed(8)
        found = ours(like)
        torch.manual_seed(8)
        assert torch.equal(found, theirs(like))


def test_a_mode_sees_what_torch_draws() -> None:
    with FakeTensorMode():
        assert normal(torch.empty(5000)).shape == (5000,)
    drawn = torch.func.vmap(normal, randomness="different")(torch.empty(3, 5000))
    assert drawn.std(1).sub(1).abs().max() < 0.1 and not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("draw", [normal, uniform, coins, bernoulli])
def test_a_program_draws_them_anew_each_time(draw: Draw) -> None:
    torch.compiler.reset()
    program = torch.compile(lambda like: draw(like) + 0, backend="eager", fullgraph=True)
    like = torch.full((COUNT,), 0.25)
    torch.manual_seed(9)
    first, second = program(like), program(like)
    torch.manual_seed(9)
    assert torch.equal(program(like), first) and not torch.equal(first, second)
    if draw is normal or draw is uniform:
        assert least_p(levels_of_normals(first) if draw is normal else first.double() + 2.0**-25) > PASS
    else:
        p = 0.25 if draw is coins else float(torch.tensor(0.25).sigmoid())
        assert abs(float(first.mean()) - p) < 5 * math.sqrt(p * (1 - p) / COUNT) and first.unique().tolist() == [0, 1]


@pytest.mark.parametrize("of_own", [False, True])
@pytest.mark.parametrize("draw", [normal, uniform, coins, bernoulli, noise.coins])
def test_draws_of_a_program_with_gradients_are_independent(draw: Draw, of_own: bool) -> None:
    """The compiler merges operations that are alike, where it looks for the numbers that a gradient needs."""
    torch.compiler.reset()

    def loss(like: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        first, second = draw(like), draw(like)
        return (first * weights).sum() + (second * weights.square()).sum(), (first - second).abs().sum()

    program = torch.compile(loss, backend="aot_eager_decomp_partition", fullgraph=True)
    like, weights = torch.full((2**14,), 0.5, requires_grad=of_own), torch.ones(2**14, requires_grad=True)
    value, difference = program(like, weights)
    value.backward()
    assert difference > 100 and weights.grad.unique().numel() > 1


def test_a_program_draws_bits_in_any_layout() -> None:
    certain = torch.arange(100 * 100).view(100, 100).remainder(3).eq(0).float()
    for part in (certain.T, certain[:, 20:80], certain.view(10, 10, 10, 10).permute(0, 3, 1, 2)):
        torch.compiler.reset()
        program = torch.compile(lambda p: (coins(p), bernoulli(1000 * p - 500)), backend="aot_eager", fullgraph=True)
        for bits in program(part):
            assert torch.equal(bits, part)


def test_logarithms_and_roots_are_right_to_a_millionth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = """
        #include "logarithm.hpp"
        extern "C" void values(const float* x, float* logarithms, float* roots, int64_t count) {
          for (int64_t i = 0; i < count; i += FLOATS) {
            store(logarithms + i, logarithm(load(x + i)));
            store(roots + i, root(load(x + i)));
          }
        }
    """
    x = torch.cat([torch.logspace(-37, 38, 80_000), torch.linspace(0.5, 2, 80_000)])
    logarithms, roots = torch.zeros(2, len(x))
    given = (ctypes.c_void_p(t.data_ptr()) for t in (x, logarithms, roots))
    compiled(text, tmp_path, monkeypatch).values(*given, ctypes.c_int64(len(x)))
    torch.testing.assert_close(logarithms.double(), x.double().log(), rtol=2e-7, atol=1e-7)
    torch.testing.assert_close(roots.double(), x.double().sqrt(), rtol=1e-7, atol=0)


MUTANTS = {
    "no sign": ("radius = (turn & 1) != 0 ? radius : -radius;", "", normal_levels),
    "axes are not chosen": ("((turn & 2) != 0 ? cosine : sine)", "sine", normal_levels),
    "half of the angles": ("(turn >> 2, Floats)", "(turn >> 3, Floats)", normal_levels),
    "one word for both": ("reinterpret_cast<Ints>(random.next());", "reinterpret_cast<Ints>(words);", normal_levels),
    "log": ("root(-2.f * logarithm", "root(-1.98f * logarithm", normal_levels),
    "logarithm": ("p * m + 3.3333331174e-1f", "p * m + 2.3e-1f", normal_levels),
    "level": ("(words >> 1), Floats) + 0.5f;", "(words >> 1), Floats) * 0.5f + 0.5f;", normal_levels),
    "sine": ("- 1.6666654611e-1f", "- 1.5e-1f", normal_levels),
    "cosine": ("1.f - 0.5f * square", "1.f - 0.51f * square", normal_levels),
    "blocks alike": ("RandomWords random(seed, block);", "RandomWords random(seed, 0);", uniform_levels),
    "lanes alike": ("split_mix(counter += GOLDEN)", "split_mix(counter)", uniform_levels),
    "digits": (">> 8;", ">> 9;", uniform_levels),
    "no feedback": ("state[0] ^= state[3];", "", uniform_levels),
}


@cases(("old", "new", "levels"), MUTANTS, fast=["no sign", "blocks alike"])
def test_a_wrong_kernel_is_noticed(
    old: str, new: str, levels: Callable[[], Tensor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = draws.kernels()
    replace(old, new, tmp_path, monkeypatch)
    library = unchecked("draws", right)
    monkeypatch.setattr(draws, "kernels", lambda: library)
    assert least_p(levels()) < FAIL


@pytest.mark.parametrize(
    ("old", "new"), [("uniform(random) < p", "uniform(random) > p"), ("Normal{std, {}}", "Normal{1, {}}")]
)
def test_a_kernel_whose_draws_come_out_wrong_is_not_used(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check = draws.kernels.__wrapped__
    assert check() is not None
    replace(old, new, tmp_path, monkeypatch)
    assert check() is None


def test_without_a_compiler_torch_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "kernels", lambda: None)
    torch_draws(torch.full((5000,), 0.5))


@pytest.mark.parametrize("draw", [normal, coins])
def test_operators_give_rows_whatever_the_layout(draw: Draw) -> None:
    """The compiler may hand over numbers in another layout than the one for which it has written a program."""
    torch.compiler.reset()
    layouts = []
    program = torch.compile(lambda like: layouts.append(draw(like).stride()), backend="eager", fullgraph=False)
    for like in (torch.full((60, 50), 0.5), torch.full((50, 60), 0.5).T):
        program(like)
    assert layouts == [(50, 1), (50, 1)]
