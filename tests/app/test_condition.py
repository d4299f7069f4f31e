"""`predict --condition`: one rule per model for what a number stands for."""

from __future__ import annotations

import pytest
from helpers_errors import refused

from ebmlab.app.condition import read_condition
from ebmlab.data.preprocessing import Preprocessing

FAMILY = Preprocessing((4,), num_classes=5, letters="-ACGU", columns=("1", "2", "4", "6"), width=6)
WHOLE = Preprocessing((3,), num_classes=5, letters="-ACGU", columns=("1", "2", "3"), width=3)
SPINS = Preprocessing((3,), columns=("2", "3", "5"))
PEOPLE = Preprocessing((3,), columns=("kind", "height", "tall"))
TWICE = Preprocessing((3,), columns=("a", "b", "a"))
PLAIN = Preprocessing((1, 2, 2))


@pytest.mark.parametrize(
    ("form", "condition", "known"),
    [
        (FAMILY, "4=A,1=3", {2: 1, 0: 3}),
        (WHOLE, "1=C", {0: 2}),
        (WHOLE, "1=T,2=a", {0: 4, 1: 1}),
        (SPINS, "5=1", {2: 1}),
        (PEOPLE, "height=171.5,0=2", {1: 171.5, 0: 2}),
        (TWICE, "b=1,2=0", {1: 1, 2: 0}),
        (Preprocessing((3,), columns=("0", "1", "2")), "2=1", {2: 1}),
        (PLAIN, "3=1,0=0.5", {3: 1, 0: 0.5}),
        (Preprocessing((2,)), "0=1700000010.5", {0: 1_700_000_010.5}),  # float32 would round it
    ],
)
def test_numbers_are_names_where_names_are_numbers(
    form: Preprocessing, condition: str, known: dict[int, float]
) -> None:
    event, mask = read_condition(condition, form)
    assert event.shape == (1, *form.shape) and mask.shape == form.shape
    assert {int(i): float(event.flatten()[i]) for i in mask.flatten().nonzero()} == known


@pytest.mark.parametrize(
    ("form", "condition", "line"),
    [
        (FAMILY, "3=A", "column 3 was left out of the model: its columns are 1, 2, 4, 6"),
        (FAMILY, "7=A", "column 7 is not in the model: its columns are 1, 2, 4, 6"),
        (WHOLE, "0=A", "column 0 is not in the model: its columns are 1, 2, 3"),
        (FAMILY, "4=A,04=C", "column 4 is given twice"),
        (SPINS, "1=1", "column 1 is not in the model: its columns are 2, 3, 5"),
        (TWICE, "a=1", "several columns are called a: give one by its number, from 0 on"),
        (PEOPLE, "kind=1,0=1", "column kind is given twice"),
        (PLAIN, "4=1", "there is no coordinate 4; an event has 4, from 0 on"),
        (PEOPLE, "colour=1", "there is no column colour; there are "),
    ],
)
def test_what_is_in_no_column_is_refused_in_one_line(form: Preprocessing, condition: str, line: str) -> None:
    with refused(f"^--condition: {line}"):
        read_condition(condition, form)
