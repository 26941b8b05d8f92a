"""PostgreSQL by a server of its own: its types, its sessions, and what a role may that can only read."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from opendp_timeseries.grid import TimeGrid
from tests import make
from tests.counting.tables import Postgres, count_of
from tests.refused import refuses

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")
psycopg = pytest.importorskip("psycopg")
engine = pytest.importorskip("opendp_timeseries.counting.database")

pytestmark = pytest.mark.long

KEY = bytes(range(16))
STEP = TimeGrid(size=1)


@pytest.fixture(scope="module")
def postgres(postgres_server):
    server = Postgres(postgres_server)
    yield server
    server.connection.disconnect()


@pytest.fixture
def log(postgres):
    """A function that makes a table of rows, in the words of PostgreSQL."""
    numbers = itertools.count()

    def table(columns, *rows):
        name = f"own{next(numbers)}"
        postgres.run(f"DROP TABLE IF EXISTS {name} CASCADE")
        postgres.run(f"CREATE TABLE {name} ({columns})")
        postgres.run(f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in rows)}")
        return postgres.connection.table(name)

    return table


def people(table, **options):
    """How many individuals are in one step."""
    return engine.count(table, count_of("id", None, STEP, **{"step_cap": 1} | options), KEY).tolist()


@pytest.mark.parametrize(("kind", "cells", "number"), [
    ("text COLLATE alike", ["'Ann'", "'ann'", "'ANN'", "'Ann'"], 3),
    ("varchar(5)", ["'Ann'", "'ann'", "'Ann'", "''"], 2),
    ("char(5)", ["'Ann'", "'ann'", "'Ann  '", "'  '"], 2),
    ("numeric", ["1", "1.0", "1.00", "0.25", "0.250", "'NaN'", "NULL", "'Infinity'", "1e200"], 4),
    ("numeric(30, 0)", ["1", "1.2", "1e29 - 1", "1e29 - 2", "'NaN'"], 3),
    ("real", ["0.1", "0.1", "'NaN'", "1.0", "1", "3e38", "'-Infinity'"], 4),
    ("double precision", ["0.1", "0.1 + 1e-17", "0.1 + 2e-17", "1e15", "1000000000000001", "'NaN'"], 4),
    ("uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'a0eebc999c0b4ef8bb6d6bb9bd380a11'", "NULL"], 1),
    ("date", ["'2024-03-04'", "'4713-01-01 BC'", "'infinity'", "'-infinity'", "NULL"], 4),
    ("boolean", ["true", "false", "true", "NULL"], 2), ("whole", ["1", "2", "1", "NULL"], 2),
])  # fmt: skip
def test_who_is_who(postgres, log, kind, cells, number):
    postgres.run("DROP DOMAIN IF EXISTS whole CASCADE")
    postgres.run("CREATE DOMAIN whole AS integer CHECK (value > 0)")
    postgres.run("SET extra_float_digits = -15")  # which would write 0.1 for all that are near
    try:
        assert people(log(f"id {kind}", *cells)) == [number]
    finally:
        postgres.run("RESET extra_float_digits")


def test_keys_of_every_type(postgres, log):
    table = log(
        "id int, n numeric, d date, t text COLLATE alike, u uuid",
        "1, 7.00, '2024-03-04', 'A', 'a0eebc999c0b4ef8bb6d6bb9bd380a11'",
        "2, 0.50, '2024-04-03', 'a', NULL",
        "3, 'NaN', NULL, 'Ä', NULL",
    )
    postgres.run("SET DateStyle = 'SQL, DMY'")
    keys = {
        "n": (["7", "0.5"], [1, 1]),
        "d": (["2024-03-04", "2024-04-03"], [1, 1]),
        "t": (["a", "A", "Ä", "\0", "\ud800", "it's \\ {\"}"], [1, 1, 1, 0, 0, 0]),
        "u": (["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], [1]),
    }
    try:
        for by, (names, counts) in keys.items():
            assert people(table, by=by, keys=names) == counts
    finally:
        postgres.run("RESET DateStyle")


def test_a_database_in_another_encoding(postgres_server, postgres):
    postgres.run("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    postgres.run("CREATE DATABASE japanese ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    for database, counts in (("latin", [1, 0, 0]), ("japanese", None)):
        connection = ibis.postgres.connect(host=str(postgres_server.folder), user="postgres", database=database)
        connection.raw_sql("CREATE TABLE log AS SELECT 1 AS id, 'Ann' AS k").close()
        if counts is None:
            refuses(r"encoding EUC_JP\b.*another connection", people, connection.table("log"))
        else:
            connection.raw_sql("INSERT INTO log VALUES (2, 'Änn')").close()
            assert people(connection.table("log"), by="k", keys=["Änn", "Ł", "€"]) == counts
        connection.disconnect()


TIMES = {
    "timestamptz": ["'2024-03-31 00:59:59.999999Z'", "'2024-03-31 01:00Z'", "'infinity'", "'-infinity'", "NULL"],
    "timestamp": ["'2024-03-31 01:59:59.999999'", "'2024-03-31 03:00'", "'infinity'", "'294276-12-31 23:59'"],
    "timestamp(3)": ["'2024-03-31 01:59:59.999'", "'2024-03-31 03:00'", "'4713-01-01 BC'", "NULL"],
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_when(postgres, log, kind, zone):
    grid = TimeGrid(start="2024-03-31T01:00", size=2, step="1h", zone="Europe/Paris")
    table = log(f"id int, t {kind}", *(f"{k}, {cell}" for k, cell in enumerate(TIMES[kind])))
    postgres.session_zone(zone)
    assert engine.count(table, count_of("id", "t", grid), KEY).tolist() == [1, 1]
    postgres.session_zone("UTC")


def test_infinite_dates_are_off_the_grid(log):
    grid = TimeGrid(start="2024-03-04", size=2, step="1d", zone="UTC")
    table = log("id int, t date", "1, 'infinity'", "2, '-infinity'", "3, '2024-03-05'", "4, '4713-01-01 BC'", "5, NULL")
    assert engine.count(table, count_of("id", "t", grid), KEY).tolist() == [0, 1]


@pytest.mark.parametrize(("kind", "cells"), [
    ("numeric", ["1e500", "-1e500", "1e-1000", "0.5", "2.49", "'NaN'", "'Infinity'", "NULL", "3"]),
    ("text", ["'1e999'", "'1e-999'", f"'{'9' * 200}'", f"'{'9' * 14_000}'", "'2'", "' 2 '", "'0.5'"]),
    ("double precision", ["'NaN'", "'Infinity'", "1e308", "5e-324", "2"]),
])  # fmt: skip
def test_no_cell_is_beyond_a_cast(log, kind, cells):
    """However many digits they have, values are whole numbers up to the bound, and times are steps or none."""
    table = log(f"id int, t int, k int, v {kind}", *(f"{k}, 0, {k}, {cell}" for k, cell in enumerate(cells)))
    numbers = [math.nan if cell == "NULL" else float(cell.strip("' ")) for cell in cells]
    amounts = [max(0, min(5, math.floor(x + 0.5))) if math.isfinite(x) else 0 for x in numbers]
    count = of_values(count_of("id", "t", STEP, "k", list(map(str, range(len(cells)))), step_cap=5))
    assert engine.count(table, count, KEY).tolist() == amounts
    steps = engine.count(table, count_of("id", "v", TimeGrid(size=10)), KEY)
    assert steps.tolist() == [sum(x == step and "e-" not in cell for x, cell in zip(numbers, cells, strict=True))
                              for step in range(10)]  # fmt: skip


def of_values(count):
    return make.changed(count, source=replace(count.reading.log, value="v"))


@pytest.mark.parametrize("kind", [
    "json", "numeric(9, 2)", "numeric(90, 80)", "bytea", "money", "interval", "int4range", "citext_like",
    "inet", "text[]",
])  # fmt: skip
def test_other_types_are_refused_by_name_before_rows_are_read(postgres, log, kind):
    postgres.run("DROP TYPE IF EXISTS citext_like CASCADE")
    postgres.run("CREATE TYPE citext_like AS ENUM ('a')")
    table = log(f"id int, k {kind}", "1, NULL")
    refuses(r"'k' of type .* cannot identify", people, table, error=TypeError, by="k", keys=["a"])
    refuses(r"'k' of type .* cannot identify", engine.check_schema, table, error=TypeError, identifier="k", time="id")
    if not kind.startswith("numeric"):  # which may say steps
        with pytest.raises(TypeError, match=r"'k' of type .* does not hold times"):
            engine.check_schema(table, identifier="id", time="k")


def test_a_role_that_can_only_read_suffices(postgres_server, postgres):
    postgres.run("DROP SCHEMA IF EXISTS kept CASCADE")
    postgres.run("CREATE SCHEMA kept")
    postgres.run("CREATE TABLE kept.log AS SELECT id, id % 9 AS t, id % 3 AS k FROM generate_series(0, 99) AS id")
    postgres.run("REVOKE ALL ON DATABASE postgres FROM PUBLIC")
    postgres.run("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    postgres.run("DROP ROLE IF EXISTS reader")
    postgres.run("CREATE ROLE reader LOGIN; GRANT CONNECT ON DATABASE postgres TO reader")
    postgres.run("GRANT USAGE ON SCHEMA kept TO reader; GRANT SELECT ON kept.log TO reader")
    settings = "-c default_transaction_read_only=on"
    with psycopg.connect(
        host=str(postgres_server.folder), user="reader", dbname="postgres", options=settings, autocommit=True
    ) as connection:
        table = ibis.postgres.from_connection(connection).table("log", database="kept")
        count = count_of("id", "t", TimeGrid(size=9), "k", ["0", "1", "2"], excess="l2", gap=2, participation_cap=3)
        assert engine.count(table, count, KEY).sum() == 100 * 2**16
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE another ()")


def test_a_transaction_of_the_callers_own_goes_on(postgres):
    with psycopg.connect(host=postgres.connection.con.info.host, user="postgres", dbname="postgres") as connection:
        backend = ibis.postgres.from_connection(connection)
        connection.execute("CREATE TEMP TABLE mine AS SELECT 1 AS id")
        connection.execute("SET LOCAL DateStyle = 'SQL, DMY'")
        assert people(backend.table("mine")) == [1]
        connection.execute("INSERT INTO mine VALUES (2)")
        assert people(backend.table("mine")) == [2]
        assert connection.execute("SHOW DateStyle").fetchall() == [("SQL, DMY",)]


OWN = {
    "function public.floor": "CREATE FUNCTION public.floor(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'",
    "function public.sum": "CREATE AGGREGATE public.sum(bigint) (SFUNC = int8mul, STYPE = bigint, INITCOND = '1')",
    "cast by public.mine": "CREATE FUNCTION public.mine(text) RETURNS numeric LANGUAGE sql AS 'SELECT 7.0';"
    " CREATE CAST (text AS numeric) WITH FUNCTION public.mine(text)",
    "operator public.=": "CREATE OPERATOR public.= (LEFTARG = integer, RIGHTARG = text, FUNCTION = public.never)",
}


@pytest.mark.parametrize("name", OWN)
def test_what_replaces_a_function_is_refused_by_name(postgres, log, name):
    table = log("id int", "1")
    with postgres.connection.con.transaction(force_rollback=True):
        postgres.run("CREATE FUNCTION public.never(integer, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'")
        assert people(table) == [1]
        postgres.run(OWN[name])
        refuses(rf"{name}.*another connection", people, table)
    with postgres.connection.con.transaction(force_rollback=True):
        postgres.run("SET LOCAL search_path = public, pg_catalog")
        refuses("setting search_path", people, table)


def test_names_of_types_and_operators_on_domains_change_nothing(postgres):
    """A type of a session's own comes before PostgreSQL's, and an operator on a domain before that on its integers."""
    rows = "(VALUES ('Ann', 1, date '2024-03-04'), ('Abe', 2, date '2024-03-05'), ('Abe', 2, NULL)) AS log(k, id, t)"
    grid = TimeGrid(start="2024-03-04", size=2, step="1d", zone="UTC")
    with postgres.connection.con.transaction(force_rollback=True):
        postgres.run("CREATE DOMAIN amount AS integer")
        postgres.run(f"CREATE TABLE log AS SELECT k, CAST(id AS amount) AS id, CAST(t AS timestamptz) AS t FROM {rows}")
        postgres.run("CREATE FUNCTION never(amount, integer) RETURNS boolean LANGUAGE sql AS 'SELECT false'")
        for name in (">=", "<="):
            postgres.run(f"CREATE OPERATOR public.{name} (LEFTARG = amount, RIGHTARG = integer, FUNCTION = never)")
        for name in ("text", "timestamptz", "date", "uuid", "int4", "numeric", "varchar"):
            postgres.run(f"CREATE DOMAIN pg_temp.{name} AS pg_catalog.varchar(1)")
        log = postgres.connection.table("log")  # which asks the catalogue
        for name in ("pg_proc", "pg_type", "pg_operator", "pg_namespace", "pg_cast"):
            postgres.run(f"CREATE TEMP TABLE {name} ()")
        postgres.run("SET LOCAL quote_all_identifiers = on")
        assert people(log) == people(log.mutate(id=log.k)) == [2]
        assert people(log, by="k", keys=["Abe", "Ann"]) == [1, 1]
        assert engine.count(log, count_of("k", "t", grid), KEY).tolist() == [1, 1]
        assert engine.count(log, count_of("k", "id", TimeGrid(size=3)), KEY).tolist() == [0, 1, 2]


def test_text_is_text_whatever_its_backslashes_mean(postgres, log):
    table = log("id int, k text", "1, 'x'", r"2, E'a\\b'")
    postgres.run("SET standard_conforming_strings = off")
    try:
        assert people(table, by="k", keys=["a\\b", "x", "007.0"]) == [1, 1, 0]
    finally:
        postgres.run("RESET standard_conforming_strings")


def test_rows_of_this_process_are_refused(postgres, log):
    table = log("id int", "1").join(ibis.memtable(pa.table({"id": [1]})), "id")
    refuses("make them a table", people, table, error=TypeError)


def test_names_of_columns_are_quoted(log):
    assert people(log('"a "" b" int', "1").rename(id='a " b')) == [1]
    table = log('"a "" b" int, "group" int', "1, 0")
    assert engine.count(table, count_of('a " b', "group", STEP), KEY).tolist() == [1]


def test_people_are_counted_in_large_numbers(log, postgres):
    postgres.run("DROP TABLE IF EXISTS many")
    postgres.run("CREATE TABLE many AS SELECT id, id % 10 AS t FROM generate_series(1, 100000) AS id")
    counts = engine.count(postgres.connection.table("many"), count_of("id", "t", TimeGrid(size=10)), KEY)
    assert counts.tolist() == np.full(10, 10_000).tolist()
