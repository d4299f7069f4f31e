"""JEM: its gradient by enumeration, its optimum on Gaussian classes, its scores by loops, and labels with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_learner import Fake
from helpers_mutants import mutant
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from ebmlab.callbacks import RunState
from ebmlab.datamodules import Digits, Shapes2D
from ebmlab.domains import Binary, Real
from ebmlab.energies import Classifier, ClassifierMLP, RealMLP
from ebmlab.errors import UserError
from ebmlab.learners import FromNoise, JointClassifier, Learner, ReplayBuffer
from ebmlab.samplers import MALA, ULA, Gibbs
from ebmlab.testing import assert_gradient

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
]


class Bits(Classifier):
    """Three classes of four bits: logits W x + x' V_y x."""

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.num_classes = Binary(4), 3
        self.w, self.v = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4, 4) / 2)

    def logits(self, x: Tensor) -> Tensor:
        return x @ self.w.T + torch.einsum("bi,kij,bj->bk", x, self.v, x)


def joint_likelihood_loss(energy: Any, batch: Any) -> Tensor:
    """-mean log p(x, y) of a model of (x, y) whose energies are minus the logits, by enumeration of both."""
    x, y = batch
    log_z = energy.logits(energy.domain.enumerate().to(x)).flatten().logsumexp(0)
    return log_z - energy.logits(x)[torch.arange(len(x)), y].mean()


def test_its_gradient_is_that_of_the_joint_likelihood() -> None:
    torch.manual_seed(0)
    energy, y = Bits().double(), torch.randint(3, (300,))
    batch: Any = (energy.domain.random(300).double(), y)
    exact = {"sampler": Gibbs(block_size=4), "start": FromNoise(), "num_steps": 1}
    assert assert_gradient(JointClassifier(energy, **exact), batch, expected=joint_likelihood_loss).z < 4.5
    for old, new in [("cross_entropy(", "-cross_entropy("), ("* difference", "* 0")]:
        with pytest.raises(AssertionError, match="gradient"):
            assert_gradient(mutant(JointClassifier, old, new)(energy, **exact), batch, expected=joint_likelihood_loss)


class Normals(Classifier):
    """Normal classes on a line with weights, means, and one deviation."""

    def __init__(self, weights: Tensor, means: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.domain, self.num_classes = Real(1), len(means)
        self.log_weights, self.means = nn.Parameter(weights.log()), nn.Parameter(means)
        self.log_deviation = nn.Parameter(deviation.log())

    def logits(self, x: Tensor) -> Tensor:
        away = (x - self.means) / self.log_deviation.exp()
        return self.log_weights - away.square() / 2 - self.log_deviation


def quantiles(energy: Normals, n: int) -> Tensor:
    """Points of a line that are spread as the model's law is, in place of draws."""
    grid = torch.linspace(-15, 15, 60001, dtype=torch.float64).unsqueeze(1)
    below = (-energy(grid)).exp().detach().cumsum(0)
    levels = (torch.arange(n, dtype=torch.float64) + 0.5) / n * below[-1]
    return grid[torch.searchsorted(below, levels)]


def test_its_optimum_on_normal_classes_has_their_means_and_their_pooled_variance() -> None:
    """Linear discriminant analysis, in closed form. Neither term alone has its optimum there."""
    torch.manual_seed(1)
    y = (torch.rand(2000) < 0.3).long()
    skewed = torch.rand(2000, dtype=torch.float64).log()  # so that the best classifier is another one
    x = (torch.tensor([-1.0, 1.5], dtype=torch.float64)[y] + skewed).unsqueeze(1)
    means = torch.stack([x[y == k].mean() for k in range(2)])
    pooled = (x[:, 0] - means[y]).square().mean().sqrt()
    energy = Normals(torch.bincount(y).double() / len(y), means, pooled)
    sampler = Fake(lambda k, starts: (quantiles(energy, len(x)), None))

    def pull(weight: float) -> float:
        learner = JointClassifier(energy, sampler, start=FromNoise(), num_steps=1, generative_weight=weight)
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
        loss = learner.training_step((x, y), 0)
        return max(float(g.abs().max()) for g in torch.autograd.grad(loss, [*energy.parameters()]))

    assert pull(1.0) < 1e-3 < 1e-2 < min(pull(0.0), pull(2.0))


def small(**settings: Any) -> JointClassifier:
    torch.manual_seed(0)
    options = {"start": ReplayBuffer(300, reinitialize=0.1), "num_steps": 3, **settings}
    return JointClassifier(ClassifierMLP(64, 10, hidden_dim=16), ULA(0.01), **options)


def fit(folder: Path, learner: Learner, resume: str = "") -> Learner:
    torch.manual_seed(1 if resume else 0)
    saving = ModelCheckpoint(folder, filename="{step}", save_top_k=-1, every_n_train_steps=1)
    trainer = quiet_trainer(folder, callbacks=[RunState(), saving], max_steps=9, enable_checkpointing=True)
    path = folder / f"step={resume}.ckpt" if resume else None
    trainer.fit(learner, Digits(batch_size=200), ckpt_path=path, weights_only=True)
    return learner


def test_it_resumes_and_reloads_bit_for_bit(tmp_path: Path) -> None:
    whole = fit(tmp_path, small()).state_dict()
    again = [fit(tmp_path, small(), resume="5"), Learner.load_from_checkpoint(tmp_path / "step=9.ckpt")]
    for other in again:
        saved = other.state_dict()
        assert set(saved) == set(whole) and all(torch.equal(value, saved[name]) for name, value in whole.items())


def calibration_by_loops(probabilities: Tensor, y: Tensor) -> float:
    confidence, found = probabilities.max(1)
    total = 0.0
    for k in range(15):
        inside = (confidence > k / 15) & (confidence <= (k + 1) / 15)
        if inside.any():
            total += abs(float((found[inside] == y[inside]).float().mean() - confidence[inside].mean())) * int(
                inside.sum()
            )
    return total / len(y)


def test_accuracy_and_calibration_error_of_a_split_are_those_by_loops(tmp_path: Path) -> None:
    learner, data = small(generative_weight=0.0), Digits(batch_size=77)
    trainer = quiet_trainer(tmp_path, max_epochs=2)
    trainer.fit(learner, data)
    for split, evaluate in (("val", trainer.validate), ("test", trainer.test)):
        found = evaluate(learner, data, verbose=False)[0]
        x, y = data.states(split), data.labels(split)
        assert y is not None
        probabilities = learner.energy.logits(learner.to_event(x)).softmax(1).detach()
        assert found[f"{split}/accuracy"] == pytest.approx(float((probabilities.argmax(1) == y).float().mean()))
        expected = calibration_by_loops(probabilities, y)
        assert found[f"{split}/calibration_error"] == pytest.approx(expected, abs=1e-5)
        assert found[f"{split}/accuracy"] > 0.3 and expected > 0.05
        assert found[f"{split}/energy"] == pytest.approx(float(learner(x).mean().detach()), rel=1e-5)


def test_labels_come_with_their_images_and_only_when_asked_for() -> None:
    data = Digits(batch_size=100)
    assert isinstance(next(iter(data.train_dataloader())), Tensor)
    plain = [*data.train_dataloader()]
    data.give_labels()
    raw, labels = data.raw("train"), data.labels("train")
    assert labels is not None
    label_of = {tuple(image.flatten().tolist()): int(y) for image, y in zip(data.to_states(raw), labels, strict=True)}
    pairs = [*data.train_dataloader()]
    for x, (same_x, y) in zip(plain, pairs, strict=True):
        assert torch.equal(x, same_x) and torch.equal(data.batch_labels((same_x, y)), y)
        assert [label_of[tuple(image.flatten().tolist())] for image in x] == y.tolist()
    with pytest.raises(UserError, match="Shapes2D has no labels: take data of several classes"):
        Shapes2D().give_labels()


def test_plain_loaders_give_pairs_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    x, y = torch.randn(64, 64), torch.arange(64) % 10
    pairs = DataLoader(TensorDataset(x, y), 32)
    trainer = quiet_trainer(tmp_path, max_epochs=1, log_every_n_steps=1)
    trainer.fit(small(), pairs, pairs)
    assert {"train/class_loss", "val/accuracy"} <= set(trainer.callback_metrics)
    for loader, message in [
        (DataLoader(x, 32), r"a batch holds no labels: it must be \(x, y\)"),
        (DataLoader(TensorDataset(x, y + 1), 32), "numbers from 1 to 10 as classes, but ClassifierMLP 10"),
    ]:
        with pytest.raises(UserError, match=message):
            quiet_trainer(tmp_path, max_epochs=1).fit(small(), loader, loader)
    with pytest.raises(UserError, match="Digits has 10 classes, but ClassifierMLP 7: change its num_classes"):
        seven = JointClassifier(ClassifierMLP(64, 7, hidden_dim=16), ULA(0.01), num_steps=1)
        quiet_trainer(tmp_path, max_epochs=1).fit(seven, Digits())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointClassifier(RealMLP(2), MALA(0.1)), "RealMLP has no classes: take ClassifierMLP"),  # type: ignore
        (lambda: small(generative_weight=-1.0), "generative_weight is -1.0"),
        (lambda: ClassifierMLP(4, 1), "num_classes is 1, but must be at least 2"),
        (lambda: ClassifierMLP(0, 3), "num_coordinates is 0"),
        (lambda: ClassifierMLP(4, 3, scale=0.0), "scale is 0.0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
