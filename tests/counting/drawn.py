"""Logs and counts drawn at random over every option, with the slow truth of each.

A case is drawn as people, times and keys; columns of every type say them, and every engine has tables of the columns.
The truth knows none of the package's grids, places or readers: only what was drawn, the clock and the slow count.
"""

import bisect
import datetime as dt
import decimal
import functools
import itertools
import math
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import dataset

from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.kernels import Kernel
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid
from opendp_timeseries.plugin._opendp import signal_domain
from opendp_timeseries.plugin.lp_distance import l1_of, l2_of
from opendp_timeseries.plugin.spaces import signal_metric
from opendp_timeseries.plugin.totals import make_totals
from tests import make
from tests.oracles import calendars
from tests.oracles import counting as oracle
from tests.oracles import totals as oracle_of_totals
from tests.refused import refuses

KEY = bytes(range(16))
EPOCH = dt.datetime(1970, 1, 1)
HUGE = 10**30
#: Cases in a database in which broken variants of the code show, which the mutants are.
TELLING = (158, 46, 3, 97, 58, 184)


# --- Grids, and where their steps begin by the clock alone


class Grid(NamedTuple):
    made: TimeGrid
    edges: tuple[int, ...] | None  # microseconds from 1970; None for a grid of integer steps
    zone: str | None

    @property
    def size(self):
        return self.made.size


def instant(clock, zone):
    return int(oracle.local_seconds(clock, zone) * 10**6)


def even(start, step, seconds, size, zone):
    first = instant(dt.datetime.fromisoformat(start), zone or "UTC")
    edges = tuple(first + k * seconds * 10**6 for k in range(size + 1))
    return Grid(TimeGrid(size=size, start=start if zone else start + "Z", step=step, zone=zone), edges, zone)


def calendar(start, stop, unit, zone):
    """Units begin with their first day, at midnight or when clocks skip it; a day that is skipped is none."""
    midnight = dt.datetime.combine
    first, last = dt.date.fromisoformat(start), dt.date.fromisoformat(stop)
    listed = [first + dt.timedelta(days=k) for k in range((last - first).days)]
    listed = [day for day in listed if calendars.clock_at(instant(midnight(day, dt.time()), zone), zone).date() == day]
    begins = {calendars.PERIODS[unit[1:]](day): day for day in reversed(listed)}
    edges = (*(instant(midnight(day, dt.time()), zone) for day in sorted(begins.values())),)
    edges = (*edges, instant(midnight(last, dt.time()), zone))
    return Grid(TimeGrid(start=start, end=stop, step=unit, zone=zone), edges, zone)


def listed(clocks, zone):
    edges = tuple(instant(dt.datetime.fromisoformat(clock), zone) for clock in clocks)
    return Grid(TimeGrid.from_edges(clocks, zone=zone), edges, zone)


@functools.cache
def grids():
    return [
        *(Grid(TimeGrid(size=size), None, None) for size in (1, 2, 7, 12, 25)),
        even("2024-03-10T00:30", "90min", 5400, 20, "America/New_York"),  # clocks go forward
        even("2024-10-26T22:00", "1h", 3600, 30, "Europe/Paris"),  # and back
        even("2024-04-06T13:00", "6h", 21600, 12, "Australia/Lord_Howe"),  # by half an hour
        even("1969-12-31T22:00", "97s", 97, 16, "UTC"),
        even("2011-12-29T12:00", "12h", 43200, 8, "Pacific/Apia"),  # over a day that is skipped
        even("2024-01-01T00:00", "7h", 25200, 9, None),
        calendar("2024-04-22", "2024-05-06", "1d", "Africa/Cairo"),  # without a midnight
        calendar("2011-12-26", "2012-01-05", "1d", "Pacific/Apia"),
        calendar("2024-02-26", "2024-04-22", "1w", "America/Havana"),  # a midnight twice in autumn
        calendar("2023-11-01", "2024-12-01", "1mo", "Asia/Kathmandu"),
        calendar("2023-07-01", "2025-01-01", "1q", "America/Santiago"),
        listed(["2024-09-02", "2024-10-26T15:30", "2024-10-27", "2024-10-28", "2025-01-06"], "Europe/London"),
        listed(["2024-03-30T20:00", "2024-03-31T00:00:00.000001", "2024-03-31T03:30", "2024-04-01"], "Europe/Berlin"),
    ]  # fmt: skip


# --- Columns: what cells say, in which type, and the text by which people and keys are told apart


class Kind(NamedTuple):
    """A type of column of people or keys. Numbers from 0 become cells."""

    cell: object
    type: object  # of Arrow; None where cells are of many types
    text: object = lambda cell: str(cell)  # in memory
    in_database: bool = True  # whether a database takes the type
    narrow: bool = True


TEXTS = ["", "é1", "Ann", "ann", "007", "7.0"]
MIXED = [17, "x", 2.5, "18.0", b"x y", uuid.UUID(int=5)]
KINDS = {
    "int8": Kind(lambda k: k - 2, pa.int8()),
    "int64": Kind(lambda k: k - 2, pa.int64()),
    "near": Kind(lambda k: k + 2**53, pa.int64()),  # floating point would take two for one
    "uint32": Kind(lambda k: k + 2**31, pa.uint32(), narrow=False),
    "wide": Kind(lambda k: k * 2**60 - 2**62, pa.int64()),
    "unsigned": Kind(lambda k: k + 2**63, pa.uint64(), narrow=False),
    "whole": Kind(lambda k: k * 1.0, pa.float64(), lambda cell: str(int(cell))),
    "halves": Kind(lambda k: k / 2, pa.float64(), lambda cell: str(cell).removesuffix(".0")),
    "text": Kind(TEXTS.__getitem__, pa.string(), lambda cell: "7" if cell == "7.0" else cell),
    "truth": Kind(lambda k: k % 2 == 1, pa.bool_()),
    "dates": Kind(lambda k: dt.date(1970, 1, k + 1), pa.date32()),
    "decimals": Kind(lambda k: decimal.Decimal(k), pa.decimal128(20, 0)),
    "cents": Kind(lambda k: decimal.Decimal(k) / 4, pa.decimal128(20, 2), lambda cell: str(cell.normalize()), False),
    "bytes": Kind(lambda k: b"\xc3\xa9 a b Ab 007 c".split()[k], pa.binary(), lambda cell: cell.decode(), False),
    "instants": Kind(lambda k: dt.datetime(1970, 1, k + 1), pa.timestamp("us"), lambda cell: str(cell.date()), False),
    "lists": Kind(lambda k: [k], pa.list_(pa.int64()), in_database=False),
    "mixed": Kind(MIXED.__getitem__, None, lambda cell: {b"x y": "x y", "18.0": "18"}.get(cell, str(cell))),
}  # fmt: skip


class When(NamedTuple):
    """A type of column of times."""

    type: object  # of Arrow; None for objects
    naive: bool = False  # whether cells show the clock of the grid's zone
    integer: bool = False
    database: bool = True
    narrow: bool = True


TIMES = {
    "int64": When(pa.int64(), integer=True), "int8": When(pa.int8(), integer=True),
    "uint16": When(pa.uint16(), integer=True, narrow=False), "float": When(pa.float64(), integer=True),
    "digits": When(pa.string(), integer=True), "exact": When(pa.decimal128(12, 1), integer=True),
    "objects": When(None, integer=True), "naive us": When(pa.timestamp("us"), naive=True),
    "naive ms": When(pa.timestamp("ms"), naive=True),
    "naive s": When(pa.timestamp("s"), naive=True, narrow=False),
    "naive ns": When(pa.timestamp("ns"), naive=True, narrow=False),
    "aware us": When(pa.timestamp("us", "UTC")), "aware ms": When(pa.timestamp("ms", "Asia/Tokyo")),
    "aware ns": When(pa.timestamp("ns", "America/New_York"), narrow=False),
    "date": When(pa.date32(), naive=True), "said": When(pa.string(), naive=True, database=False),
    "said in UTC": When(pa.string(), database=False), "datetimes": When(None),
}  # fmt: skip
#: Cells of columns of values, by their types; each with the number that it says, or None if it says none.
VALUES = {
    "int8": (pa.int8(), [(-5, -5), (0, 0), (1, 1), (7, 7), (100, 100), (None, None)]),
    "int64": (pa.int64(), [(-(2**63), -(2**63)), (0, 0), (2, 2), (5, 5), (10**12, 10**12), (None, None)]),
    "uint64": (pa.uint64(), [(0, 0), (1, 1), (3, 3), (2**63 + 5, 2**63 + 5), (None, None)]),
    "float": (
        pa.float64(),
        [(x, x) for x in (0.5, 0.49999999999999994, 1.0, 2.5, 7.75, -0.5, -3.0, 1e300)]
        + [(x, None) for x in (math.inf, -math.inf, math.nan, None)],
    ),
    "single": (pa.float32(), [(0.5, 0.5), (1.5, 1.5), (2.0, 2), (3e38, 3e38), (math.inf, None), (None, None)]),
    "exact": (
        pa.decimal128(12, 2),
        [(decimal.Decimal(x), decimal.Decimal(x)) for x in ("0.49", "0.50", "2.50", "7.00", "-1.00", "1e6")]
        + [(None, None)],
    ),
    "truth": (pa.bool_(), [(True, 1), (False, 0), (None, None)]),
    "text": (
        pa.string(),
        [("3", 3), (" 2.5\n", 2.5), ("1e1", 10), ("+7", 7), (".5", 0.5), ("5.", 5), ("-4", -4), ("0012", 12)]
        + [(text, None) for text in ("x", "", "nan", "inf", "0x3", "1_0", "1,5", "3 4", "1e", ".", None)],
    ),
    "objects": (
        None,
        [(3, 3), ("2.5", 2.5), (2.5, 2.5), (True, 1), (decimal.Decimal("1.5"), 1.5), (4 + 0j, 4), (np.int16(6), 6)]
        + [(b"2", 2), (-3, -3), (10**40, 10**40), ("1e999", None)]
        + [(cell, None) for cell in ("x", [1], None, math.nan, math.inf, 1j, decimal.Decimal("NaN"), EPOCH)],
    ),
}  # fmt: skip


def pa_numbers():
    """Types of Arrow that NumPy has, too, among those of values."""
    return [
        kind for kind, _ in VALUES.values() if kind in (pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.float32())
    ]


UNITS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1, "D": 86400 * 10**6}


def unit_of(kind):
    return "D" if kind == pa.date32() else getattr(kind, "unit", "us")


# --- Cases


@dataclass(frozen=True, kw_only=True)
class Case:
    seed: int
    grid: Grid
    period: Period | None
    who: str
    when: str | None
    where: str | None
    keys: tuple | None
    whole: bool
    exact: bool
    caps: dict
    excess: str
    tiers: Tiers | None
    totals: tuple  # the first step of each total; empty where steps are counted
    rows: tuple  # of (the number of a person, a time, the number of a key, that of a value), None where it is missing
    tree: dict | None = None  # groups of the series of a panel, for totals
    taps: tuple | None = None  # of a filter, in units of 1/8
    distance: int = 1  # in units of privacy
    of_two: bool = False  # whether a unit is of two individuals
    levels: tuple = ()  # of groups of the keys, in tiers: sixteenths, and the number of the group of each key
    value: str | None = None  # the type of a column that is added up

    def count(self, *, replaced=False):
        return make.count(
            source=Source(
                identifier="who",
                time=self.when and "when",
                by=self.where and "where",
                exact=self.exact,
                value=self.value and "value",
            ),
            grid=TimeGrid(size=1) if self.whole else self.grid.made,
            once_over=self.grid.made if self.whole else None,
            per=self.grid_of_totals() if self.totals else None,
            panel=self.keys,
            unit=Unit(period=self.period, replaced=replaced, individuals=1 + self.of_two),
            excess=self.excess,
            tiers=self.tiers,
            typical=self.tiers and self.tiers.typical,
            grouping=self.grouping(),
            **self.caps,
        )

    def grid_of_totals(self):
        if self.grid.edges is None:
            return TimeGrid(size=len(self.totals))
        clocks = [EPOCH + dt.timedelta(microseconds=self.grid.edges[k]) for k in (*self.totals, self.grid.size)]
        return TimeGrid.from_edges([f"{clock.isoformat()}Z" for clock in clocks], zone=self.grid.zone)

    def grouping(self):
        """Levels as a tree, from the outermost, in which each number of a group is that of its series."""
        if not self.levels:
            return None
        numbers = [numbers for _, numbers in self.levels]

        def within(keys, levels):
            if not levels:
                return [self.keys[key] for key in keys]
            groups = dict.fromkeys(sorted(levels[-1][key] for key in keys))
            return {f"group {g}": within([k for k in keys if levels[-1][k] == g], levels[:-1]) for g in groups}

        groups = Groups.of(within(range(len(self.keys)), numbers[1:]), self.keys)
        return Grouping(groups=groups, shares=tuple(part for part, _ in self.levels))

    @property
    def people(self):
        """How many individuals, or individuals within a period, differ at the distance."""
        return self.distance * (1 + self.of_two)

    @property
    def cycle(self):
        return 1 if self.whole else self.grid.size

    @property
    def columns(self):
        """Numbers of each series of the count: totals, or steps."""
        return len(self.totals) or self.cycle

    @property
    def positions(self):
        return self.cycle * len(self.keys or (0,))

    @property
    def size(self):
        return self.columns * self.summed * (1 if self.tiers is None else self.tiers.series)

    @property
    def summed(self):
        """Keys, and groups of them."""
        return 1 + max(map(max, (numbers for _, numbers in self.levels))) if self.levels else len(self.keys or (0,))

    @property
    def most(self):
        """In how many steps anybody can be, after gap and key cap."""
        longest, series = max(Counter(map(self.period_of, range(self.cycle))).values()), len(self.keys or (0,))
        gap, few = self.caps["gap"], 1 if self.levels else min(self.caps["key_cap"] or series, series)
        return min(series * min(-(-longest // gap), self.cycle // gap), few * longest)

    @property
    def last(self):
        """The last tier: in how many steps of the typical size anybody can be."""
        bound, whole = self.caps["step_cap"], self.tiers.total_bound
        squares, edges = self.most * bound**2, self.grid.edges
        if (
            self.levels
            and edges
            and all(after - before >= 20 * 3600 * 10**6 for before, after in itertools.pairwise(edges))
        ):
            keys, *groups = (part for part, _ in self.levels)
            squares = -(-squares * (2 * keys + 4 * sum(groups)) // 16)  # somebody at two keys on every day
        squares = squares if whole is None else min(squares, whole * bound)
        return -(-squares // self.tiers.typical**2)

    def period_starts(self):
        return [step for step in range(self.cycle) if step == 0 or self.period_of(step) != self.period_of(step - 1)]

    def period_of(self, step):
        if self.period is None:
            return None
        if isinstance(self.period.length, int):
            return step // self.period.length
        return period_at(self.grid.edges[step], self.period.length, self.grid.zone)


def period_at(edge, unit, zone):
    return calendars.PERIODS[unit[1:]](calendars.clock_at(edge, zone).date())


@functools.cache
def whole_steps(grid, unit):
    """Whether no step lies in two periods."""
    ends = zip(grid.edges or (), (grid.edges or ())[1:], strict=False)
    zone = grid.zone or "UTC"
    return all(period_at(low, unit, zone) == period_at(high - 1, unit, zone) for low, high in ends)


def one(random, options):
    return options[int(random.integers(len(options)))]


def draw(seed, engine):
    """A case, and what is asked of it beyond the count: totals, and how far several individuals move it."""
    case, random = drawn_case(seed, engine), np.random.default_rng([seed, ENGINES.index(engine), 1])
    case = with_people_in_tiers(np.random.default_rng([seed, ENGINES.index(engine), 3]), case)
    made = None if case.keys is None or case.tiers is not None else drawn_tree(random, list(case.keys))
    of_two = case.period is None and random.random() < 0.5
    case = replace(case, tree=made, distance=int(random.integers(1, 4)), of_two=of_two)
    case = with_values(np.random.default_rng([seed, ENGINES.index(engine), 3]), case, engine)
    if case.tiers is not None or random.random() < 0.5:
        return with_levels(np.random.default_rng([seed, ENGINES.index(engine), 2]), case)
    taps = random.integers(one(random, [0, -9]), 10, case.columns) * (random.random(case.columns) < 0.5)
    if random.random() < 0.5:  # symmetric, and decreasing from its first
        half = sorted(np.abs(taps).tolist(), reverse=True)
        taps = [half[min(t, case.columns - t)] for t in range(case.columns)]
    return replace(case, taps=tuple(map(int, taps)) if any(taps) else None)


def with_levels(random, case):
    """The case with groups of its keys, and with tiers that somebody can reach, most often at several keys at once."""
    if case.tiers is None or case.keys is None or case.whole or random.random() < 0.2:
        return case
    keys, depth = len(case.keys), int(random.integers(1, 3))
    of_groups = [random.integers(0, 1 + random.integers(keys), keys) for _ in range(depth)]
    inner = np.unique(np.column_stack(of_groups[::-1]), axis=0, return_inverse=True)[1].ravel()
    # Series of groups come after all keys, and an outer group before those in it.
    found, levels = {}, [range(keys), *[[0] * keys for _ in range(depth)]]
    outer = of_groups[-1].tolist() if depth == 2 else [0] * keys
    for key in sorted(range(keys), key=lambda key: (outer[key], inner[key])):
        for level, name in [(2, outer[key])] * (depth == 2) + [(1, (outer[key], inner[key]))]:
            levels[level][key] = found.setdefault((level, name), keys + len(found))
    cuts = np.sort(random.choice(np.arange(1, 16), depth, replace=False))
    parts = np.diff(cuts, prepend=0, append=16).tolist()
    case = replace(case, caps=case.caps | {"key_cap": None}, levels=(*zip(parts, map(tuple, levels), strict=True),))
    tiers = replace(case.tiers, ends=tuple(end for end in case.tiers.ends if end < case.last))
    return replace(case, tiers=tiers, caps=case.caps | {"participation_cap": tiers.first(case.last)})


def with_values(random, case, engine):
    """The case with values that are added up, or with tiers of another size than that of the step cap."""
    rows = tuple((*row, None) for row in case.rows)
    told = case.seed in TELLING and engine in DATABASES
    if case.whole or told or random.random() < 0.6:
        tiers, cap = case.tiers, case.caps["step_cap"]
        typical = cap if told or cap == HUGE else one(random, [1, cap])
        return replace(case, rows=rows, tiers=tiers and replace(tiers, typical=typical))
    kinds = [
        name for name, (kind, _) in VALUES.items() if holds(engine, kind) and (engine not in NARROW or name[0] != "u")
    ]
    value = one(random, kinds)
    cells = VALUES[value][1]
    rows = tuple((*row[:3], int(random.integers(len(cells)))) for row in rows)
    bound = one(random, [1, 3, 7, 600, 2**20])
    case = replace(case, value=value, rows=rows, caps=case.caps | {"step_cap": bound})
    if case.tiers is None:
        return case
    typical = int(random.integers(max(1, bound // 100), bound + 1))
    whole = one(random, [None, bound, 2 * bound + 1])
    case = replace(case, tiers=replace(case.tiers, typical=typical, total_bound=whole))
    tiers = replace(case.tiers, ends=tuple(end for end in case.tiers.ends if end < case.last))
    return replace(case, tiers=tiers, caps=case.caps | {"participation_cap": tiers.first(case.last)})


def with_people_in_tiers(random, case):
    """The case in which individuals count once at all of their keys, and weigh less in some tiers."""
    if not case.whole or case.keys is None or case.excess != "drop" or random.random() < 0.4:
        return case
    ends = itertools.accumulate(random.integers(1, 3, random.integers(4)).tolist())
    tiers = Tiers(ends=tuple(end for end in ends if end < len(case.keys)), share=one(random, [0.3, 0.8]))
    caps = case.caps | {"participation_cap": tiers.first(len(case.keys))}
    return replace(case, excess="l2", caps=caps, tiers=tiers)


def drawn_tree(random, keys, name="total"):
    """Some groups of keys, of which each is a list of them, or such groups."""
    keys = [keys[k] for k in random.permutation(len(keys))]
    cuts = sorted({0, *random.integers(0, len(keys), 2).tolist()})
    groups = {f"{name} {cut}": keys[cut:end] for cut, end in zip(cuts, [*cuts[1:], len(keys)], strict=True)}
    return {
        name: drawn_tree(random, group, name) if len(group) > 1 and random.random() < 0.3 else group
        for name, group in groups.items()
    }


def drawn_case(seed, engine):
    random = np.random.default_rng([seed, ENGINES.index(engine)])
    grid = one(random, grids())
    fits = [
        name
        for name, kind in TIMES.items()
        if holds(engine, kind.type)
        and (grid.edges is None) == kind.integer
        and (engine not in DATABASES or kind.database or random.random() < 0.1)
        and (engine not in NARROW or kind.narrow)
    ]
    when = one(random, fits)
    if random.random() < 0.05 and engine not in ("numpy", "objects"):  # what does not fit is refused
        when = one(random, ["int64", "naive us", "aware us"])
    rare = random.random() < 0.1  # what a database refuses
    kinds = [
        name
        for name, kind in KINDS.items()
        if holds(engine, kind.type)
        and (engine not in DATABASES or kind.in_database or rare)
        and (engine not in NARROW or kind.narrow)
    ]
    who, where, keys, asked = one(random, kinds), None, None, list(range(6))
    if random.random() < 0.7:
        where, asked = one(random, kinds), asked[: int(random.integers(1, 5))]
        cells = [KINDS[where].cell(k) for k in asked]
        as_numbers = all(type(cell) is int for cell in cells) and random.random() < 0.5
        texts = filter(None, (text_of(where, k) for k in asked))  # an empty one is no key
        keys = tuple(dict.fromkeys(cells if as_numbers else texts)) or ("nowhere",)
        keys = keys if random.random() < 0.5 else (*keys, 12345 if as_numbers else "nobody")
    whole = random.random() < 0.1
    period = None
    if random.random() < (0.05 if whole or grid.zone is None is not grid.edges else 0.6):
        integer = grid.edges is None if random.random() < 0.98 else True
        units = [unit for unit in ("1d", "1w", "1mo", "1q", "1y") if random.random() < 0.05 or whole_steps(grid, unit)]
        unit = int(random.integers(1, grid.size + 2)) if integer else one(random, [*units, "1y"])
        period = Period(unit, None if integer else grid.zone or "UTC")
    size = grid.size
    gap = 1 if whole or size == 1 else int(random.integers(2, min(size, one(random, [4, 26])) + 1))
    caps = {
        "participation_cap": one(random, [1, 2, 3, 5, HUGE]),
        "step_cap": one(random, [1, 2, 3, HUGE]),
        "gap": gap if random.random() < 0.7 else 1,
        "key_cap": None if keys is None or random.random() < 0.4 else int(random.integers(1, len(keys) + 2)),
    }
    if whole:  # individuals count once, at so many keys
        caps |= {"step_cap": 1, "key_cap": None} | ({"participation_cap": 1} if keys is None else {})
    people, burst = int(random.integers(1, 6)), one(random, [1, 3, 6, 100])
    rows = []
    for _ in range(one(random, [0, 10, 60, 120, 120])):
        person = None if random.random() < 0.05 else int(random.integers(people))
        step = int(random.integers(-1, size + 1)) if burst == 100 else (person or 0) * 5 % size
        step += 0 if burst == 100 else int(random.integers(-burst, burst + 1))
        key = None if random.random() < 0.05 else one(random, asked if random.random() < 0.9 else range(6))
        rows.append((person, drawn_time(random, grid, TIMES[when], step), key))
    when = None if whole and random.random() < 0.5 else when
    exact = engine == "polars" and random.random() < 0.3
    excess = one(random, ["drop", "l2", "l2", "l1"]) if not whole or random.random() < 0.1 else "drop"
    excess = "l2" if whole and excess == "l1" else excess
    case = Case(
        seed=seed, grid=grid, period=period, who=who, when=when, where=where, keys=keys, whole=whole, exact=exact,
        caps=caps, excess=excess, tiers=None, totals=(), rows=tuple(rows),
    )  # fmt: skip
    if excess == "drop" or random.random() < 0.5 or refusal(case, engine) is not None:
        return with_totals(random, case, engine) if excess == "l1" and random.random() < 0.8 else case
    ends = itertools.accumulate(random.integers(1, 6, random.integers(4)).tolist())
    tiers = Tiers(ends=tuple(end for end in ends if end < case.most), share=one(random, [0.3, 0.8]))
    caps = case.caps | {"participation_cap": tiers.first(case.most)}
    return replace(case, excess="l2", caps=caps, tiers=tiers)


def with_totals(random, case, engine):
    """The case with totals of as many steps each if these are integers, else of any number."""
    size, within = case.grid.size, refusal(case, engine) is None and random.random() < 0.8
    begins = {0, *(case.period_starts() if within else ())}  # else most of them would be in two periods
    if case.grid.edges is None:
        most = math.gcd(size, *begins)
        begins = range(0, size, one(random, [k for k in range(1, most + 1) if most % k == 0]))
    else:
        begins |= {*random.integers(size, size=one(random, [0, 1, 5])).tolist()}
    return replace(case, totals=(*sorted(begins),))


def drawn_time(random, grid, kind, step):
    """What a cell says: a step, or microseconds from 1970 of an instant or of what a clock shows; None is no time."""
    if random.random() < 0.05:
        return None
    if grid.edges is None or kind.integer:
        return max(step, 0) if kind.type == pa.uint16() else step
    near, width = min(max(step, 0), grid.size), grid.edges[1] - grid.edges[0]
    tick = grid.edges[near] + one(random, [-1, 0, 1, int(random.integers(width))]) + (step - near) * width
    if kind.naive:
        shift = dt.timedelta(hours=one(random, [0] * 9 + [1]))  # some clocks show what is skipped
        tick = (calendars.clock_at(tick, grid.zone or "UTC") + shift - EPOCH) // dt.timedelta(microseconds=1)
    each = UNITS[unit_of(kind.type)]
    return tick // each * each


def step_of(case, time):
    """The step of a cell; -1 off the grid."""
    if case.grid.edges is None:
        return time if 0 <= time < case.grid.size else -1
    if TIMES[case.when].naive:
        if case.grid.zone is None:
            return -1
        time = instant(EPOCH + dt.timedelta(microseconds=time), case.grid.zone)
    return next((k for k, (low, high) in enumerate(itertools.pairwise(case.grid.edges)) if low <= time < high), -1)


def text_of(name, k, *, exact=False):
    cell = KINDS[name].cell(k)
    return cell if exact and type(cell) is str else KINDS[name].text(cell)


class Truth(NamedTuple):
    """What is counted of each individual in each period, and where the rows went."""

    kept: dict  # of (identifier, period): {position: events}
    steps: list  # in how many steps, the gap apart, everybody is, in order
    tally: Counter

    def counts(self, case):
        counts = added(self.kept.values())
        return [counts.get(position, 0) for position in range(case.size)]


def added(changes, sign=1):
    """The sum of vectors {position: events}; with another sign, of those with odd numbers."""
    counts = defaultdict(int)
    for k, change in enumerate(changes):
        for position, events in change.items():
            counts[position] += events * sign**k
    return {position: events for position, events in counts.items() if events}


def truth(case, rows, hashed):
    places = None
    if case.keys is not None:
        places = {str(key): k for k, key in enumerate(case.keys)}
    lost, own = Counter({"rows": len(rows)}), defaultdict(Counter)
    cells = cells_of(case, rows).get("when", rows)
    for (person, time, key, number_of_cell), cell in zip(rows, cells, strict=True):
        much = 1
        if case.value is not None:
            much = oracle.amount(VALUES[case.value][1][number_of_cell][1], case.caps["step_cap"])
        step = 0 if case.when is None else None if time is None else step_of(case, time)
        number = 0 if places is None else None if key is None else places.get(text_of(case.where, key))
        if person is None or text_of(case.who, person) == "":
            lost["missing_identifier"] += 1
        elif step is None:
            lost[why_no_time(cell)] += 1
        elif step < 0:
            lost["off_grid"] += 1
        elif number is None:
            lost["unknown_key"] += 1
        elif not much:
            lost["no_value"] += 1
        else:
            at = 0 if case.whole else step
            who = text_of(case.who, person, exact=case.exact)
            own[who, case.period_of(step)][number * case.cycle + at] += much
    limits, tiers = {"key": KEY, "cycle": case.cycle, "hashed": hashed}, None
    if case.tiers is not None:
        tiers = {"ends": case.tiers.ends, "share": case.tiers.share}
        tiers |= {"most": case.last, "size": case.summed * case.cycle, "typical": case.tiers.typical}
    more = limits | {"excess": case.excess, "tiers": tiers, "levels": case.levels or None}
    kept = {(who, period): oracle.kept(who, at, **case.caps, **more) for (who, period), at in own.items()}
    if case.totals:
        kept = {who: in_totals(case, change) for who, change in kept.items()}
    free = {"participation_cap": HUGE, "step_cap": 1, "gap": case.caps["gap"]}
    steps = sorted(len(oracle.kept(who, at, **free, **limits)) for (who, _), at in own.items())
    return Truth(kept, steps, lost)


def in_totals(case, change):
    """What somebody adds to each total, who adds so much to each step."""
    sums = Counter()
    for position, events in change.items():
        series, step = divmod(position, case.cycle)
        sums[series * len(case.totals) + bisect.bisect(case.totals, step) - 1] += events
    return dict(sums)


def why_no_time(cell):
    if cell is None or cell != cell or (type(cell) is str and not cell.strip()):
        return "missing_time"
    return "unreadable_time" if type(cell) in (str, float, complex, decimal.Decimal) else "unknown_time"


def refusal(case, engine):
    """What an engine, or the count, says of a combination that cannot be; None where it can."""
    said = []
    if case.whole and case.excess != "drop" and case.tiers is None:
        said.append("step_cap, key_cap, groups and per")
    if case.period is not None:
        integer, grid = isinstance(case.period.length, int), case.grid
        if case.whole:
            said.append("period")
        elif integer != (grid.edges is None) or (not integer and grid.zone is None):
            said.append("zone|grid of integer steps")
        elif not integer and not whole_steps(grid, case.period.length):
            said.append(r"step \d+ of TimeGrid")
        elif case.totals and not {*case.period_starts()} <= {*case.totals}:
            said.append("^per ")
    database = engine in DATABASES
    for name, kind in (("who", case.who), ("where", case.where)):
        if kind is not None and (kind == "lists" or (database and not KINDS[kind].in_database)):
            said.append(f"'{name}' of type")
    if case.when is not None:
        kind = TIMES[case.when]
        if kind.integer != (case.grid.edges is None) or (database and not kind.database):
            said.append("times of type|'when' of type")
        elif kind.naive and case.grid.zone is None and kind.type != pa.string() and engine != "objects":
            said.append("times of type|zone")
    return "|".join(said) or None


def within(change, influence, case, per_unit=1):
    """Whether a vector {position: difference} is within an influence on a count."""
    unit = per_unit * (1 if case.excess == "drop" else 2**16)
    change = {position: Fraction(value, unit) for position, value in change.items()}
    sizes = sorted(map(abs, change.values()), reverse=True)
    halves = [change]
    if influence.replaced:
        halves = [{p: v for p, v in change.items() if v * sign > 0} for sign in (1, -1)]
    bound = influence.l0 // len(halves)
    values = [] if influence.majorant is None else influence.majorant.values.tolist()
    sums = itertools.accumulate(sizes), itertools.accumulate(values)
    return (
        sum(sizes) <= influence.l1_norm()
        and len(sizes) <= influence.l0
        and max(sizes, default=0) <= influence.linf
        and sum(v * v for v in sizes) <= Fraction(influence.l2) ** 2
        and all(a <= b * (1 + 2**-40) for a, b in zip(*sums, strict=False))  # sums of floats
        and all(len(half) <= bound and lies_apart(half, influence, case) for half in halves)
    )


def lies_apart(positions, influence, case):
    series, moments = defaultdict(list), defaultdict(set)
    for position in positions:
        series[position // case.columns].append(position % case.columns)
        moments[position % case.columns].add(position // case.columns)
    few = influence.key_cap is None or all(len(here) <= influence.key_cap for here in moments.values())
    return few and all(oracle.apart(steps, influence.gap, case.columns) for steps in series.values())


# --- Tables

DATABASES = ("duckdb", "spark", "postgres")
#: Those without unsigned integers and nanoseconds.
NARROW = ("spark", "postgres")
ENGINES = ["numpy", "objects", "pandas", "polars", "arrow", "batches", "duckdb", "spark", "postgres"]


def holds(engine, kind):
    """Whether an engine's tables have columns of a type: of cells of many types there are only columns of objects."""
    return (
        engine not in ("numpy", "objects", "pandas")
        if kind == pa.list_(pa.int64())
        else (kind is not None or engine in ("objects", "pandas"))
    )


def cells_of(case, rows):
    """The cells of each column, as Python has them."""
    random = np.random.default_rng(case.seed)
    columns = {"who": [cell_of(random, case.who, k) for k, _, _, _ in rows]}
    if case.when is not None:
        columns["when"] = [said(random, case, time) for _, time, _, _ in rows]
    if case.where is not None:
        columns["where"] = [cell_of(random, case.where, k) for _, _, k, _ in rows]
    if case.value is not None:
        columns["value"] = [VALUES[case.value][1][k][0] for *_, k in rows]
    return columns


def cell_of(random, name, k):
    if k is None:
        return math.nan if KINDS[name].type == pa.float64() and random.random() < 0.5 else None
    return KINDS[name].cell(k)


def said(random, case, time):
    kind, junk = TIMES[case.when], random.random() < 0.5
    if kind.integer:
        if time is None:
            odd = {
                "digits": ["x", "", "1e0", "0x1", "1_0", "1.5", "nan", "one", "1,0"],
                "float": [0.5, math.nan],
                "exact": [decimal.Decimal("2.5")],
                "objects": ["2024-01-01", 1.5, True, math.nan, 1j, [1]],
            }
            return one(random, odd[case.when]) if junk and case.when in odd else None
        ways = {
            "float": [float(time)],
            "digits": [str(time), f"{time}.0", f" {time:+}\n", f"{time:04}."],
            "exact": [decimal.Decimal(time)],
            "objects": [time, float(time), str(time), np.int16(time), decimal.Decimal(time), np.float32(time)],
        }
        return one(random, ways.get(case.when, [time]))
    if time is None:
        return "x" if junk and kind.type in (None, pa.string()) else None
    clock = EPOCH + dt.timedelta(microseconds=time)
    if kind.type == pa.string():
        return clock.isoformat(sep=one(random, ["T", " "])) + ("" if kind.naive else "Z")
    if kind.type == pa.date32():
        return clock.date()
    if kind.naive:
        return clock
    aware = clock.replace(tzinfo=dt.UTC)
    return aware.astimezone(ZoneInfo("Asia/Kathmandu")) if kind.type is None and junk else aware


def arrow_type(case, name):
    if name == "value":
        return VALUES[case.value][0]
    return TIMES[case.when].type if name == "when" else KINDS[getattr(case, name)].type


def in_arrow(case, rows):
    columns = cells_of(case, rows)
    return pa.table({name: pa.array(cells, arrow_type(case, name)) for name, cells in columns.items()})


def in_objects(case, rows):
    table = {}
    for name, cells in cells_of(case, rows).items():
        table[name] = np.empty(len(cells), dtype=object)
        table[name][:] = cells
    return table


def in_numpy(case, rows):
    """Arrays of NumPy's types, masked where they have no missing values; objects for other types."""
    table, objects = {}, in_objects(case, rows)
    for name, column in objects.items():
        kind = arrow_type(case, name)
        missing = np.array([cell is None for cell in column], bool)
        if kind in (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("s"), pa.timestamp("ns"), pa.date32()):
            column = column.astype(f"M8[{unit_of(kind)}]")
        elif kind is not None and pa.types.is_floating(kind):
            column = np.where(missing, np.nan, column).astype(float)
        elif kind == pa.bool_() or (kind is not None and pa.types.is_integer(kind)):
            column = np.ma.MaskedArray(np.where(missing, 0, column).astype(kind.to_pandas_dtype()), missing)
        elif kind in (pa.string(), pa.binary()) and case.seed % 2:
            filler = "" if kind == pa.string() else b""
            column = np.where(missing, filler, column)
            column = np.ma.MaskedArray(column.astype("U" if kind == pa.string() else object), missing)
            column = column if kind == pa.string() else objects[name]
        table[name] = column
    return table


def in_pandas(case, rows):
    columns = cells_of(case, rows)
    # Pandas makes wide integers floating-point where one is missing, and columns of objects of dates.
    wide = {"near", "wide", "unsigned"} & {case.who, case.where} or (case.when and refusal(case, "pandas"))
    objects = [name for name in columns if arrow_type(case, name) is None]
    way = one(np.random.default_rng(case.seed), ["arrow", "inferred", "nullable", "category"])
    if wide or way == "arrow":
        typed = {n: pa.array(cells, arrow_type(case, n)) for n, cells in columns.items() if n not in objects}
        frame = pa.table(typed).to_pandas(types_mapper=pd.ArrowDtype)
        return frame.assign(**{name: pd.Series(columns[name], dtype=object) for name in objects})
    frame = pd.DataFrame({n: pd.Series(c, dtype=None if len(c) else object) for n, c in columns.items()})
    if way == "nullable":
        with np.errstate(invalid="ignore"):  # pandas tries infinity as an integer
            return frame.convert_dtypes()
    return frame.astype({"who": "category"}) if way == "category" and case.who != "lists" else frame


def in_polars(case, rows):
    frame = pl.from_arrow(in_arrow(case, rows))
    return frame.lazy() if case.seed % 2 or case.exact else frame


def in_chunks(case, rows):
    table, cut = in_arrow(case, rows), case.seed % 7
    if case.seed % 2 and pa.types.is_string(table["who"].type):
        table = table.set_column(0, "who", table["who"].dictionary_encode())
    return pa.concat_tables([table[:cut], table[cut:]])


IN_MEMORY = {
    "numpy": in_numpy, "objects": in_objects, "pandas": in_pandas, "polars": in_polars, "arrow": in_chunks,
    "batches": lambda case, rows: dataset.dataset(in_chunks(case, rows)),
}  # fmt: skip


# --- The check


def check(case, engine, make, hashed=oracle.hash_of, *, all_of_it=True):
    """Whether an engine counts what the slow count does, and one individual is within the influence stated."""
    expected_refusal = refusal(case, engine)
    if expected_refusal is not None:
        refuses(expected_refusal, lambda: counted(case, make(case, case.rows)), error=(TypeError, ValueError))
        return
    expected, table = truth(case, case.rows, hashed), make(case, case.rows)
    counts, own = counted(case, table), list(expected.kept.items())
    assert counts == expected.counts(case), (case, engine)
    check_influences(case, [change for _, change in own])
    check_periods(case, expected.kept)
    if case.tree is not None:
        check_totals(case, counts, [change for _, change in own])
    if case.taps is not None:
        check_filter(case, expected.kept)
    if not all_of_it:
        return
    assert sorted(engine_of(table).participation(table, case.count().reading).tolist()) == expected.steps, case
    went = engine_of(table).tally(table, case.count().reading)._asdict()
    assert went == {name: expected.tally[name] for name in went}, (case, engine)
    first = case.seed % max(1, len(own))
    several = (own[first:] + own[:first])[: case.people]
    left = tuple(row for row in case.rows if not any(is_of(case, row, *who) for who, _ in several))
    if several:
        without, change = counted(case, make(case, left)), added(change for _, change in several)
        assert len(left) < len(case.rows)
        assert np.subtract(counts, without).tolist() == [change.get(p, 0) for p in range(case.size)], (case, engine)


def check_influences(case, changes):
    """Whether those who are added or removed, or replaced, alone or several, move the count as far as is stated."""
    replacing = [added(pair, sign=-1) for pair in zip(changes, changes[1:] + changes[:1], strict=True)]
    for vectors, replaced in ((changes, False), (replacing, True)):
        one, all_of_them = (case.count(replaced=replaced).influence(n) for n in (1, case.distance))
        assert all_of_them == replace(one, individuals=case.people)
        for k, vector in enumerate(vectors):
            assert within(vector, one, case), case
            assert within_together(added((vectors[k:] + vectors[:k])[: case.people]), all_of_them, case), case


def check_periods(case, kept):
    """Whether all that somebody did in several periods moves the count as far as is stated."""
    if case.period is None:
        return
    of_all = defaultdict(list)
    for (who, _), change in kept.items():
        of_all[who].append(change)
    somebody = list(of_all.values())
    for these, others in zip(somebody, somebody[1:] + somebody[:1], strict=True):
        change, changed = added(these), added(others)
        most = max(len(these), len(others))
        assert within(change, case.count().influence(periods=len(these)), case), case
        assert within(added([change, changed], sign=-1), case.count(replaced=True).influence(periods=most), case), case


def check_totals(case, counts, changes):
    """Whether totals are sums of the very counts, and are moved as far as is stated."""
    count, of_groups = case.count(), summed(case)
    space = signal_metric(Signal(count))
    made = make_totals(signal_domain("f64" if count.resolution_bits else "i64", case.size), space, case.tree)
    unit = 2**count.resolution_bits
    sums = made([number / unit for number in counts] if unit > 1 else counts)
    expected = of_groups(dict(enumerate(counts)))
    assert [unit * number for number in sums] == [expected.get(k, 0) for k in range(len(sums))], case
    moved, replaced = made.map(count.influence()), made.map(case.count(replaced=True).influence())
    assert made.map(count.influence(case.distance)) == replace(moved, individuals=case.people)
    for change, changed in zip(changes, changes[1:] + changes[:1], strict=True):
        for vector, influence in ((change, moved), (added([change, changed], sign=-1), replaced)):
            assert within(of_groups(vector), influence, case), case


def check_filter(case, kept):
    """Whether what somebody did, in one or several periods, moves a filter behind counts or totals as is stated."""
    totals = () if case.tree is None else (Groups.of(case.tree, case.keys),)
    stages = (*totals, Kernel(numerators=np.array(case.taps), resolution_bits=3))
    one, other = (Signal(case.count(replaced=replaced), stages) for replaced in (False, True))
    behind = summed(case) if totals else lambda vector: vector
    assert one.influence(case.distance) == replace(one.influence(), individuals=case.people), case
    of_all, begins = defaultdict(list), {}
    for (who, _), change in kept.items():
        of_all[who].append(change)
    for who, periods in of_all.items():
        for some in (periods[:1], periods):
            begins[who, len(some)] = filtered(case.taps, behind(added(some)), case.columns)
    for ((_, n), change), ((_, m), changed) in itertools.pairwise(begins.items()):
        difference = added([change, changed], sign=-1)
        assert within(change, one.influence(periods=n), case, 8), case
        assert within(difference, other.influence(periods=max(n, m)), case, 8), case


def filtered(taps, vector, cycle):
    """A vector behind a filter in each of its series, in units of its taps."""
    moved = defaultdict(int)
    for position, events in vector.items():
        for later, tap in enumerate(taps):
            moved[position // cycle * cycle + (position + later) % cycle] += tap * events
    return {position: events for position, events in moved.items() if events}


def summed(case):
    """The totals of a vector, by the slow sums of groups of series."""
    groups = [[case.keys.index(key) for key in listed] for listed in members(case.tree)]

    def of_groups(vector):
        places = {divmod(position, case.columns): events for position, events in vector.items()}
        sums = oracle_of_totals.totals(places, groups, case.columns)
        return {place: events for place, events in enumerate(sums) if events}

    return of_groups


def members(tree):
    """The keys of each group, an outer group before those in it."""
    listed = []
    for inner in tree.values():
        within = members(inner) if isinstance(inner, dict) else []
        outer = dict.fromkeys(key for group in within for key in group) if within else inner
        listed += [list(outer), *within]
    return listed


def within_together(change, influence, case):
    """Whether what several individuals change is within the distances that noise is scaled to."""
    unit = 1 if case.excess == "drop" else 2**16
    sizes = [abs(Fraction(value, unit)) for value in change.values()]
    return (
        sum(sizes) <= l1_of(influence)
        and sum(size**2 for size in sizes) <= Fraction(l2_of(influence)) ** 2
        and max(sizes, default=0) <= influence.individuals * influence.linf
        and len(sizes) <= influence.individuals * influence.l0
    )


def counted(case, table):
    count = case.count()
    return count.add_up(engine_of(table).count(table, count, KEY)).tolist()


def is_of(case, row, who, period):
    person, time, _, _ = row
    if person is None or text_of(case.who, person, exact=case.exact) != who:
        return False
    step = -1 if case.when is None or time is None else step_of(case, time)
    return case.period is None or (step >= 0 and case.period_of(step) == period)
