"""What a checkpoint says of its energy and of the chains that draw from it, without a learner that could train on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.io.described import described, fill, rebuilding
from ebmlab.io.old_names import current_class
from ebmlab.io.rebuilding import rebuild
from ebmlab.samplers import GibbsSweep, Sampler
from ebmlab.samplers.draws import Draws
from ebmlab.samplers.usual import usual_sampler
from ebmlab.settings import require_count

NUM_STEPS = {  # of the learners that draw by their sampler alone; the default of each
    "BoltzmannLearning": 10,
    "ConditionalNoiseContrast": 100,
    "ContrastiveDivergence": 1,
    "JointClassifier": 20,
    "NoiseContrast": 100,
    "PseudoLikelihood": 100,
    "RatioMatching": 1000,
    "ScoreMatching": 100,
}

SWEEPING = ("BoltzmannLearning", "PseudoLikelihood")  # by `GibbsSweep` where no sampler is named
ASKING = ("ContrastiveDivergence", "JointClassifier")  # for a sampler


class Record(Draws):
    """The energy, the sampler and the number of steps of a learner. To make it loads no Lightning.

    Args:
        trained_by: the name of the learner's class.
        energy: the model.
        sampler: draws from it.
        num_steps: steps of its chains.
    """

    def __init__(self, trained_by: str, energy: Energy, *, sampler: Sampler, num_steps: int) -> None:
        super().__init__()
        sampler.check(energy)
        require_count(trained_by, num_steps=num_steps)
        self.trained_by, self.energy, self.sampler, self.num_steps = trained_by, energy, sampler, num_steps


def recorded(path: Path, checkpoint: Mapping[str, Any]) -> Record | None:
    """The record in a checkpoint; None if the learner has a say in how samples are drawn, or is not one of ebmlab's.

    Raises:
        UserError: the checkpoint does not say how to make the energy, or its parameters are of another one.
    """
    class_path, settings = described(path, checkpoint)
    class_path = current_class(str(class_path), settings)
    name = class_path.rpartition(".")[2]
    named = settings.get("sampler")
    if not class_path.startswith("ebmlab.learners.") or name not in NUM_STEPS or (name in ASKING and not named):
        return None
    with rebuilding(path):
        energy, sampler = rebuild(settings.get("energy")), rebuild(named)
        if isinstance(energy, Energy) and not named:
            sampler = GibbsSweep() if name in SWEEPING else usual_sampler(energy.domain)
        if not isinstance(energy, Energy) or not isinstance(sampler, Sampler):
            raise UserError(f"its energy is a {type(energy).__name__}, its sampler a {type(sampler).__name__}")
        record = Record(name, energy, sampler=sampler, num_steps=settings.get("num_steps", NUM_STEPS[name]))
    parts = {key: value for key, value in checkpoint["state_dict"].items() if key.startswith(("energy.", "sampler."))}
    fill(record, {"state_dict": parts}, path)
    return record
