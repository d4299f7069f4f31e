"""Do CPU and GPU agree, and how long does the published training take? `make gpu-check` runs each as a part of its own.

    python benchmarks/gpu_check.py
    python benchmarks/gpu_check.py --device cpu --only energies samplers

1. Energies: values, gradients and neighbours at random states, in float32, on the device and in float64 on the CPU.
   All but MaskedLanguageModel, which asks for a download.
2. Samplers: a few steps from exact draws of a small target, on the device; the p-value of a chi-square test against
   the exact law, for samplers that are exact, and against the same sampler on the CPU for those that are not. On real
   spaces, of a Kolmogorov-Smirnov test of the sum of the coordinates against the same sampler on the CPU.
3. Settings: steps per second of the deep EBM's chains in float32, channels last, with TF32, bf16 and a compiled energy,
   plain and replayed as a CUDA graph, each with its largest deviation of energies and gradients from eager float32.
4. Whole steps as one program: steps per second of `Sampler.last_states` on an RBM, plain, compiled and replayed, and
   the p-value of a chi-square test of compiled steps from exact draws of a small RBM.
5. Training: `ebm_dynamic_mnist` and `grbm_mnist`, as they are, in TF32 and with their chains replayed, the first also
   with proposals in bfloat16, for a few minutes each, without their configs' callbacks: iterations per second, peak
   memory, and how long the whole schedule would take.

Exit code 1 if anything disagrees, or a training fails or is over before it can be timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from scipy.stats import chi2_contingency, chisquare, ks_2samp
from torch import Tensor

from ebmlab import samplers as s
from ebmlab.app.config_files import read_config
from ebmlab.data.tables import Rows
from ebmlab.datamodules.roots import data_root
from ebmlab.domains import Binary, Finite, Real
from ebmlab.energies import (
    GRBM,
    MLP,
    RBM,
    RGCN,
    CategoricalRBM,
    Clamped,
    ClassifierMLP,
    Energy,
    Ising,
    Mixture,
    NoisyAutoencoder,
    NoisyMLP,
    NoisyResNet,
    Potts,
    ProductMLP,
    RealMLP,
    ResNet,
    ScalarPotts,
    Scaled,
    Sum,
)
from ebmlab.engine import Replayed
from ebmlab.evaluation import exact_samples
from ebmlab.numerics.float32 import Float32Settings
from ebmlab.product import Product
from ebmlab.studies.targets import BinaryNetPosterior, LatticeGaussian, LogisticPosterior, ModeGrid, QuarticMixture

ROOT = Path(__file__).parents[1]
Callback = dict[str, Any]
DATA_MEAN: Callback = {"class_path": "callbacks.DataMean"}
COMPILED: Callback = {"class_path": "callbacks.Acceleration"}
TF32: Callback = COMPILED | {"init_args": {"compile": False}}
REPLAYED = "--model.compile_chains=true"
ROUNDED = [  # 40 steps in bfloat16, each 8 of them decided in float32
    *("--model.sampler=Bfloat16Proposals", "--model.sampler.sampler=DMALA", "--model.sampler.sampler.step_size=0.15"),
    "--model.num_steps=5",
]
TRAININGS: dict[str, tuple[str, list[Callback], list[str]]] = {  # the config, callbacks in place of its own, options
    "ebm_dynamic_mnist": ("ebm_dynamic_mnist", [DATA_MEAN], []),
    "ebm_dynamic_mnist, TF32, replayed": ("ebm_dynamic_mnist", [DATA_MEAN, TF32], [REPLAYED]),
    "ebm_dynamic_mnist, TF32, replayed, bf16 proposals": ("ebm_dynamic_mnist", [DATA_MEAN, TF32], [REPLAYED, *ROUNDED]),
    "ebm_dynamic_mnist, compiled, TF32, replayed": ("ebm_dynamic_mnist", [DATA_MEAN, COMPILED], [REPLAYED]),
    "grbm_mnist": ("grbm_mnist", [], []),
    "grbm_mnist, TF32, replayed": ("grbm_mnist", [TF32], [REPLAYED]),
}
CHAINS = 20_000
CHECKS = ("energies", "samplers", "settings", "programs", "trainings")  # in the order below


def _potts() -> Potts:
    energy = Potts(53, 21)
    for p in energy.parameters():  # which are zero at first
        torch.nn.init.normal_(p, std=0.1)
    return energy


ENERGIES: dict[str, Callable[[], Energy]] = {
    "RBM": lambda: RBM(784, 500),
    "GRBM": lambda: GRBM(784, 256),
    "MLP": lambda: MLP(256),
    "RealMLP": lambda: RealMLP(20),
    "ClassifierMLP": lambda: ClassifierMLP(20, num_classes=3),
    "NoisyMLP": lambda: NoisyMLP(20),
    "NoisyAutoencoder": lambda: NoisyAutoencoder((1, 8, 8), 8, hidden_dim=32),
    "NoisyResNet": lambda: NoisyResNet((3, 8, 8), 8),
    "ProductMLP": lambda: ProductMLP(Product(bits=Binary(10), place=Real(10))),
    "ResNet": lambda: ResNet((28, 28)),
    "RGCN": lambda: RGCN(18),
    "Ising": lambda: Ising.lattice(20, 0.3),
    "CategoricalRBM": lambda: CategoricalRBM(53, 21, num_hidden=70),
    "Potts": _potts,
    "ScalarPotts": lambda: ScalarPotts(Ising.lattice(5, 0.3).coupling, num_values=3),
    "LatticeGaussian": lambda: LatticeGaussian(torch.eye(5) + 1, [10.0] * 5),
    "QuarticMixture": lambda: QuarticMixture(),
    "ModeGrid": lambda: ModeGrid(),
    "LogisticPosterior": lambda: LogisticPosterior(*table(20)),
    "BinaryNetPosterior": lambda: BinaryNetPosterior(Rows(*table(5)), 20),
    "Clamped": lambda: Clamped(Ising.lattice(20, 0.3), torch.ones(400), mask=torch.arange(400) % 3 == 0),
    "Sum": lambda: Sum([MLP(256), RBM(256, 50)], [0.5, 1.0]),
    "Scaled": lambda: Scaled(Ising.lattice(20, 0.3), 2.0),
    "Mixture": lambda: Mixture([MLP(256), RBM(256, 50)]),
}
SAMPLERS: dict[str, tuple[str, s.Sampler]] = {
    "Gibbs": ("Ising", s.Gibbs()),
    "GibbsSweep": ("Ising", s.GibbsSweep()),
    "ChromaticGibbs": ("Ising", s.ChromaticGibbs()),
    "ChromaticMetropolis": ("Ising", s.ChromaticMetropolis()),
    "SwendsenWang": ("Ising", s.SwendsenWang()),
    "Wolff": ("Ising", s.Wolff()),
    "HammingBall": ("Ising", s.HammingBall(4, 2)),
    "RandomWalk": ("Ising", s.RandomWalk()),
    "LocallyBalanced": ("Ising", s.LocallyBalanced()),
    "GWG": ("Ising", s.GWG()),
    "PathAuxiliary": ("Ising", s.PathAuxiliary(2)),
    "DULA": ("Ising", s.DULA(0.8)),
    "DMALA": ("Ising", s.DMALA(1.6)),
    "Bfloat16Proposals": ("Ising", s.Bfloat16Proposals(s.DMALA(1.6), 2)),
    "DLMC": ("Ising", s.DLMC(0.3)),
    "RegularisedLangevin": ("Ising", s.RegularisedLangevin(2.0)),
    "DiscreteHAMS": ("Ising", s.DiscreteHAMS(1.0)),
    "AnyScale first": ("Ising", s.AnyScale("first")),
    "AnyScale trace": ("Ising", s.AnyScale("trace")),
    "ACS": ("Ising", s.ACS(8.0, 0.5, cycle_length=4)),
    "RelaxedMALA": ("Ising", s.RelaxedMALA(0.5)),
    "DiscreteSVGD": ("Ising", s.DiscreteSVGD(0.3)),
    "BlockGibbs": ("RBM", s.BlockGibbs()),
    "DMALA on an RBM": ("RBM", s.DMALA(0.4)),
    "Tempered DMALA": ("Ising", s.Tempered(s.DMALA(1.6), num_temperatures=3)),
    "TrajectoryTempered DMALA": ("Ising", s.TrajectoryTempered(s.DMALA(1.6), [Ising.lattice(3, 0.1)])),
}


REAL_SAMPLERS: dict[str, s.Sampler] = {
    "BlockGibbs on a GRBM": s.BlockGibbs(),
    "Langevin": s.Langevin(0.1, adjust_from=2),
    "ULA": s.ULA(0.1),
    "MALA": s.MALA(0.1),
    "HMC": s.HMC(0.2, 5),
    "NUTS": s.NUTS(0.3, max_depth=4),
    "UnderdampedLangevin": s.UnderdampedLangevin(0.3),
    "UnderdampedLangevin, adjusted": s.UnderdampedLangevin(0.3, adjusted=True),
    "GibbsLangevin": s.GibbsLangevin(0.1),
    "GibbsLangevin, adjusted": s.GibbsLangevin(0.1, adjust_from=0),
}


def table(num_features: int, num_rows: int = 50) -> tuple[Tensor, Tensor]:
    """A table of fixed random features and targets."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num_rows, num_features, generator=generator), (torch.arange(num_rows) % 2).float()


def small_target(name: str) -> Energy:
    """Nine spins, or an RBM of nine visible units."""
    if name == "Ising":
        return Ising.lattice(3, 0.3, field=0.2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rbm = RBM(9, 4)
        torch.nn.init.normal_(rbm.W)
    return rbm.requires_grad_(False)


def check_energies(device: torch.device) -> bool:
    print("\n| energy | largest relative deviation of E | of dE/dx | of neighbours | |\n|---|---|---|---|---|")
    fine = True
    for name, make in ENERGIES.items():
        torch.manual_seed(0)
        energy = make()
        x = energy.domain.random(64)
        small, large = energy.to(device), make().double()
        large.load_state_dict(energy.state_dict())
        with _precision("float32", device):
            ours = small.value_and_grad(x.to(device))
        pairs = zip(ours, large.value_and_grad(x.double()), strict=True)
        values = [_deviation(mine, exact) for mine, exact in pairs]
        if isinstance(energy.domain, Finite):
            index = torch.randint(energy.domain.size, (64, 8))
            ours = small.value_differences(x.to(device), index.to(device))
            theirs = large.value_differences(x.double(), index)
            values.append(
                _deviation(ours, theirs, large(x.double()))
            )  # a difference of energies has the errors of both
        ok = max(values) < 1e-3
        fine &= ok
        cells = " | ".join(f"{v:.1e}" for v in values) + (" | -" if len(values) == 2 else "")
        print(f"| {name} | {cells} | {'ok' if ok else 'DISAGREES'} |", flush=True)
    return fine


def _deviation(ours: Tensor, exact: Tensor, scale: Tensor | None = None) -> float:
    largest = (exact if scale is None else scale).abs().max().clamp(min=1e-12)
    return float(((ours.double().cpu() - exact).abs().max() / largest).detach())


def check_samplers(device: torch.device) -> bool:
    print("\n| sampler | compared with | p-value | |\n|---|---|---|---|")
    fine = True
    for name, (target, sampler) in SAMPLERS.items():
        torch.manual_seed(0)
        energy = small_target(target)
        start = exact_samples(energy, CHAINS)
        ours = _counts(energy.to(device), sampler.to(device), start.to(device))
        if sampler.exact:
            energy = energy.cpu()
            law = (-energy(energy.domain.enumerate()).double()).softmax(0)
            p, what = float(chisquare(ours.numpy(), CHAINS * law.numpy()).pvalue), "the exact law"
        else:
            torch.manual_seed(1)
            theirs = _counts(energy.cpu(), sampler.cpu(), start)
            table = torch.stack([ours, theirs])
            p, what = float(chi2_contingency(table[:, table.sum(0) > 0].numpy()).pvalue), "the CPU"
        ok = p > 1e-4
        fine &= ok
        print(f"| {name} | {what} | {p:.3f} | {'ok' if ok else 'DISAGREES'} |", flush=True)
    torch.manual_seed(0)
    grbm = GRBM(6, 4).requires_grad_(False)
    torch.nn.init.normal_(grbm.W)
    start = grbm.domain.random(CHAINS)
    for name, sampler in REAL_SAMPLERS.items():
        theirs = sampler.cpu().sample(grbm.cpu(), start, 4)[0].sum(1)
        ours = sampler.to(device).sample(grbm.to(device), start.to(device), 4)[0].sum(1).cpu()
        p = float(ks_2samp(ours.numpy(), theirs.numpy()).pvalue)
        fine &= p > 1e-4
        print(f"| {name} | the CPU | {p:.3f} | {'ok' if p > 1e-4 else 'DISAGREES'} |", flush=True)
    return fine


def _counts(energy: Energy, sampler: s.Sampler, x: Tensor) -> Tensor:
    x, _ = sampler.sample(energy, x, 4)
    return _occurrences(x)[_order(x.shape[1])]


def _order(size: int) -> Tensor:
    """The states of `enumerate` as numbers whose lowest bit is the first coordinate."""
    return (torch.cartesian_prod(*[torch.arange(2)] * size) * 2 ** torch.arange(size)).sum(1)


def check_settings(device: torch.device, batch_size: int = 100, steps: int = 20) -> bool:
    """Times chains of the deep EBM with each setting, and prints its error of energies and gradients."""
    print("\n| setting | DMALA steps per second | replayed | deviation of E | of dE/dx | |\n|---|---|---|---|---|---|")
    torch.manual_seed(0)
    plain = ResNet((28, 28)).to(device)
    x = plain.domain.random(batch_size, device=device)
    with _precision("float32", device):
        reference = [t.double().cpu() for t in plain.value_and_grad(x)]
    fine = True
    for name in ("float32", "channels last", "TF32", "bf16", "compiled", "compiled, TF32"):
        torch.manual_seed(0)
        energy = ResNet((28, 28)).to(device)
        if "compiled" in name:
            energy.compile()
        if name == "channels last":
            energy = energy.to(memory_format=torch.channels_last)
        with _precision(name, device):
            pairs = zip(energy.value_and_grad(x), reference, strict=True)
            values = [_deviation(ours, exact) for ours, exact in pairs]
            sampler = s.DMALA(0.15)
            sampler.to(device).sample(energy, x, 2)
            _wait(device)
            begin = time.perf_counter()
            sampler.sample(energy, x, steps)
            _wait(device)
            rate = steps / (time.perf_counter() - begin)
            replayed = _rate_of_replay(sampler, energy, x, steps) if device.type == "cuda" else "-"
        ok = max(values) < (0.1 if "bf16" in name else 0.02 if "TF32" in name else 1e-3)
        fine &= ok
        print(
            f"| {name} | {rate:.1f} | {replayed} | {values[0]:.1e} | {values[1]:.1e} | {'ok' if ok else 'DISAGREES'} |",
            flush=True,
        )
    return fine


def _rate_of_replay(sampler: s.Sampler, energy: Energy, x: Tensor, steps: int) -> str:
    """Steps per second of a CUDA graph of `steps` steps."""
    replayed = Replayed()
    call = partial(replayed, lambda x: (sampler._run(energy, x, steps),), x, energy, sampler)
    call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    return f"{10 * steps / (time.perf_counter() - begin):.1f}"


def check_compiled_steps(device: torch.device, steps: int = 200) -> bool:
    """Times chains whose steps are compiled beside plain ones, and tests whether they stay in the exact law."""
    print("\n| sampler, chains | steps per second | compiled | replayed | p of the law | |\n|---|---|---|---|---|---|")
    torch.manual_seed(0)
    small, large = RBM(6, 4).requires_grad_(False), RBM(784, 500).to(device).requires_grad_(False)
    small.W *= 50
    exact = exact_samples(small, 20_000).to(device)
    small, fine = small.to(device), True
    for sampler in (s.DMALA(0.4), s.ACS(2.0, 0.3, cycle_length=3), s.GWG(), s.BlockGibbs()):
        after = sampler.to(device).last_states(small, exact, 19, compile=True)
        table = torch.stack([_occurrences(exact), _occurrences(after)])
        p = chi2_contingency(table[:, table.sum(0) > 0].numpy()).pvalue
        fine &= (ok := p > 1e-4)
        for chains in (1, 100):
            x, rates = large.domain.random(chains, device=device), []
            for compile in (False, True):
                sampler.last_states(large, x, 16, compile=compile)
                _wait(device)
                begin = time.perf_counter()
                sampler.last_states(large, x, steps, compile=compile)
                _wait(device)
                rates.append(f"{steps / (time.perf_counter() - begin):.0f}")
            rates.append(_rate_of_replay(sampler, large, x, steps) if device.type == "cuda" else "-")
            name = f"{type(sampler).__name__}, {chains}"
            print(f"| {name} | {' | '.join(rates)} | {p:.2g} | {'ok' if ok else 'DISAGREES'} |", flush=True)
    return fine


def _occurrences(x: Tensor) -> Tensor:
    """How often each state of a few bits or spins occurs."""
    numbers = ((x > 0).long().cpu() * 2 ** torch.arange(x.shape[1])).sum(1)
    return numbers.bincount(minlength=2 ** x.shape[1])


@contextmanager
def _precision(name: str, device: torch.device) -> Iterator[None]:
    before = Float32Settings.now()
    torch.set_float32_matmul_precision("high" if "TF32" in name else "highest")
    torch.backends.cudnn.allow_tf32 = "TF32" in name
    with torch.autocast(device.type, torch.bfloat16, enabled="bf16" in name):
        yield
    before.restore()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


METER = '''
import sys
import time
import pytorch_lightning as pl
import torch

class Meter(pl.Callback):
    """Iterations per second after the first ten."""
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 10:
            self.begin, self.first = time.perf_counter(), trainer.global_step
        self.last = trainer.global_step

    def on_train_end(self, trainer, learner):
        if trainer.global_step <= 10:
            sys.exit("only " + str(trainer.global_step) + " iterations, too few to be timed: give it more --minutes")
        rate = (self.last - self.first) / (time.perf_counter() - self.begin)
        memory = torch.cuda.max_memory_allocated() / 2**20 if learner.device.type == "cuda" else 0
        whole = trainer.num_training_batches * WHOLE / rate / 3600
        print(f"METER | {self.last} | {rate:.2f} | {memory:.0f} | {whole:.1f} |", flush=True)
'''


def check_training(device: torch.device, minutes: float, folder: Path) -> bool:
    print("\n| config | iterations done | iterations per second | peak MiB | hours of all iterations |")
    print("|---|---|---|---|---|", flush=True)
    fine = True
    seconds = int(60 * minutes)
    environment = {**os.environ, "EBMLAB_DATA": str(data_root(None).absolute())}
    for name, (stem, callbacks, options) in TRAININGS.items():
        path = ROOT / "configs" / f"{stem}.yaml"
        config = read_config(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "meter.py").write_text(METER.replace("WHOLE", str(config["trainer"]["max_epochs"])))
        listed = [{"class_path": "meter.Meter"}, *callbacks]
        (folder / "meter.yaml").write_text(yaml.dump({"trainer": {"callbacks": listed}}))
        command = [sys.executable, "-m", "ebmlab", "fit", "--config", str(path), "--config", "meter.yaml"]
        command += [f"--trainer.max_time=00:00:{seconds // 60:02d}:{seconds % 60:02d}", "--wandb=disabled"]
        command += [f"--trainer.accelerator={'gpu' if device.type == 'cuda' else 'cpu'}", "--trainer.devices=1"]
        command += ["--trainer.limit_val_batches=0", "--trainer.enable_progress_bar=false", *options]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        found = [line for line in done.stdout.splitlines() if line.startswith("METER")]
        ok = done.returncode == 0 and bool(found)
        fine &= ok
        reason = ["", *filter(str.strip, done.stderr.splitlines())][-1]
        print(f"| {name} {found[0].removeprefix('METER') if ok else '| FAILED: ' + reason}", flush=True)
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=3, help="of training for each config")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=CHECKS, help="these checks alone")
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu_check"), help="where the training runs go")
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("error: no CUDA device here; --device cpu tries the script without one")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}")

    def trainings(device: torch.device) -> bool:
        return check_training(device, args.minutes, args.folder.absolute())

    functions = (check_energies, check_samplers, check_settings, check_compiled_steps, trainings)
    checks = [check(device) for name, check in zip(CHECKS, functions, strict=True) if name in args.only]
    print("\nall agree" if all(checks) else "\nsomething disagrees or failed, see above")
    sys.exit(not all(checks))


if __name__ == "__main__":
    main()
