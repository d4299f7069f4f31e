"""Data sets as Lightning datamodules."""

if __name__ != "ebmlab.datamodules":  # in a checkout, this folder also lies on the path by itself
    raise ImportError("these modules are imported as ebmlab.datamodules")

from ebmlab.datamodules.alignment import Alignment
from ebmlab.datamodules.arrays import Arrays
from ebmlab.datamodules.caltech_silhouettes import CaltechSilhouettes
from ebmlab.datamodules.celeba import CelebA
from ebmlab.datamodules.colour_32 import CIFAR10, SVHN
from ebmlab.datamodules.colour_digits import ColourDigits
from ebmlab.datamodules.digits import Digits
from ebmlab.datamodules.ego_small import EgoSmall
from ebmlab.datamodules.emnist import EMNIST
from ebmlab.datamodules.from_dataset import FromDataset
from ebmlab.datamodules.gaussian_mixture import GaussianMixture
from ebmlab.datamodules.gray_code import GrayCode2D
from ebmlab.datamodules.image_folder import ImageFolder
from ebmlab.datamodules.ising_samples import IsingSamples
from ebmlab.datamodules.mixed_table import MixedTable
from ebmlab.datamodules.mnist import KMNIST, MNIST, FashionMNIST
from ebmlab.datamodules.omniglot import Omniglot
from ebmlab.datamodules.plane import Shapes2D
from ebmlab.datamodules.static_mnist import StaticMNIST
from ebmlab.datamodules.tabular import COMPAS, Adult, Blog, News, TabularData
from ebmlab.datamodules.tensor_datamodule import TensorDataModule

__all__ = [
    "CIFAR10",
    "COMPAS",
    "EMNIST",
    "KMNIST",
    "MNIST",
    "SVHN",
    "Adult",
    "Alignment",
    "Arrays",
    "Blog",
    "CaltechSilhouettes",
    "CelebA",
    "ColourDigits",
    "Digits",
    "EgoSmall",
    "FashionMNIST",
    "FromDataset",
    "GaussianMixture",
    "GrayCode2D",
    "ImageFolder",
    "IsingSamples",
    "MixedTable",
    "News",
    "Omniglot",
    "Shapes2D",
    "StaticMNIST",
    "TabularData",
    "TensorDataModule",
]
