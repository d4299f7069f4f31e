"""Under autocast energies stay in float32: no law in closed form is rounded, and no constant changes a law."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_energies import given
from torch import Tensor

import ebmlab.energies
from ebmlab.domains import Binary, Categorical, Finite, Real, Spin
from ebmlab.energies import (
    GRBM,
    MLP,
    RBM,
    RGCN,
    AtNoise,
    Base,
    Bernoulli,
    Bipartite,
    Bridge,
    ByParts,
    CategoricalRBM,
    ClampedBipartite,
    Classifier,
    ClassifierMLP,
    Energy,
    Frequencies,
    Gaussian,
    Ising,
    MaskedLanguageModel,
    Mixture,
    NoisyAutoencoder,
    NoisyEnergy,
    NoisyMLP,
    NoisyResNet,
    Part,
    Potts,
    ProductMLP,
    RealMLP,
    ResNet,
    ScalarPotts,
    Scaled,
    Solved,
    StandardNormal,
    Sum,
    TemperedBipartite,
    TemperedEnergy,
    Uniform,
    bridge,
    reference,
    tempered,
)
from ebmlab.learners import EnergyDiscrepancy, Exact
from ebmlab.product import Product
from ebmlab.studies.targets import (
    BinaryNetPosterior,
    LatticeGaussian,
    LogisticPosterior,
    ModeGrid,
    QuarticMixture,
    Rows,
)

LARGE = 3000.0  # its neighbours in bfloat16 are 16 apart


def rbm() -> RBM:
    return filled(RBM(7, 4))


def filled(energy: Energy) -> Energy:
    for p in energy.parameters():
        torch.nn.init.normal_(p)
    return energy


def net_posterior() -> BinaryNetPosterior:
    return BinaryNetPosterior(Rows(torch.rand(20, 3), torch.rand(20)), hidden_dim=4)


def gaussian() -> Gaussian:
    return Gaussian(torch.randn(5), torch.eye(5) + 0.5)


def potts() -> ScalarPotts:
    return ScalarPotts(Ising.barabasi_albert(5, 2, coupling=0.7).coupling, torch.randn(5, 3))


CLOSED: dict[str, Callable[[], Energy]] = {
    "RBM": rbm,
    "GRBM": lambda: filled(GRBM(7, 4)),
    "GRBM, rectified": lambda: filled(GRBM(7, 4, hidden="rectified")),
    "CategoricalRBM": lambda: filled(CategoricalRBM(5, 3, num_hidden=4)),
    "Ising": lambda: Ising.barabasi_albert(9, 2, coupling=0.37, field=0.123),
    "Ising, sparse": lambda: Ising.lattice(20, 0.37, field=0.123),
    "Ising, learnt": lambda: filled(Ising.learnable(9)),
    "Potts": lambda: filled(Potts(5, 3)),
    "Potts, some pairs": lambda: filled(Potts(5, 3, pairs=[[0, 3], [1, 4]])),
    "ScalarPotts": potts,
    "LatticeGaussian": lambda: LatticeGaussian.rotated(5, num_values=6),
    "QuarticMixture": lambda: QuarticMixture(5, num_values=6, num_components=4),
    "ModeGrid": lambda: ModeGrid(side=3, num_values=17, spacing=4, variance=2.0),
    "LogisticPosterior": lambda: LogisticPosterior.synthetic(8, num_rows=6),
    "BinaryNetPosterior": net_posterior,
    "NoisyAutoencoder": lambda: NoisyAutoencoder((1, 8, 4), 3, hidden_dim=5, lowest=0.5),
    "Bernoulli": lambda: Bernoulli(torch.rand(7)),
    "Uniform": lambda: Uniform(Binary(7)),
    "StandardNormal": lambda: StandardNormal(Real(5)),
    "Gaussian": gaussian,
    "Frequencies": lambda: Frequencies(torch.rand(7, 3).softmax(-1)),
    "ByParts": lambda: ByParts({"bits": Bernoulli(torch.rand(3)), "place": gaussian()}),
    "Clamped": lambda: given(Ising.barabasi_albert(7, 2, coupling=0.6, field=0.3)),
    "ClampedBipartite": lambda: given(rbm()),
    "Sum": lambda: Sum([rbm(), rbm()], [-0.7, 1.3]),
    "Mixture": lambda: Mixture([rbm(), rbm()], [0.2, 0.8], log_z=[4.0, LARGE]),
    "Scaled": lambda: Scaled(rbm(), 2.5),
    "TemperedEnergy": lambda: TemperedEnergy(potts(), 0.3),
    "TemperedBipartite": lambda: TemperedBipartite(rbm(), 0.3),
    "Solved": lambda: Solved(rbm(), 1.0, samples=torch.zeros(3, 7)),
    "Bridge": lambda: bridge(reference(Spin(9)), Ising.barabasi_albert(9, 2, coupling=0.37)),
    "BipartiteBridge": lambda: bridge(Bernoulli(torch.rand(7)), rbm()),
    "BipartiteBridge, classes": lambda: bridge(Uniform(Categorical(5, 3)), filled(CategoricalRBM(5, 3, num_hidden=4))),
    "BipartiteBridge, real": lambda: bridge(Gaussian(torch.randn(7), torch.eye(7) + 0.5), filled(GRBM(7, 4))),
}
MIXED = Product(bits=Binary(3), place=Real(2))
# Networks round all layers but the last one. The second function adds a constant to E.
NETWORKS: dict[str, tuple[Callable[[], Energy], Callable[[Energy], Tensor]]] = {
    "MLP": (lambda: MLP(7, hidden_dim=8), lambda e: e.rest[-1].bias),
    "MLP, many bits": (lambda: MLP(70, hidden_dim=8), lambda e: e.rest[-1].bias),
    "RealMLP": (lambda: RealMLP(5, 8), lambda e: e.network[-1].bias),
    "ClassifierMLP": (lambda: ClassifierMLP(5, num_classes=3, hidden_dim=8), lambda e: e.linear.bias),
    "NoisyMLP": (lambda: NoisyMLP(5, 8, lowest=0.5), lambda e: e.network[-1].bias),
    "NoisyResNet": (lambda: NoisyResNet((3, 4, 4), 3, lowest=0.5), lambda e: e.linear.bias),
    "ProductMLP": (lambda: ProductMLP(MIXED, 8), lambda e: e.network[-1].bias),
    "Part": (lambda: Part(ProductMLP(MIXED, 8), "bits", x=torch.randn(1, 5)), lambda e: e.energy.network[-1].bias),
    "AtNoise": (lambda: AtNoise(NoisyMLP(5, 8), 0.5), lambda e: e.energy.network[-1].bias),
    "RGCN": (lambda: RGCN(5, hidden_dim=4, num_layers=3), lambda e: e.head[-1].bias),
    "ResNet": (lambda: ResNet((4, 4), channels=3, base=torch.linspace(0, 1, 16)), lambda e: e.linear.bias),
}
ELSEWHERE = {MaskedLanguageModel}  # needs another package; below
ABSTRACT = {Energy, Base, Bipartite, Classifier, NoisyEnergy}


def test_every_energy_is_here() -> None:
    public = {getattr(ebmlab.energies, name) for name in ebmlab.energies.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Energy)} - ABSTRACT - ELSEWHERE
    made = [make() for make in CLOSED.values()] + [make() for make, _ in NETWORKS.values()]
    assert not {kind for kind in kinds if not any(isinstance(energy, kind) for energy in made)}
    assert any(type(energy) is ClampedBipartite for energy in made) and any(type(e) is Bridge for e in made)


def states(energy: Energy) -> Tensor:
    return energy.domain.random(16)


def asked(energy: Energy, x: Tensor, rounded: bool) -> dict[str, Tensor]:
    """All that samplers and learners ask of an energy."""
    found: dict[str, Tensor] = {}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounded):
        found["energy"] = energy(x).detach()
        found["value"], found["grad"] = energy.value_and_grad(x)
        at = energy.evaluate(x)
        found["evaluated"], found["slope"] = at.energy, at.grad
        found["around"] = energy.around(x)[0].detach()
        if isinstance(energy.domain, Finite):
            found["values"] = energy.value_differences(x).detach()
        if isinstance(energy.domain, Binary | Spin):
            found["flips"] = energy.flip_differences(x).detach()
            found["flips around"] = energy.flip_differences(x, None, energy.around(x)).detach()
        if isinstance(energy, Bipartite):
            h = (energy.hidden_given_visible(x) > 0).float()
            found["joint"] = energy.joint_energy(x, h).detach()
            torch.manual_seed(1)
            found["drawn"] = energy.sample_visible(h).detach()
        if isinstance(energy, Base):
            torch.manual_seed(1)
            found["base"] = energy.sample(3)
    return found


@pytest.mark.parametrize("name", CLOSED)
def test_energies_in_closed_form_are_not_rounded(name: str) -> None:
    torch.manual_seed(0)
    energy = CLOSED[name]()
    if isinstance(energy, Bridge):
        energy.beta = 0.3
    x = states(energy)
    expected, found = asked(energy, x, rounded=False), asked(energy, x, rounded=True)
    for what, value in expected.items():
        assert found[what].dtype == torch.float32, what
        torch.testing.assert_close(found[what], value, rtol=2e-6, atol=2e-6, msg=what)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_constant_does_not_change_a_networks_law(name: str) -> None:
    torch.manual_seed(0)
    make, bias = NETWORKS[name]
    energy = make()
    with torch.no_grad():
        bias(energy).zero_()
    x = states(energy)
    before = asked(energy, x, rounded=True)
    with torch.no_grad():
        bias(energy).fill_(LARGE)
    after = asked(energy, x, rounded=True)
    for what, value in before.items():
        assert after[what].dtype == torch.float32, what
        if what in ("energy", "value", "evaluated", "around"):  # differences between states
            value, after[what] = value - value[0], after[what] - after[what][0]
        torch.testing.assert_close(after[what], value, rtol=1e-4, atol=2e-3, msg=what)


def test_a_constant_does_not_change_the_gradient_of_ratio_matching() -> None:
    torch.manual_seed(0)
    energy, x = MLP(16, hidden_dim=32, gain=3.0), torch.randint(2, (64, 16)).float()
    energy.rest[-1].weight.data.mul_(20)  # so that neighbours have different energies
    grads = []
    for constant in (0.0, 300.0):
        with torch.no_grad():
            energy.rest[-1].bias.fill_(constant)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = Exact().loss(energy, x)
        grads.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, [energy.W, energy.b])]))
    assert (grads[1] - grads[0]).norm() < 0.02 * grads[0].norm()


def test_a_language_model_adds_up_in_float32() -> None:
    transformers = pytest.importorskip("transformers")

    class Words:
        mask_token, mask_token_id = "[MASK]", 4

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [2, *[4] * text.count("[MASK]"), 3]}

    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=8, hidden_size=12, num_hidden_layers=1, num_attention_heads=2)
    energy = MaskedLanguageModel("[MASK] " * 40, transformers.BertForMaskedLM(config), tokenizer=Words(), masked=False)
    x = energy.domain.random(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = energy(x)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, energy(x), rtol=0, atol=0.05)  # 80 or so: numbers of bfloat16 are 0.5 apart


def test_constants_have_the_digits_of_the_energy() -> None:
    """0.4 and log 7 are not numbers of float32."""
    ising = Ising.barabasi_albert(6, 2, coupling=0.7).double()
    x = ising.domain.random(9).double()
    assert torch.equal(tempered(ising, 0.4)(x), 0.4 * ising(x))
    flat = filled(RBM(6, 3)).double()
    with torch.no_grad():
        for p in flat.parameters():
            p.zero_()
    loss = EnergyDiscrepancy(num_samples=7, stabilizer=0.0).loss(flat, flat.domain.random(9).double())
    assert loss.dtype == torch.float64 and abs(float(loss.detach())) < 1e-14  # log 7 - log 7
