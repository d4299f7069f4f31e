"""What the tutorials print and draw: `python -m docs.outputs tutorials/grbm.md` runs the page's Python and writes it.

What a block prints stands behind it, in a block with the title "prints". A picture NAME.png that a block saves becomes
docs/pictures/tutorials/PAGE_NAME.png, if the page shows that one. The tests run the same blocks and compare the words.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs.notebooks import DOCS, FENCE, FILE, cells

PRINTED = re.compile(r'\s*^```text title="prints"\n(.*?)^```$', re.M | re.S)


def outputs(page: str) -> list[str]:
    r"""What the page says that each of its Python blocks prints; "" of those that print nothing.

    Example:
        >>> outputs('```python\nprint(1)\n```\n\n```text title="prints"\n1\n```\n')
        ['1\n']
    """
    found = [PRINTED.match(page, block.end()) for block in _blocks(page)]
    return [printed[1] if printed else "" for printed in found]


def with_outputs(page: str, printed: Sequence[str]) -> str:
    r"""The page with these outputs in place of its own.

    Example:
        >>> with_outputs("```python\nprint(1)\n```\n", ["1\n"])
        '```python\nprint(1)\n```\n\n```text title="prints"\n1\n```\n'
    """
    for block, text in reversed(list(zip(_blocks(page), printed, strict=True))):
        old = PRINTED.match(page, block.end())
        new = f'\n\n```text title="prints"\n{text}```' if text else ""
        page = page[: block.end()] + new + page[old.end() if old else block.end() :]
    return page


def printed_by(source: str, names: dict[str, Any]) -> str:
    r"""What a block prints by itself; progress bars and summaries of the trainer are no part of it.

    Example:
        >>> printed_by("print(x + 1)", {"x": 1})
        '2\n'
    """
    printed = io.StringIO()
    names["print"] = functools.partial(print, file=printed)
    exec(source, names)
    return printed.getvalue()


def words(text: str) -> str:
    """The text without its numbers, which differ in digits between machines.

    Example:
        >>> words("ESS   12.5, error -1e-3")
        'ESS #, error #'
    """
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?(?<![.,])|\bnan\b", "#", text)).strip()


def _blocks(page: str) -> list[re.Match[str]]:
    return [block for block in FENCE.finditer(page) if block[1] == "python" and not FILE.match(block[2])]


def run(path: Path) -> None:
    """Runs the Python of a page in an empty folder, and writes what it prints and draws."""
    import torch

    torch.manual_seed(0)
    text, names, printed = path.read_text(), {"__name__": "page"}, list[str]()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        sys.path.insert(0, folder)
        os.environ["EBMLAB_CACHE"] = folder
        for cell in cells(text):
            if cell.kind == "file":
                Path(cell.name).write_text(cell.source)
            elif cell.kind == "python":
                printed.append(printed_by(cell.source, names))
        for picture in Path().glob("*.png"):
            target = DOCS / "pictures" / "tutorials" / f"{path.stem}_{picture.name}"
            if f"pictures/tutorials/{target.name}" in text:
                target.parent.mkdir(exist_ok=True)
                shutil.copy(picture, target)
    path.write_text(with_outputs(text, printed))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(DOCS / name)
