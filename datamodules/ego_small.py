"""Ego-small: the neighbourhoods of papers in the Citeseer network, a benchmark of graph generation."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal

import torch
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ebmlab.data.interface import Graphs
from ebmlab.datamodules import restricted_pickle
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary
from ebmlab.errors import UserError
from ebmlab.extras import require
from ebmlab.graphs import adjacency, triangle
from ebmlab.numerics.streams import stream
from ebmlab.settings import require_choice

_EMBEDDED = (
    *("karate_club_graph", "davis_southern_women_graph", "florentine_families_graph", "les_miserables_graph"),
    "krackhardt_kite_graph",
)


class EgoSmall(TensorDataModule):
    """One-hop ego graphs, a node with its neighbours and the edges among all of them (You et al. 2018, GraphRNN).

    Source. The graphs come from Citeseer's file, a pickle that is read without running code. Without that file, they
    come from the five social networks in networkx, which give 115 graphs of 4 to 18 nodes. All are taken if
    `num_graphs` is larger. Self-loops are removed, and the largest connected component is kept. The ego graphs of its
    nodes are put in a fixed random order, of which the first `num_graphs` are used. GraphRNN draws from graphs of up to
    20 nodes; Liu et al. (2023), Sec. 5.2, report 4 to 18 nodes. Different nodes may have isomorphic ego graphs.

    Splits are GraphRNN's: 80 % to train on and 20 % to test. The validation graphs are the first 20 % and *also
    training graphs*. They are in other slots here, but are no test of generalisation.

    States. A graph is the upper triangle of its adjacency matrix, row by row, padded to `max_nodes` slots. A slot
    without edges is an absent node, which is unambiguous, since ego graphs are connected. The slots of a graph's nodes
    are drawn once, uniformly. A fixed order, such as the ego first, would be a pattern in the data. A permutation
    invariant energy cannot express it, and others would learn it in place of the graphs.

    Args:
        root: folder of the data sets; Citeseer's file is its citeseer/ind.citeseer.graph. By default $EBMLAB_DATA, else
            data/ in the working directory.
        num_graphs: number of graphs in all splits together, at least 5.
        min_nodes: nodes of the smallest graphs, including the ego; at least 2.
        max_nodes: nodes of the largest graphs, and slots of a state.
        batch_size: graphs per batch and process.
        seed: of the choice of graphs, their slots and the order of the training batches.
        source: citeseer, embedded (networkx's networks), or auto: Citeseer if its file is there, else embedded.

    Example:
        >>> data = EgoSmall(source="embedded", num_graphs=10, max_nodes=8)
        >>> data.states("train").shape
        torch.Size([8, 28])
    """

    domains = (Binary,)
    name = "ego_small"
    max_value = 1.0

    def __init__(
        self,
        root: str | None = None,
        num_graphs: int = 200,
        *,
        min_nodes: int = 4,
        max_nodes: int = 18,
        batch_size: int = 32,
        seed: int = 0,
        source: Literal["auto", "citeseer", "embedded"] = "auto",
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((max_nodes * (max_nodes - 1) // 2,), batch_size, seed=seed, binarize=True)
        if not 2 <= min_nodes <= max_nodes:
            raise UserError(
                f"EgoSmall: min_nodes is {min_nodes} and max_nodes {max_nodes}; min_nodes must be at least 2 and at "
                "most max_nodes"
            )
        if num_graphs < 5:
            raise UserError(f"EgoSmall: num_graphs is {num_graphs}; it must be at least 5, for a fifth of them test")
        require_choice("EgoSmall", ("auto", "citeseer", "embedded"), source=source)
        self.root = data_root(root)
        self.num_graphs = num_graphs
        self.min_nodes = min_nodes
        self.num_nodes = max_nodes
        self.source = source

    @property
    def path(self) -> Path:
        """Citeseer's file."""
        return self.root / "citeseer" / "ind.citeseer.graph"

    @property
    def embedded(self) -> bool:
        """Whether the graphs come from networkx."""
        return self.source == "embedded" or (self.source == "auto" and not self.path.is_file())

    def prepare_data(self) -> None:
        """Informs once per run if `auto` takes networkx's graphs because Citeseer's file is missing."""
        if self.embedded and self.source == "auto":
            rank_zero_info(f"EgoSmall: there is no {self.path}: the graphs are networkx's own social networks")

    def load(self, split: str) -> tuple[Tensor, None]:
        """Upper triangles `(N, max_nodes * (max_nodes - 1) / 2)`, uint8; a pure function of source, seed and split."""
        chosen = self._choose()
        first, test = len(chosen) // 5, len(chosen) * 4 // 5
        part = {"train": chosen[:test], "val": chosen[:first], "test": chosen[test:]}[split]
        generator = stream("ego_small", "slots", self.seed, split)
        padded = torch.zeros(len(part), self.num_nodes, self.num_nodes, dtype=torch.uint8)
        for matrix, ego in zip(padded, part, strict=True):
            slots = torch.randperm(self.num_nodes, generator=generator)[: len(ego)]
            matrix[slots.unsqueeze(1), slots] = ego
        return triangle(padded), None

    def show(self, x: Tensor) -> Graphs:
        """The graphs' adjacency matrices; means of bits are rounded to edges."""
        return Graphs(adjacency(x.round(), self.num_nodes))

    def graphs(self, x: Tensor) -> list[Any]:
        """States as networkx graphs without their isolated nodes; a node's name is its slot, an int."""
        nx = _networkx()
        x = x.float()
        Binary(self.event_shape).validate(x)
        return [nx.Graph(matrix.triu().nonzero().tolist()) for matrix in adjacency(x, self.num_nodes)]

    def _choose(self) -> list[Tensor]:
        """The adjacency matrices `(k, k)` of the graphs in all splits, in their order."""
        if self.embedded:
            nx = _networkx()
            networks = [getattr(nx, name)() for name in _EMBEDDED]
        else:
            networks = [self._citeseer()]
        egos = [ego for network in networks for ego in ego_graphs(network, self.min_nodes, self.num_nodes)]
        if len(egos) < (5 if self.embedded else self.num_graphs):
            source = "networkx's social networks" if self.embedded else self.path
            raise UserError(
                f"EgoSmall: num_graphs is {self.num_graphs}, but {source} holds {len(egos)} ego graphs of "
                f"{self.min_nodes} to {self.num_nodes} nodes; ask for fewer (at least 5) or widen the range"
            )
        order = torch.randperm(len(egos), generator=stream("ego_small", "order", self.seed))
        return [egos[i] for i in order[: self.num_graphs].tolist()]

    def _citeseer(self) -> Any:
        """Citeseer as a networkx graph, from `{node: [neighbours]}`."""
        nx = _networkx()
        if not self.path.is_file():
            raise UserError(
                f"EgoSmall: no file {self.path}; it is published with the Planetoid data (kimiyoung/planetoid): put "
                "it there, name another folder of data sets in EBMLAB_DATA, or choose the source embedded"
            )
        lists = restricted_pickle.load(self.path)
        if not isinstance(lists, dict) or not lists or not all(map(_is_row, lists.items())):
            raise UserError(
                f"EgoSmall: {self.path} does not hold a dict from each node's number to a list of its neighbours; "
                "put the original ind.citeseer.graph there"
            )
        return nx.from_dict_of_lists(lists)


def ego_graphs(network: Any, min_nodes: int, max_nodes: int) -> list[Tensor]:
    """Adjacency matrices `(k, k)`, uint8, the ego first, of a networkx graph's ego graphs with k in the given bounds.

    The egos are the nodes of the largest connected component, in the order of their names. Self-loops are removed.
    """
    nx = _networkx()
    components: list[set[Any]] = list(nx.connected_components(network))
    largest = max(components, key=len)
    nodes = sorted(largest)
    whole = torch.from_numpy(nx.to_numpy_array(network, nodelist=nodes, weight=None)).byte().fill_diagonal_(0)
    egos = []
    for ego, row in enumerate(whole):
        members = torch.cat([torch.tensor([ego]), row.nonzero().flatten()])
        if min_nodes <= len(members) <= max_nodes:
            egos.append(whole[members.unsqueeze(1), members])
    return egos


def _is_row(item: tuple[object, object]) -> bool:
    node, others = item
    return isinstance(node, int) and isinstance(others, list) and all(isinstance(other, int) for other in others)


def _networkx() -> Any:
    require("EgoSmall", "networkx")
    return importlib.import_module("networkx")
