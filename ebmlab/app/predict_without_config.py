"""`predict` for checkpoints without a config beside them, such as those of a plain `Trainer`."""

from __future__ import annotations

import re
from pathlib import Path

from ebmlab.app.own_modules import import_for_checkpoints
from ebmlab.app.own_runs import check_links
from ebmlab.app.parsers import predict_parser
from ebmlab.app.prediction import data_for, save_samples
from ebmlab.app.run_folder import CONFIG, run_of
from ebmlab.app.words import options
from ebmlab.io.files import load_checkpoint
from ebmlab.io.outputs import keep_apart
from ebmlab.io.zoo import checkpoint
from ebmlab.trained import load
from ebmlab.trained.loading import checkpoint_in


def stands_alone(args: list[str]) -> bool:
    """Whether the checkpoint alone says what is drawn: no config is given, and none beside it names data or is trusted.

    A config beside a checkpoint is not run with own code, which `--import` names.
    """
    given = dict(options(args))
    if {"-c", "--config", "-h", "--help"} & given.keys() or not given.get("--ckpt_path"):
        return False
    if "--import" in given:
        return True
    path = Path(given["--ckpt_path"])
    if not path.exists() and checkpoint(path) is None:
        return False
    config = run_of(checkpoint_in(path)) / CONFIG
    return not config.is_file() or not re.search("^data:", config.read_text(errors="replace"), re.MULTILINE)


def predict_alone(args: list[str]) -> None:
    """Draws samples of the model that the checkpoint describes; see `save_samples` for the options."""
    chosen = vars(predict_parser().parse_args(args))
    import_for_checkpoints(chosen.pop("modules"))
    model = load(chosen.pop("ckpt_path"))
    assert model.path is not None
    given = {name: value for name, value in chosen.items() if value is not None}
    if "denoise" in given:
        given["denoise"] = given["denoise"] == "true"
    data = data_for(model.learner, model, load_checkpoint(model.path))
    if "output" in given:
        keep_apart([Path(given["output"])], [model.path])
    else:
        check_links(run_of(model.path))
    for path in save_samples(model.learner, data, run_of(model.path), **given):
        print(path)
