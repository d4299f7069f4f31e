"""Energies, base laws and numbers as users write them: right, or one clear line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_blocks import Sum
from torch import Tensor, nn

from ebmlab.domains import Binary, Ordinal, Real, Spin
from ebmlab.energies import GRBM, RBM, Base, Energy, Ising, Scaled, StandardNormal, Uniform, bridge
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, exact_mean
from ebmlab.samplers import (
    DMALA,
    GWG,
    BlockGibbs,
    ChromaticGibbs,
    Gibbs,
    GibbsLangevin,
    Langevin,
    RelaxedMALA,
    Sampler,
    Tempered,
)
from ebmlab.samplers.blocks import random_block
from ebmlab.samplers.initial_states import FromMode, FromNoise, FromPoint
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.tuners import JumpDistance, PatternSearch, TargetAcceptance, Tuner


class Shaped(Energy):
    """Independent bits, whose energies come in a shape that a user may give by mistake."""

    domains = (Binary,)

    def __init__(self, shape: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.domain, self.shape, self.bias = Binary(2), shape, torch.nn.Parameter(torch.tensor([1.0, -1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.shape(-x @ self.bias)


WRONG = [lambda e: e.unsqueeze(1), lambda e: e.sum(), lambda e: e[:1]]
USES = [
    lambda energy: Gibbs().sample(energy, torch.zeros(5, 2), 1),
    lambda energy: DMALA(0.2).last_states(energy, torch.zeros(5, 2), 1),
    lambda energy: ais(energy, Gibbs(), num_chains=10, num_temperatures=2),
    exact_log_z,
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("use", USES)
def test_an_energy_gives_one_number_for_each_state(
    wrong: Callable[[Tensor], Tensor], use: Callable[[Energy], object]
) -> None:
    with pytest.raises(UserError, match=r"Shaped gives energies of shape \(.*\) for \d+ states, but must give"):
        use(Shaped(wrong))
    use(Shaped(lambda e: e))


@pytest.mark.parametrize("wrong", [lambda e: e.tolist(), lambda e: None, lambda e: e * 1j])
def test_energies_are_a_tensor_of_real_numbers(wrong: Callable[[Tensor], Tensor]) -> None:
    for use in USES:
        with pytest.raises(UserError, match=r"Shaped gives energies of type .*, but must give a float tensor"):
            use(Shaped(wrong))


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_whole_numbers_are_energies_at_any_temperature(kind: torch.dtype) -> None:
    """A temperature was rounded down to 0 before it multiplied them, and blocks of Gibbs were a traceback."""
    torch.manual_seed(0)
    whole, same = Shaped(lambda e: (-e).to(kind)), Shaped(lambda e: (-e).to(kind).float())
    x = whole.domain.enumerate()
    assert torch.equal(Scaled(whole, 2.0)(x), Scaled(same, 2.0)(x))
    y = Gibbs(2).last_states(Scaled(whole, 2.0), torch.zeros(4000, 2), 5)
    torch.testing.assert_close(y.mean(0), exact_mean(Scaled(same, 2.0)).float(), atol=0.03, rtol=0)


@pytest.mark.parametrize("wrong", [lambda e: e.detach(), lambda e: (e > 0).to(e), lambda e: torch.zeros(len(e))])
def test_an_energy_without_a_gradient(wrong: Callable[[Tensor], Tensor]) -> None:
    energy = Shaped(wrong)
    for sampler in (DMALA(0.2), GWG(), RelaxedMALA(0.2), Tempered(DMALA(0.2), num_temperatures=2)):
        with pytest.raises(UserError, match="Shaped has no gradient: autograd finds no way from its energies back"):
            sampler.sample(energy, torch.zeros(5, 2), 1)
    assert energy.bias.requires_grad
    Gibbs().sample(energy, torch.zeros(5, 2), 1)


@pytest.mark.parametrize("num_steps", [-1, 2.0, None, "2"])
def test_steps_are_counted_by_whole_numbers(num_steps: Any) -> None:
    """A negative number returned the start as if chains had run."""
    energy, x = Shaped(lambda e: e), torch.zeros(5, 2)
    for use in (Gibbs().sample, Gibbs().last_states, JumpDistance(parameters=["step_size"]).tune):
        chains = (DMALA(0.2), energy, x) if use.__name__ == "tune" else (energy, x)
        with pytest.raises(UserError, match=r"num_steps is .*, but must be a whole number from 0 on"):
            use(*chains, num_steps)


@pytest.mark.parametrize("tuner", [JumpDistance(), PatternSearch(), TargetAcceptance()])
def test_tuners_need_a_chain(tuner: Tuner) -> None:
    with pytest.raises(UserError, match="DMALA: there are no chains"):
        tuner.tune(DMALA(0.2), Shaped(lambda e: e), torch.zeros(0, 2), 20)


class Layered(Energy):
    domains = (Binary,)

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.domain, self.net = Binary(2), nn.Sequential(nn.Linear(2, 3), layer, nn.Linear(3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("use", [*USES, lambda energy: PatternSearch().tune(DMALA(0.2), energy, torch.zeros(5, 2), 9)])
@pytest.mark.parametrize(
    ("layer", "wrong"),
    [
        (lambda: nn.BatchNorm1d(3), r"BatchNorm1d\) mixes the states of a batch: call energy.eval\(\) first"),
        (nn.Dropout, r"Dropout\) makes energies random: call energy.eval\(\) first"),
    ],
)
def test_layers_that_give_no_energy_of_one_state_alone(
    layer: Callable[[], nn.Module], wrong: str, use: Callable[[Energy], object]
) -> None:
    """With batch normalisation the law of a chain followed from how many others there were."""
    energy = Layered(layer())
    with pytest.raises(UserError, match=r"^Layered: its layer net\.1 \(" + wrong):
        use(energy)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the search for step size and balance ran out of steps")
        use(energy.eval())


class Recurrent(Energy):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.domain, self.layer = Spin((5, 4)), layer

    def forward(self, x: Tensor) -> Tensor:
        given = (x, x, x) if isinstance(self.layer, nn.MultiheadAttention) else (x,)
        out = self.layer(*given)
        return (out if isinstance(out, Tensor) else out[0]).flatten(1).sum(1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "layer",
    [
        lambda noise: nn.MultiheadAttention(4, 2, dropout=0.5 * noise, batch_first=True),
        lambda noise: nn.LSTM(4, 6, num_layers=2, dropout=0.5 * noise, batch_first=True),
        lambda noise: nn.RReLU(-1.0, -1.0 + noise),
        lambda noise: nn.FeatureAlphaDropout(0.5 * noise),
    ],
)
def test_layers_with_a_noise_of_their_own(layer: Callable[[float], nn.Module]) -> None:
    """Chains went on from energies that another call at the same state did not give."""
    energy = Recurrent(layer(1.0))
    x = energy.random(50)
    assert not torch.equal(energy(x), energy(x))
    with pytest.raises(UserError, match=r"its layer layer \(\w+\) makes energies random: call energy.eval\(\) first"):
        Gibbs().sample(energy, x, 2)
    for steady in (energy.eval(), Recurrent(layer(0.0))):
        assert torch.equal(steady(x), steady(x))
        Gibbs().sample(steady, x, 2)


def test_batch_normalisation_without_running_statistics_never_gives_the_energy_of_one_state() -> None:
    energy = Layered(nn.BatchNorm1d(3, track_running_stats=False)).eval()
    with pytest.raises(UserError, match="mixes the states of a batch: take LayerNorm or GroupNorm in its place"):
        exact_log_z(energy)


def test_what_is_no_energy() -> None:
    class NotBegun(Energy):
        def __init__(self) -> None:
            self.domain = Binary(3)

        def forward(self, x: Tensor) -> Tensor:
            return x.sum(1)

    with pytest.raises(UserError, match=r"NotBegun: super\(\).__init__\(\) must come first in __init__"):
        DMALA(0.2).sample(NotBegun(), torch.zeros(2, 3), 1)
    with pytest.raises(UserError, match=r"Linear is no Energy: derive it from ebmlab.energies.Energy"):
        DMALA(0.2).sample(torch.nn.Linear(3, 1), torch.zeros(2, 3), 1)  # type: ignore[arg-type]


def test_a_sampler_prints_its_numbers() -> None:
    assert repr(DMALA(0.2)) == "DMALA(step_size=0.2, balance=0.5)"
    assert repr(Tempered(DMALA(0.2), [1.0, 0.5])).endswith("kernel=DMALA(step_size=0.2, balance=0.5))")


def test_starts_have_the_dtype_of_the_energy() -> None:
    rbm = RBM(3, 2).double()
    for start in (FromNoise(), FromPoint(1), FromMode(2)):
        assert BlockGibbs().last_states(rbm, start.draw(rbm, 4), 1).dtype == torch.float64


def test_block_gibbs_refuses_a_base_whose_law_given_h_it_does_not_know() -> None:
    class Wide(Base):
        domains = (Real,)

        def __init__(self) -> None:
            super().__init__()
            self.domain = Real(4)

        def forward(self, x: Tensor) -> Tensor:
            return x.square().sum(1) / 18

    with pytest.raises(UserError, match="block Gibbs has no way from the base law"):
        bridge(Wide(), GRBM(4, 3))


def test_block_gibbs_anneals_from_uniform_bits() -> None:
    torch.manual_seed(0)
    rbm = RBM(4, 3).double()
    for tensor in rbm.parameters():
        tensor.data.normal_()
    found = ais(rbm, BlockGibbs(), num_chains=500, num_temperatures=200, base=Uniform(Binary(4)))
    assert abs(found.log_z - float(exact_log_z(rbm))) < 4 * found.std_error < 0.2


def test_integers_with_other_numbers_of_values_are_another_domain() -> None:
    with pytest.raises(UserError, match=r"lives on Ordinal\(2, num_values=5\), but Sum on Ordinal\(2, num_values=9\)"):
        ais(Sum(Ordinal(2, 9)), DMALA(0.2), num_chains=10, num_temperatures=2, base=Uniform(Ordinal(2, 5)))


def test_block_gibbs_moves_no_spins() -> None:
    rbm = RBM(3, 2)
    rbm.domain = Spin(3)  # type: ignore[assignment]
    with pytest.raises(UserError, match="BlockGibbs samples Real or Binary or Categorical domains"):
        BlockGibbs().check(rbm)


@pytest.mark.parametrize("sampler", [Langevin(1, adjust_from=0), GibbsLangevin(1)])
def test_a_whole_number_is_a_step_size_too(sampler: Sampler) -> None:
    assert sampler.step_size.dtype == torch.float32  # type: ignore[union-attr]


def test_the_step_of_langevin_is_tuned() -> None:
    torch.manual_seed(0)
    tuner = JumpDistance(window=10, parameters=["step_size"])
    sampler, _ = tuner.tune(Langevin(0.01, adjust_from=0), StandardNormal(Real(2)), torch.randn(200, 2), 600)
    assert float(sampler.step_size) > 0.1  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_descent_to_a_mode_ends_where_rounding_makes_a_tie(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rbm = RBM(200, 50).to(dtype)
    rbm.W.data[100:] = 0
    rbm.b_v.data[100:] = 0
    x = FromMode(4).draw(rbm, 3)
    assert x.shape == (3, 200) and rbm.value_differences(x).min() > -1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_enough_uniform_numbers(dtype: torch.dtype) -> None:
    """bfloat16 has 256 of them: rare events would happen a thousand times too often, and some sites never be chosen."""
    torch.manual_seed(0)
    accepted, _ = metropolis(torch.full((200_000,), -14.0, dtype=dtype))
    assert accepted.sum() <= 3  # 0.17 expected
    for width in (1, 4):
        assert random_block(Binary(784), torch.zeros(40_000, 784, dtype=dtype), width).unique().numel() == 784


def test_a_ladder_with_step_sizes_needs_a_sampler_with_one() -> None:
    ising = Ising.lattice(2, coupling=0.3)
    ladder = ais(ising, DMALA(0.2), num_chains=20, num_temperatures=5, schedule="adaptive").ladder
    assert ladder is not None and ladder.scales is not None
    with pytest.raises(UserError, match="the ladder has step sizes, but Gibbs has none"):
        ais(ising, Gibbs(), num_chains=20, schedule=ladder)


def test_coloured_bits_are_annealed_by_their_colours() -> None:
    """ChromaticGibbs asks the base law for the conditionals of a colour, too."""

    class Pairs(Energy):
        domains = (Binary,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.colours = Binary(2), [torch.tensor([0]), torch.tensor([1])]

        def forward(self, x: Tensor) -> Tensor:
            return -1.5 * x[:, 0] * x[:, 1]

        def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
            return 1.5 * x[:, 1 - sites]

    torch.manual_seed(0)
    result = ais(Pairs(), ChromaticGibbs(), num_chains=1000, num_temperatures=50)
    assert result.log_z == pytest.approx(float(exact_log_z(Pairs())), abs=5 * result.std_error + 1e-3)
