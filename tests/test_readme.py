"""The README's Python runs as it stands."""

import re
from pathlib import Path

import torch


def test_readme_blocks_run() -> None:
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.S)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    x = names["x"]
    assert isinstance(x, torch.Tensor)
    assert 0.7 < float(x.abs().mean()) < 1.0  # the wells are at -1 and +1
    assert 0.3 < float((x > 0).float().mean()) < 0.7
