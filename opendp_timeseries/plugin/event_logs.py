"""What an event log is: which columns of a log are read, and what distances between two logs count.

A log is a member of :func:`~opendp_timeseries.event_log_domain`, or one of OpenDP's own frames: a ``LazyFrameDomain``
with one of the identifier distances. Two frames are at a ``symmetric_id_distance`` of 1 when one identifier is there
with all of its rows in one of them and not at all in the other. OpenDP defines ``change_one_id_distance`` as half of
that, without asking for equally many identifiers in both: a distance of 1 may be two individuals added, and is
accounted for as such.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import opendp.prelude as dp
from opendp.mod import LazyFrameDomain

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.identifiers import key_numbers
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.design.count import Count, Keys, Source, panel_of
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.plugin._opendp import empty_frame
from opendp_timeseries.plugin.spaces import described, unit_of

__all__ = ["check_readable", "log_of"]

_UNITS: Final = {"SymmetricIdDistance": Unit(), "ChangeOneIdDistance": Unit(individuals=2)}


def log_of(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    by: str | None,
    keys: Keys | None,
    time: str | None,
    timed: bool = True,
    periods: bool = False,
) -> dict[str, Any]:
    """Return what a :class:`.Count` says of a log: which columns are read, for which keys, and the unit of privacy.

    :param by: name of the column that tells the series of a panel apart, if there is one; with its ``keys``.
    :param time: name of the column of event times, of a LazyFrame only.
    :param timed: whether times are read.
    :param periods: whether the count treats an individual as another one in each period, where the metric
        does. Other counts refuse such a metric.
    :raises TypeError, ValueError: for a wrong domain, metric, name or key, or a column that is named twice.
    """
    if not timed and time is not None:
        raise TypeError(
            f"time ({check.shown(time)}) is for a grid; give grid=, or leave it out, as no times are read without one"
        )
    panel = panel_of(by, keys)
    if isinstance(input_domain, LazyFrameDomain):
        identifier, unit = _of_frame(input_metric)
        if timed and not isinstance(time, str):
            raise TypeError(
                f"time ({check.shown(time)}) must name the column of event times in the LazyFrame, for instance"
                " time='time'"
            )
        source = Source(identifier=identifier, time=time, by=by, exact=True)
        return {"source": source, "panel": panel, "unit": unit}
    log = described(input_domain, Source)
    if log is None:
        raise TypeError(f"input_domain ({input_domain}) is not of logs; use event_log_domain(identifier=…, time=…)")
    if time is not None:
        raise TypeError(f"time ({check.shown(time)}) is for a LazyFrame; leave it out, as {input_domain} names its own")
    unit = unit_of(input_metric)
    if unit.period is not None and not periods:
        raise TypeError(
            f"input_metric ({input_metric}) counts individuals within a period, and this query would not; use"
            " dp.symmetric_distance() or dp.change_one_distance()"
        )
    source = replace(log, time=log.time if timed else None, by=by)
    return {"source": source, "panel": panel, "unit": unit}


def check_readable(count: Count, input_domain: dp.Domain) -> None:
    """Refuse keys that are alike as text, and a column of a LazyFrame that is missing or cannot serve."""
    key_numbers(count.panel or ())
    if isinstance(input_domain, LazyFrameDomain):
        read_positions(empty_frame(input_domain), count)


def _of_frame(input_metric: dp.Metric) -> tuple[str, Unit]:
    """Say which column of a LazyFrame identifies individuals, and what distances count."""
    kind = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if kind not in _UNITS:
        raise TypeError(
            f"input_metric ({input_metric}) does not count individuals; of a LazyFrame it must be"
            " dp.symmetric_id_distance(…) or dp.change_one_id_distance(…), as in the privacy unit"
            " dp.unit_of(contributions=1, identifier=…)"
        )
    expression: Any = input_metric.identifier
    if not expression.meta.is_column():  # an expression could merge individuals, or tell one's rows apart
        raise TypeError(
            f"input_metric ({input_metric}) must identify individuals by a plain column; make the expression a column"
            " of the LazyFrame first, and name that in dp.unit_of(…, identifier=…)"
        )
    return str(expression.meta.output_name()), _UNITS[kind]
