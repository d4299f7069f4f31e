"""EdgeActivation and Decimation: what they choose held against enumeration of 5 sites of 4 values, and whole fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_family import drawn_potts, write_family
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.callbacks import ClosedForm, Decimation, EdgeActivation
from ebmlab.callbacks.decimation import removal_loss
from ebmlab.callbacks.edge_activation import activation_gain
from ebmlab.datamodules import Alignment
from ebmlab.energies import Potts
from ebmlab.energies.pairwise.statistics import moments
from ebmlab.errors import UserError
from ebmlab.learners import BoltzmannLearning, PseudoLikelihood

SITES, VALUES = 5, 4
pytestmark = pytest.mark.filterwarnings(
    "ignore:You are trying to `self.log", "ignore:.*does not have many workers", "ignore:The number of training batches"
)


def log_law(energy: Potts, x: Tensor) -> Tensor:
    return (-energy(x)).log_softmax(0)


def pair_laws(energy: Potts, x: Tensor) -> Tensor:
    """The law of each pair of values, `(P, q, q)`."""
    two = moments(x, log_law(energy, x).exp())[1].view(SITES, VALUES, SITES, VALUES)
    i, j = torch.triu_indices(SITES, SITES, 1)
    return two[i, :, j].detach()


def test_an_activated_pair_is_the_one_with_the_largest_gain() -> None:
    """Gains by enumeration: at the best couplings of one pair, all else being kept, the concave likelihood is level."""
    x = Potts(SITES, VALUES).domain.enumerate().double()
    data, model = drawn_potts(SITES, VALUES, seed=1), drawn_potts(SITES, VALUES, seed=2)
    law, before = log_law(data, x).exp().detach(), log_law(model, x).detach()
    f, p, values = pair_laws(data, x), pair_laws(model, x), x.argmax(-1)
    gains = activation_gain(f, p)
    for k, (i, j) in enumerate(model.pairs.tolist()):
        extra = (f[k] / p[k]).log().requires_grad_()
        likelihood = law @ (before + extra[values[:, i], values[:, j]]).log_softmax(0)
        assert float(torch.autograd.grad(likelihood, extra)[0].abs().max()) < 1e-12
        assert float(likelihood.detach() - law @ before) == pytest.approx(float(gains[k]), rel=1e-9)

    learns = torch.zeros_like(f, dtype=torch.bool)
    best = gains.argsort(descending=True)
    for count in (1, 2):
        EdgeActivation(share=0).change(learns, model.coupling.detach(), f, p)
        assert set(learns.flatten(1).any(1).nonzero().flatten().tolist()) == set(best[:count].tolist())
        assert learns.flatten(1).all(1).sum() == count
    EdgeActivation(share=1).change(learns, model.coupling.detach(), f, p)
    assert learns.all()


def test_a_removed_coupling_is_the_one_whose_removal_loses_least() -> None:
    """Divergences by enumeration of the model with and without each coupling."""
    x = Potts(SITES, VALUES).domain.enumerate().double()
    model = drawn_potts(SITES, VALUES, seed=3)
    full, p = log_law(model, x).detach(), pair_laws(model, x)
    losses, couplings = torch.zeros_like(p), model.coupling.detach().clone()
    for k in range(p.numel()):
        model.coupling.data.view(-1)[k] = 0
        losses.view(-1)[k] = (full.exp() * (full - log_law(model, x).detach())).sum()
        model.coupling.data.copy_(couplings)
    found = removal_loss(model.coupling.detach(), p)
    torch.testing.assert_close(found, losses, rtol=1e-7, atol=1e-12)

    pruning = Decimation(0.5, density=0.9, share=0.05)
    pruning.learns = torch.ones_like(p, dtype=torch.bool)
    pruning.pearson = 0.4  # below the target nothing changes
    pruning.change(pruning.learns, model.coupling.detach(), p, p)
    assert pruning.learns.all()
    pruning.pearson = 0.6
    order = losses.flatten().argsort()
    for removed in (8, 15, 16):  # of 160; a twentieth of what is left, down to the density
        pruning.change(pruning.learns, model.coupling.detach(), p, p)
        gone = (~pruning.learns).flatten().nonzero().flatten()
        assert set(gone.tolist()) == set(order[:removed].tolist())


def fit(folder: Path, callback: Any, epochs: int, **settings: Any) -> tuple[Potts, Any]:
    torch.manual_seed(0)
    data = Alignment(str(write_family(folder / "family.fasta", sites=6, sequences=300)), batch_size=200)
    learner = BoltzmannLearning(Potts(6, 21), num_chains=500, num_steps=2, **settings)
    start = ClosedForm("independent", pseudo_count=0.01)
    trainer = quiet_trainer(folder, max_epochs=epochs, limit_val_batches=0, callbacks=[start, callback])
    trainer.fit(learner, data)
    return learner.energy, trainer  # type: ignore[return-value]


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def test_a_fit_activates_pairs_and_no_other_coupling_moves(tmp_path: Path) -> None:
    callback = EdgeActivation(0.99, share=0.2, every_n_epochs=2)
    energy, trainer = fit(tmp_path, callback, 7)
    used = energy.coupling.detach().flatten(1).any(1)
    assert int(used.sum()) == 7 and callback.learns is not None  # of 15: 3, then 2 of 12, then 2 of 10
    assert torch.equal(used, callback.learns.flatten(1).any(1))
    assert float(trainer.callback_metrics["correlation/density"]) == pytest.approx(7 / 15)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = EdgeActivation(0.99, share=0.2, every_n_epochs=2)
    learner = BoltzmannLearning(Potts(6, 21), num_chains=500, num_steps=2)
    data = Alignment(str(tmp_path / "family.fasta"), batch_size=200)
    quiet_trainer(tmp_path, max_epochs=7, limit_val_batches=0, callbacks=[again]).fit(
        learner, data, ckpt_path=tmp_path / "a.ckpt"
    )
    assert again.learns is not None and torch.equal(again.learns, callback.learns)


@pytest.mark.parametrize("settings", [{}, {"optimizer": adam}], ids=["SGD", "Adam"])
def test_a_fit_removes_couplings_down_to_a_density(settings: Any, tmp_path: Path) -> None:
    callback = Decimation(1e-6, density=0.5, share=0.3)
    energy, trainer = fit(tmp_path, callback, 40, **settings)
    assert callback.learns is not None and trainer.current_epoch < 40
    assert int(callback.learns.sum()) == int(0.5 * callback.learns.numel())
    assert not energy.coupling[~callback.learns].any() and energy.coupling[callback.learns].any()


def test_what_they_refuse(tmp_path: Path) -> None:
    data = Alignment(str(write_family(tmp_path / "family.fasta", sites=4)), batch_size=20)
    trainer = quiet_trainer(tmp_path, max_epochs=1, callbacks=[EdgeActivation()])
    with pytest.raises(UserError, match="EdgeActivation needs BoltzmannLearning of a Potts energy"):
        trainer.fit(PseudoLikelihood(Potts(4, 21)), data)
    with pytest.raises(UserError, match=r"density is 1\.5, but must be"):
        Decimation(density=1.5)
    with pytest.raises(UserError, match="share is -1, but must be"):
        EdgeActivation(share=-1)
