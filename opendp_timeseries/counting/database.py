"""The capped count inside a database or a cluster, as one query through Ibis.

Only the counts come back. What is kept of an individual depends on nothing but their own identifier, their own
steps and a key that is drawn here and written into the query as a literal, so that a query which is evaluated
twice, in part or on another machine, keeps the same (docs/proofs/counts.md).

A backend must offer a hash of whole rows, window functions, and integer arithmetic on time: what is known of
each is written down in its :class:`Dialect`, and others are refused by name.
"""

import contextlib
import itertools
import operator
import re
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
from ibis.backends import BaseBackend
from numpy.typing import NDArray

from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.counting.amounts import NUMBER
from opendp_timeseries.counting.capped_count import key_of_choice
from opendp_timeseries.counting.dialect import Dialect, Ticks, function, sql_view
from opendp_timeseries.counting.identifiers import check_spelling, key_numbers
from opendp_timeseries.counting.postgres import DIALECT as POSTGRES
from opendp_timeseries.counting.scaling import MOST_EVENTS, MOST_SUM
from opendp_timeseries.counting.tables import Tally
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.groups import Key
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weighting import Drop
from opendp_timeseries.design.weights import Weights
from opendp_timeseries.grid import StepRule, TimeGrid

if TYPE_CHECKING:
    import pyarrow

_INT64_MAX: Final = 2**63 - 1
_FIRST: Final = ibis.literal(0, "int64")
#: Nanoseconds that are more than any clock is away from UTC.
_FAR: Final = 2 * 86400 * 10**9
_STEPS: Final = dict.fromkeys(("cell", "low", "high", "number"), "int64")
#: Whole floating-point numbers as libraries write them, up to where all of their digits are exact.
_WHOLE: Final = r"^(-?[1-9][0-9]{0,14}|0)\.0\z"
#: Integers as Python writes them, of any type that a column may have.
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,19}")
#: Whole numbers in text, as :func:`~.identifiers.whole_number` reads them.
_WHOLE_TEXT: Final = r"^\s*\+?(-?[0-9]{1,150}[0-9]{0,150})(\.0*)?\s*\z"


def count(table: ir.Table, count: Count, key: bytes) -> NDArray[np.int64]:
    """Count as :class:`~.engines.Engine` says."""
    reading, weighting = count.reading, count.weighting
    rows, dialect = _rows(table, reading)
    if reading.is_sum:
        events = ibis.least(_sum(rows.amount), reading.step_cap).cast("int64")
        rows = rows.group_by("who", "step").aggregate(events=events)
    elif reading.step_cap > 1:
        events = ibis.least(rows.count(), min(reading.step_cap, _INT64_MAX))
        rows = rows.group_by("who", "step").aggregate(events=events)
    pairs, identity = _thinned(rows, reading, dialect, key)
    if "events" not in pairs.columns:
        pairs = pairs.mutate(events=ibis.literal(1, "int64"))
    if isinstance(weighting, Drop):
        added = _first(pairs, identity, weighting.cap, key, dialect).select("step", "events")
    else:
        added = _weighed(pairs, identity, weighting.weights(reading), reading, dialect)
    _, *series = added.columns
    sums = {name: _sum(added[name], reading.is_sum) for name in series}
    result = _fetch(added.group_by("step").aggregate(**sums))
    counts = np.zeros((len(series), reading.grid.size * count.series // len(series)), dtype=np.int64)
    for row, name in zip(counts, series, strict=True):
        row[result["step"].to_numpy()] = result[name].to_numpy()
    return counts.ravel()


def _sum(column: ir.NumericColumn, is_large: bool = True) -> ir.IntegerScalar:
    """Return a sum of whole numbers that are not negative, in 64 bits."""
    if not is_large:
        # Sums are wider in DuckDB than Ibis says, and it leaves out a cast to the type that it takes them for.
        return column.sum().cast("decimal(38, 0)").cast("int64")
    # Spark adds up integers in 64 bits only.
    return ibis.least(column.cast("decimal(28, 0)").sum(), ibis.literal(MOST_SUM).cast("decimal(38, 0)")).cast("int64")


def _weighed(pairs: ir.Table, identity: list[str], weights: Weights, reading: Reading, dialect: Dialect) -> ir.Table:
    """Return the steps of everybody, and what they add to each tier (:mod:`~.counting.scaling`).

    Ibis has no name for whole numbers as wide as the square of a number of rows, so that this is text.
    """
    power = weights.power
    *ends, last = (min(end, MOST_EVENTS**power) for end in weights.ends)  # nobody is larger
    events = "events" if power == 1 or reading.step_cap == 1 else f"{dialect.decimal('events')} * events"
    if reading.grouping is not None:
        pairs, events = _by_level(pairs, identity, reading, dialect), f"{dialect.decimal('events')} * events * share"
    columns = {}
    if ends:
        columns["number"] = f"CASE {' '.join(f'WHEN size <= {end} THEN {k}' for k, end in enumerate(ends))} END"
    for k, weight in enumerate(weights.rows[-1].tolist()):  # the last row up to the last end, and falling beyond
        limit = dialect.decimal(last * weight**power)
        quotient = dialect.decimal_quotient(limit, f"greatest(size, {dialect.decimal(last)})")
        columns[f"last{k}"] = quotient if power == 1 else f"floor(sqrt(CAST({quotient} AS DOUBLE) + 0.5))"
    numbers = ", ".join(f"CAST({text} AS BIGINT) AS {name}" for name, text in columns.items())
    fields = ["step", "events", *(["level"] if reading.grouping is not None else [])]
    parts = {"names": identity, "own": fields, "columns": columns}
    joined = {name: ", ".join(part) for name, part in parts.items()}
    query = dialect.weights_query.format(events=events, numbers=numbers, **joined)
    schema = pairs.select(*fields, **dict.fromkeys(columns, _FIRST)).schema()
    weighed = sql_view(pairs, "opendp_timeseries_pairs", query, schema)
    if ends:
        rows = {f"first{k}": column.tolist() for k, column in enumerate(weights.rows[:-1].T)}
        rows["number"] = list(range(len(ends)))
        weighed = weighed.left_join(dialect.rows(pairs.get_backend(), rows, dict.fromkeys(rows, "int64")), "number")
    terms = [weighed[f"last{k}"] for k in range(weights.rows.shape[1])]
    terms = [weighed[f"first{k}"].coalesce(weight) for k, weight in enumerate(terms)] if ends else terms
    levels = len(reading.levels)
    if levels > 1:
        by_tier = [terms[k : k + levels] for k in range(0, len(terms), levels)]
        terms = [ibis.cases(*((weighed.level == k, term) for k, term in enumerate(row)), else_=0) for row in by_tier]
    return weighed.select("step", **{f"series{k}": weighed.events * weight for k, weight in enumerate(terms)})


def _by_level(pairs: ir.Table, identity: list[str], reading: Reading, dialect: Dialect) -> ir.Table:
    """Return everybody's sums at each level, over keys of a group, with the level's number and share of the norm."""
    grouping, cycle = reading.grouping, reading.grid.size
    assert grouping is not None
    rows = [
        (number, level, share, group)
        for level, (share, groups) in enumerate(zip(grouping.shares, reading.levels.tolist(), strict=True))
        for number, group in enumerate(groups)
    ]
    names = ("number", "level", "share", "group")
    listed = dict(zip(names, zip(*rows, strict=True), strict=True))
    table = dialect.rows(pairs.get_backend(), listed, dict.fromkeys(names, "int64"))
    pairs = pairs.mutate(number=dialect.quotient(pairs.step, cycle))
    sums = pairs.join(table, "number")
    sums = sums.mutate(step=sums.step + (sums.group - sums.number) * cycle)
    events = sums.events.sum().cast("decimal(38, 0)").cast("int64")
    return sums.group_by([*identity, "step", "level", "share"]).aggregate(events=events)


def _first(pairs: ir.Table, groups: list[str], cap: int, key: bytes, dialect: Dialect) -> ir.Table:
    """Keep of each group the pairs with the smallest hashes, as many as the cap."""
    first, second = np.frombuffer(key[:16], dtype="<i8").tolist()
    # By the text of an identifier, so that steps are kept alike whatever the type of its column; ties go to the
    # earlier step.
    who = pairs.who.cast("string") if pairs.who.type().is_integer() else pairs.who
    order = [dialect.pair_hash(first, second, who, pairs.step), pairs.step]
    ranked = pairs.mutate(rank=ibis.row_number().over(group_by=groups, order_by=order))  # from 0
    return ranked.filter(ranked.rank < min(cap, _INT64_MAX)).drop("rank")


def participation(table: ir.Table, reading: Reading) -> NDArray[np.int64]:
    """Return in how many steps each individual takes part. Private."""
    rows, dialect = _rows(table, reading)
    pairs, identity = _thinned(rows.select("who", "step"), reading, dialect)
    people = pairs.group_by(identity).aggregate(steps=pairs.count())
    result = _fetch(people.group_by("steps").aggregate(individuals=people.count()))
    return np.repeat(result["steps"].to_numpy(), result["individuals"].to_numpy()).astype(np.int64)


def tally(table: ir.Table, reading: Reading) -> Tally:
    """Say where the rows go. Private."""
    rows, dialect = _placed(table, reading)
    if reading.log.by is None:
        rows = rows.mutate(number=_FIRST)
    else:
        keys = _keys(rows.get_backend(), reading.panel or (), rows.series.type(), dialect)
        rows = rows.left_join(keys, rows.series == keys.key)
    conditions = [rows.known, rows.when.notnull(), rows.readable, rows.step.notnull(), rows.number.notnull()]
    conditions.append(rows.amount > 0 if reading.is_sum else ibis.literal(True))
    marks = enumerate(itertools.accumulate(conditions, operator.and_))
    # Not by `where`, which is a sum in Spark, and null of a log without rows.
    numbers = {"rows": rows.count()} | {f"n{k}": ibis.ifelse(mark, 1, None).count() for k, mark in marks}
    (result,) = _fetch(rows.aggregate(**numbers)).to_pylist()
    nobody, *losses = (before - after for before, after in itertools.pairwise(result.values()))
    no_time, unreadable, off_grid, unknown_key, no_value = losses
    # There are no cells of unknown types.
    return Tally(result["rows"], nobody, 0, no_time, unreadable, 0, off_grid, unknown_key, no_value)


def check_schema(table: ir.Table, *, identifier: str, time: str | None) -> None:
    """Refuse a table on a backend that cannot count, or with columns that do not serve, without reading rows.

    :param time: None where no times are read.
    :raises TypeError: naming the backend or the column, and the remedy.
    :raises ValueError: for a column that is missing.
    """
    names = [identifier, *([] if time is None else [time])]
    _check_columns(_dialect(table).cast_columns(table, names), identifier, time)


def _check_columns(table: ir.Table, identifier: str, time: str | None) -> None:
    """Refuse columns that do not serve, by their types in the backend."""
    _check_distinct(table, identifier)
    if time is None:
        return
    when = _type(table, time)
    is_valid = when.is_integer() or when.is_timestamp() or when.is_date() or _may_hold_steps(when)
    if not (is_valid or _is_untyped(when) or _is_fine(when)):
        raise _without_times(time, when)


def _without_times(name: str, kind: dt.DataType) -> TypeRefusal:
    remedy = "cast it to a timestamp or, for a grid of integer steps, to integers"
    return TypeRefusal(f"column {name!r} of type {_spelled(kind)}", ..., "does not hold times", remedy)


def check_reading(table: ir.Table, reading: Reading) -> None:
    """Refuse a table that cannot be read so, without reading rows: the query is made, and not run."""
    _placed(table, reading)


def _may_hold_steps(kind: dt.DataType) -> bool:
    """Return whether one odd row can give this type to a column of whole numbers."""
    return bool(kind.is_floating() or kind.is_decimal() or kind.is_string())


def _is_untyped(kind: dt.DataType) -> bool:
    """Return whether a column has no type, being missing in every row; Ibis does not know DuckDB's word for it."""
    return bool(kind.is_null() or (kind.is_unknown() and str(kind.raw_type).strip('"') == "NULL"))


def _is_fine(kind: dt.DataType) -> bool:
    """Return whether this is DuckDB's type of instants in nanoseconds, which Ibis does not know."""
    return bool(kind.is_unknown() and str(kind.raw_type) == "TIMESTAMPTZ_NS")


def _check_distinct(table: ir.Table, name: str) -> None:
    """Refuse a column that cannot tell individuals, or series, apart."""
    kind = _type(table, name)
    numeric = kind.is_integer() or kind.is_floating() or (kind.is_decimal() and kind.scale == 0)
    if not (_is_untyped(kind) or numeric or kind.is_string() or kind.is_uuid() or kind.is_boolean() or kind.is_date()):
        raise TypeRefusal(
            f"column {name!r} of type {_spelled(kind)}",
            ...,
            "cannot identify individuals",
            "cast it to integers or text",
        )


def _check_numbers(table: ir.Table, name: str) -> None:
    """Refuse a column whose type says that no cell is a number."""
    kind = _type(table, name)
    if not (_is_untyped(kind) or kind.is_numeric() or kind.is_boolean() or kind.is_string()):
        rule, remedy = "does not hold numbers", "convert it to whole units, such as minutes"
        raise TypeRefusal(f"column {name!r} of type {_spelled(kind)}", ..., rule, remedy)


def _holds(kind: dt.DataType) -> str:
    """Return the kind of a column's values, as :func:`~.identifiers.check_spelling` calls it."""
    if kind.is_integer() or kind.is_floating() or kind.is_decimal():
        return "f"
    return "b" if kind.is_boolean() else "M" if kind.is_date() else "uuid" if kind.is_uuid() else "O"


def _spelled(kind: dt.DataType) -> str:
    """Return the name of a type: that of the database where Ibis has none."""
    return str(kind.raw_type) if kind.is_unknown() else str(kind)


def _type(table: ir.Table, name: str) -> dt.DataType:
    if name not in table.columns:
        raise Refusal(f"column {name!r}", ..., "is missing", f"the table has {list(table.columns)}")
    return table[name].type()


def _dialect(table: ir.Table) -> Dialect:
    try:
        name = table.get_backend().name
    except ibis.IbisError:
        raise TypeRefusal(
            "the Ibis table", ..., "belongs to no backend, or to several", "take it from one connection"
        ) from None
    if name not in _DIALECTS:
        raise TypeRefusal(
            f"the Ibis backend {name!r}",
            ...,
            f"is not one whose hash, window functions and time arithmetic are known here ({', '.join(_DIALECTS)})",
            "give the log as a data frame, for instance by table.to_pyarrow()",
        )
    return _DIALECTS[name]


def _check_session(table: ir.Table, dialect: Dialect) -> None:
    """Refuse a session in which the query would mean something else. All other settings change nothing of it."""
    obstacles = dialect.obstacles(table.get_backend())
    if obstacles:
        raise Refusal(
            "the session",
            ...,
            f"changes what the query means ({', '.join(obstacles)})",
            "undo this, or count on another connection",
        )


def _placed(table: ir.Table, reading: Reading) -> tuple[ir.Table, Dialect]:
    """Return who, when and in which step and series, for every row; null for what is missing or off the grid.

    Who is known and what is on the grid are said in columns of their own: backends work out twice what they filter by.
    """
    dialect = _dialect(table)
    _check_session(table, dialect)
    table = dialect.cast_columns(table, reading.log.columns)
    _check_columns(table, reading.log.identifier, reading.log.time)
    if reading.log.by is not None:
        _check_distinct(table, reading.log.by)
        kind = _type(table, reading.log.by)
        check_spelling(reading.panel or (), _holds(kind), reading.log.by, kind)
    if reading.log.value is not None:
        _check_numbers(table, reading.log.value)
    # Columns that are missing in every row may have no type: one row would give them one.
    types = dict.fromkeys(reading.log.columns, "int64")
    if not (reading.log.time is None or reading.row_grid.is_integer):
        types[reading.log.time] = "timestamp"
    untyped = [name for name in types if _is_untyped(table[name].type())]
    table = table.mutate(**{name: ibis.literal(None, types[name]) for name in untyped})
    columns = {"who": reading.log.identifier} | ({} if reading.log.by is None else {"series": reading.log.by})
    labels = {name: _labels(table[column], dialect) for name, column in columns.items()}
    labels["known"] = _is_known(table[reading.log.identifier], labels["who"])
    if reading.log.value is not None:
        labels["amount"] = _amount(table[reading.log.value], reading.step_cap, dialect)
    if reading.log.time is None:
        return table.select(**labels, when=_FIRST, readable=True, step=_FIRST, on_grid=True), dialect
    instants, readable, rule = _instants(table, reading.log.time, reading.row_grid, dialect)
    when = _present(table[reading.log.time])
    # A column of its own, so that it is worked out once.
    rows = dialect.materialise(table.select(**labels, when=when, readable=readable, at=instants))
    if rule.table is not None:
        return _looked_up(rows, rule, dialect), dialect
    on_grid = rows["at"].between(rule.start, rule.stop - 1)
    step = ibis.ifelse(on_grid, dialect.quotient(rows["at"] - rule.start, rule.width), None)
    return rows.mutate(step=step, on_grid=on_grid).drop("at"), dialect


def _looked_up(rows: ir.Table, rule: StepRule, dialect: Dialect) -> ir.Table:
    """Give instants the steps that hold them."""
    assert rule.table is not None
    steps = dialect.rows(rows.get_backend(), dict(zip(_STEPS, rule.table.T.tolist(), strict=True)), _STEPS)
    rows = rows.mutate(of=dialect.quotient(rows["at"] - rule.start, rule.width))
    # Equal cells first, as backends are slow to join by ranges alone. At most one step fits; null fits none.
    rows = rows.left_join(steps, [rows.of == steps.cell, rows["at"] >= steps.low, rows["at"] < steps.high])
    rows = rows.drop("at", "of", "cell", "low", "high").rename(step="number")
    return rows.mutate(on_grid=rows.step.notnull())


def _rows(table: ir.Table, reading: Reading) -> tuple[ir.Table, Dialect]:
    """Return who and where in the counts, for every row that is somewhere."""
    rows, dialect = _placed(table, reading)
    rows = rows.filter(rows.known, rows.on_grid).drop("when", "readable", "known", "on_grid")
    amount = ["amount"] if reading.is_sum else []
    if amount:
        rows = rows.filter(rows.amount > 0)
    if reading.once_over is not None:
        rows = rows.mutate(step=_FIRST)
    if reading.log.by is not None:
        keys = _keys(rows.get_backend(), reading.panel or (), rows.series.type(), dialect)
        rows = rows.join(keys, rows.series == keys.key)
        rows = rows.select("who", *amount, step=rows.number * reading.grid.size + rows.step)
    return rows, dialect


def _labels(column: ir.Column, dialect: Dialect) -> ir.Value:
    """Return the labels of identifiers: integers as they are, all else as text; null for what is missing."""
    kind = column.type()
    if kind.is_integer():
        return column
    if kind.is_floating():  # whole numbers as integers, as a missing integer makes a column floating-point
        near = _clamp(column, -(2.0**62), 2.0**62)  # so that no cast fails
        integral = ibis.ifelse(near.floor() == column, near, None).cast("int64").cast("string")
        column = ibis.ifelse(column.isnan(), None, ibis.coalesce(integral, column.cast("string")))
    if kind.is_boolean():  # as Python writes them
        column = ibis.cases((column, "True"), (~column, "False"))
    text = column.cast("string")
    if kind.is_string():  # how libraries write whole floating-point numbers
        # The pattern is slow, and few texts end so.
        integral = text.endswith(".0") & text.re_search(dialect.pattern(_WHOLE))
        text = ibis.ifelse(integral, text.substr(0, text.length() - 2), text).nullif("")
    return dialect.text_bytes(text)


def _is_known(column: ir.Column, labels: ir.Column) -> ir.BooleanValue:
    """Return where identifiers have labels."""
    return column.notnull() & (column != "") if column.type().is_string() else labels.notnull()


def _whole_numbers(column: ir.Column, dialect: Dialect) -> ir.IntegerValue:
    """The whole numbers that a column holds or says in text, null for anything else; those beyond ±2^53 as these."""
    if column.type().is_string():
        column = dialect.extract(column, dialect.pattern(_WHOLE_TEXT))
    numbers = dialect.floats(column)
    near = _clamp(numbers, -(2.0**53), 2.0**53)  # so that no cast fails
    return ibis.ifelse(numbers.notnull() & ~numbers.isnan() & (near.floor() == near), near, None).cast("int64")


def _amount(column: ir.Column, bound: int, dialect: Dialect) -> ir.IntegerValue:
    """Return how much a row adds, from 0 to the bound, as :mod:`~.counting.amounts` says."""
    # What is missing becomes 0 first, as of it and a bound the least may be the bound.
    kind = column.type()
    if kind.is_boolean():
        return ibis.ifelse(column, 1, 0).cast("int64")
    if kind.is_integer():
        return _clamp(ibis.coalesce(column, 0), 0, bound).cast("int64")
    numbers = dialect.extract(column, dialect.pattern(NUMBER)) if kind.is_string() else column
    numbers = ibis.coalesce(dialect.floats(numbers), 0.0)
    finite = numbers.between(-sys.float_info.max, sys.float_info.max)  # as NaN is above all numbers
    near = _clamp(ibis.ifelse(finite, numbers, 0.0), 0.0, float(bound))
    return (near.floor() + ibis.ifelse(near - near.floor() >= 0.5, 1.0, 0.0)).cast("int64")


def _present(column: ir.Column) -> ir.Value:
    """A column of times as they are written, null for what is missing."""
    if column.type().is_floating():
        return ibis.ifelse(column.isnan(), None, column)
    return ibis.ifelse(column.strip() == "", None, column) if column.type().is_string() else column


def _in_periods(pairs: ir.Table, reading: Reading, dialect: Dialect) -> tuple[ir.Table, list[str]]:
    """Say the period of each pair, where there are periods, and the columns that tell individuals apart."""
    starts = reading.period_starts
    if starts is None:
        return pairs, ["who"]
    cycle = reading.grid.size
    at = pairs.step if reading.log.by is None else pairs.step - dialect.quotient(pairs.step, cycle) * cycle
    lengths = np.diff(starts, append=cycle)
    if np.all(lengths[:-1] == lengths[0]) and lengths[-1] <= lengths[0]:
        return pairs.mutate(period=dialect.quotient(at, int(lengths[0]))), ["who", "period"]
    table = {"of": np.arange(cycle).tolist(), "period": np.repeat(np.arange(len(starts)), lengths).tolist()}
    periods = dialect.rows(pairs.get_backend(), table, dict.fromkeys(table, "int64"))
    pairs = pairs.mutate(at=at)
    return pairs.join(periods, pairs["at"] == periods.of).drop("at", "of"), ["who", "period"]


def _thinned(
    rows: ir.Table, reading: Reading, dialect: Dialect, key: bytes | None = None
) -> tuple[ir.Table, list[str]]:
    """Return everybody's steps, each once, and the columns that tell individuals apart.

    They are in few series at a time, if there is a key to choose these by, and a gap apart in each series and period
    (:mod:`~.counting.gap`).
    """
    gap, has_key_cap = reading.gap, key is not None and reading.key_cap is not None
    # A gap leaves nothing twice, so that it need not be looked for before.
    pairs, identity = _in_periods(rows.distinct() if gap == 1 or has_key_cap else rows, reading, dialect)
    if key is not None and reading.key_cap is not None:
        # The steps of the grid, which all series have.
        pairs = pairs.mutate(moment=pairs.step - dialect.quotient(pairs.step, reading.grid.size) * reading.grid.size)
        pairs = _first(pairs, ["who", "moment"], reading.key_cap, key_of_choice(key), dialect).drop("moment")
    if gap == 1:
        return pairs, identity
    columns, groups = pairs.columns, [*identity]
    if reading.log.by is not None:
        pairs = pairs.mutate(series=dialect.quotient(pairs.step, reading.grid.size))
        groups.append("series")
    ordered = ibis.window(group_by=groups, order_by=pairs.step.asc())
    nowhere = ibis.literal(-gap, "int64")  # is near to no step
    lag1, lag2, lag3 = (pairs.step.lag(k, nowhere).over(ordered) for k in (1, 2, 3))
    # A step that is not near to the one before it is kept, whatever was kept before: it starts a run. The second of a
    # run is not kept. So only runs of three and more have to be walked: they are found by their third and later steps,
    # of which the third knows the start.
    pairs = pairs.mutate(
        starts=pairs.step - lag1 >= gap,
        late=(pairs.step - lag1 < gap) & (lag1 - lag2 < gap),
        start=ibis.ifelse(lag2 - lag3 >= gap, lag2, None),
        behind=pairs.step - pairs.step.min().over(ordered),
    )
    if reading.period_length > reading.grid.size - gap:
        # At most one kept step is so far behind the first that it is near to it around the cycle: the last.
        pairs = pairs.filter(pairs.behind <= reading.grid.size - gap)
    return _walked(pairs, columns, groups, gap, dialect), identity


def _walked(pairs: ir.Table, columns: Sequence[str], groups: list[str], gap: int, dialect: Dialect) -> ir.Table:
    """The starts of runs, and what is kept of their later steps. Ibis has no name for a fold, so that this is text."""
    names = {"gap": gap, "columns": ", ".join(columns), "groups": ", ".join(groups), "own": "step", "later": "walks"}
    if "events" in columns:  # a step is then in one row
        names |= {"own": "step, events", "later": f"walks JOIN near USING ({names['groups']}, step)"}
    query = dialect.walk_query.format(**names)
    return sql_view(pairs, "opendp_timeseries_steps", query, pairs.select(columns).schema())


def _keys(backend: BaseBackend, keys: Sequence[Key], kind: dt.DataType, dialect: Dialect) -> ir.Table:
    """The keys of a panel and their numbers, as a table; without those that a column of integers cannot hold."""
    numbers, places = key_numbers(keys), dict[Key, int]()
    if kind.is_integer():
        low, high = kind.bounds.lower, kind.bounds.upper
        places = {int(text): k for text, k in numbers.items() if _INTEGER.fullmatch(text) and low <= int(text) <= high}
    else:
        places.update(numbers)
    schema = {"key": kind.copy(nullable=True) if kind.is_integer() else "string", "number": "int64"}
    table = dialect.rows(backend, {"key": list(places), "number": list(places.values())}, schema)
    return table.select(key=_labels(table.key, dialect), number=table.number)


def _instants(
    table: ir.Table, time: str, grid: TimeGrid, dialect: Dialect
) -> tuple[ir.IntegerValue, ir.BooleanValue, StepRule]:
    """The instant of every row, off the grid where there is none; which rows can be read; and how to place it.

    Values are brought into range before any arithmetic, so that none overflows, in whatever order a backend
    evaluates: its message would quote the row.
    """
    when, readable, rule = table[time], ibis.literal(True), grid.step_rule()
    if grid.is_integer and _may_hold_steps(when.type()):
        when = _whole_numbers(when, dialect)
        readable = when.notnull()
    kind = when.type()
    if _may_hold_steps(kind):
        raise _without_times(time, kind)
    if kind.is_integer():
        grid.check_times(np.dtype(kind.to_numpy()))
        last = grid.size - 1
        return ibis.ifelse(when.between(0, last), _clamp(when, 0, last).cast("int64"), -1), readable, rule
    ticks = dialect.ticks(table, time)
    grid.check_times(np.dtype(f"datetime64[{ticks.unit}]"), aware=ticks.aware)
    length = {"us": 1000, "ns": 1}[ticks.unit]  # of a tick, in nanoseconds
    low, high = (rule.start - _FAR) // length, (rule.stop + _FAR) // length
    instants = _clamp(ticks.values, low, high)  # far times, and null, stay off the grid
    changes, offsets, start, stop, width, uneven = rule
    if uneven is None and not any(np.any(number % length) for number in (changes, offsets, start, stop, width)):
        # All is said in the unit of the column.
        rule = StepRule(changes // length, offsets // length, start // length, stop // length, width // length, None)
    else:
        instants *= length
    return instants if ticks.aware else _to_utc(instants, rule), readable, rule


def _to_utc(local: ir.IntegerValue, rule: StepRule) -> ir.IntegerValue:
    """Take times on the clock of the grid's zone to UTC. Those far off the grid stay off it, by a day or more."""
    changes, offsets = rule.changes.tolist(), rule.offsets.tolist()
    offset = ibis.literal(offsets[0], "int64")
    later = [(local >= change, after) for change, after in zip(changes, offsets[1:], strict=True)]
    return local - (ibis.cases(*reversed(later), else_=offset) if later else offset)


def _clamp(values: ir.NumericValue, low: float, high: float) -> ir.NumericValue:
    return ibis.greatest(ibis.least(values, high), low)


def _fetch(query: ir.Table) -> "pyarrow.Table":
    """Run the query and bring its few rows here."""
    # The words of a backend, in errors and warnings, may quote a row: they are not passed on.
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        backend = query.get_backend()
        with _DIALECTS[backend.name].session(backend):
            return query.to_pyarrow()
    raise RuntimeError(
        "the backend could not count the events, or was interrupted; try a query of your own on the table, such as"
        " table.count().execute(), to see why"
    )


_EPOCH_US: Final = function("epoch_us", 1)
_EPOCH_NS: Final = function("epoch_ns", 1)
_TRY: Final = function("try", 1)
_UNIX_MICROS: Final = function("unix_micros", 1)
_UNIX_DATE: Final = function("unix_date", 1, "int32")
_DATE_PART: Final = function("date_part", 2, "decimal(8, 6)")
_DUCKDB_HASH_OF_FOUR: Final = function("hash", 4)
_DUCKDB_HASH: Final = function("hash", 1)


def _duckdb_ticks(table: ir.Table, name: str) -> Ticks:
    column, kind = table[name], table[name].type()
    if _is_fine(kind):
        return Ticks(_EPOCH_NS(column), "ns", aware=True)
    if kind.is_timestamp() and kind.timezone is not None:
        return Ticks(_EPOCH_US(column), "us", aware=True)
    if kind.is_timestamp() and kind.scale == 9:
        return Ticks(_EPOCH_NS(column), "ns", aware=False)
    micros = _EPOCH_US(column)
    # Coarser units hold times that microseconds cannot.
    return Ticks(micros if kind.is_timestamp() and kind.scale == 6 else _TRY(micros), "us", aware=False)


def _spark_ticks(table: ir.Table, name: str) -> Ticks:
    column = table[name]
    backend = table.get_backend()
    kind = backend.raw_sql(backend.compile(column.as_table())).schema[0].dataType.typeName()  # Ibis does not tell
    if kind == "timestamp":
        return Ticks(_UNIX_MICROS(column), "us", aware=True)
    # Spark's functions of a time without zone take it for one of the session's; those of its parts do not.
    days = column if kind == "date" else column.date()
    seconds = _UNIX_DATE(days).cast("int64") * 86400
    if kind == "date":
        return Ticks(seconds * 10**6, "us", aware=False)
    seconds += column.hour().cast("int64") * 3600 + column.minute().cast("int64") * 60
    micros = (_DATE_PART("SECOND", column) * 10**6).cast("int64")
    return Ticks(seconds * 10**6 + micros, "us", aware=False)


def _duckdb_hash(first: int, second: int, who: ir.Column, step: ir.IntegerColumn) -> ir.IntegerValue:
    # DuckDB joins hashes by exclusive or, which alone would favour the same steps for everyone; the outer hash
    # mixes what has been joined.
    return _DUCKDB_HASH(_DUCKDB_HASH_OF_FOUR(first, second, who, step))


def _duckdb_obstacles(backend: BaseBackend) -> list[str]:
    ((depth,),) = backend.raw_sql("SELECT current_setting('max_expression_depth')").fetchall()
    return ["setting max_expression_depth"] * (depth < 1000)


def _spark_obstacles(backend: BaseBackend) -> list[str]:
    setting = backend._session.conf.get  # a session may be set to answer no statement that shows its settings
    return [f"setting {name}" for name, value in _SPARK_SETTINGS.items() if setting(name, value).lower() != value]


#: What Ibis's statements, or this one, cannot do without.
_SPARK_SETTINGS: Final = {
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",  # or regular expressions match nothing
    "spark.sql.analyzer.singlePassResolver.enabled": "false",
    "spark.sql.analyzer.singlePassResolver.enabledTentatively": "false",
    "spark.sql.analyzer.singlePassResolver.dualRunWithLegacy": "false",
}


# The log must be read once: one with chance in it would otherwise be two logs. DuckDB reads rows that are named twice
# as often, unless told not to; Spark cannot be told, so that its queries name rows once.
_DUCKDB_WEIGHTS: Final = """
    WITH pairs AS MATERIALIZED (SELECT * FROM opendp_timeseries_pairs)
    SELECT {own}, {columns} FROM pairs JOIN (
        SELECT {names}, {numbers} FROM (
            SELECT {names}, CAST(sum({events}) AS HUGEINT) AS size FROM pairs GROUP BY {names}
        )
    ) USING ({names})"""
_SPARK_WEIGHTS: Final = """
    SELECT {own}, {numbers} FROM (
        SELECT *, CAST(sum({events}) OVER (PARTITION BY {names}) AS DECIMAL(38, 0)) AS size FROM opendp_timeseries_pairs
    )"""
# Before version 2, what DuckDB reduces a list to must be of the type of its elements: lists of one step.
_DUCKDB_WALK: Final = """
    WITH near AS MATERIALIZED (SELECT * FROM opendp_timeseries_steps),
    walks AS (
        SELECT {groups}, unnest(list_reduce(
            list_transform(list_prepend(run, list_sort(later, 'ASC', 'NULLS FIRST')), lambda step: [step]),
            lambda kept, step: CASE WHEN step[1] - kept[-1] < {gap} THEN kept ELSE list_concat(kept, step) END
        )[2:]) AS step
        FROM (
            SELECT {groups}, run, list(step) AS later FROM (
                SELECT *, max(start) OVER (
                    PARTITION BY {groups} ORDER BY step ASC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS run FROM near WHERE late
            ) GROUP BY {groups}, run
        )
    )
    SELECT {columns} FROM near WHERE starts UNION ALL SELECT {columns} FROM {later}"""
# Not by array_append, into which Spark's setting legacy.negativeIndexInArrayInsert reaches.
_SPARK_WALK: Final = """
    SELECT {columns} FROM (
        SELECT {groups}, inline(aggregate(
            later,
            slice(later, 1, 1),
            (kept, row) -> CASE
                WHEN row.step - element_at(kept, -1).step < {gap} THEN kept ELSE concat(kept, array(row))
            END
        ))
        FROM (
            SELECT {groups}, sort_array(collect_list(struct({own})), true) AS later FROM (
                SELECT *, max(CASE WHEN starts THEN step END) OVER (
                    PARTITION BY {groups} ORDER BY step ASC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS run FROM opendp_timeseries_steps WHERE starts OR late
            ) GROUP BY {groups}, run
        )
    )"""
_DIALECTS: Final = {
    "duckdb": Dialect(
        ticks=_duckdb_ticks,
        quotient=function("divide", 2),
        text_bytes=function("encode", 1, "binary"),
        pair_hash=_duckdb_hash,
        decimal="CAST({} AS HUGEINT)".format,
        decimal_quotient="{} // {}".format,
        weights_query=_DUCKDB_WEIGHTS,
        walk_query=_DUCKDB_WALK,
        obstacles=_duckdb_obstacles,
    ),
    "pyspark": Dialect(
        ticks=_spark_ticks,
        quotient=function("div", 2),
        text_bytes=lambda text: text.cast("binary"),
        pair_hash=function("xxhash64", 4),
        decimal="CAST({} AS DECIMAL(38, 0))".format,
        decimal_quotient="{} DIV {}".format,
        weights_query=_SPARK_WEIGHTS,
        walk_query=_SPARK_WALK,
        obstacles=_spark_obstacles,
    ),
    "postgres": POSTGRES,
}
