"""Adam's step in one pass over the parameters."""

from __future__ import annotations

from torch.optim import Adam, AdamW, Optimizer

OPEN = {"fused": None, "foreach": None, "differentiable": False, "amsgrad": False}


def in_one_pass(optimizer: Optimizer) -> Optimizer:
    """Has Adam and AdamW take their steps by torch's fused kernel, unless their settings say how.

    It does the same arithmetic in one pass over memory, where torch's default makes several. On a GPU it is one kernel
    for all parameters. The fused step of SGD gains nothing.
    """
    for group in optimizer.param_groups if type(optimizer) in (Adam, AdamW) else ():
        plain = all(group.get(name, value) == value for name, value in OPEN.items())
        if plain and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in group["params"]):
            group["fused"] = True
    return optimizer
