"""`python -m ebmlab compare RUN RUN...`: the table of several runs, from the files in their folders."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ebmlab.app.finished_run import FinishedRun, read_run
from ebmlab.app.parsers import Line
from ebmlab.errors import UserError, one_line
from ebmlab.io.files import write_whole

_NOT_COMPARED = ("wandb", "wandb_project", "callbacks.Progress")
Row = tuple[str, list[str]]


def compare(given: Sequence[str]) -> str:
    """The table of the runs that the command line names. Files that `--out` names are written.

    Args:
        given: the words after `compare`.

    Raises:
        UserError: a folder is not that of a run, a file cannot be written, or the options are wrong.
    """
    options = _parser().parse_args(given)
    folders, outs = [Path(run) for run in options.runs], [Path(out) for out in options.out]
    if len(folders) > 1 and all(path.is_file() for path in folders):
        return _samples(folders, outs)
    if len({folder.resolve() for folder in folders}) < max(2, len(folders)):
        twice = "; a run is named twice" if len(folders) > 1 else ""
        raise UserError(f"compare: give the folders of two or more runs, such as runs/rbm_mnist/*{twice}")
    for out in outs:
        if out.suffix not in _WRITERS:
            raise UserError(f"compare: --out is {out}, but must end in .csv, .md or .png")
    runs = [read_run(folder) for folder in folders]
    contents = [_WRITERS[out.suffix](runs) for out in outs]
    for out, content in zip(outs, contents, strict=True):
        write("compare", out, content)
    return "\n".join([_aligned([("", run_names(runs)), *rows(runs)]), *(f"wrote {out}" for out in outs)])


def _samples(paths: Sequence[Path], outs: Sequence[Path]) -> str:
    if outs:
        raise UserError("compare: --out writes tables of runs; files of samples are only printed")
    from ebmlab.app.compare_samples import compare_samples  # imports torch

    return _aligned([("", [path.name for path in paths]), *compare_samples(paths)])


def rows(runs: Sequence[FinishedRun]) -> list[Row]:
    """The table's rows: settings that differ, then steps, seconds, and the best and last value of each metric."""
    table = differences(runs)
    table.append(("steps", [str(run.steps) for run in runs]))
    table.append(("seconds", ["-" if run.seconds is None else f"{run.seconds:.0f}" for run in runs]))
    for metric in _metrics(runs):
        if any(metric in run.modes for run in runs):
            table.append((f"{metric}, best", [_best(run, metric) for run in runs]))
        table.append((f"{metric}, last", [str(run.last(metric) or "-") for run in runs]))
    return table


def differences(runs: Sequence[FinishedRun]) -> list[Row]:
    """The settings that differ. Of a callback that some runs lack, its options are left out."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings if not name.startswith(_NOT_COMPARED)))
    lacking = tuple(
        f"{name}."
        for name in names
        if name.count(".") == 1 and name.startswith("callbacks.") and any(name not in run.settings for run in runs)
    )
    found = [(name, [run.settings.get(name, "-") for run in runs]) for name in names if not name.startswith(lacking)]
    return [(name, _short(values)) for name, values in found if len(set(values)) > 1]


def _short(values: list[str]) -> list[str]:
    """Classes without their modules, unless they would look the same."""
    short = [re.sub(r"^(\w+\.)+(?=[A-Z]\w*$)", "", value) for value in values]
    return short if len(set(short)) == len(set(values)) else values


def _best(run: FinishedRun, metric: str) -> str:
    last = run.last(metric)
    return str(run.best(metric) or ("-" if last is None or last.trusted else "none trusted"))


def _metrics(runs: Sequence[FinishedRun]) -> list[str]:
    """All metrics, likelihoods first."""
    names = list(dict.fromkeys(metric for run in runs for metric in run.metrics))
    return sorted(names, key=lambda name: (not name.endswith("log_likelihood"), "fid" not in name, names.index(name)))


def run_names(runs: Sequence[FinishedRun]) -> list[str]:
    """The shortest names that tell the runs apart: of the folders, with the experiments, or the whole paths."""
    paths = [run.folder.resolve() for run in runs]
    for parts in (1, 2):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _aligned(table: Sequence[Row]) -> str:
    columns = list(zip(*[(name, *values) for name, values in table], strict=True))
    widths = [max(map(len, column)) for column in columns]
    cells = [[cell.ljust(width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*cells, strict=True))


def _markdown(runs: Sequence[FinishedRun]) -> bytes:
    lines = [("", run_names(runs)), ("---", ["---"] * len(runs)), *rows(runs)]
    cells = [[name, *values] for name, values in lines]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in cells).encode()


def _csv(runs: Sequence[FinishedRun]) -> bytes:
    """One line for each run, and a column for each number."""
    names, differing = run_names(runs), differences(runs)
    lines: list[dict[str, object]] = []
    for i, run in enumerate(runs):
        line: dict[str, object] = {"run": names[i], **{name: values[i] for name, values in differing}}
        line |= {"steps": run.steps, "seconds": run.seconds}
        for metric in _metrics(runs):
            for which, score in (("best", run.best(metric)), ("last", run.last(metric))):
                if score is not None:
                    line |= {f"{metric} {which}": score.value, f"{metric} {which} step": score.step}
                if score is not None and metric.endswith("ais/log_likelihood"):
                    line |= {f"{metric} {which} error": score.error, f"{metric} {which} trusted": score.trusted}
        lines.append(line)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(key for line in lines for key in line)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue().encode()


def _png(runs: Sequence[FinishedRun]) -> bytes:
    from ebmlab.drawing.curves import curves  # imports torch and matplotlib
    from ebmlab.drawing.figures import figure_png

    shown = {
        metric: {
            name: [(score.step, score.value, score.trusted) for score in run.metrics[metric]]
            for name, run in zip(run_names(runs), runs, strict=True)
            if metric in run.metrics
        }
        for metric in _metrics(runs)
    }
    if not shown:
        raise UserError("compare: the runs have no metrics to draw: leave the .png out")
    return figure_png(curves(shown))


_WRITERS: dict[str, Callable[[Sequence[FinishedRun]], bytes]] = {".csv": _csv, ".md": _markdown, ".png": _png}


def write(command: str, path: Path, content: bytes) -> None:
    """Writes a file completely or not at all; raises a `UserError` that names the command if it cannot be written."""
    try:
        path.parent.stat()  # a misspelt folder is not made
        write_whole(path, content)
    except OSError as error:
        raise UserError(f"{command}: {path} cannot be written: {error.strerror or one_line(error)}") from error


def _parser() -> Line:
    parser = Line(
        prog="python -m ebmlab compare",
        description="The table of several runs: settings that differ, steps and seconds, and the best and the last "
        "likelihood (with its error, or marked as not to be trusted), FID and other scores.",
    )
    given = "runs, such as runs/rbm_mnist/*, or files of samples; three axes are steps, chains and numbers"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=given)
    more = "also write FILE.csv, FILE.md or FILE.png (the curves); may be repeated"
    parser.add_argument("--out", action="append", default=[], metavar="FILE", help=more)
    return parser
