"""The anisotropic mixture of Liao et al. 2022, Figure 1: adjusted samplers find all three modes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ebmlab.datamodules import GaussianMixture
from ebmlab.learners import ContrastiveDivergence

LANGEVIN = [
    "--model.sampler=ebmlab.samplers.MALA",
    "--model.sampler.step_size=0.5",
    "--model.sampler.schedule=ebmlab.samplers.Cosine",
]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], LANGEVIN], ids=["gibbs_langevin", "langevin"])
def test_chains_from_noise_end_in_all_three_modes(options: list[str], run: Callable[..., None]) -> None:
    """Each mode gets a third of them, most within 3 standard deviations: the modes have two shapes, a GRBM has one."""
    run("fit", "--name=a", *options, config="grbm_gmm_aniso", quick=False)
    learner = ContrastiveDivergence.load_from_checkpoint("runs/grbm_gmm_aniso/a/checkpoints/last.ckpt")
    mixture = GaussianMixture("anisotropic")
    torch.manual_seed(0)
    x = learner.draw(torch.randn(3000, 2))
    distance, mode = ((x.unsqueeze(1) - mixture.means) / mixture.stds).norm(dim=2).min(1)
    masses = mode.bincount(minlength=3) / len(x)
    assert (masses - 1 / 3).abs().max() < 0.1
    assert (distance < 3).float().mean() > 0.75
