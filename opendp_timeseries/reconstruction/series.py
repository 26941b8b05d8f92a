"""A full series made from a release alone, with a standard error at every step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from opendp_timeseries import _validate as check
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.reconstruction import plot, workers
from opendp_timeseries.reconstruction.frames import to_frame
from opendp_timeseries.release.release import Release, check_release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Series", "reconstruct_parts"]


#: From the least to the most.
ErrorCovers = Literal["nothing", "noise", "rate", "counts"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Series:
    """One value per step, made from a release alone: post-processing, which costs no further privacy.

    NumPy, pandas and Matplotlib take it as the array of its values.

    :param release: what it was made from.
    :param values: float64 array of ``release.size`` values, in the signal's unit.
    :param standard_error: float64 array of the same length and unit.
    :param error_covers: what the standard error covers. ``"noise"``: only what the privacy noise at the kept
        steps does to the values; how the counts themselves move between kept steps is *not* in it.
        ``"counts"``: all that the model does not know of the counts, which includes their moves. ``"rate"``: the same
        of their expectation, so not how counts vary around it. ``"nothing"``: there is none, and it is NaN.
    :param model: how it was made, in words.
    :param unfiltered: True if the values are of the counts before the release's filter; False if they are of what was
        measured. Either way of the counts after caps.
    :param converged: False if a fit did not converge; ``model`` then says why, and what was used instead.
    :param parts: of a panel, the series of each key, in order; empty for one series.
    :param sources: all releases that the values are made from, where that is more than ``release``; else empty.
    :raises ValueError: if the arrays do not have the release's size, or the parts are not one for each key.
    """

    release: Release
    values: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    error_covers: ErrorCovers
    model: str
    unfiltered: bool = False
    converged: bool = True
    parts: Sequence[Series] = ()
    sources: tuple[Release, ...] = ()

    def __post_init__(self) -> None:
        for name in ("values", "standard_error"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != (self.release.size,):
                raise ValueError(f"{name} (shape {array.shape}) must have the release's size ({self.release.size})")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "parts", tuple(self.parts))
        expected = len(self.release.keys or ())
        if len(self.parts) != expected:
            raise ValueError(f"parts ({len(self.parts)}) must be one for each key of the release ({expected})")

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which steps were kept; the others are reconstructed."""
        mask = np.zeros(self.release.size, dtype=np.bool_)
        mask[self.release.steps] = True
        return mask

    def interval(self, confidence_level: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and the upper ends of a normal interval at each step.

        Coverage is pointwise, not simultaneous: the whole course of the signal lies within all intervals far less
        often. ``error_covers`` says what they leave out: with ``"noise"`` they are honest at kept steps only, and
        narrowest between them, where least is known; with ``"nothing"`` they are NaN.

        :param confidence_level: the probability with which each interval covers, in (0, 1).
        :return: two float64 arrays of ``len(self)`` values, in the signal's unit.
        :raises ValueError: if the level is not between 0 and 1.
        """
        level = check.real("confidence_level", confidence_level, above=0.0, below=1.0)
        half = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.values - half, self.values + half

    def by_key(self) -> dict[Hashable, Series]:
        """Return the series of each key of a panel: its share of the values, by the model of its part.

        :raises ValueError: if the release has no keys.
        """
        releases = self.release.by_key()
        values, errors = (np.split(row, len(releases)) for row in (self.values, self.standard_error))
        return {
            key: replace(part, release=release, values=value, standard_error=error)
            for (key, release), part, value, error in zip(releases.items(), self.parts, values, errors, strict=True)
        }

    def with_total(self, total: float, standard_error: float = 0.0) -> Series:
        """Return the series multiplied so that it adds up to a total, as one that was released by itself.

        The shape stays, and its errors; those of the total are common to all steps.

        :param total: of all steps, and of all series of a panel.
        :param standard_error: of the total.
        :raises ValueError: if the total or the sum of the series is not positive, or a number is not finite.
        """
        total = check.real("total", total, above=0.0)
        error = check.real("standard_error", standard_error, minimum=0.0)
        found = float(self.values.sum())
        if not found > 0:
            raise ValueError(f"a series with the sum {found:g} cannot be multiplied to a total")

        def scaled(one: Series) -> Series:
            values = one.values * (total / found)
            errors = np.hypot(one.standard_error * (total / found), values * (error / total))
            return replace(one, values=values, standard_error=errors, parts=tuple(scaled(part) for part in one.parts))

        return scaled(self)

    def to_frame(
        self,
        *,
        kind: Literal["pandas", "polars"] = "pandas",
        zone: str = "local",
        confidence_level: float = 0.9,
        grid: TimeGrid | None = None,
    ) -> Any:
        """Return a data frame with one row for each step, in local time, ready to publish.

        Its columns are ``value``, ``low``, ``high`` and ``kept``: the ends of the interval are missing where the
        errors leave out how the signal moves, which is between kept steps if ``error_covers`` is ``"noise"``. The
        start of each step is ``step_start``, with its time zone, the index in pandas and a column in Polars; on a grid
        of integer steps it is ``step``. Of a panel, the series are below each other, with a column ``key`` (where keys
        are pairs, as text in Polars).

        :param kind: ``"pandas"`` (extra ``tables``) or ``"polars"`` (extra ``polars``).
        :param zone: whose clock: ``"local"`` for the grid's own zone, ``"UTC"``, or the IANA name of another.
        :param confidence_level: see :meth:`interval`.
        :param grid: the grid of the count (of one series, in a panel); by default the release's own.
        :raises ImportError: without the library, naming the extra to install.
        :raises ValueError: for an unknown kind or zone, or a grid of another size.

        >>> from opendp_timeseries import Release, interpolate
        >>> from opendp_timeseries.design.design import Design
        >>> from opendp_timeseries.design.signal import UnknownSignal
        >>> design = Design(signal=UnknownSignal(3), sampling_probability=0.7, scale=2.0)
        >>> release = Release(steps=[0, 2], values=[9.0, 4.0], design=design)
        >>> grid = TimeGrid(start="2024-03-30", size=3, step="1d", zone="Europe/London")
        >>> print(interpolate(release).to_frame(grid=grid)["value"].to_string())
        step_start
        2024-03-30 00:00:00+00:00    9.0
        2024-03-31 00:00:00+00:00    6.5
        2024-04-01 00:00:00+01:00    4.0
        """
        return to_frame(self, kind=kind, zone=zone, confidence_level=confidence_level, grid=grid)

    def plot(self, **options: Any) -> Axes:
        """Draw the series; see :func:`opendp_timeseries.plot` for the options."""
        return plot.plot(self, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values, read-only unless they are copied, so that NumPy functions take a series as an array."""
        return np.asarray(self.values, dtype) if copy is None else np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.values)

    def __getitem__(self, steps: Any) -> Any:
        """Return the values at steps, indexed as an array is."""
        return self.values[steps]

    def __iter__(self) -> Iterator[float]:
        """Go through the values, step by step."""
        return iter(self.values)

    def __repr__(self) -> str:
        error = "no standard error" if self.error_covers == "nothing" else f"standard error of the {self.error_covers}"
        return f"Series({len(self)} steps by {self.model}; {error})"


def reconstruct_parts(
    release: Release, reconstruct: Callable[..., Series], *rows: Sequence[Any], progress: bool = False
) -> Series:
    """Reconstruct each series of a panel by itself, as nothing connects the end of one with the start of the next.

    :param release: of a panel, or of one series.
    :param reconstruct: makes a series from the release of one series. Where it takes long and can be pickled, several
        processes do it.
    :param rows: whatever else it takes for each series.
    :param progress: show on standard error how many series of a panel are done.
    :return: what ``reconstruct`` returns for one series. For a panel, the series in one row; its error covers what
        that of every part does.
    :raises TypeError: for anything but a release.
    """
    release = check_release(release)
    if release.keys is None:
        return reconstruct(release, *(row[0] for row in rows))
    total = len(release.keys)

    def done(number: int) -> None:
        end = "\n" if number == total else ""
        print(f"\rsmoothed {number} of {total} series", end=end, file=sys.stderr, flush=True)

    parts = workers.each(reconstruct, list(zip(release.parts(), *rows, strict=True)), done if progress else None)
    models = [part.model for part in parts]
    named = "; ".join(f"{key}: {model}" for key, model in zip(release.keys, models, strict=True))
    return Series(
        release=release,
        values=np.concatenate([part.values for part in parts]),
        standard_error=np.concatenate([part.standard_error for part in parts]),
        error_covers=min((part.error_covers for part in parts), key=get_args(ErrorCovers).index),
        unfiltered=all(part.unfiltered for part in parts),
        model=models[0] if len(set(models)) == 1 else named,
        converged=all(part.converged for part in parts),
        parts=parts,
    )
