"""Samples from a trained model, written to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.app.condition import read_condition
from ebmlab.app.rows import fasta, rows_csv, write_values
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Data, Table
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.drawing.samples import picture
from ebmlab.errors import UserError
from ebmlab.io.outputs import check_writable, together
from ebmlab.io.progress import Meter
from ebmlab.samplers.draws import Draws
from ebmlab.trained import TrainedModel
from ebmlab.trained.numbers import placed

KINDS = (".npy", ".pt", ".csv", ".fasta")  # of a file that is named
NAMED = ".npy, .pt, .csv or .fasta"


def save_samples(
    learner: Draws,
    datamodule: Data,
    folder: Path,
    num_samples: int = 64,
    num_steps: int | None = None,
    denoise: bool | None = None,
    seed: int = 0,
    batch_size: int = 1000,
    output: str | None = None,
    condition: str | None = None,
) -> list[Path]:
    """Draws samples by new chains that start from noise, and writes them to `samples.pt` and `samples.png`.

    The picture is written only if the data can be drawn, such as images, points in the plane and graphs. Rows of tables
    whose columns have names are also written to `samples.csv`, and sequences to `samples.fasta`.

    Args:
        learner: the trained learner.
        datamodule: turns samples back into the units of the data, and shows them.
        folder: the run folder.
        num_samples: number of samples.
        num_steps: steps of each chain. Default: as in training.
        denoise: write E[v | h] of the last state in place of the state itself. Default: true for images if there are
            hidden units.
        seed: seed of the random numbers.
        batch_size: number of chains that run at the same time.
        output: a .npy, .pt, .csv or .fasta file (the picture gets the same name), or a folder for the files. Default:
            `samples/` in the run folder.
        condition: what is known of every sample, in the units of the data: `NUMBER=VALUE,...`. Coordinates go by the
            names of their columns, or by numbers from 0 in the flattened sample. Where names are numbers, as in an
            alignment, each number is a name. Chains of the conditional law draw the rest.

    Returns:
        The files. `samples.pt` holds a float tensor `(num_samples, *event_shape)` in the units of the data (images
        as pixels in [0, 1]; bits and spins unchanged).
    """
    if num_samples < 1 or batch_size < 1:
        raise UserError(f"num_samples and batch_size must be at least 1, got {num_samples} and {batch_size}")
    target, form = Path(output) if output else folder / "samples", datamodule.preprocessing
    is_file = target.suffix in KINDS and not target.is_dir()
    _check_target(target, is_file, learner, form)
    kinds = ("pt", "png", "csv", "fasta")
    files = [target, target.with_suffix(".png")] if is_file else [target / f"samples.{kind}" for kind in kinds]
    check_writable(files[0])
    if denoise is None and form is not None and len(form.shape) == 1:
        denoise = False  # a mean is a sharp picture, but no row of bits
    draws: Callable[[list[int]], Iterator[Tensor]]
    draws = partial(learner.draws, num_steps=num_steps, denoise=learner.shows_mean(denoise))
    to_raw: Callable[[Tensor], Tensor] = datamodule.to_raw
    if condition is not None:
        if denoise:
            raise UserError("denoise gives means of all units, so --condition cannot fix some: set it to false")
        draws, to_raw = _conditional(learner, datamodule, condition, num_steps)
    torch.manual_seed(seed)
    learner.eval()
    sizes = [min(batch_size, num_samples - first) for first in range(0, num_samples, batch_size)]
    states = torch.cat([drawn.cpu() for drawn in draws(sizes)])
    png = picture(shown := datamodule.show(states))
    raw = to_raw(states)
    rows = rows_csv(raw, form) if form and raw.dim() == 2 and (form.columns or isinstance(shown, Table)) else None
    letters = fasta(raw, form.letters) if form and form.letters else None
    made = zip(files[1:], (png, rows, letters), strict=False)
    contents = {path: content for path, content in made if content is not None}
    with together(files[0], *contents) as (first, *others):
        if is_file and (given := {".csv": rows, ".fasta": letters}.get(target.suffix)) is not None:
            first.write_bytes(given)
        else:
            write_values(raw, first, files[0].suffix)
        for path, content in zip(others, contents.values(), strict=True):
            path.write_bytes(content)
    return [files[0], *contents]


def data_for(learner: Draws, datamodule: object, checkpoint: dict[str, Any]) -> Data:
    """The datamodule, which must turn raw data into states as the checkpoint does.

    A plain datamodule is replaced by what the checkpoint knows of its data, so that nothing of it is read.
    """
    domain, saved = learner.energy.domain, checkpoint.get("preprocessing")
    preprocessing = Preprocessing.from_dict(saved) if saved else None
    if isinstance(datamodule, Data):
        if preprocessing is not None:
            datamodule.adopt(preprocessing)
        return datamodule
    data = PlainData(type(datamodule).__name__, {}, domain)
    data.preprocessing = preprocessing or Preprocessing(domain.event_shape)
    return data


def _check_target(target: Path, is_file: bool, learner: Draws, form: Preprocessing | None) -> None:
    """Raises `UserError` unless samples can be written there: into a folder, or into a file of a kind that fits."""
    if target.exists() and not (target.is_dir() or is_file):
        raise UserError(f"output is {target}, which is a file: name a folder, or a {NAMED} file")
    if not is_file and not target.exists() and re.fullmatch(r"\.[A-Za-z]{2,5}", target.suffix):
        raise UserError(f"output is {target}, but must be a {NAMED} file, or a folder")
    if target.suffix == ".csv" and is_file and len(learner.energy.domain.shape) > 1:
        raise UserError(f"output is {target}, but these samples are no rows of a table: name a .npy")
    if target.suffix == ".fasta" and is_file and not (form and form.letters):
        raise UserError(f"output is {target}, but these samples are no sequences: name a .npy")


def _conditional(
    learner: Draws, data: Data, condition: str, num_steps: int | None
) -> tuple[Callable[[list[int]], Iterator[Tensor]], Callable[[Tensor], Tensor]]:
    """What draws batches that fulfil a condition, and what turns states into raw data that hold its numbers exactly."""
    model = TrainedModel(learner, data.preprocessing or Preprocessing(learner.energy.domain.event_shape))
    event, mask = read_condition(condition, model.preprocessing)
    with placed(f"--condition {condition}"):
        (clamped,) = model.conditionals(event, mask)
    steps = learner.num_steps if num_steps is None else num_steps

    def draws(sizes: list[int]) -> Iterator[Tensor]:
        return (model.draw(clamped, n, num_steps=steps) for n in Meter("sampling", "batch", len(sizes)).along(sizes))

    return draws, lambda states: model.with_given(data.to_raw(states).unsqueeze(0), event, mask=mask)[0]
