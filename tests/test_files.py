"""A file gets its final name only when it is complete, and a damaged file is refused."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ebmlab.io.files import Damaged, load, remove_temporaries, save, whole

CONTENT = {"x": torch.arange(3000.0), "name": "model"}
WRITER = """
import sys, torch
from pathlib import Path
from ebmlab.io.files import save
for i in range(10**9):
    save({"x": torch.full((2_000_000,), float(i))}, Path(sys.argv[1]))
    print(i, flush=True)
"""


def same(path: Path) -> bool:
    content = load(path)
    return torch.equal(content["x"], CONTENT["x"]) and content["name"] == "model"


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save(CONTENT, path)
    assert same(path)
    whole_file = path.read_bytes()
    for i in [*range(0, len(whole_file), 97), *range(len(whole_file) - 90, len(whole_file))]:
        path.write_bytes(whole_file[:i] + bytes([whole_file[i] ^ 1]) + whole_file[i + 1 :])
        with pytest.raises(Damaged):
            load(path)


@pytest.mark.parametrize("size", [0, 1, 500, 5000, -1, -40, -79, -80, -100])
def test_a_truncated_file_is_refused_unless_only_its_checksum_is_missing(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save(CONTENT, path)
    path.write_bytes(path.read_bytes()[:size])
    try:
        assert same(path)
        assert size == -79
    except Damaged:
        assert size != -79


def test_files_of_plain_torch_are_checked_by_their_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(CONTENT, path)
    assert same(path)
    flipped = bytearray(path.read_bytes())
    flipped[6000] ^= 4  # among the numbers, where torch itself detects nothing
    path.write_bytes(flipped)
    assert not torch.equal(torch.load(path)["x"], CONTENT["x"])
    with pytest.raises(Damaged, match="checksum"):
        load(path)


def test_nothing_is_executed(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "executed"),))

    torch.save({"state_dict": Evil()}, tmp_path / "a.pt")
    with pytest.raises(Damaged):
        load(tmp_path / "a.pt")
    assert not (tmp_path / "executed").exists()


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    """A limit on the size of files makes the write fail midway, like a full disk."""
    path = tmp_path / "a.pt"
    save(CONTENT, path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save({"x": torch.zeros(10**6)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert same(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_sigkill_during_a_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for delay in (0.0, 0.003, 0.01, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(2):
            writer.stdout.readline()
        time.sleep(delay)
        writer.kill()
        writer.communicate()
        x = load(path)["x"]
        assert (x == x[0]).all()
    remove_temporaries(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]


def test_files_of_others_and_of_living_processes_are_kept(tmp_path: Path) -> None:
    living = subprocess.Popen(["sleep", "60"])
    kept = [".0001.png.Xy12Zz", ".123.notes.txt.swp", f".ebmlab-{living.pid}.last.ckpt"]
    for name in [*kept, ".ebmlab-99999999.last.ckpt", f".ebmlab-{os.getpid()}.last.ckpt"]:
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    living.kill()
    living.wait()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)


def test_a_failed_write_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError), whole(tmp_path / "data" / "set" / "a.pt"):
        raise ValueError
    assert list(tmp_path.iterdir()) == []
