"""A mixture of quartic polynomials on integers (Sun et al., 2023, Any-scale Balanced Samplers, Sec. 5.3, App. B.5)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Ordinal
from ebmlab.energies.energy import Energy
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count

HEIGHT = 2.0  # of the barrier between the two wells of an axis
WIDTH = 0.15  # distance from barrier to well of the middle axis, in units of the domain's width


class QuarticMixture(Energy):
    """E(x) = -log of the sum over k of exp(-poly4_k(x)) on {0, ..., S - 1}^d (Eq. 23).

    The paper does not state the polynomials, but their ingredients. There is one rotation P for all of them. Scales are
    s_i = 20 exp(-0.5 + (i - 1) / (d - 1)), biases b_k = (k - 1) / (K - 1), the same for all i. Here they are double
    wells along the rotated axes, shifted from component to component:

        z = P'(x - (S - 1) / 2) / (0.15 s),    poly4_k(x) = 2 * sum over i of ((z_i - b_k + 1/2)^2 - 1)^2,

    with S - 1, the domain's width, in place of the 20 in s. Wells are 2 to 5 integers from the barrier between them,
    which is 2 nats high. Little mass is at the borders of the domain. E(x) = E(S - 1 - x), so that the mean of x is the
    middle of the domain.

    Args:
        num_coordinates: d.
        num_values: S.
        num_components: K.
        seed: of the rotation.

    Example:
        >>> energy = QuarticMixture(num_coordinates=2, num_values=5, num_components=3)
        >>> x = energy.domain.enumerate()
        >>> torch.allclose(energy(x), energy(4 - x))
        True
    """

    domains = (Ordinal,)
    axes: Tensor
    coefficients: Tensor

    def __init__(
        self, num_coordinates: int = 50, num_values: int = 21, *, num_components: int = 50, seed: int = 0
    ) -> None:
        super().__init__()
        sizes = {"num_coordinates": num_coordinates, "num_values": num_values, "num_components": num_components}
        require_count("QuarticMixture", **sizes)
        self.domain = Ordinal(num_coordinates, num_values)
        generator = torch.Generator().manual_seed(seed)
        P, _ = torch.linalg.qr(torch.randn(num_coordinates, num_coordinates, dtype=torch.float64, generator=generator))
        s = max(num_values - 1, 1) * torch.linspace(-0.5, 0.5, num_coordinates, dtype=torch.float64).exp()
        b = (torch.arange(num_components).double() - (num_components - 1) / 2) / max(num_components - 1, 1)
        powers = [(b**2 - 1) ** 2, 4 * b * (1 - b**2), 6 * b**2 - 2, -4 * b, torch.ones_like(b)]
        dtype = torch.get_default_dtype()
        self.register_buffer("axes", (P / (WIDTH * s)).to(dtype))  # z = (x - middle) @ axes
        self.register_buffer("coefficients", (HEIGHT * torch.stack(powers)).to(dtype))  # of z^0 to z^4, (5, K)
        self.middle = (num_values - 1) / 2

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        return -(-self._polynomials(self._rotate(x))).logsumexp(1)

    @unrounded
    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self._rotate(x)
        polynomials = self._polynomials(z)
        weights = (-polynomials).softmax(1)
        _, c1, c2, c3, c4 = (weights @ self.coefficients.T.to(x)).unsqueeze(2).unbind(1)
        slope = c1 + z * (2 * c2 + z * (3 * c3 + z * 4 * c4))
        return -(-polynomials).logsumexp(1), slope @ self.axes.T.to(x)

    def _rotate(self, x: Tensor) -> Tensor:
        """The z of x, `(B, d)`."""
        return (x - self.middle) @ self.axes.to(x)

    def _polynomials(self, z: Tensor) -> Tensor:
        """poly4_k of every component, `(B, K)`: they share z, so the sums over i of z_i^0 to z_i^4 give them all."""
        square = z.square()
        powers = [torch.ones_like(z), z, square, square * z, square.square()]
        return torch.stack([p.sum(1) for p in powers], 1) @ self.coefficients.to(z)
