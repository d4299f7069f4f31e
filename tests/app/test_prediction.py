"""The files that `predict` writes, for every kind of data that it can draw."""

from __future__ import annotations

import csv
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ebmlab.app.predict_without_config import stands_alone
from ebmlab.app.prediction import save_samples
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Data
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Digits, EgoSmall, GrayCode2D, IsingSamples
from ebmlab.drawing import graph_panels, plane
from ebmlab.drawing import samples as pictures
from ebmlab.energies import GRBM, MLP, RBM, RGCN, Ising
from ebmlab.errors import UserError
from ebmlab.graphs import adjacency
from ebmlab.learners import ContrastiveDivergence, FromNoise, RatioMatching
from ebmlab.samplers import BlockGibbs, Gibbs, GibbsLangevin


def read(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def predict(learner: Any, data: Any, folder: Path, num_samples: int, **options: Any) -> tuple[torch.Tensor, Path]:
    """The samples, whose shape must be the domain's, and the path of the picture."""
    torch.manual_seed(0)
    pt, png = save_samples(learner, data, folder, num_samples, **options)
    assert (pt, png) == (folder / "samples" / "samples.pt", folder / "samples" / "samples.png")
    assert sorted(p.name for p in pt.parent.iterdir()) == ["samples.png", "samples.pt"]
    samples = torch.load(pt, weights_only=True)
    assert samples.shape == (num_samples, *data.event_shape)
    return samples, png


def squares(png: Path, size: int, count: int) -> np.ndarray:
    """Reads `count` images of size x size pixels off a picture, in rows of ceil(sqrt(count)); grey values in [0, 1]."""
    columns = math.ceil(math.sqrt(count))
    scale = math.ceil(600 / (columns * (size + 1) + 1))
    small = read(png)[scale // 2 :: scale, scale // 2 :: scale, 0] / 255
    places = [divmod(i, columns) for i in range(count)]
    return np.stack([small[r * (size + 1) + 1 :, c * (size + 1) + 1 :][:size, :size] for r, c in places])


def test_images(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(GRBM(64, 4), GibbsLangevin(0.1), start=FromNoise(), num_steps=2)
    samples, png = predict(learner, Digits(), tmp_path, 9)
    assert np.abs(squares(png, 8, 9) - samples[:, 0].numpy()).max() < 0.003


def test_spins_of_a_lattice(tmp_path: Path) -> None:
    data = IsingSamples(side=5, root=str(tmp_path / "data"))
    learner = RatioMatching(Ising.lattice(5, 0.3), num_steps=10)
    samples, png = predict(learner, data, tmp_path, 7, batch_size=3)
    assert samples.abs().eq(1).all() and 0 < samples.mean().abs() < 1
    assert (squares(png, 5, 7) == (samples.view(7, 5, 5).numpy() + 1) / 2).all()
    assert not (tmp_path / "data").exists(), "data were drawn that nobody needs"


def test_codes_of_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    points = plane.draw_points
    monkeypatch.setattr(pictures, "draw_points", lambda x, extent: (decoded.append(x), points(x, extent))[1])
    data = GrayCode2D(num_bits=12)
    samples, png = predict(RatioMatching(MLP(12, hidden_dim=4), num_steps=5), data, tmp_path, 300)
    assert ((samples == 0) | (samples == 1)).all()
    assert torch.equal(decoded[0], data.decode(samples))
    pixels = read(png).astype(int)
    assert (pixels[..., 0] - pixels[..., 2] > 40).sum() > 1000  # red dots


def test_means_of_bits_are_rounded_to_codes(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(12, 3), Gibbs(), start=FromNoise(), num_steps=2)
    samples = torch.load(save_samples(learner, GrayCode2D(num_bits=12), tmp_path, 5, denoise=True)[0])
    assert ((samples > 0) & (samples < 1)).all()


def graphs(folder: Path) -> tuple[RatioMatching, EgoSmall]:
    return RatioMatching(RGCN(6, hidden_dim=4, num_layers=2), num_steps=3), EgoSmall(root=str(folder), max_nodes=6)


def test_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = []
    draw_graphs = graph_panels.draw_graphs
    monkeypatch.setattr(pictures, "draw_graphs", lambda graphs: (sides.append(graphs), draw_graphs(graphs))[1])
    monkeypatch.setattr(pictures, "MAX_GRAPHS", 4)
    learner, data = graphs(tmp_path)
    samples, png = predict(learner, data, tmp_path, 6)
    assert torch.equal(sides[0]["4 samples"], adjacency(samples[:4], 6))
    assert min(read(png).shape[:2]) > 300


def test_no_picture_without_networkx_or_a_way_to_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, data = graphs(tmp_path)
    find_spec = importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr(pictures, "find_spec", lambda name: None if name == "networkx" else find_spec(name))
        assert [p.name for p in save_samples(learner, data, tmp_path, 2)] == ["samples.pt"]

    files = save_samples(learner, Data(), tmp_path, 2, output=str(tmp_path / "plain"))
    assert files == [tmp_path / "plain" / "samples.pt"]


def test_a_diverged_model_and_an_output_that_is_a_file_are_refused(tmp_path: Path) -> None:
    learner = RatioMatching(MLP(12, hidden_dim=4), num_steps=5)
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match="taken, which is a file"):
        save_samples(learner, GrayCode2D(num_bits=12), tmp_path, 3, output=str(tmp_path / "taken"))
    with torch.no_grad():
        learner.energy.W[0, 0] = float("nan")  # type: ignore[index, operator]
    with pytest.raises(UserError, match="energies of 3 of 3 samples are not finite"):
        save_samples(learner, GrayCode2D(num_bits=12), tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_with_own_code_the_config_beside_a_checkpoint_is_not_read(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    (tmp_path / "config.yaml").write_text("data: {}\n")
    assert not stands_alone([f"--ckpt_path={checkpoint}"])
    assert stands_alone([f"--ckpt_path={checkpoint}", "--import=own_code"])
    assert not stands_alone([f"--ckpt_path={checkpoint}", "--import=own_code", "--config=a.yaml"])


def test_a_fixed_number_is_written_as_it_was_given(tmp_path: Path) -> None:
    """Of a point of time, which standardising rounds, and of a number that no float32 is."""
    learner = ContrastiveDivergence(GRBM(3, 2), BlockGibbs(), start=FromNoise(), num_steps=2)
    form = Preprocessing((3,), mean=(1.6e9 + 1 / 3, 0.0, 5.0), std=(7.3, 1.0, 3.0), columns=("time", "a", "b"))
    data = PlainData("times", {}, learner.energy.domain)
    data.preprocessing = form
    _, path = save_samples(learner, data, tmp_path, 5, condition="time=1600000001.0004656,b=0.1")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(float(row["time"]), float(row["b"])) for row in rows] == [(1600000001.0004656, 0.1)] * 5
    assert len({row["a"] for row in rows}) == 5
    numbers = torch.load(tmp_path / "samples" / "samples.pt", weights_only=True)
    assert numbers[:, [0, 2]].tolist() == [[1600000001.0004656, 0.1]] * 5
