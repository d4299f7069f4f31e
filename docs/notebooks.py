"""The tutorials as notebooks: `make notebooks` writes notebooks/*.ipynb from the pages in docs/tutorials.

A page becomes cells in its order. Text stays text; Python becomes code; a block that begins with a file
name (`# mine.py`, `# mine.yaml`) is written to that file; commands run in a shell. The tests run the same cells.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml))\b")


@dataclass(frozen=True)
class Cell:
    """A part of a page.

    Args:
        kind: `text`, `python`, `file` (a file to be written) or `shell`.
        source: the text, the code, the file's content or the commands.
        name: of the file.
    """

    kind: str
    source: str
    name: str = ""


def cells(page: str) -> list[Cell]:
    r"""The cells of a page of Markdown; blocks in other languages (`text`, say, for what a command prints) are text.

    Example:
        >>> [cell.kind for cell in cells("Add:\n\n```python\n1 + 1\n```\n")]
        ['text', 'python']
    """
    found: list[Cell] = []
    end = 0
    for block in FENCE.finditer(page):
        cell = _cell(block[1], block[2])
        if cell.kind != "text":
            found += [Cell("text", page[end : block.start()].strip()), cell]
            end = block.end()
    found.append(Cell("text", page[end:].strip()))
    return [cell for cell in found if cell.source]


def _cell(language: str, block: str) -> Cell:
    file = FILE.match(block)
    if file and language in ("python", "yaml"):
        return Cell("file", block, file[1])
    return Cell({"python": "python", "bash": "shell", "": "shell"}.get(language, "text"), block)


def commands(source: str) -> list[str]:
    r"""The commands of a block, each in one line; comments are left out.

    Example:
        >>> commands("ls  # all\n# and then\npwd")
        ['ls', 'pwd']
    """
    lines = [re.sub(r"(^|\s+)#.*", "", line) for line in source.replace("\\\n", " ").splitlines()]
    return [re.sub(r"\s+", " ", line).strip() for line in lines if line]


def notebook(page: str) -> dict[str, Any]:
    """The page in Jupyter's format, version 4.5.

    Example:
        >>> notebook("# A page")["cells"][0]["cell_type"]
        'markdown'
    """
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [_jupyter(i, cell) for i, cell in enumerate(cells(page))],
    }


def _jupyter(i: int, cell: Cell) -> dict[str, Any]:
    if cell.kind == "text":
        return {"id": f"cell-{i}", "cell_type": "markdown", "metadata": {}, "source": cell.source}
    source = {
        "python": cell.source.strip(),
        "file": f"%%writefile {cell.name}\n{cell.source}",
        "shell": "\n".join(f"!{command}" for command in commands(cell.source)),
    }[cell.kind]
    return {
        "id": f"cell-{i}",
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def main(folder: Path = DOCS.parent / "notebooks") -> None:
    """Writes a notebook for each tutorial."""
    folder.mkdir(exist_ok=True)
    pages = [*sorted(DOCS.glob("tutorials/*.md")), DOCS / "own_data.md", DOCS / "trained_model.md"]
    for page in pages:
        if page.stem != "index":
            (folder / f"{page.stem}.ipynb").write_text(json.dumps(notebook(page.read_text()), indent=1))
            print(folder / f"{page.stem}.ipynb")


if __name__ == "__main__":
    main()
