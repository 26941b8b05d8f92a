"""What a backend of :mod:`~.counting.database` does in its own way."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ibis
import ibis.expr.operations as ops


class Ticks(NamedTuple):
    """A column of times as integers from 1970, null for what is missing or out of their range."""

    values: Any
    unit: str
    aware: bool  # whether they are instants in UTC, rather than on a clock that the table does not name


def same(table: object, names: Sequence[str]) -> Any:
    """Return a table as it is."""
    return table


def memtable(backend: object, columns: Mapping[str, Sequence[object]], schema: object) -> Any:
    """Return a table of a few rows, as Ibis hands them to a backend."""
    return ibis.memtable(columns, schema=schema)


class Dialect(NamedTuple):
    """Peculiarities of a backend."""

    ticks: Callable[[Any, str], Ticks]  # of a table and the name of its column
    quotient: Callable[[Any, int], Any]  # exact from 0 on; Ibis's own passes through floating point
    whole_text: Callable[[Any], Any]  # as bytes, as a collation could take two names for one
    hashed: Callable[[int, int, Any, Any], Any]  # of two halves of the key, an identifier and a step
    wide: Callable[[Any], str]  # whole numbers of 38 digits, as text
    over: Callable[[str, str], str]  # the whole quotient of two of these
    weights: str  # the weights of whoever it is of, by their size, beside each pair
    walk: str  # of steps that start runs, or are late in them: those that are kept, a gap apart
    obstacles: Callable[[Any], list[str]]  # what of a connection would change the query, or refuse it
    typed: Callable[[Any, Sequence[str]], Any] = same  # some columns, of the types that they have in the backend
    real: Callable[[Any], Any] = lambda column: column.try_cast("float64")  # null for what is no finite number
    pattern: Callable[[str], str] = str  # a regular expression, whose end is `\z`
    part: Callable[[Any, str], Any] = lambda text, pattern: text.re_extract(pattern, 1)  # its first in parentheses
    rows: Callable[[Any, Mapping[str, Sequence[Any]], Any], Any] = memtable
    session: Callable[[Any], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext  # in which a query runs


def function(name: str, arguments: int, returns: str = "int64") -> Callable[..., Any]:
    """Return a function of the backend that Ibis has no name for."""
    shapes = {0: lambda: None, 1: lambda a: None, 2: lambda a, b: None, 4: lambda a, b, c, d: None}
    builtin = ibis.udf.scalar.builtin(name=name, signature=((None,) * arguments, returns))
    call: Callable[..., object] = builtin(shapes[arguments])
    return call


def queried(table: Any, name: str, query: str, schema: object) -> Any:
    """Return what a query in text finds in a table, which has this name within it."""
    return ops.SQLStringView(table.alias(name).op(), query, schema).to_expr()
