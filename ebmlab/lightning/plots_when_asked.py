"""matplotlib when something is drawn, and triton when operations are counted, not when Lightning is imported.

`torchmetrics.metric`, which Lightning imports, imports its module of plots, and that pyplot. Lightning's summary of a
model imports torch's counter of operations, and that triton. Together they take half as long to load as torch. So the
command line, and it alone, puts modules in their places that have the names which are imported, and makes way for the
real one when somebody plots, counts, or asks for another name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PLOTS, COUNTER = "torchmetrics.utilities.plot", "torch.utils.flop_counter"


class _Module(ModuleType):
    """Stands in the place of a module until a name is asked for that it does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of any module
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def _real(name: str) -> ModuleType:
    """Imports a module in place of the one that stands for it."""
    if isinstance(sys.modules.get(name), _Module):
        del sys.modules[name]
    return import_module(name)


class _IsAxes(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return "matplotlib.axes" in sys.modules and isinstance(instance, _real(PLOTS)._AX_TYPE)


class Axes(metaclass=_IsAxes):
    """Stands for matplotlib's class in annotations and checks of torchmetrics."""


def plot(*args: Any, **kwargs: Any) -> Any:
    """`plot_single_or_multi_val` of torchmetrics."""
    return _real(PLOTS).plot_single_or_multi_val(*args, **kwargs)


class Counter:
    """Stands for torch's counter of operations, which is made when the context is entered; before that it says 0."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._settings = args, kwargs
        self._counter: Any = None

    def __enter__(self) -> Any:
        args, kwargs = self._settings
        self._counter = _real(COUNTER).FlopCounterMode(*args, **kwargs)
        return self._counter.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._counter.__exit__(*error)

    def get_total_flops(self) -> int:
        return 0 if self._counter is None else self._counter.get_total_flops()

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        return {"Global": {}} if self._counter is None else self._counter.get_flop_counts()


NAMES: dict[str, dict[str, Any]] = {
    PLOTS: {"_AX_TYPE": Axes, "_PLOT_OUT_TYPE": tuple[object, object], "plot_single_or_multi_val": plot},
    COUNTER: {"FlopCounterMode": Counter},
}
"""What Lightning and torchmetrics import from each."""


def load_plots_when_asked() -> None:
    """Puts off the loading of both, unless they have been loaded or are missing."""
    for name, names in NAMES.items():
        if name not in sys.modules and find_spec(name.partition(".")[0]) is not None:
            instead = _Module(name)
            vars(instead).update(names)
            sys.modules[name] = instead
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:  # as the import of a module does
                setattr(sys.modules[parent], child, instead)
