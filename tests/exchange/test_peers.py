"""Each package itself: energies of 1,000 random states, and what was written read back by the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.energies import RBM, CategoricalRBM, Ising
from ebmlab.exchange import Foreign, make, read, read_samples, write
from ebmlab.exchange.foreign import machine

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages
GENERATOR = np.random.default_rng(0)
STATES = GENERATOR.integers(0, 2, (1000, 12))


def spins(d: int = 12) -> Ising:
    J = np.triu(GENERATOR.normal(size=(d, d)) * (GENERATOR.random((d, d)) < 0.4), 1)
    return Ising(torch.tensor(J + J.T), torch.tensor(GENERATOR.normal(size=d)))


def units() -> RBM:
    return machine(GENERATOR.normal(size=(12, 5)), GENERATOR.normal(size=12), GENERATOR.normal(size=5))


def agree(found: Foreign, energies: Any, states: Any = None) -> None:
    mine = found.value(found.states(STATES if states is None else states)).numpy()
    np.testing.assert_allclose(mine, np.asarray(energies, float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_dimod(vartype: str, tmp_path: Path) -> None:
    dimod = pytest.importorskip("dimod")
    names = [f"x{k}" for k in range(12)]  # whose order as texts is another
    energy = spins()
    problem = make(Foreign(energy, "", offset=3.0, names=tuple(names)), "dimod").change_vartype(vartype)
    states = STATES if vartype == "BINARY" else 2 * STATES - 1
    agree(read(problem), problem.energies((states, names)), states)
    for name in ("a.bqm", "a.json"):
        found = read(problem)
        write(found, tmp_path / name)
        again = read(tmp_path / name)
        assert sorted(again.names) == sorted(names)
        order = [names.index(label) for label in again.names]
        agree(again, problem.energies((states, names)), states[:, order])
    with (tmp_path / "a.bqm").open("rb") as file:
        assert dimod.BinaryQuadraticModel.from_file(file).is_almost_equal(problem)


def test_dimod_and_we_agree_on_a_pair_of_fields_and_couplings() -> None:
    dimod = pytest.importorskip("dimod")
    h, J = [0.5, -1.0, 2.0], {(0, 1): 1.5, (2, 2): -3.0, (2, 1): 0.25}
    states = np.array([[1, 1, 1], [-1, 1, -1], [1, -1, -1]])
    agree(read((h, J)), dimod.BinaryQuadraticModel.from_ising(h, J).energies((states, [0, 1, 2])), states)


def test_coo_is_read_by_dimod(tmp_path: Path) -> None:
    dimod = pytest.importorskip("dimod")
    from dimod.serialization import coo

    energy = Ising([[0, 1e-7, 0], [1e-7, 0, 12345.5], [0, 12345.5, 0]], [1e-5, 0.0, 3e8])
    write(energy, tmp_path / "a.coo")
    with (tmp_path / "a.coo").open() as file:
        problem = coo.load(file)
    assert isinstance(problem, dimod.BinaryQuadraticModel) and problem.num_interactions == 2
    assert read(problem).energy.coupling.tolist() == energy.coupling.tolist()


def test_openjij() -> None:
    openjij = pytest.importorskip("openjij")
    linear = dict(enumerate(GENERATOR.normal(size=12)))
    quadratic = {(i, j): float(GENERATOR.normal()) for i in range(12) for j in range(i)}
    problem = openjij.BinaryQuadraticModel(linear, quadratic, 2.0, "SPIN")
    drawn = openjij.SASampler().sample(problem, num_reads=1000)
    found = read(problem)
    x = read_samples(drawn, found.names)
    agree(found, drawn.record.energy, x)


def test_dwave_samplers() -> None:
    samplers = pytest.importorskip("dwave.samplers")
    problem = make(Foreign(spins(), "", offset=1.0, names=tuple(f"x{k}" for k in range(12))), "dimod")
    drawn = samplers.SimulatedAnnealingSampler().sample(problem, num_reads=1000, num_sweeps=3)
    found = read(problem)
    agree(found, drawn.record.energy, read_samples(drawn, found.names))


@pytest.mark.parametrize("package", ["thrml", "hamon"])
def test_thrml(package: str) -> None:
    thrml = pytest.importorskip(package)
    jnp = pytest.importorskip("jax.numpy")
    models = pytest.importorskip(f"{package}.models")
    nodes = [thrml.SpinNode() for _ in range(12)]
    ends = [(i, j) for i in range(12) for j in range(i)] + [(0, 1)]
    biases, weights = (jnp.asarray(GENERATOR.normal(size=n)) for n in (12, len(ends)))
    model = models.IsingEBM(nodes, [(nodes[i], nodes[j]) for i, j in ends], biases, weights, jnp.asarray(0.7))
    own = [float(model.energy([jnp.asarray(x, bool)], [thrml.Block(nodes)])) for x in STATES]
    agree(read(model), own, STATES)
    if package == "thrml":
        energy = spins()
        assert torch.allclose(read(make(energy, "thrml")).energy.coupling.double(), energy.coupling)


def test_rbms(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    rbms_io = pytest.importorskip("rbms.io")
    energy, v = units(), torch.tensor(STATES).double()
    params = make(energy, "rbms")
    own = params.compute_energy_visibles(v)
    agree(read(params), own)
    path = tmp_path / "model.h5"
    rbms_io.save_model(str(path), params, {"visible": v[:10]}, 5, 1.0)
    agree(read(path), own)
    assert read(path).facts["update"] == 5 and "the chains" in read(path).lost
    assert read_samples(path).shape == (10, 12)
    write(energy, tmp_path / "mine.h5")
    loaded = rbms_io.load_params(str(tmp_path / "mine.h5"), 1, torch.device("cpu"), torch.float64)
    assert torch.equal(loaded.compute_energy_visibles(v), own)


def test_rbms_of_sequences(tmp_path: Path) -> None:
    rbms_io = pytest.importorskip("rbms.io")
    torch.manual_seed(0)
    energy, v = CategoricalRBM(12, 21, num_hidden=5), torch.randint(20, (1000, 12))  # the last value is in no state
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    params = make(energy, "rbms")
    own = params.compute_energy_visibles(v.float())
    agree(read(params), own, v)
    rbms_io.save_model(str(tmp_path / "model.h5"), params, {"visible": v[:10].float()}, 5, 1.0)
    agree(read(tmp_path / "model.h5"), own, v)
    write(energy, tmp_path / "mine.h5")
    loaded = rbms_io.load_params(str(tmp_path / "mine.h5"), 1, torch.device("cpu"), torch.float32)
    assert torch.equal(loaded.compute_energy_visibles(v.float()), own)


def test_scikit_learn(tmp_path: Path) -> None:
    from sklearn.neural_network import BernoulliRBM

    fitted = BernoulliRBM(5, n_iter=3, random_state=0).fit(STATES.astype(float))
    found = read(fitted)
    v = torch.tensor(STATES).double()
    with torch.no_grad():
        probabilities = torch.sigmoid(found.energy.hidden_given_visible(v)).numpy()
    np.testing.assert_allclose(probabilities, fitted.transform(STATES), atol=1e-9)
    agree(found, fitted._free_energy(STATES))
    write(found, tmp_path / "a.npz", kind="sklearn")
    made = make(read(tmp_path / "a.npz"), "sklearn")
    np.testing.assert_array_equal(made.transform(STATES), fitted.transform(STATES))
    assert made.score_samples(STATES).shape == (1000,) and made.gibbs(STATES).shape == STATES.shape


def test_ebmkit(tmp_path: Path) -> None:
    pytest.importorskip("ebm.nets.lattice")
    model, v = make(units(), "ebmkit").double(), torch.tensor(STATES).double()
    own = model(v).detach()
    agree(read(model), own)
    torch.save(model.state_dict(), tmp_path / "a.pt")
    agree(read(tmp_path / "a.pt"), own)
    write(read(model), tmp_path / "b.pt", kind="ebmkit")
    model.load_state_dict(torch.load(tmp_path / "b.pt"))
    assert torch.equal(model(v).detach(), own)


def test_learnergy(tmp_path: Path) -> None:
    pytest.importorskip("learnergy.models.bernoulli")
    model, v = make(units(), "learnergy"), torch.tensor(STATES).float()
    own = model.energy(v).detach()
    agree(read(model), own)
    torch.save(model.state_dict(), tmp_path / "a.pt")
    agree(read(tmp_path / "a.pt"), own)
    model.T = 0.5
    with pytest.raises(Exception, match="its temperature is"):
        read(model)


def test_coniii() -> None:
    utils = pytest.importorskip("coniii.utils")
    energy = spins()
    vector = make(energy, "coniii")
    ising = 2 * STATES - 1
    own = utils.define_ising_helper_functions()[0](ising.astype(np.int64), vector)
    agree(read(vector), own, ising)
