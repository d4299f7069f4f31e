"""LowRank and LowRankStart: their integral beside the exact sum of the RBM that they write, and their samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_trainer import quiet_trainer
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.data import DataLoader

from ebmlab.callbacks import LowRankStart
from ebmlab.energies import RBM, Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z, exact_samples
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer, low_rank
from ebmlab.learners.low_rank import LowRank
from ebmlab.samplers import DMALA, BlockGibbs

V, H, LIGHT = 60, 6, 0.2


def clusters(n: int) -> tuple[Tensor, Tensor]:
    """Bits about a pattern and about its negative, of weights 0.8 and 0.2, and their exact log-likelihoods."""
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randint(0, 2, (V,), generator=generator).mul(2).sub(1).float()
    light = torch.rand(n, generator=generator) < LIGHT
    x = torch.bernoulli(torch.where(light.unsqueeze(1), -logits, logits).sigmoid(), generator=generator)
    of_each = torch.stack([x @ sign - softplus(sign).sum() for sign in (logits, -logits)], 1)
    return x, (of_each + torch.tensor([1 - LIGHT, LIGHT]).log()).logsumexp(1)


@pytest.fixture(scope="module")
def law() -> LowRank:
    made = LowRank(clusters(2000)[0], None, rank=1, num_hidden=H)
    made.fit()
    return made


def written(law: LowRank) -> RBM:
    rbm = RBM(V, H).requires_grad_(False)
    law.write_(rbm)
    return rbm


def test_the_integral_is_the_sum_of_the_rbm(law: LowRank) -> None:
    assert float(law.log_z()) == pytest.approx(float(exact_log_z(written(law))), abs=0.02)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_integral_is_the_sum_for_any_hyperplanes(rank: int) -> None:
    weights = torch.linspace(0.5, 1.5, 500)
    x, _ = clusters(500)
    law = LowRank(x, weights, rank=rank, num_hidden=H)
    means = weights.double() / weights.sum() @ (x.double() @ law.axes)
    torch.testing.assert_close(law.data @ law.grid, means)
    law.c += 0.1
    assert float(law.log_z()) == pytest.approx(float(exact_log_z(written(law))), abs=0.03)


def test_two_clusters_are_learnt_with_their_weights(law: LowRank) -> None:
    x, truth = clusters(6000)
    rbm = written(law)
    value = -float(rbm(x).mean()) - float(exact_log_z(rbm))
    assert float(truth.mean()) - 0.3 < value < float(truth.mean()) + 0.05
    axis = law.axes.float()
    half = (x @ axis).mean()
    share = lambda states: float((states @ axis > half).float().mean())  # noqa: E731
    torch.manual_seed(0)
    assert share(exact_samples(rbm, 4000)) == pytest.approx(share(x), abs=0.03)
    assert share(law.sample(4000)) == pytest.approx(share(x), abs=0.03)


def test_samples_have_the_means_of_the_law(law: LowRank) -> None:
    torch.manual_seed(1)
    error = law.sample(8000).mean(0) - exact_samples(written(law), 8000).mean(0)
    assert float(error.abs().max()) < 4.5 * (2 * 0.25 / 8000) ** 0.5


def fit(learner: ContrastiveDivergence, tmp_path: Path, steps: int, ckpt: Path | None = None) -> None:
    loader = DataLoader(clusters(200)[0], batch_size=100)  # type: ignore[arg-type]
    trainer = quiet_trainer(tmp_path, max_steps=steps, callbacks=[LowRankStart(1)])
    trainer.fit(learner, loader, loader, ckpt_path=ckpt)
    trainer.save_checkpoint(tmp_path / "last.ckpt")


def learner_of(rbm: RBM) -> ContrastiveDivergence:
    return ContrastiveDivergence(rbm, BlockGibbs(), start=ReplayBuffer(1000), num_steps=1)


def test_a_run_begins_with_the_law_and_its_chains_and_a_resumed_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(low_rank, "CLIMB", 300)
    learner = learner_of(RBM(V, H))
    fit(learner, tmp_path, 0)
    slots = learner.start.slots  # type: ignore[union-attr]
    assert slots is not None and slots.dtype == torch.int8 and slots.shape == (1000, V)
    x, _ = clusters(200)
    assert float((slots.float().mean(0) - x.mean(0)).abs().max()) < 0.15
    assert torch.linalg.matrix_rank(learner.energy.W.detach(), tol=1e-4) == 1
    again = learner_of(RBM(V, H))
    learner.energy.W.data.mul_(0.5)
    trained = learner.energy.W.detach().clone()
    torch.save(
        torch.load(tmp_path / "last.ckpt", weights_only=False) | {"state_dict": learner.state_dict()},
        tmp_path / "half.ckpt",
    )
    fit(again, tmp_path, 0, tmp_path / "half.ckpt")
    assert torch.equal(again.energy.W, trained)


def test_what_has_no_such_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="LowRankStart: rank is 4, but must be 1, 2 or 3"):
        LowRankStart(4)
    with pytest.raises(UserError, match="needs an RBM with hidden bits, got RBM"):
        fit(learner_of(RBM(V, H, hidden="gaussian")), tmp_path, 1)
    with pytest.raises(UserError, match="needs an RBM with hidden bits, got Ising"):
        fit(ContrastiveDivergence(Ising.learnable(V), DMALA(0.2), start=ReplayBuffer(1000)), tmp_path, 1)
    with pytest.raises(UserError, match="rank is 2, but the data vary in fewer directions"):
        LowRank(torch.eye(2)[:, :1].repeat(5, 4), None, rank=2, num_hidden=3)
