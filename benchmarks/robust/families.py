"""What a person may well have: tables and arrays in every form, strangers' runs, damaged weights, odd words."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
import yaml

from benchmarks.robust.server import Case
from ebmlab import load
from ebmlab.io.zoo import checkpoint

MODEL = "zoo/rbm-digits"
SAMPLES = 3
ODD = [float("nan"), float("inf"), -float("inf"), 1e38, 2.5, -1.0]
ADDRESSES = ("s3://bucket/a", "gs://bucket/a", "https://host/a", "hdfs://host/a", "file:///a", "azure://a/b")
CONTROL = [
    b"\x1b[2J",
    b"\x00",
    b"\xff",
    b"\r",
    b"\xe2\x80\xae",
    b"&x ",
    b"*x ",
    b"!!python/name:os.system ",
    b"? ",
    b"\t",
]


def families() -> Iterator[Case]:
    """At least 350."""
    yield from tables()
    yield from arrays()
    yield from runs()
    yield from strangers()
    yield from weights()
    yield from words()
    yield from spaces()


@cache
def samples() -> np.ndarray:
    """Bits `(3, 64)`, always the same."""
    return np.random.default_rng(0).integers(0, 2, (SAMPLES, 64))


def energies_are_right(folder: Path) -> str | None:
    """What is wrong with the table that `score` wrote: its energies must be those of the samples."""
    path = folder / "out.csv"
    if not path.exists():
        return "no table was written"
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    expected = load(MODEL).energy(torch.from_numpy(samples()).float())
    found = torch.tensor([float(row[-1]) for row in rows])
    right = found.shape == expected.shape and torch.allclose(found, expected.float(), rtol=1e-4)
    return None if right else f"energies {found.tolist()} in place of {expected.tolist()}"


def score(name: str, file: str, content: bytes, *args: str, right: bool = True) -> Case:
    """A file to be scored; if that succeeds, the energies must be right, or the file must have been refused."""
    check = energies_are_right if right else must_be_refused
    return Case(name, ["score", file, f"--ckpt_path={MODEL}", "--output=out.csv", *args], {file: content}, check)


def must_be_refused(folder: Path) -> str:
    """For what must not end with exit code 0."""
    return "was taken"


def tables() -> Iterator[Case]:
    """The same bits as text: delimiters, headers, ends of lines, encodings, quotes, numbers; and what is no table."""
    names = [f"pixel_{i}" for i in range(64)]
    for delimiter, header, end, encoding in product(",;\t ", (False, True), ("\n", "\r\n"), ("utf-8", "utf-8-sig")):
        lines = [delimiter.join(map(str, row)) for row in samples()]
        text = end.join([delimiter.join(names)] * header + lines) + end
        yield score(f"table {(delimiter, header, end, encoding)}", "d.csv", text.encode(encoding))
    plain = [[str(v) for v in row] for row in samples()]
    forms: dict[str, Callable[[str], str]] = {
        "quoted": lambda v: f'"{v}"',
        "floats": lambda v: f"{v}.0",
        "exponents": lambda v: f"{v}.000e+00",
        "plus signs": lambda v: f"+{v}",
        "spaces": lambda v: f" {v} ",
        "words": lambda v: ("False", "True")[int(v)],
    }
    for name, form in forms.items():
        text = "\n".join(",".join(map(form, row)) for row in plain)
        yield score(f"table {name}", "d.csv", text.encode())
    wrong = [
        "nan",
        "inf",
        "",
        "x",
        "1e999",
        "--1",
        "0x1",
        "1_000",
        "\x1b[31m",
        "-1",
        "1,5",
        "1;1",
        '"',
        "None",
    ]
    for value, place in product(wrong, (0, 63)):
        rows = [list(row) for row in plain]
        rows[1][place] = value
        text = "\n".join(map(",".join, rows))
        yield score(f"table with {value!r} at {place}", "d.csv", text.encode(), right=value == "1_000")
    for name, content in {
        "nothing": b"",
        "a line feed": b"\n",
        "zeros": bytes(99),
        "a header": ",".join(names).encode(),
    }.items():
        yield score(f"table of {name}", "d.csv", content, right=False)


def saved(array: np.ndarray, kind: str) -> bytes:
    """An array as the content of a file."""
    content = io.BytesIO()
    if kind == ".pt":
        torch.save(torch.from_numpy(np.ascontiguousarray(array)), content)
    elif kind == ".npz":
        np.savez(content, x=array)
    else:
        np.save(content, array, allow_pickle=True)
    return content.getvalue()


def arrays() -> Iterator[Case]:
    """The same bits as arrays of every type, order and layout; and arrays with one value that is none of a bit."""
    types = ("?", "i1", "u1", "<i2", ">i2", "<u4", ">u8", "<i8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "longdouble")
    layouts: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "plain": lambda x: x,
        "fortran": np.asfortranarray,
        "flipped": lambda x: x[::-1][::-1],
        "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        "images": lambda x: x.reshape(-1, 1, 8, 8),
    }
    for kind, (name, layout) in product(types, layouts.items()):
        yield score(f"array {kind} {name}", "d.npy", saved(layout(samples().astype(kind)), ".npy"))
    for kind, suffix in product(("?", "u1", "<i8", "<f2", "<f4", "<f8"), (".pt", ".npz")):
        yield score(f"array {kind} {suffix}", f"d{suffix}", saved(samples().astype(kind), suffix))
    for value, suffix, kind in product(ODD, (".npy", ".pt", ".npz"), ("<f4", "<f8")):
        x = samples().astype(kind)
        x[2, 5] = value
        yield score(f"array with {value} {kind} {suffix}", f"d{suffix}", saved(x, suffix), right=False)
    for suffix, other in product((".npy", ".pt", ".npz", ".csv"), (".npy", ".pt", ".npz", ".png")):
        if suffix != other:
            content = b"\x89PNG\r\n" if other == ".png" else saved(samples().astype("<f4"), other)
            right = {suffix, other} == {".npy", ".npz"}  # NumPy's files are known by their content
            yield score(f"{other} named {suffix}", f"d{suffix}", content, right=right)
    odd = {
        "objects": np.array([{}, []], object),
        "text": np.array(["a", "b"]),
        "complex": samples() * 1j,
        "no rows": samples()[:0],
    }
    odd |= {"a number": np.array(3), "columns too few": samples()[:, :9], "dates": samples().astype("M8[D]")}
    for name, array in odd.items():
        yield score(f"array of {name}", "d.npy", saved(array, ".npy"), right=False)


def runs(count: int = 90, seed: int = 1) -> Iterator[Case]:
    """`compare` and `dashboard` of a run of which a few random bytes of one file are others."""
    random_ = random.Random(seed)
    config = yaml.safe_dump(
        {"seed_everything": 0, "model": {"class_path": "a.B", "init_args": {"num_steps": 3}}}
    ).encode()
    rows = b"step,epoch,fid/classifier,ais/log_likelihood,ais/trusted\n1,0,200.5,-90.1,1\n2,1,100.5,-80.1,0\n"
    whole = {
        "config.yaml": config,
        "metrics.csv": rows,
        "seconds.txt": b"12.5\n",
        "steps_taken.txt": b"fid/classifier\n",
    }
    for i in range(count):
        name, spoilt = random_.choice(list(whole)), dict(whole)
        content = bytearray(spoilt[name])
        for _ in range(random_.randint(1, 4)):
            place, change = random_.randrange(len(content) + 1), random_.randrange(4)
            piece = random_.choice([*CONTROL, b"1e999", b",,,", b"9" * 30, b"\n", b"nan", b"2020-01-01"])
            content[place : place + random_.choice((0, 1, 9))] = piece if change else b""
        spoilt[name] = bytes(content)
        files = {f"a/{file}": part for file, part in spoilt.items()} | {
            f"b/{file}": part for file, part in whole.items()
        }
        args = (
            ["compare", "a", "b", "--out=t.csv", "--out=t.md"] if i % 2 else ["dashboard", "a", "b", "--output=d.html"]
        )
        yield Case(f"run {i}, {args[0]} with {name} spoilt", args, files)


def nothing_ran(folder: Path) -> str | None:
    """The harmless sign that a stranger's code would leave."""
    return "a stranger's code ran" if any(folder.rglob("ran")) else None


def strangers() -> Iterator[Case]:
    """A model whose config beside it names code, addresses, variables and folders of its maker's."""
    model = _model().read_bytes()
    code = b"from pathlib import Path\nPath('ran').touch()\nclass Foo: pass\n"
    entries = [
        {"trainer": {"logger": {"class_path": "evil.Foo"}}},
        {"trainer": {"profiler": {"class_path": "evil.Foo"}}},
        {"trainer": {"plugins": [{"class_path": "evil.Foo"}]}},
        {"trainer": {"callbacks": [{"class_path": "evil.Foo"}]}},
        {"trainer": {"default_root_dir": "/elsewhere"}},
        {"trainer": {"strategy": {"class_path": "evil.Foo"}}},
        {"callbacks": {"evil.Foo": True}},
        {"callbacks": {"evil.Foo": False}},
        {"base": "evil.yaml"},
        {"base": "https://host/evil.yaml"},
        {"model": {"class_path": "evil.Foo"}},
        {"model": {"class_path": "ebmlab.learners.ContrastiveDivergence", "init_args": {"energy": "evil.Foo"}}},
        {"model": {"class_path": "ebmlab.learners.ContrastiveDivergence", "init_args": {"optimizer": "evil.Foo"}}},
        {"data": {"class_path": "evil.Foo"}},
        {"data": {"class_path": "ebmlab.datamodules.FromDataset", "init_args": {"train": "evil.Foo"}}},
        {"wandb": "online", "wandb_project": "theirs"},
        {"seed_everything": "${oc.env:HOME}"},
        {"wandb_run": {"notes": "${oc.env:PATH}"}},
        {"${oc.env:HOME}": 3},
        {"model": {"init_args": {"num_steps": "${oc.create:evil.Foo}"}}},
    ]
    for i, (entry, command) in enumerate(product(entries, ("predict", "test", "validate"))):
        args = [command, "--ckpt_path=run", *(["--num_steps=2", "--num_samples=2"] if command == "predict" else [])]
        files = {"run/checkpoints/last.ckpt": model, "run/config.yaml": yaml.safe_dump(entry).encode()}
        yield Case(
            f"stranger {i}: {command} with {entry}", args, files | {"evil.py": code, "run/evil.py": code}, nothing_ran
        )


@cache
def _model() -> Path:
    path = checkpoint(MODEL)
    assert path is not None
    return path


def weights() -> Iterator[Case]:
    """A checkpoint with one number among the weights that is none."""
    whole = torch.load(_model(), weights_only=True)
    names = [name for name, value in whole["state_dict"].items() if value.is_floating_point() and value.numel()]
    commands = {
        "predict": ["predict", "--num_steps=2", "--num_samples=2"],
        "score": ["score", "x.npy", "--output=s.csv"],
        "features": ["features", "x.npy", "--output=f.npy"],
        "complete": ["complete", "x.npy", "--given=top", "--num_steps=2", "--output=c.npy"],
        "zoo export": ["zoo", "export", "a.ckpt", "a.pt2"],
    }
    x = saved(samples().astype("<f4").reshape(-1, 1, 8, 8), ".npy")
    for name, value, (command, args) in product(names, ODD[:3], commands.items()):
        state = {key: part.clone() for key, part in whole["state_dict"].items()}
        state[name].view(-1)[-1] = value
        content = io.BytesIO()
        torch.save(whole | {"state_dict": state}, content)
        where = [] if command == "zoo export" else ["--ckpt_path=a.ckpt"]
        files = {"a.ckpt": content.getvalue(), "x.npy": x}
        yield Case(f"{command} with {value} in {name}", [*args, *where], files, must_be_refused)


def no_folder(folder: Path, refused: bool = True) -> str | None:
    """An address must not have become a folder."""
    return "an address became a folder" if any(":" in path.name for path in folder.rglob("*")) else "was taken"


def words() -> Iterator[Case]:
    """Options that are cut short, and addresses where a file or folder of this machine is meant."""
    for option in ("config", "ckpt_path", "name", "resume", "seed_everything", "trainer", "wandb_project"):
        for length in range(2, len(option)):
            yield Case(f"fit --{option[:length]}", ["fit", f"--{option[:length]}", "a"], {}, must_be_refused)
    for address in ADDRESSES:
        places = {
            "predict": ["predict", f"--ckpt_path={MODEL}", f"--output={address}", "--num_steps=2"],
            "predict of": ["predict", f"--ckpt_path={address}"],
            "score": ["score", address, f"--ckpt_path={MODEL}"],
            "zoo pack": ["zoo", "pack", MODEL, address, "--name=mine", "--card=card.md"],
            "zoo export": ["zoo", "export", MODEL, f"{address}.pt2"],
            "dashboard": ["dashboard", "run", f"--output={address}.html"],
            "compare": ["compare", address, "run"],
            "fit": ["fit", f"--config={address}.yaml"],
        }
        run = {"run/config.yaml": b"seed: 1", "run/metrics.csv": b"step,a\n1,2\n", "card.md": b"# A model"}
        for name, args in places.items():
            yield Case(f"{name} {address}", args, run, partial(no_folder))


def spaces() -> Iterator[Case]:
    """Spaces of a sweep that say nothing that can be tried."""
    ways = [
        3,
        "a",
        None,
        [],
        {},
        {"low": 1},
        {"low": 2, "high": 1},
        {"low": "a", "high": "b"},
        {"low": -1, "high": 1, "log": True},
    ]
    ways += [[[1]], [{}], {"low": 1, "high": 2, "step": 1}, {"low": 1, "high": float("inf")}, {"values": [1, 2]}, True]
    for i, way in enumerate(ways):
        for j, space in enumerate([{"objective": "fid/classifier", "space": {"model.num_steps": way}}]):
            yield Case(f"space {i}.{j}", _sweep(), {"space.yaml": yaml.safe_dump(space).encode()}, must_be_refused)
    for i, name in enumerate([3, None, True, 2.5, "", "a b", "a..b", "-x", "--x", "a=b", "."]):
        space = {"objective": "fid/classifier", "space": {name: [1, 2]}}
        yield Case(f"space of {name!r} {i}", _sweep(), {"space.yaml": yaml.safe_dump(space).encode()}, must_be_refused)
    for i, objective in enumerate([None, 3, "train/loss", "", [], {}, "fid", "FID/classifier"]):
        space = {"objective": objective, "space": {"model.num_steps": [1]}}
        yield Case(
            f"objective {objective!r} {i}", _sweep(), {"space.yaml": yaml.safe_dump(space).encode()}, must_be_refused
        )


def _sweep() -> list[str]:
    return ["sweep", "--config=grbm_digits", "--space=space.yaml", "--trials=1"]
