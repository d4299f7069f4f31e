"""A loaded model takes and gives raw numbers of every kind: energies, densities, samples."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_trained import KINDS, PASS, binary_model, model_of, trained, wild
from scipy import stats
from torch import nn

import ebmlab
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Arrays
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, RBM, ScalarPotts, Sum
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData, Learner
from ebmlab.samplers import (
    Gibbs,
)
from ebmlab.trained import TrainedModel

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


@pytest.mark.parametrize("kind", KINDS)
def test_energies_of_raw_data_are_the_learners_bit_for_bit(kind: str, tmp_path: Path) -> None:
    learner, data = KINDS[kind]()
    model = ebmlab.load(trained(tmp_path, learner, data))
    raw = data.raw("val")[:50]
    expected = learner(data.to_states(raw))
    assert torch.equal(model.energy(raw), expected) and expected.std() > 0
    again = model.energy(raw.numpy())
    assert isinstance(again, np.ndarray) and np.array_equal(again, expected.detach().numpy())
    assert type(model.learner.energy) is type(learner.energy) and type(model.learner.sampler) is type(learner.sampler)
    rebuilt = Learner.load_from_checkpoint(tmp_path / "model.ckpt")
    assert all(torch.equal(a, b) for a, b in zip(rebuilt.parameters(), learner.parameters(), strict=True))


def test_pixels_are_told_from_levels_and_bits() -> None:
    model = model_of(RBM(4, 2), Preprocessing((1, 2, 2), scale=255.0, binarize=True, unit=True))
    levels = torch.tensor([[[[0, 200], [255, 90]]]], dtype=torch.uint8)
    assert torch.equal(model.energy(levels), model.energy(levels / 255))
    assert model.energy(levels.flatten(1).numpy()).tolist() == model.energy(levels).tolist()
    with pytest.raises(UserError, match="floating-point numbers up to 255, but those of the training data lie in"):
        model.energy(levels.float())
    with pytest.raises(UserError, match="the integers 0 and 1, but integers of the training data are levels"):
        model.energy(levels // 255)


@pytest.mark.parametrize("levels", [False, True])
def test_densities_of_raw_numbers_integrate_to_one(levels: bool) -> None:
    """A GRBM of two visible units, by quadrature over the plane of raw numbers."""
    scale = {"scale": 255.0, "unit": True} if levels else {"float_scale": 1.0}
    std = (0.31, 0.17) if levels else (31.0, 0.5)
    form = Preprocessing((2,), mean=(0.4, -0.2), std=std, **scale)
    model = model_of(wild(GRBM(2, 3)), form)
    unit = form.scale
    axes = [unit * torch.linspace(m - 14 * s, m + 14 * s, 401) for m, s in zip(form.mean, std, strict=True)]
    areas = [float(axis[1] - axis[0]) for axis in axes]
    raw = torch.cartesian_prod(*axes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ebmlab.trained.numbers.check_scale", lambda *_: None)  # the plane goes beyond black and white
        found = model.log_likelihood(raw / unit)  # floating-point pixels are fractions
        truth = -model.energy(raw[:5] / unit) - float(exact_log_z(model.learner.energy))  # of the states
    assert float(found.values.double().exp().sum()) * math.prod(areas) == pytest.approx(1, abs=1e-3)
    assert found.bits_per_dim == pytest.approx(-found.mean / math.log(4))
    assert torch.allclose(found.values[:5] + math.log(unit**2 * std[0] * std[1]), truth, atol=1e-3)


def test_one_standard_deviation_for_each_channel_counts_for_all_its_pixels() -> None:
    form = Preprocessing((3, 2, 2), scale=255.0, mean=(0.1, 0.2, 0.3), std=(0.2, 0.3, 0.4))
    jacobian = torch.autograd.functional.jacobian(lambda raw: form.to_states(raw / 255), torch.rand(1, 3, 2, 2))
    assert form.log_jacobian(Real(12)) == pytest.approx(float(torch.logdet(jacobian.view(12, 12))), abs=1e-3)
    assert form.log_jacobian(Binary(12)) == 0


def test_samples_are_in_raw_units() -> None:
    energy = GRBM(3, 2)
    nn.init.zeros_(energy.W)
    model = model_of(energy, Preprocessing((3,), mean=(5.0, 6.0, 7.0), std=(2.0, 3.0, 4.0)))
    torch.manual_seed(0)
    x = model.sample(4000, num_steps=3, batch_size=1500)
    for i in range(3):
        assert stats.kstest(x[:, i].numpy(), stats.norm(5 + i, 2 + i).cdf).pvalue > PASS


def test_a_loaded_energy_composes() -> None:
    model = model_of(wild(RBM(4, 3)))
    both = Sum([model.learner.energy, model.learner.energy])
    raw = Binary(4).random(5)
    assert torch.allclose(both(model.states(raw)), 2 * model.energy(raw))


def test_a_class_number_column_scores_as_its_one_hot_state(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 3, (50, 4)))
    data = Arrays(str(tmp_path / "x.npy"), domain="categorical")
    learner = ContrastiveDivergence(ScalarPotts.lattice(2, 3, coupling=0.4), Gibbs(), start=FromData())
    learner.energy.requires_grad_(True)
    model = TrainedModel(learner, data.preprocessing)
    raw = np.array([[0, 1, 2, 2]])
    assert model.energy(raw) == pytest.approx(float(learner.energy(data.to_states(torch.from_numpy(raw)))))
    with pytest.raises(UserError, match="classes must be whole numbers from 0 to 2"):
        model.energy(np.array([[0, 1, 2, 3]]))


@pytest.mark.parametrize("number", [">f4", ">f8", ">i2", ">i8", "<f8", "f2", "?", "i1", "u2", "u8", "g"])
def test_numbers_of_every_type_and_order_of_bytes_are_read(number: str) -> None:
    bits = np.array([[0, 1, 1, 0, 1, 0]])
    model, given = binary_model(), bits.astype(number)
    given.flags.writeable = False
    for form in (given, given[:, ::-1].copy()[:, ::-1]):
        assert np.array_equal(model.energy(form), model.energy(bits))
        assert np.array_equal(model.grad_log_prob(form), model.grad_log_prob(bits))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.uint16, torch.bfloat16, torch.float8_e5m2]
)
def test_tensors_of_every_type_are_read(dtype: torch.dtype) -> None:
    bits = torch.tensor([[0.0, 1, 1, 0, 1, 0]])
    model = binary_model()
    assert torch.equal(model.energy(bits.to(dtype)), model.energy(bits))
    assert torch.equal(model.features(bits.to(dtype)), model.features(bits))
