"""A multi-layer perceptron on bits (Liu et al., 2023, Gradient-guided Importance Sampling for Learning Binary EBMs)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from ebmlab.domains import Binary
from ebmlab.energies.energy import Around, Energy
from ebmlab.native import affine
from ebmlab.numerics.unrounded import read_out
from ebmlab.settings import require_count, require_positive

FEW = 64  # bits up to which a product with W takes less time than looking up one row of W for each neighbour
CHUNK_BYTES = 64 * 2**20  # of first-layer pre-activations that `flip_differences` holds at a time


class MLP(Energy):
    """E(x) is the output of a perceptron with swish activations, x binary (Sec. 5.1).

    The paper states the activation and the 256 hidden units, but not the number of layers. Three is our choice.

    Args:
        num_coordinates: d, the length of x.
        hidden_dim: units in each hidden layer.
        num_layers: how many hidden layers.
        gain: factor of the first layer's initial weights. With 1, torch's own, the perceptron is nearly linear in x at
            first. It is then slow to learn what depends on many bits together. An example is a checkerboard in Gray
            code, which it learns with 5 in a few thousand iterations.

    Attributes:
        W: weights of the first layer, `(num_coordinates, hidden_dim)`: one row per bit.
        b: biases of the first layer, `(hidden_dim,)`.
        rest: the layers after the first.

    Example:
        >>> energy = MLP(num_coordinates=3, hidden_dim=4)
        >>> energy(torch.ones(5, 3)).shape, energy.flip_differences(torch.ones(5, 3)).shape
        (torch.Size([5]), torch.Size([5, 3]))
    """

    domains = (Binary,)

    def __init__(self, num_coordinates: int, hidden_dim: int = 256, *, num_layers: int = 3, gain: float = 1.0) -> None:
        super().__init__()
        require_count("MLP", num_coordinates=num_coordinates, hidden_dim=hidden_dim, num_layers=num_layers)
        require_positive("MLP", gain=gain)
        self.domain = Binary(num_coordinates)
        first = nn.Linear(num_coordinates, hidden_dim)
        self.W, self.b = nn.Parameter(gain * first.weight.detach().T.contiguous()), nn.Parameter(first.bias.detach())
        layers: list[nn.Module] = [nn.SiLU()]
        for _ in range(num_layers - 1):
            layers += [nn.Linear(hidden_dim, hidden_dim), nn.SiLU()]
        self.rest = nn.Sequential(*layers, nn.Linear(hidden_dim, 1))

    def forward(self, x: Tensor) -> Tensor:
        return MLP.around(self, x)[0]  # that of a subclass with a forward of its own calls this method

    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and the first layer's pre-activations `(B, hidden_dim)`."""
        here = affine(self.b, x, self.W)
        return read_out(self.rest, here), here

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """As in `Energy`. A flip adds one row of W to the pre-activations of x, or subtracts it.

        The first layer of k neighbours costs O(k hidden_dim) instead of O(k d hidden_dim). With few bits, neighbours
        are written out all the same. For small d, a row of W and its gradient take more passes over memory than a
        product.
        """
        if index is None:
            index = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        energy, here = around or self.around(x)
        first = self._written_out if x.shape[1] <= FEW else self._looked_up
        chunk = max(1, CHUNK_BYTES // max(1, here.numel() * here.element_size()))
        energies = [read_out(self.rest, first(x, here, i)) for i in torch.split(index, chunk, 1)]
        return torch.cat(energies, 1) - energy.unsqueeze(1)

    def _looked_up(self, x: Tensor, here: Tensor, index: Tensor) -> Tensor:
        """The first layer's pre-activations of neighbours, `(B, k, hidden)`, from those of x and the rows of W."""
        signs = 1 - 2 * x.gather(1, index.expand(len(x), -1))
        return torch.addcmul(here.unsqueeze(1), signs.unsqueeze(2), embedding(index, self.W))

    def _written_out(self, x: Tensor, here: Tensor, index: Tensor) -> Tensor:
        """As `_looked_up`, by a product of all neighbours with W."""
        index = index.expand(len(x), -1)
        neighbours = x.unsqueeze(1).repeat(1, index.shape[1], 1)
        neighbours.scatter_(2, index.unsqueeze(2), 1 - x.gather(1, index).unsqueeze(2))
        return affine(self.b, neighbours.flatten(0, 1), self.W).view(*index.shape, self.W.shape[1])
