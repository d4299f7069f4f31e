"""Data sets as Lightning datamodules."""

from datamodules.caltech_silhouettes import CaltechSilhouettes
from datamodules.celeba import CelebA
from datamodules.digits import Digits
from datamodules.ego_small import EgoSmall
from datamodules.emnist import EMNIST
from datamodules.gaussian_mixture import GaussianMixture
from datamodules.gray_code import GrayCode2D
from datamodules.ising_samples import IsingSamples
from datamodules.mnist import KMNIST, MNIST, FashionMNIST
from datamodules.omniglot import Omniglot
from datamodules.static_mnist import StaticMNIST
from datamodules.tabular import COMPAS, Adult, Blog, News, TabularData
from datamodules.tensor_datamodule import TensorDataModule

__all__ = [
    "COMPAS",
    "EMNIST",
    "KMNIST",
    "MNIST",
    "Adult",
    "Blog",
    "CaltechSilhouettes",
    "CelebA",
    "Digits",
    "EgoSmall",
    "FashionMNIST",
    "GaussianMixture",
    "GrayCode2D",
    "IsingSamples",
    "News",
    "Omniglot",
    "StaticMNIST",
    "TabularData",
    "TensorDataModule",
]
