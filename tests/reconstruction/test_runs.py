"""Releases of consecutive grids that are smoothed together, and forecasts of the steps after them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers, tiers_for
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.reconstruction.runs import Run, runs_of
from opendp_timeseries.release.documents import read_document
from opendp_timeseries.results import captions
from opendp_timeseries.results.contents import contents_of
from opendp_timeseries.results.digits import grouped
from opendp_timeseries.smoothing import structural
from opendp_timeseries.smoothing.basis import Basis
from opendp_timeseries.smoothing.counts import counts_of
from opendp_timeseries.smoothing.linearised import Learnt, Link, Model
from opendp_timeseries.smoothing.observations import Observations
from tests import make
from tests.oracles import forecasts as oracle
from tests.reconstruction.simulated import error_and_cover, local_rate, week
from tests.reconstruction.test_joint import hours
from tests.refused import refuses
from tests.releases import release_of, signal_of
from tests.smoothing.test_everybody import count_of
from tests.smoothing.test_everybody import released as private

BERLIN = "Europe/Berlin"
#: In the middle of the second, clocks go forward.
SPRING = [
    ts.TimeGrid(start=start, end=end, step="1h", zone=BERLIN)
    for start, end in [("2024-02-26", "2024-03-18"), ("2024-03-18", "2024-04-08"), ("2024-04-08", "2024-04-29")]
]
ALL_SPRING = ts.TimeGrid(start="2024-02-26", end="2024-04-29", step="1h", zone=BERLIN)
SEASONS = ("1d", "1w")
MONTHS = ("2024-01-01", "2024-02-01", "2024-03-01")


def of_hours(counts, grid, rng, *, scale=20.0, probability=1.0, **change):
    """A model of a release with a cap, of one series or of a panel: NumPy's noise, to be reproducible."""
    signal = signal_of(size=grid.size, grid=grid, **change)
    kept = np.flatnonzero(rng.random(counts.size) < probability)
    noisy = counts.ravel()[kept] + rng.normal(0, scale, len(kept))
    return release_of(steps=kept, values=noisy, signal=signal, scale=scale, sampling_probability=probability)


def spring(rng, factor=1.0):
    """Counts of nine weeks by the clock, with weather that comes and goes."""
    weather = np.exp(np.convolve(rng.normal(0, 0.05, ALL_SPRING.size), 0.95 ** np.arange(200))[: ALL_SPRING.size])
    return rng.poisson(factor * local_rate(ALL_SPRING) * weather).astype(float)


def in_parts(counts):
    return np.split(counts, np.cumsum([grid.size for grid in SPRING])[:-1], axis=-1)


# What is fitted, where everything is known.


def test_steps_of_other_noise_and_steps_ahead_are_those_of_dense_conditioning():
    rng, size, last = np.random.default_rng(4), 90, 70
    kept = np.flatnonzero(rng.random(last) < 0.7)
    noise = rng.uniform(0.3, 3.0, len(kept))
    seen = Observations(size, kept, rng.normal(5, 2, len(kept)), noise)
    model = Model(seen, Basis(size, (), False, 100), Link(square=False, unit=1.0, mean=2.0))
    learnt = Learnt(np.log([0.4, 6.0]), 0.0)
    found = structural._posterior(model, model.linearise(np.zeros(len(kept)), 0.0), learnt).posterior
    mean, variance, covariance = oracle.posterior(
        size, kept, seen.values, noise, level=1.0, fading=(0.4, 6.0), mean=2.0
    )
    assert np.allclose(found.mean, mean, rtol=0, atol=1e-9)
    assert np.allclose(found.variance, variance, rtol=0, atol=1e-9)
    week_ahead = np.where(np.arange(size) >= last, 1.0, 0.0)
    assert week_ahead @ (found.joint @ week_ahead) == pytest.approx(week_ahead @ covariance @ week_ahead, abs=1e-9)
    # Counts scatter around the rate: those that were seen are known better, those ahead as well as the rate and this.
    counts, spread, _ = counts_of(seen, found._replace(dispersion=0.5))
    expected = oracle.counts(mean, variance, kept, seen.values, noise, own=0.5 * mean)
    assert np.allclose(counts, expected[0], rtol=0, atol=1e-9)
    assert np.allclose(spread, expected[1], rtol=0, atol=1e-9)


def test_releases_with_one_noise_are_as_one_release():
    rng = np.random.default_rng(1)
    counts = spring(rng)
    parts = [of_hours(one, grid, rng) for one, grid in zip(in_parts(counts), SPRING, strict=True)]
    whole = of_hours(counts, ALL_SPRING, rng)
    whole = replace(whole, values=np.concatenate([one.values for one in parts]))
    expected = ts.smooth(whole, seasons="1d")
    (found,) = ts.smooth(parts[::-1], seasons="1d")  # in any order
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.standard_error, expected.standard_error)
    assert found.release.grid == ALL_SPRING
    assert found.sources == tuple(parts)
    assert len(found.resample("1w")) == 9


def test_a_release_of_nothing_but_noise_tells_no_more_than_none():
    rng = np.random.default_rng(2)
    counts = in_parts(spring(rng))
    first = of_hours(counts[0], SPRING[0], rng)
    nothing = of_hours(counts[1], SPRING[1], rng, scale=1e4)
    ahead = ts.smooth(first, ahead=SPRING[1].size)
    (found,) = ts.smooth([first, nothing])
    last = SPRING[0].size
    assert np.abs(found.values - ahead.values)[:last].max() < 0.2 * ahead.standard_error.min()
    assert np.allclose(found.standard_error, ahead.standard_error, rtol=0.05)
    # Without a pattern, a series goes on at its mean, though it is fitted by its root.
    assert ahead[-1] == pytest.approx(counts[0].mean(), rel=0.05)


@pytest.mark.parametrize(("start", "size"), [("2023-02-01", 672), ("2023-04-01", 720)])
def test_values_in_tiers_of_other_lengths_are_brought_to_those_of_the_longest(start, size):
    """Of people who come in as large a share of the steps, as far as tiers end alike; and the last tier exactly."""
    releases, often = [], np.array([1, 5, 20, 60, 150, 300, 600])
    people = 1000 / often
    longer = ts.TimeGrid(start=start, size=size, step="1h", zone="UTC").end
    for begin, steps in ((start, size), (longer, 744)):
        count = count_of(steps)
        grid = ts.TimeGrid(start=begin, size=steps, step="1h", zone="UTC")
        count = replace(count, reading=replace(count.reading, grid=grid))
        table = count.tiers.table(steps)
        rows = table.weights[np.searchsorted(table.ends, often * steps / 744)] / 2**RESOLUTION_BITS
        values = np.repeat(people @ rows, steps)
        made = {"steps": np.arange(len(values)), "values": values, "signal": Signal(count)}
        releases.append(release_of(**made, scale=2.0, sampling_probability=1.0))
    found = Run(tuple(releases)).tiers()
    first, last = found.values[:, 0, 0], found.values[:, 0, -1]
    assert np.allclose(first, last, rtol=0.003)  # .006 and .018, if of as many steps
    assert np.allclose(found.values[-1] / found.weights[0, -1], people.sum())
    assert np.allclose(np.mean(found.noise**2, axis=1), 1)
    assert np.allclose(found.noise[:, 0], found.noise[:, -1], rtol=0.06)


# Near the truth, and covered.


@pytest.mark.long
@pytest.mark.parametrize("probability", [1.0, 0.4])
def test_parts_are_nearer_together_than_alone(probability):
    alone, together, covers = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        counts = spring(rng, 0.5)
        parts = [
            of_hours(one, grid, rng, scale=scale, probability=probability)
            for one, grid, scale in zip(in_parts(counts), SPRING, (25.0, 25.0, 50.0), strict=True)
        ]
        (series,) = ts.smooth(parts, seasons=SEASONS)
        error, cover = error_and_cover(series, counts)
        together.append(error)
        covers.append(cover)
        each = [ts.smooth(part, seasons=SEASONS) for part in parts]
        alone.append(np.abs(np.concatenate([one.values for one in each]) - counts).mean())
    assert np.mean(together) < 0.92 * np.mean(alone)
    assert 0.85 < np.mean(covers) < 0.96


@pytest.mark.long
def test_a_private_series_goes_on_by_the_clock():
    """Over a change of the clocks, on a run of two releases of other noise."""
    errors, usual, covers = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        counts = in_parts(spring(rng, 2.0))
        releases = []
        for one, grid, scale in zip(counts[:2], SPRING[:2], (13.0, 18.0), strict=True):
            made = count_of(grid.size, Tiers(ends=(10, 80)))
            made = replace(made, reading=replace(made.reading, grid=grid))
            thin = rng.binomial(one.astype(int), 0.7)
            releases.append(private({5: thin, 60: one - thin}, rng, scale=scale, count=made))
        (series,) = ts.smooth(releases, seasons=SEASONS, ahead="1w")
        assert series.ahead == 168
        truth = np.concatenate([*counts[:2], counts[2][:168]])
        errors.append(np.abs(series - truth)[-168:].mean())
        usual.append(np.abs(counts[1][-168:] - counts[2][:168]).mean())
        low, high = series.interval()
        covers.append(np.mean(((low <= truth) & (truth <= high))[-168:]))
    assert np.mean(errors) < np.mean(usual)  # of the last true week
    assert 0.8 < np.mean(covers) < 0.98


def test_panels_go_on_and_add_up():
    rng = np.random.default_rng(3)
    counts = hours(3, keys=5, weeks=3)
    grids = [ts.TimeGrid(start=start, size=168, step="1h", zone="UTC") for start in ("2024-01-01", "2024-01-08")]
    keys = tuple(f"k{k}" for k in range(5))
    made = [
        of_hours(counts[:, first : first + 168], grid, rng, scale=8.0, panel=keys)
        for first, grid in zip((0, 168), grids, strict=True)
    ]
    releases = [replace(one, invocation=name) for one, name in zip(made, "ab", strict=True)]
    groups = Groups.of({"city": list(keys)}, keys)
    totals = []
    for one, first in zip(releases, (0, 168), strict=True):
        signal = one.design.signal.after(groups)
        noisy = counts[:, first : first + 168].sum(axis=0) + rng.normal(0, 10.0, 168)
        made = release_of(steps=np.arange(168), values=noisy, signal=signal, scale=10.0, sampling_probability=1.0)
        totals.append(replace(made, invocation=one.invocation))
    stations, city = ts.smooth([releases[0], totals[0], totals[1], releases[1]], seasons=(24, 168), ahead="1w")
    assert "jointly" in stations.model
    rows = np.array([one.values for one in stations.by_key().values()])
    assert np.allclose(rows.sum(axis=0), city)
    assert rows.min() >= 0
    low, high = stations.interval()
    truth = counts.ravel()
    covered = ((low <= truth) & (truth <= high))[stations.is_forecast]
    assert covered.shape == (5 * 168,)
    assert 0.7 < covered.mean() < 0.99
    north = stations.resample("1w", groups={"north": ["k0", "k1"]})
    assert north.is_forecast.tolist() == [False, False, True]
    assert north.standard_error[-1] > north.standard_error[0]
    # Each by itself, with nothing joint.
    few = replace(releases[0], steps=releases[0].steps[::2], values=releases[0].values[::2])
    alone = ts.smooth(few, seasons=24, ahead=24)
    assert [part.ahead for part in alone.parts] == [24] * 5
    assert alone.is_forecast.sum() == 5 * 24


def test_private_panels_go_on_and_add_up():
    rng = np.random.default_rng(5)
    count = count_of(168, Tiers(ends=(10,)), panel=("a", "b", "c"), key_cap=1)
    rates = np.array([1.0, 2.0, 4.0])[:, None] * np.tile(week(24), 14)
    truth = rng.poisson(rates)
    thin = rng.binomial(truth, 0.8)
    groups = {5: thin[:, :168].ravel(), 60: (truth - thin)[:, :168].ravel()}
    series = ts.smooth(private(groups, rng, scale=13.0, count=count), seasons=24, ahead=168)
    assert series.ahead == 168
    low, high = series.interval()
    covered = ((low <= truth.ravel()) & (truth.ravel() <= high))[series.is_forecast]
    assert covered.mean() > 0.75
    assert np.isfinite(series.standard_error).all()


@pytest.mark.long
def test_private_groups_of_uneven_noise_add_up(log_space):
    rng, keys, releases = np.random.default_rng(3), ["a", "b", "c"], []
    for start, epsilon in (("2024-01-01", 20.0), ("2024-01-08", 2.0)):
        grid = ts.TimeGrid(start=start, step="6h", size=28, zone="UTC")
        panel = {"by": "site", "keys": keys, "groups": {"city": keys}}
        measurement = log_space >> ts.then_private_series(grid, **panel, epsilon=epsilon, delta=1e-6)
        times = np.datetime64(start, "s") + rng.integers(0, 28, 3000) * np.timedelta64(6, "h")
        log = {"id": rng.integers(0, 900, 3000), "time": times, "site": rng.choice(keys, 3000, p=[0.6, 0.3, 0.1])}
        releases.append(measurement(log))
    sites, city = ts.smooth(releases, seasons=4, ahead="1d")
    assert sites.ahead == city.ahead == 4
    rows = np.array([part.values for part in sites.by_key().values()])
    assert np.allclose(rows.sum(axis=0), city.values, rtol=0, atol=1e-9)
    assert np.isfinite(sites.standard_error).all()


@pytest.mark.long
def test_a_level_is_told_by_the_releases_that_know_it():
    """A private series with little noise keeps its total beside two with fifteen times as much."""
    together, alone = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        counts = in_parts(spring(rng, 2.0))
        releases = []
        for one, grid, scale in zip(counts, SPRING, (10.0, 150.0, 150.0), strict=True):
            made = count_of(grid.size, Tiers(ends=(10, 80)))
            made = replace(made, reading=replace(made.reading, grid=grid))
            thin = rng.binomial(one.astype(int), 0.7)
            releases.append(private({5: thin, 60: one - thin}, rng, scale=scale, count=made))
        (series,) = ts.smooth(releases, seasons=SEASONS)
        truth = counts[0].sum()
        together.append(series[: SPRING[0].size].sum() / truth - 1)
        alone.append(ts.smooth(releases[0], seasons=SEASONS).values.sum() / truth - 1)
    assert np.sqrt(np.mean(np.square(together))) < 1.5 * np.sqrt(np.mean(np.square(alone))) + 0.002


# Refused, and marked.


def test_releases_in_other_tiers_are_not_joined_as_if_these_were_one():
    def made(grid, tiers=None):
        count = count_of(grid.size)
        reading = replace(count.reading, grid=grid, step_cap=60)
        signal = Signal(replace(count, reading=reading, weighting=tiers or tiers_for(reading)))
        values = np.ones(signal.size)
        return release_of(steps=range(len(values)), values=values, signal=signal, sampling_probability=1.0)

    first = made(SPRING[0], Tiers(ends=(10, 80), typical=4))
    for other in ({"typical": 5}, {"ends": (10, 90)}, {"share": 0.8}, {"total_bound": 9000}):
        second = made(SPRING[1], replace(Tiers(ends=(10, 80), typical=4), **other))
        refuses("releases", ts.smooth, [first, second])
    # Ends that follow from the grids may differ as these do.
    months = [made(ts.TimeGrid(start=start, end=end, step="1h", zone=BERLIN)) for start, end in pairwise(MONTHS)]
    assert runs_of(months, None, None)[0].lengths == [744, 696]


def test_what_is_not_one_count_on_consecutive_grids_is_refused():
    rng = np.random.default_rng(1)
    first, second, third = (of_hours(np.full(grid.size, 9.0), grid, rng) for grid in SPRING)
    refuses("grids", ts.smooth, [first, third])
    other = of_hours(np.full(SPRING[1].size, 9.0), SPRING[1], rng, participation_cap=61)
    refuses("releases", ts.smooth, [first, other])
    for twice in ([first, first], [first, second, second]):
        refuses("releases", ts.smooth, twice)
    numbers = [release_of(steps=range(n), values=np.ones(n), signal=signal_of(size=n)) for n in (24, 25)]
    refuses("releases", ts.smooth, numbers)
    refuses("grid", ts.smooth, [first, second], grid=ALL_SPRING)
    refuses("method='haar'", ts.smooth, [first, second], "haar")
    refuses("method='haar'", ts.smooth, first, "haar", ahead=24)
    kernel = ts.gaussian_kernel(SPRING[0].size, std=2)
    filtered = release_of(
        steps=range(SPRING[0].size),
        values=np.ones(SPRING[0].size),
        signal=signal_of(size=SPRING[0].size, grid=SPRING[0], stages=(kernel,)),
    )
    refuses("ahead", ts.smooth, filtered, ahead="1d")
    series = ts.smooth(first, ahead="1d")
    refuses("ahead", series.with_total, 5000.0)


def test_counts_made_elsewhere_go_on_by_the_grid_that_is_given():
    rng = np.random.default_rng(1)
    size = SPRING[0].size
    release = release_of(
        steps=np.arange(size), values=rng.normal(50, 9, size), signal=size, scale=9.0, sampling_probability=1.0
    )
    series = ts.smooth(release, seasons="1d", grid=SPRING[0], ahead="1w")
    assert series.ahead == 168
    assert len(series.resample("1d", grid=SPRING[0])) == 28
    assert ts.smooth(release, seasons=24, ahead=24).is_forecast.sum() == 24


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(7)
    counts = in_parts(spring(rng))
    return ts.smooth(of_hours(counts[0], SPRING[0], rng), seasons=SEASONS, ahead="1w")


def test_frames_mark_forecasts(forecast):
    frame = forecast.to_frame()
    assert frame["forecast"].sum() == 168
    assert not frame["kept"][frame["forecast"]].any()
    assert np.isfinite(frame["low"][frame["forecast"]]).all()
    assert str(frame.index[-1]) == "2024-03-24 23:00:00+01:00"
    weeks = forecast.resample("1w").to_frame()
    assert weeks["forecast"].tolist() == [False, False, False, True]
    assert "168 of them ahead" in repr(forecast)


def test_figures_draw_forecasts_dashed(forecast):
    axes = forecast.plot()
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["forecast"].get_linestyle() == "--"
    assert len(lines["forecast"].get_xdata()) == 169
    assert len(lines["series"].get_xdata()) == SPRING[0].size
    caption = " ".join(axes.get_xlabel().split())
    assert "Dashed line: The last 168 steps are forecasts, of which nothing was released" in caption
    assert "at most 60 steps" in caption
    totals = forecast.resample("1w").plot()
    assert {line.get_linestyle() for line in totals.lines} == {"-", "--"}


def test_pages_and_tables_mark_forecasts(forecast, tmp_path):
    page = forecast.to_html(totals="1w")
    assert page.count('class="ahead"') == 1
    assert '; a forecast"></i>' in page
    assert "2024-03-18 (forecast)" in page
    assert "The last 168 steps are forecasts" in page
    rows = forecast.to_csv().splitlines()
    assert rows[0].endswith(",forecast")
    assert sum(row.endswith(",forecast") for row in rows[1:]) == 168
    forecast.to_excel(tmp_path / "book.xlsx")
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(tmp_path / "book.xlsx")["Series"]
    assert [cell.value for cell in next(sheet.iter_rows(max_row=1))][-1] == "forecast"
    assert sheet.cell(sheet.max_row, sheet.max_column).value == "forecast"
    assert sheet.cell(2, sheet.max_column).value in (None, "")
    assert "forecast" not in replace(forecast, ahead=0).to_html()


def test_captions_say_that_caps_are_of_each_release():
    rng = np.random.default_rng(7)
    parts = [
        of_hours(one, grid, rng, scale=scale)
        for one, grid, scale in zip(in_parts(spring(rng)), SPRING, (20.0, 30.0, 25.0), strict=True)
    ]
    (series,) = ts.smooth(parts)
    caption = " ".join(series.plot().get_xlabel().split())
    assert "at most 60 steps of each of 3 parts" in caption
    assert "of 3 parts that follow each other, smoothed together, with noise of standard deviation 20 to 30" in caption


def test_months_that_were_not_asked_for_at_once_state_the_sum_that_their_record_states():
    rng = np.random.default_rng(8)
    space = make.space()
    noise = ts.then_subsampled_gaussian(2.0, sampling_probability=0.3, delta=1e-6)
    months = []
    for start in ("2024-01-01", "2024-02-01"):
        grid = ts.TimeGrid(start=start, size=30 if "-02-" in start else 31, step="1d", zone="UTC")
        log = {"id": np.arange(900) % 300, "time": grid.edges()[rng.integers(0, grid.size, 900)]}
        months.append((space >> ts.then_participation_count(grid, participation_cap=2) >> noise)(log))
    (series,) = ts.smooth(months)
    document = read_document(ts.write_releases(months))
    contents = contents_of(series)
    assert read_document(contents.records).guarantee == document.guarantee
    words = f"Guarantee of all 2 releases behind it: {document.guarantee}"
    assert words in contents.cite
    assert words in " ".join(series.plot().get_xlabel().split())
    assert f"the {words[0].lower()}{words[1:]}"[4:] in contents.protected[0]


@pytest.mark.parametrize("panel", [None, ("a", "b")])
@pytest.mark.parametrize("cap", [None, "the grid", 2])
def test_steps_ahead_and_months_together_are_of_everybody_where_each_release_is(cap, panel):
    rng, series = np.random.default_rng(9), []
    keys, change = (1, {}) if panel is None else (len(panel), {"panel": panel})
    for start in ("2024-01-01", "2024-01-02"):
        grid = ts.TimeGrid(start=start, size=24, step="1h", zone="UTC")
        if cap is None:
            count = count_of(24, **change)
            count = replace(count, reading=replace(count.reading, grid=grid))
            values = np.full(count.tiers.series * 24 * keys, 9e6) + rng.normal(0, 1.0, count.tiers.series * 24 * keys)
            made = {"steps": np.arange(len(values)), "values": values, "signal": Signal(count)}
            series.append(release_of(**made, sampling_probability=1.0))
        else:
            limit = 24 * keys if cap == "the grid" else cap
            counts = rng.poisson(90, (keys, 24)) + 0.0
            series.append(of_hours(counts, grid, rng, scale=2.0, participation_cap=limit, **change))
    alone, ahead = ts.smooth(series[0]), ts.smooth(series[0], ahead=5)
    joined = ts.smooth(series)[0]
    expected = "the capped counts" if cap == 2 else "the counts of everybody"
    for one in (alone, ahead, joined):
        assert captions.measured(one.release, one) == expected
        part = next(iter(one.by_key().values())) if panel else one
        assert captions.measured(one.release, part) == expected
        near = " ".join(contents_of(one).near)
        assert f"An interval holds {expected} with" in near


def test_months_of_which_one_reaches_the_cap_are_capped():
    rng = np.random.default_rng(3)
    grids = [ts.TimeGrid(start=s, size=n, step="1d", zone="UTC") for s, n in (("2024-01-01", 28), ("2024-01-29", 31))]
    parts = [of_hours(rng.poisson(90.0, g.size) + 0.0, g, rng, scale=2.0, participation_cap=28) for g in grids]
    (series,) = ts.smooth(parts)
    assert captions.measured(series.release, series) == "the capped counts"
    said = captions.caps_in_words(series, series.release.design.count, "")
    assert said.startswith("Each individual counts in at most 28 steps of each of 2 parts")


def test_a_page_says_which_months_it_revised():
    rng = np.random.default_rng(3)
    months = [
        ts.TimeGrid(start=f"2024-0{month}-01", end=f"2024-0{month + 1}-01", step="1d", zone=BERLIN)
        for month in (1, 2, 3)
    ]
    counts = [rng.poisson(90, grid.size).astype(float) for grid in months]
    releases = [of_hours(one, grid, rng, scale=30.0) for one, grid in zip(counts, months, strict=True)]
    (before,), (now,) = ts.smooth(releases[:2], ahead="1w"), ts.smooth(releases)
    old, new = before.resample("1mo"), now.resample("1mo")
    page = now.to_html(totals="1mo", earlier=before)
    assert old.is_forecast.tolist() == [False, False, True]
    rows = [(grouped(one) for one in (old.values[k], new.values[k])) for k in range(2)]
    said = [f"2024-0{k} from {was} to {is_now}" for k, (was, is_now) in enumerate(rows, 1) if was != is_now]
    assert said
    of = "Revised, compared with a summary of the first two parts (not with pages of single parts)"
    assert f"{of}: {', '.join(said)}. All of it is within the intervals of that summary." in page
    assert "No total differs from a summary of the first three parts." in now.to_html(totals="1mo", earlier=now)
    far = ts.Series(before.values + 60, release=before.release, standard_error=1.0, ahead=before.ahead)
    assert "2 of 2 totals are outside of the intervals of that summary" in now.to_html(totals="1mo", earlier=far)
    (later,) = ts.smooth(releases[1:])
    refuses("earlier", now.to_html, totals="1mo", earlier=later)
    refuses("earlier", now.to_html, totals="", earlier=before)


def test_a_series_at_the_level_of_totals_by_month_is_of_one_grid():
    rng = np.random.default_rng(2)
    grid = ts.TimeGrid(start="2024-01-01", size=91, step="1d", zone=BERLIN)
    signal = signal_of(size=91, grid=grid)
    per = ts.TimeGrid(start="2024-01-01", size=3, step="1mo", zone=BERLIN)
    of_months = make.changed(signal.count, participation_cap=90, excess="l1", per=per)
    total = release_of(
        steps=[0, 1, 2], values=[2790.0, 2610.0, 2790.0], signal=Signal(of_months), scale=9.0, sampling_probability=1.0
    )
    series = ts.smooth(of_hours(rng.poisson(80, 91).astype(float), grid, rng, scale=5.0)).with_total(total)
    caption = " ".join(series.plot().get_xlabel().split())
    assert "adjacent" not in caption
    assert "noisy values at every step, with noise of standard deviation 5" in caption
