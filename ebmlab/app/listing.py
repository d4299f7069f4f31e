"""`python -m ebmlab list`: all components and configs, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from ebmlab.app.class_paths import short_name
from ebmlab.app.own_configs import FOLDER, configs_in, own_names
from ebmlab.app.sources import Source, public
from ebmlab.errors import UserError

FAMILIES = (
    *("ebmlab.energies", "ebmlab.samplers", "ebmlab.samplers.tuners", "ebmlab.learners", "ebmlab.studies"),
    *("ebmlab.studies.targets", "ebmlab.datamodules", "ebmlab.callbacks"),
)


def list_components(families: Sequence[str] = ()) -> str:
    """The components of the library, with class paths, domains and first lines, and the configs.

    Args:
        families: such as `energies` and `configs`; all of them by default.

    Raises:
        UserError: there is no such family.
    """
    sections = {"configs": _configs}
    sections = {module.rpartition(".")[2]: partial(_lines, module) for module in FAMILIES} | sections
    if wrong := [name for name in families if name not in sections]:
        raise UserError(f"list: there is no {wrong[0]}; choose {', '.join(sections)}, or give none for all")
    shown = {name: lines() for name, lines in sections.items() if not families or name in families}
    return "\n\n".join("\n".join([name, *lines]) for name, lines in shown.items() if lines)


def _lines(module: str) -> list[str]:
    return [_line(short_name(f"{module}.{name}"), source) for name, source in components(module).items()]


def components(module: str) -> dict[str, Source]:
    """The complete classes of a family that derive from a base of ours or of Lightning's. Records are left out."""
    bases = _bases()

    def is_component(source: Source) -> bool:
        lineage = source.lineage
        foreign = any(name.startswith("pytorch_lightning.") for member in lineage for name in member.foreign)
        return source not in bases and (foreign or not bases.isdisjoint(lineage))

    return {name: source for name, source in public(module).items() if is_component(source)}


@cache
def _bases() -> set[Source]:
    """Classes with subclasses and a method that those have to write."""
    known = {ancestor for family in FAMILIES for source in public(family).values() for ancestor in source.lineage}
    return {base for source in known for base in source.bases if base.is_unfinished}


def _line(path: str, source: Source) -> str:
    domains = ", ".join("any domain" if name == "Domain" else name for name in source.domains)
    return f"  {path:<36} {f'[{domains}] ' if domains else ''}{source.summary}"


def _configs() -> list[str]:
    """Those of ebmlab by name, and the files in the user's own folder `configs`."""
    files = own_names()
    if not (FOLDER and Path("configs").exists() and FOLDER.samefile("configs")):
        files |= {str(path): path for path in configs_in(Path("configs"))}
    texts = {name: path.read_text(errors="replace") for name, path in files.items()}
    return [f"  {name:<36} {(text.splitlines() or [''])[0].lstrip('# ')}" for name, text in texts.items()]
