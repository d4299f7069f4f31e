"""EquilibriumCheck says which models were trained out of equilibrium."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from ebmlab.callbacks import EquilibriumCheck
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import adversarial_accuracy
from ebmlab.learners import ContrastiveDivergence, FromNoise, ReplayBuffer
from ebmlab.samplers import BlockGibbs, Info, Sampler, State

DATA = Digits(binarize=True)


class Clock(Sampler):
    """Chains of up to five steps end at test images, longer ones at noise, or the other way round.

    Args:
        late: the other way round.
        flipped: what share of an image's pixels the noise turns over.
    """

    domains = BlockGibbs.domains
    exact = True  # type: ignore[assignment]

    def __init__(self, late: bool = False, flipped: float = 0.5) -> None:
        super().__init__()
        self.late, self.flipped = late, flipped

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        step = state.step + 1
        good = DATA.states("test")[: len(state.x)].flatten(1)
        flips = torch.bernoulli(torch.full_like(state.x, self.flipped))
        x = good if (step > 5) == self.late else (good - flips).abs()
        return State(x=x, step=step), Info(x.new_ones(len(x)), x.new_zeros(len(x)))


@pytest.mark.parametrize("late", [False, True])
def test_samples_that_get_worse_are_warned_of(setup: Any, late: bool) -> None:
    callback = EquilibriumCheck(num_samples=150, longer=4)
    learner = ContrastiveDivergence(RBM(64, 4), Clock(late), start=FromNoise(), num_steps=5)
    _, trainer = setup([callback], learner=learner, limit_val_batches=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.validate(learner, datamodule=Digits(binarize=True), verbose=False)
    said = [str(w.message) for w in caught if "out of equilibrium" in str(w.message)]
    found = trainer.callback_metrics
    real = DATA.states("train", 150, 0).flatten(1)
    shares = adversarial_accuracy(real, DATA.states("test")[:150].flatten(1))
    good = shares.mean
    accuracies = [float(found[f"equilibrium/accuracy_{name}"]) for name in ("short", "long")]
    assert accuracies[late] == pytest.approx(good) and accuracies[not late] > 0.85 and good < 0.75
    assert bool(said) != late
    if said:
        larger = max(float(found[f"equilibrium/{what}_long"]) for what in ("data", "samples"))
        assert f"{shares.larger:.2f} after 5 steps, but {larger:.2f} after 20" in said[0]

    def mean_energy(x: Tensor) -> float:
        return float(learner.energy(x).mean().detach())

    assert float(found["equilibrium/energy_data"]) == pytest.approx(mean_energy(real), rel=1e-5)
    name = "equilibrium/energy_long" if late else "equilibrium/energy_short"
    assert float(found[name]) == pytest.approx(mean_energy(DATA.states("test")[:150].flatten(1)), rel=1e-5)


def test_samples_that_spread_too_widely_are_warned_of(setup: Any) -> None:
    """Data are told from them, they are not told from data, and the mean of both shares is that of a good model."""
    learner = ContrastiveDivergence(RBM(64, 4), Clock(flipped=0.15), start=FromNoise(), num_steps=5)
    _, trainer = setup([EquilibriumCheck(num_samples=150, longer=4)], learner=learner, limit_val_batches=1.0)
    with pytest.warns(UserWarning, match=r"with accuracy 0\.52 after 5 steps, but \d\.\d\d after 20"):
        trainer.validate(learner, datamodule=Digits(binarize=True), verbose=False)
    found = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert found["equilibrium/data_long"] > 0.95 and found["equilibrium/samples_long"] < 0.15
    assert abs(found["equilibrium/accuracy_long"] - found["equilibrium/accuracy_short"]) < 0.1
    assert abs(found["equilibrium/data_short"] - 0.5) < 0.05 and abs(found["equilibrium/samples_short"] - 0.5) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "rate", "out"), [(FromNoise(), 0.02, True), (ReplayBuffer(100), 0.005, False)])
def test_short_chains_from_noise_train_out_of_equilibrium_and_persistent_ones_do_not(
    setup: Any, chains: Any, rate: float, out: bool
) -> None:
    torch.manual_seed(0)
    adam = partial(torch.optim.Adam, lr=rate)
    learner = ContrastiveDivergence(RBM(64, 64), BlockGibbs(), start=chains, num_steps=3, optimizer=adam)
    callback = EquilibriumCheck(every_n_epochs=40)
    _, trainer = setup([callback], learner=learner, max_epochs=40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(learner, datamodule=Digits(binarize=True, batch_size=100))
    assert any("out of equilibrium" in str(w.message) for w in caught) == out
    found = trainer.callback_metrics
    assert (float(found["equilibrium/accuracy_long"]) > 0.9) == out


def test_settings() -> None:
    with pytest.raises(UserError, match="longer is 1, but must be at least 2"):
        EquilibriumCheck(longer=1)
    with pytest.raises(UserError, match="num_samples is 1, but must be at least 2"):
        EquilibriumCheck(num_samples=1)
