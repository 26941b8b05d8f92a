"""A figure as SVG within HTML: it stretches to any width, shows its numbers on hover, and needs no script.

Words stand beside the drawing, not in it, so that they keep their size.
"""

import html
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.results.contents import ends_as_text, instants_as_text
from opendp_timeseries.results.digits import THIN, digits_for, grouped, rounded
from opendp_timeseries.results.drawing import Drawing

Array = NDArray[np.float64]

_WIDTH, _HEIGHT = 1000, 300
_TICKS: Final = 5
_DATES: Final = 9
#: Below this share of the usual distance, the first two of these would touch.
_APART: Final = 0.6
_UNITS: Final[tuple[tuple[str, tuple[int, ...], str], ...]] = (
    ("h", (1, 3, 6, 12), "{0:%H:%M}"),
    ("D", (1, 2, 7, 14), "{0.day} {0:%b}"),
    ("M", (1, 3, 6), "{0:%b %Y}"),
    ("Y", (1, 2, 5, 10, 25, 50), "{0.year}"),
)


def figure(name: str, drawn: Drawing, unit: str, level: float, ends: tuple[float, float], *, captioned: bool) -> str:
    """Return the figure of a series, whose axis has these ends, or reaches a little farther."""
    low, high, ticks = _axis(*ends)
    x = np.round(_along(drawn.grid) * _WIDTH, 1)

    def y(values: Array) -> Array:
        return np.round(np.clip((high - values) / (high - low), -0.01, 1.01) * _HEIGHT, 1)

    # A week of two days has no weekend, and would look like a change.
    size = len(drawn.values)
    begin, end = int(0 in drawn.partial), size - int(size - 1 in drawn.partial)

    def boxes(bottom: Array, ceiling: Array) -> str:
        rows = list(zip(x[:-1], x[1:], y(bottom), y(ceiling), strict=True))[begin:end]
        return "".join(f"M{a:g} {b:g}H{c:g}V{d:g}H{a:g}z" for a, c, b, d in rows if math.isfinite(b + d))

    def line(values: Array, steps: slice) -> str:
        drawn, text = False, ""  # a line has gaps where nothing is known
        for begin, end, at in list(zip(x[:-1], x[1:], y(values), strict=True))[steps]:
            if at == at:
                text += f"{'' if drawn else f'M{begin:g} {at:g}'}V{at:g}H{end:g}"
            drawn = at == at
        return text

    lines = f'<path class="series" d="{line(drawn.values, slice(begin, min(drawn.ahead, end)))}"/>'
    if ahead := line(drawn.values, slice(drawn.ahead, end)):
        lines += f'<path class="ahead" d="{ahead}"/>'
    grid_lines = "".join(f"M0 {y(np.array(tick)):g}H{_WIDTH}" for tick in ticks)
    marks = "".join(f"M{(x[k] + x[k + 1]) / 2:g} 0V{_HEIGHT}" for k in drawn.marks)
    hover = "".join(
        f'<i tabindex=-1{wide} data-is="{html.escape(text)}"></i>'
        for wide, text in zip(_widths(drawn.grid), _hover_texts(drawn, unit, level), strict=True)
    )
    faint = " class=faint" if drawn.is_faint else ""
    caption = f"<figcaption>{html.escape(drawn.title(name))}</figcaption>" if captioned or faint else ""
    label = html.escape(f"{name}: {_in_short(drawn, unit)}")
    sides = "".join(
        f'<span style="top:{100 * (high - tick) / (high - low):.2f}%">{_tick(tick)}</span>' for tick in ticks
    )
    dates = ""
    for k, (at, text) in enumerate(_dates(drawn.grid) if drawn.names is None else _named(drawn.names)):
        kind = " class=odd" if k % 2 else " class=last" if at > 0.95 else ""
        dates += f'<span{kind} style="left:{100 * at:.2f}%">{text}</span>'
    return (
        f'<figure{faint}>{caption}<div class="plot"><div class="y">{sides}</div>'
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f'<path class="lines" d="{grid_lines}"/><path class="band" d="{boxes(drawn.low, drawn.high)}"/>'
        f'<path class="event" d="{marks}"/>{lines}</svg><div class="hover" aria-hidden="true">{hover}</div>'
        f'<div class="x">{dates}</div></div></figure>'
    )


def _along(grid: TimeGrid) -> Array:
    """Return how far along its axis every edge is, from 0 to 1."""
    edges = grid.edges()
    along: Array = (edges - edges[0]) / (edges[-1] - edges[0])
    return along


def _widths(grid: TimeGrid) -> list[str]:
    """Return attributes by which steps are as wide as they are long; none for the usual length."""
    lengths = np.diff(_along(grid)) * grid.size
    return [f' style="flex:{length:.3g}"' if abs(length - 1) > 1e-3 else "" for length in lengths.tolist()]


def _axis(low: float, high: float) -> tuple[float, float, list[float]]:
    """Return the ends of an axis, and round numbers on it, of which the last is its upper end."""
    span = high - low if high > low else 1.0
    rough = span / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.ceil(low / step), math.ceil((low + span) / step)
    ticks = [round(step * k, 9) for k in range(first, last + 1)]
    return low, ticks[-1], ticks


def _tick(number: float) -> str:
    return f"{number:,g}".replace(",", THIN)


def _hover_texts(drawn: Drawing, unit: str, level: float) -> list[str]:
    """Return what each step shows on hover."""
    starts = drawn.names or instants_as_text(drawn.grid)[:-1].tolist()
    step = "step " if drawn.grid.is_integer and drawn.names is None else ""
    places = digits_for(drawn.high - drawn.low)
    rows = zip(starts, drawn.values, drawn.low, drawn.high, drawn.least, drawn.greatest, strict=True)
    texts = []
    for start, value, low, high, least, greatest in rows:
        text = f"{step}{start}: {'on average ' if drawn.longer else ''}{grouped(value, places)} {unit}"
        if math.isfinite(low):
            text += f", {level:.0%} interval {grouped(low, places)} to {grouped(high, places)}"
        texts.append(
            text + (f"; steps from {grouped(least, places)} to {grouped(greatest, places)}" if drawn.longer else "")
        )
    for k in drawn.partial:
        texts[k] += "; in part"
    for k in drawn.events:
        texts[k] += "; a single event"
    for k in range(drawn.ahead, len(texts)):
        texts[k] += "; a forecast"
    return texts


def _in_short(drawn: Drawing, unit: str) -> str:
    """Return the alternative text."""
    names, (least, greatest) = drawn.names or instants_as_text(drawn.grid).tolist(), drawn.ends
    (begin, end), highest_at = ends_as_text(drawn.grid), names[int(np.argmax(drawn.greatest == greatest))]
    begin, end = (begin, end) if drawn.names is None else (names[0], names[-1])
    what = f"means of {drawn.longer}, " if drawn.longer else ""
    return (
        f"line of {what}{unit}, from {begin} to {end}; {rounded(drawn.values.mean())} on average,"
        f" lowest {rounded(least)}, highest {rounded(greatest)} ({highest_at})"
        + (f"; a forecast from {instants_as_text(drawn.grid)[drawn.ahead]} on" if drawn.ahead < drawn.grid.size else "")
    )


def _named(names: list[str]) -> list[tuple[float, str]]:
    """Return where the days of a week, or hours of a day, stand below the axis."""
    words = [name.split()[0] for name in names]
    first = [k for k, word in enumerate(words) if k == 0 or word != words[k - 1]]
    every = -(-len(first) // _DATES)
    return [(k / len(names), words[k][:5] if ":" in words[k] else words[k][:3]) for k in first[::every]]


def _dates(grid: TimeGrid) -> list[tuple[float, str]]:
    """Return where dates, or step numbers, stand below the axis, and what they say."""
    if grid.is_integer:
        numbers = _axis(0.0, float(grid.size))[2]
        return [(number / grid.size, _tick(number)) for number in numbers if number <= grid.size]
    local, along = grid.edges("local").astype("M8[s]"), _along(grid)
    for unit, lengths, form in _UNITS:
        for number in lengths:
            index = (local.astype(f"M8[{unit}]").astype(np.int64) + 3 * (unit == "D")) // number  # weeks from Monday
            begins = np.flatnonzero(np.diff(index, prepend=index[0] - (local[0] == local[0].astype(f"M8[{unit}]"))))
            if len(begins) <= _DATES:
                at = along[begins]
                if len(at) > 2 and at[1] - at[0] < _APART * (at[2] - at[1]):  # the first is a day that begins no week
                    begins, at = begins[1:], at[1:]
                words = [form.format(date.item()) for date in local[begins]]
                return list(zip(at.tolist(), words, strict=True))
    return []
