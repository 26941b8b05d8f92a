"""The paper's datasets: its synthetic series, and loaders of the formats of its public files.

All of it is public benchmark data. Reading it, ranking places and counting participation look at rows and protect
nobody: never use them in front of a private release of other data.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._validate import integer, real
from opendp_timeseries.design.kernels import Kernel, gaussian_kernel
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.participation_count import then_assume_participation
from opendp_timeseries.plugin.spaces import count_signal_domain

__all__ = ["FOURSQUARE_GRID", "GOWALLA_GRID", "PEMS_GRID", "CheckIns", "Problem", "assumed_count"]
__all__ += ["largest_participation", "load_flow", "load_foursquare", "load_gowalla", "load_pems_station", "synth"]

GOWALLA_GRID = TimeGrid(size=725, start="2009-02-01T00:00", step="24h", zone="UTC")
"""The paper's grid for Gowalla: 725 steps of 24 hours from February 2009; the day is our choice."""

FOURSQUARE_GRID = TimeGrid(size=2126, start="2012-04-03T18:00", step="6h", zone="UTC")
"""The paper's grid for Foursquare: 2,126 steps of 6 hours from April 2012; the hour, that of the file's first
check-in, is our choice."""

PEMS_GRID = TimeGrid(size=1800, start="2017-01-01T00:00", step="5min", zone="America/Los_Angeles")
"""The paper's grid for PeMS: 1,800 steps of 5 minutes from January 2017; the day is our choice."""

T = TypeVar("T")
Name = str | PathLike[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A count series, and the settings at which the paper, and every method, releases it."""

    name: str  #: for tables and figures
    signal: NDArray[np.int64]  #: int64 counts, which a method is given
    truth: NDArray[np.float64]  #: against which errors are measured: the signal itself, or what it observes
    participation_cap: int  #: ``I``, assumed of the series (the paper's Assumption 1)
    sampling_probability: float = 0.1  #: ``p``
    std: float = 10.0  #: ``σ_g`` of the paper's Gaussian filter, in steps
    epsilon: float = 0.5  #: ``ε``, of one individual added or removed
    delta: float = 1e-4  #: ``δ``

    @property
    def size(self) -> int:
        """Number of time steps, ``T``."""
        return len(self.signal)

    @property
    def kernel(self) -> Kernel:
        """The paper's filter for this series."""
        return gaussian_kernel(self.size, self.std)

    def count(self) -> native.Transformation:
        """Return the count under Assumption 1."""
        return assumed_count(self.size, self.participation_cap)

    def scaled(self, factor: float) -> Problem:
        """Return the problem of a series ``factor`` times as heavy, in whole counts, at the same settings."""
        signal = np.rint(self.signal * factor).astype(np.int64)
        return replace(self, name=f"{factor:g} × {self.name}", signal=signal, truth=signal.astype(np.float64))


def assumed_count(size: int, cap: int) -> native.Transformation:
    """Return the count of a series made elsewhere, under the paper's Assumption 1."""
    space = count_signal_domain(size), native.symmetric_distance()
    count: native.Transformation = space >> then_assume_participation(participation_cap=cap)
    return count


def synth(
    frequency: float = 1.0,
    noisy: bool = False,
    *,
    rng: np.random.Generator | None = None,
    angular_frequency: float = 0.01,
    logarithm_base: float = 2.0,
) -> Problem:
    """Return the paper's synthetic series at relative sampling frequency ``f``, with ``I = 100`` at every frequency.

    ``x_t = 200 sin(ωt) + 500 + 0.1t`` at ``t = 0, 1/f, 2/f, …`` below 10,000, so ``T = ⌈10000 f⌉``, and with
    ``noisy`` an independent ``100 · N(0, 1)`` at every step. The counts are these, rounded, and may be negative, as in
    the paper; the ``truth``, against which it measures errors, is ``x_t``. ``p = 0.1 (1 − log f / 4)`` and
    ``σ_g = 10 / (1 − log f / 4)``. ``docs/datasets.md`` says why ω and the base, which the paper does not state.

    :param frequency: ``f``, above 0 and below ``logarithm_base⁴`` (where ``p`` would fall to 0).
    :param noisy: add the paper's observation noise.
    :param rng: source of the observation noise. The series is public: this has no part in privacy.
    :param angular_frequency: ω, in radians per unit of time.
    :param logarithm_base: base of the logarithm in ``p`` and ``σ_g``.
    :raises TypeError, ValueError: if ``noisy`` is set without ``rng``, or ``p`` would leave (0, 1].

    >>> series = synth(1 / 4)
    >>> series.size, series.participation_cap, series.sampling_probability
    (2500, 100, 0.15)
    >>> series.signal[:4]
    array([500, 508, 517, 525])
    """
    frequency = real("frequency", frequency, above=0.0)
    omega = real("angular_frequency", angular_frequency)
    base = real("logarithm_base", logarithm_base, above=1.0)
    factor = 1.0 - math.log(frequency) / math.log(base) / 4.0
    probability = factor / 10.0
    if not 0.0 < probability <= 1.0:
        raise Refusal(
            "frequency",
            Quoted(f"{frequency:g}"),
            f"gives the sampling probability {probability:g}, which must be above 0 and at most 1",
            f"choose a frequency from {base ** (-36):g} to less than {base**4:g}",
        )
    time = np.arange(math.ceil(10_000 * frequency)) / frequency
    counts = noiseless = 200.0 * np.sin(omega * time) + 500.0 + 0.1 * time
    if noisy:
        if rng is None:
            raise TypeRefusal("rng", ..., "must be given with `noisy=True`", "pass numpy.random.default_rng(seed)")
        counts = noiseless + 100.0 * rng.standard_normal(len(time))
    return Problem(
        name=f"Synth, f = {frequency:g}",
        signal=np.rint(counts).astype(np.int64),
        truth=noiseless,
        participation_cap=100,
        sampling_probability=probability,
        std=10.0 / factor,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckIns:
    """Check-ins of individuals at places, the places ranked by number of check-ins."""

    identifier: NDArray[np.int64]  #: int64, the published number of the user
    time: NDArray[np.datetime64]  #: ``datetime64[s]``, in UTC
    place: NDArray[np.int32]  #: int32, rank of the place: 0 is the most visited, of several the first in the file
    places: tuple[str, ...]  #: published identifiers of the places, in order of rank

    def at(self, rank: int = 0) -> dict[str, NDArray[np.generic]]:
        """Return ``identifier`` and ``time`` of the check-ins at a place, in the order of the file.

        :param rank: 0 for the most visited place, as in the paper.
        """
        mask = self.place == integer("rank", rank, minimum=0, maximum=len(self.places) - 1)
        return {"identifier": self.identifier[mask], "time": self.time[mask]}


_GOWALLA: Final = re.compile(r"(\d{1,18})\t(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\t[^\t]*\t[^\t]*\t([^\t]+)", re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FOURSQUARE: Final = re.compile(
    rf"(\d{{1,18}})\t([^\t]+)\t\w{{3}} ({'|'.join(_MONTHS)}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{{4}})\t-?\d+", re.ASCII
)


def load_gowalla(path: Name) -> CheckIns:
    """Read ``loc-gowalla_totalCheckins.txt``, plain or ``.gz``, of Cho, Myers & Leskovec (2011), from SNAP.

    Five fields a line, separated by tabs: user, time as ``2010-10-19T23:55:27Z``, latitude, longitude, place.

    :raises ValueError: at the first line that is not in this format, with its number.
    """
    return _check_ins(path, _GOWALLA, lambda instant, place: (instant, place))


def load_foursquare(path: Name) -> CheckIns:
    """Read ``dataset_TIST2015_Checkins.txt``, plain or ``.gz``, of Yang, Zhang & Qu (2016).

    Four fields a line, separated by tabs: user, venue, time as ``Tue Apr 03 18:00:06 +0000 2012`` in UTC, and
    the offset of local time in minutes, which is not used.

    :raises ValueError: at the first line that is not in this format, with its number.
    """

    def instant(place: str, month: str, day: str, clock: str, year: str) -> tuple[str, str]:
        return f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}Z", place

    return _check_ins(path, _FOURSQUARE, instant)


def largest_participation(checkins: CheckIns, grid: TimeGrid, *, places: int = 15) -> NDArray[np.int64]:
    """Return, for each of the most visited places, the number of steps of its most frequent visitor.

    **This reads the rows and is not private.** It computes the paper's Table 1, for public benchmark data alone: never
    choose the cap of a private release by it. The paper counts check-ins, and assumes at most one per step.

    :param checkins: as read by :func:`load_gowalla` or :func:`load_foursquare`.
    :param grid: the steps; check-ins off the grid do not count.
    :param places: number of places, from the most visited on.
    :return: int64 array of length ``places``.
    """
    places = integer("places", places, minimum=1, maximum=len(checkins.places))
    steps = grid.steps(checkins.time, aware=True)
    largest = np.zeros(places, dtype=np.int64)
    for rank in range(places):
        mask = (steps >= 0) & (checkins.place == rank)
        visits = np.unique(np.stack([checkins.identifier[mask], steps[mask]]), axis=1)
        largest[rank] = np.unique(visits[0], return_counts=True)[1].max(initial=0)
    return largest


def _check_ins(path: Name, pattern: re.Pattern[str], instant_and_place: Callable[..., tuple[str, str]]) -> CheckIns:
    """Read and rank a file whose lines match a pattern, the user first. It keeps 20 bytes per row."""
    code: dict[str, int] = {}

    def parse(line: str) -> tuple[int, int, int]:
        match = pattern.fullmatch(line)
        if match is None:
            raise ValueError("its fields are not those of the published format")
        user, *fields = match.groups()
        text, name = instant_and_place(*fields)
        return int(user), int(datetime.fromisoformat(text).timestamp()), code.setdefault(name, len(code))

    rows = np.fromiter(_read(path, parse), dtype=[("identifier", "i8"), ("time", "M8[s]"), ("place", "i4")])
    names, by_visits = list(code), np.argsort(-np.bincount(rows["place"], minlength=len(code)), kind="stable")
    return CheckIns(
        identifier=rows["identifier"].copy(),
        time=rows["time"].copy(),
        place=np.argsort(by_visits).astype(np.int32)[rows["place"]],
        places=tuple(names[index] for index in by_visits),
    )


_Reading = tuple[datetime, int]  # local time, vehicles; -1 vehicles: none published
_NO_FLOW: Final = -1


def load_pems_station(
    paths: Iterable[Name], station: int, grid: TimeGrid, *, fill: int | None = None
) -> NDArray[np.int64]:
    """Read the flow at one station from PeMS files such as ``d04_text_station_5min_2017_01_01.txt``.

    Comma-separated, without a header: local time as ``01/31/2017 23:55:00``, station, district, freeway, direction,
    lane type, length, samples, percentage observed, total flow (empty where there is none), and more that is not used.
    The counts have no identifiers: they are a count signal, for :func:`~opendp_timeseries.make_assume_participation`.

    :param paths: the files, one a day, in any order; names that end in ``.gz`` are read through gzip.
    :param station: number of the station.
    :param grid: the steps, in the zone ``America/Los_Angeles``; rows off the grid are left out.
    :param fill: flow at steps without one; by default, such steps are refused.
    :return: int64 vehicles in each step, as many as the grid has steps.
    :raises ValueError: at a row that is not in this format, with its number; at a step with more than one row, or, by
        default, without a flow.
    """
    number = str(integer("station", station, minimum=1))

    def parse(line: str) -> _Reading | None:
        row = _columns(line, 10)
        return (datetime.strptime(row[0], "%m/%d/%Y %H:%M:%S"), _vehicles(row[9])) if row[1] == number else None

    return _on_grid([reading for path in paths for reading in _read(path, parse) if reading], grid, fill)


def load_flow(path: Name, grid: TimeGrid | None = None, *, fill: int | None = None) -> NDArray[np.int64]:
    """Read a flow from a CSV file with a header and the columns local time (ISO 8601, no offset) and flow.

    Redistributed files often leave out whole days, such as weekends. On a grid those steps have no flow. Without a grid
    each row is a step, whatever its time, as in the traffic literature.

    :param path: the file; a name that ends in ``.gz`` is read through gzip.
    :param grid: the steps, in the zone of the file's clock; rows off the grid are left out.
    :param fill: flow at steps without one; by default, such steps are refused.
    :return: int64 vehicles in each step, as many as the grid has steps, or else as the file has rows.
    :raises ValueError: as :func:`load_pems_station`.
    """

    def parse(line: str) -> _Reading:
        row = _columns(line, 2)
        instant = datetime.fromisoformat(row[0])
        if instant.tzinfo is not None:
            raise ValueError(f"{row[0]!r} has an offset, so it is not local time")
        return instant, _vehicles(row[1])

    readings = list(_read(path, parse, header=1))
    if grid is not None:
        return _on_grid(readings, grid, fill)
    return _fill_empty(np.array([vehicles for _, vehicles in readings], dtype=np.int64), fill)


def _columns(line: str, minimum: int) -> list[str]:
    row = next(csv.reader([line]))
    if len(row) < minimum:
        raise ValueError(f"it has {len(row)} of {minimum} columns")
    return row


def _vehicles(text: str) -> int:
    if not text:
        return _NO_FLOW
    flow = float(text)
    if not flow.is_integer() or not 0 <= flow < 2**53:
        raise ValueError(f"{text!r} is not a number of vehicles")
    return int(flow)


def _on_grid(readings: list[_Reading], grid: TimeGrid, fill: int | None) -> NDArray[np.int64]:
    """Assign readings to the steps of a grid, at most one row per step."""
    steps = grid.steps(np.array([instant for instant, _ in readings], dtype="datetime64[s]"))
    flow = np.array([vehicles for _, vehicles in readings], dtype=np.int64)
    flow, steps = flow[steps >= 0], steps[steps >= 0]
    duplicates = np.bincount(steps, minlength=grid.size) > 1
    if duplicates.any():
        raise Refusal("flow", Quoted(_steps(duplicates)), "must have one row of each step", "remove the others")
    signal = np.full(grid.size, _NO_FLOW, dtype=np.int64)
    signal[steps] = flow
    return _fill_empty(signal, fill)


def _fill_empty(signal: NDArray[np.int64], fill: int | None) -> NDArray[np.int64]:
    empty = signal == _NO_FLOW
    if fill is not None:
        signal[empty] = integer("fill", fill, minimum=0)
    elif empty.any():
        raise Refusal(
            "flow",
            Quoted(_steps(empty)),
            "must be given of each step",
            "choose another station or other days, or give `fill=`",
        )
    return signal


def _steps(wrong: NDArray[np.bool_]) -> str:
    return f"{np.count_nonzero(wrong)} of {len(wrong)} steps, the first of them step {np.argmax(wrong)}"


def _read(path: Name, parse: Callable[[str], T], *, header: int = 0) -> Iterator[T]:
    """Parse the lines after a header, through gzip if the name ends in ``.gz``; name a line that cannot be parsed."""
    path = Path(path)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in itertools.islice(enumerate(lines, start=1), header, None):
            try:
                yield parse(line.removesuffix("\n"))
            except ValueError as error:
                raise Refusal(
                    f"{path.name}, line {number}",
                    line,
                    f"is not of this format: {error}",
                    "correct or remove the line",
                ) from None
