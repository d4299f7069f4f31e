"""Graphs of DIMACS, edge lists and networkx: cuts that are counted by hand, and one line for each bad file."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.exchange import make, read, write
from ebmlab.exchange.foreign import Foreign
from ebmlab.problems import pose

EDGES = [("b", "a", 2.0), ("b", "c", -0.5), ("c", "a", 1.0), ("d", "a", 3.25)]


def cuts(found: Foreign, edges: list[tuple[Any, Any, float]]) -> None:
    """Holds the value of all states against the weight of the edges between both sides."""
    place = {name: k for k, name in enumerate(found.names)}
    x = found.energy.domain.enumerate()
    by_hand = [sum(w for i, j, w in edges if row[place[i]] != row[place[j]]) for row in x.tolist()]
    assert found.value(x).tolist() == pytest.approx(by_hand)


def test_the_value_is_the_weight_of_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.edges"
    path.write_text("# a graph\nb a 2\nb c -0.5 # negative\n\nc a\nd a 3.25\n")
    cuts(read(path), EDGES)
    path = tmp_path / "a.col"
    path.write_text("c a graph\np edge 4 3\ne 1 2\ne 3 2\ne 4 1\n")
    found = read(path)
    assert (found.kind, found.names) == ("dimacs", (1, 2, 3, 4))
    cuts(found, [(1, 2, 1.0), (3, 2, 1.0), (4, 1, 1.0)])


@pytest.mark.parametrize("count", [2, 4])
def test_an_edge_of_dimacs_may_come_in_both_directions(count: int, tmp_path: Path) -> None:
    """As in instances of colouring, which may give values of nodes, too."""
    path = tmp_path / "a.col"
    path.write_text(f"p edge 3 {count}\nn 1 4\nn 3 -0.5\ne 1 2\ne 3 2\ne 2 1\ne 2 3\n")
    found = read(path)
    cuts(found, [(1, 2, 1.0), (3, 2, 1.0)])
    assert found.facts == {"edges": 2} and found.lost == ("the values of nodes, lines n",)
    path.write_text("p edge 3 3\ne 1 2\ne 2 1\ne 2 3\n")
    cuts(read(path), [(1, 2, 1.0), (3, 2, 1.0)])
    assert read(path).lost == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 2", "3 3", "1 9", "1 2 nan"], "edge 2 is '3 3': it joins a node to itself"),
        (["1 2", "1 9", "3 3"], "edge 2 is '1 9': nodes must be from 1 to 3"),
        (["2 3", "1 2 inf", "2 3"], "edge 2 is '1 2 inf': its weight must be finite"),
        (["3 1", "2 3", "1 3", "1 1"], "edge 3 is '1 3': edge 1 joins the same nodes"),
        (["1 1 nan", "9 9"], "edge 1 is '1 1 nan': it joins a node to itself"),
        (["9 9 nan"], "edge 1 is '9 9 nan': nodes must be from 1 to 3"),
    ],
)
def test_the_first_wrong_edge_is_named(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.rud"
    path.write_text("\n".join([f"3 {len(lines)}", *lines]))
    with pytest.raises(UserError, match=f"{message}$"):
        read(path)


def test_networkx_there_and_back() -> None:
    networkx = pytest.importorskip("networkx")
    given = networkx.Graph()
    given.add_node("alone")
    given.add_weighted_edges_from(EDGES)
    given.add_edge("alone", "d")
    found = read(given)
    cuts(found, [*EDGES, ("alone", "d", 1.0)])
    again = make(found, "networkx")
    assert list(again.nodes) == list(given.nodes)
    weight = {frozenset(pair): w for *pair, w in given.edges(data="weight", default=1)}
    assert {frozenset(pair): w for *pair, w in again.edges(data="weight")} == weight
    nodes = read(networkx.Graph([(np.int64(5), np.int64(3))])).names
    assert nodes == (5, 3) and {type(node) for node in nodes} == {int}
    for bad, message in [(networkx.DiGraph([(0, 1)]), "directed"), (networkx.Graph([(0, 0)]), "to itself")]:
        with pytest.raises(UserError, match=message):
            read(bad)


@pytest.mark.parametrize("suffix", [".edges", ".rud", ".col"])
def test_what_is_written_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.edges"
    path.write_text("1 2\n2 3\n1 3\n3 4\n")
    assert write(read(path), tmp_path / f"b{suffix}") == []
    again, x = read(tmp_path / f"b{suffix}"), torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)))
    assert torch.equal(again.value(x), read(path).value(x))
    assert again.names == (1, 2, 3, 4)


def test_lines_that_begin_with_a_percent_sign_are_comments(tmp_path: Path) -> None:
    path = tmp_path / "a.edges"
    path.write_text("% sym\n%3 4\n1 2 0.5\n 2 3 2 # % no comment by itself\n")
    found = read(path)
    assert found.names == (1, 2, 3) and found.facts["edges"] == 2
    assert found.value(torch.tensor([[-1, 1, 1], [-1, 1, -1]])).tolist() == [0.5, 2.5]
    path.write_text("a %b\n")
    assert read(path).names == ("a", "%b")
    with pytest.raises(UserError, match="no names with spaces, '#' or a '%' in front"):
        write(read(path), tmp_path / "b.edges")


@pytest.mark.parametrize("joined", [2, 60])
def test_values_of_large_whole_numbers_are_whole(joined: int, tmp_path: Path) -> None:
    """Each weight has few digits, their sum more than float32 has room for."""
    order = random.Random(0)
    edges = [(i, j, order.randint(1, 10**6)) for i in range(1, 201) for j in range(max(1, i - joined), i)]
    path = tmp_path / "a.rud"
    path.write_text(f"200 {len(edges)}\n" + "".join(f"{i} {j} {weight}\n" for i, j, weight in edges))
    found, sides = read(path), [[order.choice((-1, 1)) for _ in range(200)] for _ in range(5)]
    cuts = [sum(weight for i, j, weight in edges if side[i - 1] != side[j - 1]) for side in sides]
    assert found.energy.dtype == torch.float32 and min(cuts) > 2**24
    x = torch.tensor(sides)
    assert found.value(x).tolist() == pose(found, "max_cut").decode(x.float()).value.tolist() == cuts
    qubo = read({(i, j): 4 * weight for i, j, weight in edges})
    bits = [[i for i, s in enumerate(side, 1) if s > 0] for side in sides]
    values = [sum(4 * weight for i, j, weight in edges if {i, j} <= set(chosen)) for chosen in bits]
    assert pose(qubo).decode(x.float()).value.tolist() == values


BAD = [
    ("a.col", "p edge 3 2\ne 1 2\n", "its line p says 2 edges, and 1 follow"),
    ("a.col", "p edge 3 1\ne 0 1\n", "edge 1 is 'e 0 1': nodes must be from 1 to 3"),
    ("a.col", "p col 3 2\ne 1 2\ne 1 2\n", "edge 2 is 'e 1 2': edge 1 joins the same nodes"),
    ("a.col", "p col 3 3\ne 1 2\ne 2 1\ne 2 1\n", "edge 3 is 'e 2 1': edge 1 joins the same nodes"),
    ("a.col", "p edge 3 4\ne 1 2\ne 2 1\n", "its line p says 4 edges, and 2 follow"),
    ("a.col", "p edge 3 1\ne 2 2\n", "edge 1 is 'e 2 2': it joins a node to itself"),
    ("a.col", "p edge 3 1\nd 1 4\ne 1 2\n", "line 2 is 'd 1 4', and must be: e i j, or n i value"),
    ("a.col", "p edge 3 1\nn 1\ne 1 2\n", "line 2 is 'n 1', and must be: e i j, or n i value"),
    ("a.col", "p edge 3 1\nn 1 x\ne 1 2\n", "line 2 is 'n 1 x', and must be: e i j, or n i value"),
    ("a.col", "p edge 3 1\ne 1 2 3\n", "line 2 is 'e 1 2 3', and must be: e i j"),
    ("a.col", "p edge 10000001 0\n", "it has 10,000,001 nodes, and can have 10,000,000 at most"),
    ("a.rud", f"1{30 * '0'} 0\n", "can have 10,000,000 at most"),
    ("a.col", "p edge 3\n", "must be: p edge NODES EDGES"),
    ("a.col", "p edge 3 0\np edge 3 0\n", "once"),
    ("a.edges", "1 2\n2 1\n", "edge 2 is '2 1': edge 1 joins the same nodes"),
    ("a.edges", "1 1\n", "it joins a node to itself"),
    ("a.edges", "1 2 nan\n", "its weight must be finite"),
    ("a.edges", "1 2 3 4\n", "line 1 is '1 2 3 4', and must be: i j, or: i j weight"),
    ("a.edges", "1 2 x\n", "line 1 is '1 2 x'"),
    ("a.edges", "# nothing\n", "there are no variables"),
    ("a.col", "p edge -3 1\ne 1 2\n", "line 1 is 'p edge -3 1', and must be: p edge NODES EDGES"),
    ("a.rud", "3 1\n\n1 2 3 4\n", "line 3 is '1 2 3 4', and must be: i j weight"),
    ("a.rud", "3 1\n1.5 2 1\n", "line 2 is '1.5 2 1', and must be: i j weight"),
    ("a.rud", "", "a.rud is empty"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_a_bad_file_is_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError) as failed:
        read(path)
    assert message in str(failed.value) and "\n" not in str(failed.value) and str(path) in str(failed.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder, but must be a file"):
        read(tmp_path)


def test_weights_are_not_dropped_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "a.edges"
    path.write_text("1 2 0.5\n")
    with pytest.raises(UserError, match="dimacs holds no weights"):
        write(read(path), tmp_path / "b.col")
    assert not (tmp_path / "b.col").exists()
