"""Alignments of protein and RNA families."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ebmlab.data.columns import check_columns
from ebmlab.data.interface import SPLITS
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.data.weighted import with_mean_one
from ebmlab.datamodules.own_data import check_fractions
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Categorical
from ebmlab.errors import UserError, how_many
from ebmlab.numerics.streams import stream
from ebmlab.sequences import Family, read_family
from ebmlab.sequences.alignment_file import Inserts, find
from ebmlab.sequences.family import Unknown
from ebmlab.sequences.weight_file import read_weights
from ebmlab.sequences.weights import compare, effective_number


class Alignment(TensorDataModule):
    r"""The sequences of an alignment in FASTA, A2M, A3M or Stockholm, plain or packed by gzip, with their weights.

    A batch is `(states, weights)`: one-hot states `(B, d, q)` and weights `(B,)`, whose mean over a split is 1. `setup`
    says what was left out, and `family.dropped` holds the counts.

    Weights. A sequence that is alike to n sequences, itself included, has the weight 1/n, and Meff is the sum of the
    weights. Alike are sequences that agree in more than the share `identity` of their sites (Morcos et al. 2011). Two
    gaps agree, unless `count_gaps` is false. The comparison is strict, as in adabmDCA 1.0.0 and pydca.

    Splits. Sequences that are alike, directly or by others between them, stay in one split. No sequence of the
    validation or test split is alike to one of the training split.

    Args:
        path: the file; or `package:NAME/FOLDER/FILE`, a file of an installed package.
        alphabet: `protein`, `rna` or `dna`, whose gap has the value 0; or letters in the order of their values. RNA
            takes T as U, and DNA takes U as T.
        gap: the letter of the gap in `alphabet`.
        inserts: what lower case letters and dots are. `drop`: inserts, which are left out, as in A2M and A3M. `keep`:
            residues and gaps in columns of their own, as in FASTA. `auto`: inserts, if the file's name ends in .a2m or
            .a3m. Also inserts, if some columns hold nothing else in any row, and all other columns none of them. In
            rows of different lengths: if all have equally many other letters.
        unknown: what becomes of sequences with letters that are not in the alphabet, in the columns that are kept.
            `drop`: they are left out. `gap`: the letters are read as gaps. `refuse`: they are an error.
        max_column_gaps: columns with a larger share of gaps are left out.
        max_sequence_gaps: sequences with a larger share of gaps in the columns that are kept are left out.
        identity: see above; null gives all sequences the weight 1, and keeps equal ones alone in one split.
        count_gaps: whether sites at which both sequences have a gap count, and agree; else they are left out of the
            share.
        weights_file: a text file with a weight a line, one for each sequence of the alignment's file, which take the
            place of those by identity. Splits are by identity all the same.
        val_fraction: part of the sequences that validates.
        test_fraction: part of the sequences that tests.
        split_seed: of the choice of these parts.
        batch_size: sequences per batch and process.
        seed: of the order of the training batches.

    Example:
        >>> text = "".join(f">{i}\n{a}{b}GU\n" for i, (a, b) in enumerate(zip("ACGUACGUAC", "ACCGGUUAAG")))
        >>> _ = Path("rna.fasta").write_text(text)
        >>> data = Alignment("rna.fasta", alphabet="rna", batch_size=4)
        >>> states, weights = next(iter(data.train_dataloader()))
        >>> states.shape, weights.shape
        (torch.Size([4, 4, 5]), torch.Size([4]))
    """

    domains = (Categorical,)

    def __init__(
        self,
        path: str,
        alphabet: str = "protein",
        *,
        gap: str = "-",
        inserts: Inserts = "auto",
        unknown: Unknown = "drop",
        max_column_gaps: float = 0.3,
        max_sequence_gaps: float = 0.2,
        identity: float | None = 0.8,
        count_gaps: bool = True,
        weights_file: str | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        split_seed: int = 0,
        batch_size: int = 500,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        if identity is not None and not 0 <= identity <= 1:
            raise UserError(f"Alignment: identity is {identity}, but must be from 0 to 1, or null")
        check_fractions("Alignment", val_fraction, test_fraction)
        file = find(path)
        self.family = _family(
            file,
            file.stat().st_mtime_ns,
            alphabet,
            gap=gap,
            inserts=inserts,
            unknown=unknown,
            max_column_gaps=max_column_gaps,
            max_sequence_gaps=max_sequence_gaps,
        )
        given = None if weights_file is None else read_weights(weights_file, self.family.dropped.sequences)
        self._given_weights = None if given is None else given[self.family.kept]
        sites, values = self.family.values.shape[1], len(self.family.alphabet.letters)
        super().__init__((sites, values), batch_size, seed=seed)
        self.raw_shape = (sites,)
        self.domains = (Categorical,)
        self.weighted = True
        self.name = file.name.partition(".")[0]
        self.identity = identity
        self.count_gaps = count_gaps
        self.fractions = {"val": val_fraction, "test": test_fraction}
        self.split_seed = split_seed

    @property
    def preprocessing(self) -> Preprocessing:
        """How values become one-hot vectors, with the letters of the values and the columns of the sites from 1."""
        columns = tuple(str(column + 1) for column in self.family.columns.tolist())
        alphabet, width = self.family.alphabet, self.family.dropped.columns
        form = Preprocessing(self.raw_shape, num_classes=len(alphabet.letters), columns=columns, width=width)
        return replace(form, letters=alphabet.letters, gap=alphabet.gap)

    @property
    def scaling(self) -> Preprocessing:
        return self.preprocessing

    def adopt(self, saved: Preprocessing) -> None:
        """Also refuses an alignment whose sites are not the columns of the checkpoint's training data."""
        check_columns(self.preprocessing.columns, saved.columns, f"Alignment: {self.name}")
        super().adopt(saved)

    @functools.cached_property
    def all_weights(self) -> Tensor:
        """The weights of all sequences of `family`, `(N,)`, float64; their sum is Meff."""
        return self._compared[0] if self._given_weights is None else self._given_weights

    def weights(self, split: str) -> Tensor:
        """The weights of a split's sequences, `(N,)`, float32, with mean 1."""
        return with_mean_one(self.all_weights[self.part(split)], f"Alignment, {split} split")

    def part(self, split: str) -> Tensor:
        """The numbers of a split's sequences in `family`, in order."""
        of_group = self._split_of_group
        return (of_group[self._compared[1]] == SPLITS.index(split)).nonzero().flatten()

    def load(self, split: str) -> tuple[Tensor, None]:
        """Values `(N, d)`, uint8; a pure function of the file, the options and the split."""
        return self.family.values[self.part(split)], None

    def setup(self, stage: str | None = None) -> None:
        """Reads the splits that the stage needs, and says what was left out of the alignment."""
        super().setup(stage)
        if stage == "fit":
            rank_zero_info(f"Alignment: {self.description()}")

    def description(self) -> str:
        """What the alignment held, what was left out and what is there, in one line."""
        found, parts = self.family, ", ".join(f"{len(self.part(split)):,} {split}" for split in SPLITS)
        return (
            f"{found.dropped}; {len(found.values):,} sequences of {found.values.shape[1]} sites are left ({parts}), "
            f"Meff {effective_number(self.all_weights):,.1f}"
        )

    @functools.cached_property
    def _compared(self) -> tuple[Tensor, Tensor]:
        """The weight and the group of each sequence."""
        values = self.family.values
        gap = None if self.count_gaps or self.identity is None else self.family.alphabet.gap_value
        found = compare(values, 1.0 if self.identity is None else self.identity, gap=gap, progress=True)
        return torch.ones(len(values), dtype=torch.float64) if self.identity is None else found.weights, found.groups

    @functools.cached_property
    def _split_of_group(self) -> Tensor:
        """The number of the split of each group: in random order, those that still fit into test, then val."""
        sizes = torch.bincount(self._compared[1])
        total = len(self.family.values)
        room = {split: max(1, round(fraction * total)) for split, fraction in self.fractions.items()}
        chosen = torch.zeros(len(sizes), dtype=torch.int64)
        for group in torch.randperm(len(sizes), generator=stream("alignment", self.split_seed)).tolist():
            size = int(sizes[group])
            split = next((s for s in ("test", "val") if size <= room[s]), None)
            if split is not None:
                chosen[group] = SPLITS.index(split)
                room[split] -= size
        for number, split in enumerate(SPLITS):
            if not (chosen == number).any():
                few = "check alphabet and max_sequence_gaps" if len(sizes) == total else "set identity higher"
                raise UserError(
                    f"Alignment: {self.family.dropped}; {how_many(len(sizes), 'group')} of alike ones among "
                    f"{how_many(total, 'sequence')}, the largest of {int(sizes.max())}, which leaves none for "
                    f"the {split} split: {few}, or set larger fractions"
                )
        return chosen


@functools.lru_cache(maxsize=4)  # the command line makes a datamodule more than once
def _family(file: Path, changed: int, alphabet: str, **options: Any) -> Family:
    return read_family(file, alphabet, **options)
