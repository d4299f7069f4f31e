"""`compare` says what differs between runs, and how good each is, from the files in their folders."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from helpers_errors import refused
from PIL import Image

from ebmlab.app.compare import compare
from ebmlab.app.finished_run import read_run

CHECKPOINT = "pytorch_lightning.callbacks.ModelCheckpoint"
DMALA = {"class_path": "ebmlab.samplers.DMALA", "init_args": {"step_size": 0.1}}
CONFIG = {
    "seed_everything": 0,
    "trainer": {
        "callbacks": [
            {"class_path": "callbacks.RunState"},
            {
                "class_path": "pytorch_lightning.callbacks.ModelCheckpoint",
                "init_args": {"monitor": None, "mode": "min"},
            },
            {
                "class_path": "pytorch_lightning.callbacks.ModelCheckpoint",
                "init_args": {"monitor": "score", "mode": "max"},
            },
        ]
    },
    "model": {
        "class_path": "L",
        "init_args": {"sampler": DMALA},
    },
}
METRICS = """step,train/loss,ais/log_likelihood,ais/std_error,ais/trusted,fid/classifier,score,val/energy,epoch
9,1.0,,,,,,,0
19,,-120.0,0.5,1,9.0,1.0,3.5,1
29,,-100.0,0.25,1,7.0,3.0,2.5,2
39,,-50.0,,0,8.0,2.0,1.5,3
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the folder of a run."""
    monkeypatch.chdir(tmp_path)

    def call(name: str, metrics: str = METRICS, step_size: float = 0.1, **files: str) -> Path:
        folder = Path("runs", "digits", name)
        folder.mkdir(parents=True)
        config = yaml.safe_load(yaml.safe_dump(CONFIG))
        config["model"]["init_args"]["sampler"]["init_args"]["step_size"] = step_size
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "metrics.csv").write_text(metrics)
        for file, text in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text)
        return folder

    return call


def lines(text: str) -> dict[str, list[str]]:
    return {cells[0]: cells[1:] for line in text.splitlines() if len(cells := re.split(r"  +", line)) > 1}


def test_the_table(make: Callable[..., Path]) -> None:
    untrusted = METRICS.replace(",0.5,1,", ",,0,").replace(",0.25,1,", ",,0,")
    tested = {"test/metrics.csv": "step,ais/log_likelihood,ais/std_error,ais/trusted\n40,-101.0,0.1,1.0\n"}
    a, b = make("a", **{"seconds.txt": "12.4\n"}, **tested), make("b", untrusted, step_size=0.2)
    table = lines(compare([str(a), str(b)]))
    assert table == {
        "": ["a", "b"],
        "model.sampler.step_size": ["0.1", "0.2"],
        "steps": ["40", "40"],
        "seconds": ["12", "-"],
        "ais/log_likelihood, best": ["-100 +- 0.25 at 29", "none trusted"],
        "ais/log_likelihood, last": ["-50 at 39, not trusted", "-50 at 39, not trusted"],
        "test ais/log_likelihood, last": ["-101 +- 0.1 at 40", "-"],
        "fid/classifier, best": ["7 at 29", "7 at 29"],
        "fid/classifier, last": ["8 at 39", "8 at 39"],
        "score, best": ["3 at 30", "3 at 30"],
        "score, last": ["2 at 40", "2 at 40"],
        "val/energy, last": ["1.5 at 40", "1.5 at 40"],
    }


def test_lower_is_better_for_whole_words_of_a_name(make: Callable[..., Path]) -> None:
    lower = ["fid/classifier", "val-loss", "own/fid_2", "ood/noise/fpr95", "mmd", "coupling/rmse_paper"]
    other = ["samples/confidence", "own/lossless", "own/glossy", "flames/hammmd"]
    names = [*lower, *other]
    metrics = f"step,{','.join(names)}\n9{',1' * len(names)}\n19{',2' * len(names)}\n"
    assert list(read_run(make("a", metrics)).modes) == lower


def test_untrusted_bits_per_dimension_are_never_the_best(make: Callable[..., Path]) -> None:
    metrics = METRICS.replace("ais/log_likelihood", "ais/bits_per_dim").replace("-", "")
    config = yaml.safe_dump(CONFIG).replace("monitor: score", "monitor: ais/bits_per_dim").replace("max", "min")
    runs = [str(make(name, metrics, **{"config.yaml": config})) for name in ("a", "b")]
    table = lines(compare(runs))
    assert table["ais/bits_per_dim, best"] == ["100 at 29"] * 2
    assert table["ais/bits_per_dim, last"] == ["50 at 39, not trusted"] * 2


def test_every_likelihood_that_is_not_to_be_trusted_says_so(make: Callable[..., Path]) -> None:
    names = ["ais/train_log_likelihood", "trajectory/val_log_likelihood"]
    metrics = f"step,{names[0]},ais/trusted,{names[1]},trajectory/trusted\n9,-90,1,-91,1\n19,-19,0,-15,0\n"
    table = lines(compare([str(make("a", metrics)), str(make("b", metrics))]))
    for name, best in zip(names, ("-90 at 9", "-91 at 10"), strict=True):
        assert table[f"{name}, best"] == [best] * 2
        assert all(cell.endswith("not trusted") for cell in table[f"{name}, last"])


def test_classes_and_callbacks_that_differ(make: Callable[..., Path]) -> None:
    """A class is shown without its module; of a callback that one run lacks, only the name."""
    a, b = make("a"), make("b")
    config = yaml.safe_load((b / "config.yaml").read_text())
    config["model"]["init_args"]["sampler"] = {"class_path": "ebmlab.samplers.Gibbs"}
    config["trainer"]["callbacks"].append({"class_path": "callbacks.FID", "init_args": {"num_samples": 10}})
    (b / "config.yaml").write_text(yaml.safe_dump(config))
    table = lines(compare([str(a), str(b)]))
    assert list(table)[1:4] == ["model.sampler", "model.sampler.step_size", "callbacks.FID"]
    assert table["model.sampler"] == ["DMALA", "Gibbs"] and table["callbacks.FID"] == ["-", "FID"]


def test_files(make: Callable[..., Path]) -> None:
    a, b = make("a"), make("b", step_size=0.2)
    told = compare([str(a), str(b), "--out", "t.csv", "--out=t.md", "--out", "t.png"])
    assert told.splitlines()[-3:] == ["wrote t.csv", "wrote t.md", "wrote t.png"]
    with open("t.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["model.sampler.step_size"] for row in rows] == ["0.1", "0.2"]
    assert float(rows[0]["ais/log_likelihood best"]) == -100 and rows[0]["ais/log_likelihood best error"] == "0.25"
    assert rows[0]["ais/log_likelihood last trusted"] == "False" and rows[1]["fid/classifier best step"] == "29"
    text = Path("t.md").read_text().splitlines()
    assert text[0] == "|  | a | b |" and "| seconds | - | - |" in text
    with Image.open("t.png") as picture:
        assert picture.size[0] > 800
    assert sorted(path.name for path in Path().iterdir()) == ["runs", "t.csv", "t.md", "t.png"]


def test_the_png_has_a_panel_for_each_metric(make: Callable[..., Path]) -> None:
    from ebmlab.drawing.curves import curves

    figure = curves(
        {"a": {"one": [(1, 2.0, True), (2, 9.0, False)]}, "b": {"one": [], "two": [(1, float("nan"), True)]}}
    )
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    curve, crosses = figure.axes[0].lines
    assert list(curve.get_ydata()) == [2.0] and list(crosses.get_ydata()) == [9.0] and crosses.get_marker() == "x"


def test_single_numbers_are_dots_beside_the_names_of_their_runs() -> None:
    from ebmlab.drawing.curves import curves

    (axes,) = curves({"a": {"one": [(40, -2.0, True)], "two": [(40, -3.0, False)], "three": []}}).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["one", "two", "three"]
    assert [(*line.get_xdata(), *line.get_ydata(), line.get_marker()) for line in axes.lines] == [
        (-2.0, 0, "o"),
        (-3.0, 1, "x"),
    ]
    assert axes.get_ylim() == (2.5, -0.5)  # the first on top
    (axes,) = curves({"a": {"one": [(40, -24.4748, True)], "two": [(40, -24.5015, True)]}}).axes
    assert len(axes.get_xticks()) <= 6  # long numbers stand beside each other


def test_without_scores_the_training_is_shown(make: Callable[..., Path]) -> None:
    metrics = "step,train/energy_gap,train/grad_norm\n9,0.5,3.0\n19,0.25,2.0\n"
    table = lines(compare([str(make("a", metrics)), str(make("b", metrics)), "--out", "t.png"]))
    assert table["train/energy_gap, last"] == ["0.25 at 20", "0.25 at 20"] and "train/grad_norm, last" not in table


def test_bad_inputs_are_one_line(make: Callable[..., Path], tmp_path: Path) -> None:
    a, b = make("a"), make("b")
    empty = make("empty", "")
    assert read_run(empty).steps == 0 and lines(compare([str(a), str(empty)]))["steps"] == ["40", "0"]
    broken, binary = make("broken"), make("binary")
    (broken / "config.yaml").write_text("model: [")
    (binary / "metrics.csv").write_bytes(b"\xff\xfe\x00step")
    texts = ("9" * 5000, "\u00b2")
    odd = {text: make(f"odd{i}", f"step,val/energy\n{text},1\n") for i, text in enumerate(texts)}
    assert read_run(odd["\u00b2"]).steps == 0
    callback = make("callback")
    (callback / "config.yaml").write_text("trainer: {callbacks: [1]}")
    (tmp_path / "notes").mkdir()
    for given, said in (
        ([a], "two or more runs"),
        ([a, a], "a run is named twice"),
        ([a, tmp_path / "missing"], "no such folder"),
        ([a, a / "config.yaml"], "no such folder"),
        ([a, tmp_path / "notes"], "not the folder of a run, for it has no config.yaml"),
        ([a, a.parent], "it holds runs, such as"),
        ([a, broken], "broken/config.yaml, line 1 is not valid YAML"),
        ([a, binary], "binary/metrics.csv cannot be read"),
        ([a, odd["9" * 5000]], "odd0/metrics.csv cannot be read"),
        ([a, callback], "callback/config.yaml is not the config of a run"),
        ([a, b, "--out", "t.pdf"], "must end in .csv, .md or .png"),
        ([a, b, "--out", "missing/t.csv"], "missing/t.csv cannot be written"),
        ([a, empty, "--out", "t.csv", "--out"], "expected one argument"),
        ([empty, make("none", ""), "--out", "t.png"], "no metrics to draw"),
        ([a, b, "--format", "html"], "there is no option --format"),
    ):
        with refused(re.escape(said)):
            compare([str(word) for word in given])
    assert not list(tmp_path.glob("t.*"))


def test_no_torch_for_the_table(make: Callable[..., Path]) -> None:
    a, b = make("a"), make("b", step_size=0.2)
    program = (
        "import runpy, sys; sys.argv = ['ebmlab', *sys.argv[1:]]; runpy.run_module('ebmlab', run_name='__main__');"
        "assert not {'torch', 'numpy', 'pytorch_lightning', 'matplotlib'} & set(sys.modules)"
    )
    given = ["compare", str(a), str(b), "--out", "t.md", "--out", "t.csv"]
    done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and re.search(r"model.sampler.step_size +0.1 +0.2", done.stdout)
