"""Turns every failure into one line and an exit code. Nothing heavy is imported, so that a broken torch is one, too."""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ebmlab.app import distributed_errors
from ebmlab.app.config_errors import parser_message
from ebmlab.app.output import check_output
from ebmlab.app.signals import Stopped
from ebmlab.errors import UserError, one_line, shown
from ebmlab.numerics.launch import launched_rank

_OURS = str(Path(__file__).parents[1])
_PACKAGES = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
_PYTHON = Path(sysconfig.get_path("stdlib"))
_OTHERS = (str(_PYTHON), *map(str, _PACKAGES), "<")


@contextmanager
def in_one_line(how_to_go_on: Callable[[str], str], debug: bool = False) -> Iterator[None]:
    """Ends the process with a line on stderr if the body fails: exit code 2 for errors, 128 and more for signals.

    Args:
        how_to_go_on: gives the advice that is printed after a signal, from what the notes of the error say was kept.
        debug: print tracebacks too.
    """
    try:
        yield
        check_output()
    except (Exception, Stopped, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        stopped = next((cause for cause in _chain(error) if isinstance(cause, Stopped | KeyboardInterrupt)), None)
        if stopped is None:
            line, code = distributed_errors.speaks(f"error: {describe(error)}"), 2
        else:
            kept = "; ".join(note for cause in _chain(error) for note in getattr(cause, "__notes__", ()))
            line, code = f"{str(stopped) or 'stopped by Ctrl-C'}: {how_to_go_on(kept)}", getattr(stopped, "code", 130)
            line = None if launched_rank() else line
        if line is not None:
            print(shown(" ".join(line.split())), file=sys.stderr, flush=True)
            distributed_errors.has_spoken()
        sys.exit(code)


@contextmanager
def loading() -> Iterator[None]:
    """The body imports modules. They leave no garbage and stay loaded: a search for garbage would find nothing in them.

    To search through them takes a fifth of the time. So nothing is searched meanwhile, nor they ever (`gc.freeze`).

    Raises:
        UserError: a package is missing or broken, or a file of the user's has its name.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except Exception as error:  # a broken package raises any type
        if is_memory(error):
            raise
        raise UserError(_reason(error)) from error
    finally:
        if collects:
            gc.freeze()
            gc.enable()


def describe(error: BaseException) -> str:
    """An error in one line: the message of a `UserError` if there is one in the chain of causes."""
    chain = list(_chain(error))
    for cause in chain:
        if found := _in_worker(str(cause)):
            return found
        if isinstance(cause, UserError):
            return f"{cause} (--{cause.option})" if cause.option else str(cause)
    if _is(error, "MisconfigurationException"):
        return parser_message(str(error))
    if any(map(is_memory, chain)):
        return f"out of memory ({parser_message(str(error))}): use a smaller model or batch"
    if isinstance(error, FileNotFoundError) and not _working_directory_exists():
        return "the folder where the command was given has been deleted: cd to another one"
    if isinstance(error, OSError):  # after a failed write, finalising fails too: report the first failure
        errors = [cause for cause in chain if isinstance(cause, OSError)]
        return _file_error(_first([cause for cause in errors if cause.filename] or errors))
    if "Could not determine home directory" in str(error):
        return "a path begins with ~, but that user has no home folder: give the whole path"
    if own := _own_line(chain):
        return f"{own} (--debug shows the traceback)"
    if isinstance(error, OverflowError):
        return f"a number is too large ({one_line(error)}): whole numbers must be below 2**63"
    if isinstance(error, ImportError):
        return parser_message(str(error))
    if isinstance(error, ValueError) or _is(error, "OmegaConfBaseException") or _is(error, "ArgumentError"):
        return parser_message(str(error)) or type(error).__name__
    return f"{_last_line(error)}: {type(error).__name__}: {parser_message(str(error))} (--debug shows the traceback)"


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _is(error: BaseException, name: str) -> bool:
    """Whether the class of that name, of a package that may not be imported, is among an error's classes."""
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _working_directory_exists() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _first(errors: list[OSError]) -> OSError:
    """The failure that came first; not a missing folder if the attempt to make its parents failed afterwards."""
    *later, first = errors
    while later and isinstance(first, FileNotFoundError) and not isinstance(later[-1], FileNotFoundError):
        first = later.pop()
    return first


def _file_error(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{what}" + (f" ({error.filename2})" if error.filename2 else "")


def is_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory, or no thread, left."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error)
    signs = ("can't allocate memory", "not enough memory", "bad_alloc", "start new thread", "failed to map segment")
    known = isinstance(error, RuntimeError | ImportError) and any(sign in text for sign in signs)
    return known or isinstance(error, MemoryError) or _is(error, "OutOfMemoryError")


def _in_worker(text: str) -> str | None:
    """The error in a DataLoader's worker, which the main process knows as text; None if it happened elsewhere."""
    if "in DataLoader worker process" not in text or "Original Traceback" not in text:
        return None
    frames = list(re.finditer(r'^ *File "([^"]+)", line (\d+).*$', text, re.MULTILINE))
    lines = text[frames[-1].end() :].splitlines() if frames else []
    error = " ".join(line for line in lines if not line.startswith(" "))
    kind = f"{UserError.__module__}.{UserError.__name__}: "
    if error.strip().startswith(kind):
        return error.strip().removeprefix(kind)
    own = [f"{file}, line {line}: " for file, line in map(re.Match.groups, frames) if is_own(file)]
    return f"{own[-1] if own else ''}{error.strip()} (--debug shows the traceback)"


def is_own(file: str) -> bool:
    """Whether a file is the user's, and no package's: an environment may also take packages from another one."""
    return not file.startswith((_OURS, *_OTHERS)) and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _own_line(chain: list[BaseException]) -> str | None:
    """File and line of the innermost call into the user's own code, and the error there; None if there is none."""
    for error in reversed(chain):
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if is_own(frame.filename):
                return f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: {parser_message(str(error))}"
    return None


def _last_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_OURS)] or frames
    frame = ours[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def _reason(error: Exception) -> str:
    """Which package cannot be imported: the innermost that is neither Python's nor ours."""
    said = one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the package {error.name.partition('.')[0]} is missing: install ebmlab again ({said})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        for folder in _PACKAGES:
            if path.is_relative_to(folder):
                return f"{path.relative_to(folder).parts[0]} cannot be loaded ({said}): install it again"
        if path.is_file() and not path.is_relative_to(_PYTHON) and not path.is_relative_to(_OURS):
            return f"{path} is loaded in place of a package of that name ({said}): rename it"
    return f"a package cannot be loaded ({said}): install ebmlab again"
