"""Turns the parser's pages about a bad config into one line."""

from __future__ import annotations

import difflib
import inspect
import re

_NOISE = (
    "Does not validate against any of the Union",
    "Subtypes:",
    "Errors:",
    "Given value",
    "Expected a <class 'NoneType'>",
    "Not a valid subclass",
    "Subclass types expect",
    "a class path (str)",
    "a dict with",
)


def one_line(message: str) -> str:
    """The parser's message without its type dumps, with a suggestion for a misspelt option."""
    key = re.search(r'Parser key "([^"]+)"', message)
    lines = [re.sub(r'^Parser key "[^"]+":\s*', "", line.strip(" -\t")) for line in message.splitlines()]
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    text = " ".join(dict.fromkeys(kept)) or " ".join(message.split())
    hint = _suggestion(text)
    return (f"{key.group(1)}: " if key else "") + text[:500] + hint


def _suggestion(text: str) -> str:
    option = re.search(r"Option '([\w.]+)' is not accepted", text)
    owner = re.findall(r"class_path '([\w.]+)'", text[: option.start()] if option else text)
    if not option or not owner:
        return ""
    module, _, name = owner[-1].rpartition(".")
    try:
        target = getattr(__import__(module, fromlist=[name]), name)
        accepted = [p for p in inspect.signature(target).parameters if p not in ("self", "args", "kwargs")]
    except (ImportError, AttributeError, TypeError, ValueError):
        return ""
    close = difflib.get_close_matches(option.group(1), accepted, n=1)
    return f"; did you mean {close[0]}?" if close else f"; {name} accepts {', '.join(accepted)}"
