"""Contacts that an energy of sequences predicts, against a structure."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pytorch_lightning as pl
from torch import Tensor

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import energy_of, known_data
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.contact_map import draw_contacts
from ebmlab.energies import Potts
from ebmlab.errors import WHY, UserError, explained
from ebmlab.evaluation.contacts import ContactPrediction, contact_prediction, contact_scores
from ebmlab.evaluation.headline import Headline
from ebmlab.lightning.run_data import data_of
from ebmlab.sequences import Family, Placement, Residue, place, read_pdb
from ebmlab.sequences.pdb import Between
from ebmlab.settings import require_count, require_positive


@runtime_checkable
class Aligned(Protocol):
    """Data that come from an alignment, such as `datamodules.Alignment`."""

    family: Family

    def states(self, split: str, n: int | None = None, seed: int = 0) -> Tensor:
        """See `ebmlab.data.Data`."""

    def weights(self, split: str) -> Tensor:
        """The weights of a split's sequences, `(N,)`, with mean 1."""


def aligned_data(trainer: pl.Trainer, callback: pl.Callback) -> Aligned:
    """The run's data, which must come from an alignment."""
    what = "data that come from an alignment"
    return known_data(trainer, Aligned, callback, what, "datamodules.Alignment")  # type: ignore[type-abstract]


class Contacts(PeriodicEvaluation):
    """Logs how many of the strongest pairs of sites are contacts in a structure, and shows them.

    Scores are those of `evaluation.contact_scores`. Residues are placed at the alignment's sites by their sequence
    (`sequences.place`). Logs `contacts/precision_l`, `_l2` and `_l5`, the shares of contacts among the best L, L/2 and
    L/5 pairs, L being the number of sites. The same for pairs at least 24 residues apart is
    `contacts/long_range_precision_*`. Beside them stands `contacts/precision_at_random`. `contacts/map` shows map and
    curve.

    Args:
        path: the structure, a PDB file; or `package:NAME/FOLDER/FILE`, a file of an installed package.
        chain: its letter; by default the first in the file.
        between: distances of the closest `heavy` atoms, or of `beta` carbons.
        threshold: in Angstrom; a pair at a smaller distance is a contact.
        min_separation: pairs with fewer residues from one end to the other do not count.
        num_around: sequences of the training data at which couplings are measured, of energies that are no `Potts`.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.

    Example:
        >>> Contacts("structure.pdb", chain="A").threshold
        8.0
    """

    logs = ("contacts/*",)

    def __init__(
        self,
        path: str,
        chain: str | None = None,
        *,
        between: Between = "heavy",
        threshold: float = 8.0,
        min_separation: int = 5,
        num_around: int = 8,
        every_n_epochs: int = 10,
        at_start: bool = False,
    ) -> None:
        super().__init__(every_n_epochs, at_start)
        require_positive("Contacts", threshold=threshold)
        require_count("Contacts", min_separation=min_separation, num_around=num_around)
        self.path = path
        self.chain = chain
        self.between = between
        self.threshold = threshold
        self.min_separation = min_separation
        self.num_around = num_around
        self._placed: tuple[list[Residue], Placement] | None = None

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._structure(trainer)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        found = self.prediction(trainer, pl_module)
        self.log_metrics(trainer, pl_module, {f"contacts/{name}": value for name, value in found.summary().items()})
        if trainer.is_global_zero:
            title = f"{type(energy_of(pl_module)).__name__} against {self.path.rpartition('/')[2]}"
            self.log_image(trainer, "contacts/map", draw_contacts(found, title))

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("precision of contacts", metrics["contacts/precision_l"], about="best L pairs")

    def prediction(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> ContactPrediction:
        """The energy's scores beside the structure's distances."""
        energy, data = energy_of(pl_module), aligned_data(trainer, self)
        around = None
        if not isinstance(energy, Potts):
            around = drawn_states(data_of(trainer), "train", n=self.num_around, seed=self.seed).to(energy.device)
        scores = contact_scores(energy, data.family.alphabet.gap_value, around=around)
        residues, placement = self._structure(trainer)
        return contact_prediction(
            scores,
            residues,
            placement=placement,
            between=self.between,
            threshold=self.threshold,
            min_separation=self.min_separation,
        )

    def _structure(self, trainer: pl.Trainer) -> tuple[list[Residue], Placement]:
        if self._placed is None:
            residues = read_pdb(self.path, self.chain)
            with explained(f"Contacts: {self.path}: {WHY}", UserError):
                self._placed = residues, place(residues, aligned_data(trainer, self).family)
        return self._placed
