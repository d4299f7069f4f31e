"""The law of one part of a product of domains given the other parts, as an energy."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies.energy import Energy
from ebmlab.energies.laws import of_states
from ebmlab.errors import UserError
from ebmlab.product import Product


class Part(Energy):
    """E(x_part) = E(x) with the other parts of x fixed, those of each chain at their own values.

    A batch of n B states holds n states of the first chain, then n of the second, and so on. `flip_differences` orders
    neighbours in this way.

    Args:
        energy: on a `Product`; held, not copied.
        name: of the part.
        x: whole states of the chains, `(B, n)`; their own values of the part are ignored.

    Example:
        >>> from ebmlab.domains import Binary, Real
        >>> from ebmlab.energies import ProductMLP
        >>> energy = ProductMLP(Product(bits=Binary(3), place=Real(1)), hidden_dim=8)
        >>> x = energy.random(5)
        >>> bits = Part(energy, "bits", x=x)
        >>> bits.domain, torch.equal(bits(x[:, :3]), energy(x))
        (Binary(3), True)
    """

    domains = (Product,)
    per_chain = "x"

    def __init__(self, energy: Energy, name: str, *, x: Tensor) -> None:
        super().__init__()
        product = energy.domain
        if not isinstance(product, Product) or name not in product.parts:
            raise UserError(f"Part: {type(energy).__name__} lives on {product}, which has no part {name}")
        self.energy = energy
        self.name = name
        self.x = x
        self.domain = product.parts[name]
        self._product = product

    @property
    def device(self) -> torch.device:
        """The inner energy's."""
        return self.energy.device

    @property
    def dtype(self) -> torch.dtype:
        """The inner energy's."""
        return self.energy.dtype

    def merge(self, x: Tensor) -> Tensor:
        """Whole states `(n B, n)` with this part `(n B, *event)`."""
        return self._product.join(self._product.split(of_states(self.x, len(x))) | {self.name: x})

    def split(self, x: Tensor) -> Tensor:
        """This part `(B, *event)` of whole states `(B, n)`."""
        return self._product.split(x)[self.name]

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.energy(self.merge(x))
        return energy

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self.energy.value_and_grad(self.merge(x))
        return value, self.split(grad).contiguous()
