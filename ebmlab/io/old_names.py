"""Class paths and settings of earlier versions, which configs and checkpoints hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOVED = {  # modules
    **{f"ebmlab.callbacks.{name}": "ebmlab.callbacks.chain_schedules" for name in ("annealed_steps", "short_chains")},
    "ebmlab.preprocessing": "ebmlab.data.preprocessing",
    "ebmlab.tables": "ebmlab.data.tables",
    **{f"ebmlab.energies.{name}": f"ebmlab.energies.pairwise.{name}" for name in ("ising", "potts")},
    **{
        f"ebmlab.energies.{name}": f"ebmlab.energies.paths.{name}"
        for name in ("bipartite_bridge", "bridge", "composed", "reference", "tempering")
    },
    **{
        f"ebmlab.energies.{name}": f"ebmlab.studies.targets.{name}"
        for name in ("binary_net_posterior", "lattice_gaussian", "logistic_posterior", "mode_grid", "quartic_mixture")
    },
    "ebmlab.studies.bayesian_net": "ebmlab.studies.targets.prediction",
    "ebmlab.studies.histogram": "ebmlab.studies.targets.histogram",
    "ebmlab.energies.solved": "ebmlab.energies.paths.known_log_z",
    "ebmlab.energies.paths.solved": "ebmlab.energies.paths.known_log_z",
    "ebmlab.samplers.starts": "ebmlab.samplers.initial_states",
}
CALLBACKS = {"AISEvaluation": "AIS", "HammingMMDEvaluation": "HammingMMD", "GraphMMDEvaluation": "GraphMMD"}
RENAMED = {  # classes
    **{
        f"ebmlab.energies.{name}": f"ebmlab.studies.targets.{name}"
        for name in (
            *("BinaryNetPosterior", "LatticeGaussian", "LogisticPosterior", "ModeGrid", "QuarticMixture", "Rows"),
            "TabularSource",
        )
    },
    **{f"ebmlab.callbacks.{old}": f"ebmlab.callbacks.{new}" for old, new in CALLBACKS.items()},
    "ebmlab.callbacks.ais_evaluation.AISEvaluation": "ebmlab.callbacks.AIS",
    "ebmlab.callbacks.hamming_mmd_evaluation.HammingMMDEvaluation": "ebmlab.callbacks.HammingMMD",
    "ebmlab.callbacks.graph_mmd_evaluation.GraphMMDEvaluation": "ebmlab.callbacks.GraphMMD",
    "ebmlab.energies.potts.Potts": "ebmlab.energies.pairwise.scalar_potts.ScalarPotts",
    "ebmlab.studies.FromReference": "ebmlab.studies.FromNoise",
    "ebmlab.samplers.PersistentACS": "ebmlab.learners.PersistentACS",
}
DIVIDED = {("ebmlab.energies.Potts", "coupling"): "ebmlab.energies.ScalarPotts"}  # a class with this argument
OURS = ("ebmlab.", "papers.")
_CLASS = re.compile(r"^([a-z_]\w*\.)*")  # what comes before a class in its path
SETTINGS = {  # by class: settings that have another name today
    "ContrastiveDivergence": {"chains": "start"},
    "ReplayBuffer": {"initial": "init"},
    "Categorical": {"num_classes": "num_values"},
    "ScalarPotts": {"num_classes": "num_values"},
    "ScalarPotts.lattice": {"num_classes": "num_values"},
    "Potts.lattice": {"num_classes": "num_values"},
    "Potts.scalar": {"num_classes": "num_values"},
    "MLP": {"hidden": "hidden_dim", "num_inputs": "num_coordinates"},
    "RGCN": {"hidden": "hidden_dim", "layers": "num_layers"},
    "BinaryNetPosterior": {"hidden": "hidden_dim"},
    "GibbsLangevin": {"inner_steps": "num_inner_steps"},
    "AIS": {"moves": "num_moves"},
    "ACS": {"beta_max": "balance_max", "beta_min": "balance_min"},
    "PersistentACS": {"beta_max": "balance_max", "beta_min": "balance_min"},
    "RBM": {"num_visible": "num_coordinates"},
    "GRBM": {"num_visible": "num_coordinates"},
    "CategoricalRBM": {"num_sites": "num_coordinates"},
    "Potts": {"num_sites": "num_coordinates"},
    "QuarticMixture": {"size": "num_coordinates"},
}
_OLD = re.compile(
    rf"(?<![\w./-])(({'|'.join(map(re.escape, RENAMED))})(?!\w)|({'|'.join(map(re.escape, MOVED))})(?=\.[A-Z]))"
)


def current_paths(text: str) -> str:
    """Writes class paths of earlier versions as today's.

    Args:
        text: a class path, or a text in which some stand.
    """
    return _OLD.sub(lambda found: {**MOVED, **RENAMED}[found.group()], text)


def current_callback(name: str) -> str:
    """The name of a callback in a config's `callbacks:`, such as `AIS_2`, or the key of its state in a checkpoint."""
    kind = re.sub(r"^([A-Za-z]+).*", r"\1", name)
    today, rest = CALLBACKS.get(kind, kind), name.removeprefix(kind)
    for old, new in SETTINGS.get(today, {}).items():  # the settings are a part of the key
        rest = rest.replace(f"'{old}': ", f"'{new}': ")
    return today + rest


def current_class(path: str, settings: Mapping[str, Any]) -> str:
    """The class path that an earlier version's class path means today with these settings."""
    path = current_paths(path)
    return next((DIVIDED[path, name] for name in settings if (path, name) in DIVIDED), path)


def current_settings(path: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a class under today's names. One that is given under both names stays as it is.

    Args:
        path: the class path, today's or an earlier one.
        settings: by name.
    """
    names = SETTINGS.get(_CLASS.sub("", path), {}) if path.startswith(OURS) else {}
    return {name if (new := names.get(name, name)) in settings else new: value for name, value in settings.items()}


def bring_up_to_date(config: Any) -> None:
    """Puts today's classes and settings in place of earlier ones, wherever a part of a config has a `class_path`."""
    if isinstance(config, dict):
        if isinstance(path := config.get("class_path"), str) and isinstance(given := config.get("init_args"), dict):
            config["class_path"] = current_class(path, given)
            config["init_args"] = current_settings(config["class_path"], given)
        for value in config.values():
            bring_up_to_date(value)
    for value in config if isinstance(config, list) else ():
        bring_up_to_date(value)
