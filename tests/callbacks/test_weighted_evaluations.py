"""Weighted data: every evaluation counts a sample of weight k as if it stood k times in the file."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_family import family_texts, write_family, write_structure
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.callbacks import (
    AIS,
    FID,
    CentredGradient,
    Contacts,
    DataMean,
    Density2D,
    EnergyHistograms,
    EquilibriumCheck,
    FamilyReport,
    GraphGrid,
    GraphMMD,
    HammingMMD,
    OutOfDistribution,
    SampleDistances,
    SampleGrid,
    SampleTable,
    TrajectoryLikelihood,
    family_report,
)
from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.data.interface import Data, Graphs
from ebmlab.data.weighted import drawn_states, weighted_states
from ebmlab.datamodules import Alignment, MixedTable
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.energies import RBM, CategoricalRBM, ProductMLP, RealMLP
from ebmlab.evaluation import LabelClassifier
from ebmlab.graphs import adjacency
from ebmlab.learners import ContrastiveDivergence, EnergyDiscrepancy, FromNoise, NoiseContrast, RatioMatching
from ebmlab.product import Product
from ebmlab.samplers import MALA, BlockGibbs

pytestmark = pytest.mark.usefixtures("drafts")
TIMES = torch.tensor([3, 1, 0, 0])  # of each four samples; the mean is 1


class Images(TensorDataModule):
    """Images of 16 bits in two classes."""

    name, max_value, num_classes = "images", 1.0, 2

    def __init__(self) -> None:
        super().__init__((1, 4, 4), batch_size=48, seed=0, binarize=True)

    def load(self, split: str) -> tuple[Tensor, Tensor | None]:
        generator = torch.Generator().manual_seed(len(split))
        kind = torch.arange(48) % 4  # as `TIMES`
        x = torch.rand(48, 1, 4, 4, generator=generator) < (0.2 + 0.2 * kind).view(-1, 1, 1, 1)
        return x.byte(), kind % 2


class Edges(Images):
    """Graphs of five nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.event_shape = self.raw_shape = (10,)

    def load(self, split: str) -> tuple[Tensor, None]:
        return super().load(split)[0].flatten(1)[:, :10], None

    def show(self, x: Tensor) -> Graphs:
        return Graphs(adjacency(x, 5))


class Points(TensorDataModule):
    """Points of the plane, whose mean and deviation are measured."""

    name, mean, std, max_value = "points", (), (), 1.0

    def __init__(self) -> None:
        super().__init__((2,), batch_size=48, seed=0)

    def load(self, split: str) -> tuple[Tensor, None]:
        x = torch.randn(48, 2, generator=torch.Generator().manual_seed(len(split)))
        return 3 * x + torch.arange(48).view(-1, 1) % 4, None


def twins(make: Callable[[], TensorDataModule]) -> tuple[TensorDataModule, TensorDataModule]:
    """Data with the weights `TIMES`, and data that hold each sample so many times."""
    counted, repeated = make(), make()

    def times(split: str) -> Tensor:
        return TIMES.repeat(len(counted.raw(split)) // 4)

    def load(split: str, loaded: Any = repeated.load) -> tuple[Tensor, Tensor | None]:
        x, labels = loaded(split)
        index = torch.arange(len(x)).repeat_interleave(times(split))
        return x[index], None if labels is None else labels[index]

    counted.weighted, counted.weights = True, lambda split: times(split).float()  # type: ignore[method-assign]
    repeated.load = load  # type: ignore[method-assign]
    return counted, repeated


def rbm(num_visible: int = 16) -> ContrastiveDivergence:
    return ContrastiveDivergence(RBM(num_visible, 3), BlockGibbs(), start=FromNoise(), optimizer=still)


def still(parameters: Any) -> torch.optim.Optimizer:
    """Training with it takes steps, but changes nothing."""
    return torch.optim.SGD(parameters, lr=0.0)


def fitted(
    data: pl.LightningDataModule, learner: Callable[[], Any], callback: pl.Callback, folder: Path
) -> tuple[Any, dict[str, float]]:
    """The learner after a training, and what the callback has logged."""
    torch.manual_seed(1)
    trainer = quiet_trainer(folder, max_epochs=1, callbacks=[callback], num_sanity_val_steps=0)
    logged: dict[str, float] = {}
    if isinstance(callback, PeriodicEvaluation):
        callback.log_metrics = lambda *given: logged.update(given[2])  # type: ignore[method-assign]
    trainer.fit(made := learner(), datamodule=data)
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("trajectory/")}
    return made, logged | metrics


def plane() -> ContrastiveDivergence:
    return ContrastiveDivergence(RealMLP(2, 8), MALA(0.1), start=FromNoise(), optimizer=still)


Case = tuple[Callable[[], TensorDataModule], Callable[[], Any], Callable[[], pl.Callback]]
CASES: dict[str, Case] = {
    "AIS": (Images, rbm, lambda: AIS(20, 10, reverse=False)),
    "AIS on real numbers": (Points, plane, lambda: AIS(20, 10, reverse=False)),
    "TrajectoryLikelihood": (Images, rbm, lambda: TrajectoryLikelihood(20, 2, every_n_steps=1)),
    "Density2D": (Points, plane, lambda: Density2D(20, 2, extent=10.0)),
    "EquilibriumCheck": (Images, rbm, lambda: EquilibriumCheck(48, 2, longer=2)),
    "HammingMMD": (Images, rbm, lambda: HammingMMD(50, 2)),
    "SampleDistances": (Images, rbm, lambda: SampleDistances(50, 2)),
    "OutOfDistribution": (Images, rbm, lambda: OutOfDistribution(transforms=["flipped"])),
    "GraphMMD": (Edges, partial(rbm, 10), lambda: GraphMMD(20, 2)),
    "FID": (Images, rbm, lambda: FID(num_samples=20, num_steps=2)),
}
BY_PLACE = "distance/classifier"  # splits states by their places


@pytest.mark.parametrize("name", CASES)
def test_a_weight_of_k_counts_a_sample_k_times(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, learner, callback = CASES[name]
    features = LabelClassifier(1, 2, size=4).requires_grad_(False).eval()
    monkeypatch.setattr("ebmlab.callbacks.fid.load_or_train", lambda *_, **__: (features, "same"))
    counted, repeated = (fitted(data, learner, callback(), tmp_path)[1] for data in twins(make))
    counted.pop(BY_PLACE, None)
    assert counted
    for key, value in counted.items():
        assert value == pytest.approx(repeated[key], rel=1e-4, abs=1e-6), key


def rows(x: Tensor) -> list[list[float]]:
    """The rows of a tensor in an order that does not depend on theirs, rounded."""
    return sorted(x.double().flatten(1).mul(1e4).round().tolist())


def table() -> RatioMatching:
    energy = ProductMLP(Product.of_columns([3, 2, 0, 0]), hidden_dim=4)
    return RatioMatching(energy, EnergyDiscrepancy(2), num_steps=3, optimizer=still)


Shown = tuple[Case, str, Any]  # the function that takes the states, and where they are among its arguments
SHOWN: dict[str, Shown] = {
    "histogram of energies": (
        (Images, rbm, lambda: EnergyHistograms(48, 2, at_start=False)),
        "energy_histograms.draw_histograms",
        lambda energies, *_: torch.cat([energies["train"], energies["held-out"]]).unsqueeze(1),
    ),
    "grid of images": (
        (Images, rbm, lambda: SampleGrid(48, 2, at_start=False)),
        "sample_grid.tile",
        lambda x, **_: x,
    ),
    "graphs": (
        (Edges, partial(rbm, 10), lambda: GraphGrid(48, 2, at_start=False)),
        "graph_grid.draw_graphs",
        lambda graphs, *_: graphs["data"],
    ),
    "table": (
        (lambda: MixedTable(48, 48), table, lambda: SampleTable(48, 2, at_start=False)),
        "sample_table.draw_table",
        lambda tables, *_: tables["data"].values,
    ),
    "points": (
        (Points, plane, lambda: Density2D(48, 2, extent=10.0, at_start=False)),
        "density2d.draw_surfaces_and_points",
        lambda *given: given[3],
    ),
    "starts of chains that go back": (
        (Images, rbm, lambda: AIS(48, 4)),
        "ais.log_z",
        lambda *_, x, **__: x,
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_states_beside_samples_follow_the_weights(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (make, learner, callback), place, states_of = SHOWN[name]
    seen: list[Tensor] = []
    module, _, function = place.partition(".")
    owner = importlib.import_module(f"ebmlab.callbacks.{module}")
    draw = getattr(owner, function)
    monkeypatch.setattr(
        owner, function, lambda *given, **how: seen.append(states_of(*given, **how)) or draw(*given, **how)
    )
    found = []
    for data in twins(make):
        seen.clear()
        fitted(data, learner, callback(), tmp_path)
        found.append(rows(seen[1 if function == "tile" else 0]))  # the first tiles are samples
    assert found[0] == found[1]


def test_a_start_at_the_mean_is_that_of_the_weights(tmp_path: Path) -> None:
    counted, repeated = (fitted(data, rbm, DataMean(), tmp_path)[0].energy for data in twins(Images))
    torch.testing.assert_close(counted.b_v, repeated.b_v)
    assert not torch.allclose(counted.b_v, fitted(Images(), rbm, DataMean(), tmp_path)[0].energy.b_v, atol=0.1)


def test_centred_units_are_those_of_the_weights(tmp_path: Path) -> None:
    callbacks = [CentredGradient() for _ in range(3)]
    for callback, data in zip(callbacks, [*twins(Images), Images()], strict=True):
        fitted(data, rbm, callback, tmp_path)
    counted, repeated, plain = (callback.offsets for callback in callbacks)
    assert counted is not None and repeated is not None and plain is not None
    torch.testing.assert_close(counted, repeated)
    assert not torch.allclose(counted[0], plain[0], atol=0.1)


def test_noise_is_fitted_by_the_weights(tmp_path: Path) -> None:
    def learner() -> NoiseContrast:
        return NoiseContrast(RealMLP(2, 8), optimizer=still)

    laws = [fitted(data, learner, pl.Callback(), tmp_path)[0].noise for data in twins(Points)]
    torch.testing.assert_close(laws[0].mean, laws[1].mean, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(laws[0].root, laws[1].root)


@pytest.mark.parametrize("which", ["contacts", "report"])
def test_sequences_without_weight_are_not_shown(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_family(tmp_path / "family.fasta", sites=14)
    (tmp_path / "w.txt").write_text("2\n0\n" * 30)
    data = Alignment(str(path), weights_file=str(tmp_path / "w.txt"), batch_size=20)
    used = {"training": data.states("train")[data.weights("train") > 0]}
    used["held out"] = data.states("val")[data.weights("val") > 0]
    seen: dict[str, Any] = {}
    callback: pl.Callback
    if which == "contacts":
        monkeypatch.setattr(
            "ebmlab.callbacks.contacts.contact_scores",
            lambda *_, around: seen.update(around=around) or torch.rand(14, 14),
        )
        callback = Contacts(str(write_structure(tmp_path / "wild.pdb", family_texts(sites=14)[0])), num_around=30)
    else:
        draw = family_report.draw_family
        monkeypatch.setattr(
            family_report,
            "draw_family",
            lambda found, energies, *more: seen.update(energies) or draw(found, energies, *more),
        )
        callback = FamilyReport(20, 2)
    learner = ContrastiveDivergence(CategoricalRBM(14, 21, num_hidden=3), BlockGibbs(), optimizer=still)
    quiet_trainer(tmp_path, callbacks=[callback]).test(learner, data, verbose=False)
    if which == "contacts":
        assert {tuple(x) for x in rows(seen["around"])} <= {tuple(x) for x in rows(used["training"])}
        return
    for name, states in used.items():
        counted = learner.energy(states).detach()
        assert (seen[name].unsqueeze(1) - counted).abs().amin(1).max() < 1e-4


def test_draws_are_as_frequent_as_the_weights() -> None:
    counted, repeated = twins(Images)
    assert rows(drawn_states(counted, "val")) == rows(repeated.states("val"))
    few = torch.cat([drawn_states(counted, "val", n=7, seed=seed) for seed in range(2000)])
    assert len(few) == 14_000
    torch.testing.assert_close(few.mean(0), repeated.states("val").mean(0), atol=0.02, rtol=0)
    x, weights = weighted_states(counted, "val", n=7)
    assert weights is None and torch.equal(x, drawn_states(counted, "val", n=7))
    x, weights = weighted_states(counted, "val", n=100)
    assert weights is not None and torch.equal(x, counted.states("val"))


def test_data_that_count_alike_are_those_of_before() -> None:
    data = Images()
    for n in (None, 7, 100):
        assert torch.equal(drawn_states(data, "val", n=n, seed=3), data.states("val", n, 3))
        x, weights = weighted_states(data, "val", n=n, seed=3)
        assert weights is None and torch.equal(x, data.states("val", n, 3))


class Batches(Data, pl.LightningDataModule):
    """Weighted batches whose data do not know all weights at once."""

    weighted = True

    def train_dataloader(self) -> Any:
        batches = [(torch.full((3, 2), float(k)), torch.tensor([k, 0.0, k])) for k in (1, 2)]
        return torch.utils.data.DataLoader(batches, batch_size=None)  # type: ignore[arg-type]


def test_weights_of_batches_are_collected() -> None:
    x, weights = weighted_states(Batches(), "train")
    assert weights is not None and weights.tolist() == [1, 0, 1, 2, 0, 2]
    assert x[:, 0].tolist() == [1, 1, 1, 2, 2, 2]
    assert rows(drawn_states(Batches(), "train")) == [[10_000.0] * 2] * 2 + [[20_000.0] * 2] * 4
