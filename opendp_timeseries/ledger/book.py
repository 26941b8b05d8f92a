"""The content of a ledger, and the account of it: no file, and no data.

It is written in JSON Lines. Every line but the last holds one entry, and the SHA-256 digest of the digest before it and
the entry's bytes; the last says how many they are. Digests can be forged: what is noticed are accidents and edits.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_type_hints

from opendp_timeseries import _validate as check
from opendp_timeseries._json import encode, fields_of, parse_json, read_versioned, written
from opendp_timeseries.accounting.calibrate import Budget
from opendp_timeseries.accounting.joint import FilteredLoss, joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.ledger.programme import Programme, check_budget
from opendp_timeseries.release.documents import population_of
from opendp_timeseries.release.release import Release

_FORMAT: Final = "opendp_timeseries ledger"
_VERSION: Final = 1
#: A loss that is computed again may differ in the last digits between machines.
_TOLERANCE: Final = 1 + 1e-9


class Entry(NamedTuple):
    """A line of the ledger: what was spent together.

    :param number: from 1.
    :param designs: what ran, or was to run: one, or several of a composition.
    :param spent: when, in UTC, before anything was counted.
    :param released: when its releases were written; None if that did not happen, and so nothing was handed out.
    """

    number: int
    designs: tuple[Design, ...]
    spent: str
    released: str | None


class Standing(NamedTuple):
    """What the releases so far cost together.

    :param adaptivity: what may be chosen by what earlier releases showed: nothing (non-adaptive), everything but the
        parameters of the loss (adaptive), or everything (fully adaptive).
    :param epsilon: ε of the releases so far, at the δ of the budget; None if that is in ρ.
    :param within: whether they are within the budget.
    :param rho: ρ of the releases so far, of a budget in ρ.
    """

    adaptivity: str
    epsilon: float | None
    within: bool
    rho: float | None = None


class Terms(NamedTuple):
    """What was fixed when the ledger was made."""

    epsilon: float | None  #: of all releases together
    delta: float | None  #: of all releases together
    unit: Unit  #: what a distance of 1 between two logs is
    order: float | None  #: of the Rényi divergences of a privacy filter; None if all parameters are fixed in advance
    programme: Programme | None  #: releases that are planned
    identifier: str  #: unique to this ledger
    rho: float | None = None  #: of all releases together, in place of ε and δ

    def to_dict(self) -> dict[str, Any]:
        """Return what the first entry of the file says."""
        fields = {name: encode(part) for name, part in self._asdict().items() if name != "rho" or part is not None}
        return {"format": _FORMAT, "version": _VERSION} | fields

    @classmethod
    def from_dict(cls, document: Any) -> Terms:
        """Read back what :meth:`to_dict` wrote, in any version so far; refuse anything else."""
        return read_versioned(document, _FORMAT, {1: _read_1})

    @property
    def budget(self) -> Budget:
        """What may be lost."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    @property
    def most(self) -> float:
        """The most that :meth:`lost` may be: δ, or ρ."""
        return self.budget.delta if self.rho is None else self.rho

    def lost(self, losses: _Losses) -> float:
        """Return what releases lose together: δ at the ε of the budget, or ρ."""
        return _rho(losses) if self.epsilon is None else _delta(losses, self.order, self.epsilon)

    def standing(self, ran: Counter[Design]) -> Standing:
        """Account for what ran, by the bound that holds."""
        plan = self._plan_of(ran)
        if self.delta is None:  # ρ adds up, whatever was chosen
            sets = self._sets(self._reserved(ran) if plan is None else ran)
            adaptivity = "fully adaptive" if plan is None else "non-adaptive"
            return Standing(adaptivity, None, self.admits(ran, _TOLERANCE), max(map(_rho, sets), default=0.0))
        if plan is None:
            adaptivity = "adaptive" if self.order is None else "fully adaptive"
            losses = [_together(part, self.order) for part in self._sets(self._reserved(ran))]
        else:
            adaptivity = "non-adaptive"
            losses = [joint_loss(part, adaptive=not plan.data_fixed) for part in self._sets(ran)]
        spent = max((loss.epsilon(self.delta) for loss in losses), default=0.0)
        return Standing(adaptivity, spent, self.admits(ran, _TOLERANCE))

    def admits(self, ran: Counter[Design], slack: float = 1.0) -> bool:
        """Return whether what ran is within the budget; ``slack`` is for δ or ρ."""
        # A programme is within the budget, and of what is fixed in advance a part costs no more than the whole.
        if self._plan_of(ran) is not None:
            return True
        sets = self._sets(self._reserved(ran))
        return all(self.lost(part) <= self.most * slack for part in sets)

    def lost_at(self, ran: Counter[Design], one: Design) -> Callable[[float], float]:
        """Return what is lost by what ran and one more release, as a function of its scale."""
        sets = self._at_once(self._reserved(ran) + Counter([one]))
        beside = {_lost(part - Counter([one])) for part in sets if one in part}
        others = {_lost(part) for part in sets if one not in part}

        def lost(past: Iterable[_Losses], *more: PrivacyLoss) -> float:
            return max((self.lost((*part, *more)) for part in past), default=0.0)

        apart = lost(others)
        if apart > self.most:  # at any scale
            return lambda scale: apart
        return lambda scale: lost(beside, replace(one, scale=scale).loss())

    def _plan_of(self, ran: Counter[Design]) -> Programme | None:
        """Return the programme, if all that ran is of it."""
        planned = self.programme is not None and ran <= Counter(self.programme.designs)
        return self.programme if planned else None

    def _reserved(self, ran: Counter[Design]) -> Counter[Design]:
        """Return what ran with what is planned, which is spent as it will run."""
        return ran if self.programme is None else ran | Counter(self.programme.designs)

    def _sets(self, ran: Counter[Design]) -> Iterable[_Losses]:
        """Return the losses of the releases that one individual can be in, once where several sets are alike."""
        return filter(None, dict.fromkeys(map(_lost, self._at_once(ran))))

    def _at_once(self, ran: Counter[Design]) -> list[Counter[Design]]:
        """Return the sets of releases that one and the same individual can be in, and that are in no other such set.

        An individual within a period is in those alone that look at this period (docs/proofs/period_unit.md). One who
        is replaced may be in two periods, and is taken to be in all releases.
        """
        if self.unit.period is None or self.unit.replaced:
            return [ran]
        spans = {design: design.count.reading.period_span for design in ran}
        firsts = sorted({span[0] for span in spans.values() if span is not None})
        parts: list[Counter[Design]] = [Counter() for _ in firsts]
        for design, span in spans.items():
            first, last = span or (-math.inf, math.inf)
            for part in parts[bisect_left(firsts, first) : bisect_right(firsts, last)]:
                part[design] = ran[design]
        return parts or [ran]


def _read_1(document: dict[str, Any]) -> Terms:
    terms = Terms(**fields_of({"rho": None, **document}, "the first entry", get_type_hints(Terms)))
    check_budget(terms.epsilon, terms.delta, terms.rho)
    if terms.order is not None:
        check.real("order", terms.order, above=1.0)
    planned = terms.programme
    if planned is not None and (planned.budget, planned.unit) != (terms.budget, terms.unit):
        raise ValueError("the programme has another budget or unit of privacy than the ledger that is made for it")
    return terms


_Losses = tuple[PrivacyLoss, ...]
_loss: Final = lru_cache(maxsize=2**14)(Design.loss)


def _lost(part: Counter[Design]) -> _Losses:
    return tuple(map(_loss, part.elements()))


def _together(losses: _Losses, order: float | None) -> PrivacyLoss | FilteredLoss:
    return joint_loss(losses) if order is None else FilteredLoss.of(losses, order)


def _rho(losses: _Losses) -> float:
    """Return the sum of all ρ, which is a bound whatever was chosen by what earlier releases showed."""
    parts = [loss.zero_concentrated(0.0)[0] for loss in losses]
    return math.inf if math.inf in parts else up_fraction(sum(map(Fraction, parts)))


@lru_cache(maxsize=2**11)
def _delta(losses: _Losses, order: float | None, epsilon: float) -> float:
    return _together(losses, order).delta(epsilon)


_LINE: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entry": (.*)\}')
_LAST: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entries": (\d{1,12})\}')


class Chain(NamedTuple):
    """Entries as they stand in a file: JSON documents without line breaks."""

    lines: bytes = b""  #: of the file, but the last
    length: int = 0  #: how many they are
    digest: str = ""  #: of all of them

    def then(self, entry: str) -> Chain:
        """Return the chain with one more entry."""
        written = entry.encode()
        digest = _digest(self.digest, written)
        line = b'{"digest": "%s", "entry": %s}\n' % (digest.encode(), written)
        return Chain(self.lines + line, self.length + 1, digest)

    def file(self) -> bytes:
        """Return the file."""
        return self.lines + b'{"digest": "%s", "entries": %d}\n' % (self.digest.encode(), self.length)

    def entries(self) -> list[str]:
        """Return the entries."""
        return [found[2].decode() for found in _LINE.finditer(self.lines)]

    def digests(self) -> set[str]:
        """Return what the digest has been, entry by entry."""
        return {found[1].decode() for found in _LINE.finditer(self.lines)}


def unchained(file: bytes, known: Chain | None = None) -> tuple[list[str], Chain]:
    """Return the entries of a file, or those after a chain that it begins with, and all of it as a chain.

    :param known: what was verified before: the file must begin with its very bytes.
    :raises ValueError: if it is another kind of file, or not as it was written, saying from which line on.
    """
    lines, length, digest = known or Chain()
    if not file.startswith(lines):
        raise ValueError("it does not begin with what it held before: it was changed, or an entry was taken back")
    more = file[len(lines) :].split(b"\n")
    if not lines and _LINE.fullmatch(more[0]) is None:
        raise ValueError("it is in another format")
    last = _LAST.fullmatch(more[-2]) if len(more) > 1 and more[-1] == b"" else None
    if last is None:
        raise ValueError(f"it breaks off after {length + len(more) - 1} lines")
    entries = []
    for number, line in enumerate(more[:-2], length + 1):
        found = _LINE.fullmatch(line)
        digest = _digest(digest, found[2]) if found else ""
        if found is None or digest != found[1].decode():
            raise ValueError(f"line {number} was changed after it was written, or one before it")
        entries.append(found[2].decode())
    length += len(entries)
    if (digest, length) != (last[1].decode(), int(last[2])):
        raise ValueError(f"it holds {length} entries, and its last line speaks of {int(last[2])} or of others")
    return entries, Chain(file[: len(file) - len(more[-2]) - 1], length, digest)


def _digest(before: str, entry: bytes) -> str:
    return hashlib.sha256(before.encode() + entry).hexdigest()


@dataclass(frozen=True)
class Book:
    """The content of a ledger. It changes only by entries that are added."""

    terms: Terms
    chain: Chain
    entries: tuple[Entry, ...] = ()

    @classmethod
    def new(cls, terms: Terms) -> Book:
        """Return the content of a new ledger."""
        return cls(terms, Chain().then(written(terms.to_dict())))

    @classmethod
    def read(cls, file: bytes, known: Book | None = None) -> Book:
        """Read back a file, and nothing else. Releases are not read: :meth:`releases` does it.

        :param known: what was read before: the file must begin with its very bytes, and only what follows is read.
        :raises ValueError: if it is not a ledger, or not as it was written, naming what is wrong.
        """
        lines, chain = unchained(file, None if known is None else known.chain)
        try:
            if known is None:
                known = cls.new(Terms.from_dict(parse_json(lines.pop(0))))
            entries = list(known.entries)
            for line in lines:
                _append(entries, line, known.terms)
        except TypeError as error:
            raise ValueError(str(error)) from None
        return cls(known.terms, chain, tuple(entries))

    def with_spent(self, designs: Sequence[Design]) -> Book:
        """Return the book after one more entry: the number of entries is its number."""
        written_designs = [design.to_dict() for design in designs]
        return self._with({"spent": len(self.entries) + 1, "at": _now(), "designs": written_designs})

    def with_released(self, number: int, releases: Sequence[Release]) -> Book:
        """Return the book after an entry was completed."""
        return self._with({"released": number, "at": _now(), "releases": [release.to_dict() for release in releases]})

    def _with(self, document: dict[str, Any]) -> Book:
        entries, line = list(self.entries), written(document)
        _append(entries, line, self.terms)
        return Book(self.terms, self.chain.then(line), tuple(entries))

    def ran(self) -> Counter[Design]:
        """Return what was entered, whether or not it was completed."""
        return Counter(design for entry in self.entries for design in entry.designs)

    def planned(self) -> list[Design]:
        """What is planned and has not run yet, in order."""
        left, ran = [], self.ran()
        for design in () if self.terms.programme is None else self.terms.programme.designs:
            ran[design] -= 1
            if ran[design] < 0:
                left.append(design)
        return left

    def standing(self) -> Standing:
        """Return what the releases so far cost together."""
        return self.terms.standing(self.ran())

    def releases(self, numbers: Container[int] | None = None) -> dict[int, tuple[Release, ...]]:
        """Return the releases by the numbers of their entries, all or some, in the order in which they were written.

        :raises ValueError: if one is not a release.
        """
        found = {}
        for line in self.chain.entries():
            released = _RELEASED.fullmatch(line)
            if released is not None and (numbers is None or int(released[1]) in numbers):
                types = {"released": int, "at": str, "releases": tuple[Release, ...]}
                found[int(released[1])] = fields_of(parse_json(line), "an entry", types)["releases"]
        return found


#: Releases are long, and are read only when asked for.
_RELEASED: Final = re.compile(r'\{"released": (\d+), "at": "([0-9:TZ-]+)", "releases": \[.*\]\}')


def _append(entries: list[Entry], line: str, terms: Terms) -> None:
    """Add what a line says; refuse it if it is not a line of a ledger, or does not follow the ones before it."""
    released = _RELEASED.fullmatch(line)
    if released is not None:
        number = int(released[1])
        if not 1 <= number <= len(entries) or entries[number - 1].released is not None:
            raise ValueError(f"entry {number} is completed without being open")
        entries[number - 1] = entries[number - 1]._replace(released=released[2])
        return
    fields = fields_of(parse_json(line), "an entry", {"spent": int, "at": str, "designs": tuple[Design, ...]})
    if fields["spent"] != len(entries) + 1 or not fields["designs"]:
        raise ValueError(f"entry {fields['spent']} stands in the place of entry {len(entries) + 1}, or is empty")
    designs = fields["designs"]
    earlier = [design for entry in entries for design in entry.designs]
    for design in designs:
        _check_population(design, terms, earlier or designs)
    entries.append(Entry(fields["spent"], designs, fields["at"], None))


def _check_population(design: Design, terms: Terms, earlier: Sequence[Design]) -> None:
    """Refuse a release that is not about the individuals of the ledger, naming both."""
    if design.unit != terms.unit:
        raise ValueError(
            f"the unit of privacy of the ledger is {terms.unit}; that of the release is {design.unit}: what the two"
            " lose does not add up. Choose the input_metric of its count (--period) accordingly, or keep another ledger"
        )
    planned = () if terms.programme is None else terms.programme.designs
    with_source = (other for other in (*planned[:1], *earlier) if other.count.source is not None)
    other = None if design.count.source is None else next(with_source, None)
    if other is not None and population_of(design) != population_of(other):
        raise ValueError(
            f"the ledger is about individuals by the columns {_columns(other)}, and the release is by"
            f" {_columns(design)}: what the two lose does not add up. Keep another ledger"
        )


def _columns(design: Design) -> str:
    time = "" if design.unit.period is None else f" and {design.count.reading.log.time!r}"
    return f"{design.count.reading.log.identifier!r}{time}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
