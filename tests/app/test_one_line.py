"""Whatever happens to a command from outside, it ends in one line, or goes on where nothing is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ebmlab
from ebmlab.app.cli import main

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
HERE = [sys.executable, "-m", "ebmlab"]
SHORT = [
    *("fit", f"--config={ROOT / 'configs' / 'grbm_digits.yaml'}", "--wandb=disabled", "--trainer.accelerator=cpu"),
    *("--trainer.max_epochs=1", "--trainer.limit_train_batches=2", "--trainer.limit_val_batches=0", "--name=a"),
    *("--model.num_steps=2", "--model.energy.num_hidden=4"),
]


def ended(*words: str, cwd: Path, env: dict[str, str] | None = None, shell: str = "") -> tuple[int, list[str]]:
    """The exit code of a command and the lines on its stderr, but that which says what is loaded."""
    command: list[str] = ["bash", "-c", f'"$0" "$@" {shell}', *HERE, *words]
    environment = {name: value for name, value in (env or ENVIRONMENT).items() if name != "EBMLAB_RUN_FOLDER"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, [line for line in done.stderr.splitlines() if "loading PyTorch" not in line]


def said(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """As `ended`, of a command in this process, which has imported everything already."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    lines = capfd.readouterr().err.splitlines()
    return int(end.value.code or 0), [line for line in lines if line.startswith("error: ")]


@pytest.fixture(params=["list", "compare", "dashboard", "zoo"])
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """A command that is answered at once, and what it reads."""
    (tmp_path / "configs").mkdir()
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "config.yaml").write_text("seed: 1")
        (tmp_path / run / "metrics.csv").write_text("step,fid\n1,2\n")
    yield [request.param, *{"compare": ["a", "b"], "dashboard": ["a"]}.get(request.param, [])]


def test_a_pipe_that_is_closed_ends_no_answer(tmp_path: Path) -> None:
    assert ended("list", cwd=tmp_path, shell="| true; exit ${PIPESTATUS[0]}") == (0, [])


@pytest.mark.slow
def test_a_pipe_that_is_closed_ends_no_training(tmp_path: Path) -> None:
    assert ended(*SHORT, cwd=tmp_path, shell="2>&1 | head -1; exit ${PIPESTATUS[0]}") == (0, [])
    assert (tmp_path / "runs" / "grbm_digits" / "a" / "checkpoints" / "last.ckpt").exists()


@pytest.mark.slow
def test_closed_standard_streams(tmp_path: Path) -> None:
    assert ended("list", cwd=tmp_path, shell=">&- 2>&-")[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_was_not_printed_is_said(tmp_path: Path) -> None:
    line = "error: what was printed is lost in part: No space left on device"
    assert ended("list", cwd=tmp_path, shell="> /dev/full") == (2, [line])


def test_a_name_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    code, lines = ended("compare", "\udcff", "b", cwd=tmp_path, env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert code == 2 and len(lines) == 1 and "\\udcff: no such folder" in lines[0]


@pytest.mark.parametrize("words", [["compare", "a", "b"], ["fit", "--config", "a.yaml"], ["zoo", "pull", "mine"]])
def test_a_working_directory_that_was_deleted(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = "error: the folder where the command was given has been deleted: cd to another one"
    shell = subprocess.run(
        ["bash", "-c", 'cd gone; rmdir ../gone; "$0" "$@"', *HERE, *words],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (shell.returncode, shell.stderr.splitlines()[-1]) == (2, line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "raise OSError('libtorch_cpu.so: cannot open\\nshared object')",
            "(libtorch_cpu.so: cannot open shared object)",
        ),
        ("import there_is_none", "the package there_is_none is missing"),
        ("raise MemoryError", "out of memory"),
        ('raise RuntimeError("can\'t start new thread")', "out of memory"),
        ("raise ImportError('libtorch.so: failed to map segment from shared object')", "out of memory"),
    ],
)
def test_a_broken_torch(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text(text)
    code, lines = ended("fit", cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": f"{tmp_path / 'broken'}:{ROOT}"})
    assert code == 2 and len(lines) == 1 and lines[0].startswith("error: ") and reason in lines[0]


def test_a_user_without_a_home(tmp_path: Path) -> None:
    """The cache is asked for, and nobody knows the home of such a user."""
    program = (
        "import os, runpy, sys; os.environ.pop('HOME', None); os.environ.pop('XDG_CACHE_HOME', None)\n"
        "os.environ.pop('EBMLAB_CACHE', None); os.path.expanduser = lambda path: path\n"
        "sys.argv = ['ebmlab', 'zoo']; runpy.run_module('ebmlab', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    line = "error: this user has no home folder: set EBMLAB_CACHE to a folder for what is kept\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_ctrl_c_during_an_answer_is_a_line(waiting: list[str], tmp_path: Path) -> None:
    """Python is interrupted when it opens the first file that the command reads."""
    program = (
        "import os, pathlib, runpy, signal, sys\n"
        "def opened(event, arguments):\n"
        "    if event == 'open' and 'ebmlab.app.quick_answers' in sys.modules and 'ebmlab.app.output' in sys.modules:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['ebmlab', *sys.argv[1:]]; sys.addaudithook(opened)\n"
        "runpy.run_module('ebmlab', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, *waiting]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    line = "stopped by Ctrl-C: nothing was kept; give the same command again\n"
    assert (done.returncode, done.stderr) == (130, line)


@pytest.mark.parametrize("words", [["fit", "--conf", "a"], ["fit", "--config", "grbm_digits", "--nam=a"]])
def test_options_are_not_abbreviated(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a config named by `--conf` may import was decided by `--config` alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    code, lines = said(capfd, *words)
    assert code == 2 and len(lines) == 1 and words[-1].partition("=")[0].removeprefix("a") in lines[0]
    assert not list(tmp_path.iterdir())


NOBODY_WRITES = ("Operation not permitted", "Permission denied", "Read-only file system", "No such file or directory")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /sys, in which nobody makes folders")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zoo", "export", "zoo/rbm-digits", "/sys/a/b.pt2"], "/sys/a: {}"),
        (["predict", "--ckpt_path=zoo/rbm-digits", "--output=/sys/a/b"], "/sys/a/b/samples.pt {}"),
        (["predict", "--ckpt_path=zoo/rbm-digits", "--output=/sys/b.npy"], "/sys/b.npy {}"),
        (["score", "x.npy", "--ckpt_path=zoo/rbm-digits", "--output=/sys/a/b.csv"], "/sys/a/b.csv {}"),
        (["features", "x.npy", "--ckpt_path=zoo/rbm-digits", "--output=/sys/b.npy"], "/sys/b.npy {}"),
        (["complete", "x.npy", "--given=top", "--ckpt_path=zoo/rbm-digits", "--output=/sys/b.npy"], "/sys/b.npy {}"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_work(
    words: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before data are read, too: there is no x.npy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    code, lines = said(capfd, *words)
    mend = "cannot be written ({}): name another file (--output)"
    assert code == 2 and len(lines) == 1
    assert lines[0] in [
        f"error: {message.format(why if words[0] == 'zoo' else mend.format(why))}" for why in NOBODY_WRITES
    ]


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["predict", "--ckpt_path=zoo/rbm-digits", "--output=a"], "a/samples.pt"),
        (["zoo", "export", "zoo/rbm-digits", "a.pt2"], "a.pt2"),
        (["features", "x.npy", "--ckpt_path=zoo/rbm-digits", "--output=a.npy"], "a.npy"),
    ],
)
def test_no_space_left_names_the_file(
    words: list[str], file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stands in for a full disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    np.save(tmp_path / "x.npy", np.zeros((64, 64), np.float32))
    ebmlab.load("zoo/rbm-digits")  # the model is copied to the cache
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        code, lines = said(capfd, *words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, lines) == (2, [f"error: {file}: File too large"])
    assert not (tmp_path / file).exists()


@pytest.mark.slow
@pytest.mark.parametrize("world", [{"WORLD_SIZE": "2"}, {}])
def test_the_processes_of_a_run_say_one_line(world: dict[str, str], tmp_path: Path) -> None:
    """The first that fails says why, unless it is killed before it can; one that lost its connection waits for it."""
    begins = "import sys; from ebmlab.app.distributed_errors import speaks, has_spoken; line = speaks(sys.argv[1])"
    said = []
    for rank, line in (
        ("1", "killed"),
        ("1", "error: no such table"),
        ("0", "error: gloo: Connection closed by peer"),
        ("0", "error: a"),
    ):
        environment = ENVIRONMENT | world | {"LOCAL_RANK": rank, "EBMLAB_LAUNCH": "a", "TMPDIR": str(tmp_path)}
        ends = "" if line == "killed" else "; print(line); has_spoken()"
        command = [sys.executable, "-c", begins + ends, line]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        said.append(done.stdout.strip())
    assert said == ["", "error: no such table", "None", "None"]
