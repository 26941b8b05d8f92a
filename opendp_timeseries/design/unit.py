"""The unit of privacy: what a distance of 1 between two logs is."""

from dataclasses import dataclass

from opendp_timeseries._refusal import Refusal
from opendp_timeseries.grid import Period


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The change between two logs that is a distance of 1.

    :param replaced: True if individuals are replaced, False if they are added or removed.
    :param period: what a period is, if an individual counts anew within each; None if the unit is all that an
        individual did.
    :param individuals: how many of them may differ at a distance of 1: 1, or 2 for OpenDP's
        ``change_one_id_distance``.
    """

    replaced: bool = False
    period: Period | None = None
    individuals: int = 1

    def __post_init__(self) -> None:
        if self.individuals not in (1, 2):
            raise Refusal("individuals of the unit", self.individuals, "must be 1 or 2")

    def __str__(self) -> str:
        return self.of(1)

    def of(self, distance: int) -> str:
        """Put a distance into words."""
        people = distance * self.individuals
        noun = "one individual" if people == 1 else f"{people} individuals"
        if self.period is not None:
            noun += f"{'' if people == 1 else ', each'} within {self.period}, not all that they did,"
        return f"{noun} {'replaced' if self.replaced else 'added or removed'}"

    def python(self) -> str:
        """Return the call that makes this distance between event logs.

        :raises ValueError: for a unit that event logs have no distance for.
        """
        if self.individuals != 1:
            raise Refusal("the call", ..., f"is not written for a unit of {self}", "write it by hand")
        if self.period is None:
            return "dp.change_one_distance()" if self.replaced else "dp.symmetric_distance()"
        zone = "" if self.period.zone is None else f", zone={self.period.zone!r}"
        return f"ts.period_distance({self.period.length!r}{zone}{', replaced=True' if self.replaced else ''})"
