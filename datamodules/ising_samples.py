"""Samples of the two-dimensional Ising model, from which its couplings can be learnt."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.interface import Images
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Spin
from ebmlab.errors import UserError, explained
from ebmlab.graphs import lattice
from ebmlab.io.files import load, save
from ebmlab.io.progress import Meter
from ebmlab.numerics.launch import launched_rank
from ebmlab.numerics.noise import uniform_numbers
from ebmlab.numerics.streams import stream
from ebmlab.settings import require_count


class IsingSamples(TensorDataModule):
    """Spins of a periodic square lattice with E(x) = -coupling * (sum of x_i x_j over edges), each edge counted once.

    The defaults are those of Liu et al. (2023), App. J, after Grathwohl et al. (2021). Their E(x) = -sigma x'Jx with
    sigma = 0.25 counts every edge twice. Their 1,000,000 Gibbs steps of one site are 1,600 sweeps of 625 sites. Each
    sample is the last state of its own Gibbs chain, which starts from random spins and is exact in the limit of many
    sweeps. With the default settings 1,000 sweeps sufficed. A fifth of the chains had two large domains after 100
    sweeps, none after 1,000. The mean energy agreed with the exact sum (Kaufman, 1949). Strong couplings on large
    lattices need more sweeps.

    The samples take a minute at the defaults and are cached in the data root. If that cannot be written, they stay in
    memory and are drawn again next time. The validation and test splits are a tenth as large as the training split.

    Args:
        side: sites along each side of the lattice, at least 3. Site (i, j) has number i * side + j.
        coupling: of every edge, in units of the temperature; positive values favour equal neighbours.
        num_samples: number of training samples.
        num_sweeps: Gibbs updates of every site, from random spins.
        batch_size: samples per batch and process.
        root: folder of the data sets; the cache is in its ising_samples/. By default $EBMLAB_DATA, else data/ in the
            working directory.
        seed: of the samples and of the order of the training batches.

    Example:
        >>> data = IsingSamples(side=4, num_samples=50, num_sweeps=10, root="data")
        >>> data.states("train").shape, data.coupling_matrix().shape
        (torch.Size([50, 16]), torch.Size([16, 16]))
    """

    domains = (Spin,)
    name = "ising_samples"
    max_value = 1.0

    def __init__(
        self,
        side: int = 25,
        coupling: float = 0.5,
        *,
        num_samples: int = 2000,
        num_sweeps: int = 2000,
        batch_size: int = 100,
        root: str | None = None,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((side * side,), batch_size, seed=seed)
        self.domains = (Spin,)
        require_count("IsingSamples", side=side, least=3)
        require_count("IsingSamples", num_samples=num_samples, least=10)
        require_count("IsingSamples", num_sweeps=num_sweeps)
        if not math.isfinite(coupling):
            raise UserError(f"IsingSamples: coupling is {coupling}; it must be finite")
        self.side = side
        self.coupling = float(coupling)
        self.num_samples = num_samples
        self.num_sweeps = num_sweeps
        self.root = data_root(root)
        self._samples: Tensor | None = None

    @property
    def cache(self) -> Path:
        """The file that holds all splits; its name contains the settings that they depend on."""
        name = (
            f"side{self.side}_coupling{self.coupling}_samples{self.num_samples}_sweeps{self.num_sweeps}_seed{self.seed}"
        )
        return self.root / "ising_samples" / f"{name}.pt"

    def coupling_matrix(self) -> Tensor:
        """The true J `(d, d)` with d = side * side, symmetric with a zero diagonal: E(x) = -1/2 x'Jx."""
        return lattice(self.side, self.coupling)

    def prepare_data(self) -> None:
        """Draws the samples and caches them, unless a cache is there already."""
        if self._samples is not None or self.cache.is_file():
            return
        splits = self.num_samples + 2 * (self.num_samples // 10)
        generator = stream("ising_samples", self.seed)
        self._samples = gibbs(self.side, self.coupling, splits, self.num_sweeps, generator)
        with suppress(OSError):  # the folder cannot be written; the samples stay in memory
            save(self._samples, self.cache)

    def load(self, split: str) -> tuple[Tensor, None]:
        """The split's spins `(N, side * side)`, int8."""
        self.prepare_data()
        if self._samples is None:
            self._samples = self._read()
        first, second = self.num_samples, self.num_samples + self.num_samples // 10
        bounds = {"train": (0, first), "val": (first, second), "test": (second, None)}
        begin, end = bounds[split]
        return self._samples[begin:end], None

    @property
    def preprocessing(self) -> Preprocessing:
        """The spins are used as they are."""
        return Preprocessing(self.event_shape)

    def show(self, x: Tensor) -> Images:
        """The lattice row by row, +1 white."""
        return Images((x.reshape(len(x), 1, self.side, self.side) + 1) / 2)

    def _read(self) -> Tensor:
        shape = (self.num_samples + 2 * (self.num_samples // 10), *self.event_shape)
        with explained(f"IsingSamples: {self.cache} is damaged; delete it to make it again", Exception):
            samples: Tensor = load(self.cache)
            if samples.dtype != torch.int8 or tuple(samples.shape) != shape or not (samples.abs() == 1).all():
                raise ValueError("other content")
        return samples


def neighbours(side: int) -> Tensor:
    """The four neighbours of each site of a periodic lattice, `(side * side, 4)`."""
    sites = torch.arange(side * side).view(side, side)
    return torch.stack([sites.roll(shift, axis).flatten() for axis in (0, 1) for shift in (1, -1)], 1)


def colours(side: int) -> list[Tensor]:
    """Site numbers, one tensor per colour, such that no two neighbours on the periodic lattice share a colour.

    An even side needs two colours, as on a checkerboard. An odd cycle needs three, such as c = 0, 1, 0, 1, ..., 2. Then
    (c_i + c_j) mod 3 colours the lattice, since a step along an axis changes only one of the two terms.
    """
    line = torch.arange(side) % 2
    line[-1] += 2 * (side % 2)
    number = 2 + side % 2
    colour = (line.unsqueeze(1) + line).flatten() % number
    return [(colour == c).nonzero().flatten() for c in range(number)]


def gibbs(side: int, coupling: float, n: int, num_sweeps: int, generator: torch.Generator) -> Tensor:
    """Last states of `n` independent Gibbs chains from random spins, `(n, side * side)`, int8.

    The sites of a colour are independent given the others, so that they are updated together.
    """
    x = (2 * torch.randint(2, (side * side, n), generator=generator, dtype=torch.int8) - 1).contiguous()
    classes = [(sites, neighbours(side)[sites].unbind(1)) for sites in colours(side)]
    meter = Meter(f"Ising samples {side}x{side}", "sweep", num_sweeps, shown=not launched_rank())
    for _ in meter.along(range(num_sweeps)):
        for sites, around in classes:
            field = x.index_select(0, around[0])
            for other in around[1:]:
                field += x.index_select(0, other)
            up = field.float().mul_(2 * coupling).sigmoid_()  # P(x_i = 1 | the rest)
            x[sites] = (uniform_numbers(*up.shape, generator=generator) < up).to(torch.int8).mul_(2).sub_(1)
    return x.T.contiguous()
