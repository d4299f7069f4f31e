"""Where chains start."""

from __future__ import annotations

import pytest
import torch
from helpers_finite import DOMAINS, Exact, Target

from ebmlab.domains import Categorical, Real
from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.samplers.initial_states import FromMode, FromNoise, FromPoint


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_from_mode_finds_the_likeliest_state(domain: Categorical) -> None:
    torch.manual_seed(0)
    energy = Target(domain, "cubic")
    x = FromMode().draw(energy, 5)
    exact = Exact(energy)
    domain.validate(x)
    assert (x == x[0]).all() and x.shape == (5, *domain.event_shape)
    assert exact.number(x[:1].double()) == exact.probabilities.argmax()


def test_from_mode_ends_where_no_flip_lowers_the_energy() -> None:
    torch.manual_seed(0)
    energy = RBM(30, 20)
    x = FromMode(num_starts=2).draw(energy, 3)
    assert (energy.flip_energies(x) >= energy(x)[:, None] - 1e-5).all()


def test_from_point_counts_in_indices() -> None:
    for domain in DOMAINS.values():
        x = FromPoint(1).draw(Target(domain, "cubic"), 4)
        domain.validate(x)
        assert (domain.to_index(x) == 1).all()
        one_each = list(range(2)) * (domain.size // 2)
        x = FromPoint(one_each).draw(Target(domain, "cubic"), 4)
        assert domain.to_index(x).flatten(1)[0].tolist() == one_each


def test_from_reference_draws_differ() -> None:
    torch.manual_seed(0)
    x = FromNoise().draw(RBM(30, 5), 4)
    assert len(x.unique(dim=0)) == 4


def test_errors_say_what_would_be_right() -> None:
    binary = Target(DOMAINS["binary"], "cubic")
    with pytest.raises(UserError, match=r"2 is outside Binary\(4\): indices go from 0 to 1"):
        FromPoint(2).draw(binary, 1)
    for outside in (-1, [0, 1, -1, 0], [0, 1, 2, 0]):
        with pytest.raises(UserError, match="is outside"):
            FromPoint(outside).draw(binary, 1)
    with pytest.raises(UserError, match=r"3 numbers given, but a state of Binary\(4\) has 4"):
        FromPoint([0, 1, 0]).draw(binary, 1)
    grbm = GRBM(3, 2)
    assert isinstance(grbm.domain, Real)
    for start in (FromPoint(0), FromMode()):
        with pytest.raises(UserError, match="finite domains, GRBM lives on"):
            start.draw(grbm, 1)
