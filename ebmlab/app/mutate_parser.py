"""The options of `python -m ebmlab mutate`. Nothing heavy is imported."""

from __future__ import annotations

import argparse

from ebmlab.app.model_parsers import Line

ABOUT = (
    "Scores all single mutants of a sequence by a model that was trained on an alignment: log p(mutant) - log "
    "p(sequence), as a table with a heat map; and compares them with measurements, if asked."
)


def mutate_parser() -> argparse.ArgumentParser:
    """The parser of the words after `mutate`.

    Example:
        >>> options = mutate_parser().parse_args(["wild.fasta", "--ckpt_path", "last.ckpt"])
        >>> options.first, options.measured
        (None, None)
    """
    parser = Line("python -m ebmlab mutate", description=ABOUT, allow_abbrev=False)
    add = parser.add_argument
    add("file", metavar="FILE", help="the sequence as a row of the alignment, in FASTA, A2M, A3M or Stockholm")
    add("--ckpt_path", required=True, metavar="PATH", help="a checkpoint, or the folder of a run (its best, else last)")
    add("--sequence", metavar="NAME", help="its name, if there are several in the file (default: the first)")
    add("--first", type=int, metavar="N", help="number of its first residue (default: that of NAME/N-M, else 1)")
    add("--measured", metavar="CSV", help="a table of measurements, with mutants such as A42G or A42G:K50L")
    add("--column", default="score", help="the table's column of measurements (default: score)")
    add("--mutant", default="mutant", help="the table's column of mutants (default: mutant)")
    add(
        "--output",
        metavar="FILE",
        help="the table, .csv; the heat map gets the same name (default: mutants.csv in the run)",
    )
    add("--import", dest="modules", action="append", default=[], metavar="MODULE", help="own code of the model")
    return parser
