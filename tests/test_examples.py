"""Every example in a docstring runs, and every public class and function has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest
import torch
from helpers_modules import module_files, module_name
from helpers_tier import cases

ROOT = Path(__file__).parents[1]
MODULES = [module_name(file) for file in module_files() if file.name != "__main__.py"]
EXTRAS = {  # optional packages that examples need
    "ebmlab.energies.masked_language_model": "transformers",
    "ebmlab.drawing.graph_panels": "networkx",
    "ebmlab.datamodules.ego_small": "networkx",
    "ebmlab.callbacks.graph_grid": "networkx",
    "ebmlab.evaluation.graph_novelty": "networkx",
    "ebmlab.callbacks.mmd": "networkx",
    **{
        f"ebmlab.fused.{name}": "triton"
        for name in ("block_gibbs", "colours", "dmala", "lattice_kernel", "potts", "tiles")
    },
}
DEAR = {  # half a second to two each
    *("ebmlab.callbacks.ais", "ebmlab.callbacks.graph_grid", "ebmlab.callbacks.sample_table"),
    *("ebmlab.callbacks.coupling_rmse", "ebmlab.problems.reheated", "ebmlab.samplers.tuners.equal_rejection"),
    *("ebmlab.samplers.tuners.any_scale_search", "ebmlab.samplers.tuners.pattern_search"),
    *("ebmlab.samplers.tuners.swap_stages", "ebmlab.samplers.tuners.warm_up", "ebmlab.testing.exact_starts"),
    *("ebmlab.callbacks.trajectory_likelihood", "ebmlab.callbacks.density2d", "ebmlab.trained.model"),
    *("ebmlab.callbacks.low_rank_start", "ebmlab.callbacks.sample_distances", "ebmlab.callbacks.sample_grid"),
    *("ebmlab.callbacks.parameter_images", "ebmlab.callbacks.chain_schedules", "ebmlab.callbacks.energy_histograms"),
    *("ebmlab.evaluation.metrics", "ebmlab.evaluation.classifier_two_sample", "ebmlab.evaluation.exchange"),
    *("ebmlab.evaluation.replica_exchange", "ebmlab.evaluation.bracket", "ebmlab.samplers.nuts", "ebmlab.sklearn"),
    *("ebmlab.samplers.tuners.preconditioner", "ebmlab.samplers.tuners.dual_averaging", "ebmlab.problems.minimise"),
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public_names(module_name: str) -> list[str]:
    """The names in `__all__`; for a module at the root, such as `ebmlab.domains`, the public names that it defines."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if callable(getattr(module, name))]
    if module_name.rpartition(".")[0] != "ebmlab" or hasattr(module, "__path__"):
        return []
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
        if value.__module__ == module_name
    ]


def failures(module_name: str) -> str:
    """Runs the examples of a module, with torch imported and seeded; returns doctest's report of failures."""
    module = importlib.import_module(module_name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    report: list[str] = []
    found = doctest.DocTestFinder().find(module, module_name, extraglobs={"torch": torch})
    for test in (each for each in found if each.examples):  # most have none, and every run looks at all cached sources
        with torch.random.fork_rng():
            torch.manual_seed(0)
            runner.run(test, out=report.append)
    return "".join(report)


def has_example(docstring: str | None) -> bool:
    return ">>> " in (docstring or "").partition("Example:\n")[2]


@cases("module", {name: name for name in MODULES}, fast=set(MODULES) - DEAR)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if module in EXTRAS:
        pytest.importorskip(EXTRAS[module])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    assert not (report := failures(module)), report


@pytest.mark.parametrize("module", MODULES)
def test_every_public_class_and_function_has_an_example(module: str) -> None:
    if EXTRAS.get(module) == "triton":  # which it imports at once
        pytest.importorskip("triton")
    loaded = importlib.import_module(module)
    assert [name for name in public_names(module) if not has_example(getattr(loaded, name).__doc__)] == []


def test_a_wrong_example_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up.py").write_text(
        'def f():\n    """F.\n\n    Example:\n        >>> f()\n        2\n    """\n    return 1\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "Expected:\n    2\nGot:\n    1" in failures("made_up")
    assert has_example(importlib.import_module("made_up").f.__doc__)
    assert not has_example("F: >>> f()")
