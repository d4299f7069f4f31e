"""Gradients of energies in x, by autograd."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import no_autocast


def value_and_grad(energy: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """E(x) `(B,)` and dE/dx `(B, *event)`, both detached."""
    if torch.compiler.is_compiling():  # the way below would leave the compiled program
        with torch.no_grad():
            value, pull = torch.func.vjp(energy, x)  # type: ignore[misc]  # three values only with has_aux
            with no_autocast(x.device):
                return value, pull(torch.ones_like(value))[0]
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return value_and_grad(energy, x)
    parameters = _learnt(energy)
    with torch.enable_grad():
        x = (x.clone() if x.is_inference() else x.detach()).requires_grad_()
        try:
            for p in parameters:  # autograd keeps nothing for frozen parameters
                p.requires_grad_(False)
            value = energy(x)
            return value.detach(), _grad(energy, value, x)
        finally:
            for p in parameters:
                p.requires_grad_(True)


def differentiable_gradient(energy: nn.Module, x: Tensor) -> Tensor:
    """dE/dx `(B, *event)` with the graph that leads to it."""
    return _grad(energy, energy(x), x, create_graph=True)


def _grad(energy: nn.Module, value: Tensor, x: Tensor, create_graph: bool = False) -> Tensor:
    if torch.is_autocast_enabled(x.device.type):
        with no_autocast(x.device):
            return _grad(energy, value, x, create_graph)
    ones, found = torch.ones_like(value), None
    if value.requires_grad:
        (found,) = torch.autograd.grad(value, x, ones, create_graph=create_graph, allow_unused=True)
    if found is None:
        raise UserError(
            f"{type(energy).__name__} has no gradient: autograd finds no way from its energies back to x. Write its "
            "value_and_grad, or leave out what has no derivative (comparisons, whole numbers, indices, detach). Or use "
            "a sampler and a learner without gradients, such as Gibbs or LocallyBalanced, and ContrastiveDivergence"
        )
    return found


def _learnt(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that require a gradient; `module.parameters()` takes several times as long."""
    found = [p for p in module.__dict__["_parameters"].values() if p is not None and p.requires_grad]
    for child in module.__dict__["_modules"].values():
        if child is not None:
            found += _learnt(child)
    return found
