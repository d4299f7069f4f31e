import functools
import gc
import importlib.metadata
import os
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Tensors are small here: several threads would wait for each other. NumPy and child processes read this as they start.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import pytest
import torch

from ebmlab.lightning.metrics_when_asked import load_metrics_when_asked
from ebmlab.native import library

load_metrics_when_asked()  # as commands do: Lightning alone would load all metrics, and transformers with them
os.environ["JSONARGPARSE_DEPRECATION_WARNINGS"] = "off"  # Lightning 2.6 calls jsonargparse by older names
os.environ["WANDB_SILENT"] = "true"
torch.set_num_threads(1)
if not torch.cuda.is_available():  # each seed is kept for a GPU with a traceback, which takes longer than many a test
    for backend in (torch.cuda, torch.mtia, torch.xpu):
        backend.traceback = types.SimpleNamespace(format_stack=list)  # type: ignore[attr-defined]
gc.set_threshold(50_000, 20, 50)  # before tests are collected, which makes a million objects
# Every Trainer asks for the entry points of all installed packages, which stay the same.
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)


def pytest_configure(config: pytest.Config) -> None:
    """Compiles all kernels before workers begin, each of which would compile all of them at the same time."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            pool.map(library.compiled, library.FOLDER.glob("*.cpp"))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not look at it again, a tenth of the tests' time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures without axes and without the search for a layout, which are most of the cost of drawing.

    Tests of the pictures themselves do not ask for it.
    """
    from matplotlib.figure import Figure

    whole = Figure.savefig

    def draft(figure: Figure, *args: Any, **options: Any) -> None:
        figure.set_layout_engine("none")
        for axes in figure.axes:
            axes.set_axis_off()
        whole(figure, *args, **(options | {"pil_kwargs": {"compress_level": 1}}))

    monkeypatch.setattr(Figure, "savefig", draft)
