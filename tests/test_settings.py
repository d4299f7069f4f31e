"""Settings that are numbers: one that is not finite, or too small for floating point, is refused everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line

from ebmlab.callbacks import Density2D, EnergyLandscape
from ebmlab.datamodules import FromDataset
from ebmlab.energies import GRBM, MLP, RBM, Mixture
from ebmlab.energies.paths.tempering import Scaled
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, EnergyDiscrepancy, ReplayBuffer
from ebmlab.samplers import (
    ACS,
    DMALA,
    DULA,
    GWG,
    AnyScale,
    BlockGibbs,
    DiscreteSVGD,
    Gibbs,
    GibbsLangevin,
    HammingBall,
    Langevin,
    PathAuxiliary,
    RandomWalk,
    RelaxedMALA,
    Tempered,
)
from ebmlab.samplers.initial_states import FromMode
from ebmlab.samplers.tuners import ACSTuner, TargetAcceptance
from ebmlab.studies.targets import LogisticPosterior, ModeGrid

RBM_CD = partial(ContrastiveDivergence, RBM(4, 3), BlockGibbs())
GRBM_CD = partial(ContrastiveDivergence, GRBM(4, 3), Langevin(0.1))
SETTINGS: dict[str, Callable[[Any], object]] = {
    "DMALA": DMALA,
    "DMALA precondition": lambda v: DMALA(0.1, precondition=[1.0, v]),
    "DULA": DULA,
    "AnyScale": lambda v: AnyScale("first", step_size=v),
    "ACS alpha_max": lambda v: ACS(alpha_max=v, alpha_min=0.1),
    "ACS step_sizes": lambda v: ACS(step_sizes=[0.1, v], balances=[0.5, 0.5]),
    "AdaptiveDMALA": AdaptiveDMALA,
    "AdaptiveDMALA gain": lambda v: AdaptiveDMALA(0.1, gain=v),
    "DiscreteSVGD": DiscreteSVGD,
    "DiscreteSVGD temperature": lambda v: DiscreteSVGD(0.1, temperature=v),
    "GibbsLangevin": GibbsLangevin,
    "GibbsLangevin noise": lambda v: GibbsLangevin(0.1, noise_temperature=v),
    "Langevin": Langevin,
    "Langevin temperature": lambda v: Langevin(0.1, temperature=v),
    "RelaxedMALA": RelaxedMALA,
    "TargetAcceptance gain": lambda v: TargetAcceptance(gain=v),
    "ACSTuner": lambda v: ACSTuner(alpha_ceil=v),
    "l1": lambda v: RBM_CD(l1=v),
    "energy_l2": lambda v: RBM_CD(energy_l2=v),
    "gradient_penalty": lambda v: GRBM_CD(gradient_penalty=v),
    "data_noise": lambda v: GRBM_CD(data_noise=v),
    "stabilizer": lambda v: EnergyDiscrepancy(stabilizer=v),
    "learning rate": lambda v: RBM_CD(optimizer=partial(torch.optim.SGD, lr=v)).configure_optimizers(),
    "max_value": lambda v: FromDataset(torch.ones(9, 3), max_value=v),
    "MLP gain": lambda v: MLP(4, 3, gain=v),
    "variance": lambda v: ModeGrid(4, variance=v),
    "mixture": lambda v: Mixture([RBM(4, 3), RBM(4, 3)], [1.0, v]),
    "temperature": lambda v: Scaled(RBM(4, 3), v),
    "features": lambda v: LogisticPosterior([[1.0, v if v > 1 or math.isnan(v) else math.nan]], [1]),
    "window": lambda v: Density2D(extent=v),
    "landscape": lambda v: EnergyLandscape(extent=v),
}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e-45, 1e39])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_is_no_finite_normal_number_is_refused(setting: str, value: float) -> None:
    one_line(lambda: SETTINGS[setting](value))


NO_NUMBERS = ["a", "0.1", b"1", 1j, float, {}, torch.tensor([0.1, 0.2]), np.array([0.1, 0.2]), torch.rand(40, 3)]
LISTS = ("DMALA precondition", "ACS step_sizes", "mixture", "features", "learning rate")


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in LISTS])
def test_a_setting_that_is_no_single_number_is_refused(setting: str) -> None:
    for value in (*NO_NUMBERS, True, np.bool_(True)):
        one_line(lambda value=value: SETTINGS[setting](value))


def test_a_single_number_of_any_kind_is_taken() -> None:
    for value in (1, np.float32(0.1), np.array(0.1), torch.tensor(0.1), Fraction(1, 10)):
        DMALA(value)  # type: ignore[arg-type]
    for value in ("a", None, True, torch.tensor([0.1, 0.2])):
        with pytest.raises(UserError, match=r"balance is .*, but must be a number"):
            DMALA(0.1, balance=value)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"window is .*, but must be a whole number"):
            DMALA(0.1, window=[value])  # type: ignore[arg-type]


COUNTS: dict[str, Callable[[Any], object]] = {
    "ACS": lambda v: ACS(cycle_length=v),
    "FromMode": FromMode,
    "GWG": GWG,
    "Gibbs": Gibbs,
    "GibbsLangevin": lambda v: GibbsLangevin(0.1, num_inner_steps=v),
    "HammingBall": HammingBall,
    "HammingBall radius": lambda v: HammingBall(4, v),
    "PathAuxiliary": PathAuxiliary,
    "RandomWalk": RandomWalk,
    "ReplayBuffer": ReplayBuffer,
    "Tempered": lambda v: Tempered(Gibbs(), num_temperatures=v),
    "Tempered swaps": lambda v: Tempered(Gibbs(), swap_every=v),
    "num_steps": lambda v: RBM_CD(num_steps=v),
}


@pytest.mark.parametrize("setting", COUNTS)
def test_a_count_that_is_no_whole_number_from_1_on_is_refused(setting: str) -> None:
    for value in (1.5, 2.0, math.inf, math.nan, np.float64(3.0), True, np.bool_(True), None, *NO_NUMBERS):
        with pytest.raises(UserError, match="but must be a whole number"):
            COUNTS[setting](value)
    for value in (0, -1, np.int64(0)):
        with pytest.raises(UserError, match="but must be at least 1"):
            COUNTS[setting](value)
    COUNTS[setting](np.int64(2))


@pytest.mark.parametrize("step_size", [1e-18, 1e-6, 1e6, 1e18])
def test_with_the_smallest_and_largest_step_sizes_chains_stay_among_the_numbers(step_size: float) -> None:
    torch.manual_seed(0)
    energy, real = RBM(4, 3), GRBM(4, 3)
    for sampler in (DMALA(step_size), DULA(step_size), AnyScale("first", step_size), AnyScale("max", step_size)):
        x, info = sampler.sample(energy, energy.random(5), 3)
        assert ((x == 0) | (x == 1)).all() and info.acceptance.isfinite().all(), type(sampler).__name__
    if step_size <= 1:
        x, info = Langevin(step_size, adjust_from=0).sample(real, real.random(5), 3)
        assert x.isfinite().all() and info.acceptance.isfinite().all()
