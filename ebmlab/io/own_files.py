"""What this user's ebmlab has written, by its sha256: it is the user's own, wherever it lies.

A file beside a checkpoint may come from a stranger. What ebmlab writes for the user it therefore remembers, in a folder
of the user's cache that nobody else can write. A text that was changed afterwards, or on a machine that does not share
the cache, is not known; nothing but convenience depends on it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from ebmlab.errors import UserError
from ebmlab.io.folders import cache_folder


def remember(text: str) -> bool:
    """Remembers a text that ebmlab writes for the user.

    Returns:
        Whether it is remembered; it is no error if the cache cannot be written.
    """
    with suppress(OSError, UserError):  # a full disk, or no home folder
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        (_folder() / _name(text)).touch(mode=0o600)
    return is_own(text)


def is_own(text: str) -> bool:
    """Whether ebmlab has written exactly this text for this user."""
    try:
        status = _folder().stat()
        alone = status.st_uid == os.getuid() and not status.st_mode & 0o022
        return alone and (_folder() / _name(text)).is_file()
    except (OSError, UserError):
        return False


def _folder() -> Path:
    return cache_folder() / f"written-by-{os.getuid()}"


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
