"""The public time grid, which assigns instants to steps.

A grid is chosen without looking at the data: a grid anchored at the first event would reveal that event. All times are
whole nanoseconds from 1970, UTC, in 64-bit integers. None passes through a float, so no event falls on the wrong side
of an edge.
"""

from opendp_timeseries.grid.consecutive import extend, grid_over, steps_ahead
from opendp_timeseries.grid.instants import ONE_DAY, offset_of_fold, parse_days, parse_zone, whole_ticks
from opendp_timeseries.grid.periods import PERIODS, Period
from opendp_timeseries.grid.text_times import TextTimes, read_byte_times, read_text_times
from opendp_timeseries.grid.time_grid import StepRule, TimeGrid, check_grid

__all__ = ["ONE_DAY", "PERIODS", "Period", "StepRule", "TextTimes", "TimeGrid", "check_grid", "extend", "grid_over"]
__all__ += ["offset_of_fold", "parse_days", "parse_zone", "read_byte_times", "read_text_times", "steps_ahead"]
__all__ += ["whole_ticks"]
