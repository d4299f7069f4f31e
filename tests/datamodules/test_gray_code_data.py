"""The code against integer arithmetic, and the seven densities against their moments and skeletons."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from ebmlab.datamodules import GrayCode2D
from ebmlab.datamodules.shapes_2d import SHAPES
from ebmlab.domains import Binary
from ebmlab.errors import UserError


def points(shape: str, n: int, seed: int = 0) -> Tensor:
    return SHAPES[shape](n, torch.Generator().manual_seed(seed))


def reference(value: float, places: int) -> list[int]:
    """The bits of a coordinate, by exact arithmetic on integers."""
    cell = int(Fraction(abs(value) / 5.0) * 2**places)
    gray = cell ^ (cell >> 1)
    return [int(value < 0), *map(int, f"{gray:0{places}b}")]


@pytest.mark.parametrize("num_bits", [4, 6, 8, 10, 12, 32, 100])
def test_encode_inverts_decode(num_bits: int) -> None:
    module = GrayCode2D(num_bits=num_bits)
    generator = torch.Generator().manual_seed(num_bits)
    some = torch.randint(2, (2000, num_bits), generator=generator).float()
    bits = Binary(num_bits).enumerate() if num_bits <= 12 else torch.cat([some, torch.eye(num_bits)])
    plane = module.decode(bits)
    assert plane.shape == (len(bits), 2) and plane.dtype == torch.float64 and plane.abs().max() < 5
    again = module.encode(plane)
    assert again.dtype == torch.float32 and torch.equal(again, bits)
    assert torch.equal(module.decode(bits.byte()), plane)
    assert module.decode(bits[:0]).shape == (0, 2) and module.encode(plane[:0]).shape == (0, num_bits)


@pytest.mark.parametrize("num_bits", [4, 8, 32, 256])
def test_encode_agrees_with_integer_arithmetic(num_bits: int) -> None:
    places = num_bits // 2 - 1
    values = points("pinwheel", 200)
    expected = torch.tensor([reference(x, places) + reference(y, places) for x, y in values.tolist()])
    assert torch.equal(GrayCode2D(num_bits=num_bits).encode(values).long(), expected)


@pytest.mark.parametrize("num_bits", [4, 8, 32, 100, 256])
@pytest.mark.parametrize("shape", SHAPES)
def test_points_move_by_at_most_half_a_cell(shape: str, num_bits: int) -> None:
    module = GrayCode2D(shape, num_bits)
    x = points(shape, 1000)
    half = 5 * 2.0 ** -(num_bits // 2)
    assert float((module.decode(module.encode(x)) - x).abs().max()) <= half + 2e-15


@pytest.mark.parametrize("axis", [0, 1])
def test_neighbouring_cells_differ_in_one_bit_and_across_zero_in_the_sign(axis: int) -> None:
    module = GrayCode2D(num_bits=16)
    bits = torch.zeros(256, 16)
    mine = slice(8 * axis, 8 * axis + 8)  # the first coordinate's bits come first
    bits[:, mine] = Binary(8).enumerate()
    plane = module.decode(bits)
    assert plane[:, 1 - axis].unique().numel() == 1
    values, order = plane[:, axis].sort()
    torch.testing.assert_close(values.diff(), torch.full((255,), 10 / 256, dtype=torch.float64))
    changed = bits[order].diff(dim=0) != 0
    assert changed.sum(1).eq(1).all()
    assert changed[127].nonzero().item() == 8 * axis  # zero lies between cells 127 and 128


def test_what_lies_outside_is_coded_as_the_outermost_cell() -> None:
    module = GrayCode2D(num_bits=12)
    far = module.encode(torch.tensor([[5.0, -5.0], [7.5, -1e300]], dtype=torch.float64))
    just_inside = module.encode(torch.tensor([[4.999, -4.999], [4.999, -4.999]]))
    assert torch.equal(far, just_inside)


# E x, E y, E |x|^2
MOMENTS = {
    "2spirals": (0, 0, math.pi**2 / 2 + (4 / (3 * math.pi) + 2 - 8 / (9 * math.pi**2)) / 18 + 1 / 54 + 0.02),
    "8gaussians": (0, 0, 8.25),
    "circles": (0, 0, (9 + 2.25) / 2 + 2 * 0.24**2),
    "moons": (0, 0.3, 4.08 + (1.04 - 1.6 / math.pi + 1.64 - 6.4 / math.pi) / 2),
    "pinwheel": (0, 0, 4.4),
    "swissroll": (0.4, 2 / (15 * math.pi), 9.75 * math.pi**2 / 25 + 0.08),
    "checkerboard": (0, 0, 32 / 3),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_the_moments_of_their_densities(shape: str) -> None:
    x = points(shape, 40_000)
    assert x.shape == (40_000, 2) and x.dtype == torch.float64 and x.abs().max() < 5
    observed = torch.cat([x, x.square().sum(1, keepdim=True)], 1)
    error = (observed.mean(0) - torch.tensor(MOMENTS[shape], dtype=torch.float64)) / observed.std(0)
    assert (error * 200).abs().max() < 4.5  # seven densities, three moments: 1.4e-4 in all


def ring(radius: float, begin: float, end: float, x: float = 0, y: float = 0) -> Tensor:
    t = torch.linspace(begin, end, 500, dtype=torch.float64)
    return torch.stack([x + radius * t.cos(), y + radius * t.sin()], 1)


def skeleton(shape: str) -> Tensor:
    """Points on the curve, or at the centres, around which the density spreads."""
    t = torch.linspace(0, 3, 1000, dtype=torch.float64) * math.pi
    pi = math.pi
    if shape == "8gaussians":
        return ring(8**0.5, 0, 1.75 * pi)[[round(499 * i / 7) for i in range(8)]]
    if shape == "circles":
        return torch.cat([ring(3, 0, 2 * pi), ring(1.5, 0, 2 * pi)])
    if shape == "moons":
        return torch.cat([ring(2, 0, pi, -1, -0.2), ring(2, pi, 2 * pi, 1, 0.8)])
    if shape == "swissroll":
        angle = t + 1.5 * pi
        return torch.stack([angle * angle.cos(), angle * angle.sin()], 1) / 5
    arm = torch.stack([0.25 - t * t.cos(), 0.25 + t * t.sin()], 1) / 3
    return torch.cat([arm, -arm])


@pytest.mark.parametrize(
    ("shape", "sigma"),
    [("8gaussians", 0.354), ("circles", 0.24), ("moons", 0.2), ("swissroll", 0.2), ("2spirals", 0.13)],
)
def test_points_lie_along_all_of_the_skeleton(shape: str, sigma: float) -> None:
    bones = skeleton(shape)
    distance = torch.cdist(points(shape, 4000), bones)
    nearest = distance.amin(1)
    assert nearest.max() < 5 * sigma
    assert nearest.square().mean().sqrt() < 1.5 * sigma
    assert distance.amin(0).max() < 2 * sigma


def test_parts_of_a_mixture_are_equally_likely() -> None:
    x = points("8gaussians", 8000)
    corners = torch.cdist(x, skeleton("8gaussians")).argmin(1).bincount(minlength=8)
    square = ((points("checkerboard", 8000) + 4) / 2).floor().long()
    assert square.min() == 0 and square.max() == 3 and square.sum(1).remainder(2).eq(0).all()
    squares = (4 * square[:, 0] + square[:, 1]).bincount(minlength=16)
    for counts in (corners, squares[squares > 0]):
        assert len(counts) == 8
        assert float((counts - 1000).square().sum()) / 1000 < 29.9  # 7 degrees of freedom: probability 1e-4
    rings = points("circles", 8000).norm(dim=1) > 2.25
    arms = points("moons", 8000)[:, 1] > 0.3
    for part in (rings, arms):
        assert abs(int(part.sum()) - 4000) < 4.5 * 8000**0.5 / 2


def test_the_pinwheel_has_five_sheared_blades() -> None:
    x = points("pinwheel", 4000) / 2
    radius = x.norm(dim=1)
    fifth = 2 * math.pi / 5
    turn = torch.atan2(-x[:, 1], x[:, 0]) - 0.25 * radius.exp()
    outer = radius > 0.7
    blade = (turn / fifth).round()
    assert (turn - fifth * blade)[outer].std() < 0.16  # if spread evenly over a fifth of the turn, 0.36
    counts = blade[outer].long().remainder(5).bincount()
    assert len(counts) == 5 and counts.min() > 0.85 * counts.max()


@pytest.mark.parametrize("shape", SHAPES)
def test_splits_hold_the_codes_of_new_draws(shape: str) -> None:
    module = GrayCode2D(shape, num_bits=256, num_samples=40, seed=3)
    for split, n in (("train", 40), ("val", 4), ("test", 4)):
        x = module.to_states(module.raw(split))
        assert x.shape == (n, 256)
        Binary(256).validate(x)
        assert module.decode(x).abs().max() < 5
    assert not torch.equal(module.raw("train"), GrayCode2D(shape, num_bits=256, num_samples=40, seed=4).raw("train"))


def test_sample_uses_the_generator_it_is_given() -> None:
    module = GrayCode2D("moons")
    one, two = (module.sample(10, torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.shape == (10, 2) and torch.equal(one, two)
    torch.manual_seed(3)
    assert torch.equal(module.sample(10), one)


def test_bad_options_and_inputs_are_named() -> None:
    with pytest.raises(
        UserError, match='shape is "square", but must be "2spirals", "8gaussians", "circles", "moons", "pinwheel"'
    ):
        GrayCode2D("square")  # type: ignore[arg-type]
    for num_bits in (2, 0, 31, -4):
        with pytest.raises(UserError, match=f"num_bits is {num_bits}; it must be even and at least 4"):
            GrayCode2D(num_bits=num_bits)
    with pytest.raises(UserError, match="num_samples is 9, but must be at least 10"):
        GrayCode2D(num_samples=9)
    module = GrayCode2D(num_bits=8)
    with pytest.raises(UserError, match=r"shape \(3, 8\); it must be \(B, 2\)"):
        module.encode(torch.zeros(3, 8))
    with pytest.raises(UserError, match="NaN or infinity"):
        module.encode(torch.tensor([[0.0, torch.inf]]))
    with pytest.raises(UserError, match="must be 0 or 1"):
        module.decode(torch.full((1, 8), 0.5))
    with pytest.raises(UserError, match=r"shape \(B, 8\), got \(3, 2\)"):
        module.decode(torch.zeros(3, 2))
