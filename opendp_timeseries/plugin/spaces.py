"""The spaces of the pipeline: event logs, count signals made elsewhere, and the influence metric.

A member of :func:`event_log_domain` is a multiset of individuals, each with their records; the table is its flat form.
So a symmetric distance of 1 is one individual added or removed with all of their rows, and never means one row.

A log may also be one of OpenDP's own frames, a ``LazyFrameDomain`` with one of the identifier distances, or, behind
``stable_lazyframe``, with bounds on such a distance, of which the one on the whole log counts. OpenDP defines
``change_one_id_distance`` as half of ``symmetric_id_distance``, without asking for equally many identifiers in both: a
distance of 1 may be two individuals added, and is accounted for as such.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, TypedDict, TypeVar

import numpy as np
from opendp.extras.polars import Bound
from opendp.mod import (
    ChangeOneIdDistance,
    ExtrinsicDistance,
    ExtrinsicDomain,
    FrameDistance,
    LazyFrameDomain,
    SymmetricIdDistance,
)

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.counting.identifiers import key_numbers
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.design.groups import Key
from opendp_timeseries.design.reading import Keys, Reading, Source, panel_of
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import empty_frame

T = TypeVar("T")

#: What distances of OpenDP count in LazyFrames.
_OF_FRAMES: Final = {SymmetricIdDistance: Unit(), ChangeOneIdDistance: Unit(individuals=2)}


def descriptor(space: object, kind: type[T]) -> T | None:
    """Return what a domain or metric of this package says of itself; None if that is not of this type."""
    value = space.descriptor if isinstance(space, ExtrinsicDomain | ExtrinsicDistance) else None
    return value if isinstance(value, kind) else None


@dataclass(frozen=True, kw_only=True)
class InfluenceSpace:
    """Descriptor of the influence metric.

    :param resolution_bits: signal entries are multiples of ``2**-resolution_bits``.
    :param panel_size: number of series that a signal consists of.
    :param signal: how the signal was made; None if the metric was written by hand.
    """

    resolution_bits: int
    panel_size: int
    signal: Signal | None = None

    def metric(self) -> dp.Metric:
        """Return the influence metric, whose identifier holds all of this."""
        unit = "1" if self.resolution_bits == 0 else f"2^-{self.resolution_bits}"
        panel = "" if self.panel_size == 1 else f", panel_size={self.panel_size}"
        origin = "" if self.signal is None else f", signal={self.signal.identifier}"
        return dp.user_distance(f"InfluenceDistance(resolution={unit}{panel}{origin})", self)


def event_log_domain(*, identifier: str, time: str) -> dp.Domain:
    """Event logs: tables with one row per event, naming who (``identifier``) and when (``time``).

    Members are mappings of equally long one-dimensional NumPy arrays, data frames, Ibis tables (of DuckDB or
    Spark, which then count by themselves) and PyArrow datasets (files, which are read batch by batch), with these
    two columns; other columns are ignored. Identifiers are told apart by their value as text, so that ``17``,
    ``17.0`` and ``"17"`` are one individual; times are instants (``datetime64`` of any unit and the like) or, for a
    grid of plain integer steps, integers. Rows with a missing identifier or time belong to nobody and are dropped;
    :func:`~opendp_timeseries.check_log` counts them.

    A distance between two logs counts **individuals**, whatever the number of their rows:
    ``dp.symmetric_distance()`` those added or removed, ``dp.change_one_distance()`` those replaced. By
    :func:`~opendp_timeseries.period_distance` an individual within each day, or another period, counts by itself.

    Requires the OpenDP feature ``honest-but-curious``.

    :param identifier: name of the column that tells individuals apart.
    :param time: name of the column of event times.
    :raises TypeError, ValueError: if a name is not a string, or both are the same.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> ts.event_log_domain(identifier="tailnum", time="time")
    EventLogDomain(identifier='tailnum', time='time')
    """
    source = Source(identifier=identifier, time=time)  # or refuse their types
    if identifier == time:
        raise Refusal("identifier and time", ..., f"must be two columns, found {identifier!r} for both")

    def member(table: object) -> bool:
        try:
            engine_of(table).check_schema(table, identifier=identifier, time=time)
        except (TypeError, ValueError):
            return False
        return True

    return dp.user_domain(f"EventLogDomain(identifier={identifier!r}, time={time!r})", member, source)


def count_signal_domain(size: int) -> dp.Domain:
    """Count signals that were made elsewhere: one-dimensional integer arrays of ``size`` steps.

    A distance between two signals counts the **individuals** who differ, as in event logs, not the entries. How far
    one individual reaches must be assumed: see :func:`~opendp_timeseries.make_assume_participation`.

    Requires the OpenDP feature ``honest-but-curious``.

    :param size: ``T``, the number of steps.
    :raises ValueError: if ``size`` is less than 1.
    """
    size = check.integer("size", size, minimum=1, remedy="size is the public number of steps")

    def member(signal: object) -> bool:
        values = np.asarray(signal)
        return values.shape == (size,) and np.issubdtype(values.dtype, np.integer)

    return dp.user_domain(f"CountSignalDomain(size={size})", member, UnknownSignal(size))


class PeriodUnitWarning(UserWarning):
    """The unit of privacy is within a period: the guarantee does not cover all that somebody did."""


def period_distance(period: str | int, *, zone: str | None = None, replaced: bool = False) -> dp.Metric:
    """The distance between event logs that counts individuals **within a period**: not all that they did.

    Two logs are at a distance of 1 when they differ in rows that one individual has within one day; or within one week,
    month, quarter, year, or a number of integer steps. What follows is guaranteed for that, and no more: what shows of
    somebody's single day is hidden, and what shows of a habit, day after day, may not be.
    :func:`~opendp_timeseries.loss_over_periods` says how much somebody loses in all. With ``dp.symmetric_distance()``,
    the usual one, logs at a distance of 1 differ in all that one individual ever did.

    In exchange, caps hold within each period: somebody is counted anew in each, so that less is left out. Every step of
    a grid must lie within one period, and times must be read on the clock of the period's zone.

    Requires the OpenDP feature ``honest-but-curious``.

    :param period: ``"1d"``, ``"1w"`` (from Monday), ``"1mo"``, ``"1q"`` or ``"1y"`` of the calendar of ``zone``; or,
        for times that are integers, a number of steps, counted from 0.
    :param zone: IANA name of the zone, which must be that of the grid; left out with a number of steps.
    :param replaced: True if individuals within a period are replaced, False if they are added or removed.
    :raises TypeError, ValueError: for any other period or zone.

    Warns, by :class:`~opendp_timeseries.PeriodUnitWarning`, of what it does not cover. To silence the warning once you
    have understood it:

    >>> import warnings, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> warnings.simplefilter("ignore", ts.PeriodUnitWarning)
    >>> ts.period_distance("1d", zone="America/New_York")
    PeriodDistance(one individual within one day (America/New_York), not all that they did, added or removed)
    """
    unit = Unit(replaced=bool(replaced), period=Period(period, zone))
    warnings.warn(
        f"the unit of privacy is {unit}: somebody who takes part in k periods is protected as a group of k;"
        " loss_over_periods(…) says how well. For all that somebody did, use dp.symmetric_distance()",
        PeriodUnitWarning,
        stacklevel=2,
    )
    return dp.user_distance(f"PeriodDistance({unit})", unit)


def influence_distance(resolution_bits: int = 0, *, panel_size: int = 1) -> dp.Metric:
    """The distance between signals that says how individuals' influence spreads over the steps.

    Its distances are :class:`~opendp_timeseries.accounting.influence.Influence` objects. Two signals are comparable
    only when all of their entries are multiples of ``2**-resolution_bits`` (whole numbers for counts); otherwise they
    are infinitely far apart. The noise grid is chosen from this public resolution.

    The metrics of counts and filters also carry how the signal was made; behind this one, a release states nothing.
    Requires the OpenDP feature ``honest-but-curious``.

    :param resolution_bits: binary digits behind the point in the entries of a signal, 0 for counts.
    :param panel_size: number of equally long series that a signal consists of, one after the other (a panel).
    """
    bits = check.integer("resolution_bits", resolution_bits, minimum=0, maximum=52)
    return InfluenceSpace(resolution_bits=bits, panel_size=check.integer("panel_size", panel_size, minimum=1)).metric()


def signal_metric(signal: Signal) -> dp.Metric:
    """Return the influence metric of a signal."""
    return InfluenceSpace(resolution_bits=signal.resolution_bits, panel_size=signal.series, signal=signal).metric()


def influence_space(metric: object) -> InfluenceSpace | None:
    """Return the descriptor of an influence metric; None for any other metric."""
    return descriptor(metric, InfluenceSpace)


def as_influence(d_in: object) -> Influence:
    """Return a distance of the influence metric; refuse anything else, which is public."""
    if not isinstance(d_in, Influence):
        kind = type(d_in).__name__
        raise TypeRefusal(
            "d_in", ..., f"must be an Influence, found {kind}", "chain after a count, whose map(1) gives one"
        )
    return d_in


def norm_influence(d_in: Any, steps: int) -> Influence:
    """Return an ℓ2 distance as an influence, in one step or spread over ``steps``."""
    check.real("d_in", d_in, minimum=0.0)
    distance = up_fraction(Fraction(d_in))  # an integer beyond 2**53 becomes a float from above
    return Influence(l0=steps, l2=distance, linf=distance, individuals=int(distance > 0))


def unit_of(input_metric: dp.Metric) -> Unit:
    """Return what a distance of 1 is; TypeError for a metric that does not count individuals."""
    if (unit := descriptor(input_metric, Unit)) is not None:
        return unit
    kinds = {Unit(): dp.symmetric_distance(), Unit(replaced=True): dp.change_one_distance()}
    unit = next((unit for unit, metric in kinds.items() if input_metric == metric), None)
    if unit is None:
        raise TypeRefusal(
            "input_metric",
            input_metric,
            "must count individuals",
            "use dp.symmetric_distance() for individuals added or removed, dp.change_one_distance() for individuals"
            " replaced",
        )
    return unit


def check_member(domain: dp.Domain, log: object, readings: Iterable[Reading] = ()) -> None:
    """Refuse a log outside a domain of this package, by names and types of columns, before anything is spent.

    :param readings: in which the log is read, whose columns of keys and values are looked at, too.
    """
    if (source := descriptor(domain, Source)) is not None:
        engine_of(log).check_schema(log, identifier=source.identifier, time=str(source.time))
        for reading in readings:
            engine_of(log).check_reading(log, reading)
    elif descriptor(domain, UnknownSignal) is not None and not domain.member(log):
        raise TypeRefusal("log", Quoted(type(log).__name__), f"must be a member of {domain}")


class LogFields(TypedDict):
    """Fields of a :class:`.Reading` that its log decides."""

    source: Source
    panel: tuple[Key, ...] | None
    unit: Unit


def log_of(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    by: str | None,
    keys: Keys | None,
    time: str | None,
    value: str | None = None,
    timed: bool = True,
    periods: bool = False,
) -> LogFields:
    """Return what a :class:`.Reading` says of a log: which columns are read, for which keys, and the unit of privacy.

    :param time: name of the column of event times, of a LazyFrame only.
    :param value: name of the column of numbers to add up; None to count rows.
    :param timed: whether times are read.
    :param periods: whether the count treats an individual as another one in each period, where the metric does. Other
        counts refuse such a metric.
    :raises TypeError, ValueError: for a wrong domain, metric, name or key, or a column that is named twice.
    """
    if not timed and time is not None:
        raise TypeRefusal("time", time, "requires `grid=`", "leave it out, as no times are read without one")
    panel = panel_of(by, keys)
    if isinstance(input_domain, LazyFrameDomain):
        identifier, unit = _of_frame(input_metric)
        if timed and not isinstance(time, str):
            raise TypeRefusal("time", time, "must name the LazyFrame's column of event times: `time='time'`")
        source = Source(identifier=identifier, time=time, by=by, value=value, exact=True)
    else:
        log = descriptor(input_domain, Source)
        if log is None:
            raise TypeRefusal(
                "input_domain", input_domain, "is not of logs", "use event_log_domain(identifier=…, time=…)"
            )
        if time is not None:
            raise TypeRefusal("time", time, "is for a LazyFrame", f"leave it out, as {input_domain} names its own")
        unit = unit_of(input_metric)
        if unit.period is not None and not periods:
            raise TypeRefusal(
                "input_metric",
                input_metric,
                "counts individuals within a period, and this query would not",
                "use dp.symmetric_distance() or dp.change_one_distance()",
            )
        source = replace(log, time=log.time if timed else None, by=by, value=value)
    return LogFields(source=source, panel=panel, unit=unit)


def check_readable(reading: Reading, input_domain: dp.Domain) -> None:
    """Refuse keys that are alike as text, and a column of a LazyFrame that is missing or cannot serve."""
    key_numbers(reading.panel or ())
    if isinstance(input_domain, LazyFrameDomain):
        read_positions(empty_frame(input_domain), reading)


def _of_frame(input_metric: dp.Metric) -> tuple[str, Unit]:
    """Return the column of a LazyFrame that identifies individuals, and what distances count."""
    metric = input_metric.inner_metric if isinstance(input_metric, FrameDistance) else input_metric
    unit = next((unit for kind, unit in _OF_FRAMES.items() if isinstance(metric, kind)), None)
    if unit is None:
        raise TypeRefusal(
            "input_metric",
            input_metric,
            "does not count individuals",
            "of a LazyFrame it must be dp.symmetric_id_distance(…) or dp.change_one_id_distance(…), as in the privacy"
            " unit dp.unit_of(contributions=1, identifier=…)",
        )
    expression: Any = metric.identifier
    if not expression.meta.is_column():  # an expression could merge individuals, or tell one's rows apart
        raise TypeRefusal(
            "input_metric",
            input_metric,
            "must identify individuals by a plain column",
            "make the expression a column of the LazyFrame first, and name that in dp.unit_of(…, identifier=…)",
        )
    return str(expression.meta.output_name()), unit


def individuals_of(d_in: object) -> object:
    """Return how many individuals a distance between frames is: of bounds, that of the whole log."""
    if not isinstance(d_in, list):
        return d_in
    bounds = [bound.per_group for bound in d_in if len(bound.by) == 0 and bound.per_group is not None]
    if not bounds:
        raise Refusal(
            "d_in", ..., "must bound the whole log, by dp.polars.Bound(by=[], per_group=…), beside other bounds"
        )
    return min(bounds)


def keeps_individuals(chain: dp.Transformation) -> bool:
    """Return whether frames that differ in one individual do so behind a transformation, by its map."""
    distance: object = [Bound(by=[], per_group=1)] if isinstance(chain.input_metric, FrameDistance) else 1
    return _of_frame(chain.input_metric) == _of_frame(chain.output_metric) and individuals_of(chain.map(distance)) == 1
