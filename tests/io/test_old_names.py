"""Class paths of earlier versions go on working, in checkpoints and in configs."""

from __future__ import annotations

import pytest

from ebmlab import energies, learners, samplers
from ebmlab.app.class_paths import full_names
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.io.old_names import MOVED
from ebmlab.io.rebuilding import find, rebuild

OLD = {
    "ebmlab.energies.ising.Ising": energies.Ising,
    "ebmlab.energies.potts.Potts": energies.Potts,
    "ebmlab.energies.resnet.ResNet": energies.ResNet,
    "ebmlab.energies.composed.Mixture": energies.Mixture,
    "ebmlab.energies.tempering.TemperedEnergy": energies.TemperedEnergy,
    "ebmlab.samplers.PersistentACS": learners.PersistentACS,
}


@pytest.mark.parametrize("path", OLD)
def test_an_old_class_path_finds_the_class(path: str) -> None:
    assert find(path) is OLD[path]
    assert find(full_names(path)) is OLD[path]


def test_an_old_recipe_is_rebuilt() -> None:
    recipe = {"class_path": "ebmlab.energies.ising.Ising.lattice", "init_args": {"side": 2, "coupling": 0.3}}
    assert rebuild(recipe).domain.event_shape == (4,)


def test_no_room_plants_a_name_in_another() -> None:
    assert not hasattr(samplers, "PersistentACS")


def test_old_modules_are_gone_and_new_ones_are_there() -> None:
    for module in MOVED.values():
        __import__(module)
    assert MOVED["ebmlab.preprocessing"] == Preprocessing.__module__
