"""Negative chains are short until a share of the training has passed, and only in training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.callbacks import Callback

from ebmlab.callbacks import ShortChains
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData, RatioMatching
from ebmlab.samplers import BlockGibbs


class Spy(BlockGibbs):
    """Keeps the lengths of the chains, and for each the states that it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def chain(self, energy: Any, x: Any, num_steps: int) -> Iterator[Any]:  # type: ignore[override]
        self.seen.append(num_steps)
        return super().chain(energy, x, num_steps)


def learner(num_steps: int = 4, burn_in: int | None = None) -> ContrastiveDivergence:
    return ContrastiveDivergence(RBM(64, 4), Spy(), FromData(), num_steps, burn_in)


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


@pytest.mark.parametrize(("short", "negatives"), [(1, [-1.0]), (3, [-1 / 2] * 2)])
def test_negatives_are_the_last_states_that_burn_in_leaves(
    setup: Any, monkeypatch: pytest.MonkeyPatch, short: int, negatives: list[float]
) -> None:
    """Of four steps the last two count, of one step its state."""
    model, trainer = setup([ShortChains(short, 0.5)], learner=learner(burn_in=2), max_steps=2, max_epochs=-1)
    added: list[float] = []
    make = model.energy.weighted_sum

    def spied() -> Any:
        total = make()
        add = total.add
        total.add = lambda x, hidden=None, weight=1.0: added.append(weight * len(x)) or add(x, hidden, weight)
        return total

    monkeypatch.setattr(model.energy, "weighted_sum", spied)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert added == pytest.approx([1, *negatives, 1, -1 / 2, -1 / 2])


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
