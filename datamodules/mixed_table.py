"""Rows of classes, bits and real numbers that depend on each other, whose density is known."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Domain
from ebmlab.numerics.streams import stream
from ebmlab.product import Product
from ebmlab.settings import require_count

_SHARES = (0.5, 0.3, 0.2)
_MEANS = ((-1.5, -0.5), (1.5, -1.0), (0.5, 1.5))
_ROOTS = (((0.5, 0.0), (0.4, 0.3)), ((0.4, 0.0), (-0.3, 0.4)), ((0.7, 0.0), (0.0, 0.3)))  # of the covariances
_STEEP = 3.0


class MixedTable(TensorDataModule):
    """A table with the columns kind (0, 1 or 2), mark (0 or 1), length and width, made up by a law of known density.

    The kinds have shares of 0.5, 0.3 and 0.2. Length and width are normal in each kind, with another correlation. The
    mark is 1 with the probability sigmoid(3 length width). States are those of `Product.of_columns([3, 2, 0, 0])`. The
    validation and test splits are new draws, a tenth as many as for training.

    Args:
        num_samples: number of training rows.
        batch_size: rows per batch and process.
        seed: of the rows and of the order of the training batches.

    Example:
        >>> data = MixedTable(num_samples=100)
        >>> data.raw("train").shape, data.states("train").shape
        (torch.Size([100, 4]), torch.Size([100, 6]))
        >>> data.log_density(data.states("val")).shape
        torch.Size([10])
    """

    name = "mixed_table"
    domains: tuple[type[Domain], ...] = (Product,)

    def __init__(self, num_samples: int = 10_000, batch_size: int = 100, *, seed: int = 0) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((4,), batch_size, seed=seed)
        require_count("MixedTable", num_samples=num_samples // 10)
        self.domains = (Product,)
        self.num_samples = num_samples
        self.event_shape = self.preprocessing.event_shape

    def load(self, split: str) -> tuple[Tensor, None]:
        """The split's rows, float32 `(N, 4)`, which depend on seed and split alone."""
        n = self.num_samples if split == "train" else self.num_samples // 10
        return self._draw(n, stream("mixed_table", self.seed, split)), None

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws new states `(n, 6)`, from the global generator by default."""
        return self.to_states(self._draw(n, generator))

    def log_density(self, x: Tensor) -> Tensor:
        """Log p `(B,)` of states `(B, 6)`, normalised; kind and mark have probabilities, length and width densities."""
        place, mark, kind = x[:, :2], x[:, 2], x[:, 3:].argmax(1)
        shares, means, roots = (torch.tensor(numbers).to(x)[kind] for numbers in (_SHARES, _MEANS, _ROOTS))
        away = torch.linalg.solve_triangular(roots, (place - means).unsqueeze(2), upper=False).squeeze(2)
        normal = -away.square().sum(1) / 2 - roots.diagonal(dim1=1, dim2=2).log().sum(1) - math.log(2 * math.pi)
        log_p: Tensor = shares.log() + normal + logsigmoid((2 * mark - 1) * _STEEP * place.prod(1))
        return log_p

    @property
    def preprocessing(self) -> Preprocessing:
        """Numbers are used as they are, and classes become one-hot vectors."""
        return Preprocessing((4,), columns=("kind", "mark", "length", "width"), classes=(3, 2, 0, 0))

    @staticmethod
    def _draw(n: int, generator: torch.Generator | None) -> Tensor:
        kind = torch.multinomial(torch.tensor(_SHARES), n, replacement=True, generator=generator)
        noise = torch.randn(n, 2, generator=generator)
        place = torch.tensor(_MEANS)[kind] + (torch.tensor(_ROOTS)[kind] @ noise.unsqueeze(2)).squeeze(2)
        mark = torch.rand(n, generator=generator) < (_STEEP * place.prod(1)).sigmoid()
        return torch.cat([kind.unsqueeze(1), mark.unsqueeze(1), place], 1)
