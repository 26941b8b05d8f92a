"""OpenDP's domains, metrics, transformations and measurements, made from designs: the only room that imports OpenDP.

Importing any of it registers all constructors with OpenDP's queries.
"""

from opendp_timeseries.plugin.circulant_filter import (
    FilterWithoutGapWarning,
    make_circulant_filter,
    then_circulant_filter,
)
from opendp_timeseries.plugin.composition import least_factor, make_composition, then_composition
from opendp_timeseries.plugin.context import compositor
from opendp_timeseries.plugin.individual_count import make_individual_count, then_individual_count
from opendp_timeseries.plugin.lp_distance import make_lp_distance, then_lp_distance
from opendp_timeseries.plugin.participation_count import (
    make_assume_participation,
    make_participation_count,
    then_assume_participation,
    then_participation_count,
)
from opendp_timeseries.plugin.participation_histogram import make_participation_histogram, then_participation_histogram
from opendp_timeseries.plugin.periods import loss_over_periods
from opendp_timeseries.plugin.private_series import make_private_series, then_private_series
from opendp_timeseries.plugin.spaces import PeriodUnitWarning, count_signal_domain, event_log_domain, period_distance
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, make_subsampled_gaussian, then_subsampled_gaussian
from opendp_timeseries.plugin.totals import make_totals, then_totals

__all__ = [
    "FilterWithoutGapWarning",
    "PeriodUnitWarning",
    "compositor",
    "count_signal_domain",
    "event_log_domain",
    "least_factor",
    "least_scale",
    "loss_over_periods",
    "make_assume_participation",
    "make_circulant_filter",
    "make_composition",
    "make_individual_count",
    "make_lp_distance",
    "make_participation_count",
    "make_participation_histogram",
    "make_private_series",
    "make_subsampled_gaussian",
    "make_totals",
    "period_distance",
    "then_assume_participation",
    "then_circulant_filter",
    "then_composition",
    "then_individual_count",
    "then_lp_distance",
    "then_participation_count",
    "then_participation_histogram",
    "then_private_series",
    "then_subsampled_gaussian",
    "then_totals",
]
