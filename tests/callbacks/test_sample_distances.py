from __future__ import annotations

import pytest
import torch

from ebmlab.callbacks import SampleDistances
from ebmlab.datamodules import Shapes2D
from ebmlab.energies import RealMLP
from ebmlab.errors import UserError
from ebmlab.evaluation import energy_distance, precision_recall
from ebmlab.evaluation.metrics import SampleDistances as Metric
from ebmlab.learners import ContrastiveDivergence, FromNoise, Learner
from ebmlab.samplers import ULA

pytestmark = pytest.mark.usefixtures("drafts")


def learner() -> Learner:
    torch.manual_seed(0)
    return ContrastiveDivergence(RealMLP(2, hidden_dim=8), ULA(0.05), start=FromNoise(), num_steps=3)


def points() -> Shapes2D:
    return Shapes2D(num_samples=200, batch_size=50)


@pytest.mark.parametrize(("stage", "split"), [("validate", "val"), ("test", "test")])
def test_distances_of_new_chains_from_each_stages_split(setup, stage, split):
    data, n = points(), 40
    model, trainer = setup([SampleDistances(num_samples=n, seed=3)], learner=learner(), limit_val_batches=1)
    (found,) = getattr(trainer, stage)(model, datamodule=data, verbose=False)
    real = data.states(split, n, 3)
    torch.manual_seed(3)
    x = model.draw(torch.randn(n, 2))
    assert found["distance/energy"] == pytest.approx(energy_distance(x, real).item(), rel=1e-6)
    support = precision_recall(real, x)
    assert (found["distance/precision"], found["distance/recall"]) == pytest.approx(tuple(support))
    assert found["distance/sliced_wasserstein"] > 0 and 0 <= found["distance/classifier"] <= 1


@pytest.mark.slow
def test_training_does_not_notice_it_and_the_score_is_the_headline(setup):
    ends = []
    for extra in ([], [callback := SampleDistances(num_samples=20, num_steps=2, every_n_epochs=1, at_start=True)]):
        model, trainer = setup(extra, learner=learner(), limit_val_batches=1)
        trainer.fit(model, datamodule=points())
        ends.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*ends)
    assert callback.headline is not None and callback.headline.value == trainer.callback_metrics["distance/energy"]


def test_sets_of_several_batches_and_ranks_are_gathered():
    torch.manual_seed(0)
    real, generated = torch.randn(40, 3), torch.randn(30, 3)
    metric = Metric()
    for part in real.split(7):
        metric.update(part, real=True)
    for part in generated.split(11):
        metric.update(part, real=False)
    assert metric.compute()["energy"].item() == pytest.approx(energy_distance(generated, real).item())
    with pytest.raises(UserError, match="none of one kind"):
        (empty := Metric()).update(real, real=True)
        empty.compute()


def test_too_few_samples_are_refused():
    with pytest.raises(UserError, match="num_samples is 3, but must be at least 4"):
        SampleDistances(num_samples=3)
