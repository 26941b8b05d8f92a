"""Databases and clusters that hold logs, and caps."""

import collections
import itertools
import os
import sys

import numpy as np
import pytest

from opendp_timeseries.counting.files import csv_batches
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid
from tests import make


def count_of(identifier="id", time="time", grid=None, by=None, keys=None, *, exact=False, period=None, **caps):
    """Return a count of a log; what is left out binds nobody."""
    return make.count(
        source=Source(identifier=identifier, time=time, by=by, exact=exact),
        grid=grid,
        panel=None if keys is None else tuple(keys),
        unit=Unit(period=period),
        **{"participation_cap": 2**31, "step_cap": 10**9} | caps,
    )


def count_of_series(size, series=1, **caps):
    """Return a count of so many entries, in so many series, for rows whose positions are known."""
    return count_of(grid=TimeGrid(size=size // series), by="by", keys=map(str, range(series)), **caps)


def rows_of_csv(path, *, identifier, time, zone, by=None, **how):
    """The columns of a CSV file as its reader sees them, before rows are folded."""
    numbers = collections.defaultdict(itertools.count(1).__next__, {"": 0})
    names = [identifier, time, *([] if by is None else [by])]
    source = Source(identifier=identifier, time=time, by=by)
    batches = list(csv_batches(path, source, numbers, zone=zone, **how))
    columns = {name: [batch[name] for batch in batches] for name in names}
    people = [number for column in columns[identifier] for number in column.values.tolist()]
    texts = [None, *list(numbers)[1:]]
    log = {
        identifier: np.array([texts[number] for number in people], object),
        time: np.concatenate([np.empty(0, "M8[ns]"), *(column.values for column in columns[time])]),
    }
    if by is not None:
        log[by] = np.array([cell for column in columns[by] for cell in column.cells], object)
    return log


class DuckDB:
    name = "duckdb"
    units = ("s", "ms", "us", "ns")

    def __init__(self, **settings):
        ibis = pytest.importorskip("ibis")
        pytest.importorskip("duckdb")
        self.connection, self.numbers = ibis.duckdb.connect(), itertools.count()
        for name, value in settings.items():
            self.connection.raw_sql(f"SET {name} = '{value}'")

    def table(self, **columns):
        pa = pytest.importorskip("pyarrow")
        return self.table_of(pa.table(columns))

    def table_of(self, table):
        name = f"log{next(self.numbers) % 100}"
        self.connection.con.register(name, table)
        return self.connection.table(name)

    def table_that_counts_its_rows(self, **columns):
        """A table, and a function that says how many of its rows were read so far, each as often as it was."""
        run = self.connection.raw_sql
        run("CREATE OR REPLACE SEQUENCE reads START 1")
        view = self.table(**columns).get_name()
        run(f"CREATE OR REPLACE VIEW counted_rows AS SELECT * FROM {view} WHERE nextval('reads') > 0")
        asked = itertools.count(1)
        return self.connection.table(
            "counted_rows"
        ), lambda: run("SELECT nextval('reads')").fetchall()[0][0] - next(asked)

    def hashes(self, who, key, steps=200):
        """The hashes of an individual's steps, of a connection in which nothing was set."""
        import duckdb

        first, second = np.frombuffer(key, "<i8").tolist()
        query = f"SELECT hash(hash({first}, {second}, ?, step)) FROM range({steps}) AS t(step) ORDER BY step ASC"
        return [number for (number,) in duckdb.connect().execute(query, [who]).fetchall()]

    def session_zone(self, zone):
        self.connection.raw_sql(f"SET TimeZone = '{zone}'")


class Spark:
    name = "spark"
    units = ("ms", "us")

    def __init__(self, folder, session=None):
        ibis = pytest.importorskip("ibis")
        sql = pytest.importorskip("pyspark.sql")
        if not any(os.access(os.path.join(path, "java"), os.X_OK) for path in os.get_exec_path()):
            pytest.skip("Spark needs Java")
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
        os.environ["PYSPARK_PYTHON"] = sys.executable  # the first python3 of the path may be another one
        self.session = session or sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")
        self.connection, self.folder, self.numbers = ibis.pyspark.connect(self.session), folder, itertools.count()

    def table(self, **columns):
        pa = pytest.importorskip("pyarrow")
        return self.table_of(pa.table(columns))

    def table_of(self, table):
        path = self.folder / f"log{next(self.numbers)}.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
        return self.connection.read_parquet(path)

    def table_that_counts_its_rows(self, **columns):
        """As of DuckDB."""
        reads = self.session.sparkContext.accumulator(0)

        def read(rows):
            for row in rows:
                reads.add(1)
                yield row

        log = self.session.createDataFrame(list(zip(*(c.tolist() for c in columns.values()), strict=True)), [*columns])
        log = self.session.createDataFrame(log.rdd.mapPartitions(read), log.schema)
        log.createOrReplaceTempView("counted_rows")
        return self.connection.table("counted_rows"), lambda: reads.value

    def hashes(self, who, key, steps=200):
        """The hashes of an individual's steps."""
        first, second = np.frombuffer(key, "<i8").tolist()
        rows = self.session.range(steps).selectExpr("id", f"xxhash64({first}L, {second}L, '{who}', id) AS hashed")
        return [row.hashed for row in rows.orderBy("id").collect()]

    def session_zone(self, zone):
        self.session.conf.set("spark.sql.session.timeZone", zone)
