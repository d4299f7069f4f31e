"""Convolutions of stride 2 with other kernels at the edges: as float64 has them, within their memory; mutants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_native import replace
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import Energy, ResNet
from ebmlab.energies.resnet import patches
from ebmlab.energies.resnet.patches import Kernels, Patches, PatchesInCpp, fastest
from ebmlab.native import library
from ebmlab.native.stride_two import StrideTwo, kernel

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
SIZES = [(1, 1), (2, 3), (5, 4), (9, 28), (28, 28), (33, 7)]


def compiled() -> StrideTwo:
    found = kernel()
    assert found is not None
    return found


def kernels(height: int, width: int, colours: int, channels: int) -> Kernels:
    """As at an image's edges: another kind in the first row and column, and in the last ones."""
    rows, columns = ([min(1, k) + (k == n // 2 and n > 3) for k in range((n + 1) // 2)] for n in (height, width))
    kinds = max(rows) + 1, max(columns) + 1
    return Kernels(torch.randn(*kinds, 25 * colours, channels), torch.randn(*kinds, channels), rows, columns)


def one_by_one(image: Tensor, those: Kernels, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs and the gradient in the image, by a loop over outputs in float64."""
    count, colours, height, width = image.shape
    padded, back = (torch.zeros(count, colours, height + 4, width + 4, dtype=torch.float64) for _ in range(2))
    padded[:, :, 2:-2, 2:-2] = image
    out = torch.zeros_like(grad, dtype=torch.float64)
    for i, row in enumerate(those.rows):
        for j, column in enumerate(those.columns):
            at = (slice(None), slice(None), slice(2 * i, 2 * i + 5), slice(2 * j, 2 * j + 5))
            patch = torch.zeros(count, colours, 5, 5, dtype=torch.float64)
            height_left, width_left = (min(5, side + 4 - 2 * k) for side, k in ((height, i), (width, j)))
            patch[:, :, :height_left, :width_left] = padded[at]
            weight = those.weights[row, column].double()
            out[:, :, i, j] = patch.flatten(1) @ weight + those.bias[row, column]
            part = (grad[:, :, i, j].double() @ weight.T).view_as(patch)
            back[at] += part[:, :, :height_left, :width_left]
    return out, back[:, :, 2:-2, 2:-2]


def worst(found: Callable[[Tensor], Patches | PatchesInCpp], sizes: list[tuple[int, int]]) -> float:
    """The largest error in outputs and gradients, whose size is about 5."""
    errors = [0.0]
    for colours, channels in ((1, 16), (3, 48), (2, 64)):
        for size in sizes:
            image, those = torch.randn(3, colours, *size), kernels(*size, colours, channels)
            grad = torch.randn(3, channels, len(those.rows), len(those.columns))
            by = found(image)
            out, back = one_by_one(image, those, grad)
            twice = by.back([grad, 2 * grad], [those, those])
            for ours, exact in ((by.forward(those), out), (by.back([grad], [those]), back), (twice, 3 * back)):
                errors.append(float((ours - exact).abs().nan_to_num(9.0).max()))
    return max(errors)


@pytest.mark.parametrize("found", [Patches, pytest.param("c++", marks=needs_kernel)])
def test_outputs_and_gradients_are_those_of_float64(found: Any) -> None:
    assert worst((lambda image: PatchesInCpp(image, compiled())) if found == "c++" else found, SIZES) < 2e-3


@needs_kernel
@pytest.mark.parametrize("channels", [16, 64])
def test_an_image_comes_out_alike_in_any_batch_by_any_number_of_threads(channels: int) -> None:
    """Bit for bit: the same state must have the same energy each time."""
    image, those = torch.randn(37, 2, 9, 14), kernels(9, 14, 2, channels)
    grad = torch.randn(37, channels, 5, 7)
    before = torch.get_num_threads()

    def results(chosen: Tensor) -> list[Tensor]:
        by = PatchesInCpp(image[chosen], compiled())
        return [by.forward(those), by.back([grad[chosen]], [those])]

    try:
        torch.set_num_threads(1)
        together = results(torch.arange(37))
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for chosen in (torch.tensor([11]), torch.arange(36, -1, -1), torch.arange(0)):
                for some, every in zip(results(chosen), together, strict=True):
                    assert torch.equal(some, every[chosen])
    finally:
        torch.set_num_threads(before)


@needs_kernel
def test_other_layouts_are_not_misread() -> None:
    those, large = kernels(6, 8, 3, 16), torch.randn(3, 4, 9, 9)
    image = large.transpose(0, 1)[1:3, :, 1:7, 1:9]
    grad = torch.randn(2, 3, 4, 16).permute(0, 3, 1, 2)
    turned = Kernels(those.weights.mT.contiguous().mT, those.bias.mT.contiguous().mT, those.rows, those.columns)
    out, back = one_by_one(image, those, grad)
    for one in (image, image.contiguous(), image.to(memory_format=torch.channels_last)):
        for two, three in ((those, grad), (turned, grad.contiguous())):
            by = PatchesInCpp(one, compiled())
            assert by.forward(two).is_contiguous(memory_format=torch.channels_last)
            torch.testing.assert_close(by.forward(two).double(), out, rtol=0, atol=1e-4)
            torch.testing.assert_close(by.back([three], [two]).double(), back, rtol=0, atol=1e-4)


@needs_kernel
@pytest.mark.parametrize("size", [(7, 7), (6, 10), (1, 1)], ids=str)
def test_nothing_beyond_the_images_is_read_or_written(size: tuple[int, int]) -> None:
    """They lie between numbers that are NaN, which any arithmetic would keep, and which stay as they are."""
    those, around = kernels(*size, 2, 16), 4096
    shapes = [(3, 2, *size), (3, 16, len(those.rows), len(those.columns)), those.weights.shape, those.bias.shape]
    wide = [torch.full((torch.Size(shape).numel() + 2 * around,), torch.nan) for shape in [*shapes, shapes[0]]]
    for t in wide:
        t[around:-around].normal_()
    image, grad, weights, bias, into = (
        t[around:-around].view(shape) for t, shape in zip(wide, [*shapes, shapes[0]], strict=True)
    )
    out = compiled().forward(image, weights, bias=bias, rows=those.rows, columns=those.columns)
    compiled().back(grad, weights, rows=those.rows, columns=those.columns, into=into)
    assert out.isfinite().all() and into.isfinite().all()
    assert wide[-1][:around].isnan().all() and wide[-1][-around:].isnan().all()


@needs_kernel
def test_what_does_not_fit_is_refused() -> None:
    """The kernel would read and write beyond it."""
    image, those, found = torch.randn(2, 1, 6, 8), kernels(6, 8, 1, 16), compiled()
    kinds = {"rows": those.rows, "columns": those.columns}
    grad, into = torch.randn(2, 16, 3, 4), torch.zeros(2, 1, 6, 8)
    wrong: list[Callable[[], Any]] = [
        lambda: found.forward(image.expand(2, 3, 6, 8), those.weights, bias=those.bias, **kinds),
        lambda: found.forward(image[:, :, :4], those.weights, bias=those.bias, **kinds),
        lambda: found.forward(image.double(), those.weights, bias=those.bias, **kinds),
        lambda: found.forward(image, those.weights[..., :12], bias=those.bias[..., :12], **kinds),
        lambda: found.forward(image, those.weights, bias=those.bias[..., :8], **kinds),
        lambda: found.forward(image, those.weights, bias=those.bias, rows=[0, 1, 2], columns=those.columns),
        lambda: found.forward(image, those.weights, bias=those.bias, rows=[0, 1, -1], columns=those.columns),
        lambda: found.back(grad[:1], those.weights, into=into, **kinds),
        lambda: found.back(grad, those.weights, into=into[..., :6], **kinds),
        lambda: found.back(grad, those.weights, into=into.mT.contiguous().mT, **kinds),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match="StrideTwo"):
            call()


@needs_kernel
def test_what_it_is_not_for_is_left_to_torch() -> None:
    image = torch.randn(2, 1, 6, 8)
    assert type(fastest(image, channels=16)) is PatchesInCpp
    assert type(fastest(image, channels=12)) is Patches
    assert type(fastest(image, image.double(), channels=16)) is Patches
    assert type(fastest(image.bfloat16(), channels=16)) is Patches
    with torch.enable_grad():
        assert type(fastest(image, channels=16)) is Patches
    with torch.autocast("cpu", torch.bfloat16):
        assert type(fastest(image, channels=16)) is Patches


@needs_kernel
@pytest.mark.parametrize("shape", [(28, 28), (5, 4), (2, 4, 7), (3, 7, 7), (1, 1), (1, 1, 6)], ids=str)
def test_a_residual_network_uses_it(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """Sizes at which all outputs are at an edge, too."""
    energy, double = ResNet(shape, 16), ResNet(shape, 16).double()
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    double.load_state_dict(energy.state_dict())
    x = energy.random(5)
    monkeypatch.setattr(Patches, "forward", None)
    exact = Energy.value_and_grad(double, x.double())
    for ours, right in zip(energy.value_and_grad(x), exact, strict=True):
        assert (ours - right).norm() < 1e-4 * right.norm()


def test_without_a_compiler_torch_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    assert kernel.__wrapped__() is None
    monkeypatch.setattr(patches, "stride_two", lambda *_, **__: None)
    energy = ResNet((6, 5), 16)
    x = energy.random(3)
    torch.testing.assert_close(energy.value_and_grad(x), Energy.value_and_grad(energy, x), rtol=1e-3, atol=1e-4)


MUTANTS = {
    "stride 1": ("patch[place + 2 * n]", "patch[place + n]"),
    "rows of stride 1": ("padded + 2 * (i * s.padded_width() + j)", "padded + 2 * j + i * s.padded_width()"),
    "a kind for all rows": ("of_row[row] * columns", "0 * columns"),
    "a kind for all columns": ("+ of_column[column]", "+ of_column[0]"),
    "a kind for the whole row": ("of_column[next] == of_column[column]", "true"),
    "one bias for all": ("load(bias + q * FLOATS)", "load(bias)"),
    "the last output is left out": ("if constexpr (N > 1)", "if constexpr (N > 3)"),
    "one colour": ("patch = padded + colour * s.padded_area()", "patch = padded + 0 * s.padded_area()"),
    "a patch that overwrites": ("store(to, load(to) + sum[n][r])", "store(to, sum[n][r])"),
    "patches side by side": ("r * padded_width + 2 * n", "r * padded_width + n"),
    "the gradient of one image after the other": ("std::fill(padded.begin(), padded.end(), 0.f)", ""),
    "a sum that is overwritten": ("to[j] += one[j]", "to[j] = one[j]"),
    "odd ones are left out": ("for (; left; --left,", "for (; false; --left,"),
}


@needs_kernel
@cases(("old", "new"), MUTANTS, fast=("a kind for all rows", "a sum that is overwritten"))
def test_mutants_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    """By the check before the first use; the right text passes the same test."""
    replace(old, new, tmp_path, monkeypatch, file="stride_two.cpp")
    assert library.compiled(library.FOLDER / "stride_two.cpp") is not None
    assert kernel.__wrapped__() is None
