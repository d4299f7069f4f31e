from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from matplotlib.figure import Figure
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger

from ebmlab.callbacks import Density2D, ParameterImages, SampleGrid, log_image
from ebmlab.callbacks.density2d import energy_above_minimum
from ebmlab.datamodules import GaussianMixture
from ebmlab.drawing.captions import texts_in
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.energies import GRBM, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import plane_integral
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import ULA


def read(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")) / 255


def contains(picture: np.ndarray, patch: torch.Tensor, top: int = 34) -> bool:
    """Whether the picture shows `(H, W)` right under the titles, each pixel as a square of whole pixels."""
    grey, wanted = picture[..., 0], patch.numpy()
    for factor in range(1, 60):
        height, width = (factor * n for n in wanted.shape)
        for left in range(grey.shape[1] - width + 1):
            window = grey[top : top + height, left : left + width]
            if window.shape[0] != height or abs(window[-1, -1] - wanted[-1, -1]) > 0.006:
                continue
            coarse = window[factor // 2 :: factor, factor // 2 :: factor]
            if np.abs(coarse - wanted).max() > 0.006:
                continue
            if np.abs(window - wanted.repeat(factor, 0).repeat(factor, 1)).max() < 0.006:
                return True
    return False


def test_log_image_writes_an_enlarged_png_without_any_logger(setup, tmp_path):
    _, trainer = setup([])
    image = torch.rand(3, 5, 4)
    path = log_image(trainer, "a/b", image)
    assert path == tmp_path / "run" / "images" / "a-b_step0000000.png"
    picture = read(path)
    assert picture.shape == (750, 600, 3)
    assert np.abs(picture[75::150, 75::150] - image.permute(1, 2, 0).numpy()).max() < 0.003
    assert not list(path.parent.glob(".*")), "temporary files stay behind"


def test_log_image_takes_grey_images_and_figures(setup):
    _, trainer = setup([])
    assert read(log_image(trainer, "grey", torch.eye(3))).shape == (600, 600, 3)
    assert read(log_image(trainer, "figure", Figure(figsize=(3, 2), dpi=100))).shape == (200, 300, 3)


def test_tensorboard_gets_the_same_picture(setup, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger(tmp_path / "board")
    _, trainer = setup([], logger=logger)
    log_image(trainer, "a/b", torch.eye(3))
    logger.finalize("success")
    events = EventAccumulator(logger.log_dir)
    events.Reload()
    (event,) = events.Images("a/b")
    assert (event.width, event.height, event.step) == (600, 600, 0)


def test_wandb_gets_the_file_under_the_step_that_other_metrics_use(setup, monkeypatch):
    calls = []
    monkeypatch.setattr(WandbLogger, "log_image", lambda self, *given, **more: calls.append((*given, more)))
    _, trainer = setup([])
    trainer.loggers = [WandbLogger(offline=True)]
    path = log_image(trainer, "a/b", torch.eye(3), caption="Gibbs, 30 steps")
    caption = "step 0, Gibbs, 30 steps"
    assert calls == [("a/b", [str(path)], {"step": 0, "caption": [caption]})]
    assert texts_in(path.read_bytes()) == {"Title": "a/b", "Description": caption}


def test_other_ranks_write_nothing(setup, tmp_path, monkeypatch):
    _, trainer = setup([])
    monkeypatch.setattr(pl.Trainer, "is_global_zero", False)
    assert log_image(trainer, "a", torch.eye(3)) is None
    assert not (tmp_path / "run" / "images").exists()


def test_panels_keep_every_pixel_value(setup):
    _, trainer = setup([])
    left, right = torch.rand(1, 7, 9), torch.rand(1, 5, 6)
    picture = read(log_image(trainer, "panels", panels({"left": left, "right": right})))
    assert picture.shape[1] >= 600
    assert contains(picture, left[0]) and contains(picture, right[0])


def test_sample_grid_shows_samples_beside_the_data(setup, squares, tmp_path):
    learner, trainer = setup([SampleGrid(num_samples=9, num_strips=2, num_frames=3)], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    images = tmp_path / "run" / "images"
    names = [
        "samples-chain_step0000000",
        "samples-chain_step0000004",
        "samples-grid_step0000000",
        "samples-grid_step0000004",
    ]
    assert sorted(p.stem for p in images.iterdir()) == names
    grid = read(images / "samples-grid_step0000004.png")
    assert contains(grid, tile(squares.to_raw(squares.states("train", 9)))[0])
    torch.manual_seed(0)
    x = torch.randn(9, 36)
    samples = squares.to_raw(learner.draw(x, denoise=True))
    assert contains(grid, tile(samples)[0])
    noise = tile(squares.to_raw(x[:2]), columns=1)
    assert contains(read(images / "samples-chain_step0000004.png"), noise[0])


def test_sample_grid_says_before_training_what_it_cannot_show(setup, squares):
    cubic = ContrastiveDivergence(Quadratic(), ULA(0.1), start=FromNoise())
    learner, trainer = setup([SampleGrid(denoise=True, at_start=False)], learner=cubic)
    with pytest.raises(UserError, match="Quadratic has no hidden units"):
        trainer.fit(learner, datamodule=squares)
    assert trainer.global_step == 0
    for settings in ({"num_samples": 0}, {"num_steps": -1}, {"num_strips": -1}, {"num_frames": 1}):
        with pytest.raises(UserError, match="must be at least"):
            SampleGrid(**settings)


def test_sample_grid_shows_as_many_real_images_as_there_are(setup, squares, tmp_path):
    learner, trainer = setup([SampleGrid(num_samples=70, num_strips=1, at_start=False)], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    grid = read(tmp_path / "run" / "images" / "samples-grid_step0000004.png")
    assert contains(grid, tile(squares.to_raw(squares.states("train", 64)))[0])


@pytest.mark.slow
def test_sample_grid_is_small_under_fast_dev_run(setup, squares, tmp_path):
    learner, trainer = setup([SampleGrid(num_samples=10**6, num_steps=10**6)], fast_dev_run=1)
    trainer.fit(learner, datamodule=squares)
    assert (tmp_path / "run" / "images" / "samples-grid_step0000001.png").exists()


def test_parameter_images_show_the_largest_filters_about_grey(setup, squares, tmp_path):
    learner, trainer = setup([ParameterImages(num_filters=4)], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    W = learner.energy.W.detach()
    chosen = W.T[W.norm(dim=0).argsort(descending=True)[:4]]
    expected = 0.5 + 0.5 * chosen / chosen.abs().amax(1, keepdim=True)
    picture = read(tmp_path / "run" / "images" / "parameters-filters_step0000004.png")
    assert contains(picture, tile(expected.view(4, 1, 6, 6))[0])


@pytest.mark.slow
def test_the_curve_of_log_variances_goes_on_after_resuming(setup, squares, tmp_path):
    callback = ParameterImages()
    learner, trainer = setup([callback], max_epochs=2)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert [row[0] for row in callback.state_dict()["history"]] == [0, 4, 8]
    resumed = ParameterImages()
    learner, trainer = setup([resumed], max_epochs=3)
    trainer.fit(learner, datamodule=squares, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    history = resumed.state_dict()["history"]
    assert [row[0] for row in history] == [0, 4, 8, 12]
    log_var = learner.energy.log_var.detach()
    assert history[-1][1:] == pytest.approx([log_var.mean().item(), log_var.min().item(), log_var.max().item()])


class Quadratic(Energy):
    def __init__(self) -> None:
        super().__init__()
        self.domain = GRBM(36, 1).domain
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return 0.5 * self.scale * x.square().sum(1)


def test_parameter_images_refuse_other_energies(setup, squares):
    learner, trainer = setup(
        [ParameterImages()], learner=ContrastiveDivergence(Quadratic(), ULA(0.1), start=FromNoise())
    )
    with pytest.raises(UserError, match="which Quadratic lacks"):
        trainer.fit(learner, datamodule=squares)


def test_density2d(setup, tmp_path):
    learner, trainer = setup(
        [Density2D(num_samples=100)],
        max_epochs=1,
        learner=ContrastiveDivergence(GRBM(2, 4), ULA(0.1), start=FromNoise()),
    )
    trainer.fit(learner, datamodule=GaussianMixture())
    assert read(tmp_path / "run" / "images" / "samples-density_step0000010.png").shape[1] >= 1000


def centred() -> GRBM:
    """One Gaussian of variance 1 at (3.05, -2.05)."""
    energy = GRBM(2, 4)
    with torch.no_grad():
        energy.W.zero_()
        energy.b.zero_()
        energy.log_var.zero_()
        energy.mu.copy_(torch.tensor([3.05, -2.05]))
    return energy


def test_density2d_shows_the_energy_where_it_is():
    energy = energy_above_minimum(plane_integral(centred(), 20.0))
    row, column = divmod(int(energy.argmin()), 200)
    assert (row, column) == (79, 130)  # y = -2.05, x = 3.05
    assert energy.min() == 0
    assert energy[79, 150].item() == pytest.approx(2.0, rel=1e-3)  # 2 to the right: 2^2 / 2


@pytest.mark.slow
def test_density2d_scores_by_quadrature(setup):
    """The Gaussian's likelihood of the mixture's test points, in closed form."""
    data = GaussianMixture()
    learner, trainer = setup([Density2D(num_samples=10)], learner=ContrastiveDivergence(centred(), ULA(0.1)))
    trainer.test(learner, datamodule=data, verbose=False)
    x = data.states("test").double() - torch.tensor([3.05, -2.05])
    expected = -x.square().sum(1).mean().item() / 2 - math.log(2 * math.pi)
    assert trainer.callback_metrics["quadrature/log_likelihood"].item() == pytest.approx(expected, rel=1e-5)
    assert trainer.callback_metrics["quadrature/trusted"] == 1


def test_density2d_says_where_its_window_is_too_small(setup):
    """The edge begins at 0.9 of twice the extent, 2.968 standard deviations from the mean: 0.15 % lie beyond."""
    learner, trainer = setup([Density2D(10, extent=3.343)], learner=ContrastiveDivergence(centred(), ULA(0.1)))
    trainer.test(learner, datamodule=GaussianMixture(), verbose=False)
    assert trainer.callback_metrics["quadrature/trusted"] == 0


def test_density2d_of_points_that_are_all_the_origin(setup):
    learner, trainer = setup([Density2D(10)], learner=ContrastiveDivergence(centred(), ULA(0.1)))
    trainer.test(learner, torch.utils.data.DataLoader(torch.zeros(4, 2), batch_size=4), verbose=False)
    energy = centred()(torch.zeros(1, 2)).item()
    found, log_z = (trainer.callback_metrics[f"quadrature/{name}"].item() for name in ("log_likelihood", "log_z"))
    assert found == pytest.approx(-energy - log_z, abs=1e-5)
    assert trainer.callback_metrics["quadrature/trusted"] == 0  # the window is about the origin, and the mass is not


def test_density2d_refuses_images(setup, squares):
    learner, trainer = setup([Density2D()])
    with pytest.raises(UserError, match=r"callbacks\.SampleGrid for images"):
        trainer.fit(learner, datamodule=squares)
