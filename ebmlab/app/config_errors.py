"""Turns the parser's long messages about a bad config into one line."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from typing import Any

_NOISE = (
    "Does not validate against any of the Union",
    "Subtypes:",
    "Errors:",
    "Given value type",
    "Expected a <class 'NoneType'>",
    "Not a valid subclass",
    "Subclass types expect",
    "a class path (str)",
    "a dict with",
)

_BASES = {  # what the parser takes options for where no class is named
    "pytorch_lightning.LightningModule": "model",
    "pytorch_lightning.LightningDataModule": "data",
}
_OWNER = re.compile(r"(?:([\w.]+): )?Problem with given class_path '([\w.]+)': ")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a word",
    "dict": "options by name, such as `{NAME: {class_path: CLASS}}`; a file goes by --config",
}


def parser_message(message: str) -> str:
    """The parser's message in one line, without printed types and objects, with a suggestion for a misspelt option."""
    lines = [re.sub(r'^Parser key "([^"]+)":', r"\1:", line.strip(" -\t")) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(_NOISE) and not _is_dump(line)]
    text = " ".join(dict.fromkeys(kept)) or " ".join(message.split())
    if found := re.search(r"UserError raised while resolving interpolation: (.*?) full_key: ", text):
        return found[1]
    if found := re.search(r"Importing '([\w.]+)' is not allowed", text):
        return _not_allowed(found[1])
    return _wrong_class(text) or _wrong_option(text) or _of_kinds(_in_words(_without_types(text)))[:500]


def _not_allowed(path: str) -> str:
    from ebmlab.app.trust import denied  # imports torch

    if which := _BASES.get(path):
        return f"options of the {which} are given, but no {which}: name it by --config FILE or --{which} CLASS"
    return denied(path)


def _wrong_class(text: str) -> str:
    """What is wrong with a class path; "" if the message is about something else."""
    if found := re.search(r"(?:(\w+): )?Expected a path but ([A-Za-z_][\w.]*) either", text):
        option, path = found[1] or "class_path", found[2]
        missing = re.search(r"module '[\w.]+' has no attribute '\w+'|No module named '[\w.]+'", text)
        wanted = re.search(
            r"(?:does not correspond to|Expected '[\w.]+' to be) a subclass of (?:<class ')?((?:\w+\.)*\w+)", text
        )
        if wanted and not missing:
            return _of_another_kind(option, path, wanted[1])
        from ebmlab.app.known_classes import close_class  # imports torch

        if close := close_class(path, option):
            return f"{option}: there is no {path}; did you mean {close}? (`python -m ebmlab list` shows all)"
        if close := _own_class(path):
            return f"{option}: there is no {path}; did you mean {close}?"
        if missing:
            where = "a module of your own must be in the folder where the command is given"
            return f"{option}: there is no {path} ({missing[0]}); {where}"
    if found := re.search(r"(\w+): Expected a path but (\S+) either .* Expected a dot import path string", text):
        return _no_class(found[1], found[2], is_number="Expected a float" in text or "Expected a int" in text)
    if found := re.fullmatch(r"((?:.*: )?)([\w.]+):(?: Given value: (.*))?", text):
        given = f", not {found[3]}" if found[3] else ""
        return f"{found[1]}{found[2]} must be a class path, or class_path with init_args{given}"
    return ""


def _of_another_kind(option: str, path: str, base: str) -> str:
    """A class that is there, but does not derive from `base`."""
    kind = {"Union": "schedule of torch.optim.lr_scheduler"}.get(base, base.rpartition(".")[2])
    hint = f": derive it from {base}" * (kind == "Energy")
    if kind == "LightningDataModule" and _may_be_data(path):
        hint = f"; a Dataset of torch goes into one by --data datamodules.FromDataset --data.train {path}"
    return f"{option}: {path} is no {kind}{hint}"


def _no_class(option: str, value: str, *, is_number: bool) -> str:
    """A value in the place of a class, or of a number if the option may be one."""
    from ebmlab.app.known_classes import MODULES, close_class, known  # imports torch

    if other := known(*MODULES).get(value):
        return f"{option}: {value} is {other}, which cannot be the {option}"
    if is_number:
        return f"{option} is {value!r}, but must be a number"
    if close := close_class(value, option):
        return f"{option}: there is no {value}; did you mean {close}? (`python -m ebmlab list` shows all)"
    if value.isidentifier():
        return f"{option}: there is no {value} (`python -m ebmlab list` shows all)"
    return f"{option} must be a class path, or class_path with init_args, not {value}"


def _wrong_option(text: str) -> str:
    """What is wrong with an option, an argument or a checkpoint; "" if the message is about something else."""
    if found := re.search(r"Subcommand '(\w+)' does not accept option '([\w.]+)'", text):
        from ebmlab.app.known_classes import meant  # imports torch

        hint = f"; did you mean {close.removeprefix('--')}?" if (close := meant(f"--{found[2]}")) else ""
        hint = "; a class goes under model or data" if found[2] == "class_path" else hint
        return f"the config has {found[2]}, which {found[1]} does not take{hint}"
    if found := re.search(r"([\w.]+): Config file loop detected: (\S+) -> ", text):  # it read the file twice
        return f"{found[1]} is {found[2]}, but must be a class: a file of settings goes by --config"
    if found := re.match(r"[Uu]nrecognized arguments: ([^-\s]\S*)", text):
        return f"{found[1]} belongs to no option: a config goes by --config, a run or a checkpoint by --ckpt_path"
    if found := re.match(r"[Uu]nrecognized arguments: (--[\w.+-]+)", text):
        from ebmlab.app.known_classes import meant  # imports torch

        hint = f"; did you mean {close}?" if (close := meant(found[1])) else ""
        return f"there is no option {found[1]}{hint}"
    if found := re.search(r"current_epoch=(\d+), but you have set Trainer\(max_epochs=(\d+)\)", text):
        return (
            f"the checkpoint is of epoch {int(found[1]) + 1}, but trainer.max_epochs is {found[2]}: give a larger "
            "number, or start a new run"
        )
    if found := re.search(r"([\w.]+): Expected one of (.+?)\.? (?:Got|Given) value: (\S+)", text):
        return f"{found[1]} is {found[3]!r}, but must be one of {found[2]}"
    return ""


def _without_types(text: str) -> str:
    """The message without the parser's own names of types and objects."""
    text = re.sub(r"'utf-8' codec can't decode .*", "it is not text in UTF-8", text)
    text = re.sub(r"Type typing\.\S.*? expects a function or a callable class: ", "", text)
    text = re.sub(r"\.? Got value: Namespace\(.*", "", re.sub(r'Parser key "([\w.]+)":', r"\1:", text))
    return re.sub(r"a typing\.Literal\[([^]]*)\]", r"one of \1", re.sub(r"<class '(\w+)'>", r"\1", text))


def _is_dump(line: str) -> bool:
    """Whether a line shows the given value as the parser's own object or as a part of the config."""
    return line.startswith("Given value: ") and any(sign in line for sign in ("NestedArg(", "Namespace(", "{", "["))


def _of_kinds(text: str) -> str:
    """A message that lists the types of an option, as one that says what is given and what it must be."""
    kind = r"Expected (?:an? \w+|one of .+?)\.?"
    found = re.fullmatch(rf"([\w.]+): ({kind}(?: {kind})*) (?:Got|Given) value: (.+)", text)
    if found is None:
        return text
    kinds = re.findall(r"Expected (?:an? )?(one of .+?|\w+)\.?(?= Expected|$)", found[2])
    return f"{found[1]} is {found[3]!r}, but must be {' or '.join(_KINDS.get(kind, kind) for kind in kinds)}"


def _in_words(text: str) -> str:
    """The message with the setting's full name first, and without the paths of the classes on the way to it."""
    places: list[str] = []
    owner = ""
    while found := _OWNER.match(text):
        places += [found[1]] if found[1] else []
        owner, text = found[2], text[found.end() :]
    name = owner.rpartition(".")[2]
    if owner and (inner := re.match(r"([a-z_]\w*): ", text)):
        places, owner, text = [*places, inner[1]], "", text[inner.end() :]
        name = name if "required" in text else ""
    place = ".".join(places)
    if not place:
        return text
    if found := re.fullmatch(r"Option '([\w.]+)' is not accepted", text):
        return f"{f'{place}: {name}' if name else place} has no option {found[1]}{_suggestion(place, found[1], owner)}"
    if found := re.fullmatch(r"the following arguments are required: (.*)", text):
        return f"{place}: {name + ' needs' if owner else 'there must be'} {found[1]}{_home(owner)}"
    if found := re.fullmatch(r"Expected an? (\w+)\. Got value: (.*)", text):
        return f"{place} is {found[2]!r}, but must be {_KINDS.get(found[1], found[1])}"
    return f"{place}: {text}"


def _suggestion(place: str, option: str, owner: str) -> str:
    """What was meant by an option that a class does not have, or all that it has."""
    from ebmlab.app.known_classes import data_with, deeper  # imports torch
    from ebmlab.app.trust import found as trusted

    if meant := deeper(place, option):
        return f"; did you mean {meant}?"
    if not owner:
        return ""
    try:
        target: Any = trusted(owner)
        accepted = [p for p in inspect.signature(target).parameters if p not in ("self", "args", "kwargs")]
    except (TypeError, ValueError):
        return ""
    if close := difflib.get_close_matches(option, accepted, n=1):
        return f"; did you mean {close[0]}?"
    if place == "data" and (other := data_with(option)):  # the data set that was meant was not named
        return f"; {other} has it: --data {other} --data.{option}"
    return f"; it has {', '.join(accepted) or 'none'}"


def _home(owner: str) -> str:
    """Where a sampler or an energy lives, for those who give it no settings because they mistook it for another."""
    from ebmlab.app.trust import found as trusted  # imports torch

    kinds = " or ".join(kind.__name__ for kind in getattr(trusted(owner), "domains", ()))
    return f" (it is for {kinds} domains)" if kinds not in ("", "Domain") else ""


def _own_class(path: str) -> str:
    """The class of a module that was meant by a path with another name; "" if the module has none alike."""
    name, _, kind = path.rpartition(".")
    if (module := sys.modules.get(name)) is None:
        return ""
    kinds = [key for key, value in vars(module).items() if isinstance(value, type)]
    close = difflib.get_close_matches(kind, kinds, 1)
    return f"{name}.{close[0]}" if close else ""


def _may_be_data(path: str) -> bool:
    """Whether a class path names a Dataset of torch, or nothing that is known."""
    from torch.utils.data import Dataset

    from ebmlab.app.trust import found as trusted

    kind = trusted(path)
    return not isinstance(kind, type) or issubclass(kind, Dataset)
