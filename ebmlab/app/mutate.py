"""`python -m ebmlab mutate`: scores of all single mutants of a sequence."""

from __future__ import annotations

import csv
import math
import re
from argparse import Namespace
from pathlib import Path

from ebmlab.app.model_commands import model_and_output
from ebmlab.app.parsers import mutate_parser
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.mutation_map import draw_mutations
from ebmlab.errors import WHY, UserError, explained, how_many, shown
from ebmlab.io.files import read_given
from ebmlab.io.outputs import together
from ebmlab.sequences.alignment_file import find, read_rows
from ebmlab.trained.at_sites import site_numbers
from ebmlab.trained.mutations import MutationScan, mutation_scores

_RANGE = re.compile(r"/(\d+)-\d+$")


def run_mutate(args: list[str]) -> None:
    """Runs what the words after `mutate` say, and prints the files that it has written.

    Raises:
        UserError: an option, a file or the checkpoint is not valid. Nothing has been written then.
    """
    options = mutate_parser().parse_args(args)
    name, text = _sequence(options)
    read = [options.file, options.measured]
    model, output = model_and_output(options, "mutants.csv", kinds=(".csv",), read=read)
    picture = output.with_suffix(".png")
    given = _RANGE.search(name)
    first = options.first
    if first is None and given and not site_numbers(model.preprocessing):
        first = int(given[1])
    with explained(f"{options.file}, {name[:60]}: {WHY}", UserError):
        scan = mutation_scores(model, text, first=first)
    mutants = scan.mutants()
    measured, line = _measured(scan, options) if options.measured else ({}, "")
    with together(output, picture) as (table, drawn), table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["mutant", "score", *(["measured"] if options.measured else [])])
        for mutant, score in mutants:
            writer.writerow([mutant, f"{score:.6g}", *([measured.get(mutant, "")] if options.measured else [])])
        title = f"{name[:60]}: {how_many(len(mutants), 'single mutant')}" + (f"; {line}" if line else "")
        scores, values, numbers = (part[scan.residues] for part in (scan.scores, scan.values, scan.numbers))
        drawn.write_bytes(figure_png(draw_mutations(scores, values, numbers, scan.alphabet, shown(title))))
    worst, best = (choose(mutants, key=lambda pair: pair[1]) for choose in (min, max))
    ends = f"from {worst[0]} {worst[1]:.3g} to {best[0]} {best[1]:.3g}"
    print(shown(f"{name}: {how_many(len(mutants), 'single mutant')}, {ends}"))
    if line:
        print(line)
    print(output, picture, sep="\n")


def _sequence(options: Namespace) -> tuple[str, str]:
    """The name and the letters of the sequence."""
    rows = read_rows(find(options.file), "keep")
    if options.sequence is None:
        return rows.names[0], rows.texts[0]
    if options.sequence not in rows.names:
        raise UserError(f"{options.file} has no sequence {options.sequence}; the first is {rows.names[0][:60]}")
    return options.sequence, rows.texts[rows.names.index(options.sequence)]


def _measured(scan: MutationScan, options: Namespace) -> tuple[dict[str, str], str]:
    """Measurements by mutant, and what they say of the scores."""
    path = Path(options.measured).expanduser()
    if not path.is_file():
        raise UserError(f"--measured {path}: no such file")
    table = csv.DictReader(read_given(path, f"--measured {path}").splitlines())
    if not table.fieldnames:
        raise UserError(f"--measured {path} is empty: give a table of mutants and measurements")
    for option, column in (("--mutant", options.mutant), ("--column", options.column)):
        if column not in table.fieldnames:
            found = ", ".join(table.fieldnames)[:200]
            raise UserError(f"--measured {path} has no column {column}; there are {found}: name it by {option}")
    pairs: list[tuple[float, float]] = []
    values: dict[str, str] = {}
    elsewhere = empty = 0
    for row in table:
        where = f"--measured {path}, line {table.line_num}"
        mutant, cell = (row[options.mutant] or "").strip(), (row[options.column] or "").strip()
        if not cell or cell.lower() in ("nan", "na"):
            empty += 1
            continue
        with explained(f"{where}: '{cell[:40]}' is no number", ValueError), explained(f"{where}: {WHY}", UserError):
            score, name, value = scan.score(mutant), scan.spelled(mutant), float(cell)
        if not math.isfinite(value):
            raise UserError(f"{where}: '{cell[:40]}' is not finite")
        if score is None or name is None:
            elsewhere += 1
            continue
        pairs.append((score, value))
        values[name] = cell
    if len(pairs) < 3:
        raise UserError(
            f"--measured {path} has {how_many(len(pairs), 'mutant')} at sites of the model, too few to compare"
        )
    from scipy.stats import spearmanr  # here, because it takes as long to load as torch

    rank = float(spearmanr(*zip(*pairs, strict=True)).statistic)
    left = ""
    if elsewhere or empty:
        left = f" ({elsewhere:,} with a site or a letter that the model lacks, {empty:,} without a number)"
    return values, f"Spearman {rank:.3f} with {options.column} of {len(pairs):,} mutants{left}"
