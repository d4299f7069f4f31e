"""`python -m ebmlab score | complete | features`: a trained model on files of samples."""

from __future__ import annotations

import csv
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab import samplers
from ebmlab.app.law_lines import in_form, law_line, mixing
from ebmlab.app.own_modules import import_for_checkpoints
from ebmlab.app.own_runs import check_links
from ebmlab.app.parsers import model_parser
from ebmlab.app.rows import fasta, rows_csv, write_values
from ebmlab.app.run_folder import run_of
from ebmlab.app.sample_files import Samples, read_samples
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Images, Table
from ebmlab.data.numbers import as_numbers
from ebmlab.drawing.figures import figure_png, panels
from ebmlab.drawing.histograms import draw_histograms
from ebmlab.drawing.table import draw_table
from ebmlab.drawing.tiles import tile
from ebmlab.errors import WHY, UserError, explained, few, how_many, shown
from ebmlab.evaluation.outliers import detection
from ebmlab.io.outputs import keep_apart, together
from ebmlab.io.progress import Meter
from ebmlab.reading.number_files import read_numpy
from ebmlab.samplers import Sampler
from ebmlab.trained import TrainedModel, load
from ebmlab.trained.numbers import as_mask, placed

HALVES = ("top", "bottom", "left", "right")


def run_model_command(command: str, args: list[str]) -> None:
    """Runs a command of `MODEL_COMMANDS`, and prints the files that it has written.

    Raises:
        UserError: an option, a file or the checkpoint is not valid. Nothing has been written then.
    """
    options = model_parser(command).parse_args(args)
    act, default, kinds = {
        "score": (_score, "scores.csv", (".csv",)),
        "complete": (_complete, "completions.npy", (".npy", ".csv", ".pt", ".fasta")),
        "features": (_features, "features.npy", (".npy", ".csv", ".pt")),
    }[command]
    read = [*options.files, getattr(options, "given", None)]
    model, output = model_and_output(options, default, kinds=kinds, read=read, drawn=command != "features")
    torch.manual_seed(options.seed)
    for path in act(model, options, output):
        print(path)


def model_and_output(
    options: Namespace, default: str, *, kinds: tuple[str, ...], read: Sequence[str | None], drawn: bool = True
) -> tuple[TrainedModel, Path]:
    """The model of a command, and the file that it writes: that of `--output`, or one in the run's folder.

    Args:
        options: of the command.
        default: the file's name in the run's folder.
        kinds: how the file may end.
        read: files that the command reads, None where one is not given.
        drawn: whether a picture of the same name is written, too.

    Raises:
        UserError: the checkpoint is not valid, or the output is, or would overwrite what is read.
    """
    import_for_checkpoints(options.modules)
    model = load(options.ckpt_path)
    assert model.path is not None
    output = run_of(model.path) / default if options.output is None else Path(options.output)
    if options.output is None:
        check_links(run_of(model.path))
    if output.suffix not in kinds:
        raise UserError(f"--output is {output}, but must end in {' or '.join(kinds)}")
    written = [output, output.with_suffix(".png")] if drawn else [output]
    keep_apart(written, [*filter(None, read), model.path])
    return model, output


def _score(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
    rows: list[dict[str, Any]] = []
    energies: dict[str, Tensor] = {}
    trusted: Tensor | None = None
    for name in options.files:
        samples, chains = _accepted(model, name, options, drop=True)
        x = samples.x
        found = model.energy(x).double()
        columns = {"energy": found}
        line = f"{name}: {how_many(len(x), 'sample')}, mean energy {found.mean():.6g}{mixing(found, chains)}"
        if options.log_likelihood:
            likelihood = model.log_likelihood(x, options.num_chains, num_temperatures=options.num_temperatures)
            columns["log_likelihood"] = likelihood.values.double()
            line += f", mean log-likelihood {likelihood.mean:.6g} nats"
            line += f" ({likelihood.bits_per_dim:.4g} bits per dimension); {likelihood.log_z}"
        if energies:
            inside = next(iter(energies.values()))
            scores = detection(inside, found)
            line += f", AUROC {scores.auroc:.4f} against {options.files[0]}"
            energies[f"{Path(name).name} (AUROC {scores.auroc:.3f})"] = found
        else:
            energies[Path(name).name] = found
        print(shown(line))
        if options.law:
            trusted = trusted if name != options.files[0] else None
            given = in_form(model, x, chains)
            print(f"  {law_line(model, given, trusted)}")
            trusted = given if trusted is None else trusted
        labels = samples.names or [""] * len(x)
        for i, (file, number, label) in enumerate(zip(samples.files, samples.numbers, labels, strict=True)):
            values = {key: f"{float(column[i]):.9g}" for key, column in columns.items()}
            rows.append({"file": file, "sample": number, "name": label} | values)
    heads = [head for head in rows[0] if head != "name" or any(row["name"] for row in rows)]
    picture = output.with_suffix(".png")
    with together(output, picture) as (path, drawn), path.open("w", newline="") as table:
        writer = csv.DictWriter(table, heads, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        drawn.write_bytes(figure_png(draw_histograms(energies, "energy")))
    return [output, picture]


def _accepted(
    model: TrainedModel, name: str, options: Namespace, drop: bool = False
) -> tuple[Samples, tuple[int, int] | None]:
    """The samples of a file or folder, which the model must accept.

    Chains `(num_steps, num_chains, *shape)` become samples; their numbers of steps and chains are returned, too.
    """
    found = read_samples(name, model.preprocessing, options.labels, options.field, drop=drop)
    x, chains = found.x, None
    if x.dim() == 2 + len(model.shape) and tuple(x.shape[2:]) == tuple(model.shape):
        chains, x = (x.shape[0], x.shape[1]), x.flatten(0, 1)
        found = Samples(x, [*found.files[:1]] * len(x), numbers=range(len(x)))
    with explained(f"{name}: {WHY}", UserError):
        model.states(x)
    return found, chains


def _features(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
    parts = [_accepted(model, name, options)[0].x for name in options.files]
    with together(output) as (path,):
        write_values(torch.cat([model.features(x) for x in parts]), path, output.suffix)
    return [output]


def _complete(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
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
    for i, known in enumerate(Meter("filling", "row", len(x)).along(x.isfinite())):
        if not known.all():
            with placed(f"{name}, row {i}, counted from 0"):
                found[i] = model.complete(x[i : i + 1], known, **how)[0].to(found)
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
