"""The configs that come with ebmlab: in `configs/` beside the package in a checkout, within the package in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
FOLDER = next((f for f in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if f.is_dir()), None)


def own_names() -> dict[str, Path]:
    """The files of ebmlab's configs by name, such as `grbm_digits` and `sampling/ising_5x5`, in order.

    Example:
        >>> own_names()["grbm_digits"].name
        'grbm_digits.yaml'
    """
    if FOLDER is None:
        return {}
    return {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in configs_in(FOLDER)}


def configs_in(folder: Path) -> list[Path]:
    """The files of configs in a folder and its subfolders; none that is hidden, as editors and notebooks keep some.

    Example:
        >>> configs_in(Path("no folder"))
        []
    """
    paths = sorted(path for path in folder.rglob("*.yaml") if path.is_file())
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def find_config(name: str | Path, beside: Path | None = None) -> Path:
    """The file of a config: the file of that name if there is one, else ebmlab's own config of that name.

    Args:
        name: a path; or the name of one of ebmlab's configs, with or without `configs/` before it and `.yaml` after it.
        beside: the folder that a relative path begins at. Default: the working directory.

    Returns:
        The file; `name` in `beside`, which does not exist, if there is neither.

    Example:
        >>> [find_config(name).is_file() for name in ("grbm_digits", "configs/sampling/ising_5x5.yaml", "gone")]
        [True, True, False]
    """
    path = (beside or Path()) / name
    own = Path(name).as_posix().removesuffix(".yaml").removeprefix("configs/")
    return path if path.is_file() else own_names().get(own, path)
