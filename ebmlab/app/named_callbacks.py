"""Changes, adds or drops callbacks by their names, in a config or by flags."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import pytorch_lightning.callbacks
import yaml
from jsonargparse import get_loader

from ebmlab import callbacks
from ebmlab.app.checks import check_callbacks
from ebmlab.app.class_paths import full_names
from ebmlab.app.merging import merge
from ebmlab.app.trust import CALLBACKS as FLAG
from ebmlab.app.trust import denied, found, is_trusted
from ebmlab.errors import UserError
from ebmlab.io.old_names import current_callback

HELP = """Flags refer to a callback by its class. --callbacks.SampleGrid.every_n_epochs 5 changes an option (and adds
the callback if the config has none), --callbacks.FID false drops a callback, --callbacks.Acceleration true adds one,
and --callbacks.my_module.MyCallback true adds one of yours. The second callback of a class is called NAME_2.
`python -m ebmlab list` shows all callbacks, --callbacks.SampleGrid.help the options of one."""


def take_flags(args: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Separates the flags that name a callback from the other arguments.

    Returns:
        The other arguments, and the changes in the form of a config's `callbacks:` section.

    Raises:
        UserError: a flag has no value, or does not name a class.
    """
    rest: list[str] = []
    changes: dict[str, Any] = {}
    waiting = iter(args)
    for argument in waiting:
        if argument.partition("=")[0] == "--trainer.callbacks":
            value = argument.partition("=")[2] or next(waiting, "")
            if not value.startswith(("[", "null")):
                raise UserError(
                    f"--trainer.callbacks {value} would replace all callbacks: add one by {FLAG}.NAME true, and change "
                    f"its options by {FLAG}.NAME.OPTION VALUE"
                )
            rest.append(f"--trainer.callbacks={value}")
            continue
        if not argument.startswith(FLAG):
            rest.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        name, options = _split(flag.removeprefix(FLAG).removeprefix("."))
        value = value if equals else next(waiting, "--")
        if value.startswith("--"):
            raise UserError(f"{flag} needs a value: an option's, or true to add the callback, or false to drop it")
        change = _value(value)
        for option in reversed(options):
            change = {option: change}
        known = changes.get(name)
        if not (isinstance(known, dict) and change is True):
            changes[name] = merge(known, change)
    return rest, changes


def change_callbacks(entries: Sequence[dict[str, Any]], changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The callbacks of a config after changes by name.

    Args:
        entries: the callbacks, each a `class_path` with its `init_args`.
        changes: by name: options to change, `{}` to add the callback if there is none, None to drop it. A name is a
            class, `NAME_2` for the second callback of a class, or a class path.

    Raises:
        UserError: there is no such callback.
    """
    if not isinstance(changes, dict):
        raise UserError("callbacks: must be names with options, such as `FID: {num_samples: 1000}` or `FID: false`")
    named: dict[str, dict[str, Any] | None] = {}
    for entry in entries:
        named[_next_name(entry["class_path"].rpartition(".")[2], named)] = entry
    for name, change in changes.items():
        name = current_callback(full_names(name))
        if not isinstance(change, dict | None):
            raise UserError(f"callbacks.{name} is {change!r}, but must be true, false or options by name")
        short = name.rpartition(".")[2]
        known = named.get(short)
        if known is not None and (short == name or found(known["class_path"]) is found(name)):
            named[short] = None if change is None else merge(known, change)
            continue
        class_path = _class_path(name, named)
        if isinstance(kind := found(class_path), type):
            check_callbacks([kind])
        if change is not None:
            plain = class_path.rpartition(".")[2]
            new = _next_name(plain, named)
            if short not in (plain, new):
                raise UserError(f"callbacks.{name}: the next {plain} of this config would be called {new}")
            named[new] = merge({"class_path": class_path}, change)
    return [entry for entry in named.values() if entry is not None]


def _split(flag: str) -> tuple[str, list[str]]:
    """Splits a flag into the callback's name, which ends at the first capitalised word, and the path of its option."""
    if not flag:
        raise UserError(f"{FLAG}: name one, such as {FLAG}.SampleGrid.every_n_epochs 5 or {FLAG}.FID false")
    parts = re.fullmatch(r"((?:[a-z_]\w*\.)*[A-Z]\w*)(?:\.(.+))?", flag)
    if not parts:
        raise UserError(f"{FLAG}.{flag}: {_unknown(flag.partition('.')[0], {})}")
    return parts[1], parts[2].split(".") if parts[2] else []


def _value(text: str) -> Any:
    try:
        return get_loader("yaml")(text)
    except yaml.YAMLError:
        return text


def _next_name(kind: str, named: dict[str, Any]) -> str:
    taken = sum(re.fullmatch(rf"{kind}(_\d+)?", name) is not None for name in named)
    return f"{kind}_{taken + 1}" if taken else kind


def _class_path(name: str, named: dict[str, Any]) -> str:
    """The class path of a new callback: the given path, or its name in `ebmlab.callbacks` or in Lightning."""
    for candidate in (name, re.sub(r"_\d+$", "", name)):
        short = "." not in candidate
        paths = [f"{package}.{candidate}" for package in (callbacks.__name__, _LIGHTNING)] if short else [candidate]
        for path in paths:
            if isinstance(found(path), type):
                return path
    if "." in name and not is_trusted(name):
        raise UserError(denied(name))
    raise UserError(f"callbacks.{name}: {_unknown(name, named)}")


_LIGHTNING = pytorch_lightning.callbacks.__name__


def _unknown(name: str, named: dict[str, Any]) -> str:
    known = [*named, *callbacks.__all__, *pytorch_lightning.callbacks.__all__]
    by_lower = {k.lower(): k for k in known if k[0].isupper()}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]}?" if close else "`python -m ebmlab list` shows them"
    return f"there is no callback {name}; {hint}"
