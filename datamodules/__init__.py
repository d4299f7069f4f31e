"""Data sets as Lightning datamodules."""

from datamodules.arrays import Arrays
from datamodules.caltech_silhouettes import CaltechSilhouettes
from datamodules.celeba import CelebA
from datamodules.digits import Digits
from datamodules.ego_small import EgoSmall
from datamodules.emnist import EMNIST
from datamodules.from_dataset import FromDataset
from datamodules.gaussian_mixture import GaussianMixture
from datamodules.gray_code import GrayCode2D
from datamodules.image_folder import ImageFolder
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
    "Arrays",
    "Blog",
    "CaltechSilhouettes",
    "CelebA",
    "Digits",
    "EgoSmall",
    "FashionMNIST",
    "FromDataset",
    "GaussianMixture",
    "GrayCode2D",
    "ImageFolder",
    "IsingSamples",
    "News",
    "Omniglot",
    "StaticMNIST",
    "TabularData",
    "TensorDataModule",
]
