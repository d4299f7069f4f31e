"""What the parser says of a nested setting is said by the setting's full name, without the classes on the way to it."""

from __future__ import annotations

import sys

import pytest
import yaml

from ebmlab.app.cli import main
from ebmlab.app.config_errors import parser_message

LEARNER = "model: Problem with given class_path 'ebmlab.learners.ContrastiveDivergence': "
GRBM = LEARNER + "energy: Problem with given class_path 'ebmlab.energies.GRBM': "


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            GRBM + "Option 'num_hiden' is not accepted",
            "model.energy: GRBM has no option num_hiden; did you mean num_hidden?",
        ),
        (LEARNER + "optimizer: Option 'lrr' is not accepted", "model.optimizer has no option lrr"),
        (GRBM + "num_hidden: Expected a int. Got value: abc", "model.energy.num_hidden is 'abc', but must be a whole"),
        (GRBM + "the following arguments are required: num_coordinates", "model.energy: GRBM needs num_coordinates"),
        (
            LEARNER + "lr_scheduler: the following arguments are required: step_size",
            "model.lr_scheduler: there must be step_size",
        ),
        (
            "energy: Expected a path but DMALA either x. Expected a dot import path string: DMALA",
            "energy: DMALA is ebmlab.samplers.DMALA, which cannot be the energy",
        ),
        ("no setting at all", "no setting at all"),
    ],
)
def test_a_setting_is_named(message: str, said: str) -> None:
    assert parser_message(message).startswith(said)
    assert "class_path" not in parser_message(message)


def test_a_swapped_energy_keeps_the_size_of_the_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    with pytest.raises(SystemExit):
        main(["fit", "--config", "grbm_digits", "--model.energy", "RBM", "--print_config"])
    energy = yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["energy"]
    assert energy["class_path"] == "ebmlab.energies.RBM" and energy["init_args"]["num_coordinates"] == 64
