"""The any-scale balanced samplers: exactness of every variant, the paper's claims, mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_batch import alone_and_together
from helpers_blocks import Table
from helpers_errors import refused
from helpers_finite import (
    DOMAINS,
    MOSTLY_CUBIC,
    MOSTLY_TWO_DOMAINS,
    Quadratic,
    Target,
    bias,
    convergence_distance,
    invariance_p,
)
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy, Ising
from ebmlab.graphs import Edges
from ebmlab.samplers.any_scale import VARIANTS, AnyScale, propose
from ebmlab.samplers.dmala import DMALA
from ebmlab.samplers.edge_root import EdgeRoot
from ebmlab.samplers.tuners.any_scale_search import DIAGONALS, AnyScaleTuner
from ebmlab.samplers.tuners.curvature import diagonal_trace

NUMERIC = {name: DOMAINS[name] for name in ("binary", "spin", "ordinal")}
AUXILIARY = (*DIAGONALS, "edges")


def indefinite(d: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    a = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return scale * (a + a.T) / 2


def matrices(variant: Any, W: Tensor) -> dict[str, Any]:
    """W, and D where the variant is given it."""
    return {"curvature": W} | ({} if variant == "edges" else {"diagonal": DIAGONALS[variant](W)})


def auxiliary(domain: Finite, variant: Any = "trace", cls: Any = AnyScale, seed: int = 0, **settings: Any) -> AnyScale:
    W = indefinite(domain.size, seed, 0.25 if isinstance(domain, Spin) else 1.0)  # a spin's jump is 2
    sampler = cls(variant, **matrices(variant, W), **settings)
    assert isinstance(sampler, torch.nn.Module)
    return sampler  # type: ignore[return-value]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_first_with_balance_one_half_is_dmala(domain: Finite) -> None:
    energy = Target(domain, "cubic")
    chains = []
    for sampler in (DMALA(0.8), AnyScale("first", 0.8, balance=0.5)):
        torch.manual_seed(0)
        chains.append(sampler.sample(energy, energy.domain.random(64).double(), 20))
    assert torch.equal(chains[0][0], chains[1][0])
    assert torch.equal(chains[0][1].acceptance, chains[1][1].acceptance)


@cases(("alpha", "sigma"), [(0.5, 0.3), (0.5, 1e6), (0.8, 1e6), (1.0, 1e6)], fast=[0, 2])
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_without_auxiliary_variable_the_matrix_is_exact(domain: Finite, kind: str, alpha: float, sigma: float) -> None:
    energy = Target(domain, kind)
    samplers = [AnyScale("first", sigma, balance=alpha)]
    if domain in NUMERIC.values():
        W = torch.linspace(-3, 2, domain.size)  # either sign, and negative stiffness at large sigma
        samplers += [AnyScale("diagonal", sigma, balance=alpha, curvature=W), AnyScale("trace", sigma, balance=alpha)]
    for sampler in samplers:
        assert sampler.exact and bias(sampler, energy) < 1e-10


@MOSTLY_CUBIC
@cases("domain", NUMERIC, fast=("spin", "ordinal"))
def test_with_auxiliary_variable_exact_draws_stay_exact(domain: Finite, kind: str) -> None:
    energy = Table(Target(domain, kind))
    settings = [("shift", 0.5, 1e6), ("trace", 1.0, 2.0), ("edges", 0.9, 2.0), ("max", 0.8, 0.3)]
    settings = settings[: 4 if kind == "cubic" else 3]
    for seed, (variant, alpha, sigma) in enumerate(settings):
        sampler = auxiliary(domain, variant, seed=seed, step_size=sigma, balance=alpha)
        assert sampler.exact and invariance_p(sampler, energy, num_chains=200_000, seed=seed) > PASS
    if kind != "cubic":
        return
    positive = indefinite(domain.size) @ indefinite(domain.size)
    singular = -torch.ones(domain.size, dtype=torch.float64).diag()
    for W, D in ((positive, 0 * positive[0]), (singular, -singular.diag())):
        assert (
            invariance_p(AnyScale("trace", 2.0, balance=0.8, curvature=W, diagonal=D), energy, num_chains=200_000)
            > PASS
        )


@cases("domain", NUMERIC, fast=("spin",))
def test_chains_converge_from_the_worst_start(domain: Finite) -> None:
    sampler = auxiliary(domain, step_size=5.0, balance=0.8)
    assert convergence_distance(sampler, Table(Target(domain, "cubic")), 100, num_chains=5_000) < 0.04


def log_conditional(energy: Energy, x: Tensor, y: Tensor, u: Tensor, sampler: AnyScale) -> Tensor:
    """Log q(y | x, u) by the corrected Eq. 14, from all values of each coordinate."""
    assert sampler.curvature is not None and sampler.diagonal is not None and sampler.root is not None
    assert isinstance(energy.domain, Finite)
    sigma, alpha = sampler.step_size.double(), sampler.balance.double()
    R = alpha.sqrt() * sampler.root
    f_grad = -energy.value_and_grad(x)[1]
    b = alpha * (f_grad - x @ sampler.curvature) + u @ R + x / sigma
    values = energy.domain.values.double()
    logits = b.unsqueeze(-1) * values - (alpha * sampler.diagonal + 1 / sigma).unsqueeze(-1) * values**2 / 2
    return logits.log_softmax(-1).gather(-1, energy.domain.to_index(y).unsqueeze(-1)).sum((1, 2))


@pytest.mark.parametrize("domain", NUMERIC.values(), ids=NUMERIC)
def test_density_and_ratio_are_those_of_the_paper(domain: Finite) -> None:
    """Here u, W and the square root are written out; the sampler computes with xi and D alone."""
    torch.manual_seed(0)
    energy, sampler = Target(domain, "cubic"), auxiliary(domain, step_size=3.0, balance=0.7)
    assert sampler.root is not None
    x, y = (domain.random(500).double() for _ in range(2))
    R = sampler.balance.double().sqrt() * sampler.root
    u, root = x @ R + torch.randn_like(x), float(sampler.balance) ** 0.5
    torch.testing.assert_close(root * sampler.model.push(x - y), (x - y) @ R, rtol=1e-6, atol=1e-6)
    settings = float(sampler.step_size), float(sampler.balance)
    for here, there in ((x, y), (y, x)):
        law = propose(energy, here, energy.value_and_grad(here)[1], settings, sampler.model, u - here @ R)
        log_q = law.log_prob(law.move_to(there))
        torch.testing.assert_close(log_q, log_conditional(energy, here, there, u, sampler), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", AUXILIARY)
@pytest.mark.parametrize("domain", [*NUMERIC.values(), Ordinal(3, 41)], ids=[*NUMERIC, "lattice"])
def test_a_quadratic_target_accepts_everything(domain: Finite, variant: Any) -> None:
    """Sec. 3.2: with sigma infinite and alpha 1 acceptance is always 1; plain Langevin's is not."""
    torch.manual_seed(0)
    d = domain.size
    W = -(indefinite(d) @ indefinite(d) + 0.5 * torch.eye(d)) / 10 if domain.num_values > 3 else indefinite(d) / 4
    energy = Quadratic(domain, W, centre=(domain.num_values - 1) / 2)
    sampler = AnyScale(variant, 1e18, balance=1.0, **matrices(variant, W))
    x, info = sampler.sample(energy, domain.random(300).double(), 20)
    assert info.acceptance.min() > 1 - 1e-5 and info.hops.mean() > 0.1 * d
    if domain.num_values > 3:  # a fine lattice; large steps along the gradient alone overshoot
        for alpha in (0.5, 1.0):
            assert AnyScale("first", 1e18, balance=alpha).sample(energy, x, 20)[1].acceptance.mean() < 0.5


MUTANTS = {
    "no density of u": ("+ log_u +", "+"),
    "half its density": ("- back.square().sum(1)) / 2", "- back.square().sum(1)) / 4"),
    "density of u forth alone": ("- back.square().sum(1)", ""),
    "the density upside down": ("(noise.square().sum(1) - back.square().sum(1))", "(back - noise).square().sum(1)"),
    "stale gradient": ("new.x, new.grad, settings, model, back", "new.x, state.grad, settings, model, back"),
}


@cases(("old", "new"), MUTANTS, fast=list(MUTANTS)[:1])
def test_mutants_are_caught(old: str, new: str) -> None:
    domain, wrong = DOMAINS["binary"], mutant(AnyScale, old, new)
    sampler = auxiliary(domain, "shift", wrong, step_size=2.0, balance=0.8)
    assert invariance_p(sampler, Table(Target(domain, "cubic")), num_chains=200_000) < FAIL


WEAKER = {
    "noise kept": ("noise + root(alpha) * model.push((state.x - new.x).flatten(1))", "noise"),
    "noise moved the wrong way": ("(state.x - new.x)", "(new.x - state.x)"),
}


@pytest.mark.parametrize(("old", "new"), WEAKER.values(), ids=WEAKER)
def test_reverse_noise_matters_to_acceptance_alone(old: str, new: str) -> None:
    """Any involution of the noise leaves the law invariant; only the one that keeps u accepts all on a quadratic."""
    domain, W, wrong = DOMAINS["binary"], indefinite(4), mutant(AnyScale, old, new)
    torch.manual_seed(0)
    sampler = wrong("trace", 1e18, balance=1.0, curvature=W, diagonal=diagonal_trace(W))
    _, info = sampler.sample(Quadratic(domain, W, 0.5), domain.random(300), 20)
    assert info.acceptance.mean() < 0.9
    sampler = auxiliary(domain, "shift", wrong, step_size=2.0)
    assert invariance_p(sampler, Table(Target(domain, "cubic")), num_chains=200_000) > PASS


def test_noise_is_drawn_at_every_step() -> None:
    energy = Target(DOMAINS["binary"], "cubic")
    model, x = auxiliary(energy.domain).model, torch.zeros(5, 4, dtype=torch.float64)
    noises = [model.noise(x) for _ in range(2)]
    assert not torch.isclose(*noises).any()


def test_the_root_follows_the_balance() -> None:
    domain = DOMAINS["binary"]
    moved, made = auxiliary(domain, step_size=2.0), auxiliary(domain, step_size=2.0, balance=0.9)
    moved.balance = torch.tensor(0.9)
    chains = []
    for sampler in (moved, made):
        torch.manual_seed(0)
        chains.append(sampler.sample(Target(domain, "cubic"), torch.zeros(50, 4, dtype=torch.float64), 5)[0])
    assert torch.equal(*chains)


class Counting(Target):
    """Counts evaluations, and fails if anything but energy and gradient is computed."""

    calls = 0

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return super().value_and_grad(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_evaluation_a_step_whatever_dtype_shape_and_mode(dtype: torch.dtype) -> None:
    energy = Counting(Binary((2, 3)), "cubic")
    W = indefinite(6)
    x = energy.domain.random(7).to(dtype)
    for variant in VARIANTS:
        given = matrices(variant, W) if variant in AUXILIARY else {}
        given |= {"curvature": W.diagonal().tolist()} if variant == "diagonal" else {}
        sampler = AnyScale(variant, 2.0, balance=0.8, **given)  # type: ignore[arg-type]
        runs = []
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            torch.manual_seed(0)
            energy.calls = 0
            with mode():
                for k, (state, info) in enumerate(sampler.chain(energy, x, 4)):
                    assert energy.calls == k + 2 and info.evaluations == 1 and state.step == k + 1
                    values, grad = Target.value_and_grad(energy, state.x)
                    torch.testing.assert_close(state.energy, values)
                    if variant != "first":  # whose chain is written out, and keeps no gradient
                        torch.testing.assert_close(state.grad, grad)
                    tensors = [v for v in vars(state).values() if isinstance(v, Tensor)]
                    assert {t.dtype for t in [*tensors, info.acceptance, info.hops]} == {dtype}
            runs.append(state.x.clone())
        assert torch.equal(runs[0], runs[1]) and torch.equal(runs[0], runs[2])
        assert not sampler.state_dict() and not list(sampler.parameters())


def test_a_chain_does_not_depend_on_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = DOMAINS["ordinal"]
    sampler, energy = auxiliary(domain, step_size=5.0, balance=0.9), Target(domain, "cubic")
    start = domain.enumerate().double().repeat(8, 1)[:64]
    assert alone_and_together(sampler, energy, start, monkeypatch, num_steps=8) == 24  # for u, y and the decision


@pytest.mark.parametrize("variant", ["first", "diagonal", "trace"])
def test_extremes(variant: Any) -> None:
    """With one state, one chain or energies of 1e4 there is no NaN, and chains still move."""
    W = indefinite(4).float()
    given: dict[str, Any] = {"first": {}, "diagonal": {"curvature": W.diagonal()}}.get(
        variant, {"curvature": W, "diagonal": diagonal_trace(W)}
    )
    sampler = AnyScale(variant, 1.0, **given)
    _, info = sampler.sample(Quadratic(Ordinal(4, 1), W, 0.5), torch.zeros(1, 4), 3)
    assert info.acceptance.item() == 1 and info.hops.item() == 0
    energy = Target(Binary(4), "cubic", scale=1e4)
    torch.manual_seed(0)
    start = energy.domain.random(200)
    x, info = sampler.sample(energy, start, 100)
    assert not info.acceptance.isnan().any() and energy(x).mean() < energy(start).mean() / 2
    _, info = sampler.sample(Target(Binary(4), "flat"), torch.zeros(100, 4), 20)
    assert info.hops.min() > 0


W4, D4 = indefinite(4), diagonal_trace(indefinite(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnyScale("second"), 'variant is "second", but must be "first", "shift"'),  # type: ignore[arg-type]
        (lambda: AnyScale("first", curvature=W4), "variant first has no curvature"),
        (lambda: AnyScale("trace", curvature=W4), "takes a diagonal too"),
        (lambda: AnyScale("diagonal", curvature=D4, diagonal=D4), "takes no diagonal"),
        (lambda: AnyScale("edges", curvature=W4, diagonal=D4), "takes no diagonal"),
        (lambda: AnyScale("diagonal").set_curvature(Edges.of(W4)), "variant diagonal takes no edges"),
        (
            lambda: AnyScale("edges", curvature=Edges(4, [0], [1], [0.5])),
            r"entry \(0, 1\) is 0.5, but \(1, 0\) is missing",
        ),
        (
            lambda: AnyScale("edges", curvature=Edges(4, [0, 1], [1, 0], [torch.nan, torch.nan])),
            r"entry \(0, 1\) must be finite",
        ),
        (lambda: AnyScale("edges", curvature=Edges(4, [0, 4], [4, 0], [1.0, 1.0])), "beyond the 4"),
        (
            lambda: AnyScale("edges", curvature=W4).check(Target(Binary(5), "flat")),
            r"4 coordinates, but Binary\(5\) has 5",
        ),
        (
            lambda: AnyScaleTuner().tune(AnyScale("edges"), Target(Binary(4), "flat"), torch.zeros(8, 4), 500),
            "couplings of an energy over pairs, such as Ising, but Rugged has none",
        ),
        (lambda: AnyScale("diagonal", curvature=W4), r"shape \(4, 4\), but must be a vector"),
        (lambda: AnyScale("trace", curvature=D4, diagonal=D4), r"shape \(4,\), but must be a square matrix"),
        (lambda: AnyScale("trace", curvature=W4, diagonal=D4[:3]), r"shape \(3,\), but curvature needs \(4,\)"),
        (lambda: AnyScale("trace", curvature=W4.triu(), diagonal=D4), "symmetric"),
        (lambda: AnyScale("trace", curvature=W4 * torch.nan, diagonal=D4), "finite"),
        (lambda: AnyScale("trace", diagonal=D4), "needs the curvature"),
        (
            lambda: AnyScale("trace", curvature=-torch.eye(4), diagonal=torch.zeros(4)),
            "no negative eigenvalue, but has -1",
        ),
        (lambda: AnyScale("trace").check(Target(DOMAINS["categorical"], "flat")), "variant first samples it"),
        (
            lambda: AnyScale("trace", 1, balance=1, curvature=W4, diagonal=D4).check(Target(Binary(5), "flat")),
            r"4 coordinates, but Binary\(5\) has 5",
        ),
        (lambda: AnyScaleTuner().check(DMALA(0.1)), "tunes AnyScale samplers, not DMALA"),
        (lambda: AnyScale().check(type("T", (Energy,), {"domain": Real(2)})()), "samples Binary or Spin"),
    ],
)
def test_errors_say_what_would_be_right(make: Callable[[], Any], message: str) -> None:
    with refused(message):
        make()


def graph(d: int, seed: int = 0) -> Tensor:
    """Entries of either sign on a diagonal and a few edges; one site has none."""
    W = indefinite(d, seed) * (indefinite(d, seed + 1).abs() > 0.7)
    W[0], W[:, 0] = 0, 0
    W.diagonal().copy_(torch.linspace(-1, 1, d))
    return W


def test_the_rows_of_an_edge_root_are_a_root() -> None:
    W = graph(12)
    root = EdgeRoot(Edges.of(W))
    R = root(torch.eye(12, dtype=torch.float64)).T
    assert R.shape == (root.size, 12) and root.size == int(W.triu(1).count_nonzero()) > 5
    torch.testing.assert_close(R.T @ R, W + root.diagonal.diag())
    off = W - W.diagonal().diag()
    torch.testing.assert_close(root.diagonal, off.abs().sum(1) - W.diagonal())
    z, xi = torch.randn(3, 12, dtype=torch.float64), torch.randn(3, root.size, dtype=torch.float64)
    torch.testing.assert_close(root(z), z @ R.T)
    torch.testing.assert_close(root.transposed(xi), xi @ R)


@pytest.mark.slow
def test_entries_of_any_order_have_one_root() -> None:
    W = graph(12)
    right, order = Edges.of(W), torch.randperm(len(Edges.of(W).values))
    mixed = Edges(12, right.rows[order], right.columns[order], right.values[order])
    z = torch.randn(3, 12, dtype=torch.float64)
    given = []
    for edges in (right, mixed):
        root = AnyScale("edges", curvature=edges).root
        assert isinstance(root, EdgeRoot)
        given.append((root(z), root.transposed(root(z))))
    torch.testing.assert_close(given[1], given[0])


def test_edges_move_thousands_of_spins_at_once_and_the_tuner_takes_the_couplings() -> None:
    """On a lattice W is exact: no proposal is refused. A symmetric root would have 1.6e7 entries."""
    torch.manual_seed(0)
    ising = Ising.lattice(64, 0.2)
    sampler, x = AnyScaleTuner().tune(AnyScale("edges"), ising, ising.domain.random(8), 60)
    assert isinstance(sampler, AnyScale) and isinstance(sampler.root, EdgeRoot) and sampler.root.size == 2 * 64**2
    sampler.step_size, sampler.balance = torch.tensor(1e18), torch.tensor(1.0)
    _, info = sampler.sample(ising, x, 20)
    assert info.acceptance.min() > 0.99 and info.hops.mean() > 0.1 * 64**2
    sampler.set_curvature(None)
    assert sampler.root is None and sampler.diagonal is None


def test_a_curvature_is_a_setting_and_in_no_checkpoint() -> None:
    assert not AnyScale("trace", curvature=W4, diagonal=D4).state_dict()
