"""The letters of an alignment and the numbers that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebmlab.errors import UserError

PROTEIN, RNA, DNA = "-ACDEFGHIKLMNPQRSTVWY", "-ACGU", "-ACGT"
NAMED = {"protein": PROTEIN, "rna": RNA, "dna": DNA}
UNKNOWN = 255  # stands for a letter that is not in the alphabet


@dataclass(frozen=True)
class Alphabet:
    """Letters in the order of their values. The named alphabets have the gap first.

    Attributes:
        letters: each a single character other than white space, none twice.
        gap: the letter of a gap; an alphabet without it has no gaps.

    Example:
        >>> rna = Alphabet.of("rna")
        >>> values = rna.encode(["GA-U"])
        >>> values.tolist(), rna.decode(values)
        ([[3, 1, 0, 4]], ['GA-U'])
    """

    letters: str
    gap: str = "-"

    @classmethod
    def of(cls, name: str, gap: str = "-") -> Alphabet:
        """The alphabet that is called `protein`, `rna` or `dna`, or that of the given letters.

        Raises:
            UserError: there are fewer than two letters, or one of them twice, or no letter of a gap.
        """
        letters = NAMED.get(name.lower(), name)
        wrong = any(letter.isspace() or not letter.isascii() for letter in letters)
        if len(letters) < 2 or len(letters) >= UNKNOWN or len(set(letters)) < len(letters) or wrong:
            raise UserError(
                f"the alphabet is '{name}', but must be {', '.join(NAMED)}, or two or more letters, none twice, such "
                "as -ACGT"
            )
        if len(gap) != 1:
            raise UserError(f"gap is '{gap}', but must be one letter")
        return cls(letters, gap)

    @property
    def gap_value(self) -> int | None:
        """The number of the gap; None in an alphabet without one."""
        return self.letters.index(self.gap) if self.gap in self.letters else None

    def encode(self, texts: Sequence[str]) -> NDArray[np.uint8]:
        """Values `(N, L)` of N texts of one length L; `UNKNOWN` for letters that are not in the alphabet.

        An alphabet of nucleotides takes T as U, or U as T, whichever of them it lacks.

        Example:
            >>> Alphabet.of("rna").encode(["GATU"]).tolist()
            [[3, 1, 4, 4]]
        """
        table = np.full(256, UNKNOWN, np.uint8)
        table[np.frombuffer(self.letters.encode(), np.uint8)] = np.arange(len(self.letters), dtype=np.uint8)
        bases = set(self.letters) - {self.gap}
        if bases <= set("ACGTU") and len(bases & set("TU")) == 1:
            table[[*b"TU"]] = table[[*b"TU"]].min()
        joined = "".join(texts).encode("ascii", "replace")
        return table[np.frombuffer(joined, np.uint8)].reshape(len(texts), -1)

    def decode(self, values: Any) -> list[str]:
        """The texts of values `(N, L)`."""
        signs = np.frombuffer(self.letters.encode(), np.uint8)[np.asarray(values)]
        return [row.tobytes().decode() for row in signs]
