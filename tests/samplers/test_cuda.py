"""Every sampler on a GPU, if there is one: no tensors on the CPU, states in the domain, the right laws."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_cases import CASES, EXACT, PAIRS, STRUCTURED
from helpers_finite import DOMAINS, Exact, Target
from helpers_grbm import PASS
from pytorch_lightning.callbacks import EMAWeightAveraging
from scipy.stats import ks_2samp
from torch import Tensor

from ebmlab.callbacks import DivergenceGuard, RunState
from ebmlab.callbacks.judged_step import hold_back
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ResNet
from ebmlab.engine import Replayed
from ebmlab.errors import UserError
from ebmlab.evaluation import law_check
from ebmlab.learners import ContrastiveDivergence, FromData, PersistentACS, ReplayBuffer
from ebmlab.learners.closed_form import independent_
from ebmlab.samplers import (
    ACS,
    DMALA,
    DULA,
    GWG,
    Bfloat16Proposals,
    BlockGibbs,
    ChromaticGibbs,
    Cosine,
    Gibbs,
    GibbsLangevin,
    Langevin,
    Sampler,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_runs_and_stays_in_its_domain(name: str, domain: str) -> None:
    space = DOMAINS[domain]
    target = Target(space, "cubic").cuda()
    last, info = CASES[name].make(space).cuda().sample(target, space.random(64, device="cuda").double(), 20)
    space.validate(last)
    assert last.is_cuda and info.acceptance.is_cuda and info.acceptance.isfinite().all()


@pytest.mark.parametrize(("name", "domain"), EXACT)
def test_exact_draws_stay_exact(name: str, domain: str) -> None:
    torch.manual_seed(0)
    exact = Exact(Target(DOMAINS[domain], "cubic"))
    x = exact.sample(200_000).cuda()
    x, _ = CASES[name].make(DOMAINS[domain]).cuda().sample(Target(DOMAINS[domain], "cubic").cuda(), x, 1)
    assert exact.p_value(x.cpu()) > PASS


@pytest.mark.parametrize("make", STRUCTURED.values(), ids=lambda make: type(make()[0]).__name__)
def test_structured_samplers(make) -> None:  # type: ignore[no-untyped-def]
    sampler, energy = make()
    energy, sampler = energy.cuda(), sampler.cuda()
    last, _ = sampler.sample(energy, energy.domain.random(64, device="cuda"), 20)
    energy.domain.validate(last)


def test_a_law_is_checked_and_fitted_on_the_gpu() -> None:
    torch.manual_seed(0)
    energy = Ising.learnable(4).cuda()
    x = torch.where(torch.rand(20_000, 4) < torch.tensor([0.2, 0.5, 0.6, 0.7]), 1.0, -1.0).cuda()
    independent_(energy, x, pseudo_count=1e-6)
    assert law_check(energy, x).follows and not law_check(energy, -x).follows


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize(
    "sampler",
    [DMALA(0.2), DULA(0.2), ACS(2.0), GWG(), Bfloat16Proposals(DMALA(0.2), 2), BlockGibbs(), ChromaticGibbs()],
)
def test_steps_do_not_wait_for_the_gpu(sampler: Sampler) -> None:
    energy = (Ising.lattice(4, 0.3) if isinstance(sampler, ChromaticGibbs) else RBM(20, 10)).cuda()
    sampler, x = sampler.cuda(), energy.domain.random(64, device="cuda")
    state, _ = sampler.step(energy, sampler.init(energy, x, 10))  # colours and settings have been looked up
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            state, _ = sampler.step(energy, state)
    finally:
        torch.cuda.set_sync_debug_mode("default")


class Chains:
    """The last states of chains that are replayed."""

    def __init__(self) -> None:
        self.replayed = Replayed()

    def __call__(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        (y,) = self.replayed(lambda x: (sampler._run(energy, x, num_steps),), x, energy, sampler, settings=num_steps)
        assert y is not None
        return y


@pytest.mark.parametrize(
    "sampler", [DMALA(1.0), ACS(2.0, 0.5, cycle_length=4), GWG(), BlockGibbs()], ids=lambda s: type(s).__name__
)
def test_replayed_chains_follow_the_parameters(sampler: Sampler) -> None:
    """From exact draws chains stay in the law; after the parameters change in place they reach the new one."""
    torch.manual_seed(0)
    rbm, sampler, chains = RBM(4, 3).double().requires_grad_(False), sampler.cuda(), Chains()
    torch.nn.init.normal_(rbm.W)
    exact = Exact(rbm)
    rbm, x = rbm.cuda(), exact.sample(50_000).cuda()
    assert exact.p_value(chains(sampler, rbm, x, 7).cpu()) > PASS
    rbm.W.neg_()
    rbm.b_v.add_(0.5)
    exact = Exact(copy.deepcopy(rbm).cpu())
    assert exact.p_value(x.cpu()) < 1e-9
    for _ in range(20):
        x = chains(sampler, rbm, x, 7)
    assert exact.p_value(x.cpu()) > PASS


def test_replays_draw_anew_and_record_again_when_something_else_changes() -> None:
    energy, sampler, chains = MLP(20, 16).cuda(), DMALA(0.2).cuda(), Chains()
    x = energy.domain.random(64, device="cuda")
    first = chains(sampler, energy, x, 8)
    assert not (first == chains(sampler, energy, x, 8)).all()
    assert chains(sampler, energy, x[:5], 8).shape == (5, 20)
    chains(sampler, energy, x, 8)
    sampler.step_size.fill_(1e-9)  # in place, which the recording sees
    assert (chains(sampler, energy, x, 8) == x).all()
    assert not (chains(DMALA(0.2).cuda(), energy, x, 8) == x).all()
    assert (chains(sampler, energy, x, 8) == x).all()


def test_a_recording_draws_nothing_from_the_generator_but_what_a_replay_draws() -> None:
    energy, sampler = MLP(20, 16).cuda(), DMALA(0.2).cuda()
    x = energy.domain.random(64, device="cuda")
    chains = Chains()
    chains(sampler, energy, x, 8)
    last = []
    for each in (chains, Chains()):  # replayed at once, and recorded first
        torch.cuda.manual_seed(1)
        last.append(each(sampler, energy, x, 8))
    assert torch.equal(*last)


@pytest.mark.parametrize("sampler", [DMALA(0.3), Bfloat16Proposals(DMALA(0.3), 2)], ids=lambda s: type(s).__name__)
def test_replayed_chains_of_a_deep_energy_are_those_of_plain_ones(sampler: Sampler) -> None:
    """Also after the parameters have changed in place."""
    energy, sampler, chains = ResNet((1, 8, 8), channels=8).cuda(), sampler.cuda(), Chains()
    x = energy.domain.random(2000, device="cuda")
    for _ in range(2):
        plain, replayed = sampler.sample(energy, x, 20)[0], chains(sampler, energy, x, 20)
        both = torch.stack([energy(plain).detach(), energy(replayed).detach()]).cpu()
        assert ks_2samp(*both.numpy()).pvalue > PASS
        with torch.no_grad():
            energy.linear.weight.mul_(-20)
            energy.net[0].weight.mul_(2)


def test_steps_that_wait_for_the_gpu_cannot_be_recorded() -> None:
    grbm = GRBM(5, 3).cuda()
    with pytest.raises(UserError, match="they wait for the GPU"):
        Chains()(Langevin(0.1, schedule=Cosine()).cuda(), grbm, grbm.random(4), 4)


def test_steps_that_draw_on_the_cpu_cannot_be_recorded() -> None:
    rbm = RBM(9, 4).cuda()
    with pytest.raises(UserError, match="they draw random numbers on the CPU"):
        Chains()(Gibbs().cuda(), rbm, rbm.random(4), 4)


class FromTheseStates(FromData):
    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.these = x

    def draw(self, energy: Energy, n: int, data: Tensor) -> Tensor:
        return self.these.clone()


@pytest.mark.parametrize(
    ("energy", "sampler", "density"),
    [
        (RBM(9, 4), DMALA(1e-9), "marginal"),
        (MLP(9, 8), DMALA(1e-9), "marginal"),
        (ResNet((1, 4, 4), channels=4), DMALA(1e-9), "marginal"),
        (GRBM(9, 4), GibbsLangevin(1e-9), "joint"),
        (GRBM(9, 4), GibbsLangevin(1e-9), "marginal"),
    ],
)
def test_a_replayed_training_step_is_a_plain_one(
    energy: Energy, sampler: Sampler, density: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where chains stay at other states than the data, gradients are the same, but for hidden units that are drawn."""
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    gradients = []
    torch.manual_seed(0)
    start = energy.random(60_000).cuda()
    data = torch.zeros_like(start)
    for compile_chains in (False, True):
        learner = ContrastiveDivergence(
            copy.deepcopy(energy),
            copy.deepcopy(sampler),
            start=FromTheseStates(start),
            num_steps=5,
            burn_in=2,
            density=density,
            compile_chains=compile_chains,
        ).cuda()
        for _ in range(2):  # the second time a recording is replayed that does not know the new parameters
            with torch.no_grad():
                for p in learner.energy.parameters():
                    p.add_(0.1)
            loss = learner.training_step(data, 0)
        parameters = list(learner.energy.parameters())
        gradients.append((loss, *torch.autograd.grad(loss, parameters, allow_unused=True)))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0.01, atol=0.03)


def test_a_sampler_that_changes_with_the_training_is_refused(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(4, 3), PersistentACS(), start=FromData(), num_steps=4, compile_chains=True)
    trainer = pl.Trainer(
        accelerator="gpu", devices=1, max_steps=1, logger=False, enable_checkpointing=False, default_root_dir=tmp_path
    )
    with pytest.raises(UserError, match="PersistentACS changes with the training"):
        trainer.fit(learner, torch.utils.data.DataLoader(torch.ones(8, 4).split(1)))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_fused_adam_leaves_a_bad_step_out_and_nobody_waits() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = torch.optim.Adam([parameter], lr=0.1, fused=True)
    parameter.grad = torch.ones_like(parameter)
    numbers = torch.ones(2, 4, device="cuda")
    numbers[1, 0] = torch.inf
    optimizer.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        seen = []
        for k in (1, 0):  # a bad step, and a good one
            hold_back(optimizer, numbers[k], 100.0)
            optimizer.step()
            seen.append(parameter.detach().clone())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert seen[0].tolist() == pytest.approx([0.9] * 3) and seen[1].tolist() == pytest.approx([0.8] * 3)


class Strict(pl.Callback):
    """Some iterations that are not logged may not wait for the GPU."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.global_step in (13, 17):
            torch.cuda.set_sync_debug_mode("error" if trainer.global_step == 13 else "default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_an_iteration_waits_nowhere(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(
        ResNet((1, 8, 8), channels=4),
        DMALA(0.2),
        start=ReplayBuffer(200),
        num_steps=4,
        optimizer=partial(torch.optim.Adam, lr=1e-3),
        compile_chains=True,
    )
    callbacks = [DivergenceGuard(), EMAWeightAveraging(decay=0.9), RunState(), Strict()]
    trainer = pl.Trainer(
        accelerator="gpu",
        devices=1,
        max_steps=18,
        log_every_n_steps=10,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        callbacks=callbacks,  # type: ignore[arg-type]
        default_root_dir=tmp_path,
    )
    try:
        trainer.fit(learner, Digits(binarize=True, batch_size=50))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.global_step == 18 and all(p.isfinite().all() for p in learner.parameters())
