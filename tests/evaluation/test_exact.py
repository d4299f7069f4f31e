from __future__ import annotations

import math

import pytest
import torch
from helpers_finite import DOMAINS, KINDS, Exact, Target
from helpers_grbm import ExactGRBM, make_grbm
from torch.nn.functional import softplus

from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import Energy
from ebmlab.energies.bipartite import Bipartite
from ebmlab.errors import UserError
from ebmlab.evaluation import exact
from ebmlab.evaluation.exact import exact_log_z, exact_mean


class Fields(Energy):
    """Independent coordinates: E(x) = -sum of f_i(x_i), with a table f `(d, num_values)`."""

    def __init__(self, domain, table) -> None:
        super().__init__()
        self.domain = domain
        self.register_buffer("table", table)
        self.largest_batch = 0

    def forward(self, x):
        self.largest_batch = max(self.largest_batch, len(x))
        index = self.domain.to_index(x).flatten(1)
        return -self.table[torch.arange(index.shape[1]), index].sum(1)


class Torus(Energy):
    """Ising model of a torus of spins, `height` rows of `width`: E = -J sum over edges of x_i x_j - h sum of x_i."""

    def __init__(self, height, width, J, h, dtype=torch.float64) -> None:
        super().__init__()
        self.domain = Spin((height, width))
        self.register_buffer("J", torch.tensor(J, dtype=dtype))
        self.register_buffer("h", torch.tensor(h, dtype=dtype))
        site = torch.eye(height * width, dtype=dtype).view(-1, height, width)
        edges = site.roll(1, 1) + (site.roll(1, 2) if width > 1 else 0)  # the neighbours below and to the right
        self.register_buffer("edges", edges.flatten(1))

    def forward(self, x):
        x = x.flatten(1)
        return -self.J * (x @ self.edges * x).sum(1) - self.h * x.sum(1)

    def log_z(self, h):
        """log tr T^height, T the transfer matrix between rows."""
        height, width = self.domain.shape
        rows = Spin(width).enumerate().double()
        inside = (rows * rows.roll(1, 1)).sum(1) if width > 1 else 0
        T = (self.J.double() * (rows @ rows.T + inside) + h * rows.sum(1)).exp()
        return torch.linalg.matrix_power(T, height).trace().log()

    def reference(self):
        """log Z, and the mean of a spin, which is d log Z / dh over their number."""
        h = self.h.double().requires_grad_()
        log_z = self.log_z(h)
        (slope,) = torch.autograd.grad(log_z, h)
        return log_z.detach(), slope / self.domain.size


class TinyRBM(Bipartite):
    """E(v, h) = -v'W h - b'v - c'h."""

    def __init__(self, num_visible, num_hidden) -> None:
        super().__init__()
        torch.manual_seed(num_hidden)
        self.domain, self.num_hidden = Binary(num_visible), num_hidden
        self.W = torch.nn.Parameter(torch.randn(num_visible, num_hidden, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.randn(num_visible, dtype=torch.float64))
        self.c = torch.nn.Parameter(torch.randn(num_hidden, dtype=torch.float64))

    def joint_energy(self, v, h):
        return -(v @ self.W * h).sum(1) - v @ self.b - h @ self.c

    def hidden_given_visible(self, v):
        return v @ self.W + self.c

    def visible_given_hidden(self, h):
        return h @ self.W.T + self.b

    def mean_visible(self, h):
        return self.visible_given_hidden(h).sigmoid()

    def visible_energy(self, v):
        return -v @ self.b


@pytest.mark.parametrize("batch_size", [1, 2, 7, 2**14])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domain", list(DOMAINS))
def test_agrees_with_all_states_at_once(domain, kind, batch_size):
    energy = Target(DOMAINS[domain], kind)
    reference = Exact(energy)
    log_z, mean = exact_log_z(energy, batch_size), exact_mean(energy, batch_size)
    assert log_z.dtype == mean.dtype == torch.float64
    torch.testing.assert_close(log_z, (-energy(reference.states)).logsumexp(0))
    torch.testing.assert_close(mean, reference.mean())


@pytest.mark.parametrize("batch_size", [1, 3, 8, 100, 2**14])
@pytest.mark.parametrize("domain", [*DOMAINS.values(), Binary((2, 3)), Categorical((2, 2), 4), Ordinal(5, 1)], ids=repr)
def test_batches_hold_every_state_once_in_order_and_are_no_larger_than_asked(domain, batch_size):
    batches = list(exact.all_states(domain, batch_size, Fields(domain, torch.zeros(1))))
    assert torch.equal(torch.cat(batches), domain.enumerate())
    assert max(map(len, batches)) <= batch_size


@pytest.mark.parametrize("domain", [Binary(16), Spin((4, 4)), Ordinal(9, 4), Categorical((3, 2), 5)], ids=repr)
def test_independent_coordinates(domain):
    torch.manual_seed(0)
    energy = Fields(domain, 3 * torch.randn(domain.size, domain.num_values, dtype=torch.float64))
    torch.testing.assert_close(exact_log_z(energy, 1000), energy.table.logsumexp(1).sum())
    mean = torch.tensordot(energy.table.softmax(1), domain.values.double(), 1).view(domain.event_shape)
    torch.testing.assert_close(exact_mean(energy, 1000), mean)
    assert energy.largest_batch <= 1000


@pytest.mark.parametrize(("height", "width"), [(15, 1), (3, 3), (4, 4), (3, 5)])
def test_transfer_matrices_of_rings_and_tori(height, width):
    energy = Torus(height, width, 0.4, 0.3)
    log_z, mean = energy.reference()
    torch.testing.assert_close(exact_log_z(energy), log_z)
    torch.testing.assert_close(exact_mean(energy), mean.expand(height, width))


def test_a_ring_without_field_has_the_textbook_sum():
    n, J = 12, 0.7
    expected = math.log((2 * math.cosh(J)) ** n + (2 * math.sinh(J)) ** n)
    assert exact_log_z(Torus(n, 1, J, 0.0)).item() == pytest.approx(expected)
    torch.testing.assert_close(exact_mean(Torus(n, 1, J, 0.0)), torch.zeros(n, 1).double(), rtol=0, atol=1e-12)


def test_single_precision_and_extreme_energies():
    log_z, mean = Torus(4, 4, 0.4, 0.3).reference()
    single = Torus(4, 4, 0.4, 0.3, torch.float32)
    assert exact_log_z(single).item() == pytest.approx(log_z.item(), rel=1e-6)
    assert exact_mean(single)[0, 0].item() == pytest.approx(mean.item(), rel=1e-5)
    cold = Fields(Spin(6), torch.tensor([[-1e4, 1e4]], dtype=torch.float64).expand(6, 2))
    assert exact_log_z(cold, 8).item() == pytest.approx(6e4)
    assert torch.equal(exact_mean(cold, 8), torch.ones(6).double())


def test_forbidden_states_have_no_weight_and_nan_is_not_hidden():
    table = torch.tensor([[0.0, -torch.inf], [0.5, 0.1], [-torch.inf, 0.2]], dtype=torch.float64)
    assert exact_log_z(Fields(Binary(3), table), 2).item() == pytest.approx(torch.logsumexp(table, 1).sum().item())
    torch.testing.assert_close(exact_mean(Fields(Binary(3), table), 2), table.softmax(1)[:, 1])
    table[1, 0] = torch.nan
    assert exact_log_z(Fields(Binary(3), table), 2).isnan()
    assert exact_mean(Fields(Binary(3), table), 2).isnan().all()


@pytest.mark.parametrize(("num_visible", "num_hidden"), [(8, 3), (3, 8), (6, 6)])
def test_sums_over_either_layer_agree(num_visible, num_hidden):
    rbm = TinyRBM(num_visible, num_hidden)
    reference = Exact(rbm)
    torch.testing.assert_close(exact_log_z(rbm, 16), (-rbm(reference.states)).logsumexp(0).detach())
    torch.testing.assert_close(exact_mean(rbm, 16), reference.mean())


def test_many_visible_and_few_hidden_units():
    rbm = TinyRBM(200, 4)
    with torch.no_grad():
        rbm.W.zero_()
    expected = softplus(rbm.b).sum() + softplus(rbm.c).sum()
    assert exact_log_z(rbm).item() == pytest.approx(expected.item())
    torch.testing.assert_close(exact_mean(rbm), rbm.b.detach().sigmoid())


@pytest.mark.parametrize("num_visible", [1, 2])
def test_gaussian_bernoulli(num_visible):
    grbm = make_grbm(num_visible)
    reference = ExactGRBM(grbm)
    torch.testing.assert_close(exact_log_z(grbm, 4), reference.log_z.detach())
    torch.testing.assert_close(exact_mean(grbm, 4), reference.mean())


def test_under_inference_mode():
    with torch.inference_mode():
        assert exact_mean(Target(Binary(4), "cubic")).isfinite().all()


def test_what_cannot_be_summed_is_refused():
    with pytest.raises(UserError, match=r"Torus has 2\^30 terms, too many \(at most 67108864\)"):
        exact_log_z(Torus(5, 6, 0.1, 0.0))
    with pytest.raises(UserError, match=r"TinyRBM has 2\^27 terms"):
        exact_log_z(TinyRBM(100, 27))
    energy = Target(Binary(2), "quadratic")
    energy.domain = Real(2)
    with pytest.raises(UserError, match=r"lives on Real\(2\)"):
        exact_mean(energy)


@pytest.mark.slow
def test_five_by_five_spins():
    """2^25 states, more than `domain.enumerate()` makes."""
    energy = Torus(5, 5, 0.1, 0.2, torch.float32)
    log_z, mean = energy.reference()
    assert exact_log_z(energy).item() == pytest.approx(log_z.item(), rel=1e-6)
    torch.testing.assert_close(exact_mean(energy), mean.expand(5, 5), rtol=1e-5, atol=0)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_draws_without_a_law(value: float) -> None:
    """They were the last state, again and again."""

    class Everywhere(Energy):
        def __init__(self) -> None:
            super().__init__()
            self.domain = Binary(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((len(x),), value)

    with pytest.raises(UserError, match="exact_samples: Everywhere has no law: an energy is NaN or -inf, or all are"):
        exact.exact_samples(Everywhere(), 5)
