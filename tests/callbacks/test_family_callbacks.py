"""Contacts and FamilyReport in a training on a small family."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_family import family_texts, helix, write_family, write_structure

from ebmlab.callbacks import Contacts, FamilyReport
from ebmlab.datamodules import Alignment, Digits
from ebmlab.energies import RBM, CategoricalRBM, Energy, Potts
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs, Gibbs

SITES = 14
QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers")


@pytest.fixture
def data(tmp_path: Path) -> Alignment:
    return Alignment(str(write_family(tmp_path / "family.fasta", sites=SITES)), batch_size=20)


@pytest.fixture
def structure(tmp_path: Path) -> str:
    return str(write_structure(tmp_path / "wild.pdb", family_texts(sites=SITES)[0]))


def coupled() -> Potts:
    """Couplings of all pairs five sites apart, which are contacts of `helix`, and weaker ones elsewhere."""
    energy = Potts(SITES, 21)
    with torch.no_grad():
        energy.coupling.normal_(0, 0.01)
        i, j = energy.pairs.T
        energy.coupling[(i - j).abs() == 5] += torch.eye(21)
    return energy


def scores_of(energy: Energy, callback: pl.Callback, data: pl.LightningDataModule, folder: Path) -> dict[str, float]:
    trainer = pl.Trainer(callbacks=[callback], accelerator="cpu", default_root_dir=folder, **QUIET)
    sampler = Gibbs() if isinstance(energy, Potts) else BlockGibbs()
    (scores,) = trainer.test(ContrastiveDivergence(energy, sampler, num_steps=2), data, verbose=False)
    return {name: float(value) for name, value in scores.items()}


def test_contacts_of_couplings_that_follow_the_structure(data: Alignment, structure: str, tmp_path: Path) -> None:
    places = helix(SITES)
    near = [(i, j) for i in range(SITES) for j in range(i + 4, SITES) if sum((places[i] - places[j]) ** 2) < 36]
    callback = Contacts(structure, threshold=6.0, min_separation=4)
    scores = scores_of(coupled(), callback, data, tmp_path)
    total = (SITES - 4) * (SITES - 3) // 2
    assert scores["contacts/precision_at_random"] == pytest.approx(len(near) / total)
    assert scores["contacts/precision_l2"] == 1.0 and scores["contacts/precision_l5"] == 1.0
    assert list((tmp_path / "images").glob("contacts-map_step*.png"))


def test_contacts_of_an_rbm(data: Alignment, structure: str, tmp_path: Path) -> None:
    scores = scores_of(CategoricalRBM(SITES, 21, num_hidden=3), Contacts(structure, num_around=2), data, tmp_path)
    assert 0 <= scores["contacts/precision_l"] <= 1


def test_the_report_says_what_the_samples_are_like(data: Alignment, tmp_path: Path) -> None:
    energy = Potts(SITES, 21)
    with torch.no_grad():  # independent sites with the data's frequencies
        weights = data.weights("train")
        mean = (weights.view(-1, 1, 1) * data.states("train")).sum(0) / weights.sum()
        energy.field.copy_((mean + 1e-3).log())
    scores = scores_of(energy, FamilyReport(num_samples=600, num_steps=20 * SITES), data, tmp_path)
    assert scores["family/pearson_1"] > 0.99 and abs(scores["family/pearson_2"]) < 0.5
    assert scores["family/novel"] > 0.99 and scores["family/unique"] > 0.99 and 0.1 < scores["family/nearest"] < 0.9
    assert list((tmp_path / "images").glob("family-report_step*.png"))


@pytest.mark.parametrize("callback", ["contacts", "report"])
def test_other_data_and_structures_are_refused(callback: str, data: Alignment, structure: str, tmp_path: Path) -> None:
    made = Contacts(structure) if callback == "contacts" else FamilyReport()
    with pytest.raises(UserError, match=f"{type(made).__name__} needs data that come from an alignment, got Digits"):
        scores_of(RBM(64, 2), made, Digits(binarize=True), tmp_path)
    other = write_structure(tmp_path / "other.pdb", "GGGGGGG")
    with pytest.raises(UserError, match=r"Contacts: .*other.pdb: the structure's chain of 7 residues covers"):
        scores_of(Potts(SITES, 21), Contacts(str(other)), data, tmp_path)
    with pytest.raises(UserError, match="threshold is -1"):
        Contacts(structure, threshold=-1)
