"""Totals: by any calendar, with errors that follow from the joint covariance, against dense sums and simulation."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from opendp_timeseries import Series, TimeGrid, gaussian_kernel, interpolate, reconcile, smooth
from opendp_timeseries.reconstruction.interpolate import _through
from opendp_timeseries.smoothing import errors, structural
from tests.oracles import smoothing as oracle
from tests.oracles import totals_of_steps
from tests.reconstruction.test_smooth import SIZE, VARIANCE, daily, linear, sampled
from tests.releases import panel, release_of
from tests.results.test_page import behind_a_count
from tests.smoothing.test_everybody import released

HOURS = TimeGrid(start="2024-03-29T05:00", size=100, step="1h", zone="Europe/Berlin")  # a change of the clocks


def dense(covariance):
    return covariance @ np.eye(covariance.shape[0])


def own(size=100, keys=None, **change):
    rng = np.random.default_rng(1)
    root = rng.normal(size=(size, size)) / 10
    made = {"covariance": root @ root.T} | change
    if keys is None:
        release = release_of(steps=range(size), values=np.zeros(size), signal=size, sampling_probability=1.0)
    else:
        release = panel(keys, steps=range(size), values=np.zeros(size), size=size, probability=1.0)
    return Series(rng.normal(50, 9, size), release=release, **made)


@pytest.mark.parametrize("step", ["1d", "1w", "1mo", "6h", "1h", 1, 7, 100, 500])
def test_totals_are_sums_of_the_steps_of_each_period(step):
    series = own()
    found = series.resample(step, grid=HOURS)
    labels = totals_of_steps.periods(HOURS.edges()[:-1], step, "Europe/Berlin")
    values, errors = totals_of_steps.sums(series.values, series.covariance, labels)
    assert np.allclose(found, values)
    assert np.allclose(found.standard_error, errors)
    assert len(found) == found.grid.size
    assert set(found.grid.steps(HOURS.instants(), aware=True).tolist()) == set(range(len(found)))


def test_what_sticks_out_is_said():
    days = own().resample("1d", grid=HOURS)
    assert days.grid.start == "2024-03-29T00:00+01:00"
    assert days.complete.tolist() == [False, True, True, True, False]
    assert np.diff(days.grid.edges()).astype(int).tolist() == [86400, 86400, 82800, 86400, 86400]
    assert own().resample(7).complete.tolist() == [True] * 14 + [False]
    frame = days.to_frame()
    assert list(frame.columns) == ["value", "low", "high", "complete"]
    assert str(frame.index[2]) == "2024-03-31 00:00:00+01:00"
    low, high = days.interval(0.5)
    assert np.allclose(high - low, 2 * 0.6744897501960817 * days.standard_error)
    assert repr(days) == "Totals(5, over 1d; standard error)"


def test_of_a_panel_by_key_and_by_group():
    series = own(keys=("a", "b", "c", "d"))
    groups = {"odd": ["c", "a"], "d": ["d"]}
    labels = np.repeat(np.arange(4), 25) * 10 + np.tile(np.arange(25) // 10, 4)
    values, errors = totals_of_steps.sums(series.values, series.covariance, labels)
    found = series.resample(10)
    assert np.allclose(found, values)
    assert np.allclose(found.standard_error, errors)
    assert found.by_key()["b"].values.tolist() == found.values[3:6].tolist()
    labels = np.where(labels >= 30, labels, np.where((labels >= 10) & (labels < 20), -1, labels % 10))
    values, errors = totals_of_steps.sums(series.values, series.covariance, labels)
    found = series.resample(10, groups=groups)
    assert found.keys == ("odd", "d")
    assert np.allclose(found, values)
    assert np.allclose(found.standard_error, errors)
    # A part that was cut out has its own.
    alone = series.by_key()["b"].resample(10)
    assert np.allclose(alone.standard_error, series.resample(10).by_key()["b"].standard_error)
    assert "4 keys" in repr(series.resample(10))


def test_errors_of_keys_are_independent_and_what_is_not_known_is_the_most_that_it_can_be():
    release = panel("abc", steps=range(6), values=np.zeros(6), size=6, probability=1.0)
    parts = [
        Series([1.0, 2.0], release=part, standard_error=[3.0, 4.0], covariance=covariance)
        for part, covariance in zip(release.parts(), (np.diag([9.0, 16.0]), None, None), strict=True)
    ]
    whole = Series([1.0, 2.0] * 3, release=release, standard_error=[3.0, 4.0] * 3, parts=parts)
    found = whole.resample(2)
    assert found.is_bound
    assert np.allclose(found.standard_error, [5, 7, 7])
    assert np.allclose(whole.resample(2, groups={"all": "abc"}).standard_error, np.hypot(5, 14))
    assert not whole.resample(1).is_bound
    scaled = whole.with_total(18.0, standard_error=1.8).resample(2, groups={"all": "abc"})
    assert np.allclose(scaled, 18.0)
    assert scaled.is_bound


def test_the_error_of_a_total_is_common_to_all_keys():
    series = own(keys=("a", "b"))
    parts = Series(series.values, release=series.release, standard_error=series.standard_error)
    diagonal = [Series(p.values, release=p.release, covariance=np.diag(p.standard_error**2)) for p in parts.parts]
    whole = Series(series.values, release=series.release, standard_error=series.standard_error, parts=diagonal)
    total = 2 * series.values.sum()
    found = whole.with_total(total, standard_error=0.1 * total).resample(50, groups={"all": ["a", "b"]})
    assert found.values.tolist() == pytest.approx([total])
    independent = 4 * (series.standard_error**2).sum()
    assert found.standard_error.tolist() == pytest.approx([np.sqrt(independent + (0.1 * total) ** 2)])


@pytest.mark.parametrize("method", ["linear", "nearest", "pchip"])
@pytest.mark.parametrize("kept", [[], [4], [1, 5], [0, 1, 2, 6, 9, 10, 11, 17, 19], range(20)])
def test_the_covariance_of_an_interpolation_is_that_of_its_slopes(method, kept):
    values = np.array([float(k) ** 1.5 for k in kept])
    release = release_of(steps=kept, values=values, signal=20, scale=3.0, sampling_probability=0.3)
    slopes = np.zeros((20, max(len(kept), 1)))
    for k in range(len(kept)):
        moved = values.copy()
        moved[k] += 1e-5
        slopes[:, k] = (_through(release, moved, method) - _through(release, values, method)) / 1e-5
    found = interpolate(release, method)
    assert np.allclose(dense(found.covariance), 9 * slopes @ slopes.T, atol=0.05)
    assert np.allclose(np.diag(dense(found.covariance)), found.standard_error**2)
    # Between kept steps nothing is known of the counts.
    expected = np.isin(np.arange(20), kept).reshape(10, 2).all(axis=1)
    assert np.array_equal(np.isfinite(found.resample(2).standard_error), expected)


@pytest.mark.parametrize("filtered", [False, True])
def test_the_covariance_of_the_rate_is_that_of_dense_conditioning(filtered):
    taps = gaussian_kernel(SIZE, 2).taps if filtered else None
    model, learnt, prior = linear((8.0,), True, taps=taps, margin=15)
    normal = model.linearise(np.zeros(len(model.nodes)), 0.0)
    found = dense(structural._posterior(model, normal, learnt).posterior.joint)
    steps = model.data.steps
    design = np.eye(SIZE)[steps] if taps is None else np.array([np.roll(taps, t) for t in steps])
    expected = oracle.posterior_covariance(prior, design, VARIANCE)
    assert np.allclose(found, expected, rtol=0, atol=2e-4 if filtered else 1e-9)


@pytest.mark.parametrize("made", ["counts", "rate", "filter", "private"])
def test_the_diagonal_of_a_covariance_is_the_variance(made):
    rng = np.random.default_rng(5)
    counts = rng.poisson(daily(150, 24))
    if made == "private":
        series = smooth(released({5: counts[:120], 40: counts[30:]}, rng), seasons=24)
        found = dense(series.covariance)
        assert np.all(np.diag(found) <= series.standard_error**2 * (1 + 1e-9))
        assert np.all(np.diag(found) >= series.standard_error**2 * 0.9)
    else:
        kernel = gaussian_kernel(150, 1.5) if made == "filter" else None
        release = sampled(counts, rng, scale=8.0, probability=0.6, kernel=kernel)
        series = smooth(release, seasons=24, band="rate" if made == "rate" else "counts")
        found = dense(series.covariance)
        assert np.allclose(np.diag(found), series.standard_error**2)
    assert np.allclose(found, found.T)
    assert np.linalg.eigvalsh(found)[0] > -1e-6 * found.max()
    expected = totals_of_steps.sums(series.values, found, np.arange(len(series)) // 24)
    assert np.allclose(series.resample(24), expected[0])
    assert np.allclose(series.resample(24).standard_error, expected[1])


@pytest.mark.parametrize("keys", [None, "abc"])
def test_every_covariance_knows_the_variances_of_sums(keys):
    rng, size, series = np.random.default_rng(6), 24, len(keys or "a")
    root = rng.normal(size=(size, size))
    array, factors, numbers = root @ root.T, rng.normal(size=size), np.arange(size) // 5
    cut = size // series
    made = {
        "array": array,
        "operator": aslinearoperator(array),
        "diagonal": errors.diagonal(factors**2),
        "common": errors.common_error(factors, 0.3, error_of_step=numbers),
        "scaled": errors.rescale(array, factors) + errors.rescale(aslinearoperator(array), factors),
        "sum": errors.diagonal(factors**2) + errors.common_error(factors, -0.1) + array,
        "independent": errors.independent([array[k : k + cut, k : k + cut] for k in range(0, size, cut)]),
        "part": errors.part_of(errors.independent([array, errors.diagonal(factors**2)]), size, size),
        "functions": errors.covariance_by(array.__matmul__, size),
    }
    for steps, starts in ((size, [0]), (cut, range(0, cut, 3)), (cut, range(cut))):
        weights = rng.normal(size=(size // steps, steps))
        of_each = np.tile(np.searchsorted(starts, np.arange(steps), side="right") - 1, len(weights))
        for name, covariance in made.items():
            if name == "independent" and steps > cut:
                continue  # of series one after the other, sums are of each
            known = errors.variances_of(covariance, weights, np.array(starts))
            sides = [weights.ravel() * (of_each == k) for k in range(len(starts))]
            expected = [max(side @ dense(covariance) @ side, 0.0) for side in sides]
            assert np.allclose(known, expected, atol=1e-10), name


def test_totals_of_a_smoothed_series_take_one_pass(monkeypatch):
    rng = np.random.default_rng(2)
    counts = rng.poisson(daily(240, 24))
    each = smooth(sampled(counts, rng, scale=8.0, probability=0.6), seasons=24)
    both = panel("ab", steps=range(480), values=np.tile(counts, 2) + rng.normal(0, 8, 480), size=480, probability=1.0)
    together = smooth(both, seasons=24)
    level = each.with_total(1e4, standard_error=50.0)
    monkeypatch.setattr(LinearOperator, "matmat", lambda *_: pytest.fail("multiplied"))
    for series in (each, level, interpolate(each.release), together, together.parts[0]):
        assert np.all(series.resample(24).standard_error > 0) or series.error_covers == "noise"
    assert np.all(together.resample(24, groups={"all": "ab"}).standard_error > 0)


def test_a_series_of_ones_own_knows_what_is_said_of_it():
    release = release_of(steps=[2], values=[4.0], signal=4, scale=3.0)
    plain = Series([1, 2, 3, 4], release=release)
    assert plain.error_covers == "nothing"
    assert np.all(np.isnan(plain.standard_error))
    assert np.all(np.isnan(plain.resample(2).standard_error))
    known = Series([1, 2, 3, 4], release=release, standard_error=2, events=[3, 1, 3])
    assert (known.error_covers, known.events) == ("counts", (1, 3))
    assert known.standard_error.tolist() == [2, 2, 2, 2]


def moved(size, rng):
    """A daily rate that departs from its pattern for some hours, and the counts."""
    away = np.zeros(size)
    for t in range(1, size):
        away[t] = np.exp(-1 / 8) * away[t - 1] + 0.08 * rng.normal()
    rate = daily(size, 24) * np.exp(away)
    return rate, rng.poisson(rate)


def covered(series, truth, step, level=0.9):
    low, high = series.resample(step).interval(level)
    totals = np.add.reduceat(truth, np.arange(0, len(truth), step))
    return np.mean((low <= totals) & (totals <= high))


@pytest.mark.long
@pytest.mark.parametrize("made", ["every step", "sampled", "rate", "filter", "private", "noise", "panel"])
def test_intervals_of_totals_cover(made):
    size, runs = 504, 60
    found = {24: [], 168: [], 504: []}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rate, counts = moved(size, rng)
        truth = counts
        if made == "private":
            rest, more = moved(size, rng)[1], counts
            truth = rest + more
            series = smooth(released({5: rest, 40: more}, rng), seasons=24)
        elif made == "noise":
            series = interpolate(sampled(counts, rng, scale=30.0, probability=1.0))
        elif made == "panel":
            both = [counts, moved(size, rng)[1]]
            release = panel("ab", steps=range(2 * size), values=np.concatenate(both), size=2 * size, probability=1.0)
            noisy = release.values + rng.normal(0, release.scale, 2 * size)
            whole = smooth(dataclasses.replace(release, values=noisy), seasons=24)
            truth = sum(both)
            groups = {"all": "ab"}
        else:
            kernel = gaussian_kernel(size, 1.5) if made == "filter" else None
            probability = 0.3 if made in ("sampled", "filter") else 1.0
            release = sampled(counts, rng, scale=20.0, probability=probability, kernel=kernel)
            series = smooth(release, seasons=24, band="rate" if made == "rate" else "counts")
            truth = rate if made == "rate" else counts
        for step, values in found.items():
            if made == "panel":
                low, high = whole.resample(step, groups=groups).interval(0.9)
                totals = np.add.reduceat(truth, np.arange(0, size, step))
                values.append(np.mean((low <= totals) & (totals <= high)))
            else:
                values.append(covered(series, truth, step))
    for step, values in found.items():
        print(made, step, np.mean(values))
        # Shares of so many periods, of which those of one run depend on each other.
        assert 0.9 - 4 * 0.3 / np.sqrt(runs) < np.mean(values)


def test_a_single_event_is_in_the_covariance_and_marked():
    rng = np.random.default_rng(4)
    counts = rng.poisson(daily(240, 24)).astype(float)
    counts[100] += 400
    series = smooth(sampled(counts, rng, scale=8.0, probability=1.0), seasons=24)
    assert series.events == (100,)
    assert np.allclose(np.diag(dense(series.covariance)), series.standard_error**2)


def test_totals_of_reconciled_series_are_of_what_reconciling_leaves():
    sites, city = reconcile(*map(interpolate, behind_a_count(["a", "b"])))
    for series in (*sites.by_key().values(), *city.by_key().values()):  # noise is independent from step to step
        found = series.resample(12)
        assert not found.is_bound
        assert np.allclose(found.standard_error**2, np.add.reduceat(series.standard_error**2, range(0, 72, 12)))
    smoothed = [smooth(release, seasons=24) for release in behind_a_count(["a", "b"])]
    for before, after in zip(smoothed, reconcile(*smoothed), strict=True):
        assert np.allclose(after.resample("1d").standard_error, before.resample("1d").standard_error)
