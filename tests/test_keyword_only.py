"""What comes after the second parameter is given by name, in all that is public: a call then says what it sets."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator

import pytest

ROOMS = [
    *(
        "domains",
        "graphs",
        "energies",
        "samplers",
        "fused",
        "samplers.tuners",
        "samplers.proposals",
        "learners",
        "evaluation",
    ),
    *(
        "evaluation.metrics",
        "problems",
        "testing",
        "trained",
        "exchange",
        "sequences",
        "studies",
        "studies.targets",
        "sklearn",
    ),
    *("callbacks", "datamodules", "drawing"),
]

# Calls that the field writes by position.
POSITIONS = {
    "Edges": 4,  # (size, rows, columns, values), a sparse matrix
    "Rows": 4,  # (train_x, train_y, test_x, test_y), a split table
    "factorised": 3,  # (domain, x, gradient): where, and which way
    "first_order_moves": 3,  # likewise
    "reverse_ais": 3,  # (energy, sampler, x), as a sampler is run
    "minimise": 3,  # (energy, sampler, schedule), as annealing is spoken of
    "log_image": 3,  # (trainer, name, image)
}
# The same for methods. All others have two, but for those that a class of a user's own writes: there, names may differ.
METHODS = {
    "sample": 3,  # (energy, x, num_steps)
    "last_states": 3,  # likewise
    "tune": 4,  # (sampler, energy, x, num_steps)
    "search": 4,  # likewise
    "estimate_alpha": 3,  # (sampler, energy, state)
    "rmse": 3,  # (x, features, targets)
}
HOOKS = {
    *("start", "step", "init", "evaluate", "arrive", "refresh", "chain", "check_chains", "at_iteration", "proposal"),
    *("draw", "states", "make_loader", "flip_differences", "summed_energy", "increment", "joining"),
}
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
Named = tuple[str, Callable[..., object], int]


def methods(cls: type) -> Iterator[Named]:
    """The methods that a user calls, each with the number of its positions; Lightning prescribes those of callbacks."""
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if inspect.isfunction(function) and not name.startswith("_") and name not in HOOKS:
            bound = 0 if isinstance(method, staticmethod) else 1
            yield f"{cls.__name__}.{name}", function, METHODS.get(name, 2) + bound


def public(room: str) -> Iterator[Named]:
    """The functions, constructors and methods of a room, each with the number of its positions."""
    module = importlib.import_module(f"ebmlab.{room}")
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
        value = getattr(module, name)
        if inspect.isfunction(value) or (inspect.isclass(value) and value.__init__ is not object.__init__):
            yield name, value, POSITIONS.get(name, 2)
        if inspect.isclass(value) and room not in ("callbacks", "datamodules"):
            yield from methods(value)


def too_many(found: Iterator[Named]) -> list[str]:
    """What takes more by position than it may."""
    counts = [
        (n, k, [p.name for p in inspect.signature(f).parameters.values() if p.kind in POSITIONAL]) for n, f, k in found
    ]
    return [f"{name}({', '.join(names)})" for name, most, names in counts if len(names) > most]


@pytest.mark.parametrize("room", ROOMS)
def test_what_comes_after_the_second_parameter_is_given_by_name(room: str) -> None:
    assert too_many(public(room)) == []


def test_one_that_takes_a_third_by_position_is_found() -> None:
    class Late:
        def __init__(self, a: int, b: int, c: int) -> None: ...
        def sample(self, a: int, b: int, c: int, d: int) -> None: ...
        def init(self, a: int, b: int, c: int) -> None: ...

    found = [("Late", Late, 2), *methods(Late)]
    assert too_many(iter(found)) == ["Late(a, b, c)", "Late.sample(self, a, b, c, d)"]
    assert too_many(iter([("f", lambda a, b, *, c: None, 2)])) == []


def test_no_exception_is_left_over() -> None:
    names = {name for room in ROOMS for name, _, _ in public(room)}
    assert set(POSITIONS) <= names
    assert set(METHODS) <= {name.partition(".")[2] for name in names}
