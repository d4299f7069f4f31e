"""Commands load what they need: each test counts the modules of a fresh process, for seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINER = {"pytorch_lightning", "lightning_fabric", "torchmetrics", "jsonargparse", "omegaconf", "wandb"} | {
    "torch._dynamo"
}
OTHERS = {"torchvision", "transformers", "scipy", "sklearn", "pandas", "networkx", "matplotlib.pyplot"}
COMMANDS = """
predict --ckpt_path zoo/rbm-digits --num_samples 3 --num_steps 1 --output drawn
score drawn/samples.pt --ckpt_path zoo/rbm-digits --output scores.csv
complete drawn/samples.pt --given top --num_steps 1 --ckpt_path zoo/rbm-digits --output completed.npy
features drawn/samples.pt --ckpt_path zoo/grbm-digits --output features.npy
convert edge.rud edge.ckpt
solve edge.rud --seconds 0.1 --name a
mutate wild.fasta --ckpt_path family.ckpt --output mutants.csv
"""


def loaded(code: str, folder: Path) -> set[str]:
    """The modules that a fresh process has after some code, of those that cost time."""
    code += f"\nimport sys; print(*({TRAINER | OTHERS} & sys.modules.keys()), file=open('loaded', 'w'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set((folder / "loaded").read_text().split())


def test_commands_that_train_nothing_load_no_trainer(tmp_path: Path) -> None:
    (tmp_path / "edge.rud").write_text("2 1\n1 2 1\n")
    (tmp_path / "wild.fasta").write_text(">wild\nACD\n")
    code = (
        "import torch, ebmlab.app.convert as made; from ebmlab.data.preprocessing import Preprocessing\n"
        "from ebmlab.energies import Potts; from ebmlab.exchange import read; LETTERS = 'ACDEFGHIKLMNPQRSTVWY'\n"
        "form = Preprocessing((3,), num_classes=21, letters='-' + LETTERS, columns=('1', '2', '3'), width=3)\n"
        "found = read(Potts(3, 21)); made.make_run(found, made.Path('family.ckpt'))\n"
        "content = torch.load('family.ckpt'); content['preprocessing'] = form.to_dict()\n"
        "torch.save(content, 'family.ckpt')\n"
        "from ebmlab.app.cli import main\n"
        f"for line in '''{COMMANDS}'''.split('\\n')[1:-1]: main(line.split())\n"
        "import ebmlab; ebmlab.load('zoo/ising-10x10').sample(2, 1)"
    )
    assert loaded(code, tmp_path) == set()


@pytest.mark.slow
def test_a_step_of_training_loads_no_metric_that_nobody_asked_for(tmp_path: Path) -> None:
    words = ["fit", "--config", "moons", "--trainer.fast_dev_run", "true", "--trainer.accelerator", "cpu"]
    code = f"from ebmlab.app.cli import main; main({words})"
    assert not {"torchvision", "transformers", "sklearn", "pandas"} & loaded(code, tmp_path)


@pytest.mark.slow
def test_samples_are_drawn_without_the_compiler_and_a_compiled_module_is_recognised(tmp_path: Path) -> None:
    code = (
        "from ebmlab.app.cli import main\ntry: main(['sample', '--help'])\nexcept SystemExit: pass\n"
        "import sys; assert 'pytorch_lightning' in sys.modules and 'torch._dynamo' not in sys.modules\n"
        "import pytorch_lightning as pl, torch; from pytorch_lightning.utilities.compile import from_compiled\n"
        "plain = pl.LightningModule(); assert from_compiled(torch.compile(plain)) is plain\n"
        "try: from_compiled(plain)\n"
        "except ValueError: print('refused')"
    )
    assert "torch._dynamo" in loaded(code, tmp_path)


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
