"""How individuals are weighted, by how often they come: a class for each way, with all that follows from it.

Engines know of steps that are dropped, and of :class:`~opendp_timeseries.design.weights.Weights`; of nothing else.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.influence import NORMS, Influence, Reach, count_influence
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.weights import FULL, RESOLUTION_BITS, Weights


@dataclass(frozen=True)
class _Capped:
    """A cap on the steps in which one individual counts in full.

    :param cap: ``I``, steps over all series of a panel; in each period, if individuals count anew in each.
    """

    cap: int

    #: Number of noisy series that a release holds.
    series: ClassVar[int] = 1

    def __post_init__(self) -> None:
        remedy = "the most steps that one individual may enter"
        object.__setattr__(self, "cap", check.integer("participation_cap", self.cap, minimum=1, remedy=remedy))

    def check_reading(self, reading: Reading) -> None:
        """Refuse a reading of groups, which are weighed without a cap."""
        if reading.grouping is not None:
            raise Refusal(
                "participation_cap",
                self.cap,
                "must be left out with groups, in whose sums everybody counts, or add up the panel by make_totals",
            )

    def is_full(self, reading: Reading) -> bool:
        """Return whether everybody counts in full in all of their steps."""
        return self.cap >= reading.max_steps


@dataclass(frozen=True)
class Drop(_Capped):
    """A cap on steps: of an individual in more steps, a random ``cap`` of them count in full, the others not at all."""

    #: Its name in files.
    tag: ClassVar[str] = "drop"
    norm: ClassVar[None] = None
    #: Binary places of its weights, none where all are whole.
    resolution_bits: ClassVar[int] = 0

    def is_drawn(self, reading: Reading) -> bool:
        """Return whether each count draws anew which steps count."""
        return self.cap < reading.max_steps

    def influence(self, reading: Reading, reach: Reach) -> Influence:
        """Return how far individuals with this reach move the counts."""
        return count_influence(**reach._asdict(), participation_cap=self.cap)

    def arguments(self) -> dict[str, str]:
        """Return what a constructor is called with, beside the cap."""
        return {"excess": "drop"}

    def words(self, place: str, reading: Reading) -> str:
        """Say in which steps, or whatever they are in, an individual counts."""
        return f"at most {self.cap} {place}{'' if self.cap == 1 else 's'}"


@dataclass(frozen=True)
class Downweight(_Capped):
    """All steps of an individual count, by one weight that brings the norm of their events down to that of the cap.

    This is also called clipping: of each individual's vector of counts, as a whole.

    :param norm: ``"l2"``, whose norm is brought down to ``M√I``, of the step cap ``M`` and the cap ``I``; or ``"l1"``,
        down to ``M·I``, for the Laplace mechanism and for totals over time.
    """

    norm: str = "l2"

    tag: ClassVar[str] = "downweight"
    resolution_bits: ClassVar[int] = RESOLUTION_BITS

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("norm", self.norm, NORMS)

    def weights(self, reading: Reading) -> Weights:
        """Return the weights of all sizes: in full up to the cap."""
        power = 2 if self.norm == "l2" else 1
        return Weights(power, (self.cap * reading.step_cap**power,), np.array([[FULL]], dtype=np.int64))

    def is_drawn(self, reading: Reading) -> bool:
        """Return False: nothing is drawn."""
        return False

    def influence(self, reading: Reading, reach: Reach) -> Influence:
        """Return how far individuals with this reach move the counts."""
        return count_influence(**reach._asdict(), participation_cap=self.cap, norm=self.norm)

    def arguments(self) -> dict[str, str]:
        """Return what a constructor is called with, beside the cap."""
        return {} if self.norm == "l2" else {"norm": self.norm}

    def words(self, place: str, reading: Reading) -> str:
        """Say in which steps, or whatever they are in, an individual counts, and how much."""
        half = self.cap * (4 if self.norm == "l2" else 2)  # weights are √(cap/n), or cap/n
        if reading.step_cap == 1:
            return f"every {place} (in more than {self.cap}, for less in each: in {half}, for half)"
        more, less = f"in more than {self.cap}, for less; in {half}, for half", "less" if reading.is_sum else "fewer"
        return f"every {place} (with {reading.step_cap} in each: {more}; with {less} in each, in more {place}s)"


#: All ways of weighting. A closed union: mypy finds whoever calls what one of them lacks.
Weighting = Drop | Downweight | Tiers

#: What may become of an individual in more steps than the cap.
EXCESS_CHOICES: Final = ("downweight", "drop")


def limit_steps(cap: int, *, excess: str, norm: str | None = None) -> Drop | Downweight:
    """Return the weighting with a cap.

    :param excess: ``"downweight"`` or ``"drop"``.
    :param norm: of those weighed down; ``"l2"`` if left out.
    :raises TypeError, ValueError: for anything else, or a norm where steps are dropped.
    """
    if check.choice("excess", excess, EXCESS_CHOICES) == "downweight":
        return Downweight(cap, "l2" if norm is None else norm)
    if norm is not None:
        raise Refusal("norm", norm, "is for `excess='downweight'`", "leave it out where steps are dropped")
    return Drop(cap)
