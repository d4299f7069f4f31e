"""NaN among the weights, in a replay buffer, and what is no data: refused in a line, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_trainer import short_fit

import ebmlab
from ebmlab.app.cli import main
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.evaluation import load_or_train
from ebmlab.io.files import save
from ebmlab.io.packed_bits import unpacked
from ebmlab.learners import ContrastiveDivergence, Learner, ReplayBuffer
from ebmlab.reading.number_files import read_numbers
from ebmlab.samplers import BlockGibbs
from ebmlab.trained.numbers import as_tensor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
]
COMMANDS: dict[str, list[str]] = {
    "complete": ["complete", "digits.npy", "--given=top", "--first=2", "--num_samples=1", "--num_steps=1"],
    "score": ["score", "digits.npy"],
    "features": ["features", "digits.npy"],
    "predict": ["predict", "--num_samples=2", "--num_steps=1"],
    "test": ["test"],
    "validate": ["validate"],
    "fit": ["fit"],
    "zoo export": ["zoo", "export"],
}


@pytest.mark.parametrize("bad", [torch.nan, pytest.param(torch.inf, marks=pytest.mark.slow)])
def test_no_command_uses_weights_that_are_not_finite(
    bad: float, brief_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("digits.npy", Digits().raw("test")[:5].numpy())
    path = brief_run / "checkpoints" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    content["state_dict"]["energy.W"][0, 0] = bad
    save(content, path)
    before = sorted(Path("runs").rglob("*"))
    for name, command in COMMANDS.items():
        with pytest.raises(SystemExit) as ended:
            main([*command, *([str(path), "model.pt2"] if command[0] == "zoo" else [f"--ckpt_path={path}"])])
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert ended.value.code == 2 and "in energy.W is not finite, so that training has diverged" in said, name
    assert sorted(Path("runs").rglob("*")) == before and not Path("model.pt2").exists()
    for read in (ebmlab.load, Learner.load_from_checkpoint):
        with pytest.raises(UserError, match=r"1 of \d+ numbers in energy.W is not finite"):
            read(path)
    if torch.isnan(torch.tensor(bad)):
        with pytest.raises(UserError, match=r"1 of \d+ numbers in energy.W is not finite"):
            ebmlab.io.zoo.packing.strip(path, Path("packed"))


@pytest.mark.parametrize(
    "energy, value, said",
    [(GRBM, torch.nan, "are not finite"), (RBM, 2, r"is not in Binary\(64\): its values must be 0 or 1")],
)
def test_a_replay_buffer_with_other_than_states_is_refused_on_resume(
    energy: Any, value: float, said: str, tmp_path: Path
) -> None:
    def learner() -> Learner:
        return ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=ReplayBuffer(200))

    short_fit(learner(), tmp_path, 1)
    content = torch.load(tmp_path / "epoch=0.ckpt", weights_only=True)
    slots = unpacked(content["replay_buffer"])
    content["replay_buffer"] = slots.float() if energy is GRBM else slots
    content["replay_buffer"][3, 5] = value
    save(content, tmp_path / "changed.ckpt")
    with pytest.raises(UserError, match=f"the checkpoint's replay buffer is damaged: .*{said}"):
        short_fit(learner(), tmp_path, 2, ckpt_path=str(tmp_path / "changed.ckpt"))


def test_a_classifier_of_one_class_is_not_trained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="all 20 labels are 3, and a classifier of one class learns no features"):
        load_or_train(torch.rand(20, 1, 8, 8), torch.full((20,), 3), num_classes=10, cache_dir=tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_is_named_as_data_is_not_read(tmp_path: Path) -> None:
    short_fit(ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=ReplayBuffer(200)), tmp_path, 1)
    path = (tmp_path / "epoch=0.ckpt").rename(tmp_path / "data.pt")
    for field in ("x", "replay_buffer"):
        with pytest.raises(UserError, match=r"data.pt is a checkpoint of a model, not data: give it to ckpt_path"):
            read_numbers(path, None, field)


def test_data_with_a_changed_byte_are_refused(tmp_path: Path) -> None:
    x = torch.arange(400.0).view(20, 20)
    for write in (torch.save, lambda content, path: save(content, path)):
        path = tmp_path / "x.pt"
        write(x, path)
        assert torch.equal(read_numbers(path, None, "x")[0], x)
        content = bytearray(path.read_bytes())
        place = content.find(x.numpy().tobytes()[40:80])
        content[place + 9] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"x.pt cannot be read \(.*checksum"):
            read_numbers(path, None, "x")


def test_whole_numbers_beyond_int64_are_refused(tmp_path: Path) -> None:
    numbers = np.array([[1, 2**63]], dtype=np.uint64)
    np.save(tmp_path / "x.npy", numbers)
    fits = np.array([[1, 2**63 - 1]], dtype=np.uint64)
    assert as_tensor(fits)[0].tolist() == [[1, 2**63 - 1]]
    for read in (
        lambda: read_numbers(tmp_path / "x.npy", None, "x"),
        lambda: as_tensor(numbers),
        lambda: as_tensor(torch.from_numpy(numbers)),
    ):
        with pytest.raises(UserError, match=r"holds 9223372036854775808, but whole numbers must be below 2\*\*63"):
            read()
