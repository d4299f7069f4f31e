"""Log-likelihoods of a loaded model against enumeration; what is kept, and what is not to be trusted."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_trained import Hot, model_of, trained, wild
from torch import nn
from torch.utils.data import DataLoader

import ebmlab
from ebmlab.domains import Binary
from ebmlab.energies import RBM
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import (
    BlockGibbs,
    Gibbs,
)
from ebmlab.trained import likelihood

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


def test_log_likelihoods_against_enumeration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ContrastiveDivergence(wild(RBM(8, 5)), BlockGibbs(), start=FromData())
    data = DataLoader(Binary(8).random(200), batch_size=100)
    model = ebmlab.load(trained(tmp_path, learner, data))
    raw = Binary(8).enumerate()
    truth = -model.energy(raw) - float(exact_log_z(model.learner.energy))
    assert float(truth.exp().sum()) == pytest.approx(1, abs=1e-5)
    found = model.log_likelihood(raw)
    assert found.std_error == 0 and found.trusted and torch.allclose(found.values, truth, atol=1e-5)
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)
    found = model.log_likelihood(raw, num_chains=100, num_temperatures=300, fresh=True)
    assert found.trusted and 0 < found.std_error < 0.1
    assert float((found.values - truth).abs().max()) < 4 * found.std_error
    as_array = model.log_likelihood(raw.numpy(), num_chains=100, num_temperatures=300)
    assert isinstance(as_array.values, np.ndarray) and as_array.log_z == found.log_z


def test_log_z_is_kept_for_its_owner_and_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ContrastiveDivergence(wild(RBM(5, 3)), BlockGibbs(), start=FromData())
    path = trained(tmp_path, learner, DataLoader(Binary(5).random(20), batch_size=10))
    raw = Binary(5).random(3)
    first = ebmlab.load(path).log_likelihood(raw)
    kept = path.with_name("model.ckpt.log_z.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    calls: list[int] = []
    computed = likelihood.computed_log_z
    monkeypatch.setattr(likelihood, "computed_log_z", lambda *a: calls.append(1) or computed(*a))
    assert ebmlab.load(path).log_likelihood(raw).log_z == first.log_z and not calls
    ebmlab.load(path).log_likelihood(raw, num_temperatures=7)  # what is kept has more
    assert not calls
    ebmlab.load(path).log_likelihood(raw, num_temperatures=2001)
    assert len(calls) == 1
    for damage in (b"", b"{}", b'{"log_z": 1}', kept.read_bytes()[:-9], b"\xff"):
        kept.write_bytes(damage)
        with pytest.warns(UserWarning, match=r"model.ckpt.log_z.json is damaged: log Z is computed anew"):
            assert ebmlab.load(path).log_likelihood(raw).log_z == first.log_z
    kept.chmod(0o666)  # anyone may have written it
    ebmlab.load(path).log_likelihood(raw)
    assert len(calls) == 7
    wild(learner.energy).b_v.data.add_(1)
    trained(tmp_path, learner, DataLoader(Binary(5).random(20), batch_size=10))  # training goes on
    assert ebmlab.load(path).log_likelihood(raw).log_z != first.log_z and len(calls) == 8


def test_log_z_that_an_earlier_version_has_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.ckpt"
    path.write_bytes(b"parameters")
    key = {"checkpoint": hashlib.sha256(b"parameters").hexdigest(), "num_chains": 100, "num_temperatures": 1000}
    doubtful = {"value": 9.5, "std_error": None, "gap": 25.5, "doubts": ["the gap"], "method": "AIS"}
    for kept in ({"value": 12.5, "std_error": 0.03, "gap": 0.01, "doubts": [], "method": "AIS"}, doubtful):
        file = path.with_name("model.ckpt.log_z.json")
        file.touch(0o600)
        file.write_text(json.dumps(key | {"log_z": kept}))
        found = likelihood.Kept(path, 100, 1000).read()
        assert (found.log_z, found.gap, list(found.doubts)) == (kept["value"], kept["gap"], kept["doubts"])
        assert found.trusted == (kept is not doubtful) and math.isnan(found.std_error) == (kept is doubtful)
        likelihood.Kept(path, 100, 1000).write(found)  # as an earlier version would
        assert json.loads(file.read_text())["log_z"].keys() == kept.keys()


def test_log_z_of_a_given_learner_is_not_kept_for_others(tmp_path: Path) -> None:
    """The same parameters are another model if the learner's energy is a tempered one."""
    path = trained(
        tmp_path,
        rbm := ContrastiveDivergence(wild(RBM(5, 3)), BlockGibbs()),
        DataLoader(Binary(5).random(40), batch_size=20),
    )
    raw = Binary(5).enumerate()
    for learner in (ContrastiveDivergence(Hot(RBM(5, 3)), Gibbs()), None, rbm):
        found = ebmlab.load(path, learner).log_likelihood(raw)
        assert float(found.values.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_likelihoods_that_are_not_to_be_trusted_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(likelihood, "RUNGS", 1)
    monkeypatch.setattr(likelihood, "STEPS", 2)
    energy = RBM(30, 20)
    nn.init.normal_(energy.W, std=3)
    model = model_of(energy)
    with pytest.warns(UserWarning, match="do not trust these log-likelihoods: "):
        found = model.log_likelihood(torch.ones(2, 30), num_chains=20, num_temperatures=2)
    assert not found.trusted and math.isnan(found.std_error) and found.log_z.doubts


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_sums_over_energies_that_are_not_finite_are_not_trusted(value: float) -> None:
    energy = RBM(4, 2)
    nn.init.constant_(energy.b_h, value)
    with pytest.warns(UserWarning, match="do not trust these log-likelihoods: an energy is not finite"):
        found = model_of(energy).log_likelihood(torch.ones(2, 4))
    assert not found.trusted and math.isnan(found.std_error)
