"""How the samples of a GRBM trained on a mixture of three Gaussians fall on its modes, and how deep these are.

python benchmarks/mixture_modes.py runs/grbm_gmm_aniso/<run>/checkpoints/last.ckpt --kind anisotropic
"""

from __future__ import annotations

import argparse

import torch

from ebmlab.datamodules import GaussianMixture
from ebmlab.learners import ContrastiveDivergence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--kind", choices=["isotropic", "anisotropic"], default="anisotropic")
    parser.add_argument("--num_samples", type=int, default=3000)
    options = parser.parse_args()
    learner = ContrastiveDivergence.load_from_checkpoint(options.checkpoint, map_location="cpu")
    mixture = GaussianMixture(options.kind)
    torch.manual_seed(0)
    x = learner.draw(torch.randn(options.num_samples, 2))
    distance, mode = ((x.unsqueeze(1) - mixture.means) / mixture.stds).norm(dim=2).min(1)
    masses = mode.bincount(minlength=3) / len(x)
    with torch.no_grad():
        energy = learner.energy(mixture.means)
    for mean, mass, depth in zip(mixture.means.tolist(), masses, energy - energy.min(), strict=True):
        print(f"mode {mean}: {mass:.3f} of the samples, energy {depth:.1f} above the deepest mode's")
    print(f"within 3 standard deviations of a mode: {(distance < 3).float().mean():.3f}")


if __name__ == "__main__":
    main()
