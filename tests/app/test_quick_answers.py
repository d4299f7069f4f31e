"""Help, the version and misspelt commands are answered before anything heavy is imported."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pytorch_lightning.cli import LightningCLI

import ebmlab.__main__ as entry
from ebmlab import __version__
from ebmlab.app import cli, quick_answers
from ebmlab.app.cli import main
from ebmlab.app.help_pages import page
from ebmlab.app.listing import list_components
from ebmlab.app.parsers import MODEL_COMMANDS, model_parser
from ebmlab.app.quick_answers import COMMANDS, HELP
from ebmlab.extras import _EXTRAS

PROGRAM = """
import runpy, sys
sys.argv = ["ebmlab", *sys.argv[1:]]
try:
    runpy.run_module("ebmlab", run_name="__main__")
finally:
    heavy = {"torch", "numpy", "pytorch_lightning", "jsonargparse"} & set(sys.modules)
    assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ([], 0, HELP, ""),
        (["compare"], 2, "", "error: compare: give the folders of two or more runs, such as runs/rbm_mnist/*"),
        (["--help"], 0, HELP, ""),
        (["score", "--help"], 0, model_parser("score").format_help().rstrip(), ""),
        (["--version"], 0, f"ebmlab {__version__}", ""),
        (["list"], 0, list_components(), ""),
        (["help"], 0, HELP, ""),
        (["fit", "--help"], 0, page("fit"), ""),
        (["predict", "-h"], 0, page("predict"), ""),
        (
            ["list", "all"],
            2,
            "",
            "error: list: there is no all; choose energies, samplers, tuners, learners, studies, targets, datamodules, "
            "callbacks, configs, or give none for all",
        ),
        (
            ["fti", "--debug"],
            2,
            "",
            "error: there is no command fti; did you mean fit? There are fit, validate, test, predict, score, "
            "complete, features, sample, list, compare, dashboard, sweep, convert, zoo, mutate and solve",
        ),
    ],
)
def test_answered_at_once(words: list[str], code: int, out: str, err: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    said = done.stderr.strip()
    if "--debug" in words:
        assert said.startswith("Traceback")
        said = said.splitlines()[-1]
    assert (done.returncode, done.stdout.strip(), said) == (code, out, err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sweep --config a.yaml --space b.yaml", "sweep needs optuna: pip install 'ebmlab[sweep]'"),
        ("dashboard run", "dashboard needs plotly: pip install 'ebmlab[dashboard]'"),
        (
            "fit --config a --tensorboard true",
            "--tensorboard true needs tensorboard: pip install 'ebmlab[tensorboard]'",
        ),
        ("fit --tensorboard=true", "--tensorboard true needs tensorboard: pip install 'ebmlab[tensorboard]'"),
        ("zoo export zoo/rbm-digits a.onnx", "a.onnx needs onnx and onnxscript: pip install 'ebmlab[onnx]'"),
        ("zoo pull hf://me/mine", "hf:// needs huggingface_hub: pip install 'ebmlab[hub]'"),
        ("convert a.h5 mine", "a.h5 needs h5py: pip install 'ebmlab[exchange]'"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_loaded(words: str, said: str) -> None:
    missing = dict.fromkeys(["optuna", "plotly", "tensorboard", "onnx", "onnxscript", "huggingface_hub", "h5py"])
    program = PROGRAM.replace("try:", f"sys.modules.update({missing})\ntry:", 1)
    done = subprocess.run([sys.executable, "-c", program, *words.split()], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}\n")


def test_every_extra_that_is_named_is_one(request: pytest.FixtureRequest) -> None:
    extras = tomllib.loads((request.config.rootpath / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in _EXTRAS.items():
        assert any(re.match(rf"{package.replace('_', '[-_]')}\b", line) for line in extras[extra])


def test_a_command_that_runs_is_asked_for_an_answer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for module in (quick_answers, cli):
        monkeypatch.setattr(module, "answer", lambda given: asked.append(given))
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(sys, "argv", ["ebmlab", "fit", "--config", "gone"])
    with pytest.raises(SystemExit):
        entry.main()
    for signum, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(signum, handler)
    assert asked == [["fit", "--config", "gone"]]


@pytest.mark.slow
def test_ctrl_c_during_the_imports_is_a_line(tmp_path: Path) -> None:
    """A module of the name of a package that the command line imports waits to be interrupted."""
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "pytorch_lightning.py").write_text(slow)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    begin = [sys.executable, "-m", "ebmlab", "fit", "--config", "a.yaml"]
    done = subprocess.run(begin, capture_output=True, text=True, env=environment, timeout=60)
    first, last = done.stderr.splitlines()
    assert first == f"ebmlab {__version__}: loading PyTorch"  # before anything is imported
    assert (done.returncode, last) == (130, "stopped by Ctrl-C: nothing was kept; give the same command again")


@pytest.mark.slow
def test_other_processes_of_a_run_say_nothing_when_they_are_stopped(tmp_path: Path) -> None:
    """They said that nothing was kept, while the first one said how to go on."""
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n"
    (tmp_path / "pytorch_lightning.py").write_text(slow)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "LOCAL_RANK": "1"}
    begin = [sys.executable, "-m", "ebmlab", "fit", "--config", "a.yaml"]
    done = subprocess.run(begin, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.parametrize("command", ["fit", "validate", "test", "predict"])
def test_the_short_help_is_short_and_names_options_that_there_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short = page(command)
    assert short is not None and len(short.splitlines()) < 80
    with pytest.raises(SystemExit):
        main([command, "--help", "all"])
    every = capsys.readouterr().out
    assert every.startswith("usage: python -m ebmlab ") and "Run inference on your data" not in every
    for option in re.findall(r"--(?:trainer\.)?[a-z_]+(?= )", short):
        assert option in every or option in ("--help", "--debug", "--import"), option
    if command == "fit":
        for name in ("GRBM", "GibbsLangevin", "ReplayBuffer", "GradientGuided", "Digits", "SampleGrid"):
            assert name in short


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "list"])
def test_help_says_how_the_command_was_started(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the name of the file that Python runs."""
    monkeypatch.setattr(sys, "argv", ["/packages/ebmlab/__main__.py"])
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert not end.code
    assert capsys.readouterr().out.startswith(f"usage: python -m ebmlab {command} ")


def test_help_names_every_command() -> None:
    together = ("compare", "dashboard", "sweep", "convert", "zoo", "mutate", "solve")
    assert [*LightningCLI.subcommands(), *MODEL_COMMANDS, "sample", "list", *together] == list(COMMANDS)
    assert all(f"\n  {command} " in HELP for command in COMMANDS)
