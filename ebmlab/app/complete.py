"""`python -m ebmlab complete`: the unknown part of samples, drawn given the known part."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab import samplers
from ebmlab.app.rows import fasta, rows_csv, write_values
from ebmlab.app.sample_files import read_samples
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Images, Table
from ebmlab.data.numbers import as_numbers
from ebmlab.drawing.figures import figure_png, panels
from ebmlab.drawing.table import draw_table
from ebmlab.drawing.tiles import tile
from ebmlab.errors import WHY, UserError, explained, few, shown
from ebmlab.io.outputs import together
from ebmlab.io.progress import Meter
from ebmlab.reading.number_files import read_numpy
from ebmlab.samplers import Sampler
from ebmlab.trained import TrainedModel
from ebmlab.trained.numbers import as_mask, placed

HALVES = ("top", "bottom", "left", "right")


def complete(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
    """Writes completions of the samples of files, and where they are images or rows a picture; returns the files."""
    if options.first < 1:
        raise UserError(f"--first is {options.first}, but must be at least 1")
    form = model.preprocessing
    mask = None if options.given is None else given_part(options.given, model.shape, form.columns)
    if output.suffix == ".csv" and len(model.shape) > 1:
        raise UserError(f"--output is {output}, but samples of shape {model.shape} are no rows of a table: name a .npy")
    if output.suffix == ".fasta" and not form.letters:
        raise UserError(f"--output is {output}, but the model's samples are no sequences: name a .npy")
    sampler = None if options.sampler is None else _sampler(options.sampler)
    how = {"num_samples": options.num_samples, "num_steps": options.num_steps}
    how |= {"denoise": options.denoise, "sampler": sampler}
    parts: list[Tensor] = []
    found: list[Tensor] = []
    names: list[str] = []
    total = 0
    for name in options.files:
        samples = read_samples(name, form, options.labels, options.field, holes=True)
        x = samples.x
        if mask is None and bool(x.isfinite().all()):
            lack = f"letters but {form.letters}" if samples.names else "empty cells and no NaN"
            raise UserError(f"{name} has no {lack}: say by --given what is known")
        total += len(x)
        x = x[: options.first - sum(map(len, parts))]
        if len(x):
            parts.append(x)
            names += samples.names[: len(x)] or [f"sample_{total - len(samples.x) + i + 1}" for i in range(len(x))]
            if mask is None:
                found.append(_filled(model, x, name, how))
            else:
                with placed(name):
                    found.append(model.complete(x, mask, **how))
    if total > options.first:
        print(shown(f"the first {options.first} of {total} samples: --first {total} completes all"), file=sys.stderr)
    png = grid(model, parts, torch.ones(model.shape, dtype=torch.bool) if mask is None else mask, torch.cat(found))
    files = [output] if png is None else [output, output.with_suffix(".png")]
    with together(*files) as paths:
        if output.suffix == ".csv":
            paths[0].write_bytes(rows_csv(torch.cat(found).flatten(0, 1), form))
        elif output.suffix == ".fasta":
            labels = [f"{name}_{k}" for name in names for k in range(1, options.num_samples + 1)]
            paths[0].write_bytes(fasta(torch.cat(found).flatten(0, 1), form.letters, labels))
        else:
            write_values(torch.cat(found), paths[0], output.suffix)
        for path in paths[1:]:
            path.write_bytes(png or b"")
    return files


def _filled(model: TrainedModel, x: Tensor, name: str, how: dict[str, Any]) -> Tensor:
    """Completions `(N, k, *shape)` of a file's raw samples `(N, *shape)`, each of what it lacks itself, NaN."""
    form = model.preprocessing
    found = form.to_raw(form.to_states(x.nan_to_num(0))).unsqueeze(1).repeat_interleave(how["num_samples"], 1)
    masks, kind, count = torch.unique(x.isfinite().flatten(1), dim=0, return_inverse=True, return_counts=True)
    done = 0
    with Meter("filling", "row", len(x)) as meter:
        for mask, rows in zip(masks, torch.split(kind.argsort(stable=True), count.tolist()), strict=True):
            if not mask.all():
                found[rows] = _filled_alike(model, x, mask.view(x.shape[1:]), rows=rows, name=name, how=how).to(found)
            meter.passed(done := done + len(rows))
    return found


def _filled_alike(
    model: TrainedModel, x: Tensor, mask: Tensor, *, rows: Tensor, name: str, how: dict[str, Any]
) -> Tensor:
    """Completions of some rows of a file, which lack the same. An error names the first row to which it belongs."""
    try:
        found: Tensor = model.complete(x[rows], mask, **how)
    except UserError:
        for i in rows.tolist():
            with placed(f"{name}, row {i}, counted from 0"):
                model.conditionals(x[i : i + 1], mask)
        raise
    return found


def _sampler(name: str) -> Sampler:
    """A sampler of the library that needs no settings."""
    usable = ("BlockGibbs", "Gibbs", "GWG", "LocallyBalanced")
    if name not in usable:
        raise UserError(f"--sampler is {name}, but must be one that needs no settings: {', '.join(usable)}")
    made: Sampler = getattr(samplers, name)()
    return made


def given_part(given: str, shape: tuple[int, ...], columns: Sequence[str] = ()) -> Tensor:
    """The mask over one raw sample that `--given` names, True where the sample is known; columns go by their names."""
    if columns and set(names := given.split(",")) <= set(columns):
        return torch.tensor([column in names for column in columns])
    if given not in HALVES:
        path = Path(given)
        if path.suffix != ".npy" or not path.is_file():
            words = f"names of columns ({few(columns, 10)}) or " if columns else f"{', '.join(HALVES)} or "
            words *= bool(columns) or len(shape) > 1
            raise UserError(f"--given is {given}, but must be {words}a .npy file that is there")
        with explained(f"--given {path} cannot be read as an array ({WHY})", (ValueError, OSError, TypeError)):
            content = read_numpy(path)
        if isinstance(content, dict):
            raise UserError(
                f"--given {path} is an .npz file with {', '.join(content) or 'no arrays'}: save one as .npy"
            )
        return as_numbers(content, f"--given {path}")
    if len(shape) < 2:
        instead = f"names of columns ({few(columns, 10)})" if columns else "a .npy file"
        raise UserError(f"--given {given} needs images, and the model's samples have shape {shape}: give {instead}")
    mask = torch.zeros(shape, dtype=torch.bool)
    height, width = shape[-2:]
    part = {
        "top": (slice(height // 2), slice(None)),
        "bottom": (slice(height // 2, None), slice(None)),
        "left": (slice(None), slice(width // 2)),
        "right": (slice(None), slice(width // 2, None)),
    }[given]
    mask[..., part[0], part[1]] = True
    return mask


def grid(model: TrainedModel, parts: list[Tensor], mask: Tensor, found: Tensor) -> bytes | None:
    """A picture with a row for each sample: what is given, the truth, the completions; None if they are no images.

    Of rows of mixed tables it shows the columns: the truth, where it is whole, and the completions.

    Args:
        model: shows states.
        parts: raw samples `(N, ...)` of each file. They are grey where they are not known, NaN.
        mask: True where they are given.
        found: completions of all samples `(N, k, *shape)`.
    """
    domain, form = model.learner.energy.domain, model.preprocessing
    if form.num_classes:
        return None
    data = PlainData("the files", {}, domain)
    data.preprocessing = form
    truth = data.show(torch.cat([form.to_states(x.nan_to_num(0)) for x in parts]))
    if isinstance(truth, Table):
        return _columns(truth, parts, found)
    if not isinstance(truth, Images):
        return None
    is_known = torch.cat([form.shaped(x).isfinite() for x in parts])
    values = truth.values.where(is_known.view_as(truth.values), torch.tensor(0.5))
    rest = form.brightness(found).view(len(values), -1, *values.shape[1:])
    is_given = as_mask(mask, form, domain.shape).view(values.shape[1:])
    given = values.where(is_given, torch.tensor(0.5))
    shown = {"given": given[:, None], "truth": values[:, None], "completions": rest}
    columns = {title: tile(x.flatten(0, 1), columns=x.shape[1], fill=0.5) for title, x in shown.items()}
    return figure_png(panels(columns, gap=8))


def _columns(truth: Table, parts: list[Tensor], found: Tensor) -> bytes:
    """The columns of the whole ones among the rows, and of their completions `(N, k, columns)`."""
    whole = torch.cat([x.isfinite().all(1) for x in parts])
    tables = {"truth": replace(truth, values=truth.values[whole])} if whole.any() else {}
    tables["completions"] = replace(truth, values=found.flatten(0, 1))
    return figure_png(draw_table(tables))
