"""Dynamic binarisation: which bits are drawn for each batch, which once, and from which law."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from jsonargparse import ArgumentParser
from torch import Tensor

from ebmlab.callbacks import DataMean
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import EMNIST, KMNIST, MNIST, Digits, FashionMNIST, Omniglot, TensorDataModule
from ebmlab.domains import Binary
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import BlockGibbs
from ebmlab.trained import TrainedModel

Make = Callable[..., TensorDataModule]


@pytest.fixture(params=[Digits, MNIST, FashionMNIST, KMNIST, EMNIST, Omniglot], ids=lambda cls: cls.__name__)
def make(request: pytest.FixtureRequest, data_folder: Path, small: object, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("EBMLAB_DATA", str(data_folder))
    return lambda **options: request.param(**{"batch_size": 5, "binarize": "dynamic", **options})


def epoch(module: TensorDataModule, number: int = 0) -> list[Tensor]:
    loader = module.train_dataloader()
    loader.sampler.set_epoch(number)
    return list(loader)


def grey(module: TensorDataModule, split: str) -> Tensor:
    """The grey values of a split, which are the probabilities of 1, `(N, pixels)`, float64."""
    raw = module.raw(split).double().flatten(1)
    return raw if module.raw(split).is_floating_point() else raw / module.max_value


def in_order(module: TensorDataModule, number: int) -> Tensor:
    """The bits of one epoch in the order of the training split."""
    loader = module.train_dataloader()
    loader.shuffle = loader.drop_last = False
    loader.sampler.set_epoch(number)
    return torch.cat(list(loader))


def test_states_are_binary_in_every_split(make: Make) -> None:
    module = make()
    module.setup()
    assert module.domains == (Binary,)
    for loader in (module.train_dataloader(), module.val_dataloader(), module.test_dataloader()):
        for x in loader:
            Binary(module.event_shape).validate(x)


def test_draws_differ_in_every_epoch_batch_and_on_every_rank(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    module = make()
    p, n = grey(module, "train"), len(module.raw("train"))
    certain = ((p == 0) | (p == 1)).view(n, *module.event_shape)
    first, second = in_order(module, 0), in_order(module, 1)
    assert torch.equal(first[certain], second[certain])
    expected = float((2 * p * (1 - p)).sum())  # number of pixels in which two independent draws differ
    same_pixels = module._splits["train"][0][:1].expand(n, *module.event_shape)
    module._splits["train"] = same_pixels, None
    once = in_order(module, 0)
    assert abs(float((first != second).sum()) - expected) < 5 * math.sqrt(expected)
    assert len({tuple(x.flatten().tolist()) for x in once}) > 0.9 * n  # no two batches share their noise
    batches = []
    for rank in range(2):
        monkeypatch.setattr("ebmlab.datamodules.tensor_loader.rank_and_world", lambda rank=rank: (rank, 2))
        batches.append(in_order(module, 0))
    assert not torch.equal(*batches)


def test_draws_are_a_function_of_seed_epoch_batch_and_rank_only(make: Make) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = epoch(make(seed=4), 3)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    module = make(seed=4)
    module.to_states(module.raw("train")), list(module.val_dataloader()), epoch(module, 1)
    loader = module.train_dataloader()
    loader.load_state_dict({"epoch": 3, "batches": 4})  # what a checkpoint says in the middle of the epoch
    assert torch.equal(torch.stack(list(loader)), torch.stack(one[4:]))
    assert not torch.equal(torch.stack(one), torch.stack(epoch(make(seed=5), 3)))


def test_pixels_are_bernoulli_of_their_intensity(make: Make) -> None:
    module, draws = make(batch_size=30), 100
    p = grey(module, "train")
    mean = torch.stack([in_order(module, number) for number in range(draws)]).double().mean(0).flatten(1)
    sure = (p == 0) | (p == 1)
    assert torch.equal(mean[sure], p[sure])
    z = (mean - p)[~sure] / (p * (1 - p) / draws)[~sure].sqrt()
    # Means of over 20,000 independent terms of known variance, held to six standard deviations.
    assert abs(float(z.mean())) * math.sqrt(len(z)) < 6
    variance = (1 + (1 / (p * (1 - p)) - 6)[~sure] / draws) + 1  # of z^2: 2 plus the excess kurtosis of the mean
    assert abs(float((z.square() - 1).sum())) < 6 * float(variance.sum().sqrt())


def test_validation_and_test_are_drawn_once_and_for_all(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = make(seed=0), make(seed=9, batch_size=3)
    plain = make(binarize=False)
    for split, loader in (("val", "val_dataloader"), ("test", "test_dataloader")):
        x = torch.cat(list(getattr(one, loader)()))
        assert torch.equal(x, torch.cat(list(getattr(two, loader)())))
        assert torch.equal(x, one.to_states(one.raw(split))) and torch.equal(x, one.to_raw(x))
        assert torch.equal(one.raw(split), (x * one.raw(split).max()).to(one.raw(split).dtype))
        if isinstance(one, Digits | Omniglot):  # the other sets are split differently when grey
            p = grey(plain, split)
            z = float((x.flatten(1) - p).sum() / (p * (1 - p)).sum().sqrt())
            assert abs(z) < 4 and not torch.equal(x.flatten(1).double(), (p > 0.5).double())
        with monkeypatch.context() as second_of_two:
            second_of_two.setattr("ebmlab.datamodules.tensor_loader.rank_and_world", lambda: (1, 2))
            mine = torch.cat(list(getattr(one, loader)()))
        assert torch.equal(mine, x[1 : len(x) - len(x) % 2 : 2])


def test_states_are_reproducible_draws(make: Make) -> None:
    module = make()
    few, every = (module.states("train", n) for n in (3, 10**6))
    assert torch.equal(few, every[:3]) and set(every.unique().tolist()) == {0.0, 1.0}
    raw = module.raw("train")
    assert torch.equal(module.to_states(raw), make(seed=7).to_states(raw))
    p = grey(module, "train")
    assert abs(float((module.to_states(raw).flatten(1) - p).sum() / (p * (1 - p)).sum().sqrt())) < 4


def test_the_published_split_of_mnist(data_folder: Path) -> None:
    module = MNIST(root=str(data_folder), binarize="dynamic")
    grey_first_pixels = module.raw("train")[:, 0, 0, 0].tolist()
    assert grey_first_pixels == list(range(40))  # in the file's order; the last 20 are left out
    assert module.labels("val").tolist() == [i % 10 for i in range(40, 60)] and len(module.raw("test")) == 20
    assert len(MNIST(root=str(data_folder), binarize="dynamic", num_val=6).raw("val")) == 6


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_resuming_in_mid_epoch_repeats_the_very_draws(tmp_path: Path) -> None:
    class Recorder(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen: dict[int, Tensor] = {}

        def training_step(self, x: Tensor, batch_idx: int) -> Tensor:
            self.seen[self.global_step] = x
            return (self.weight - x.mean()).square()

        def validation_step(self, x: Tensor, batch_idx: int) -> None:
            pass

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(folder: Path, max_steps: int, resume: Path | None = None) -> Recorder:
        model = Recorder()
        trainer = quiet_trainer(
            folder,
            enable_checkpointing=True,
            max_steps=max_steps,
            limit_val_batches=0,
            callbacks=[pl.callbacks.ModelCheckpoint(folder, filename="{step}", save_top_k=-1, every_n_train_steps=7)],
        )
        trainer.fit(model, datamodule=Digits(300, binarize="dynamic"), ckpt_path=resume, weights_only=True)
        return model

    whole = fit(tmp_path / "whole", 12)  # four batches an epoch
    fit(tmp_path / "killed", 7)
    resumed = fit(tmp_path / "killed", 12, tmp_path / "killed" / "step=7.ckpt")
    assert sorted(resumed.seen) == [7, 8, 9, 10, 11]
    assert all(torch.equal(x, whole.seen[step]) for step, x in resumed.seen.items())
    assert len({tuple(x.flatten().tolist()) for x in whole.seen.values()}) == 12


@pytest.mark.filterwarnings("ignore")
def test_the_data_mean_is_the_grey_mean(tmp_path: Path) -> None:
    rbm, data = RBM(64, 8), Digits(479, binarize="dynamic")  # three full batches
    learner = ContrastiveDivergence(rbm, BlockGibbs(), start=FromData(), num_steps=1)
    pl.Trainer(max_steps=0, accelerator="cpu", callbacks=[DataMean()], logger=False, default_root_dir=tmp_path).fit(
        learner, datamodule=data
    )
    p = grey(data, "train")
    deviation = (p * (1 - p)).sum(0).sqrt() / len(p)
    inside = (p.mean(0) > 0.05) & (p.mean(0) < 0.95)
    z = (rbm.b_v.detach().double().sigmoid() - p.mean(0))[inside] / deviation[inside]
    assert inside.sum() > 30 and float(z.abs().max()) < 4.5 and float(z.abs().max()) > 0


def test_the_option_can_be_written_in_a_config_and_misspellings_are_named() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(EMNIST, "data")
    for text, value in (("dynamic", "dynamic"), ("true", True), ("false", False)):
        assert parser.parse_args([f"--data.binarize={text}"]).data.binarize == value
    with pytest.raises(UserError, match="Digits: binarize is 'dynamical'; it must be false, true or dynamic"):
        Digits(binarize="dynamical")  # type: ignore[arg-type]


class Alike(TensorDataModule):
    """The same grey images in every split."""

    name = "alike"
    max_value = 255.0

    def load(self, split: str) -> tuple[Tensor, None]:
        return torch.full((20, 4, 4), 128, dtype=torch.uint8), None


def test_each_split_has_draws_of_its_own_that_do_not_change() -> None:
    first, second = (Alike((4, 4), 5, seed=seed, binarize="dynamic") for seed in (0, 1))
    assert not torch.equal(first.raw("val"), first.raw("test"))
    assert torch.equal(first.raw("val"), second.raw("val"))


def test_the_bits_of_a_sample_do_not_depend_on_the_others() -> None:
    form = Preprocessing((1, 8, 8), 255.0, unit=True, binarize="dynamic")
    levels = torch.randint(256, (500, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    bits, order = form.to_states(levels), torch.randperm(500)
    assert torch.equal(form.to_states(levels[order]), bits[order])
    assert torch.equal(form.to_states((levels / 255).flatten(1)), bits)
    assert torch.equal(form.to_states(levels.double() / 255), bits)
    p = levels.double() / 255
    noise = ((bits - p) / (p * (1 - p)).clamp_min(1e-9).sqrt()).where((p > 0) & (p < 1), 0)
    assert abs(float(noise.mean())) < 5 / math.sqrt(noise.numel())
    neighbours = (noise[1:] * noise[:-1]).mean()  # different samples have different noise
    assert abs(float(neighbours)) < 5 / math.sqrt(noise.numel())
    torch.nn.init.normal_((rbm := RBM(64, 8)).W)
    model = TrainedModel(ContrastiveDivergence(rbm, BlockGibbs()), form)
    torch.testing.assert_close(model.energy(levels)[3:7], model.energy(levels[3:7]))


def test_plain_loaders_do_not_train_on_bits_that_must_be_drawn_anew() -> None:
    loaders = {"val": lambda: [torch.rand(20, 4), torch.rand(20, 4)]}
    saved = Preprocessing((4,), 255.0, unit=True, binarize="dynamic")
    data = PlainData("mine", loaders, Binary(4))
    data.adopt(saved)
    assert data.states("val").unique().tolist() == [0, 1]
    with pytest.raises(UserError, match="draws bits anew in each batch, which plain loaders do not"):
        PlainData("mine", {"train": loaders["val"], **loaders}, Binary(4)).adopt(saved)


def test_one_half_is_black() -> None:
    x = torch.tensor([[0.49, 0.5, 0.51]])
    assert Preprocessing((3,), binarize=True).to_states(x).tolist() == [[0.0, 0.0, 1.0]]
