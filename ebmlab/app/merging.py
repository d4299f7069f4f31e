"""The rule by which settings are merged: a config with its base, and a callback with changed options."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

from ebmlab.app.trust import found
from ebmlab.io.old_names import current_settings

SPEC = {"class_path", "init_args", "dict_kwargs"}


def merge(base: Any, change: Any) -> Any:
    """The settings of `base`, changed by those of `change`.

    Mappings merge key by key, and anything else is replaced. A list under a key that ends in `+` is appended to the
    base's list. If `base` has a `class_path`, `change` may give only options, or another class. Options of `base` that
    the other class does not accept are dropped.
    """
    if isinstance(base, str) and isinstance(change, dict):
        base = {"class_path": base}
    if isinstance(base, dict) and "class_path" in base and isinstance(change, str):
        change = {"class_path": change}
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    if "class_path" in base:
        change = {"init_args": change} if change and not change.keys() & SPEC else change
        kind = change.get("class_path", base["class_path"])
        base = _fitting(base, kind)
        if isinstance(options := change.get("init_args"), dict):
            change = {**change, "init_args": current_settings(kind, options)}
    merged = dict(base)
    for key, value in change.items():
        if isinstance(value, list):
            merged.pop(f"{key}+", None)
        goes_on = str(key).endswith("+") and isinstance(base.get(key), list) and isinstance(value, list)
        merged[key] = [*base[key], *value] if goes_on else merge(base.get(key), value)
    return merged


def _fitting(base: dict[str, Any], class_path: str) -> dict[str, Any]:
    """The class `class_path` with those options of `base` that it accepts."""
    if class_path == base["class_path"]:
        return base
    with contextlib.suppress(TypeError, ValueError):  # the parser reports these
        taken = inspect.signature(found(class_path)).parameters
        options = {key: value for key, value in (base.get("init_args") or {}).items() if key in taken}
        return {"class_path": class_path} | ({"init_args": options} if options else {})
    return {"class_path": class_path}
