"""Data without an ebmlab datamodule: how they are converted, and what is refused in one line before training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from helpers_errors import one_line as message
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, TensorDataset

from ebmlab.callbacks import AIS, FID, HammingMMD, RunState, SampleGrid
from ebmlab.data.batch_checks import check_first_batch
from ebmlab.data.batch_parts import samples_of
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Data, Images
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Arrays, FromDataset
from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Real, Spin
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ScalarPotts
from ebmlab.learners import ContrastiveDivergence, FromData, Learner, RatioMatching
from ebmlab.lightning.run_data import data_of
from ebmlab.samplers import BlockGibbs, Gibbs, Langevin

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
]


def trainer(folder: Path, *callbacks: pl.Callback, **settings: Any) -> pl.Trainer:
    return quiet_trainer(folder, callbacks=list(callbacks), **{"max_epochs": 1, "num_sanity_val_steps": 0, **settings})


def bits(n: int = 40, d: int = 6) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(0)).round()


def learner(energy: Energy | None = None) -> Learner:
    torch.manual_seed(0)
    return ContrastiveDivergence(energy or RBM(6, 3), BlockGibbs() if energy is None else Gibbs(), start=FromData())


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "x": lambda x: DataLoader(x, 10),
    "(x,)": lambda x: DataLoader(TensorDataset(x), 10),
    "(x, y)": lambda x: DataLoader(TensorDataset(x, torch.arange(len(x))), 10),
    "float64": lambda x: DataLoader(TensorDataset(x.double(), x), 10),
    "int64": lambda x: DataLoader(x.long(), 10),
    "uint8": lambda x: DataLoader(x.byte(), 10),
    "bool": lambda x: DataLoader(x.bool(), 10),
    "x in a dictionary": lambda x: DataLoader([{"x": row, "y": 1.0} for row in x], 10),
    "the only tensor": lambda x: DataLoader([{"image": row, "name": "a"} for row in x], 10),
    "a loader in a list": lambda x: [DataLoader(x, 10)],
}


@cases("form", {form: form for form in FORMS}, fast=list(FORMS)[::2])
def test_every_form_of_a_batch_trains_and_is_evaluated_alike(form: str, tmp_path: Path) -> None:
    x = bits()
    expected = learner()
    trainer(tmp_path).fit(expected, DataLoader(x, 10))
    model, runner = learner(), trainer(tmp_path, HammingMMD(20, num_steps=2))
    runner.fit(model, FORMS[form](x), FORMS[form](x))
    assert "mmd/hamming" in runner.callback_metrics
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), expected.parameters(), strict=True))
    energy = model.energy(x).mean().item()
    assert runner.validate(model, FORMS[form](x), verbose=False)[0]["val/energy"] == pytest.approx(energy, rel=1e-5)
    assert runner.test(model, FORMS[form](x), verbose=False)[0]["test/energy"] == pytest.approx(energy, rel=1e-5)


class Plain(pl.LightningDataModule):
    """(x, y) batches of pixels."""

    def __init__(self, dtype: torch.dtype = torch.uint8) -> None:
        super().__init__()
        self.dtype = dtype

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randint(256, (60, 1, 4, 4), generator=generator).to(self.dtype)

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(self.x, torch.arange(60)), 20, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(self.x, torch.arange(60)), 20)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.int32])
def test_pixels_are_divided_by_255_and_the_checkpoint_says_so(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ContrastiveDivergence(GRBM(16, 3), Langevin(0.1), start=FromData())
    runner = trainer(tmp_path, SampleGrid(num_samples=4, num_steps=1), RunState())
    data = Plain(dtype)
    runner.fit(model, data)
    torch.testing.assert_close(model.states([data.x, None]), (data.x.double() / 255).float().flatten(1))
    runner.save_checkpoint(tmp_path / "a.ckpt")
    saved = Preprocessing.from_dict(torch.load(tmp_path / "a.ckpt", weights_only=True)["preprocessing"])
    torch.testing.assert_close(saved.to_states(data.x), (data.x.double() / 255).float())
    assert len(list((tmp_path / "images").glob("samples-grid*"))) == 2
    shown = data_of(runner).show(saved.to_states(data.x).flatten(1))
    assert isinstance(shown, Images)
    torch.testing.assert_close(shown.values, (data.x.double() / 255).float())


def fitted(folder: Path, x: Tensor) -> tuple[Learner, str]:
    """A GRBM trained on raw data, and its checkpoint."""
    torch.manual_seed(0)
    model = ContrastiveDivergence(GRBM(x[0].numel(), 3), Langevin(0.01), start=FromData(), num_steps=1)
    runner = trainer(folder)
    runner.fit(model, FromDataset(list(x), batch_size=10))
    runner.save_checkpoint(path := folder / "a.ckpt")
    return model, str(path)


def test_raw_batches_become_states_as_the_checkpoint_says(tmp_path: Path) -> None:
    """Without that, the plain loader's numbers would be taken for states: another energy, without a word."""
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 7 + torch.tensor([90.0, 0, -5, 3])
    model, path = fitted(tmp_path, x)
    saved = Preprocessing.from_dict(torch.load(path, weights_only=True)["preprocessing"])
    expected = model.energy(saved.to_states(x)).mean().item()
    for kind in (torch.float32, torch.float64):
        loader = DataLoader(TensorDataset(x.to(kind), x), 10)
        found = trainer(tmp_path).validate(model, loader, ckpt_path=path, verbose=False)[0]["val/energy"]
        assert found == pytest.approx(expected, rel=1e-4)
    other = FromDataset(list(x[:30] + 1), val=x, batch_size=10)  # other moments of its own
    assert trainer(tmp_path).validate(model, other, ckpt_path=path, verbose=False)[0]["val/energy"] == pytest.approx(
        expected, rel=1e-4
    )
    assert other.preprocessing == saved
    runner = trainer(tmp_path, max_epochs=2)
    runner.fit(model, FromDataset(list(x), batch_size=10), ckpt_path=path)  # the same data: it goes on
    assert runner.current_epoch == 2


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"standardize": False}, "mean is 0, not 127"),
        ({"max_value": 100.0}, "scale is 100.0, not 255.0"),
        ({"domain": "binary", "binarize": True}, "binarize is True, not False"),
    ],
)
def test_data_with_other_settings_than_the_checkpoints_are_refused(
    options: dict[str, Any], wrong: str, tmp_path: Path
) -> None:
    x = torch.randint(256, (50, 1, 2, 2), generator=torch.Generator().manual_seed(0)).float()
    _, path = fitted(tmp_path, x)
    data = FromDataset(list(x), batch_size=10, **options)
    saved = Preprocessing.from_dict(torch.load(path, weights_only=True)["preprocessing"])
    saved = replace(saved, mean=(127.0,), std=(9.0,)) if "standardize" in options else saved
    found = message(lambda: data.adopt(saved))
    assert (
        f"FromDataset does not turn raw data into the states that the checkpoint's model was trained on: {wrong}"
        in (found)
    )


def test_batches_in_other_units_than_the_checkpoints_are_refused(tmp_path: Path) -> None:
    x = torch.randint(256, (50, 1, 2, 2), generator=torch.Generator().manual_seed(0))
    for kind, scale in ((torch.uint8, 1), (torch.float32, 255)):
        model, path = fitted(tmp_path, x.to(kind))
        states = FromDataset(list(x), batch_size=10).states("train")
        for wrong in (states, x.float() if scale == 1 else x / 255, -x):
            found = message(
                lambda w=wrong: trainer(tmp_path).validate(model, DataLoader(w, 10), ckpt_path=path)  # noqa: B023
            )
            assert "give raw data in the same units" in found
        for right in (x.byte(), x * 0, x / 255 if scale == 1 else x.float()):
            trainer(tmp_path).validate(model, DataLoader(right, 10), ckpt_path=path, verbose=False)


def test_pixels_have_one_unit_however_a_loader_holds_them() -> None:
    levels, domain = torch.randint(256, (9, 1, 4, 4), dtype=torch.uint8), Real((1, 4, 4))
    for x in (levels, levels.float(), levels / 255):
        found = PlainData("mine", {"train": lambda x=x: [x]}, domain).preprocessing
        assert found.unit and found.log_jacobian(domain) == pytest.approx(-16 * math.log(255))
        torch.testing.assert_close(found.to_states(x), levels / 255)


def test_a_first_batch_between_0_and_1_does_not_bound_the_others() -> None:
    points = torch.tensor([[0.2, 0.9], [3.57, -1.0]])
    data = PlainData("mine", {"train": lambda: points.split(1)}, Real(2))
    assert torch.equal(data.to_raw(data.states("train")), points)


@pytest.mark.parametrize("of", ["loader", "sampler", "batches"])
def test_a_look_at_the_data_does_not_move_the_loaders_own_generator(of: str) -> None:
    x, generator = torch.arange(80.0).view(40, 2), torch.Generator().manual_seed(1)
    random = RandomSampler(x, generator=generator)  # type: ignore[arg-type]
    options: dict[str, Any] = {
        "loader": {"batch_size": 10, "shuffle": True, "generator": generator},
        "sampler": {"batch_size": 10, "sampler": random},
        "batches": {"batch_sampler": BatchSampler(random, 10, drop_last=False)},
    }[of]
    loader: DataLoader[Any] = DataLoader(x, **options)  # type: ignore[arg-type]
    data, before = PlainData("mine", {"train": lambda: loader}, Real(2)), generator.get_state()
    first, again = data.states("train", 20), data.states("train", 20)
    assert torch.equal(first, again) and not torch.equal(first, data.states("train", 20, seed=1))
    assert data.batch_size == 10 and torch.equal(generator.get_state(), before)


def test_which_numbers_are_pixels() -> None:
    for x, domain, scale, float_scale in (
        (torch.randint(256, (9, 1, 4, 4), dtype=torch.uint8), Real((1, 4, 4)), 255, 1),
        (torch.randint(256, (9, 1, 4, 4)).double(), Real((1, 4, 4)), 255, 255),
        (torch.randint(256, (9, 16), dtype=torch.uint8), Real(16), 255, 1),
        (torch.randint(256, (9, 16)).double(), Real(16), 1, 1),  # a table, whose numbers are not scaled
        (torch.randn(9, 1, 4, 4), Real((1, 4, 4)), 1, 1),
        (torch.randint(256, (9, 16), dtype=torch.uint8), Ordinal(16, 256), 1, 1),
    ):
        data = PlainData("mine", {"train": lambda x=x: [x]}, domain)
        assert (data.preprocessing.scale, data.preprocessing.float_scale) == (scale, float_scale)
        torch.testing.assert_close(data.states("train"), (x.double() / max(scale, float_scale)).float())
        check_first_batch(data, "train", domain, "Mine")


def test_class_indices_become_one_hot_vectors() -> None:
    x = torch.randint(3, (9, 5))
    data = PlainData("mine", {"train": lambda: [x]}, Categorical(5, 3))
    assert torch.equal(data.states("train").argmax(-1), x) and data.event_shape == (5, 3)
    check_first_batch(data, "train", Categorical(5, 3), "Potts")
    assert torch.equal(data.to_raw(data.states("train")), x)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_classes_are_no_images(rows: int, tmp_path: Path) -> None:
    """Their one-hot vectors have the shape (1, H, K) or (3, H, K), which looks like that of images."""
    x, domain = torch.randint(4, (40, rows, 6)), Categorical((rows, 6), 4)
    states = domain.from_index(x)
    np.save(tmp_path / "a.npy", x.numpy())

    class Classes(Data):
        event_shape = rows, 6, 4
        preprocessing = Preprocessing((rows, 6), num_classes=4)

    class Vectors(Data):
        domains = (Categorical,)

    for data in (
        Arrays(str(tmp_path / "a.npy"), "categorical", num_values=4),
        PlainData("mine", {"train": lambda: [x]}, domain),
        PlainData("mine", {"train": lambda: [states]}, domain),
        Classes(),
        Vectors(),
    ):
        assert data.show(states) is None
    assert isinstance(PlainData("mine", {"train": lambda: [states]}, Real((rows, 6, 4))).show(states), Images)


NAN = bits().where(bits(7, 1)[:1] < 2, 0).clone()
NAN[3, 2] = torch.nan


@pytest.mark.parametrize(
    ("energy", "x", "wrong"),
    [
        (
            RBM(6, 2),
            torch.rand(8, 6),
            "DataLoader, train split: state number 0, counted from 0, is not in Binary(6): its values",
        ),
        (RBM(6, 2), torch.rand(8, 6), "binarize them, or take an energy on real numbers, such as GRBM"),
        (RBM(6, 2), 2 * bits() - 1, "lie between -1 and 1: (x + 1) / 2 makes bits of spins"),
        (
            Ising.learnable(6),
            bits(),
            "must be -1 or +1; the first batch's lie between 0 and 1: 2 x - 1 makes spins",
        ),
        (RBM(6, 2), -bits(), "its values must be 0 or 1; the first batch's lie between -1 and"),
        (
            RBM(6, 2),
            bits(8, 5),
            "gives events of shape (5,) (5 numbers), but RBM models Binary(6): change",
        ),
        (RBM(6, 2), torch.zeros(8), "gives events of shape () (1 number), but RBM models Binary(6)"),
        (RBM(6, 2), NAN, "1 of the 8 samples of the first batch hold NaN or infinity, the first is number 3"),
        (ScalarPotts(torch.zeros(6, 6), 3), torch.full((8, 6), 3), "whole numbers from 0 to 2"),
        (MLP(6, hidden_dim=4), torch.zeros(0, 6), "the train loader is empty: it must give at least one batch"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_wrong_data_are_refused_before_training(
    energy: Energy, x: Tensor, wrong: str, training: bool, tmp_path: Path
) -> None:
    model = ContrastiveDivergence(energy, Gibbs(), start=FromData())
    runner = trainer(tmp_path)
    act = runner.fit if training else runner.validate
    found = message(lambda: act(model, DataLoader(x, 8)))
    assert (wrong if training else wrong.replace("train", "val")) in found
    assert runner.global_step == 0


def test_validation_data_are_checked_before_training_too(tmp_path: Path) -> None:
    loaders = DataLoader(bits(), 8), DataLoader(torch.rand(8, 6), 8)
    assert "DataLoader, val split: state number 0, counted from 0, is" in message(
        lambda: trainer(tmp_path).fit(learner(), *loaders)
    )


def test_validation_data_in_other_units_than_the_training_data_are_refused(tmp_path: Path) -> None:
    levels = torch.randint(256, (50, 1, 2, 2), generator=torch.Generator().manual_seed(0))
    fractions, model = levels / 255, ContrastiveDivergence(GRBM(4, 3), BlockGibbs(), start=FromData())
    for train, val in ((levels.float(), fractions), (fractions, levels.float())):
        found = message(lambda t=train, v=val: trainer(tmp_path).fit(model, DataLoader(t, 10), DataLoader(v, 10)))
        assert "DataLoader, val split: the values lie between" in found and "give raw data in the same units" in found
    for train, val in ((levels.byte(), fractions), (fractions, levels.byte()), (levels.float(), 0.0 * levels)):
        trainer(tmp_path).fit(model, DataLoader(train, 10), DataLoader(val, 10))


class Odd(Data, pl.LightningDataModule):
    def __init__(self, loader: Any) -> None:
        super().__init__()
        self.loader_ = loader

    def train_dataloader(self) -> Any:
        return self.loader_


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(bits())


def test_odd_loaders(tmp_path: Path) -> None:
    def fit(loader: Any) -> None:
        trainer(tmp_path).fit(learner(), Odd(loader))

    fit(DataLoader(Stream(), 10))
    two = [DataLoader(bits(), 8)] * 2
    assert "the number of loaders is 2; a split must have one" in message(lambda: fit(two))
    assert "is an iterator, which can be read only once" in message(lambda: fit(iter(DataLoader(bits(), 8))))
    table = DataLoader([{"a": row, "b": row} for row in bits()], 8)
    assert "a dictionary of a, b, and which of them is the samples is not clear" in message(lambda: fit(table))
    words = DataLoader(["one", "two"], 2)
    assert "a batch is of the type str" in message(lambda: fit(words))
    odd = Odd(DataLoader(bits(), 8))
    odd.domains = None  # type: ignore[assignment]
    assert "Odd: domains is None, but must be a tuple" in message(lambda: trainer(tmp_path).fit(learner(), odd))
    assert samples_of({"y": torch.zeros(1), "x": torch.ones(1)}, "mine").item() == 1


def test_a_trainer_that_gets_new_data_does_not_use_the_old(tmp_path: Path) -> None:
    model, runner = learner(), trainer(tmp_path)
    runner.fit(model, Odd(DataLoader(bits(), 8)))
    assert isinstance(data_of(runner), Odd)
    loader = DataLoader(bits().byte(), 8)
    runner.validate(model, loader, verbose=False)
    data = data_of(runner)
    assert isinstance(data, PlainData) and data.has("val") and not data.has("train")
    assert data_of(runner) is data
    runner.test(model, loader, verbose=False)
    assert data_of(runner).has("test") and not data_of(runner).has("val")


def test_pictures_of_what_is_no_image_are_left_out_with_one_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr("ebmlab.callbacks.periodic.rank_zero_info", notes.append)
    runner = trainer(tmp_path, SampleGrid(num_samples=2), FID(), HammingMMD(num_samples=8))
    runner.test(learner(), DataLoader(bits(), 8), verbose=False)
    assert notes == ["DataLoader gives no images: SampleGrid, FID left out."]
    assert any(name.startswith("mmd/") for name in runner.callback_metrics) and not list(
        tmp_path.rglob("samples-grid*")
    )


@pytest.mark.slow
def test_what_plain_data_lack_is_named_before_training(tmp_path: Path) -> None:
    fid, grid = FID(num_samples=4, split="test"), SampleGrid(num_samples=2)
    model = ContrastiveDivergence(GRBM(16, 3), Langevin(0.1), start=FromData())
    assert "FID needs test data, which Plain does not give here" in message(
        lambda: trainer(tmp_path, fid).fit(model, Plain())
    )
    assert "FID: Plain has no labels" in message(lambda: trainer(tmp_path, FID()).fit(model, Plain()))
    best = pl.Callback()
    best.monitor = "fid/classifier"  # type: ignore[attr-defined]
    assert "FID needs images, but DataLoader has events of shape (6,)" in message(
        lambda: trainer(tmp_path, FID(), grid, best).fit(learner(), DataLoader(bits(), 8))
    )
    ais = AIS(num_chains=50, num_temperatures=20)
    loader = DataLoader(bits(), 8)
    none = Plain()
    none.val_dataloader = lambda: []  # type: ignore[method-assign]
    assert "Plain, val split: the number of loaders is 0" in message(lambda: trainer(tmp_path).fit(model, none))
    assert "AIS needs val data" in message(lambda: trainer(tmp_path, ais).fit(learner(), loader))
    for stage in ("fit", "validate", "test"):
        loaders = [loader] * (2 if stage == "fit" else 1)
        getattr(runner := trainer(tmp_path, ais), stage)(learner(), *loaders)
        assert "ais/log_likelihood" in runner.callback_metrics


def test_ratio_matching_takes_them_as_well(tmp_path: Path) -> None:
    runner = trainer(tmp_path)
    runner.fit(RatioMatching(MLP(6, hidden_dim=4)), DataLoader(TensorDataset(bits().long(), bits()), 8))
    assert torch.isfinite(runner.callback_metrics["train/loss"])


@pytest.mark.parametrize("domain", [Binary(4), Spin(4), Ordinal(4, 5), Categorical(4, 3), Real(4)])
def test_states_of_the_domain_pass(domain: Domain) -> None:
    data = PlainData("mine", {"train": lambda: [domain.random(20)]}, domain)
    check_first_batch(data, "train", domain, "Mine")


def test_two_models_on_the_same_loaders_have_data_of_their_own(tmp_path: Path) -> None:
    class Levels(Energy):
        domains = (Ordinal,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.slope = Ordinal(6, 256), torch.nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return self.slope * x.sum(1)

    pixels = torch.randint(256, (40, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    loader, one = DataLoader(pixels, 10), trainer(tmp_path)
    levels, reals = learner(Levels()), ContrastiveDivergence(GRBM(6, 3), Langevin(0.1), start=FromData())
    for model in (levels, reals, levels):
        one.validate(model, loader, verbose=False)
        again = trainer(tmp_path).validate(model, loader, verbose=False)
        assert one.callback_metrics["val/energy"] == pytest.approx(again[0]["val/energy"])


def test_reading_data_seeds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("the seeds of GPUs have changed"))
    data = PlainData("loaders", {"train": lambda: DataLoader(bits(), 10, shuffle=True)}, Binary(6))
    assert torch.equal(data.states("train"), data.states("train"))
    assert len(FromDataset(TensorDataset(bits()), domain="binary", batch_size=8).states("train")) == 32
