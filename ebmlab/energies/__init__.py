"""Energies E(x), which define p(x) = exp(-E(x)) / Z."""

from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.categorical_rbm import CategoricalRBM
from ebmlab.energies.clamped import Clamped, ClampedBipartite
from ebmlab.energies.classifier import Classifier, ClassifierMLP
from ebmlab.energies.energy import Energy
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.gaussian import Gaussian
from ebmlab.energies.grbm import GRBM
from ebmlab.energies.masked_language_model import MaskedLanguageModel
from ebmlab.energies.mlp import MLP
from ebmlab.energies.noisy import AtNoise, NoisyEnergy, NoisyMLP
from ebmlab.energies.noisy_autoencoder import NoisyAutoencoder
from ebmlab.energies.noisy_resnet import NoisyResNet
from ebmlab.energies.pairwise.ising import Ising
from ebmlab.energies.pairwise.potts import Potts
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.energies.part import Part
from ebmlab.energies.paths.bipartite_bridge import BipartiteBridge, bridge
from ebmlab.energies.paths.bridge import Bridge
from ebmlab.energies.paths.composed import Mixture, Sum
from ebmlab.energies.paths.known_log_z import Solved
from ebmlab.energies.paths.reference import Base, Bernoulli, ByParts, Frequencies, StandardNormal, Uniform, reference
from ebmlab.energies.paths.tempering import Scaled, TemperedBipartite, TemperedEnergy, tempered
from ebmlab.energies.product_mlp import ProductMLP
from ebmlab.energies.rbm import RBM
from ebmlab.energies.real_mlp import RealMLP
from ebmlab.energies.resnet.resnet import ResNet
from ebmlab.energies.rgcn import RGCN

__all__ = [
    "GRBM",
    "MLP",
    "RBM",
    "RGCN",
    "AtNoise",
    "Base",
    "Bernoulli",
    "Bipartite",
    "BipartiteBridge",
    "Bridge",
    "ByParts",
    "CategoricalRBM",
    "Clamped",
    "ClampedBipartite",
    "Classifier",
    "ClassifierMLP",
    "Energy",
    "Evaluation",
    "Frequencies",
    "Gaussian",
    "Ising",
    "MaskedLanguageModel",
    "Mixture",
    "NoisyAutoencoder",
    "NoisyEnergy",
    "NoisyMLP",
    "NoisyResNet",
    "Part",
    "PerChain",
    "Potts",
    "ProductMLP",
    "RealMLP",
    "ResNet",
    "ScalarPotts",
    "Scaled",
    "Solved",
    "StandardNormal",
    "Sum",
    "TemperedBipartite",
    "TemperedEnergy",
    "Uniform",
    "bridge",
    "reference",
    "tempered",
]
