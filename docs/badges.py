"""The README's badges: `python -m docs.badges` writes docs/pictures/badges.svg out of pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "badges.svg"
WIDTH, HEIGHT, GAP = 6.7, 22, 6  # pixels of a letter, of a badge, between badges


def badges() -> list[tuple[str, str]]:
    """What each badge says, left and right.

    Example:
        >>> badges()[0][0]
        'Python'
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    floors = {line.partition(">=")[0]: line.partition(">=")[2] for line in project["dependencies"]}
    assert settings["tool"]["mypy"]["strict"]
    return [
        ("Python", f"{project['requires-python'].removeprefix('>=')} or newer"),
        ("torch", f"{floors['torch']} or newer"),
        ("Lightning", f"{floors['pytorch-lightning']} or newer"),
        ("hardware", "CPU or GPU"),
        ("types", "mypy strict"),
        ("licence", project["license"]),
    ]


def svg() -> str:
    """The badges in a row.

    Example:
        >>> svg().startswith("<svg")
        True
    """
    parts, left = [], 0.0
    for name, value in badges():
        first, second = (WIDTH * len(text) + 14 for text in (name, value))
        for x, width, colour, text in ((left, first, "#454d5e", name), (left + first, second, "#3949ab", value)):
            parts.append(f'<rect x="{x:.1f}" width="{width:.1f}" height="{HEIGHT}" fill="{colour}"/>')
            parts.append(f'<text x="{x + width / 2:.1f}" y="15">{text}</text>')
        left += first + second + GAP
    label = ", ".join(f"{name} {value}" for name, value in badges())
    font = 'font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" text-anchor="middle"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{left - GAP:.0f}" height="{HEIGHT}" role="img" {font}'
    return "\n".join([f'{head} aria-label="{label}" fill="#fff">', *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg())
    print(PICTURE)
