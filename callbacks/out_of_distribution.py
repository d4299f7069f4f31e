"""Detection of data outside the law: energies of held-out data against those of other data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import energies_at, energy_of, held_out
from ebmlab.data.interface import Data, Images
from ebmlab.data.weighted import drawn_states
from ebmlab.domains import Domain
from ebmlab.drawing.histograms import draw_histograms
from ebmlab.errors import WHY, UserError, explained
from ebmlab.evaluation.outliers import detection
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.noise import uniform_numbers
from ebmlab.settings import require_count

Transform = Literal["flipped", "mirrored", "rotated", "independent"]
NAMES = get_args(Transform)
IMAGE_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "flipped": lambda x: x.flip(-2),
    "mirrored": lambda x: x.flip(-1),
    "rotated": lambda x: x.rot90(1, (-2, -1)),
}


class OutOfDistribution(PeriodicEvaluation):
    """Compares energies of held-out data with those of other data, of noise and of transformed held-out data.

    Logs `ood/<name>/auroc`, `/aupr` and `/fpr95` for each of them (`ebmlab.evaluation.outliers.Detection`). Held-out
    data are the positives, and minus the energy is their score. Shows histograms of all energies as `ood/energies`.
    Held-out data are those of the validation split, or of the test split in `test`; the other data are of the same
    split.

    Args:
        data: other data sets by name. Their raw data are preprocessed like those of the run, so that the sets do not
            differ in scale.
        noise: also compare with the domain's reference law: uniform on finite domains, N(0, I) on `Real`.
        transforms: also compare with images `flipped` upside down, `mirrored` left to right or `rotated` by a right
            angle. `independent` takes each coordinate from another sample, so the marginals are right.
            Default: `flipped` and `independent` for images, else `independent`.
        num_samples: number of samples of each set, or all if it has fewer.
        batch_size: number of energies computed at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the choice of samples, the noise and the independent coordinates.

    Example:
        >>> from ebmlab.datamodules import FashionMNIST
        >>> callback = OutOfDistribution(data={"fashion": FashionMNIST(root="data")}, transforms=["rotated"])
        >>> callback.transforms
        ['rotated']
    """

    logs = ("ood/*",)

    def __init__(
        self,
        data: Mapping[str, pl.LightningDataModule] | None = None,
        noise: bool = True,
        *,
        transforms: Sequence[Transform] | None = None,
        num_samples: int = 1000,
        batch_size: int = 500,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed=seed)
        require_count("OutOfDistribution", num_samples=num_samples, batch_size=batch_size)
        if unknown := set(transforms or ()) - set(NAMES):
            raise UserError(f"OutOfDistribution: transforms are {', '.join(NAMES)}, not {', '.join(sorted(unknown))}")
        if not (data or noise or transforms or transforms is None):
            raise UserError("OutOfDistribution: there is nothing to compare with; give data, noise or transforms")
        if taken := set(data or ()) & {"noise", "held-out", *NAMES}:
            raise UserError(f"OutOfDistribution: data are called {', '.join(sorted(taken))}; take other names")
        self.data = dict(data or {})
        self.noise = noise
        self.transforms = None if transforms is None else list(transforms)
        self.num_samples = num_samples
        self.batch_size = batch_size

    @property
    def state_key(self) -> str:
        settings = {name: vars(self)[name] for name in ("noise", "transforms", "num_samples", "seed")}
        return self._generate_state_key(data=sorted(self.data), **settings)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        own, domain = data_of(trainer), energy_of(pl_module).domain
        self._transforms(own)
        for name, module in self.data.items():
            where = f"OutOfDistribution: data.{name}"
            if not isinstance(module, Data):
                raise UserError(f"{where} is a {type(module).__name__}; it must be one of ebmlab's datamodules")
            if module.event_shape is not None and math.prod(module.event_shape) != math.prod(domain.event_shape):
                raise UserError(
                    f"{where} has events of shape {tuple(module.event_shape)}, {math.prod(module.event_shape)} numbers,"
                    f" but the energy models {domain}: take data of that size"
                )
            if trainer.is_global_zero:
                module.prepare_data()
            trainer.strategy.barrier(where)
            with explained(f"{where}: {WHY}", UserError):
                x = self._like(own, module, held_out(trainer), 2)
                domain.validate(x.reshape(len(x), *domain.event_shape))

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        own, energy, split = data_of(trainer), energy_of(pl_module), held_out(trainer)
        n, _ = self.limit(trainer, self.num_samples, 1)
        positives = drawn_states(own, split, n=n, seed=self.seed)
        sets = {name: self._like(own, module, split, n) for name, module in self.data.items()}
        if self.noise:
            sets["noise"] = energy.domain.random(len(positives))
        for name in self._transforms(own):
            transform = IMAGE_TRANSFORMS.get(name, partial(_independent, domain=energy.domain))
            sets[name] = transform(positives)
        inside = energies_at(pl_module, positives, self.batch_size)
        metrics: dict[str, float] = {}
        shown = {f"held-out {own.name}": inside}
        for name, x in sets.items():
            outside = energies_at(pl_module, x, self.batch_size)
            found = detection(inside, outside)
            metrics |= {f"ood/{name}/{key}": value for key, value in found.as_dict().items()}
            shown[f"{name} (AUROC {found.auroc:.3f})"] = outside
        self.log_metrics(trainer, pl_module, metrics)
        self.log_image(trainer, "ood/energies", draw_histograms(shown, "energy", f"{split} split, {n} samples of each"))

    def _transforms(self, own: Data) -> Sequence[str]:
        shape = own.event_shape
        images = shape is not None and isinstance(own.show(torch.zeros(1, *shape)), Images)
        if self.transforms is None:
            return ["flipped", "independent"] if images else ["independent"]
        if not images and (wanted := [name for name in self.transforms if name in IMAGE_TRANSFORMS]):
            raise UserError(
                f"OutOfDistribution: {', '.join(wanted)} needs images, and {own.title} shows none: "
                'take "independent" alone'
            )
        if "rotated" in self.transforms and shape is not None and shape[-1] != shape[-2]:
            raise UserError(f"OutOfDistribution: rotated needs square images, but {own.title} has {tuple(shape)}")
        return self.transforms

    def _like(self, own: Data, other: object, split: str, n: int) -> Tensor:
        """Raw samples of the other data, preprocessed like those of the run, `(N, *event_shape)`."""
        assert isinstance(other, Data)
        theirs, ours = (1.0 if p is None else p.float_scale for p in (other.preprocessing, own.preprocessing))
        return own.to_states(other.to_raw(drawn_states(other, split, n=n, seed=self.seed)) / theirs * ours)


def _independent(x: Tensor, domain: Domain) -> Tensor:
    """The states with each coordinate permuted over the samples, `(N, ...)`."""
    flat = domain.flat(x.reshape(len(x), *domain.event_shape))
    order = uniform_numbers(*flat.shape[:2]).argsort(0)
    return torch.take_along_dim(flat, order.view(*order.shape, *[1] * (flat.dim() - 2)), 0).view_as(x)
