"""Answers that need no imports, and so do not take the seconds that importing torch takes."""

from __future__ import annotations

import difflib

from ebmlab import __version__
from ebmlab.app.help_pages import page
from ebmlab.app.listing import list_components
from ebmlab.app.parsers import MODEL_COMMANDS, Line, convert_parser, model_parser, mutate_parser, solve_parser
from ebmlab.app.sweep_space import sweep_parser
from ebmlab.app.words import options
from ebmlab.app.zoo_parser import zoo_answer
from ebmlab.errors import UserError
from ebmlab.extras import require

_FILES = ("sample", "list", "compare", "dashboard", "sweep")
COMMANDS = ("fit", "validate", "test", "predict", *MODEL_COMMANDS, *_FILES, "convert", "zoo", "mutate", "solve")
HELP = """usage: python -m ebmlab <command> [options]

commands:
  fit       train:     python -m ebmlab fit --config configs/grbm_digits.yaml
  validate  evaluate a checkpoint on the validation split:  python -m ebmlab validate --ckpt_path FILE
  test      evaluate a checkpoint on the test split:        python -m ebmlab test --ckpt_path FILE
  predict   draw samples from a checkpoint:  python -m ebmlab predict --ckpt_path FILE --num_samples 64
  score     energies and log-likelihoods of files:   python -m ebmlab score FILES --ckpt_path RUN
  complete  draw the unknown part of samples:   python -m ebmlab complete FILES --given top --ckpt_path RUN
  features  hidden units of samples:            python -m ebmlab features FILES --ckpt_path RUN
  sample    compare samplers on a target:   python -m ebmlab sample --config configs/sampling/ising_5x5.yaml
  list      all classes and configs, one line each, or some:   python -m ebmlab list energies
  compare   the table of several runs:      python -m ebmlab compare RUN RUN --out table.md --out curves.png
  dashboard a page to look at a run or several:   python -m ebmlab dashboard RUN
  sweep     find good settings by many runs:      python -m ebmlab sweep --config FILE --space FILE --trials 20
  convert   models and problems of other packages:   python -m ebmlab convert problem.bqm my_problem
  zoo       small trained models: list, pull, pack, export:   python -m ebmlab zoo
  mutate    all single mutants of a sequence:   python -m ebmlab mutate wild.fasta --ckpt_path RUN
  solve     cuts, independent sets, cliques, QUBOs:       python -m ebmlab solve G14.rud --seconds 60
  --version print the version

Any setting of a config can be overridden: --model.num_steps 50, --trainer.max_epochs 3, --data.batch_size 64.
`python -m ebmlab <command> --help` says more."""


def answer(given: list[str]) -> str | None:
    """The help, the version, the list or a comparison if the command line asks for it; None for other commands.

    Raises:
        UserError: there is no such command, or the runs cannot be compared.
    """
    first = given[0] if given else "--help"
    if first in ("-h", "--help", "help"):
        return HELP
    if first == "--version":
        return f"ebmlab {__version__}"
    if {"-h", "--help"} & {*given} and (parser := _parser(first)) is not None:
        return parser.format_help().rstrip()
    if first not in COMMANDS:
        close = difflib.get_close_matches(first, COMMANDS, 1)
        meant = f"did you mean {close[0]}? There are" if close else "choose"
        raise UserError(
            f"there is no command {first}; {meant} {', '.join(COMMANDS[:-1])} {'and' if close else 'or'} {COMMANDS[-1]}"
        )
    _check_extras(first, given[1:])
    if first == "compare":
        from ebmlab.app.compare import compare

        return compare(given[1:])
    if first == "dashboard":
        from ebmlab.app.dashboard import dashboard

        return dashboard(given[1:])
    if first == "zoo":
        return zoo_answer(given[1:])
    if first == "list":
        return list_components([word for word in given[1:] if word not in ("-h", "--help")])
    if given[1:] in (["-h"], ["--help"]):
        return page(first)
    return None


def _check_extras(command: str, words: list[str]) -> None:
    """Raises `UserError` if the words ask for a feature whose packages are missing, before anything is loaded."""
    if command in ("dashboard", "sweep"):
        require(command, {"dashboard": "plotly", "sweep": "optuna"}[command])
    if ("--tensorboard", "true") in options(words):
        require("--tensorboard true", "tensorboard")
    for word in words if command in ("convert", "zoo") else ():
        if word.startswith("hf://"):
            require("hf://", "huggingface_hub")
        elif word.endswith(".onnx"):
            require(word, "onnx", "onnxscript")
        elif word.endswith(".h5"):
            require(word, "h5py")


def _parser(command: str) -> Line | None:
    """The parser of a command that loads no trainer; None for others, whose pages are written out."""
    if command in MODEL_COMMANDS:
        return model_parser(command)
    parsers = {"sweep": sweep_parser, "convert": convert_parser, "mutate": mutate_parser, "solve": solve_parser}
    return parsers[command]() if command in parsers else None
