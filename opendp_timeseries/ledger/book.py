"""The content of a ledger and its accounting, without files and without data.

The format is JSON Lines. Every line but the last holds an entry, and the SHA-256 digest of the previous digest and the
entry's bytes; the last line holds their number. Digests can be forged: they detect accidents and edits, not attacks.
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
from typing import Final, NamedTuple, get_type_hints

from opendp_timeseries import _validate as check
from opendp_timeseries._json import encode, fields_of, parse_json, read_versioned, written
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.joint import FilteredLoss, joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.ledger.programme import Programme, fields_with_budget
from opendp_timeseries.release.documents import population_of
from opendp_timeseries.release.release import Release

_FORMAT: Final = "opendp_timeseries ledger"
_VERSION: Final = 1
#: A recomputed loss may differ in the last digits between machines.
_TOLERANCE: Final = 1 + 1e-9


class Entry(NamedTuple):
    """An entry of the ledger: the designs whose budget was spent at one time.

    :param number: of the entry, from 1.
    :param designs: the designs that ran, or were to run: one, or several of a composition.
    :param spent: time of spending, in UTC, before anything was counted.
    :param released: time at which its releases were written; None if none was, so that none was returned.
    """

    number: int
    designs: tuple[Design, ...]
    spent: str
    released: str | None


class Standing(NamedTuple):
    """The joint cost of the releases so far.

    :param adaptivity: what may depend on the output of earlier releases.
    :param epsilon: ε of the releases so far, at the δ of the budget; None for a budget in ρ.
    :param within: True if they are within the budget.
    :param rho: ρ of the releases so far; None for a budget in (ε, δ).
    """

    adaptivity: Adaptivity
    epsilon: float | None
    within: bool
    rho: float | None = None


class Terms(NamedTuple):
    """The terms of a ledger, fixed when it was created."""

    budget: Budget  #: of all releases together
    unit: Unit  #: the unit of privacy: the change that is a distance of 1 between two logs
    order: float | None  #: of the Rényi divergences of a privacy filter; None if all parameters are fixed in advance
    programme: Programme | None  #: the planned releases
    identifier: str  #: unique to this ledger

    def to_dict(self) -> dict[str, object]:
        """Return the terms as the first entry of the file."""
        fields = {name: encode(part) for name, part in self._asdict().items() if name != "budget"}
        return {"format": _FORMAT, "version": _VERSION, **self.budget.to_dict(), **fields}

    @classmethod
    def from_dict(cls, document: object) -> Terms:
        """Read back what :meth:`to_dict` wrote, in any version so far; refuse anything else."""
        return read_versioned(document, _FORMAT, {1: _read_1})

    @property
    def adaptivity(self) -> Adaptivity:
        """Adaptivity of releases beside the programme: ρ adds up, whatever depends on the output of earlier ones."""
        return Adaptivity.QUERIES if self.order is None and self.budget.epsilon is not None else Adaptivity.FULL

    def cost(self, losses: _Losses) -> float:
        """Return the joint cost of releases: δ at the ε of the budget, or ρ."""
        epsilon = self.budget.epsilon
        return _rho(losses) if epsilon is None else _delta(losses, self.order, epsilon)

    def standing(self, ran: Counter[Design]) -> Standing:
        """Return the joint cost of the designs that ran, by the bound that applies."""
        plan = self.programme_of(ran)
        adaptivity = self.adaptivity if plan is None else plan.adaptivity
        sets = self._loss_sets(self._with_reserved(ran) if plan is None else ran)
        if self.budget.epsilon is None:
            return Standing(adaptivity, None, self.admits(ran, _TOLERANCE), max(map(_rho, sets), default=0.0))
        if plan is None:
            losses = [_joint_loss_of(part, self.order) for part in sets]
        else:
            losses = [joint_loss(part, adaptivity=adaptivity) for part in sets]
        spent = max((loss.epsilon(self.budget.delta) for loss in losses), default=0.0)
        return Standing(adaptivity, spent, self.admits(ran, _TOLERANCE))

    def admits(self, ran: Counter[Design], slack: float = 1.0) -> bool:
        """Return whether the designs that ran are within the budget, times ``slack`` in δ or ρ."""
        # A programme is within the budget; if all is fixed in advance, some releases cost no more than all of them.
        if self.programme_of(ran) is not None:
            return True
        sets = self._loss_sets(self._with_reserved(ran))
        return all(self.cost(part) <= self.budget.limit * slack for part in sets)

    def cost_at(self, ran: Counter[Design], design: Design) -> Callable[[float], float]:
        """Return the joint cost of the designs that ran and one more release, as a function of its scale."""
        sets = self._common_sets(self._with_reserved(ran) + Counter([design]))
        with_design = {_losses_of(part - Counter([design])) for part in sets if design in part}
        without = {_losses_of(part) for part in sets if design not in part}

        def worst(past: Iterable[_Losses], *losses: PrivacyLoss) -> float:
            return max((self.cost((*part, *losses)) for part in past), default=0.0)

        cost_without = worst(without)
        if cost_without > self.budget.limit:  # at any scale
            return lambda scale: cost_without
        return lambda scale: worst(with_design, replace(design, scale=scale).loss())

    def programme_of(self, ran: Counter[Design]) -> Programme | None:
        """Return the programme, if all designs that ran are in it."""
        is_planned = self.programme is not None and ran <= Counter(self.programme.designs)
        return self.programme if is_planned else None

    def _with_reserved(self, ran: Counter[Design]) -> Counter[Design]:
        """Return the designs that ran and those still planned, whose budget is reserved."""
        return ran if self.programme is None else ran | Counter(self.programme.designs)

    def _loss_sets(self, ran: Counter[Design]) -> Iterable[_Losses]:
        """Return the losses of each set of releases that an individual can be in, without duplicates."""
        return filter(None, dict.fromkeys(map(_losses_of, self._common_sets(ran))))

    def _common_sets(self, ran: Counter[Design]) -> list[Counter[Design]]:
        """Return the maximal sets of releases that a single individual can be in.

        With a unit within a period, an individual is in the releases that cover this period, and in no others
        (docs/proofs/period_unit.md). A replaced individual may be in two periods, and is taken to be in all releases.
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


def _read_1(document: dict[str, object]) -> Terms:
    types = get_type_hints(Terms)
    del types["budget"]
    terms = Terms(**fields_with_budget(document, "the first entry", types))
    if terms.order is not None:
        check.real("order", terms.order, above=1.0)
    programme = terms.programme
    if programme is not None and (programme.budget, programme.unit) != (terms.budget, terms.unit):
        raise Refusal("the programme and its ledger", ..., "must have the same budget and unit of privacy")
    return terms


_Losses = tuple[PrivacyLoss, ...]
_loss: Final = lru_cache(maxsize=2**14)(Design.loss)


def _losses_of(part: Counter[Design]) -> _Losses:
    return tuple(map(_loss, part.elements()))


def _joint_loss_of(losses: _Losses, order: float | None) -> PrivacyLoss | FilteredLoss:
    return joint_loss(losses) if order is None else FilteredLoss.of(losses, order)


def _rho(losses: _Losses) -> float:
    """Return the sum of all ρ, which is a bound even if earlier releases determine later ones."""
    parts = [loss.zero_concentrated(0.0)[0] for loss in losses]
    return math.inf if math.inf in parts else up_fraction(sum(map(Fraction, parts)))


@lru_cache(maxsize=2**11)
def _delta(losses: _Losses, order: float | None, epsilon: float) -> float:
    return _joint_loss_of(losses, order).delta(epsilon)


_LINE: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entry": (.*)\}')
_LAST: Final = re.compile(rb'\{"digest": "([0-9a-f]{64})", "entries": (\d{1,12})\}')


class Chain(NamedTuple):
    """The entries of a file: JSON documents without line breaks, chained by digests."""

    lines: bytes = b""  #: all lines of the file but the last
    length: int = 0  #: their number
    digest: str = ""  #: of all entries

    def then(self, entry: str) -> Chain:
        """Return the chain with a further entry."""
        content = entry.encode()
        digest = _digest(self.digest, content)
        line = b'{"digest": "%s", "entry": %s}\n' % (digest.encode(), content)
        return Chain(self.lines + line, self.length + 1, digest)

    def file(self) -> bytes:
        """Return the content of the file."""
        return self.lines + b'{"digest": "%s", "entries": %d}\n' % (self.digest.encode(), self.length)

    def entries(self) -> list[str]:
        """Return the entries."""
        return [match[2].decode() for match in _LINE.finditer(self.lines)]

    def digests(self) -> set[str]:
        """Return the digests of the chain after each of its entries."""
        return {match[1].decode() for match in _LINE.finditer(self.lines)}


def read_chain(file: bytes, verified: Chain | None = None) -> tuple[list[str], Chain]:
    """Return the entries of a file, or those after a verified chain with which it begins, and the chain of the file.

    :param verified: the chain that was verified before: the file must begin with the same bytes.
    :raises ValueError: if it is another kind of file, or was changed, naming the first changed line.
    """
    lines, length, digest = verified or Chain()
    if not file.startswith(lines):
        raise ValueError(
            "it does not begin with the content that was read before: it was changed, or an entry was removed"
        )
    lines_after = file[len(lines) :].split(b"\n")
    if not lines and _LINE.fullmatch(lines_after[0]) is None:
        raise ValueError("it is in another format")
    last = _LAST.fullmatch(lines_after[-2]) if len(lines_after) > 1 and lines_after[-1] == b"" else None
    if last is None:
        raise ValueError(f"it breaks off after {length + len(lines_after) - 1} lines")
    entries = []
    for number, line in enumerate(lines_after[:-2], length + 1):
        match = _LINE.fullmatch(line)
        digest = _digest(digest, match[2]) if match else ""
        if match is None or digest != match[1].decode():
            raise ValueError(f"line {number}, or a line before it, was changed after it was written")
        entries.append(match[2].decode())
    length += len(entries)
    if (digest, length) != (last[1].decode(), int(last[2])):
        raise ValueError(f"its last line, for {int(last[2])} entries, does not match the {length} entries before it")
    return entries, Chain(file[: len(file) - len(lines_after[-2]) - 1], length, digest)


def _digest(previous: str, entry: bytes) -> str:
    return hashlib.sha256(previous.encode() + entry).hexdigest()


@dataclass(frozen=True)
class Book:
    """The content of a ledger, which changes only by new entries."""

    terms: Terms
    chain: Chain
    entries: tuple[Entry, ...] = ()

    @classmethod
    def new(cls, terms: Terms) -> Book:
        """Return the content of a new ledger."""
        return cls(terms, Chain().then(written(terms.to_dict())))

    @classmethod
    def read(cls, file: bytes, earlier: Book | None = None) -> Book:
        """Read a ledger file, without its releases, which :meth:`releases` reads.

        :param earlier: the book as read before: the file must begin with its bytes, and only what follows is read.
        :raises ValueError: if it is not a ledger, or was changed, naming what is wrong.
        """
        lines, chain = read_chain(file, None if earlier is None else earlier.chain)
        try:
            if earlier is None:
                earlier = cls.new(Terms.from_dict(parse_json(lines.pop(0))))
            entries = list(earlier.entries)
            for line in lines:
                _append(entries, line, earlier.terms)
        except TypeError as error:
            raise ValueError(str(error)) from None
        return cls(earlier.terms, chain, tuple(entries))

    def with_spent(self, designs: Sequence[Design]) -> Book:
        """Return the book with a further entry, whose number is that of all entries."""
        written_designs = [design.to_dict() for design in designs]
        return self._with({"spent": len(self.entries) + 1, "at": _timestamp(), "designs": written_designs})

    def with_released(self, number: int, releases: Sequence[Release]) -> Book:
        """Return the book with an entry completed."""
        return self._with(
            {"released": number, "at": _timestamp(), "releases": [release.to_dict() for release in releases]}
        )

    def _with(self, document: dict[str, object]) -> Book:
        entries, line = list(self.entries), written(document)
        _append(entries, line, self.terms)
        return Book(self.terms, self.chain.then(line), tuple(entries))

    def ran(self) -> Counter[Design]:
        """Return the designs of all entries, completed or not."""
        return Counter(design for entry in self.entries for design in entry.designs)

    def planned(self) -> list[Design]:
        """Return the planned designs that have not run yet, in order."""
        remaining, ran = [], self.ran()
        for design in () if self.terms.programme is None else self.terms.programme.designs:
            ran[design] -= 1
            if ran[design] < 0:
                remaining.append(design)
        return remaining

    @property
    def is_planned(self) -> bool:
        """True if all that ran is of the programme."""
        return self.terms.programme_of(self.ran()) is not None

    def standing(self) -> Standing:
        """Return the joint cost of the releases so far."""
        return self.terms.standing(self.ran())

    def releases(self, numbers: Container[int] | None = None) -> dict[int, tuple[Release, ...]]:
        """Return the releases by the numbers of their entries, in the order in which they were written.

        :param numbers: of the entries to read; None for all.
        :raises ValueError: if an entry does not hold releases.
        """
        releases = {}
        for line in self.chain.entries():
            match = _RELEASED.fullmatch(line)
            if match is not None and (numbers is None or int(match[1]) in numbers):
                types = {"released": int, "at": str, "releases": tuple[Release, ...]}
                releases[int(match[1])] = fields_of(parse_json(line), "an entry", types)["releases"]
        return releases


#: Releases are long, and are parsed only on request.
_RELEASED: Final = re.compile(r'\{"released": (\d+), "at": "([0-9:TZ-]+)", "releases": \[.*\]\}')


def _append(entries: list[Entry], line: str, terms: Terms) -> None:
    """Apply a line to the entries; refuse it if it is not a line of a ledger, or does not fit the preceding lines."""
    completion = _RELEASED.fullmatch(line)
    if completion is not None:
        number = int(completion[1])
        if not 1 <= number <= len(entries) or entries[number - 1].released is not None:
            raise ValueError(f"entry {number} is completed without being open")
        entries[number - 1] = entries[number - 1]._replace(released=completion[2])
        return
    fields = fields_of(parse_json(line), "an entry", {"spent": int, "at": str, "designs": tuple[Design, ...]})
    if fields["spent"] != len(entries) + 1 or not fields["designs"]:
        raise ValueError(f"entry {fields['spent']} is empty, or in the place of entry {len(entries) + 1}")
    designs = fields["designs"]
    earlier = [design for entry in entries for design in entry.designs]
    for design in designs:
        _check_population(design, terms, earlier or designs)
    entries.append(Entry(fields["spent"], designs, fields["at"], None))


def _check_population(design: Design, terms: Terms, earlier: Sequence[Design]) -> None:
    """Refuse a release about other individuals than the ledger's, naming both."""
    if design.unit != terms.unit:
        remedies = "choose the `input_metric` of its count", "choose `period` accordingly", "keep another ledger"
        raise Refusal(
            "the unit of privacy of the ledger",
            ...,
            f"is {terms.unit}; that of the release is {design.unit}: their losses do not add up",
            remedies,
        )
    planned = () if terms.programme is None else terms.programme.designs
    with_source = (reference for reference in (*planned[:1], *earlier) if reference.count.source is not None)
    reference = None if design.count.source is None else next(with_source, None)
    if reference is not None and population_of(design) != population_of(reference):
        raise Refusal(
            "the ledger",
            ...,
            f"is about individuals by the columns {_columns(reference)}, and the release is by {_columns(design)}:"
            " their losses do not add up",
            "keep another ledger",
        )


def _columns(design: Design) -> str:
    time = "" if design.unit.period is None else f" and {design.count.reading.log.time!r}"
    return f"{design.count.reading.log.identifier!r}{time}"


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
