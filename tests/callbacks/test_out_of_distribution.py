"""OutOfDistribution: which data it compares by energy, what it logs, and what it refuses."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_errors import refused
from sklearn.metrics import roc_auc_score
from torch import Tensor

from ebmlab.callbacks import OutOfDistribution, out_of_distribution
from ebmlab.datamodules import Digits, GaussianMixture
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary, Categorical, Real
from ebmlab.energies import GRBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import ULA

pytestmark = pytest.mark.usefixtures("drafts")


class Dots(TensorDataModule):
    """Dark 6x6 images with one bright pixel in the upper half; their moments differ from those of `Squares`."""

    name = "dots"
    max_value = 10.0
    mean = (0.05,)
    std = (2.0,)

    def __init__(self, side: int = 6) -> None:
        super().__init__((1, side, side), 16, seed=0)

    def load(self, split: str) -> tuple[Tensor, Tensor | None]:
        side = self.event_shape[-1]
        place = torch.randint(side * side // 2, (40,), generator=torch.Generator().manual_seed(len(split)))
        dots = torch.nn.functional.one_hot(place, side * side).view(40, 1, side, side)
        return (3 * dots).byte(), None


class Upper(Energy):
    """E(x) = minus the brightness of the upper half, for states standardised with mean 0.3 and deviation 0.4."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(36)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return -self.scale * (x[:, :18] * 0.4 + 0.3).sum(1)


def fixed(energy: Energy) -> ContrastiveDivergence:
    return ContrastiveDivergence(energy, ULA(0.1), optimizer=partial(torch.optim.SGD, lr=0.0))


def test_what_is_compared_and_logged(setup: Any, squares: Any, tmp_path: Any, monkeypatch: Any) -> None:
    shown: dict[str, dict[str, Tensor]] = {}
    draw = out_of_distribution.draw_histograms
    monkeypatch.setattr(
        out_of_distribution, "draw_histograms", lambda v, *rest: (shown.update(last=v), draw(v, *rest))[1]
    )
    transforms = ["flipped", "mirrored", "rotated", "independent"]
    callback = OutOfDistribution({"dots": Dots()}, transforms=transforms, batch_size=7)
    learner, trainer = setup([callback], learner=fixed(Upper()), max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    assert [p.name for p in (tmp_path / "run" / "images").iterdir()] == ["ood-energies_step0000004.png"]
    energies = {name.split(" ")[0]: x for name, x in shown["last"].items()}
    assert set(energies) == {"held-out", "dots", "noise", *transforms}
    images = squares.raw("val").double() / 255
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    expected = {
        "held-out": images,
        "flipped": images.flip(2),
        "mirrored": images.flip(3),
        "rotated": images.rot90(1, (2, 3)),
    }
    for name, x in expected.items():
        torch.testing.assert_close(energies[name], -x[order][:, :, :3].sum((1, 2, 3)), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(energies["dots"], torch.full((40,), -0.3).double(), rtol=0, atol=1e-4)
    assert not torch.allclose(energies["independent"], energies["held-out"])
    for name in ("dots", "noise", *transforms):
        law = torch.cat([torch.ones(64), torch.zeros(len(energies[name]))])
        auroc = roc_auc_score(law, -torch.cat([energies["held-out"], energies[name]]))
        assert float(trainer.callback_metrics[f"ood/{name}/auroc"]) == pytest.approx(auroc, abs=1e-6)
        assert {f"ood/{name}/aupr", f"ood/{name}/fpr95"} <= set(trainer.callback_metrics)


@pytest.mark.parametrize("command", ["validate", "test"])
def test_splits_and_commands(setup: Any, squares: Any, command: str, monkeypatch: Any) -> None:
    asked: list[str] = []
    states = type(squares).states
    monkeypatch.setattr(
        type(squares), "states", lambda self, split, *a: (asked.append(split), states(self, split, *a))[1]
    )
    learner, trainer = setup([OutOfDistribution(num_samples=20)], limit_val_batches=1.0)
    (metrics,) = getattr(trainer, command)(learner, datamodule=squares, verbose=False)
    assert set(asked) == {"val" if command == "validate" else "test"}
    names = {"noise", "flipped", "independent"}
    assert {key for key in metrics if key.startswith("ood/")} == {
        f"ood/{name}/{value}" for name in names for value in ("auroc", "aupr", "fpr95")
    }


@pytest.mark.slow
def test_training_goes_on_as_if_nothing_had_been_evaluated(setup: Any, squares: Any) -> None:
    weights = []
    for callbacks in ([], [OutOfDistribution({"dots": Dots()}, every_n_epochs=1, at_start=True)]):
        learner, trainer = setup(callbacks)
        trainer.fit(learner, datamodule=squares)
        weights.append(learner.energy.W.detach().clone())
    assert torch.equal(*weights)


def test_points_are_compared_with_noise_and_with_independent_coordinates(setup: Any) -> None:
    data = GaussianMixture(num_samples=200, batch_size=50)
    learner, trainer = setup([OutOfDistribution()], learner=fixed(GRBM(2, 3)), limit_val_batches=1.0)
    trainer.validate(learner, datamodule=data, verbose=False)
    assert {key.split("/")[1] for key in trainer.callback_metrics if key.startswith("ood/")} == {"noise", "independent"}


def test_independent_coordinates_keep_only_their_marginals() -> None:
    torch.manual_seed(0)
    x = torch.randint(2, (500, 1)).expand(500, 4).float()
    mixed = out_of_distribution._independent(x.view(500, 1, 2, 2), Binary(4))
    assert mixed.shape == (500, 1, 2, 2) and torch.equal(mixed.view(500, 4).sort(0)[0], x.sort(0)[0])
    assert abs(float((mixed[:, 0, 0, 0] == mixed[:, 0, 1, 1]).float().mean()) - 0.5) < 0.1
    domain = Categorical(3, 4)
    words = domain.random(100)
    shuffled = out_of_distribution._independent(words, domain)
    domain.validate(shuffled)
    assert torch.equal(shuffled.sum(0), words.sum(0)) and not torch.equal(shuffled, words)


def test_a_nan_is_logged_as_such(setup: Any, squares: Any) -> None:
    energy = Upper()
    energy.scale.data.fill_(math.nan)
    learner, trainer = setup([OutOfDistribution()], learner=fixed(energy), limit_val_batches=1.0)
    trainer.validate(learner, datamodule=squares, verbose=False)
    assert trainer.callback_metrics["ood/noise/auroc"].isnan()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OutOfDistribution(noise=False, transforms=[]), "nothing to compare with"),
        (lambda: OutOfDistribution(transforms=["upside"]), "transforms are flipped, .* not upside"),
        (lambda: OutOfDistribution(num_samples=0), "num_samples is 0"),
        (lambda: OutOfDistribution({"noise": Dots()}), "data are called noise; take other names"),
    ],
)
def test_invalid_settings_are_refused(make: Any, message: str) -> None:
    with refused(message):
        make()


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (OutOfDistribution({"digits": Digits()}), r"data.digits has events of shape \(1, 8, 8\), 64 numbers, but"),
        (OutOfDistribution({"mine": pl.LightningDataModule()}), r"data.mine is a LightningDataModule; it must be one"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(setup: Any, squares: Any, callback: Any, message: str) -> None:
    learner, trainer = setup([callback])
    with pytest.raises(UserError, match=message):
        trainer.fit(learner, datamodule=squares)
    assert trainer.global_step == 0


def test_images_are_needed_to_flip_them(setup: Any) -> None:
    data = GaussianMixture(num_samples=200, batch_size=50)
    learner, trainer = setup([OutOfDistribution(transforms=["flipped"])], learner=fixed(GRBM(2, 3)))
    with pytest.raises(UserError, match="flipped needs images, and GaussianMixture shows none"):
        trainer.fit(learner, datamodule=data)


def test_two_of_one_class_keep_their_own_states() -> None:
    keys = {c.state_key for c in (OutOfDistribution(), OutOfDistribution({"dots": Dots()}), OutOfDistribution(seed=1))}
    assert len(keys) == 3 and OutOfDistribution({"dots": Dots()}).state_key in keys
