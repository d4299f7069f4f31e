"""`python -m ebmlab list`: all components and configs, one line each."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from ebmlab.domains import Domain

FAMILIES = (
    *("ebmlab.energies", "ebmlab.samplers", "ebmlab.samplers.tuners", "ebmlab.learners", "ebmlab.studies"),
    *("datamodules", "callbacks"),
)
_OURS = ("ebmlab.", "callbacks.", "datamodules.")


def list_components() -> str:
    """Every component of the library, with its class path, domains and first line, and every config."""
    sections = [_family(module) for module in FAMILIES]
    configs = _configs()
    if configs:
        sections.append("configs\n" + "\n".join(configs))
    return "\n\n".join(sections)


def _family(module: str) -> str:
    package = importlib.import_module(module)
    lines = []
    for name in package.__all__:
        item = getattr(package, name)
        if not inspect.isclass(item) or not _is_component(item):
            continue
        domains = ", ".join("any domain" if d is Domain else d.__name__ for d in getattr(item, "domains", ()))
        first = (inspect.getdoc(item) or "").split("\n")[0]
        lines.append(f"  {module}.{name:<22} {f'[{domains}] ' if domains else ''}{first}")
    return "\n".join([module.rpartition(".")[2], *lines])


def _is_component(item: type) -> bool:
    """Whether a class is a complete subclass of a base of ours or of Lightning's. States and records are not."""
    bases = item.__mro__[1:]
    return not _is_base(item) and any(_is_base(b) or b.__module__.startswith("pytorch_lightning.") for b in bases)


def _is_base(item: type) -> bool:
    """Whether a class is a base: abstract, or with subclasses and a method that raises `NotImplementedError`."""
    methods = (getattr(item, name, None) for name in dir(item))
    names = (m.__code__.co_names for m in methods if inspect.isfunction(m) and m.__module__.startswith(_OURS))
    unfinished = any("NotImplementedError" in n for n in names)
    return inspect.isabstract(item) or (unfinished and bool(item.__subclasses__()))


def _configs() -> list[str]:
    folder = next((f for f in (Path("configs"), Path(__file__).parents[2] / "configs") if f.is_dir()), None)
    if folder is None:
        return []
    return [
        f"  {folder / path.relative_to(folder)!s:<36} {path.read_text().splitlines()[0].lstrip('# ')}"
        for path in sorted(folder.rglob("*.yaml"))
    ]
