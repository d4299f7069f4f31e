"""Where data come from."""

from datamodules.base import TensorDataModule
from datamodules.celeba import CelebA
from datamodules.digits import Digits
from datamodules.gaussian_mixture import GaussianMixture
from datamodules.mnist import MNIST, FashionMNIST

__all__ = ["MNIST", "CelebA", "Digits", "FashionMNIST", "GaussianMixture", "TensorDataModule"]
