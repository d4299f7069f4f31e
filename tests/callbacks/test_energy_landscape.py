from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import refused
from matplotlib.figure import Figure
from torch.utils.data import DataLoader

from ebmlab.callbacks import EnergyLandscape, energy_landscape
from ebmlab.datamodules import GrayCode2D
from ebmlab.domains import Binary
from ebmlab.energies import MLP, RBM, Energy
from ebmlab.learners import Learner, RatioMatching


def points() -> GrayCode2D:
    return GrayCode2D(num_bits=16, num_samples=200, batch_size=50)


def learner(energy: Energy | None = None) -> Learner:
    torch.manual_seed(0)
    return RatioMatching(energy or MLP(16, hidden_dim=8, num_layers=1), num_steps=3)


def one_line(make: Any, message: str) -> None:
    with refused(message):
        make()


class Hill(Energy):
    """A Gaussian about (1, -2) with standard deviations 0.5 and 1, as an energy of codes."""

    def __init__(self, data: GrayCode2D) -> None:
        super().__init__()
        self.domain = Binary(data.num_bits)
        self.data = data
        self.scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = (self.data.decode(x) - torch.tensor([1.0, -2.0])) / torch.tensor([0.5, 1.0])
        return 0.5 * self.scale * z.square().sum(1) + 7


def shown(monkeypatch) -> list[Figure]:
    figures: list[Figure] = []
    log_image = EnergyLandscape.log_image
    keep = lambda s, *of, **more: (figures.append(of[2]), log_image(s, *of, **more))[1]  # noqa: E731
    monkeypatch.setattr(EnergyLandscape, "log_image", keep)
    return figures


@pytest.mark.parametrize("chunk", [300, 10**6])
def test_model_density_is_the_softmax_over_the_window(monkeypatch, chunk):
    monkeypatch.setattr(energy_landscape, "CHUNK", chunk)
    data = GrayCode2D(num_bits=40)
    callback = EnergyLandscape(resolution=80, extent=4.0)
    with torch.no_grad():
        density = callback.model_density(RatioMatching(Hill(data)), data)
    axis = np.linspace(-3.95, 3.95, 80)
    true = np.exp(-0.5 * ((axis - 1) / 0.5) ** 2)[None] * np.exp(-0.5 * (axis + 2) ** 2)[:, None]  # rows along y
    assert density.numpy() == pytest.approx(true / (true.sum() * 0.1**2), rel=1e-4, abs=1e-12)


def test_data_density_counts_points_in_the_window(monkeypatch):
    monkeypatch.setattr(energy_landscape, "NUM_DATA", 8)
    places = torch.tensor([[0.5, -1.5]] * 2 + [[-1.9, 1.9], [2.1, 0.0], [0.0, -2.1], [-7.0, 0.5], [1.5, 0.5], [1.4, 0]])
    data = type("Data", (), {"sample": lambda self, n, generator: places[:n].double()})()
    density = EnergyLandscape(resolution=4, extent=2.0).data_density(data, torch.Generator())
    assert (8 * density).tolist() == [[0, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 2], [1, 0, 0, 0]]


def test_data_density_integrates_to_one():
    data = GrayCode2D("8gaussians", num_bits=20)
    density = EnergyLandscape(resolution=40).data_density(data, torch.Generator().manual_seed(0))
    assert density.sum().item() * (8.2 / 40) ** 2 == pytest.approx(1, abs=1e-3)
    middle = density[18:22, 18:22]  # none of the eight Gaussians is there
    assert middle.max() < 1e-3 * density.max()


@pytest.mark.slow
def test_landscape_shows_data_model_and_samples(setup, tmp_path, monkeypatch):
    figures, data = shown(monkeypatch), points()
    callback = EnergyLandscape(resolution=30, num_samples=50, num_steps=20, every_n_epochs=2, seed=4)
    model, trainer = setup([callback], max_epochs=2, learner=learner())
    trainer.fit(model, datamodule=data)
    names = [p.name for p in sorted((tmp_path / "run" / "images").iterdir())]
    assert names == ["samples-landscape_step0000000.png", "samples-landscape_step0000008.png"]
    left, middle, right = figures[1].get_axes()[:3]
    assert [axes.get_title() for axes in (left, middle)] == ["data density", "model density"]
    assert right.get_title() == "50 samples after 20 steps"
    with torch.no_grad():
        density = callback.model_density(model, data)
    assert np.asarray(middle.images[0].get_array()) == pytest.approx(density.numpy(), rel=1e-5)
    real, samples = (np.asarray(dots.get_offsets()) for dots in right.collections)
    torch.manual_seed(4)
    drawn = data.decode(model.draw(torch.randint(2, (50, 16)).float(), 20))
    assert (samples == drawn.numpy()).all()
    assert real.shape == (50, 2) and np.abs(real).max() < 4.1
    outside = int((drawn.abs() > 4.1).any(1).sum())
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert outside > 0 and labels == ["data", f"samples ({outside} outside)"]


@pytest.mark.slow
def test_landscape_without_samples_runs_no_chains(setup, monkeypatch):
    figures = shown(monkeypatch)
    monkeypatch.setattr(Learner, "draw", lambda *_: pytest.fail("a chain ran"))
    model, trainer = setup([EnergyLandscape(resolution=20, num_samples=0)], max_epochs=1, learner=learner())
    trainer.fit(model, datamodule=points())
    titles = [axes.get_title() for axes in figures[-1].get_axes()]
    assert [title for title in titles if title] == ["data density", "model density"]


def test_landscape_refuses_other_data_and_bad_sizes(setup, squares):
    model, trainer = setup([EnergyLandscape()], learner=learner(RBM(36, 2)))
    one_line(lambda: trainer.fit(model, datamodule=squares), r"got Squares: use datamodules\.GrayCode2D, or remove")
    one_line(lambda: trainer.validate(model, DataLoader(torch.ones(5, 36))), "got DataLoader: use")
    for setting, value in {"resolution": 1, "num_samples": -1, "extent": 0.0}.items():
        one_line(lambda s=setting, v=value: EnergyLandscape(**{s: v}), rf"EnergyLandscape: .*{setting} (is )?{value}")
