"""The commands that use a trained model on files."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_tier import cases
from PIL import Image

import ebmlab
from ebmlab.app.cli import main
from ebmlab.app.sample_files import read_samples
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Digits
from ebmlab.energies import ScalarPotts
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import Gibbs
from ebmlab.trained import TrainedModel, likelihood

RUN = Path("runs/grbm_digits/a")
LAST = RUN / "checkpoints" / "last.ckpt"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def digits(run: Callable[..., None], trained: Path) -> torch.Tensor:
    """Raw digits, in digits.npy too; the working directory has a run that is trained on them."""
    if not (trained / "runs").exists():
        run("fit", "--trainer.max_epochs=1", "--name=a", "--callbacks.FID=false")
        shutil.copytree("runs", trained / "runs")
    else:
        shutil.copytree(trained / "runs", "runs")
    raw = Digits().raw("test")[:30]
    np.save("digits.npy", raw.numpy())
    return raw


@pytest.mark.filterwarnings("ignore:do not trust")
def test_scores_are_those_of_the_loaded_model(
    digits: torch.Tensor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "STEPS", 10)
    np.save("noise.npy", torch.randint(17, (20, 64)).numpy())
    few = ["--num_chains=20", "--num_temperatures=30"]
    main(["score", "digits.npy", "noise.npy", f"--ckpt_path={RUN}", "--log_likelihood", "--output=out/s.csv", *few])
    model = ebmlab.load(RUN)
    with Path("out/s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == ["digits.npy"] * 30 + ["noise.npy"] * 20
    assert [int(row["sample"]) for row in rows] == [*range(30), *range(20)]
    assert [float(row["energy"]) for row in rows[:30]] == pytest.approx(model.energy(digits).tolist())
    likelihoods = model.log_likelihood(digits, 20, num_temperatures=30).values.tolist()
    assert [float(row["log_likelihood"]) for row in rows[:30]] == pytest.approx(likelihoods)
    out = capsys.readouterr().out
    assert "mean log-likelihood" in out and " bits per dimension); log Z = " in out
    assert "AUROC 1.0000 against digits.npy" in out
    with Image.open("out/s.png") as picture:
        assert picture.size[0] > 600


def test_one_sample_is_singular(digits: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("one.npy", digits[:1].numpy())
    main(["score", "one.npy", f"--ckpt_path={RUN}", "--output=one.csv"])
    assert "one.npy: 1 sample, mean energy " in capsys.readouterr().out


def panels_of(path: Path, rows: int, columns: tuple[int, ...]) -> list[np.ndarray]:
    """The panels of a picture of completions of 8 x 8 images, pixel by pixel as before they were enlarged."""
    widths = [9 * number + 1 for number in columns]
    factor = -(-600 // (sum(widths) + 1))  # whole pixels until it is 600 wide
    with Image.open(path) as file:
        picture = np.asarray(file.convert("L")) / 255
    height = (9 * rows + 1) * factor
    assert picture.shape == (height + 34 + 8, sum(widths) * factor + 8 * (len(widths) + 1))
    found, left = [], 8
    for width in widths:
        part = picture[34 : 34 + height, left : left + width * factor]
        found.append(part[factor // 2 :: factor, factor // 2 :: factor])
        left += width * factor + 8
    return found


def test_completions_keep_what_is_given_and_are_drawn_beside_it(digits: torch.Tensor) -> None:
    options = ["--first=3", "--num_samples=2", "--num_steps=5"]
    main(["complete", "digits.npy", "--given=top", f"--ckpt_path={RUN}", *options])
    found = np.load(RUN / "completions.npy")
    truth = digits[:3].numpy() / 16
    assert found.shape == (3, 2, 1, 8, 8)
    assert np.abs(found[..., :4, :] - truth[:, None, :, :4]).max() < 1e-5
    assert (np.abs(found[..., 4:, :] - truth[:, None, :, 4:]) > 0.01).any()
    given, shown, drawn = panels_of(RUN / "completions.png", rows=3, columns=(1, 1, 2))
    assert np.abs(given[1:5, 1:9] - truth[0, 0, :4]).max() < 0.01
    assert np.abs(given[5:9, 1:9] - 0.5).max() < 0.01  # grey where it is not known
    assert np.abs(shown[1:9, 1:9] - truth[0, 0]).max() < 0.01
    assert np.abs(drawn[1:9, 1:9] - found[0, 0, 0]).max() < 0.01  # the first completion
    mask = np.zeros((8, 8), dtype=bool)
    mask[:, 2:5] = True
    np.save("mask.npy", mask)
    main(["complete", "digits.npy", "--given=mask.npy", f"--ckpt_path={RUN}", "--output=c.pt", *options])
    found = torch.load("c.pt", weights_only=True).numpy()
    assert np.abs((found - truth[:, None])[..., mask]).max() < 1e-5


@pytest.mark.parametrize("suffix", ["npy", "npz", "pt"])
def test_booleans_in_files_are_black_and_white(suffix: str, digits: torch.Tensor) -> None:
    """The training data have levels from 0 to 16, among which 1 is nearly black."""
    bits = digits > 8
    write = {"npy": np.save, "npz": lambda path, x: np.savez(path, x=x), "pt": lambda path, x: torch.save(x, path)}
    write[suffix](f"bits.{suffix}", bits if suffix == "pt" else bits.numpy())
    main(["score", f"bits.{suffix}", f"--ckpt_path={RUN}", "--output=s.csv"])
    with Path("s.csv").open() as file:
        scores = [float(row["energy"]) for row in csv.DictReader(file)]
    assert scores == pytest.approx(ebmlab.load(RUN).energy(bits.float()).tolist())
    options = ["--given=top", "--first=2", "--num_samples=1", "--num_steps=1"]
    main(["complete", f"bits.{suffix}", f"--ckpt_path={RUN}", "--output=c.npy", *options])
    assert np.array_equal(np.load("c.npy")[:, 0, :, :4], bits[:2, :, :4].numpy())


def test_features_of_pictures_and_arrays_agree(digits: torch.Tensor) -> None:
    """Pixels of pictures are fractions of 255, levels of arrays fractions of the 16 that the training data have."""
    Path("pictures").mkdir()
    Path("table.csv").write_text("\n".join(",".join(map(str, row)) for row in digits[:4].flatten(1).tolist()))
    bright = (digits[:4].float() * 255 / 16).round()
    for i, image in enumerate(bright):
        Image.fromarray(image[0].byte().numpy()).save(f"pictures/{i}.png")
    model = ebmlab.load(RUN)
    expected, seen = model.features(digits[:4]).numpy(), model.features(bright / 255).numpy()
    for files, output in ((["pictures"], "f.npy"), (["table.csv"], "f.csv"), (["pictures/0.png"], "f.pt")):
        main(["features", *files, f"--ckpt_path={RUN}/checkpoints/last.ckpt", f"--output={output}"])
    assert np.array_equal(np.load("f.npy"), seen) and seen == pytest.approx(expected, abs=0.01)
    assert np.loadtxt("f.csv", delimiter=",") == pytest.approx(expected, abs=1e-6)
    assert torch.load("f.pt", weights_only=True).numpy() == pytest.approx(seen[:1], abs=1e-6)


def test_pictures_are_for_models_of_pixels(tmp_path: Path) -> None:
    Image.new("L", (3, 2), 128).save(tmp_path / "grey.png")
    for form, pixel in (
        (Preprocessing((1, 2, 3), 255.0, unit=True), 128 / 255),
        (Preprocessing((1, 2, 3), 16.0, 16.0, unit=True), 16 * 128 / 255),
    ):
        x = read_samples(str(tmp_path / "grey.png"), form, None, "x").x
        assert x.flatten().tolist() == pytest.approx([pixel] * 6)
    for form, line in (
        (Preprocessing((1, 2, 3)), "trained on numbers of which none means black or white"),
        (Preprocessing((6,)), "the model's samples have shape"),
    ):
        with pytest.raises(UserError, match=line):
            read_samples(str(tmp_path / "grey.png"), form, None, "x")


def test_a_folder_is_read_as_for_training(digits: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden files and folders are left out, linked folders are read, and what pictures lose is said."""
    paths = ("sp/a.png", "sp/.ipynb_checkpoints/a.png", "elsewhere/b.png")
    for path in map(Path, paths):
        path.parent.mkdir(parents=True)
        Image.fromarray(digits[0, 0].mul(16).clamp(max=255).byte().numpy()).save(path)
    Path("sp/._a.png").write_bytes(b"\0\5\x16\7")
    Path("sp/linked").symlink_to(Path("elsewhere").resolve())
    still = [Image.new("L", (8, 8), level) for level in (0, 200)]
    still[0].save("sp/c.gif", save_all=True, append_images=still[1:])
    main(["score", "sp", f"--ckpt_path={RUN}", "--output=s.csv"])
    said = capsys.readouterr()
    assert "sp: 3 samples" in said.out
    assert "sp: 1 pictures have further frames or pages, which are left out" in said.err
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)).save("dark.png")
    with pytest.raises(SystemExit):
        main(["score", "dark.png", f"--ckpt_path={RUN}", "--output=d.csv"])
    assert "dark.png: the pictures have 16 bits, but no level above 0 of 255" in capsys.readouterr().err


def test_each_file_is_scaled_by_its_own_type(digits: torch.Tensor) -> None:
    np.save("fractions.npy", digits[:2].numpy() / 16)
    expected = ebmlab.load(RUN).features(digits[:2]).numpy()
    main(["features", "digits.npy", "fractions.npy", f"--ckpt_path={RUN}", "--output=f.npy"])
    found = np.load("f.npy")
    assert len(found) == 32 and found[:2] == pytest.approx(expected) and found[30:] == pytest.approx(expected, abs=1e-5)
    np.save("levels.npy", digits[:2].numpy())
    options = [f"--ckpt_path={RUN}", "--given=top", "--num_samples=2", "--num_steps=2", "--output=c.npy"]
    main(["complete", "levels.npy", "fractions.npy", "digits.npy", "--first=5", *options])
    found = np.load("c.npy")
    truth = digits[[0, 1, 0, 1, 0]].numpy() / 16
    assert found.shape == (5, 2, 1, 8, 8) and np.abs(found[..., :4, :] - truth[:, None, :, :4]).max() < 1e-5


def test_what_is_not_known_is_grey_in_the_picture(digits: torch.Tensor) -> None:
    half = digits[:1].numpy() / 16
    half[:, :, 4:] = np.nan
    np.save("half.npy", half)
    options = [f"--ckpt_path={RUN}", "--given=top", "--num_samples=1", "--num_steps=2", "--output=c.npy"]
    main(["complete", "half.npy", *options])
    _, shown, _ = panels_of(Path("c.png"), rows=1, columns=(1, 1, 1))
    assert np.abs(shown[1:5, 1:9] - half[0, 0, :4]).max() < 0.01 and np.abs(shown[5:9, 1:9] - 0.5).max() < 0.01


def test_classes_that_are_not_known_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = TrainedModel(
        ContrastiveDivergence(ScalarPotts.lattice(2, 3, coupling=0.4), Gibbs()),
        Preprocessing((4,), num_classes=3),
        path=tmp_path / "a.ckpt",
    )
    monkeypatch.setattr("ebmlab.app.model_commands.load", lambda _: model)
    np.save("x.npy", np.array([[0, 1, np.nan, np.nan], [2, 2, np.nan, 9]]))
    np.save("mask.npy", np.array([True, True, False, False]))
    main(["complete", "x.npy", "--given=mask.npy", "--ckpt_path=a.ckpt", "--output=c.npy", "--num_steps=8"])
    found = np.load("c.npy")
    assert found.shape == (2, 4, 4) and (found[:, :, :2] == [[[0, 1]], [[2, 2]]]).all() and found.max() <= 2


def test_predict_fixes_what_the_condition_says(digits: torch.Tensor) -> None:
    options = [f"--ckpt_path={RUN}", "--num_samples=6", "--batch_size=4", "--trainer.accelerator=cpu"]
    main(["predict", "--condition=3=1,20=0.25", *options])
    samples = torch.load(RUN / "samples" / "samples.pt", weights_only=True).flatten(1)
    assert torch.allclose(samples[:, [3, 20]], torch.tensor([1, 0.25]), atol=1e-5)
    assert samples.std(0).max() > 0


FORMATS = ".npy, .npz, .csv, .pt, .json, .h5, .hdf5, .png, .jpg, .jpeg, .bmp, .gif, .webp, .tif, .tiff"
SAVE = "call a table of text .csv, and save other numbers as .npy"
REFUSED = {
    "score nope.npy": "nope.npy: no such file",
    "score digits.txt": f"digits.txt is none of {FORMATS}: {SAVE}",
    "score digits.parquet": f"digits.parquet is none of {FORMATS}: {SAVE}",
    "score digits.npy --output=s.txt": "--output is s.txt, but must end in .csv",
    "score wide.npy": "wide.npy: raw data have shape (3, 70); it must be (B, 1, 8, 8) or (B, 64)",
    "score digits.npy --num_chains=many": "score: --num_chains is 'many', but must be a whole number",
    "score": "score: the following arguments are required: FILE",
    "score empty": "empty holds no pictures",
    "complete digits.npy --given=middle": "--given is middle, but must be top, bottom, left, right or a .npy file",
    "complete digits.npy --given=wide.npy": "mask must hold True (given) and False (free) alone",
    "complete digits.npy --given=top --first=0": "--first is 0, but must be at least 1",
    "complete digits.npy --given=top --sampler=DMALA": "--sampler is DMALA, but must be one that needs no settings",
    "complete digits.npy --given=top --sampler=Gibbs": "Gibbs samples ",
    "predict --condition=99=1": "--condition: there is no coordinate 99; an event has 64",
    "predict --condition=3=1,3=0": "--condition: coordinate 3 is given twice",
    "predict --condition=a=1": "--condition: a=1 is not NUMBER=VALUE, such as 3=1",
    "predict --condition=half.npy": "--condition: half.npy is not NUMBER=VALUE, such as 3=1; a file of samples goes to",
    "predict --condition=3=1 --denoise=true": "denoise gives means of all units, so --condition cannot fix some",
}


@cases("words", {words: words for words in REFUSED}, fast=list(REFUSED)[::2])
def test_what_does_not_fit_is_refused_in_one_line(
    words: str, digits: torch.Tensor, capfd: pytest.CaptureFixture[str]
) -> None:
    np.save("wide.npy", torch.randn(3, 70).numpy())
    Path("digits.txt").touch()
    Path("digits.parquet").touch()
    Path("empty").mkdir()
    before = sorted(Path().rglob("*"))
    capfd.readouterr()
    with pytest.raises(SystemExit) as error:
        main([*words.split(), f"--ckpt_path={RUN}"])
    lines = capfd.readouterr().err.strip().splitlines()
    assert error.value.code == 2 and lines[-1].startswith(f"error: {REFUSED[words]}")
    assert sorted(Path().rglob("*")) == before


def test_no_command_overwrites_what_it_reads(digits: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.csv").write_text("\n".join(",".join(map(str, row)) for row in digits[:4].flatten(1).tolist()))
    Path("c.png").write_bytes(Path("digits.npy").read_bytes())
    np.save("mask.npy", np.arange(64).reshape(8, 8) < 32)
    Path("link.npy").symlink_to("digits.npy")
    some = ["--num_samples=1", "--num_steps=1", "--first=2"]
    commands = [
        ["score", "d.csv", "--output=d.csv"],
        ["score", "d.csv", "--output=./d.csv"],
        ["features", "digits.npy", "--output=digits.npy"],
        ["features", "digits.npy", "--output=link.npy"],
        ["complete", "digits.npy", "--given=top", "--output=digits.npy", *some],
        ["complete", "digits.npy", "--given=mask.npy", "--output=mask.npy", *some],
    ]
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main([*command, f"--ckpt_path={RUN}" if command[0] != "predict" else f"--ckpt_path={LAST}"])
        assert ended.value.code == 2, command
        assert "is read, and would be overwritten: name another file (--output)" in capsys.readouterr().err, command
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_table_is_written_with_its_picture_or_not_at_all(
    digits: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.png").mkdir()
    for command in (["score", "digits.npy", "--output=s.csv"], ["complete", "digits.npy", "--given=top", "--first=1"]):
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    *command,
                    f"--ckpt_path={RUN}",
                    *(["--output=s.npy", "--num_steps=1"] if command[0] != "score" else []),
                ]
            )
        assert ended.value.code == 2 and "s.png is a folder: name a file" in capsys.readouterr().err
    assert not Path("s.csv").exists() and not Path("s.npy").exists()
