"""All kernels become programs of a GPU, which needs none: the interpreter runs code that Triton's compiler refuses."""

from __future__ import annotations

from importlib import import_module

import pytest

from ebmlab.fused.interpreter import COLUMNS, INNER, ROWS, interpreted

PRODUCT = {"ROWS": ROWS, "COLUMNS": COLUMNS, "INNER": INNER, "PRECISION": "ieee"}
PIECES, TF32 = PRODUCT | {"PRECISION": "pieces"}, PRODUCT | {"PRECISION": "tf32"}
WHOLE = ("sites", "offsets", "neighbours", "values", "order", "seed")  # tensors of int64
NUMBERS = ("rows", "inner", "columns", "by_inner", "by_column", "visible", "hidden", "hidden_tiles", "visible_tiles")
NUMBERS += ("num_sites", "size", "entries", "chains", "q", "side", "width", "colour")
KERNELS = [
    ("block_gibbs", "layer_kernel", PRODUCT, {}),
    ("block_gibbs", "layer_kernel", PIECES, {}),
    ("dmala", "hidden_kernel", PRODUCT, {}),
    ("dmala", "hidden_kernel", PIECES, {}),
    ("dmala", "visible_kernel", PRODUCT, {}),
    ("dmala", "visible_kernel", TF32, {}),
    ("dmala", "decide_kernel", {"ROWS": ROWS, "COLUMNS": COLUMNS}, {}),
    ("colours", "colour_kernel", {"SITES": 2, "CHAINS": 128}, {}),
    ("potts", "sweep_kernel", {"CHAINS": 1, "SITES": 256, "VALUES": 32}, {"rows": "*fp32", "sites": "i32"}),
    (
        "lattice_kernel",
        "colour_kernel",
        {"TILE": 256},
        {"words": "*i32", "others": "*i32", "two": "i64", "four": "i64"},
    ),
    (
        "signed_kernel",
        "colour_kernel",
        {"TILE": 128, "COUNTS": 32},
        {"words": "*i32", "flips": "*i32", "thresholds": "*i32"},
    ),
]


@pytest.mark.slow
@pytest.mark.skipif(interpreted(), reason="needs the compiler")
@pytest.mark.parametrize(
    ("file", "name", "sizes", "others"), KERNELS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_kernel_compiles_for_an_a100_and_an_h100(
    file: str, name: str, sizes: dict[str, int], others: dict[str, str]
) -> None:
    triton = pytest.importorskip("triton")
    compiler = pytest.importorskip("triton.backends.compiler")
    kernel = getattr(import_module(f"ebmlab.fused.{file}"), name)
    kinds = dict.fromkeys(sizes, "constexpr") | dict.fromkeys(NUMBERS, "i32") | dict.fromkeys(WHOLE, "*i64") | others
    signature = {argument: kinds.get(argument, "*fp32") for argument in kernel.arg_names}
    for architecture in (80, 90):
        source = triton.compiler.ASTSource(kernel, signature, sizes)
        program = triton.compile(source, target=compiler.GPUTarget("cuda", architecture, 32))
        assert program.asm["cubin"]
