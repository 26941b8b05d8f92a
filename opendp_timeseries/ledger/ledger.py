"""A ledger: the file, its lock, and releases through it."""

from __future__ import annotations

import html
import math
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from opendp_timeseries._files import files_together, status_if_replaceable
from opendp_timeseries._json import encode
from opendp_timeseries._process import locked
from opendp_timeseries._refusal import ExistingFileRefusal, MissingFileRefusal, Quoted, Refusal, TypeRefusal
from opendp_timeseries._tables import html_table, text_table
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import Budget, large_delta, warn_of_large_delta
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.joint import filter_order
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period
from opendp_timeseries.ledger.book import Book, Entry, Standing, Terms
from opendp_timeseries.ledger.programme import Programme, design_table
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.mechanisms import Mechanism, mechanism_of, signal_of, stated_designs
from opendp_timeseries.plugin.spaces import check_member
from opendp_timeseries.plugin.subsampled_gaussian import check_room, sample_of
from opendp_timeseries.release.release import Release
from opendp_timeseries.release.statement import Parent, Statement

#: Seconds to wait for another process.
_WAIT: Final = 10.0
#: At most this many planned releases are listed; more are summarised.
_MAX_LISTED: Final = 12


class Ledger:
    """The releases about one population under one budget, in a file.

    Make one with :meth:`create`, and open it by its path. Processes take turns: a release waits for another one, and
    after ten seconds raises ``BlockingIOError``, an ``OSError``.

    :param path: of the file. Beside it, a lock is kept in a file of the same name between ``.`` and ``.lock``.
    :raises FileNotFoundError: if the file does not exist: only :meth:`create` makes a ledger, so that a typo cannot
        open a fresh budget.
    :raises ValueError: if the file is not a ledger, is truncated or edited, or was made by another version.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts, pathlib, tempfile
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=10)
    >>> measurement = count >> ts.then_subsampled_gaussian(20.0, sampling_probability=0.2, delta=1e-6)
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = ts.Ledger.create(pathlib.Path(folder.name, "people.ledger"), epsilon=1.0, delta=1e-6)
    >>> release = ledger.release(measurement, {"id": np.array([7, 8]), "step": np.array([0, 2])})
    >>> ledger.guarantee()
    '(ε = 0.5..., δ = 1e-06)-differential privacy for one individual added or removed'
    >>> ledger.release(count >> ts.then_subsampled_gaussian(2.0, sampling_probability=0.2, delta=1e-6), None)
    Traceback (most recent call last):
    opendp_timeseries._refusal.Refusal: this release would exceed the budget of ...
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()  # the same file after a change of folder
        self._status_key: tuple[int, int, int] | None = None
        self._book: Book | None = None
        self._read()

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        programme: Programme | None = None,
        adaptivity: str = "fully adaptive",
        replaced: bool = False,
        period: str | int | None = None,
        zone: str | None = None,
    ) -> Ledger:
        """Make a new ledger.

        The cost of a release depends on what may depend on the output of earlier releases:

        ======================= =========================================== ====================================
        releases                adaptivity                                  bound
        ======================= =========================================== ====================================
        of a programme          its own                                     the law of the joint loss
        any, as a promise       ``"adaptive"``: only what is counted        the law of the joint loss, adaptive
        any                     ``"fully adaptive"``, the default: all      a Rényi filter, which needs more noise
        ======================= =========================================== ====================================

        A budget in ρ allows no sampling, and needs none of these: ρ adds up, however releases are chosen.

        With a programme, its releases are reserved from the beginning. Further releases are possible if they fit into
        the budget by the bound for the fully adaptive case.

        :param path: of the new file.
        :param epsilon: ε of all releases together; a programme brings its own, and its own δ.
        :param delta: δ of all releases together.
        :param rho: ρ of all releases together, in place of both, if none of them is sampled.
        :param programme: the releases planned in advance.
        :param adaptivity: ``"adaptive"`` is a promise: what is counted may depend on the output of earlier releases;
            caps, sampling, noise and the number of releases do not.
        :param replaced: True if neighbouring logs replace an individual, rather than add or remove one.
        :param period: for releases whose metric is :func:`~opendp_timeseries.period_distance` of this period and zone:
            the guarantee is then for one individual within one period, **not for all that they did**. Each period has
            the full budget, and a release spends that of every period which its grid overlaps. If left out, the
            guarantee is for everything that one individual did.
        :param zone: of the period.
        :raises FileExistsError: if the file exists.
        :raises ValueError: for a number out of range, or a budget in addition to that of a programme.
        :raises OSError: if the file cannot be written or locked.
        """
        place = Path(path)
        adaptive = Adaptivity.of(adaptivity, Adaptivity.QUERIES, Adaptivity.FULL) is Adaptivity.QUERIES
        if programme is not None:
            has_budget = epsilon is not None or delta is not None or rho is not None
            if has_budget or adaptive or replaced or period is not None:
                raise Refusal(
                    "programme", ..., "brings its own budget and unit of privacy", "leave out the other parameters"
                )
            budget, unit = programme.budget, programme.unit
        elif rho is None and (epsilon is None or delta is None):
            raise Refusal("epsilon and delta", ..., "must be given, or rho: the budget of all releases together")
        else:
            budget = Budget.of_several(epsilon=epsilon, delta=delta, rho=rho)
            if rho is not None and adaptive:
                raise Refusal("adaptivity", ..., "must be left out with rho, which adds up whatever is chosen")
            if period is None and zone is not None:
                raise TypeRefusal("zone", zone, "is the zone of `period`", "give both, or leave it out")
            unit = Unit(replaced=bool(replaced), period=None if period is None else Period(period, zone))
        warn_of_large_delta(budget.delta, stacklevel=2)
        order = None if adaptive or budget.epsilon is None else filter_order(budget.epsilon, budget.delta)
        terms = Terms(budget, unit, order, programme, secrets.token_hex(16))
        try:
            with locked(place, _WAIT), files_together([place]) as files:
                files[place].write(Book.new(terms).chain.file())
        except FileExistsError:
            raise ExistingFileRefusal("ledger", place, "exists already", "open it, or choose another name") from None
        return cls(place)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._path

    @property
    def identifier(self) -> str:
        """Random name of this ledger, which its releases state."""
        return self._read().terms.identifier

    @property
    def budget(self) -> Budget:
        """The budget of all releases together."""
        return self._read().terms.budget

    @property
    def programme(self) -> Programme | None:
        """The releases planned in advance."""
        return self._read().terms.programme

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, in order."""
        return self._read().entries

    @property
    def digest(self) -> str:
        """Digest of all entries: if published, it shows later that no entry was removed."""
        return self._read().chain.digest

    def standing(self) -> Standing:
        """Return the joint cost of the releases so far, and the bound that gives it."""
        return self._read().standing()

    def guarantee(self) -> str:
        """Return the joint guarantee of the releases so far, in words."""
        book = self._read()
        return _guarantee(book, book.standing())

    def release(
        self,
        measurement: native.Measurement,
        log: object,
        *,
        resume: bool = False,
        announce: Callable[[int], object] | None = None,
    ) -> Any:
        """Make a release, if all releases together stay within the budget.

        The budget is spent when the entry is written, before anything is counted: if the measurement or the machine
        fails afterwards, nothing was returned, and the budget is spent nevertheless.

        :param measurement: a subsampled Gaussian behind a count, or a composition of several.
        :param log: a member of its domain, or a function that reads it, called once the budget allows the release.
        :param resume: use an entry that has paid for this measurement, see :meth:`entry_for`: complete it if it is
            open, or return its release once more. This costs nothing; that nobody saw the failed output is up to you.
        :param announce: is called with the number of the entry once that is written, before anything is counted.
        :return: the output of the measurement, whose record is in the ledger by then.
        :raises TypeError, ValueError: if the budget would be exceeded, the design of the signal is not known, or the
            columns of the log are not those of the domain: before anything is spent. A function is called before its
            columns are checked.
        :raises OSError: if the ledger cannot be locked or written; nothing is returned.
        """
        designs, views = _designs(measurement), [view for _, view in stated_designs(measurement)]
        in_list = cast("Mechanism", mechanism_of(measurement)).in_list
        with locked(self._path, _WAIT) as check_lock:
            original = self._read(again=True)
            book, entry = self._charge(original, designs, resume)
            if entry.released is not None:
                releases = list(book.releases({entry.number})[entry.number])
                return releases if in_list else releases[0]
            data = log() if callable(log) else log
            counts = [design.signal.count for design in designs]
            check_member(measurement.input_domain, data, [count.reading for count in counts if count is not None])
            # Open the file for the record first, so that a folder without write permission costs nothing.
            with files_together([self._path], replace=True, before_publishing=self._guard(book, check_lock)) as files:
                self._write(book, self._guard(original, check_lock))
                if announce is not None:
                    announce(entry.number)
                output = measurement(data)
                releases = _check_releases(output, designs)
                parent = _parent_of_entry(book, entry.number, designs)
                statements = [Statement(view=view, parent=parent) for view in views]
                releases = [replace(r, statement=statement) for r, statement in zip(releases, statements, strict=True)]
                files[self._path].write(book.with_released(entry.number, releases).chain.file())
        return releases if in_list else releases[0]

    def check(self, measurement: native.Measurement, *, resume: bool = False) -> None:
        """Refuse what :meth:`release` would refuse before it reads the log. Another process may still spend first."""
        self._charge(self._read(), _designs(measurement), resume)

    def entry_for(self, measurement: native.Measurement) -> Entry | None:
        """Return the entry that has paid for a measurement: the open one, else the last; None if there is none."""
        return _paying_entry(self._read(), _designs(measurement))

    def _charge(self, book: Book, designs: tuple[Design, ...], resume: bool) -> tuple[Book, Entry]:
        """Return the book and the entry that pays for a measurement: an entry to resume, or a new one within budget."""
        if resume:
            entry = _paying_entry(book, designs)
            if entry is None:
                raise Refusal(
                    "resume",
                    ...,
                    f"must be left out, as {self._path} has no entry for this measurement",
                    "a new one is made then",
                )
            return book, entry
        check_room(book.terms.budget.view, designs)
        charged = book.with_spent(designs)
        if not charged.terms.admits(charged.ran()):
            standing, terms = charged.standing(), book.terms
            suffix = " and its programme" if terms.programme is not None else ""
            name, at = terms.budget.symbol, ""
            if terms.budget.delta > 0:
                at = f" at δ = {printed_up(terms.budget.delta, 4)} ({standing.adaptivity})"
            raise Refusal(
                "this release",
                ...,
                f"would exceed the budget of {self._path}: with what is in the ledger{suffix}, it leads to {name} ="
                f" {printed_up(_amount(standing))}{at}, above {name} = {terms.budget.first:g}",
                "nothing was read or spent. Take more noise, or less in all",
            )
        return charged, charged.entries[-1]

    def add(self, release: Release) -> None:
        """Enter a release that was made without the ledger. It is recorded even if it exceeds the budget.

        :param release: as it was returned, or read back.
        :raises ValueError: if its verification fails, or it is in the ledger already, or about other individuals.
        :raises OSError: if the ledger cannot be locked or written.
        """
        release.verify()
        with locked(self._path, _WAIT) as check_lock:
            original = book = self._read(again=True)
            numbers = {entry.number for entry in book.entries if release.design in entry.designs}
            earlier = [
                replace(record, statement=None) for releases in book.releases(numbers).values() for record in releases
            ]
            if replace(release, statement=None) in earlier:  # whatever it states
                raise Refusal("release", ..., f"is in {self._path} already", "it is entered once")
            book = book.with_spent([release.design])
            self._write(book.with_released(len(book.entries), [release]), self._guard(original, check_lock))

    def least_scale(
        self, chain: native.Transformation, *, sampling_probability: float, sampling: str = "poisson"
    ) -> float:
        """Return the least noise scale σ with which one more release uses up the budget, but does not exceed it.

        :param chain: a count, with or without filters.
        :param sampling_probability: with which each step is kept.
        :param sampling: ``"poisson"`` or ``"stratified"``.
        :return: σ in the signal's unit, rounded up, to 12 digits.
        :raises ValueError: if no scale suffices, as when the budget is used up, or for another unit of privacy.
        """
        signal = signal_of(chain)
        sample = sample_of(sampling_probability, sampling, signal.size)
        design = Design(signal=signal, sampling=sample.sampling, scale=1.0)
        book = self._read()
        check_room(book.terms.budget.view, [design])
        book.with_spent([design])  # refuses a release about other individuals
        return calibrate(
            book.terms.cost_at(book.ran(), design),
            book.terms.budget.limit,
            start=signal.influence(1).l2,
            refusal=Refusal(
                "ledger",
                self._path,
                "has no budget left: no scale is enough for one more release",
                "start another ledger, of other people",
            ),
        )

    def releases(self) -> tuple[Release, ...]:
        """Return the releases, in the order in which they were completed.

        :raises ValueError: if an entry does not hold releases.
        """
        return tuple(release for releases in self._read().releases().values() for release in releases)

    def verify(self) -> Standing:
        """Check every release against its entry and its own design, and return their joint cost.

        Opening a ledger has checked all but the releases. No file can show that nothing was released outside of it, or
        that it is not an older copy of itself.

        :raises ValueError: if a release states less than it loses, or its design is not that of its entry.
        """
        book = self._read()
        releases, digests = book.releases(), book.chain.digests()
        for entry in book.entries:
            recorded = releases.get(entry.number, ())
            ran = () if entry.released is None else entry.designs
            if tuple(release.design for release in recorded) != ran:
                raise Refusal(
                    "ledger",
                    self._path,
                    f"holds releases of entry {entry.number} that do not have the designs that were entered",
                    "restore it",
                )
            for release in recorded:
                release.verify()
            self._check_parents(_parent_of_entry(book, entry.number, entry.designs), digests, entry.number, recorded)
        return book.standing()

    def _check_parents(self, right: Parent, digests: set[str], entry: int, releases: Sequence[Release]) -> None:
        """Refuse releases whose statements about this ledger are wrong; those about other parents are not checked."""
        for parent in (release.stated.parent for release in releases):
            if parent is None or parent.kind != "ledger" or parent.identifier != right.identifier:
                continue
            if replace(parent, digest=right.digest) != right or parent.digest not in digests:
                claim = f"says that it is {parent} {parent.digest}, which it is not: it is {right}"
                raise Refusal("ledger", self._path, f"holds a release of entry {entry} that {claim}", "restore it")

    def to_dict(self) -> dict[str, object]:
        """Return the ledger as plain Python objects, without the released values."""
        book = self._read()
        standing, terms = book.standing(), book.terms
        spent = {"rho": standing.rho}
        if standing.rho is None:
            spent = {"epsilon": standing.epsilon, "delta": terms.budget.delta if book.entries else 0.0}
        return {
            "budget": {name: number for name, number in terms.budget.to_dict().items() if number is not None},
            "unit": str(terms.unit),
            "adaptivity": str(standing.adaptivity),
            **spent,
            "within": standing.within,
            "guarantee": _guarantee(book, standing),
            "digest": book.chain.digest,
            "entries": [
                {field: encode(getattr(entry, field)) for field in ("number", "spent", "released", "designs")}
                for entry in book.entries
            ],
            "planned": None if terms.programme is None else encode(tuple(book.planned())),
        }

    def table(self, *, planned: bool = False) -> str:
        """Return the text that the ledger prints as: a table of releases, and the budget.

        :param planned: True to list all planned releases, however many.
        """
        return "\n".join(self._lines(text_table, planned))

    def __repr__(self) -> str:
        try:
            return self.table()
        except (OSError, ValueError) as error:  # the file was moved or changed
            return str(error)

    def _repr_html_(self) -> str:
        try:
            lines = self._lines(html_table)
        except (OSError, ValueError) as error:
            lines = [str(error)]
        return "".join(line if line.startswith("<table>") else f"<p>{html.escape(line)}</p>" for line in lines)

    def _lines(
        self, table: Callable[[Sequence[str], Sequence[Sequence[str]]], str], planned: bool = False
    ) -> list[str]:
        """Return the lines that the ledger prints as; one of them is a table."""
        book = self._read()
        standing, terms = book.standing(), book.terms
        lines = [f"Budget: {terms.budget:g} for {terms.unit}, by all that is released."]
        states = [
            (str(entry.number), "released" if entry.released else "spent, nothing released", design)
            for entry in book.entries
            for design in entry.designs
        ]
        remaining = book.planned()
        is_listed = planned or len(remaining) <= _MAX_LISTED
        states += [("", "planned", design) for design in remaining if is_listed]
        if states:
            header, rows = design_table([design for *_, design in states])
            lines.append(
                table(
                    ["entry", "state", *header], [[*state, *row] for (*state, _), row in zip(states, rows, strict=True)]
                )
            )
        if remaining and not is_listed:
            lines.append(f"Planned: {len(remaining)} more such lines, from {remaining[0].count.grid.start or 0} on.")
        lines.append(f"So far: {_guarantee(book, standing)}{_condition(book) if book.entries else ''}.")
        if large := large_delta(terms.budget.delta):
            lines.append(large)
        if not standing.within:
            lines.append("That exceeds the budget: nothing can be released any more.")
        return lines

    def _read(self, *, again: bool = False) -> Book:
        status_if_replaceable(self._path, replace=True)
        try:
            status = self._path.stat()
            if status.st_nlink > 1:
                raise ValueError(
                    "it has several names (hard links), and a release would change one of them only; remove the others"
                )
            status_key = status.st_ino, status.st_size, status.st_mtime_ns
            if self._book is None or status_key != self._status_key or again:
                self._book = Book.read(self._path.read_bytes(), self._book)
                self._status_key = status_key
        except FileNotFoundError:
            remedy = "check the name, or create it first"
            raise MissingFileRefusal("ledger", self._path, "does not exist", remedy) from None
        except ValueError as error:
            raise Refusal(
                "ledger",
                Quoted(self._path),
                f"is refused: {error}",
                "restore it, and do not make a new one in its place",
            ) from None
        return self._book

    def _write(self, book: Book, guard: Callable[[], None] | None = None) -> None:
        with files_together([self._path], replace=True, before_publishing=guard) as files:
            files[self._path].write(book.chain.file())

    def _guard(self, book: Book, check_lock: Callable[[], None]) -> Callable[[], None]:
        """Return a function that raises OSError unless the file still holds this book, under one name and the lock."""

        def check_unchanged() -> None:
            check_lock()
            status = status_if_replaceable(self._path, replace=True)
            if status is None or status.st_nlink > 1 or self._path.read_bytes() != book.chain.file():
                problem = "was changed, moved or linked while it was in use"
                raise OSError(f"{self._path} {problem}; restore it, and try again")

        return check_unchanged


def _designs(measurement: native.Measurement) -> tuple[Design, ...]:
    """Return the designs of a measurement; refuse one whose loss is not finite."""
    parts = stated_designs(measurement)
    for design, view in parts:
        if not all(math.isfinite(number) for point in view.points(design.loss()) for number in point):
            raise Refusal("measurement", ..., f"states no finite loss at scale ({design.scale})", "raise it")
    return tuple(design for design, _ in parts)


def _check_releases(output: object, designs: Sequence[Design]) -> list[Release]:
    """Return the releases of a measurement's output; refuse it, unseen, unless their designs are those of the entry."""
    parts = _flatten(output)
    releases = [part for part in parts if isinstance(part, Release)]
    if len(releases) != len(parts) or [release.design for release in releases] != list(designs):
        raise TypeRefusal(
            "measurement",
            ...,
            "must return its Release, or several in a list, and nothing else",
            "interpolate, smooth or plot what the ledger returns. The output is withheld",
        )
    return releases


def _flatten(output: object) -> list[object]:
    return [item for part in output for item in _flatten(part)] if isinstance(output, (list, tuple)) else [output]


def _parent_of_entry(book: Book, number: int, designs: tuple[Design, ...]) -> Parent:
    """Return what an entry belongs to: the programme, if its designs were planned there; else the ledger.

    Parts of a programme have no numbers, which readers would take for those of months: their grids say which they are.
    """
    terms = book.terms
    budget = terms.budget
    loss, measure = budget.pair, budget.view.measure
    parent = Parent(kind="ledger", loss=loss, measure=measure, number=number, identifier=terms.identifier)
    if terms.programme is not None and Counter(designs) <= Counter(terms.programme.designs):
        parent = replace(parent, number=None, programme=terms.programme.identifier)
    return replace(parent, digest=book.chain.digest)


def _paying_entry(book: Book, designs: tuple[Design, ...]) -> Entry | None:
    paid = [entry for entry in book.entries if entry.designs == designs]
    return next(reversed([entry for entry in paid if entry.released is None] or paid), None)


def _amount(standing: Standing) -> float:
    """Return the ε or ρ spent so far."""
    return cast("float", standing.rho if standing.epsilon is None else standing.epsilon)


def _guarantee(book: Book, standing: Standing) -> str:
    terms = book.terms
    if not book.entries:
        return f"nothing has been released about {terms.unit}"
    loss = terms.budget.view.words(((_amount(standing), terms.budget.delta),))
    assumed = any(design.count.reading.is_assumed for design in book.ran())
    condition = ", assuming the caps of counts made elsewhere" if assumed else ""
    if terms.adaptivity is Adaptivity.QUERIES and not book.is_planned:
        condition += ", if no caps, sampling or noise were chosen by what earlier releases showed"
    if standing.adaptivity is Adaptivity.NONE:
        condition += ", if no data reacted to what earlier releases showed"
    return f"{loss} for {terms.unit}{condition}"


def _condition(book: Book) -> str:
    """Return why the guarantee holds, unless it says so itself."""
    if book.is_planned:
        return ", all of it planned in advance"
    is_full = book.terms.adaptivity is Adaptivity.FULL
    return ", whatever was chosen by what earlier releases showed" if is_full else ""
