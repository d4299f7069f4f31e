"""`python -m ebmlab dashboard RUN [RUN ...]`: one HTML file that shows a run, from the files in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ebmlab.app.compare import write
from ebmlab.app.dashboard_page import page
from ebmlab.app.finished_run import read_run
from ebmlab.app.parsers import Line
from ebmlab.errors import UserError
from ebmlab.extras import require


def dashboard(given: Sequence[str]) -> str:
    """Writes the page, and says where it is.

    Args:
        given: the words after `dashboard`.

    Raises:
        UserError: a folder is not that of a run, Plotly is missing, a file cannot be written, or the options are wrong.
    """
    options = dashboard_parser().parse_args(given)
    folders = [Path(run) for run in options.runs]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError("dashboard: a run is named twice")
    output = Path(options.output or (folders[0] if len(folders) == 1 else Path()) / "dashboard.html")
    if output.suffix not in (".html", ".htm"):
        raise UserError(f"dashboard: --output is {output}, but must end in .html")
    runs = [read_run(folder) for folder in folders]
    write("dashboard", output, page(runs, plotly()).encode())
    return f"wrote {output}: open it in a browser"


def plotly() -> str:
    """Plotly's JavaScript, which the page holds so that it needs no network.

    Raises:
        UserError: Plotly is not installed.
    """
    require("dashboard", "plotly")
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    return script


def dashboard_parser() -> Line:
    """The parser of the command's options."""
    parser = Line(
        prog="python -m ebmlab dashboard",
        description="One HTML file that shows a run, without an account or a network: curves, pictures by step, the "
        "best values and the config. Of several runs the curves are drawn over each other, and settings compared.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, such as runs/rbm_mnist/NAME")
    where = "the page (default: dashboard.html in the run's folder, or in this one for several runs)"
    parser.add_argument("--output", metavar="FILE.html", help=where)
    return parser
