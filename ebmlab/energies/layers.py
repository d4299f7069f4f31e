"""Layers that give no energy of one state alone: those that mix the states of a batch, and those that draw noise."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError


def require_one_law(energy: Energy) -> None:
    """Raises `UserError` if an energy depends on the other states of a batch, or on noise, so that it has no law.

    Batch normalisation in training mode does the former, dropout the latter. A network is in training mode until
    `eval()` is called. Some energies know more of when they have no law: `Energy.check_law`.
    """
    energy.check_law()
    for name, layer in energy.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            wrong = "mixes the states of a batch"
        elif _draws_noise(layer) and layer.training:
            wrong = "makes energies random"
        else:
            continue
        right = "call energy.eval() first" if layer.training else "take LayerNorm or GroupNorm in its place"
        raise UserError(f"{type(energy).__name__}: its layer {name} ({type(layer).__name__}) {wrong}: {right}")


def _draws_noise(layer: nn.Module) -> bool:
    """Whether a layer in training mode draws noise. Attention and recurrent layers have a dropout of their own."""
    if isinstance(layer, nn.RNNBase):
        return layer.dropout > 0 and layer.num_layers > 1
    if isinstance(layer, nn.RReLU):
        return layer.lower < layer.upper
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout > 0)
    return isinstance(layer, _DropoutNd) and layer.p > 0
