"""Reads and writes models and problems of other packages; a file is known by what is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ebmlab.domains import Categorical, Spin
from ebmlab.energies import Energy
from ebmlab.errors import WHY, UserError, explained, one_line
from ebmlab.exchange import (
    arrays,
    bernoulli_rbm,
    coniii,
    coo,
    dca,
    dimacs,
    dimod,
    edge_list,
    gset,
    networkx,
    plmc,
    pydca,
    rbms,
    thrml,
    torch_rbm,
)
from ebmlab.exchange.foreign import Foreign, Form
from ebmlab.exchange.format import HEAD, Format, lost_form

FORMATS = (
    *(dimod.FORMAT, edge_list.FORMAT, dimacs.FORMAT, networkx.FORMAT, gset.FORMAT),
    *(pydca.FORMAT, coo.FORMAT, dca.FORMAT, thrml.FORMAT, rbms.FORMAT, plmc.FORMAT),
    *(bernoulli_rbm.FORMAT, torch_rbm.EBMKIT, torch_rbm.LEARNERGY, arrays.FORMAT, coniii.FORMAT),
)
KINDS = {known.kind: known for known in FORMATS}
"""The formats that are read and written, by their names."""


def read(given: Any, kind: str | None = None, *, vartype: str | None = None) -> Foreign:
    r"""Reads a file, or an object of another package that is in memory. Nothing in a file is executed.

    Args:
        given: a path, or an object such as a binary quadratic model, a QUBO or a fitted `BernoulliRBM`.
        kind: one of `KINDS`, for files whose content does not tell.
        vartype: SPIN or BINARY, for files that do not say so.

    Raises:
        UserError: it is of no known format, or damaged; one line says what is wrong.

    Example:
        >>> Path("k3.rud").write_text("3 3\n1 2 1\n1 3 1\n2 3 -1\n") > 0
        True
        >>> graph = read("k3.rud")
        >>> x = torch.tensor([[-1, 1, 1]])
        >>> graph.energy(x.float()).tolist(), graph.value(x).tolist()
        ([-3.0], [2.0])
    """
    if isinstance(given, str | Path):
        return _read(Path(given), kind, vartype)
    if isinstance(given, Energy):
        return Foreign(given, "ebmlab", form=form_of(given))
    known = next((form for form in FORMATS if form.accepts is not None and form.accepts(given)), None)
    if known is None and getattr(given, "ndim", 0) == 2:
        raise UserError(
            "a matrix does not say whether its states are bits or spins, nor whether both orders of a pair add up: "
            "give a QUBO {(i, j): q}, or an energy such as ebmlab.energies.Ising(J)"
        )
    if known is None or known.take is None:
        raise UserError(f"a {type(given).__name__} is no model or problem of a package that is known: {known_kinds()}")
    what = f"the {type(given).__name__} cannot be read as {known.about}"
    with explained(f"{what} ({WHY})", (TypeError, ValueError, KeyError)), explained(f"{what}: {WHY}", UserError):
        return known.take(given)


def write(energy: Energy | Foreign, path: str | Path, *, kind: str | None = None) -> list[str]:
    """Writes a file in a format of another package.

    Args:
        energy: an energy, or what `read` gave, whose names and offset are written too.
        path: the file.
        kind: one of `KINDS`; by default that of the path's suffix.

    Returns:
        What the format cannot hold, in words.

    Raises:
        UserError: the format holds no energies of this kind.

    Example:
        >>> from ebmlab.energies import Ising
        >>> write(Ising([[0.0, 0.5], [0.5, 0.0]], [1.0, 0.0]), "pair.coo")
        []
        >>> print(Path("pair.coo").read_text().strip())
        # vartype=SPIN
        0 0 -1.0
        0 1 -0.5
    """
    path, foreign = Path(path), energy if isinstance(energy, Foreign) else read(energy)
    known = format_for(path, kind)
    if known is None or known.write is None:
        mend = "it has no files: ebmlab.exchange.make gives the object" if known else f"say which kind: {known_kinds()}"
        raise UserError(f"{path} cannot be written: {mend}")
    with torch.no_grad():
        lost = known.write(foreign, path)
    return lost if known.keeps_form else [*lost, *lost_form(foreign, form_of(foreign.energy))]


def make(energy: Energy | Foreign, kind: str) -> Any:
    """The object of another package that has an energy: a binary quadratic model, an `IsingEBM`, a `BernoulliRBM`.

    Raises:
        UserError: the package is not installed, or has no such object.

    Example:
        >>> from ebmlab.energies import RBM
        >>> make(RBM(4, 3), "sklearn").components_.shape
        (3, 4)
    """
    known = KINDS[check_kind(kind)]
    if known.make is None:
        raise UserError(f"{kind} has no objects: write a file")
    with torch.no_grad():
        return known.make(energy if isinstance(energy, Foreign) else read(energy))


def format_for(path: Path, kind: str | None) -> Format | None:
    """The format of a file to be written: the kind's, or that of the suffix; None if no format has it."""
    return KINDS[check_kind(kind)] if kind else next((k for k in FORMATS if path.suffix in k.suffixes), None)


def form_of(energy: Energy) -> Form:
    """How states of an energy's own domain are written."""
    forms: dict[type, Form] = {Spin: "spins", Categorical: "values"}
    return forms.get(type(energy.domain), "bits")


def check_kind(kind: str) -> str:
    """Returns the kind; raises `UserError` if there is no format of that name."""
    if kind not in KINDS:
        raise UserError(f"there is no format {kind}; there are {known_kinds()}")
    return kind


def known_kinds() -> str:
    """All formats by name; the page "Other packages" says what they are."""
    return ", ".join(known.kind for known in FORMATS)


def recognised(path: Path) -> Format | None:
    r"""The format that a file's content has; None if it has none of them.

    Example:
        >>> _ = Path("pair.txt").write_text("# vartype=SPIN\n0 1 -1\n")
        >>> recognised(Path("pair.txt")).kind
        'coo'
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    return next((known for known in FORMATS if known.holds is not None and known.holds(path, head)), None)


def _read(path: Path, kind: str | None, vartype: str | None) -> Foreign:
    if not path.is_file():
        raise UserError(f"{path} is a folder, but must be a file" if path.is_dir() else f"{path}: no such file")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")
    try:
        known = KINDS[check_kind(kind)] if kind else recognised(path)
        if known is None:
            with path.open("rb") as file:
                head = file.read(1)
            if head == b"\x80":
                raise UserError(f"{path} is a pickled object: opening it could run any code; save its arrays instead")
            raise UserError(f"{path} is of no known format; say which kind, if it is one of these: {known_kinds()}")
        if known.read is None:
            raise UserError(f"{known.kind} has no files that are read: give ebmlab.exchange.read the object")
        found = known.read(path, vartype)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {one_line(error)}") from error
    except UserError as error:
        if str(error).startswith(str(path)):
            raise
        raise UserError(f"{path}: {error}") from error
    return replace(found, source=str(path))
