"""The samples against laws that can be enumerated, the colouring, and the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.stats
import torch
from torch import Tensor

from ebmlab.datamodules import IsingSamples
from ebmlab.datamodules.ising_samples import colours, neighbours
from ebmlab.domains import Spin
from ebmlab.errors import UserError


def make(root: Path, **options: object) -> IsingSamples:
    small = {"side": 5, "coupling": 0.2, "num_samples": 40, "num_sweeps": 3, "batch_size": 4}
    return IsingSamples(root=str(root), **{**small, **options})  # type: ignore[arg-type]


def spins(module: IsingSamples) -> Tensor:
    return torch.cat([module.to_states(module.raw(split)) for split in ("train", "val", "test")]).double()


@pytest.mark.parametrize(("side", "coupling"), [(3, 0.25), (3, -0.4), (4, 0.3)])
def test_samples_follow_the_enumerated_law(side: int, coupling: float, tmp_path: Path) -> None:
    module = make(tmp_path, side=side, coupling=coupling, num_samples=20_000, num_sweeps=60)
    J = module.coupling_matrix().double()
    states = Spin(side * side).enumerate().double()
    energy = -0.5 * (states @ J * states).sum(1)
    p = (-energy).softmax(0)
    x = spins(module)
    n = len(x)
    Spin(side * side).validate(x)

    levels, level = (energy / coupling).round().unique(return_inverse=True)
    expected = n * torch.zeros(len(levels), dtype=torch.float64).index_add_(0, level, p)
    seen = torch.bucketize((-0.5 * (x @ J * x).sum(1) / coupling).round(), levels)
    observed = seen.bincount(minlength=len(levels)).double()
    rare = expected < 8
    observed, expected = (torch.cat([c[~rare], c[rare].sum(0, keepdim=True)]) for c in (observed, expected))
    observed, expected = observed[expected > 0], expected[expected > 0]
    chi = float(((observed - expected).square() / expected).sum())
    assert scipy.stats.chi2.sf(chi, len(expected) - 1) > 1e-4

    assert (x.mean(0) * n**0.5).abs().max() < 4.5  # no field: each site is up half of the time
    exact = (states * p.unsqueeze(1)).T @ states
    error = (x.T @ x / n - exact) * (n / (1 - exact.square()).clamp_min(1e-12)).sqrt()
    assert error.triu(1).abs().max() < 4.5  # at most 120 pairs


def test_without_coupling_the_spins_are_fair_coins(tmp_path: Path) -> None:
    x = spins(make(tmp_path, coupling=0.0, num_samples=4000, num_sweeps=1))
    correlation = x.T @ x / len(x) - torch.eye(25)
    assert (correlation * len(x) ** 0.5).abs().max() < 4.5


@pytest.mark.parametrize("side", [5, 6])
def test_a_cold_lattice_is_magnetised_up_and_down(side: int, tmp_path: Path) -> None:
    m = spins(make(tmp_path, side=side, coupling=0.7, num_samples=500, num_sweeps=300)).mean(1)
    assert m.abs().mean() > 0.95
    assert abs(float(m.sign().mean())) < 4 / 600**0.5


@pytest.mark.parametrize("side", [3, 4, 5, 6, 7, 25, 26])
def test_a_colour_holds_no_two_neighbours(side: int) -> None:
    classes = colours(side)
    assert len(classes) == 2 + side % 2
    assert torch.equal(torch.cat(classes).sort().values, torch.arange(side * side))
    colour = torch.empty(side * side, dtype=torch.long)
    for number, sites in enumerate(classes):
        colour[sites] = number
    assert (colour[neighbours(side)] != colour.unsqueeze(1)).all()


@pytest.mark.parametrize("side", [3, 4, 25])
def test_coupling_matrix_joins_the_neighbours_of_the_chains(side: int, tmp_path: Path) -> None:
    expected = torch.zeros(side**2, side**2)
    expected[torch.arange(side**2).unsqueeze(1), neighbours(side)] = -0.3
    assert torch.equal(make(tmp_path, side=side, coupling=-0.3).coupling_matrix(), expected)


def test_a_cache_holds_the_samples_that_would_be_drawn(tmp_path: Path) -> None:
    one = make(tmp_path / "a")
    one.prepare_data()
    assert [path.name for path in one.cache.parent.iterdir()] == [one.cache.name]
    time = one.cache.stat().st_mtime_ns
    again = make(tmp_path / "a")
    again.prepare_data()
    assert again._samples is None and again.cache.stat().st_mtime_ns == time
    fresh = make(tmp_path / "b")
    assert torch.equal(spins(one), spins(again)) and torch.equal(spins(one), spins(fresh))
    assert [len(one.raw(split)) for split in ("train", "val", "test")] == [40, 4, 4]


def test_every_setting_of_the_samples_has_a_cache_of_its_own(tmp_path: Path) -> None:
    settings: list[dict[str, object]] = [
        *({}, {"side": 6}, {"coupling": 0.25}, {"num_samples": 50}, {"num_sweeps": 4}, {"seed": 1}),
    ]
    assert len({make(tmp_path, **options).cache for options in settings}) == len(settings)
    assert make(tmp_path, batch_size=8).cache == make(tmp_path).cache
    assert not torch.equal(spins(make(tmp_path)), spins(make(tmp_path, seed=1)))


@pytest.mark.parametrize("content", ["junk", "cut", "other shape", "zeros", "dict"])
def test_a_damaged_cache_is_named(content: str, tmp_path: Path) -> None:
    module = make(tmp_path)
    module.prepare_data()
    path = module.cache
    if content == "junk":
        path.write_bytes(b"not a tensor")
    elif content == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        other = {
            "other shape": torch.ones(3, 25, dtype=torch.int8),
            "zeros": torch.zeros(48, 25, dtype=torch.int8),
            "dict": {},
        }
        torch.save(other[content], path)
    with pytest.raises(UserError, match=r"IsingSamples: .* is damaged; delete it to make it again") as error:
        make(tmp_path).setup("fit")
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_without_a_folder_to_write_in_the_samples_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    module = make(tmp_path / "file")
    module.prepare_data()
    assert torch.equal(spins(module), spins(make(tmp_path)))


def test_bad_options_are_named(tmp_path: Path) -> None:
    for option, value, least in (("side", 2, 3), ("num_samples", 9, 10), ("num_sweeps", 0, 1)):
        with pytest.raises(UserError, match=f"IsingSamples: {option} is {value}, but must be at least {least}"):
            make(tmp_path, **{option: value})
    with pytest.raises(UserError, match="coupling is nan; it must be finite"):
        make(tmp_path, coupling=float("nan"))
