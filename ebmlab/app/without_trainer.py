"""Commands that need no trainer, and none of Lightning's options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ebmlab.app.convert import run_convert
from ebmlab.app.model_commands import run_model_command
from ebmlab.app.model_parsers import MODEL_COMMANDS
from ebmlab.app.mutate import run_mutate
from ebmlab.app.predict_without_config import predict_alone, stands_alone
from ebmlab.app.solve import run_solve
from ebmlab.app.zoo_command import run_zoo


def without_trainer(given: list[str]) -> Callable[[], None] | None:
    """What runs a command line, if it needs no trainer; else None."""
    command, words = given[0], given[1:]
    if command in MODEL_COMMANDS:
        return partial(run_model_command, command, words)
    if command == "sweep":
        from ebmlab.app.sweep import sweep

        return partial(sweep, words)
    if command == "predict" and stands_alone(words):
        return partial(predict_alone, words)
    runs = {"convert": run_convert, "zoo": run_zoo, "mutate": run_mutate, "solve": run_solve}
    return partial(runs[command], words) if command in runs else None
