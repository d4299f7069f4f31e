"""The options of `python -m ebmlab zoo`, and its list of models. Nothing heavy is imported."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ebmlab.app.parsers import Line
from ebmlab.io.zoo.shelf import CARD, OURS, names, pulled

_VERBS = ("list", "pack", "pull", "export")


def zoo_parser() -> argparse.ArgumentParser:
    """The parser of the words after `zoo`."""
    parser = Line("python -m ebmlab zoo", description="Small trained models, called zoo/NAME.")
    verbs = parser.add_subparsers(dest="verb", metavar="|".join(_VERBS), parser_class=Line)
    verbs.add_parser("list", help="names and first lines (also without a word)")
    pack = verbs.add_parser("pack", help="make a model of a checkpoint or run of your own")
    pack.add_argument("checkpoint")
    pack.add_argument("folder")
    pack.add_argument("--name", required=True)
    pack.add_argument("--card", required=True, help="a Markdown file")
    pull = verbs.add_parser("pull", help="fetch a model: it is zoo/NAME from then on")
    pull.add_argument("address", help="a folder, an http(s) address, or hf://OWNER/REPOSITORY")
    pull.add_argument("--sha256", help="of model.ckpt")
    export = verbs.add_parser("export", help="write the energy of states as a program without ebmlab")
    export.add_argument("checkpoint", help="zoo/NAME, a checkpoint or the folder of a run")
    export.add_argument("file", help="ends in .pt2 (torch.export) or .onnx (needs ebmlab[onnx])")
    return parser


def zoo_answer(given: Sequence[str]) -> str | None:
    """The help or the list of models if the words ask for it; None for what needs torch.

    Raises:
        UserError: an option is not valid.
    """
    parser = zoo_parser()
    if {"-h", "--help"} & {*given}:
        return None if given[0] in _VERBS else parser.format_help().rstrip()
    if parser.parse_args(given).verb in (None, "list"):
        return "\n".join(f"  zoo/{name:<22} {_title(name)}" for name in names())
    return None


def _title(name: str) -> str:
    card = next((c for c in (OURS / name / CARD, pulled() / name / CARD) if c.is_file()), None)
    lines = card.read_text(errors="replace").splitlines() if card else []
    return next((line for line in lines if line and not line.startswith("#")), "")
