"""Bad inputs: every kind of wrong value for the options that users set, damaged files, odd configs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.robust.server import ROOT, SMALL, Case

CONFIGS = ("grbm_digits", "ebm_digits", "rm_2spirals")
TINY = {
    "grbm_digits": ["--model.num_steps=2", "--model.energy.num_hidden=8"],
    "ebm_digits": [
        *("--model.num_steps=2", "--model.energy.channels=4", "--callbacks.SampleGrid.num_steps=5"),
        *("--callbacks.AIS.num_temperatures=5", "--callbacks.AIS.num_chains=20"),
    ],
    "rm_2spirals": [
        *("--model.num_steps=5", "--data.num_samples=2000", "--callbacks.EnergyLandscape.num_samples=50"),
        "--callbacks.HammingMMD.num_samples=50",
    ],
}
NUMBERS = [
    "-1",
    "0",
    "nan",
    ".inf",
    "-.inf",
    "1e30",
    "1e-30",
    "99999999999999999999",
    "abc",
    "null",
    "[1,2]",
    "{a: 1}",
    "true",
    "''",
]
OPTIONS = [
    *("model.num_steps", "model.burn_in", "model.l1", "model.energy.num_hidden", "model.sampler.step_size"),
    *("model.sampler.num_inner_steps", "model.optimizer.lr", "data.batch_size", "data.seed", "seed_everything"),
    *("trainer.max_epochs", "trainer.max_steps", "trainer.accumulate_grad_batches", "trainer.gradient_clip_val"),
    *("trainer.log_every_n_steps", "trainer.check_val_every_n_epoch", "trainer.devices", "trainer.precision"),
    *("trainer.limit_train_batches", "trainer.val_check_interval", "trainer.num_nodes"),
]
CLASSES = ["model", "data", "model.energy", "model.sampler", "model.start", "model.optimizer", "model.lr_scheduler"]
NAMES = [
    *("torch.optim.Adm", "ebmlab.samplers.GibsLangevin", "GRBN", "nowhere.Class", "os.system", "subprocess.Popen"),
    *(
        "3",
        "3.5",
        "ebmlab",
        "ebmlab.",
        ".GRBM",
        "builtins.eval",
        "torch.nn.Linear",
        "[]",
        "{}",
        "'a b'",
        "datamodules.Digit",
    ),
]
NAMED = ["..", ".", "~", "a/b", "x" * 300, "", "a\nb", "ä" * 150, "-", "[a]", "a b", "*", "$HOME", "a;b"]
FILES = {
    "empty": b"",
    "binary": bytes(range(256)) * 4,
    "list": b"- 1\n- 2\n",
    "number": b"3\n",
    "text": b"hello\n",
    "tabs": b"trainer:\n\tmax_epochs: 1\n",
    "twice": b"trainer: {max_epochs: 1}\ntrainer: {max_epochs: 2}\n",
    "twice deep": b"trainer:\n  max_epochs: 1\n  max_epochs: 2\n",
    "class_paths": b"model: {class_paths: ebmlab.learners.ContrastiveDivergence}\n",
    "deep": b"{" * 200,
    "unknown": b"trainr: {max_epochs: 1}\n",
    "python": b"!!python/object/apply:os.system [touch executed]\n",
    "anchor": b"a: &a [*a]\n",
    "loop": b"base: odd.yaml\n",
    "null": b"null\n",
    "callbacks": b"trainer: {callbacks: callbacks.Progress}\n",
    "interpolation": b"model: {init_args: {num_steps: '${nowhere}'}}\n",
    "self": b"model: {init_args: {num_steps: '${model.init_args.num_steps}'}}\n",
    "utf16": "trainer: {max_epochs: 1}\n".encode("utf-16"),
    "cr": b"trainer: {max_epochs: 1}\r",
}
CALLBACKS = [
    *("LearningRateFinder", "StochasticWeightAveraging", "EarlyStopping", "BatchSizeFinder", "BackboneFinetuning"),
    *("ModelPruning", "GradientAccumulationScheduler", "Timer", "DeviceStatsMonitor", "ThroughputMonitor"),
]


def fit(name: str, config: str, *args: str, files: dict[str, bytes] | None = None) -> Case:
    """A short training that one thing is wrong with."""
    path = str(ROOT / "configs" / f"{config}.yaml")
    return Case(name, ["fit", "--config", path, *SMALL, *TINY[config], *args], files or {})


def bad_inputs() -> Iterator[Case]:
    """At least 300."""
    for option in OPTIONS:
        for value in NUMBERS:
            yield fit(f"--{option}={value}", "grbm_digits", f"--{option}={value}")
    for option in CLASSES:
        for value in NAMES:
            yield fit(f"--{option}={value}", "grbm_digits", f"--{option}={value}")
    for name in NAMED:
        yield fit(f"--name={name[:20]!r}", "grbm_digits", f"--name={name}")
    for name, content in FILES.items():
        yield fit(f"config: {name}", "grbm_digits", "--config=odd.yaml", files={"odd.yaml": content})
        yield Case(f"config alone: {name}", ["fit", "--config=odd.yaml", *SMALL], {"odd.yaml": content})
        for command in ("fit", "predict", "test"):
            yield Case(f"{command} checkpoint: {name}", [command, "--ckpt_path=a.ckpt"], {"a.ckpt": content})
    for name in CALLBACKS:
        yield fit(f"callback {name}", "grbm_digits", f"--callbacks.pytorch_lightning.callbacks.{name}=true")
    for strategy in ("fsdp", "deepspeed", "ddp", "dpp", "auto", "single_device", "xla"):
        yield fit(f"strategy {strategy}", "grbm_digits", f"--trainer.strategy={strategy}")
    for args in (["trian"], ["fit"], ["test"], ["predict"], ["sample"], ["fit", "--nonsense"], ["fit", "-"], ["--fit"]):
        yield Case(" ".join(args), args, {})
