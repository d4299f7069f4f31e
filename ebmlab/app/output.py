"""Standard output and standard error that outlast their reader: `list | head`, a closed terminal, a full disk."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from ebmlab.errors import UserError

_NO_READER = (errno.EPIPE, errno.EIO)  # a pipe was closed, a terminal is gone: nobody misses the rest


class _Lasting(io.FileIO):
    """Writes to a file descriptor. After a write has failed, all further output to it is dropped."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            _to_nowhere(self.fileno())
            return len(data)


def outlast_readers() -> None:
    r"""Replaces `sys.stdout` and `sys.stderr` by streams whose writes never raise.

    Characters that the encoding lacks are written as escapes, such as `\udcff` of a file's name.
    """
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        before = getattr(sys, name)
        if before is None:  # it was closed by `>&-`, and the next file that is opened would take its place
            _to_nowhere(descriptor)
        stream = io.TextIOWrapper(
            io.BufferedWriter(_Lasting(descriptor, "w", closefd=False)),
            encoding=getattr(before, "encoding", "utf-8"),
            errors="backslashreplace",
            line_buffering=getattr(before, "line_buffering", True),
            write_through=getattr(before, "write_through", False),
        )
        setattr(sys, name, stream)


def check_output() -> None:
    """Raises `UserError` if a part of what was printed is lost, unless its reader did not want it."""
    sys.stdout.flush()
    failure = getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "failure", None)
    if failure is not None and failure.errno not in _NO_READER:
        raise UserError(f"what was printed is lost in part: {failure.strerror}")


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
