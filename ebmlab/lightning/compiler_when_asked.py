"""torch's compiler when something is compiled, and not when Lightning is imported or an optimizer takes a step.

Lightning imports `torch._dynamo` for a decorator and one class, by which it recognises compiled modules. torch's
optimizers import it for two notes to the compiler. It takes nearly as long to load as torch itself, and brings sympy
along. `importlib.util.LazyLoader` would load it as soon as any name is taken from it. So the command line, and it
alone, puts a module in its place that has these names, and makes way for the compiler when another is asked for. As
long as it stands there, nothing has been compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


class _CompiledModule(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return _waits() is None and isinstance(instance, import_module(COMPILER).OptimizedModule)


class OptimizedModule(metaclass=_CompiledModule):
    """Stands for torch's class of that name in checks of Lightning."""


class _Compiler(ModuleType):
    """Stands for the compiler until it is loaded, with the names that Lightning and torch's optimizers use of it."""

    OptimizedModule = OptimizedModule

    @staticmethod
    def graph_break(msg: str = "") -> None:
        """Ends a graph of the compiler here if it is loaded; else there is no graph to end."""
        if _waits() is None:
            import_module(COMPILER).graph_break(msg)

    @staticmethod
    def disable(function: Callable[..., Any], recursive: bool = True, **settings: Any) -> Callable[..., Any]:
        """A function that the compiler leaves alone."""
        left_alone: Callable[..., Any] | None = None

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal left_alone
            if left_alone is None:
                if _waits() is not None:
                    return function(*args, **kwargs)
                left_alone = import_module(COMPILER).disable(function, recursive, **settings)
            return left_alone(*args, **kwargs)

        return called

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of any module
            raise AttributeError(name)
        return getattr(_loaded(), name)


class _Within(MetaPathFinder, Loader):
    """Finds submodules of the compiler while it is not loaded: to import one loads the compiler first."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith(f"{COMPILER}.") and _waits() is not None else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _loaded()
        module = import_module(spec.name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if (spec := module.__spec__) and spec.loader is self:  # written there by the import that asked
            module.__spec__ = spec.loader_state


def _waits() -> ModuleType | None:
    """The module that stands for the compiler; None once the compiler itself is loaded."""
    found = sys.modules.get(COMPILER)
    return found if isinstance(found, _Compiler) else None


def _loaded() -> ModuleType:
    """The compiler."""
    if _waits() is not None:
        del sys.modules[COMPILER]
    return import_module(COMPILER)


def load_compiler_when_asked() -> None:
    """Puts off the loading of torch's compiler, unless it has been loaded."""
    import_module("torch")  # which looks for its own compiler
    if COMPILER not in sys.modules and (spec := find_spec(COMPILER)) is not None:
        instead = _Compiler(COMPILER)
        instead.__path__ = spec.submodule_search_locations or []
        sys.modules[COMPILER] = instead
        sys.meta_path.insert(0, _Within())
