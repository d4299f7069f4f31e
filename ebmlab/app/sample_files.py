"""Reads files of samples for a trained model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.columns import check_columns
from ebmlab.data.preprocessing import LEVELS, Preprocessing
from ebmlab.errors import WHY, UserError, explained, shown
from ebmlab.reading.number_files import SUFFIXES as NUMBERS
from ebmlab.reading.number_files import read_numbers, require_finite
from ebmlab.reading.pictures import DARK, files_in, losses, read_picture, too_dark
from ebmlab.reading.pictures import SUFFIXES as PICTURES
from ebmlab.reading.tables import read_head
from ebmlab.sequences.alignment_file import read_rows
from ebmlab.trained.at_sites import Sites, at_sites


@dataclass(frozen=True)
class Samples:
    """Samples of a file or folder.

    Attributes:
        x: `(N, *shape)`, in the units of the training data.
        files: the file that each comes from.
        names: of sequences of an alignment; () of other samples.
        numbers: of the samples in their file, from 0.
    """

    x: Tensor
    files: Sequence[str]
    names: Sequence[str] = ()
    numbers: Sequence[int] = ()


def read_samples(
    name: str,
    preprocessing: Preprocessing,
    labels: str | None,
    field: str,
    *,
    holes: bool = False,
    drop: bool = False,
) -> Samples:
    """The samples of a file or folder.

    Args:
        name: a file of numbers, a picture, or a folder of pictures, of which hidden files and folders are left out; or
            an alignment, for a model of sequences.
        preprocessing: of the training data. Pictures are scaled and cut to its shape, and white becomes its 1.
        labels: column or array that is left out.
        field: name of the samples among several arrays.
        holes: read empty cells of a .csv file as NaN, and letters of a sequence that are not in the alphabet.
        drop: leave out sequences with such letters, and say how many.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    path = Path(name).expanduser()
    kind = path.suffix.lower()
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.is_dir() or kind in PICTURES:
        return _pictures(path, preprocessing)
    if kind in NUMBERS:
        return _numbers(path, preprocessing, labels, field, holes)
    if preprocessing.letters:
        return _sequences(path, preprocessing, holes, drop)
    if preprocessing.num_classes:
        mend = "sequences need a model whose letters are known, give numbers of values"
    else:
        mend = "call a table of text .csv, and save other numbers as .npy"
    raise UserError(f"{path} is none of {', '.join((*NUMBERS, *PICTURES))}: {mend}")


def _numbers(path: Path, form: Preprocessing, labels: str | None, field: str, holes: bool) -> Samples:
    x, _ = read_numbers(path, labels, field, form.columns, holes)
    if not holes:
        require_finite(x, path, labels)
    if path.suffix.lower() == ".csv":
        check_columns(read_head(path, labels).names, form.columns, str(path))
        bits = len(form.shape) == 1 and form.float_scale == 1  # in a table a 2 is a mistake, no level
        if not bits and bool((x == x.round()).all()) and 1 < float(x.max()) < 2**63:
            x = x.long()  # text does not say whether 3 is an integer; levels of pixels are
    return Samples(x, [str(path)] * len(x), numbers=range(len(x)))


def _pictures(path: Path, form: Preprocessing) -> Samples:
    """A picture, or those of a folder, scaled and cut to the shape of the model's samples."""
    paths = [path]
    if path.is_dir():
        paths = [file for file in files_in(path) if file.suffix.lower() in PICTURES]
        if not paths:
            raise UserError(f"{path} holds no pictures ({', '.join(PICTURES)}); name files of numbers one by one")
    if len(form.shape) != 3 or form.shape[0] not in (1, 3):
        raise UserError(
            f"{path} is a picture, but the model's samples have shape {form.shape}: give it files of numbers"
        )
    if not form.unit:
        raise UserError(
            f"{path} is a picture, but the model was trained on numbers of which none means black or white: give it "
            "files of numbers"
        )
    pictures = [read_picture(file, form.shape) for file in paths]
    pixels = torch.stack([picture.pixels for picture in pictures])
    if any(picture.deep for picture in pictures) and (high := float(pixels.max())) < DARK:
        raise UserError(f"{path}: {too_dark(high)}")
    if lost := sum(map(losses, pictures), Counter()):
        print(shown(f"{path}: {'; '.join(f'{n} {what}' for what, n in lost.items())}"), file=sys.stderr)
    found = pixels.float() * form.float_scale / LEVELS
    return Samples(found, [str(file) for file in paths], numbers=[0] * len(paths))


def _sequences(path: Path, form: Preprocessing, holes: bool, drop: bool) -> Samples:
    """The values `(N, d)` of the sequences of an alignment at the sites of the model."""
    rows, sites, found = read_rows(path, "keep"), Sites(form), []
    for name, text in zip(rows.names, rows.texts, strict=True):
        with explained(f"{path}, {name[:60]}: {WHY}", UserError):
            found.append(sites.placed(text)[0])
    x = sites.values(found)
    strange = (x < 0).any(1)
    kept = torch.arange(len(x))
    if holes and strange.any():
        x = x.double().masked_fill(x < 0, torch.nan)
    elif strange.any():
        first = int(strange.int().argmax())
        if not drop or strange.all():
            with explained(f"{path}, {rows.names[first][:60]}: {WHY}", UserError):
                at_sites(rows.texts[first], form)
        why = f"letters that are not in {form.letters}"
        print(shown(f"{path}: left out {int(strange.sum()):,} of {len(x):,} sequences, with {why}"), file=sys.stderr)
        kept = kept[~strange]
    numbers = kept.tolist()
    return Samples(x[kept], [str(path)] * len(kept), [rows.names[i] for i in numbers], numbers)
