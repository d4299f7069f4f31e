"""What a stranger's files say reaches the terminal as text, takes no longer than it looks, and is no pipe."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import ebmlab
from ebmlab.app.config_files import load_config
from ebmlab.app.finished_run import read_run
from ebmlab.app.own_configs import with_pipes_read
from ebmlab.app.plain_yaml import plain_yaml
from ebmlab.app.quiet_lightning import quieten
from ebmlab.app.sample_files import read_samples
from ebmlab.app.sweep_space import read_space
from ebmlab.errors import UserError, shown
from ebmlab.io import zoo
from ebmlab.io.files import read_text
from ebmlab.io.zoo import pack, pull
from ebmlab.reading.pictures import FORMATS, SUFFIXES, read_picture
from ebmlab.trained import likelihood
from ebmlab.trained.likelihood import Kept

ROOT = Path(__file__).parents[2]
OBEYED = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202egnp.exe\x08\x7f"
LAUGHS = "\n".join(["a0: &a0 [1, 1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40))])


def is_plain(text: str) -> bool:
    return text == shown(text)


def python(*words: str, cwd: Path, given: str = "", cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EBMLAB_CACHE": str(cache or cwd / "cache")}
    command = [sys.executable, "-m", "ebmlab", *words]
    return subprocess.run(command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, check=False)


def test_a_terminal_obeys_nothing_that_is_shown() -> None:
    assert is_plain("plain text, with\ttabs\nand lines, \u00e9 and \u96ea")
    assert shown(OBEYED) == r"\x1b]0;owned\x07\x1b[31mred\x9b2J\u202egnp.exe\x08\x7f"
    assert str(UserError(OBEYED)) == shown(OBEYED)
    quieten()
    assert is_plain(warnings.formatwarning(UserWarning(OBEYED), UserWarning, "a.py", 1))


def test_cards_and_headers_reach_the_terminal_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of the zoo shows the first line of a pulled card; a table of runs the names of their metrics."""
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    pack(zoo.checkpoint("zoo/rbm-digits"), tmp_path / "theirs", "theirs", f"{OBEYED} a model")  # type: ignore[arg-type]
    pull(str(tmp_path / "theirs"))
    listed = python("zoo", "list", cwd=tmp_path)
    assert "gnp.exe" in listed.stdout and is_plain(listed.stdout)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("seed_everything: 0")
        (tmp_path / name / "metrics.csv").write_text(f"step,val/{OBEYED}\n1,2\n")
    compared = python("compare", "a", "b", cwd=tmp_path)
    assert "gnp.exe" in compared.stdout and is_plain(compared.stdout)
    failed = python("dashboard", OBEYED, cwd=tmp_path)
    assert failed.returncode == 2 and "gnp.exe" in failed.stderr and is_plain(failed.stderr)


@pytest.mark.parametrize("text", [LAUGHS, "a: &a [*a]", "a: &a {b: *a}", "[" * 1000])
def test_yaml_that_stands_for_more_than_it_looks_is_refused(text: str, tmp_path: Path) -> None:
    """Each of 40 lines repeats the one before nine times: 10^38 values."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(text)
    (tmp_path / "run" / "metrics.csv").write_text("step,train/loss\n1,2\n")
    readers: list[Callable[[], object]] = [
        lambda: load_config(text, "a.yaml"),
        lambda: plain_yaml(text, "a.yaml"),
        lambda: read_space(path),
        lambda: read_run(tmp_path / "run"),
    ]
    for read in readers:
        with pytest.raises(UserError, match=r"repeat parts|contains itself|nested too deeply|not valid"):
            read()


def test_aliases_that_repeat_little_are_read() -> None:
    assert plain_yaml("a: &a [1, 2]\nb: *a", "a.yaml") == {"a": [1, 2], "b": [1, 2]}
    assert load_config("a: &a [1, 2]\nb: *a", "a.yaml") == {"a": [1, 2], "b": [1, 2]}


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.pt", "a.png", "a.tif"])
def test_pipes_are_refused_where_a_file_of_samples_is_meant(name: str, tmp_path: Path) -> None:
    path = pipe(tmp_path / name)
    with pytest.raises(UserError, match="is a pipe or a device, but must be a file"):
        read_samples(str(path), ebmlab.load("zoo/rbm-digits").preprocessing, None, "x")


def test_pipes_and_devices_are_refused_where_a_text_is_meant(tmp_path: Path) -> None:
    for path in (pipe(tmp_path / "a.yaml"), Path("/dev/zero")):
        with pytest.raises(UserError, match="is a pipe or a device"):
            read_text(path)
        with pytest.raises(UserError, match="is a pipe or a device"):
            read_space(path)
    (tmp_path / "large.yaml").write_bytes(b" " * (2**24 + 1))
    with pytest.raises(UserError, match="more than 16 MiB"):
        read_text(tmp_path / "large.yaml")
    (tmp_path / "theirs").mkdir()
    pipe(tmp_path / "theirs" / "manifest.json")
    with pytest.raises(UserError, match="is a pipe or a device"):
        pull(str(tmp_path / "theirs"))


def test_a_config_comes_through_a_pipe(tmp_path: Path) -> None:
    """As from `--config <(...)` and `--config /dev/stdin`; every process that the command starts gets the text."""
    path = pipe(tmp_path / "a.yaml")
    writer = threading.Thread(target=path.write_text, args=("seed_everything: 3",))
    writer.start()
    given = with_pipes_read(["fit", "--config", str(path), "--name=a"])
    writer.join()
    assert given == ["fit", "--config", "seed_everything: 3\n", "--name=a"]
    with pytest.raises(UserError, match="more than 16 MiB"):
        with_pipes_read(["fit", "--config=/dev/zero"])


@pytest.mark.slow
def test_a_config_comes_from_standard_input(tmp_path: Path) -> None:
    config = f"base: {ROOT / 'configs' / 'rbm_digits.yaml'}\n"
    done = python("fit", "--config", "/dev/stdin", "--print_config", cwd=tmp_path, given=config)
    assert done.returncode == 0 and "ebmlab.energies.RBM" in done.stdout, done.stderr


def test_pictures_are_decoded_by_the_formats_that_are_named(tmp_path: Path) -> None:
    """A file called `.png` that holds PCX, or what another program has to draw, is no picture here."""
    picture = Image.new("RGB", (8, 8), (9, 8, 7))
    for suffix in SUFFIXES:
        picture.save(tmp_path / f"a{suffix}")
        assert read_picture(tmp_path / f"a{suffix}", (3, 8, 8)).pixels.shape == (3, 8, 8)
    for format in ("PCX", "EPS", "PPM", "TGA", "ICO", "SGI"):
        assert format not in FORMATS
        picture.save(tmp_path / "b.png", format=format)
        with pytest.raises(UserError, match="is not a readable picture"):
            read_picture(tmp_path / "b.png", (3, 8, 8))


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": float("nan")},
        {"value": float("inf")},
        {"std_error": -0.1},
        {"std_error": float("inf")},
        {"std_error": None},
        {"gap": float("nan")},
        {"doubts": 3},
        {"doubts": ["why"]},
        {"value": "many"},
    ],
)
def test_a_log_z_that_is_none_is_not_read(wrong: dict[str, object], tmp_path: Path) -> None:
    model = tmp_path / "model.ckpt"
    model.write_bytes(b"weights")
    kept = Kept(model, 2, 2)
    log_z = {"value": 3.0, "std_error": 0.1, "gap": 0.0, "doubts": [], "method": "AIS"}
    kept.path.touch(0o600)
    kept.path.write_text(json.dumps(kept.key | {"log_z": log_z}))
    read = kept.read()
    assert read is not None and read.log_z == 3
    kept.path.write_text(json.dumps(kept.key | {"log_z": log_z | wrong}))
    with pytest.warns(UserWarning, match=r"log_z.json is damaged: log Z is computed anew"):
        assert kept.read() is None


def test_a_pulled_log_z_is_checked_and_shown_as_its_makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "STEPS", 10)
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    source, theirs = zoo.checkpoint("zoo/rbm-digits"), tmp_path / "theirs"
    assert source is not None
    content = json.loads(source.with_name("log_z.json").read_text())
    x = np.zeros((2, 1, 8, 8), dtype=np.uint8)
    sizes = content["num_chains"], content["num_temperatures"]
    pack(source, theirs, "theirs", "# A card")
    content["checkpoint"] = hashlib.sha256((theirs / "model.ckpt").read_bytes()).hexdigest()
    content["log_z"]["method"] = f"AIS{OBEYED}"

    def described(values: dict[str, object]) -> str:
        (theirs / "log_z.json").write_text(json.dumps(content | {"log_z": content["log_z"] | values}))
        pack(source, theirs, "theirs", "# A card")
        model = ebmlab.load(pull(str(theirs)))
        return str(model.log_likelihood(torch.from_numpy(x), sizes[0], num_temperatures=sizes[1]).log_z)

    honest = described({})
    assert honest.endswith(", as its maker says)") and is_plain(honest)
    content |= {"num_chains": 2, "num_temperatures": 2}
    sizes = 2, 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert "as its maker says" not in described({"value": float("nan")})
    assert any("log_z.json is damaged: log Z is computed anew" in str(warning.message) for warning in caught)
