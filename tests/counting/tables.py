"""One log as the tables of several engines."""

import pytest


def in_files(log):
    pa = pytest.importorskip("pyarrow")
    return pytest.importorskip("pyarrow.dataset").dataset(pa.table(log))


def in_duckdb(log):
    pa, ibis = pytest.importorskip("pyarrow"), pytest.importorskip("ibis")
    pytest.importorskip("duckdb")
    connection = ibis.duckdb.connect()
    connection.con.register("log", pa.table(log))
    return connection.table("log")
