"""Kernels in Triton: where they are tested, mutants of them, and a test of their law."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers_mutants import changed
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.fused.interpreter import interpreted
from ebmlab.testing import ExactLaw

DEVICE = "cuda" if torch.cuda.is_available() and not interpreted() else "cpu"
HERE = pytest.mark.skipif(
    find_spec("triton") is None or (DEVICE == "cpu" and not interpreted()),
    reason="tests/fused/test_fused.py runs it on Triton's interpreter, if triton is installed",
)


def p_value(energy: Energy, moved: Callable[[Tensor], Tensor], chains: int = 3000) -> float:
    """Of the hypothesis that exact draws, moved, are exact draws; from a fixed seed."""
    law = ExactLaw(energy.to("cpu"))
    torch.manual_seed(2)
    x = energy.as_states(law.sample(chains))
    energy.to(DEVICE)
    return law.p_value(moved(x.to(DEVICE)).cpu())


def mutated(name: str, old: str, new: str, folder: Path) -> ModuleType:
    """A module in which `new` stands in place of `old`, which occurs once; Triton reads kernels from a file."""
    path = folder / "mutant.py"
    path.write_text(ast.unparse(changed(inspect.getsource(import_module(name)), old, new)))
    spec = importlib.util.spec_from_file_location(f"{name}_mutant", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses ask for it
    spec.loader.exec_module(module)
    return module
