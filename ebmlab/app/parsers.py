"""The options of the commands that load no trainer. Nothing heavy is imported, so that help is instant."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import Any, NoReturn

from ebmlab.errors import UserError

MODEL_COMMANDS = ("score", "complete", "features")
FILES = (
    "samples as the training data were: .npy, .npz, .csv, .pt, alignments, pictures, or folders of pictures; sample "
    "sets in .json; chains (steps, chains, ...) in .npy or .h5"
)
ABOUT = {
    "predict": "Draws samples from a trained model by new chains from noise, and writes samples.pt and samples.png. "
    "The config is that of the checkpoint's run, unless --config FILE names another, whose newest checkpoint is "
    "--ckpt_path last; `predict --help all` shows every option.",
    "score": "Energies of samples, and log-likelihoods if asked, as a table with a histogram. Of several files the "
    "first holds the model's own kind of data, and the others are compared with it by AUROC.",
    "complete": "Draws the unknown part of samples given the known part, and shows both beside the truth.",
    "features": "Means of the hidden units of an RBM or GRBM; of bits, their probabilities.",
    "convert": "Makes a run of a model or problem of another package, which score, predict, test, complete, features "
    "and compare take; or writes the energy of a checkpoint in the format of another package. A file is known by its "
    "content.",
    "mutate": "Scores all single mutants of a sequence by a model that was trained on an alignment: log p(mutant) - "
    "log p(sequence), as a table with a heat map; and compares them with measurements, if asked.",
    "solve": "Solves a problem by annealed sampling: a graph (max-cut, independent set, clique) in G-set's format, "
    "DIMACS or an edge list; or a quadratic problem on bits or spins, in dimod's formats. It keeps the best state of "
    "every chain, and stops on time, at a target value, or by Ctrl-C, which loses nothing.",
}
OUTPUT = {
    "score": "the table; the histogram gets the same name (default: scores.csv in the run's folder)",
    "complete": ".npy, .pt, .csv of rows, or .fasta of sequences; the picture gets the same name (default: "
    "completions.npy in the run)",
    "features": ".npy, .csv or .pt (default: features.npy in the run's folder)",
}


_NUMBERS = {"int": "a whole number", "float": "a number"}


class Line(argparse.ArgumentParser):
    """Reports errors in one line, and takes no abbreviated options, which other readers of the words do not know."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog.rpartition(' ')[2]}: {self._in_words(message)}")

    def _in_words(self, message: str) -> str:
        """A message of argparse's in the words of the others."""
        if found := re.fullmatch(r"argument (\S+): invalid (\w+) value: ('.*')", message):
            return f"{found[1]} is {found[3]}, but must be {_NUMBERS.get(found[2], found[2])}"
        if found := re.fullmatch(r"argument (\S+): invalid choice: ('.*') \(choose from (.*)\)", message):
            return f"{found[1]} is {found[2]}, but must be one of {found[3]}"
        if found := re.match(r"unrecognized arguments: (--[^\s=]+)", message):
            close = difflib.get_close_matches(found[1], self._option_string_actions, 1)
            longer = [o for o in self._option_string_actions if o.startswith(found[1])] or close
            return f"there is no option {found[1]}" + (f"; did you mean {longer[0]}?" if longer else "")
        return message


def predict_parser() -> Line:
    """The parser of the words after `predict` where the checkpoint alone says what is drawn."""
    parser = Line("python -m ebmlab predict", description=ABOUT["predict"])
    add = parser.add_argument
    _add_model(parser)
    add(
        "--condition",
        metavar="N=V,...",
        help="what is known of every sample: numbers or names of columns, and values or letters",
    )
    add("--num_samples", type=int, metavar="N", help="number of samples (default: 64)")
    add("--num_steps", type=int, metavar="N", help="steps of each chain (default: as in training)")
    mean = "write E[v | h] of the last state in place of the state (default: true for images)"
    add("--denoise", choices=("true", "false"), help=mean)
    add("--seed", type=int, metavar="N", help="of the random numbers (default: 0)")
    add("--batch_size", type=int, metavar="N", help="chains that run at the same time (default: 1000)")
    add(
        "--output",
        metavar="PATH",
        help=".npy, .pt, .csv of rows, .fasta of sequences, or a folder (default: samples/ in the run's folder)",
    )
    return parser


def model_parser(command: str) -> Line:
    """The parser of one of `MODEL_COMMANDS`."""
    parser = Line(f"python -m ebmlab {command}", description=ABOUT[command])
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help=FILES)
    _add_model(parser)
    add("--output", metavar="FILE", help=OUTPUT[command])
    add("--labels", help="column or array that holds labels, which are left out")
    add("--field", default="x", help="name of the samples in an .npz or .pt file of several arrays (default: x)")
    add("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    if command == "score":
        add("--log_likelihood", action="store_true", help="log-likelihoods too; log Z is kept beside the checkpoint")
        add("--law", action="store_true", help="whether samples follow the model's law: exactly, or by the first file")
        add("--num_chains", type=int, default=200, help="of annealed importance sampling (default: 200)")
        add("--num_temperatures", type=int, default=2000, help="of each chain (default: 2000)")
    if command == "complete":
        add(
            "--given",
            help="what is known: top, bottom, left, right, columns by name, or a .npy file, True where given "
            "(default: all but empty cells, NaN, and letters that are not in the alphabet)",
        )
        add("--num_samples", type=int, default=4, help="completions of each sample (default: 4)")
        add("--num_steps", type=int, default=1000, help="steps of each chain (default: 1000)")
        add("--sampler", metavar="NAME", help="such as Gibbs or GWG, in place of the learner's sampler")
        add("--denoise", action="store_true", help="means of the hidden units' last draw, not samples (RBM, GRBM)")
        add("--first", type=int, default=16, metavar="N", help="complete the first N samples (default: 16)")
    return parser


def convert_parser() -> Line:
    """The parser of the words after `convert`."""
    parser = Line("python -m ebmlab convert", description=ABOUT["convert"])
    add = parser.add_argument
    add("source", help="a file of another package; or a checkpoint, the folder of a run, or zoo/NAME")
    add("target", help="a folder, which becomes that of a run; a .ckpt file; or a file in another format")
    add("--kind", help="the format of the target, or of the source if a run is made, where it must be said")
    add("--vartype", choices=("SPIN", "BINARY"), help="what variables are, for files that do not say so")
    add("--shape", help="of the pixels that visible units are, such as 1,28,28")
    return parser


def mutate_parser() -> Line:
    """The parser of the words after `mutate`."""
    parser = Line("python -m ebmlab mutate", description=ABOUT["mutate"])
    add = parser.add_argument
    add("file", metavar="FILE", help="the sequence as a row of the alignment, in FASTA, A2M, A3M or Stockholm")
    _add_model(parser)
    add("--sequence", metavar="NAME", help="its name, if there are several in the file (default: the first)")
    default = "the model's own, if it numbers its sites, or that of NAME/N-M, or 1"
    add("--first", type=int, metavar="N", help=f"number of its first residue (default: {default})")
    add("--measured", metavar="CSV", help="a table of measurements, with mutants such as A42G or A42G:K50L")
    add("--column", default="score", help="the table's column of measurements (default: score)")
    add("--mutant", default="mutant", help="the table's column of mutants (default: mutant)")
    add(
        "--output",
        metavar="FILE",
        help="the table, .csv; the heat map gets the same name (default: mutants.csv in the run)",
    )
    return parser


def solve_parser() -> Line:
    """The parser of the words after `solve`."""
    parser = Line("python -m ebmlab solve", description=ABOUT["solve"])
    add = parser.add_argument
    add("file", metavar="FILE", help="the problem; a file is known by its content, an edge list by .edges")
    add(
        "--problem",
        metavar="NAME",
        help="what a graph poses: max_cut (G-set), independent_set, clique or normalised_cut",
    )
    add("--sampler", metavar="NAME", help="such as ChromaticMetropolis (default on Ising models), PathAuxiliary or GWG")
    add("--seconds", type=float, default=10.0, metavar="S", help="when to stop (default: 10)")
    add("--target", type=float, metavar="VALUE", help="stop as soon as a solution has this value or a better one")
    add("--chains", type=int, default=100, metavar="N", help="chains that are annealed side by side (default: 100)")
    add("--steps", type=int, default=100, metavar="N", help="of the first annealing; each next has twice as many (100)")
    add(
        "--schedule",
        choices=("geometric", "linear", "reheated", "exchange", "population"),
        default="geometric",
        help="of beta (default: geometric); reheated goes back from where chains get nowhere; exchange holds chains at "
        "temperatures between which they swap; population resamples them, and estimates log Z",
    )
    add("--beta", type=float, nargs=2, metavar=("FIRST", "LAST"), help="where annealings begin and end")
    add("--kind", help="the format of the file, where its content does not tell")
    add("--vartype", choices=("SPIN", "BINARY"), help="what variables are, for files that do not say so")
    add("--name", help="of the folder runs/FILE/NAME (default: the time)")
    add("--resume", action="store_true", help="go on with the search of this --name, or start it; --seconds count all")
    add("--seed", type=int, default=0, metavar="N", help="of all random numbers (default: 0)")
    return parser


def _add_model(parser: Line) -> None:
    where = "a checkpoint, or the folder of a run (its best.ckpt, else its last.ckpt)"
    parser.add_argument("--ckpt_path", required=True, metavar="PATH", help=where)
    own = "own code of the model"
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=own)
