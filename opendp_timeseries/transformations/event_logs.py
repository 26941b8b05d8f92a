"""OpenDP's own frames as event logs: a ``LazyFrameDomain`` with one of the identifier distances.

OpenDP says what the guarantee is about by an expression in the metric, and which columns there are by the
domain. Two frames are at a ``symmetric_id_distance`` of 1 when one identifier is there with all of its rows in
one of them and not at all in the other: the same as for :func:`~opendp_timeseries.event_log_domain`. OpenDP
defines ``change_one_id_distance`` as half of that, without asking for equally many identifiers in both: a
distance of 1 may be two individuals added, and is accounted for as such.
"""

from __future__ import annotations

from typing import Any, Final

import opendp.prelude as dp

from opendp_timeseries._opendp import empty_frame
from opendp_timeseries.counting.tables import read_columns
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.provenance import Adjacency
from opendp_timeseries.spaces import EventLog

__all__ = ["lazyframe_log"]

_ADJACENCY: Final = {"SymmetricIdDistance": Adjacency(), "ChangeOneIdDistance": Adjacency(individuals=2)}


def lazyframe_log(
    input_domain: dp.Domain, input_metric: dp.Metric, time: str | None, by: str | None, grid: TimeGrid
) -> tuple[EventLog, Adjacency]:
    """Say which columns of a LazyFrame are the event log, and what distances count.

    :param input_domain: an OpenDP ``LazyFrameDomain``.
    :param input_metric: ``dp.symmetric_id_distance(…)`` or ``dp.change_one_id_distance(…)`` of a plain column.
    :param time: name of the column of event times, which OpenDP's spaces do not know of.
    :param by: name of the column that tells the series of a panel apart, if there is one.
    :param grid: the grid that is to place the times.
    :raises TypeError: for another metric, an identifier that is not a column, or a column of a wrong type.
    :raises ValueError: for a column that the domain does not have.
    """
    kind = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if kind not in _ADJACENCY:
        raise TypeError(
            f"input_metric ({input_metric}) does not count individuals; of a LazyFrame it must be"
            " dp.symmetric_id_distance(…) or dp.change_one_id_distance(…), as in the privacy unit"
            " dp.unit_of(contributions=1, identifier=…)"
        )
    if not isinstance(time, str):
        raise TypeError(
            f"time ({time!r}) must name the column of event times in the LazyFrame, for instance time='time'"
        )
    log = EventLog(identifier=_column(input_metric), time=time)
    columns = read_columns(empty_frame(input_domain), identifier=log.identifier, time=log.time, by=by)
    grid.check_times(columns.times.dtype, aware=columns.aware)
    return log, _ADJACENCY[kind]


def _column(metric: Any) -> str:
    """Name of the column that identifies individuals."""
    expression = metric.identifier
    if not expression.meta.is_column():  # an expression could merge individuals, or tell one's rows apart
        raise TypeError(
            f"input_metric ({metric}) must identify individuals by a plain column; make the expression a column"
            " of the LazyFrame first, and name that in dp.unit_of(…, identifier=…)"
        )
    return str(expression.meta.output_name())
