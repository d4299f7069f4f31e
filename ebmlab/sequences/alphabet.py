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
    """Letters in the order of their values, whatever their case. The named alphabets have the gap first.

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
            UserError: there are fewer than two letters, or 255 and more. One is there twice, in either case, is a space
                or is not ASCII. Or the gap is not one letter.
        """
        letters = NAMED.get(name.lower(), name)
        wrong = any(letter.isspace() or not letter.isascii() for letter in letters)
        if len(letters) < 2 or len(letters) >= UNKNOWN or len(set(letters.upper())) < len(letters) or wrong:
            raise UserError(
                f"the alphabet is '{name}', but must be {', '.join(NAMED)}, or two or more ASCII characters, no "
                "spaces and none twice in either case, such as -ACGT"
            )
        if len(gap) != 1:
            raise UserError(f"gap is '{gap}', but must be one letter")
        return cls(letters, gap)

    @property
    def gap_value(self) -> int | None:
        """The number of the gap; None in an alphabet without one."""
        return self.letters.index(self.gap) if self.gap in self.letters else None

    @property
    def takes_t_as_u(self) -> bool:
        """Whether T and U are one letter, as in an alphabet of nucleotides that has one of them."""
        bases = set(self.letters.upper()) - {self.gap.upper()}
        return bases <= set("ACGTU") and len(bases & set("TU")) == 1

    def encode(self, texts: Sequence[str]) -> NDArray[np.uint8]:
        """Values `(N, L)` of N texts of one length L, in either case; `UNKNOWN` for letters outside the alphabet.

        An alphabet of nucleotides takes T as U, or U as T, whichever of them it lacks.

        Example:
            >>> Alphabet.of("rna").encode(["GATu"]).tolist()
            [[3, 1, 4, 4]]
        """
        table = np.full(256, UNKNOWN, np.uint8)
        for letters in (self.letters.swapcase(), self.letters):
            table[np.frombuffer(letters.encode(), np.uint8)] = np.arange(len(letters), dtype=np.uint8)
        if self.takes_t_as_u:
            table[[*b"TUtu"]] = table[[*b"TU"]].min()
        joined = "".join(texts).encode("ascii", "replace")
        return table[np.frombuffer(joined, np.uint8)].reshape(len(texts), -1)

    def value(self, letter: str) -> int | None:
        """The value of one letter, read as by `encode`; None if it is not in the alphabet."""
        value = int(self.encode([letter])[0, 0])
        return None if value == UNKNOWN else value

    def decode(self, values: Any) -> list[str]:
        """The texts of values `(N, L)`."""
        signs = np.frombuffer(self.letters.encode(), np.uint8)[np.asarray(values)]
        return [row.tobytes().decode() for row in signs]
