"""The rule of each format, by energies that were written down by hand or by the package itself."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.energies import RBM, CategoricalRBM, Ising
from ebmlab.errors import UserError
from ebmlab.exchange import Foreign, read, read_samples, write
from ebmlab.exchange.foreign import machine

W = np.array([[1, -2], [0.5, 0.25], [-1.5, 3]])
A, B = np.array([0.1, -0.2, 0.3]), np.array([0.4, -0.5])
BITS = [[1, 0, 1], [0, 1, 1]]


def values(found: Foreign, states: list[list[int]]) -> list[float]:
    """What the package says of its own states, as integers of one byte."""
    return found.value(found.states(np.array(states, np.int8))).tolist()


def problem(vartype: str, linear: dict[Any, float], quadratic: dict[Any, float], offset: float) -> Any:
    """What dimod's and openjij's binary quadratic models look like."""
    names = list(linear)
    return SimpleNamespace(vartype=vartype, linear=linear, quadratic=quadratic, offset=offset, variables=names)


def test_dimod_on_spins() -> None:
    """E = sum a s + sum q s s + offset."""
    found = read(problem("SPIN", {0: 1, 1: -2, 2: 0.5}, {(0, 1): 0.5, (1, 2): 1}, 7))
    assert values(found, [[1, 1, 1], [1, -1, 1]]) == [8, 9]
    assert found.offset == 7 and found.names == ()
    assert found.energy.field.tolist() == [-1, 2, -0.5] and float(found.energy.coupling[1, 2]) == -1


def test_dimod_on_bits_keeps_its_labels_in_their_order() -> None:
    found = read({("b", "b"): 1.0, ("b", "a"): -2.0, ("a", "a"): 0.5})
    assert found.names == ("b", "a") and found.form == "bits"
    assert values(found, [[1, 1], [1, 0], [0, 1], [0, 0]]) == [-0.5, 1, 0.5, 0]
    offset = read(problem("BINARY", {"b": 1.0, "a": 0.5}, {("b", "a"): -2.0}, 3.0))
    assert values(offset, [[1, 1], [1, 0]]) == [2.5, 4]


def test_labels_that_are_numbers_come_in_their_order() -> None:
    found = read(problem("SPIN", {2: 3.0, 0: 1.0, 1: 2.0}, {}, 0.0))
    assert found.names == () and found.energy.field.tolist() == [-1, -2, -3]


def test_dwave_samplers_take_a_pair_of_dictionaries() -> None:
    found = read(({"a": 1.0, "b": 0.0}, {("b", "a"): -0.5, ("b", "c"): 2.0}))
    assert found.names == ("a", "b", "c") and values(found, [[1, 1, 1], [-1, 1, 1]]) == [2.5, 1.5]


@pytest.mark.parametrize("h", [[1.0, 0.0], np.array([1.0, 0.0]), {0: 1.0, 1: 0.0}])
def test_the_fields_of_an_ising_problem_may_be_a_vector(h: Any) -> None:
    """A coupling of a spin with itself is a constant, as for dimod."""
    found = read((h, {(0, 1): -0.5, (1, 2): 2.0, (1, 1): 7.0}))
    assert found.names == () and found.offset == 7
    assert values(found, [[1, 1, 1], [-1, 1, 1]]) == [9.5, 8.5]


def test_a_matrix_is_refused_since_it_may_mean_several_problems() -> None:
    for given in (np.eye(3), torch.eye(3)):
        with pytest.raises(UserError, match=r"whether its states are bits or spins.*: give a QUBO \{\(i, j\): q\}, or"):
            read(given)


def test_labels_that_are_numbers_of_numpy_come_in_their_order() -> None:
    """As in a QUBO whose keys are those of `numpy.nonzero`."""
    Q = np.array([[0, 0, 0, 3.0], [0, -1, 2, 0], [0, 0, 0, -4], [0, 0, 0, 0.5]])
    x = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 0]])
    keys = list(zip(*np.nonzero(Q), strict=True))
    assert list(dict.fromkeys(int(i) for key in keys for i in key)) == [0, 3, 1, 2]
    energies = np.einsum("bi,ij,bj->b", x, Q, x).tolist()
    found = read({key: Q[key] for key in keys})
    assert found.names == () and values(found, x.tolist()) == energies
    moved = read({(i + 1, j + 1): Q[i, j] for i, j in keys})
    assert moved.names == (1, 2, 3, 4) and values(moved, x.tolist()) == energies
    assert {type(name) for name in moved.names} == {int} and moved.described()["names"] == [1, 2, 3, 4]
    linear, quadratic = {i: Q[i, i] for i, _ in keys}, {key: Q[key] for key in keys if key[0] != key[1]}
    given = problem("BINARY", linear | {3: 0.5}, quadratic, 0)
    given.variables = [np.int64(key) for key in (3, 1, 0, 2)]
    assert read(given).names == () and values(read(given), x.tolist()) == energies
    spins = read(({i: Q[i, i] for i in reversed(range(4))}, quadratic))
    assert spins.names == () and values(spins, [[-1, 1, 1, -1]]) == [-1 + 2 + 3 + 4 - 0.5]


def test_both_orders_of_a_pair_add_up() -> None:
    found = read({(0, 1): 1.0, (1, 0): 2.0, (2, 2): 1.0})
    assert values(found, [[1, 1, 0], [1, 1, 1], [1, 0, 0]]) == [3, 4, 0]


@pytest.mark.parametrize("number", ["1e-05", "1e3", "2.", ".5", "+4", "-0.25", "3"])
def test_every_number_of_a_coo_file_counts(number: str, tmp_path: Path) -> None:
    """dimod's own reader skips the first three without a word."""
    path = tmp_path / "problem.txt"
    path.write_text(f"# vartype=SPIN\n0 0 1\n0 1 {number}\n\n2 2 1\n")
    found = read(path)
    assert found.kind == "coo" and found.facts["lines"] == 3
    assert float(found.energy.coupling[0, 1]) == pytest.approx(-float(number))


def test_coo_of_bits_and_coo_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "problem"
    path.write_text("0 0 -1\n0 1 1\n1 2 -4.5\n")
    assert values(read(path, vartype="BINARY"), [[1, 1, 1], [0, 1, 1]]) == [-4.5, -4.5]
    assert values(read(path, vartype="SPIN"), [[1, 1, 1], [-1, 1, 1]]) == [-4.5, -4.5]
    path.write_text("0 0 -1\n0 1 1\n1 2 -4\n")
    assert values(read(path, vartype="BINARY"), [[1, 1, 1], [0, 1, 1], [1, 0, 0]]) == [-4, -4, -1]


def test_gset_gives_cuts(tmp_path: Path) -> None:
    """Nodes count from 1, J = -w, and the cut is (sum w - E) / 2."""
    path = tmp_path / "graph"
    path.write_text("3 3\n1 2 1\n1 3 1\n2 3 -1\n")
    found = read(path)
    x = torch.tensor([[-1.0, 1, 1], [1, 1, -1]])
    assert found.kind == "gset" and found.names == (1, 2, 3)
    assert found.energy(x).tolist() == [-3, 1] and found.value(x).tolist() == [2, 0]


def ising_ebm(edges: list[tuple[int, int]], weights: list[float]) -> Any:
    """What `IsingEBM` of thrml and hamon look like; nodes compare by identity."""
    nodes = [object() for _ in range(3)]
    ends = [(nodes[i], nodes[j]) for i, j in edges]
    return SimpleNamespace(
        nodes=nodes, edges=ends, biases=np.array([0.1, 0.2, 0.3]), weights=np.array(weights), beta=0.5
    )


def test_thrml_multiplies_by_beta() -> None:
    found = read(ising_ebm([(0, 1), (1, 2)], [1, -2]))
    assert values(found, [[1, 1, 1], [1, 0, 1]]) == pytest.approx([0.2, -0.6])
    assert found.facts["beta"] == 0.5


def test_edges_that_thrml_lists_twice_add_up() -> None:
    found = read(ising_ebm([(0, 1), (1, 2), (1, 0)], [1, -2, 1]))
    assert values(found, [[1, 1, 1], [1, 0, 1]]) == pytest.approx([-0.3, -0.1])


def test_coniii_has_our_sign() -> None:
    found = read(np.array([0.1, 0.2, 0.3, 1, -2, 0.5]))
    assert values(found, [[-1, -1, -1], [-1, -1, 1]]) == pytest.approx([1.1, -2.5])


@pytest.mark.parametrize(
    ("model", "energies", "lower"),
    [
        ("BBRBM", [-2.0185, -3.3495], 0),
        ("IIRBM", [-1.0374, -5.24], 1.15),
        ("IGRBM", [2.1583, -1.3583], 2.0895),
        ("BGRBM", [0.376, -0.601], 1.5586),
    ],
)
def test_rbms(model: str, energies: list[float], lower: float, tmp_path: Path) -> None:
    found = read(archive(tmp_path / "model.h5", model))
    states = BITS if model[0] == "B" else (2 * np.array(BITS) - 1).tolist()
    with torch.no_grad():
        assert found.energy(found.states(np.array(states))).tolist() == pytest.approx(energies, abs=1e-4)
    assert values(found, states) == pytest.approx([energy - lower for energy in energies], abs=1e-4)
    assert isinstance(found.energy, RBM if model in ("BBRBM", "IIRBM") else Ising)


@pytest.mark.parametrize("model", ["BBRBM", "IIRBM", "IGRBM", "BGRBM"])
def test_rbms_energies_are_sums_over_hidden_units(model: str, tmp_path: Path) -> None:
    """log p(v) up to a constant, from the joint energy: bits and spins by a sum, Gaussian units by quadrature."""
    found = read(archive(tmp_path / "model.h5", model))
    v = np.array(BITS) if model[0] == "B" else 2 * np.array(BITS) - 1
    t = B + v @ W
    if model[1] == "G":
        h = np.linspace(-40, 40, 200_001)
        inner = [[math.log(np.trapezoid(np.exp(x * h - 1.5 * h**2), h)) for x in row] for row in t]
    else:
        ends = (0, 1) if model[1] == "B" else (-1, 1)
        inner = [[math.log(sum(math.exp(x * end) for end in ends)) for x in row] for row in t]
    expected = -v @ A - np.sum(inner, 1)
    assert np.diff(values(found, v.tolist())) == pytest.approx(np.diff(expected), abs=1e-9)


COLOURS = (np.arange(12).reshape(2, 3, 2) / 10, np.arange(6).reshape(2, 3) / 10, np.array([0.5, -0.5]))


def test_rbms_potts_machine_has_the_number_of_values_of_its_weights(tmp_path: Path) -> None:
    """Its first site has the value 0 and its second 2; the chains, which hold no 2, say nothing."""
    path = potts_archive(tmp_path / "model.h5")
    found = read(path)
    assert isinstance(found.energy, CategoricalRBM) and found.energy.domain.event_shape == (2, 3)
    assert values(found, [[0, 2], [1, 2]]) == pytest.approx([-3.3046, -3.7089], abs=1e-4)
    assert read_samples(path).max() == 1 and "the chains" in found.lost
    assert found.facts["alphabet"] == "-AC"  # of three values
    cold = read(potts_archive(tmp_path / "cold.h5", beta=2.0))
    twice = [sum(math.log1p(math.exp(2 * t)) for t in pair) for pair in ((1.5, 0.7), (1.7, 0.9))]
    energies = [-2 * 0.5 - twice[0], -2 * 0.6 - twice[1]]
    with torch.no_grad():
        x = cold.states(np.array([[0, 2], [1, 2]]))
        assert cold.energy(x).tolist() == pytest.approx(energies, abs=1e-5)
    assert write(found, tmp_path / "again.h5") == ["chains and settings of a training"]
    for one, other in zip(read(tmp_path / "again.h5").energy.parameters(), found.energy.parameters(), strict=True):
        assert torch.equal(one, other)


def potts_archive(path: Path, beta: float = 1.0) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["model_type"], file["sampling_args/beta"] = "PBRBM", beta
        file["parallel_chains"] = np.array([[0.0, 1], [1, 0]])
        file["dataset_args/alphabet"] = "rna"
        for name, array in zip(("weight_matrix", "vbias", "hbias"), COLOURS, strict=True):
            file[f"update_1/params/{name}"] = array
    return path


def test_rbms_beta_is_not_in_the_parameters(tmp_path: Path) -> None:
    """The law is that of beta E, and the package's energy is E."""
    cold = read(archive(tmp_path / "model.h5", "IIRBM", beta=2.0, updates=(1, 30)))
    states = (2 * np.array(BITS) - 1).tolist()
    assert values(cold, states)[0] - values(cold, states)[1] != pytest.approx(4.2026, abs=1e-3)
    assert cold.facts == {"model": "IIRBM", "update": 30, "beta": 2.0}
    assert cold.lost == ("the chains", "the 1 earlier update")


def test_fastrbms_coulomb_machine_has_hidden_biases_of_the_other_sign(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rcm.h5", "w") as file:
        for name, array in (("W_rbm", W), ("vbias_rbm", A), ("hbias_rbm", -B)):
            file[f"best_trial/{name}"] = array
    states = (2 * np.array(BITS) - 1).tolist()
    assert values(read(tmp_path / "rcm.h5"), states) == pytest.approx([-2.1874, -6.39], abs=1e-4)


def archive(path: Path, model: str, beta: float = 1.0, updates: tuple[int, ...] = (1,)) -> Path:
    """An archive as rbms writes it; earlier updates have other parameters."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["model_type"] = model
        for update in updates:
            factor = 1.0 if update == max(updates) else 7.0
            for name, array in (("weight_matrix", W), ("vbias", A), ("hbias", B)):
                file[f"update_{update}/params/{name}"] = factor * array
        if beta != 1:
            file["sampling_args/beta"] = beta
        if len(updates) > 1:
            file["parallel_chains"] = np.zeros((5, 3))
    return path


def test_scikit_learns_components_are_transposed() -> None:
    fitted = {"components_": W.T, "intercept_visible_": A, "intercept_hidden_": B}
    assert values(read(SimpleNamespace(**fitted)), BITS) == pytest.approx([-2.0185, -3.3495], abs=1e-4)
    assert values(read(fitted), BITS) == pytest.approx([-2.0185, -3.3495], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "state"),
    [("ebmkit", {"W": W.T, "b": A, "c": B}), ("learnergy", {"W": W, "a": A, "b": B})],
)
def test_state_dicts_of_torch(kind: str, state: dict[str, Any], tmp_path: Path) -> None:
    tensors = {name: torch.tensor(array) for name, array in state.items()}
    torch.save(tensors, tmp_path / "model")
    for found in (read(tmp_path / "model"), read(tensors)):
        assert found.kind == kind and values(found, BITS) == pytest.approx([-2.0185, -3.3495], abs=1e-4)


def test_precision_is_that_which_holds_the_numbers() -> None:
    assert machine([[0.5]], [1.0], [2.0]).dtype == torch.float32
    assert machine([[0.1]], [1.0], [2.0]).dtype == torch.float64


SPINS = Foreign(
    Ising([[0.0, 0.5, 0], [0.5, 0, -1.25], [0, -1.25, 0]], [1.0, 0.0, 1e-7]), "", offset=2.0, names=("a", "b", "c")
)
UNITS = Foreign(machine(W, A, B), "", form="bits")
ROUND = [
    *((SPINS, name, None) for name in ("p.bqm", "p.json", "p.coo", "p.npz")),
    *((SPINS, name, "coniii") for name in ("p.npy", "p.txt")),
    *((UNITS, "m.h5", None), (UNITS, "m.npz", "sklearn"), (UNITS, "m.npz", None)),
    *((UNITS, "m.pt", kind) for kind in ("ebmkit", "learnergy")),
]


@pytest.mark.parametrize(("given", "name", "kind"), ROUND, ids=[f"{name} {kind or ''}" for _, name, kind in ROUND])
def test_what_is_written_comes_back_bit_for_bit(given: Foreign, name: str, kind: str | None, tmp_path: Path) -> None:
    for package, suffixes in (("dimod", (".bqm",)), ("h5py", (".h5",))):
        if name.endswith(suffixes):
            pytest.importorskip(package)
        if name.endswith(".json"):
            pytest.importorskip("dimod")
    lost = write(given, tmp_path / name, kind=kind)
    found = read(tmp_path / name)
    assert found.energy.dtype == given.energy.dtype
    for one, other in zip(found.energy.state_dict().values(), given.energy.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    if found.kind in ("dimod", "arrays") and given is SPINS:
        assert lost == [] and found.offset == 2 and found.names == ("a", "b", "c")
    elif given is SPINS:
        assert len(lost) == 2 and "offset" in lost[1]


def test_a_graph_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "graph.rud"
    path.write_text("4 2\n1 2 -1\n3 4 2.5\n")
    found = read(path)
    assert write(found, tmp_path / "again.rud") == []
    assert (tmp_path / "again.rud").read_text() == path.read_text()
