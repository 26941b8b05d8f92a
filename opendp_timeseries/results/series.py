"""A full series made from a release alone, with a standard error at every step."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._files import write_file
from opendp_timeseries._refusal import Quoted, Refusal
from opendp_timeseries._tables import html_table
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.release import Release, check_release
from opendp_timeseries.results import captions, frames, page, plot, spreadsheet
from opendp_timeseries.results.contents import contents_of
from opendp_timeseries.results.digits import grouped
from opendp_timeseries.results.frames import ErrorCovers
from opendp_timeseries.results.totals import Totals, total_by_step, totals
from opendp_timeseries.smoothing import errors
from opendp_timeseries.smoothing.workers import Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False, repr=False)
class Series(frames.AnySeries):
    """One value per step, made from a release alone: post-processing, which costs no further privacy.

    NumPy, pandas and Matplotlib take it as the array of its values. :func:`~opendp_timeseries.smooth` and
    :func:`~opendp_timeseries.interpolate` return it. Made from values of your own, it gives any reconstruction its
    figures, captions, frames and totals; those values must come from the release alone.

    :param values: float64 array of ``release.size`` values, in the signal's unit; of a panel, one series after the
        other.
    :param release: what it was made from.
    :param standard_error: float64 array of the same length and unit, or one number for all steps. By default the root
        of the diagonal of the covariance, or NaN: not known.
    :param error_covers: what the standard error covers. ``"noise"``: only what the privacy noise at the kept
        steps does to the values; how the counts themselves move between kept steps is *not* in it.
        ``"counts"``: all that the model does not know of the counts, which includes their moves. ``"rate"``: the same
        of their expectation, so not how counts vary around it. ``"nothing"``: there is none, and it is NaN. By default
        ``"counts"``, or ``"nothing"`` without standard errors.
    :param model: how it was made, in words.
    :param unfiltered: True if the values are of the counts before the release's filter; False if they are of what was
        measured. Either way of the counts after caps.
    :param levelled: True if the level is that of a total; see :meth:`with_total`.
    :param converged: False if a fit did not converge; ``model`` then says why, and what was used instead.
    :param parts: of a panel, the series of each key, in order, by default cut from this one; empty for one series.
    :param sources: all releases that the values are made from, where that is more than ``release``; else empty.
    :param events: steps of single events, which no pattern explains; figures mark them.
    :param ahead: of each series, how many of the last steps are forecasts, of which nothing was released.
    :param covariance: of the errors of all steps, for the errors of totals: an array, or whatever else multiplies a
        matrix, such as a ``LinearOperator`` of SciPy. Of draws of the series it is ``np.cov(draws, rowvar=False)``.
        None if it is not known, or that of independent parts.
    :raises TypeError, ValueError: if the arrays do not have the release's size, standard errors are negative or not
        those of the covariance, or the parts are not one for each key.

    >>> from opendp_timeseries import Release, Series
    >>> from opendp_timeseries.accounting.sampling import Sampling
    >>> from opendp_timeseries.design.design import Design
    >>> from opendp_timeseries.design.signal import UnknownSignal
    >>> design = Design(signal=UnknownSignal(60), sampling=Sampling(probability=1.0), scale=2.0)
    >>> release = Release(steps=range(60), values=np.arange(60) % 7.0, design=design)
    >>> level = Series([3.0] * 60, release=release, standard_error=0.5, model="a level", error_covers="rate")
    >>> level
    Series(60 steps by a level; standard error of the rate)
    >>> days = TimeGrid(start="2024-01-01", size=60, step="1d", zone="UTC")
    >>> months = Series(level, release=release, covariance=np.full((60, 60), 0.25)).resample("1mo", grid=days)
    >>> months.values.tolist(), months.standard_error.tolist()  # as all steps err by the same
    ([93.0, 87.0], [15.5, 14.5])
    """

    def __post_init__(self) -> None:
        size, keys = check_release(self.release).size, len(self.release.keys or ())
        given: Any = self.standard_error
        covers: object = self.error_covers
        covariance, set_field = self.covariance, partial(object.__setattr__, self)
        if covariance is not None and getattr(covariance, "shape", None) != (size, size):
            raise Refusal(
                "covariance", covariance, f"must multiply a matrix, with a row and a column for each of {size} steps"
            )
        diagonal = covariance.diagonal() if hasattr(covariance, "diagonal") else None
        if given is None:
            given = math.nan if diagonal is None else np.sqrt(np.maximum(diagonal, 0.0))
        arrays = {"values": check.reals("values", self.values), "standard_error": check.reals("standard_error", given)}
        if arrays["standard_error"].ndim == 0:
            arrays["standard_error"] = np.full(size, arrays["standard_error"])
        for name, array in arrays.items():
            if array.shape != (size,):
                raise Refusal(name, Quoted(f"shape {array.shape}"), f"must have the release's size ({size})")
            array.flags.writeable = False
            set_field(name, array)
        if not np.all(np.isfinite(self.values) | (self.is_mean & np.isnan(self.values))):
            raise Refusal("values", ..., "must be finite", "give every step one")
        if np.any(self.standard_error < 0):
            raise Refusal(
                "standard_error", ..., "must not be negative: it is the standard deviation of each step's error"
            )
        if diagonal is not None and not np.allclose(diagonal, self.standard_error**2, equal_nan=True):
            raise Refusal(
                "standard_error", ..., "must be the root of the diagonal of covariance", "leave one of them out"
            )
        default = "nothing" if np.all(np.isnan(self.standard_error)) else "counts"
        set_field("error_covers", check.choice("error_covers", covers or default, get_args(ErrorCovers)))
        events = {check.integer("events", step, minimum=0, maximum=size - 1) for step in self.events}
        set_field("events", tuple(sorted(events)))
        set_field("ahead", check.integer("ahead", self.ahead, minimum=0, maximum=size // (keys or 1) - 1))
        if np.any(self.kept & self.is_forecast):
            raise Refusal("ahead", self.ahead, "must be of steps after the last one that was kept")
        if self.parts and len(self.parts) != keys:
            raise Refusal("parts", len(self.parts), f"must be one for each key of the release ({keys})")
        set_field("parts", tuple(self._of_keys(size // keys)) if keys else ())

    def _of_keys(self, size: int) -> Iterator[Series]:
        """Go through the series of a panel: their shares of the values, each by the model of its part."""
        for k, release in enumerate(self.release.parts()):
            first = k * size
            values, error = (row[first : first + size] for row in (self.values, self.standard_error))
            if self.parts:
                part = self.parts[k]
                covariance, events = part.covariance_with(error), part.events
            else:
                part = self
                covariance = None if self.covariance is None else errors.part_of(self.covariance, first, size)
                events = [step - first for step in self.events if first <= step < first + size]
            yield replace(
                part,
                release=release,
                values=values,
                standard_error=error,
                covariance=covariance,
                events=events,
                ahead=self.ahead,
            )

    def covariance_with(self, standard_error: NDArray[np.float64]) -> errors.AnyCovariance | None:
        """Return the covariance if it is also that of these standard errors; else None, as it is not known."""
        same = np.array_equal(self.standard_error, standard_error, equal_nan=True)
        return self.covariance if same else None

    def with_total(self, total: float | Release, standard_error: float = 0.0) -> Series:
        """Return the series multiplied so that it adds up to a total, as one that was released by itself.

        The shape stays, and its errors; those of the total are common to all of its steps. Captions and pages state the
        joint guarantee of both releases; if they have different units of privacy, or measures, that of each.

        :param total: of all steps, and of all series of a panel; or the release of a
            :func:`~opendp_timeseries.make_participation_count` with ``per``, which may be one of each period, each key,
            or each group of keys.
        :param standard_error: of a total that is a number; a release knows its own.
        :raises TypeError: for the release of anything but a total of what the series counts.
        :raises ValueError: if a total or the sum of its steps is not positive, or a number is not finite.
        """
        sources = self.sources
        if self.ahead:
            raise Refusal("ahead", self.ahead, "must be left out where a total sets the level: it has no such steps")
        if isinstance(total, Release):
            if standard_error:
                raise Refusal(
                    "standard_error", Quoted(standard_error), "must be left out: the release of a total knows it"
                )
            levels, error = total.values, total.scale
            total_of_step = total_by_step(self.release, total, unfiltered=self.unfiltered)
            sources = tuple(dict.fromkeys((*(sources or (self.release,)), total)))  # a total twice is released once
        else:
            levels = np.array([check.real("total", total, above=0.0)])
            error = check.real("standard_error", standard_error, minimum=0.0)
            total_of_step = np.zeros(len(self), dtype=np.int64)
        sums = np.bincount(total_of_step, weights=self.values, minlength=len(levels))
        if not (sums.min() > 0 and levels.min() > 0):
            raise Refusal(
                f"a series with the sum {sums.min():g}",
                ...,
                f"cannot be multiplied to a total of {levels.min():g}: both must be positive",
            )

        def rescale(series: Series, ratios: Array, shared: Array, numbers: NDArray[np.int64]) -> Series:
            values, joint, size = series.values * ratios, series.covariance, len(series.parts) or 1
            if joint is None and series.parts and all(part.covariance is not None for part in series.parts):
                joint = errors.independent([part.covariance for part in series.parts])
            if joint is not None:
                joint = errors.rescale(joint, ratios) + errors.common_error(values * shared, error_of_step=numbers)
            rows = zip(series.parts, *(np.split(row, size) for row in (ratios, shared, numbers)), strict=False)
            return replace(
                series,
                values=values,
                standard_error=np.hypot(series.standard_error * ratios, values * shared),
                covariance=joint,
                levelled=True,
                parts=tuple(rescale(*part) for part in rows),
                sources=sources,
            )

        return rescale(self, (levels / sums)[total_of_step], (error / levels)[total_of_step], total_of_step)

    def resample(
        self,
        step: str | int,
        *,
        groups: Mapping[Hashable, Iterable[Hashable]] | None = None,
        grid: TimeGrid | None = None,
    ) -> Totals:
        """Return the totals over longer steps, such as days, weeks and months, with their standard errors.

        Errors of neighbouring steps depend on each other: those of a total follow from the covariance of them all.
        Where that is not known, a total has the most that its error can be. Between kept steps, interpolation knows no
        errors, and totals over such steps have none.

        :param step: as of a :class:`TimeGrid`, such as ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"``, ``"1y"`` or ``"6h"``,
            by the calendar of the grid's zone; the first and the last may lie on the grid in part. Or a number of
            steps, from the first.
        :param groups: names, each with the keys of a panel that it adds up, such as ``{"all": ["a", "b"]}``. Where the
            total of such a group was itself released, take that: it is nearer to the truth.
        :param grid: see :meth:`to_frame`.
        :raises ValueError: if there is no such step, it divides steps of the grid, or keys are unknown.
        """
        return totals(self, step, groups=groups, grid=grid)

    def to_frame(
        self,
        *,
        library: Literal["pandas", "polars"] = "pandas",
        zone: str = "local",
        confidence_level: float = 0.9,
        grid: TimeGrid | None = None,
    ) -> Any:
        """Return a data frame with one row for each step, in local time, ready to publish.

        Its columns are ``value``, ``low``, ``high`` and ``kept``, and ``forecast`` if there are steps ahead. The ends
        of the interval are missing where the errors leave out how the signal moves, which is between kept steps if
        ``error_covers`` is ``"noise"``. The start of each step is ``step_start``, with its time zone, the index in
        pandas and a column in Polars; on a grid of integer steps it is ``step``. Of a panel, the series are below each
        other, with a column ``key``.

        :param library: ``"pandas"`` (extra ``tables``) or ``"polars"`` (extra ``polars``).
        :param zone: whose clock: ``"local"`` for the grid's own zone, ``"UTC"``, or the IANA name of another.
        :param confidence_level: see :meth:`interval`.
        :param grid: the grid of the count (of one series, in a panel); by default the release's own.
        :raises ImportError: without the library, naming the extra to install.
        :raises ValueError: for an unknown library or zone, or a grid of another size.

        >>> from opendp_timeseries import Release, interpolate
        >>> from opendp_timeseries.accounting.sampling import Sampling
        >>> from opendp_timeseries.design.design import Design
        >>> from opendp_timeseries.design.signal import UnknownSignal
        >>> design = Design(signal=UnknownSignal(3), sampling=Sampling(probability=0.7), scale=2.0)
        >>> release = Release(steps=[0, 2], values=[9.0, 4.0], design=design)
        >>> grid = TimeGrid(start="2024-03-30", size=3, step="1d", zone="Europe/London")
        >>> print(interpolate(release).to_frame(grid=grid)["value"].to_string())
        step_start
        2024-03-30 00:00:00+00:00    9.0
        2024-03-31 00:00:00+00:00    6.5
        2024-04-01 00:00:00+01:00    4.0
        """
        low, high = frames.known_interval(self, confidence_level)
        rows = {"value": self.values, "low": low, "high": high, "kept": self.kept}
        rows |= {"forecast": self.is_forecast} if self.ahead else {}
        return frames.to_frame(rows, frames.grid_of(self, grid), self.release.keys, library=library, zone=zone)

    def plot(self, **options: Any) -> Axes | dict[Hashable, Axes]:
        """Draw the series; see :func:`opendp_timeseries.plot` for the options."""
        return plot.plot(self, **options)

    def to_html(self, path: str | PathLike[str] | None = None, **options: Any) -> str:
        """Return a page to publish, one HTML file, and write it where a path is given.

        It has a figure of each series with its numbers on hover, totals with intervals, what is protected, how far the
        numbers are from the truth, how to cite them, and the record and a table to download. It needs no other file,
        runs no script and asks for nothing from anywhere. All of it is made from the release alone. It has at most a
        megabyte: a table, or a record, that has no room even when it is packed is left out.

        :param path: of the file, which is replaced if there is one.
        :param options: ``title``, what is counted, in words; ``unit`` of the values, such as ``"trips per hour"``;
            ``totals``, the step of the totals, see :meth:`resample`, by default one that suits the grid, and ``""`` for
            none; ``earlier``, the series of fewer releases, as a page of them has it, to say which totals are revised;
            ``beside``, series on the same grid to show first, such as the reconciled total of a panel;
            ``confidence_level``, see :meth:`interval`; ``grid``, see :meth:`to_frame`; ``guarantee``, see
            :func:`opendp_timeseries.plot`; ``notes``, further sentences on what is protected; ``people``, series of
            releases of numbers of individuals, in a row or by the names of times; ``profiles``, whether a usual week
            and a usual day are drawn, periods are set against those of a year before, and it is said what may be
            compared; ``decimal``, the decimal mark of the table in CSV, with ``","`` of which semicolons separate
            fields; and ``cite``, how to cite the page, by default its title, the guarantee, the software and the
            method.
        :raises OSError: if the file cannot be written.
        """
        text = page.page_of(contents_of(self, **options))
        write_file(path, text.encode())
        return text

    def to_excel(self, path: str | PathLike[str], **options: Any) -> None:
        """Write a workbook for Excel or LibreOffice (extra ``excel``): the series, totals with intervals, and notes.

        Each series has a column, beside local times without their zone, which spreadsheets do not know. The options
        are those of :meth:`to_html`.

        :raises ImportError: without openpyxl, naming the extra to install.
        :raises ValueError: if there are more steps or series than a sheet holds.
        """
        write_file(path, spreadsheet.workbook_of(contents_of(self, **options)))

    def to_csv(self, path: str | PathLike[str] | None = None, **options: Any) -> str:
        """Return a table that spreadsheets open as it is, and write it where a path is given.

        Each series has a column, and two for its interval, beside local times without their zone. ``beside``,
        ``confidence_level``, ``grid`` and ``decimal`` are options, as of :meth:`to_html`.
        """
        table = spreadsheet.table_of(contents_of(self, totals="", **options))
        write_file(path, table.encode())
        return table

    def __getitem__(self, steps: Any) -> Any:
        """Return the values at steps, indexed as an array is."""
        return self.values[steps]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def _repr_html_(self) -> str:
        half = self.interval()[1] - self.values
        error = f"±{np.nanmedian(half):.3g}, of the {self.error_covers}" if np.any(np.isfinite(half)) else "not known"
        average = f"{np.mean(self.values):.4g}" if np.all(np.isfinite(self.values)) else "not known"
        header = ("steps", "made by", "average", "90% interval, in the middle of all")
        return html_table(header, [(grouped(len(self)), captions.made_by(self), average, error)])

    def __repr__(self) -> str:
        error = "no standard error" if self.error_covers == "nothing" else f"standard error of the {self.error_covers}"
        ahead = f", {self.ahead} of them ahead," if self.ahead else ""
        return f"Series({len(self)} steps{ahead} by {captions.made_by(self)}; {error})"


def progress_line(total: int) -> Callable[[int], None]:
    """Return what shows on standard error how many series are done."""

    def done(number: int) -> None:
        end = "\n" if number == total else ""
        with contextlib.suppress(OSError, ValueError):  # of a terminal that is gone
            print(f"\rsmoothed {number} of {total} series", end=end, file=sys.stderr, flush=True)

    return done


def reconstruct_parts(
    release: Release, reconstruct: Callable[..., Series], *rows: Sequence[object], progress: bool = False
) -> Series:
    """Reconstruct each series of a panel by itself, as nothing connects the end of one with the start of the next.

    :param reconstruct: makes a series from the release of one series.
    :return: what ``reconstruct`` returns; for a panel, see :func:`panel_of`.
    """
    parts = of_each_part(release, reconstruct, *rows, progress=progress)
    return parts[0] if release.keys is None else panel_of(release, parts)


def of_each_part(
    release: Release, function: Callable[..., _Result], *rows: Sequence[object], progress: bool = False
) -> list[_Result]:
    """Return what a function returns for the release of each series of a panel; of one series, for this one.

    :param function: where it takes long and can be pickled, several processes work it out.
    :param rows: whatever else it takes for each series.
    :param progress: show on standard error how many series of a panel are done.
    """
    keys = check_release(release).keys
    if keys is None:
        return [function(release, *(row[0] for row in rows))]
    done = progress_line(len(keys)) if progress else None
    with Pool() as pool:
        return pool.map(function, list(zip(release.parts(), *rows, strict=True)), done)


def panel_of(release: Release, parts: Sequence[Series], **change: Any) -> Series:
    """Return the series of all keys in one row, whose error covers what that of every part does.

    :param change: of what follows from the parts, fields that are known otherwise.
    """
    keys = release.keys or ()
    models = [part.model for part in parts]
    named = "; ".join(f"{key}: {model}" for key, model in zip(keys, models, strict=True))
    return Series(
        release=release,
        values=np.concatenate([part.values for part in parts]),
        standard_error=np.concatenate([part.standard_error for part in parts]),
        error_covers=min((part.error_covers for part in parts), key=get_args(ErrorCovers).index),
        unfiltered=all(part.unfiltered for part in parts),
        model=models[0] if len(set(models)) == 1 else named,
        converged=all(part.converged for part in parts),
        parts=parts,
        ahead=parts[0].ahead if parts else 0,
        events=[k * len(part) + step for k, part in enumerate(parts) for step in part.events],
        **change,
    )
