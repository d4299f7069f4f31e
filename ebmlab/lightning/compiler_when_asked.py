"""torch's compiler when it is asked for, and not when Lightning is imported.

Lightning imports `torch._dynamo` for a decorator and one class, by which it recognises compiled modules. The compiler
takes nearly as long to load as torch itself, and brings sympy along. `importlib.util.LazyLoader` would load it as soon
as that class is taken from it. So the command line, and it alone, gives Lightning another class. A module is an
instance of it if it is one of torch's class, which nothing can be before the compiler is there.

Training loads the compiler all the same: torch's optimizers import it in their first step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


class _CompiledModule(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        compiler = sys.modules.get(f"{COMPILER}.eval_frame")
        return compiler is not None and isinstance(instance, compiler.OptimizedModule)


class OptimizedModule(metaclass=_CompiledModule):
    """Stands for torch's class of that name in checks of Lightning."""


class _Compiler(ModuleType):
    """Gives that class; who asks for anything else gets the compiler."""

    OptimizedModule = OptimizedModule

    @staticmethod
    def disable(function: Any, recursive: bool = True, **_: Any) -> Any:
        """A function that the compiler leaves alone: torch's own way for its functions, which loads it when called."""
        return import_module("torch")._disable_dynamo(function, recursive)

    def __getattr__(self, name: str) -> Any:
        if name in ("__spec__", "__path__"):  # asked by `import`
            raise AttributeError(name)
        _remove(self)
        return getattr(import_module(COMPILER), name)


@contextmanager
def compiler_when_asked() -> Iterator[None]:
    """Within it Lightning is imported without torch's compiler, unless that has been loaded."""
    import_module("torch")  # which looks for its own compiler
    if COMPILER in sys.modules:
        yield
        return
    instead = _Compiler(COMPILER)
    sys.modules[COMPILER] = instead
    try:
        yield
    finally:
        _remove(instead)


def _remove(instead: ModuleType) -> None:
    if sys.modules.get(COMPILER) is instead:
        del sys.modules[COMPILER]
