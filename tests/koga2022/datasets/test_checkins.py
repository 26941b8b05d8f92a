"""Check-in files as they are published, and the paper's Table 1 from them."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from opendp_timeseries import TimeGrid
from opendp_timeseries.koga2022.datasets import (
    FOURSQUARE_GRID,
    GOWALLA_GRID,
    CheckIns,
    largest_participation,
    load_foursquare,
    load_gowalla,
)
from tests.refused import refuses

DATA = Path(__file__).parent / "data"
GOWALLA = DATA / "loc-gowalla_totalCheckins.txt"
FOURSQUARE = DATA / "dataset_TIST2015_Checkins.txt"


def test_gowalla() -> None:
    checkins = load_gowalla(GOWALLA)
    assert checkins.identifier.tolist() == [7, 7, 7, 7, 3, 3, 3, 196585, 196585]
    assert checkins.places == ("22847", "420315", "9410")
    assert checkins.place.tolist() == [0, 0, 0, 1, 0, 1, 1, 0, 2]
    assert checkins.time[2] == np.datetime64("2009-03-02T23:59:59")
    assert checkins.time.dtype == np.dtype("datetime64[s]")
    log = checkins.at()
    assert list(log) == ["identifier", "time"]
    assert log["identifier"].tolist() == [7, 7, 7, 3, 196585]


def test_foursquare() -> None:
    checkins = load_foursquare(FOURSQUARE)
    assert checkins.places == ("4b4b87b5f964a5204a9f26e3", "4f5e3a72e4b053fd6a4313f6")
    assert checkins.at(1)["time"].tolist() == [datetime(2012, 4, 3, 18, 0, 6)]
    assert checkins.at(0)["time"].astype(str).tolist() == [
        "2012-04-03T23:59:59",
        "2012-04-04T00:00:00",
        "2012-04-04T05:00:00",
        "2012-02-29T12:00:00",
        "2013-09-16T23:24:15",
    ]


def test_the_grids_of_the_paper() -> None:
    # The user of Gowalla's first place: 2 March 2009, and twice 1 February 2010. Before 1 February 2009: off.
    assert largest_participation(load_gowalla(GOWALLA), GOWALLA_GRID, places=3).tolist() == [2, 2, 1]
    assert largest_participation(load_foursquare(FOURSQUARE), FOURSQUARE_GRID, places=2).tolist() == [1, 1]
    assert FOURSQUARE_GRID.steps(load_foursquare(FOURSQUARE).time).tolist() == [0, 0, 1, 1, -1, 2124]
    assert (GOWALLA_GRID.size, FOURSQUARE_GRID.size) == (725, 2126)


def test_largest_participation_against_a_loop() -> None:
    rng = np.random.default_rng(3)
    rows = 4000
    place = np.sort(rng.geometric(0.4, rows).clip(max=6) - 1).astype(np.int32)
    hours = rng.integers(-50, 400, rows)
    checkins = CheckIns(
        identifier=rng.choice([-5, 2**62, 0, 17, 4], rows),
        time=np.datetime64("2012-01-01T00:00:00", "s") + hours * np.timedelta64(3600, "s"),
        place=place,
        places=tuple("abcdef"),
    )
    grid = TimeGrid(size=50, start="2012-01-01T00:00", step="6h", zone="UTC")
    steps = defaultdict(set)
    for user, hour, where in zip(checkins.identifier.tolist(), hours.tolist(), place.tolist(), strict=True):
        if 0 <= hour < 300:
            steps[where, user].add(timedelta(hours=hour) // timedelta(hours=6))
    expected = [max((len(s) for (at, _), s in steps.items() if at == rank), default=0) for rank in range(6)]
    assert largest_participation(checkins, grid, places=6).tolist() == expected


def test_a_grid_on_another_clock_counts_the_same_instants() -> None:
    """Check-ins are in UTC, whatever clock the grid is described on."""
    here = TimeGrid(size=4, start="2009-03-01T00:00+00:00", step="12h", zone="UTC")
    there = TimeGrid(size=4, start="2009-03-01T00:00+00:00", step="12h", zone="America/Los_Angeles")
    checkins = load_gowalla(GOWALLA)
    expected = largest_participation(checkins, here, places=3)
    assert np.array_equal(largest_participation(checkins, there, places=3), expected)


@pytest.mark.parametrize(("load", "path"), [(load_gowalla, GOWALLA), (load_foursquare, FOURSQUARE)])
def test_gzipped_files_and_empty_ones(load: Callable[[Path], CheckIns], path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "checkins.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    plain, unpacked = load(path), load(packed)
    assert np.array_equal(plain.time, unpacked.time)
    assert np.array_equal(plain.place, unpacked.place)
    assert plain.places == unpacked.places

    packed.write_bytes(gzip.compress(b""))
    empty = load(packed)
    assert (len(empty.time), len(empty.identifier), len(empty.place), empty.places) == (0, 0, 0, ())


@pytest.mark.parametrize("line", [
    "", "7\t2010-02-01T06:30:00Z\t30.2\t-97.7", "7\t2010-02-01T06:30:00Z\t30.2\t-97.7\t22847\t1",
    "7\t2010-02-30T06:30:00Z\t30.2\t-97.7\t22847", "7\t2010-02-01T24:30:00Z\t30.2\t-97.7\t22847",
    "7\t2010-02-01 06:30:00\t30.2\t-97.7\t22847", "7\t\t30.2\t-97.7\t22847",
    "\t2010-02-01T06:30:00Z\t30.2\t-97.7\t22847", "7\t2010-02-01T06:30:00Z\t30.2\t-97.7\t",
    "seven\t2010-02-01T06:30:00Z\t30.2\t-97.7\t22847",
    "99999999999999999999\t2010-02-01T06:30:00Z\t30.2\t-97.7\t22847",
])  # fmt: skip
def test_malformed_gowalla_lines_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"7\t2010-02-01T06:30:00Z\t30.2\t-97.7\t22847\n{line}\n")
    refuses("bad.txt, line 2", load_gowalla, path)


@pytest.mark.parametrize("line", [
    "7\t4b4b\tTue Apr 03 18:00:06 +0000 2012", "7\t4b4b\tTue Apr 03 18:00:06 +0100 2012\t60",
    "7\t4b4b\tTue Avr 03 18:00:06 +0000 2012\t60", "7\t4b4b\tTue Apr 31 18:00:06 +0000 2012\t60",
    "7\t4b4b\tTue Apr 03 18:60:06 +0000 2012\t60", "7\t4b4b\t2012-04-03T18:00:06Z\t60",
    "7\t\tTue Apr 03 18:00:06 +0000 2012\t60",
])  # fmt: skip
def test_malformed_foursquare_lines_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"{line}\n")
    refuses("bad.txt, line 1", load_foursquare, path)


def test_places_that_are_not_there_are_refused() -> None:
    checkins = load_gowalla(GOWALLA)
    refuses("rank", checkins.at, 3)
    refuses("places", largest_participation, checkins, GOWALLA_GRID)
