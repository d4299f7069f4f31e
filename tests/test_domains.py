"""Domains: complete enumeration, index round trips, and errors that say what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.domains import Binary, Categorical, Domain, Finite, Ordinal, Real, Spin
from ebmlab.errors import UserError

FINITE = [
    (Binary(5), 2**5),
    (Binary((2, 3)), 2**6),
    (Spin(5), 2**5),
    (Spin((2, 2)), 2**4),
    (Ordinal(3, 4), 4**3),
    (Ordinal((2, 1), 5), 5**2),
    (Categorical(3, 4), 4**3),
    (Categorical((2, 2), 3), 3**4),
]
WRONG_VALUES = [  # domain, a state with one wrong coordinate, and words of the error message
    (Binary(2), [0.0, 2.0], "0 or 1"),
    (Binary(2), [0.0, 0.5], "0 or 1"),
    (Binary(2), [-1.0, 1.0], "0 or 1"),
    (Spin(2), [0.0, 1.0], "-1 or +1"),
    (Spin(2), [-1.0, 3.0], "-1 or +1"),
    (Ordinal(2, 4), [0.0, 4.0], "integers 0 to 3"),
    (Ordinal(2, 4), [-1.0, 0.0], "integers 0 to 3"),
    (Ordinal(2, 4), [1.5, 0.0], "integers 0 to 3"),
    (Categorical(1, 3), [[0.0, 0.0, 0.0]], "one-hot vectors of length 3"),
    (Categorical(1, 3), [[1.0, 1.0, 0.0]], "one-hot vectors of length 3"),
    (Categorical(1, 3), [[2.0, -1.0, 0.0]], "one-hot vectors of length 3"),
]
ALL = [d for d, _ in FINITE] + [Real(3), Real((1, 2, 2))]


def complaint(domain: Domain, x: torch.Tensor) -> str:
    with pytest.raises(UserError) as error:
        domain.validate(x)
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("domain", "size"), FINITE, ids=str)
def test_enumeration_is_complete_unique_and_valid(domain: Finite, size: int) -> None:
    states = domain.enumerate()
    assert states.shape == (size, *domain.event_shape)
    assert len(states.unique(dim=0)) == size
    domain.validate(states)


@pytest.mark.parametrize(("domain", "size"), FINITE, ids=str)
def test_index_and_state_are_inverse(domain: Finite, size: int) -> None:
    states = domain.enumerate()
    index = domain.to_index(states)
    assert index.dtype == torch.long and index.shape == (size, *domain.shape)
    assert index.min() == 0 and index.max() == domain.num_values - 1
    assert torch.equal(domain.from_index(index), states)
    assert torch.equal(domain.to_index(domain.from_index(index)), index)


def test_index_order_of_spin_ordinal_and_categorical() -> None:
    assert Spin(1).to_index(torch.tensor([[-1.0], [1.0]])).tolist() == [[0], [1]]
    assert Ordinal(1, 3).from_index(torch.tensor([[0], [1], [2]])).tolist() == [[0.0], [1.0], [2.0]]
    assert Categorical(1, 3).from_index(torch.tensor([[1]])).tolist() == [[[0.0, 1.0, 0.0]]]


@pytest.mark.parametrize(("domain", "size"), FINITE, ids=str)
def test_random_states_are_valid_and_uniform(domain: Finite, size: int) -> None:
    torch.manual_seed(0)
    n = 40_000
    x = domain.random(n)
    domain.validate(x)
    share = torch.nn.functional.one_hot(domain.to_index(x), domain.num_values).double().mean(0)
    p = 1 / domain.num_values
    z = (share - p) * (n / (p * (1 - p))) ** 0.5
    assert z.abs().max() < 5  # a right sampler exceeds it once in 10^6 cells


def test_real_reference_law_is_standard_normal() -> None:
    torch.manual_seed(0)
    n = 200_000
    x = Real((2, 2)).random(n).double().flatten(1)
    assert (x.mean(0).abs() * n**0.5).max() < 5
    assert ((x.var(0) - 1).abs() * (n / 2) ** 0.5).max() < 5
    covariance = x.T.cov()
    assert ((covariance - torch.diag(covariance.diag())).abs() * n**0.5).max() < 5


@pytest.mark.parametrize(("domain", "row", "right"), WRONG_VALUES, ids=str)
def test_validate_rejects_values_outside(domain: Domain, row: list[float], right: str) -> None:
    good = domain.random(3)
    bad = good.clone()
    bad[1] = torch.tensor(row)
    domain.validate(good)
    message = complaint(domain, bad)
    assert right in message and "number 1" in message and str(domain) in message


@pytest.mark.parametrize("domain", ALL, ids=str)
def test_validate_rejects_shapes_and_nan(domain: Domain) -> None:
    x = domain.random(4)
    expected = ", ".join(["B", *map(str, domain.event_shape)])
    for wrong in (x[0] if x.dim() > 2 else x.flatten(), x.unsqueeze(1), x[..., :-1], x.new_zeros(())):
        assert f"({expected})" in complaint(domain, wrong)
    for value in (float("nan"), float("inf"), -float("inf")):
        broken = x.clone()
        broken[2:].flatten(1)[:, 0] = value
        message = complaint(domain, broken)
        assert "2 of 4" in message and "number 2" in message and "finite" in message


@pytest.mark.parametrize("domain", ALL, ids=str)
def test_states_of_any_numeric_type_are_held_against_the_values(domain: Domain) -> None:
    x = domain.random(4) if isinstance(domain, Finite) else domain.random(4).round()
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        domain.validate(x.to(dtype))
    if not isinstance(domain, Real):
        assert str(domain) in complaint(domain, x.long() + 7)
    if not isinstance(domain, Spin | Real):
        domain.validate(x.to(torch.uint8))
        domain.validate((x > 0).to(torch.float8_e4m3fn) if not isinstance(domain, Categorical) else x.bool())
    assert "complex" in complaint(domain, x.to(torch.complex64))


def test_booleans_are_bits_but_no_spins() -> None:
    Binary(2).validate(torch.tensor([[True, False]]))
    assert "-1 or +1" in complaint(Spin(2), torch.tensor([[True, False]]))


def test_enumerate_refuses_infinite_and_huge_spaces() -> None:
    with pytest.raises(UserError, match=r"Real\(2\) cannot be enumerated"):
        Real(2).enumerate()
    with pytest.raises(UserError, match=r"10\^30 states"):
        Ordinal(30, 10).enumerate()


@pytest.mark.parametrize("shape", [(), 0, -2, (2, 0), 2.0, "3", None])
@pytest.mark.parametrize("kind", [Binary, Spin, Real, lambda shape: Ordinal(shape, 3), lambda shape: Ordinal(2, shape)])
def test_sizes_are_whole_numbers_of_at_least_1(kind: Callable[[Any], Domain], shape: Any) -> None:
    with pytest.raises(UserError, match=r"is .*, but must be a whole number from 1 on, or several for a shape"):
        kind(shape)


def test_sizes_may_come_from_numpy_and_torch() -> None:
    sizes = [np.int64(3), np.array([3]), torch.Size([3]), torch.tensor([3]), [3]]
    assert all(Binary(size).shape == (3,) for size in sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [[[0.0, 1.0]], np.zeros((1, 2))])
def test_states_are_tensors(x: Any) -> None:
    with pytest.raises(UserError, match=r"states of Binary\(2\) are tensors, got a (list|ndarray)"):
        Binary(2).validate(x)
