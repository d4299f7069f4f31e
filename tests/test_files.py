"""A file gets its final name only when it is complete, and a damaged file is refused."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ebmlab.app.failures import describe
from ebmlab.errors import UserError
from ebmlab.io.files import Damaged, load, remove_temporaries, save, whole
from ebmlab.io.folders import make_folder
from ebmlab.io.outputs import together

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
    torch.save(CONTENT, path, _use_new_zipfile_serialization=False)  # as torch did before 1.6
    assert same(path)


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


@pytest.mark.slow
def test_sigkill_during_a_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for delay in (0.0, 0.01):
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


def test_a_failed_write_names_the_file_and_the_true_cause(tmp_path: Path) -> None:
    """Neither the temporary file, nor the source of a copy, nor the folder that was missing before the attempt."""
    target = tmp_path / "a" / "b.txt"
    with pytest.raises(OSError, match="No space left") as failed, whole(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert failed.value.filename == str(target)
    with pytest.raises(OSError, match="No space left") as failed, whole(target) as temporary:
        raise OSError(errno.ENOSPC, "No space left on device", "source", None, str(temporary))  # of a copy
    assert (failed.value.filename, failed.value.filename2) == (str(target), None)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as failed:
        make_folder(tmp_path / "file" / "a" / "b")
    assert failed.value.filename == str(tmp_path / "file")
    assert not (tmp_path / "a").exists()


def test_permission_is_not_told_as_a_missing_folder(tmp_path: Path) -> None:
    """`mkdir(parents=True)` of other packages raises one error while it handles the other."""
    try:
        try:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "a/b/c")
        except FileNotFoundError:
            raise PermissionError(errno.EACCES, "Permission denied", "a/b")  # noqa: B904
    except PermissionError as error:
        assert describe(error) == "a/b: Permission denied"


@pytest.mark.parametrize("address", ["s3://bucket/runs", "gs://bucket", "https://host/a/b", "hf://a/b"])
def test_an_address_is_made_no_folder(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path(address), Path(address).absolute()):
        with pytest.raises(UserError, match=f"{address} is an address"), whole(path / "a.txt"):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_that_is_replaced_hands_its_mode_on(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    path.chmod(mode)
    with whole(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == mode


def test_a_link_to_another_folder_is_kept_and_one_within_its_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "b.csv").write_text("old")
    (tmp_path / "a.csv").symlink_to("far/b.csv")
    with whole(tmp_path / "a.csv") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a.csv").is_symlink() and (tmp_path / "far" / "b.csv").read_text() == "new"
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["b.csv"]
    (tmp_path / "epoch=3.ckpt").write_text("best")
    (tmp_path / "last.ckpt").symlink_to("epoch=3.ckpt")
    with whole(tmp_path / "last.ckpt") as temporary:
        temporary.write_text("last")
    assert (tmp_path / "epoch=3.ckpt").read_text() == "best" and (tmp_path / "last.ckpt").read_text() == "last"


def test_what_a_command_writes_through_a_link_goes_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    with together(tmp_path / "link.csv", tmp_path / "link.png") as (table, picture):
        table.write_text("new")
        picture.write_text("picture")
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "real.csv").read_text() == "new"


def test_several_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    table, picture = tmp_path / "a.csv", tmp_path / "a.png"
    table.write_text("old")
    with pytest.raises(OSError, match="full"), together(table, picture) as (one, _):
        one.write_text("new")
        raise OSError("full")
    assert table.read_text() == "old" and sorted(tmp_path.iterdir()) == [table]
    picture.mkdir()
    with pytest.raises(UserError, match=r"a.png is a folder"), together(table, picture) as (one, _):
        one.write_text("new")
    assert table.read_text() == "old"
    picture.rmdir()
    with together(table, picture) as (one, other):
        one.write_text("new")
        other.write_text("drawn")
    assert (table.read_text(), picture.read_text()) == ("new", "drawn")


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 252}.pt"
    save(CONTENT, path)
    assert same(path) and list(tmp_path.iterdir()) == [path]


def test_the_failure_that_names_a_file_is_told() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "a.png")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert describe(error) == "a.png: No space left on device"
