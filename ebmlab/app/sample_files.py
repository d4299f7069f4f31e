"""Reads files of samples for a trained model."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.preprocessing import LEVELS, Preprocessing
from ebmlab.errors import WHY, UserError, explained, shown
from ebmlab.reading.number_files import SUFFIXES as NUMBERS
from ebmlab.reading.number_files import read_numbers, require_finite
from ebmlab.reading.pictures import DARK, files_in, losses, read_picture, too_dark
from ebmlab.reading.pictures import SUFFIXES as PICTURES
from ebmlab.reading.tables import check_columns, read_head
from ebmlab.sequences.alignment_file import read_rows
from ebmlab.trained.at_sites import at_sites


def read_samples(
    name: str, preprocessing: Preprocessing, labels: str | None, field: str, holes: bool = False
) -> tuple[Tensor, list[str]]:
    """The samples of a file or folder, and the file that each comes from.

    Args:
        name: a file of numbers, a picture, or a folder of pictures, of which hidden files and folders are left out; or
            an alignment, for a model of sequences.
        preprocessing: of the training data. Pictures are scaled and cut to its shape, and white becomes its 1.
        labels: column or array that is left out.
        field: name of the samples among several arrays.
        holes: read empty cells of a .csv file as NaN.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.is_dir():
        paths = [file for file in files_in(path) if file.suffix.lower() in PICTURES]
        if not paths:
            raise UserError(f"{path} holds no pictures ({', '.join(PICTURES)}); name files of numbers one by one")
    elif path.suffix.lower() in PICTURES:
        paths = [path]
    elif (kind := path.suffix.lower()) in NUMBERS:
        x, _ = read_numbers(path, labels, field, preprocessing.columns, holes)
        if not holes:
            require_finite(x, path, labels)
        if kind == ".csv":
            check_columns(read_head(path, labels).names, preprocessing.columns, str(path))
        bits = len(preprocessing.shape) == 1 and preprocessing.float_scale == 1  # in a table a 2 is a mistake, no level
        if kind == ".csv" and not bits and bool((x == x.round()).all()) and 1 < float(x.max()) < 2**63:
            x = x.long()  # text does not say whether 3 is an integer; levels of pixels are
        return x, [str(path)] * len(x)
    elif preprocessing.letters:
        x = _sequences(path, preprocessing)
        return x, [str(path)] * len(x)
    else:
        raise UserError(f"{path} is none of {', '.join((*NUMBERS, *PICTURES))}")
    shape = preprocessing.shape
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise UserError(f"{path} is a picture, but the model's samples have shape {shape}: give it files of numbers")
    if not preprocessing.unit:
        raise UserError(
            f"{path} is a picture, but the model was trained on numbers of which none means black or white: give it "
            "files of numbers"
        )
    pictures = [read_picture(file, shape) for file in paths]
    pixels = torch.stack([picture.pixels for picture in pictures])
    if any(picture.deep for picture in pictures) and (high := float(pixels.max())) < DARK:
        raise UserError(f"{path}: {too_dark(high)}")
    if lost := sum(map(losses, pictures), Counter()):
        print(shown(f"{path}: {'; '.join(f'{n} {what}' for what, n in lost.items())}"), file=sys.stderr)
    return pixels.float() * preprocessing.float_scale / LEVELS, [str(file) for file in paths]


def _sequences(path: Path, form: Preprocessing) -> Tensor:
    """The values `(N, d)` of the sequences of an alignment at the sites of the model."""
    rows, found = read_rows(path, "keep"), []
    for name, text in zip(rows.names, rows.texts, strict=True):
        with explained(f"{path}, {name[:60]}: {WHY}", UserError):
            found.append(at_sites(text, form)[0])
    return torch.stack(found)
