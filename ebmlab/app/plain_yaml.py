"""YAML as plain values: no longer than it looks, whatever its aliases stand for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from ebmlab.errors import UserError, one_line

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MOST = 200_000  # values of a text, those that an alias repeats included


def plain_yaml(text: str, source: object) -> Any:
    """The value that a YAML text stands for.

    Args:
        text: YAML.
        source: its name in error messages.

    Raises:
        UserError: it is not valid, has a key twice, or aliases make it endless or huge.
    """
    with checked_yaml(text, source):
        return yaml.load(text, LOADER)


def num_values(value: Any) -> int:
    """How many values a plain value has, names of options included, of which `plain_yaml` reads `MOST` at most.

    Example:
        >>> num_values({"a": [1, 2]})
        5
    """
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return 1 + sum(map(num_values, value)) if isinstance(value, list) else 1


def as_mapping(value: Any, source: object, such: str) -> dict[str, Any]:
    """The value of a YAML text, which must be options by name.

    Args:
        value: what the text stands for; None if it is empty or has comments alone.
        source: the text's name in error messages.
        such: an example of what it may hold.

    Raises:
        UserError: it is empty, a list or a single value.
    """
    if not isinstance(value, dict):
        held = "is empty" if value is None else "is a list" if isinstance(value, list) else f"holds only {value!r:.40}"
        raise UserError(f"{source} {held}, but must have options by name, such as {such}")
    return value


@contextmanager
def checked_yaml(text: str, source: object) -> Iterator[None]:
    """Reads a text within, after a look at its size; raises `UserError` if it is not valid or too large."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)  # whose errors say more than those of libyaml
        if (size := _size(root, {}, set())) > MOST:
            raise UserError(
                f"{source} stands for {size:.2g} values, and may for {MOST:,} at most; aliases (*NAME) repeat parts"
            )
        _check_keys(root, source, set())
        yield
    except RecursionError as error:
        raise UserError(f"{source} is not valid: a part of it contains itself, or it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(
            f"{source}{where} is not valid YAML: {getattr(error, 'problem', '') or one_line(error)}"
        ) from error


def _size(node: yaml.Node | None, known: dict[int, int], within: set[int]) -> int:
    """How many values a node stands for. A part that an alias repeats is counted each time, but walked once."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) in within:
        raise RecursionError
    if id(node) not in known:
        within.add(id(node))
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + sum(_size(part, known, within) for part in parts)
        within.discard(id(node))
    return known[id(node)]


def _check_keys(node: yaml.Node | None, source: object, done: set[int]) -> None:
    """Raises `UserError` if a mapping has a key twice; YAML would silently use the last one."""
    if id(node) in done:  # an alias repeats it
        return
    done.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item, source, done)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise UserError(f"{source}, line {key.start_mark.line + 1}: {key.value} is there twice: keep one")
            if isinstance(key.value, str):
                seen.add(key.value)
            _check_keys(value, source, done)
