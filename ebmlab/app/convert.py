"""`python -m ebmlab convert`: models and problems of other packages become runs, and energies leave for them."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from ebmlab import __version__
from ebmlab.app.own_runs import keep_own
from ebmlab.app.parsers import convert_parser
from ebmlab.app.plain_yaml import DUMPER, MOST, num_values
from ebmlab.app.run_folder import CHECKPOINTS, CONFIG, LAST
from ebmlab.data.preprocessing import LEVELS, Preprocessing
from ebmlab.domains import Binary, Categorical
from ebmlab.energies import RBM, Bipartite, CategoricalRBM, Ising, Potts
from ebmlab.errors import WHY, UserError, explained, how_many, shown
from ebmlab.exchange import Foreign, read, write
from ebmlab.exchange.foreign import labels
from ebmlab.exchange.formats import format_for, known_kinds
from ebmlab.graphs import Edges
from ebmlab.io.described import CLASS_PATH, MISSING
from ebmlab.io.files import load_checkpoint, save, write_whole
from ebmlab.io.rebuilding import describe
from ebmlab.samplers import BlockGibbs, ChromaticGibbs, Gibbs
from ebmlab.trained import load
from ebmlab.trained.loading import checkpoint_in
from ebmlab.trained.record import Record

ORIGIN = "origin"
LEARNER = "ebmlab.learners.ContrastiveDivergence"  # that trains the model on
NUM_STEPS = 1000  # of chains that `predict` draws, unless it says otherwise


def run_convert(args: list[str]) -> None:
    """Runs what the words after `convert` say, and prints what was read, what was written and what was lost.

    Raises:
        UserError: a file is damaged or of no known format, or the target is there already.
    """
    options = convert_parser().parse_args(args)
    source, target = Path(options.source), Path(options.target)
    if target.exists():
        raise UserError(f"convert: {target} is there already: choose another name, or delete it")
    makes_run = target.suffix in ("", ".ckpt")
    if not makes_run and format_for(target, options.kind) is None:
        raise UserError(
            f"convert: {target} ends in {target.suffix}, as no format's files do: choose a folder without a dot in its "
            f"name for a run, or say which kind (--kind): {known_kinds()}"
        )
    found, form = _source(source, options.kind if makes_run else None, options.vartype)
    print(shown(f"read {found.source}: {_about(found)}"))
    with explained(f"convert: {target} cannot be written: {WHY}", OSError):
        if makes_run:
            shape = _shape(options.shape, found)
            lost = [*found.lost, *make_run(found, target, form if shape is None else None, shape=shape)]
        else:
            lost = [*found.lost, *write(found, target, kind=options.kind)]
            lost += [] if form is None or _says_as(form, found) else ["how raw data become states"]
    for what in lost:
        print(shown(f"not carried over: {what}"))
    print(target)


def make_run(
    found: Foreign, target: Path, form: Preprocessing | None = None, *, shape: tuple[int, ...] | None = None
) -> list[str]:
    """Writes a checkpoint; in a folder also the config of a run, without data, and says what is lost.

    A config of more values than are read from one is left out: the checkpoint alone is scored and sampled.

    Args:
        found: what was read.
        target: a .ckpt file, or a folder that becomes that of a run.
        form: how raw data become states; None if that follows from the energy.
        shape: of the pixels that visible units are; None if they are no pixels.
    """
    energy, lost = found.energy, []
    if isinstance(energy, RBM | CategoricalRBM | Potts) and energy.dtype != torch.float32:
        energy = energy.float()
        lost.append("digits of the parameters beyond float32")
    sampler = BlockGibbs() if isinstance(energy, Bipartite) else _gibbs(energy)
    record = Record("ContrastiveDivergence", energy, sampler=sampler, num_steps=NUM_STEPS)
    content: dict[str, Any] = {"state_dict": record.state_dict(), "epoch": 0, "global_step": 0}
    content["pytorch-lightning_version"] = version("pytorch-lightning")
    settings = {"energy": describe(energy), "sampler": describe(sampler), "num_steps": NUM_STEPS}
    content["hyper_parameters"] = {CLASS_PATH: LEARNER, MISSING: {}, **settings}
    content["preprocessing"] = (form or _preprocessing(found, shape)).to_dict()
    content[ORIGIN] = found.described() | {"ebmlab": __version__}
    save(content, target if target.suffix else target / CHECKPOINTS / LAST)
    if not target.suffix:
        config = {"model": _config(energy, settings)}
        if (size := num_values(config)) > MOST:
            return [*lost, f"config.yaml: it would hold {size:,} values, and {MOST:,} are read at most"]
        write_whole(target / CONFIG, yaml.dump(config, Dumper=DUMPER, default_flow_style=None, width=120))
        keep_own(target / CONFIG)
    return lost


def _source(path: Path, kind: str | None, vartype: str | None) -> tuple[Foreign, Preprocessing | None]:
    """The energy of a checkpoint, a run or a model of the zoo, or what another package wrote.

    Returns:
        The energy, and how raw data become its states, if that is known.
    """
    if path.is_file() and path.suffix != ".ckpt":
        return read(path, kind, vartype=vartype), None
    checkpoint = checkpoint_in(path)
    energy, content = load(checkpoint).learner.energy, load_checkpoint(checkpoint)
    origin, saved = content.get(ORIGIN), content.get("preprocessing")
    form = None if saved is None else Preprocessing.from_dict(saved)
    if not isinstance(origin, dict):
        return _own(energy, form, str(checkpoint)), form
    with explained(f"{checkpoint} says of its origin what cannot be read ({WHY})", (KeyError, TypeError, ValueError)):
        names = labels(origin["names"])
        states, offset, scale = origin["form"], float(origin["offset"]), float(origin["scale"])
        facts = dict(origin["facts"])
        kind = str(origin["kind"])
    told = Foreign(energy, kind, offset=offset, scale=scale, names=names, form=states, facts=facts)
    return replace(told, source=str(checkpoint)), form


def _own(energy: Any, form: Preprocessing | None, source: str) -> Foreign:
    """A model of our own, with the letters of its values and the names of its columns."""
    found = replace(read(energy), source=source, lost=("the learner, the sampler and the state of the training",))
    if form is None:
        return found
    if not _says_as(form, found):
        bits, spins = replace(found, form="bits"), replace(found, form="spins")
        found = next((other for other in (bits, spins) if _says_as(form, other)), found)
    numbered = form.width > 0 and all(name.isdecimal() for name in form.columns)  # those of an alignment
    names = [int(name) for name in form.columns] if numbered else form.columns
    found = replace(found, facts={"alphabet": form.letters} if form.letters else {})
    if len(set(names)) < len(names):
        return replace(found, lost=(*found.lost, "the names of the columns, as some are alike"))
    return replace(found, names=labels(names))


def _says_as(form: Preprocessing, found: Foreign) -> bool:
    """Whether raw data become states as the package's own states do; files of other packages cannot say else."""
    plain = ("mean", "std", "binarize", "scale", "float_scale", "classes")
    theirs = _preprocessing(found, None)
    return all(getattr(form, name) == getattr(theirs, name) for name in plain)


def _about(found: Foreign) -> str:
    energy = found.energy
    size = how_many(energy.num_hidden, "hidden unit") if isinstance(energy, Bipartite) else ""
    if isinstance(energy, Ising):
        size = how_many(len(energy.edges().values) // 2, "coupling")
    if isinstance(energy, Potts):
        size = f"{len(energy.pairs)} pairs of sites"
    parts = [f"{type(energy).__name__} on {energy.domain}", size, f"offset {found.offset:.9g}" if found.offset else ""]
    facts = [f"{name} {value}" for name, value in found.facts.items() if value != ""]
    return f"{found.kind}, {', '.join(part for part in (*parts, *facts) if part)}"


def _preprocessing(found: Foreign, shape: tuple[int, ...] | None) -> Preprocessing:
    """How the package's own states become those of the energy; names of variables are those of a table's columns."""
    if shape is not None:
        return Preprocessing(shape, LEVELS, unit=True, binarize=True)
    own, columns = found.energy.domain.event_shape, tuple(str(name) for name in found.names)
    if isinstance(found.energy.domain, Categorical):
        q = found.energy.domain.num_values
        alphabet = str(found.facts.get("alphabet", ""))
        letters = alphabet if len(alphabet) == q else ""
        shape, limits = found.energy.domain.shape, (0.0, q - 1.0)
        if found.names == tuple(range(1, len(found.names) + 1)):  # which say nothing of residues
            columns = ()
        return Preprocessing(shape, num_classes=q, limits=limits, columns=columns, letters=letters)
    if isinstance(found.energy.domain, Binary):
        if found.form == "bits":
            return Preprocessing(own, unit=True, columns=columns)
        return Preprocessing(own, mean=(-1.0,), std=(2.0,), columns=columns)
    if found.form == "bits":
        return Preprocessing(own, mean=(0.5,), std=(0.5,), columns=columns)
    return Preprocessing(own, columns=columns)


def _shape(given: str | None, found: Foreign) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        shape = tuple(int(part) for part in given.split(","))
    except ValueError:
        shape = ()
    domain = found.energy.domain
    if not isinstance(domain, Binary) or found.form != "bits" or math.prod(shape) != domain.size:
        raise UserError(f"--shape {given}: give the axes of the pixels that the {domain.size} units are: 1,28,28")
    return shape


def _gibbs(energy: Any) -> Gibbs | ChromaticGibbs:
    return ChromaticGibbs() if isinstance(energy, Ising) and energy.sparse else Gibbs()


def _config(energy: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The model as a config names it, with lists in place of tensors."""
    settings = copy.deepcopy(settings)
    if isinstance(energy, Ising):
        edges: Edges = energy.edges()
        lists = {name: getattr(edges, name).tolist() for name in ("rows", "columns", "values")}
        coupling = {"class_path": "ebmlab.graphs.Edges", "init_args": {"size": edges.size, **lists}}
        settings["energy"]["init_args"] = {"coupling": coupling, "field": energy.field.tolist()}
    if isinstance(energy, Potts):
        settings["energy"]["init_args"]["pairs"] = energy.pairs.tolist()
    return {"class_path": LEARNER, "init_args": settings}
