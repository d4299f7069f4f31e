"""Class paths and settings of earlier versions go on working, in checkpoints and in configs."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
import yaml

from ebmlab import callbacks, energies, learners, samplers, studies
from ebmlab.app.class_paths import full_names
from ebmlab.app.config_files import load_config
from ebmlab.app.merging import merge
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.errors import UserError
from ebmlab.io.old_names import MOVED, SETTINGS
from ebmlab.io.rebuilding import Recorded, describe, find, rebuild
from ebmlab.learners import Learner
from ebmlab.studies import targets

OLD = {
    "ebmlab.energies.ising.Ising": energies.Ising,
    "ebmlab.energies.potts.Potts": energies.ScalarPotts,
    "ebmlab.energies.resnet.ResNet": energies.ResNet,
    "ebmlab.energies.composed.Mixture": energies.Mixture,
    "ebmlab.energies.tempering.TemperedEnergy": energies.TemperedEnergy,
    "ebmlab.studies.FromReference": studies.FromNoise,
    "ebmlab.energies.solved.Solved": energies.Solved,
    "ebmlab.energies.paths.solved.Solved": energies.Solved,
    "ebmlab.samplers.starts.FromNoise": learners.FromNoise,
    "ebmlab.samplers.PersistentACS": learners.PersistentACS,
    "ebmlab.energies.QuarticMixture": targets.QuarticMixture,
    "ebmlab.energies.lattice_gaussian.LatticeGaussian": targets.LatticeGaussian,
}


@pytest.mark.parametrize("path", OLD)
def test_an_old_class_path_finds_the_class(path: str) -> None:
    assert find(path) is OLD[path]
    assert find(full_names(path)) is OLD[path]


def test_old_class_paths_of_a_study_are_read() -> None:
    old = "{class_path: ebmlab.studies.histogram.Histogram2D, target: ebmlab.energies.ModeGrid}"
    new = "{class_path: ebmlab.studies.targets.histogram.Histogram2D, target: ebmlab.studies.targets.ModeGrid}"
    assert full_names(old) == new and studies.Histogram2D.__module__ == "ebmlab.studies.targets.histogram"


def test_earlier_class_paths_of_callbacks_find_the_class() -> None:
    assert resolve_name(full_names("callbacks.AISEvaluation")) is callbacks.AIS
    assert resolve_name(full_names("ebmlab.callbacks.GraphMMDEvaluation")) is callbacks.GraphMMD
    assert resolve_name(full_names("callbacks.short_chains.ShortChains")) is callbacks.ShortChains
    hamming = full_names("ebmlab.callbacks.hamming_mmd_evaluation.HammingMMDEvaluation")
    assert resolve_name(hamming) is callbacks.HammingMMD


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


def part(path: str, **settings: Any) -> dict[str, Any]:
    return {"class_path": path, "init_args": settings}


class Table(Recorded):
    def load(self) -> targets.Rows:
        return targets.Rows(torch.ones(3, 2), torch.ones(3))


BUFFER = part("ebmlab.learners.ReplayBuffer", size=9, init="data")
RBM = part("ebmlab.energies.RBM", num_coordinates=4, num_hidden=3)
GIBBS = part("ebmlab.samplers.BlockGibbs")
PAIR = [[0.0, 1.0], [1.0, 0.0]]
PARTS = {  # for each class with renamed settings, with today's names of all of them
    "ContrastiveDivergence": part("ebmlab.learners.ContrastiveDivergence", energy=RBM, sampler=GIBBS, start=BUFFER),
    "ReplayBuffer": BUFFER,
    "Categorical": part("ebmlab.domains.Categorical", shape=2, num_values=3),
    "ScalarPotts": part("ebmlab.energies.ScalarPotts", coupling=PAIR, num_values=3),
    "ScalarPotts.lattice": part("ebmlab.energies.ScalarPotts.lattice", side=3, num_values=3, coupling=0.5),
    "Potts.lattice": part("ebmlab.energies.Potts.lattice", side=3, num_values=3, coupling=0.5),
    "MLP": part("ebmlab.energies.MLP", num_coordinates=4, hidden_dim=3),
    "RBM": RBM,
    "GRBM": part("ebmlab.energies.GRBM", num_coordinates=4, num_hidden=3),
    "CategoricalRBM": part("ebmlab.energies.CategoricalRBM", num_coordinates=3, num_values=2, num_hidden=2),
    "Potts": part("ebmlab.energies.Potts", num_coordinates=3, num_values=2),
    "QuarticMixture": part("ebmlab.studies.targets.QuarticMixture", num_coordinates=2, num_values=3),
    "RGCN": part("ebmlab.energies.RGCN", num_nodes=4, hidden_dim=3, num_layers=2),
    "BinaryNetPosterior": part(
        "ebmlab.studies.targets.BinaryNetPosterior", data=part(f"{__name__}.Table"), hidden_dim=2
    ),
    "GibbsLangevin": part("ebmlab.samplers.GibbsLangevin", step_size=0.1, num_inner_steps=3),
    "ACS": part("ebmlab.samplers.ACS", balance_max=0.9, balance_min=0.6),
    "PersistentACS": part("ebmlab.learners.PersistentACS", balance_max=0.9, balance_min=0.6),
    "AIS": part("ebmlab.callbacks.AIS", num_moves=2),
    "Potts.scalar": part("ebmlab.energies.Potts.scalar", coupling=PAIR, num_values=3),
}


def of_earlier(now: Any) -> Any:
    """A recipe under the settings' earlier names."""
    if not isinstance(now, dict) or "class_path" not in now:
        return now
    earlier = {new: old for old, new in SETTINGS.get(re.sub(r".*\.(?=[A-Z])", "", now["class_path"]), {}).items()}
    return part(now["class_path"], **{earlier.get(k, k): of_earlier(v) for k, v in now["init_args"].items()})


@pytest.mark.parametrize("name", SETTINGS)
def test_old_settings_in_configs_and_checkpoints(name: str) -> None:
    now = PARTS[name]
    before = of_earlier(now)
    assert before["init_args"].keys() == now["init_args"].keys() ^ SETTINGS[name].keys() ^ {*SETTINGS[name].values()}
    assert load_config(yaml.safe_dump({"model": before}), "old.yaml") == {"model": now}
    changed = merge({"class_path": now["class_path"]}, before["init_args"])  # a config that states its changes alone
    assert changed["init_args"].keys() == now["init_args"].keys()
    if not now["class_path"].startswith("ebmlab.callbacks."):  # checkpoints describe no callback
        assert str(describe(rebuild(before))) == str(describe(rebuild(now)))


def test_a_checkpoint_of_a_learner_with_old_settings() -> None:
    before = of_earlier(PARTS["ContrastiveDivergence"])
    content = {"hyper_parameters": {"_class_path": before["class_path"], **before["init_args"]}}
    assert Learner.from_content(Path("old.ckpt"), content).start.init == "data"
    content["hyper_parameters"] |= {"_missing": {"chains": "Mine"}}
    assert Learner.from_content(Path("old.ckpt"), content, {"start": learners.FromData()}).start


def test_a_setting_under_both_names_is_refused() -> None:
    with pytest.raises(UserError, match="initial"):
        rebuild(part("ebmlab.learners.ReplayBuffer", initial="data", init="mean"))
