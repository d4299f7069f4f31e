"""The posterior of a neural network with weights -1 and +1 (Zhang et al. 2022, Sec. 7.4 and App. I.5)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ebmlab.data.tables import Rows, TabularSource
from ebmlab.domains import Spin
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count, require_positive

CHUNK = 2**21  # hidden units computed at once, over chains and rows: 8 MiB in float32


class BinaryNetPosterior(Energy):
    """E(w) = sharpness * mean over training rows of (f_w(x_n) - y_n)^2, under a uniform prior on w in {-1, +1}^d.

    The network is f_w(x) = sigmoid(v' tanh(W'x + b) + c). The pre-activations are not scaled. The state w concatenates
    W `(F, H)`, b `(H,)`, v `(H,)` and c, so that d = (F + 2) H + 1. The paper has a sum over rows; the authors' code
    has 100 times the mean. Their step size 0.1 is for bits (w + 1) / 2, whose squared distances are a quarter of those
    of spins. It corresponds to 0.4 here.

    Rows with the same features have the same output, which is computed once. For n of them with targets of mean m and
    variance s^2, the sum of squared errors is n ((f - m)^2 + s^2). COMPAS has 4,937 training rows, with 2,174 outputs.

    Args:
        data: the rows; `Rows(features, targets)` for tensors.
        hidden_dim: H.
        sharpness: factor of the mean squared error.
        batch_size: number of rows of a `minibatch`.

    Example:
        >>> energy = BinaryNetPosterior(Rows(torch.rand(10, 3), torch.rand(10)), hidden_dim=2)
        >>> w = energy.random(4)
        >>> w.shape, energy(w).shape, energy.predict(w, torch.rand(5, 3)).shape
        (torch.Size([4, 11]), torch.Size([4]), torch.Size([4, 5]))
    """

    domains = (Spin,)
    inputs: Tensor
    shares: Tensor
    means: Tensor
    variance: Tensor
    row: Tensor
    targets: Tensor
    test_x: Tensor | None
    test_y: Tensor | None

    def __init__(
        self, data: TabularSource, hidden_dim: int = 500, *, sharpness: float = 100.0, batch_size: int = 100
    ) -> None:
        super().__init__()
        table = data.load()
        x, y = table.train_x, table.train_y
        if x.dim() != 2 or y.shape != x.shape[:1] or x.numel() == 0:
            raise UserError(
                f"BinaryNetPosterior: the features have shape {tuple(x.shape)} and the targets {tuple(y.shape)}; "
                "they must be (N, F) and (N,) with N and F at least 1"
            )
        require_count("BinaryNetPosterior", hidden_dim=hidden_dim, batch_size=batch_size)
        require_positive("BinaryNetPosterior", sharpness=sharpness)
        self.domain = Spin((x.shape[1] + 2) * hidden_dim + 1)
        self.hidden_dim = hidden_dim
        self.sharpness = sharpness
        self.batch_size = batch_size
        features, row, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
        exact = y.double()  # whatever type the targets have
        means = exact.new_zeros(len(counts)).index_add_(0, row, exact) / counts
        sums = {
            "shares": counts.double() / len(y),  # (U,), share of the rows that have these features
            "means": means,  # (U,), mean of their targets
            "variance": (exact - means[row]).square().mean(),  # of all targets around these means
        }
        kept = {
            "inputs": _with_constant(features),  # (U, F + 1), each set of features once, and a column of ones
            "row": row,  # (N,), where `inputs` holds the features of each row
            "targets": y,  # (N,)
        }
        kept |= {name: value.to(y.dtype if y.is_floating_point() else x.dtype) for name, value in sums.items()}
        for name, value in kept.items():
            self.register_buffer(name, value, persistent=False)
        for name in ("test_x", "test_y"):
            self.register_buffer(name, getattr(table, name), persistent=False)

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        errors = (self._outputs(x, self.inputs) - self.means.to(x)).square()
        return self.sharpness * (errors @ self.shares.to(x) + self.variance.to(x))

    @unrounded
    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """E and its gradient, from one pass over the rows."""
        means, shares, grad = self.means.to(x), self.shares.to(x), torch.zeros_like(x)
        energy = self.variance.to(x).repeat(len(x))
        _, v, _ = self._unpack(x)
        grad_w, grad_v, grad_c = self._unpack(grad)  # views, filled in place
        for rows, inputs, gates, outputs in self._passes(x, self.inputs):
            error = outputs - means[rows]
            energy += error.square() @ shares[rows]
            slope = 2 * shares[rows] * error * outputs * (1 - outputs)  # derivative in the last pre-activation, (B, n)
            total = slope.sum(1, keepdim=True)
            grad_c += total
            grad_v += 2 * torch.einsum("bn,bnh->bh", slope, gates) - total
            slopes = gates.addcmul_(gates, gates, value=-1).mul_(slope.unsqueeze(2))  # (B, n, H), slope * tanh' / 4
            grad_w += torch.matmul(inputs.T, slopes) * (4 * v).unsqueeze(1)
        return energy * self.sharpness, grad * self.sharpness

    def minibatch(self, size: int | None = None) -> BinaryNetPosterior:
        """The energy of random rows, drawn without replacement: an unbiased estimate of E and of its gradient.

        Args:
            size: number of rows, `batch_size` by default; all rows if there are fewer.
        """
        size = self.batch_size if size is None else size
        rows = torch.randperm(len(self.targets), device=self.targets.device)[:size]
        part = Rows(self.inputs[self.row[rows], :-1], self.targets[rows])
        return BinaryNetPosterior(part, self.hidden_dim, sharpness=self.sharpness, batch_size=self.batch_size)

    @unrounded
    @torch.no_grad()
    def predict(self, x: Tensor, features: Tensor) -> Tensor:
        """Outputs `(B, N)` of the networks x `(B, d)` on features `(N, F)`."""
        return self._outputs(x, _with_constant(features))

    @torch.no_grad()
    def log_likelihood(self, x: Tensor) -> Tensor:
        """Minus the mean squared error on the training rows, `(B,)`; the training log-likelihood of Table 2."""
        energy: Tensor = self(x)
        return -energy / self.sharpness

    def rmse(self, x: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """Root mean squared error of the chains' mean prediction, a scalar."""
        return (self.predict(x, features).mean(0) - targets.to(x)).square().mean().sqrt()

    def test_rmse(self, x: Tensor) -> Tensor:
        """`rmse` on the test rows, a scalar; the test RMSE of Table 2."""
        if self.test_x is None or self.test_y is None:
            raise UserError("BinaryNetPosterior: its data have no test rows; give test_x and test_y")
        return self.rmse(x, self.test_x, self.test_y)

    def _unpack(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views of x: W with b as its last row `(B, F + 1, H)`, v `(B, H)`, c `(B, 1)`."""
        w, v, c = x.tensor_split((-self.hidden_dim - 1, -1), dim=1)
        return w.view(len(x), w.shape[1] // self.hidden_dim, self.hidden_dim), v, c

    def _passes(self, x: Tensor, inputs: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Passes of n rows: their slice, their inputs `(n, F + 1)`, gates `(B, n, H)` and outputs `(B, n)`.

        The hidden units are tanh z = 2 gate - 1 with gate = sigmoid(2 z), which takes a third of the time of tanh.
        """
        w, v, c = self._unpack(x)
        rest = c - v.sum(1, keepdim=True)
        n = max(1, CHUNK // max(1, len(x) * self.hidden_dim))
        for start in range(0, len(inputs), n):
            rows = slice(start, start + n)
            chunk = inputs[rows].to(x)
            gates = torch.matmul(2 * chunk, w).sigmoid_()
            yield rows, chunk, gates, torch.sigmoid(2 * torch.einsum("bnh,bh->bn", gates, v) + rest)

    def _outputs(self, x: Tensor, inputs: Tensor) -> Tensor:
        return torch.cat([outputs for *_, outputs in self._passes(x, inputs)], 1)


def _with_constant(features: Tensor) -> Tensor:
    """Features with a last column of ones, which the hidden biases multiply."""
    return torch.cat([features, features.new_ones(len(features), 1)], 1)
