"""Statistics of families against loops, and what samples have of their own."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.evaluation import compare_families
from ebmlab.evaluation.families import correlation
from ebmlab.sequences.weights import nearest_distances


def sequences(n: int, seed: int) -> torch.Tensor:
    """Values `(n, 4)` of 3, in which the sites 0, 1 and 3 depend on each other."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(3, (n, 4), generator=generator)
    x[:, 1] = torch.where(torch.rand(n, generator=generator) < 0.6, x[:, 0], x[:, 1])
    x[:, 3] = torch.where(torch.rand(n, generator=generator) < 0.6, (x[:, 0] + x[:, 1]) % 3, x[:, 3])
    return x


def one_hot(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(x, 3).float()


def test_statistics_are_those_of_loops() -> None:
    data, drawn = sequences(30, 0), sequences(20, 1)
    weights = 0.5 + torch.rand(30, generator=torch.Generator().manual_seed(2)).double()
    found = compare_families(one_hot(data), weights, samples=one_hot(drawn), num_triples=50)

    def share(column: int, *events: tuple[int, int]) -> float:
        x, w = ((data, weights), (drawn, torch.ones(20)))[column]
        hits = [all(int(row[i]) == a for i, a in events) for row in x]
        return sum(float(v) for v, hit in zip(w, hits, strict=True) if hit) / float(w.sum())

    sites, values = range(4), range(3)
    for column in range(2):
        expected = [share(column, (i, a)) for i in sites for a in values]
        assert found.sites[:, column].tolist() == pytest.approx(expected, abs=1e-6)
        expected = [
            share(column, (i, a), (j, b)) - share(column, (i, a)) * share(column, (j, b))
            for i, j in itertools.combinations(sites, 2)
            for a, b in itertools.product(values, repeat=2)
        ]
        assert found.pairs[:, column].tolist() == pytest.approx(expected, abs=1e-6)
    third = {}  # of each triple of events: E[(x - Ex)(y - Ey)(z - Ez)] in data and samples
    for trio in itertools.combinations(sites, 3):
        for chosen in itertools.product(values, repeat=3):
            events = list(zip(trio, chosen, strict=True))
            both = []
            for x, w in ((data, weights), (drawn, torch.ones(20))):
                w = w.double() / w.sum()
                centred = [(x[:, i] == a).double() - share(len(both), (i, a)) for i, a in events]
                both.append(float((w * math.prod(centred[1:], start=centred[0])).sum()))
            third[tuple(round(value, 5) for value in both)] = events
    assert len(found.triples) == 50
    for a, b in found.triples.double().tolist():
        assert min(abs(a - p) + abs(b - q) for p, q in third) < 1e-4


def test_components_are_those_of_the_covariance() -> None:
    data, drawn = one_hot(sequences(200, 0)), one_hot(sequences(50, 1))
    found = compare_families(data, torch.ones(200), samples=drawn)
    x = data.flatten(1).double()
    values, vectors = torch.linalg.eigh(torch.cov(x.T, correction=0))
    expected = (drawn.flatten(1).double() - x.mean(0)) @ vectors[:, [-1, -2]]
    for k in range(2):
        sign = torch.sign(expected[:, k] @ found.pca_samples[:, k].double())
        torch.testing.assert_close(found.pca_samples[:, k].double() * sign, expected[:, k], rtol=0, atol=1e-4)
    assert float(found.pca_data[:, 0].var(correction=0)) == pytest.approx(float(values[-1]), rel=1e-3)


def test_what_samples_have_of_their_own() -> None:
    data = torch.tensor([[0, 1, 2, 0], [1, 1, 1, 1]])
    drawn = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1], [2, 2, 2, 2], [2, 2, 2, 2]])
    assert nearest_distances(drawn, data).tolist() == [0, 1, 3, 3]
    found = compare_families(one_hot(data), torch.ones(2), samples=one_hot(drawn))
    assert found.nearest.tolist() == [0, 0.25, 0.75, 0.75] and found.novel == 0.75 and found.unique == 0.75
    with pytest.raises(UserError, match="sequences"):
        compare_families(one_hot(data), torch.ones(2), samples=one_hot(drawn)[:, :3])


def test_a_constant_has_no_correlation() -> None:
    assert math.isnan(correlation(torch.tensor([[1.0, 2.0], [1.0, 3.0]])))
