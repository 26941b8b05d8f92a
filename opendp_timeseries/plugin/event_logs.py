"""What an event log is: which columns of a log are read, and what distances between two logs count.

A log is a member of :func:`~opendp_timeseries.event_log_domain`, or one of OpenDP's own frames: a ``LazyFrameDomain``
with one of the identifier distances. Of frames, OpenDP says what the guarantee is about by an expression in the metric,
and which columns there are by the domain. Two frames are at a ``symmetric_id_distance`` of 1 when one identifier is
there with all of its rows in one of them and not at all in the other: the same as for
:func:`~opendp_timeseries.event_log_domain`. OpenDP defines ``change_one_id_distance`` as half of that, without asking
for equally many identifiers in both: a distance of 1 may be two individuals added, and is accounted for as such.
"""

from __future__ import annotations

from typing import Any, Final

import opendp.prelude as dp
from opendp.mod import LazyFrameDomain

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.layout import Keys, Layout
from opendp_timeseries.counting.tables import read_positions
from opendp_timeseries.design.provenance import Adjacency
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.plugin._opendp import empty_frame
from opendp_timeseries.plugin.spaces import EventLog, adjacency_of, descriptor_of

__all__ = ["event_log"]

_ADJACENCY: Final = {"SymmetricIdDistance": Adjacency(), "ChangeOneIdDistance": Adjacency(individuals=2)}


def event_log(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid | None,
    *,
    by: str | None,
    keys: Keys | None,
    time: str | None,
    whole: bool = False,
    periods: bool = False,
) -> tuple[Layout, Adjacency]:
    """Check the space and the public parameters of a count: where rows belong, and what distances count.

    :param input_domain: :func:`~opendp_timeseries.event_log_domain` or an OpenDP ``LazyFrameDomain``.
    :param input_metric: a distance that counts individuals.
    :param grid: the grid that is to place the times; None where no time is to be read.
    :param by: name of the column that tells the series of a panel apart, if there is one.
    :param keys: the series of the panel.
    :param time: name of the column of event times, of a LazyFrame only.
    :param whole: whether all of the grid is one place, rather than every step one.
    :param periods: whether the count takes an individual within each period for one of their own, where the metric
        does: by the layout, which then says where periods begin. Other counts refuse such a metric.
    :raises TypeError: for a wrong domain, metric, grid or name, or a column of a LazyFrame of a wrong type.
    :raises ValueError: for keys that are not distinct, a column that a LazyFrame does not have, or a step of the grid
        that lies in two periods.
    """
    frame = isinstance(input_domain, LazyFrameDomain)
    if grid is None and time is not None:
        raise TypeError(
            f"time ({check.shown(time)}) is for a grid; give grid=, or leave it out, as no times are read without one"
        )
    if frame:
        identifier, adjacency = _of_frame(input_metric)
        times = None if grid is None else _check_time(time)
    else:
        log = descriptor_of(input_domain, EventLog, "use event_log_domain(identifier=…, time=…)")
        if time is not None:
            raise TypeError(
                f"time ({check.shown(time)}) is for a LazyFrame; leave it out, as {input_domain} names its own"
            )
        identifier, times = log.identifier, None if grid is None else log.time
        adjacency = adjacency_of(input_metric, periods=periods)
    layout = Layout.checked(
        identifier=identifier,
        time=times,
        grid=TimeGrid(size=1) if grid is None else grid,
        by=by,
        keys=keys,
        whole=whole,
        period=adjacency.period,
    )
    if frame:
        layout = layout._replace(exact=True)
        read_positions(empty_frame(input_domain), layout)
    return layout, adjacency


def _of_frame(input_metric: dp.Metric) -> tuple[str, Adjacency]:
    """Say which column of a LazyFrame identifies individuals, and what distances count."""
    kind = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if kind not in _ADJACENCY:
        raise TypeError(
            f"input_metric ({input_metric}) does not count individuals; of a LazyFrame it must be"
            " dp.symmetric_id_distance(…) or dp.change_one_id_distance(…), as in the privacy unit"
            " dp.unit_of(contributions=1, identifier=…)"
        )
    return _column(input_metric), _ADJACENCY[kind]


def _check_time(time: Any) -> str:
    if not isinstance(time, str):
        raise TypeError(
            f"time ({check.shown(time)}) must name the column of event times in the LazyFrame, for instance time='time'"
        )
    return time


def _column(metric: Any) -> str:
    """Name of the column that identifies individuals."""
    expression = metric.identifier
    if not expression.meta.is_column():  # an expression could merge individuals, or tell one's rows apart
        raise TypeError(
            f"input_metric ({metric}) must identify individuals by a plain column; make the expression a column"
            " of the LazyFrame first, and name that in dp.unit_of(…, identifier=…)"
        )
    return str(expression.meta.output_name())
