"""`python -m ebmlab score | complete | features`: a trained model on files of samples."""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.app.complete import complete
from ebmlab.app.law_lines import in_form, law_line, mixing
from ebmlab.app.own_modules import import_for_checkpoints
from ebmlab.app.own_runs import check_links
from ebmlab.app.parsers import model_parser
from ebmlab.app.rows import write_values
from ebmlab.app.run_folder import run_of
from ebmlab.app.sample_files import Samples, read_samples
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.histograms import draw_histograms
from ebmlab.errors import WHY, UserError, explained, how_many, shown
from ebmlab.evaluation.outliers import detection
from ebmlab.io.outputs import check_writable, keep_apart, together
from ebmlab.trained import TrainedModel, load


def run_model_command(command: str, args: list[str]) -> None:
    """Runs a command of `MODEL_COMMANDS`, and prints the files that it has written.

    Raises:
        UserError: an option, a file or the checkpoint is not valid. Nothing has been written then.
    """
    options = model_parser(command).parse_args(args)
    act, default, kinds = {
        "score": (_score, "scores.csv", (".csv",)),
        "complete": (complete, "completions.npy", (".npy", ".csv", ".pt", ".fasta")),
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
        UserError: the checkpoint is not valid, or the output is, cannot be written, or would overwrite what is read.
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
    check_writable(output)
    return model, output


def _score(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
    rows: list[dict[str, Any]] = []
    energies: dict[str, Tensor] = {}
    trusted: Tensor | None = None
    for name in options.files:
        samples, chains = _read(model, name, options, drop=True)
        x = samples.x
        with explained(f"{name}: {WHY}", UserError):
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


def _read(
    model: TrainedModel, name: str, options: Namespace, drop: bool = False
) -> tuple[Samples, tuple[int, int] | None]:
    """The samples of a file or folder.

    Chains `(num_steps, num_chains, *shape)` become samples; their numbers of steps and chains are returned, too.
    """
    found = read_samples(name, model.preprocessing, options.labels, options.field, drop=drop)
    x, chains = found.x, None
    if x.dim() == 2 + len(model.shape) and tuple(x.shape[2:]) == tuple(model.shape):
        chains, x = (x.shape[0], x.shape[1]), x.flatten(0, 1)
        found = Samples(x, [*found.files[:1]] * len(x), numbers=range(len(x)))
    return found, chains


def _features(model: TrainedModel, options: Namespace, output: Path) -> list[Path]:
    found: list[Tensor] = []
    for name in options.files:
        x = _read(model, name, options)[0].x
        with explained(f"{name}: {WHY}", UserError):
            found.append(model.features(x))
    with together(output) as (path,):
        write_values(torch.cat(found), path, output.suffix)
    return [output]
