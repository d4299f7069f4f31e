"""The any-scale balanced sampler: a free balance, a quadratic model of f, and a Gaussian auxiliary variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.native import normal
from ebmlab.samplers.discrete_langevin import check_langevin
from ebmlab.samplers.edge_root import EdgeRoot
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number, root
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_choice

Variant = Literal["first", "shift", "max", "trace", "edges", "diagonal"]
VARIANTS = ("first", "shift", "max", "trace", "edges", "diagonal")


@dataclass(kw_only=True)
class AnyScaleState(EnergyState):
    """x with the energy, the gradient and the proposal there.

    Attributes:
        grad: dE/dx, `(B, *event)`; None if W is 0 for good, since the proposal then holds all that a step needs.
    """

    grad: Tensor | None = None


class Model(NamedTuple):
    """The quadratic model of f.

    Attributes:
        first: whether W is 0 for good.
        curvature: W, or its diagonal, or None for 0; also None where a root is given.
        diagonal: D, `(d,)`.
        root: R with R'R = W + D, symmetric where it is a tensor; A is sqrt(alpha) R.
    """

    first: bool
    curvature: Tensor | None
    diagonal: Tensor | None
    root: Tensor | EdgeRoot | None

    def push(self, z: Tensor) -> Tensor:
        """R z, `(B, m)`."""
        assert self.root is not None
        pushed: Tensor = self.root(z) if isinstance(self.root, EdgeRoot) else z @ self.root.to(z)
        return pushed

    def pull(self, z: Tensor) -> Tensor:
        """R' z, `(B, d)`."""
        assert self.root is not None
        pulled: Tensor = self.root.transposed(z) if isinstance(self.root, EdgeRoot) else z @ self.root.to(z)
        return pulled

    def noise(self, x: Tensor) -> Tensor:
        """xi, standard normal, `(B, m)`."""
        assert self.root is not None
        rows = self.root.size if isinstance(self.root, EdgeRoot) else len(self.root)
        return normal(x.new_empty(len(x), rows))


def propose(
    energy: Energy, x: Tensor, grad: Tensor, settings: Sequence[Number], model: Model, noise: Tensor | None = None
) -> Proposal:
    """q( . | x, u) with drift -alpha grad E(x) + A' xi and stiffness alpha D_ii + 1 / sigma (Eq. 14).

    Without u the stiffness is 1 / sigma - alpha W_ii, for a W that is diagonal (Eq. 11).
    """
    domain, (sigma, alpha) = cast(Finite, energy.domain), settings
    if noise is not None and model.diagonal is not None:
        drift = -alpha * grad + root(alpha) * model.pull(noise).reshape(grad.shape)
        return factorised(domain, x, drift, stiffness=(1 / sigma + alpha * model.diagonal.to(x)).view(domain.shape))
    stiffness = 1 / sigma
    if model.curvature is not None:
        stiffness = (stiffness - alpha * model.curvature.to(x)).view(domain.shape)
    return factorised(domain, x, grad, stiffness=stiffness, weight=-alpha)


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], model: Model, known: PerChain | None = None
) -> AnyScaleState:
    """E(x), its gradient, and the proposal there, unless it depends on the u of a step."""
    at = energy.evaluate(x, known)
    law = propose(energy, x, at.grad, settings, model) if model.root is None else None
    return AnyScaleState(x=x, energy=at.energy, grad=None if model.first else at.grad, proposal=law, known=at.known)


def step(energy: Energy, state: AnyScaleState, settings: Sequence[Number], model: Model) -> tuple[AnyScaleState, Info]:
    """Draws u = A x + xi and y from q( . | x, u), and accepts both by Metropolis.

    The ratio is p(y) N(u - A y) q(x | y, u) / (p(x) N(u - A x) q(y | x, u)), N the standard normal density.
    """
    if model.root is None:
        assert state.proposal is not None
        draw = state.proposal.sample()
        new = start(energy, draw.y, settings, model)
        log_ratio = state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)
        return decide(energy, log_ratio, new=new, old=state)
    assert state.grad is not None
    noise, alpha = model.noise(state.x), settings[1]
    here = propose(energy, state.x, state.grad, settings, model, noise)
    draw = here.sample()
    new = start(energy, draw.y, settings, model)
    back = noise + root(alpha) * model.push((state.x - new.x).flatten(1))
    assert new.grad is not None
    there = propose(energy, new.x, new.grad, settings, model, back)
    log_u = (noise.square().sum(1) - back.square().sum(1)) / 2
    log_ratio = state.energy - new.energy + log_u + here.log_ratio(draw, there)
    return decide(energy, log_ratio, new=new, old=state)


class AnyScale(Sampler):
    """The AB samplers (Sun et al. 2023, Sec. 3): Metropolis proposals from a quadratic model of f = -E.

    The model (Eq. 11)

        q(y) = exp(alpha [(y - x)' grad f(x) + (y - x)' W (y - x) / 2] - |y - x|^2 / (2 sigma)) / normaliser

    couples all coordinates. An auxiliary variable u = A x + xi, with xi standard normal and A'A = alpha (W + D),
    decouples them. Under q(y | x, u) the coordinates of y are independent. The drift is alpha grad f(x) + A' xi, and
    the stiffness alpha D_ii + 1 / sigma (Eq. 14, whose printed form lacks terms). The pair (u, y) is proposed and
    accepted together; the reverse move has xi' = xi + A (x - y). The sampler is exact for every W, D, sigma and alpha.
    If f is quadratic with Hessian W, sigma is infinite and alpha is 1, it is Gibbs sampling of (u, x) and rejects no
    proposal.

    Variant `first` (AB-1st) has W = 0: it is DMALA with a free alpha. `diagonal` has a diagonal W and needs no u.
    `shift`, `max` and `trace` (AB-shift, AB-max, AB-trace) differ in the rule for D, which `AnyScaleTuner` applies
    (Alg. 1). `edges`, which the paper does not have, is for a W with few entries and thousands of coordinates. D is the
    least that makes W + D diagonally dominant. A has one row for each entry above the diagonal, in place of d
    (`EdgeRoot`). Until W is set all of them act as `first`, as in the paper's burn-in.

    Args:
        variant: `first`, `diagonal`, `shift`, `max`, `trace` or `edges`.
        step_size: sigma; tunable.
        balance: alpha, in [0, 1]; tunable.
        curvature: W, symmetric `(d, d)`, or its entries for `edges`, or its diagonal `(d,)` for `diagonal`.
        diagonal: D, `(d,)`, such that W + D has no negative eigenvalue; for `shift`, `max` and `trace` only.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import AnyScale
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = AnyScale("first", step_size=0.5).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    step_size: Tensor
    balance: Tensor
    curvature: Tensor | None
    diagonal: Tensor | None
    root: Tensor | EdgeRoot | None  # R with R'R = W + D, symmetric where it is a tensor; A is sqrt(alpha) times it

    def __init__(
        self,
        variant: Variant = "trace",
        step_size: float = 0.1,
        *,
        balance: float = 0.5,
        curvature: Sequence[float] | Sequence[Sequence[float]] | Tensor | Edges | None = None,
        diagonal: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__()
        check_langevin("AnyScale", step_size, balance)
        require_choice("AnyScale", VARIANTS, variant=variant)
        self.variant = variant
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("balance", torch.tensor(float(balance)), persistent=False)
        for name in ("curvature", "diagonal", "root"):
            self.register_buffer(name, None, persistent=False)
        given = curvature if isinstance(curvature, Edges) else _floats("curvature", curvature)
        self.set_curvature(given, _floats("diagonal", diagonal))

    def set_curvature(self, curvature: Tensor | Edges | None, diagonal: Tensor | None = None) -> None:
        """Sets W and D, which are as in the arguments of the class; None removes both.

        The variant `edges` takes the entries of W, too: those of an Ising model are `energy.edges()`.
        """
        if curvature is None and diagonal is not None:
            raise UserError("AnyScale: a diagonal needs the curvature that it belongs to")
        if curvature is not None and self.variant == "first":
            raise UserError("AnyScale: variant first has no curvature; name another variant, or leave curvature out")
        alone = self.variant in ("diagonal", "edges")
        if curvature is not None and (diagonal is None) != alone:
            wrong = "no diagonal" if alone else "a diagonal too (AnyScaleTuner finds both)"
            raise UserError(f"AnyScale: variant {self.variant} with curvature takes {wrong}")
        if isinstance(curvature, Edges):
            return self._set_edges(curvature)
        dims = 1 if self.variant == "diagonal" else 2
        if curvature is not None and (curvature.dim() != dims or len(set(curvature.shape)) != 1):
            right = "a vector" if dims == 1 else "a square matrix"
            raise UserError(f"AnyScale: curvature has shape {tuple(curvature.shape)}, but must be {right}")
        if curvature is not None and not torch.allclose(curvature, curvature.T if dims == 2 else curvature):
            raise UserError("AnyScale: curvature must be finite, and symmetric where it is a matrix")
        if curvature is not None and self.variant == "edges":
            return self._set_edges(Edges.of((curvature + curvature.T) / 2))
        root = None
        if curvature is not None and diagonal is not None:
            if diagonal.shape != curvature.shape[:1]:
                raise UserError(
                    f"AnyScale: diagonal has shape {tuple(diagonal.shape)}, but curvature needs ({len(curvature)},)"
                )
            root = _square_root(curvature, diagonal)
        self.curvature, self.diagonal, self.root = curvature, diagonal, root

    def _set_edges(self, curvature: Edges) -> None:
        if self.variant != "edges":
            raise UserError(f"AnyScale: variant {self.variant} takes no edges; give the matrix, or take variant edges")
        self.edges = curvature.checked("AnyScale: curvature", diagonal=True)
        self.root = EdgeRoot(self.edges)
        self.diagonal = self.root.diagonal

    def tuned_arguments(self) -> dict[str, Any]:
        return {"curvature": self.edges, "diagonal": None} if isinstance(self.root, EdgeRoot) else {}

    def check(self, energy: Energy) -> None:
        super().check(energy)
        domain = cast(Finite, energy.domain)
        if isinstance(domain, Categorical) and self.variant != "first":
            raise UserError(
                f"AnyScale: variant {self.variant} samples Binary, Spin or Ordinal domains, but "
                f"{type(energy).__name__} lives on {domain}; variant first samples it"
            )
        given = self.diagonal if self.curvature is None else self.curvature
        if given is not None and len(given) != domain.size:
            raise UserError(f"AnyScale: curvature has {len(given)} coordinates, but {domain} has {domain.size}")

    @property
    def model(self) -> Model:
        """W, D and the root of W + D, as the steps take them."""
        return Model(self.variant == "first", self.curvature, self.diagonal, self.root)

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, torch.stack([self.step_size, self.balance]).unsqueeze(0), (self.model,))


def _floats(name: str, values: Sequence[float] | Sequence[Sequence[float]] | Tensor | None) -> Tensor | None:
    if values is None or (isinstance(values, Tensor) and values.is_floating_point()):
        return values
    return as_numbers(values, f"AnyScale: {name}").to(torch.get_default_dtype())


def _square_root(W: Tensor, D: Tensor) -> Tensor:
    """(W + D)^(1/2), symmetric `(d, d)`, by eigendecomposition in float64."""
    values, vectors = torch.linalg.eigh(W.double() + D.double().diag())
    if not bool(values.min() >= -1e-5 * W.abs().max()):  # allows for rounding; NaN fails too
        raise UserError(
            f"AnyScale: curvature plus diagonal must have no negative eigenvalue, but has {float(values.min()):.3g}; "
            "enlarge diagonal"
        )
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root.to(W)
