from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from helpers_errors import refused
from PIL import Image
from torch.utils.data import DataLoader

from ebmlab.callbacks import GraphGrid, GraphMMD
from ebmlab.callbacks import graph_grid as grid
from ebmlab.data.interface import Graphs
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.energies import RBM, RGCN
from ebmlab.errors import UserError
from ebmlab.evaluation import graph_mmds
from ebmlab.graphs import adjacency
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import Gibbs

pytestmark = pytest.mark.usefixtures("drafts")

KEYS = ("degree", "clustering", "orbit", "average")


class Stars(TensorDataModule):
    """Stars of 3 to 5 nodes in 5 slots; all stars of a split have one size."""

    name = "stars"
    max_value = 1.0

    def __init__(self) -> None:
        super().__init__((10,), batch_size=8, seed=0, binarize=True)

    def load(self, split: str) -> tuple[torch.Tensor, None]:
        leaves = {"train": 4, "val": 3, "test": 2}[split]
        x = torch.zeros(24, 10, dtype=torch.uint8)
        x[:, :leaves] = 1  # edges of node 0
        return x, None

    def show(self, x: torch.Tensor) -> Graphs:
        return Graphs(adjacency(x, 5))


@pytest.fixture
def stars() -> Stars:
    return Stars()


def learner() -> ContrastiveDivergence:
    torch.manual_seed(0)
    return ContrastiveDivergence(RGCN(5, hidden_dim=4, num_layers=2), Gibbs(), start=FromNoise(), num_steps=3)


def expected(model: ContrastiveDivergence, sizes: tuple[int, ...], num_steps: int, seed: int, real: torch.Tensor):
    torch.manual_seed(seed)
    samples = torch.cat([model.draw(model.energy.random(n), num_steps) for n in sizes])
    return graph_mmds(samples, real, num_nodes=5)


def test_mmd_is_that_of_the_samples_from_the_validation_split(setup, stars):
    callback = GraphMMD(num_samples=50, batch_size=20, num_steps=2, every_n_epochs=1, seed=7)
    model, trainer = setup([callback], max_epochs=1, learner=learner())
    trainer.fit(model, datamodule=stars)
    values = expected(model, (20, 20, 10), 2, 7, stars.raw("val"))
    assert {k: trainer.callback_metrics[f"mmd/{k}"].item() for k in KEYS} == pytest.approx(
        {k: v.item() for k, v in values.items()}, rel=1e-5
    )
    assert values["degree"] > 0.01


@pytest.mark.parametrize(("stage", "split"), [("validate", "val"), ("test", "test")])
def test_mmd_of_each_stages_split(setup, stars, stage, split):
    model, trainer = setup([GraphMMD(num_samples=30, seed=3)], learner=learner(), limit_val_batches=1)
    (results,) = getattr(trainer, stage)(model, stars, verbose=False)
    values = expected(model, (30,), 3, 3, stars.raw(split))
    assert {k: results[f"mmd/{k}"] for k in KEYS} == pytest.approx({k: v.item() for k, v in values.items()}, rel=1e-5)


@pytest.mark.slow
def test_evaluation_leaves_training_alone(setup, stars):
    ends = []
    for callbacks in ([], [GraphMMD(num_samples=10, every_n_epochs=1), GraphGrid(num_samples=2)]):
        model, trainer = setup(callbacks, learner=learner())
        torch.manual_seed(1)
        trainer.fit(model, datamodule=stars)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


def test_grid_shows_samples_beside_training_graphs(setup, stars, tmp_path, monkeypatch):
    shown = []
    draw_graphs = grid.draw_graphs
    monkeypatch.setattr(grid, "draw_graphs", lambda sides: (shown.append(sides), draw_graphs(sides))[1])
    model, trainer = setup([GraphGrid(num_samples=16, num_steps=2)], max_epochs=1, learner=learner())
    trainer.fit(model, datamodule=stars)
    files = sorted(p.name for p in (tmp_path / "run" / "images").iterdir())
    assert files == ["samples-graphs_step0000000.png", "samples-graphs_step0000003.png"]
    assert len(shown) == 2 and list(shown[1]) == ["samples after 2 steps", "data"]
    assert shown[1]["data"].shape == (16, 5, 5) and (shown[1]["data"].sum((1, 2)) == 8).all()
    torch.manual_seed(0)
    samples = model.draw(model.energy.random(16), 2)
    assert torch.equal(shown[1]["samples after 2 steps"], adjacency(samples, 5))
    with Image.open(tmp_path / "run" / "images" / files[1]) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[1] > pixels.shape[0] > 500 and pixels.std() > 5


@pytest.mark.parametrize("callback", [GraphGrid(), GraphMMD()], ids=lambda c: type(c).__name__)
def test_other_data_are_refused(setup, squares, callback):
    model, trainer = setup([callback], learner=ContrastiveDivergence(RBM(36, 2), Gibbs(), start=FromNoise()))
    squares.binarize, squares.domains = True, (type(model.energy.domain),)
    message = rf"{type(callback).__name__} needs graphs, but Squares has events of shape .*: use datamodules\.EgoSmall"
    with refused(message):
        trainer.fit(model, datamodule=squares)
    with pytest.raises(UserError, match="but DataLoader"):
        trainer.validate(model, DataLoader(torch.ones(5, 36)))


def test_missing_networkx_is_named(setup, stars, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    model, trainer = setup([GraphGrid()], learner=learner())
    with pytest.raises(UserError, match=r"pip install 'ebmlab\[graphs\]'"):
        trainer.fit(model, datamodule=stars)


@pytest.mark.slow
def test_both_are_small_under_fast_dev_run(setup, stars, tmp_path):
    huge = {"num_samples": 10**6, "num_steps": 10**6}
    model, trainer = setup([GraphGrid(**huge), GraphMMD(**huge)], fast_dev_run=1, learner=learner())
    trainer.fit(model, datamodule=stars)
    assert (tmp_path / "run" / "images" / "samples-graphs_step0000001.png").exists()


@pytest.mark.parametrize("make", [lambda: GraphGrid(num_samples=0), lambda: GraphMMD(batch_size=0)])
def test_bad_sizes(make):
    with pytest.raises(UserError, match="at least 1"):
        make()
