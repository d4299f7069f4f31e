"""Ego graphs of Citeseer where its file is present, of a made-up network, and of networkx's own."""

from __future__ import annotations

import os
import pickle
import sys
from collections import defaultdict
from pathlib import Path

import networkx as nx
import pytest
import torch
from helpers_errors import refused

from ebmlab.datamodules import EgoSmall
from ebmlab.domains import Binary
from ebmlab.errors import UserError
from ebmlab.graphs import adjacency

SPLITS = ("train", "val", "test")
PLACES = [os.environ.get("EBMLAB_DATA"), "data"]
REAL = next((p for p in PLACES if p and (Path(p) / "citeseer" / "ind.citeseer.graph").is_file()), None)


def write_citeseer(root: Path, content: object) -> None:
    path = root / "citeseer" / "ind.citeseer.graph"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=1))


def caterpillar() -> defaultdict[int, list[int]]:
    """A network of fifteen hubs in a row, each with more leaves than the one before.

    It has 14 ego graphs of 4 or more nodes, which are stars of 4 to 17 nodes. It also has self-loops, edges that are
    listed twice or from one end only, and a second component of four nodes.
    """
    lists: defaultdict[int, list[int]] = defaultdict(list)
    leaf = 100
    for hub in range(15):
        lists[hub] += [hub, hub, *([hub - 1] if hub else [])]
        for _ in range(hub + (hub == 14)):
            lists[hub].append(leaf)
            lists[leaf] += [hub, hub] if leaf % 2 else []
            leaf += 1
    lists[900] = [901, 902, 903]
    return lists


def made_up(root: Path, **options: object) -> EgoSmall:
    write_citeseer(root, caterpillar())
    return EgoSmall(root=str(root), **{"num_graphs": 14, "batch_size": 4, **options})  # type: ignore[arg-type]


def sizes(module: EgoSmall, *splits: str) -> list[int]:
    return [len(graph) for split in splits for graph in module.graphs(module.raw(split))]


def check(module: EgoSmall) -> None:
    """Asserts what holds for every source: each state is an ego graph of an allowed size."""
    for split in SPLITS:
        x = module.to_states(module.raw(split))
        Binary(module.event_shape).validate(x)
        matrices = adjacency(x, module.num_nodes)
        assert torch.equal(matrices, matrices.mT) and matrices.diagonal(dim1=1, dim2=2).eq(0).all()
        for graph, matrix in zip(module.graphs(x), matrices, strict=True):
            assert module.min_nodes <= len(graph) <= module.num_nodes
            assert max(degree for _, degree in graph.degree) == len(graph) - 1
            assert sorted(graph) == matrix.sum(0).nonzero().flatten().tolist()
            assert all(matrix[a, b] == 1 for a, b in graph.edges) and graph.size() == matrix.sum() / 2


def test_each_graph_is_in_train_or_test_once(tmp_path: Path) -> None:
    module = made_up(tmp_path)
    check(module)
    assert sorted(sizes(module, "train", "test")) == list(range(4, 18))
    assert len(module.raw("train")) == 11 and len(module.raw("test")) == 3
    assert sizes(module, "val") == sizes(module, "train")[:2]  # as in GraphRNN, the first training graphs
    assert not torch.equal(module.raw("val"), module.raw("train")[:2])  # in other slots
    assert all(nx.is_tree(graph) for graph in module.graphs(module.raw("train")))
    fewer = made_up(tmp_path, num_graphs=10)
    assert sizes(fewer, "train", "test") == sizes(module, "train", "test")[:10]


def test_bounds_include_both_ends(tmp_path: Path) -> None:
    module = made_up(tmp_path, num_graphs=5, min_nodes=6, max_nodes=10)
    check(module)
    assert module.event_shape == (45,) and module.num_nodes == 10
    assert sorted(sizes(module, "train", "test")) == [6, 7, 8, 9, 10]


def test_seed_chooses_graphs_and_slots(tmp_path: Path) -> None:
    one, again, other = made_up(tmp_path), made_up(tmp_path), made_up(tmp_path, seed=1)
    assert all(torch.equal(one.raw(split), again.raw(split)) for split in SPLITS)
    assert sizes(one, "train", "test") != sizes(other, "train", "test")


def test_slots_are_uniform(tmp_path: Path) -> None:
    counts = torch.zeros(18)
    for seed in range(100):
        module = made_up(tmp_path, seed=seed)
        degrees = adjacency(module.raw("train").float(), module.num_nodes).sum(1)
        counts += degrees.argmax(1).bincount(minlength=18)  # the slot of the ego
    expected = 1100 / 18
    # 17 degrees of freedom: 46 has probability 2e-4.
    assert float((counts - expected).square().sum()) / expected < 46


def test_networkx_has_graphs_for_a_machine_without_data(tmp_path: Path) -> None:
    module = EgoSmall(root=str(tmp_path))
    assert module.embedded
    check(module)
    assert [len(module.raw(split)) for split in SPLITS] == [92, 23, 23]  # of 115
    write_citeseer(tmp_path, caterpillar())
    assert not module.embedded and EgoSmall(root=str(tmp_path), source="embedded").embedded


@pytest.mark.skipif(REAL is None, reason="citeseer/ind.citeseer.graph is not in the data root")
def test_the_real_citeseer() -> None:
    module = EgoSmall(root=REAL, source="citeseer")
    check(module)
    assert [len(module.raw(split)) for split in SPLITS] == [160, 40, 40]
    everything = EgoSmall(root=REAL, source="citeseer", num_graphs=996)
    graphs = everything.graphs(torch.cat([everything.raw("train"), everything.raw("test")]))
    assert sum(map(len, graphs)) == 6143 and sum(graph.size() for graph in graphs) == 7793
    with pytest.raises(UserError, match=r"num_graphs is 997, but .* holds 996 ego graphs of 4 to 18 nodes"):
        EgoSmall(root=REAL, num_graphs=997).setup("fit")


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_runs_a_command_is_refused(tmp_path: Path) -> None:
    write_citeseer(tmp_path, {0: [1], 1: Malicious(tmp_path / "owned")})
    with pytest.raises(UserError, match=r"asks for '(posix|nt).system', which may run code") as error:
        EgoSmall(root=str(tmp_path)).setup("fit")
    assert "ind.citeseer.graph" in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "name",
    ["builtins\neval", "__builtin__\neval", "builtins\ngetattr", "builtins\nlist.__class__", "collections\nabc.sys"],
)
def test_other_names_are_refused(name: str, tmp_path: Path) -> None:
    write_citeseer(tmp_path, {})
    module, attribute = (part.encode() for part in name.split("\n"))
    named = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(part)]) + part for part in (module, attribute)) + b"\x93."
    for content in (b"c" + name.encode() + b"\n.", named):
        (tmp_path / "citeseer" / "ind.citeseer.graph").write_bytes(content)
        with pytest.raises(UserError, match="which may run code"):
            EgoSmall(root=str(tmp_path)).setup("fit")


@pytest.mark.parametrize("content", [b"", b"<html>", pickle.dumps({1: [2]}, protocol=1)[:-4], b"cos\n", b"\x80\x09."])
def test_files_that_are_no_pickles_are_refused(content: bytes, tmp_path: Path) -> None:
    write_citeseer(tmp_path, {})
    (tmp_path / "citeseer" / "ind.citeseer.graph").write_bytes(content)
    with refused("cannot be read as a pickle"):
        EgoSmall(root=str(tmp_path)).setup("fit")


@pytest.mark.parametrize("content", [{}, [1, 2], {"a": [1]}, {1: 2}, {1: ["a"]}, {1: [2.5]}])
def test_other_content_is_refused(content: object, tmp_path: Path) -> None:
    write_citeseer(tmp_path, content)
    with pytest.raises(UserError, match="does not hold a dict from each node's number to a list"):
        EgoSmall(root=str(tmp_path)).setup("fit")


def test_a_missing_file_and_a_missing_networkx_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"no file .*ind.citeseer.graph; it is published with the Planetoid data"):
        EgoSmall(root=str(tmp_path), source="citeseer").setup("fit")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UserError, match=r"needs networkx: pip install 'ebmlab\[graphs\]'"):
        EgoSmall(root=str(tmp_path)).setup("fit")


def test_bad_options_and_inputs_are_named(tmp_path: Path) -> None:
    for least, most in ((1, 18), (19, 18), (4, 1)):
        with pytest.raises(UserError, match=f"min_nodes is {least} and max_nodes {most}"):
            EgoSmall(min_nodes=least, max_nodes=most)
    with pytest.raises(UserError, match="num_graphs is 4; it must be at least 5"):
        EgoSmall(num_graphs=4)
    with pytest.raises(UserError, match='source is "cora", but must be "auto", "citeseer" or "embedded"'):
        EgoSmall(source="cora")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="holds 0 ego graphs of 60 to 70 nodes"):
        EgoSmall(root=str(tmp_path), min_nodes=60, max_nodes=70).setup("fit")
    module = EgoSmall(max_nodes=5)
    with pytest.raises(UserError, match=r"shape \(1, 5, 5\); the upper triangle of 5 nodes takes \(B, 10\)"):
        module.show(torch.zeros(1, 5, 5))
    with pytest.raises(UserError, match="must be 0 or 1"):
        module.graphs(torch.full((1, 10), 0.5))
