"""`python -m ebmlab zoo`: packs, fetches and exports small trained models."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ebmlab.app.zoo_parser import zoo_parser
from ebmlab.errors import shown
from ebmlab.io.files import read_given
from ebmlab.io.zoo import pack, pull
from ebmlab.io.zoo.shelf import CHECKPOINT
from ebmlab.trained import load
from ebmlab.trained.export import export_energy
from ebmlab.trained.loading import checkpoint_in


def run_zoo(args: list[str]) -> None:
    """Runs what the words after `zoo` say, and prints what it has made.

    Raises:
        UserError: an option, a file or an address is not valid.
    """
    options = zoo_parser().parse_args(args)
    act = {"pack": _pack, "pull": _pull, "export": _export}[options.verb]
    print(shown(act(options)))


def _pack(options: Namespace) -> str:
    card = read_given(Path(options.card), f"--card {options.card}")
    model = pack(checkpoint_in(Path(options.checkpoint)), Path(options.folder), options.name, card)
    return f"{options.folder}: sha256 {model.files[CHECKPOINT]}"


def _pull(options: Namespace) -> str:
    path = pull(options.address, options.sha256)
    return f"zoo/{path.parent.name}: {path}"


def _export(options: Namespace) -> str:
    export_energy(load(options.checkpoint).learner.energy, Path(options.file))
    return str(options.file)
