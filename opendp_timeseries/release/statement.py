"""What a release states of its loss: for whom, in which view, and as part of which whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from opendp_timeseries import _validate as check
from opendp_timeseries._json import fields_of
from opendp_timeseries.accounting.rounding import printed_up as up
from opendp_timeseries.accounting.view import APPROXIMATE, CONCENTRATED, Points, View

__all__ = ["Statement", "Whole", "read_points"]

#: What a release may be part of, and how that is said.
_KINDS: Final = {
    "composition": "a composition",
    "context": "a Context",
    "programme": "a programme",
    "ledger": "a ledger",
}


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The whole of which a release is a part, and what all of it guarantees for the same individuals.

    :param kind: ``"composition"``, ``"context"``, ``"programme"`` or ``"ledger"``.
    :param loss: (ε, δ), or (ρ, δ′), of the whole.
    :param measure: the measure of that, as of :class:`~opendp_timeseries.accounting.view.View`.
    :param number: of this release, or of its entry in a ledger, from 1.
    :param parts: number of releases of the whole, where that is fixed.
    :param identifier: of the ledger or the programme.
    :param digest: of the ledger with this entry, so that an entry that was taken back is missed.
    """

    kind: str
    loss: tuple[float, float]
    measure: str = APPROXIMATE
    number: int | None = None
    parts: int | None = None
    identifier: str | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"kind of the whole ({self.kind!r}) must be one of {', '.join(_KINDS)}")
        if self.measure not in (APPROXIMATE, CONCENTRATED):
            raise ValueError(f"measure of the whole ({self.measure!r}) must be {APPROXIMATE!r} or {CONCENTRATED!r}")
        first, delta = self.loss
        check.real("loss of the whole", first, minimum=0.0)
        check.real("delta of the whole", delta, minimum=0.0, below=1.0)
        for name in ("number", "parts"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), minimum=1)

    def __str__(self) -> str:
        of = "" if self.parts is None else f" of {self.parts}"
        number = f"release {self.number}{of} in " if self.number is not None else "in "
        if self.kind == "ledger":
            number = f"entry {self.number} of "
        first, delta = self.loss
        if self.measure == CONCENTRATED:
            loss = f"{up(delta, 4)}-approximate {up(first)}-zCDP"
        else:
            loss = f"(ε = {up(first)}, δ = {up(delta, 4)})"
        return f"{number}{_KINDS[self.kind]} with {loss} in all"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        return {name: getattr(self, name) for name in _WHOLE} | {"loss": list(self.loss)}

    @classmethod
    def from_dict(cls, document: Any) -> Whole:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises TypeError, ValueError: for anything else.
        """
        fields = fields_of(document, "whole", _WHOLE)
        (loss,) = read_points([fields["loss"]])
        return cls(**fields | {"loss": loss})


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is stated of the loss of a release.

    :param view: which view of the loss.
    :param distance: for how many units of privacy, such as individuals.
    :param whole: of which the release is a part; None if nothing else is known to be released.
    :param points: the loss in this view, as of :meth:`.View.points`; empty before it is computed.
    """

    view: View
    distance: int = 1
    whole: Whole | None = None
    points: Points = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", check.integer("distance", self.distance, minimum=1, maximum=2**31))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        return {
            "distance": self.distance,
            "view": self.view.to_dict(),
            "loss": [list(point) for point in self.points],
            "whole": None if self.whole is None else self.whole.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Any) -> Statement:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises TypeError, ValueError: for anything else.
        """
        fields = fields_of(document, "statement", _STATEMENT)
        return cls(
            view=View.from_dict(fields["view"]),
            distance=fields["distance"],
            whole=None if fields["whole"] is None else Whole.from_dict(fields["whole"]),
            points=read_points(fields["loss"]),
        )


def read_points(points: list[Any]) -> Points:
    """Read the points of a loss.

    :raises ValueError: if these are no pairs of numbers.
    """
    if not points or not all(
        isinstance(point, list) and len(point) == 2 and all(type(number) in (int, float) for number in point)
        for point in points
    ):
        raise ValueError("loss must list pairs of numbers")
    return tuple((float(first), float(second)) for first, second in points)


_WHOLE: Final[dict[str, Any]] = {
    "kind": str,
    "measure": str,
    "loss": list,
    "number": (int, type(None)),
    "parts": (int, type(None)),
    "identifier": (str, type(None)),
    "digest": (str, type(None)),
}
_STATEMENT: Final[dict[str, Any]] = {"distance": int, "view": dict, "loss": list, "whole": (dict, type(None))}
