"""The mutants of `python -m benchmarks.mutants` are changes of the tree, whatever the layout of the source."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

from benchmarks.mutants.__main__ import EQUIVALENT, LAYERS, ROOT
from benchmarks.mutants.changes import mutants

SOURCE = """
def f(x):
    if x.sum() > 1 and not done:  # a comment
        return -x.abs().min() / 2
    g(x)
"""


def keys(folder: Path, source: str) -> list[str]:
    (folder / "a.py").write_text(source)
    return [mutant.key for mutant in mutants(folder / "a.py", folder)]


def test_each_change_is_made_once_and_its_key_says_what_it_is(tmp_path: Path) -> None:
    expected = {
        "if x.sum() > 1 and (not done): -> if x.sum() > 1 or not done:",
        "if x.sum() > 1 and (not done): -> if x.sum() >= 1 and (not done):",
        "if x.sum() > 1 and (not done): -> if x.sum() <= 1 and (not done):",
        "if x.sum() > 1 and (not done): -> if x.mean() > 1 and (not done):",
        "if x.sum() > 1 and (not done): -> if x.sum() > 2 and (not done):",
        "if x.sum() > 1 and (not done): -> if x.sum() > 0 and (not done):",
        "if x.sum() > 1 and (not done): -> if x.sum() > 1 and done:",
        "return -x.abs().min() / 2 -> return -x.abs().min() * 2",
        "return -x.abs().min() / 2 -> return x.abs().min() / 2",
        "return -x.abs().min() / 2 -> return -x.abs().max() / 2",
        "return -x.abs().min() / 2 -> return -x.min() / 2",
        "return -x.abs().min() / 2 -> return -x.abs().min() / 3",
        "return -x.abs().min() / 2 -> return -x.abs().min() / 1",
        "g(x) -> pass",
    }
    found = keys(tmp_path, SOURCE)
    assert len(found) == len(set(found)) and set(found) == {f"a.py f: {change}" for change in expected}


def test_a_mutant_is_the_file_with_that_one_change(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    original = ast.unparse(ast.parse(SOURCE))
    sources = [mutant.source(tmp_path) for mutant in mutants(tmp_path / "a.py", tmp_path)]
    assert len(set(sources)) == len(sources) == 14 and original not in sources
    for source in sources:
        lines = zip(source.splitlines(), original.splitlines(), strict=True)
        assert sum(one != two for one, two in lines) == 1


def test_a_reformat_changes_no_key(tmp_path: Path) -> None:
    again = SOURCE.replace("x.sum() > 1 and not done:  # a comment", "(x.sum() > 1\n            and (not done)):")
    assert again != SOURCE and keys(tmp_path, again) == keys(tmp_path, SOURCE)


def test_what_is_listed_as_equivalent_exists() -> None:
    listed = [entry["mutant"] for entry in yaml.safe_load(EQUIVALENT.read_text())]
    for key in listed:
        path = ROOT / key.split(" ")[0]
        assert key.startswith(LAYERS) and key in {mutant.key for mutant in mutants(path, ROOT)}, key
