"""What is wrong with an alignment or a structure is one line and exit code 2, and no run is begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from helpers_family import family_texts, write_family, write_structure
from helpers_tier import cases

GOOD = "".join(f">{i}\n{text}\n" for i, text in enumerate(family_texts()))


@cases(
    ("content", "options", "said"),
    [
        ("", [], "family.fasta is empty: give an alignment in FASTA, A2M, A3M or Stockholm"),
        (GOOD + ">ragged\nACDE\n", [], "sequence 61, ragged, has 4 columns, but most have 12: align the sequences"),
        (GOOD + ">odd\nACXDEFGHIKLM\n", ["--data.unknown=refuse"], "sequence 61, odd, has the letter X in column 3"),
        (GOOD, ["--data.alphabet=rna"], "which is not in the alphabet -ACGU, and so have"),
        (
            GOOD,
            ["--callbacks.Contacts.path=short.pdb"],
            "short.pdb: the structure's chain of 4 residues covers",
        ),
        (GOOD, ["--callbacks.Contacts.path=gone.pdb"], "gone.pdb: no such file"),
        (GOOD, ["--callbacks.Contacts.chain=Z"], "wild.pdb has no chain Z; there are A"),
        (GOOD, ["--data.path=package:not_there/a.fasta"], "the package not_there is not installed: pip install"),
        (GOOD, ["--model.energy.num_coordinates=${event_size:7}"], "events have the shape (12, 21), and no axis 7"),
    ],
    fast=[0, 1, 4, 6],
)
def test_bad_families_are_refused(content: str, options: list[str], said: str, fails: Callable[..., str]) -> None:
    Path("family.fasta").write_text(content)
    write_structure(Path("wild.pdb"), family_texts()[0])
    write_structure(Path("short.pdb"), "GGGG")
    given = ["--data.path=family.fasta", "--data.batch_size=20", "--callbacks.Contacts.path=wild.pdb"]
    line = fails("fit", "--name=a", *given, *options, config="family", quick=False)
    assert said in line and ".py, line" not in line and not Path("runs").exists()


@pytest.mark.slow
def test_a_family_is_told_from_one_with_other_letters_when_a_run_is_tested(
    run: Callable[..., None], fails: Callable[..., str]
) -> None:
    write_family(Path("family.fasta"))
    options = ["--data.path=family.fasta", "--data.batch_size=20", "--callbacks.Contacts=false"]
    options += ["--model.num_chains=50"]
    options += ["--callbacks.FamilyReport=false"]
    run("fit", "--name=a", "--trainer.max_epochs=1", *options, config="family", quick=False)
    options += ["--ckpt_path=runs/family/a", "--data.alphabet=ACDEFGHIKLMNPQRSTVWY-"]
    assert "letters is ACDEFGHIKLMNPQRSTVWY-, not -ACDEFGHIKLMNPQRSTVWY" in fails(
        "test", *options, config="family", quick=False
    )


@cases("option", ["EdgeActivation.share=0.5", "Decimation.density=0.5"], fast=[0])
def test_sparse_families_run(option: str, run: Callable[..., None]) -> None:
    write_family(Path("family.fasta"))
    options = ["--data.path=family.fasta", "--data.batch_size=20", "--model.num_chains=50"]
    options += [f"--callbacks.{name}=false" for name in ("StopAtCorrelation", "Contacts", "FamilyReport")]
    run("fit", "--trainer.fast_dev_run=true", f"--callbacks.{option}", *options, config="family", quick=False)


@pytest.mark.parametrize(
    ("options", "kind", "sizes"),
    [
        (["--model=PseudoLikelihood"], "Potts", {"num_coordinates": 12, "num_values": 21}),
        (
            ["--model=ContrastiveDivergence", "--model.energy=CategoricalRBM", "--model.energy.num_hidden=3"],
            "CategoricalRBM",
            {"num_coordinates": 12, "num_values": 21, "num_hidden": 3, "hidden": "bits"},
        ),
    ],
    ids=["learner", "learner and energy"],
)
def test_another_learner_keeps_an_energy_whose_size_follows_the_data(
    options: list[str],
    kind: str,
    sizes: dict[str, object],
    run: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_family(Path("family.fasta"))
    given = ["--data.path=family.fasta", *options, "--model.sampler=Gibbs", "--print_config"]
    with pytest.raises(SystemExit):
        run("fit", *given, config="family", quick=False)
    energy = yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["energy"]
    assert energy == {"class_path": f"ebmlab.energies.{kind}", "init_args": energy["init_args"]}
    assert {name: energy["init_args"][name] for name in sizes} == sizes
