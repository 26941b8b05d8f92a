"""What PostgreSQL does in its own way, from version 14 on (:mod:`~.counting.database`).

The types of columns are those that the server states of the query, as Ibis takes some for others: text that compares
letters alike whatever their case, say. Those whose names are no words of SQL have that of their schema with them, as a
session may know others of this name. A query runs in a transaction that only reads, and takes nothing with it.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
from ibis.backends import BaseBackend

from opendp_timeseries._refusal import TypeRefusal
from opendp_timeseries.counting.dialect import Dialect, Schema, Ticks, function, sql_view

if TYPE_CHECKING:
    import psycopg

#: The encodings of databases in which each name is always the same bytes, as Python calls them.
_ENCODINGS: Final = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "LATIN1": "iso8859-1",
    "LATIN2": "iso8859-2",
    "LATIN9": "iso8859-15",
    **{f"WIN{number}": f"cp{number}" for number in range(1250, 1259)},
}
#: What changes the meaning of a query, or of text in it, as the query needs it. The order of day and month stays.
_SETTINGS: Final = {
    "DateStyle": "ISO",  # dates that are identifiers, as text
    "extra_float_digits": "1",  # or two floating-point numbers have one text
    "quote_all_identifiers": "off",  # nor are the names of types quoted
    "standard_conforming_strings": "on",
    "cursor_tuple_fraction": "1",  # all rows are wanted
}
#: What the queries call, which somebody's own functions and operators on the same types would replace.
_CALLED: Final = (
    *("abs", "array_agg", "btrim", "byteacat", "cardinality", "concat", "convert_from", "convert_to", "count"),
    *("decode", "div", "extract", "floor", "getdatabaseencoding", "int8div", "int8send", "lag", "length", "max", "min"),
    *("rank", "right", "row_number", "sha256", "sqrt", "substr", "substring", "sum"),
    *("trim_scale", "unnest", "=", "<", ">", "<=", ">=", "<>", "+", "-", "*", "/", "||", "~"),
)
#: In the catalogue of the server, and here.
_TYPES: Final = {
    "boolean": ("bool", "boolean"),
    "smallint": ("int2", "int16"),
    "integer": ("int4", "int32"),
    "bigint": ("int8", "int64"),
    "real": ("float4", "float32"),
    "double precision": ("float8", "float64"),
    "uuid": ("uuid", "uuid"),
    "date": ("date", "date"),
    "timestamp without time zone": ("timestamp", "timestamp(6)"),
    "timestamp with time zone": ("timestamptz", "timestamp('UTC', 6)"),
    **dict.fromkeys(("text", "character varying", "character", "name"), ("text", "string")),
}
#: Beyond all floating-point numbers, and a number that is nearly 0 and not whole.
_BEYOND: Final = 2**1024 - 2**970
_LEAST: Final = f"0.{'0' * 300}1"
#: Text that is longer could be a number too long for the server.
_LONGEST: Final = 15_000

_EPOCH: Final = function("extract", 2, "decimal(38, 6)")
_TEXT_BYTES: Final = function("convert_to", 2, "binary")
_ENCODING: Final = function("getdatabaseencoding", 0, "string")
_INTEGER_BYTES: Final = function("int8send", 1, "binary")
_JOINED: Final = function("byteacat", 2, "binary")
_SHA256: Final = function("sha256", 1, "binary")


@contextlib.contextmanager
def session(backend: BaseBackend) -> Iterator["psycopg.Cursor"]:
    """Give a transaction that only reads, with the settings that a query needs, and undo it."""
    connection = backend.con  # whose rows may be of any kind
    with connection.transaction(force_rollback=True), connection.cursor(row_factory=lambda _: tuple) as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        for setting in _SETTINGS.items():
            cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", setting)
        yield cursor


def obstacles(backend: BaseBackend) -> list[str]:
    """Say what of a server, a database or the names that a session knows would change the query."""
    version = backend.con.info.server_version
    if version < 140_000:
        return [f"a server of version {version // 10_000}, before 14"]
    with session(backend) as cursor:
        query = (
            "SELECT pg_catalog.getdatabaseencoding(), pg_catalog.current_schemas(true),"
            " pg_catalog.current_schemas(false)"
        )
        ((encoding, in_order, schemas),) = cursor.execute(query).fetchall()
        before = in_order[: in_order.index("pg_catalog")]
        cursor.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)")
        replacements = cursor.execute(_REPLACEMENTS, {"schemas": schemas, "names": list(_CALLED)}).fetchall()
    return [
        *([f"encoding {encoding}"] if encoding not in _ENCODINGS else []),
        *(["setting search_path"] if any(not name.startswith("pg_temp_") for name in before) else []),
        *(f"{kind} {schema}.{name}" for kind, schema, name in replacements),
    ]


_REPLACEMENTS: Final = """
    WITH known AS (SELECT oid FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'p')),
    called AS (
        SELECT 'function' AS kind, pronamespace AS place, proname AS name, proargtypes::oid[] AS types FROM pg_proc
        UNION ALL SELECT 'operator', oprnamespace, oprname, ARRAY[oprleft, oprright] FROM pg_operator WHERE oprleft <> 0
        UNION ALL SELECT 'cast by', pronamespace, proname, ARRAY[castsource, casttarget]
        FROM pg_cast JOIN pg_proc AS p ON p.oid = castfunc
    )
    SELECT DISTINCT kind, nspname::text, name::text FROM called JOIN pg_namespace AS n ON n.oid = place
    WHERE (nspname = ANY (%(schemas)s) AND name = ANY (%(names)s) OR kind = 'cast by') AND nspname <> 'pg_catalog'
    AND types <@ ARRAY(SELECT oid FROM known) ORDER BY kind ASC, nspname::text ASC, name::text ASC"""


def cast_columns(table: ir.Table, names: Sequence[str]) -> ir.Table:
    """Return some columns of a table, of the types that the server states, and without reading rows.

    Text is compared byte by byte from here on, a number without scale has no zeros at its end, and no domain has
    operators of its own.
    """
    if table.op().find(ops.InMemoryTable):
        raise TypeRefusal(
            "the table", ..., "has rows of this process, which PostgreSQL would have to write", "make them a table"
        )
    if not {*names} <= {*table.columns}:
        return table  # a column is missing, whatever the types of the others
    names = [*dict.fromkeys(names)]
    stated = _stated(table, names)
    columns, schema = [], {}
    for name, column in _quoted(names).items():
        kind, scale = stated[name]
        if kind == "numeric":
            text = f"CAST({column} AS pg_catalog.numeric)"
            text = f"CASE WHEN {text} <> 'NaN' THEN {'trim_scale' if scale is None else ''}({text}) END"
            # Without a scale of its own, it may tell anybody apart, by their numbers.
            schema[name] = dt.Decimal(38, min(scale or 0, 38))
        elif kind in _TYPES:
            cast_type, here = _TYPES[kind]
            schema[name] = dt.dtype(here)
            text = f"CAST({column} AS pg_catalog.{cast_type})" + ' COLLATE "C"' * (cast_type == "text")
        else:
            schema[name], text = dt.Unknown(raw_type=kind), column
        columns.append(f"{text} AS {column}")
    return _selected(table, columns, schema)


def _quoted(names: Sequence[str]) -> dict[str, str]:
    return {name: f'"{name.replace(chr(34), 2 * chr(34))}"' for name in names}


def _selected(table: ir.Table, columns: Sequence[str], schema: Schema) -> ir.Table:
    query = f"SELECT {', '.join(columns)} FROM opendp_timeseries_log"
    return sql_view(table.select(list(schema)), "opendp_timeseries_log", query, ibis.schema(schema))


def _stated(table: ir.Table, names: Sequence[str]) -> dict[str, tuple[str, int | None]]:
    """The name of each column's type, of a domain that of what it is made of, and its scale."""
    backend, types = table.get_backend(), {}
    # As integers, so that Ibis converts none of them.
    plain = _selected(table, [*_quoted(names).values()], dict.fromkeys(names, "int64"))
    with contextlib.suppress(Exception), session(backend) as cursor:
        description = cursor.execute(backend.compile(plain.limit(0))).description
        assert description is not None  # of what selects
        for column in description:
            cursor.execute("SELECT pg_catalog.format_type(%s, NULL)", (column.type_code,))
            ((kind,),) = cursor.fetchall()
            types[column.name] = str(kind).removeprefix("pg_catalog."), column.scale
        return types
    raise RuntimeError(
        "the server could not say which types the columns have; try a query of your own on the table, such as"
        " table.limit(0).execute(), to see why"
    )


def _ticks(table: ir.Table, name: str) -> Ticks:
    column = table[name]
    micros = _EPOCH("epoch", column) * 10**6  # an exact number, or an infinite one
    micros = ibis.greatest(ibis.least(micros, 2**62), -(2**62)).cast("int64")
    return Ticks(micros, "us", aware=column.type().is_timestamp() and column.type().timezone is not None)


def _materialise(rows: ir.Table) -> ir.Table:
    """Return rows as they are: what stands before an offset is not merged with what stands after it."""
    return sql_view(rows, "opendp_timeseries_rows", "SELECT * FROM opendp_timeseries_rows OFFSET 0", rows.schema())


def _bytes(text: ir.StringValue) -> ir.BinaryValue:
    return _TEXT_BYTES(text, _ENCODING())


def _pair_hash(first: int, second: int, who: ir.Column, step: ir.IntegerColumn) -> ir.BinaryValue:
    words = [_INTEGER_BYTES(word) for word in (first, second, step)]
    who = _bytes(who) if who.type().is_string() else who
    return _SHA256(_JOINED(_JOINED(_JOINED(words[0], words[1]), words[2]), who))


def _floats(column: ir.Column) -> ir.FloatingValue:
    """A number that is nearest to what a column holds, or says as it should; casts fail of any that have none."""
    if column.type().is_floating():
        return column.cast("float64")
    if column.type().is_string():
        column = ibis.ifelse(column.length() <= _LONGEST, column, None)
    column = column.cast("decimal")
    small, large = (ibis.literal(text).cast("decimal") for text in (_LEAST, str(_BEYOND)))
    size = column.abs()
    near = ibis.cases(((size > 0) & (size < small), small), (size < large, column), else_=None)
    return near.cast("float64")


def _rows(backend: BaseBackend, columns: Mapping[str, Sequence[object]], schema: Schema) -> ir.Table:
    """A few rows that are part of the query: a session that only reads cannot have a table of them."""
    encoding = _ENCODINGS[backend.con.info.parameter_status("server_encoding") or "UTF8"]
    kinds = ibis.schema(schema)
    rows = [row for row in zip(*columns.values(), strict=True) if all(_can_be(cell, encoding) for cell in row)]
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays, cells = [], []
    for name, values in zip(columns, by_column, strict=True):
        if kinds[name].is_string():
            texts = ", ".join(f'"{value.encode(encoding).hex()}"' for value in values)
            arrays.append(f"CAST('{{{texts}}}' AS pg_catalog.text[])")
            cells.append(f'convert_from(decode("{name}", \'hex\'), getdatabaseencoding()) AS "{name}"')
        else:
            arrays.append(f"CAST('{{{', '.join(map(str, values))}}}' AS bigint[])")
            cells.append(f'"{name}"')
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"SELECT {', '.join(cells)} FROM unnest({', '.join(arrays)}) AS given({names})"
    return backend.sql(query, schema=kinds)


def _can_be(cell: object, encoding: str) -> bool:
    """Return whether text can be in the database: what cannot be is no key of any row."""
    if not isinstance(cell, str):
        return True
    try:
        return b"\0" not in cell.encode(encoding)
    except UnicodeEncodeError:
        return False


# The log is read once: what a query names twice, PostgreSQL works out once if it is told to.
_WEIGHTS: Final = """
    SELECT {own}, {numbers} FROM (
        SELECT *, sum({events}) OVER (PARTITION BY {names}) AS size FROM opendp_timeseries_pairs
    ) AS sized"""
# Of the rows of a run, each knows the first that is a gap away: from the start, the walk goes from one to the next.
_WALK: Final = """
    WITH near AS MATERIALIZED (SELECT * FROM opendp_timeseries_steps),
    walks AS (
        SELECT {groups}, steps[place] AS step FROM (
            SELECT {groups}, array_agg(step ORDER BY place ASC) AS steps,
            array_agg(following ORDER BY place ASC) AS nexts
            FROM (
                SELECT *, row_number() OVER (PARTITION BY {groups}, run ORDER BY step ASC) AS place,
                rank() OVER (PARTITION BY {groups}, run ORDER BY step ASC) + count(*) OVER (
                    PARTITION BY {groups}, run ORDER BY step ASC RANGE BETWEEN CURRENT ROW AND {gap} - 1 FOLLOWING
                ) AS following
                FROM (
                    SELECT *, max(CASE WHEN starts THEN step END) OVER (
                        PARTITION BY {groups} ORDER BY step ASC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                    ) AS run FROM near WHERE starts OR late
                ) AS runs
            ) AS places GROUP BY {groups}, run
        ) AS lists CROSS JOIN LATERAL (
            WITH RECURSIVE kept(place) AS (
                SELECT CAST(1 AS bigint)
                UNION ALL SELECT nexts[place] FROM kept WHERE nexts[place] <= cardinality(nexts)
            )
            SELECT place FROM kept
        ) AS visits
    )
    SELECT {columns} FROM {later}"""

DIALECT: Final = Dialect(
    ticks=_ticks,
    quotient=function("int8div", 2),
    text_bytes=_bytes,
    pair_hash=_pair_hash,
    decimal="CAST({} AS numeric)".format,
    decimal_quotient="div({}, {})".format,
    weights_query=_WEIGHTS,
    walk_query=_WALK,
    obstacles=obstacles,
    cast_columns=cast_columns,
    floats=_floats,
    pattern=lambda pattern: pattern.replace(r"\z", r"\Z"),
    extract=function("substring", 2, "string"),  # as Ibis 11 forgets parentheses
    rows=_rows,
    materialise=_materialise,
    session=session,
)
