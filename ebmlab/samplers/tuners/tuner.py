"""A tuner runs a sampler's chains for a while and returns a frozen sampler with better settings."""

from __future__ import annotations

from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers.sampler import Sampler


class Tuner:
    """Finds settings. The law is that of the target only after tuning: samples count from then on."""

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        """Raises `UserError` if the sampler has no such settings, or `num_steps` are too few to find them."""
        raise NotImplementedError

    def tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        """Spends `num_steps` steps of all chains from x `(B, *event)`.

        Returns:
            A copy of the sampler with the settings found (the argument is left as it was), and the chains' last x.
        """
        raise NotImplementedError
