"""The spaces of the pipeline: event logs, count signals made elsewhere, and the influence metric.

A member of :func:`event_log_domain` is a multiset of individuals, each with their records; the table is its flat form.
So a symmetric distance of 1 is one individual added or removed with all of their rows, and never means one row.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import opendp.prelude as dp
from opendp.mod import ExtrinsicDistance, ExtrinsicDomain

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.rounding import up_fraction
from opendp_timeseries.counting.engines import check_schema
from opendp_timeseries.design.count import Source
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period

__all__ = [
    "InfluenceSpace",
    "as_influence",
    "check_member",
    "count_signal_domain",
    "event_log_domain",
    "PeriodUnitWarning",
    "influence_distance",
    "influence_metric",
    "influence_space",
    "described",
    "norm_influence",
    "period_distance",
    "unit_of",
]

T = TypeVar("T")


def described(space: Any, kind: type[T]) -> T | None:
    """Return what a domain or metric of this package says of itself; None if that is not of this type."""
    descriptor = space.descriptor if isinstance(space, ExtrinsicDomain | ExtrinsicDistance) else None
    return descriptor if isinstance(descriptor, kind) else None


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

    @classmethod
    def of(cls, signal: Signal) -> InfluenceSpace:
        """Return the space of a signal."""
        return cls(resolution_bits=signal.resolution_bits, panel_size=signal.series, signal=signal)


def event_log_domain(*, identifier: str, time: str) -> dp.Domain:
    """Event logs: tables with one row per event, naming who (``identifier``) and when (``time``).

    Members are mappings of equally long one-dimensional NumPy arrays, data frames, Ibis tables (of DuckDB or
    Spark, which then count by themselves) and PyArrow datasets (files, which are read batch by batch), with these
    two columns; other columns are ignored. Identifiers are told apart by their value as text, so that ``17``,
    ``17.0`` and ``"17"`` are one individual, whatever type the column has for the other rows; times are instants
    (``datetime64`` of any unit and the like) or, for a grid of plain integer steps, integers. Rows with a
    missing identifier or time belong to nobody and are dropped; :func:`~opendp_timeseries.check_log` counts them.

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
        raise ValueError(f"identifier and time must be two columns, found {identifier!r} for both")

    def member(table: Any) -> bool:
        try:
            check_schema(table, identifier=identifier, time=time)
        except (TypeError, ValueError):
            return False
        return True

    return dp.user_domain(f"EventLogDomain(identifier={identifier!r}, time={time!r})", member, source)


def count_signal_domain(size: int) -> dp.Domain:
    """Count signals that were made elsewhere: one-dimensional integer arrays of ``size`` steps.

    A distance between two signals counts the **individuals** who were added or removed
    (``dp.symmetric_distance()``) or replaced (``dp.change_one_distance()``), not the entries that differ. How far one
    individual reaches must be assumed: see :func:`~opendp_timeseries.make_assume_participation`.

    Requires the OpenDP feature ``honest-but-curious``.

    :param size: ``T``, the number of steps.
    :raises ValueError: if ``size`` is less than 1.
    """
    size = check.integer("size", size, minimum=1, remedy="size is the public number of steps")

    def member(signal: Any) -> bool:
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
    :func:`~opendp_timeseries.loss_over_periods` says how much somebody loses in all. At a distance of 1 of
    ``dp.symmetric_distance()``, the usual one, logs differ in all that one individual ever did.

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
        f"the unit of privacy is {unit}: somebody who takes part in k periods is protected as a group of k, and"
        " loss_over_periods(…) says how far. For all that somebody did, use dp.symmetric_distance()",
        PeriodUnitWarning,
        stacklevel=2,
    )
    return dp.user_distance(f"PeriodDistance({unit})", unit)


def influence_distance(resolution_bits: int = 0, *, panel_size: int = 1) -> dp.Metric:
    """The distance between signals that says how individuals' influence spreads over the steps.

    Its distances are :class:`~opendp_timeseries.Influence` objects. Two signals are comparable only when
    all of their entries are multiples of ``2**-resolution_bits`` (whole numbers for counts); otherwise
    they are infinitely far apart. The noise grid is chosen from this public resolution.

    Requires the OpenDP feature ``honest-but-curious``.

    The metrics of counts and filters also carry how the signal was made; behind this one, a release states nothing.

    :param resolution_bits: binary digits behind the point in the entries of a signal, 0 for counts.
    :param panel_size: number of equally long series that a signal consists of, one after the other (a panel).
    """
    space = InfluenceSpace(
        resolution_bits=check.integer("resolution_bits", resolution_bits, minimum=0, maximum=52),
        panel_size=check.integer("panel_size", panel_size, minimum=1),
    )
    return influence_metric(space)


def influence_metric(space: InfluenceSpace) -> dp.Metric:
    """Return the influence metric of a descriptor, all of which is in its identifier."""
    unit = "1" if space.resolution_bits == 0 else f"2^-{space.resolution_bits}"
    panel = "" if space.panel_size == 1 else f", panel_size={space.panel_size}"
    made = "" if space.signal is None else f", signal={space.signal.identifier}"
    return dp.user_distance(f"InfluenceDistance(resolution={unit}{panel}{made})", space)


def influence_space(metric: Any) -> InfluenceSpace | None:
    """Return the descriptor of an influence metric, None for any other metric."""
    return described(metric, InfluenceSpace)


def as_influence(d_in: Any) -> Influence:
    """Return a distance of the influence metric; refuse anything else, which is public."""
    if not isinstance(d_in, Influence):
        raise TypeError(
            f"d_in must be an Influence, found {type(d_in).__name__}; chain after a count, whose map(1) gives one"
        )
    return d_in


def norm_influence(d_in: Any, steps: int) -> Influence:
    """Return an ℓ2 distance as an influence: all of it may be in one step, or spread over ``steps``."""
    check.real("d_in", d_in, minimum=0.0)
    distance = up_fraction(Fraction(d_in))  # an integer beyond 2**53 becomes a float from above
    return Influence(l0=steps, l2=distance, linf=distance, individuals=int(distance > 0))


def unit_of(input_metric: dp.Metric) -> Unit:
    """Return what a distance of 1 is; TypeError for a metric that does not count individuals."""
    if (unit := described(input_metric, Unit)) is not None:
        return unit
    name = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if name not in ("SymmetricDistance", "ChangeOneDistance"):
        raise TypeError(
            f"input_metric ({input_metric}) must count individuals; use dp.symmetric_distance() for"
            " individuals added or removed, dp.change_one_distance() for individuals replaced"
        )
    return Unit(replaced=name == "ChangeOneDistance")


def check_member(domain: dp.Domain, log: Any) -> None:
    """Refuse a log outside a domain of this package, by names and types of columns, before anything is spent."""
    if (source := described(domain, Source)) is not None:
        check_schema(log, identifier=source.identifier, time=str(source.time))
    elif described(domain, UnknownSignal) is not None and not domain.member(log):
        raise TypeError(f"log ({type(log).__name__}) must be a member of {domain}")
