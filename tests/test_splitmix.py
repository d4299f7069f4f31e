"""The uniform numbers of compiled programs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ebmlab.numerics.splitmix as module
from ebmlab.numerics.noise import uniform
from ebmlab.numerics.splitmix import words

STRIDE = torch.tensor(0x9E3779B97F4A7C15 - 2**64)  # of the generator without splits
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDE", True)


def in_program(like: Tensor) -> Tensor:
    torch.compiler.reset()
    drawn: Tensor = torch.compile(uniform, backend="eager", fullgraph=True)(like)
    return drawn


def test_words_of_a_seed_are_the_known_ones() -> None:
    assert [word % 2**64 for word in words(torch.tensor(1234567), STRIDE, 5).tolist()] == KNOWN


@pytest.mark.parametrize("count", [16, 500])
def test_the_compiler_makes_the_same_words(count: int) -> None:
    """A constant stride overflows in the compiled loop, which then writes past its end."""
    torch.compiler.reset()
    seed = torch.tensor(-(2**63) + 5)
    assert torch.compile(words, dynamic=False)(seed, STRIDE, count).equal(words(seed, STRIDE, count))


@pytest.mark.parametrize(("given", "drawn"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64")])
def test_programs_draw_uniform_numbers(given: str, drawn: str) -> None:
    """Each, and each with its neighbour and with the next draw, by chi-square on 16 and 256 cells, at five sigmas."""
    torch.manual_seed(0)
    like = torch.zeros(2, 50_000, dtype=getattr(torch, given))
    first, second = in_program(like), in_program(like)
    assert first.dtype == getattr(torch, drawn) and first.shape == like.shape
    assert first.min() >= 0 and first.max() < 1
    cells, others = ((16 * u).long().flatten() for u in (first, second))
    for count, index in ((16, cells), (256, 16 * cells[1:] + cells[:-1]), (256, 16 * cells + others)):
        expected = len(index) / count
        chi_square = (index.bincount(minlength=count) - expected).square().sum().item() / expected
        assert abs(chi_square - count + 1) < 5 * (2 * count) ** 0.5


def test_numbers_have_all_bits_of_their_type() -> None:
    torch.manual_seed(0)
    for dtype, bits in ((torch.float32, 24), (torch.float64, 53)):
        scaled = in_program(torch.zeros(1000, dtype=dtype)) * 2**bits
        assert scaled.equal(scaled.round()) and 0.4 < (scaled % 2).mean() < 0.6


def test_torch_seed_decides() -> None:
    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return in_program(torch.zeros(100))

    assert drawn(1).equal(drawn(1)) and not drawn(1).equal(drawn(2))


def test_other_processors_draw_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDE", False)
    torch.manual_seed(0)
    drawn = in_program(torch.zeros(100))
    torch.manual_seed(0)
    assert drawn.equal(torch.rand(100))
