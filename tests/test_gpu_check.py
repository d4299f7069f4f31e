"""The script of `make gpu-check`, run with a CPU in place of the GPU."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from ebmlab import energies, samplers
from ebmlab.studies import targets

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_check.py"
DOWNLOADS = {"MaskedLanguageModel"}
LAWS = {"Base", "Bernoulli", "ByParts", "Frequencies", "Gaussian", "Solved", "StandardNormal", "Uniform"}
WRAPPERS = {"Bipartite", "Bridge", "BipartiteBridge", "ClampedBipartite", "TemperedEnergy", "TemperedBipartite", "Part"}
PARTWISE = {"Alternate"}  # moves by other samplers, which are checked
FAMILIES = {"AtNoise", "Classifier", "NoisyEnergy"}  # of energies with a noise level or classes


@pytest.mark.slow
def test_a_cpu_agrees_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["check_energies"](torch.device("cpu"))
    assert script["check_samplers"](torch.device("cpu"))
    assert "DISAGREES" not in capsys.readouterr().out


def test_every_energy_and_sampler_is_checked() -> None:
    script = runpy.run_path(str(SCRIPT))
    made = {type(make()).__name__ for make in script["ENERGIES"].values()}
    public = _public(energies, energies.Energy) | _public(targets, energies.Energy)
    assert made == public - DOWNLOADS - LAWS - WRAPPERS - FAMILIES
    used = {type(sampler).__name__ for _, sampler in script["SAMPLERS"].values()}
    used |= {type(sampler).__name__ for sampler in script["REAL_SAMPLERS"].values()}
    assert used == _public(samplers, samplers.Sampler) - {"MetropolisSampler"} - PARTWISE


def _public(module: object, kind: type) -> set[str]:
    values = [getattr(module, name) for name in module.__all__]  # type: ignore[attr-defined]
    classes = {value for value in values if isinstance(value, type) and issubclass(value, kind) and value is not kind}
    return {c.__name__ for c in classes}
