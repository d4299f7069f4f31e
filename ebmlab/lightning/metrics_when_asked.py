"""torchmetrics without the metrics that nobody asks for.

Lightning needs two classes and the version of torchmetrics. But `import torchmetrics` loads every metric there is, and
with them torchvision, scipy.signal and transformers. At the start of each command this takes longer than torch does.
There is no lazy mechanism in torchmetrics. `importlib.util.LazyLoader` loads a package as soon as one of its modules is
imported. So the command line, and it alone, puts the package in place before its `__init__` has run. It runs when
somebody asks for another name.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

NEEDED = {  # by Lightning
    "Metric": "torchmetrics.metric",
    "MetricCollection": "torchmetrics.collections",
    "__version__": "torchmetrics.__about__",
}


class _Package(ModuleType):
    """The package, whose `__init__` runs when a name is asked for that is not in `NEEDED`."""

    def __getattr__(self, name: str) -> Any:
        if name in NEEDED:
            import_module("torchmetrics.utilities")  # before `metric`, which it imports in a circle
            found = getattr(import_module(NEEDED[name]), name)
            setattr(self, name, found)
            return found
        if name.startswith("__") and name != "__all__":  # asked of any module
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec: Any = self.__spec__
        spec.loader.exec_module(self)
        return getattr(self, name)


def load_metrics_when_asked() -> None:
    """Puts off the loading of torchmetrics, unless it has been loaded or is missing."""
    spec: ModuleSpec | None = None if "torchmetrics" in sys.modules else find_spec("torchmetrics")
    if spec is not None:
        package = module_from_spec(spec)
        package.__class__ = _Package
        package._logger = logging.getLogger("torchmetrics")  # type: ignore[attr-defined]  # its utilities ask for it
        sys.modules["torchmetrics"] = package
