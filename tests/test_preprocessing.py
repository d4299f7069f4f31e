"""Preprocessing turns raw data into states and back, also when rebuilt from its plain numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers_errors import refused

from ebmlab.data.preprocessing import Preprocessing, are_levels, moments
from ebmlab.errors import UserError

PIXELS = Preprocessing((1, 2, 2), scale=255.0, mean=(0.5,), std=(0.25,), unit=True)


@pytest.mark.parametrize(
    ("preprocessing", "raw", "states"),
    [
        (PIXELS, torch.tensor([[0, 255, 0, 51]], dtype=torch.uint8), [[-2.0, 2.0, -2.0, -1.2]]),
        (PIXELS, torch.tensor([[0.0, 1.0, 0.5, 0.2]]), [[-2.0, 2.0, 0.0, -1.2]]),  # floats are in [0, 1] already
        (Preprocessing((2,), 255.0, 255.0, (0.0, 1.0), (1.0, 0.5)), torch.tensor([[51.0, 255.0]]), [[0.2, 0.0]]),
        (Preprocessing((2,), mean=(0.5,), std=(0.5,)), torch.tensor([[0, 1]]), [[-1.0, 1.0]]),
        (Preprocessing((3,), 10.0, binarize=True, unit=True), torch.tensor([[4, 5, 6]]), [[0.0, 0.0, 1.0]]),
        (Preprocessing((2,), num_classes=3), torch.tensor([[2, 0]]), [[0.0, 0, 1, 1, 0, 0]]),
    ],
)
def test_to_raw_inverts_to_states(preprocessing: Preprocessing, raw: torch.Tensor, states: list[list[float]]) -> None:
    again = Preprocessing.from_dict(preprocessing.to_dict())
    x = again.to_states(raw)
    assert x.dtype == torch.float32 and x.shape == (len(raw), *preprocessing.event_shape)
    torch.testing.assert_close(x.flatten(1), torch.tensor(states))
    if not preprocessing.binarize:
        back = again.to_raw(x).flatten(1).double()
        wanted = raw.double() / (preprocessing.scale if not raw.is_floating_point() else 1)
        torch.testing.assert_close(back, wanted, atol=1e-4, rtol=0)
    assert torch.equal(again.to_states(again.to_raw(x)), again.to_states(again.to_raw(x.flatten(1))))


def test_raw_data_of_another_shape_are_refused() -> None:
    for shape in ((3, 4), (3, 2, 2), (3, 1, 2, 2), (3, 2, 1, 2)):
        assert PIXELS.to_states(torch.zeros(shape)).shape == (3, 1, 2, 2)
    for shape in ((4,), (1, 8), (3, 3), (3, 4, 4)):
        with pytest.raises(UserError, match=r"it must be \(B, 1, 2, 2\) or \(B, 4\)"):
            PIXELS.to_states(torch.zeros(shape))
    with pytest.raises(UserError, match="whole numbers from 0 to 2"):
        Preprocessing((2,), num_classes=3).to_states(torch.tensor([[0, 3]]))
    with pytest.raises(UserError, match="another version"):
        Preprocessing.from_dict({"shape": (2,), "magic": 1})


def test_colours_may_be_the_last_axis_as_in_the_training_data() -> None:
    form = Preprocessing((3, 4, 5), mean=(1.0, 2.0, 3.0), std=(1.0, 1.0, 1.0))
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(form.to_states(x.permute(0, 2, 3, 1)), form.to_states(x))
    same = torch.randn(2, 3, 3, 3)  # the axes do not tell: the first is that of the colours, as for the training
    assert torch.equal(Preprocessing((3, 3, 3)).to_states(same), same)
    with pytest.raises(UserError, match=r"raw data have shape \(2, 5, 4, 3\); it must be \(B, 3, 4, 5\)"):
        form.to_states(torch.randn(2, 5, 4, 3))


def test_levels_are_whole_between_0_and_255_and_one_of_them_above_1() -> None:
    for numbers, levels in (([0, 1], False), ([0, 2], True), ([0, 255], True), ([0, 256], False), ([-1, 9], False)):
        assert are_levels(torch.tensor(numbers)) == are_levels(torch.tensor(numbers).float()) == levels
    assert not are_levels(torch.tensor([0.5, 200.0])) and not are_levels(torch.tensor([]))
    assert not are_levels(torch.tensor([float("nan"), 3.0]))


def test_moments_are_those_of_each_channel_and_never_0() -> None:
    torch.manual_seed(0)
    x = torch.rand(5000, 2, 3, 1)
    x[:, 1] = 7
    mean, std = moments(x, Preprocessing((2, 3, 1)))
    assert mean == pytest.approx((x[:, 0].mean().item(), 7)) and std[1] == 1
    assert std[0] == pytest.approx(x[:, 0].std(correction=0).item(), rel=1e-5)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (PIXELS, None),
        (replace(PIXELS, float_scale=255.0), None),  # pixels in [0, 1] are the same numbers in all units
        (replace(PIXELS, std=(0.2500001,)), None),
        (replace(PIXELS, unit=False, float_scale=255.0), "float_scale is 1.0, not 255.0"),
        (replace(PIXELS, shape=(4,)), r"shape is (1, 2, 2), not (4,)"),
        (replace(PIXELS, mean=(0.6,)), "mean is 0.5, not 0.6"),
        (replace(PIXELS, std=(0.3,)), "std is 0.25, not 0.3"),
        (replace(PIXELS, mean=(0.5, 0.7), std=(0.25, 0.25)), "mean is 0.5, not 0.7"),
        (replace(PIXELS, binarize=True), "binarize is False, not True"),
    ],
)
def test_a_difference_is_named(other: Preprocessing, found: str | None) -> None:
    assert PIXELS.difference(other) == found


@pytest.mark.parametrize("value", [0.1, 2.7, 1e9 / 3])
def test_a_column_that_never_varies_has_no_rounding_for_a_deviation(value: float) -> None:
    raw = torch.stack([torch.full((10_000,), value), torch.arange(10_000.0)], 1).double()
    _, (constant, varying) = moments(raw, Preprocessing((2,)))
    assert constant == 1.0 and varying == pytest.approx(10_000 / 12**0.5)


@pytest.mark.parametrize("number", [torch.float32, torch.float64])
def test_times_that_are_far_from_0_keep_their_digits(number: torch.dtype) -> None:
    form = Preprocessing((2,), mean=(1_700_000_037.0, 0.5), std=(20.0, 2.0))  # between two numbers of float32
    raw = torch.tensor([[1_700_000_128.0, 0.5], [1_700_000_000.0, 4.5]], dtype=number)  # numbers of float32
    torch.testing.assert_close(form.to_states(raw), torch.tensor([[91 / 20, 0], [-37 / 20, 2]]))


@pytest.mark.parametrize(
    "damage",
    [
        {"mean": (0.5, 0.5, 0.5)},
        {"mean": 0.5},
        {"mean": ("a", "b")},
        {"mean": None},
        {"std": ()},
        {"std": (0.0,)},
        {"std": (float("nan"), 1.0)},
        {"scale": "much"},
        {"float_scale": 0.0},
        {"shape": 2},
        {"shape": (2, -1)},
        {"num_classes": None},
        {"num_classes": 2.5},
        {"classes": "ab"},
        {"classes": (1, 0)},
        {"classes": (0, 3, 2)},
        {"classes": (2.5, 0)},
        {"letters": 5},
        {"width": "a"},
        {"unit": "yes"},
        {"columns": (1, 2)},
        {"columns": "ab"},
        {"limits": ("a", 1.0)},
        {"limits": (0.0,)},
        {"binarize": "odd"},
    ],
)
def test_damaged_settings_are_refused_in_one_line(damage: dict[str, object]) -> None:
    good = Preprocessing((2,), mean=(0.5, 0.4), std=(1.0, 2.0)).to_dict()
    with refused("the preprocessing is damaged or of another version"):
        Preprocessing.from_dict(good | damage)
