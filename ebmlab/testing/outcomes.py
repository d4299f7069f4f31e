"""Every outcome of code that draws random numbers, with its probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ebmlab.testing.lazy_uniform import NotEnumerableError, Source, Undecided

TINY = 1e-30  # what is smaller is 0
LARGEST = 720  # number of values of one random integer, or of orders
_OTHERS = """randn randn_like normal normal_ exponential_ uniform_ cauchy_ log_normal_ poisson random_ geometric_
    randint_like binomial bernoulli_"""  # functions whose results are not enumerated
_VIEWS = """view reshape expand expand_as view_as unsqueeze squeeze flatten transpose permute t movedim getitem select
    narrow contiguous clone detach flip roll"""  # functions that give other views of the same numbers
OTHER_NUMBERS, SHAPES = frozenset(_OTHERS.split()), frozenset(_VIEWS.split())
DRAWING = {"rand", "rand_like", "randint", "randperm", "bernoulli", "multinomial"}
FACTS = {"size", "dim", "numel", "len", "stride", "is_floating_point"}
ALIASES = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "multiply": "mul", "rmul": "mul"}
ALIASES |= {"subtract": "sub", "radd": "add", "truediv": "div", "divide": "div", "negative": "neg", "long": "to"}
ALIASES |= {name: "to" for name in ("int", "double", "float", "type_as")}


class Outcomes(TorchFunctionMode):
    """Runs code once for each combination of its random decisions.

    A uniform number matters only through the comparisons in which it takes part. It stays undecided, and a comparison
    splits the interval in which it may still lie. The share of the part that is taken is the probability of this
    decision. All chains decide alike, each with its own probability, so that a run moves all of them.

    Args:
        num_chains: the length of the axis that numbers the chains, which no other axis of a random tensor may have.
        limit: the largest number of runs.
    """

    def __init__(self, num_chains: int, limit: int) -> None:
        super().__init__()
        self.num_chains, self.limit = num_chains, limit

    def of(self, run: Callable[[], Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields each result of `run` with its probability in each chain, `(num_chains,)`, float64.

        Raises:
            NotEnumerableError: the code draws something else than uniform numbers, integers and coins, or uses them
                otherwise than by comparing, or has too many outcomes.
        """
        self.left: list[list[int]] = []  # for each decision of the last run, what is to be tried, what comes next first
        for _ in range(self.limit):
            self.made: list[list[int]] = []  # the same for this run
            self.weight = torch.ones(self.num_chains, dtype=torch.float64)
            before = torch.get_rng_state()
            with self:
                result = run()
            if not torch.equal(before, torch.get_rng_state()):
                torch.set_rng_state(before)
                raise NotEnumerableError("draws random numbers within a function of torch, such as dropout")
            yield result, self.weight
            while self.made and len(self.made[-1]) == 1:
                self.made.pop()
            if not self.made:
                return
            self.made[-1].pop(0)
            self.left = self.made
        raise NotEnumerableError(f"has more than {self.limit} outcomes")

    def choose(self, shares: Tensor) -> Tensor:
        """The decision of this run, `(R,)`, given the probabilities of all options, `(R, K)`.

        R is the number of chains, or 1 where all share the decision. A chain in which it has probability 0 has weight 0
        from then on, and goes on with its own likeliest option.
        """
        k = len(self.made)
        if k < len(self.left):
            options = self.left[k]
        else:
            options = ((shares > 0) & (self.weight > 0).unsqueeze(1)).any(0).nonzero().flatten().tolist()
        self.made.append(options)
        share = shares[:, options[0]]
        self.weight = self.weight * share
        return torch.where(share > 0, options[0], shares.argmax(1))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name in OTHER_NUMBERS:
            raise NotEnumerableError(f"draws numbers by torch's {name}")
        if name in DRAWING:
            plain = [a.as_subclass(Tensor) if isinstance(a, Undecided) else a for a in args]
            kwargs = {key: value for key, value in kwargs.items() if key != "generator"}
            return getattr(self, f"_{name}")(*plain, **kwargs)
        if Undecided not in types:
            return func(*args, **kwargs)
        in_place = name.endswith("_") and not name.endswith("__")
        bare = name.strip("_")
        used = self._used(func, ALIASES.get(bare, bare), args, kwargs)
        if used is None or (in_place and not isinstance(args[0], Undecided)):
            raise NotEnumerableError(f"uses random numbers in torch's {name}")
        if not in_place:
            return used
        return args[0].become(used) if isinstance(used, Undecided) else used.to(args[0].dtype)

    def _fresh(self, like: Tensor) -> Undecided:
        return Undecided.of(like, Source(like.shape, self.num_chains))

    def _used(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """What a function makes of random numbers; None if that cannot be followed."""
        numbers = [a for a in args if isinstance(a, Undecided)]
        if len(numbers) != 1 or "out" in kwargs:
            return None
        u, others = numbers[0], [a for a in args if a is not numbers[0]]
        first, other = u is args[0], others[0] if others else torch.zeros(())
        if name in ("lt", "le", "gt", "ge"):
            above = self._above(u, torch.as_tensor(other))
            return (above if (name in ("gt", "ge")) == first else ~above) & ~torch.as_tensor(other).isnan()
        if name in ("searchsorted", "bucketize") and not first:
            return self._above(u.seen(lambda tensor: tensor.unsqueeze(-1)), args[0].unsqueeze(-2)).sum(-1)
        if name in ("mul", "add", "sub") and len(args) == 2 and not kwargs:
            if name == "mul":
                return u.moved(scale=other)
            sign = 1.0 if name == "add" else -1.0
            return u.moved(shift=sign * other) if first else u.moved(sign, other)
        if not first:
            return None
        if name == "get" or name in FACTS:
            return func(u.as_subclass(Tensor), *others, **kwargs)
        if name in SHAPES:
            return u.seen(lambda tensor: func(tensor, *others, **kwargs))
        if name == "to":
            like = func(u.as_subclass(Tensor), *others, **kwargs)
            return u.seen(lambda tensor: tensor) if like.is_floating_point() else self._floor(u).to(like.dtype)
        if name == "clamp" and not u.logs and not others and set(kwargs) == {"min"} and kwargs["min"] < TINY:
            return u
        if u.is_gumbel() and name in ("max", "argmax") and (others or [kwargs.get("dim")])[0] in (-1, u.dim() - 1):
            return self._largest(u, name)
        if name in ("topk", "argsort"):
            return self._order(u, others[0] if name == "topk" else None, **kwargs)
        monotone: dict[str, Callable[[], Tensor]] = {
            "div": lambda: u.moved(scale=1 / other),
            "rsub": lambda: u.moved(-1.0, other),
            "neg": lambda: u.moved(-1.0),
            "log": u.log_of,
            "floor": lambda: self._floor(u).to(u.dtype),
        }
        return monotone[name]() if name in monotone and not kwargs else None

    def _above(self, u: Undecided, threshold: Tensor) -> Tensor:
        """Whether the random numbers are above the thresholds; this decides it."""
        shape = torch.Size(torch.broadcast_shapes(u.shape, threshold.shape))  # type: ignore[no-untyped-call]
        places, scale, shift = (part.expand(shape).flatten() for part in (u.places, u.scale, u.shift))
        level = (threshold.detach().double().expand(shape).flatten() - shift) / scale
        level = (level.exp() if u.logs else level).nan_to_num(nan=2.0)
        if u.logs > 1:
            raise NotEnumerableError("compares Gumbel numbers with other numbers")
        source, above = u.source, torch.zeros(len(places), dtype=torch.bool)
        group, row, chains = source.group[places], source.rows[places], source.num_rows
        for g in sorted(set(group.tolist())):
            at = (group == g).nonzero().flatten()
            at = at[row[at].argsort(stable=True)]
            per_chain = len(at) // chains
            if not torch.equal(row[at], torch.arange(chains).repeat_interleave(per_chain)):
                raise NotEnumerableError("compares the random numbers of some chains alone")
            at = at.view(chains, per_chain)
            ids = places[at[:, :1]]
            low, high = source.lower[ids], source.upper[ids]
            levels, order = torch.minimum(torch.maximum(level[at], low), high).sort(dim=1, stable=True)
            edges = torch.cat([low, levels, high], 1)
            shares = torch.where(high > low, edges.diff(dim=1) / (high - low), 0.0)
            part = self.choose(shares).unsqueeze(1)
            source.lower[ids], source.upper[ids] = edges.gather(1, part), edges.gather(1, part + 1)
            above[at.gather(1, order)] = torch.arange(per_chain) < part
        return (above ^ (scale < 0)).view(shape)

    def _floor(self, u: Undecided) -> Tensor:
        """Rounds down numbers between 0 and a bound, int64."""
        top = int((u.scale + u.shift).max().ceil())
        if u.logs or u.shift.min() < 0 or u.scale.min() <= 0 or top > LARGEST:
            raise NotEnumerableError("rounds random numbers down that may be negative or very large")
        steps = torch.arange(1, max(top, 1), dtype=torch.float64)
        return self._above(u.seen(lambda tensor: tensor.unsqueeze(-1)), steps).sum(-1)

    def _order(self, u: Undecided, k: int | None, sorted: bool = True, **options: Any) -> Any:
        """The places of the k largest of the uniform numbers in the last axis, and nothing for the numbers themselves.

        All of their orders are equally likely, so that the direction of a sort does not matter.
        """
        n = u.shape[-1]
        if u.is_gumbel() and k is not None and not options:  # draws without replacement
            indices = self._multinomial(u.shift.softmax(-1), k)
            return torch.return_types.topk((torch.full_like(indices, torch.nan, dtype=u.dtype), indices))
        if not u.is_fresh() or n == self.num_chains or math.prod(u.shape) > n * self.num_chains or "dim" in options:
            raise NotEnumerableError("sorts numbers that are not one row of uniform ones for each chain")
        length, unordered = n if k is None else k, k is not None and not sorted
        number = math.comb(n, length) if unordered else math.perm(n, length)
        orders = itertools.combinations(range(n), length) if unordered else itertools.permutations(range(n), length)
        indices = torch.tensor(self._one_of(orders, number)).expand(*u.shape[:-1], length)
        unknown = torch.full_like(indices, torch.nan, dtype=u.dtype)
        return indices if k is None else torch.return_types.topk((unknown, indices))

    def _largest(self, u: Undecided, name: str) -> Any:
        """The largest of shifted Gumbel numbers, and its place, which are independent."""
        place = self._multinomial(u.shift.softmax(-1), 1).squeeze(-1)
        if name == "argmax":
            return place
        largest = self._fresh(torch.empty(place.shape, dtype=u.dtype))
        largest.made(largest.source, 2, largest.places, -largest.scale, u.shift.logsumexp(-1))
        return torch.return_types.max((largest, place))

    def _one_of(self, options: Iterator[tuple[int, ...]], number: int) -> tuple[int, ...]:
        """One of so many equally likely options, the same for all chains, with no harm as each has its probability."""
        if number > LARGEST:
            raise NotEnumerableError(f"has a decision with {number} outcomes")
        chosen = int(self.choose(torch.full((1, number), 1 / number, dtype=torch.float64)))
        return next(itertools.islice(options, chosen, None))

    def _rand(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._fresh(torch.empty(*args, **kwargs))

    def _rand_like(self, like: Tensor, **kwargs: Any) -> Tensor:
        return self._fresh(torch.empty_like(like, **kwargs))

    def _randint(self, *args: Any, dtype: torch.dtype = torch.int64, device: Any = None, **kwargs: Any) -> Tensor:
        named = {**dict(zip(("low", "high", "size")[3 - len(args) :], args, strict=True)), **kwargs}
        low, high = int(named.get("low", 0)), int(named["high"])
        below: Tensor = self._floor(
            self._fresh(torch.empty(named["size"], dtype=torch.float64)).moved(float(high - low))
        )
        return below.to(device=device, dtype=dtype).add(low)

    def _randperm(self, n: int, **kwargs: Any) -> Tensor:
        return torch.tensor(self._one_of(itertools.permutations(range(n)), math.factorial(n)), **kwargs)

    def _bernoulli(self, x: Tensor, p: float | None = None) -> Tensor:
        return (~self._above(self._fresh(torch.empty_like(x)), x if p is None else torch.full_like(x, p))).to(x.dtype)

    def _multinomial(self, p: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
        picked: list[Tensor] = []
        for _ in range(num_samples):
            cdf = p.double().cumsum(-1)
            total = cdf[..., -1:]
            picked.append(self._above(self._fresh(total).moved(total), cdf[..., :-1]).sum(-1, keepdim=True))
            p = p if replacement else p.scatter(-1, picked[-1], 0.0)
        return torch.cat(picked, -1)
