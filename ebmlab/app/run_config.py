"""The config of the run that a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path

from pytorch_lightning.utilities import rank_zero_info

from ebmlab.app.checkpoint_config import beside, check_given
from ebmlab.app.own_configs import BESIDE
from ebmlab.app.own_runs import check_links, is_own
from ebmlab.app.run_folder import CONFIG, in_a_run, run_of
from ebmlab.app.words import options
from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint
from ebmlab.io.zoo import checkpoint
from ebmlab.trained.loading import checkpoint_in


def with_run_config(args: list[str]) -> list[str]:
    """Adds the config of the checkpoint's run if the command has `--ckpt_path` but no `--config`.

    A config that this user's ebmlab has written is the user's own. Of any other, only what `beside` takes counts.

    Raises:
        UserError: the checkpoint is missing or damaged, its run has no config, or links lead out of its folder.
    """
    given = dict(options(args))
    path = Path(given.get("--ckpt_path", ""))
    if "--ckpt_path" in given and (path.is_dir() or checkpoint(path)):  # of a run or the zoo
        path = checkpoint_in(path, "last" if args[0] == "fit" else "best")
        args = [*args, "--ckpt_path", str(path)]
    if named := given.get("--config") or given.get("-c"):
        if path.suffix and in_a_run(path) and not _is_config_of(named, run_of(path)):
            check_links(run_of(path))
        return args
    if not path.suffix:
        if str(path) not in (".", "last"):
            checkpoint_in(path)  # raises an error if there is nothing of that name
        return args
    config = run_of(path) / CONFIG
    if not config.is_file():
        load_checkpoint(path)
        raise UserError(
            f"{path} has no {config} beside it: name the config that the checkpoint was trained with by --config"
        )
    if is_own(config):
        return [args[0], "--config", str(config), *args[1:]]
    check_links(run_of(path))
    check_given(beside(config), config, given)
    rank_zero_info(
        f"{config} is not of your own making: of it the seed, the model and the data are taken, and all else is yours "
        "to say; --config takes the whole of it"
    )
    return [args[0], "--config", f"{BESIDE}{config}", *args[1:]]


def _is_config_of(named: str, run: Path) -> bool:
    """Whether `--config` names the run's own config, by which the user trusts the run."""
    return Path(named).name == CONFIG and Path(named).absolute().parent.resolve() == run.resolve()
