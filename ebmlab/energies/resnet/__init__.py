"""The residual network as an energy, and the parts that make it fast."""

from ebmlab.energies.resnet.resnet import ResNet

__all__ = ["ResNet"]
