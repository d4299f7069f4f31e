from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_errors import refused
from torch.utils.data import DataLoader

from ebmlab.callbacks import CouplingRMSE, EnergyLandscape, HammingMMD, coupling_rmse
from ebmlab.datamodules import GaussianMixture, GrayCode2D, IsingSamples
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Categorical
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ScalarPotts
from ebmlab.evaluation import hamming_mmd
from ebmlab.learners import ContrastiveDivergence, FromNoise, Learner, RatioMatching
from ebmlab.samplers import ULA, Gibbs

KERNELS = {"mmd/hamming": "linear", "mmd/exponential": "exponential"}


def points(**settings: Any) -> GrayCode2D:
    return GrayCode2D(**{"num_bits": 16, "num_samples": 200, "batch_size": 50} | settings)


def spins(tmp_path, **settings: Any) -> IsingSamples:
    return IsingSamples(**{"side": 4, "num_samples": 60, "num_sweeps": 5, "batch_size": 20} | settings, root=tmp_path)


def learner(energy: Energy | None = None, num_steps: int = 3) -> Learner:
    torch.manual_seed(0)
    return RatioMatching(energy or MLP(16, hidden_dim=8, num_layers=1), num_steps=num_steps)


def one_line(make: Any, message: str) -> None:
    with refused(message):
        make()


# HammingMMD


def states(model: Learner, data: TensorDataModule, split: str, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The two sets that the callback compares: last states of chains, and data."""
    real = data.to_states(data.raw(split))
    real = real[torch.randperm(len(real), generator=torch.Generator().manual_seed(seed))[:n]]
    torch.manual_seed(seed)
    return model.draw(model.energy.domain.random(n)), real


def test_a_split_of_one_state_is_refused(setup):
    model, trainer = setup([HammingMMD()], learner=learner())
    one_line(lambda: trainer.validate(model, datamodule=points(num_samples=10, batch_size=1)), "has 1 in its val split")


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("stage", "split"), [("fit", "train"), ("validate", "val"), ("test", "test")])
def test_mmd_of_each_stages_split(setup, stage, split, unbiased):
    data, n = points(num_samples=400), 30
    callback = HammingMMD(num_samples=n, unbiased=unbiased, seed=3)
    model, trainer = setup([callback], max_epochs=1, learner=learner(), limit_val_batches=1)
    getattr(trainer, stage)(model, datamodule=data)
    x, real = states(model, data, split, n, 3)
    for key, kernel in KERNELS.items():
        expected = hamming_mmd(x, real, kernel=kernel, unbiased=unbiased)
        assert trainer.callback_metrics[key].item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_linear_kernel_compares_only_means(setup):
    callback = HammingMMD(num_samples=40, unbiased=False, at_start=True)
    data = points()
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1)
    (results,) = trainer.test(model, data, verbose=False)  # the test split has 20 states, fewer than chains
    real = data.to_states(data.raw("test"))
    torch.manual_seed(0)
    x = model.draw(torch.randint(2, (40, 16)).float())
    assert len(real) == 20
    assert results["mmd/hamming"] == pytest.approx(2 * (x.mean(0) - real.mean(0)).square().sum().item(), rel=1e-5)


def test_batches_do_not_change_the_number_of_chains(setup, monkeypatch):
    sizes = []
    walk = Learner.walk
    monkeypatch.setattr(Learner, "walk", lambda s, x, n: (sizes.append(len(x)), walk(s, x, n))[1])
    callback = HammingMMD(num_samples=25, batch_size=10, num_steps=1)
    model, trainer = setup([callback], learner=learner(), limit_val_batches=1)
    trainer.validate(model, points(), verbose=False)
    assert sizes == [10, 10, 5]


def test_mmd_of_spins_and_of_one_hot_states(setup, tmp_path):
    class Classes(TensorDataModule):
        """One-hot states of three sites; class 2 is never seen."""

        domains = (Categorical,)

        def __init__(self) -> None:
            super().__init__((3, 4), batch_size=10, seed=0)
            self.domains = (Categorical,)

        def load(self, split: str) -> tuple[torch.Tensor, None]:
            return torch.eye(4)[torch.tensor([[0, 1, 3]] * 20)], None

        def to_states(self, x: torch.Tensor) -> torch.Tensor:
            return x

    potts = ContrastiveDivergence(ScalarPotts(torch.zeros(3, 3), num_values=4), Gibbs(), start=FromNoise(), num_steps=2)
    for model, data in ((potts, Classes()), (learner(Ising.learnable(16)), spins(tmp_path, num_samples=200))):
        callback = HammingMMD(num_samples=20)
        model, trainer = setup([callback], learner=model, limit_val_batches=1)
        (results,) = trainer.validate(model, data, verbose=False)
        x, real = states(model, data, "val", 20, 0)
        domain = model.energy.domain
        for key, kernel in KERNELS.items():
            expected = hamming_mmd(x, real, kernel=kernel, unbiased=True, domain=domain)
            assert results[key] == pytest.approx(expected.item(), rel=1e-5)


def test_mmd_refuses_what_it_cannot_compare(setup):
    gaussian = ContrastiveDivergence(GRBM(2, 3), ULA(0.1), start=FromNoise())
    model, trainer = setup([HammingMMD()], learner=gaussian)
    one_line(lambda: trainer.fit(model, datamodule=GaussianMixture()), r"GRBM lives on Real\(2\), which is not finite")
    one_line(lambda: HammingMMD(num_samples=1), "num_samples is 1")


# CouplingRMSE


@pytest.mark.slow
def test_couplings_are_compared_in_both_conventions(setup, tmp_path, monkeypatch):
    drawn = []
    draw = coupling_rmse.draw_matrices
    monkeypatch.setattr(coupling_rmse, "draw_matrices", lambda matrices: (drawn.append(matrices), draw(matrices))[1])
    data = spins(tmp_path)
    model, trainer = setup([CouplingRMSE()], max_epochs=1, learner=learner(Ising.learnable(16)), limit_val_batches=1)
    trainer.fit(model, datamodule=data)
    true, learnt = data.coupling_matrix(), model.energy.coupling.detach()
    rmse = (true - learnt).square().mean().sqrt().item()
    assert learnt.abs().max() > 0
    assert trainer.callback_metrics["coupling/rmse"].item() == pytest.approx(rmse, rel=1e-5)
    assert trainer.callback_metrics["coupling/rmse_paper"].item() == pytest.approx(rmse / 2, rel=1e-5)
    names = [p.name for p in sorted((tmp_path / "run" / "images").iterdir())]
    assert names == ["parameters-couplings_step0000000.png", "parameters-couplings_step0000003.png"]
    assert torch.equal(drawn[0]["learnt J, RMSE 0.25"], torch.zeros(16, 16))  # 0.5 * 2 / sqrt(16)
    first, second = drawn[1].values()
    assert torch.equal(first, true) and torch.equal(second, learnt)
    (results,) = trainer.validate(model, data, verbose=False)
    assert results["coupling/rmse"] == pytest.approx(rmse, rel=1e-5)


def test_energies_and_data_without_couplings_are_refused(setup, tmp_path):
    def fit(energy: Energy, data: pl.LightningDataModule) -> None:
        model, trainer = setup([CouplingRMSE()], learner=learner(energy))
        trainer.fit(model, datamodule=data)

    one_line(lambda: fit(RBM(16, 2), points()), "got RBM: use ebmlab.energies.Ising.learnable")
    one_line(lambda: fit(Ising.lattice(4, 0.5), spins(tmp_path)), "got one that is fixed")
    one_line(lambda: fit(Ising.learnable(9), spins(tmp_path)), r"gives events of shape \(16,\)")
    model, trainer = setup([CouplingRMSE()], learner=learner(Ising.learnable(4)))
    one_line(lambda: trainer.validate(model, DataLoader(torch.ones(5, 4))), "got DataLoader: use")


# Both callbacks


@pytest.mark.slow
def test_evaluations_leave_training_alone(setup, tmp_path):
    ends = []
    for extra in ([], [HammingMMD(20, every_n_epochs=1), EnergyLandscape(10, 5)]):
        model, trainer = setup(extra, learner=learner())
        torch.manual_seed(1)
        trainer.fit(model, datamodule=points())
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


@pytest.mark.slow
def test_chains_are_short_under_fast_dev_run(setup, tmp_path):
    huge = {"num_samples": 10**6, "num_steps": 10**6}
    model, trainer = setup([HammingMMD(**huge), EnergyLandscape(**huge)], fast_dev_run=1, learner=learner())
    trainer.fit(model, datamodule=points())
    assert (tmp_path / "run" / "images" / "samples-landscape_step0000001.png").exists()
