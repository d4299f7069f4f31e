"""Keeps compiled programs on disk, so that the next process loads them in place of tracing the steps again.

torch's own caches keep what the C++ compiler made. A process that traces eight steps to find it there still takes
seconds. What is kept here is the whole program with torch's checks of its arguments (`aot_compile`). torch leaves out
the checks for which it compares addresses: which function, which class. So these are part of a file's name, and the
text of every module that was traced must be what it was. A file begins with a line of their digests: torch would report
an error for each check that the program of a changed text cannot make.

A loaded program does not remember what its checks were to find. torch makes them anew from what it finds, so that each
number of a module or a class passes whatever it is. So the first line also has the checks, as texts with their numbers.

To load a program is to run code. Files are therefore read from a folder only that nobody but the user can write.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import io
import json
import os
import pickle
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor

import ebmlab
from ebmlab.errors import UserError
from ebmlab.io.folders import is_private, private_folder

TRIED = torch.__version__ >= "2.14"  # whether torch can keep programs; not tried with older releases
KEPT = 200  # files at most, of about a megabyte each
STARTED = time.time()  # a module that was changed later may not be what this process has loaded
BY_ADDRESS = {
    "DICT_VERSION",
    "NN_MODULE",
    "ID_MATCH",
    "FUNCTION_MATCH",
    "CLASS_MATCH",
    "MODULE_MATCH",
    "CLOSURE_MATCH",
    "WEAKREF_ALIVE",
}  # kinds of torch's checks that compare addresses, and so mean nothing to another process
ADDRESS = re.compile(r"(?<=, )\d{8,}(?=\), type=)")  # of a type, whose name follows


class Program:
    """A function as compiled programs, one for each kind of arguments, which are kept on disk where they can be.

    Args:
        function: of tensors, and of objects of any kind.
        options: of `torch.compile`.

    Example:
        >>> def double(x):
        ...     return 2 * x
        >>> callable(Program(double, {}).for_one_run())
        True
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self._plain = torch.compile(function, fullgraph=True, dynamic=False, options=options)
        self._programs: dict[str, list[Any]] = {}

    def for_one_run(self) -> Callable[..., Any]:
        """A callable for the calls of one run. Its arguments may change only in what torch's own checks look at."""
        at_hand: Any = None

        def call(*args: Any) -> Any:
            nonlocal at_hand
            if at_hand is None or not (at_hand is self._plain or at_hand.guard_check(*args)):
                at_hand = self._on(args)
            return at_hand(*args)

        return call

    def _on(self, args: tuple[Any, ...]) -> Any:
        """The program for such arguments: of this process, from the disk, or compiled now."""
        name = name_of(self.function, self.options, args)
        if name is None:
            return self._plain
        known = self._programs.setdefault(name, [])
        for program in known:
            if program is self._plain or program.guard_check(*args):
                return program
        program = _loaded(name, self.function)
        if program is None or not program.guard_check(*args):
            program = self._compiled(name, args)
        known.append(program)
        return program

    def _compiled(self, name: str, args: tuple[Any, ...]) -> Any:
        """A new program, which is written to the disk; the plain one if torch cannot keep it."""
        options = self.options | {"guard_filter_fn": _not_by_address}
        compiler: Any = torch.compile(self.function, fullgraph=True, dynamic=False, options=options)
        try:
            program = compiler.aot_compile((args, {}))
            texts = {source.module: _digest(source.module) for source in program.source_info().inlined_sources}
            kept = json.dumps([texts, _checks(program)]).encode()
        except Exception:  # an energy that cannot be compiled at all says so when the plain program is called
            return self._plain
        with suppress(OSError, UserError):  # a full disk, one that cannot be written, or no home
            folder = private_folder("programs")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = folder / f"{name}-{os.getpid()}"  # then renamed, so that no other process loads half of it
            program.save_compiled_function(str(new))
            new.write_bytes(kept + b"\n" + new.read_bytes())
            new.replace(folder / name)
            for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
                path.unlink(missing_ok=True)
        program.disable_guard_check()  # `for_one_run` asks for it
        return program


def _loaded(name: str, function: Callable[..., Any]) -> Any:
    """The program of this name on the disk; None if there is none, or none that counts."""
    try:
        with (private_folder("programs") / name).open("rb") as file:
            if not all(map(is_private, (private_folder("programs").lstat(), os.fstat(file.fileno())))):
                return None
            (texts, checks), content = json.loads(file.readline()), io.BytesIO(file.read())
        if any(_digest(module) != text for module, text in texts.items()):
            return None
        program: Any = torch.compiler.load_compiled_function(content, f_globals=function.__globals__)
        if _checks(program) != checks:
            return None
    except Exception:  # a damaged file, or one of another release of torch
        return None
    program.disable_guard_check()
    return program


def _checks(program: Any) -> str:
    """A digest of what a program checks and of the numbers that it must find, without addresses of types.

    A loaded program names fewer tensors that must not share memory.
    """
    parts: list[str] = program._artifacts.guard_manager.code_parts
    told = [ADDRESS.sub("", part) for part in parts if not part.startswith("check_no_aliasing")]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def name_of(function: Callable[..., Any], options: dict[str, Any], args: tuple[Any, ...]) -> str | None:
    """A name that says all that a program depends on but values of tensors; None if it cannot be kept.

    That is the function, the arguments with all their attributes, the texts of the modules that define them, and the
    settings of torch.
    """
    if not TRIED or not hasattr(os, "getuid") or torch.compiler.config.force_disable_caches:
        return None
    buffer = io.BytesIO()
    shape = _Shape(buffer, protocol=5)
    try:
        shape.dump((function, options, args))
        texts = [_digest(module) for module in sorted(shape.modules)]
    except Exception:  # whatever the attributes of an energy raise: no file may hold them
        return None
    return hashlib.sha256(repr((_system(), texts)).encode() + buffer.getvalue()).hexdigest()


class _Shape(pickle.Pickler):
    """Pickles objects with the kinds of their tensors in place of the values."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.modules: set[str] = set()  # that define classes and functions which were written

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, Tensor):
            return None
        if obj.device.type != "cpu":
            raise ValueError("programs for a GPU are not kept, as none has tried it")
        kind = type(obj).__name__, obj.shape, obj.stride(), obj.dtype
        return repr((*kind, obj.requires_grad, obj.is_inference()))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType):
            self.modules.add(obj.__module__)
        return NotImplemented


@functools.cache
def _text(name: str) -> str:
    """The text of a module as this process has loaded it.

    Raises:
        ValueError: it has none, as a notebook, or it has changed since.
    """
    module: ModuleType = sys.modules.get(name) or importlib.import_module(name)
    if name in sys.builtin_module_names:
        return ""
    path = Path(inspect.getfile(module))
    if path.stat().st_mtime >= STARTED:
        raise ValueError(f"{path} has changed")
    return inspect.getsource(module) if path.suffix == ".py" else ""


@functools.cache
def _digest(name: str) -> str:
    return hashlib.sha256(_text(name).encode()).hexdigest()


def _system() -> tuple[Any, ...]:
    """What programs depend on besides function and arguments: versions, the processor, settings of torch."""
    return (
        ebmlab.__version__,
        torch.__version__,
        sys.version,
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def _not_by_address(checks: Sequence[Any]) -> list[bool]:
    """Which of torch's checks hold in other processes, too: those that compare no memory addresses.

    The globals of a named tuple's constructor are a scope without a name of a module, which torch calls by its address.
    """
    return [
        BY_ADDRESS.isdisjoint((check.guard_type, *check.derived_guard_types))
        and not ("___unnamed_scope" in check.name and check.guard_type in ("TYPE_MATCH", "BUILTIN_MATCH"))
        for check in checks
    ]
