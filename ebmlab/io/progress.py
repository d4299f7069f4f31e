"""How far a long loop is, with a terminal and without."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from tqdm import tqdm

T = TypeVar("T")
PATIENCE = 5.0  # seconds before anything is said


def pause(spent: float) -> float:
    """Seconds from one line to the next: a tenth of the time so far, from 10 seconds to 10 minutes."""
    return min(max(spent / 10, 10.0), 600.0)


class Meter:
    """A bar on a terminal; else a line now and then, such as "AIS, temperature 12,000 of 100,000, 6 min left".

    Args:
        title: what takes long.
        unit: one of what is counted.
        total: how many there are.
        first: how many are done already.
        shown: whether this process may say anything.
    """

    def __init__(self, title: str, unit: str, total: int, *, first: int = 0, shown: bool = True) -> None:
        self._title, self._unit, self._total, self._first, self._shown = title, unit, total, first, shown
        self._begin = time.monotonic()
        self._next = self._begin + PATIENCE
        self._bar: Any = None
        if shown and sys.stderr.isatty():
            self._bar = tqdm(desc=title, total=total, initial=first, unit=unit, delay=2, leave=False)

    def passed(self, count: int) -> None:
        """Takes note that `count` are done."""
        if self._bar is not None:
            self._bar.update(count - self._bar.n)
        elif self._shown and count > self._first and (now := time.monotonic()) >= self._next:
            self._next = now + pause(spent := now - self._begin)
            left = spent * (self._total - count) / (count - self._first)
            line = f"{self._title}, {self._unit} {count:,} of {self._total:,}, {in_words(left)} left"
            print(line, file=sys.stderr, flush=True)

    def along(self, items: Iterable[T]) -> Generator[T, None, None]:
        """The items, each of which is done when the next one is asked for."""
        with self:
            for count, item in enumerate(items, self._first + 1):
                yield item
                self.passed(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def in_words(seconds: float) -> str:
    """A length of time in its unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
