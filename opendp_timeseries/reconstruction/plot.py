"""Figures of a series, drawn with Matplotlib (extra ``plot``). Only what is public is drawn.

Each mark is named beside it, in its own colour; there is no legend, which could hide data or a title. The caption says
what an error bar or band covers, and what it leaves out. Colours are two that people with any colour vision tell apart
(Okabe & Ito 2008), and greys.
"""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from opendp_timeseries import _validate as check
from opendp_timeseries.accounting.rounding import printed_up
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.documents import joint_guarantee
from opendp_timeseries.release.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "ORANGE", "new_axes", "normal_quantile", "plot", "plot_panel", "style_axes"]

#: What is made from a release, and what was released.
BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
_BAND: Final = "0.84"
_WORDS: Final = "0.3"
#: Up to so many dots are drawn as points.
_FEW: Final = 400
#: So many series fit in one figure.
_MOST_SERIES: Final = 60
#: Steps longer than this are drawn as wide as they are.
_WIDE: Final = np.timedelta64(6, "D")
#: Height of a line of small words, in inches.
_LINE_OF_WORDS: Final = 0.16


#: What an error must cover for a band to be drawn between kept steps.
_BANDED: Final = ("rate", "counts")


class _Drawable(Protocol):
    """What a figure needs of a :class:`~opendp_timeseries.Series`."""

    @property
    def release(self) -> Release: ...
    @property
    def sources(self) -> Sequence[Release]: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def error_covers(self) -> Literal["nothing", "noise", "rate", "counts"]: ...
    @property
    def unfiltered(self) -> bool: ...
    @property
    def model(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    def interval(self, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def by_key(self) -> Mapping[Hashable, _Drawable]: ...


def plot(
    series: _Drawable,
    *,
    grid: TimeGrid | None = None,
    axes: Axes | None = None,
    unit: str = "count per step",
    confidence: float = 0.9,
    guarantee: tuple[float, float] | str | None = None,
) -> Axes:
    """Draw a series, the noisy values that it was made from, and its errors.

    If the error of the series covers the counts, or their rate, a grey band shows it. If it covers the noise alone,
    only the noisy values have error bars: between them the error of the noise is smaller, but nothing is known of the
    counts.
    The caption says which, and what a cap leaves out. Dates are those of the grid's zone.

    :param series: a :class:`~opendp_timeseries.Series` of one series.
    :param grid: the grid of the count, for dates on the axis; the release's own if left out. Step numbers are drawn
        where neither is known.
    :param axes: where to draw; a new figure if left out.
    :param unit: label of the vertical axis.
    :param confidence: what the band or the error bars are to cover, at each step on its own.
    :param guarantee: (ε, δ) for one individual, or the guarantee in words, for the caption. If left out, that of the
        release's own record, where it has one; of a reconciled series, the joint one of all that it is made from.
        ``""`` leaves it out of the caption.
    :return: the axes.
    :raises ImportError: without Matplotlib, naming the extra to install.
    :raises ValueError: if the grid does not have the release's size, or the series is a panel.

    >>> from opendp_timeseries import Release, interpolate, plot
    >>> from opendp_timeseries.design.design import Design
    >>> from opendp_timeseries.design.signal import UnknownSignal
    >>> design = Design(signal=UnknownSignal(10), sampling_probability=0.1, scale=2.0)
    >>> release = Release(steps=[2, 7], values=[9.0, 4.0], design=design)
    >>> axes = plot(interpolate(release), unit="visits per hour")
    """
    release = _release_of(series)
    if release.keys is not None:
        raise ValueError(
            f"series holds the {len(release.keys)} series of a panel; draw them with plot_panel, or one of by_key()"
        )
    grid = release.grid if grid is None else grid
    caption = _caption(release, [series], grid, confidence, guarantee)
    axes = new_axes(2.8 + _height(caption)) if axes is None else axes
    _draw(axes, series, grid, confidence)
    _name_marks(axes, series, confidence)
    axes.set_ylabel(unit)
    axes.set_xlabel(caption, fontsize="small", color=_WORDS, loc="left", multialignment="left")
    return axes


def plot_panel(
    series: _Drawable,
    *,
    keys: Sequence[Hashable] | None = None,
    grid: TimeGrid | None = None,
    unit: str = "count per step",
    confidence: float = 0.9,
    guarantee: tuple[float, float] | str | None = None,
    sharey: bool = True,
) -> dict[Hashable, Axes]:
    """Draw each series of a panel by itself, in a new figure with one caption.

    :param series: a :class:`~opendp_timeseries.Series` of a panel.
    :param keys: of those to draw, in this order; all of them if left out, if these are at most 60.
    :param grid: see :func:`plot`; the grid of one series.
    :param unit: label of the vertical axes.
    :param confidence: see :func:`plot`.
    :param guarantee: see :func:`plot`; it holds for the whole panel.
    :param sharey: draw on equal axes, so that heights compare; False gives each series a scale of its own, as for a
        city beside its districts.
    :return: the axes by key. Their figure is ``next(iter(axes.values())).figure``.
    :raises ImportError: without Matplotlib, naming the extra to install.
    :raises ValueError: if the grid does not have the size of each series, the release has no keys, or not these, or
        there are more to draw than fit in a figure.
    """
    release = _release_of(series)
    parts = _chosen(series.by_key(), keys)
    grid = release.grid if grid is None else grid
    columns = 1 if len(parts) <= 4 else 2 if len(parts) <= 12 else 3
    rows = math.ceil(len(parts) / columns)
    caption = _caption(release, list(parts.values()), grid, confidence, guarantee)
    height = 1.5 * rows + _height(caption)
    figure, grid_of_axes = _pyplot().subplots(
        rows,
        columns,
        figsize=(9.0, height),
        layout="constrained",
        sharex=True,
        sharey=bool(sharey),
        squeeze=False,
    )
    every = list(grid_of_axes.flat)
    for axes, (key, part) in zip(every, parts.items(), strict=False):
        _draw(axes, part, grid, confidence)
        title = f"{key}" if part.converged else f"{key}: {part.model}"
        axes.set_title(title, loc="left", fontsize="medium", parse_math=False)  # a key may hold a $
    right = min(columns, len(parts)) - 1  # of the first row: its marks are those of all
    _name_marks(every[right], list(parts.values())[right], confidence)
    for axes in every[len(parts) :]:
        axes.remove()
    for axes in every[max(len(parts) - columns, 0) : len(parts)]:  # the lowest of each column
        axes.xaxis.set_tick_params(labelbottom=True)
        axes.xaxis.get_offset_text().set_visible(True)
    figure.supylabel(unit, y=0.5 + _height(caption) / height / 2, fontsize="medium")  # beside the axes
    figure.supxlabel(caption, fontsize="small", color=_WORDS, x=0.01, ha="left", multialignment="left")
    return dict(zip(parts, every, strict=False))


def _release_of(series: Any) -> Release:
    if not hasattr(series, "release"):
        raise TypeError(f"series ({check.shown(series)}) must be a Series: interpolate or smooth the release")
    release: Release = series.release
    return release


def _chosen(parts: Mapping[Hashable, _Drawable], keys: Sequence[Hashable] | None) -> dict[Hashable, _Drawable]:
    """Return the parts that are to be drawn."""
    chosen = list(parts) if keys is None else list(keys)
    if unknown := [key for key in chosen if key not in parts]:
        raise ValueError(f"keys must be those of the release, of which {unknown[0]!r} is none")
    if not 0 < len(chosen) <= _MOST_SERIES:
        raise ValueError(
            f"{len(chosen)} series do not fit in a figure; choose 1 to {_MOST_SERIES} of the {len(parts)}: keys=[…]"
        )
    return {key: parts[key] for key in chosen}


def new_axes(height: float = 3.6) -> Axes:
    """Return the axes of a new figure.

    :param height: of the figure, in inches.
    :raises ImportError: without Matplotlib, naming the extra to install.
    """
    axes: Axes = _pyplot().subplots(figsize=(9.0, height), layout="constrained")[1]
    return axes


def normal_quantile(confidence: float) -> float:
    """Return how many standard errors an interval extends to either side.

    :param confidence: the probability with which it is to cover.
    :raises ValueError: if it is not between 0 and 1.
    """
    confidence = check.real("confidence", confidence, above=0.0, below=1.0)
    return float(ndtri((1 + confidence) / 2))


def _pyplot():  # type: ignore[no-untyped-def]
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("figures need Matplotlib; install opendp_timeseries[plot]") from None
    return pyplot


def _draw(axes: Axes, series: _Drawable, grid: TimeGrid | None, confidence: float) -> None:
    release = series.release
    instants = np.arange(release.size) if grid is None else grid.instants()
    if len(instants) != release.size:
        raise ValueError(f"grid ({len(instants)} steps) must have the size of the series ({release.size})")
    kept, along = instants[release.steps], _as_points
    wide = grid is not None and not grid.is_integer and bool(np.any(np.diff(edges := grid.edges()) > _WIDE))
    if wide:
        kept, instants, along = kept + (np.diff(edges) // 2)[release.steps], edges, _as_steps
    if series.error_covers in _BANDED:
        low, high = map(along, series.interval(confidence))
        axes.fill_between(instants, low, high, step="post" if wide else None, color=_BAND, linewidth=0, label="band")
    elif series.error_covers == "noise":
        low, high = (end[release.steps] for end in series.interval(confidence))
        axes.vlines(kept, low, high, color="0.7", linewidth=0.8, label="error bars")
    # Many dots are a cloud, behind the line; few are points, each to be seen.
    few = len(kept) <= _FEW
    size, opacity = (12.0, 0.9) if few else (6.0, 0.6)
    axes.scatter(
        kept,
        release.values,
        s=size,
        color=ORANGE,
        alpha=opacity,
        linewidth=0,
        zorder=2.5,
        label="noisy values",
        rasterized=not few,  # or a drawing of vectors would hold every one of them
    )
    alone = release.size == 1 and not wide  # no line, and no width from which Matplotlib could choose dates
    axes.plot(
        instants,
        along(series.values),
        drawstyle="steps-post" if wide else "default",
        color=BLUE,
        linewidth=1.2,
        marker="_" if alone else "",
        zorder=3,
        label="series",
    )
    style_axes(axes, grid)
    if alone and grid is not None:
        start, end = grid.edges()
        axes.set_xlim(start - (end - start), end)


def _as_points(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values


def _as_steps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last value a second time, so that there is one for each edge."""
    return np.append(values, values[-1])


def style_axes(axes: Axes, grid: TimeGrid | None) -> None:
    """Give axes the style of this package, and dates on the clock of the grid's zone.

    :param grid: what the horizontal axis counts; None for steps.
    """
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    if grid is not None and not grid.is_integer:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(tz=_zone(grid))
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=_zone(grid)))


def _name_marks(axes: Axes, series: _Drawable, confidence: float) -> None:
    """Write beside the last values what each mark is, from the top down, as near to it as the words have room."""
    at = [(series.values[-1], "estimate", BLUE)]
    if series.error_covers in _BANDED:
        at.append((series.interval(confidence)[1][-1], f"{confidence:.0%} band", "0.45"))
    elif series.error_covers == "noise":
        at.append((-math.inf, f"{confidence:.0%} error bars", "0.45"))
    if len(series.release):
        at.append((series.release.values[-1], "noisy values", ORANGE))
    low, high = axes.get_ylim()
    line = _LINE_OF_WORDS * (high - low) / axes.get_window_extent().height * axes.figure.dpi
    top = high
    for rest, (value, words, color) in zip(reversed(range(len(at))), sorted(at, reverse=True), strict=True):
        y = max(min(value, top), low + rest * line)
        axes.annotate(
            words,
            (1.0, (y - low) / (high - low)),
            xycoords="axes fraction",
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=color,
        )
        top = y - line


def _zone(grid: TimeGrid) -> str:
    return "UTC" if grid.zone is None else grid.zone


def _time_label(grid: TimeGrid | None) -> str:
    return "step" if grid is None or grid.is_integer else f"time ({_zone(grid)})"


def _caption(
    release: Release,
    parts: Sequence[_Drawable],
    grid: TimeGrid | None,
    confidence: float,
    guarantee: tuple[float, float] | str | None,
) -> str:
    made = release.design.signal
    # Of a panel, fits differ in detail, and a title says where one failed.
    models = dict.fromkeys(part.model if len(parts) == 1 else part.model.split(" (")[0] for part in parts)
    band, bars = (
        f"{confidence:.0%} intervals for {' or '.join(measured)}, each step on its own" if measured else ""
        for measured in (
            dict.fromkeys(_measured(made, part) for part in parts if part.error_covers in covered)
            for covered in (_BANDED, ("noise",))
        )
    )
    every = release.sampling_probability == 1
    blocks = ", one of each block" if release.sampling == "stratified" else ""
    kept = "every step" if every else f"the {len(release)} of {release.size} steps that were kept{blocks}"
    lines = [
        _time_label(grid),
        _in_words(release, parts[0].sources, guarantee),
        f"Blue line: {' or '.join(models)}",
        f"Grey band: {band}, if the model is right" if band else "",
        f"Bars, at kept steps only: {bars}" if bars else "",
        f"Orange dots: noisy values at {kept}, with noise of standard deviation {release.scale:.4g}",
        "" if made.count is None else _caps(made.count, " over all series" if release.keys else ""),
    ]
    return "\n".join(textwrap.fill(line, 120) for line in lines if line)


def _measured(made: Signal | UnknownSignal, part: _Drawable) -> str:
    """What intervals are for, in words."""
    rate = "the rate of " if part.error_covers == "rate" else ""
    if made.count is None:
        return f"{rate}the counts after caps and filters"
    if not made.kernels:
        return f"{rate}the capped counts"
    return f"{rate}the capped counts before the filter" if part.unfiltered else f"{rate}the capped, filtered counts"


def _height(caption: str) -> float:
    """About how many inches a caption takes."""
    return 0.3 + 0.16 * (1 + caption.count("\n"))


def _in_words(release: Release, sources: Sequence[Release], guarantee: tuple[float, float] | str | None) -> str:
    if isinstance(guarantee, str):
        return guarantee
    if guarantee is None:
        with contextlib.suppress(ValueError):  # one has no record, or no noise, or they do not add up
            if len(sources) > 1:
                together = joint_guarantee(sources)
                return f"Guarantee of all {len(sources)} releases behind it, if asked for at once: {together}"
            return f"Guarantee: {release.guarantee()}"
        return ""
    epsilon, delta = (printed_up(value, 4) for value in guarantee)
    count = release.design.signal.count
    who = "one individual" if count is None or count.unit.period is None else str(count.unit)
    return f"Differentially private for {who} with ε = {epsilon}, δ = {delta}"


def _caps(made: Count, where: str) -> str:
    often = "once" if made.step_cap == 1 else f"at most {made.step_cap} times"
    apart = "" if made.gap == 1 else f", at least {made.gap} steps apart"
    few = "" if made.key_cap is None else f", in at most {made.key_cap} at a time"
    caps = f"at most {made.participation_cap} steps{where}{few}, {often} in each{apart}"
    each = "each individual" if made.unit.period is None else f"each individual within {made.unit.period}"
    if made.is_assumed:
        return f"Assumed of {each}: {caps}"
    return f"Counted of {each}: {caps}; totals are too low by the rest"
