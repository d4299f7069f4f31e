"""Laws with known Z and exact draws, at which annealed paths begin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ebmlab.domains import Binary, Categorical, Domain, Finite, Real, Spin
from ebmlab.energies.energy import Around, Energy
from ebmlab.errors import UserError
from ebmlab.native import bernoulli
from ebmlab.numerics.means import as_floats
from ebmlab.numerics.noise import categorical
from ebmlab.numerics.unrounded import unrounded
from ebmlab.product import Product


class Base(Energy):
    """An energy with its log Z and draws from its law; annealed paths begin at it.

    Example:
        >>> base = reference(Real(2))
        >>> base.sample(5).shape, round(base.log_z, 4)  # log(2 pi)
        (torch.Size([5, 2]), 1.8379)
    """

    @property
    def log_z(self) -> float:
        """Log of the sum, or integral, of exp(-E(x))."""
        raise NotImplementedError

    def as_states(self, x: Tensor) -> Tensor:
        """Floats stay as they are: a base law answers in the precision of the states that an annealed path brings."""
        return x if isinstance(x, Tensor) and x.is_floating_point() else super().as_states(x)

    def sample(self, n: int) -> Tensor:
        """Independent states `(n, *event)` of this law."""
        return self.random(n)


class Uniform(Base):
    """E(x) = 0 on a finite domain.

    Args:
        domain: of x.

    Example:
        >>> from ebmlab.domains import Spin
        >>> round(Uniform(Spin(3)).log_z, 4)  # log 8
        2.0794
    """

    domain: Finite
    domains = (Finite,)

    def __init__(self, domain: Finite) -> None:
        super().__init__()
        self.domain = domain

    @property
    def log_z(self) -> float:
        return self.domain.size * math.log(self.domain.num_values)

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.new_zeros(len(x)), torch.zeros_like(x)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return x.new_zeros(len(x), self.domain.size if index is None else index.shape[1])

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return x.new_zeros(len(x), self.domain.size if index is None else index.shape[1], self.domain.num_values)

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) at the sites, `(B, k, num_values)`; log-odds `(B, k)` where there are two values."""
        two = isinstance(self.domain, Binary | Spin)
        return x.new_zeros(len(x), len(sites), *(() if two else (self.domain.num_values,)))


class Bernoulli(Base):
    """E(x) = -x . logit(mean): independent bits.

    Args:
        mean: of each bit, in the shape of x; clamped to [0.01, 0.99], so that every state is possible.

    Example:
        >>> base = Bernoulli(torch.tensor([0.25, 0.5]))
        >>> p = (-base(base.domain.enumerate()) - base.log_z).exp()
        >>> [round(float(p), 3) for p in p]
        [0.375, 0.375, 0.125, 0.125]
    """

    domain: Binary
    domains = (Binary,)
    logits: Tensor

    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        if not ((mean >= 0) & (mean <= 1)).all():
            raise UserError("Bernoulli: mean is a mean of bits, its numbers must be in [0, 1]")
        self.domain = Binary(tuple(mean.shape))
        self.register_buffer("logits", as_floats(mean).clamp(0.01, 0.99).logit(), persistent=False)

    @property
    def log_z(self) -> float:
        return float(softplus(self.logits.double()).sum())

    def sample(self, n: int) -> Tensor:
        return bernoulli(self.logits.expand(n, *self.logits.shape))

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        return -(x.flatten(1) @ self.logits.flatten().to(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), -self.logits.to(x).expand_as(x)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        rise = ((2 * x - 1) * self.logits.to(x)).flatten(1)
        return rise if index is None else rise.gather(1, index)

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Log-odds of p(x_i) at the sites, `(B, k)`."""
        return self.logits.flatten()[sites].to(x).expand(len(x), -1)


class Frequencies(Base):
    """E(x) = -sum_i log f_i(x_i): independent categories. Log Z is 0.

    Args:
        frequencies: f of each value, `(*shape, K)`. A hundredth of the uniform law is mixed in, so that every state is
            possible.

    Attributes:
        logits: log f, in the same shape.

    Example:
        >>> base = Frequencies(torch.tensor([[0.2, 0.3, 0.5]]))
        >>> [round(float(p), 3) for p in (-base(torch.eye(3).unsqueeze(1))).exp()]
        [0.201, 0.3, 0.498]
    """

    domain: Categorical
    domains = (Categorical,)
    logits: Tensor

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        shares, q = frequencies.double(), frequencies.shape[-1]
        if frequencies.dim() < 2 or not ((shares >= 0).all() and (shares.sum(-1) - 1).abs().max() < 1e-4):
            raise UserError("Frequencies: frequencies are those of classes: none below 0, and those of a site sum to 1")
        self.domain = Categorical(tuple(frequencies.shape[:-1]), q)
        mixed = 0.99 * shares / shares.sum(-1, keepdim=True) + 0.01 / q
        self.register_buffer("logits", mixed.log().to(as_floats(frequencies).dtype), persistent=False)

    @property
    def log_z(self) -> float:
        return float(self.logits.double().logsumexp(-1).sum())

    def sample(self, n: int) -> Tensor:
        found: Tensor = self.domain.from_index(categorical(self.logits.expand(n, *self.logits.shape)))
        return found.to(self.logits)

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        return -(x.flatten(1) @ self.logits.flatten().to(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), -self.logits.to(x).expand_as(x)

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        logits = self.logits.to(x).flatten(0, -2).expand(len(x), -1, -1)
        rise = (logits * x.flatten(1, -2)).sum(-1, keepdim=True) - logits
        return rise if index is None else rise.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) at the sites, `(B, k, K)`."""
        return self.logits.flatten(0, -2)[sites].to(x).expand(len(x), -1, -1)


class StandardNormal(Base):
    """E(x) = |x|^2 / 2.

    Args:
        domain: of x.

    Example:
        >>> StandardNormal(Real(2))(torch.tensor([[3.0, 4.0]])).item()
        12.5
    """

    domain: Real
    domains = (Real,)

    def __init__(self, domain: Real) -> None:
        super().__init__()
        self.domain = domain

    @property
    def log_z(self) -> float:
        return math.prod(self.domain.event_shape) / 2 * math.log(2 * math.pi)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).square().sum(1) / 2

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), x.clone()


class ByParts(Base):
    """The sum over parts of E_part(x_part) on a product: parts that are independent, each with a law of its own.

    Args:
        laws: of the parts, by their names, in the order of the product.

    Example:
        >>> base = ByParts({"bits": reference(Binary(2)), "place": reference(Real(1))})
        >>> base.domain, base.sample(5).shape, round(base.log_z, 4)  # 2 log 2 + log(2 pi) / 2
        (Product(bits=Binary(2), place=Real(1)), torch.Size([5, 3]), 2.3052)
    """

    domain: Product
    domains = (Product,)

    def __init__(self, laws: Mapping[str, Base]) -> None:
        super().__init__()
        self.laws = nn.ModuleDict(laws)
        self.domain = Product(**{name: law.domain for name, law in laws.items()})

    def named(self) -> dict[str, Base]:
        """The laws by the names of their parts."""
        return cast(dict[str, Base], dict(self.laws.items()))

    @property
    def log_z(self) -> float:
        return sum(law.log_z for law in self.named().values())

    def sample(self, n: int) -> Tensor:
        return self.domain.join({name: law.sample(n).to(self.device) for name, law in self.named().items()})

    def forward(self, x: Tensor) -> Tensor:
        parts = self.domain.split(x)
        return torch.stack([law(parts[name]) for name, law in self.named().items()]).sum(0)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        parts = self.domain.split(x)
        found = {name: law.value_and_grad(parts[name]) for name, law in self.named().items()}
        value = torch.stack([value for value, _ in found.values()]).sum(0)
        return value, self.domain.join({name: grad for name, (_, grad) in found.items()})


def reference(domain: Domain) -> Base:
    """The domain's reference law: uniform on a finite domain, N(0, I) on Real, and each of both on a Product.

    Example:
        >>> reference(Binary(3)).sample(5).shape
        torch.Size([5, 3])
    """
    if isinstance(domain, Binary):
        return Bernoulli(torch.full(domain.shape, 0.5))
    if isinstance(domain, Finite):
        return Uniform(domain)
    if isinstance(domain, Real):
        return StandardNormal(domain)
    if isinstance(domain, Product):
        return ByParts({name: reference(part) for name, part in domain.parts.items()})
    raise UserError(f"{domain} has no reference law whose Z is known")
