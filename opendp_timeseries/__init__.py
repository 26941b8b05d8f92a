"""Differentially private time series, as OpenDP building blocks.

The pipeline, in order: grid and event logs; the capped count; the circulant filter; the subsampled Gaussian; the
release, its record and its reconstruction. ``plan`` compares designs beforehand. Importing this
package makes the constructors available to OpenDP's ``Context.query()``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opendp_timeseries.accounting.budget import LargeDeltaWarning
from opendp_timeseries.counting.check import check_log
from opendp_timeseries.design.kernels import (
    Kernel,
    boxcar_kernel,
    exponential_kernel,
    gaussian_kernel,
)
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.ledger import Ledger
from opendp_timeseries.ledger.programme import Programme
from opendp_timeseries.planning import Participation, plan
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
from opendp_timeseries.plugin.spaces import (
    PeriodUnitWarning,
    count_signal_domain,
    event_log_domain,
    period_distance,
)
from opendp_timeseries.plugin.subsampled_gaussian import least_scale, make_subsampled_gaussian, then_subsampled_gaussian
from opendp_timeseries.plugin.totals import make_totals, then_totals
from opendp_timeseries.release.documents import read_releases, write_releases
from opendp_timeseries.release.release import Release

if TYPE_CHECKING:
    from opendp_timeseries.reconstruction.interpolate import interpolate
    from opendp_timeseries.reconstruction.reconcile import reconcile
    from opendp_timeseries.reconstruction.smooth import smooth
    from opendp_timeseries.results.means import means
    from opendp_timeseries.results.plot import plot
    from opendp_timeseries.results.series import Series

__version__ = "0.1.0"

#: Names that are imported at their first use: they register nothing with OpenDP, and need most of SciPy.
_LATER = {
    "interpolate": "reconstruction.interpolate",
    "means": "results.means",
    "plot": "results.plot",
    "reconcile": "reconstruction.reconcile",
    "Series": "results.series",
    "smooth": "reconstruction.smooth",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


# In the order of the pipeline.
__all__ = ["TimeGrid", "event_log_domain", "count_signal_domain", "period_distance", "PeriodUnitWarning"]
__all__ += ["check_log"]
__all__ += ["make_participation_count", "then_participation_count"]
__all__ += ["Tiers", "make_private_series", "then_private_series"]
__all__ += ["make_individual_count", "then_individual_count"]
__all__ += ["make_participation_histogram", "then_participation_histogram"]
__all__ += ["make_assume_participation", "then_assume_participation"]
__all__ += ["make_totals", "then_totals"]
__all__ += ["Kernel", "gaussian_kernel", "boxcar_kernel", "exponential_kernel"]
__all__ += ["make_circulant_filter", "then_circulant_filter", "FilterWithoutGapWarning"]
__all__ += ["make_lp_distance", "then_lp_distance"]
__all__ += ["make_subsampled_gaussian", "then_subsampled_gaussian", "LargeDeltaWarning", "least_scale"]
__all__ += ["make_composition", "then_composition", "least_factor", "loss_over_periods"]
__all__ += ["Release", "interpolate", "smooth", "reconcile", "means", "Series", "plot"]
__all__ += ["read_releases", "write_releases", "Participation", "plan", "Programme", "Ledger"]
__all__ += ["compositor"]
