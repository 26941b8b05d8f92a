"""One log as the tables of several engines, and caps."""

import pytest

from opendp_timeseries.counting.layout import Caps
from opendp_timeseries.design.count import Count
from opendp_timeseries.grid import TimeGrid


def caps_of(size, **caps):
    """Return the caps of a count of so many entries."""
    return Caps.of(Count(source=None, grid=TimeGrid(size=size), panel=("",) if caps.get("key_cap") else None, **caps))


def in_files(log):
    pa = pytest.importorskip("pyarrow")
    return pytest.importorskip("pyarrow.dataset").dataset(pa.table(log))


def in_duckdb(log):
    pa, ibis = pytest.importorskip("pyarrow"), pytest.importorskip("ibis")
    pytest.importorskip("duckdb")
    connection = ibis.duckdb.connect()
    connection.con.register("log", pa.table(log))
    return connection.table("log")
