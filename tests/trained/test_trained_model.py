"""A loaded model on raw data agrees with its learner, with enumeration and with autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader

import ebmlab
from ebmlab.data.interface import Data
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Arrays, Digits, GrayCode2D
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ScalarPotts, Sum
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData, GradientGuided, Learner, RatioMatching, ReplayBuffer
from ebmlab.samplers import (
    DMALA,
    DULA,
    BlockGibbs,
    Gibbs,
    GibbsLangevin,
    Langevin,
    RandomWalk,
    Sampler,
    SwendsenWang,
    Wolff,
)
from ebmlab.trained import TrainedModel, likelihood

PASS = 1e-3  # a right sampler fails a test with this probability
pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


def trained(folder: Path, learner: Learner, data: Any, steps: int = 2) -> Path:
    """A checkpoint that a plain `Trainer` saved."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = pl.Trainer(
        max_steps=steps, accelerator="cpu", limit_val_batches=0, enable_checkpointing=False, **quiet, barebones=False
    )
    torch.manual_seed(0)
    trainer.fit(learner, data)
    trainer.save_checkpoint(folder / "model.ckpt", weights_only=False)
    return folder / "model.ckpt"


def wild(energy: Any) -> Any:
    torch.manual_seed(3)
    for p in energy.parameters():
        nn.init.normal_(p, std=0.7)
    return energy


def model_of(energy: Energy, raw: Preprocessing | None = None, **settings: Any) -> TrainedModel:
    sampler = BlockGibbs() if isinstance(energy, RBM | GRBM) else Gibbs()
    learner = ContrastiveDivergence(energy, sampler, **settings)
    return TrainedModel(learner, raw or Preprocessing(energy.domain.event_shape))


def rbm_on_digits() -> tuple[Learner, Any]:
    return ContrastiveDivergence(RBM(64, 12), BlockGibbs(), ReplayBuffer(20), 2), Digits(binarize=True, batch_size=20)


def grbm_on_digits() -> tuple[Learner, Any]:
    return ContrastiveDivergence(GRBM(64, 12), GibbsLangevin(0.1), FromData(), 2), Digits()


def ratio_matching() -> tuple[Learner, Any]:
    return RatioMatching(MLP(32, 16), GradientGuided(4, objective="exponential"), DMALA(0.1)), GrayCode2D("moons")


KINDS: dict[str, Callable[[], tuple[Learner, Any]]] = {
    "RBM": rbm_on_digits,
    "GRBM": grbm_on_digits,
    "ratio matching": ratio_matching,
}


@pytest.mark.parametrize("kind", KINDS)
def test_energies_of_raw_data_are_the_learners_bit_for_bit(kind: str, tmp_path: Path) -> None:
    learner, data = KINDS[kind]()
    model = ebmlab.load(trained(tmp_path, learner, data))
    raw = data.raw("val")[:50]
    expected = learner(data.to_states(raw))
    assert torch.equal(model.energy(raw), expected) and expected.std() > 0
    again = model.energy(raw.numpy())
    assert isinstance(again, np.ndarray) and np.array_equal(again, expected.detach().numpy())
    assert type(model.learner) is type(learner) and type(model.learner.sampler) is type(learner.sampler)
    rebuilt = Learner.load_from_checkpoint(tmp_path / "model.ckpt")
    assert all(torch.equal(a, b) for a, b in zip(rebuilt.parameters(), learner.parameters(), strict=True))


def test_what_was_made_in_python_is_made_again_with_its_settings(tmp_path: Path) -> None:
    estimator = GradientGuided(num_samples=5, advanced=True, objective="exponential")
    learner = RatioMatching(Ising.learnable(5), estimator, DMALA(0.37))
    path = trained(tmp_path, learner, DataLoader(Ising.learnable(5).domain.random(16), batch_size=8))
    again = Learner.load_from_checkpoint(path)
    assert isinstance(again, RatioMatching) and isinstance(again.estimator, GradientGuided)
    assert again.estimator.num_samples == 5 and again.sampler.step_size == pytest.approx(0.37)
    assert torch.equal(again.energy.coupling, learner.energy.coupling)


class Own(Energy):
    """An energy that holds a network, as a user would write it."""

    domains = (Real,)

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.domain = Real(3)
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1) + x.square().sum(1)  # type: ignore[no-any-return]


class Hot(Energy):
    """An energy with the parameters of an RBM that has another law."""

    domains = (Binary,)

    def __init__(self, rbm: RBM) -> None:
        super().__init__()
        self.domain, self.parts = rbm.domain, [rbm]
        self.W, self.b_v, self.b_h = rbm.W, rbm.b_v, rbm.b_h

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](x) / 3


def test_a_network_that_no_checkpoint_describes_is_given_back_by_the_user(tmp_path: Path) -> None:
    def build() -> Learner:
        return ContrastiveDivergence(Own(nn.Linear(3, 1)), Langevin(0.1), FromData())

    learner = build()
    with pytest.warns(UserWarning, match=r"lack a setting \(energy is a Linear, which is no plain data\): load"):
        path = trained(tmp_path, learner, DataLoader(torch.randn(16, 3), batch_size=8))
    with pytest.raises(UserError, match=r"its energy is a Linear, which no checkpoint describes\): build it as for"):
        ebmlab.load(path)
    raw = torch.randn(7, 3)
    assert torch.equal(ebmlab.load(path, build()).energy(raw), learner(raw))


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
        patch.setattr("ebmlab.trained.model.check_scale", lambda *_: None)  # the plane goes beyond black and white
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


def test_log_likelihoods_against_enumeration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ContrastiveDivergence(wild(RBM(8, 5)), BlockGibbs(), FromData())
    data = DataLoader(Binary(8).random(200), batch_size=100)
    model = ebmlab.load(trained(tmp_path, learner, data))
    raw = Binary(8).enumerate()
    truth = -model.energy(raw) - float(exact_log_z(model.learner.energy))
    assert float(truth.exp().sum()) == pytest.approx(1, abs=1e-5)
    found = model.log_likelihood(raw)
    assert found.std_error == 0 and found.trusted and torch.allclose(found.values, truth, atol=1e-5)
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)
    found = model.log_likelihood(raw, num_chains=100, num_temperatures=300, fresh=True)
    assert found.trusted and 0 < found.std_error < 0.1
    assert float((found.values - truth).abs().max()) < 4 * found.std_error
    as_array = model.log_likelihood(raw.numpy(), num_chains=100, num_temperatures=300)
    assert isinstance(as_array.values, np.ndarray) and as_array.log_z == found.log_z


def test_log_z_is_kept_for_its_owner_and_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ContrastiveDivergence(wild(RBM(5, 3)), BlockGibbs(), FromData())
    path = trained(tmp_path, learner, DataLoader(Binary(5).random(20), batch_size=10))
    raw = Binary(5).random(3)
    first = ebmlab.load(path).log_likelihood(raw)
    kept = path.with_name("model.ckpt.log_z.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    calls: list[int] = []
    computed = likelihood.computed_log_z
    monkeypatch.setattr(likelihood, "computed_log_z", lambda *a: calls.append(1) or computed(*a))
    assert ebmlab.load(path).log_likelihood(raw).log_z == first.log_z and not calls
    ebmlab.load(path).log_likelihood(raw, num_temperatures=7)  # what is kept has more
    assert not calls
    ebmlab.load(path).log_likelihood(raw, num_temperatures=2001)
    assert len(calls) == 1
    for damage in (b"", b"{}", b'{"log_z": 1}', kept.read_bytes()[:-9], b"\xff"):
        kept.write_bytes(damage)
        with pytest.warns(UserWarning, match=r"model.ckpt.log_z.json is damaged: log Z is computed anew"):
            assert ebmlab.load(path).log_likelihood(raw).log_z == first.log_z
    kept.chmod(0o666)  # anyone may have written it
    ebmlab.load(path).log_likelihood(raw)
    assert len(calls) == 7
    wild(learner.energy).b_v.data.add_(1)
    trained(tmp_path, learner, DataLoader(Binary(5).random(20), batch_size=10))  # training goes on
    assert ebmlab.load(path).log_likelihood(raw).log_z != first.log_z and len(calls) == 8


def test_log_z_of_a_given_learner_is_not_kept_for_others(tmp_path: Path) -> None:
    """The same parameters are another model if the learner's energy is a tempered one."""
    path = trained(
        tmp_path,
        rbm := ContrastiveDivergence(wild(RBM(5, 3)), BlockGibbs()),
        DataLoader(Binary(5).random(40), batch_size=20),
    )
    raw = Binary(5).enumerate()
    for learner in (ContrastiveDivergence(Hot(RBM(5, 3)), Gibbs()), None, rbm):
        found = ebmlab.load(path, learner).log_likelihood(raw)
        assert float(found.values.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_likelihoods_that_are_not_to_be_trusted_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    energy = RBM(30, 20)
    nn.init.normal_(energy.W, std=3)
    model = model_of(energy)
    with pytest.warns(UserWarning, match="do not trust these log-likelihoods: "):
        found = model.log_likelihood(torch.ones(2, 30), num_chains=20, num_temperatures=2)
    assert not found.trusted and math.isnan(found.std_error) and found.log_z.doubts


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_sums_over_energies_that_are_not_finite_are_not_trusted(value: float) -> None:
    energy = RBM(4, 2)
    nn.init.constant_(energy.b_h, value)
    with pytest.warns(UserWarning, match="do not trust these log-likelihoods: an energy is not finite"):
        found = model_of(energy).log_likelihood(torch.ones(2, 4))
    assert not found.trusted and math.isnan(found.std_error)


@pytest.mark.parametrize("number", [torch.uint8, torch.float64])
def test_gradients_against_autograd_in_raw_numbers(number: torch.dtype) -> None:
    raw_law = Preprocessing((2, 3), scale=255.0, mean=(0.3, 0.6), std=(0.2, 0.5))
    model = model_of(wild(GRBM(6, 4)), raw_law)
    raw = torch.randint(255, (5, 2, 3)).to(number) / (1 if number == torch.uint8 else 255)
    raw = raw.to(number)
    numbers = raw.double().requires_grad_()
    scale = 255.0 if number == torch.uint8 else 1.0
    mean, std = torch.tensor([0.3, 0.6]).view(2, 1), torch.tensor([0.2, 0.5]).view(2, 1)
    x = ((numbers / scale - mean) / std).float().view(5, 6)
    (expected,) = torch.autograd.grad(-model.learner.energy(x).sum(), numbers)
    torch.testing.assert_close(model.grad_log_prob(raw), expected.float(), rtol=1e-4, atol=1e-6)


def test_gradients_on_a_finite_domain_are_those_in_the_states() -> None:
    energy = wild(Ising.learnable(6))
    model = model_of(energy, Preprocessing((6,), mean=(0.5,), std=(0.5,)))  # bits as spins
    bits = torch.randint(2, (4, 6)).float()
    expected = -energy.value_and_grad(2 * bits - 1)[1]
    torch.testing.assert_close(model.grad_log_prob(bits), expected)


def test_gradients_of_states_that_are_thresholds_are_those_in_the_states() -> None:
    energy = wild(GRBM(6, 4))
    model = model_of(energy, Preprocessing((6,), scale=255.0, binarize=True))
    levels = torch.randint(256, (4, 6), dtype=torch.uint8)
    torch.testing.assert_close(model.grad_log_prob(levels), -energy.value_and_grad(model.states(levels))[1])


def test_features_are_the_hidden_units_in_closed_form() -> None:
    energy = wild(GRBM(6, 4))
    model = model_of(energy, Preprocessing((2, 3), mean=(1.0,), std=(2.0,)))
    raw = torch.randn(9, 2, 3)
    v = ((raw - 1) / 2).view(9, 6)
    expected = 1 / (1 + torch.exp(-(v / energy.log_var.exp()) @ energy.W - energy.b))
    torch.testing.assert_close(model.features(raw), expected)
    with pytest.raises(UserError, match="Potts has no hidden units to take features from: train an RBM or GRBM"):
        model_of(ScalarPotts.lattice(2, 3, 0.4)).features(ScalarPotts.lattice(2, 3, 0.4).domain.random(2))


def chi_square(counts: Tensor, law: Tensor) -> float:
    return float(stats.chisquare(counts.numpy(), (law * counts.sum()).numpy()).pvalue)


@pytest.mark.parametrize("kind", ["RBM", "Ising", "one-hot raw", "classes"])
def test_completions_follow_the_enumerated_conditional(kind: str) -> None:
    n, steps = 4000, 60
    torch.manual_seed(1)
    coupling = torch.randn(5, 5).triu(1)
    energies = {"RBM": wild(RBM(5, 3)), "Ising": Ising(coupling + coupling.T, field=0.3)}
    energy: Any = energies.get(kind, ScalarPotts.lattice(2, 3, coupling=0.5))
    law = Preprocessing(energy.domain.event_shape)
    if kind == "classes":
        law = Preprocessing((4,), num_classes=3)
    model = model_of(energy, law)
    states = energy.domain.enumerate()
    raw = law.to_raw(states)
    size = energy.domain.size
    mask = torch.zeros(size, dtype=torch.bool)
    mask[[0, 3]] = True
    event = states[len(states) // 3 + 1 : len(states) // 3 + 2]
    torch.manual_seed(0)
    found = model.complete(law.to_raw(event), mask, num_samples=n, num_steps=steps)[0]
    assert found.shape == (n, *law.shape)
    index, whole = energy.domain.to_index(states), energy.domain.to_index(event)
    fits = (index[:, mask] == whole[:, mask]).all(1)
    conditional = (-energy(states[fits])).double().softmax(0).detach()
    place = {tuple(row.flatten().tolist()): i for i, row in enumerate(raw[fits])}
    counts = torch.zeros(len(place))
    for row in found:
        counts[place[tuple(row.flatten().tolist())]] += 1  # a KeyError is a coordinate that was given and changed
    assert chi_square(counts.double(), conditional) > PASS
    wrong = (-energy(states)).double().softmax(0).detach()[: len(place)]
    assert chi_square(counts.double(), wrong / wrong.sum()) < PASS  # the test sees another law


def test_completions_of_real_data_follow_the_gaussian_conditional() -> None:
    """A GRBM whose weights are 0 is a Gaussian in raw numbers; its sampler cannot serve a conditional law."""
    energy = GRBM(3, 2)
    nn.init.zeros_(energy.W)
    learner = ContrastiveDivergence(energy, GibbsLangevin(0.1), FromData())
    model = TrainedModel(learner, Preprocessing((3,), mean=(5.0, 6.0, 7.0), std=(2.0, 3.0, 4.0)))
    raw = np.array([[1.5, np.nan, np.nan]])
    found = model.complete(raw, np.array([True, False, False]), num_samples=5000, num_steps=5)
    assert isinstance(found, np.ndarray) and found.shape == (1, 5000, 3)
    assert found[0, :, 0] == pytest.approx(1.5)
    for i, (mean, std) in ((1, (6, 3)), (2, (7, 4))):
        assert stats.kstest(found[0, :, i], stats.norm(mean, std).cdf).pvalue > PASS
    means = model.complete(raw, np.array([True, False, False]), num_steps=1, denoise=True)
    assert means == pytest.approx(np.array([[1.5, 6, 7]]))
    assert model.complete(torch.zeros(2, 3), [1, 0, 0], num_steps=1).shape == (2, 3)


def test_given_numbers_stay_what_they_are() -> None:
    forms = [
        (Preprocessing((1, 1, 3), 255.0, 1.0, (0.31,), (0.7,), unit=True), np.uint8([[77, 3, 0]]), [77 / 255, 3 / 255]),
        (Preprocessing((1, 1, 3), 255.0, 1.0, (0.31,), (0.7,), unit=True), np.float32([[1.01, 0.1, 0]]), [1.01, 0.1]),
        (Preprocessing((3,), 9.0, 7.0, (0.31,), (0.3,)), np.float64([[-123.1, 0.1, np.nan]]), [-123.1, 0.1]),
        (Preprocessing((3,), mean=(1e9 / 3,), std=(1e-3,)), np.float64([[0.1 + 1e9 / 3] * 3]), [0.1 + 1e9 / 3] * 2),
        (Preprocessing((3,), 9.0, 7.0, (0.31,), (0.3,)), torch.tensor([[9, 2, 0]]), [7, 14 / 9]),
    ]
    for form, raw, expected in forms:
        found = model_of(GRBM(3, 2), form).complete(raw, [True, True, False], 2, num_steps=1)
        given, drawn = torch.as_tensor(found).reshape(2, 3).split([2, 1], 1)
        assert torch.equal(given, torch.tensor([expected] * 2, dtype=torch.float64).to(given))
        assert drawn.isfinite().all() and (form.unit or drawn[0] != drawn[1])


def test_chains_that_stay_in_noise_are_noticed() -> None:
    energy = wild(RBM(40, 30))
    energy.W.data.mul_(10)
    model = TrainedModel(ContrastiveDivergence(energy, RandomWalk(num_flips=15), FromData()), Preprocessing((40,)))
    mask = torch.arange(40) < 3
    with pytest.warns(UserWarning, match="the chains of RandomWalk hardly moved: give another sampler, such as Gibbs"):
        model.complete(torch.zeros(2, 40), mask, num_steps=200)
    model.complete(torch.zeros(2, 40), mask, num_steps=20, sampler=BlockGibbs())


@pytest.mark.parametrize("sampler", [SwendsenWang(), Wolff()])
def test_clusters_cannot_be_clamped_so_that_single_sites_complete(sampler: Sampler) -> None:
    """Of a row of aligned spins the first is given: the chance that its k-th neighbour is equal is known."""
    energy = Ising(0.8 * torch.diag(torch.ones(7), 1) + 0.8 * torch.diag(torch.ones(7), -1))
    model = TrainedModel(ContrastiveDivergence(energy, sampler), Preprocessing((8,)))
    torch.manual_seed(0)
    found = model.complete(torch.ones(1, 8), torch.arange(8) == 0, num_samples=3000, num_steps=60)[0]
    expected = math.tanh(0.8) ** torch.arange(8)
    assert float((found.mean(0) - expected).abs().max()) < 4 / math.sqrt(3000)


def test_steps_that_are_all_accepted_and_change_nothing_are_noticed() -> None:
    energy = Ising.lattice(5, 0.3)
    model = TrainedModel(ContrastiveDivergence(energy, DULA(0.1)), Preprocessing((25,)))
    mask = torch.arange(25) < 3
    with pytest.warns(UserWarning, match="the chains of DULA hardly moved: give another sampler, such as Gibbs, or mo"):
        model.complete(torch.ones(2, 25), mask, num_steps=100)
    with pytest.warns(UserWarning, match="the chains of Gibbs hardly moved"):
        model.complete(torch.ones(2, 25), mask, num_steps=1, sampler=Gibbs())
    model.complete(torch.ones(2, 25), mask, num_steps=100, sampler=Gibbs())
    model.complete(torch.ones(2, 25), torch.arange(25) > 0, num_steps=1)  # of one spin nothing can be said


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
    learner = ContrastiveDivergence(ScalarPotts.lattice(2, 3, 0.4), Gibbs(), FromData())
    learner.energy.requires_grad_(True)
    model = TrainedModel(learner, data.preprocessing)
    raw = np.array([[0, 1, 2, 2]])
    assert model.energy(raw) == pytest.approx(float(learner.energy(data.to_states(torch.from_numpy(raw)))))
    with pytest.raises(UserError, match="classes must be whole numbers from 0 to 2"):
        model.energy(np.array([[0, 1, 2, 3]]))


def binary_model() -> TrainedModel:
    return model_of(RBM(6, 2), Preprocessing((1, 2, 3)))


REFUSED: dict[str, tuple[Callable[[TrainedModel], Any], str]] = {
    "one event": (lambda m: m.energy(torch.zeros(2, 3)), r"raw data have shape \(2, 3\); it must be \(B, 1, 2, 3\)"),
    "another size": (lambda m: m.energy(np.zeros((4, 7))), r"raw data have shape \(4, 7\)"),
    "grey levels": (lambda m: m.energy(torch.full((1, 6), 0.4)), "raw data become no states of RBM: state number 0"),
    "NaN": (lambda m: m.energy(np.full((1, 6), np.nan)), "raw holds NaN or infinity in 1 of 1 events"),
    "nothing": (lambda m: m.energy(torch.zeros(0, 6)), "raw holds no events"),
    "text": (lambda m: m.energy(np.array([["a"] * 6])), "raw holds values of the type <U1; they must be real numbers"),
    "complex": (
        lambda m: m.energy(torch.zeros(1, 6) * 1j),
        "raw holds values of the type torch.complex64; they must be",
    ),
    "sparse": (
        lambda m: m.energy(torch.zeros(1, 6).to_sparse()),
        r"raw is a tensor of the layout torch.sparse_coo: give raw.to_dense\(\)",
    ),
    "a mask of another size": (
        lambda m: m.complete(torch.zeros(1, 6), torch.ones(5)),
        r"mask has shape \(5,\), but mu",
    ),
    "a mask of numbers": (lambda m: m.complete(torch.zeros(1, 6), torch.full((6,), 2)), "mask must hold True"),
    "a full mask": (lambda m: m.complete(torch.zeros(1, 6), torch.ones(6)), "the mask gives all 6 coordinates"),
    "NaN that is given": (
        lambda m: m.complete(np.full((1, 6), np.nan), [1, 0, 0, 0, 0, 0]),
        "NaN or infinity in 1 of 1",
    ),
    "no completions": (lambda m: m.complete(torch.zeros(1, 6), [1, 0, 0, 0, 0, 0], 0), "num_samples is 0"),
    "no samples": (lambda m: m.sample(0), "n is 0 and batch_size 2000; both must be at least 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(what: str) -> None:
    act, line = REFUSED[what]
    with pytest.raises(UserError, match=line) as error:
        act(binary_model())
    assert "\n" not in str(error.value)


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


def test_what_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.ckpt").write_text("not a checkpoint")
    torch.save({"weights": 1}, tmp_path / "other.ckpt")
    torch.save({"state_dict": {}, "hyper_parameters": {"num_steps": 3}}, tmp_path / "old.ckpt")
    torch.save({"state_dict": {}, "hyper_parameters": None}, tmp_path / "none.ckpt")
    for name, line in {
        "gone.ckpt": "no such file; give a .ckpt file, or the folder of a run",
        "empty": "there is no checkpoint in .*empty",
        "text.ckpt": "cannot be read as a checkpoint",
        "other.ckpt": "is not a Lightning checkpoint: it has no state_dict",
        "none.ckpt": r"cannot be rebuilt as a learner \(it has no settings, which no checkpoint describes\)",
        "old.ckpt": r"cannot be rebuilt as a learner \(it has no settings, which no checkpoint describes\)",
    }.items():
        with pytest.raises(UserError, match=line) as error:
            ebmlab.load(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_run_folder_gives_its_best_checkpoint_else_its_last(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(4, 2), BlockGibbs(), FromData())
    run = tmp_path / "checkpoints"
    run.mkdir()
    path = trained(tmp_path, learner, DataLoader(Binary(4).random(8), batch_size=4))
    for name in ("epoch=3", "last", "epoch=1", "best"):
        (run / f"{name}.ckpt").write_bytes(path.read_bytes())
    assert ebmlab.load(tmp_path).path == run / "best.ckpt"
    (run / "best.ckpt").unlink()
    assert ebmlab.load(str(tmp_path)).path == run / "last.ckpt"


def test_a_checkpoint_without_preprocessing_takes_states_and_says_so(tmp_path: Path) -> None:
    learner, data = grbm_on_digits()
    path = trained(tmp_path, learner, data)
    content = torch.load(path, weights_only=True)
    del content["preprocessing"]
    torch.save(content, path)
    with pytest.warns(UserWarning, match="model.ckpt does not say how raw data become states: give it states"):
        model = ebmlab.load(path)
    x = data.states("val", 5)
    assert torch.equal(model.energy(x.flatten(1)), learner(x))


class States(Data, pl.LightningDataModule):
    """Data whose raw numbers are the states."""

    def train_dataloader(self) -> Any:
        return DataLoader(Binary(4).random(8), batch_size=4)


def test_data_without_preprocessing_are_states_without_a_warning(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(4, 2), BlockGibbs(), FromData())
    model = ebmlab.load(trained(tmp_path, learner, States()))
    x = Binary(4).random(3)
    assert torch.equal(model.energy(x), learner(x))


ATTACKS: dict[str, Any] = {
    "a function": {"class_path": "os.system", "init_args": {"command": "touch executed"}},
    "a process": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "executed"]}},
    "under another name": {"class_path": "torch.nn.Module.__init__.__globals__.os", "init_args": {}},
    "a module beside it": {"class_path": "evil_beside.Energy", "init_args": {}},
    "evaluation": {"class_path": "builtins.eval", "init_args": {"source": "1"}},
    "a function of torch": {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "a/b", "model": "c"}},
    "an optimizer's method": {"class_path": "torch.optim.Adam.step", "init_args": {}},
}


@pytest.mark.parametrize("where", ["energy", "sampler", "optimizer", "chains"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_checkpoint_names_is_executed(
    attack: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("evil_beside.py").write_text("import pathlib; pathlib.Path('executed').touch()")
    saved: dict[str, Any] = {
        "_class_path": "ebmlab.learners.ContrastiveDivergence",
        "energy": {"class_path": "ebmlab.energies.RBM", "init_args": {"num_visible": 2, "num_hidden": 2}},
        "sampler": {"class_path": "ebmlab.samplers.BlockGibbs"},
    }
    saved[where] = ATTACKS[attack]
    torch.save({"state_dict": RBM(2, 2).state_dict(prefix="energy."), "hyper_parameters": saved}, "a.ckpt")
    with pytest.raises(UserError, match=r"a.ckpt cannot be rebuilt as a learner \(") as error:
        ebmlab.load("a.ckpt")
    assert "\n" not in str(error.value) and not Path("executed").exists()
    saved |= {where: None, "_class_path": "os.system", "command": "touch executed"}
    torch.save({"state_dict": {}, "hyper_parameters": saved}, "a.ckpt")
    with pytest.raises(UserError, match=r"os\.system is no class of a model"):
        ebmlab.load("a.ckpt")
    assert not Path("executed").exists()
