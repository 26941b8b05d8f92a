"""The spaces of the pipeline: event logs, count signals made elsewhere, and the influence metric.

Distances count *individuals*. A member of :func:`event_log_domain` is a multiset of individuals, each
with their records; the table is its flat form. So a symmetric distance of 1 is one individual added or
removed with all of their rows, and never means one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp
from opendp.mod import ExtrinsicDistance, ExtrinsicDomain

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.counting.engines import check_log

__all__ = [
    "Adjacency",
    "CountSignal",
    "EventLog",
    "as_influence",
    "count_signal_domain",
    "event_log_domain",
    "individuals_replaced",
    "influence_distance",
    "influence_resolution",
    "series_of",
]


@dataclass(frozen=True, kw_only=True)
class EventLog:
    """Descriptor of an event-log domain: the names of the two columns that are read."""

    identifier: str
    time: str


@dataclass(frozen=True, kw_only=True)
class CountSignal:
    """Descriptor of a domain of count signals made elsewhere: the number of steps."""

    size: int


@dataclass(frozen=True, kw_only=True)
class _InfluenceSpace:
    """Descriptor of the influence metric: the grid that signal entries lie on, and how many series they are."""

    resolution_bits: int
    series: int


def event_log_domain(*, identifier: str, time: str) -> dp.Domain:
    """Event logs: tables with one row per event, naming who (``identifier``) and when (``time``).

    Members are mappings of equally long one-dimensional NumPy arrays, data frames, Ibis tables (of DuckDB or
    Spark, which then count by themselves) and PyArrow datasets (files, which are read batch by batch), with these
    two columns; other columns are ignored. Identifiers are integers or strings; times are instants
    (``datetime64`` of any unit and the like) or, for a grid of plain integer steps, integers. Rows with a
    missing identifier or time belong to nobody and are dropped.

    A distance between two logs counts **individuals**, whatever the number of their rows:
    ``dp.symmetric_distance()`` those added or removed, ``dp.change_one_distance()`` those replaced.

    Requires the OpenDP feature ``honest-but-curious``.

    :param identifier: name of the column that tells individuals apart.
    :param time: name of the column of event times.
    :raises TypeError: if a name is not a string.
    :raises ValueError: if both names are the same.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> ts.event_log_domain(identifier="tailnum", time="time")
    EventLogDomain(identifier='tailnum', time='time')
    """
    for name, value in (("identifier", identifier), ("time", time)):
        if not isinstance(value, str):
            raise TypeError(f"{name} ({value!r}) must be a string, the name of a column")
    if identifier == time:
        raise ValueError(f"identifier and time must be two columns, found {identifier!r} for both")
    descriptor = EventLog(identifier=identifier, time=time)

    def member(table: Any) -> bool:
        try:
            check_log(table, identifier=identifier, time=time)
        except (TypeError, ValueError):
            return False
        return True

    return dp.user_domain(f"EventLogDomain(identifier={identifier!r}, time={time!r})", member, descriptor)


def count_signal_domain(size: int) -> dp.Domain:
    """Count signals that were made elsewhere: one-dimensional integer arrays of ``size`` steps.

    A distance between two signals counts the **individuals** who were added or removed
    (``dp.symmetric_distance()``) or replaced (``dp.change_one_distance()``), not the entries that differ.
    Nothing is known of how far one individual reaches until it is assumed: see
    :func:`~opendp_timeseries.then_assume_participation`.

    Requires the OpenDP feature ``honest-but-curious``.

    :param size: ``T``, the number of steps.
    :raises ValueError: if ``size`` is less than 1.
    """
    size = check.integer("size", size, minimum=1, remedy="size is the public number of steps")

    def member(signal: Any) -> bool:
        values = np.asarray(signal)
        return values.shape == (size,) and np.issubdtype(values.dtype, np.integer)

    return dp.user_domain(f"CountSignalDomain(size={size})", member, CountSignal(size=size))


def influence_distance(resolution_bits: int = 0, *, series: int = 1) -> dp.Metric:
    """The distance between signals that says how individuals' influence spreads over the steps.

    Its distances are :class:`~opendp_timeseries.Influence` objects. Two signals are comparable only when
    all of their entries are multiples of ``2**-resolution_bits`` (whole numbers for counts); otherwise
    they are infinitely far apart. The noise grid is chosen from this public resolution.

    Requires the OpenDP feature ``honest-but-curious``.

    :param resolution_bits: binary digits behind the point in the entries of a signal, 0 for counts.
    :param series: number of equally long series that a signal consists of, one after the other (a panel).
    """
    bits = check.integer("resolution_bits", resolution_bits, minimum=0, maximum=52)
    series = check.integer("series", series, minimum=1)
    unit = "1" if bits == 0 else f"2^-{bits}"
    panel = "" if series == 1 else f", series={series}"
    descriptor = _InfluenceSpace(resolution_bits=bits, series=series)
    return dp.user_distance(f"InfluenceDistance(resolution={unit}{panel})", descriptor)


def influence_resolution(metric: dp.Metric) -> int | None:
    """Return the resolution in bits of an influence metric, None for any other metric."""
    space = _influence_space(metric)
    return None if space is None else space.resolution_bits


def series_of(metric: dp.Metric) -> int:
    """Return the number of series that a signal consists of, which only an influence metric says: else 1."""
    space = _influence_space(metric)
    return 1 if space is None else space.series


def _influence_space(metric: dp.Metric) -> _InfluenceSpace | None:
    descriptor = metric.descriptor if isinstance(metric, ExtrinsicDistance) else None
    return descriptor if isinstance(descriptor, _InfluenceSpace) else None


def as_influence(d_in: Any) -> Influence:
    """Return a distance of the influence metric; refuse anything else, which is public."""
    if not isinstance(d_in, Influence):
        raise TypeError(
            f"d_in must be an Influence, found {type(d_in).__name__}; chain after a count, whose"
            " map(1) gives one, or use output_metric=dp.l2_distance(T=float)"
        )
    return d_in


class Adjacency(NamedTuple):
    """What a distance of 1 between two logs is."""

    individuals: int = 1
    replaced: bool = False  # rather than added or removed


def individuals_replaced(input_metric: dp.Metric) -> bool:
    """True for the change-one distance, False for the symmetric distance.

    :raises TypeError: for any other metric, naming it and the remedy.
    """
    name = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if name not in ("SymmetricDistance", "ChangeOneDistance"):
        raise TypeError(
            f"input_metric ({input_metric}) must count individuals; use dp.symmetric_distance() for"
            " individuals added or removed, dp.change_one_distance() for individuals replaced"
        )
    return name == "ChangeOneDistance"


def descriptor_of(domain: dp.Domain, kind: type[Any], remedy: str) -> Any:
    """Return the descriptor of a domain of this package.

    :raises TypeError: if the domain is another one, naming it and the remedy.
    """
    descriptor = domain.descriptor if isinstance(domain, ExtrinsicDomain) else None
    if not isinstance(descriptor, kind):
        raise TypeError(f"input_domain ({domain}) cannot be used here; {remedy}")
    return descriptor
