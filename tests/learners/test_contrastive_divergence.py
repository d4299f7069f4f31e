"""Contrastive divergence: with exact negatives its gradient is the likelihood's; which states count; what is kept."""

from __future__ import annotations

import copy
import csv
import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_grbm import ExactGRBM, make_grbm
from helpers_trainer import quiet_trainer
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ebmlab.data.interface import Data
from ebmlab.datamodules import Digits
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, MLP, RBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData, FromNoise, ReplayBuffer, Start
from ebmlab.samplers import DMALA, BipartiteState, BlockGibbs, Gibbs, GibbsLangevin, Info, Langevin, Sampler, State

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:Attribute '.*' is an instance of `nn.Module`"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),  # Lightning's own, on new torch
]
EXACT = [BlockGibbs(), Langevin(0.5, adjust_from=0), GibbsLangevin(0.5, 3, adjust_from=0)]
Z = 4.5  # standard errors from 40 batches (t, 39 degrees of freedom): a false alarm once in 1,000 for 13 parameters


class Fake(Sampler):
    """Makes the state after step k = 1, 2, ... from k and the start x; remembers the starts."""

    domains = (Real,)

    def __init__(self, make: Callable[[int, Tensor], tuple[Tensor, Tensor | None]]) -> None:
        super().__init__()
        self.make = make
        self.starts: list[Tensor] = []

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        self.starts.append(x)
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        k = state.step + 1
        x, hidden = self.make(k, self.starts[-1])
        logits = energy.hidden_given_visible(x).detach() if isinstance(energy, GRBM) else None
        state = BipartiteState(x=x, step=k, logits=logits, hidden=hidden)
        return state, Info(x.new_ones(len(x)), x.new_zeros(len(x)))


class Linear(Energy):
    """E(x) = a x, whose gradient in a is the mean of the states that are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(1)
        self.a = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.a * x[:, 0]


def make_learner(energy: Energy, sampler: Sampler, **settings: Any) -> tuple[ContrastiveDivergence, dict[str, float]]:
    """A learner without a trainer, and what it logged last."""
    learner = ContrastiveDivergence(energy, sampler, **settings)
    logged: dict[str, float] = {}
    learner.log = lambda name, value, **_: logged.update({name: float(value)})  # type: ignore[method-assign]
    learner.log_dict = lambda values, **_: logged.update({k: float(v) for k, v in values.items()})  # type: ignore
    return learner, logged


def parameters(grbm: GRBM) -> list[nn.Parameter]:
    return [grbm.W, grbm.b, grbm.mu, grbm.log_var]


def gradient(learner: ContrastiveDivergence, batch: Tensor) -> Tensor:
    """All parameters' gradients of one training step, flat."""
    grads = torch.autograd.grad(learner.training_step(batch, 0), parameters(learner.energy))  # type: ignore[arg-type]
    return torch.cat([g.flatten() for g in grads])


def likelihood_gradient(grbm: GRBM, data: Tensor) -> Tensor:
    """Autograd of the mean of -log p(v) = E(v) + log Z, with log Z of the mixture in closed form."""
    v, variance = data, grbm.log_var.exp()
    energy = -(ExactGRBM(grbm).h @ (grbm.W.T @ (v / variance).T + grbm.b[:, None])).logsumexp(0)
    energy = energy + ((v - grbm.mu).square() / variance).sum(1) / 2
    grads = torch.autograd.grad(energy.mean() + ExactGRBM(grbm).log_z, parameters(grbm))
    return torch.cat([g.flatten() for g in grads])


def z_scores(learner: ContrastiveDivergence, batches: Callable[[], Tensor], expected: Tensor | float) -> Tensor:
    """Difference of the mean gradient over 40 batches and the expected one, in standard errors."""
    grads = torch.stack([gradient(learner, batches()) for _ in range(40)])
    return (grads.mean(0) - expected) / (grads.std(0) / len(grads) ** 0.5)


def test_gradient_with_exact_expectations_is_the_likelihoods() -> None:
    """No Monte Carlo: negatives are 400,000 midpoint quantiles of p(v), hidden units are summed out."""
    grbm = make_grbm(1)
    levels = (torch.arange(400_000, dtype=torch.float64) + 0.5) / 400_000
    quantiles = ExactGRBM(grbm).quantiles(levels)[:, None]
    learner, _ = make_learner(grbm, Fake(lambda k, x: (quantiles, None)), density="marginal")
    data = torch.tensor([[-1.5], [0.2], [0.9], [4.0]], dtype=torch.float64)
    torch.testing.assert_close(gradient(learner, data), likelihood_gradient(grbm, data), rtol=0, atol=2e-4)


@pytest.mark.parametrize("density", ["joint", "marginal"])
@pytest.mark.parametrize("with_hidden", [True, False])
def test_gradient_with_exact_draws_is_the_likelihoods(density: str, with_hidden: bool) -> None:
    """Data and negatives 400,000 each; h drawn (Eq. 13) or summed out (Eq. 18), by the sampler or by the learner."""
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    data = torch.tensor([[-1.5, 0.3], [0.2, 2.0], [0.9, -0.7], [3.0, 1.0]], dtype=torch.float64)

    def draw(k: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        v, h = exact.sample(10_000)
        return v, h if with_hidden else None

    expected = likelihood_gradient(grbm, data)
    learner, _ = make_learner(grbm, Fake(draw), density=density)
    assert z_scores(learner, lambda: data.repeat(2500, 1), expected).abs().max() < Z
    biased, _ = make_learner(grbm, Fake(lambda k, x: (draw(k, x)[0] + 0.03, None)), density=density)
    assert z_scores(biased, lambda: data.repeat(2500, 1), expected).abs().max() > 2 * Z, "the test has no power"


@pytest.mark.parametrize("density", ["joint", "marginal"])
@pytest.mark.parametrize("sampler", EXACT, ids=lambda s: type(s).__name__)
def test_a_model_that_fits_its_data_has_zero_gradient(sampler: Sampler, density: str) -> None:
    """Chains of an exact sampler start at exact data: the expected gradient is 0, whichever states are averaged."""
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    learner, _ = make_learner(grbm, sampler, chains=FromData(), num_steps=3, burn_in=1, density=density)
    assert z_scores(learner, lambda: exact.sample(3000)[0], 0.0).abs().max() < Z


def test_a_biased_sampler_gives_a_fitting_model_a_gradient() -> None:
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    learner, _ = make_learner(grbm, Langevin(0.5), chains=FromData(), num_steps=3, burn_in=1)
    assert z_scores(learner, lambda: exact.sample(5000)[0], 0.0).abs().max() > 2 * Z


@pytest.mark.parametrize("density", ["joint", "marginal"])
def test_training_raises_the_exact_likelihood(density: str) -> None:
    """Training comes within 0.02 nats of the likelihood of the data's own law, by the exact log Z."""
    torch.manual_seed(0)
    data = ExactGRBM(make_grbm(1)).sample(2000)[0]
    grbm = GRBM(1, 3).double()

    def log_likelihood(model: GRBM) -> float:
        with torch.no_grad():
            return float((-model(data)).mean() - ExactGRBM(model).log_z)

    learner, _ = make_learner(grbm, BlockGibbs(), num_steps=10, burn_in=5, density=density)
    optimizer = torch.optim.Adam(grbm.parameters(), lr=0.03)
    start, best = log_likelihood(grbm), log_likelihood(make_grbm(1))
    for _ in range(180):
        optimizer.zero_grad()
        learner.training_step(data[torch.randint(2000, (200,))], 0).backward()
        optimizer.step()
    assert start < best - 0.1
    assert log_likelihood(grbm) > best - 0.02


@pytest.mark.parametrize(("burn_in", "counted"), [(None, [5]), (4, [5]), (0, [1, 2, 3, 4, 5]), (2, [3, 4, 5])])
def test_burn_in_decides_which_states_count(burn_in: int | None, counted: list[int]) -> None:
    """State k is k^2 and the data are 0, so that loss and gradient are minus the mean of the averaged squares."""
    energy = Linear()
    sampler = Fake(lambda k, x: (torch.full((3, 1), float(k * k), dtype=torch.float64), None))
    learner, logged = make_learner(energy, sampler, num_steps=5, burn_in=burn_in)
    loss = learner.training_step(torch.zeros(4, 1, dtype=torch.float64), 0)
    mean = sum(k * k for k in counted) / len(counted)
    assert loss.item() == pytest.approx(-2.0 * mean)
    assert torch.autograd.grad(loss, energy.a)[0].item() == pytest.approx(-mean)
    assert logged["train/energy_negative"] == pytest.approx(2.0 * mean) and logged["train/energy_data"] == 0.0


def test_sampler_hidden_units_are_used_only_for_the_joint_density() -> None:
    grbm = make_grbm(2)
    v = torch.tensor([[0.4, -1.0]], dtype=torch.float64)
    h = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    data = torch.zeros(1, 2, dtype=torch.float64)
    for density, hidden in (("joint", h), ("marginal", torch.sigmoid(grbm.hidden_given_visible(v)))):
        learner, _ = make_learner(grbm, Fake(lambda k, x: (v, h)), density=density)
        contrast = grbm.weighted_sum()
        learner._subtract_negatives(contrast, data)
        torch.testing.assert_close(contrast.value(), -grbm.joint_energy(v, hidden)[0])


def test_logs_marginal_energies_of_data_and_of_the_last_states() -> None:
    grbm = make_grbm(2)
    torch.manual_seed(0)
    data, last = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    sampler = Fake(lambda k, x: (last if k == 3 else 9 * last, None))
    learner, logged = make_learner(grbm, sampler, num_steps=3, burn_in=0)
    learner.training_step(data, 0)
    assert logged["train/energy_data"] == pytest.approx(grbm(data).mean().item())
    assert logged["train/energy_negative"] == pytest.approx(grbm(last).mean().item())
    assert logged["train/energy_gap"] == pytest.approx(logged["train/energy_negative"] - logged["train/energy_data"])
    assert logged["sampler/acceptance"] == pytest.approx(1.0)


@pytest.mark.parametrize("sampler", [BlockGibbs(), DMALA(0.2)], ids=lambda sampler: type(sampler).__name__)
def test_energies_are_marginal_whether_or_not_the_sampler_knows_hidden_units(sampler: Sampler) -> None:
    torch.manual_seed(0)
    rbm = RBM(9, 30)
    nn.init.normal_(rbm.W)
    learner, logged = make_learner(rbm, sampler, chains=(chains := ReplayBuffer(50)), num_steps=3)
    learner.training_step(torch.rand(50, 9).round(), 0)
    assert chains.slots is not None
    assert logged["train/energy_negative"] == pytest.approx(rbm(chains.slots.float()).mean().item(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.float64])
def test_where_chains_start(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    data = torch.full((50_000, 1), 7.0, dtype=dtype)
    for chains in (FromData(), FromNoise()):
        sampler = Fake(lambda k, x: (x.double(), None))
        learner, _ = make_learner(Linear(), sampler, chains=chains, num_steps=2)
        for _ in range(2):
            learner.training_step(data, 0)
        first, second = sampler.starts
        assert first.shape == data.shape and first.dtype == torch.float64  # the energy's
        if isinstance(chains, FromData):
            assert torch.equal(first, data.double()) and torch.equal(second, data.double())
        else:
            assert abs(first.mean()) * 50_000**0.5 < 5 and abs(first.var() - 1) * 25_000**0.5 < 5
            assert not torch.equal(first, second)
    assert isinstance(ContrastiveDivergence(make_grbm(1), BlockGibbs()).chains, FromNoise)
    with pytest.raises(NotImplementedError):
        Start().draw(Linear(), 1, data)


@pytest.mark.parametrize("burn_in", [0, None])
@pytest.mark.parametrize("sampler_class", [BlockGibbs, Langevin, GibbsLangevin])
def test_memory_does_not_grow_with_the_number_of_steps(sampler_class: type[Sampler], burn_in: int | None) -> None:
    """No state is kept once it is averaged, and the loss has as small an autograd graph after 40 steps as after 2."""
    refs: list[weakref.ref[State]] = []
    alive: list[int] = []

    class Watched(sampler_class):  # type: ignore[misc, valid-type]
        def step(self, energy: Energy, state: State) -> tuple[State, Info]:
            new, info = super().step(energy, state)
            refs.append(weakref.ref(new))
            alive.append(sum(r() is not None for r in refs))
            return new, info

    def size(node: Any, seen: set[Any]) -> int:
        if node is None or node in seen:
            return 0
        seen.add(node)
        return 1 + sum(size(child, seen) for child, _ in node.next_functions)

    graphs = []
    for num_steps in (2, 40):
        sampler = Watched() if sampler_class is BlockGibbs else Watched(0.1, adjust_from=0)
        learner, _ = make_learner(make_grbm(2), sampler, num_steps=num_steps, burn_in=burn_in)
        graphs.append(size(learner.training_step(torch.zeros(8, 2, dtype=torch.float64), 0).grad_fn, set()))
    assert len(alive) == 42 and max(alive) <= 2
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("burn_in", [-1, 3, 4])
def test_burn_in_out_of_range(burn_in: int) -> None:
    with pytest.raises(UserError, match=rf"burn_in is {burn_in}, but must be from 0 to num_steps - 1 = 2"):
        ContrastiveDivergence(make_grbm(1), BlockGibbs(), num_steps=3, burn_in=burn_in)


def test_combinations_that_cannot_work() -> None:
    with pytest.raises(UserError, match=r'density "joint" needs a bipartite energy, Linear has no hidden units'):
        ContrastiveDivergence(Linear(), Langevin(0.1), density="joint")
    with pytest.raises(UserError, match=r"BlockGibbs needs a bipartite energy"):
        ContrastiveDivergence(Linear(), BlockGibbs())
    learner = ContrastiveDivergence(make_grbm(2), BlockGibbs())
    for shape, fits in (((2,), True), ((1, 2, 1), True), ((3,), False), ((2, 2), False)):
        data = Data()
        data.event_shape = shape
        if fits:
            learner.check_data(data)
        else:
            with pytest.raises(UserError, match=r"GRBM models Real\(2\): change the energy's size or the data set"):
                learner.check_data(data)


def test_trajectory_and_draw() -> None:
    grbm = make_grbm(2)
    learner = ContrastiveDivergence(grbm, BlockGibbs(), num_steps=4)
    x = torch.zeros(6, 2, dtype=torch.float64)
    torch.manual_seed(0)
    states = [state for state, _ in BlockGibbs().chain(grbm, x, 4)]
    for denoise in (False, True):
        torch.manual_seed(0)
        path = list(learner.trajectory(x, denoise=denoise))
        torch.manual_seed(0)
        last = learner.draw(x, denoise=denoise)
        assert len(path) == 4 and torch.equal(last, path[-1]) and not last.requires_grad
        for state, shown in zip(states, path, strict=True):
            assert state.hidden is not None
            expected = state.hidden @ grbm.W.T + grbm.mu if denoise else state.x
            torch.testing.assert_close(shown, expected.detach())
    assert len(list(learner.trajectory(x, 7))) == 7
    with pytest.raises(UserError, match="Linear has no hidden units: set it to false"):
        ContrastiveDivergence(Linear(), Langevin(0.1)).draw(x[:, :1], denoise=True)


def tiny_trainer(folder: Path, **settings: Any) -> pl.Trainer:
    return quiet_trainer(folder, max_steps=3, log_every_n_steps=1, **settings)


def test_checkpoint_of_a_learner_built_in_python_is_plain_data(tmp_path: Path) -> None:
    """It opens with `weights_only=True` and holds every parameter and step size once."""
    torch.manual_seed(0)
    grbm = GRBM(4, 3)
    learner = ContrastiveDivergence(grbm, GibbsLangevin(0.1), num_steps=2, density="joint")
    trainer = tiny_trainer(tmp_path)
    before = grbm.W.detach().clone()
    loader = DataLoader(torch.randn(24, 1, 2, 2), batch_size=8)
    trainer.fit(learner, loader, loader)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert trainer.global_step == 3 and not torch.equal(grbm.W, before)
    assert set(checkpoint["state_dict"]) == {
        *(f"energy.{n}" for n in ("W", "b", "mu", "log_var")),
    }
    assert torch.equal(checkpoint["state_dict"]["energy.W"], grbm.W)
    assert checkpoint["hyper_parameters"]["num_steps"] == 2 and checkpoint["hyper_parameters"]["density"] == "joint"
    assert checkpoint["hyper_parameters"]["energy"]["init_args"] == {"num_visible": 4, "num_hidden": 3}


def test_training_metrics_are_logged_when_they_are_written_and_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    """Two epochs of 7 batches, written at every 5th step: steps 5 and 10, and 7 and 14 for the callbacks."""
    learner = ContrastiveDivergence(GRBM(4, 3), GibbsLangevin(0.1), num_steps=2)
    logger = CSVLogger(tmp_path)
    trainer = quiet_trainer(tmp_path, max_epochs=2, limit_val_batches=0, logger=logger, log_every_n_steps=5)
    log, logged_at = learner.log, []

    def watch(name: str, *values: Any, **options: Any) -> None:
        logged_at.append((name, trainer.global_step + 1))
        log(name, *values, **options)

    learner.log = watch  # type: ignore[method-assign]
    torch.manual_seed(0)
    loader = DataLoader(torch.randn(56, 4), batch_size=8)
    trainer.fit(learner, loader, loader)
    names = {"train/energy_data", "train/energy_negative", "train/energy_gap", "train/grad_norm", "train/learning_rate"}
    names |= {"sampler/acceptance", "sampler/hops"}
    assert set(logged_at) == {(name, step) for name in names for step in (5, 7, 10, 14)}
    rows = csv.DictReader(Path(logger.log_dir, "metrics.csv").read_text().splitlines())
    assert [int(row["step"]) + 1 for row in rows if row["train/energy_gap"]] == [5, 10]
    gap = trainer.callback_metrics["train/energy_negative"] - trainer.callback_metrics["train/energy_data"]
    assert trainer.callback_metrics["train/energy_gap"] == pytest.approx(float(gap))


def test_energies_are_those_of_the_loss_and_logged_energies_are_marginal(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    grbm, x, y = make_grbm(2), torch.randn(7, 2, dtype=torch.float64), torch.randn(7, 2, dtype=torch.float64)
    learner, logged = ContrastiveDivergence(grbm, Fake(lambda k, x: (y, y.new_zeros(7, 3))), FromData()), {}
    monkeypatch.setattr(learner, "log_dict", lambda values, **_: logged.update(values))
    monkeypatch.setattr(learner, "log", lambda *_, **__: None)
    loss = learner.training_step(x, 0)
    assert learner.energies is not None
    data, negative = (grbm.joint_energy(v, torch.sigmoid(grbm.hidden_given_visible(v))).mean() for v in (x, y))
    torch.testing.assert_close(learner.energies, (data.detach(), negative.detach()))
    torch.testing.assert_close(loss, data - negative)
    torch.testing.assert_close(logged["train/energy_data"], grbm(x).mean())
    torch.testing.assert_close(logged["train/energy_negative"], grbm(y).mean())


def test_validate_and_test_report_the_mean_energy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    grbm, data = GRBM(4, 3), torch.randn(10, 4)
    learner, trainer = ContrastiveDivergence(grbm, BlockGibbs()), tiny_trainer(tmp_path)
    expected = grbm(data).mean().item()
    loader = DataLoader(data, batch_size=4)  # the last batch is short: the mean is over samples, not over batches
    assert trainer.validate(learner, loader, verbose=False)[0]["val/energy"] == pytest.approx(expected, rel=1e-5)
    assert trainer.test(learner, loader, verbose=False)[0]["test/energy"] == pytest.approx(expected, rel=1e-5)


def test_penalties_are_the_published_ones() -> None:
    """energy_l2 (mean E(x)^2 + mean E(y)^2) and gradient_penalty times the mean of |dE/dx|^2 / 2 over data."""
    torch.manual_seed(0)
    energy, x = MLP(6, hidden=5, num_layers=1), Binary(6).random(7)
    y = x.flip(1)

    class Still(Gibbs):
        def step(self, energy, state):
            return replace(state, x=y), super().step(energy, state)[1]

    def loss(**penalties: float) -> torch.Tensor:
        learner = ContrastiveDivergence(energy, Still(), FromData(), **penalties)
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
        return learner.training_step(x, 0)

    plain = loss()
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(energy(leaf).sum(), leaf, create_graph=True)
    expected = 0.3 * (energy(x).square().mean() + energy(y).square().mean()) + 0.7 * grad.square().sum(1).mean() / 2
    actual = loss(energy_l2=0.3, gradient_penalty=0.7) - plain
    torch.testing.assert_close(actual, expected)
    parameters = list(energy.parameters())
    got = torch.autograd.grad(actual, parameters, allow_unused=True)
    for g, e in zip(got, torch.autograd.grad(expected, parameters, allow_unused=True), strict=True):
        if e is not None:
            torch.testing.assert_close(g, e)


@pytest.mark.parametrize("penalty", ["l1", "energy_l2", "gradient_penalty", "data_noise"])
def test_penalties_are_not_negative(penalty: str) -> None:
    with pytest.raises(UserError, match=f"{penalty} is -1"):
        ContrastiveDivergence(RBM(3, 2), BlockGibbs(), **{penalty: -1.0})


def test_learning_rate_schedules_step_where_they_are_told() -> None:
    warm_up = partial(torch.optim.lr_scheduler.LinearLR, start_factor=0.1, total_iters=10)
    for interval in ("epoch", "step"):
        learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), lr_scheduler=warm_up, lr_interval=interval)
        _, [schedule] = learner.configure_optimizers()
        assert schedule["interval"] == interval
    with pytest.raises(UserError, match='lr_interval is "batch"'):
        ContrastiveDivergence(RBM(3, 2), BlockGibbs(), lr_interval="batch")


def test_a_copy_shares_what_makes_its_optimizer() -> None:
    """Optimizer factories of the command line hold the trainer and its locks, which cannot be copied."""

    class Maker:
        def __call__(self, parameters: Any) -> torch.optim.Optimizer:
            return torch.optim.SGD(parameters, 0.1)

    torch.manual_seed(0)
    maker = Maker()
    learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), optimizer=maker)
    maker.trainer = threading.Lock()
    twin = copy.deepcopy(learner)
    assert twin._make_optimizer is learner._make_optimizer
    assert torch.equal(twin.energy.W, learner.energy.W) and twin.energy.W is not learner.energy.W
    [optimizer], _ = twin.configure_optimizers()
    assert optimizer.param_groups[0]["params"][0] is next(twin.parameters())


def test_denoising_without_hidden_units_in_the_state_takes_their_mean() -> None:
    rbm, x = RBM(5, 3), torch.ones(4, 5)
    torch.nn.init.normal_(rbm.W)
    learner = ContrastiveDivergence(rbm, DMALA(0.3))
    torch.manual_seed(0)
    found = learner.draw(x, 3, denoise=True)
    torch.manual_seed(0)
    end = learner.draw(x, 3)
    torch.testing.assert_close(found, torch.sigmoid(torch.sigmoid(end @ rbm.W + rbm.b_h) @ rbm.W.T + rbm.b_v).detach())


def test_what_cannot_be_learnt_from_is_refused_before_training() -> None:
    learner = ContrastiveDivergence(RBM(64, 2), DMALA(0.3), ReplayBuffer(10))
    with pytest.raises(UserError, match="10"):
        learner.check_data(Digits(batch_size=100, binarize=True))
    for domains in ((), [Binary]):
        data = Digits(batch_size=5, binarize=True)
        data.domains = domains  # type: ignore[assignment]
        with pytest.raises(UserError, match="must be a tuple of the domains"):
            learner.check_data(data)


@pytest.mark.parametrize(("noise", "expected"), [(0.5, 0.0), (0.0, 0.5)])
def test_noise_of_the_data_bounds_variances_from_below(noise: float, expected: float) -> None:
    """Of a pixel that is always black: the gradient of its log-variance vanishes at the noise's variance."""
    torch.manual_seed(0)
    grbm = GRBM(1, 1)
    with torch.no_grad():
        grbm.W.zero_()
        grbm.log_var.fill_(2 * math.log(0.5))
    learner = ContrastiveDivergence(grbm, BlockGibbs(), data_noise=noise)
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    learner.training_step(torch.zeros(200_000, 1), 0).backward()
    assert grbm.log_var.grad is not None
    assert abs(float(grbm.log_var.grad) - expected) < 0.01  # the standard error is at most 0.0022


def test_bits_take_no_gaussian_noise() -> None:
    with pytest.raises(UserError, match=r"data_noise is 0\.1, but RBM lives on .*: set it to 0"):
        ContrastiveDivergence(RBM(4, 3), BlockGibbs(), data_noise=0.1)
