"""Differentially private time series, as OpenDP building blocks.

The pipeline, in order: grid and event logs; the capped count; the circulant filter; the subsampled Gaussian; the
release, its record and its reconstruction. ``plan`` compares designs beforehand. Importing this
package makes the constructors available to OpenDP's ``Context.query()``.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opendp_timeseries.accounting.budget import LargeDeltaWarning
    from opendp_timeseries.counting.check import check_log
    from opendp_timeseries.design.kernels import Kernel, boxcar_kernel, exponential_kernel, gaussian_kernel
    from opendp_timeseries.design.tiers import Tiers
    from opendp_timeseries.grid import TimeGrid
    from opendp_timeseries.ledger import Ledger
    from opendp_timeseries.ledger.programme import Programme
    from opendp_timeseries.planning import Participation, plan
    from opendp_timeseries.plugin import (
        FilterWithoutGapWarning,
        PeriodUnitWarning,
        compositor,
        count_signal_domain,
        event_log_domain,
        least_factor,
        least_scale,
        loss_over_periods,
        make_assume_participation,
        make_circulant_filter,
        make_composition,
        make_individual_count,
        make_lp_distance,
        make_participation_count,
        make_participation_histogram,
        make_private_series,
        make_subsampled_gaussian,
        make_totals,
        period_distance,
        then_assume_participation,
        then_circulant_filter,
        then_composition,
        then_individual_count,
        then_lp_distance,
        then_participation_count,
        then_participation_histogram,
        then_private_series,
        then_subsampled_gaussian,
        then_totals,
    )
    from opendp_timeseries.reconstruction.interpolate import interpolate
    from opendp_timeseries.reconstruction.reconcile import reconcile
    from opendp_timeseries.reconstruction.smooth import smooth
    from opendp_timeseries.release.documents import read_releases, write_releases
    from opendp_timeseries.release.release import Release
    from opendp_timeseries.results.means import means
    from opendp_timeseries.results.plot import plot
    from opendp_timeseries.results.series import Series

__version__ = "0.1.0"

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

#: The homes of public names outside of ``plugin``. All are imported at their first use.
_HOMES = {
    "TimeGrid": "grid",
    "check_log": "counting.check",
    "Tiers": "design.tiers",
    **dict.fromkeys(("Kernel", "gaussian_kernel", "boxcar_kernel", "exponential_kernel"), "design.kernels"),
    "LargeDeltaWarning": "accounting.budget",
    "Release": "release.release",
    "interpolate": "reconstruction.interpolate",
    "smooth": "reconstruction.smooth",
    "reconcile": "reconstruction.reconcile",
    "means": "results.means",
    "Series": "results.series",
    "plot": "results.plot",
    **dict.fromkeys(("read_releases", "write_releases"), "release.documents"),
    **dict.fromkeys(("Participation", "plan"), "planning"),
    "Programme": "ledger.programme",
    "Ledger": "ledger",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'plugin')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Unless it is told not to, OpenDP has Rust trace every error. Where memory ends, Rust runs out of it while it traces,
# reports that by a trace, and waits for itself for ever. Whoever wants to see its frames sets both to 1.
for _name in ("RUST_BACKTRACE", "RUST_LIB_BACKTRACE"):
    os.environ.setdefault(_name, "0")


_QUERIES, _CONSTRUCTORS = "opendp.context", f"{__name__}.plugin"


class _Registration:
    """Registers the constructors of this package with OpenDP's queries as soon as these are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != _QUERIES:
            return None
        finders = (finder for finder in sys.meta_path if type(finder).__name__ != type(self).__name__)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in finders)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                with suppress(ValueError):
                    sys.meta_path.remove(self)
                if _CONSTRUCTORS not in sys.modules:  # or another thread imports them, and waits for this module
                    import_module(_CONSTRUCTORS)

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


# OpenDP takes longer to import than all of this package, and help, versions and grids need none of it.
if _QUERIES in sys.modules:
    import_module(_CONSTRUCTORS)
else:
    sys.meta_path.insert(0, _Registration())
