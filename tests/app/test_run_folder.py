"""Only one process at a time uses a run folder, and later commands find it again."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from ebmlab.app.checkpoints import WholeCheckpoints, find_checkpoint
from ebmlab.app.run_folder import (
    CONFIG,
    LAST,
    SOLUTION,
    Place,
    claim,
    contents,
    continued_run,
    how_to_go_on,
    in_a_run,
    new_run,
    newest_run,
    release,
)
from ebmlab.errors import UserError
from ebmlab.io.files import save

OTHER = """
import sys
from pathlib import Path
from ebmlab.app.run_folder import claim, release
from ebmlab.errors import UserError
for line in sys.stdin:
    try:
        claim(Path(line.strip()))
        print("claimed", flush=True)
    except UserError as error:
        print(error, flush=True)
    release()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    yield
    release()


@pytest.fixture(scope="module")
def other() -> Iterator[Callable[[str], str]]:
    """Claims a folder in another process for a moment, and returns what that says."""
    with subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None

        def claim_there(folder: str) -> str:
            process.stdin.write(f"{Path(folder).absolute()}\n".encode())
            process.stdin.flush()
            return process.stdout.readline().decode().strip()

        yield claim_there
        process.stdin.close()


def checkpoint(path: Path, step: int = 0, age: float = 0) -> Path:
    save({"state_dict": {}, "global_step": step}, path)
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


@pytest.mark.parametrize("name", ["..", ".", "", "~", "~/x", "a/b", "a\\b", "x" * 300, "a\nb", "ä" * 150, ".hidden"])
def test_names_that_cannot_be_folders(name: str) -> None:
    with pytest.raises(UserError, match="must be the name of a folder"):
        new_run("e", name)
    assert not Path("runs").exists()


def test_two_runs_of_one_second_have_two_folders() -> None:
    folders = {new_run("e", None) for _ in range(5)}
    assert len(folders) == 5
    release()
    assert not Path("runs").exists()  # nothing was written


def test_a_run_folder_is_locked_until_it_is_released(other: Callable[[str], str]) -> None:
    claim(Path("runs/e/a"))
    assert "runs/e/a is in use by another process" in other("runs/e/a")
    Path("runs/e/a/file").touch()
    release()
    assert other("runs/e/a") == "claimed"


def test_a_child_that_outlives_a_run_does_not_keep_its_folder(other: Callable[[str], str]) -> None:
    claim(Path("runs/e/a"))
    read, write = os.pipe()
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        os.write(there, b"x")
        os.read(read, 1)
        os._exit(0)
    try:
        os.read(here, 1)  # the child has begun
        Path("runs/e/a/file").touch()
        release()
        assert other("runs/e/a") == "claimed"
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)


def test_the_newest_run_is_that_of_the_newest_checkpoint() -> None:
    checkpoint(Path("runs/e/a [1]/checkpoints") / LAST, age=5)
    checkpoint(Path("runs/e/b/checkpoints") / LAST, age=9)
    Path("runs/e/later").mkdir()
    assert newest_run(Place("e", None)) == Path("runs/e/a [1]")
    assert newest_run(Place("e", "a [1]")) == Path("runs/e/a [1]")
    assert find_checkpoint("last", Place("e", "a [1]"))[0].parts[2] == "a [1]"
    with pytest.raises(UserError, match="no checkpoint in runs/e/later"):
        newest_run(Place("e", "later"))


@pytest.mark.parametrize("asked", ["last", "runs/e/a/checkpoints/last.ckpt"])
def test_a_damaged_last_checkpoint_is_replaced_by_the_newest_whole_one(asked: str) -> None:
    parent = Path("runs/e/a/checkpoints")
    checkpoint(parent / "epoch=1.ckpt", 1, age=30)
    checkpoint(parent / "epoch=2.ckpt", 2, age=20)
    torn = checkpoint(parent / "epoch=3.ckpt", 3, age=10)
    torn.write_bytes(torn.read_bytes()[:400])
    last = checkpoint(parent / LAST, 4)
    last.write_bytes(last.read_bytes().replace(b"global_step", b"global_stop"))
    with pytest.warns(UserWarning) as warned:
        path, content = find_checkpoint(asked, Place("e", "a"))
    assert (path.name, content["global_step"]) == ("epoch=2.ckpt", 2)
    messages = " ".join(str(w.message) for w in warned)
    assert "last.ckpt cannot be read" in messages and "goes on from" in messages


def test_the_checkpoint_of_a_requeued_job_goes_on_if_it_is_newer() -> None:
    """Lightning saves it in the run's folder when SLURM ends the job."""
    run = Path("runs/e/a")
    checkpoint(run / "checkpoints/epoch=9.ckpt", 9)
    checkpoint(run / "checkpoints" / LAST, 560, age=20)
    (run / "config.yaml").touch()
    older = checkpoint(run / "hpc_ckpt_1.ckpt", 500, age=30)
    assert find_checkpoint("last", Place("e", "a"))[1]["global_step"] == 560
    newer = checkpoint(run / "hpc_ckpt_2.ckpt", 600, age=10)
    path, content = find_checkpoint("last", Place("e", "a"))
    assert content["global_step"] == 600 and path.name == newer.name
    assert in_a_run(path) and continued_run(path, ["--name", "a"]) == run
    assert continued_run(path, ["--name=first", "--name", "a"]) == run  # the last of several counts
    newer.write_bytes(b"")
    with pytest.warns(UserWarning):
        assert find_checkpoint("last", Place("e", "a"))[1]["global_step"] == 560
    named = find_checkpoint(str(run / "checkpoints" / LAST), Place("e", "a"))[1]
    assert named["global_step"] == 560 and older.exists(), "a file that was named is taken"


@pytest.mark.slow
def test_resume_auto_goes_on_from_the_checkpoint_of_a_requeued_job(run: Callable[..., None]) -> None:
    fit = ["fit", "--resume=auto", "--model.init_args.lr_scheduler=null"]
    run(*fit, "--name=a", "--trainer.max_epochs=1")
    run(*fit, "--name=b", "--trainer.max_epochs=2")
    requeued = Path("runs/grbm_digits/a/hpc_ckpt_1.ckpt")
    requeued.write_bytes(Path("runs/grbm_digits/b/checkpoints/last.ckpt").read_bytes())
    later = time.time() + 5
    os.utime(requeued, (later, later))
    for name in "ab":
        run(*fit, f"--name={name}", "--trainer.max_epochs=3")
    rows_of = [rows(name).count("\n") for name in "ab"]
    assert rows_of[0] < rows_of[1], "the second epoch was trained elsewhere"
    a, b = (torch.load(f"runs/grbm_digits/{name}/checkpoints/last.ckpt", weights_only=True) for name in "ab")
    assert a["global_step"] == b["global_step"]
    assert all(torch.equal(a["state_dict"][key], b["state_dict"][key]) for key in a["state_dict"])


def test_all_checkpoints_damaged() -> None:
    for name in ("epoch=1.ckpt", LAST):
        path = checkpoint(Path("runs/e/a/checkpoints", name))
        path.write_bytes(b"")
    with pytest.warns(UserWarning), pytest.raises(UserError, match="none of the checkpoints in"):
        find_checkpoint("last", Place("e", "a"))


def rows(name: str) -> str:
    return Path(f"runs/grbm_digits/{name}/metrics.csv").read_text()


@pytest.mark.slow
def test_resume_auto_starts_and_continues_a_run(run: Callable[..., None]) -> None:
    fit = ["fit", "--resume=auto", "--model.init_args.lr_scheduler=null"]
    run(*fit, "--name=a", "--trainer.max_epochs=2")
    run(*fit, "--name=a", "--trainer.max_epochs=3")
    run(*fit, "--name=a", "--trainer.max_epochs=3")  # nothing is left to do
    run(*fit, "--name=b", "--trainer.max_epochs=3")
    a, b = (torch.load(f"runs/grbm_digits/{name}/checkpoints/last.ckpt", weights_only=True) for name in "ab")
    assert a["global_step"] == b["global_step"] > 0
    assert all(torch.equal(a["state_dict"][key], b["state_dict"][key]) for key in a["state_dict"])
    assert "resume" not in Path("runs/grbm_digits/a/config.yaml").read_text()


@pytest.mark.slow
def test_resume_auto_restarts_a_run_that_has_no_checkpoint(run: Callable[..., None]) -> None:
    for remains in ("metrics.csv", "config.yaml", "images/a.png", "checkpoints/.ebmlab-99999999.last.ckpt"):
        path = Path("runs/grbm_digits/a", remains)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Path("runs/grbm_digits/a/metrics.csv").write_text("step,train/energy_gap\n0,1.0\n10,1.0\n20,1")
    run("fit", "--resume=auto", "--name=a", "--trainer.max_epochs=1")
    assert Path("runs/grbm_digits/a/checkpoints/last.ckpt").exists()
    assert not Path("runs/grbm_digits/a/checkpoints/.ebmlab-99999999.last.ckpt").exists()


@pytest.mark.slow
def test_resume_auto_needs_a_name(fails: Callable[..., str], run: Callable[..., None]) -> None:
    assert "say which run by --name" in fails("fit", "--resume=auto")
    assert "leave --ckpt_path out" in fails("fit", "--resume=auto", "--name=a", "--ckpt_path=last")
    assert "resume" in fails("fit", "--resume=yes", "--name=a")


@pytest.mark.slow
def test_a_fast_dev_run_is_never_continued(fails: Callable[..., str], run: Callable[..., None]) -> None:
    run("fit", "--trainer.fast_dev_run=true", "--name=trial")
    assert not list(Path("runs").rglob("*.ckpt"))
    assert "no checkpoint" in fails("fit", "--ckpt_path=last")


def test_an_empty_folder_that_was_there_before_stays() -> None:
    Path("mine/out").mkdir(parents=True)
    claim(Path("mine/out/runs/e/a"))
    release()
    assert Path("mine/out").is_dir() and not Path("mine/out/runs").exists()
    claim(Path("mine/out"))
    release()
    assert Path("mine/out").is_dir()


def test_commands_that_are_shown_can_be_pasted_whatever_the_run_is_called() -> None:
    run = Path("runs/digits/a b; c")
    last = checkpoint(run / "checkpoints" / LAST)
    wandb = run / "wandb" / "offline-run-1"
    wandb.mkdir(parents=True)
    (run / CONFIG).write_text("model:\n  class_path: my_models.Mine\n")
    shown = {line.split()[0]: shlex.split(line)[1:] for line in contents(run) if "ebmlab" in line or "sync" in line}
    predict = ["python", "-m", "ebmlab", "predict", "--config", str(run / CONFIG), "--ckpt_path", str(last)]
    assert shown == {"sample": predict, "upload": ["wandb", "sync", str(wandb)]}
    claim(run)
    (run / SOLUTION).touch()
    for command in ("fit", "sample", "solve"):
        words = shlex.split(how_to_go_on([command], ""))
        assert words[words.index("--name") + 1] == run.name


def test_a_folder_of_ones_own_is_continued_and_not_overwritten(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """As on clusters: the same command again, with a folder on another disk."""
    fit = ["fit", "--trainer.default_root_dir=disk/r", "--model.init_args.lr_scheduler=null"]
    folder = Path("disk/r/checkpoints")

    def steps() -> int:
        return int(torch.load(folder / LAST, weights_only=True)["global_step"])

    run(*fit, "--resume=auto", "--trainer.max_epochs=1")
    first = steps()
    run(*fit, "--resume=auto", "--trainer.max_epochs=2")
    assert steps() == 2 * first
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    with pytest.raises(SystemExit):
        run(*fit, "--trainer.max_epochs=1")
    assert "error: disk/r exists already: choose another --trainer.default_root_dir, or" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == kept
    run(*fit, "--ckpt_path=last", "--trainer.max_epochs=3")
    assert steps() == 3 * first and not Path("runs").exists()
    Path("disk/r").rename("disk/moved")
    run("predict", "--ckpt_path=disk/moved", "--num_samples=4", bare=True)
    assert Path("disk/moved/samples").is_dir() and not Path("disk/r").exists()


def test_the_config_of_a_continued_run_says_what_is_used(run: Callable[..., None]) -> None:
    fit = ["fit", "--resume=auto", "--name=a", "--model.init_args.lr_scheduler=null"]
    run(*fit, "--trainer.max_epochs=1", "--model.optimizer.lr=0.003")
    with pytest.warns(UserWarning, match="continues with the checkpoint's lr = 0.003, not 0.5"):
        run(*fit, "--trainer.max_epochs=2", "--model.optimizer.lr=0.5")
    config = yaml.safe_load(Path("runs/grbm_digits/a/config.yaml").read_text())
    assert config["model"]["init_args"]["optimizer"]["init_args"]["lr"] == 0.003


@pytest.mark.parametrize(
    ("interval", "why"),
    [
        ("--trainer.check_val_every_n_epoch=1", "min_delta=1000"),
        ("--trainer.val_check_interval=0.5", "min_delta=1000"),
        ("--trainer.check_val_every_n_epoch=1", "stopping_threshold=1e9"),  # in epoch 0
    ],
)
def test_a_run_that_stopped_early_stays_as_it_is(interval: str, why: str, run: Callable[..., None]) -> None:
    fit = [
        "fit",
        "--resume=auto",
        "--name=a",
        "--model.init_args.lr_scheduler=null",
        "--trainer.max_epochs=9",
        interval,
    ]
    fit += ["--callbacks.EarlyStopping.monitor=val/energy", "--callbacks.EarlyStopping.patience=2"]
    fit += [f"--callbacks.EarlyStopping.{why}", "--trainer.limit_val_batches=1"]
    steps = []
    for _ in range(3):
        run(*fit)
        steps.append(torch.load(f"runs/grbm_digits/a/checkpoints/{LAST}", weights_only=True)["global_step"])
    assert len(set(steps)) == 1 and 0 < steps[0] < 9 * 11


def test_patience_that_counts_epochs_without_a_score_is_refused_at_once(fails: Callable[..., str]) -> None:
    options = ["--callbacks.EarlyStopping.monitor=ais/log_likelihood", "--callbacks.EarlyStopping.mode=max"]
    options += ["--callbacks.AIS.every_n_epochs=2", "--callbacks.AIS.sampler=BlockGibbs", "--wandb=disabled"]
    line = fails("fit", *options, "--name=a")
    assert line.startswith("error: EarlyStopping monitors ais/log_likelihood, which AIS evaluates once in 2 epochs")
    assert not Path("runs").exists()


@pytest.mark.parametrize("moved", [False, True])
def test_states_of_checkpoints_follow_a_run_that_was_moved(moved: bool, tmp_path: Path) -> None:
    """Those in a folder that the config has named do not, nor does a name of anything but a checkpoint."""
    there, own = tmp_path / "a" / "checkpoints", tmp_path / "own"
    for folder in (there, own):
        folder.mkdir(parents=True)
        for name in ("best.ckpt", "notes.txt"):
            (folder / name).write_text("")
    best = [{str(folder / name): 1.0 for name in ("best.ckpt", "notes.txt")} for folder in (there, own)]
    states = {str(k): {"dirpath": str(d), "best_k_models": best[k]} for k, d in enumerate((there, own))}
    save({"callbacks": states, "state_dict": {}, "pytorch-lightning_version": "2.6.0"}, there / LAST)
    now = there
    if moved:
        (tmp_path / "a").rename(tmp_path / "b")
        now = tmp_path / "b" / "checkpoints"
    found = WholeCheckpoints().load_checkpoint(now / LAST)["callbacks"]
    assert found["1"] == {"dirpath": str(own), "best_k_models": best[1]}
    assert found["0"]["dirpath"] == str(now)
    assert found["0"]["best_k_models"] == ({str(now / "best.ckpt"): 1.0} if moved else best[0])


@pytest.mark.slow
def test_a_run_that_cannot_be_remembered_says_so_and_how_to_use_it(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later command would take the run for a stranger's, and refuse the path of its data."""
    np.save("bits.npy", np.tile([[0, 1, 1], [1, 0, 1]], (300, 1)))
    Path("no_folder").touch()
    monkeypatch.setenv("EBMLAB_CACHE", "no_folder/cache")
    data = ["--data=datamodules.Arrays", "--data.path=bits.npy", "--data.domain=binary", "--data.batch_size=100"]
    with pytest.warns(UserWarning, match="EBMLAB_CACHE to a folder that can be written"):
        run(
            "fit",
            *data,
            "--callbacks.AIS=false",
            "--trainer.max_epochs=1",
            "--name=a",
            config="rbm_digits",
            quick=False,
        )
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  sample")]
    words = shlex.split(shown[0])[4:]
    run(words[0], *words[1:], "--num_samples=4", bare=True)
    assert Path("runs/rbm_digits/a/samples/samples.pt").exists()
