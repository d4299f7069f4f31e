"""Energies that `torch.compile` has wrapped."""

from __future__ import annotations

from ebmlab.energies import Energy


def uncompiled(energy: Energy) -> Energy:
    """The energy that `torch.compile` has wrapped, compiled in place; any other energy itself.

    The wrapper hides the energy's class from samplers, and lengthens the names of its parameters in checkpoints.
    """
    inner = getattr(energy, "_orig_mod", None)
    if not isinstance(inner, Energy):
        return energy
    inner.compile()
    return inner
