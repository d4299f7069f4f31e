"""The short help of the commands that run a config: what is set most often, and the classes that can be chosen."""

from __future__ import annotations

import textwrap

from ebmlab.app.class_paths import short_name
from ebmlab.app.listing import components
from ebmlab.app.parsers import predict_parser

_WIDTH = 119
_COMMON = """
config
  -c, --config FILE         the config, or several: later ones change earlier ones (`python -m ebmlab list` shows them)
  --print_config            print the resolved config and stop
  --debug                   show the traceback of an error"""
_FIT = """usage: python -m ebmlab fit --config FILE [--OPTION VALUE ...]

Trains a model. Every setting of a config is an option of its name, such as --model.num_steps 50.
{common}

run
  --name NAME               the run's folder is runs/<config>/NAME; by default the time
  --resume auto             start the run called --name, or continue it
  --ckpt_path FILE|last     continue from a checkpoint, or from the newest one of this config
  --seed_everything N       seed of all random numbers (0)
  --wandb MODE              offline (default), online or disabled; --wandb_project NAME; --wandb_run.tags [A,B]
  --tensorboard true        TensorBoard's files too

model and data
  --model CLASS             {learners}
  --model.energy CLASS      {energies}
  --model.sampler CLASS     {samplers}
  --model.start CLASS       {starts}
  --model.estimator CLASS   {estimators}
  --model.optimizer CLASS   torch.optim: Adam, AdamW, SGD and the others; --model.optimizer.lr 0.001
  --model.lr_scheduler CLASS  torch.optim.lr_scheduler: CosineAnnealingLR, StepLR and the others
  --data CLASS              {data}
  --data.batch_size N       examples of a batch

callbacks
  --callbacks.NAME true     add one; false drops it; --callbacks.NAME.OPTION VALUE changes an option
                            {callbacks}

trainer
  --trainer.max_epochs N    length of the training; or --trainer.max_steps N, --trainer.max_time DD:HH:MM:SS
                            (the evaluations at its end are not cut short)
  --trainer.devices N       processes or GPUs; with --trainer.strategy ddp, and --trainer.accelerator cpu or gpu
  --trainer.precision P     32-true (default), bf16-mixed, 16-mixed, 64-true
  --trainer.gradient_clip_val X
                            largest norm of the gradient
  --trainer.fast_dev_run true
                            try the config out: one batch, short chains, nothing is saved
  --trainer.log_every_n_steps N, --trainer.check_val_every_n_epoch N
                            how often numbers are logged and the model is validated

more
  python -m ebmlab fit --help all            every option
  python -m ebmlab fit --model.energy.help ebmlab.energies.RBM
                                             the options of a class; likewise --model.help, --data.help ...
  python -m ebmlab list                      every class and config, with what it is"""
_EVALUATE = """usage: python -m ebmlab {command} --ckpt_path FILE [--OPTION VALUE ...]

Evaluates a checkpoint on the {split} split: the learner's metrics, and the callbacks that measure or draw something.
The config is that of the checkpoint's run, unless --config names another. Results go to the run's folder, {command}/.

  --ckpt_path FILE|last     the checkpoint; `last` is the newest one of --config
{common}

options
  --callbacks.NAME true     add a callback; false drops it; --callbacks.NAME.OPTION VALUE changes an option
                            {callbacks}
  --data.batch_size N       examples of a batch
  --wandb MODE              offline (default), online or disabled; --wandb_project NAME
  --trainer.devices N       processes or GPUs; with --trainer.strategy ddp, and --trainer.accelerator cpu or gpu

`python -m ebmlab {command} --help all` shows every option."""


def page(command: str) -> str | None:
    """The short help of a command; None for one whose parser has no more options than fit on a page."""
    if command in ("validate", "test"):
        split = "validation" if command == "validate" else "test"
        return _EVALUATE.format(command=command, split=split, common=_COMMON, callbacks=_names("ebmlab.callbacks"))
    if command == "predict":
        return predict_parser().format_help().rstrip()
    if command != "fit":
        return None
    return _FIT.format(
        common=_COMMON,
        learners=_names("ebmlab.learners", "Learner"),
        energies=_names("ebmlab.energies"),
        samplers=_names("ebmlab.samplers", "Sampler"),
        starts=_names("ebmlab.learners", "Start"),
        estimators=_names("ebmlab.learners", "Estimator"),
        data=_names("ebmlab.datamodules"),
        callbacks=_names("ebmlab.callbacks"),
    )


def _names(module: str, base: str | None = None) -> str:
    """The classes of a family, or those of them that derive from `base`, as indented lines."""
    found = components(module).items()
    names = [n for n, source in found if base is None or base in {a.node.name for a in source.lineage}]
    text, indent = f"{short_name(module)}: {', '.join(names)}", " " * 28
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent).lstrip()
