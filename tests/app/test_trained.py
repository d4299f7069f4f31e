"""Studies on trained targets, for every learner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ebmlab.energies import GRBM, MLP, RBM, Energy
from ebmlab.errors import UserError
from ebmlab.studies import trained_energy

SAVE = "{class_path: ModelCheckpoint, init_args: {dirpath: checkpoints, filename: a, every_n_train_steps: 1}}"
TINY = ["--trainer.max_steps=1", "--trainer.limit_val_batches=0", f"--trainer.callbacks=[{SAVE}]", "--name=a"]


@pytest.fixture
def checkpoint(run: Callable[..., None]) -> Callable[[str], Path]:
    """Trains a config for a step; the path of its checkpoint."""

    def make(config: str) -> Path:
        run("fit", *TINY, config=config)
        return Path("checkpoints", "a.ckpt")

    return make


@pytest.mark.parametrize(("config", "kind"), [("grbm_digits", GRBM), ("rm_moons", MLP)])
def test_the_energy_of_any_learner(checkpoint: Callable[[str], Path], config: str, kind: type[Energy]) -> None:
    path = checkpoint(config)
    energy = trained_energy(str(path))
    assert type(energy) is kind and not energy.training
    saved = torch.load(path, weights_only=True)["state_dict"]
    for name, parameter in energy.named_parameters():
        assert torch.equal(parameter, saved[f"energy.{name}"]) and not parameter.requires_grad


def test_a_model_of_the_zoo_is_a_target() -> None:
    energy = trained_energy("zoo/rbm-digits")
    assert isinstance(energy, RBM) and float(energy.W.std()) > 0.1 and not energy.W.requires_grad
    with pytest.raises(UserError, match="zoo/rbm-digit"):
        trained_energy("zoo/rbm-digit")


DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a learner that is not there": lambda c: c["hyper_parameters"].update(_class_path="ebmlab.learners.Gone"),
    "no learner at all": lambda c: c["hyper_parameters"].update(_class_path="os.system"),
    "an energy that is not there": lambda c: c["hyper_parameters"]["energy"].update(class_path="ebmlab.energies.Gone"),
    "parameters of another shape": lambda c: c["state_dict"].update({"energy.W": torch.zeros(2)}),
    "no settings": lambda c: c.pop("hyper_parameters"),
}


def test_what_cannot_be_rebuilt_is_refused_in_one_line(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    path, changed = checkpoint("grbm_digits"), tmp_path / "changed.ckpt"
    for what, damage in DAMAGE.items():
        content = torch.load(path, weights_only=True)
        damage(content)
        torch.save(content, changed)
        with pytest.raises(UserError, match=r"changed.ckpt cannot be rebuilt as a learner \(") as error:
            trained_energy(str(changed))
        assert "\n" not in str(error.value) and "python -m ebmlab fit" in str(error.value), what
