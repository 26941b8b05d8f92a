"""Figures: dates on the grid's clock, errors where they hold, and a caption that says what the marks are."""

import dataclasses
import datetime as dt
import io
import itertools
import re
import sys
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries import Series, TimeGrid, interpolate, plot
from opendp_timeseries.results.drawing import drawing_of_steps
from opendp_timeseries.results.frames import runs_of
from opendp_timeseries.results.plot import fonts_for, wrapped
from tests import make
from tests.refused import refuses
from tests.releases import panel, release_of, signal_of

figure = pytest.importorskip("matplotlib.figure")
GRID = TimeGrid(start="2013-01-01", step="1h", size=48, zone="UTC")
RELEASE = release_of(steps=[2, 17, 40], values=[4.0, 9.0, -1.0], signal=48, scale=3.0, sampling_probability=0.1)
Z90 = 1.6448536269514722


@pytest.fixture
def axes():
    return figure.Figure(layout="constrained").subplots()


@pytest.fixture
def agg():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")


def smoothed(release):
    """A series whose error covers the signal, without a fit."""
    spread = np.linspace(1.0, 2.0, release.size)
    return Series(
        release=release, values=2 * spread, standard_error=spread, error_covers="counts", model="structural model (x)"
    )


def behind(release, signal):
    """The same numbers, of a signal that is known."""
    return dataclasses.replace(release, design=dataclasses.replace(release.design, signal=signal))


def labelled(axes, label):
    (found,) = [artist for artist in axes.get_children() if artist.get_label() == label]
    return found


def test_there_is_a_caption_and_no_legend(axes):
    assert plot(interpolate(RELEASE), axes=axes, grid=GRID, guarantee=(1.0, 1e-6)) is axes
    assert axes.get_legend() is None  # it would stand where a title or the data do


def measured(keys=None, *, scale=8.0):
    dp.enable_features("contrib", "honest-but-curious")
    log = {"id": np.arange(300) % 70, "when": np.datetime64("2013-01-01", "h") + np.arange(300) % 48}
    by = {} if keys is None else {"by": "site", "keys": keys}
    chain = (
        make.space(time="when")
        >> ts.then_participation_count(GRID, participation_cap=3, excess="drop", **by)
        >> ts.then_circulant_filter(ts.gaussian_kernel(48, 1.0))
        >> ts.then_subsampled_gaussian(scale, sampling_probability=0.5, delta=1e-6)
    )
    return chain(log | {"site": np.arange(300) % 2} if keys else log)


def test_a_measured_release_knows_what_its_caption_says(axes):
    release = measured()
    lines = interpolate(release).plot(axes=axes).get_xlabel().split("\n")
    assert lines[0] == "time (UTC)"
    assert lines[1] == f"Guarantee: {release.guarantee()}"
    assert "90% intervals for the capped, filtered counts" in lines[3]
    assert lines[-1] == "Each individual counts in at most 3 steps, once in each; totals are too low by the rest"
    for silent in (
        interpolate(release).plot(axes=axes, guarantee=""),
        interpolate(measured(scale=0.0)).plot(axes=axes),
    ):
        assert silent.get_xlabel().split("\n")[1].startswith("Line: ")


def test_a_measured_panel_knows_its_keys_and_its_guarantee(agg):
    release = measured([1, 0])
    series = interpolate(release)
    drawn = plot(series)
    assert drawn[1].figure.get_supxlabel().split("\n")[1] == f"Guarantee: {release.guarantee()}"
    for key in (1, 0):
        assert np.array_equal(labelled(drawn[key], "series").get_ydata(), series.by_key()[key].values)
    # What one individual loses is a matter of the whole panel.
    assert "differential privacy" not in series.by_key()[1].plot().get_xlabel()


@pytest.mark.parametrize("known", [True, False])
def test_the_level_of_a_private_series_may_be_that_of_a_total_too(axes, log_space, known):
    grid = TimeGrid(size=48)
    noise = ts.then_subsampled_gaussian(9.0, sampling_probability=1, delta=1e-6)
    log = {"id": np.repeat(np.arange(400), 6), "time": np.arange(2400) % 48}
    series = ts.smooth((log_space >> ts.then_participation_count(grid) >> noise)(log))
    total = (log_space >> make.then_total(grid, participation_cap=20) >> noise)(log) if known else 2400
    words = " ".join(series.with_total(total).plot(axes=axes).get_xlabel().split())
    assert "for the counts of everybody, at the level of a total, each step on its own" in words
    assert "every step, once in each; the level is that of a total, with its own cap" in words
    capped = (log_space >> ts.then_participation_count(grid, participation_cap=3) >> noise)(log)
    assert "too low" not in interpolate(capped).with_total(total).to_html()


def test_an_error_of_the_signal_is_a_band(axes):
    series = smoothed(RELEASE)
    series.plot(axes=axes, confidence_level=0.5)
    low, high = series.interval(0.5)
    drawn = labelled(axes, "band").get_paths()[0].vertices
    for step in range(48):
        assert {low[step], high[step]} <= set(drawn[drawn[:, 0] == step][:, 1])


def test_an_error_of_the_noise_is_drawn_at_kept_steps_only(axes):
    # A band would be narrowest in the middle of a gap, where least is known.
    interpolate(RELEASE, clip_at_zero=True).plot(axes=axes)
    assert "band" not in [artist.get_label() for artist in axes.get_children()]
    segments = np.array(labelled(axes, "error bars").get_segments())
    assert segments[:, :, 0].tolist() == [[2, 2], [17, 17], [40, 40]]
    # Around the series, as in a table: a clipped value is no further from a count than the noisy one.
    assert np.allclose(segments[:, :, 1], np.maximum(RELEASE.values, 0)[:, None] + Z90 * 3.0 * np.array([-1, 1]))


@pytest.mark.parametrize("clock", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize(("zone", "offset"), [("Europe/Berlin", 2), ("UTC", 0), (None, 0)])
def test_dates_are_on_the_clock_of_the_grid(axes, clock, zone, offset):
    matplotlib = pytest.importorskip("matplotlib")
    start = "2024-06-03T00:00" if zone else "2024-06-03T00:00Z"
    grid = TimeGrid(start=start, step="1h", size=48, zone=zone)
    with matplotlib.rc_context({"timezone": clock}):
        plot(interpolate(RELEASE), grid=grid, axes=axes)
        ticks, formatter = axes.get_xticks(), axes.xaxis.get_major_formatter()
        labels = formatter.format_ticks(ticks)
    assert axes.get_xlabel().startswith(f"time ({zone or 'UTC'})\n")
    # Matplotlib's ticks are days since 1970, UTC: the label is the hour on the grid's clock, or the day at midnight.
    shown = [dt.datetime(1970, 1, 1) + dt.timedelta(hours=round(24 * tick) + offset) for tick in ticks]
    assert len(labels) >= 4
    assert labels == [time.strftime("%H:%M" if time.hour else "%b-%d") for time in shown]
    assert any(time.hour == 0 for time in shown)  # midnight is a tick, by that clock
    assert formatter.get_offset() == "2024-Jun-04"


def test_months_are_drawn_where_they_begin(axes):
    dates = pytest.importorskip("matplotlib.dates")
    grid = TimeGrid(start="2021-01-01", end="2025-01-01", step="1mo", zone="America/New_York")
    plot(interpolate(RELEASE), grid=grid, axes=axes)
    drawn = dates.date2num(labelled(axes, "series").get_xdata())
    begun = [dates.num2date(day, tz="America/New_York") for day in drawn]
    assert [day.strftime("%F %R") for day in begun] == [
        f"{k // 12}-{k % 12 + 1:02}-01 00:00"
        for k in range(24252, 24301)  # and the end of the last
    ]
    labels = axes.xaxis.get_major_formatter().format_ticks(axes.get_xticks())
    assert {"2021", "2022", "2023", "2024"} <= set(labels)


@pytest.mark.parametrize(
    "grid", [TimeGrid(start="2024-03-01", size=1, step="1d", zone="Europe/London"), TimeGrid(size=1)]
)
def test_a_series_of_one_step_is_seen(axes, grid):
    release = release_of(steps=[0], values=[3.0], signal=1, scale=1.0, sampling_probability=1.0)
    interpolate(release).plot(axes=axes, grid=grid)
    assert labelled(axes, "series").get_marker() == "_"
    drawn = axes.get_xlim()
    start, end = grid.edges()
    axes.set_xlim(start - (end - start), end)
    assert drawn == axes.get_xlim()  # the step in the middle, and not four years around it


def test_the_grid_of_the_release_is_used_unless_another_is_given(axes):
    made = signal_of(size=48, grid=TimeGrid(start="2013-01-01", step="1h", size=48, zone="Asia/Tokyo"))
    series = interpolate(behind(RELEASE, made))
    assert series.plot(axes=axes).get_xlabel().startswith("time (Asia/Tokyo)\n")
    assert series.plot(axes=axes, grid=GRID).get_xlabel().startswith("time (UTC)\n")


PANEL = panel(("north", "south", r"$\frac$"), steps=[2, 17, 50, 60, 100], values=[4.0, 9.0, 7.0, 6.0, 5.0], size=144)


@pytest.mark.parametrize("release", [RELEASE, PANEL])
def test_nothing_that_is_said_is_read_as_mathematics(agg, release):
    words = {"unit": r"$\frac", "guarantee": r"$\sqrt{$"}
    if release is PANEL:
        figure = next(iter(plot(interpolate(release), **words).values())).figure
    else:
        figure = interpolate(release).plot(**words).figure
    figure.canvas.draw()


def test_a_panel_has_one_caption_and_equal_axes(agg):
    drawn = plot(interpolate(PANEL), unit="visits", guarantee="private")
    assert list(drawn) == ["north", "south", r"$\frac$"]
    whole = drawn["north"].figure
    assert whole.get_supylabel() == "visits"
    whole.canvas.draw()  # no key is read as mathematics, which this one is not
    assert [axes.get_title(loc="left") for axes in drawn.values()] == ["north", "south", r"$\frac$"]
    for key, release in PANEL.by_key().items():
        assert drawn[key].get_ylim() == drawn["north"].get_ylim()
        assert drawn[key].get_xlim() == drawn["north"].get_xlim()
        assert drawn[key].get_xlabel() == drawn[key].get_ylabel() == ""
        assert np.array_equal(labelled(drawn[key], "series").get_ydata(), interpolate(release).values)


@pytest.mark.long
@pytest.mark.parametrize("panel_size", [1, 3, 5, 7, 14])
def test_nothing_in_a_panel_overlaps(agg, panel_size):
    size = 48 * panel_size
    steps = np.arange(0, size, 5)
    whole = panel(
        [f"site {k}" for k in range(panel_size)], steps=steps, values=steps % 48, size=size, scale=3.0, probability=0.2
    )
    drawn = plot(interpolate(whole), grid=GRID, guarantee=(1.0, 1e-6))
    whole = drawn["site 0"].figure
    whole.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in drawn.values()]
    boxes += [text.get_window_extent() for text in whole.texts]
    assert len(boxes) == len(whole.axes) + 2  # caption and unit; no legend
    for i, one in enumerate(boxes):
        assert whole.bbox.x0 <= one.x0 < one.x1 <= whole.bbox.x1
        assert whole.bbox.y0 <= one.y0 < one.y1 <= whole.bbox.y1
        for other in boxes[:i]:
            assert min(one.x1, other.x1) <= max(one.x0, other.x0) or min(one.y1, other.y1) <= max(one.y0, other.y0)
    # Dates stand under the lowest axes of each column.
    lowest = {axes.get_position().x0: axes for axes in drawn.values()}
    for axes in drawn.values():
        dated = axes.xaxis.get_tick_params()["labelbottom"]
        assert dated == (axes is lowest[axes.get_position().x0])


def test_a_title_over_one_series_overlaps_nothing(agg):
    axes = interpolate(RELEASE).plot(grid=GRID, guarantee=(1.0, 1e-6))
    title = axes.set_title("A title\nof two lines")
    axes.figure.canvas.draw()
    assert title.get_window_extent().y0 >= axes.get_window_extent().y1
    assert title.get_window_extent().y1 <= axes.figure.bbox.y1
    assert axes.xaxis.label.get_window_extent().y0 >= 0


def test_a_panel_says_which_series_has_another_model(agg):
    parts = [smoothed(part) for part in PANEL.parts()]
    parts[1] = dataclasses.replace(interpolate(PANEL.parts()[1]), model="linear interpolation (why)", converged=False)
    series = SimpleNamespace(release=PANEL, ahead=0, by_key=lambda: dict(zip(PANEL.keys, parts, strict=True)))
    drawn = plot(series)
    assert [axes.get_title(loc="left") for axes in drawn.values()] == [
        "north",
        "south: linear interpolation (why)",
        r"$\frac$",
    ]
    caption = drawn["north"].figure.get_supxlabel()
    assert "Line: structural model or linear interpolation\nGrey band: " in caption
    assert "\nBars, at kept steps only: " in caption


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for module in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    for release in (RELEASE, PANEL):
        refuses(r"opendp_timeseries\[plot\]", plot, interpolate(release), error=ImportError)


@pytest.mark.long
def test_some_of_many_series_are_drawn():
    many = release_of(
        steps=[],
        values=[],
        scale=1.0,
        sampling_probability=0.5,
        signal=signal_of(size=1, panel=tuple(f"s{k}" for k in range(100)), key_cap=1),
    )
    series = interpolate(many)
    refuses("100 series do not fit in a figure; choose 1 to 60 of the 100", plot, series)
    refuses(r"keys \('x'\) must be those of the release", plot, series, keys=["s3", "x"])
    drawn = plot(series, keys=["s30", "s4"])
    assert list(drawn) == ["s30", "s4"]
    assert "60 steps over all series, in at most 1 at a time, once in each" in drawn["s4"].figure.get_supxlabel()


@pytest.mark.long
def test_weeks_and_longer_steps_are_drawn_as_wide_as_they_are(agg):
    pytest.importorskip("matplotlib.dates")
    for step, wide in (("1d", False), ("24h", False), ("1w", True), ("1mo", True)):
        grid = TimeGrid(start="2024-01-01", size=5, step=step, zone="Europe/Berlin")
        release = release_of(steps=[0, 2], values=[4.0, 9.0], signal=5, scale=3.0, sampling_probability=0.1)
        drawn = plot(smoothed(release), grid=grid)
        series = labelled(drawn, "series")
        assert series.get_drawstyle() == ("steps-post" if wide else "default"), step
        assert list(series.get_xdata()) == list(grid.edges() if wide else grid.instants())
        values = smoothed(release).values
        assert list(series.get_ydata()) == [*values, *([values[-1]] if wide else [])]
        dots = labelled(drawn, "noisy values").get_offsets()[:, 0]
        edges = agg.matplotlib.dates.date2num(grid.edges())
        middles = (edges[:-1] + edges[1:]) / 2 if wide else edges[:-1]
        assert np.allclose(dots, middles[[0, 2]], rtol=0, atol=1e-6)
        band = labelled(drawn, "band").get_paths()[0].vertices
        assert band[:, 0].max() == pytest.approx(edges[-1] if wide else edges[-2])
    terms = TimeGrid.from_edges(["2024-01-08", "2024-01-10", "2024-03-28"], zone="UTC")
    one = release_of(steps=[0], values=[4.0], signal=2, scale=3.0, sampling_probability=0.5)
    assert labelled(plot(interpolate(one), grid=terms), "series").get_drawstyle() == "steps-post"


def test_a_total_beside_its_parts_has_a_scale_of_its_own(agg):
    values = [4.0, 5.0, 400.0, 500.0]
    series = interpolate(panel(["north", "city"], steps=range(4), values=values, size=4, scale=1.0, probability=1.0))
    tops = {sharey: [axes.get_ylim()[1] for axes in plot(series, sharey=sharey).values()] for sharey in (True, False)}
    assert tops[True][0] == tops[True][1] > 500
    assert tops[False][0] < 20 < 500 < tops[False][1]


@pytest.mark.parametrize("irregular", [False, True])
def test_axes_that_pandas_drew_on_are_taken_if_their_dates_are_matplotlibs(agg, irregular):
    pandas = pytest.importorskip("pandas")
    dates = pytest.importorskip("matplotlib.dates")
    grid = TimeGrid(start="2024-06-03", step="1h", size=48, zone="Europe/Berlin")
    index = pandas.DatetimeIndex(grid.instants(), tz="UTC").tz_convert("Europe/Berlin")
    other = pandas.Series(np.arange(48.0), index)
    axes = agg.figure().subplots()
    other.iloc[[0, 1, 5, 17, 47]].plot(ax=axes) if irregular else other.plot(ax=axes, x_compat=True)
    theirs = axes.lines[0].get_xdata()
    plot(interpolate(RELEASE), grid=grid, axes=axes)
    ours = labelled(axes, "series").get_xdata(orig=False)
    assert [ours[0], ours[-1]] == pytest.approx([axes.convert_xunits(x) for x in (theirs[0], theirs[-1])], abs=1e-6)
    assert ours[0] == dates.date2num(np.datetime64("2024-06-02T22:00"))


@pytest.mark.parametrize("frequency", ["h", "D", "MS"])
def test_axes_in_another_unit_of_time_are_refused_by_name(agg, frequency):
    # pandas draws regular times as a number of periods, of local time: two hours early in Berlin.
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2024-06-03", periods=48, freq=frequency, tz="Europe/Berlin")
    axes = agg.figure().subplots()
    pandas.Series(np.arange(48.0), index).plot(ax=axes)
    before = len(axes.get_children())
    refuses("axes", lambda: plot(interpolate(RELEASE), grid=GRID, axes=axes))
    refuses("axes", plot, interpolate(RELEASE), axes=axes)
    assert len(axes.get_children()) == before
    words = agg.figure().subplots()
    words.bar(["a", "b"], [1, 2])
    refuses("axes", plot, interpolate(RELEASE), grid=GRID, axes=words)


def test_noise_far_beyond_all_else_stretches_no_axis(axes):
    values = np.full(48, 2.0)
    values[[3, 4, 40]] = 500.0, 7.0, -300.0
    noisy = release_of(steps=range(48), values=values, signal=48, scale=99.0, sampling_probability=1.0)
    series = smoothed(noisy)  # a line from 2 to 4, whose band is from 0.36 to 7.3
    series.plot(axes=axes)
    assert labelled(axes, "noisy values").get_offsets()[:, 0].tolist() == [k for k in range(48) if k not in (3, 40)]
    low, high = drawing_of_steps(series, GRID, 0.9).reach
    assert (low, high) == (0.0, pytest.approx(7.29, abs=0.01))  # a band as wide as usual is in it
    marks = [tuple(a.get_offsets()[0]) for a in axes.get_children() if a.get_label() == "beyond"]
    assert marks == [(3, pytest.approx(1.5 * high)), (40, pytest.approx(-0.5 * high))]
    assert axes.get_ylim() == pytest.approx((-0.6 * high, 1.6 * high))
    assert "Triangles at the edge: noisy values beyond it (2)" in axes.get_xlabel()
    # All that interpolation draws is at the noisy values.
    interpolate(noisy).plot(axes=axes)
    assert "Triangles" not in axes.get_xlabel()


def test_an_axis_is_chosen_by_the_line_as_on_a_page(axes, agg):
    """A step that is hardly known does not press the line flat; and a line that is usually not known is grey."""
    values = np.full(48, 1000.0)
    release = release_of(steps=range(48), values=values, signal=48, scale=9.0, sampling_probability=1.0)
    errors = np.where(np.arange(48) == 7, 9000.0, 50.0)
    series = Series(values, release=release, standard_error=errors, error_covers="counts")
    series.plot(axes=axes)
    low, high = drawing_of_steps(series, GRID, 0.9).reach
    assert (low, axes.get_ylim()[0]) == (0.0, 0.0)
    assert high == 1500 < axes.get_ylim()[1] < 1600
    assert "At the edge, the widest intervals are cut" in axes.get_xlabel()
    page = series.to_html(grid=GRID)
    assert "An interval that touches the edge goes on beyond it." in page
    assert '<p class="key">' in page
    top = re.search(r'<div class="y">.*<span style="top:0.00%">([^<]+)<', page)[1]
    assert high <= float(top.replace("\u202f", "")) <= 2000
    assert labelled(axes, "series").get_color() == "#0072B2"
    unknown = dataclasses.replace(series, standard_error=np.full(48, 1500.0))
    page = unknown.to_html(grid=GRID)
    assert '<p class="key faint">' in page
    assert "goes on beyond it" not in page
    assert "A grey line is" in unknown.resample(12, grid=GRID).plot().get_xlabel()
    dim = unknown.plot(grid=GRID)
    assert labelled(dim, "series").get_color() == "0.55"
    assert dim.get_ylim()[0] < 1000 - Z90 * 1500 < 0
    assert "A grey line is" in dim.get_xlabel()
    assert "cut" not in dim.get_xlabel()
    # What else is on the axes keeps its place.
    figure_axes = agg.figure().subplots()
    figure_axes.plot([0, 47], [-5000.0, 9000.0])
    series.plot(axes=figure_axes)
    assert figure_axes.get_ylim()[1] >= 9000


def test_an_event_that_lasts_is_marked_where_it_begins_and_ends(axes):
    dataclasses.replace(smoothed(RELEASE), events=[3, *range(8, 30), 47]).plot(axes=axes)  # closed, say
    segments = np.array(labelled(axes, "events").get_segments())
    assert segments[:, :, 0].tolist() == [[3, 3], [8, 8], [29, 29], [47, 47]]
    assert "which no pattern explains (3)" in " ".join(axes.get_xlabel().split())
    assert runs_of([]) == []


@pytest.mark.long
@pytest.mark.parametrize(("city", "shared"), [(45.0, True), (500.0, False)])
def test_scales_are_free_where_heights_differ_tenfold(agg, city, shared):
    values = [4.0, 5.0, city, city]
    series = interpolate(panel(["north", "city"], steps=range(4), values=values, size=4, scale=1.0, probability=1.0))
    north, whole = plot(series).values()
    assert (north.get_ylim() == whole.get_ylim()) == shared


@pytest.mark.long
def test_a_caption_says_that_series_were_reconciled(agg):
    series = interpolate(PANEL)
    parts = [dataclasses.replace(part, model="structural model (level), reconciled") for part in series.parts]
    drawn = plot(dataclasses.replace(series, parts=parts))
    assert "Line: structural model, reconciled\n" in drawn["north"].figure.get_supxlabel()


def test_marks_are_named_apart_below_any_caption(agg):
    flat = release_of(steps=range(48), values=np.ones(48), signal=48, scale=0.5, sampling_probability=1.0)
    series = Series(np.ones(48), release=flat, standard_error=0.1, model="a model " * 60)
    axes = series.plot()
    axes.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    for below, above in itertools.pairwise(boxes):
        assert below.y1 <= above.y0 + 1


def test_totals_are_as_wide_as_their_steps(axes, agg):
    totals = smoothed(RELEASE).resample("1d", grid=GRID)
    totals.plot(axes=axes, unit="visits per day")
    assert list(labelled(axes, "series").get_xdata()) == list(totals.grid.edges())
    low, _ = totals.interval()
    assert set(low) <= set(labelled(axes, "band").get_paths()[0].vertices[:, 1])
    part = smoothed(RELEASE).resample(20).plot()
    assert list(labelled(part, "series").get_xdata()) == [0, 1, 2, 3]


@pytest.mark.parametrize("covers", ["counts", pytest.param("noise", marks=pytest.mark.long)])
def test_of_a_long_series_a_drawing_holds_what_its_pixels_show(covers):
    size, rng = 18_000, np.random.default_rng(0)
    values = rng.normal(50, 20, size)
    release = release_of(steps=range(size), values=values, signal=size, scale=3.0, sampling_probability=1.0)
    series = Series(values, release=release, standard_error=rng.uniform(1, 9, size), error_covers=covers)
    axes = series.plot()
    steps, shown = labelled(axes, "series").get_data()
    assert np.array_equal(shown, values[steps])
    assert (steps[0], steps[-1]) == (0, size - 1)
    low, high = series.interval()
    for line in (values, low, high):
        ends = np.partition(line.reshape(900, -1), (0, -1), axis=1)
        assert np.isin(ends[:, [0, -1]], line[steps]).all()
    file = io.BytesIO()
    axes.figure.savefig(file, format="svg")
    assert len(file.getvalue()) < 10**6


def test_titles_are_broken_by_the_width_of_their_letters():
    assert wrapped("one two three", 9) == "one two\nthree"
    assert wrapped("広島電鉄の乗客数と停留所", 16) == "広島電鉄の乗客数\nと停留所"


@pytest.mark.long
def test_a_panel_has_room_for_its_dates_and_the_names_of_its_keys(agg):
    keys = [f"a name that is much longer than its figure is wide, of {k}" for k in range(14)]
    values = np.full(14 * 365, 5.0)
    release = panel(keys, steps=range(len(values)), values=values, size=len(values), probability=1.0)
    grid = TimeGrid(start="2024-01-01", step="1d", size=365, zone="UTC")
    axes = plot(Series(values, release=release, standard_error=1.0), grid=grid)
    drawn = next(iter(axes.values())).figure
    drawn.canvas.draw()
    lowest = list(axes.values())[-1]
    labels = [label.get_window_extent() for label in lowest.get_xticklabels() if label.get_text()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(labels))
    assert max(one._left_title.get_window_extent().x1 for one in axes.values()) < drawn.bbox.x1


@pytest.mark.long
@pytest.mark.parametrize("days", [1, 1.7, 3, 14, 31, 45, 62, 120, 366])
@pytest.mark.parametrize("columns", [2, 3])
def test_a_panel_of_any_length_says_its_dates(agg, days, columns):
    keys, size = [f"s{k}" for k in range(6 if columns == 2 else 13)], round(24 * days)
    values = np.full(len(keys) * size, 5.0)
    release = panel(keys, steps=range(len(values)), values=values, size=len(values), probability=1.0)
    grid = TimeGrid(start="2024-03-01", step="1h", size=size, zone="Europe/Berlin")
    lowest = list(plot(Series(values, release=release, standard_error=1.0), grid=grid).values())[-1]
    lowest.figure.canvas.draw()
    labels = [label for label in lowest.get_xticklabels() if label.get_text()]
    assert 2 <= len(labels) <= 9 // columns + 2
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.long
def test_fonts_are_those_of_the_user_and_such_as_have_the_letters(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    font_manager = pytest.importorskip("matplotlib.font_manager")
    builder = pytest.importorskip("fontTools.fontBuilder").FontBuilder(1000, isTTF=True)
    pen = pytest.importorskip("fontTools.pens.ttGlyphPen").TTGlyphPen(None)
    builder.setupGlyphOrder([".notdef", "hiro"])
    builder.setupCharacterMap({ord("広"): "hiro"})
    builder.setupGlyf({name: pen.glyph() for name in (".notdef", "hiro")})
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "hiro"), (1000, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Only Hiro", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "hiro.ttf")
    usual = [font for font in font_manager.fontManager.ttflist if font.name.startswith("DejaVu")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    own = ["DejaVu Serif"]
    with matplotlib.rc_context({"font.family": own}):
        assert fonts_for(["Köln"]) == (own, "")
        assert fonts_for(["広い島"]) == (own, "い島広")
        font_manager.fontManager.addfont(tmp_path / "hiro.ttf")
        assert fonts_for(["広島"]) == ([*own, "Only Hiro"], "島")
