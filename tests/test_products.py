"""Products of float32 matrices by oneDNN: only where they are exact, and where nobody has decided otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from ebmlab import products
from ebmlab.products import use_onednn


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def willing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AMD processor with AVX-512 and no GPU, whatever the machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "_made_by_amd", lambda: True)


def test_products_stay_as_exact_as_float32() -> None:
    used = use_onednn()
    assert torch.get_float32_matmul_precision() == ("medium" if used else "highest")
    for rows in (1, 3, 16, 100, 1000):
        x, w = torch.randn(rows, 784), torch.randn(784, 500)
        exact = x.double() @ w.double()
        for product in (x @ w, (w.T @ x.T).T, torch.addmm(torch.zeros(500), x, w)):
            assert (product - exact).abs().max() < 3e-4  # bfloat16 is off by 0.1


def test_rounded_products_are_refused(willing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_exact", lambda *shape: shape != products.SHAPES[-1])
    assert not use_onednn()
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("side", [0, 1])
def test_rounding_of_either_matrix_is_noticed(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.Tensor.__matmul__

    def rounded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = (m.bfloat16().float() if i == side else m for i, m in enumerate((a, b)))
        return plain(a, b)

    assert all(products._exact(*shape) for shape in products.SHAPES)
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not any(products._exact(*shape) for shape in products.SHAPES)


def test_a_gpu_an_intel_processor_and_a_decision_are_left_alone(willing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_float32_matmul_precision("high")
    assert not use_onednn() and torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    for owner, name, value in (
        (torch.cuda, "is_available", True),
        (torch.backends.cpu, "get_cpu_capability", "AVX2"),
        (products, "_made_by_amd", False),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, lambda value=value: value)
            assert not use_onednn() and torch.get_float32_matmul_precision() == "highest"


def test_the_command_line_asks_for_it() -> None:
    program = (
        "import sys, torch, ebmlab.products as p; sys.argv = ['ebmlab', 'fit', '--no_such_option'];"
        "p.use_onednn = lambda: print('asked')\n"
        "from ebmlab.__main__ import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("asked"), done.stderr
