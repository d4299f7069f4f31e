#!/usr/bin/env bash
# jsonargparse 4.53.0, class methods as class paths.
# Guess: a class method annotated `-> Self` makes an object from a config, as one annotated with the class's name does.
# Saw: the class path of the one with `Self` is refused, though typing resolves Self to the same class; the other works.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" "jsonargparse[signatures]==4.53.0"
cat > "$folder/shapes.py" <<'PYTHON'
from typing import Self


class Shape:
    def __init__(self, sides: int = 3) -> None:
        self.sides = sides

    @classmethod
    def named(cls, name: str) -> "Shape":
        return cls({"triangle": 3, "square": 4}[name])

    @classmethod
    def called(cls, name: str) -> Self:
        return cls({"triangle": 3, "square": 4}[name])
PYTHON
PYTHONPATH=$folder python3 - <<'PYTHON'
from jsonargparse import ArgumentParser
from shapes import Shape

found = {}
for method in ("named", "called"):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--shape", type=Shape)
    try:
        config = parser.parse_object({"shape": {"class_path": f"shapes.Shape.{method}", "init_args": {"name": "square"}}})
        found[method] = parser.instantiate(config).shape.sides
    except Exception as error:
        found[method] = f"{type(error).__name__}"
print("annotated with the class's name:", found["named"])
print("annotated with Self:", found["called"])
raise SystemExit(0 if found["named"] == 4 and found["called"] != 4 else "the behaviour has changed")
PYTHON
