"""Energies of all kinds; the contract tests run on each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ebmlab.energies import (
    MLP,
    RBM,
    RGCN,
    CategoricalRBM,
    Clamped,
    Energy,
    Ising,
    Mixture,
    Potts,
    ResNet,
    ScalarPotts,
    Scaled,
    Sum,
)
from ebmlab.energies.hidden_units import Kind
from ebmlab.studies.targets import LatticeGaussian, LogisticPosterior, ModeGrid, QuarticMixture


def lopsided_resnet() -> ResNet:
    return ResNet((4, 4), channels=3, base=torch.linspace(0, 1, 16))


def rbm(hidden: Kind = "bits") -> RBM:
    rbm = RBM(7, 4, hidden=hidden)
    for p in rbm.parameters():
        torch.nn.init.normal_(p)
    return rbm


def sequences(hidden: Kind = "bits") -> CategoricalRBM:
    energy = CategoricalRBM(5, 3, num_hidden=4, hidden=hidden)
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    return energy


def family(pairs: list[list[int]] | None) -> Potts:
    energy = Potts(5, 3, pairs=pairs)
    for tensor in (energy.coupling.data, energy.field.data):
        tensor.normal_()
    return energy


def potts() -> ScalarPotts:
    return ScalarPotts(Ising.barabasi_albert(5, 2, coupling=0.7).coupling, torch.randn(5, 3))


def given(energy: Energy) -> Clamped:
    """The energy with the coordinates 1, 4, ... given."""
    mask = torch.arange(energy.domain.size).view(energy.domain.shape) % 3 == 1
    return Clamped(energy, energy.domain.random(1)[0], mask=mask)


ENERGIES: dict[str, Callable[[], Energy]] = {
    "MLP": lambda: MLP(7, hidden_dim=5),
    "MLP, one layer": lambda: MLP(7, hidden_dim=5, num_layers=1),
    "ResNet": lopsided_resnet,
    "RGCN": lambda: RGCN(5, hidden_dim=4, num_layers=3),
    "LatticeGaussian, rotated": lambda: LatticeGaussian.rotated(5, num_values=6),
    "LatticeGaussian, sparse": lambda: LatticeGaussian.sparse(5, num_values=6),
    "LatticeGaussian, off the lattice": lambda: LatticeGaussian([[2.0, 0.5], [0.5, 0.3]], [0.7, 2.2], num_values=4),
    "QuarticMixture": lambda: QuarticMixture(5, num_values=6, num_components=4),
    "QuarticMixture, one of each": lambda: QuarticMixture(1, num_values=1, num_components=1),
    "ModeGrid": lambda: ModeGrid(side=3, num_values=17, spacing=4, variance=2.0),
    "LogisticPosterior": lambda: LogisticPosterior.synthetic(8, num_rows=6),
    "Clamped RBM": lambda: given(rbm()),
    "Clamped Ising": lambda: given(Ising.barabasi_albert(7, 2, coupling=0.6, field=0.3)),
    "Clamped ResNet": lambda: given(lopsided_resnet()),
    "Clamped and clamped again": lambda: given(given(rbm())),
    "Potts": lambda: family(None),
    "Potts, some pairs": lambda: family([[0, 3], [4, 1]]),
    "CategoricalRBM": sequences,
    "CategoricalRBM, rectified": lambda: sequences("rectified"),
    "RBM, Gaussian": lambda: rbm("gaussian"),
    "RBM, rectified": lambda: rbm("rectified"),
    "Clamped CategoricalRBM": lambda: given(sequences()),
    "Clamped, Potts": lambda: given(family(None)),
    "Clamped, ScalarPotts": lambda: given(potts()),
    "Clamped, LatticeGaussian": lambda: given(LatticeGaussian.rotated(5, num_values=6)),
    "Sum of an RBM and an MLP": lambda: Sum([rbm(), MLP(7, hidden_dim=5)], [-0.7, 1.3]),
    "Sum, Potts": lambda: Sum([potts(), potts(), given(ScalarPotts(torch.zeros(7, 7), torch.randn(7, 3)))]),
    "Scaled RBM": lambda: Scaled(rbm(), 2.5),
    "Scaled, Potts": lambda: Scaled(potts(), 0.4),
    "Mixture of RBMs": lambda: Mixture([rbm(), rbm(), rbm()], [0.2, 0.5, 0.3], log_z=[4.0, 3.0, 2.5]),
    "Mixture, Potts": lambda: Mixture([potts(), potts()]),
    "Mixture, LatticeGaussian": lambda: Mixture(
        [LatticeGaussian.rotated(5, num_values=6), LatticeGaussian.sparse(5, num_values=6)]
    ),
}
