"""The energy of noisy images by an autoencoder: its formula term by term, a finite Z, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d, conv_transpose2d, linear, silu

from ebmlab.energies import NoisyAutoencoder
from ebmlab.errors import UserError
from ebmlab.learners import DenoisingScoreMatching


def energy() -> NoisyAutoencoder:
    torch.manual_seed(0)
    return NoisyAutoencoder((3, 8, 4), 4, hidden_dim=6, bound=3.0, unit=0.8, lowest=0.3).double()


def test_the_energy_is_its_formula() -> None:
    """Each layer is written out from the parameters."""
    net, x, sigma = energy(), torch.randn(4, 3, 8, 4).double(), torch.tensor([0.1, 0.3, 1.0, 4.0]).double()
    p = dict(net.named_parameters())
    s = (0.8**2 + sigma**2).sqrt()[:, None, None, None]
    angles = (sigma / 0.8 + 1 / 50).log()[:, None] * torch.tensor([0.5, 1.0, 1.5, 2.0]).double()
    level = torch.cat([angles.sin(), angles.cos()], 1)
    a, b, c, d = (linear(level, p[f"levels.{k}.weight"], p[f"levels.{k}.bias"]) for k in range(4))
    half = conv2d(x / s, p["down.0.weight"], p["down.0.bias"], stride=2, padding=1)
    half = silu(half + a[:, :, None, None])
    quarter = conv2d(half, p["down.1.weight"], p["down.1.bias"], stride=2, padding=1)
    quarter = silu(quarter + b[:, :, None, None])
    assert quarter.shape == (4, 8, 2, 1)
    code = silu(linear(quarter.flatten(1), p["mix.0.weight"], p["mix.0.bias"]) + c)
    code = linear(silu(linear(code, p["mix.1.weight"], p["mix.1.bias"])), p["mix.2.weight"], p["mix.2.bias"])
    up = conv_transpose2d(silu(quarter + code.view(4, 8, 2, 1)), p["up.1.weight"], p["up.1.bias"], stride=2, padding=1)
    up = silu(half + up + d[:, :, None, None])
    g = 3 * torch.tanh(conv_transpose2d(up, p["up.0.weight"], p["up.0.bias"], stride=2, padding=1) / 3)
    expected = ((x - g) ** 2).sum((1, 2, 3)) / (2 * sigma**2)
    assert torch.allclose(net.clean(x, sigma), g) and torch.allclose(net.noisy(x, sigma), expected)
    assert torch.allclose(net(x), net.at(0.3)(x))


def test_z_is_finite_and_every_parameter_learns() -> None:
    """No image that g makes leaves the cube of `bound`, so that E grows as the square of x does."""
    net, x = energy(), torch.randn(5, 3, 8, 4).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(10)
    far = 1e3 * x
    beyond = (far.abs() - 3).clamp(min=0).square().sum((1, 2, 3)) / (2 * 0.3**2)
    assert (net(far) >= beyond).all()
    DenoisingScoreMatching(net, noise_levels=[0.3, 1.0]).losses(x).mean().backward()  # type: ignore[no-untyped-call]
    assert not [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]


def test_wrong_use_is_one_line() -> None:
    for make, words in (
        (lambda: NoisyAutoencoder((8, 8)), r"shape is \(8, 8\), but must be \(colours, height, width\)"),
        (lambda: NoisyAutoencoder((1, 8, 6)), r"shape is \(1, 8, 6\), .* multiples of 4"),
        (lambda: NoisyAutoencoder((1, 8, 8), lowest=0.0), "lowest is 0.0"),
    ):
        with pytest.raises(UserError, match=words):
            make()
