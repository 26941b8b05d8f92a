"""Means of a value: sums of it by the numbers of those whose it is, two series of one log, with their intervals.

Sums and numbers are released with independent noise, and their errors taken to be independent, too. Those of both grow
where more come than the model expects, so that intervals of their quotient hold a little more than they say. They are
Fieller's (1954): all means ``m`` for which the sum less ``m`` times the number is within its error of nothing. No mean
is below nothing or above the bound of the value. Where the number may be nothing, that is all that is known: the value
is then the mean of all, and nothing (NaN) where even the number of all may be nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.release import Release
from opendp_timeseries.results.series import Series
from opendp_timeseries.results.totals import Totals
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.errors import Array

#: A number divides a sum that is at least so many of its standard errors.
_CLEAR: Final = 3.0


class _Quotients(errors.Estimates):
    """Quotients of two series, or of their totals, whose errors are not symmetric.

    :param sums: those above.
    :param numbers: those below.
    :param bound: the largest that a quotient can be.
    """

    sums: errors.Estimates
    numbers: errors.Estimates
    bound: int

    def interval(self, confidence_level: float = 0.9) -> tuple[Array, Array]:
        """Return the lower and the upper end of Fieller's interval for each mean: 0 and the bound if no more is known.

        :param confidence_level: the probability with which each interval covers, in (0, 1), each by itself.
        :raises ValueError: if the level is not between 0 and 1.
        """
        level = check.real("confidence_level", confidence_level, above=0.0, below=1.0)
        square = float(ndtri((1 + level) / 2)) ** 2
        (above, of_above), (below, of_below) = _squares(self.sums), _squares(self.numbers)
        certain = below**2 - square * of_below
        mask = (certain > 0) & is_clear(self.numbers)
        with np.errstate(all="ignore"):
            half = np.sqrt(square * (of_above * certain + of_below * above**2)) / certain
            middle = above * below / certain
            ends = (np.clip(np.where(mask, end, np.nan), 0, self.bound) for end in (middle - half, middle + half))
            low, high = (np.where(mask, end, least) for end, least in zip(ends, (0.0, self.bound), strict=True))
        return low, high


@dataclass(frozen=True, eq=False, repr=False)
class Means(_Quotients, Series):
    """Means of a value in each step, as :func:`~opendp_timeseries.means` returns them.

    A :class:`~opendp_timeseries.Series` whose steps are not added up: :meth:`resample` gives means over longer ones.

    :param sums: of the value.
    :param numbers: of those whose it is.
    :param bound: the largest that a mean can be.
    """

    sums: Series = None  # type: ignore[assignment]
    numbers: Series = None  # type: ignore[assignment]
    bound: int = 0

    is_mean: ClassVar[bool] = True

    def with_total(self, total: float | Release, standard_error: float = 0.0) -> Series:
        """Refuse a total, as means do not add up."""
        raise Refusal(
            "means", ..., "have no total", "set the level of the sums, or of the numbers, by with_total of these"
        )

    def resample(
        self,
        step: str | int,
        *,
        groups: Mapping[Hashable, Iterable[Hashable]] | None = None,
        grid: TimeGrid | None = None,
    ) -> Totals:
        """Return the means over longer steps, of all that is in each, with their intervals.

        Parameters are those of :meth:`.Series.resample`.
        """
        groups = groups and {name: list(keys) for name, keys in groups.items()}
        sums, numbers = (series.resample(step, groups=groups, grid=grid) for series in (self.sums, self.numbers))
        size = self.release.size // len(self.release.keys or (0,))
        of_all = _mean_of_all(
            *(series.resample(size, groups=groups, grid=grid) for series in (self.sums, self.numbers)), bound=self.bound
        )
        values, standard_error = _quotients(sums, numbers, of_all, self.bound)
        return _MeansOver(
            series=self,
            values=values,
            standard_error=standard_error,
            complete=sums.complete,
            starts=sums.starts,
            grid=sums.grid,
            keys=sums.keys,
            is_bound=sums.is_bound or numbers.is_bound,
            sums=sums,
            numbers=numbers,
            bound=self.bound,
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _MeansOver(_Quotients, Totals):
    """Means over longer steps."""

    sums: Totals
    numbers: Totals
    bound: int

    def by_key(self) -> dict[Hashable, Totals]:
        """Return the means of each key or group."""
        pairs = zip(self.sums.by_key().values(), self.numbers.by_key().values(), strict=True)
        rows = (np.split(row, len(self.keys or ())) for row in (self.values, self.standard_error, self.complete))
        return {
            key: replace(
                self, values=values, standard_error=error, complete=complete, keys=None, sums=sums, numbers=numbers
            )
            for key, values, error, complete, (sums, numbers) in zip(self.keys or (), *rows, pairs, strict=True)
        }

    def __repr__(self) -> str:
        return f"Means{super().__repr__().removeprefix('Totals')}"


def means(sums: Series, numbers: Series) -> Means:
    """Return the mean of a value in each step: its sum by the number of those whose it is, with an interval.

    Post-processing of two series, which may be released together, so that both share one norm: the sums of a value, and
    the numbers of individuals with one, which are sums of the same column with the bound 1. Then the mean is of what
    an individual has in a step. Beside numbers of events, by ``step_cap``, it is of what an event has.

    Where a number is less than three of its standard errors, no mean is known: the value is then the mean of all, of
    a panel at this key, and the interval reaches from 0 to the bound. If this is so of the number of all, the value is
    NaN, and tables, figures and pages show nothing there. Elsewhere the interval is Fieller's, which is not symmetric.
    Means over longer steps, by :meth:`.Series.resample`, are of all that is in them.

    :param sums: of a value, smoothed; or a panel of them.
    :param numbers: of the same grid, keys, caps and columns but for the value and its bound, smoothed in the same way.
    :raises TypeError: unless both are series.
    :raises ValueError: if they are not of one log in this way, or have no standard errors.
    """
    bound = _bound_of(sums, numbers)
    parts = [means(*pair) for pair in zip(sums.parts, numbers.parts, strict=True)]
    size = sums.release.size // (len(parts) or 1)
    of_all = _mean_of_all(sums.resample(size), numbers.resample(size), bound=bound)
    values, standard_error = _quotients(sums, numbers, of_all, bound)
    if parts:  # each by what is known of its key
        values = np.concatenate([part.values for part in parts])
    unclear = int(np.count_nonzero(~is_clear(numbers)))
    unknown = np.isnan(values)
    usual = f"means are that of all{', if that is known' if np.any(unknown) else ''}"
    remark = "no mean is known" if np.all(unknown) else usual
    number = f"; {unclear} of {len(values)} numbers may be nothing, where {remark}" if unclear else ""
    return Means(
        values,
        release=sums.release,
        standard_error=standard_error,
        error_covers=sums.error_covers,
        model=f"sums by numbers, each by {sums.model}{number}",
        unfiltered=sums.unfiltered,
        levelled=sums.levelled,
        converged=sums.converged and numbers.converged,
        parts=parts,
        sources=tuple(
            dict.fromkeys(release for series in (sums, numbers) for release in series.sources or (series.release,))
        ),
        ahead=sums.ahead,
        sums=sums,
        numbers=numbers,
        bound=bound,
    )


def is_clear(numbers: errors.Estimates) -> NDArray[np.bool_]:
    """Return which numbers are clearly above nothing."""
    return numbers.values >= _CLEAR * numbers.standard_error


def _mean_of_all(sums: Totals, numbers: Totals, *, bound: int) -> Array:
    """Return the mean of all that is in each row, NaN where its number may be nothing."""
    with np.errstate(all="ignore"):
        means: Array = np.clip(sums.values / numbers.values, 0, bound)
    return np.where(is_clear(numbers) & (numbers.values > 0), means, np.nan)


def _quotients(sums: errors.Estimates, numbers: errors.Estimates, of_all: Array, bound: int) -> tuple[Array, Array]:
    """Return quotients and their standard errors: where the number may be nothing, that of all, of an unknown error."""
    clear = is_clear(numbers) & (numbers.values > 0)
    (above, of_above), (below, of_below) = _squares(sums), _squares(numbers)
    of_row = np.repeat(of_all, len(above) // len(of_all))
    with np.errstate(all="ignore"):
        values = np.clip(np.where(clear, above / below, of_row), 0, bound)
        return values, np.where(clear, np.sqrt(of_above + values**2 * of_below) / below, np.nan)


def _squares(series: errors.Estimates) -> tuple[Array, Array]:
    return series.values, series.standard_error**2


def _bound_of(sums: Series, numbers: Series) -> int:
    """Return the largest that a mean can be; refuse series that have none."""
    for name, series in {"sums": sums, "numbers": numbers}.items():
        if not isinstance(series, Series):
            raise TypeRefusal(name, series, "must be a Series", "smooth the release")
        if series.is_mean:
            raise Refusal(name, series, "must be sums or numbers, and not means")
        if not np.all(np.isfinite(series.standard_error)):
            raise Refusal(name, series, "must have standard errors", "smooth the release")
    count = sums.release.design.signal.count
    if count is None or not count.reading.is_sum:
        raise Refusal("sums", sums, "must be of a value, by `value=` and `bound=`")
    if _kind(sums) != _kind(numbers):
        raise Refusal(
            "numbers",
            numbers,
            "must have the grid, keys, caps, columns and steps ahead of the sums, but for `value=` and its bound",
        )
    reading = numbers.release.design.known_signal.count.reading
    if reading.is_sum and reading.step_cap != 1:
        raise Refusal(
            "numbers",
            numbers,
            "must be of individuals or events, and not of a value, unless by `bound=1`",
            f"found {reading.step_cap}",
        )
    return int(count.reading.step_cap)


def _kind(series: Series) -> tuple[object, ...] | None:
    """Return what sums and numbers of one log have in common."""
    signal = series.release.design.signal
    if signal.count is None:
        return None
    count, reading = signal.count, signal.count.reading
    read = replace(reading, source=reading.source and replace(reading.source, value=None), step_cap=1)
    return read, count.weighting, count.per, signal.stages, series.ahead, series.unfiltered, series.error_covers
