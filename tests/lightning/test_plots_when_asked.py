"""What stands for plots and the counter of operations acts as they do."""

from __future__ import annotations

import subprocess
import sys

import torch
from matplotlib.figure import Figure

from ebmlab.lightning.plots_when_asked import Axes, Counter, plot


def test_the_counter_counts_what_its_context_sees() -> None:
    counter = Counter(mods=None, display=False, depth=2)
    assert counter.get_total_flops() == 0 and counter.get_flop_counts() == {"Global": {}}
    with counter:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert counter.get_total_flops() == 2 * 2 * 3 * 4 and counter.get_flop_counts()["Global"]


def test_axes_are_recognised_and_values_plotted() -> None:
    figure, axes = plot(torch.tensor([1.0, 2.0]))
    assert isinstance(axes, Axes) and not isinstance(figure, Axes) and not isinstance("axes", Axes)
    assert isinstance(figure, Figure)


def test_both_are_loaded_for_who_asks() -> None:
    code = (
        "import sys, torch, ebmlab.lightning.plots_when_asked as late\n"
        "from ebmlab.lightning.metrics_when_asked import load_metrics_when_asked; load_metrics_when_asked()\n"
        "late.load_plots_when_asked(); assert torch.utils.flop_counter.FlopCounterMode is late.Counter\n"
        "from torchmetrics import Metric\n"
        "import torch.utils.flop_counter as counter, torchmetrics.utilities.plot as plots\n"
        "assert counter.FlopCounterMode is late.Counter and 'matplotlib.pyplot' not in sys.modules\n"
        "assert counter.flop_registry and torch.utils.flop_counter.flop_registry\n"
        "from torch.utils.flop_counter import FlopCounterMode; assert FlopCounterMode is not late.Counter\n"
        "from torchmetrics.utilities.plot import plot_curve; assert 'matplotlib.pyplot' in sys.modules\n"
        "assert not isinstance(sys.modules['torchmetrics.utilities.plot'], late._Module)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
