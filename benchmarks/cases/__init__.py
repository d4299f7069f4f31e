"""The races: importing this package registers them all."""

from benchmarks.cases import (
    ais,
    binary,
    gibbs,
    grbm,
    hamiltonian,
    langevin,
    mlp,
    potts,
    processes,
    products,
    ratio_matching,
    rbm,
    real_learners,
    resnet,
    running,
    tuners,
)

__all__ = [
    "ais",
    "binary",
    "gibbs",
    "grbm",
    "hamiltonian",
    "langevin",
    "mlp",
    "potts",
    "processes",
    "products",
    "ratio_matching",
    "rbm",
    "real_learners",
    "resnet",
    "running",
    "tuners",
]
