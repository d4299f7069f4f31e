"""What pictures and FID see of images whose raw numbers do not lie in [0, 1]."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ebmlab import load
from ebmlab.app.complete import grid
from ebmlab.callbacks import FID
from ebmlab.callbacks.requirements import images
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Data
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import FromDataset
from ebmlab.domains import Binary, Ordinal, Real
from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import GibbsLangevin

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]

FRACTIONS = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
FRACTIONS[:, 0, 0, :2] = torch.tensor([0.0, 1.0])
LEVELS = torch.randint(17, (60, 1, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
UNITS = {
    "kelvin": (270 + 20 * FRACTIONS, {}),
    "symmetric": (2 * FRACTIONS - 1, {}),
    "not standardised": (2 * FRACTIONS - 1, {"standardize": False}),
    "divided": (500 * FRACTIONS - 100, {"max_value": 100.0}),
    "fractions": (FRACTIONS, {}),
    "64 bits": (1e9 + FRACTIONS.double(), {}),
}


def dataset(x: Tensor, **options: Any) -> FromDataset:
    return FromDataset(TensorDataset(x, torch.arange(len(x)) % 3), batch_size=10, **options)


def plain(x: Tensor, domain: Real | Ordinal | Binary, size: int = 20) -> PlainData:
    return PlainData("mine", {"train": lambda: x.split(size)}, domain)


def shown(data: Data) -> Tensor:
    return images(data, data.states("train")).float()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("streamed", [False, True])
def test_the_smallest_number_is_black_and_the_largest_white(unit: str, streamed: bool) -> None:
    x, options = UNITS[unit]
    data = dataset(x, streamed=streamed, **options)
    torch.testing.assert_close(shown(data), FRACTIONS[data.part("train")[1]], atol=1e-4, rtol=0)
    beyond = images(data, data.to_states(torch.stack([x[0] + 1e4, x[0] - 1e4])))
    assert float(beyond[0].min()) == 1 and float(beyond[1].max()) == 0  # samples may exceed the data


def test_levels_of_ordinals_are_shades_of_grey() -> None:
    data = dataset(LEVELS, domain="ordinal", num_values=17)
    expected = LEVELS[data.part("train")[1]] / 16
    torch.testing.assert_close(shown(data), expected)
    torch.testing.assert_close(shown(dataset(LEVELS, domain="ordinal")), expected)
    torch.testing.assert_close(shown(plain(LEVELS, Ordinal((1, 8, 8), 17))), LEVELS / 16)


def test_a_plain_loader_of_normalised_pictures() -> None:
    for x in (2 * FRACTIONS - 1, 270 + 20 * FRACTIONS):
        x[:20] = x[:20].mean()  # the first batch does not tell all
        data = plain(x, Real(64))
        assert data.preprocessing.limits == (float(x.min()), float(x.max()))
        torch.testing.assert_close(shown(data), ((x - x.min()) / (x.max() - x.min())))
    loader = DataLoader(x, 10, shuffle=True)
    before = torch.get_rng_state()
    assert PlainData("mine", {"train": lambda: loader}, Real(64)).preprocessing.limits == data.preprocessing.limits
    assert torch.equal(torch.get_rng_state(), before)


def test_bits_spins_and_numbers_in_0_1_are_shown_as_they_are() -> None:
    bits = FRACTIONS.round()
    for data, x in (
        (dataset(FRACTIONS), FRACTIONS),
        (dataset(bits, domain="binary"), bits),
        (dataset(2 * bits - 1, domain="spin"), bits),
        (dataset((255 * FRACTIONS).byte()), (255 * FRACTIONS).byte() / 255),
    ):
        assert data.preprocessing.limits is None
        torch.testing.assert_close(shown(data), x[data.part("train")[1]])
    for own, domain in ((plain(FRACTIONS, Real(64)), FRACTIONS), (plain(bits, Binary(64)), bits)):
        assert own.preprocessing.limits is None and torch.equal(shown(own), domain)


def test_equal_numbers_are_black() -> None:
    assert float(shown(dataset(torch.full((60, 1, 8, 8), 280.0))).abs().max()) == 0


def test_fid_does_not_depend_on_the_unit(tmp_path: Path) -> None:
    scores = []
    for x in (FRACTIONS, 270 + 20 * FRACTIONS, 2 * FRACTIONS - 1):
        pl.seed_everything(0)
        learner = ContrastiveDivergence(GRBM(64, 8), GibbsLangevin(0.1), start=FromNoise(), num_steps=2)
        trainer = quiet_trainer(tmp_path, fast_dev_run=True, callbacks=[FID(num_samples=16, num_steps=2)])
        scores.append(trainer.test(learner, dataset(x), verbose=False)[0]["fid/classifier"])
    assert scores[0] > 0
    assert scores[1:] == pytest.approx([scores[0]] * 2, rel=1e-2)


def test_a_loaded_model_shows_by_the_limits_of_its_training(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(GRBM(64, 8), GibbsLangevin(0.1), start=FromNoise(), num_steps=1)
    trainer = quiet_trainer(tmp_path, max_steps=1)
    trainer.fit(learner, dataset(270 + 20 * FRACTIONS))
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    model = load(tmp_path / "a.ckpt")
    limits = model.preprocessing.limits
    assert limits is not None and limits == pytest.approx((270, 290))
    x = 275 + 10 * FRACTIONS[:4]
    given = torch.ones(1, 8, 8, dtype=torch.bool)
    black, grey = x[:, None], x[:, None] - 1e4
    assert grid(model, x, given, black) != grid(model, x, given, grey)  # completions in raw units
    other, mine = dataset(275 + 10 * FRACTIONS), plain(275 + 10 * FRACTIONS, Real(64))
    for data in (other, mine):
        own = data.preprocessing.limits
        data.adopt(replace(model.preprocessing, limits=None))  # a checkpoint of an older version
        assert data.preprocessing.limits == (own if data is other else None)
        data.adopt(model.preprocessing)
        assert data.preprocessing.limits == limits
        torch.testing.assert_close(images(data, data.to_states(x)), 0.25 + FRACTIONS[:4] / 2, atol=1e-4, rtol=0)


def test_a_checkpoint_without_limits_loads() -> None:
    old = Preprocessing((1, 8, 8)).to_dict()
    del old["limits"]
    assert Preprocessing.from_dict(old) == Preprocessing((1, 8, 8))
    data = plain(2 * FRACTIONS - 1, Real(64))
    data.adopt(Preprocessing.from_dict(old))
    torch.testing.assert_close(shown(data), FRACTIONS)
