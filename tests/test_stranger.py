"""The stranger's path: docs/getting_started.md word by word, from a wheel in an empty folder, with wrong inputs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from helpers_packages import ROOT, build, call, ended, unpack
from helpers_pages import tiny

from docs.notebooks import cells, commands

PAGE = (ROOT / "docs" / "getting_started.md").read_text()
EBMLAB = (sys.executable, "-m", "ebmlab")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the wheel is installed."""
    folder = tmp_path_factory.mktemp("stranger")
    unpack(build(folder / "packages"), folder / "site")
    return str(folder / "site")


@pytest.fixture(scope="module")
def walked(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder in which the page was followed: its commands as they stand, with flags that make them quick."""
    work = tmp_path_factory.mktemp("work")
    for cell in cells(PAGE):
        if cell.kind == "file":
            (work / cell.name).write_text(cell.source)
        elif cell.kind == "python":
            call(work, sys.executable, "-c", cell.source, PYTHONPATH=site)
        elif cell.kind == "shell":
            for command in commands(cell.source):
                follow(command, work, site)
    return work


def follow(command: str, work: Path, site: str) -> None:
    """Runs a line of the page in a process of its own."""
    if loop := re.fullmatch(r"for (\w+) in (.*?); do (.*); done", command):
        for value in loop[2].split():
            follow(loop[3].replace(f"${loop[1]}", value), work, site)
    elif match := re.match(r"python -m ebmlab (.*)", command):
        words = shlex.split(match[1]) if match[1].startswith("--") else tiny(match[1])
        call(work, *EBMLAB, *words, PYTHONPATH=site, EBMLAB_CACHE=str(work / "cache"))
    elif command.split()[0] not in ("pip", "make"):
        call(work, *shlex.split(command))


def test_the_path_leads_to_what_the_page_says(walked: Path) -> None:
    runs = walked / "runs"
    for run in ("first", "second", "block-gibbs", "pictures", "step-0.05", "step-0.1", "step-0.2"):
        for part in ("config.yaml", "metrics.csv", "images", "checkpoints/last.ckpt"):
            assert (runs / "grbm_digits" / run / part).exists(), f"{run}/{part}"
    first, pictures = runs / "grbm_digits" / "first", runs / "grbm_digits" / "pictures"
    for path in (
        *(first / "samples" / name for name in ("samples.pt", "samples.png")),
        *(first / "test" / "metrics.csv", first / "dashboard.html", pictures / "completions.png"),
        *(runs / "my_energy" / "first" / "test" / "metrics.csv", walked / "sweep.md", walked / "sweep.png"),
    ):
        assert path.stat().st_size > 0, path
    table = (walked / "sweep.md").read_text()
    assert all(f"step-{size}" in table for size in ("0.05", "0.1", "0.2")) and "step_size" in table


def test_a_resumed_run_that_is_complete_is_left_alone(walked: Path, site: str) -> None:
    command = "python -m ebmlab fit --config configs/grbm_digits.yaml --name second --resume auto"
    assert command in PAGE
    last = walked / "runs/grbm_digits/second/checkpoints/last.ckpt"
    before = last.read_bytes()
    follow(command, walked, site)
    assert last.read_bytes() == before


PICTURES = "fit --config configs/grbm_digits.yaml --data datamodules.ImageFolder --callbacks.FID false --name wrong"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit --config configs/grbm_digit.yaml", "grbm_digit"),
        ("fit --config configs/grbm_digits.yaml --nme first", "nme"),
        ("fit --config configs/grbm_digits.yaml --name first", "runs/grbm_digits/first"),
        ("fit --config configs/grbm_digits.yaml --model.sampler ebmlab.samplers.BlockGibs --name wrong", "BlockGibs"),
        ("fit --config configs/grbm_digits.yaml --model.sampler.step_size -0.1 --name wrong", "step_size"),
        (f"{PICTURES} --data.root nowhere --data.size 16", "nowhere"),
        (f"{PICTURES} --data.root empty --data.size 16", "empty"),
        ("predict --ckpt_path runs/grbm_digits/gone", "runs/grbm_digits/gone"),
        ("dashboard runs/grbm_digits/gone", "runs/grbm_digits/gone"),
        ("complete my_pictures --given middle --ckpt_path runs/grbm_digits/pictures", "middle"),
        ("complete nowhere --given top --ckpt_path runs/grbm_digits/pictures", "nowhere"),
        ("complete block_gibbs.yaml --given top --ckpt_path runs/grbm_digits/pictures", "block_gibbs.yaml"),
        ("test --ckpt_path runs/my_energy/first/checkpoints/last.ckpt", "--config"),
        ("compare runs/grbm_digits/first runs/grbm_digits/gone", "runs/grbm_digits/gone"),
    ],
)
def test_wrong_inputs_on_the_way(command: str, said: str, walked: Path, site: str, tmp_path: Path) -> None:
    """One line that names what is wrong, exit code 2, and no file more than before."""
    (walked / "empty").mkdir(exist_ok=True)
    before = sorted(walked.rglob("*"))
    done = ended(walked, *EBMLAB, *shlex.split(command), PYTHONPATH=site, EBMLAB_CACHE=str(tmp_path))
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(lines) == 1 and said in lines[0], done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(walked.rglob("*")) == before
