"""The MLP energy: its layers, and the energies of neighbours in chunks and under autograd."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import silu

from ebmlab.energies import MLP, Energy, mlp
from ebmlab.errors import UserError
from ebmlab.learners import Exact


@pytest.fixture(autouse=True, params=[0, 64], ids=["rows of W looked up", "neighbours written out"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(mlp, "FEW", request.param)
    return int(request.param)


def make() -> MLP:
    torch.manual_seed(0)
    return MLP(6, hidden_dim=5).double()


def test_three_swish_layers_and_a_linear_one() -> None:
    energy = make()
    x = energy.domain.enumerate().double()
    h = silu(x @ energy.W + energy.b)
    weights = list(energy.rest.parameters())
    for W, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        h = silu(h @ W.T + b)
    torch.testing.assert_close(energy(x), (h @ weights[-2].T + weights[-1])[:, 0])
    assert [tuple(w.shape) for w in (energy.W, *weights[::2])] == [(6, 5), (5, 5), (5, 5), (1, 5)]
    assert sum(p.numel() for p in MLP(32).parameters()) == 33 * 256 + 2 * 257 * 256 + 257


@pytest.mark.parametrize("chunk", [1, 400, 10**6])
def test_chunks_change_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    energy = make()
    x = energy.domain.enumerate()[:9].double()
    sizes = []
    energy.rest[0].register_forward_pre_hook(lambda _, args: sizes.append(args[0].numel() * args[0].element_size()))
    monkeypatch.setattr(mlp, "CHUNK_BYTES", chunk)
    actual = energy.flip_differences(x)
    assert max(sizes) <= max(chunk, 9 * 5 * 8), "one neighbour a row at least, else no more than a chunk"
    torch.testing.assert_close(actual, Energy.flip_differences(energy, x), rtol=1e-12, atol=1e-12)


def test_flip_differences_have_the_gradient_of_the_neighbours() -> None:
    """Ratio matching differentiates them in the parameters."""
    energy = make()
    x = energy.domain.enumerate()[20:30].double()
    index = torch.randint(6, (10, 3))
    for chosen in (None, index):
        actual = torch.autograd.grad(energy.flip_differences(x, chosen).exp().sum(), list(energy.parameters())[:-1])
        expected = Energy.flip_differences(energy, x, chosen).exp().sum()
        torch.testing.assert_close(actual, torch.autograd.grad(expected, list(energy.parameters())[:-1]))


def test_the_first_layer_is_evaluated_once_per_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "FEW", 0)
    energy, product, calls = make(), torch.addmm, []
    monkeypatch.setattr(torch, "addmm", lambda b, x, W: calls.append(x.shape) or product(b, x, W))
    x = torch.zeros(4, 6, dtype=torch.float64)
    alone = energy.flip_differences(x)
    assert calls == [(4, 6)]
    around = energy.around(x)
    calls.clear()
    torch.testing.assert_close(energy.flip_differences(x, around=around), alone)
    assert not calls


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "learnt"), [(1.0, False), (5.0, True)])
def test_a_gain_teaches_the_parity_of_four_bits(gain: float, learnt: bool) -> None:
    """Each of the 12 bits adds 1/4 to the bounded objective while it is unexplained, each bit of the parity then 0."""
    torch.manual_seed(0)
    energy = MLP(12, hidden_dim=64, num_layers=2, gain=gain)
    adam, losses = torch.optim.Adam(energy.parameters(), lr=3e-3), []
    for _ in range(250):
        x = torch.randint(2, (64, 12)).float()
        x[:, 3] = x[:, :3].sum(1) % 2
        loss = Exact("bounded").loss(energy, x)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) / 20 == pytest.approx(2.0 if learnt else 3.0, abs=0.1)


def test_bad_settings() -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        MLP(6, hidden_dim=0)
    for gain in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match=f"gain is {gain}, but must be positive"):
            MLP(6, gain=gain)
