"""A user's own data sets of PyTorch: in memory, streamed, and bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from ebmlab.data.interface import chosen
from ebmlab.datamodules import FromDataset


class Items(Dataset[Any]):
    """A data set whose i-th item is `make(i)`."""

    def __init__(self, make: Callable[[int], Any], n: int = 20) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


class Numbered(Dataset[Tensor]):
    def __getitem__(self, i: int) -> Tensor:
        return torch.ones(2)


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(torch.randn(20, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: torch.tensor([float(i), -float(i)]),
        lambda i: (np.array([i, -i]), i % 3),
        lambda i: [torch.tensor([i, -i]), torch.tensor(i % 3)],
        lambda i: {"x": [i, -i], "kind": "a"},
        lambda i: [float(i), -float(i)],
    ],
)
def test_items_in_every_form_that_holds_a_sample(make: Callable[[int], Any]) -> None:
    data = FromDataset(Items(make), standardize=False, batch_size=4)
    data.setup()
    expected = [[i, -i] for i in data.part("train")[1].tolist()]
    assert data.states("train").tolist() == expected
    labels, labelled = data.labels("train"), isinstance(make(0), list | tuple) and not isinstance(make(0)[0], float)
    assert (labels is not None) == labelled == (data.num_classes is not None)
    if labels is not None:
        assert labels.tolist() == [i % 3 for i, _ in expected] and data.num_classes == 3


def test_pictures_of_a_dataset_and_their_labels() -> None:
    data = FromDataset(Items(lambda i: (Image.new("RGB", (3, 2), (i, 0, 255)), i % 2)), batch_size=4)
    assert data.event_shape == (3, 2, 3)
    raw = data.raw("test")
    assert raw[:, 0].float().mean((1, 2)).tolist() == data.part("test")[1].tolist() and (raw[:, 2] == 255).all()


def test_streaming_gives_what_memory_gives_and_resumes_within_an_epoch() -> None:
    source = TensorDataset(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2)
    memory, streamed, workers = (
        FromDataset(source, batch_size=6, **options)
        for options in ({}, {"streamed": True}, {"streamed": True, "num_workers": 2})
    )
    before = torch.get_rng_state()
    expected = list(memory.train_dataloader())
    for data in (streamed, workers):
        data.setup("fit")
        assert data.preprocessing == memory.preprocessing
        loader = data.train_dataloader()
        batches = iter(loader)
        first = [next(batches) for _ in range(2)]
        state = loader.state_dict()
        again = data.train_dataloader()
        again.load_state_dict(state)
        for one, two in zip(expected, first + list(again), strict=True):
            torch.testing.assert_close(one, two)
        assert torch.equal(data.states("val"), memory.states("val"))
        assert torch.equal(data.states("test", 2), memory.states("test", 2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_are_drawn_anew_only_where_data_are_streamed(workers: int) -> None:
    def make(i: int) -> Tensor:
        return torch.arange(3.0) + i * (1 + torch.rand(()))

    options: dict[str, Any] = {"batch_size": 16, "standardize": False, "num_workers": workers}
    before = torch.get_rng_state()
    memory = FromDataset(Items(make), **options)
    with pytest.warns(UserWarning, match="training items differ from one reading to the next.* set streamed to true"):
        memory.setup("fit")
    assert torch.equal(before, torch.get_rng_state())
    streamed = FromDataset(Items(make), streamed=True, **options)
    streamed.setup("fit")
    for data, fresh in ((memory, False), (streamed, True)):
        loader, epochs = data.train_dataloader(), []
        for number in range(2):
            loader.sampler.set_epoch(number)
            epochs.append(torch.cat(list(loader)).sort(0).values)
        assert torch.equal(*epochs) != fresh
    FromDataset(Items(lambda i: torch.arange(3.0) + i), **options).setup("fit")  # no warning


@pytest.mark.parametrize(
    ("options", "usual", "odd", "wrong"),
    [
        ({"domain": "ordinal"}, 2.0, 5.0, "but num_values is 3: they must be from 0 to 2"),
        ({"domain": "binary"}, 1.0, 0.5, "bits must be 0 and 1"),
        ({"domain": "spin"}, -1.0, 0.0, "spins must be -1 and +1"),
        ({"domain": "binary", "binarize": True}, 1.0, 2.0, "what becomes bits must lie between 0 and 1"),
        ({}, 1.0, np.nan, "1 of 10 samples hold NaN or infinity"),
    ],
)
def test_streamed_samples_that_were_not_measured_are_checked(
    options: dict[str, Any], usual: float, odd: float, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebmlab.datamodules.from_dataset.MEASURED", 20)
    values = [[1.0, usual] for _ in range(100)]
    data = FromDataset(Items(values.__getitem__, 100), streamed=True, batch_size=10, **options)
    data.setup("fit")
    _, index = data.part("train")
    measured = set(index[chosen(len(index), 20, 0)].tolist())
    values[next(i for i in index.tolist() if i not in measured)] = [1.0, odd]
    assert wrong in one_line(lambda: list(data.train_dataloader()))
    assert wrong.replace("of 10", "of 80") in one_line(lambda: data.states("train"))
    assert list(data.val_dataloader())


def test_bad_datasets_are_named() -> None:
    for make, options, wrong in (
        (lambda i: {"image": [i]}, {}, "an item has no x, but image: set `field` to one of them"),
        (lambda i: "word", {}, "a sample is of the type str"),
        (lambda i: torch.zeros(1 + i // 10), {}, "samples have different shapes, (1,) and (2,)"),
        (lambda i: torch.zeros(2), {"domain": "categorical"}, "domain categorical needs num_values"),
        (
            lambda i: [i],
            {"streamed": True, "binarize": "dynamic", "domain": "binary"},
            "binarize dynamic draws from data",
        ),
    ):
        data: Any = Items(make)  # type: ignore[arg-type]
        assert wrong in one_line(lambda data=data, o=options: FromDataset(data, batch_size=4, **o).setup("fit")), wrong
    assert "train is empty" in one_line(lambda: FromDataset(Items(lambda i: i, 0)))
    assert "train has no length: give Numbered a __len__" in one_line(lambda: FromDataset(Numbered()))
    assert "is an IterableDataset" in one_line(lambda: FromDataset(Endless(), streamed=True))
    assert len(FromDataset(Endless(), batch_size=4).raw("train")) == 16
    assert FromDataset(Items(lambda i: float(i)), batch_size=4).raw("val").shape == (2, 1)
