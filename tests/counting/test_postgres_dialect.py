"""What PostgreSQL is sent and told, without a server: its session, what is refused there, columns and hashes."""

import contextlib
import hashlib
import struct
from types import SimpleNamespace

import pytest

ibis = pytest.importorskip("ibis")
postgres = pytest.importorskip("opendp_timeseries.counting.postgres")


class Server:
    """A connection that remembers what it is sent, and gives the answers that it has been given."""

    def __init__(self, *answers, version=150_004):
        self.con = self
        self.info = SimpleNamespace(server_version=version)
        self.answers, self.sent, self.description = list(answers), [], None

    @contextlib.contextmanager
    def transaction(self, force_rollback=False):
        self.sent.append("BEGIN")
        yield
        self.sent.append("ROLLBACK" if force_rollback else "COMMIT")

    @contextlib.contextmanager
    def cursor(self, row_factory):
        yield self

    def execute(self, query, parameters=None):
        self.sent.append(query if parameters is None else (query, parameters))
        return self

    def fetchall(self):
        return self.answers.pop(0)


def test_a_session_reads_alone_and_leaves_nothing_behind():
    server = Server()
    with postgres.session(server):
        server.execute("the query")
    settings = [
        ("DateStyle", "ISO"),
        ("extra_float_digits", "1"),
        ("quote_all_identifiers", "off"),
        ("standard_conforming_strings", "on"),
        ("cursor_tuple_fraction", "1"),
    ]
    local = [("SELECT pg_catalog.set_config(%s, %s, true)", setting) for setting in settings]
    assert server.sent == ["BEGIN", "SET TRANSACTION READ ONLY", *local, "the query", "ROLLBACK"]


@pytest.mark.parametrize(("version", "encoding", "schemas", "own", "obstacles"), [
    (140_000, "UTF8", ["pg_catalog", "public"], [], []),
    (139_999, "UTF8", ["pg_catalog", "public"], [], ["a server of version 13, before 14"]),
    (150_004, "EUC_JP", ["pg_catalog", "public"], [], ["encoding EUC_JP"]),
    (150_004, "LATIN1", ["public", "pg_catalog"], [], ["setting search_path"]),
    (150_004, "UTF8", ["pg_temp_3", "pg_catalog"], [], []),
    (150_004, "UTF8", ["pg_catalog"], [("operator", "own", "=")], ["operator own.="]),
])  # fmt: skip
def test_what_would_change_the_query_is_refused(version, encoding, schemas, own, obstacles):
    named = [name for name in schemas if name != "pg_catalog"]
    assert postgres.obstacles(Server([(encoding, schemas, named)], own, version=version)) == obstacles


def test_columns_are_of_the_types_that_the_server_states(monkeypatch):
    stated = {
        "t": ("text", None),
        "n": ("numeric", None),
        "m": ("numeric", 2),
        "b": ("boolean", None),
        "x": ("money", None),
        'q"': ("character", None),
    }
    monkeypatch.setattr(postgres, "_stated", lambda table, names: {name: stated[name] for name in names})
    table = ibis.table(dict.fromkeys(stated, "string"), name="log")
    typed = postgres.cast_columns(table, [*stated, "t"])
    kinds = {"t": "string", "n": "decimal(38, 0)", "m": "decimal(38, 2)", "b": "boolean", 'q"': "string"}
    assert {name: str(typed.schema()[name]) for name in kinds} == kinds
    assert typed.schema()["x"].is_unknown()
    assert typed.op().query == (
        'SELECT CAST("t" AS pg_catalog.text) COLLATE "C" AS "t",'
        """ CASE WHEN CAST("n" AS pg_catalog.numeric) <> 'NaN' THEN trim_scale(CAST("n" AS pg_catalog.numeric)) END"""
        """ AS "n", CASE WHEN CAST("m" AS pg_catalog.numeric) <> 'NaN' THEN (CAST("m" AS pg_catalog.numeric)) END"""
        ' AS "m", CAST("b" AS pg_catalog.bool) AS "b", "x" AS "x",'
        ' CAST("q""" AS pg_catalog.text) COLLATE "C" AS "q""" FROM opendp_timeseries_log'
    )


def value(node, row):
    """What an expression of functions of PostgreSQL is of a row."""
    functions = {
        "int8send": struct.Struct(">q").pack,
        "byteacat": lambda first, second: first + second,
        "sha256": lambda text: hashlib.sha256(text).digest(),
    }
    name = getattr(node, "__func_name__", None)
    if name is not None:
        return functions[name](*(value(argument, row) for argument in node.args))
    return row[node.name] if isinstance(node, ibis.expr.operations.Field) else node.value


def test_steps_are_in_the_order_of_a_hash_of_the_key_the_step_and_the_name():
    table = ibis.table({"who": "binary", "number": "int64", "step": "int64"}, name="pairs")
    row = {"who": b"Ann", "step": -5}
    hashed = postgres.DIALECT.pair_hash(2**62, -3, table.who, table.step)
    assert value(hashed.op(), row) == hashlib.sha256(struct.pack(">qqq", 2**62, -3, -5) + b"Ann").digest()
