"""A run that a stranger has made acts on nothing: no code, no file outside, no request, no variable."""

from __future__ import annotations

import gc
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
import yaml
from helpers_tier import cases

import ebmlab
from ebmlab.app.checkpoint_config import beside
from ebmlab.app.cli import main
from ebmlab.app.own_runs import check_links
from ebmlab.app.wandb_run import git_commit, wandb_run
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import rebuild

RUN = Path("runs/grbm_digits/a")
CONFIG = RUN / "config.yaml"
CHECKPOINT = RUN / "checkpoints" / "last.ckpt"
SECRET = "the-value-of-a-variable"
MARK = "import pathlib\npathlib.Path(__file__).with_name('executed').touch()\nclass Foo: pass\n"
SHADOWS = ("ast", "attrs", "joblib", "helper", "last", "signal", "yaml")
ENERGY = "model.init_args.energy"
LIGHTNING = "pytorch_lightning"


class Counting(http.server.BaseHTTPRequestHandler):
    """Counts requests of any kind, and answers none."""

    asked = 0

    def count(self) -> None:
        type(self).asked += 1
        self.send_error(404)

    do_GET = do_HEAD = do_POST = do_PUT = count  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server on this machine, which must not be asked."""
    Counting.asked = 0
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    assert Counting.asked == 0, "nothing may be sent"


@pytest.fixture
def hostile(
    run: Callable[..., None], brief_run: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Puts a run in the working directory, among modules that leave a mark if they are run; changes its config."""
    for name in SHADOWS:
        Path(f"{name}.py").write_text(MARK)
    monkeypatch.setenv("STRANGERS_WISH", SECRET)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("WANDB_API_KEY", 40 * "a")
    monkeypatch.setenv("WANDB_BASE_URL", server)
    monkeypatch.setenv("HF_ENDPOINT", server)

    def change(settings: dict[str, Any]) -> None:
        config = yaml.safe_load(CONFIG.read_text())
        for key, value in settings.items():
            *path, last = key.split(".")
            node = config
            for part in path:
                node = node.setdefault(part, {})
            node[last] = value
        CONFIG.write_text(yaml.safe_dump(config))

    yield change
    assert not list(tmp_path.rglob("executed")), "no module may be run"
    assert not list(tmp_path.rglob("outside*")), "nothing may be written where a stranger says"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != tmp_path / CONFIG]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()], "no variable may leak"


@pytest.mark.parametrize("module", ["importlib", "contextlib", "pathlib", "ebmlab", "signal"])
def test_a_safe_path_keeps_python_itself_from_the_working_directory(module: str, tmp_path: Path) -> None:
    """As SECURITY.md says: `python -m` looks for modules there before ebmlab can leave the folder out."""
    (tmp_path / f"{module}.py").write_text(MARK)
    environment = os.environ | {"PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "ebmlab", "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"ebmlab {ebmlab.__version__}\n" and [path.name for path in tmp_path.iterdir()] == [
        f"{module}.py"
    ]


def callback(path: str, /, **options: Any) -> dict[str, Any]:
    return {"class_path": path, "init_args": options}


LEFT_OUT: dict[str, dict[str, Any]] = {
    "a folder for everything": {"trainer.default_root_dir": "outside"},
    "a logger that writes": {"trainer.logger": callback(f"{LIGHTNING}.loggers.CSVLogger", save_dir="outside")},
    "a logger that sends": {
        "trainer.logger": callback(f"{LIGHTNING}.loggers.WandbLogger", offline=False, project="theirs", log_model=True)
    },
    "W&B online, its code and notes": {
        "wandb": "online",
        "wandb_project": "theirs",
        "wandb_run": {"entity": "theirs", "save_code": True, "notes": "${oc.env:STRANGERS_WISH}"},
    },
    "TensorBoard": {"tensorboard": True},
    "a profiler's folder": {
        "trainer.profiler": callback(f"{LIGHTNING}.profilers.SimpleProfiler", dirpath="outside", filename="outside")
    },
    "checkpoints elsewhere": {
        "trainer.callbacks": [callback(f"{LIGHTNING}.callbacks.ModelCheckpoint", dirpath="outside", save_last=True)]
    },
    "a plugin": {"trainer.plugins": [{"class_path": f"{LIGHTNING}.plugins.io.AsyncCheckpointIO"}]},
    "a callback by name": {"callbacks": {"helper.Foo": False}},
    "another base": {"name": "helper.v2", "ckpt_path": "outside.ckpt", "resume": "auto"},
}


@pytest.mark.filterwarnings("ignore:lr_scheduler. the learning rate falls until epoch 1 of 2")
@cases(
    ("command", "attack"),
    [(command, attack) for attack in LEFT_OUT for command in ("fit", "test")],
    fast=range(1, 2 * len(LEFT_OUT), 4),  # what is left out does not depend on the command
)
def test_what_is_not_of_the_model_is_left_out(
    command: str, attack: str, hostile: Callable[..., None], tmp_path: Path
) -> None:
    """The command works on the model, the data and the seed of the run, and on nothing else of it."""
    hostile(LEFT_OUT[attack])
    options = ["--trainer.accelerator=cpu", "--trainer.limit_test_batches=1", "--trainer.log_every_n_steps=1"]
    options += ["--trainer.max_epochs=2"] * (command == "fit")
    main([command, f"--ckpt_path={CHECKPOINT}", *options])
    assert (RUN / "metrics.csv" if command == "fit" else RUN / "test" / "metrics.csv").exists()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a variable as a word": ({"model.init_args.density": "${oc.env:STRANGERS_WISH}"}, "numbers and words alone"),
    "a variable as a size": ({"data.init_args.batch_size": "${oc.env:STRANGERS_WISH}"}, "numbers and words alone"),
    "a file as a sampler": ({"model.init_args.sampler": "words"}, "numbers and words alone"),
    "a language model": (
        {ENERGY: callback("ebmlab.energies.MaskedLanguageModel", text="a [MASK]", model="their/model")},
        "reaches the network",
    ),
    "a language model by a setting": (
        {ENERGY: callback("ebmlab.energies.MaskedLanguageModel", text="a [MASK]", model="${setting:data}")},
        "reaches the network",
    ),
    "a network that downloads its weights": (
        {ENERGY: callback("torchmetrics.image.fid.FrechetInceptionDistance", feature=64)},
        "name the config",
    ),
    "a path": ({"data": callback("ebmlab.datamodules.Arrays", path="/etc/passwd")}, "add --data.path"),
    "a data set of other code": (
        {"data": callback("ebmlab.datamodules.FromDataset", train={"class_path": "helper.Foo"})},
        "name the config",
    ),
    "a module that a file's name names": ({"data": {"class_path": "last.Foo"}}, "name the config"),
    "its class as a word": ({"model.init_args.sampler": "helper.Foo"}, "name the config"),
    "a method that reads a file": (
        {"model": callback("ebmlab.learners.ContrastiveDivergence.load_from_checkpoint", checkpoint_path="words")},
        "no class of a model",
    ),
    "a callback of functions": (
        {"trainer.callbacks": [callback(f"{LIGHTNING}.callbacks.LambdaCallback", setup="helper.Foo")]},
        "name the config",
    ),
    "no words at all": ({"model.init_args.density": "\x1b]0;owned\x07"}, "numbers and words alone"),
}


@pytest.mark.parametrize("attack", REFUSED)
@cases("command", ["predict", "test"], fast=[0])
def test_what_is_no_plain_setting_of_the_model_is_refused(
    command: str, attack: str, hostile: Callable[..., None], fails: Callable[..., str]
) -> None:
    Path("words").write_text("{class_path: helper.Foo}")
    settings, said = REFUSED[attack]
    hostile(settings)
    named = "--output=helper.d" if command == "predict" else "--name=helper.v2"
    line = fails(command, f"--ckpt_path={CHECKPOINT}", named, bare=True)
    assert said in line and "\x1b" not in line and "\x07" not in line


def test_letters_of_sequences_are_words(tmp_path: Path) -> None:
    letters = {"alphabet": "-ACGU", "gap": "-"}
    model = callback("ebmlab.learners.ContrastiveDivergence", num_steps=1)
    config = {"model": model, "data": callback("ebmlab.datamodules.Alignment", path="family.fasta", **letters)}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert beside(tmp_path / "config.yaml")["data"]["init_args"] == letters


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # torchvision keeps the answer that says no
@cases("options", [{"download": True, "root": "outside"}, {}], fast=[0])
def test_data_are_downloaded_only_if_the_user_says_so(
    options: dict[str, Any],
    hostile: Callable[..., None],
    fails: Callable[..., str],
    server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MNIST downloads by default, and so do others; a stranger's run asks for nothing, whatever it says."""
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [f"{server}/"])
    monkeypatch.setenv("EBMLAB_DATA", "data")
    hostile({"data": callback("ebmlab.datamodules.MNIST", **options), f"{ENERGY}.init_args.num_coordinates": 784})
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    hidden = checkpoint["state_dict"]["energy.W"].shape[1]
    checkpoint["state_dict"] |= {f"energy.{name}": value for name, value in GRBM(784, hidden).state_dict().items()}
    checkpoint["preprocessing"] = None
    torch.save(checkpoint, CHECKPOINT)
    assert "download is off" in fails("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    assert Counting.asked == 0
    assert "download failed" in fails("test", f"--ckpt_path={CHECKPOINT}", "--data.download=true", bare=True)
    assert Counting.asked > 0, "the server counts"
    Counting.asked = 0
    gc.collect()  # the answers that are kept, while their warning is ignored


def test_names_of_files_grant_no_module(hostile: Callable[..., None], run: Callable[..., None]) -> None:
    """`last.ckpt` and `helper.d` are no modules, although `last.py` and `helper.py` lie in the working directory."""
    hostile({})
    before = list(sys.path)
    run("predict", f"--ckpt_path={CHECKPOINT}", "--output=helper.d", "--num_samples=2", "--num_steps=1", bare=True)
    assert sys.path == before and not {"last", "helper"} & sys.modules.keys()


def test_links_that_lead_out_of_a_strangers_run_are_refused(
    hostile: Callable[..., None], fails: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An archive can hold a link in the place of a folder into which results are written."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    hostile({"seed_everything": 1})
    (RUN / "test").symlink_to(elsewhere)
    assert "is a link to" in fails("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    assert not list(elsewhere.iterdir())


def test_links_of_wandb_to_its_logs_may_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So results can go into a stranger's run twice."""
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    log = tmp_path / "cache" / "logs" / "core-debug-1.log"
    link = tmp_path / "run" / "test" / "wandb" / "offline-run-1" / "logs" / "debug-core.log"
    for folder in (log.parent, link.parent, tmp_path / "run" / "checkpoints"):
        folder.mkdir(parents=True)
    log.touch()
    link.symlink_to(log)
    check_links(tmp_path / "run")
    for target in (log.parent, log.parent.parent / "a.log", tmp_path / "logs" / "a.log"):
        link.unlink()
        link.symlink_to(target)
        with pytest.raises(UserError, match=r"debug-core\.log is a link to .*, out of the run's folder"):
            check_links(tmp_path / "run")


def test_links_are_refused_for_another_config_of_the_users_too(
    hostile: Callable[..., None], fails: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    hostile({"seed_everything": 1})
    fit = ("fit", f"--ckpt_path={CHECKPOINT}", "--trainer.max_epochs=2", "--callbacks.SampleGrid.every_n_epochs=1")
    (RUN / "images").symlink_to(elsewhere)
    assert "is a link to" in fails(*fit)
    (RUN / "images").unlink()
    os.mkfifo(RUN / "rollbacks.csv")
    assert "is a pipe" in fails(*fit)
    assert not list(elsewhere.iterdir())


@pytest.mark.filterwarnings("ignore:lr_scheduler. the learning rate falls until epoch 1 of 2")
def test_a_checkpoint_removes_no_folder(hostile: Callable[..., None], run: Callable[..., None]) -> None:
    """Lightning removes the checkpoint that the state of `ModelCheckpoint` calls the last best one."""
    hostile({})
    Path("precious").mkdir()
    Path("precious", "a.txt").touch()
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    (state,) = (state for key, state in checkpoint["callbacks"].items() if key.startswith("ModelCheckpoint"))
    state["best_model_path"] = f"{RUN}/checkpoints/../../../../precious"
    torch.save(checkpoint, CHECKPOINT)
    run("fit", f"--ckpt_path={CHECKPOINT}", "--trainer.max_epochs=2", bare=True)
    assert Path("precious", "a.txt").exists()


@pytest.mark.parametrize("name", ["evil.function", "os.system", "helper.Foo"])
def test_a_checkpoint_names_no_function_that_makes_its_data(name: str, hostile: Callable[..., None]) -> None:
    hostile({})
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    checkpoint["datamodule_hyper_parameters"]["_instantiator"] = name
    torch.save(checkpoint, CHECKPOINT)
    assert Digits.load_from_checkpoint(CHECKPOINT, weights_only=True).batch_size == 300


def test_git_runs_no_program_of_the_folder(hostile: Callable[..., None]) -> None:
    """`git describe --dirty` would run what `core.fsmonitor` of the folder's own configuration names."""
    hostile({})
    Path("monitor").write_text("#!/bin/sh\ntouch executed\n")
    Path("monitor").chmod(0o755)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (
        ["init", "-q"],
        ["add", "words.txt"],
        ["commit", "-qm", "a"],
        ["config", "core.fsmonitor", "./monitor"],
    ):
        Path("words.txt").touch()
        subprocess.run(["git", *identity, *words], check=True)
    Path("words.txt").write_text("changed")
    commit = git_commit()
    assert commit is not None and len(commit) == 40


@pytest.mark.parametrize("folder", ["wandb", ".wandb"])
def test_a_folder_does_not_say_where_the_key_of_wandb_goes(
    folder: str, hostile: Callable[..., None], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile({})
    monkeypatch.delenv("WANDB_BASE_URL")
    Path(folder).mkdir()
    Path(folder, "settings").write_text(f"[default]\nbase_url = {server}\n")
    with pytest.raises(UserError, match="which would get your key"):
        wandb_run(RUN, "grbm_digits", "online", None, evaluates=True)


@pytest.mark.slow
def test_the_users_own_run_counts_as_a_whole(hostile: Callable[..., None], run: Callable[..., None]) -> None:
    """Its config is known by its content; a single changed letter makes it a stranger's, and `--config` the user's."""
    run("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    assert (RUN / "test" / "fid.csv").exists(), "the run's callbacks took part"
    shutil.rmtree(RUN / "test")
    CONFIG.write_text(f"{CONFIG.read_text()}# a comment\n")
    run("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    assert (RUN / "test" / "metrics.csv").exists() and not (RUN / "test" / "fid.csv").exists()
    run("test", f"--ckpt_path={CHECKPOINT}", f"--config={CONFIG}", bare=True)
    assert (RUN / "test" / "fid.csv").exists()


@pytest.mark.parametrize("words", [["list"], ["--version"], ["zoo"], ["score", "--help"]])
def test_modules_in_the_working_directory_are_not_run(words: list[str], hostile: Callable[..., None]) -> None:
    """`python -m` puts it first on the path, where a file would stand for any module of that name."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-m", "ebmlab", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize(
    "recipe",
    [
        {"class_path": "torchmetrics.image.fid.FrechetInceptionDistance", "init_args": {"feature": 64}},
        {"class_path": "ebmlab.energies.MaskedLanguageModel", "init_args": {"text": "a [MASK]", "model": "their/own"}},
        {"class_path": "ebmlab.learners.Learner.load_from_checkpoint", "init_args": {"checkpoint_path": "a.ckpt"}},
        {"class_path": "ebmlab.evaluation.metrics.FID", "init_args": {}},
        {"class_path": "torch.utils.data.DataLoader", "init_args": {"dataset": [1]}},
        {"class_path": "torch.hub.load", "init_args": {"repo_or_dir": "their/own"}},
    ],
)
def test_a_checkpoint_makes_parts_of_models_alone(recipe: dict[str, Any], hostile: Callable[..., None]) -> None:
    """Modules that happen to be imported are none, though their classes are torch's modules."""
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    checkpoint["hyper_parameters"]["energy"] = recipe
    torch.save(checkpoint, "hostile.ckpt")
    with pytest.raises(UserError):
        ebmlab.load("hostile.ckpt")
    with pytest.raises(UserError):
        rebuild(recipe)
