"""Faster training, by compilation and lower precision."""

from __future__ import annotations

from typing import Literal

import pytorch_lightning as pl
import torch

from ebmlab.energies.resnet.channels_last import channels_last
from ebmlab.errors import UserError
from ebmlab.numerics.float32 import Float32Settings
from ebmlab.settings import require_choice

PRECISIONS = ("highest", "high", "medium")


class Acceleration(pl.Callback):
    """Compiles the energy, on which chains spend their time, and trades float32 precision for speed.

    For bf16, set the trainer's `precision: bf16-mixed`. `make gpu-check` measures what each setting gains and costs.

    Args:
        compile: apply `torch.compile` to the energy; the first steps then take a minute or more.
        channels_last: store the weights of convolutions with the channels last, see `energies.channels_last`.
        matmul_precision: `highest` is plain float32. `high` multiplies matrices and convolves in TF32, on a GPU.
            `medium` multiplies matrices in bf16, also on a CPU that has instructions for it (AMX). On a CPU `high`
            leaves things as they are.

    Raises:
        UserError: no such precision, or compilation together with a gradient penalty.

    Example:
        >>> Acceleration(compile=False).matmul_precision
        'high'
    """

    def __init__(
        self,
        compile: bool = True,
        channels_last: bool = True,
        *,
        matmul_precision: Literal["highest", "high", "medium"] = "high",
    ) -> None:
        require_choice("Acceleration", PRECISIONS, matmul_precision=matmul_precision)
        self.compile = compile
        self.channels_last = channels_last
        self.matmul_precision = matmul_precision
        self._before = Float32Settings.now()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        energy = pl_module.energy
        assert isinstance(energy, torch.nn.Module)
        if self.compile and getattr(pl_module, "gradient_penalty", 0) > 0:
            raise UserError(
                "Acceleration: torch.compile cannot differentiate a gradient, as gradient_penalty needs: set compile "
                "to false, or gradient_penalty to 0"
            )
        self._before = Float32Settings.now()
        if self.matmul_precision != "high" or trainer.strategy.root_device.type != "cpu":
            torch.set_float32_matmul_precision(self.matmul_precision)
        torch.backends.cudnn.allow_tf32 = self.matmul_precision != "highest"
        if self.channels_last:
            channels_last(energy)
        if self.compile:
            energy.compile()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._before.restore()
