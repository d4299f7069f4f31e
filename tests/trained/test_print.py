"""`print` of a trained model and of an energy says what it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import ebmlab
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.domains import Spin
from ebmlab.energies import MLP, RBM, Ising
from ebmlab.evaluation.headline import Headline
from ebmlab.io import zoo
from ebmlab.io.files import load_checkpoint, save
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs
from ebmlab.trained import TrainedModel


def test_energies_say_their_sizes() -> None:
    assert repr(RBM(6, 3)) == "RBM(Binary(6), 3 hidden units)"
    assert repr(Ising.lattice(3, 0.2)) == f"Ising({Spin(9)})"
    assert repr(MLP(4)).splitlines()[1] == "  Binary(4)"


def test_a_model_in_memory() -> None:
    model = TrainedModel(ContrastiveDivergence(RBM(6, 3), BlockGibbs()), Preprocessing((2, 3)))
    lines = [
        "TrainedModel",
        "  RBM on Binary(6), 3 hidden units, 27 parameters",
        "  ContrastiveDivergence with BlockGibbs",
    ]
    assert repr(model).splitlines() == lines


def test_a_checkpoint_says_steps_and_score(tmp_path: Path) -> None:
    path = zoo.checkpoint(Path("zoo/rbm-digits"))
    assert path is not None
    score = Headline("FID", 14.1, about="classifier", begin=283.6)
    callbacks = {"FID{}": {"headline": asdict(score)}, "RunState": {}, "AIS{}": {"headline": None}}
    save({**load_checkpoint(path), "global_step": 12_000, "callbacks": callbacks}, tmp_path / "a.ckpt")
    assert repr(ebmlab.load(tmp_path / "a.ckpt")).splitlines()[3:] == ["  12,000 steps", f"  {score}"]


def test_what_a_stranger_calls_a_score_is_text_of_one_line(tmp_path: Path) -> None:
    path = zoo.checkpoint(Path("zoo/rbm-digits"))
    assert path is not None
    bad = [{"name": "FID", "value": "14"}, {"name": "FID", "value": 1.0, "run": "x"}, ["FID"], {"name": "FID"}, 7]
    callbacks = {f"FID{k}": {"headline": headline} for k, headline in enumerate(bad)}
    callbacks["AIS"] = {"headline": {"name": "score\n\x1b[31m", "value": 2.0}}
    save({**load_checkpoint(path), "global_step": "many", "callbacks": callbacks}, tmp_path / "a.ckpt")
    assert repr(ebmlab.load(tmp_path / "a.ckpt")).splitlines()[3:] == ["  score \\x1b[31m 2"]
