"""Class paths of earlier versions go on working, in checkpoints and in configs."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest
import torch
import yaml

from ebmlab import callbacks, energies, learners, samplers
from ebmlab.app.class_paths import full_names
from ebmlab.app.config_files import load_config
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.io.old_names import MOVED
from ebmlab.io.rebuilding import find, rebuild

OLD = {
    "ebmlab.energies.ising.Ising": energies.Ising,
    "ebmlab.energies.potts.Potts": energies.ScalarPotts,
    "ebmlab.energies.resnet.ResNet": energies.ResNet,
    "ebmlab.energies.composed.Mixture": energies.Mixture,
    "ebmlab.energies.tempering.TemperedEnergy": energies.TemperedEnergy,
    "ebmlab.samplers.PersistentACS": learners.PersistentACS,
}


@pytest.mark.parametrize("path", OLD)
def test_an_old_class_path_finds_the_class(path: str) -> None:
    assert find(path) is OLD[path]
    assert find(full_names(path)) is OLD[path]


def test_earlier_class_paths_of_callbacks_find_the_class() -> None:
    assert resolve_name(full_names("callbacks.AISEvaluation")) is callbacks.AIS
    assert resolve_name(full_names("ebmlab.callbacks.GraphMMDEvaluation")) is callbacks.GraphMMD
    assert (
        resolve_name(full_names("ebmlab.callbacks.hamming_mmd_evaluation.HammingMMDEvaluation")) is callbacks.HammingMMD
    )


def test_an_old_recipe_is_rebuilt() -> None:
    recipe = {"class_path": "ebmlab.energies.ising.Ising.lattice", "init_args": {"side": 2, "coupling": 0.3}}
    assert rebuild(recipe).domain.event_shape == (4,)


@pytest.mark.parametrize("path", ["ebmlab.energies.Potts", "ebmlab.energies.potts.Potts"])
def test_potts_models_of_earlier_versions_are_rebuilt_and_read(path: str) -> None:
    recipe = {"class_path": path, "init_args": {"coupling": [[0.0, 1.5], [1.5, 0.0]], "num_classes": 2}}
    state = torch.eye(2).repeat(1, 1, 1)
    assert rebuild(recipe)(state).tolist() == [0.0] and rebuild(recipe)(state[:, [0, 0]]).tolist() == [-1.5]
    config = load_config(yaml.safe_dump({"model": {"init_args": {"energy": recipe}}}), "old.yaml")
    assert find(config["model"]["init_args"]["energy"]["class_path"]) is energies.ScalarPotts


def test_no_room_plants_a_name_in_another() -> None:
    assert not hasattr(samplers, "PersistentACS")


def test_old_modules_are_gone_and_new_ones_are_there() -> None:
    for module in MOVED.values():
        __import__(module)
    assert MOVED["ebmlab.preprocessing"] == Preprocessing.__module__
