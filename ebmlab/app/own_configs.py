"""Where configs are: files, texts and pipes of the user's, and ebmlab's own.

Ebmlab's own are in `configs/` beside the package in a checkout, and within the package in a wheel.
"""

from __future__ import annotations

from pathlib import Path

from ebmlab.io.files import read_text

_PACKAGE = Path(__file__).parents[1]
BESIDE = "beside:"  # before the name of a config that lies beside a checkpoint, of which only `closed` settings count
FOLDER = next((f for f in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if f.is_dir()), None)


def own_names() -> dict[str, Path]:
    """The files of ebmlab's configs by name, such as `grbm_digits` and `sampling/ising_5x5`, in order."""
    if FOLDER is None:
        return {}
    return {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in configs_in(FOLDER)}


def configs_in(folder: Path) -> list[Path]:
    """The files of configs in a folder and its subfolders; none that is hidden, as editors and notebooks keep some."""
    paths = sorted(path for path in folder.rglob("*.yaml") if path.is_file())
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def find_config(name: str | Path, beside: Path | None = None) -> Path:
    """The file of a config: the file of that name if there is one, else ebmlab's own config of that name.

    Args:
        name: a path; or the name of one of ebmlab's configs, with or without `configs/` before it and `.yaml` after it.
        beside: the folder that a relative path begins at. Default: the working directory.

    Returns:
        The file; `name` in `beside`, which does not exist, if there is neither.
    """
    path = (beside or Path()) / name
    own = Path(name).as_posix().removesuffix(".yaml").removeprefix("configs/")
    return path if path.is_file() else own_names().get(own, path)


def is_text(value: str) -> bool:
    """Whether what `--config` was given is the text of a config, not the name of a file."""
    return value.lstrip().startswith("{") or "\n" in value


def with_pipes_read(args: list[str]) -> list[str]:
    """A command line in which the text of a config stands for a pipe, such as `<(...)` or /dev/stdin.

    A pipe can be read only once, while a config is read by each process that a command starts.

    Raises:
        UserError: it cannot be read, or has more than 16 MiB.
    """
    found = list(args)
    for i, word in enumerate(args):
        option, equals, value = word.partition("=")
        if option not in ("-c", "--config") or (not equals and i + 1 == len(args)):
            continue
        value = value if equals else args[i + 1]
        if not is_text(value) and (path := Path(value)).exists() and not path.is_file() and not path.is_dir():
            text = f"{read_text(path, pipes=True)}\n"
            found[i if equals else i + 1] = f"{option}={text}" if equals else text
    return found
