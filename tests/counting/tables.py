"""Databases and clusters that hold logs, and caps."""

import collections
import hashlib
import itertools
import os
import pwd
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opendp_timeseries.counting.files import csv_batches
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid
from tests import make


def count_of(
    identifier="id", time="time", grid=None, by=None, keys=None, *, value=None, exact=False, period=None, **caps
):
    """Return a count of a log; what is left out binds nobody."""
    return make.count(
        source=Source(identifier=identifier, time=time, by=by, value=value, exact=exact),
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


class Backend:
    """Something that counts inside, and makes tables of Arrow's."""

    def table(self, **columns):
        return self.table_of(pytest.importorskip("pyarrow").table(columns))


class DuckDB(Backend):
    name = "duckdb"
    units = ("s", "ms", "us", "ns")

    def __init__(self, **settings):
        ibis = pytest.importorskip("ibis")
        pytest.importorskip("duckdb")
        self.connection, self.numbers = ibis.duckdb.connect(), itertools.count()
        for name, value in settings.items():
            self.connection.raw_sql(f"SET {name} = '{value}'")

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


class Spark(Backend):
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


#: Where servers of PostgreSQL are, beside those of the path.
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class PostgresServer:
    """A server of its own, on a socket in a folder of its own, which ends with it."""

    def __init__(self, folder, encoding="UTF8"):
        pytest.importorskip("psycopg")
        found = shutil.which("initdb", path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, SERVERS)]))
        if found is None:
            pytest.skip("no server of PostgreSQL is here")
        self.folder, self.programs = folder, Path(found).resolve().parent
        # The server refuses to run as root, and a path of a socket may have a hundred bytes.
        self.identity = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        locale = ["--no-locale", "-E", encoding]
        self.run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "--no-instructions", *locale)
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c shared_buffers=32MB"
        self.run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def run(self, program, *arguments):
        run = subprocess.run(
            [self.programs / program, *arguments], cwd=self.folder, capture_output=True, text=True, **self.identity
        )
        assert run.returncode == 0, run.stderr

    def end(self):
        self.run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")


class Postgres(Backend):
    name = "postgres"
    units = ("ms", "us")

    def __init__(self, server):
        ibis, psycopg = pytest.importorskip("ibis"), pytest.importorskip("psycopg")
        pa = pytest.importorskip("pyarrow")
        self.connection = ibis.postgres.connect(host=str(server.folder), user="postgres", database="postgres")
        self.psycopg, self.numbers = psycopg, itertools.count()
        self.types = [
            (pa.types.is_boolean, ["boolean"]),
            (lambda kind: kind in (pa.int8(), pa.int16(), pa.uint8()), ["smallint"]),
            (lambda kind: kind in (pa.int32(), pa.uint16()), ["integer"]),
            (lambda kind: kind in (pa.int64(), pa.uint32()), ["bigint"]),
            (lambda kind: kind == pa.uint64(), ["numeric(20, 0)", "numeric"]),
            (lambda kind: kind == pa.float32(), ["real"]),
            (pa.types.is_floating, ["double precision"]),
            (pa.types.is_string, ["text", "varchar(2000)", 'text COLLATE "C"', "text COLLATE alike"]),
            (pa.types.is_date, ["date"]),
            (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, ["timestamptz"]),
            (pa.types.is_timestamp, ["timestamp"]),
            (pa.types.is_binary, ["bytea"]),
            (pa.types.is_list, ["bigint[]"]),
            (pa.types.is_null, ["text"]),
        ]
        self.run(
            "CREATE COLLATION IF NOT EXISTS alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )

    def run(self, query, *parameters):
        with self.connection.con.cursor() as cursor:
            cursor.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description else None

    def type_of(self, kind, number):
        pa = pytest.importorskip("pyarrow")
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_decimal(kind):
            return "numeric" if number % 2 and not kind.scale else f"numeric({kind.precision}, {kind.scale})"
        options = next(options for holds, options in self.types if holds(kind))
        return options[number % len(options)]

    def table_of(self, table):
        number = next(self.numbers)
        name = f"log{number % 100}"
        kinds = [self.type_of(field.type, number) for field in table.schema]
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(table.column_names, kinds, strict=True))
        self.run(f"DROP TABLE IF EXISTS {name} CASCADE")
        self.run(f"CREATE TABLE {name} ({columns})")
        with self.connection.con.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
        return self.connection.table(name)

    def table_that_counts_its_rows(self, **columns):
        """As of DuckDB, by notices, as a sequence cannot go on in a transaction that only reads."""
        name, seen = self.table(**columns).get_name(), []
        self.run(
            "CREATE OR REPLACE FUNCTION noticed(id bigint) RETURNS boolean LANGUAGE plpgsql"
            " AS 'BEGIN RAISE NOTICE ''row''; RETURN true; END'"
        )
        self.run(f"CREATE OR REPLACE VIEW counted_rows AS SELECT * FROM {name} WHERE noticed(id)")
        self.connection.con.add_notice_handler(seen.append)
        return self.connection.table("counted_rows"), lambda: len(seen)

    def hashes(self, who, key, steps=200):
        """The hashes of an individual's steps."""
        first, second = np.frombuffer(key, "<i8").tolist()
        return [
            hashlib.sha256(struct.pack(">qqq", first, second, step) + who.encode()).digest() for step in range(steps)
        ]

    def session_zone(self, zone):
        self.run(f"SET TimeZone = '{zone}'")


#: An Arrow table as each engine has it.
ENGINES = {
    "numpy": lambda table: {name: table[name].to_numpy() for name in table.column_names},
    "pandas": lambda table: table.to_pandas(), "arrow": lambda table: table,
    "polars": lambda table: pytest.importorskip("polars").from_arrow(table),
    "batches": lambda table: pytest.importorskip("pyarrow.dataset").dataset(table),
    "duckdb": lambda table: DuckDB().table_of(table),
}  # fmt: skip
