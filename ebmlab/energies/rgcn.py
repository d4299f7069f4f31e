"""Relational graph convolutions on graphs of any size (Schlichtkrull et al., 2018; Liu et al., 2023, RMwGGIS)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmlab.domains import Binary
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError
from ebmlab.graphs import adjacency
from ebmlab.numerics.noise import uniform_numbers
from ebmlab.numerics.unrounded import read_out, unrounded


class RGCN(Energy):
    """E(x) of a graph whose adjacency matrix A has the upper triangle x, row by row. A slot without edges is no node.

    Node i receives messages from itself and along two relations: from its neighbours and from the other nodes present.
    This is Eq. 2 of Schlichtkrull et al. (Modeling Relational Data with Graph Convolutional Networks), with a bias in
    each W:

        h_i <- swish(W_0 h_i + 1/n sum_j A_ij W_1 h_j + 1/n sum_{j != i} (m_j - A_ij) W_2 h_j).

    Every h_i starts as the same learned vector, so that the first convolution sees the degrees and the number of nodes.
    The energy is a perceptron of sum_i m_i h_i and does not depend on the order of the slots. Liu et al. (Sec. 5.2)
    state 5 layers, 32 units and swish; the relations, the read-out and the normalisation are our choices.

    m_i = 1 - prod_j (1 - A_ij) is 1 if node i is present. An absent node has features, but they do not enter E. It
    sends no messages, since A_ij and m_j are 0, and is left out of the sum. All weights are multilinear in x (an edge
    implies presence, so that m_j A_ij = A_ij). Hence dE/dx_ij tells what adding or removing an edge does, even if a
    node appears or disappears with it. If features were multiplied by m in every layer, it would not.

    The constants c_ir of Eq. 2 are n, the number of slots. Dividing by the number of neighbours |N_i^r| would hide the
    degrees from the first convolution, where all messages are equal, and could divide by zero. With n the sums are
    polynomials in x, finite between the states too, and at most as large as the messages.

    Args:
        num_nodes: n, the number of slots; x has n (n - 1) / 2 bits.
        hidden_dim: number of features of a node.
        num_layers: number of convolutions.

    Attributes:
        density: probability of an edge in `random`, from which chains start; 1/2 until `set_base` sets that of the data
            (`callbacks.DataMean`). Uniform bits are dense graphs, whose energy sparse data do not constrain. Chains
            that start there may never reach the sparse ones.

    Example:
        >>> energy = RGCN(num_nodes=4, hidden_dim=8, num_layers=2)
        >>> one_edge = torch.eye(6)  # six graphs, which differ in the order of the nodes only
        >>> energy(one_edge).std().item() < 1e-6
        True
    """

    domains = (Binary,)
    density: Tensor

    def __init__(self, num_nodes: int, hidden_dim: int = 32, *, num_layers: int = 5) -> None:
        super().__init__()
        if num_nodes < 2 or min(hidden_dim, num_layers) < 1:
            raise UserError(
                f"RGCN: num_nodes is {num_nodes}, hidden_dim {hidden_dim} and num_layers {num_layers}; num_nodes must "
                "be at least 2 and the others at least 1"
            )
        self.num_nodes = num_nodes
        self.domain = Binary(num_nodes * (num_nodes - 1) // 2)
        self.start = nn.Parameter(torch.randn(hidden_dim))
        # each holds W_0, W_1 and W_2
        self.convolutions = nn.ModuleList(nn.Linear(hidden_dim, 3 * hidden_dim) for _ in range(num_layers))
        self.register_buffer("density", torch.tensor(0.5))
        self.head = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.SiLU(), nn.Linear(hidden_dim, 1))

    def forward(self, x: Tensor) -> Tensor:
        present, sums = self._weights(x)
        h = self.start.expand(self.num_nodes, -1)  # (n, H), from the first convolution on (B, n, H)
        for messages in self.convolutions:
            h = silu(sums @ messages(h).reshape(*h.shape[:-2], 3 * self.num_nodes, len(self.start)))
        return read_out(self.head, self._sum(h, present))

    @unrounded
    def _sum(self, h: Tensor, present: Tensor) -> Tensor:
        """The sum of the features h `(B, n, H)` of the nodes that are present, `(B, H)`."""
        return (present.unsqueeze(1) @ h).squeeze(1)

    def random(self, n: int) -> Tensor:
        """Random graphs `(n, num_nodes (num_nodes - 1) / 2)`: independent edges with probability `density`."""
        return (uniform_numbers(n, *self.domain.event_shape, device=self.device) < self.density).to(self.dtype)

    @torch.no_grad()
    def set_base(self, mean: Tensor) -> None:
        """Sets `density` from the data's mean: one number for all edges, as the order of nodes is arbitrary."""
        if not ((mean >= 0) & (mean <= 1)).all():
            raise UserError("RGCN: base is a mean of 0/1 bits, its numbers must be in [0, 1]")
        self.density.copy_(mean.to(self.density).mean())

    def _weights(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Presence m `(B, n)`, and the weights of node j's message along relation r to node i, `(B, n, 3 n)`.

        They stand in column 3 j + r. A layer's output `(B, n, 3 H)`, viewed as `(B, 3 n, H)`, has its rows in the same
        order. All three sums of Eq. 2 are thus one matrix product.
        """
        edges = adjacency(x, self.num_nodes)
        present = 1 - (1 - edges).prod(2)
        others = present.unsqueeze(1) - torch.diag_embed(present) - edges
        self_loops = torch.eye(self.num_nodes, dtype=x.dtype, device=x.device).expand_as(edges)
        sums = torch.stack([self_loops, edges / self.num_nodes, others / self.num_nodes], 3)
        return present, sums.flatten(2)
