"""Products of float32 matrices by oneDNN: only where they are exact and faster, and nobody has decided otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from ebmlab.energies import MLP, RBM, Energy
from ebmlab.evaluation import ais
from ebmlab.learners import ContrastiveDivergence, EnergyDiscrepancy, Exact, FromData, GradientGuided
from ebmlab.numerics import products
from ebmlab.numerics.products import ENOUGH, by_onednn, fast_products, has_full_width, onednn_is_faster
from ebmlab.samplers import DMALA, BlockGibbs

ZEN = "vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: 17\n"


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    onednn_is_faster.cache_clear()
    has_full_width.cache_clear()
    yield
    onednn_is_faster.cache_clear()
    has_full_width.cache_clear()
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def willing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of AMD's with AVX-512 at full width and no GPU, whatever the machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "made_by_amd", lambda: True)
    monkeypatch.setattr(products, "processor", lambda: ZEN.format(family=26))
    monkeypatch.setattr(products, "exact", lambda *shape: True)


def test_products_stay_as_exact_as_float32() -> None:
    for rows in (1, 3, 16, 100, 1000):
        x, w = torch.randn(rows, 784), torch.randn(784, 500)
        exact = x.double() @ w.double()
        with by_onednn(ENOUGH):
            assert torch.get_float32_matmul_precision() == ("medium" if onednn_is_faster() else "highest")
            for product in (x @ w, (w.T @ x.T).T, torch.addmm(torch.zeros(500), x, w)):
                assert (product - exact).abs().max() < 3e-4  # bfloat16 is off by 0.1
        assert torch.get_float32_matmul_precision() == "highest"


def test_small_products_stay_where_they_are(willing: None) -> None:
    rbm = RBM(784, 500)
    for rows, precision in ((1, "highest"), (100, "medium")):
        with fast_products(rbm, rows):
            assert torch.get_float32_matmul_precision() == precision
    with fast_products(torch.nn.Conv2d(64, 64, 9), 1000):  # convolutions are no such products
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("said", [ZEN.format(family=25), "AMD64 Family 25 Model 17 Stepping 1, AuthenticAMD"])
def test_half_the_width_is_for_large_matrices_alone(willing: None, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """On Zen 4, training steps with matrices of 128 x 128 and 784 x 100 took a sixth longer by oneDNN."""
    monkeypatch.setattr(products, "processor", lambda: said)
    for energy, precision in ((RBM(784, 100), "highest"), (RBM(784, 500), "medium")):
        with fast_products(energy, 1000):
            assert torch.get_float32_matmul_precision() == precision


def test_an_error_leaves_the_setting_as_it_was(willing: None) -> None:
    with pytest.raises(ValueError, match="mine"), by_onednn(ENOUGH):
        raise ValueError("mine")
    assert torch.get_float32_matmul_precision() == "highest"


def test_rounded_products_are_refused(willing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "exact", lambda *shape: shape != products.SHAPES[-1])
    assert not onednn_is_faster()
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("side", [0, 1])
def test_rounding_of_either_matrix_is_noticed(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.Tensor.__matmul__

    def rounded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = (m.bfloat16().float() if i == side else m for i, m in enumerate((a, b)))
        return plain(a, b)

    assert all(products.exact(*shape) for shape in products.SHAPES)
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not any(products.exact(*shape) for shape in products.SHAPES)


@pytest.mark.parametrize(
    "owner, name, value",
    [
        (torch.cuda, "is_available", True),
        (torch.backends.cpu, "get_cpu_capability", "AVX2"),
        (products, "made_by_amd", False),
    ],
)
def test_gpus_and_other_processors_are_left_alone(
    willing: None, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object
) -> None:
    assert onednn_is_faster()
    onednn_is_faster.cache_clear()
    monkeypatch.setattr(owner, name, lambda: value)
    assert not onednn_is_faster()


def test_a_precision_that_somebody_has_set_stays(willing: None) -> None:
    torch.set_float32_matmul_precision("high")
    with by_onednn(ENOUGH):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "high"


def test_a_precision_that_torch_does_not_tell_stays(willing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed() -> str:
        raise RuntimeError("you have used mix of the legacy and new APIs")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_float32_matmul_precision", mixed)
        patch.setattr(torch, "set_float32_matmul_precision", lambda _: pytest.fail("it was set"))
        with by_onednn(ENOUGH), fast_products(RBM(784, 500), 100):
            pass


def _learn(energy: Energy) -> None:
    learner = ContrastiveDivergence(energy, DMALA(0.2), start=FromData())
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    learner.training_step(energy.random(100), 0)


@pytest.mark.parametrize(
    "work",
    [
        lambda energy: DMALA(0.2).last_states(energy, energy.random(100), 2),
        lambda energy: DMALA(0.2).sample(energy, energy.random(100), 2),
        lambda energy: ais(energy, DMALA(0.2), num_chains=100, num_temperatures=2),
        lambda energy: ais(energy, DMALA(0.2), num_chains=100, num_temperatures=5, schedule="adaptive"),
        _learn,
        *(
            lambda energy, estimator=estimator: estimator.loss(energy, energy.random(100))
            for estimator in (Exact(), GradientGuided(), EnergyDiscrepancy())
        ),
    ],
    ids=["run", "sample", "ais", "pilot", "learn", "exact", "guided", "discrepancy"],
)
def test_long_work_has_fast_products(willing: None, work: Callable[[Energy], object]) -> None:
    seen, energy = set(), MLP(16, hidden_dim=256)
    energy.rest[0].register_forward_pre_hook(lambda *_: seen.add(torch.get_float32_matmul_precision()))
    work(energy)
    assert "medium" in seen
    assert torch.get_float32_matmul_precision() == "highest"


def test_block_gibbs_gives_the_same_states_either_way() -> None:
    rbm = RBM(784, 500)
    ends = []
    for multiplications in (ENOUGH, 0):
        torch.manual_seed(0)
        with by_onednn(multiplications):
            ends += [state.x for state, _ in BlockGibbs().chain(rbm, rbm.random(100), 1)]
    assert (ends[0] != ends[1]).float().mean() < 1e-3  # uniform numbers near a probability
