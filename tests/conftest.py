from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch

os.environ["JSONARGPARSE_DEPRECATION_WARNINGS"] = "off"  # Lightning 2.6 calls jsonargparse by older names
os.environ["WANDB_SILENT"] = "true"
torch.set_num_threads(1)  # small tensors: several threads only wait for each other


@pytest.fixture(autouse=True)
def sketches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws pictures coarsely and without a layout, a third of a short run; tests/drawing looks at them."""
    matplotlib = sys.modules.get("matplotlib.figure")
    if matplotlib is None or request.path.parent.name == "drawing":
        return
    own = matplotlib.Figure.savefig

    def savefig(figure: Any, target: Any, **options: Any) -> None:
        figure.set_layout_engine("none")
        own(figure, target, **(options | {"dpi": 20}))

    monkeypatch.setattr(matplotlib.Figure, "savefig", savefig)
