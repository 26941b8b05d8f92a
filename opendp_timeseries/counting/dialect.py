"""What a backend of :mod:`~.counting.database` does in its own way."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
from ibis.backends import BaseBackend

#: The types of columns, or their names.
Schema = Mapping[str, str | dt.DataType]


class Ticks(NamedTuple):
    """A column of times as integers from 1970, null for what is missing or out of their range."""

    values: ir.IntegerValue
    unit: str
    aware: bool  # whether they are instants in UTC, rather than on a clock that the table does not name


def identity(table: ir.Table, *names: object) -> ir.Table:
    """Return a table as it is."""
    return table


def memtable(backend: BaseBackend, columns: Mapping[str, Sequence[object]], schema: Schema) -> ir.Table:
    """Return a table of a few rows, as Ibis hands them to a backend."""
    return ibis.memtable(columns, schema=schema)


class Dialect(NamedTuple):
    """Peculiarities of a backend."""

    #: Reads a column of times of a table, by its name.
    ticks: Callable[[ir.Table, str], Ticks]
    #: Divides whole numbers from 0 on, exactly. Ibis's own quotient passes through floating point.
    quotient: Callable[[ir.IntegerValue, int], ir.IntegerValue]
    #: Encodes a text: a collation could take two names for one, but not their bytes.
    text_bytes: Callable[[ir.StringValue], ir.BinaryValue]
    #: Hashes a pair of an identifier and a step, with two halves of the key.
    pair_hash: Callable[[int, int, ir.Column, ir.IntegerColumn], ir.Value]
    #: Writes, in SQL, a number or an expression as a whole number of 38 digits.
    decimal: Callable[[object], str]
    #: Writes, in SQL, the whole quotient of two of these.
    decimal_quotient: Callable[[str, str], str]
    #: A query in SQL that puts beside each pair what depends on the size of its individual, the sum of its events.
    #: It is formatted with ``{names}``, the columns that tell individuals apart; ``{events}``, what is added up;
    #: ``{numbers}``, what is worked out of ``size``, and ``{columns}``, its names; and ``{own}``, columns of a pair.
    weights_query: str
    #: A query in SQL that chooses steps a gap apart, of those that start a run or are late in one. It is formatted
    #: with ``{gap}``; ``{groups}``, the columns within which steps are compared; ``{columns}``, those of the answer;
    #: ``{own}``, those of a step alone; and ``{later}``, the table of the late steps that are chosen.
    walk_query: str
    #: Lists what of a connection would change the query, or refuse it.
    obstacles: Callable[[BaseBackend], list[str]]
    #: Gives some columns the types that they have in the backend.
    cast_columns: Callable[[ir.Table, Sequence[str]], ir.Table] = identity
    #: Reads numbers in floating point, null where there is none. NaN and infinities stay what they are.
    floats: Callable[[ir.Column], ir.FloatingValue] = lambda column: column.try_cast("float64")
    #: Translates a regular expression, whose end is ``\z``.
    pattern: Callable[[str], str] = str
    #: Returns the first part in parentheses of what a pattern matches.
    extract: Callable[[ir.StringValue, str], ir.StringValue] = lambda text, pattern: text.re_extract(pattern, 1)
    #: Makes a table of a few rows.
    rows: Callable[[BaseBackend, Mapping[str, Sequence[object]], Schema], ir.Table] = memtable
    #: Has the columns of rows worked out once, however often they are named.
    materialise: Callable[[ir.Table], ir.Table] = identity
    #: Opens the session in which a query runs.
    session: Callable[[BaseBackend], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


def function(name: str, arguments: int, returns: str = "int64") -> Callable[..., ir.Value]:
    """Return a function of the backend that Ibis has no name for.

    :param arguments: how many it takes: 0, 1, 2 or 4.
    """
    shapes = {0: lambda: None, 1: lambda a: None, 2: lambda a, b: None, 4: lambda a, b, c, d: None}
    builtin = ibis.udf.scalar.builtin(name=name, signature=((None,) * arguments, returns))
    call: Callable[..., ir.Value] = builtin(shapes[arguments])
    return call


def sql_view(table: ir.Table, name: str, query: str, schema: ibis.Schema) -> ir.Table:
    """Return what a query in text finds in a table, which has this name within it."""
    return ops.SQLStringView(table.alias(name).op(), query, schema).to_expr()
