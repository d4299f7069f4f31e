"""A study's results as tables and texts."""

from __future__ import annotations

import math
from pathlib import Path

from ebmlab.io.files import write_table, write_whole
from ebmlab.studies.columns import NAMES
from ebmlab.studies.file_names import text_file
from ebmlab.studies.race import Result

SHOWN = (
    *("tuning_steps", "tuning_seconds", "step_size", "balance"),
    *("steps", "evaluations_per_step", "seconds", "acceptance", "hops", "jump"),
    *("ess_energy", "ess_distance", "ess_per_second", "ess_per_10k_evaluations", "r_hat"),
)
TITLES = {
    "evaluations_per_step": "evals/step",
    "ess_energy": "ESS of energy",
    "ess_distance": "ESS",
    "ess_per_second": "ESS/s",
    "ess_per_10k_evaluations": "ESS/10k evals",
    "r_hat": "R-hat",
}


def write_tables(results: list[Result], folder: Path) -> str:
    """Writes `table.csv` with all columns and `table.md` with the main ones; returns the text of `table.md`."""
    columns = [key for key in dict.fromkeys(key for r in results for key in r.row) if key not in NAMES]
    rows = [r.row | {name: getattr(r, name) for name in NAMES} for r in results]
    write_table(folder / "table.csv", [*NAMES, *columns], rows)
    own = [c for c in columns if c not in SHOWN and not c.startswith("ess_") and c not in ("temperature",)]
    shown = [c for c in (*SHOWN, *own) if c in columns]
    text = markdown(
        ["target", "sampler", *(TITLES.get(c, c.replace("_", " ")) for c in shown)],
        [[r.target, r.sampler, *(number(r.row.get(c)) for c in shown)] for r in results],
    )
    if any(math.isnan(r.row.get(c, 0.0)) for r in results for c in shown if c.startswith(("ess_", "r_hat"))):
        text += "\nnan: chains that never moved, or that all hold one value, have no effective sample size or R-hat.\n"
    write_whole(folder / "table.md", text)
    return text


def write_texts(results: list[Result], folder: Path) -> None:
    """Writes the texts of the measures, one file for each measure, target and sampler."""
    for r in results:
        for measure, text in r.texts.items():
            write_whole(text_file(folder, measure, r.target, r.sampler), text + "\n")


def number(value: float | None) -> str:
    """A number with three significant digits, or a dash for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns are aligned as plain text too. A `|` in a cell is escaped."""
    header, *rows = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * (w - 1) + (":" if i > 1 else "-") for i, w in enumerate(widths)], *rows]
    justified = [
        " | ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join(f"| {line} |" for line in justified) + "\n"
