"""Settings and data that cannot work are refused in one line before training."""

from __future__ import annotations

import pytest
from helpers_grbm import make_grbm
from helpers_learner import Linear

from ebmlab.data.interface import Data
from ebmlab.datamodules import Digits
from ebmlab.domains import Binary
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, ULA, BlockGibbs

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


@pytest.mark.parametrize("burn_in", [-1, 3, 4])
def test_burn_in_out_of_range(burn_in: int) -> None:
    with pytest.raises(UserError, match=rf"burn_in is {burn_in}, but must be from 0 to num_steps - 1 = 2"):
        ContrastiveDivergence(make_grbm(1), BlockGibbs(), num_steps=3, burn_in=burn_in)


def test_combinations_that_cannot_work() -> None:
    with pytest.raises(UserError, match=r'density "joint" needs a bipartite energy, Linear has no hidden units'):
        ContrastiveDivergence(Linear(), ULA(0.1), density="joint")
    with pytest.raises(UserError, match=r"BlockGibbs needs a bipartite energy"):
        ContrastiveDivergence(Linear(), BlockGibbs())
    learner = ContrastiveDivergence(make_grbm(2), BlockGibbs())
    for shape, fits in (((2,), True), ((1, 2, 1), True), ((3,), False), ((2, 2), False)):
        data = Data()
        data.event_shape = shape
        if fits:
            learner.check_data(data)
        else:
            with pytest.raises(UserError, match=r"GRBM models Real\(2\): change the energy's size or the data set"):
                learner.check_data(data)


def test_what_cannot_be_learnt_from_is_refused_before_training() -> None:
    learner = ContrastiveDivergence(RBM(64, 2), DMALA(0.3), start=ReplayBuffer(10))
    with pytest.raises(UserError, match="10"):
        learner.check_data(Digits(batch_size=100, binarize=True))
    for domains in ((), [Binary]):
        data = Digits(batch_size=5, binarize=True)
        data.domains = domains  # type: ignore[assignment]
        with pytest.raises(UserError, match="must be a tuple of the domains"):
            learner.check_data(data)
