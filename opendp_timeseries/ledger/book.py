"""The content of a ledger, and the account of it: no file, and no data."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.fully_adaptive import RenyiFilter
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.design.mechanism import Mechanism
from opendp_timeseries.design.provenance import Adjacency, fields_of
from opendp_timeseries.ledger.chain import chained, unchained
from opendp_timeseries.ledger.programme import Programme
from opendp_timeseries.release.record import ReleaseRecord, parse_json

__all__ = ["Book", "Entry", "Standing", "Terms", "check_unit", "written"]

_FORMAT: Final = "opendp_timeseries ledger, version 2"
#: A loss that is computed again may differ in the last digits between machines.
_TOLERANCE: Final = 1 + 1e-9


class Entry(NamedTuple):
    """A line of the ledger: what was spent together.

    :param number: from 1.
    :param mechanisms: what ran, or was to run: one, or several of a composition.
    :param spent: when, in UTC, before anything was counted.
    :param released: when its records were written; None if that did not happen, and so nothing was handed out.
    """

    number: int
    mechanisms: tuple[Mechanism, ...]
    spent: str
    released: str | None


class Standing(NamedTuple):
    """What the releases so far cost together.

    :param adaptivity: what may be chosen by what earlier releases showed: nothing (non-adaptive), everything but the
        parameters of the loss (adaptive), or everything (fully adaptive).
    :param epsilon: ε of the releases so far, at the δ of the budget.
    :param within: whether they are within the budget.
    """

    adaptivity: str
    epsilon: float
    within: bool


class Terms(NamedTuple):
    """What was fixed when the ledger was made.

    :param epsilon: ε of all releases together.
    :param delta: δ of all releases together.
    :param adjacency: what a distance of 1 between two logs is: all that one individual did, or did within a period.
    :param order: of the Rényi divergences of a privacy filter; None if all parameters are fixed in advance.
    :param programme: releases that are planned.
    :param identifier: no two ledgers are alike.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    order: float | None
    programme: Programme | None
    identifier: str

    def to_dict(self) -> dict[str, Any]:
        """Return what the first entry of the file says."""
        programme = None if self.programme is None else self.programme.to_dict()
        return {"format": _FORMAT} | self._asdict() | {"adjacency": self.adjacency.to_dict(), "programme": programme}

    @classmethod
    def from_dict(cls, document: Any) -> Terms:
        """Read back what :meth:`to_dict` wrote, and nothing else.

        :raises TypeError, ValueError: for anything else, naming it.
        """
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise ValueError(f"it is not in the format {_FORMAT!r}")
        fields = fields_of(document, "the first entry", _TERMS)
        del fields["format"]
        check.real("epsilon", fields["epsilon"], above=0.0)
        check.real("delta", fields["delta"], above=0.0, below=1.0)
        if fields["order"] is not None:
            check.real("order", fields["order"], above=1.0)
        fields["adjacency"] = Adjacency.from_dict(fields["adjacency"])
        if fields["programme"] is not None:
            fields["programme"] = Programme.from_dict(fields["programme"])
        return cls(**fields)

    def standing(self, ran: Counter[Mechanism], slack: float = 1.0) -> Standing:
        """Account for what ran, by the bound that holds; ``slack`` is for δ."""
        if not ran:
            return Standing(self.adaptivity, 0.0, True)
        planned = Counter(() if self.programme is None else self.programme.mechanisms)
        if self.programme is not None and ran <= planned:
            # All of it is within the budget, and of what is fixed in advance a part costs no more than the whole.
            parts = [_joint(part, adaptive=False) for part in self._at_once(ran)]
            return Standing("non-adaptive", max(loss.epsilon(self.delta) for loss in parts), True)
        if self.order is None:
            parts = [_joint(part, adaptive=True) for part in self._at_once(ran)]
            within = all(loss.delta(self.epsilon) <= self.delta * slack for loss in parts)
            return Standing("adaptive", max(loss.epsilon(self.delta) for loss in parts), within)
        privacy_filter = RenyiFilter(self.epsilon, self.delta * slack, self.order)
        # What is planned is spent, as it will run.
        divergence = max(privacy_filter.divergence(_losses(part).items()) for part in self._at_once(ran | planned))
        return Standing("fully adaptive", privacy_filter.epsilon_of(divergence), privacy_filter.admits(divergence))

    def _at_once(self, ran: Counter[Mechanism]) -> list[Counter[Mechanism]]:
        """Return the sets of releases that one and the same individual can be in, and that are in no other such set.

        An individual within a period is in those alone that look at this period (docs/proofs/period_unit.md). One who
        is replaced may be in two periods, and is taken to be in all releases.
        """
        spans = {mechanism: mechanism.provenance.period_span for mechanism in ran}
        firsts = {span[0] for span in spans.values() if span is not None}
        if self.adjacency.period is None or self.adjacency.replaced or not firsts:
            return [ran]
        return [
            Counter({made: n for made, n in ran.items() if (span := spans[made]) is None or span[0] <= at <= span[1]})
            for at in sorted(firsts)
        ]

    @property
    def adaptivity(self) -> str:
        """What may be chosen by what earlier releases showed, as of :class:`Standing`."""
        if self.programme is not None:
            return "non-adaptive"
        return "adaptive" if self.order is None else "fully adaptive"


def _losses(mechanisms: Counter[Mechanism]) -> Counter[PrivacyLoss]:
    return Counter(mechanism.loss() for mechanism in mechanisms.elements())


def _joint(mechanisms: Counter[Mechanism], *, adaptive: bool) -> PrivacyLoss:
    return joint_loss(list(_losses(mechanisms).elements()), adaptive=adaptive)


@dataclass(frozen=True)
class Book:
    """The content of a ledger. It changes only by entries that are added."""

    terms: Terms
    lines: tuple[str, ...]
    entries: tuple[Entry, ...] = ()
    digest: str = ""

    @classmethod
    def new(cls, terms: Terms) -> Book:
        """Return the content of a new ledger."""
        return cls(terms, (written(terms.to_dict()),))

    @classmethod
    def read(cls, file: bytes) -> Book:
        """Read back what :meth:`write` wrote, and nothing else. Records are not read: :meth:`records` does it.

        :raises ValueError: if it is no ledger, or not as it was written, naming what is wrong.
        """
        lines, digest = unchained(file)
        try:
            book = cls.new(Terms.from_dict(parse_json(lines[0])))
            if book.lines[0] != lines[0]:
                raise ValueError("its first entry is not as it would be written")
            entries: list[Entry] = []
            for line in lines[1:]:
                _append(entries, line, book.terms.adjacency)
        except TypeError as error:
            raise ValueError(str(error)) from None
        return replace(book, lines=tuple(lines), entries=tuple(entries), digest=digest)

    def write(self) -> bytes:
        """Return the file."""
        return chained(self.lines)

    def with_spent(self, mechanisms: Sequence[Mechanism]) -> Book:
        """Return the book after one more entry: the number of entries is its number."""
        line = {
            "spent": len(self.entries) + 1,
            "at": _now(),
            "mechanisms": [mechanism.to_dict() for mechanism in mechanisms],
        }
        return self._with(line)

    def with_released(self, number: int, records: Sequence[ReleaseRecord]) -> Book:
        """Return the book after an entry was completed."""
        return self._with({"released": number, "at": _now(), "records": [record.to_dict() for record in records]})

    def _with(self, document: dict[str, Any]) -> Book:
        entries, line = list(self.entries), written(document)
        _append(entries, line, self.terms.adjacency)
        return replace(self, lines=(*self.lines, line), entries=tuple(entries))

    def ran(self) -> Counter[Mechanism]:
        """Return what was entered, whether or not it was completed."""
        return Counter(mechanism for entry in self.entries for mechanism in entry.mechanisms)

    def planned(self) -> list[Mechanism]:
        """What is planned and has not run yet, in order."""
        left, ran = [], self.ran()
        for mechanism in () if self.terms.programme is None else self.terms.programme.mechanisms:
            if ran[mechanism] > 0:
                ran[mechanism] -= 1
            else:
                left.append(mechanism)
        return left

    def standing(self) -> Standing:
        """Return what the releases so far cost together."""
        return self.terms.standing(self.ran(), _TOLERANCE)

    def allows(self, *more: Mechanism) -> Standing:
        """Return what the releases so far cost together with more of them."""
        return self.terms.standing(self.ran() + Counter(more))

    def records(self) -> dict[int, tuple[ReleaseRecord, ...]]:
        """Return the records by the numbers of their entries, in the order in which they were written.

        :raises ValueError: if one is no record.
        """
        found = {}
        for line in self.lines[1:]:
            if line.startswith(_RELEASED_BEGINS):
                document = fields_of(parse_json(line), "an entry", {"released": int, "at": str, "records": list})
                found[document["released"]] = tuple(map(ReleaseRecord.from_dict, document["records"]))
        return found


_TERMS: Final[dict[str, Any]] = {
    "format": str,
    "epsilon": float,
    "delta": float,
    "adjacency": dict,
    "order": (float, type(None)),
    "programme": (dict, type(None)),
    "identifier": str,
}
_RELEASED_BEGINS: Final = '{"released": '
#: Records are long, and are read only when asked for.
_RELEASED: Final = re.compile(r'\{"released": (\d+), "at": "([0-9:TZ-]+)", "records": \[.*\]\}')


def _append(entries: list[Entry], line: str, adjacency: Adjacency) -> None:
    """Add what a line says.

    :raises ValueError: if it is no line of a ledger, or does not follow the ones before it.
    """
    released = _RELEASED.fullmatch(line)
    if released is not None:
        number = int(released[1])
        if not 1 <= number <= len(entries) or entries[number - 1].released is not None:
            raise ValueError(f"entry {number} is completed without being open")
        entries[number - 1] = entries[number - 1]._replace(released=released[2])
        return
    fields = fields_of(parse_json(line), "an entry", {"spent": int, "at": str, "mechanisms": list})
    if fields["spent"] != len(entries) + 1 or not fields["mechanisms"]:
        raise ValueError(f"entry {fields['spent']} stands in the place of entry {len(entries) + 1}, or is empty")
    mechanisms = tuple(map(Mechanism.from_dict, fields["mechanisms"]))
    for mechanism in mechanisms:
        check_unit(mechanism.provenance.adjacency, adjacency)
    entries.append(Entry(fields["spent"], mechanisms, fields["at"], None))


def check_unit(found: Adjacency, ledger: Adjacency) -> None:
    """Refuse a release of another unit of privacy than the ledger's.

    :raises ValueError: naming both.
    """
    if found != ledger:
        raise ValueError(
            f"the unit of privacy of the ledger is {ledger}; that of the release is {found.of(found.individuals)}:"
            " what the two lose does not add up. Choose the input_metric of its count (--period) accordingly, or keep"
            " another ledger"
        )


def written(document: dict[str, Any]) -> str:
    """Return a line of a ledger."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
