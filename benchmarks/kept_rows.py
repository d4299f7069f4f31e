"""Rows of results in a file of JSON lines, each written as soon as it is there, so that a cut loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class KeptRows:
    """Rows of a file; a new row takes the place of an older one with the same key.

    Args:
        path: the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: dict[str, Row] = {}
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed
            self.rows[row["key"]] = row

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def add(self, key: str, row: Row) -> None:
        self.rows[key] = {"key": key} | row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(("\n" if self._cut() else "") + json.dumps(self.rows[key]) + "\n")

    def of(self, table: str) -> list[Row]:
        return [row for row in self.rows.values() if row["table"] == table]

    def _cut(self) -> bool:
        """Whether the last line has no end."""
        return self.path.stat().st_size > 0 and not self.path.read_bytes().endswith(b"\n")
