"""A step along the centred gradient is a step of the centred model, by enumeration and quadrature."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_grbm import ExactGRBM, make_grbm
from helpers_trainer import quiet_trainer
from torch import Tensor, nn

from ebmlab.callbacks import CentredGradient
from ebmlab.datamodules import Digits
from ebmlab.domains import Binary
from ebmlab.energies import GRBM, RBM, Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.learners.centring import centre_gradient, mean_units
from ebmlab.samplers import BlockGibbs, Gibbs

LR = 0.3


def make_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(4, 3).double()
    for p in rbm.parameters():
        nn.init.normal_(p, std=0.8)
    return rbm


def stepped(energy: RBM | GRBM, loss: Tensor, offsets: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """The parameters after a step of SGD along the centred gradient."""
    loss.backward()
    centre_gradient(energy, offsets)
    torch.optim.SGD(energy.parameters(), lr=LR).step()
    return {name: p.detach() for name, p in energy.named_parameters()}


def log_z(rbm: RBM) -> Tensor:
    """Differentiable, unlike `exact_log_z`."""
    total = (-rbm(rbm.domain.enumerate().double())).logsumexp(0)
    assert torch.isclose(total, exact_log_z(rbm))
    return total


def test_a_step_of_an_rbm_is_one_of_the_centred_model() -> None:
    rbm, v, h = make_rbm(), Binary(4).enumerate().double(), Binary(3).enumerate().double()
    data = v[[3, 5, 5, 9]]
    m, l = torch.tensor([0.9, 0.1, 0.4, 0.7]).double(), torch.tensor([0.2, 0.6, 0.8]).double()  # noqa: E741
    W = rbm.W.detach().clone().requires_grad_()
    c = (rbm.b_v.detach() + W.detach() @ l).requires_grad_()
    d = (rbm.b_h.detach() + m @ W.detach()).requires_grad_()

    def log_density(v: Tensor) -> Tensor:
        return ((v - m) @ W @ (h - l).T + (v @ c).unsqueeze(1) + h @ d).logsumexp(1)

    loss = log_density(v).logsumexp(0) - log_density(data).mean()
    loss.backward()
    W, c, d = ((p - LR * p.grad).detach() for p in (W, c, d))
    ordinary = rbm(data).mean() + log_z(rbm)
    assert torch.isclose(ordinary, loss)
    found = stepped(rbm, ordinary, (m, l))
    torch.testing.assert_close(found, {"W": W, "b_v": c - W @ l, "b_h": d - m @ W}, rtol=0, atol=1e-12)


def test_a_step_of_a_grbm_is_one_of_the_centred_model() -> None:
    grbm, data = make_grbm(1), torch.tensor([[-1.5], [0.2], [0.9], [4.0]], dtype=torch.float64)
    h = ExactGRBM(grbm).h
    m, l = torch.tensor([0.7]).double(), torch.tensor([0.2, 0.6, 0.8]).double()  # noqa: E741
    W, s = (p.detach().clone().requires_grad_() for p in (grbm.W, grbm.log_var))
    c = (grbm.mu.detach() + W.detach() @ l).requires_grad_()
    d = (grbm.b.detach() + m @ W.detach()).requires_grad_()

    def log_density(v: Tensor) -> Tensor:
        u = v * (-s).exp()
        return (-(v * u).sum(1, keepdim=True) / 2 + (u - m) @ W @ (h - l).T + u @ c[:, None] + h @ d).logsumexp(1)

    grid = torch.linspace(-30, 30, 60_001, dtype=torch.float64)[:, None]
    loss = log_density(grid).logsumexp(0) - log_density(data).mean()
    loss.backward()
    W, c, d, s = ((p - LR * p.grad).detach() for p in (W, c, d, s))
    ordinary = grbm(data).mean() + ExactGRBM(grbm).log_z
    found = stepped(grbm, ordinary, (m, l))
    expected = {"W": W, "b": d - m @ W, "mu": c - W @ l, "log_var": s}
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("centred", [True, False])
def test_flipped_data_are_learnt_alike_by_the_centred_gradient_alone(centred: bool) -> None:
    one, v = make_rbm(), Binary(4).enumerate().double()
    other = RBM(4, 3).double()
    with torch.no_grad():
        other.W.copy_(-one.W)
        other.b_v.copy_(-one.b_v)
        other.b_h.copy_(one.b_h + one.W.sum(0))
    likelihoods = []
    for rbm, data in ((one, v[[3, 5, 5, 9]]), (other, 1 - v[[3, 5, 5, 9]])):
        for _ in range(5):
            rbm.zero_grad()
            loss = rbm(data).mean() + log_z(rbm)
            zero = torch.zeros(4).double(), torch.zeros(3).double()
            stepped(rbm, loss, mean_units(rbm, data) if centred else zero)
        likelihoods.append((-rbm(data).mean() - log_z(rbm)).item())
    assert (abs(likelihoods[0] - likelihoods[1]) < 1e-12) == centred


def fit(folder: Path, max_steps: int, callback: CentredGradient, ckpt_path: str | None = None) -> pl.Trainer:
    torch.manual_seed(0)
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
    trainer = quiet_trainer(folder, max_steps=max_steps, callbacks=[callback], limit_val_batches=0, deterministic=True)
    trainer.fit(learner, datamodule=Digits(batch_size=200, binarize=True), ckpt_path=ckpt_path, weights_only=True)
    return trainer


@pytest.mark.filterwarnings("ignore")
def test_offsets_are_sliding_means_of_earlier_batches_and_are_resumed(tmp_path: Path, monkeypatch) -> None:
    used: list[tuple[Tensor, Tensor]] = []
    seen: list[tuple[Tensor, Tensor]] = []

    def watch(energy: RBM, v: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        assert weights is None
        seen.append(mean_units(energy, v))
        torch.testing.assert_close(seen[-1], (v.mean(0), torch.sigmoid(energy.hidden_given_visible(v)).mean(0)))
        return seen[-1]

    monkeypatch.setattr("ebmlab.callbacks.centred_gradient.mean_units", watch)
    monkeypatch.setattr(
        "ebmlab.callbacks.centred_gradient.centre_gradient", lambda energy, offsets: used.append(offsets)
    )
    trainer = fit(tmp_path, 3, CentredGradient(rate=0.1))
    assert len(used) == 2 and len(seen) == 3
    torch.testing.assert_close(used[0], seen[0])
    torch.testing.assert_close(used[1][1], 0.9 * seen[0][1] + 0.1 * seen[1][1])
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    fit(tmp_path / "again", 4, CentredGradient(rate=0.1), str(tmp_path / "x.ckpt"))
    torch.testing.assert_close(used[2][0], 0.81 * seen[0][0] + 0.09 * seen[1][0] + 0.1 * seen[2][0])


def test_errors() -> None:
    with pytest.raises(UserError, match="rate is 0, but must be above 0"):
        CentredGradient(rate=0)
    learner = ContrastiveDivergence(Ising.learnable(5), Gibbs(), start=FromData())
    with pytest.raises(UserError, match="centres RBM and GRBM, not Ising: remove it"):
        CentredGradient().setup(None, learner, "fit")  # type: ignore[arg-type]
