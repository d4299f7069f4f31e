"""Negative chains are short until a share of the training has passed, and only in training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

from ebmlab.callbacks import ShortChains
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData, RatioMatching
from ebmlab.samplers import BlockGibbs


class Spy(BlockGibbs):
    """Keeps the lengths of the chains, and their states."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.states: list[list[Tensor]] = []

    def chain(self, energy: Any, x: Any, num_steps: int, leg: Any = None) -> Iterator[Any]:
        self.seen.append(num_steps)
        self.states.append([])
        for state, info in super().chain(energy, x, num_steps, leg):
            self.states[-1].append(state.x)
            yield state, info


def learner(num_steps: int = 4, burn_in: int | None = None) -> ContrastiveDivergence:
    return ContrastiveDivergence(RBM(64, 4), Spy(), start=FromData(), num_steps=num_steps, burn_in=burn_in)


BITS = {"binarize": True}


@pytest.mark.parametrize(
    ("short", "until", "expected"),
    [
        (1, 0.75, [1] * 6 + [4] * 2),
        (3, 0.5, [3] * 4 + [4] * 4),
        (1, 0, [4] * 8),
        (1, 1, [1] * 8),
        (1, 0.01, [1] + [4] * 7),
    ],
)
def test_chains_are_short_for_a_share_of_the_training(
    setup: Any, short: int, until: float, expected: list[int]
) -> None:
    model, trainer = setup([ShortChains(short, until)], learner=learner(), max_steps=8, max_epochs=-1)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert model.sampler.seen == expected
    assert model.num_steps == 4 and model.chain_steps is None
    model.draw(model.energy.random(2))
    assert model.sampler.seen[-1] == 4


@pytest.mark.parametrize(("short", "used"), [(1, 1), (3, 2)])
def test_negatives_are_the_last_states_that_burn_in_leaves(
    setup: Any, monkeypatch: pytest.MonkeyPatch, short: int, used: int
) -> None:
    """Of three or four steps the last two count, of one step its state; they weigh 1 together."""
    model, trainer = setup([ShortChains(short, 0.5)], learner=learner(burn_in=2), max_steps=2, max_epochs=-1)
    added: list[tuple[Tensor, float]] = []
    make = model.energy.weighted_sum

    def spied() -> Any:
        total = make()
        add = total.add
        total.add = lambda x, *units, weight=1.0: added.append((x, weight * len(x))) or add(x, *units, weight=weight)
        return total

    monkeypatch.setattr(model.energy, "weighted_sum", spied)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert [w for _, w in added] == pytest.approx([1, *[-1 / used] * used, 1, -1 / 2, -1 / 2])
    negatives = [x for x, weight in added if weight < 0]
    first, second = model.sampler.states
    expected = first[-used:] + second[-2:]
    assert all(torch.equal(x, y) for x, y in zip(negatives, expected, strict=True))


def test_a_run_that_breaks_off_leaves_the_learner_as_it_was(setup: Any) -> None:
    class Stop(Callback):
        def on_before_optimizer_step(self, *_: Any) -> None:
            raise RuntimeError("stopped")

    model, trainer = setup([ShortChains(), Stop()], learner=learner(), max_steps=4, max_epochs=-1)
    with pytest.raises(RuntimeError, match="stopped"):
        trainer.fit(model, datamodule=Digits(**BITS))
    assert model.sampler.seen == [1] and model.chain_steps is None


def test_a_resumed_run_goes_on_from_its_step(setup: Any, tmp_path: Path) -> None:
    class Keep(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 5:
                trainer.save_checkpoint(tmp_path / "at.ckpt")

    model, trainer = setup([ShortChains(), Keep()], learner=learner(), max_steps=8, max_epochs=-1)
    trainer.fit(model, datamodule=Digits(**BITS))
    again, trainer = setup([ShortChains()], learner=learner(), max_steps=8, max_epochs=-1)
    trainer.fit(again, datamodule=Digits(**BITS), ckpt_path=tmp_path / "at.ckpt")
    assert again.sampler.seen == [1, 4, 4]


def test_wrong_use_is_refused(setup: Any) -> None:
    with pytest.raises(UserError, match="num_steps is 0"):
        ShortChains(0)
    with pytest.raises(UserError, match=r"until is 1\.5"):
        ShortChains(1, 1.5)
    model, trainer = setup([ShortChains(5)], learner=learner())
    with pytest.raises(UserError, match="num_steps is 5, but must be at most the learner's, 4"):
        trainer.fit(model, datamodule=Digits(**BITS))
    model, trainer = setup([ShortChains()], learner=learner(), max_epochs=-1)
    with pytest.raises(UserError, match="training has no end"):
        trainer.fit(model, datamodule=Digits(**BITS))
    model, trainer = setup([ShortChains()], learner=RatioMatching(RBM(64, 4)))
    with pytest.raises(UserError, match="RatioMatching has no negative chains"):
        trainer.fit(model, datamodule=Digits(**BITS))


def test_a_rollback_that_lengthens_chains_lengthens_short_ones(setup: Any) -> None:
    class Lengthens(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            pl_module.num_steps = 6  # as `DivergenceGuard` does after a rollback with a factor of 1.5

    model, trainer = setup([ShortChains(2, 0.5), Lengthens()], learner=learner(), max_steps=4, max_epochs=-1)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert model.sampler.seen == [3, 3, 6, 6]
