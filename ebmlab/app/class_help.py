"""The options of a class, for words such as `--model.sampler.help DMALA`."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser

from ebmlab.app.class_paths import full_names, short_name
from ebmlab.app.known_classes import MODULES, close_class, known
from ebmlab.app.trust import denied, found, is_trusted
from ebmlab.app.words import options
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import path_of

_WIDTH = 100
_GIVEN = {"optimizer": "params", "lr_scheduler": "optimizer"}  # by the learner, so no options
_SUCH = {
    **{"model": "ContrastiveDivergence", "energy": "RBM", "sampler": "DMALA", "samplers": "DMALA", "targets": "Ising"},
    **{"optimizer": "Adam", "lr_scheduler": "StepLR", "start": "ReplayBuffer", "estimator": "Exact", "data": "Arrays"},
    "callbacks": "SampleGrid",
}  # an example of what each place takes
_ENTRIES = {"targets": "targets.NAME", "samplers": "samplers.NAME.sampler"}  # where a study has options of its parts
_CALLBACKS = ("pytorch_lightning.callbacks", "ebmlab.callbacks")
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def class_help(given: Sequence[str]) -> str | None:
    """The help of the class that a word such as `--model.energy.help` asks for; None if there is no such word.

    Raises:
        UserError: no class is named, or there is no such class.
    """
    for option, value in options(given):
        if not option.startswith("--") or not option.endswith(".help"):
            continue
        place = option.removesuffix(".help").removeprefix("--").removeprefix("trainer.")
        if named := re.fullmatch(r"callbacks\.(.+?)(_\d+)?", place):
            place, value = "callbacks", named[1]
        path = full_names(value)
        if not path or path.startswith("-"):
            such = _SUCH.get(place.rpartition(".")[2])
            example = f"{option} {such}" if such else "--model.energy.help RBM"
            raise UserError(f"{option} needs a class, such as {example} (`python -m ebmlab list` shows all)")
        if "." in path and not is_trusted(path):
            raise UserError(denied(path))
        kind = found(path if "." in path else known(*_CALLBACKS, *MODULES).get(path, ""))
        if not isinstance(kind, type):
            close = close_class(path, place)
            hint = f"; did you mean {close}?" if close else ""
            raise UserError(f"{option}: there is no class {path}{hint} (`python -m ebmlab list` shows all)")
        return _page(kind, given[0], place)
    return None


def _page(kind: type, command: str, place: str) -> str:
    """What a class is, and its options with their meaning, what they may be, and their defaults."""
    chosen = short_name(path_of(kind))
    if place == "callbacks":
        own = known(*_CALLBACKS).get(kind.__name__)
        place, chosen = f"callbacks.{kind.__name__ if own and found(own) is kind else path_of(kind)}", "true"
    place = _ENTRIES.get(place, place)
    parser = ArgumentParser(add_help=False)
    parser.add_class_arguments(kind, place, fail_untyped=False)
    meanings = {action.dest: " ".join(str(action.help or "").split()) for action in parser._actions}
    about = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    lines = [f"usage: python -m ebmlab {command} --{place} {chosen} [OPTIONS]", ""]
    lines += [*textwrap.wrap(" ".join(about.split()), _WIDTH), "", "options:"]
    for name, one in inspect.signature(kind).parameters.items():
        if f"{place}.{name}" not in meanings or name == _GIVEN.get(place.rpartition(".")[2]):
            continue
        lines.append(f"  --{place}.{name} {name.upper()}")
        text = ". ".join(filter(None, [meanings[f"{place}.{name}"].rstrip("."), _allowed(one)])) + "."
        lines += textwrap.wrap(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def _allowed(parameter: inspect.Parameter) -> str:
    """What a parameter may be, if that is a plain value, and its default."""
    given = parameter.annotation
    kind = given if isinstance(given, str) else inspect.formatannotation(given)
    kind = kind.removesuffix(" | None")
    if choices := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", kind):
        kind = f"One of {choices[1]}"
    else:
        kind = _WORDS.get(kind, "")
    if parameter.default is parameter.empty:
        return ", ".join(filter(None, [kind[:1].upper() + kind[1:], "required" if kind else "Required"]))
    default = "" if parameter.default is None else f"default {_value(parameter.default)}"
    text = ", ".join(filter(None, [kind, default]))
    return text[:1].upper() + text[1:]


def _value(default: Any) -> str:
    """A default as the command line takes it."""
    if isinstance(default, functools.partial):
        settings = ", ".join(f"{name} {value}" for name, value in default.keywords.items())
        return f"{default.func.__name__}{' with ' * bool(settings)}{settings}"
    return str(default).lower() if isinstance(default, bool) else str(default)
