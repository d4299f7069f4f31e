"""The words of a command line, before any parser has read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options, each with its value or the word after it."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        if option.startswith("-"):
            yield option, value if equals else after
