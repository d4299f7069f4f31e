"""Lets mkdocstrings render our `Example:` sections as code: griffe knows them as `Examples:`."""

from __future__ import annotations

from typing import Any

import griffe


class Example(griffe.Extension):
    """Renames the heading of the section in each docstring."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
