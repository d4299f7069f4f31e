"""Where data come from."""

from datamodules.base import TensorDataModule
from datamodules.celeba import CelebA
from datamodules.digits import Digits
from datamodules.gaussian_mixture import GaussianMixture
from datamodules.mnist import MNIST, FashionMNIST
from datamodules.tabular import COMPAS, Adult, Blog, News, Table, TabularData

__all__ = [
    "COMPAS",
    "MNIST",
    "Adult",
    "Blog",
    "CelebA",
    "Digits",
    "FashionMNIST",
    "GaussianMixture",
    "News",
    "Table",
    "TabularData",
    "TensorDataModule",
]
