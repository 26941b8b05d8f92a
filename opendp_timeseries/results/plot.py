"""Figures of a series, drawn with Matplotlib (extra ``plot``). Only what is public is drawn.

Each mark is named beside it, in its own colour; there is no legend, which could hide data or a title. The caption says
what an error bar or band covers, and what it leaves out. People with any colour vision can tell the two colours apart
(Okabe & Ito 2008).
"""

from __future__ import annotations

import contextlib
import math
import textwrap
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.release.release import Release
from opendp_timeseries.results import captions
from opendp_timeseries.results.drawing import Drawing, common_axis, drawing_of_steps, drawing_of_totals
from opendp_timeseries.results.frames import AnySeries, AnyTotals, grid_of, runs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: What is made from a release, and where that is too uncertain to read; and what was released.
BLUE: Final = "#0072B2"
_FAINT: Final = "0.55"
ORANGE: Final = "#D55E00"
#: What an interval covers.
_BAND: Final = "0.84"
_WORDS: Final = "0.3"
#: Up to so many dots are drawn as points.
_FEW: Final = 400
#: Pixels across a figure, of which each shows what is highest and lowest in it.
_PIXELS: Final = 900
#: So many series fit in one figure, or on one page.
MOST_SERIES: Final = 60
#: Steps longer than this are drawn as wide as they are.
_WIDE: Final = np.timedelta64(6, "D")
#: Letters in a line of a title, in one of the words beside an axis, and dates below one.
_TITLE: Final = 90
_LABEL: Final = 36
_DATES: Final = 9
#: Share of an axis that stays free beyond what is drawn.
_MARGIN: Final = 0.05
_CUT: Final = "At the edge, the widest intervals are cut"
_GREY: Final = "A grey line is usually too uncertain to read: its interval is wider than it is high"
#: Height of a line of small words, in inches.
_LINE_OF_WORDS: Final = 0.16
#: By how this is placed, an axis shows whether it is one of Matplotlib's dates. It is no whole day or hour.
_INSTANT: Final = np.datetime64("2001-02-03T04:05", "m")

#: Keyword arguments of Matplotlib that say how a mark looks.
Style = dict[str, Any]


def plot(
    series: AnySeries,
    *,
    keys: Sequence[Hashable] | None = None,
    grid: TimeGrid | None = None,
    axes: Axes | None = None,
    unit: str = "count per step",
    confidence_level: float = 0.9,
    guarantee: tuple[float, float] | str | None = None,
    sharey: bool | None = None,
) -> Axes | dict[Hashable, Axes]:
    """Draw a series, the noisy values that it was made from, and its errors; of a panel, each series by itself.

    If the error of the series covers the counts, or their rate, a grey band shows it. If it covers the noise alone,
    only the noisy values have error bars: between them the error of the noise is smaller, but nothing is known of the
    counts. The caption says which, and what a cap leaves out. Dates are those of the grid's zone. The axis begins at
    zero, or below, and is chosen by the line and usual intervals: far wider ones stretch it by half of the line at
    most. A line that is usually too uncertain to read is grey. Noisy values far beyond all else are marked at the edge,
    and single events by a dotted line, or by two where they last: at the first of their steps, and at the last.

    :param series: a :class:`~opendp_timeseries.Series`.
    :param keys: which series of a panel to draw, in this order; by default all, up to 60.
    :param grid: the grid of the count, for dates on the axis; by default the release's own. Step numbers are drawn
        where neither is known. Of a panel, the grid of one series.
    :param axes: where to draw one series, by default on a new figure; a panel has a new figure with one caption.
        pandas draws regular times on an axis of its own kind, unless ``x_compat=True`` tells it to use Matplotlib's
        dates.
    :param unit: label of the vertical axis.
    :param confidence_level: the probability with which the band, or an error bar, covers each step.
    :param guarantee: (ε, δ) for one individual, or the guarantee in words, for the caption. By default that of the
        release, if it states one; of a reconciled series, the joint one of all that it is made from; of a panel, that
        of all of it. ``""`` leaves it out of the caption.
    :param sharey: draw the series of a panel on equal axes, so that heights compare; False gives each its own axis.
        By default they are equal unless heights differ tenfold, as of a city and its districts.
    :return: the axes; of a panel, by key. Their figure is ``next(iter(axes.values())).figure``.
    :raises ImportError: without Matplotlib, naming the extra to install.
    :raises ValueError: if the grid does not have the size of each series, the axes show another kind of time, the
        release does not have these keys, or there are more to draw than fit in a figure.
    """
    release = _release_of(series)
    if release.keys is not None:
        if axes is not None:
            raise Refusal(
                "axes", ..., "must be left out for a panel, which has a figure of its own", "draw one of by_key()"
            )
        return _plot_panel(series, keys, grid, unit, confidence_level, guarantee, sharey)
    for name, value in (("keys", keys), ("sharey", sharey)):
        if value is not None:
            raise Refusal(name, value, "must be left out for one series", "they are for a panel")
    drawn = drawing_of_steps(series, grid_of(series, grid), confidence_level)
    axes = _captioned(axes, unit, _caption(release, {"": series}, {"": drawn}, confidence_level, guarantee))
    draw(axes, drawn)
    _name_marks(axes, drawn, confidence_level)
    return axes


def _plot_panel(
    series: AnySeries,
    keys: Sequence[Hashable] | None,
    grid: TimeGrid | None,
    unit: str,
    confidence_level: float,
    guarantee: tuple[float, float] | str | None,
    sharey: bool | None,
) -> dict[Hashable, Axes]:
    release, parts = series.release, series.by_key()
    chosen = list(parts) if keys is None else list(keys)
    if unknown := [key for key in chosen if key not in parts]:
        raise Refusal("keys", unknown[0], "must be those of the release")
    if not 0 < len(chosen) <= MOST_SERIES:
        raise Refusal(
            f"{len(chosen)} series",
            ...,
            "do not fit in a figure",
            f"choose 1 to {MOST_SERIES} of the {len(parts)}: `keys=[…]`",
        )
    grid = grid_of(series, grid)
    parts = {key: parts[key] for key in chosen}
    drawn = {key: drawing_of_steps(part, grid, confidence_level) for key, part in parts.items()}
    columns = 1 if len(drawn) <= 4 else 2 if len(drawn) <= 12 else 3
    rows = math.ceil(len(drawn) / columns)
    caption = _caption(release, parts, drawn, confidence_level, guarantee)
    height = max(1.5 * rows, 2.8) + _height(caption)
    common = common_axis(drawn.values()) if sharey is None else None
    options = {"layout": "constrained", "sharex": True, "sharey": bool(sharey or common), "squeeze": False}
    figure, grid_of_axes = _pyplot().subplots(rows, columns, figsize=(9.0, height), **options)
    every = list(grid_of_axes.flat)
    for axes, (key, part) in zip(every, parts.items(), strict=False):
        draw(axes, drawn[key], columns)
        title = drawn[key].title(f"{key}" if part.converged else f"{key}: {part.model}")
        named = wrapped(title, _TITLE // columns)
        axes.set_title(named, loc="left", fontsize="medium", parse_math=False)  # a key may hold a $
    for axes in every[len(drawn) :]:
        axes.remove()
    for axes in every[max(len(drawn) - columns, 0) : len(drawn)]:  # the lowest of each column
        axes.xaxis.set_tick_params(labelbottom=True)
        axes.xaxis.get_offset_text().set_visible(True)
    figure.supylabel(
        wrapped(unit, _LABEL), y=0.5 + _height(caption) / height / 2, fontsize="medium", parse_math=False
    )  # beside the axes
    under: Style = {"fontsize": "small", "color": _WORDS, "multialignment": "left", "parse_math": False}
    figure.supxlabel(caption, x=0.01, ha="left", **under)
    right = min(columns, len(drawn)) - 1  # of the first row: its marks are those of all
    _name_marks(every[right], list(drawn.values())[right], confidence_level)
    return dict(zip(drawn, every, strict=False))


def plot_totals(
    totals: AnyTotals, *, axes: Axes | None = None, unit: str = "count", confidence_level: float = 0.9
) -> Axes:
    """Draw totals, each as wide as its step, with their intervals; see :meth:`.Totals.plot`.

    :raises ValueError: if they are of several keys.
    """
    if totals.keys is not None:
        raise Refusal("totals", ..., f"are of {len(totals.keys)} keys", "draw one of by_key()")
    series, drawn = totals.series, drawing_of_totals(totals, confidence_level)
    over = "means" if series.is_mean else "totals"
    lines = [
        _time_label(totals.grid),
        captions.guarantee_in_words(series.release, series.sources, None),
        f"Line: {over}{captions.step_in_words(totals.grid)} of {captions.models_of([series])}",
        f"Grey band: {confidence_level:.0%} intervals" if np.any(np.isfinite(drawn.low)) else "",
        _CUT if drawn.is_cut else "",
        _GREY if drawn.is_faint else "",
        *captions.totals_in_words(totals),
    ]
    axes = _captioned(axes, unit, _filled(lines))
    draw(axes, drawn, is_wide=True)
    return axes


def _release_of(series: object) -> Release:
    if not hasattr(series, "release"):
        raise TypeRefusal("series", series, "must be a Series", "interpolate or smooth the release")
    release: Release = series.release
    return release


def new_axes(height: float = 3.6) -> Axes:
    """Return the axes of a new figure, so many inches high; without Matplotlib, refuse and name the extra."""
    axes: Axes = _pyplot().subplots(figsize=(9.0, height), layout="constrained")[1]
    return axes


def _pyplot() -> Any:
    return check.installed("matplotlib.pyplot", "figures need Matplotlib", "plot")


def draw(axes: Axes, drawn: Drawing, columns: int = 1, *, is_wide: bool = False) -> None:
    """Draw what a drawing holds, on axes that reach no farther than it says, unless something else is on them.

    :param is_wide: whether steps are drawn from edge to edge; so are weeks and longer ones.
    """
    edges, dated = drawn.grid.edges(), not drawn.grid.is_integer
    placed = _places(axes, dated=dated)
    instants, values, low, high = edges[:-1], drawn.values, drawn.low, drawn.high
    if drawn.partial:  # a week of two days has no weekend, and would look like a change
        values, low, high = (row.copy() for row in (values, low, high))
        for row in (values, low, high):
            row[list(drawn.partial)] = np.nan
    points = instants[drawn.noisy_steps]
    at, (below, above) = instants[np.isfinite(low)], (end[np.isfinite(low)] for end in (low, high))
    wide = is_wide or (dated and bool(np.any(np.diff(edges) > _WIDE)))
    if wide:  # with the last value twice
        middles = edges[:-1] + np.diff(edges) // 2
        instants, points, at = edges, middles[drawn.noisy_steps], middles[np.isfinite(low)]
        values, low, high = (np.append(line, line[-1]) for line in (values, low, high))
    points, instants = placed(points), placed(instants)
    is_shared, visible = axes.has_data(), _visible_steps(values, low, high)
    if drawn.is_banded:
        look: Style = {"color": _BAND, "linewidth": 0, "label": "band", "step": "post" if wide else None}
        axes.fill_between(instants[visible], low[visible], high[visible], **look)
    elif len(at):
        thin: Style = {"color": "0.7", "linewidth": 0.8, "label": "error bars", "rasterized": len(at) > _FEW}
        axes.vlines(placed(at), below, above, **thin)
    # Many dots are a cloud, behind the line; few are points, each to be seen.
    is_sparse, dotted = len(points) <= _FEW, drawn.clipped_noisy
    look = {"s": 12.0, "alpha": 0.9} if is_sparse else {"s": 6.0, "alpha": 0.6}
    look["rasterized"] = not is_sparse  # or a vector drawing would hold every one of them
    dots: Style = {"color": ORANGE, "linewidth": 0, "zorder": 2.5} | look
    for marker, its in (("o", dotted == drawn.noisy), ("^", dotted < drawn.noisy), ("v", dotted > drawn.noisy)):
        if np.any(its):
            label = "noisy values" if marker == "o" else "beyond"
            axes.scatter(points[its], dotted[its], marker=marker, label=label, **dots)
    if drawn.marks:
        at, transform = instants[drawn.marks], axes.get_xaxis_transform()
        axes.vlines(at, 0, 1, transform=transform, color=ORANGE, linestyle=":", linewidth=0.9, label="events")
    is_single = drawn.grid.size == 1 and not wide  # no line, and no width from which Matplotlib could choose dates
    style: Style = {"drawstyle": "steps-post" if wide else "default", "marker": "_" if is_single else ""}
    line: Style = {"color": _FAINT if drawn.is_faint else BLUE, "linewidth": 1.2, "zorder": 3} | style
    past = visible[visible < drawn.ahead + wide]
    axes.plot(instants[past], values[past], label="series", **line)
    if drawn.ahead < drawn.grid.size:  # from the last step before it, so that the line has no gap
        dashed = visible[visible >= drawn.ahead - (not is_wide)]
        axes.plot(instants[dashed], values[dashed], linestyle="--", label="forecast", **line)
    if not is_shared:
        reach(axes, drawn)
    _style(axes, drawn.grid, columns)
    if is_single:
        start, end = edges
        axes.set_xlim(start - (end - start), end)


def reach(axes: Axes, drawn: Drawing) -> None:
    """Let an axis reach as far as what is drawn needs; of those that share it, the one that needs most."""
    low, high = drawn.reach
    low, high = min([low, *drawn.clipped_noisy]), max([high, *drawn.clipped_noisy])
    shared = axes.get_shared_y_axes().get_siblings(axes)
    ends = [neighbour.get_ylim() for neighbour in shared if neighbour is not axes and neighbour.has_data()]
    margin = _MARGIN * (high - low) or 1.0
    low, high = low - margin * (low < 0), high + margin
    axes.set_ylim(min([low, *(bottom for bottom, _ in ends)]), max([high, *(top for _, top in ends)]))


def _visible_steps(*lines: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return which steps make the lines look as all of them do: first, last, highest and lowest of each pixel."""
    size = len(lines[0])
    if size <= 4 * _PIXELS:
        return np.arange(size)
    starts = np.linspace(0, size, _PIXELS, endpoint=False).astype(np.intp)
    positions = [starts, np.append(starts[1:], size) - 1]
    for line in lines:
        pixels = np.split(np.nan_to_num(line), starts[1:])
        positions += [starts + [pixel.argmin() for pixel in pixels], starts + [pixel.argmax() for pixel in pixels]]
    return np.unique(np.concatenate(positions))


def _places(axes: Axes, *, dated: bool) -> Callable[[NDArray[np.generic]], NDArray[np.generic]]:
    """Return what turns instants, or step numbers, into what these axes place rightly; or refuse the axes."""
    axis = axes.xaxis
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    if converter is None:
        return np.asarray
    name = type(converter).__name__
    if not dated:
        raise Refusal(
            "axes", Quoted(name), "must show step numbers", "give the `grid=` of the count, or draw on new axes"
        )
    from matplotlib.dates import date2num

    with contextlib.suppress(Exception):  # whatever a converter raises for what is not of its kind
        if abs(axis.convert_units(_INSTANT) - date2num(_INSTANT)) < 1e-6:
            # Matplotlib warns of dates on an axis that another library gave its converter, but not of numbers.
            return np.asarray if type(converter).__module__ == "matplotlib.dates" else date2num
    raise Refusal(
        "axes",
        Quoted(name),
        "must show Matplotlib's dates, or the series would be drawn at wrong times",
        "draw on new axes, or what is there without this converter (in pandas, plot(x_compat=True))",
    )


def _style(axes: Axes, grid: TimeGrid, columns: int = 1) -> None:
    """Give axes the style of this package, and dates on the clock of the grid's zone, as many as have room.

    :param columns: how many axes share the width of the figure.
    """
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    if not grid.is_integer:
        from matplotlib.dates import DAILY, HOURLY, AutoDateLocator, ConciseDateFormatter

        zone = grid.zone or "UTC"
        # One tick would say the time of a day alone.
        room = {} if columns == 1 else {"minticks": 2, "maxticks": _DATES // columns + 1}
        locator = AutoDateLocator(tz=zone, **room)
        locator.intervald[DAILY] = [1, 7, 14, 31]  # or the last day of a month touches the first of the next
        locator.intervald[HOURLY] = [1, 2, 3, 4, 6, 12, 24]
        axes.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator, tz=zone)
        # Each day with its month: beside the axis stands that of the last tick, where the next month may begin.
        formatter.formats[2] = formatter.zero_formats[2] = "%d %b"
        formatter.offset_formats[2] = "%Y"
        axes.xaxis.set_major_formatter(formatter)


def _name_marks(axes: Axes, drawn: Drawing, level: float) -> None:
    """Write beside the last values what each mark is, from the top down, as near to it as the words have room."""
    figure = axes.figure.figure
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)  # or the room is that of axes without a caption
    forecast, color = drawn.ahead < drawn.grid.size, _FAINT if drawn.is_faint else BLUE
    at = [(np.nan_to_num(drawn.values[-1]), "forecast" if forecast else "estimate", color)]
    if drawn.is_banded:
        at.append((drawn.high[-1], f"{level:.0%} band", "0.45"))
    elif np.any(np.isfinite(drawn.low)):
        at.append((-math.inf, f"{level:.0%} error bars", "0.45"))
    if len(drawn.noisy) and not forecast:
        at.append((drawn.noisy[-1], "noisy values", ORANGE))
    low, high = axes.get_ylim()
    line = _LINE_OF_WORDS * (high - low) / axes.get_window_extent().height * axes.figure.dpi
    top = high
    for below, (value, words, color) in zip(reversed(range(len(at))), sorted(at, reverse=True), strict=True):
        y = max(min(value, top), low + below * line)
        place: Style = {"xycoords": "axes fraction", "xytext": (4, 0), "textcoords": "offset points"}
        axes.annotate(words, (1.0, (y - low) / (high - low)), **place, va="center", fontsize="small", color=color)
        top = y - line


def _time_label(grid: TimeGrid) -> str:
    return "step" if grid.is_integer else f"time ({grid.zone or 'UTC'})"


def _caption(
    release: Release,
    series: Mapping[Hashable, AnySeries],
    drawn: Mapping[Hashable, Drawing],
    level: float,
    guarantee: tuple[float, float] | str | None,
) -> str:
    parts, drawings = list(series.values()), list(drawn.values())
    count, made_from = release.design.signal.count, captions.made_from(release, parts[0])
    is_drawn = captions.draws_noisy(parts[0])
    beyond = sum(int(np.count_nonzero(item.clipped_noisy != item.noisy)) for item in drawings)
    events = sum(len(runs_of(item.events)) for item in drawings)

    def intervals(covered: Sequence[str]) -> str:
        words = dict.fromkeys(captions.measured(release, part) for part in parts if part.error_covers in covered)
        return f"{level:.0%} intervals for {' or '.join(words)}, each step on its own" if words else ""

    band, bars = intervals(captions.BANDED), intervals(("noise",))
    lines = [
        _time_label(drawings[0].grid),
        captions.guarantee_in_words(release, parts[0].sources, guarantee),
        f"Line: {captions.models_of(parts)}",
        f"Dashed line: {captions.ahead_in_words(parts[0])}" if parts[0].ahead else "",
        f"Grey band: {band}, if the model is right" if band else "",
        f"Bars, at kept steps only: {bars}" if bars else "",
        _CUT if any(item.is_cut for item in drawings) else "",
        f"Orange dots: {made_from}{', before the total' if parts[0].levelled else ''}"
        if is_drawn
        else f"Made from {made_from}; they are not drawn",
        f"Triangles at the edge: noisy values beyond it ({beyond})" if beyond else "",
        f"Dotted lines: single events, which no pattern explains ({events})" if events else "",
        _GREY if any(item.is_faint for item in drawings) else "",
        "" if count is None else captions.caps_in_words(parts[0], count, " over all series" if release.keys else ""),
    ]
    return _filled(lines)


def wrapped(text: str, cells: int) -> str:
    """Return text in lines that are so many letters wide; those of Chinese, Japanese and Korean are twice as wide."""
    wide = sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
    return textwrap.fill(text, max(cells * len(text) // max(wide, 1), 8))


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return the families that Matplotlib uses, and such as hold what these lack; and the letters that no font has."""
    from matplotlib import font_manager, ft2font

    def holds(path: str) -> set[str]:
        with contextlib.suppress(Exception):  # whatever is wrong with a file of somebody else
            charmap = ft2font.FT2Font(path).get_charmap()
            return {letter for letter in lacking if ord(letter) in charmap}
        return set()

    lacking = {letter for text in texts for letter in text if not letter.isspace()}
    families: list[str] = font_manager.FontProperties().get_family()
    for family in families:
        lacking -= holds(font_manager.findfont(font_manager.FontProperties(family=[family])))
    for font in sorted(font_manager.fontManager.ttflist, key=lambda font: (font.weight != 400, font.style, font.name)):
        if not lacking:
            break
        if letters := holds(font.fname):
            lacking -= letters
            families.append(font.name)
    return families, "".join(sorted(lacking))


def _filled(lines: Sequence[str]) -> str:
    return "\n".join(wrapped(line, 120) for line in lines if line)


def _captioned(axes: Axes | None, unit: str, caption: str) -> Axes:
    """Return axes, or those of a new figure, with their labels."""
    axes = new_axes(2.8 + _height(caption)) if axes is None else axes
    axes.set_ylabel(wrapped(unit, _LABEL), parse_math=False)
    under: Style = {"fontsize": "small", "color": _WORDS, "multialignment": "left", "parse_math": False}
    axes.set_xlabel(caption, loc="left", **under)
    return axes


def _height(caption: str) -> float:
    """About how many inches a caption takes."""
    return 0.3 + 0.16 * (1 + caption.count("\n"))
