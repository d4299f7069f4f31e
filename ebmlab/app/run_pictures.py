"""The pictures in a run's folder, by what they show and by step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ebmlab.drawing.captions import SIGNATURE, texts_in

_NAME = re.compile(r"(.+)_step(\d+)\.png")
_FOLDERS = {"": "images", "validate ": "validate/images", "test ": "test/images"}


@dataclass(frozen=True)
class Picture:
    """A picture of a run.

    Attributes:
        step: after how many optimizer steps it was made.
        caption: what it says of itself.
        png: the file's bytes.
    """

    step: int
    caption: str
    png: bytes


def pictures_of(folder: Path, at_most: int) -> dict[str, list[Picture]]:
    """The pictures of a run by title, in the order of the steps; files that are not PNG files are left out.

    Args:
        folder: of the run.
        at_most: of each title; if there are more, as many with even distances between them, the first and the last
            included.
    """
    files: dict[tuple[str, str], dict[int, Path]] = {}
    for prefix, place in _FOLDERS.items():
        for path in sorted((folder / place).glob("*.png")):
            if found := _NAME.fullmatch(path.name):
                files.setdefault((prefix, found[1]), {})[int(found[2])] = path
    shown: dict[str, list[Picture]] = {}
    for (prefix, name), paths in files.items():
        for step in _spread(sorted(paths), at_most):
            png = paths[step].read_bytes()
            if png.startswith(SIGNATURE):
                texts = texts_in(png)
                caption = texts.get("Description") or f"step {step}"
                shown.setdefault(prefix + (texts.get("Title") or name), []).append(Picture(step, caption, png))
    return shown


def _spread(steps: list[int], at_most: int) -> list[int]:
    if len(steps) <= at_most:
        return steps
    places = {round(i * (len(steps) - 1) / max(at_most - 1, 1)) for i in range(at_most)}
    return [steps[i] for i in sorted(places)]
