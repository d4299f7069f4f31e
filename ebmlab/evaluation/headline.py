"""The number of an evaluation that counts, in one line for people."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from types import NoneType

from ebmlab.errors import shown

NUMBERS = (float, int)
KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "value": NUMBERS,
    "unit": (str,),
    "error": (*NUMBERS, NoneType),
    "trusted": (bool, NoneType),
    "about": (str,),
    "begin": (*NUMBERS, NoneType),
}
"""The types of a headline's fields in a checkpoint."""


@dataclass(frozen=True)
class Headline:
    """One score and how far to trust it, as `fit`, `validate` and `test` print it at their end.

    Attributes:
        name: what was measured, such as "FID" or "validation log-likelihood".
        value: the number.
        unit: of the number.
        error: its standard error.
        trusted: whether the evaluation trusts it; None if it does not judge.
        about: how it was measured, in a word.
        begin: the number at the first evaluation of the training.

    Example:
        >>> print(Headline("FID", 14.1, about="classifier", begin=283.6))
        FID 283.6 -> 14.1 (classifier)
        >>> print(Headline("validation log-likelihood", -126.63, unit="nats", error=0.4, trusted=True))
        validation log-likelihood -126.6 +- 0.4 nats, trusted
    """

    name: str
    value: float
    _: KW_ONLY
    unit: str = ""
    error: float | None = None
    trusted: bool | None = None
    about: str = ""
    begin: float | None = None

    @classmethod
    def kept(cls, values: object) -> Headline | None:
        """The headline that a checkpoint, which may be a stranger's, keeps as a dictionary; None if it keeps none.

        Example:
            >>> Headline.kept({"name": "FID", "value": 14.1}), Headline.kept({"name": 3})
            (Headline(name='FID', value=14.1, unit='', error=None, trusted=None, about='', begin=None), None)
        """
        if not isinstance(values, dict) or not {"name", "value"} <= {*values} <= {*KINDS}:
            return None
        return cls(**values) if all(type(value) in KINDS[name] for name, value in values.items()) else None

    def __str__(self) -> str:
        begin = "" if self.begin is None else f"{self.begin:.4g} -> "
        words = [_one_line(self.name), begin + _with_error(self.value, self.error)]
        words += [_one_line(self.unit)] if self.unit else []
        words += [f"({_one_line(self.about)})"] if self.about else []
        judged = {None: "", True: ", trusted", False: ", not to be trusted"}[self.trusted]
        return " ".join(words) + judged


def _one_line(text: str) -> str:
    return shown(" ".join(text.split()))


def _with_error(value: float, error: float | None) -> str:
    """Both numbers to the error's first digit; the value alone to four digits."""
    if error is None or not 0 < error < math.inf:
        return f"{value:.4g}"
    digits = max(0, -math.floor(math.log10(error)))
    return f"{value:.{digits}f} +- {error:.{digits}f}"
