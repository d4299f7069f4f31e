"""Configs with random mutations: keys dropped, renamed, wrapped into lists, copied, or given odd values."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import yaml

from benchmarks.robust.inputs import CONFIGS, TINY
from benchmarks.robust.server import ROOT, SMALL, Case

VALUES: list[Any] = [None, -1, 0, 1e30, float("nan"), "", "abc", [], [1], {}, {"a": 1}, True, "nowhere.Class", 10**20]


def mutated(count: int = 500, seed: int = 0) -> Iterator[Case]:
    """Configs with one or two random changes: keys gone, renamed, of another kind, under another value."""
    random_ = random.Random(seed)
    for i in range(count):
        name = random_.choice(CONFIGS)
        config = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())
        if "base" in config:
            config["base"] = str(ROOT / "configs" / config["base"])
        changes = [_mutate(config, random_) for _ in range(random_.choice((1, 1, 2)))]
        text = yaml.safe_dump(config).encode()
        args = ["fit", "--config=mutated.yaml", *SMALL, *TINY[name]]
        yield Case(f"config {i} of {name}: {'; '.join(changes)}", args, {"mutated.yaml": text})


def _mutate(config: dict[str, Any], random_: random.Random) -> str:
    places = list(_places(config))
    node, key, where = random_.choice(places)
    kind = random_.choice(("drop", "rename", "value", "value", "wrap", "copy"))
    if kind == "drop":
        del node[key]
    elif kind == "rename" and isinstance(node, dict):
        node[str(key)[:-1] or "x"] = node.pop(key)
    elif kind == "wrap":
        node[key] = [node[key]]
    elif kind == "copy":
        other, other_key, _ = random_.choice(places)
        node[key] = copy.deepcopy(other.get(other_key) if isinstance(other, dict) else None)
    else:
        node[key] = random_.choice(VALUES)
    return f"{kind} {where}"


def _places(node: Any, prefix: str = "") -> Iterator[tuple[Any, Any, str]]:
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in items:
        yield node, key, f"{prefix}{key}"
        yield from _places(value, f"{prefix}{key}.")
