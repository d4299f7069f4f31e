"""`fit`, `validate`, `test` and `predict` by Lightning's command line, and `sample`, which has its parser."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

import ebmlab.datamodules  # noqa: F401  # the parser finds a class by its short name once it is loaded
from ebmlab.app.beginning import Beginning
from ebmlab.app.checkpoints import (
    WholeCheckpoints,
    check_weights,
    find_checkpoint,
    resumed,
    warn_of_old_schedule,
)
from ebmlab.app.checks import check_callbacks, check_config, check_energy, why_idle
from ebmlab.app.class_help import class_help
from ebmlab.app.closing import closing_lines, why_no_metrics, why_no_score
from ebmlab.app.config_errors import parser_message
from ebmlab.app.loggers import MetricsCSV, add_logger_options, make_loggers
from ebmlab.app.named_callbacks import HELP as CALLBACKS_HELP
from ebmlab.app.parser import MODE, Parser
from ebmlab.app.prediction import data_for, save_samples
from ebmlab.app.run_config import with_run_config
from ebmlab.app.run_folder import (
    Place,
    claim,
    config_name,
    contents,
    continued_run,
    in_a_run,
    new_run,
    require_no_run,
    run_of,
)
from ebmlab.app.sample_command import sample
from ebmlab.app.trainer_faults import check_nodes, trainer_fault
from ebmlab.app.trust import check_makers, trust_named
from ebmlab.app.wandb_run import WandbMode
from ebmlab.callbacks.checkpoint_rollback import RolledBack
from ebmlab.data.interface import Data
from ebmlab.errors import UserError, shown
from ebmlab.io.described import fill
from ebmlab.io.files import load_checkpoint
from ebmlab.io.outputs import keep_apart
from ebmlab.learners import Learner
from ebmlab.lightning.trainer import end_children, hand_over_children, leave_signals
from ebmlab.numerics.launch import launched_rank


class CLI(LightningCLI):
    """LightningCLI with run folders, one-line errors, and sizes that follow the data."""

    def __init__(self) -> None:
        defaults = {"default_config_files": [str(Path(__file__).with_name("defaults.yaml"))]}
        super().__init__(
            pl.LightningModule,
            pl.LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            seed_everything_default=0,
            save_config_callback=None,
            parser_class=Parser,
            parser_kwargs={"parser_mode": MODE} | {command: dict(defaults) for command in self.subcommands()},
        )

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Only the command that is given, for the parser of each takes a while to make."""
        commands = LightningCLI.subcommands()
        return {command: commands[command] for command in sys.argv[1:2] if command in commands} or commands

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--name", type=str | None, help="Name of the run's folder. Default: the time.")
        add_logger_options(parser)
        parser.add_argument_group("callbacks by name", CALLBACKS_HELP)

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "fit":
            parser.add_argument(
                "--resume", type=Literal["auto"] | None, help="auto: continue the run called --name, or start it."
            )
        if subcommand == "predict":
            parser.description = "Draws samples from a trained model by new chains, and writes them to files."
            for group in parser._action_groups:  # the one of Lightning's options has Lightning's text
                group.title = "predict" if str(group.title).startswith("Run inference") else group.title
            parser.add_function_arguments(save_samples, skip={"learner", "datamodule", "folder"})
        return parser

    def _parse_ckpt_path(self) -> None:
        """Finds and reads the checkpoint, and chooses the run folder."""
        config = self.config[self.config.subcommand]
        if not config.trainer.callbacks:
            raise UserError(
                "trainer.callbacks is empty, so that nothing would be saved; drop callbacks by --callbacks.NAME false"
            )
        check_config(config)
        self.experiment = config_name(sys.argv[1:])
        ckpt_path, fits = config.get("ckpt_path"), self.config.subcommand == "fit"
        folder = Path(str(config.trainer.default_root_dir)) if config.trainer.default_root_dir else None
        place = Place(self.experiment, config.name, folder if fits else None)
        if again := config.get("resume") == "auto":
            ckpt_path = resumed(place, ckpt_path)
        if ckpt_path:
            path, self.checkpoint = find_checkpoint(ckpt_path, place)
            config.ckpt_path = str(path)
        elif not fits:
            raise UserError(
                f"{self.config.subcommand} needs --ckpt_path: a .ckpt file, or `last` and --config for the newest run's"
            )
        if folder is not None:
            self.folder = folder
            goes_on = ckpt_path and in_a_run(path) and run_of(path).absolute() == folder.absolute()
            if fits and not goes_on and not launched_rank():  # the first process may have saved before others look
                require_no_run(folder)
        elif ckpt_path and not fits:
            self.folder = run_of(path)
        elif ckpt_path and in_a_run(path):
            self.folder = continued_run(path, sys.argv[1:])
        else:
            self.folder = new_run(self.experiment, config.name, again)
        if fits and not launched_rank():
            claim(self.folder)

    def instantiate_classes(self) -> None:
        check_makers(self._get(self.config, "model"))
        try:
            super().instantiate_classes()
        except RuntimeError as error:
            if "more than one stateful callback" not in str(error):
                raise
            raise UserError(f"trainer.callbacks: {parser_message(str(error))}") from error

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        trainer = self._get(self.config_init, "trainer")
        evaluates = self.subcommand in ("validate", "test")
        folder = self.folder / str(self.subcommand) if evaluates else self.folder
        kwargs["default_root_dir"] = str(folder)
        if trainer.logger is None or trainer.logger is True:
            mode: WandbMode | None = "disabled" if self.subcommand == "predict" else self._get(self.config, "wandb")
            project = self._get(self.config, "wandb_project")
            more = self._get(self.config_init, "wandb_run"), bool(self._get(self.config, "tensorboard"))
            kwargs["logger"] = make_loggers(folder, self.experiment, mode, project, evaluates, *more)
        elif trainer.logger:
            own = trainer.logger if isinstance(trainer.logger, list) else [trainer.logger]
            kwargs["logger"] = [MetricsCSV(folder, evaluates), *own]
        saves = self.subcommand == "fit" and not trainer.fast_dev_run
        idle: list[type] = [] if saves else [pl.callbacks.Checkpoint]
        idle += [pl.callbacks.ProgressBar] if trainer.enable_progress_bar is False else []
        given = trainer.callbacks if isinstance(trainer.callbacks, list) else [trainer.callbacks]
        check_callbacks(given)
        kwargs["callbacks"] = [c for c in given if not isinstance(c, tuple(idle))]
        wanted = trainer.enable_checkpointing
        if wanted is None:  # without a ModelCheckpoint nothing is saved; Lightning's default would add one
            wanted = any(isinstance(c, pl.callbacks.Checkpoint) for c in kwargs["callbacks"])
        kwargs["enable_checkpointing"] = saves and wanted
        try:
            made = super().instantiate_trainer(**kwargs)
        except (TypeError, ValueError, RuntimeError, ImportError, MisconfigurationException) as error:
            raise UserError(trainer_fault(self._get(self.config, "trainer").as_dict(), error)) from error
        check_nodes(made)
        if type(made.strategy.checkpoint_io) is TorchCheckpointIO:
            made.strategy.checkpoint_io = WholeCheckpoints()
        leave_signals(made)
        self._begin_later(made, saves)
        return made

    def _begin_later(self, trainer: pl.Trainer, saves: bool) -> None:
        config = self.config[str(self.subcommand)].clone()
        if self.subcommand == "fit":
            del config["name"], config["ckpt_path"], config["resume"]  # they apply to this start of the run only
            config.trainer.default_root_dir = None  # the run may be moved
        dump = partial(self._parser(self.subcommand).dump, skip_none=False)
        Beginning(trainer, config, dump if saves else None)

    def after_instantiate_classes(self) -> None:
        check_energy(self.model.energy)
        if isinstance(self.datamodule, Data):  # plain data are checked when the first batch is read
            self.model.check_data(self.datamodule, self.subcommand == "fit")
        path = self._get(self.config, "ckpt_path")
        if path:
            check_weights(self.model, self.checkpoint, path)
            if self.subcommand == "fit":
                warn_of_old_schedule(self._get(self.config, "model"), self.checkpoint)

    def before_fit(self) -> None:
        if not launched_rank():
            print(f"{_described(self.model, self.datamodule)}: {self.folder}", file=sys.stderr, flush=True)

    def before_test(self) -> None:
        """Restores the checkpoint's step, which labels pictures and metrics."""
        if loops := self.checkpoint.get("loops"):
            self.trainer.fit_loop.load_state_dict(loops["fit_loop"])

    before_validate = before_test

    def _run_subcommand(self, subcommand: str) -> None:
        try:
            while (checkpoint := self._run_until_rolled_back(subcommand)) is not None:
                self._begin_again(checkpoint)
        except BaseException:
            end_children(self.trainer)
            raise

    def _run_until_rolled_back(self, subcommand: str) -> Path | None:
        try:
            super()._run_subcommand(subcommand)
        except RolledBack as back:
            return back.checkpoint
        return None

    def _begin_again(self, checkpoint: Path) -> None:
        """Makes model, data, callbacks and trainer anew, to resume as a new process would: nothing old is left."""
        before = self.trainer
        self.checkpoint = load_checkpoint(checkpoint)
        self.config[str(self.subcommand)].ckpt_path = str(checkpoint)
        self._set_seed()
        self.instantiate_classes()
        hand_over_children(before, self.trainer)
        self.after_instantiate_classes()

    def after_fit(self) -> None:
        if self.trainer.is_global_zero:
            idle = why_idle(self.trainer, self.checkpoint if self._get(self.config, "ckpt_path") else {})
            print(f"\nfinished at step {self.trainer.global_step}{idle}", *closing_lines(self.trainer), sep="\n")
            print(*contents(self.folder), *why_no_metrics(self.trainer, self.folder), sep="\n")

    def after_test(self) -> None:
        if self.trainer.is_global_zero:
            print(*closing_lines(self.trainer), *why_no_score(self.trainer), sep="\n")

    after_validate = after_test

    def predict(self, model: Learner, datamodule: pl.LightningDataModule, **_: Any) -> None:
        """Draws samples into the run folder."""
        fill(model, self.checkpoint, Path(self._get(self.config, "ckpt_path")))
        config = self.config_init[self.subcommand]
        options = {key: config[key] for key in inspect.signature(save_samples).parameters if key in config}
        if options.get("output"):
            keep_apart([Path(options["output"])], [self._get(self.config, "ckpt_path")])
        model.to(self.trainer.strategy.root_device)
        for path in save_samples(model, data_for(model, datamodule, self.checkpoint), self.folder, **options):
            print(path)


def with_trainer(given: list[str]) -> None:
    """Runs `fit`, `validate`, `test`, `predict` or `sample`, or shows the help of a class."""
    trust_named(given[1:])
    if (text := class_help(given)) is not None:
        print(shown(text))
        return
    if given[-2:] in (["--help", "all"], ["-h", "all"]):
        given = given[:-1]
    if given[0] == "sample":
        sys.argv = [sys.argv[0], *given]  # distributed processes are started with these arguments too
        about = "Runs samplers on targets from the same starts, and compares them in tables, curves and pictures."
        sample(given[1:], Parser(prog="python -m ebmlab sample", description=about, parser_mode=MODE))
    else:
        sys.argv = [sys.argv[0], *with_run_config(given)]  # distributed processes are started with these too
        CLI()


def _described(learner: Any, data: Any) -> str:
    """What is trained, in a line to be printed before the first step."""
    count, kind = sum(p.numel() for p in learner.energy.parameters()), type(learner.energy).__name__
    sampler = type(learner.sampler).__name__
    return (
        f"{type(learner).__name__} of {kind} with {count:,} parameters, sampler {sampler}, data {type(data).__name__}"
    )
