"""Programs on disk: loaded by the next process if nothing has changed, and by nobody if a stranger could write them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import helpers_levels
import pytest
import torch
from helpers_levels import levelled
from torch import Tensor

from ebmlab.energies import MLP, RBM, Energy
from ebmlab.engine.kept_programs import Program, name_of

pytestmark = [
    pytest.mark.skipif(torch.__version__ < "2.14", reason="older releases keep no programs"),
    pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners"),
]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
OWN = """
import torch
from ebmlab.domains import Binary
from ebmlab.energies import Energy
from factors import times
SHIFT = 1.0
class Own(Energy):
    domains = (Binary,)
    def __init__(self):
        super().__init__()
        self.domain = Binary(3)
    def forward(self, x):
        return times(x.sum(1)) * SHIFT
def evaluate(energy, x):
    return energy(x)
"""
FACTORS = """
FACTOR = 1.0
def times(x):
    return FACTOR * x
"""
RUN = """
import torch, own
torch._dynamo.reset()
from ebmlab.engine.kept_programs import Program
energy, x = own.Own(), torch.ones(2, 3)
with torch.no_grad():
    value = Program(own.evaluate, {}).for_one_run()(energy, x)
print(float(value[0]), torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


def twice(x: Tensor) -> Tensor:
    return 2 * x


class Chosen(Energy):
    """An energy with a function for an attribute."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function


def evaluate(energy: Any, x: Tensor) -> Tensor:
    return energy(x)


@needs_compiler
@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("LEVEL", 5.0),
        ("Level.height", 5.0),
        *(pytest.param(name, value, marks=pytest.mark.slow) for name, value in (("SWITCH", False), ("NOTHING", 1))),
        *(pytest.param(name, value, marks=pytest.mark.slow) for name, value in (("WORD", "down"), ("SIZES", (3, 4)))),
        pytest.param("TABLE", {"shift": 7.0}, marks=pytest.mark.slow),
        pytest.param("levelled.__defaults__", (9.0,), marks=pytest.mark.slow),
    ],
)
def test_numbers_that_have_changed_are_noticed(
    what: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process that has compiled the program, and where one is loaded. torch gives loaded ones the new number."""
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    x = torch.ones(2)
    for _ in range(2):
        program = Program(evaluate, {})
        assert torch.equal(program.for_one_run()(levelled, x), levelled(x))
    before = levelled(x)
    with monkeypatch.context() as patch:
        owner, _, name = what.rpartition(".")
        patch.setattr(getattr(helpers_levels, owner) if owner else helpers_levels, name, value)
        assert not torch.equal(before, levelled(x))
        for each in (program, Program(evaluate, {})):
            assert torch.equal(each.for_one_run()(levelled, x), levelled(x))


def test_a_name_says_what_torch_does_not_check() -> None:
    """Functions above all: torch compares their addresses, which the next process does not know."""
    x = torch.zeros(2, 3)
    torch.manual_seed(0)
    rbm = RBM(3, 2)
    others = {
        name_of(twice, {}, args)
        for args in (
            (rbm, x),
            (RBM(3, 4), x),
            (MLP(3), x),
            (rbm, x.double()),
            (rbm, x[:1]),
            (Chosen(torch.sin), x),
            (Chosen(torch.cos), x),
            (Chosen(twice), x),
        )
    }
    others |= {name_of(twice, {"cpp_wrapper": True}, (rbm, x)), name_of(name_of, {}, (rbm, x))}
    assert len(others) == 10 and None not in others


def test_values_of_tensors_belong_to_no_name() -> None:
    assert name_of(twice, {}, (RBM(3, 2), torch.zeros(2))) == name_of(twice, {}, (RBM(3, 2), torch.ones(2)))


def test_what_cannot_be_found_again_has_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Local(RBM):
        pass

    assert name_of(twice, {}, (Local(3, 2),)) is None
    assert name_of(twice, {}, (Chosen(lambda x: x),)) is None
    (tmp_path / "written_now.py").write_text("class Mine: ...")
    monkeypatch.syspath_prepend(tmp_path)
    mine = pytest.importorskip("written_now").Mine()
    assert name_of(twice, {}, (mine,)) is None  # its text may be newer than what was loaded
    with torch.compiler.config.patch(force_disable_caches=True):
        assert name_of(twice, {}, (torch.ones(2),)) is None


def run(folder: Path) -> tuple[float, int]:
    """The energy of three ones in a fresh process, and how many programs it has traced."""
    environment = os.environ | {"EBMLAB_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert "guard" not in done.stderr  # torch reports checks that it cannot make
    value, traced = done.stdout.split()
    return float(value), int(traced)


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (0, 0))  # long before the next process starts


@needs_compiler
@pytest.mark.slow
def test_the_next_process_traces_nothing_until_the_text_changes(tmp_path: Path) -> None:
    write(tmp_path / "own.py", OWN)
    write(tmp_path / "factors.py", FACTORS)
    assert run(tmp_path) == (3.0, 1)
    assert run(tmp_path) == (3.0, 0)
    write(tmp_path / "own.py", OWN.replace("SHIFT = 1.0", "SHIFT = 2.0"))
    assert run(tmp_path) == (6.0, 1)
    write(tmp_path / "factors.py", FACTORS.replace("FACTOR = 1.0", "TWICE = 2.0").replace("FACTOR *", "TWICE *"))
    assert run(tmp_path) == (12.0, 1)
    assert run(tmp_path) == (12.0, 0)
    write(tmp_path / "factors.py", FACTORS)
    (kept,) = (tmp_path / "cache").iterdir()
    files = list(kept.iterdir())
    assert len(files) == 2 and kept.stat().st_mode & 0o077 == 0
    for file in files:
        file.chmod(0o622)
    assert run(tmp_path) == (6.0, 1)
    kept.chmod(0o777)
    assert run(tmp_path) == (6.0, 1)
    kept.chmod(0o700)
    for file in files:
        file.write_bytes(b"damaged")
    assert run(tmp_path) == (6.0, 1)
    assert run(tmp_path) == (6.0, 0)


@needs_compiler
@pytest.mark.slow
def test_what_cannot_be_kept_is_compiled_as_ever() -> None:
    program = Program(lambda x: 2 * x, {}).for_one_run()
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 2.0))
