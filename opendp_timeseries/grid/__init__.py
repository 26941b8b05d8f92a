"""The public time grid: which instants belong to which step.

A grid is chosen without looking at the data: one anchored at the first event would reveal that event. All arithmetic
is on integer ticks. Times never pass through a float, so no event sits on the wrong side of an edge.
"""

from opendp_timeseries.grid.edges import StepRule, StepTable
from opendp_timeseries.grid.instants import parse_zone, whole_ticks
from opendp_timeseries.grid.periods import PERIODS, Period
from opendp_timeseries.grid.time_grid import TimeGrid, check_grid

__all__ = ["PERIODS", "Period", "StepRule", "StepTable", "TimeGrid", "check_grid", "parse_zone", "whole_ticks"]
