"""PseudoLikelihood against its definition by loops, in value and gradient; both forms, weights, the optimum."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
from helpers_family import drawn_potts
from helpers_mutants import mutant
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.energies import GRBM, RBM, Energy, Ising, Potts
from ebmlab.energies.pairwise import conditionals
from ebmlab.errors import UserError
from ebmlab.learners import PseudoLikelihood
from ebmlab.learners.pseudo_likelihood import pseudo_log_likelihood
from ebmlab.studies.targets.lattice_gaussian import LatticeGaussian

D, Q = 5, 4


def potts(pairs: Any = None) -> Potts:
    return drawn_potts(D, Q, pairs, seed=4)


def ising() -> Ising:
    energy = Ising.learnable(D).double()
    energy.parametrizations.coupling.original.data.normal_()  # type: ignore[union-attr]
    energy.field.data.normal_()
    return energy


def rbm() -> RBM:
    energy = RBM(D, 3).double()
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    return energy


ENERGIES = {
    "Potts": potts,
    "Potts, some pairs": lambda: potts([[0, 3], [4, 1]]),
    "Ising": ising,
    "RBM": rbm,
    "LatticeGaussian": lambda: LatticeGaussian.rotated(3, num_values=3).double(),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:You are trying to `self.log", "ignore:.*does not have many workers", "ignore:The number of training batches"
)
every_energy = pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)


def by_loops(energy: Energy, x: Tensor) -> Tensor:
    """-mean over x of the sum over i of log p(x_i | rest), from the energies of all states that differ in i alone."""
    domain: Any = energy.domain
    total = x.new_zeros(())
    for state in domain.to_index(x):
        for i in range(domain.size):
            others = [state.clone() for _ in range(domain.num_values)]
            for value, other in enumerate(others):
                other[i] = value
            energies = torch.stack([energy(domain.from_index(other.unsqueeze(0)).double())[0] for other in others])
            total = total + torch.log_softmax(-energies, 0)[state[i]]
    return -total / len(x)


@every_energy
def test_the_loss_and_its_gradient_are_those_of_the_definition(make: Any) -> None:
    energy = make()
    x = energy.domain.random(6).double()
    parameters = [p for p in energy.parameters() if p.requires_grad]
    loss, expected = PseudoLikelihood(energy).training_step(x, 0), by_loops(energy, x)
    torch.testing.assert_close(torch.as_tensor(loss), expected)
    if not parameters:
        return
    found = torch.autograd.grad(loss, parameters)
    for ours, exact in zip(found, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(ours, exact, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("columns", [1, 4, 9, 64])
def test_gathered_rows_give_the_weighted_loss_and_its_gradient(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against products of one-hot states by autograd, whatever number of columns is in the cache."""
    monkeypatch.setattr(conditionals, "COLUMNS", columns)
    check_gathered_rows(conditionals.log_conditionals)


def check_gathered_rows(log_conditionals: Any) -> None:
    torch.manual_seed(2)
    matrix, field = torch.randn(D * Q, D * Q).double(), torch.randn(D, Q).double()
    for i in range(D):
        matrix[i * Q : i * Q + Q, i * Q : i * Q + Q] = 0
    given = matrix.requires_grad_(), field.requires_grad_()
    x, weights = potts().domain.random(9).double(), torch.rand(9).double()
    local = (x.flatten(1) @ matrix).view(9, D, Q) + field
    expected, found = (local.log_softmax(-1) * x).sum((1, 2)), log_conditionals(matrix, field, x)
    torch.testing.assert_close(found, expected)
    for ours, exact in zip(*(torch.autograd.grad((weights * v).sum(), given) for v in (found, expected)), strict=True):
        torch.testing.assert_close(ours, exact)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("residual * factor.view(-1, 1, 1)", "residual"),
        ("log_p.exp_().neg_()", "log_p.exp_()"),
        ("counts.cumsum(0) - counts", "counts.cumsum(0).clamp(max=len(states))"),
        ("+ field[own]", ""),
        ("torch.arange(d, device=values.device) * q", "0 * torch.arange(d, device=values.device)"),
    ],
)
def test_wrongly_gathered_rows_are_found(old: str, new: str) -> None:
    wrong = mutant(conditionals.log_conditionals, old, new)
    with pytest.raises((AssertionError, RuntimeError)):
        check_gathered_rows(wrong)


def test_a_wrong_sign_is_found() -> None:
    energy = potts([[0, 3], [4, 1]])
    x = energy.domain.random(6).double()
    wrong = mutant(type(energy), "-(-self.value_differences(x, index))", "-self.value_differences(x, index)")
    assert not torch.allclose(-wrong.log_conditionals(energy, x).mean(), by_loops(energy, x))


@pytest.mark.parametrize("make", [potts, lambda: potts([[0, 3], [4, 1]]), ising])
def test_the_asymmetric_form_regresses_each_site_on_the_others(make: Any) -> None:
    """By loops over sites: the logits of site i come from its own copies of the couplings alone."""
    energy = make()
    learner = PseudoLikelihood(energy, form="asymmetric")
    with torch.no_grad():
        learner.regressions.add_(torch.randn_like(learner.regressions))
    x = energy.domain.random(6).double()
    here, there = learner.regressions.detach()
    digits, total = energy.domain.to_index(x), 0.0
    for state, i in itertools.product(digits.tolist(), range(D)):
        if isinstance(energy, Potts):
            logits = energy.field[i].detach().clone()
            for pair, own, other in zip(energy.pairs.tolist(), here, there, strict=True):
                if pair[0] == i:
                    logits += own[:, state[pair[1]]]
                elif pair[1] == i:
                    logits += other[state[pair[0]], :]
        else:
            field = energy.field[i].detach()
            for j in range(D):
                if j != i:
                    field = field + (here[i, j] if i < j else there[j, i]) * (2 * state[j] - 1)
            logits = torch.stack([-field, field])
        total += float(logits.log_softmax(0)[state[i]])
    assert float(learner.training_step(x, 0).detach()) == pytest.approx(-total / len(x))
    learner.average_()
    mean = (here + there) / 2
    if isinstance(energy, Potts):  # in the zero-sum gauge
        mean = mean - mean.mean(1, keepdim=True) - mean.mean(2, keepdim=True) + mean.mean((1, 2), keepdim=True)
    torch.testing.assert_close(
        energy.coupling.detach(), mean if isinstance(energy, Potts) else mean.triu(1) + mean.triu(1).T
    )


def flat_gradient(loss: Any, learner: PseudoLikelihood) -> Tensor:
    parameters = [p for p in learner.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(grads, parameters, strict=True)]
    )


BLOCKS: dict[str, tuple[Any, Any]] = {
    **{name: (make, "symmetric") for name, make in ENERGIES.items() if name != "LatticeGaussian"},
    "Potts, asymmetric": (potts, "asymmetric"),
    "Potts, some pairs, asymmetric": (lambda: potts([[0, 3], [4, 1]]), "asymmetric"),
    "Ising, asymmetric": (ising, "asymmetric"),
}


@pytest.mark.parametrize("num_sites", [1, 2, D])
@pytest.mark.parametrize(("make", "form"), BLOCKS.values(), ids=BLOCKS)
def test_the_mean_over_all_blocks_of_sites_is_the_whole(
    make: Any, form: Any, num_sites: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss and gradient, penalties included, over all sets of sites that a step may draw."""
    torch.manual_seed(3)
    penalties = {"l1": 0.1, "l2": 0.3}
    learner = PseudoLikelihood(make(), form=form, **penalties)
    if form == "asymmetric":
        learner.regressions.data.add_(torch.randn_like(learner.regressions))
    x = learner.energy.domain.random(6).double()
    expected: Any = learner.training_step(x, 0)
    learner.sites_per_step = num_sites
    blocks = list(itertools.permutations(range(D), num_sites))
    losses, grads = [], []
    for block in blocks:
        rest = [i for i in range(D) if i not in block]
        monkeypatch.setattr(torch, "randperm", lambda n, device, order=(*block, *rest): torch.tensor(order))
        loss: Any = learner.training_step(x, 0)
        losses.append(loss.detach())
        grads.append(flat_gradient(loss, learner))
    torch.testing.assert_close(torch.stack(losses).mean(), expected.detach())
    torch.testing.assert_close(torch.stack(grads).mean(0), flat_gradient(expected, learner))
    assert num_sites == D or torch.stack(losses).std() > 1e-3, "the blocks are the same"


def test_sites_are_drawn_alike() -> None:
    """At random, each as often as any other, from torch's generator."""
    energy, seen = potts(), torch.zeros(D)
    learner = PseudoLikelihood(energy, sites_per_step=2)
    x = energy.domain.random(4).double()
    torch.manual_seed(0)
    first = [float(learner.losses(x).mean().detach()) for _ in range(50)]
    torch.manual_seed(0)
    assert first == [float(learner.losses(x).mean().detach()) for _ in range(50)]
    for _ in range(1000):
        seen += torch.autograd.grad(learner.losses(x).sum(), energy.field)[0].abs().sum(1) > 0
    assert seen.sum() == 2000 and (seen - 400).abs().max() < 5 * (1000 * 0.4 * 0.6) ** 0.5


def test_both_forms_agree_where_both_couplings_of_a_pair_do() -> None:
    for energy in (potts(), ising()):
        x = energy.domain.random(6).double()
        losses = [
            PseudoLikelihood(energy, form=form, l1=0.1, l2=0.3, l2_field=0.2).training_step(x, 0)
            for form in ("symmetric", "asymmetric")
        ]
        torch.testing.assert_close(*losses)


@pytest.mark.parametrize("make", [potts, ising])
def test_penalties_count_each_pair_once(make: Any) -> None:
    energy = make()
    pairs = energy.coupling if isinstance(energy, Potts) else energy.coupling.triu(1)
    expected = 0.1 * pairs.abs().sum() + 0.3 * pairs.square().sum() + 0.2 * energy.field.square().sum()
    found = PseudoLikelihood(energy, l1=0.1, l2=0.3, l2_field=0.2).penalty()
    torch.testing.assert_close(torch.as_tensor(found), expected)


@pytest.mark.parametrize("form", ["symmetric", "asymmetric"])
@cases("optimizer", {"L-BFGS": torch.optim.LBFGS, "Adam": partial(torch.optim.Adam, lr=0.05)}, fast=("L-BFGS",))
def test_couplings_are_found_again(form: Any, optimizer: Any) -> None:
    """The optimum of the expected pseudo-likelihood is the law of the data itself: exact data by weights."""
    truth = potts([[0, 1], [1, 2], [3, 4]])
    truth.coupling.data.mul_(0.5)
    truth.zero_sum_()
    states = truth.domain.enumerate().double()
    law = (-truth(states)).softmax(0).detach()
    energy = Potts(D, Q, pairs=[[0, 1], [1, 2], [3, 4], [0, 4]]).double()
    learner = PseudoLikelihood(energy, form=form, optimizer=optimizer)
    losses = law * len(states)

    def closure() -> Tensor:
        step.zero_grad()
        found = learner._regressed(states) if form == "asymmetric" else pseudo_log_likelihood(energy, states)
        loss = -(losses * found).mean()
        loss.backward()
        return loss

    step = optimizer(learner.parameters())
    for _ in range(10 if optimizer is torch.optim.LBFGS else 400):
        step.step(closure)
    if form == "asymmetric":
        learner.average_()
    energy.zero_sum_()
    assert (energy.coupling[1].abs().max()) < 0.02  # the pair that does not interact
    torch.testing.assert_close(energy.coupling[[0, 2, 3]], truth.coupling, atol=0.02, rtol=0)
    torch.testing.assert_close(energy.field, truth.field, atol=0.03, rtol=0)


@pytest.mark.parametrize("form", ["symmetric", "asymmetric"])
def test_a_trainer_fits_it_by_lbfgs(form: Any, tmp_path: Any) -> None:
    torch.manual_seed(1)
    truth = potts().float()
    x = truth.domain.enumerate()[torch.multinomial((-truth(truth.domain.enumerate())).softmax(0), 400, True)]
    learner = PseudoLikelihood(Potts(D, Q), form=form, l2=0.01, l2_field=0.01, optimizer=torch.optim.LBFGS)
    before = float(-pseudo_log_likelihood(learner.energy, x).mean().detach())
    loader = torch.utils.data.DataLoader(x, 400)
    trainer = quiet_trainer(tmp_path, max_epochs=3, log_every_n_steps=1)
    trainer.fit(learner, loader, loader)
    after = float(-pseudo_log_likelihood(learner.energy, x).mean().detach())
    assert float(trainer.callback_metrics["val/loss"]) == pytest.approx(after, rel=1e-5)
    assert before == pytest.approx(D * math.log(Q))
    assert after < 0.8 * before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PseudoLikelihood(GRBM(3, 2)), "fits energies on Finite domains"),
        (lambda: PseudoLikelihood(rbm(), form="asymmetric"), "needs a Potts or Ising energy that learns, got RBM"),
        (lambda: PseudoLikelihood(Ising.lattice(2, 0.1), form="asymmetric"), "energy that learns"),
        (lambda: PseudoLikelihood(rbm(), l2_field=0.1), "l2_field needs a Potts or Ising"),
        (lambda: PseudoLikelihood(potts(), form="both"), 'form is "both"'),  # type: ignore[arg-type]
        (lambda: PseudoLikelihood(potts(), l2=-1.0), "l2"),
        (lambda: PseudoLikelihood(potts(), sites_per_step=0), "sites_per_step is 0"),
        (lambda: PseudoLikelihood(potts(), sites_per_step=6), "sites_per_step is 6, but Potts has 5 coordinates"),
        (
            lambda: PseudoLikelihood(potts(), sites_per_step=2, optimizer=torch.optim.LBFGS).configure_optimizers(),
            "LBFGS needs the same loss at each call, and sites_per_step draws other",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
