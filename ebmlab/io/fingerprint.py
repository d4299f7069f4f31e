"""A number that tells modules and settings apart."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

PLAIN = bool | int | float | str  # None may be what has not been computed yet


def fingerprint(*modules: nn.Module, settings: object = None) -> str:
    """A checksum of the classes, plain attributes, parameters and buffers of modules, in 64 hexadecimal digits.

    Args:
        *modules: energies and samplers. Whether they train is left out.
        settings: its `repr` enters, so it must show every setting.
    """
    own = [
        (type(m).__name__, {k: v for k, v in vars(m).items() if isinstance(v, PLAIN) and k != "training"})
        for module in modules
        for m in module.modules()
    ]
    digest = hashlib.sha256(repr((own, settings)).encode())
    for module in modules:
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
