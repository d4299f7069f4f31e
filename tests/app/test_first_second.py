"""Commands load what they need: each test counts the modules of a fresh process, for seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers_published import write_mnist

ROOT = Path(__file__).parents[2]
TRAINER = {"pytorch_lightning", "lightning_fabric", "torchmetrics", "jsonargparse", "omegaconf", "wandb"} | {
    "torch._dynamo.eval_frame"
}
OTHERS = {"torchvision", "transformers", "scipy", "sklearn", "pandas", "networkx", "matplotlib.pyplot", "triton"}
COMMANDS = """
predict --ckpt_path zoo/rbm-digits --num_samples 3 --num_steps 1 --output drawn
score drawn/samples.pt --ckpt_path zoo/rbm-digits --output scores.csv
complete drawn/samples.pt --given top --num_steps 1 --ckpt_path zoo/rbm-digits --output completed.npy
features drawn/samples.pt --ckpt_path zoo/grbm-digits --output features.npy
convert edge.rud edge.ckpt
solve edge.rud --seconds 0.1 --name a
mutate wild.fasta --ckpt_path family.ckpt --output mutants.csv
score wild.fasta --ckpt_path learnt.ckpt --output energies.csv
"""


def loaded(code: str, folder: Path) -> set[str]:
    """The modules that a fresh process has after some code, of those that cost time."""
    code += f"\nimport sys; print(*({TRAINER | OTHERS} & sys.modules.keys()), file=open('loaded', 'w'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set((folder / "loaded").read_text().split()) if (folder / "loaded").exists() else set()


def test_commands_that_train_nothing_load_no_trainer(tmp_path: Path) -> None:
    """And no search for garbage looks through loaded modules, which stay: it took a tenth of the time of `score`."""
    (tmp_path / "edge.rud").write_text("2 1\n1 2 1\n")
    (tmp_path / "wild.fasta").write_text(">wild\nACD\n")
    code = (
        "import torch, ebmlab.app.convert as made; from ebmlab.data.preprocessing import Preprocessing\n"
        "from ebmlab.energies import Potts; from ebmlab.exchange import read; LETTERS = 'ACDEFGHIKLMNPQRSTVWY'\n"
        "form = Preprocessing((3,), num_classes=21, letters='-' + LETTERS, columns=('1', '2', '3'), width=3)\n"
        "found = read(Potts(3, 21)); made.make_run(found, made.Path('family.ckpt'))\n"
        "content = torch.load('family.ckpt'); content['preprocessing'] = form.to_dict()\n"
        "torch.save(content, 'family.ckpt')\n"
        "saved = content['hyper_parameters'] | {'_class_path': 'ebmlab.learners.BoltzmannLearning', 'sampler': None}\n"
        "torch.save(content | {'hyper_parameters': saved}, 'learnt.ckpt')\n"
        "import gc; from ebmlab.app.cli import main\n"
        f"for line in '''{COMMANDS}'''.split('\\n')[1:-1]: main(line.split())\n"
        "assert gc.isenabled() and len(gc.get_objects()) < gc.get_freeze_count() / 2, 'garbage'\n"
        "import ebmlab; ebmlab.load('zoo/ising-10x10').sample(2, 1)"
    )
    assert loaded(code, tmp_path) == set()


@pytest.mark.slow
@pytest.mark.parametrize("config", ["moons", "grbm_digits", "grbm_mnist"])
def test_the_first_step_of_training_loads_nothing_that_nobody_asked_for(tmp_path: Path, config: str) -> None:
    """A callback of the user's own looks when the step begins: no compiler, nothing that draws, no torchvision."""
    (tmp_path / "look.py").write_text(
        "import os, sys, pytorch_lightning as pl\n"
        "class Look(pl.Callback):\n"
        "    def on_train_batch_start(self, *_):\n"
        "        print(*sys.modules, file=open('begun', 'w'), flush=True)\n"
        "        os._exit(0)\n"
    )
    words = ["fit", "--config", config, "--trainer.fast_dev_run", "true", "--trainer.accelerator", "cpu"]
    words += ["--trainer.callbacks+=look.Look", "--trainer.enable_model_summary", "false"]
    if config == "grbm_mnist":
        write_mnist(tmp_path, "MNIST")
        words += ["--data.root=.", "--data.num_val=12", "--data.batch_size=10"]
    loaded(f"from ebmlab.app.cli import main; main({words})", tmp_path)
    begun = set((tmp_path / "begun").read_text().split())
    unwanted = {"torch._dynamo.eval_frame", "torchvision", "transformers", "sklearn", "scipy", "pandas"}
    assert "pytorch_lightning" in begun and not begun & (unwanted | {"matplotlib", "triton"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "plain = torch.compile(plain)",
        "from torch._dynamo.eval_frame import OptimizedModule; plain = torch.compile(plain)",
        "import torch._dynamo.config as c; assert c.recompile_limit; plain = torch.compile(plain)",
        "import torch._dynamo; torch._dynamo.reset(); plain = torch.compile(plain)",
    ],
)
def test_the_compiler_is_there_for_who_asks(tmp_path: Path, asked: str) -> None:
    """Samples are drawn and optimizers step without it; then a module that it has compiled is recognised."""
    code = (
        "from ebmlab.app.cli import main\ntry: main(['sample', '--help'])\nexcept SystemExit: pass\n"
        "import sys, inspect, pytorch_lightning as pl, torch\n"
        "from pytorch_lightning.utilities.compile import from_compiled\n"
        "module = plain = pl.LightningModule()\n"
        "weight = torch.nn.Parameter(torch.ones(3)); weight.grad = torch.ones(3)\n"
        "optimizer = torch.optim.Adam([weight]); optimizer.step(); inspect.getmodule(main)\n"
        "optimizer.add_param_group({'params': torch.nn.Parameter(torch.ones(1))})\n"
        "assert 'torch._dynamo.eval_frame' not in sys.modules\n"
        "try: from_compiled(plain)\n"
        "except ValueError: print('refused')\n"
        f"{asked}; assert from_compiled(plain) is module\n"
        "optimizer.step(); optimizer.zero_grad()\n"
        "optimizer.add_param_group({'params': torch.nn.Parameter(torch.ones(2))})\n"
        "assert torch._dynamo.eval_frame is sys.modules['torch._dynamo.eval_frame']\n"
        "assert torch._dynamo.eval_frame.__spec__.origin.endswith('eval_frame.py')\n"
        "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2)).sum() == 4"
    )
    assert "torch._dynamo.eval_frame" in loaded(code, tmp_path)


@pytest.mark.slow
def test_torchmetrics_is_whole_for_who_asks(tmp_path: Path) -> None:
    code = (
        "import sys; from ebmlab.lightning import metrics_when_asked; metrics_when_asked.load_metrics_when_asked()\n"
        "import torchmetrics; from torchmetrics import Metric, MetricCollection\n"
        "assert torchmetrics.__version__ and not hasattr(torchmetrics, '__wrapped__')\n"
        "assert 'torchmetrics.classification' not in sys.modules\n"
        "from torchmetrics import MeanMetric, functional; from torchmetrics.classification import BinaryAccuracy\n"
        "assert torchmetrics.Accuracy and issubclass(BinaryAccuracy, Metric) and issubclass(MeanMetric, Metric)"
    )
    assert "torchmetrics" in loaded(code, tmp_path)
