"""The residual network: its structure, and the Bernoulli base."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import conv2d, silu

from ebmlab.energies import Energy, ResNet
from ebmlab.errors import UserError


def zero_net(energy: ResNet) -> ResNet:
    torch.nn.init.zeros_(energy.linear.weight)
    torch.nn.init.zeros_(energy.linear.bias)
    return energy


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28)])
def test_size_on_mnist(shape: tuple[int, ...]) -> None:
    energy = ResNet(shape)
    convolution = 64 * 64 * 9 + 64
    expected = (64 * 9 + 64) + 8 * 2 * convolution + 2 * (64 * 64 + 64) + (64 + 1)
    assert sum(p.numel() for p in energy.parameters()) == expected == 599_873
    x = energy.domain.random(2)
    assert energy(x).shape == (2,)
    assert energy.net(x.view(2, 1, 28, 28)).shape == (2, 64, 7, 7)


def test_forward_written_out() -> None:
    torch.manual_seed(0)
    energy = ResNet((5, 4), channels=3).double()
    p = {k: v.detach() for k, v in energy.named_parameters()}
    x = energy.domain.random(6).double()
    h = conv2d(x[:, None], p["net.0.weight"], p["net.0.bias"], padding=1)
    for b in range(1, 9):
        stride = 2 if b <= 2 else 1
        first = conv2d(h, p[f"net.{b}.first.weight"], p[f"net.{b}.first.bias"], stride=stride, padding=1)
        second = conv2d(silu(first), p[f"net.{b}.second.weight"], p[f"net.{b}.second.bias"], padding=1)
        if b <= 2:
            h = conv2d(h, p[f"net.{b}.shortcut.weight"], p[f"net.{b}.shortcut.bias"], stride=2)
        h = silu(second + h)
    assert h.shape == (6, 3, 2, 1)
    net = h.mean((2, 3)) @ p["linear.weight"][0] + p["linear.bias"]
    torch.testing.assert_close(energy(x).detach(), energy.base_energy(x) - net)
    assert energy(x).std() > 1e-6


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize("shape", [(28, 28), (5, 4), (2, 4, 7), (3, 7, 7), (1, 1), (1, 1, 6)], ids=str)
def test_gradient_at_every_edge_of_an_image(shape: tuple[int, ...], batch: int) -> None:
    """The convolutions in front of the first activation are taken as one, and differ from that at the edges."""
    torch.manual_seed(0)
    energy = ResNet(shape, channels=3).double()
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    x = energy.domain.random(batch).double()
    value, grad = energy.value_and_grad(x)
    expected, slope = Energy.value_and_grad(energy, x)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(grad, slope, rtol=1e-10, atol=1e-10)
    assert batch == 0 or slope.abs().max() > 1e-3


def test_the_gradient_is_written_out_unless_autograd_must_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, calls = ResNet((6, 6), channels=2), []
    monkeypatch.setattr(Energy, "value_and_grad", lambda *_: calls.append("autograd"))
    x = energy.domain.random(3)
    energy.value_and_grad(x)
    with torch.autocast("cpu", torch.bfloat16):
        energy.value_and_grad(x)
    assert not calls
    energy.compile()
    energy.value_and_grad(x)
    assert calls == ["autograd"]


@pytest.mark.parametrize("shape", [(28, 28), (3, 7, 7)], ids=str)
def test_under_autocast_the_gradient_is_that_of_autograd_but_for_rounding(shape: tuple[int, ...]) -> None:
    """Gradients are no further from float32 than autograd's under autocast, by a quarter; energies keep their digits.

    Few chains make up most of the energies' error, which may be twice as large.
    """
    torch.manual_seed(0)
    energy = ResNet(shape, channels=16)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=0.15)  # with 0.1 energies differ by less than float32 tells apart
    x = energy.random(50)
    value, grad = energy.value_and_grad(x)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = energy.value_and_grad(x), Energy.value_and_grad(energy, x)
    for exact, rounded, by_autograd, most in zip((value, grad), ours, theirs, (2, 1.25), strict=True):
        assert rounded.dtype == torch.float32 and not torch.equal(rounded, exact)
        assert (rounded - exact).norm() < most * (by_autograd - exact).norm() < 0.05 * exact.norm()
    wide = energy.double()
    exact = wide.value_and_grad(x.double())
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(wide.value_and_grad(x.double()), exact)


def test_a_subclass_with_another_forward_is_differentiated_as_it_is() -> None:
    class Doubled(ResNet):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    torch.manual_seed(0)
    energy = Doubled((6, 6), channels=2)
    x = energy.domain.random(3)
    value, grad = energy.value_and_grad(x)
    torch.testing.assert_close(value, energy(x).detach())
    plain = ResNet((6, 6), channels=2)
    plain.load_state_dict(energy.state_dict())
    torch.testing.assert_close((value / 2, grad / 2), plain.value_and_grad(x))


def test_a_network_of_zeros_gives_the_base_energy() -> None:
    mean = torch.tensor([[0.0, 0.3], [0.9, 1.0]], dtype=torch.float64)
    energy = zero_net(ResNet((2, 2), channels=2, base=mean).double())
    energy.set_base(mean)
    x = energy.domain.enumerate().double()
    squeezed = torch.tensor([[0.01, 0.3], [0.9, 0.99]], dtype=torch.float64)
    bernoulli = torch.distributions.Bernoulli(squeezed).log_prob(x).sum((1, 2))
    torch.testing.assert_close(-energy(x), bernoulli)
    torch.testing.assert_close((-energy(x)).exp().sum().item(), 1.0)
    _, grad = energy.value_and_grad(x)
    torch.testing.assert_close(grad, -squeezed.logit().expand_as(x))


def test_without_a_base_the_law_is_the_networks_alone() -> None:
    torch.manual_seed(0)
    energy = ResNet((2, 2), channels=3).double()
    x = energy.domain.enumerate().double()
    net = energy.linear(energy.net(x[:, None]).mean((2, 3)))[:, 0]
    torch.testing.assert_close((-energy(x)).softmax(0), net.softmax(0))


def test_base_is_in_the_checkpoint(tmp_path: Path) -> None:
    energy = ResNet((4, 4), channels=2)
    energy.set_base([0.25] * 16)
    torch.save(energy.state_dict(), tmp_path / "resnet.pt")
    other = ResNet((4, 4), channels=2)
    other.load_state_dict(torch.load(tmp_path / "resnet.pt", weights_only=True))
    x = energy.domain.random(3)
    assert torch.equal(other(x), energy(x))


@pytest.mark.parametrize("base", [[0.5] * 3, [1.5] * 4, [float("nan")] * 4], ids=["size", "range", "NaN"])
def test_bad_base(base: list[float]) -> None:
    with pytest.raises(UserError, match="base"):
        ResNet((2, 2), channels=2, base=base)


@pytest.mark.parametrize("shape", [(4,), (0, 4), (1, 1, 4, 4)])
def test_bad_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="shape"):
        ResNet(shape)
