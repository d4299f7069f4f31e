"""The negative chains grow over training, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.callbacks import Callback

from ebmlab.callbacks import GrowingChains
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
    ("start", "total", "expected"),
    [(1, 8, [1, 1, 2, 2, 3, 3, 4, 4]), (3, 4, [3, 3, 4, 4]), (4, 3, [4, 4, 4]), (1, 2, [1, 3])],
)
def test_each_length_has_an_equal_share(setup: Any, start: int, total: int, expected: list[int]) -> None:
    model, trainer = setup([GrowingChains(start)], learner=learner(), max_steps=total, max_epochs=-1)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert model.sampler.seen == expected
    assert model.num_steps == 4 and model.chain_steps is None
    model.draw(model.energy.random(2))
    assert model.sampler.seen[-1] == 4


def test_negatives_are_the_last_states_that_burn_in_leaves(setup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four steps, of which the last two count: of chains of 1 to 4 steps they are 1, 2, 2 and 2 states."""
    model, trainer = setup([GrowingChains()], learner=learner(burn_in=2), max_steps=4, max_epochs=-1)
    added: list[float] = []
    make = model.energy.weighted_sum

    def spied() -> Any:
        total = make()
        add = total.add
        total.add = lambda x, hidden=None, weight=1.0: added.append(weight * len(x)) or add(x, hidden, weight)
        return total

    monkeypatch.setattr(model.energy, "weighted_sum", spied)
    trainer.fit(model, datamodule=Digits(**BITS))
    assert added == pytest.approx([1, -1] + [1, -1 / 2, -1 / 2] * 3)


def test_a_resumed_run_goes_on_from_its_length(setup: Any, tmp_path: Path) -> None:
    class Keep(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 5:
                trainer.save_checkpoint(tmp_path / "at.ckpt")

    model, trainer = setup([GrowingChains(), Keep()], learner=learner(), max_steps=8, max_epochs=-1)
    trainer.fit(model, datamodule=Digits(**BITS))
    again, trainer = setup([GrowingChains()], learner=learner(), max_steps=8, max_epochs=-1)
    trainer.fit(again, datamodule=Digits(**BITS), ckpt_path=tmp_path / "at.ckpt")
    assert again.sampler.seen == [3, 4, 4]


def test_wrong_use_is_refused(setup: Any) -> None:
    with pytest.raises(UserError, match="start is 0"):
        GrowingChains(0)
    model, trainer = setup([GrowingChains(5)], learner=learner())
    with pytest.raises(UserError, match="start is 5, but the learner's chains end at num_steps = 4"):
        trainer.fit(model, datamodule=Digits(**BITS))
    model, trainer = setup([GrowingChains()], learner=learner(), max_epochs=-1)
    with pytest.raises(UserError, match="training has no end"):
        trainer.fit(model, datamodule=Digits(**BITS))
    model, trainer = setup([GrowingChains()], learner=RatioMatching(RBM(64, 4)))
    with pytest.raises(UserError, match="RatioMatching has no negative chains"):
        trainer.fit(model, datamodule=Digits(**BITS))
