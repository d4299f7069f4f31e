"""RGCN against sums over nodes; it is invariant to the order of nodes and smooth where nodes appear or vanish."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers_errors import refused
from torch import Tensor
from torch.nn.functional import silu

from ebmlab.energies import RGCN, Energy
from ebmlab.errors import UserError
from ebmlab.graphs import adjacency, triangle

N = 18
TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def make(num_nodes: int = N, hidden_dim: int = 6, num_layers: int = 5) -> RGCN:
    torch.manual_seed(0)
    return RGCN(num_nodes, hidden_dim, num_layers=num_layers).double()


def graphs(sizes: list[int], num_nodes: int = N, density: float = 0.4) -> Tensor:
    """Random connected adjacency matrices `(B, n, n)` of the given sizes, on the first slots."""
    matrix = torch.zeros(len(sizes), num_nodes, num_nodes, dtype=torch.float64)
    for a, size in zip(matrix, sizes, strict=True):
        a[:size, :size] = (torch.rand(size, size) < density).double().triu(1)
        path = torch.arange(size - 1)
        a[path, path + 1] = 1
    return matrix + matrix.mT


def written_out(energy: RGCN, matrix: Tensor) -> Tensor:
    """The energy of one graph `(n, n)`, by loops over its nodes alone."""
    nodes = [i for i in range(len(matrix)) if matrix[i].any()]
    h = {i: energy.start for i in nodes}
    for layer in energy.convolutions:
        own, edge, other = layer.weight.chunk(3)
        own_bias, edge_bias, other_bias = layer.bias.chunk(3)
        new = {}
        for i in nodes:
            new[i] = own @ h[i] + own_bias
            for j in nodes:
                if j != i and matrix[i, j]:
                    new[i] = new[i] + (edge @ h[j] + edge_bias) / energy.num_nodes
                elif j != i:
                    new[i] = new[i] + (other @ h[j] + other_bias) / energy.num_nodes
        h = {i: silu(new[i]) for i in nodes}
    return energy.head(sum(h.values(), torch.zeros_like(energy.start)))[0]


def test_equation_2_written_out() -> None:
    energy = make()
    matrix = torch.cat([graphs(list(range(2, N + 1))), torch.zeros(1, N, N, dtype=torch.float64)])
    expected = torch.stack([written_out(energy, a) for a in matrix])
    assert expected.std() > 1e-3
    torch.testing.assert_close(energy(triangle(matrix)), expected, **TIGHT)


def test_the_order_of_the_slots_does_not_matter() -> None:
    """Graphs of every size, each under a random permutation of all slots, absent ones included."""
    energy = make()
    matrix = graphs(list(range(4, N + 1)) * 3)
    permuted = torch.stack([a[p][:, p] for a in matrix for p in [torch.randperm(N)]])
    assert not torch.equal(matrix, permuted)
    torch.testing.assert_close(energy(triangle(permuted)), energy(triangle(matrix)), rtol=0, atol=1e-10)
    torch.manual_seed(1)
    small, (x, y) = RGCN(N), (triangle(m).float() for m in (matrix, permuted))
    torch.testing.assert_close(small(x), small(y), rtol=0, atol=1e-5)


def test_absent_slots_change_nothing() -> None:
    """A network of fewer slots, with its messages rescaled to N slots, gives a graph the same energy."""
    energy = make()
    for size in range(4, N + 1):
        alone = make(size)
        alone.load_state_dict(energy.state_dict())
        with torch.no_grad():
            for layer in alone.convolutions:
                rows = slice(len(alone.start), None)
                layer.weight[rows] *= size / N
                layer.bias[rows] *= size / N
        matrix = graphs([size] * 4)
        expected = alone(triangle(matrix[:, :size, :size]))
        torch.testing.assert_close(energy(triangle(matrix)), expected, **TIGHT)


def test_graphs_that_differ_have_different_energies() -> None:
    """The star and the path of 5 nodes; one edge and two edges apart."""
    energy, matrix = make(5), torch.zeros(4, 5, 5, dtype=torch.float64)
    matrix[0, 0, 1:] = 1
    matrix[1, range(4), range(1, 5)] = 1
    matrix[2, 0, 1] = 1
    matrix[3, [0, 2], [1, 3]] = 1
    values = energy(triangle(matrix)).detach()
    assert (values[:, None] - values).abs().fill_diagonal_(1).min() > 1e-4


STATES = {
    "empty": torch.zeros(1, 21),
    "complete": torch.ones(1, 21),
    "one edge": torch.eye(21)[:1],
    "two edges of a node": torch.eye(21)[:2].sum(0, keepdim=True),
    "fractional": torch.linspace(0, 1, 21)[None],
}


@pytest.mark.parametrize("x", STATES.values(), ids=STATES)
def test_gradient_is_finite_and_that_of_finite_differences(x: Tensor) -> None:
    energy, x = make(7), x.double().requires_grad_()
    assert torch.autograd.gradcheck(energy, x, eps=1e-5, atol=1e-7, rtol=1e-6)
    grads = torch.autograd.grad(energy(x).sum(), [x, *energy.parameters()], allow_unused=True)
    assert all(g.isfinite().all() for g in grads if g is not None)
    (slope,) = torch.autograd.grad(energy(x).sum(), x, create_graph=True)
    assert slope.abs().max() > 1e-4, "a gradient that is zero tells nothing"
    second = torch.autograd.grad(slope.square().sum(), list(energy.parameters()), allow_unused=True)
    assert all(g.isfinite().all() for g in second if g is not None)


def test_the_gradient_of_a_nodes_first_edge_is_the_energy_of_the_node() -> None:
    """With one convolution without messages h is the same at all nodes, and E is linear in their number."""
    energy = make(7, num_layers=1)
    with torch.no_grad():
        energy.convolutions[0].weight.zero_()
        energy.convolutions[0].bias[len(energy.start) :] = 0
        energy.head[0].weight.mul_(1e-4)
    x = torch.eye(21, dtype=torch.float64)[:1]  # nodes 0 and 1
    per_node = (energy(torch.ones_like(x)) - energy(x)).item() / 5
    _, grad = energy.value_and_grad(x)
    new = adjacency(grad, 7)[0] / per_node
    assert new[0, 1].item() == pytest.approx(2, rel=1e-3), "without this edge two nodes fewer"
    assert new[0, 2].item() == pytest.approx(1, rel=1e-3), "with this one a node more"
    assert new[2, 3].item() == pytest.approx(2, rel=1e-3)


def test_flip_differences_are_those_of_the_neighbours() -> None:
    energy = make()
    x = triangle(graphs([4, 9, N]))
    neighbours = (x.unsqueeze(1) - torch.eye(x.shape[1], dtype=torch.float64)).abs()
    expected = torch.stack([energy(k) for k in neighbours]) - energy(x).unsqueeze(1)
    torch.testing.assert_close(energy.flip_differences(x), expected, **TIGHT)
    torch.testing.assert_close(Energy.flip_differences(energy, x), expected, **TIGHT)
    index = torch.tensor([[7, 7], [0, 152], [3, 1]])
    torch.testing.assert_close(energy.flip_differences(x, index), expected.gather(1, index), **TIGHT)
    grads = torch.autograd.grad(energy.flip_differences(x).square().mean(), energy.start)
    assert grads[0].isfinite().all() and grads[0].any()


def test_size_and_defaults() -> None:
    energy = RGCN(N)
    assert energy.domain.event_shape == (153,)
    assert sum(p.numel() for p in energy.parameters()) == 32 + 5 * 3 * 32 * 33 + 32 * 33 + 33


@pytest.mark.parametrize(
    "sizes", [{"num_nodes": 1}, {"num_nodes": 4, "hidden_dim": 0}, {"num_nodes": 4, "num_layers": 0}]
)
def test_bad_sizes(sizes: dict[str, int]) -> None:
    with refused(r"RGCN: num_nodes is .* at least 2"):
        RGCN(**sizes)


@pytest.mark.parametrize("shape", [(2, 9), (6,), (2, 4, 4)])
def test_wrong_states(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"states of Binary\(6\) have shape \(B, 6\), got"):
        RGCN(4)(torch.zeros(shape))


def test_states_of_a_network_in_float64_are_in_float64() -> None:
    energy = RGCN(4, hidden_dim=3, num_layers=2)
    exact = copy.deepcopy(energy).double()
    x = exact.random(5)
    assert x.dtype == torch.float64
    torch.testing.assert_close(exact(x), energy(x.float()).double(), rtol=1e-5, atol=1e-5)


def test_chains_start_from_graphs_as_dense_as_the_data() -> None:
    torch.manual_seed(0)
    energy = RGCN(18)
    assert abs(float(energy.random(200).mean()) - 0.5) < 0.01
    energy.set_base(torch.full((153,), 0.05))
    x = energy.random(500)
    energy.domain.validate(x)
    assert abs(float(x.mean()) - 0.05) < 4 * (0.05 * 0.95 / x.numel()) ** 0.5
    assert "density" in energy.state_dict()
    with pytest.raises(UserError, match="must be in"):
        energy.set_base(torch.full((153,), 1.5))
