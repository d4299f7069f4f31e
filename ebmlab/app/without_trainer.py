"""Commands that need no trainer, and load neither Lightning nor its parsers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from ebmlab.app.failures import loading
from ebmlab.app.parsers import MODEL_COMMANDS

_PLACES = {
    **dict.fromkeys(MODEL_COMMANDS, "model_commands.run_model_command"),
    "convert": "convert.run_convert",
    "mutate": "mutate.run_mutate",
    "solve": "solve.run_solve",
    "sweep": "sweep.sweep",
    "zoo": "zoo_command.run_zoo",
}


def without_trainer(given: list[str]) -> Callable[[], None] | None:
    """What runs a command line, if it needs no trainer; else None."""
    command, words = given[0], given[1:]
    if command == "predict":
        with loading():
            from ebmlab.app.predict_without_config import predict_alone, stands_alone
        return partial(predict_alone, words) if stands_alone(words) else None
    if command not in _PLACES:
        return None
    module, _, name = _PLACES[command].partition(".")
    with loading():
        run = getattr(import_module(f"ebmlab.app.{module}"), name)
    return partial(run, command, words) if command in MODEL_COMMANDS else partial(run, words)
