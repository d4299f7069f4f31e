"""The contract of all datamodules. A new datamodule fails here until it is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ebmlab import datamodules
from ebmlab.data.interface import SPLITS, Graphs, Images, Points, Table
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import TensorDataModule
from ebmlab.errors import UserError
from ebmlab.graphs import triangle

Make = Callable[..., TensorDataModule]
OPTIONS: dict[str, dict[str, object]] = {
    "Alignment": {"path": "own/family.fasta"},
    "Arrays": {"path": "own/table.npy"},
    "FromDataset": {"domain": "spin"},
    "ImageFolder": {"root": "own/pictures", "size": 6, "channels": 3},
    "Digits": {},
    "ColourDigits": {},
    "CIFAR10": {"num_val": 12},
    "SVHN": {"num_val": 12},
    "MNIST": {"num_val": 12, "download": False},
    "FashionMNIST": {"num_val": 12, "num_train": 30, "download": False},
    "KMNIST": {"num_val": 12, "download": False},
    "EMNIST": {"num_val": 12, "download": False},
    "StaticMNIST": {"download": False},
    "Omniglot": {"download": False},
    "CaltechSilhouettes": {"download": False},
    "CelebA": {},
    "GaussianMixture": {"kind": "anisotropic", "num_samples": 50},
    "GrayCode2D": {"shape": "moons", "num_samples": 50},
    "Shapes2D": {"shape": "moons", "num_samples": 50},
    "IsingSamples": {"side": 7, "coupling": 0.1, "num_samples": 50, "num_sweeps": 5},
    "MixedTable": {"num_samples": 500},
    "EgoSmall": {},
}


MODULES = [
    name
    for name in datamodules.__all__
    if name != "TensorDataModule" and issubclass(getattr(datamodules, name), datamodules.TensorDataModule)
]


class Bits(Dataset[dict[str, object]]):
    """Items are dictionaries with six bits and a text."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, i: int) -> dict[str, object]:
        return {"x": np.array([i >> k & 1 for k in range(6)]), "text": str(i)}


@pytest.fixture(params=MODULES)
def make(request: pytest.FixtureRequest, data_folder: Path, small: object, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("EBMLAB_DATA", str(data_folder))

    def build(**options: object) -> TensorDataModule:
        given = {"batch_size": 4, **OPTIONS[request.param], **options}
        for name in ("path", "root"):
            if name in OPTIONS[request.param]:
                given[name] = str(data_folder / str(given[name]))
        if request.param == "FromDataset":
            given["train"] = Bits()
        module = getattr(datamodules, request.param)(**given)
        module.prepare_data()
        return module

    return build


def states_of(module: TensorDataModule, batches: Iterable[object]) -> list[Tensor]:
    """The states in each batch."""
    return [module.convert(batch) for batch in batches]


def rows(x: Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in x.flatten(1).tolist()}


def test_event_shape_and_hyperparameters_are_known_before_data(make: Make) -> None:
    module = make(seed=3)
    assert not module._splits
    assert module.hparams["seed"] == 3 and module.hparams["batch_size"] == 4
    again = type(module)(**{"train": Bits()} if isinstance(module, datamodules.FromDataset) else {}, **module.hparams)
    again.prepare_data()
    assert again.event_shape == module.event_shape
    torch.testing.assert_close(next(iter(again.train_dataloader())), next(iter(module.train_dataloader())))


def test_the_domains_of_the_class_which_list_shows_hold_those_of_its_states(make: Make) -> None:
    module = make()
    assert set(module.domains) <= set(type(module).domains)


def test_settings_are_kept_but_sent_to_no_logger(make: Make) -> None:
    """The command line logs the whole config; twice would clash."""
    module = make()
    assert module.hparams and not module._log_hyperparams


def test_splits_are_disjoint_and_labelled(make: Make) -> None:
    module = make()
    module.setup()
    train, val, test = (rows(module.raw(split)) for split in SPLITS)
    assert train and val and test
    assert not train & val and not train & test and not val & test
    for split in SPLITS:
        labels = module.labels(split)
        assert (labels is None) == (module.num_classes is None)
        if labels is not None:
            assert len(labels) == len(module.raw(split)) and int(labels.min()) >= 0
            assert int(labels.max()) < module.num_classes


def test_training_batches_are_full_standardised_and_reordered_each_epoch(make: Make) -> None:
    module = make()
    module.setup("fit")
    loader = module.train_dataloader()
    first = states_of(module, loader)
    loader.sampler.set_epoch(1)
    second = states_of(module, loader)
    assert len(first) == len(loader) == len(module.raw("train")) // 4
    assert all(x.shape == (4, *module.event_shape) and x.dtype == torch.float32 for x in first)
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert rows(torch.cat(first)) <= rows(module.to_states(module.raw("train")))


def test_evaluation_batches_are_the_whole_split_in_order(make: Make) -> None:
    module = make()
    for stage, split, loader in (
        ("validate", "val", module.val_dataloader),
        ("test", "test", module.test_dataloader),
    ):
        module.setup(stage)
        expected = module.to_states(module.raw(split))
        for _ in range(2):
            torch.testing.assert_close(torch.cat(states_of(module, loader())), expected, rtol=0, atol=0)


def test_to_raw_inverts_to_states_also_on_flat_batches(make: Make) -> None:
    module = make()
    raw = module.raw("val")
    shown = raw.float() / module.preprocessing.scale if not raw.is_floating_point() else raw
    x = module.to_states(raw)
    torch.testing.assert_close(module.to_raw(x).to(shown), shown, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.to_raw(x.flatten(1)).to(shown), shown, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.to_states(shown), x, rtol=0, atol=1e-5)
    if len(module.event_shape) == 3:
        far = module.to_raw(torch.full((2, *module.event_shape), 50.0))
        assert torch.equal(far, torch.ones_like(far)) and module.to_raw(-50 * far).eq(0).all()


def test_smaller_choices_of_states_are_parts_of_larger_ones_and_depend_on_the_seed_alone(make: Make) -> None:
    module = make()
    few, shuffled, every = module.states("train", 3), module.states("train", 10**6), module.states("train")
    assert torch.equal(every, module.to_states(module.raw("train")))
    assert torch.equal(few, shuffled[:3]) and torch.equal(few, make(seed=0).states("train", 3))
    assert len(shuffled) == len(every) and not torch.equal(shuffled, module.states("train", 10**6, seed=1))
    assert module.binarize == "dynamic" or rows(shuffled) == rows(every)


def test_preprocessing_survives_a_checkpoint_and_needs_no_module(make: Make, tmp_path: Path) -> None:
    module = make()
    torch.save(module.preprocessing.to_dict(), tmp_path / "p.ckpt")
    again = Preprocessing.from_dict(torch.load(tmp_path / "p.ckpt", weights_only=True))
    assert again == module.preprocessing
    x = again.to_states(module.raw("val"))
    assert torch.equal(x, module.states("val")) and torch.equal(again.to_raw(x), module.to_raw(x))


def test_pictures_show_states_as_they_are(make: Make) -> None:
    module = make()
    shown = module.show(module.states("val"))
    n, shape = len(module.raw("val")), module.event_shape
    if len(shape) == 3:
        assert isinstance(shown, Images) and torch.equal(shown.values, module.to_raw(module.states("val")))
    elif isinstance(module, datamodules.Alignment | datamodules.Arrays | datamodules.FromDataset):
        assert shown is None
    elif isinstance(module, datamodules.IsingSamples):
        assert isinstance(shown, Images) and torch.equal(shown.values.flatten(1), (module.states("val") + 1) / 2)
    elif isinstance(module, datamodules.MixedTable):
        assert isinstance(shown, Table) and torch.equal(shown.values, module.raw("val"))
    elif isinstance(module, datamodules.EgoSmall):
        assert isinstance(shown, Graphs) and torch.equal(triangle(shown.adjacency), module.states("val"))
    else:
        assert isinstance(shown, Points) and shown.values.shape == (n, 2)
        assert (shown.values.abs() <= shown.extent).all()


def test_nothing_depends_on_or_moves_the_global_generator(make: Make) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = make()
    one.setup()
    x = states_of(one, one.train_dataloader())
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    two = make()
    two.setup()
    assert all(torch.equal(a, b) for a, b in zip(x, states_of(two, two.train_dataloader()), strict=True))


def test_too_large_a_batch_is_refused(make: Make) -> None:
    with pytest.raises(UserError, match=r"batch_size 100000 is more than the \d+ training samples"):
        make(batch_size=100_000).setup("fit")
    make(batch_size=100_000).setup("test")


def test_too_large_a_batch_for_several_processes_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebmlab.datamodules.tensor_datamodule.rank_and_world", lambda: (0, 1000))
    with pytest.raises(UserError, match="batch_size 4 on each of 1000 processes"):
        make().setup("fit")


def test_zero_batch_size_and_unknown_split_are_refused(make: Make) -> None:
    with pytest.raises(UserError, match="batch_size is 0"):
        make(batch_size=0)
    with pytest.raises(UserError, match="no split 'valid'; there are train, val, test"):
        make().raw("valid")


def test_two_processes_see_what_one_sees(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make(batch_size=6)
    whole = states_of(one, one.train_dataloader())
    halves = []
    for rank in range(2):
        monkeypatch.setattr("ebmlab.datamodules.tensor_loader.rank_and_world", lambda rank=rank: (rank, 2))
        module = make(batch_size=3)
        halves.append(states_of(module, module.train_dataloader()))
    assert len(whole) == len(halves[0]) == len(halves[1])
    for both, left, right in zip(whole, *halves, strict=True):
        assert rows(both) == rows(left) | rows(right) and not rows(left) & rows(right)


class Broken(TensorDataModule):
    """Loads the data that it is given, right or wrong."""

    def __init__(self, data: Tensor, labels: Tensor | None = None) -> None:
        super().__init__((2,), batch_size=1, seed=0)
        self.data, self.answers = data, labels

    def load(self, split: str) -> tuple[Tensor, Tensor | None]:
        return self.data, self.answers


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (
            torch.tensor([[0.0, 1], [2, torch.nan], [torch.inf, 0]]),
            None,
            "2 of 3 samples hold NaN or .* first is number 1, counted from 0",
        ),
        (torch.zeros(3, 4), None, r"the data have shape \(3, 4\); it must be \(N, 2\)"),
        (torch.zeros(0, 2), None, "with N at least 1"),
        (torch.zeros(3, 2), torch.zeros(2), "3 samples but 2 labels"),
    ],
)
def test_bad_data_are_named(data: Tensor, labels: Tensor | None, message: str) -> None:
    with pytest.raises(UserError, match=f"Broken, val split: .*{message}"):
        Broken(data, labels).setup("validate")
