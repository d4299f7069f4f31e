"""HMC: exact on mixtures and on a non-quadratic target, reversible, and known-wrong kernels are caught."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers_grbm import FAIL, PASS, Banana, invariance_p, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import GRBM, RealMLP
from ebmlab.engine import uneven
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.samplers import HMC, MALA, Info, Sampler
from ebmlab.samplers.hmc import Options, leapfrog, start, step

STEP, NUM = 0.9, 3  # large: about four fifths are accepted
BANANA_STEP = 0.45
SCALE = torch.tensor([0.6, 1.4], dtype=torch.float64)
BEGIN = "scale, 0.5 * epsilon, state.grad"
END = "scale, 0.5 * epsilon, new.grad"
MUTANTS = {  # what to replace in the source of hmc.py, with what
    "a whole kick at the beginning": (BEGIN, "scale, epsilon, state.grad"),
    "a whole kick at the end": (END, "scale, epsilon, new.grad"),
    "no kick at the end": (END, "scale, 0.0 * epsilon, new.grad"),
    "the old gradient at the end": (END, "scale, 0.5 * epsilon, state.grad"),
    "kinetic energy counted twice": ("- kinetic_rise(end, begin)", "- 2 * kinetic_rise(end, begin)"),
    "kinetic energy left out": ("- kinetic_rise(end, begin)", ""),
    "kinetic energy upside down": ("- kinetic_rise(end, begin)", "+ kinetic_rise(end, begin)"),
    "potential energy upside down": ("state.energy - new.energy", "new.energy - state.energy"),
    "everything accepted": ("after = new.overwritten(accepted, state)", "after = new"),
    "proposals kept only if better": ("metropolis(", "(lambda r, _: ((r >= 0), r.exp()))("),
    "the scale in moves alone": (BEGIN, "None, 0.5 * epsilon, state.grad"),
    "one ratio for the whole batch": ("metropolis(log_ratio,", "metropolis(log_ratio.mean().expand(len(begin)),"),
}


def banana_p(sampler: Sampler, num_steps: int = 3, num_chains: int = 200_000) -> float:
    torch.manual_seed(0)
    target = Banana(2)
    return target.p_value(sampler.sample(target, target.sample(num_chains), num_steps)[0])


@pytest.mark.parametrize("scale", [None, SCALE])
def test_leaves_the_mixture_invariant(scale: torch.Tensor | None) -> None:
    assert invariance_p(HMC(STEP, NUM, scale=scale), make_grbm(2)) > PASS


@cases("scale", [None, SCALE], fast=[1])
@pytest.mark.parametrize("num_leapfrog", [1, 4])
def test_leaves_a_quartic_invariant(num_leapfrog: int, scale: torch.Tensor | None) -> None:
    sampler = HMC(BANANA_STEP, num_leapfrog, scale=scale)
    assert sampler.exact and banana_p(sampler) > PASS


@cases("name", list(MUTANTS), fast=[0, 1])
def test_mutants_are_caught(name: str) -> None:
    wrong = mutant(HMC, *MUTANTS[name])
    assert banana_p(wrong(BANANA_STEP, NUM, scale=SCALE), num_chains=50_000) < FAIL


def test_trajectories_are_reversible() -> None:
    """The end with its velocity turned round leads back to the beginning, to rounding."""
    torch.manual_seed(0)
    target, x = Banana(2), 2 * torch.randn(50, 2, dtype=torch.float64)
    velocity, settings, options = torch.randn_like(x), (0.05,), Options(40, SCALE)
    there, end = leapfrog(target, start(target, x, settings, options), velocity, settings, options)
    back, turned = leapfrog(target, there, -end, settings, options)
    assert (there.x - x).norm(dim=1).min() > 0.1
    torch.testing.assert_close(back.x, x, rtol=0, atol=1e-9)
    torch.testing.assert_close(-turned, velocity, rtol=0, atol=1e-9)


def test_energy_errors_shrink_with_the_square_of_the_step() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    x = target.sample(500)
    errors = []
    for epsilon, num in ((0.1, 10), (0.05, 20), (0.025, 40)):
        velocity, options = (
            torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).double(),
            Options(num, None),
        )
        new, end = leapfrog(target, start(target, x, (epsilon,), options), velocity, (epsilon,), options)
        gained = new.energy - target(x) + (end.square() - velocity.square()).sum(1) / 2
        errors.append(gained.abs().mean().item())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15) and errors[1] / errors[2] == pytest.approx(4, rel=0.1)


def test_one_leapfrog_step_is_mala() -> None:
    grbm, x = make_grbm(2), torch.randn(100, 2, dtype=torch.float64)
    found = []
    for sampler in (HMC(0.8, 1), MALA(0.8**2 / 2)):
        torch.manual_seed(3)
        found.append(sampler.sample(grbm, x, 20)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)  # both step sizes are kept in float32


def test_a_scale_is_a_change_of_units() -> None:
    """Chains of E(s z) in z are chains of E(x) in x = s z."""

    class Stretched(RealMLP):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(SCALE * x)

    torch.manual_seed(0)
    energy, stretched = RealMLP(2, 8).double(), Stretched(2, 8).double()
    stretched.load_state_dict(energy.state_dict())
    z = torch.randn(50, 2, dtype=torch.float64)
    torch.manual_seed(1)
    x = HMC(0.3, 5, scale=SCALE).last_states(energy, SCALE * z, 10)
    torch.manual_seed(1)
    torch.testing.assert_close(x, SCALE * HMC(0.3, 5).last_states(stretched, z, 10))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trajectories_that_overflow_are_rejected_with_probability_0(dtype: torch.dtype) -> None:
    """The acceptance of the others is not lost: its mean is the share of steps that move."""
    torch.manual_seed(0)
    target, options = Banana(2), Options(10, None)
    x = target.sample(5000).to(dtype)
    new, _ = leapfrog(target, start(target, x, (), options), torch.randn_like(x), (0.7,), options)
    assert 0.1 < new.x.isnan().any(1).double().mean() < 0.9
    info = HMC(0.7, 10).sample(target, x, 1)[1]
    assert info.evaluations == 20, "they are followed once more"
    assert HMC(0.05, 10).sample(target, x, 1)[1].evaluations == 10
    moved = (info.hops > 0).to(dtype)
    assert moved.mean() > 0.1
    assert abs(info.acceptance.mean() - moved.mean()) < 4 * (moved - info.acceptance).std() / 5000**0.5


def test_a_gradient_of_nan_is_reported() -> None:
    class Torn(Banana):
        def gradient(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] > 2, torch.nan, super().gradient(x))

    torch.manual_seed(0)
    target = Torn(2)
    x, info = HMC(0.3, 4).sample(target, -target.sample(500).abs(), 10)
    assert info.acceptance.isnan().any() and x.isfinite().all()


def test_an_annealed_chain_finds_log_z() -> None:
    torch.manual_seed(0)
    grbm = GRBM(4, 3).double()
    result = ais(grbm, HMC(0.4, 5), num_chains=400, num_temperatures=200)
    assert abs(result.log_z - exact_log_z(grbm).item()) < 5 * result.std_error


LOOP = {  # what breaks steps whose random numbers are drawn ahead
    "the numbers of the first step": ("walk.taken.view(1)", "0 * walk.taken.view(1)"),
    "the first step counted alone": ("done.acceptance + info.acceptance", "info.acceptance"),
    "one number for all chains": ("uniform(chance[:steps])", "uniform(chance[:steps, :1])"),
    "one velocity for all steps": ("normal(velocity[:steps])", "normal(velocity[:1])"),
    "one step too many": ("walk.taken + 1", "walk.taken + (walk.taken > 0)"),
}


def in_a_loop(kind: type[HMC], monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Info]:
    """Nine steps as a program takes them, without the compiler; all numbers are drawn for four steps at a time."""

    def loop(
        going: Callable[..., Tensor], once: Callable[..., tuple[Tensor, ...]], tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        for _ in range(10):
            if not going(*tensors):
                break
            tensors = once(*tensors)
        return tensors

    monkeypatch.setattr(uneven, "compiling", lambda function, *_, **__: contextlib.nullcontext(function))
    monkeypatch.setattr(uneven, "AHEAD", 4)
    monkeypatch.setattr(uneven, "while_loop", loop)
    torch.manual_seed(0)
    target = Banana(2)
    return kind(BANANA_STEP, NUM, scale=SCALE).sample(target, target.sample(40), 9, compile=True)


def with_the_same_numbers() -> tuple[Tensor, Tensor, Tensor]:
    """The states and the sums of acceptance and hops of `step`, given the numbers that the loop draws."""
    torch.manual_seed(0)
    target = Banana(2)
    options, settings = Options(NUM, SCALE), (BANANA_STEP,)
    state = start(target, target.sample(40), settings, options)
    acceptance, hops = torch.zeros(2, 40, dtype=torch.float64)
    for steps in (4, 4, 1):
        velocity, chance = torch.randn_like(state.x.expand(steps, 40, 2)), torch.rand_like(acceptance.expand(steps, 40))
        for k in range(steps):
            state, info = step(target, state, settings, options, velocity[k], chance[k])
            acceptance += info.acceptance
            hops += info.hops
    return state.x, acceptance, hops


@pytest.mark.parametrize("name", [None, *LOOP])
def test_steps_in_a_loop_are_those_one_by_one(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = HMC if name is None else mutant(HMC, *LOOP[name])
    x, info = in_a_loop(kind, monkeypatch)
    pairs = zip((x, 9 * info.acceptance, 9 * info.hops), with_the_same_numbers(), strict=True)
    same = all(torch.allclose(found, expected, atol=1e-6) for found, expected in pairs)
    assert (same and info.evaluations == pytest.approx(NUM)) == (name is None)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.slow
def test_compiled_chains_are_exact() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    x, info = HMC(BANANA_STEP, 4, scale=SCALE).sample(target, target.sample(50_000), 3, compile=True)
    assert target.p_value(x) > PASS and info.evaluations == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HMC(0.0), "step_size is 0.0"),
        (lambda: HMC(0.1, 0), "num_leapfrog is 0"),
        (lambda: HMC(0.1, scale=[1.0, -1.0]), "scale"),
        (lambda: HMC(0.1, scale=[1.0]).sample(make_grbm(2), torch.zeros(1, 2), 1), r"scale has shape \(1,\)"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.slow
def test_a_program_calls_what_has_no_cpp_form_and_says_nothing(tmp_path: Path) -> None:
    """log det(1 + x x') = log(1 + |x|^2), so that E|x|^2 is known by quadrature."""
    code = """
import torch
from ebmlab.domains import Real
from ebmlab.energies import Energy
from ebmlab.samplers import HMC

class LogDet(Energy):
    def __init__(self):
        super().__init__()
        self.domain = Real(2)

    def forward(self, x):
        return x.square().sum(1) / 2 + torch.logdet(torch.eye(2) + x.unsqueeze(2) * x.unsqueeze(1))

torch.manual_seed(0)
x = HMC(0.7, 3).last_states(LogDet(), torch.randn(4000, 2), 30, compile=True)
square = x.square().sum(1)
print(float(square.mean()), float(square.std()) / 4000**0.5)
"""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    mean, error = map(float, done.stdout.split())
    r = torch.linspace(0, 12, 20_001, dtype=torch.float64)
    density = r * (-r.square() / 2).exp() / (1 + r.square())
    expected = float((r.square() * density).sum() / density.sum())
    assert abs(mean - expected) < 4 * error
