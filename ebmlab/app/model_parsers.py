"""The options of the commands that use a trained model on files. Nothing heavy is imported, so that help is instant."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from ebmlab.errors import UserError

MODEL_COMMANDS = ("score", "complete", "features")
FILES = (
    "samples as the training data were: .npy, .npz, .csv, .pt, pictures, or folders of pictures; sample sets in .json; "
    "chains (steps, chains, ...) in .npy or .h5"
)
ABOUT = {
    "score": "Energies of samples, and log-likelihoods if asked, as a table with a histogram. Of several files the "
    "first holds the model's own kind of data, and the others are compared with it by AUROC.",
    "complete": "Draws the unknown part of samples given the known part, and shows both beside the truth.",
    "features": "Probabilities of the hidden units of an RBM or GRBM.",
}
OUTPUT = {
    "score": "the table; the histogram gets the same name (default: scores.csv in the run's folder)",
    "complete": ".npy or .pt; the picture gets the same name (default: completions.npy in the run's folder)",
    "features": ".npy, .csv or .pt (default: features.npy in the run's folder)",
}


class Line(argparse.ArgumentParser):
    """Reports errors in one line, and takes no abbreviated options, which other readers of the words do not know."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog.rpartition(' ')[2]}: {message}")


def model_parser(command: str) -> argparse.ArgumentParser:
    """The parser of one of `MODEL_COMMANDS`."""
    parser = Line(f"python -m ebmlab {command}", description=ABOUT[command])
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help=FILES)
    add("--ckpt_path", required=True, metavar="PATH", help="a checkpoint, or the folder of a run (its best, else last)")
    add("--output", metavar="FILE", help=OUTPUT[command])
    add("--labels", help="column or array that holds labels, which are left out")
    add("--field", default="x", help="name of the samples in an .npz or .pt file of several arrays (default: x)")
    add("--import", dest="modules", action="append", default=[], metavar="MODULE", help="own code of the model")
    add("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    if command == "score":
        add("--log_likelihood", action="store_true", help="log-likelihoods too; log Z is kept beside the checkpoint")
        add("--law", action="store_true", help="whether samples follow the model's law: exactly, or by the first file")
        add("--num_chains", type=int, default=200, help="of annealed importance sampling (default: 200)")
        add("--num_temperatures", type=int, default=2000, help="of each chain (default: 2000)")
    if command == "complete":
        add("--given", required=True, help="what is known: top, bottom, left, right, or a .npy file, True where given")
        add("--num_samples", type=int, default=4, help="completions of each sample (default: 4)")
        add("--num_steps", type=int, default=1000, help="steps of each chain (default: 1000)")
        add("--sampler", metavar="NAME", help="such as Gibbs or GWG, in place of the learner's sampler")
        add("--denoise", action="store_true", help="means of the hidden units' last draw, not samples (RBM, GRBM)")
        add("--first", type=int, default=16, metavar="N", help="complete the first N samples (default: 16)")
    return parser
