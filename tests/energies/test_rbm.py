"""The RBM against sums over hidden units, Bayes' rule, enumeration and autograd, and what learners need of it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import pytest
import torch
from helpers_finite import Exact, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_learner import make_learner
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.energies import GRBM, Bipartite, Energy
from ebmlab.energies import rbm as module
from ebmlab.energies.rbm import RBM
from ebmlab.errors import UserError
from ebmlab.samplers import BlockGibbs
from ebmlab.samplers.initial_states import Start
from ebmlab.testing import chi_square_p

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
V, H = 4, 3


def make_rbm(cls: type[RBM] = RBM) -> RBM:
    rbm, generator = cls(V, H).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in rbm.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64, generator=generator))
    return rbm


def hidden_states() -> Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=H)), dtype=torch.float64)


def joint_table(rbm: RBM, v: Tensor) -> Tensor:
    """E(v, h) as printed, `(B, 8)`, from the parameters alone."""
    h = hidden_states()
    return -(v @ rbm.W @ h.T) - (v @ rbm.b_v)[:, None] - h @ rbm.b_h


def visible_states() -> Tensor:
    return make_rbm().domain.enumerate().double()


def test_joint_energy() -> None:
    rbm, v = make_rbm(), visible_states()
    for k, h in enumerate(hidden_states()):
        torch.testing.assert_close(rbm.joint_energy(v, h.expand(16, H)), joint_table(rbm, v)[:, k], **TIGHT)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_marginal_energy_sums_the_hidden_units_out(temperature: float) -> None:
    rbm, v = make_rbm(), visible_states()
    expected = -(-joint_table(rbm, v) / temperature).logsumexp(1)
    logits = rbm.hidden_given_visible(v)
    torch.testing.assert_close(rbm.marginal_energy(v, logits, temperature=temperature), expected, **TIGHT)
    if temperature == 1:
        torch.testing.assert_close(rbm(v), expected, **TIGHT)


def test_conditionals_follow_from_the_joint_energy() -> None:
    rbm, v, h = make_rbm(), visible_states(), hidden_states()
    table = -joint_table(rbm, v)
    torch.testing.assert_close(torch.sigmoid(rbm.hidden_given_visible(v)), table.softmax(1) @ h, **TIGHT)
    expected = table.softmax(0).T @ v
    torch.testing.assert_close(torch.sigmoid(rbm.visible_given_hidden(h)), expected, **TIGHT)
    torch.testing.assert_close(rbm.mean_visible(h), expected, **TIGHT)


def test_sample_visible_draws_from_the_conditional() -> None:
    torch.manual_seed(0)
    rbm, v, h = make_rbm(), visible_states(), hidden_states()[5]
    with torch.no_grad():
        draws = rbm.sample_visible(h.expand(200_000, H))
        law = (-joint_table(rbm, v))[:, 5].softmax(0)
    number = (draws @ torch.tensor([8.0, 4, 2, 1], dtype=torch.float64)).long()
    assert chi_square_p(torch.bincount(number, minlength=16), law) > PASS


@pytest.mark.parametrize("inference", [False, True])
def test_closed_form_gradient_is_the_autograd_one(inference: bool) -> None:
    rbm = make_rbm()
    with torch.inference_mode(inference):
        v = visible_states()
        energy, grad = rbm.value_and_grad(v)
        by_autograd = Energy.value_and_grad(rbm, v)
    torch.testing.assert_close((energy, grad), by_autograd, **TIGHT)
    assert not energy.requires_grad and not grad.requires_grad


@pytest.mark.parametrize("chunk", [1, 100, 2**22], ids=["one by one", "pairs", "at once"])
@pytest.mark.parametrize("inference", [False, True])
def test_flip_differences(inference: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    rbm, index = make_rbm(), torch.randint(V, (16, 3), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(inference):
        v = visible_states()
        for i in (None, index):
            torch.testing.assert_close(rbm.flip_differences(v, i), Energy.flip_differences(rbm, v, i), **TIGHT)
            torch.testing.assert_close(rbm.value_differences(v, i), Energy.value_differences(rbm, v, i), **TIGHT)


def test_flip_differences_have_gradients_in_the_parameters() -> None:
    """Ratio matching differentiates them with respect to the parameters."""
    rbm, v = make_rbm(), visible_states()
    parameters = list(rbm.parameters())
    ours = torch.autograd.grad(rbm.flip_differences(v).exp().sum(), parameters)
    torch.testing.assert_close(
        ours, torch.autograd.grad(Energy.flip_differences(rbm, v).exp().sum(), parameters), **TIGHT
    )


def test_float32_and_extreme_parameters() -> None:
    rbm = make_rbm()
    v = visible_states()
    single = make_rbm().float()
    torch.testing.assert_close(single(v.float()).double(), rbm(v), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        single.W.mul_(1e4)
        for value in (*single.value_and_grad(v.float()), single.flip_differences(v.float())):
            assert value.dtype == torch.float32 and value.isfinite().all()


def test_block_gibbs_leaves_the_law_invariant() -> None:
    assert invariance_p(BlockGibbs(), make_rbm()) > PASS
    assert convergence_distance(BlockGibbs(), make_rbm(), 20) < 0.02


def test_block_gibbs_leaves_the_joint_law_invariant() -> None:
    torch.manual_seed(0)
    rbm = make_rbm()
    state = deque(BlockGibbs().chain(rbm, Exact(rbm).sample(200_000), 2), maxlen=1).pop()[0]
    assert state.hidden is not None
    bits = torch.cat([state.x, state.hidden], 1) @ 2.0 ** torch.arange(V + H - 1, -1, -1, dtype=torch.float64)
    law = (-joint_table(rbm, visible_states())).flatten().softmax(0).detach()
    assert chi_square_p(torch.bincount(bits.long(), minlength=2 ** (V + H)), law) > PASS


MUTANTS = {
    "no visible bias": ("affine(self.b_v, h, self.W.T)", "h @ self.W.T"),
    "no hidden bias": ("affine(self.b_h, v, self.W)", "v @ self.W - self.b_h"),
    "means for draws": ("affine(self.b_v, h, self.W.T)", "1e3 * affine(self.b_v, h, self.W.T)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    """Exact draws that a wrong conditional moves no longer follow the law."""
    torch.manual_seed(0)
    right, wrong = Exact(make_rbm()), make_rbm(mutant(RBM, old, new))
    x, _ = BlockGibbs().sample(wrong, right.sample(50_000), 1)
    assert right.p_value(x) < FAIL


@pytest.mark.parametrize("hidden", ["drawn", "mean", "default"])
def test_weighted_sum_has_the_value_and_gradient_of_the_mean(hidden: str) -> None:
    """With drawn h the joint energy's; with E[h | v], given or computed, the gradient is the marginal energy's."""
    rbm, v = make_rbm(), visible_states()[:11]
    torch.manual_seed(0)
    posterior = torch.sigmoid(rbm.hidden_given_visible(v)).detach()
    h = torch.randint(2, (11, H)).double() if hidden == "drawn" else posterior
    total = rbm.weighted_sum()
    inputs = rbm.hidden_given_visible(v).detach()
    for part in (slice(0, 3), slice(3, 4), slice(4, 11)):
        known = (None, None) if hidden == "default" else (h[part], inputs[part] if hidden == "mean" else None)
        total.add(v[part], *known, weight=1 / 11)
    value, joint = total.value(), rbm.joint_energy(v, h).mean()
    torch.testing.assert_close(value, joint, **TIGHT)
    reference = joint if hidden == "drawn" else rbm(v).mean()
    parameters = list(rbm.parameters())
    actual = torch.autograd.grad(2 * value, parameters)
    torch.testing.assert_close(actual, torch.autograd.grad(2 * reference, parameters), **TIGHT)


@pytest.mark.parametrize("density", ["joint", "marginal"])
def test_contrastive_divergence_has_the_likelihood_gradient(density: str) -> None:
    """At equilibrium the gradient is that of -log p(data), which enumeration gives; z-tests over 40 batches."""
    torch.manual_seed(0)
    rbm, states = make_rbm(), visible_states()
    data = states[[3, 3, 7, 12]]
    parameters = list(rbm.parameters())
    loss = rbm(data).mean() + (-rbm(states)).logsumexp(0)
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
    exact, grads = Exact(rbm), []

    class AtEquilibrium(Start):
        def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
            return exact.sample(n)

    learner, _ = make_learner(rbm, BlockGibbs(), start=AtEquilibrium(), num_steps=1, density=density)
    for k in range(40):
        loss = learner.training_step(data.repeat(500, 1), k)
        grads.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]))
    grad = torch.stack(grads)
    z = (grad.mean(0) - expected) / (grad.std(0) / 40**0.5 + 1e-12)
    assert z.abs().max() < 5


def test_first_parameters() -> None:
    torch.manual_seed(0)
    rbm = RBM(100, 200)
    assert abs(float(rbm.W.detach().std()) - 0.01) < 2e-4 and rbm.W.shape == (100, 200)
    assert not rbm.b_v.any() and not rbm.b_h.any() and rbm.domain.event_shape == (100,)
    with pytest.raises(UserError, match="num_hidden is 0, but must be at least 1"):
        RBM(3, 0)


@pytest.mark.parametrize("make", [lambda: RBM(64, 50), lambda: GRBM(64, 50)], ids=["RBM", "GRBM"])
def test_mixed_precision_changes_nothing(make: Callable[[], Bipartite]) -> None:
    """Conditionals, energies and the statistics' gradient are those of float32."""
    torch.manual_seed(0)
    energy = make()
    with torch.no_grad():
        for p in energy.parameters():
            p.normal_()
    x, h = energy.domain.random(40), torch.rand(40, 50).round()

    def everything() -> list[Tensor]:
        total = energy.weighted_sum()
        total.add(x, h)
        value = total.value()
        found = [energy.joint_energy(x, h), energy(x), *energy.value_and_grad(x), energy.mean_visible(h)]
        return [*found, value, *torch.autograd.grad(value, list(energy.parameters()))]

    plain = everything()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = everything()
    assert all(torch.equal(a, b) for a, b in zip(plain, mixed, strict=True))
