"""`python -m ebmlab`: runs every command. Those that train and test by Lightning are in `with_trainer`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from ebmlab.app.distributed_errors import name_launch
from ebmlab.app.failures import in_one_line, loading
from ebmlab.app.own_configs import with_pipes_read
from ebmlab.app.quick_answers import answer
from ebmlab.app.quiet_lightning import quieten
from ebmlab.app.run_folder import how_to_go_on, release
from ebmlab.app.signals import stoppable
from ebmlab.app.without_trainer import without_trainer
from ebmlab.errors import shown
from ebmlab.lightning.compiler_when_asked import load_compiler_when_asked
from ebmlab.lightning.metrics_when_asked import load_metrics_when_asked
from ebmlab.lightning.plots_when_asked import load_plots_when_asked


def main(args: list[str] | None = None, answered: bool = False) -> None:
    """Runs the command line, which `answer` was asked first if `answered`. Bad input is one line and exit code 2."""
    quieten()
    given = sys.argv[1:] if args is None else args
    debug, given = "--debug" in given, [a for a in given if a != "--debug"]
    name_launch()
    try:
        advice = partial(how_to_go_on, given)
        with in_one_line(advice, debug), stoppable(advice):
            _run(given, answered)
    finally:
        release()


def load(given: list[str]) -> Callable[[list[str]], None]:
    """Imports what a command needs, and returns the function that runs it."""
    if (run := without_trainer(given)) is not None:
        return lambda given: run()
    with loading():
        load_metrics_when_asked()
        load_compiler_when_asked()
        load_plots_when_asked()
        from ebmlab.app.with_trainer import with_trainer
    return with_trainer


def _run(given: list[str], answered: bool) -> None:
    given = with_pipes_read(given)
    if not answered and (text := answer(given)) is not None:
        print(shown(text))
        return
    load(given)(given)
