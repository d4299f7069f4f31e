"""The exception for mistakes that the user can correct, and texts that a terminal may show."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

WHY = "{why}"  # in a line for `explained`: stands for what the error says
UNFIT = (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError)  # what parsers of files raise

# what a terminal obeys instead of showing it: control characters, and those that turn the direction of writing
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(text: str) -> str:
    r"""A text that may come from a stranger, with signs such as `\x1b` for the characters that a terminal obeys.

    Line feeds and tabs stay.

    Example:
        >>> print(shown("red: " + chr(27) + "[31m"))
        red: \x1b[31m
    """
    return _OBEYED.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def few(names: Sequence[str], most: int = 3) -> str:
    """The first names, three by default, and how many more there are.

    Example:
        >>> few(["a", "b"]), few(list("abcde"))
        ('a, b', 'a, b, c and 2 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def how_many(number: int, thing: str) -> str:
    """A number of things, of which one is singular.

    Example:
        >>> how_many(1, "sample"), how_many(2000, "sample")
        ('1 sample', '2,000 samples')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def told(value: object) -> str:
    """A value of any type, as one short line for a `UserError` to quote.

    Example:
        >>> told("a"), told(None), told(list(range(100)))
        ("'a'", 'None', '[0, 1, 2, 3, 4, 5, ...]')
    """
    return " ".join(reprlib.repr(value).split())


class UserError(Exception):
    """Bad input: a config, data set, checkpoint, shape or machine that does not fit.

    The message is one line: what is wrong, where, and what would be right. The command line prints it
    without a traceback and exits with code 2.

    Args:
        message: as above. It speaks of settings, which Python, configs and the command line share.
        option: the setting that mends it, if the command line has one of that name; it adds the flag.

    Example:
        >>> raise UserError("step_size is -1, but must be positive")
        Traceback (most recent call last):
        ebmlab.errors.UserError: step_size is -1, but must be positive
    """

    def __init__(self, message: object = "", option: str = "") -> None:
        super().__init__(shown(str(message)))
        self.option = option


def one_line(error: Exception) -> str:
    """The message of any error, as one line of at most 200 characters for a `UserError` to quote.

    The type's name stands in for an empty message. Of the system's errors the number and the file are left out: the
    file is named already.

    Example:
        >>> one_line(ValueError("a   long message")), one_line(MemoryError())
        ('a long message', 'MemoryError')
        >>> one_line(FileNotFoundError(2, "No such file or directory", "x.csv"))
        'no such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror[:1].lower()}{error.strerror[1:]}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return " ".join(str(error).split())[:200] or type(error).__name__


@contextmanager
def explained(line: object, kinds: type[Exception] | tuple[type[Exception], ...]) -> Iterator[None]:
    """Turns errors of these kinds in the body into a `UserError` with a line of its own.

    Args:
        line: what the user reads, a text or a `UserError`; `WHY` in it stands for what the error says, in one line. The
            option that mends a `UserError` stays.
        kinds: what is caught, as behind `except`.

    Example:
        >>> with explained(f"x.csv is no table ({WHY})", ValueError):
        ...     int("x")
        Traceback (most recent call last):
        ebmlab.errors.UserError: x.csv is no table (invalid literal for int() with base 10: 'x')
    """
    try:
        yield
    except kinds as error:
        why = str(error) if isinstance(error, UserError) else one_line(error)
        option = next((e.option for e in (line, error) if isinstance(e, UserError) and e.option), "")
        raise UserError(str(line).replace(WHY, why), option=option) from error
