"""The statement of a release about its loss: for whom, in which view, and as part of which parent."""

import re
from dataclasses import dataclass
from typing import Final

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED, Points, View, in_words

_HEXADECIMAL: Final = re.compile("[0-9a-f]+")
#: Kinds of parents, with their names in sentences.
_KINDS: Final = {"composition": "composition", "context": "Context", "programme": "programme", "ledger": "ledger"}


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The composition, Context, programme or ledger of a release, with its guarantee for the same individuals.

    :param kind: ``"composition"``, ``"context"``, ``"programme"`` or ``"ledger"``.
    :param loss: (ε, δ), or (ρ, δ′), of the parent.
    :param measure: the measure of that loss, as in :class:`~opendp_timeseries.accounting.loss.View`.
    :param number: of this release, or of its entry in a ledger, from 1; for the ledger's programme, its number there.
    :param parts: number of releases of the parent, if fixed; for a ledger, of its programme. Of a programme of parts of
        several releases each, these are numbered.
    :param identifier: of the ledger or the programme.
    :param digest: of the ledger with this entry, so that the removal of an entry is noticed.
    :param programme: identifier of the ledger's programme, if the entry is for it.
    """

    kind: str
    loss: tuple[float, float]
    measure: str = APPROXIMATE
    number: int | None = None
    parts: int | None = None
    identifier: str | None = None
    digest: str | None = None
    programme: str | None = None

    def __post_init__(self) -> None:
        check.choice("kind of the parent", self.kind, _KINDS)
        check.choice("measure of the parent", self.measure, (APPROXIMATE, CONCENTRATED))
        first, delta = self.loss
        check.real("loss of the parent", first, minimum=0.0)
        check.real("delta of the parent", delta, minimum=0.0, below=1.0)
        for name, maximum in (("parts", None), ("number", self.parts)):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), minimum=1, maximum=maximum)
        for name in ("identifier", "digest", "programme"):  # they are displayed, and may come from any document
            value = getattr(self, name)
            if value is not None and not _HEXADECIMAL.fullmatch(value):
                raise Refusal(f"{name} of the parent", value, "must be hexadecimal")

    def __str__(self) -> str:
        of = "" if self.parts is None else f" of {self.parts}"
        number = f"release {self.number}{of} in " if self.number is not None else "in "
        name = f"a {self.name}"
        programme = "the programme" if self.planned is None else f"programme {self.planned[:16]}"
        if self.kind == "ledger" and self.number is not None:
            number = f"entry {self.number} of " if self.parts is None else f"{number}{programme} of "
        elif self.planned is not None:
            name = programme
        return f"{number}{name} with {in_words(self.measure, *self.loss)} in all"

    @property
    def name(self) -> str:
        """Name of its kind, for sentences."""
        return _KINDS[self.kind]

    @property
    def planned(self) -> str | None:
        """Identifier of the programme to which a release belongs, under which it was published; None if it has none."""
        return self.identifier if self.kind == "programme" else self.programme


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The statement of a release about its loss.

    :param view: the view of the loss.
    :param distance: number of units of privacy, such as individuals, that it covers.
    :param parent: that of which the release is a part; None if no other release is known.
    :param loss: in this view, as returned by :meth:`.View.points`; empty until computed.
    """

    view: View
    distance: int = 1
    parent: Parent | None = None
    loss: Points = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", check.integer("distance", self.distance, minimum=1, maximum=2**31))
