from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import GibbsLangevin


class Squares(TensorDataModule):
    """A bright square in one of four corners of a 6x6 image; the corner is the label."""

    name = "squares"
    num_classes = 4
    max_value = 255.0
    mean = (0.3,)
    std = (0.4,)

    def __init__(self, batch_size: int = 16) -> None:
        super().__init__((1, 6, 6), batch_size, seed=0)

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(len(split))
        labels = torch.randint(4, (64,), generator=generator)
        images = 40 * torch.rand(64, 1, 6, 6, generator=generator)
        for image, label in zip(images, labels.tolist(), strict=True):
            row, column = 3 * (label // 2), 3 * (label % 2)
            image[:, row : row + 3, column : column + 3] += 200
        return images.byte(), labels


IGNORED = [
    "ignore:.*LeafSpec.*is deprecated",  # Lightning's, on newer releases of torch
    "ignore:Attribute .* is an instance of `nn.Module`",  # its suggestion breaks load_from_checkpoint
    "ignore:.*does not have many workers",
    "ignore:GPU available but not used",
    "ignore:The number of training batches",
    "ignore:AIS. do not trust",  # the chains of tests are short
    "ignore:Checkpoint directory .* exists and is not empty",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            for line in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(line))


Setup = Callable[..., tuple[ContrastiveDivergence, pl.Trainer]]


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache of trained classifiers for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("EBMLAB_CACHE", str(folder))
        yield folder


@pytest.fixture
def squares() -> Squares:
    return Squares()


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Makes a learner, the same one each time, and a trainer in the test's folder."""

    def make(
        callbacks: list[pl.Callback], folder: str = "run", **settings: Any
    ) -> tuple[ContrastiveDivergence, pl.Trainer]:
        torch.manual_seed(0)
        learner = settings.pop("learner", None) or ContrastiveDivergence(
            GRBM(36, 12), GibbsLangevin(step_size=0.3, num_inner_steps=3), start=FromNoise(), num_steps=3
        )
        options = {"max_epochs": 2, "num_sanity_val_steps": 0, "limit_val_batches": 0, "use_distributed_sampler": False}
        return learner, quiet_trainer(tmp_path / folder, callbacks=callbacks, **(options | settings))

    return make
