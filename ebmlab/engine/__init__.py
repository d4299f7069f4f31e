"""Runs a kernel: step by step, as compiled programs, as a CUDA graph, along a path of energies. It names no kernel."""

from ebmlab.engine.annealed import temperatures
from ebmlab.engine.chain import start, step, steps
from ebmlab.engine.compiled import UNROLLED, Ran, compiling, require_compiler, run_compiled, worth_compiling
from ebmlab.engine.cuda_graph import Replayed
from ebmlab.engine.protocol import Kernel, Report, State
from ebmlab.engine.uneven import UnevenKernel, run_uneven

__all__ = [
    "UNROLLED",
    "Kernel",
    "Ran",
    "Replayed",
    "Report",
    "State",
    "UnevenKernel",
    "compiling",
    "require_compiler",
    "run_compiled",
    "run_uneven",
    "start",
    "step",
    "steps",
    "temperatures",
    "worth_compiling",
]
