"""Signals that end a run at once, in any phase. Its files are complete, and it can continue from its checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ebmlab.numerics.launch import launched_rank

PATIENCE = 10.0  # seconds that finalising may take


class Stopped(BaseException):
    """SIGTERM or Ctrl-C has arrived. This is a `BaseException`, so that no `except Exception` catches it.

    Args:
        signum: the signal; `code` is the exit code that shells give it, 143 and 130.
    """

    def __init__(self, signum: int) -> None:
        self.code = 128 + signum
        self.name = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
        super().__init__(f"stopped by {self.name}")


@contextmanager
def stoppable(how_to_go_on: Callable[[str], str]) -> Iterator[None]:
    """Raises `Stopped` in the body when a signal arrives. Later signals are ignored.

    A process that has not ended `PATIENCE` seconds later is killed, and says so if the body has not ended.

    Args:
        how_to_go_on: as in `failures.in_one_line`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}

    came: list[int] = []
    ended = threading.Event()

    def leave(stopped: Stopped) -> None:
        if not ended.is_set() and not launched_rank():
            os.write(2, f"{stopped}: {how_to_go_on('')}\n".encode())
        os._exit(stopped.code)

    def stop(signum: int, frame: FrameType | None) -> None:
        for s in before:
            signal.signal(s, signal.SIG_IGN)
        timer = threading.Timer(PATIENCE, leave, [Stopped(signum)])
        timer.daemon = True
        timer.start()
        came.append(signum)
        raise Stopped(signum)

    for s in before:
        signal.signal(s, stop)
    try:
        yield
    finally:
        ended.set()
        if not came:  # after a signal the process only has to end
            for s, handler in before.items():
                signal.signal(s, handler)
