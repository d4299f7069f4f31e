"""The loader's order and its shards; a resumed run sees the same batches as an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.datamodules import TensorDataModule
from ebmlab.datamodules.tensor_loader import TensorLoader

# Lightning 2.6 flattens its loaders with a class that newer versions of torch will rename.


def numbers(loader: TensorLoader) -> list[int]:
    return [int(i) for x in loader for i in x]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(("shuffle", "drop_last"), [(True, True), (False, False)])
def test_shards_are_disjoint_and_complete_and_have_equal_batches(
    world: int, shuffle: bool, drop_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    sizes = []
    for rank in range(world):
        monkeypatch.setattr("ebmlab.datamodules.tensor_loader.rank_and_world", lambda rank=rank: (rank, world))
        loader = TensorLoader(torch.arange(23), 3, shuffle, drop_last=drop_last)
        batches = list(loader)
        assert len(batches) == len(loader)
        sizes.append([len(x) for x in batches])
        seen.append([int(i) for x in batches for i in x])
    assert all(s == sizes[0] for s in sizes)
    together = [i for part in seen for i in part]
    assert len(set(together)) == len(together)
    expected = 23 // (3 * world) * 3 * world if drop_last else 23 - 23 % world
    assert len(together) == expected
    if not shuffle:
        assert sorted(together) == list(range(expected))


def test_orders_depend_on_epoch_and_seed_alone() -> None:
    data = torch.arange(1000)
    orders = {}
    for seed in range(3):
        for epoch in range(3):
            loader = TensorLoader(data, 10, shuffle=True, seed=seed)
            loader.sampler.set_epoch(epoch)
            orders[seed, epoch] = numbers(loader)
            torch.manual_seed(seed + epoch)
            assert numbers(loader) == orders[seed, epoch]
            assert sorted(orders[seed, epoch]) == list(range(1000))
    assert len({tuple(order) for order in orders.values()}) == 9


def test_shuffling_is_uniform() -> None:
    counts = torch.zeros(5, 5)
    loader = TensorLoader(torch.arange(5), 5, shuffle=True)
    for epoch in range(2000):
        loader.set_epoch(epoch)
        counts[torch.arange(5), next(iter(loader))] += 1
    # With 16 degrees of freedom, 45 is exceeded with probability 1e-4 if the law is uniform.
    assert float(((counts - 400) ** 2 / 400).sum()) < 45


def test_a_broken_off_epoch_starts_anew_unless_a_position_is_loaded() -> None:
    loader = TensorLoader(torch.arange(10), 2)
    for x in loader:
        if int(x[0]) == 4:
            break
    assert loader.state_dict() == {"epoch": 0, "batches": 3}
    assert numbers(loader) == list(range(10))
    loader.load_state_dict({"epoch": 0, "batches": 3})
    loader.set_epoch(0)
    assert numbers(loader) == list(range(6, 10))
    assert numbers(loader) == list(range(10))
    loader.load_state_dict({"epoch": 0, "batches": 3})
    loader.set_epoch(1)
    assert numbers(loader) == list(range(10))


class Numbers(TensorDataModule):
    """The integers 0 to 22. An epoch has five batches of 4 and leaves out three numbers."""

    def __init__(self) -> None:
        super().__init__((1,), batch_size=4, seed=7)

    def load(self, split: str) -> tuple[Tensor, None]:
        return torch.arange(23.0).unsqueeze(1), None


class Recorder(pl.LightningModule):
    """Records its training batches; raises before step `die_at`."""

    def __init__(self, die_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.die_at = die_at
        self.seen: dict[int, list[float]] = {}

    def training_step(self, x: Tensor, batch_idx: int) -> Tensor:
        if self.global_step == self.die_at:
            raise KeyError("killed")
        assert self.global_step not in self.seen
        self.seen[self.global_step] = x.flatten().tolist()
        return (self.weight - x.mean()).square()

    def validation_step(self, x: Tensor, batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(folder: Path, die_at: int | None = None, resume: Path | None = None, **options: Any) -> Recorder:
    checkpoint = options.pop("checkpoint")
    model = Recorder(die_at)
    trainer = quiet_trainer(
        folder,
        enable_checkpointing=True,
        callbacks=[pl.callbacks.ModelCheckpoint(folder, filename="{step}", save_top_k=-1, **checkpoint)],
        **{"max_epochs": 4, **options},
    )
    try:
        trainer.fit(model, datamodule=Numbers(), ckpt_path=resume, weights_only=True)
    except KeyError:
        assert die_at is not None
    return model


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.parametrize(
    ("saved_at", "die_at", "checkpoint", "options"),
    [
        (7, 8, {"every_n_train_steps": 7}, {}),  # in the middle of epoch 1
        (3, 4, {"every_n_train_steps": 3}, {}),  # in the middle of epoch 0
        (10, 12, {"every_n_train_steps": 5}, {}),  # on the last batch of epoch 1
        (10, 12, {"every_n_epochs": 1}, {}),  # after the epoch, when validation is done
        (10, 11, {"every_n_epochs": 1, "save_on_train_epoch_end": True}, {}),
        (10, 11, {"every_n_epochs": 1, "save_on_train_epoch_end": True}, {"limit_val_batches": 0}),
        (7, 9, {"every_n_train_steps": 7}, {"val_check_interval": 2}),
        (8, 9, {"every_n_train_steps": 8}, {"limit_train_batches": 3}),
    ],
)
def test_a_resumed_run_sees_the_same_batches(
    saved_at: int, die_at: int, checkpoint: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    whole = fit(tmp_path / "whole", checkpoint=checkpoint, **options)
    dead = fit(tmp_path / "dead", die_at, checkpoint=checkpoint, **options)
    saved = tmp_path / "dead" / f"step={saved_at}.ckpt"
    resumed = fit(tmp_path / "dead", resume=saved, checkpoint=checkpoint, **options)
    per_epoch = options.get("limit_train_batches", 5)
    assert len(whole.seen) == 4 * per_epoch
    assert len({tuple(x) for x in whole.seen.values()}) == 4 * per_epoch
    assert dead.seen == {step: x for step, x in whole.seen.items() if step < die_at}
    assert resumed.seen == {step: x for step, x in whole.seen.items() if step >= saved_at}
    assert torch.equal(resumed.weight, whole.weight)


@pytest.mark.filterwarnings("ignore:You requested to overfit")
def test_overfitting_repeats_the_same_batches(tmp_path: Path) -> None:
    seen = fit(tmp_path, checkpoint={}, overfit_batches=2).seen
    assert seen[0] == seen[2] == seen[4] and seen[1] == seen[3] and seen[0] != seen[1]
