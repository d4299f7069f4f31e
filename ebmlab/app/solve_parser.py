"""The options of `python -m ebmlab solve`. Nothing heavy is imported."""

from __future__ import annotations

import argparse

from ebmlab.app.model_parsers import Line

ABOUT = (
    "Solves a problem by annealed sampling: a graph (max-cut, independent set, clique) in G-set's format, DIMACS or an "
    "edge list; or a quadratic problem on bits or spins, in dimod's formats. It keeps the best state of every chain, "
    "and stops on time, at a target value, or by Ctrl-C, which loses nothing."
)


def solve_parser() -> argparse.ArgumentParser:
    """The parser of the words after `solve`.

    Example:
        >>> options = solve_parser().parse_args(["G14.rud", "--seconds", "60"])
        >>> options.seconds, options.chains
        (60.0, 100)
    """
    parser = Line("python -m ebmlab solve", description=ABOUT, allow_abbrev=False)
    add = parser.add_argument
    add("file", metavar="FILE", help="the problem; a file is known by its content, an edge list by .edges")
    add("--problem", metavar="NAME", help="what a graph poses: max_cut, independent_set or clique (G-set: max_cut)")
    add("--sampler", metavar="NAME", help="such as ChromaticGibbs (default on Ising models), PathAuxiliary or GWG")
    add("--seconds", type=float, default=10.0, metavar="S", help="when to stop (default: 10)")
    add("--target", type=float, metavar="VALUE", help="stop as soon as a solution has this value or a better one")
    add("--chains", type=int, default=100, metavar="N", help="chains that are annealed side by side (default: 100)")
    add("--steps", type=int, default=100, metavar="N", help="of the first annealing; each next has twice as many (100)")
    add("--schedule", choices=("geometric", "linear"), default="geometric", help="of beta (default: geometric)")
    add("--beta", type=float, nargs=2, metavar=("FIRST", "LAST"), help="where annealings begin and end")
    add("--kind", help="the format of the file, where its content does not tell")
    add("--vartype", choices=("SPIN", "BINARY"), help="what variables are, for files that do not say so")
    add("--name", help="of the folder runs/FILE/NAME (default: the time)")
    add("--seed", type=int, default=0, metavar="N", help="of all random numbers (default: 0)")
    return parser
