"""YAML as plain values: no longer than it looks, whatever its aliases stand for."""

from __future__ import annotations

from typing import Any

import yaml

from ebmlab.errors import UserError, one_line

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST = 200_000  # values of a text, those that an alias repeats included


def plain_yaml(text: str, source: object) -> Any:
    """The value that a YAML text stands for.

    Args:
        text: YAML.
        source: its name in error messages.

    Raises:
        UserError: it is not valid, or aliases make it endless or huge.
    """
    loader = LOADER(text)
    try:
        root = loader.get_single_node()
        check_size(root, source)
        return None if root is None else loader.construct_document(root)
    except RecursionError as error:
        raise UserError(f"{source} is not valid: a part of it contains itself, or it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError(f"{source} is not valid YAML: {one_line(error)}") from error
    finally:
        loader.dispose()


def check_size(root: yaml.Node | None, source: object) -> None:
    """Raises `UserError` for more than `MOST` values, and `RecursionError` for a part that contains itself."""
    if (size := _size(root, {}, set())) > MOST:
        raise UserError(f"{source} stands for {size:.2g} values, for its aliases (*NAME) repeat parts: write out fewer")


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
