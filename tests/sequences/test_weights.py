"""Weights by identity against loops that share no code."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.native import identities
from ebmlab.sequences import effective_number, sequence_weights
from ebmlab.sequences.weights import compare


@pytest.fixture(autouse=True, params=["kernel", "NumPy"])
def compared_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy":
        monkeypatch.setattr(identities, "kernel", lambda: None)
    elif identities.kernel() is None:
        pytest.skip("needs a C++ compiler, Linux, and AVX2 or AVX-512")


def by_loops(values: list[list[int]], numerator: int, denominator: int) -> tuple[list[int], list[int]]:
    """How many are alike to each, and the smallest number in the group of each."""
    n, sites = len(values), len(values[0])
    same = [[sum(a == b for a, b in zip(x, y, strict=True)) for y in values] for x in values]
    alike = [[m for m in range(n) if denominator * k[m] > numerator * sites or k[m] == sites] for k in same]
    group = list(range(n))
    for _ in range(n):
        group = [min(group[m] for m in alike[i]) for i in range(n)]
    return [len(found) for found in alike], group


def family(n: int, sites: int, seed: int = 0) -> Tensor:
    """Sequences at all distances from each other."""
    generator = torch.Generator().manual_seed(seed)
    parents = torch.randint(21, (n // 5, sites), generator=generator)[torch.arange(n) % (n // 5)]
    rates = 0.4 * torch.rand(n, 1, generator=generator)
    changed = torch.rand(n, sites, generator=generator) < rates
    return torch.where(changed, torch.randint(21, (n, sites), generator=generator), parents)


@pytest.mark.parametrize("sites", [10, 33, 300])
@pytest.mark.parametrize("identity", ["0.8", "0.62", "1", "0"])
def test_weights_and_groups_are_those_of_loops(sites: int, identity: str) -> None:
    values = family(70, sites)
    counts, group = by_loops(values.tolist(), int(100 * float(identity)), 100)
    found = compare(values, float(identity))
    assert found.counts.tolist() == counts
    torch.testing.assert_close(sequence_weights(values, float(identity)), 1 / torch.tensor(counts).double())
    pairs = {(mine, its) for mine, its in zip(found.groups.tolist(), group, strict=True)}
    assert len(pairs) == len(set(group)) == int(found.groups.max()) + 1


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    values = family(150, 20)
    whole = compare(values, 0.8)
    monkeypatch.setattr("ebmlab.sequences.weights.ROWS", 7)
    monkeypatch.setattr("ebmlab.sequences.weights.COLUMNS", 31)
    monkeypatch.setattr("ebmlab.native.identities.BURST", 1)
    parts = compare(values, 0.8)
    assert torch.equal(whole.counts, parts.counts) and torch.equal(whole.groups, parts.groups)
    assert int(whole.counts.max()) > 2 and int(whole.groups.max()) < 140


def test_sequences_at_the_threshold_are_not_alike() -> None:
    """Five sequences of five sites, four of which agree at four sites: Meff is 5, and 2 where the threshold counts.

    The shares are exact: in floating point 0.7 * 10 and 7 / 10 may lie on different sides of each other.
    """
    values = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 2], [1, 1, 1, 1, 3], [1, 1, 1, 1, 4], [9, 8, 7, 6, 5]])
    assert effective_number(sequence_weights(values, 0.8)) == 5.0
    assert effective_number(sequence_weights(values, 0.79)) == 2.0
    for tenths in range(1, 10):
        agree = torch.tensor([[0] * 10, [0] * tenths + [1] * (10 - tenths)])
        assert effective_number(sequence_weights(agree, tenths / 10)) == 2.0
        assert effective_number(sequence_weights(agree, tenths / 10 - 0.001)) == 1.0


def test_gaps_agree_and_no_threshold_gives_ones() -> None:
    values = torch.tensor([[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 2]])
    assert sequence_weights(values).tolist() == [0.5, 0.5]
    assert sequence_weights(values, None).tolist() == [1.0, 1.0]
    with pytest.raises(UserError, match="identity is 80, but must be from 0 to 1"):
        sequence_weights(values, 80)


@pytest.mark.parametrize("sites", [10, 300])
def test_sites_of_two_gaps_may_be_left_out(sites: int) -> None:
    values = family(60, sites)
    generator = torch.Generator().manual_seed(1)
    values[torch.rand(values.shape, generator=generator) < 0.3] = 0
    values[:30, : sites // 3] = 0
    values[:2] = 0  # gaps alone, which are alike
    expected = []
    for x in values.tolist():
        found = 0
        for y in values.tolist():
            counting = [(a, b) for a, b in zip(x, y, strict=True) if a or b]
            same = sum(a == b for a, b in counting)
            found += 10 * same > 6 * len(counting) or same == len(counting)
        expected.append(found)
    assert compare(values, 0.6, gap=0).counts.tolist() == expected
    assert expected != compare(values, 0.6).counts.tolist() and 2 in expected
