"""The options of `python -m ebmlab convert`. Nothing heavy is imported."""

from __future__ import annotations

import argparse

from ebmlab.app.model_parsers import Line

ABOUT = (
    "Makes a run of a model or problem of another package, which score, predict, test, complete, features and compare "
    "take; or writes the energy of a checkpoint in the format of another package. A file is known by its content."
)


def convert_parser() -> argparse.ArgumentParser:
    """The parser of the words after `convert`."""
    parser = Line("python -m ebmlab convert", description=ABOUT, allow_abbrev=False)
    add = parser.add_argument
    add("source", help="a file of another package; or a checkpoint, the folder of a run, or zoo/NAME")
    add("target", help="a folder, which becomes that of a run; a .ckpt file; or a file in another format")
    add("--kind", help="the format of the target, or of the source if a run is made, where it must be said")
    add("--vartype", choices=("SPIN", "BINARY"), help="what variables are, for files that do not say so")
    add("--shape", help="of the pixels that visible units are, such as 1,28,28")
    return parser
