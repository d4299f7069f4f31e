"""Every block of docs/own_data.md runs as it stands, in the order of the page, section by section."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from ebmlab.app.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_data.md").read_text().replace("\\\n", " ")
HEAD, *SECTIONS = re.split(r"^## ", PAGE, flags=re.M)
MODULES = ("my_data", "my_loaders", "my_model")
FASTER = ["--trainer.max_epochs=1", "--trainer.limit_train_batches=3"]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
    pytest.mark.filterwarnings("ignore:AIS. do not trust"),
]


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and text of each block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)


def file_of(block: str) -> str | None:
    """The name of the file that a block shows, from its first line."""
    found = re.match(r"# ([\w.]+\.(?:py|yaml))\b", block)
    return found.group(1) if found else None


@pytest.fixture
def page(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's files and its example data in an empty folder."""
    Path("configs").symlink_to(ROOT / "configs")
    for _, block in blocks(PAGE):
        if name := file_of(block):
            Path(name).write_text(block)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    ((_, data),) = blocks(HEAD)
    exec(data, {})
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def commands(text: str) -> list[tuple[list[str], str]]:
    """The arguments of each command, and the error that the page says it ends with."""
    found = re.findall(r"^python -m ebmlab (.*)\n(?:# (error: .*)\n)?", text, re.M)
    return [(shlex.split(command), error) for command, error in found]


TRAINER = ("fit", "validate", "test", "predict")  # take the options that make a run small
SLOW = (
    *("Pictures", "A Dataset of PyTorch", "An energy and a sampler of your own"),
    *("A LightningDataModule, or loaders", "What becomes of raw numbers", "Numbers in a file"),
    "A table of numbers and classes: mixed, categorical columns",
)  # tests/app/test_own_data_commands.py has their like
assert {*SLOW} <= {section.partition("\n")[0] for section in SECTIONS}


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(section, id=(name := section.partition("\n")[0]), marks=[pytest.mark.slow] * (name in SLOW))
        for section in SECTIONS
    ],
)
def test_the_section_runs(section: str, page: None, run: Callable[..., None], fails: Callable[..., str]) -> None:
    if "runs/waves/memory" in section and "--name memory" not in section:  # a run of an earlier section
        run("fit", "--config", "waves.yaml", "--name", "memory", *FASTER, bare=True)
    for language, block in blocks(section):
        if language == "python" and file_of(block) is None:
            torch.manual_seed(0)
            exec(block, {})
        for args, error in commands(block) if not language else []:
            quick = FASTER if args[0] == "fit" else []
            if args[0] not in TRAINER:
                main(args)
            elif error:
                assert fails(*args, *quick, bare=True) == error
            else:
                run(*args, *quick, bare=True)


def test_every_block_is_seen() -> None:
    count = len([line for line in PAGE.splitlines() if line.startswith("```")])
    seen = blocks(PAGE)
    assert count == 2 * len(seen) and {language for language, _ in seen} == {"", "python", "yaml"}
    assert len(commands(PAGE)) == PAGE.count("\npython -m ebmlab ")
    assert all(file_of(block) for language, block in seen if language == "yaml")
