"""Reads files of samples for a trained model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.preprocessing import LEVELS, Preprocessing
from ebmlab.datamodules.number_files import SUFFIXES as NUMBERS
from ebmlab.datamodules.number_files import read_numbers
from ebmlab.datamodules.pictures import SUFFIXES as PICTURES
from ebmlab.datamodules.pictures import read_picture
from ebmlab.datamodules.tables import check_columns, read_head
from ebmlab.errors import UserError


def read_samples(name: str, preprocessing: Preprocessing, labels: str | None, field: str) -> tuple[Tensor, list[str]]:
    """The samples of a file or folder, and the file that each comes from.

    Args:
        name: a file of numbers, a picture, or a folder of pictures.
        preprocessing: of the training data. Pictures are scaled and cut to its shape, and white becomes its 1.
        labels: column or array that is left out.
        field: name of the samples among several arrays.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.is_dir():
        paths = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES and file.is_file())
        if not paths:
            raise UserError(f"{path} holds no pictures ({', '.join(PICTURES)}); name files of numbers one by one")
    elif path.suffix.lower() in PICTURES:
        paths = [path]
    elif (kind := path.suffix.lower()) in NUMBERS:
        x, _ = read_numbers(path, labels, field, preprocessing.columns)
        if kind == ".csv":
            check_columns(read_head(path, labels).names, preprocessing.columns, str(path))
        if kind == ".csv" and bool((x == x.round()).all()) and 1 < float(x.max()) < 2**63:
            x = x.long()  # text does not say whether 3 is an integer; levels of pixels are
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
    pixels = torch.stack([read_picture(file, shape).pixels for file in paths])
    return pixels.float() * preprocessing.float_scale / LEVELS, [str(file) for file in paths]
