"""What a command costs before it works: processor seconds of a process over those of `import torch`.

    python -m benchmarks.first_second                  # five rounds
    python -m benchmarks.first_second --rounds 9 --write    # also writes the table into docs/appendix/races.md

Every line is a process of its own, one thread. Training ends where its first step begins. Lines take turns, after a
round that counts for nothing, in which Python keeps the modules' bytecode as it does for everybody.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.tables import put

PAGE = Path("docs/appendix/races.md")
END = """
import json, os, resource, sys
def end():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2]), file=sys.__stdout__, flush=True)
    os._exit(0)
"""
LOOK = f"""{END}
import pytorch_lightning as pl
class Look(pl.Callback):
    def on_train_batch_start(self, *_): end()
"""
COMMAND = "import sys, ebmlab.__main__ as it; sys.argv[1:] = {words}; it.main()"
ZOO = "--ckpt_path", "zoo/rbm-digits"
LINES = {
    "`import torch`": "import torch",
    "`import pytorch_lightning`": "import pytorch_lightning",
    "`ebmlab.load`, and 20 samples": "import ebmlab; ebmlab.load('zoo/rbm-digits').sample(20, 10)",
    "`predict`, 20 samples": ["predict", *ZOO, "--num_samples", "20", "--num_steps", "10", "--output", "drawn"],
    "`score`, 20 rows": ["score", "rows/samples.pt", *ZOO, "--output", "scores.csv"],
    "`fit` of `moons` until its first step": ["fit", "--config", "moons"],
    "`fit` of `grbm_digits` until its first step": ["fit", "--config", "grbm_digits"],
}


def used(line: str | list[str], folder: Path) -> tuple[float, float]:
    """Processor seconds of a line's process, and its peak memory in GiB."""
    for made in (folder / "scores.csv", folder / "scores.png", *folder.glob("drawn/*")):
        made.unlink(missing_ok=True)
    code = line
    if isinstance(line, list):
        more = ["--trainer.fast_dev_run", "true", "--trainer.accelerator", "cpu", "--trainer.callbacks+=look.Look"]
        code = COMMAND.format(words=line + more * (line[0] == "fit"))
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": os.getcwd()}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | settings
    command = [sys.executable, "-W", "ignore", "-c", f"{END}{code}\nend()"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    try:
        seconds, memory = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise SystemExit(f"{line}: {done.stderr}") from error
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in LINES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "look.py").write_text(LOOK)
        used([*LINES["`predict`, 20 samples"][:-1], "rows"], folder)
        for _ in range(options.rounds + 1):
            for line, code in LINES.items():
                found[line].append(used(code, folder))
    torch_seconds = [seconds for seconds, _ in found["`import torch`"][1:]]
    rows = ["| process | CPU seconds | over `import torch` | peak memory, GiB |", "|---|---|---|---|"]
    for line, results in found.items():
        seconds, memory = zip(*results[1:], strict=True)
        ratio = statistics.median(mine / theirs for mine, theirs in zip(seconds, torch_seconds, strict=True))
        rows.append(f"| {line} | {statistics.median(seconds):.2f} | {ratio:.2f} | {max(memory):.2f} |")
    table = "\n".join(rows)
    print(table)
    if options.write:
        PAGE.write_text(put(PAGE.read_text(), "first second", table))


if __name__ == "__main__":
    main()
