"""Private names of Lightning stand in one room, and are there in the installed release."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
from helpers_modules import ROOT, module_files
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint

ROOM = Path("ebmlab/lightning")
THEIRS = re.compile(r"\b(trainer|loop|epoch_loop|fit_loop|callback|checkpoint|average)\b")


def private(path: Path) -> set[str]:
    """The private names that a module takes from objects of Lightning's."""
    tree = ast.parse((ROOT / path).read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr))
    bases = ((ast.unparse(node.value), node.attr) for node in found)
    theirs = {name for base, name in bases if base.partition(".")[0] != "self" and THEIRS.search(base)}
    return {name for name in theirs if not name.startswith("_ebmlab")}


def test_no_other_room_uses_private_names() -> None:
    used = {str(path): names for path in module_files() if ROOM not in path.parents and (names := private(path))}
    assert used == {}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_installed_release_has_them() -> None:
    trainer = pl.Trainer(logger=False, callbacks=[ModelCheckpoint(), EMAWeightAveraging()], max_steps=1)
    loop = trainer.fit_loop
    owners = [trainer, loop, loop.epoch_loop, loop.epoch_loop.val_loop, loop.epoch_loop.automatic_optimization]
    owners += [trainer._signal_connector, *trainer.callbacks]  # type: ignore[attr-defined]
    for path in (path for path in module_files() if ROOM in path.parents):
        for name in private(path):
            assert any(hasattr(owner, name) for owner in owners), f"{path}: {name}"
