"""Winograd's convolutions: as float64 has them, alike in any batch, within their memory; mutants of the text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_native import replace, unchecked
from helpers_tier import cases
from torch import Tensor, nn
from torch.nn.functional import conv2d, silu
from torch.utils.flop_counter import FlopCounterMode

from ebmlab.energies import Energy, ResNet
from ebmlab.energies.resnet.layers import Layers, WinogradLayers, fastest
from ebmlab.native import winograd as module
from ebmlab.native.winograd import Winograd, kernel, pays, winograd

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
SIZES = [(1, 1), (2, 3), (4, 4), (5, 9), (7, 7), (14, 14), (13, 6), (28, 28)]


def compiled() -> Winograd:
    found = kernel()
    assert found is not None
    return found


def layer(channels: int, **options: Any) -> nn.Conv2d:
    made = nn.Conv2d(channels, channels, 3, padding=1, **options)
    return made.to(memory_format=torch.channels_last)


def images(*shape: int) -> Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


def expected(x: Tensor, convolution: nn.Conv2d, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The swish and its derivative by float64."""
    assert convolution.bias is not None
    z = conv2d(x.double(), convolution.weight.double(), convolution.bias.double(), padding=1)
    z = z if plus is None else z + plus.double()
    share = z.sigmoid()
    return z * share, share * (1 + z * (1 - share))


def gradient(z: Tensor, convolution: nn.Conv2d, grad: Tensor, plus: Tensor | None = None) -> Tensor:
    """The gradient in z, by autograd in float64."""
    with torch.enable_grad():
        z = z.double().requires_grad_()
        x = silu(z)
        y = conv2d(x, convolution.weight.double(), padding=1)
        outputs, grads = ([y], [grad.double()]) if plus is None else ([y, x], [grad.double(), plus.double()])
        return torch.autograd.grad(outputs, z, grads)[0]


def worst(found: Winograd, sizes: list[tuple[int, int]]) -> float:
    """The largest error, over that of torch in float32 and what remains of it, in outputs of size 1."""
    errors = [0.0]
    for channels in (16, 48, 64):
        for size in sizes:
            convolution, shape = layer(channels), (5, channels, *size)
            x, plus, grad, z = (images(*shape) for _ in range(4))
            for more in (None, plus):
                pairs = zip(found.forward(x, convolution, plus=more), expected(x, convolution, more), strict=True)
                slope = found.swish(z)[1]
                back = found.back(grad, convolution, slope=slope, plus=more)
                for ours, exact in [*pairs, (back, gradient(z, convolution, grad, more))]:
                    assert ours.is_contiguous(memory_format=torch.channels_last)
                    errors.append(float((ours - exact).abs().nan_to_num(9.0).max() / exact.std()))
    return max(errors)


@needs_kernel
def test_layers_are_those_of_float64_forward_and_back() -> None:
    """Errors of 36 single outputs would be 1 or more, those of rounding are 5e-5."""
    assert worst(compiled(), SIZES) < 2e-4


@needs_kernel
def test_rounding_is_a_few_times_that_of_torch() -> None:
    convolution, x = layer(64), images(10, 64, 7, 7)
    exact = expected(x, convolution)[0]
    ours, theirs = ((y - exact).norm() for y in (compiled().forward(x, convolution)[0], silu(convolution(x))))
    assert ours < 6 * theirs and ours < 2e-6 * exact.norm()


@needs_kernel
def test_the_swish_and_its_derivative_at_both_ends() -> None:
    z = torch.cat([torch.linspace(-100, 100, 4093), torch.tensor([0.0, -3e38, 3e38])]).view(1, 64, 8, 8)
    value, slope = compiled().swish(z)
    share = z.double().sigmoid()
    torch.testing.assert_close(value.double(), z.double() * share, rtol=2e-6, atol=1e-30)
    torch.testing.assert_close(slope.double(), share * (1 + z.double() * (1 - share)), rtol=1e-5, atol=1e-6)
    assert compiled().swish(torch.full((1, 16, 1, 1), torch.nan))[0].isnan().all()


@needs_kernel
@pytest.mark.parametrize("channels", [16, 64])
def test_an_image_comes_out_alike_in_any_batch_by_any_number_of_threads(channels: int) -> None:
    """Bit for bit: the same state must have the same energy each time."""
    convolution, x, plus = layer(channels), images(37, channels, 7, 7), images(37, channels, 7, 7)
    before = torch.get_num_threads()

    def results(chosen: Tensor) -> list[Tensor]:
        value, slope = compiled().forward(x[chosen], convolution, plus=plus[chosen])
        return [value, slope, compiled().back(x[chosen], convolution, slope=slope, plus=plus[chosen])]

    try:
        torch.set_num_threads(1)
        together = results(torch.arange(37))
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for chosen in (torch.tensor([11]), torch.tensor([36, 11, 5]), torch.arange(36, -1, -1), torch.arange(20)):
                for some, every in zip(results(chosen), together, strict=True):
                    assert torch.equal(some, every[chosen])
    finally:
        torch.set_num_threads(before)


@needs_kernel
def test_no_other_layout_is_misread() -> None:
    """Channels first, parts of larger tensors, weights in either layout or turned."""
    convolution, large = layer(16), images(6, 16, 9, 9)
    exact = expected(large[1:4, :, 1:8, 2:9], convolution)[0]
    for x in (large[1:4, :, 1:8, 2:9], large[1:4, :, 1:8, 2:9].contiguous()):
        torch.testing.assert_close(compiled().forward(x, convolution)[0].double(), exact, rtol=0, atol=1e-5)
    again = nn.Conv2d(16, 16, 3, padding=1)
    again.load_state_dict(convolution.state_dict())
    assert torch.equal(compiled().forward(large, again)[0], compiled().forward(large, convolution)[0])
    again.weight = nn.Parameter(convolution.weight.mT)
    exact = expected(large, again)[0]
    torch.testing.assert_close(compiled().forward(large, again)[0].double(), exact, rtol=0, atol=1e-5)
    assert compiled().forward(large[:0], convolution)[0].shape == (0, 16, 9, 9)


@needs_kernel
@pytest.mark.parametrize("size", [(7, 7), (5, 9), (1, 1)])
def test_nothing_beyond_the_images_is_read_or_written(size: tuple[int, int]) -> None:
    """They lie between numbers that are NaN, which any arithmetic would keep, and which stay as they are."""
    channels, around = 16, 4096
    shape = (3, *size, channels)
    inner = slice(around, around + torch.Size(shape).numel())
    x, out, slope, plus, times = (torch.full((2 * around + inner.stop,), torch.nan) for _ in range(5))
    for t in (x, plus, times):
        t[inner].normal_()
    weight = torch.full((around + channels**2 * 9 + around,), torch.nan)
    weight[around:-around].normal_()
    places = [t[inner].data_ptr() for t in (plus, times, out, slope)]
    numbers = [3, *size, channels]
    library: ctypes.CDLL = compiled()._library
    steps = [9 * channels, 1, 3 * channels, channels]
    library.convolve(x[inner].data_ptr(), *numbers, weight[around:].data_ptr(), *steps, None, *places, 1)
    for t in (out, slope):
        assert t[inner].isfinite().all()
        assert t[: inner.start].isnan().all() and t[inner.stop :].isnan().all()


@needs_kernel
def test_what_does_not_fit_is_refused() -> None:
    """The kernel would read and write beyond it."""
    convolution, x, found = layer(16), images(2, 16, 7, 7), compiled()
    wrong: list[Callable[[], Any]] = [
        lambda: found.forward(images(2, 32, 7, 7), convolution),
        lambda: found.forward(x, convolution, plus=x[:1]),
        lambda: found.forward(x, convolution, plus=x[:, :, :6]),
        lambda: found.forward(x.double(), convolution),
        lambda: found.forward(x, convolution.to("meta")),
        lambda: found.back(x, layer(16), slope=x[:, :8]),
        lambda: found.back(x, nn.Conv2d(16, 16, 1), slope=x),
        lambda: found.swish(torch.zeros(2, 12, 3, 3)),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match="Winograd"):
            call()


@needs_kernel
def test_layers_that_do_more_or_other_things_are_left_to_torch() -> None:
    x, plain = images(2, 16, 7, 7), layer(16)
    assert winograd(x, [plain, plain]) is kernel()
    hooked, before = layer(16), layer(16)
    hooked.register_forward_hook(lambda *_: None)
    before.register_forward_pre_hook(lambda *_: None)
    others = [nn.Conv2d(16, 16, 3, 2, padding=1), layer(16, padding_mode="circular"), layer(16, bias=False)]
    others += [layer(16, groups=2), layer(16, dilation=2), layer(32), hooked, before, layer(16).double()]
    others += [nn.utils.parametrizations.weight_norm(layer(16))]
    for other in others:
        assert winograd(x, [plain, other]) is None
    assert winograd(x.double(), [plain]) is None
    assert winograd(images(2, 12, 7, 7), [layer(12)]) is None
    with torch.enable_grad():
        assert winograd(x, [plain]) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert winograd(x, [plain]) is None
    with FlopCounterMode(display=False):
        assert winograd(x, [plain]) is None
    seen = []
    torch.vmap(lambda one: seen.append(winograd(one, [plain])) or one)(x.unsqueeze(0))  # type: ignore[func-returns-value]
    assert seen == [None]


def test_sizes_that_fill_half_of_their_tiles() -> None:
    assert all(pays(*size) for size in ((3, 3), (4, 2), (4, 4), (6, 6), (7, 7), (14, 14), (9, 9), (28, 28)))
    assert not any(pays(*size) for size in ((1, 1), (2, 2), (5, 5), (1, 28)))


def resnet(shape: tuple[int, ...], channels: int) -> ResNet:
    energy = ResNet(shape, channels)
    for parameter in energy.parameters():
        nn.init.normal_(parameter, std=0.6 / channels**0.5)
    return energy


@needs_kernel
@pytest.mark.parametrize(
    ("shape", "channels"), [((28, 28), 16), ((3, 13, 27), 16), ((2, 16, 32), 48), ((28, 28), 64)], ids=str
)
def test_a_residual_network_uses_it(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], channels: int) -> None:
    energy = resnet(shape, channels)
    x = energy.random(5)
    exact = Energy.value_and_grad(resnet_in_double(energy, shape, channels), x.double())
    by_torch = Energy.value_and_grad(energy, x)
    monkeypatch.setattr(Layers, "back", None)
    for ours, theirs, right in zip(energy.value_and_grad(x), by_torch, exact, strict=True):
        assert (ours - right).norm() < 10 * (theirs - right).norm() + 1e-6 * right.norm()


def resnet_in_double(energy: ResNet, shape: tuple[int, ...], channels: int) -> ResNet:
    double = ResNet(shape, channels).double()
    double.load_state_dict(energy.state_dict())
    return double


@needs_kernel
def test_weights_that_have_changed_count_at_once() -> None:
    energy = resnet((28, 28), 16)
    x = energy.random(3)
    first = energy.value_and_grad(x)
    for convolution in (energy.net[4].first, energy.net[1].second):
        convolution.weight.data.mul_(1.5)
        second = energy.value_and_grad(x)
        exact = resnet_in_double(energy, (28, 28), 16).value_and_grad(x.double())
        assert (second[1] - first[1]).norm() > 1e-3 * first[1].norm()
        torch.testing.assert_close(second[1].double(), exact[1], rtol=1e-3, atol=1e-5)
        first = second


@needs_kernel
def test_parameters_that_are_nan_stay_nan() -> None:
    energy = resnet((28, 28), 16)
    energy.net[5].second.weight[0, 0, 0, 0] = torch.nan
    value, grad = energy.value_and_grad(energy.random(3))
    assert value.isnan().all() and grad.isnan().any()


def test_without_a_compiler_torch_does_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "")
    assert kernel.__wrapped__() is None
    monkeypatch.setattr(module, "kernel", lambda: None)
    energy = resnet((28, 28), 16)
    blocks = list(energy.net)[1:]
    layers = fastest(torch.zeros(2, 16, 14, 14), blocks)
    assert type(layers) is Layers
    x = energy.random(3)
    torch.testing.assert_close(energy.value_and_grad(x), Energy.value_and_grad(energy, x), rtol=1e-3, atol=1e-4)


@needs_kernel
def test_networks_of_other_sizes_and_types_are_torchs() -> None:
    blocks = list(ResNet((28, 28), 16).net)[1:]
    assert type(fastest(torch.zeros(2, 16, 14, 14), blocks)) is WinogradLayers
    assert type(fastest(torch.zeros(2, 16, 14, 4), blocks)) is Layers  # 7 x 2 after it
    assert type(fastest(torch.zeros(2, 16, 14, 14, dtype=torch.bfloat16), blocks)) is Layers
    assert type(fastest(torch.zeros(2, 12, 14, 14), list(ResNet((28, 28), 12).net)[1:])) is Layers


@needs_kernel
def test_defaults_of_torch_do_not_reach_the_check() -> None:
    generator = torch.get_rng_state()
    with torch.device("meta"), torch.inference_mode():
        assert kernel.__wrapped__() is not None
    torch.set_default_dtype(torch.float64)
    try:
        assert kernel.__wrapped__() is not None
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), generator)


MUTANTS = {
    "a coefficient of B": ("v[0] = 4.f * d[0] - 5.f * d[2]", "v[0] = 4.f * d[0] - 4.f * d[2]"),
    "a sign of G": ("(-1.f / 6) * (p - g[1])", "(-1.f / 6) * (p + g[1])"),
    "a power of A": ("q + 8.f * s", "q + 4.f * s"),
    "filters on their side": ("i * f.by_row + j * f.by_column", "j * f.by_row + i * f.by_column"),
    "the last row is left out": ("down < s.height &&", "down < s.height - 1 &&"),
    "the first column is left out": ("across >= 0", "across >= 1"),
    "tiles of another row": ("tile / s.across() % s.down()", "tile / s.across() % s.across()"),
    "one tile less": ("std::min(BLOCK, s.tiles() - t)", "std::min(BLOCK, s.tiles() - t - 1)"),
    "rows that remain": ("if constexpr (N > 1)", "if constexpr (N > 4)"),
    "one bias for all": ("load(after.bias + c)", "load(after.bias)"),
    "minus": ("z += load(after.plus + to)", "z -= load(after.plus + to)"),
    "no slope": ("z *= load(after.times + to)", "z += load(after.times + to)"),
    "another derivative": ("value * (1.f - share)", "value * share"),
}


@needs_kernel
@cases(("old", "new"), MUTANTS, fast=("a sign of G", "tiles of another row"))
def test_mutants_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    """By the check before the first use; the right text passes the same test."""
    right = compiled()._library
    replace(old, new, tmp_path, monkeypatch, file="winograd.cpp")
    assert worst(Winograd(unchecked("winograd", right)), [(5, 9), (7, 7)]) > 1e-2
    assert kernel.__wrapped__() is None
