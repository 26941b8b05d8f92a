"""The unit of privacy: what a distance of 1 between two logs is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from opendp_timeseries._json import fields_of
from opendp_timeseries.grid import Period

__all__ = ["Unit"]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What a distance of 1 between two logs is.

    :param replaced: True if individuals are replaced, False if they are added or removed.
    :param period: what a period is, if an individual counts anew within each; None if the unit is all that an
        individual did.
    :param individuals: how many individuals may differ at a distance of 1: 1, or 2 for OpenDP's
        ``change_one_id_distance``.
    """

    replaced: bool = False
    period: Period | None = None
    individuals: int = 1

    def __post_init__(self) -> None:
        if self.individuals not in (1, 2):
            raise ValueError(f"individuals of the unit ({self.individuals}) must be 1 or 2")

    def __str__(self) -> str:
        return self.of(1)

    def of(self, distance: int) -> str:
        """Put a distance into words."""
        people = distance * self.individuals
        who = "one individual" if people == 1 else f"{people} individuals"
        if self.period is not None:
            who += f"{'' if people == 1 else ', each'} within {self.period}, not all that they did,"
        return f"{who} {'replaced' if self.replaced else 'added or removed'}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        period = None if self.period is None else {"length": self.period.length, "zone": self.period.zone}
        return {"replaced": self.replaced, "period": period, "individuals": self.individuals}

    @classmethod
    def from_dict(cls, document: Any) -> Unit:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises TypeError, ValueError: for anything else.
        """
        fields = fields_of(document, "unit", _UNIT)
        if fields["period"] is not None:
            fields["period"] = Period(**fields_of(fields["period"], "period", _PERIOD))
        return cls(**fields)


_UNIT: Final[dict[str, Any]] = {"replaced": bool, "period": (dict, type(None)), "individuals": int}
_PERIOD: Final[dict[str, Any]] = {"length": (str, int), "zone": (str, type(None))}
