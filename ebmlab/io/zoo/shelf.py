"""Where the models of the zoo lie, and the check that they are what they were."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ebmlab.errors import UNFIT, WHY, UserError, explained
from ebmlab.io.files import whole, write_whole
from ebmlab.io.folders import cache_folder

PREFIX = "zoo"
OURS = Path(__file__).with_name("models")
MANIFEST, CHECKPOINT, CARD, PICTURE, LOG_Z = "manifest.json", "model.ckpt", "README.md", "samples.png", "log_z.json"
FILES = (CHECKPOINT, CARD, PICTURE, LOG_Z)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")


@dataclass(frozen=True)
class Model:
    """What a model's `manifest.json` says.

    Attributes:
        name: by which it is called, `zoo/NAME`.
        files: the sha256 of each of its files.

    Example:
        >>> Model("rbm", {"model.ckpt": 64 * "0"}).name
        'rbm'
    """

    name: str
    files: dict[str, str]

    @classmethod
    def parse(cls, text: str | bytes, source: object) -> Model:
        """Reads the text of a manifest; raises `UserError` if it is none, or names files that no model has."""
        with explained(f"{source} is no manifest of a model ({WHY})", UNFIT):
            content = json.loads(text)
            name, files = str(content["name"]), {str(file): str(digest) for file, digest in content["files"].items()}
        check_name(name)
        digests = all(re.fullmatch("[0-9a-f]{64}", digest) for digest in files.values())
        if not files.keys() <= set(FILES) or CHECKPOINT not in files or not digests:
            raise UserError(f"{source} is no manifest of a model: it must give the sha256 of {', '.join(FILES)}")
        return cls(name, files)

    def check(self, file: str, content: bytes, source: object) -> bytes:
        """The content itself; raises `UserError` if its sha256 is another."""
        if (found := hashlib.sha256(content).hexdigest()) != self.files[file]:
            raise UserError(f"{source} is damaged or another file: its sha256 is {found}, not {self.files[file]}")
        return content

    def write(self, folder: Path) -> None:
        """Writes the manifest."""
        write_whole(folder / MANIFEST, json.dumps({"name": self.name, "files": self.files}, indent=2) + "\n")


def names() -> list[str]:
    """The models that come with ebmlab and those that were pulled.

    Example:
        >>> "rbm-digits" in names()
        True
    """
    return sorted({path.parent.name for shelf in (OURS, pulled()) for path in shelf.glob(f"*/{MANIFEST}")})


def pulled() -> Path:
    """The folder of the models that were pulled, and of copies in use: `zoo` in ebmlab's cache."""
    return cache_folder() / PREFIX


def checkpoint(path: str | Path) -> Path | None:
    """The checkpoint that `zoo/NAME` stands for, after a check of its sha256; None for any other path.

    A model that comes with ebmlab is copied into the cache, where what is computed once, such as log Z, is kept beside.

    Raises:
        UserError: there is no model of that name, or it is damaged.

    Example:
        >>> checkpoint("zoo/rbm-digits").name, checkpoint("runs/a.ckpt")
        ('model.ckpt', None)
    """
    path = Path(path)
    if path.exists() or len(path.parts) != 2 or path.parts[0] != PREFIX:
        return None
    check_name(path.name)
    ours, copy = OURS / path.name, pulled() / path.name
    home = ours if (ours / MANIFEST).is_file() else copy
    if not (home / MANIFEST).is_file():
        known = ", ".join(f"{PREFIX}/{name}" for name in names())
        raise UserError(f"{path}: there is no such model; there are {known}; `python -m ebmlab zoo pull` gets others")
    model = Model.parse((home / MANIFEST).read_bytes(), home / MANIFEST)
    for file in model.files:
        source, target = home / file, copy / file
        if not source.is_file():
            raise UserError(f"{source} is missing: pull the model again, or install ebmlab again")
        content = model.check(file, source.read_bytes(), source)
        if home == ours and not (target.is_file() and target.read_bytes() == content):
            mend = "set EBMLAB_CACHE to a folder that can be written"
            with explained(f"{target} cannot be written ({WHY}): {mend}", OSError), whole(target) as temporary:
                shutil.copyfile(source, temporary)
    return copy / CHECKPOINT


def name_of(checkpoint: Path) -> str | None:
    """The name of the model whose checkpoint this is; None for a checkpoint that is not in the zoo.

    Example:
        >>> name_of(Path("runs/a/checkpoints/last.ckpt")) is None
        True
    """
    folder = checkpoint.absolute().parent
    return folder.name if folder.parent in (OURS, pulled().absolute()) else None


def check_name(name: str) -> None:
    """Raises `UserError` unless a name is small letters, digits, dots and dashes."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name[:80]!r} is no name of a model: use small letters, digits, dots and dashes")
