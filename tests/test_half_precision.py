"""Training at bf16-true draws from the same laws: no uniform number that decides has half precision.

A bfloat16 uniform has 256 values or so between 1/2 and 1, and exact zeros: rare events get the wrong odds, and of many
that are drawn in a row equal ones decide by their place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_cases import CASES, STRUCTURED, mostly
from helpers_finite import DOMAINS, Target
from helpers_modules import ROOT, module_files
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from scipy.stats import binomtest, chisquare
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, RBM, RGCN, Energy
from ebmlab.learners import (
    ContrastiveDivergence,
    EnergyDiscrepancy,
    Estimator,
    Exact,
    GradientGuided,
    RatioMatching,
    ReplayBuffer,
    UniformSubset,
)
from ebmlab.numerics.noise import bernoulli, bits, categorical, uniform, uniform_numbers
from ebmlab.numerics.streams import draw_alike, draw_bits, stream
from ebmlab.samplers import DMALA, HMC, NUTS, BlockGibbs, Langevin, Sampler

UNIFORM = ("rand", "rand_like", "uniform", "uniform_", "bernoulli", "bernoulli_", "multinomial", "exponential_")
HALF = (torch.bfloat16, torch.float16)
NEVER = 1e-7  # a right law fails one test in ten million


@pytest.fixture(autouse=True)
def half_precision() -> Iterator[None]:
    """As Lightning's `bf16-true` sets it around a training step."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(torch.float32)


class NoHalfUniforms(TorchDispatchMode):
    """Fails where torch draws a uniform number, or one that follows from it, in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in UNIFORM:
            self.drawn += 1
            assert result.dtype not in HALF, f"{func} in {result.dtype}"
        return result


class Watched(Energy):
    """E = 0 on bits; keeps which neighbours and how many ones it was asked for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.domain = Binary(size)
        self.asked: list[Tensor] = []
        self.ones: list[float] = []
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.ones.append(float(x.detach().double().mean()))
        return self.weight * x.sum(1)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Any = None) -> Tensor:
        assert index is not None
        self.asked.append(index.clone())
        return self.weight * (1 - 2 * x.gather(1, index.expand(len(x), -1)))


def has_rate(x: Tensor, p: float) -> bool:
    return binomtest(int(x.double().sum()), x.numel(), p).pvalue > NEVER


@mostly("binary", "categorical")
def test_samplers_decide_in_full_precision(name: str, domain: str) -> None:
    walk(CASES[name].make(DOMAINS[domain]), Target(DOMAINS[domain], "cubic", scale=0.5))


@pytest.mark.parametrize("kind", STRUCTURED)
def test_samplers_of_structured_energies_decide_in_full_precision(kind: type[Sampler]) -> None:
    walk(*STRUCTURED[kind]())


@pytest.mark.parametrize("metropolis", [False, True])
def test_langevin_decides_in_full_precision(metropolis: bool) -> None:
    walk(Langevin(0.1, adjust_from=0 if metropolis else None), GRBM(4, 3))


def walk(sampler: Sampler, energy: Energy) -> None:
    x = energy.random(64).bfloat16()
    with NoHalfUniforms():
        moved, _ = sampler.sample(energy, x, 3)
    assert moved.dtype == torch.bfloat16


REPORTING = BlockGibbs(), DMALA(0.3), Langevin(0.1), HMC(0.1), NUTS(0.5)


@cases("sampler", {str(sampler): sampler for sampler in REPORTING}, fast=[*map(str, REPORTING[:-1])])
def test_reports_of_many_steps_are_added_up_in_full_precision(sampler: Sampler) -> None:
    """A sum of ones in bfloat16 ends at 256."""
    energy = GRBM(4, 3) if sampler.domains == (Real,) else RBM(4, 3)
    x, steps = energy.random(8).bfloat16(), 400
    torch.manual_seed(1)
    _, info = sampler.sample(energy, x, steps)
    torch.manual_seed(1)
    reports = [report for _, report in sampler.chain(energy, x, steps)]
    added = reports[0]
    for report in reports[1:]:
        added = added + report
    for found in (info, added / steps):
        for name in ("acceptance", "hops"):
            expected = torch.stack([getattr(report, name).double() for report in reports]).mean(0)
            torch.testing.assert_close(getattr(found, name).double(), expected, atol=0.02, rtol=0.02)


ESTIMATORS = [
    Exact(),
    UniformSubset(3),
    GradientGuided(3),
    GradientGuided(3, advanced=True, objective="exponential"),
    EnergyDiscrepancy(3),
]
CHAINS = [ReplayBuffer(16, reinitialize=0.5), ReplayBuffer(16, 0.5, init="data"), ReplayBuffer(16, 0.5, init="mean")]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", [*ESTIMATORS, *CHAINS], ids=lambda part: type(part).__name__)
def test_training_decides_in_full_precision(part: Estimator | ReplayBuffer, tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    rbm, data = RBM(6, 4), torch.randint(2, (16, 6)).float()
    if isinstance(part, Estimator):
        learner: Any = RatioMatching(rbm, part)
    else:
        part.mean = torch.full((6,), 0.3)
        learner = ContrastiveDivergence(rbm, DMALA(0.2), start=part, num_steps=2)
    trainer = quiet_trainer(tmp_path, max_steps=2, precision="bf16-true")
    with NoHalfUniforms() as watch:
        trainer.fit(learner, DataLoader(data, batch_size=16))
    assert learner.energy.W.dtype == torch.bfloat16 and (watch.drawn or isinstance(part, Exact))


@pytest.mark.parametrize("estimator", [UniformSubset(1), GradientGuided(1)], ids=lambda e: type(e).__name__)
@cases("size", [784, 2048], fast=[0])
def test_neighbours_are_drawn_alike(estimator: Estimator, size: int) -> None:
    energy = Watched(size)
    with torch.no_grad():
        for _ in range(20):
            estimator.loss(energy, torch.zeros(2048, size))
    counts = torch.bincount(torch.cat(energy.asked).flatten(), minlength=size).double()
    assert chisquare(counts.numpy()).pvalue > NEVER
    assert binomtest(int(counts[: size // 2].sum()), int(counts.sum())).pvalue > NEVER


def test_perturbations_have_their_rate() -> None:
    energy, p = Watched(256), 0.003
    EnergyDiscrepancy(16, flip_probability=p).loss(energy, torch.zeros(256, 256))
    twice = 2 * p * (1 - p)
    assert abs(energy.ones[1] - twice) < 6 * (2 * twice / (256 * 256)) ** 0.5  # energy.ones[0] is that of the data


def test_chains_start_anew_at_their_rate() -> None:
    n, p = 2**17, 0.003
    buffer, energy, data = ReplayBuffer(n, reinitialize=p), RBM(1, 1), torch.ones(n, 1)
    buffer.draw(energy, n, data)
    buffer.put_back(torch.ones(n, 1))  # every slot holds a one; half of the new states are zeros
    assert has_rate(buffer.draw(energy, n, data) == 0, p / 2)


def test_chains_start_at_the_mean_of_data() -> None:
    n, p = 2**17, 0.0030059814453125  # a number of bfloat16
    buffer = ReplayBuffer(n, init="mean")
    buffer.mean = torch.tensor([p])
    assert has_rate(buffer.draw(RBM(1, 1), n, torch.ones(n, 1)), p)


def test_graphs_have_their_density() -> None:
    energy = RGCN(10, 4, num_layers=1)
    energy.density.fill_(0.0030059814453125)
    assert has_rate(energy.random(2**12), 0.0030059814453125)


P = torch.tensor(0.0030059814453125)
DRAWS: dict[str, Callable[[int], Tensor]] = {
    "bernoulli": lambda n: bernoulli(P.double().logit().expand(n).float()),
    "bernoulli of few": lambda n: torch.cat([bernoulli(P.expand(64).logit()) for _ in range(n // 64)]),
    "bits": lambda n: bits(P.bfloat16().expand(n)),
    "uniform": lambda n: uniform(torch.empty(n)) < P,
    "uniform_numbers": lambda n: uniform_numbers(n) < P,
    "draw_bits": lambda n: draw_bits(P.bfloat16().expand(n), stream("half")),
    "draw_alike": lambda n: draw_alike(P.bfloat16().expand(1, n)),
    "categorical": lambda n: categorical(torch.tensor([1 - P, P]).log().expand(n, 2)),
    "categorical, many": lambda n: categorical(torch.tensor([1 - P, P]).log().expand(1, 2), n),
}


@pytest.mark.parametrize("name", DRAWS)
def test_rare_events_have_their_odds(name: str) -> None:
    rate = float(P) if "bernoulli of" not in name else float(P.bfloat16().logit().float().sigmoid())
    if "categorical" in name:
        law = torch.tensor([1 - P, P]).log().float().exp()
        rate = float(law[1] / law.sum())
    assert has_rate(DRAWS[name](2**18), rate)


def test_uniform_numbers_come_from_one_module() -> None:
    """Elsewhere torch may be asked for them only in float64, stated at the call."""
    calls = [
        f"{path}:{node.lineno}: {node.func.attr}"
        for path in module_files()
        if path.name not in ("noise.py", "mixed_table.py")  # the latter makes data, which stay as they were
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in UNIFORM
        if ast.unparse(node.func.value) not in ("noise", "tl")  # that module, and Triton's kernels, in float32
        if not any(key.arg == "dtype" and ast.unparse(key.value) == "torch.float64" for key in node.keywords)
    ]
    assert not calls
