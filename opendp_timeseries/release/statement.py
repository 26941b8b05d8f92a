"""What a release states of its loss: for whom, in which view, and as part of which whole."""

import re
from dataclasses import dataclass
from typing import Final

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.loss import APPROXIMATE, CONCENTRATED, Points, View, in_words

_HEXADECIMAL: Final = re.compile("[0-9a-f]+")
#: What a release may be part of, and how that is said.
_WHOLES: Final = {"composition": "composition", "context": "Context", "programme": "programme", "ledger": "ledger"}


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The whole of which a release is a part, and what all of it guarantees for the same individuals.

    :param kind: ``"composition"``, ``"context"``, ``"programme"`` or ``"ledger"``.
    :param loss: (ε, δ), or (ρ, δ′), of the whole.
    :param measure: the measure of that loss, as in :class:`~opendp_timeseries.accounting.loss.View`.
    :param number: of this release, or of its entry in a ledger, from 1; if the ledger has a programme, and the entry is
        of it, its number there.
    :param parts: number of releases of the whole, where that is fixed; of a ledger, those of its programme.
    :param identifier: of the ledger or the programme.
    :param digest: of the ledger with this entry, so that an entry that was taken back is missed.
    :param programme: identifier of the programme of the ledger, if the entry is of it.
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
        check.choice("kind of the whole", self.kind, _WHOLES)
        check.choice("measure of the whole", self.measure, (APPROXIMATE, CONCENTRATED))
        first, delta = self.loss
        check.real("loss of the whole", first, minimum=0.0)
        check.real("delta of the whole", delta, minimum=0.0, below=1.0)
        for name, most in (("parts", None), ("number", self.parts)):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), minimum=1, maximum=most)
        for name in ("identifier", "digest", "programme"):  # which are shown, whoever wrote them
            value = getattr(self, name)
            if value is not None and not _HEXADECIMAL.fullmatch(value):
                raise ValueError(f"{name} of the whole ({check.shown(value)}) must be hexadecimal")

    def __str__(self) -> str:
        of = "" if self.parts is None else f" of {self.parts}"
        number = f"release {self.number}{of} in " if self.number is not None else "in "
        whole = f"a {self.name}"
        planned = "the programme" if self.planned is None else f"programme {self.planned[:16]}"
        if self.kind == "ledger":
            number = f"entry {self.number} of " if self.parts is None else f"{number}{planned} of "
        elif self.planned is not None:
            whole = planned
        return f"{number}{whole} with {in_words(self.measure, *self.loss)} in all"

    @property
    def name(self) -> str:
        """What it is, in a word."""
        return _WHOLES[self.kind]

    @property
    def planned(self) -> str | None:
        """The identifier of the programme of which a release is a part, by which it is found where it was published."""
        return self.identifier if self.kind == "programme" else self.programme


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is stated of the loss of a release.

    :param view: which view of the loss.
    :param distance: for how many units of privacy, such as individuals.
    :param whole: of which the release is a part; None if nothing else is known to be released.
    :param loss: in this view, as returned by :meth:`.View.points`; empty before it is computed.
    """

    view: View
    distance: int = 1
    whole: Whole | None = None
    loss: Points = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", check.integer("distance", self.distance, minimum=1, maximum=2**31))
