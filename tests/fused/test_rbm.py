"""Fused steps on an RBM: exact laws, values at new states, and mutants. Interpreted, or on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers_fused import DEVICE, HERE, mutated, p_value
from torch import Tensor

from ebmlab import engine
from ebmlab.energies import RBM
from ebmlab.fused import Fused
from ebmlab.numerics.float32 import Float32Settings
from ebmlab.samplers import DMALA, BlockGibbs, Kernel, Sampler

pytestmark = [HERE, pytest.mark.filterwarnings("ignore:overflow encountered in exp")]  # NumPy's, where a GPU goes on
PASS, FAIL = 1e-3, 1e-6
CASES: dict[str, Sampler] = {"block_gibbs": BlockGibbs(), "dmala": DMALA(0.5, balance=0.6)}


def rbm(visible: int = 5, hidden: int = 3, scale: float = 1.2) -> RBM:
    torch.manual_seed(1)
    energy = RBM(visible, hidden).requires_grad_(False)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return energy.to(DEVICE)


def kernel(module: ModuleType, name: str, energy: RBM) -> Kernel:
    made: Kernel = module.kernel(CASES[name].to(DEVICE), energy)
    return made


@pytest.fixture
def set_precision() -> Iterator[Callable[[str], None]]:
    before = Float32Settings.now()
    yield torch.set_float32_matmul_precision
    before.restore()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("precision", ["highest", pytest.param("high", marks=pytest.mark.slow)])
def test_exact_draws_stay_exact(name: str, precision: str, set_precision: Callable[[str], None]) -> None:
    set_precision(precision)
    energy, sampler = rbm(), Fused(CASES[name]).to(DEVICE)
    assert p_value(energy, lambda x: sampler.last_states(energy, x, 2)) > PASS


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_chains_get_to_the_law(name: str) -> None:
    energy, sampler = rbm(), Fused(CASES[name]).to(DEVICE)
    assert p_value(energy, lambda x: x.zero_()) < FAIL
    assert p_value(energy, lambda x: sampler.last_states(energy, x.zero_(), 40)) > PASS


@pytest.mark.parametrize(("visible", "hidden", "chains"), [(67, 65, 33), (33, 1, 1)])
def test_a_layer_of_many_tiles_draws_what_is_certain(visible: int, hidden: int, chains: int) -> None:
    energy = rbm(visible, hidden, scale=1e6)
    x = energy.random(chains)
    h = (energy.hidden_given_visible(x) > 0).float()
    expected = (energy.visible_given_hidden(h) > 0).float()
    assert torch.equal(Fused(BlockGibbs()).last_states(energy, x, 1), expected)


@pytest.mark.parametrize(("visible", "hidden", "chains"), [(67, 65, 33), (33, 1, 1)])
def test_a_state_of_many_tiles_holds_what_torch_computes_there(visible: int, hidden: int, chains: int) -> None:
    energy, sampler = rbm(visible, hidden, scale=0.1), Fused(DMALA(0.6)).to(DEVICE)
    state = sampler.init(energy, energy.random(chains))
    before = state.x
    state, info = sampler.step(energy, state)
    fresh = sampler.init(energy, state.x)
    torch.testing.assert_close(state.logits, fresh.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.free, fresh.free, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(info.hops, (state.x != before).float().sum(1))
    assert chains == 1 or 0 < info.hops.count_nonzero() < chains, "some chains accept, and some do not"


@pytest.mark.parametrize("name", CASES)
def test_columns_in_memory_are_the_same_states(name: str) -> None:
    energy, sampler = rbm(), Fused(CASES[name]).to(DEVICE)
    x, ends = energy.random(200), []
    for start in (x, x.T.contiguous().T):
        torch.manual_seed(0)
        ends.append(sampler.last_states(energy, start, 3))
    assert torch.equal(*ends)


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_bits_times_weights_lose_no_digit(precision: str, set_precision: Callable[[str], None]) -> None:
    """Of a weight and a bias that cancel only the last three of 24 binary digits are left."""
    set_precision(precision)
    torch.manual_seed(1)
    weight, signs = 1e8 * torch.randn(67, 65, device=DEVICE), torch.randint(2, (65,), device=DEVICE).float()
    given = torch.zeros(33, 67, device=DEVICE)
    given[:, 40] = 1
    module = import_module("ebmlab.fused.block_gibbs")  # not before Triton is known to be there
    drawn = module.layer(given, weight, 64 * (2 * signs - 1) - weight[40])
    assert torch.equal(drawn, signs.expand(33, -1))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_nan_is_reported(name: str, precision: str, set_precision: Callable[[str], None]) -> None:
    set_precision(precision)
    energy = rbm()
    energy.W[1, 2] = torch.nan
    _, info = Fused(CASES[name]).to(DEVICE).sample(energy, torch.ones(3, 5, device=DEVICE), 1)
    assert info.acceptance.isnan().all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("block_gibbs", "tl.load(seed), place", "tl.load(seed), column[None, :] + 0 * place"),
        ("block_gibbs", "seed(given.device)", "given.new_ones(1).long()"),
        ("block_gibbs", "tl.sigmoid(total)", "tl.sigmoid(1.5 * total)"),
        ("dmala", "there - here", "here - there"),
        ("dmala", "- softplus(back) + softplus(there)", "+ softplus(back) - softplus(there)"),
        ("dmala", "+ along * (after - before)", ""),
        ("dmala", "tl.rand(tl.load(seed), -1 - row)", "tl.rand(tl.load(seed), row * visible)"),
    ],
)
def test_a_wrong_kernel_is_noticed(name: str, old: str, new: str, tmp_path: Path) -> None:
    energy, module = rbm(), mutated(f"ebmlab.fused.{name}", old, new, tmp_path)

    def moved(x: Tensor) -> Tensor:
        return [state.x for state, _ in engine.steps(kernel(module, name, energy), energy, x, 4)][-1]

    assert p_value(energy, moved, chains=6000) < FAIL
