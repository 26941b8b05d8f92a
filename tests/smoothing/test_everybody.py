"""Series of everybody from several tiers of activity: near the truth, and with bands that cover it."""

import dataclasses
import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import opendp_timeseries as ts
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers, default_tiers
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.smoothing.basis import Basis
from opendp_timeseries.smoothing.errors import variances_of
from opendp_timeseries.smoothing.everybody import _RHYTHM, Rhythm, last_tier, levels_by_often, of_everybody
from opendp_timeseries.smoothing.levels import Prior, fit_panel_levels, positive_levels
from opendp_timeseries.smoothing.matrices import FitError
from opendp_timeseries.smoothing.seasons import Season
from tests import make
from tests.refused import refuses
from tests.releases import release_of

SIZE = 1344  # eight weeks of hours
NOISE = 4.2247  # by sensitivity, of (1, 1e-6)-differential privacy
HOURS = np.arange(SIZE)
DAY = 1 + 0.8 * np.sin(2 * np.pi * HOURS / 24)
#: Rates of those who come in so many steps each; the heavy ones come at night.
NIGHTS = {5: 100 * DAY, 40: 80 * DAY, 300: 60 * (2 - DAY)}


def count_of(size=SIZE, tiers=None, **change):
    source = Source(identifier="id", time="time", by="site" if "panel" in change else None)
    made = {"tiers": tiers or default_tiers(size)}
    return make.count(source=source, grid=ts.TimeGrid(size=size), **made | change)


def released(by_steps, rng, *, scale=None, count=None):
    """A model of a release, for public counts of those in so many steps each: NumPy's noise, to be reproducible."""
    count = count or count_of(len(next(iter(by_steps.values()))))
    table = count.tiers.table(count.reading.max_steps)
    rows = table.weights[np.searchsorted(table.ends, list(by_steps))] / 2**RESOLUTION_BITS
    scale = NOISE * np.sqrt(count.tiers.first(count.reading.max_steps)) if scale is None else scale
    values = (rows.T @ np.array(list(by_steps.values()))).ravel()
    values = values + rng.normal(0, scale, len(values))
    return release_of(
        steps=np.arange(len(values)), values=values, signal=Signal(count), scale=scale, sampling_probability=1.0
    )


def drawn(rates, rng):
    return {often: rng.poisson(rate) for often, rate in rates.items()}


@pytest.mark.long
def test_heavy_people_at_other_hours_are_seen_and_covered():
    errors, alone, covered, total = [], [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        groups = drawn(NIGHTS, rng)
        counts = sum(groups.values())
        series = ts.smooth(released(groups, rng), seasons=24)
        low, high = series.interval(0.9)
        errors.append(np.abs(series - counts).mean())
        alone.append(np.abs(ts.smooth(series.release, seasons=24) - counts).mean())
        covered.append(np.mean((low <= counts) & (counts <= high)))
        total.append(np.sum(series) / counts.sum() - 1)
    # The counts scatter around their rate by 12 on average; a rate of the shape of those who come seldom misses by 60.
    assert np.mean(errors) < 15
    assert np.mean(errors) < 0.85 * np.mean(alone)
    assert 0.87 < np.mean(covered) < 0.97
    assert np.all(np.abs(total) < 4 * NOISE / 0.9 / counts.mean())


@pytest.mark.long
def test_one_shape_is_known_better_than_by_any_one_scale():
    errors, alone, scatter = [], [], []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        groups = drawn({often: rate * DAY for often, rate in {5: 300, 40: 200, 300: 100}.items()}, rng)
        counts = sum(groups.values())
        series = ts.smooth(released(groups, rng), seasons=24)
        errors.append(np.abs(series - counts).mean())
        alone.append(np.abs(ts.smooth(series.release, seasons=24) - counts).mean())
        scatter.append(np.sqrt(2 / np.pi * counts.mean()))
    # It knows more than the rate, around which counts scatter: the finer scales tell of the counts of everybody.
    assert np.all(np.array(errors) < 0.85 * np.array(scatter))
    assert np.mean(errors) < 0.7 * np.mean(alone)


@pytest.mark.long
def test_days_are_covered_where_all_scales_depart_alike():
    """The more often people come, the later, by weeks that come and go: one departure, which several scales show."""
    late, covered, of_days = (2 - DAY) * np.exp(0.3 * np.sin(2 * np.pi * HOURS / 500)), [], []
    shares = {4: (60, 1.0), 16: (50, 0.8), 60: (40, 0.5), 200: (40, 0.2), 700: (30, 0.0)}
    rates = {often: size * (share * DAY + (1 - share) * late) for often, (size, share) in shares.items()}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        groups = drawn(rates, rng)
        counts = sum(groups.values())
        series = ts.smooth(released(groups, rng), seasons=(24, 168))
        days = series.resample(24, grid=ts.TimeGrid(size=SIZE))
        for found, one, truth in ((covered, series, counts), (of_days, days, counts.reshape(-1, 24).sum(axis=1))):
            low, high = one.interval()
            found.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(covered) > 0.86
    assert np.mean(of_days) > 0.82  # 0.77, if each scale departs by itself


def test_next_to_no_noise_gives_the_counts():
    rng = np.random.default_rng(2)
    groups = drawn(NIGHTS, rng)
    series = ts.smooth(released(groups, rng, scale=1e-3), seasons=24)
    assert np.allclose(series, sum(groups.values()), rtol=0, atol=0.1)
    assert np.all(series.standard_error < 0.1)


@pytest.mark.long
def test_a_rate_is_known_better_than_the_counts():
    rng = np.random.default_rng(3)
    release = released(drawn(NIGHTS, rng), rng)
    counts, rate = (ts.smooth(release, seasons=24, band=band) for band in ("counts", "rate"))
    assert np.all(rate.standard_error < counts.standard_error)
    assert np.abs(rate - sum(NIGHTS.values())).mean() < 9
    assert rate.error_covers == "rate"


@pytest.mark.long
def test_single_events_are_kept():
    """An evening of four times as many, of all who come at other times: it is not smoothed away, and covered."""
    errors, covered = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        groups = drawn(NIGHTS, rng)
        for counts in groups.values():
            counts[200:203] *= 4
        truth = sum(groups.values())
        series = ts.smooth(released(groups, rng), seasons=24)
        low, high = series.interval(0.9)
        errors.append(np.abs(series.values / truth - 1)[200:203])
        covered.append(((low <= truth) & (truth <= high))[[*range(150, 250)]])
        assert series.events == (200, 201, 202)
    assert np.mean(errors) < 0.1
    assert np.mean(covered) > 0.85


@pytest.mark.long
def test_single_events_spoil_nothing_but_themselves():
    """Of thirty times as many: they tell nothing of how heavy users depart from others at other steps."""
    errors, covered, events = [], [], np.isin(HOURS, [200, 500, 800, 1100])
    for factor in (1, 30):
        rng = np.random.default_rng(1)
        groups = {often: np.where(events, factor * counts, counts) for often, counts in drawn(NIGHTS, rng).items()}
        truth = sum(groups.values())
        series = ts.smooth(released(groups, rng), seasons=24)
        low, high = series.interval(0.9)
        errors.append(np.abs(series - truth)[~events].mean())
        covered.append(((low <= truth) & (truth <= high))[~events].mean())
        assert set(series.events) == (set(np.flatnonzero(events)) if factor > 1 else set())
    assert errors[1] < 1.05 * errors[0]  # 2.7 times, if they are taken for departures
    assert min(covered) > 0.87


def test_its_release_is_everybody_in_full_and_its_source_the_whole():
    rng = np.random.default_rng(4)
    groups = drawn(NIGHTS, rng)
    release = released(groups, rng)
    series = ts.smooth(release, seasons=24)
    assert series.sources == (release,)
    assert (series.release.size, series.release.design.count.cap) == (SIZE, SIZE)
    misfit = series.release.values - sum(groups.values())
    assert np.std(misfit) == pytest.approx(series.release.scale, rel=0.1)
    assert series.release.scale == pytest.approx(NOISE * np.sqrt(SIZE / release.design.count.tiers.share), rel=1e-3)
    assert "of all tiers of activity" in repr(series)


def test_where_a_panel_cannot_be_smoothed_jointly_each_key_is_by_itself_but_for_its_level(monkeypatch):
    def refuse(*_, **__):
        raise FitError("not today")

    monkeypatch.setattr("opendp_timeseries.reconstruction.smooth.smooth_private_panel", refuse)
    rng = np.random.default_rng(5)
    count = count_of(240, Tiers(ends=(10, 60), share=0.9), panel=("a", "b"))
    both = {often: np.concatenate([3 * rate[:240], rate[240:480]]) for often, rate in drawn(NIGHTS, rng).items()}
    release = released(both, rng, count=count)
    series = ts.smooth(release, seasons=24)
    assert series.release.keys == ("a", "b")
    assert [part.sources for part in series.parts] == [(release,)] * 2
    rows = release.values.reshape(3, 2, 240)
    ends, weights = count.tiers.table(480)
    weights = weights / 2**RESOLUTION_BITS / release.scale
    levels = fit_panel_levels(rows.mean(axis=2).T / release.scale, ends, weights, 240**-0.5)
    for k, one in enumerate(series.by_key().values()):
        known = levels.values[k], levels.covariance[k, k]
        made = of_everybody(
            rows[:, k] / release.scale,
            ends,
            weights,
            1.0,
            (Season(24.0),),
            trend=False,
            counts=True,
            level_estimate=known,
        )
        assert np.allclose(one.values, made.mean, rtol=1e-9, atol=0)
        assert np.allclose(one.standard_error, np.sqrt(made.variance), rtol=1e-9, atol=0)
        assert list(one.events) == made.events
    assert np.mean(series.values[:240]) > 2 * np.mean(series.values[240:])


def test_one_scale_alone_is_an_ordinary_series():
    rng = np.random.default_rng(6)
    groups = drawn({3: 200 * DAY[:240]}, rng)
    count = count_of(240, Tiers(ends=(), share=0.9))
    series = ts.smooth(released(groups, rng, count=count), seasons=24)
    plain = ts.smooth(series.release, seasons=24)
    assert np.allclose(series, plain, rtol=0, atol=0.3 * np.mean(plain.standard_error))
    assert np.allclose(series.standard_error, plain.standard_error, rtol=0.2)


@pytest.mark.parametrize("level", [0.0, 50.0])
def test_what_cannot_be_fitted_falls_back_and_says_so(level):
    release = dataclasses.replace(released({5: np.full(48, level)}, np.random.default_rng(7)))
    flat = dataclasses.replace(
        release, values=np.full(len(release), level), design=dataclasses.replace(release.design, scale=0.0)
    )
    series = ts.smooth(flat)
    assert not series.converged
    assert "do not vary" in series.model


@pytest.mark.thinned(3)
@pytest.mark.parametrize("size", [9, 120])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1e3])
@pytest.mark.parametrize("kind", ["zeros", "spike", "jump", "vast", "below zero", "only the last"])
def test_no_release_raises_or_warns(kind, scale, size):
    rng = np.random.default_rng(size)
    values = rng.normal(0, scale, (3, size))
    values += {
        "zeros": 0.0,
        "spike": 1e6 * (np.arange(size) == 3),
        "jump": 1e3 * (np.arange(size) > size / 2),
        "vast": 1e150 * rng.random((3, size)),
        "below zero": -1e4,
        "only the last": np.array([[0.0], [0.0], [1e4]]),
    }[kind]
    count = count_of(size, Tiers(ends=(2, 5), share=0.9))
    release = release_of(
        steps=np.arange(3 * size),
        values=values.ravel(),
        signal=Signal(count),
        scale=scale,
        sampling_probability=1.0,
    )
    series = ts.smooth(release, seasons=4)
    assert np.all(np.isfinite(series))
    assert np.all(series.standard_error >= 0)


def test_nobody_at_all_is_fitted():
    series = ts.smooth(released({5: np.zeros(SIZE)}, np.random.default_rng(8)), seasons=24)
    assert np.all(np.isfinite(series))
    assert abs(np.mean(series)) < 3 * NOISE / 0.9


def test_what_does_not_fit_is_refused():
    release = released(drawn(NIGHTS, np.random.default_rng(9)), np.random.default_rng(9))
    refuses("method='haar'", ts.smooth, release, "haar")


@pytest.mark.parametrize("panel", [{}, {"panel": ("a", "b")}], ids=["one series", "panel"])
def test_interpolation_takes_the_last_scale_in_counts(panel):
    rng = np.random.default_rng(11)
    count = count_of(240, Tiers(ends=(10, 60), share=0.9), **panel)
    groups = {often: np.tile(NIGHTS[often][:240], count.reading.series) for often in (5, 40)}
    release = released(groups, rng, scale=1e-3, count=count)
    last = last_tier(release)
    assert last_tier(last) is last
    assert (last.size, last.keys) == (240 * count.reading.series, count.panel)
    of_all = count.tiers.table(count.reading.max_steps).weights[0, -1] / 2**RESOLUTION_BITS
    assert last.scale == 1e-3 / of_all
    assert np.array_equal(last.values, release.values[-last.size :] / of_all)
    assert np.allclose(last.values, sum(groups.values()), rtol=0, atol=0.1)
    series = ts.interpolate(release)
    assert np.array_equal(series, last.values)
    assert np.array_equal(series.standard_error, np.full(last.size, last.scale))
    assert series.sources == (release,)


def test_a_private_series_is_smoothed_from_end_to_end():
    rng = np.random.default_rng(10)
    log = {"id": rng.integers(0, 5000, 60_000), "time": rng.choice(SIZE, 60_000, p=DAY / DAY.sum())}
    counts = np.bincount(np.unique(log["id"] * SIZE + log["time"]) % SIZE, minlength=SIZE)
    space = make.space()
    release = (space >> ts.then_private_series(ts.TimeGrid(size=SIZE), epsilon=1.0, delta=1e-6))(log)
    series = ts.smooth(release, seasons=24)
    # A mean of 45 scatters by 5 around its rate, and the level is known to 4.5.
    assert np.abs(series - counts).mean() < 14
    caption = " ".join(series.plot().get_xlabel().split())
    assert release.guarantee() in caption
    assert "intervals for the counts of everybody" in caption
    assert "too low" not in caption


def test_noise_far_above_all_counts_leaves_a_series():
    # The variance of the counts is then below the rounding of that of the noise.
    rng, count = np.random.default_rng(2), count_of(48, Tiers(ends=(2, 7, 12), share=0.01))
    for scale in (1e5, 1e7, 1e9, 1e20):
        series = ts.smooth(released({3: rng.poisson(2.0, 48)}, rng, scale=scale, count=count))
        assert np.all(np.isfinite(series.values))
        assert np.all(series.standard_error > 0)


def test_the_shape_by_how_often_is_positive_and_absurd_values_are_refused():
    ends, weights = default_tiers(SIZE).table(SIZE)
    weights = weights / 2**RESOLUTION_BITS / (NOISE * np.sqrt(ends[0]))
    means = weights[np.searchsorted(ends, 4)] * 120 / SIZE
    for times in (1e5, 1e7, 1e12):
        found = levels_by_often(times * means, ends, weights, SIZE**-0.5)
        assert np.all(found.levels >= 0)
        assert found.levels.sum() == pytest.approx(times * 120 / SIZE, rel=1e-3)
    refuses("the level was not found", levels_by_often, 1e200 * means, ends, weights, SIZE**-0.5, error=FitError)


def test_levels_of_a_panel_add_up_and_so_do_their_errors():
    """A panel of days whose noise hides all but the sum: signed levels, of which the sum is that of all keys."""
    keys, size = tuple("abcd"), 35
    count = count_of(size, default_tiers(size * len(keys)), panel=keys)
    ends, weights = count.tiers.table(count.reading.max_steps)
    weights, covered, negative = weights / 2**RESOLUTION_BITS, [], 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        groups = {5: rng.poisson(np.repeat([0.2, 2.0, 20.0, 40.0], size))}
        release = released(groups, rng, count=count)
        series = ts.smooth(release)
        means = release.values.reshape(-1, len(keys), size).mean(axis=2).T / release.scale
        found = fit_panel_levels(means, ends, weights / release.scale, size**-0.5)
        shown = series.values.reshape(len(keys), size).mean(axis=1)
        # As no count is below zero, where levels are.
        expected, _ = positive_levels(found.values, found.variances, shown.sum())
        assert np.all(np.abs(shown - expected) < 0.3 * np.sqrt(found.variances))
        negative += np.count_nonzero(found.values < 0)
        total = series.resample(size, groups={"all": keys, "two": "ab"}, grid=ts.TimeGrid(size=size))
        truth = groups[5].reshape(len(keys), size).sum(axis=1)
        low, high = total.interval()
        covered.append((low <= [sum(truth), sum(truth[:2])]) & ([sum(truth), sum(truth[:2])] <= high))
        # The error of a sum is that of the level of all, and nothing beside.
        assert total.standard_error[0] == pytest.approx(size * found.variance_of_sum**0.5, rel=1e-3)
        # The diagonal of the joint error is what each key states.
        each = [np.sqrt(series.covariance @ unit @ unit) for unit in np.eye(len(series))[::35]]
        assert each == pytest.approx(series.standard_error[::35], rel=1e-6)
        whole = series.resample(size, grid=ts.TimeGrid(size=size)).standard_error
        blocks = np.kron(np.eye(len(keys)), np.ones(size))
        assert whole == pytest.approx(np.sqrt(np.diag(blocks @ (series.covariance @ blocks.T))), rel=0.05)
    assert negative > 0
    assert np.mean(covered) > 0.8


def sums_of_values(rng, bound, x=5, heavy=0.0):
    """Means of tiers of sums, of visits that are worth so much, what their weights are, and the truth.

    :param heavy: how many there are, at night, of those who come most.
    """
    last = SIZE * bound**2
    ends, weights = default_tiers(last).table(last)
    weights = weights / 2**RESOLUTION_BITS / (NOISE * np.sqrt(ends[0]))
    rates = {4: 90 * DAY, 40: 60 * DAY} | ({300: heavy * (1.8 - DAY)} if heavy else {})
    visits = drawn(rates, rng)
    values = sum(x * counts * weights[np.searchsorted(ends, n * x**2)][:, None] for n, counts in visits.items())
    return values + rng.normal(size=values.shape), ends, weights, x * sum(visits.values())


@pytest.mark.long
def test_how_much_values_vary_is_learnt_from_them_whatever_is_thought_first():
    values, ends, weights, truth = sums_of_values(np.random.default_rng(5), 20)
    for dispersion in (1.5, 40.0):
        estimate = of_everybody(
            values, ends, weights, dispersion, (Season(24.0),), trend=False, counts=True, prior=Prior.of(20)
        )
        error = np.sqrt(np.mean((estimate.mean - truth) ** 2))
        assert np.sqrt(np.mean(estimate.variance)) == pytest.approx(error, rel=0.2)


@pytest.mark.long
def test_hours_of_few_are_covered_where_those_come_who_have_much():
    covered = []
    for seed in range(6):
        values, ends, weights, truth = sums_of_values(np.random.default_rng(seed), 20, heavy=40)
        estimate = of_everybody(
            values, ends, weights, 20**0.5, (Season(24.0),), trend=False, counts=True, prior=Prior.of(20)
        )
        covered.append(np.abs(estimate.mean - truth) < 1.645 * estimate.variance**0.5)
    by_hour = np.mean(covered, axis=0).reshape(-1, 24).mean(axis=0)
    assert by_hour.min() > 0.75  # .63 if departures were taken to be small where few come
    assert 0.84 < by_hour.mean() < 0.97


@pytest.mark.long
@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_hours_of_a_few_who_come_always_are_covered(noise):
    """A dozen or two come all day to where all others commute: their hours are in the band, if not in the estimate."""
    hour, covered = HOURS % 24, []
    commute = np.exp(-0.5 * ((hour - 8) / 1.2) ** 2) + np.exp(-0.5 * ((hour - 17) / 1.8) ** 2)
    ends, weights = default_tiers(SIZE).table(SIZE)
    weights = weights / 2**RESOLUTION_BITS / (noise * NOISE * np.sqrt(ends[0]))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        groups = drawn({5: 250 * commute, 600: 20 * ((hour > 8) & (hour < 22))}, rng)
        values = sum(counts * weights[np.searchsorted(ends, often)][:, None] for often, counts in groups.items())
        values = values + rng.normal(size=values.shape)
        estimate = of_everybody(values, ends, weights, 1.0, (Season(24.0),), trend=False, counts=True)
        covered.append(np.abs(estimate.mean - sum(groups.values())) < 1.645 * estimate.variance**0.5)
    by_hour = np.mean(covered, axis=0).reshape(-1, 24).mean(axis=0)
    assert by_hour[11:14].mean() > (0.4 if noise < 2 else 0.84)  # at most .2 without a rhythm of theirs
    assert by_hour.mean() > 0.84


def test_a_rhythm_is_averaged_over_how_large_it_may_be():
    """As if each of its sizes were a normal prior of the values, whose mean is unknown."""
    rng, season, size, level = np.random.default_rng(12), Season(8.0), 30, 5.0
    precision = rng.uniform(0.5, 2.0, 24)
    values = 3 + np.sin(2 * np.pi * np.arange(24) / 8) + rng.normal(size=24) / precision**0.5
    basis = Basis(size, (season,), trend=False, limit=0)
    columns, variances = basis.at(np.arange(size))[:, 1:], np.exp(basis.variances(basis.start())[0][1:])
    unit = (columns * variances) @ columns.T
    unit /= np.mean(np.diag(unit))
    inner, means, covariances, densities = unit[:24, :24], [], [], []
    for share, chance in _RHYTHM:
        of_values = (share * level) ** 2 * inner + np.diag(1 / precision) + 1e6
        gain = np.linalg.solve(of_values, (share * level) ** 2 * unit[:24]).T
        means.append(gain @ values)
        covariances.append((share * level) ** 2 * unit - gain @ ((share * level) ** 2 * unit[:24]))
        densities.append(chance * multivariate_normal(np.zeros(24), of_values).pdf(values))
    likely = np.array(densities) / np.sum(densities)
    between = means - likely @ means
    rhythm = Rhythm.of(values, precision, season, size, level)
    assert np.allclose(rhythm.mean, likely @ means, atol=1e-3)
    joint = np.tensordot(likely, covariances, 1) + (between.T * likely) @ between
    assert np.allclose(rhythm @ np.eye(size), joint, atol=1e-3)
    assert np.allclose(variances_of(rhythm, np.ones((1, size)), np.array([0, 7]))[0], joint[:7, :7].sum(), atol=1e-3)
    assert likely.max() < 0.9  # of none so sure that another would not show
    # A year of minutes holds no matrix.
    assert len(pickle.dumps(Rhythm.of(values, precision, season, 10_000, level))) < 100_000
