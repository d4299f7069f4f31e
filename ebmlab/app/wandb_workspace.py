"""A workspace at W&B as a program: panels for what a run logs. Making it needs no account; running it does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebmlab.app.dashboard_page import groups_of
from ebmlab.app.finished_run import FinishedRun
from ebmlab.app.run_pictures import pictures_of

_PROGRAM = '''"""Makes a workspace at W&B: `wandb login`, pip install 'ebmlab[workspace]', then run this file."""

import os

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

workspace = ws.Workspace(
    name={name},
    entity=os.environ.get("WANDB_ENTITY", "your-user-or-team"),
    project=os.environ.get("WANDB_PROJECT", {project}),
    sections=[
{sections}
    ],
)

if __name__ == "__main__":
    workspace.save()
    print(workspace.url)
'''


def workspace_program(runs: Sequence[FinishedRun]) -> str:
    """A Python program that makes a workspace: a section for each group of metrics, and one for the pictures.

    Args:
        runs: whose metrics and pictures are shown.
    """
    metrics = list(dict.fromkeys(metric for run in runs for metric in run.logged))
    titles = dict.fromkeys(title for run in runs for title in pictures_of(run.folder, at_most=1))
    pictures = [title for title in titles if not re.match("(test|validate) ", title)]
    sections = {"Pictures": [f"wr.MediaBrowser(media_keys=[{_text(title)}])" for title in pictures]}
    for group, members in groups_of(metrics).items():
        sections[group] = [f'wr.LinePlot(x="Step", y=[{_text(metric)}])' for metric in members]
    settings = next((run.settings for run in runs), {})
    project = settings.get("wandb_project", "null")
    return _PROGRAM.format(
        name=_text("ebmlab: " + ", ".join(dict.fromkeys(run.folder.resolve().parent.name for run in runs))),
        project=_text("ebmlab" if project == "null" else project),
        sections="\n".join(_section(name, panels) for name, panels in sections.items() if panels),
    )


def _section(name: str, panels: Sequence[str]) -> str:
    lines = "".join(f"                {panel},\n" for panel in panels)
    return (
        f"        ws.Section(\n            name={_text(name)},\n            panels=[\n{lines}            ],\n        ),"
    )


def _text(value: str) -> str:
    """A text as Python writes it, in double quotes; nothing in it can end the text."""
    return '"' + repr("'" + value)[2:-1].replace('"', '\\"') + '"'
