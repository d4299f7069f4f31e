"""Keeps back what Lightning says of itself, and warnings that do not concern the user."""

from __future__ import annotations

import logging
import warnings

from ebmlab.app.failures import is_own
from ebmlab.errors import shown

TIME_IS_UP = "trainer.max_time is over: training ends here; it does not cover the evaluations that follow"
_as_python_does = warnings.formatwarning


def quieten() -> None:
    """Filters Lightning's advertisements, and warnings about what ebmlab does on purpose; shows the others plainly."""
    warnings.formatwarning = _shown
    warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # Lightning 2.6 with torch >= 2.9
    warnings.filterwarnings("ignore", "The number of training batches .* is smaller than the logging interval")
    warnings.filterwarnings("ignore", "Checkpoint directory .* exists and is not empty")  # in a resumed run
    warnings.filterwarnings("ignore", "The dirpath has changed")  # in a new run that continues a copied checkpoint
    warnings.filterwarnings("ignore", "There is a wandb run already in progress")  # after a rollback
    warnings.filterwarnings("ignore", "Be aware that when using `ckpt_path`")  # evaluation saves no checkpoints
    logging.getLogger("pytorch_lightning.utilities.rank_zero").addFilter(_is_no_advertisement)


def _shown(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """A warning without what a terminal obeys: it may quote a stranger's file. A place in the user's code is named."""
    if is_own(filename):
        return shown(_as_python_does(message, category, filename, lineno, line))
    return f"warning: {shown(str(message))}\n"


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    record.msg, record.args = shown(record.getMessage()), ()
    if record.msg.startswith("Time limit reached"):
        record.msg = TIME_IS_UP
    return "litlogger" not in record.getMessage() and "litmodels" not in record.getMessage()
