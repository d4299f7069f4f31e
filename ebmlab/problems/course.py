"""How far an annealing is, and what comes next."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SEGMENT = 10  # steps after which the states are looked at
EPSILON = 1e-9  # by which a sum of strides may miss 1


@dataclass(frozen=True)
class Course:
    """Where an annealing is.

    Attributes:
        num_steps: steps that are planned.
        began: seconds of the search at its start.
        origin: the progress at its start; above 0 after a reheating.
        taken: steps so far.
        progress: of the next step, from 0 to 1; above 1 at the end.
    """

    num_steps: int
    began: float = 0.0
    origin: float = 0.0
    taken: int = 0
    progress: float = 0.0

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return self.progress >= 1 + EPSILON

    def left(self, now: float, end: float) -> float:
        """How many steps are left: by plan, or as many as the time allows; infinite before the first one."""
        if end == math.inf:
            return self.num_steps - self.taken
        return max(1.0, (end - now) * self.taken / (now - self.began)) if self.taken else math.inf

    def ahead(self, now: float, end: float) -> tuple[list[float], Course]:
        """The progress of each of the next steps, and where they lead.

        If the time left is too short for an annealing, it goes faster and so ends cold. A state that is still hot is no
        minimum.

        Args:
            now: seconds of the search.
            end: when it stops; infinite if it goes by steps.
        """
        stride = (1 - self.origin) / max(self.num_steps - 1, 0.5)
        if end < math.inf:
            stride = max(stride, (1 - self.progress) / self.left(now, end))
        at_once = SEGMENT if self.taken or end == math.inf else 1  # the first step shows how long they take
        reached = [p for k in range(at_once) if (p := self.progress + k * stride) < 1 + EPSILON]
        return reached, replace(self, taken=self.taken + len(reached), progress=self.progress + len(reached) * stride)

    def next(self, now: float, end: float) -> Course:
        """The annealing after this one: twice as long, or as long as the time that is left."""
        left = (end - now) / (now - self.began)  # in annealings like this one
        return Course(int(self.taken * left) + SEGMENT if left < 6 else 2 * self.num_steps, began=now)

    def reheated(self, progress: float, now: float, end: float) -> Course:
        """The descent after this one, from a progress on: of the steps left, or by time as long as `next` would be."""
        steps = self.num_steps - self.taken if end == math.inf else self.next(now, end).num_steps
        return Course(steps, began=now, origin=progress, progress=progress)
