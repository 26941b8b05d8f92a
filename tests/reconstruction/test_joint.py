"""Panels and totals smoothed jointly: sums, errors, local events; parts against dense oracles."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import opendp_timeseries as ts
from opendp_timeseries.design.groups import Groups
from opendp_timeseries.design.kernels import boxcar_kernel
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.smoothing import errors, local_events
from opendp_timeseries.smoothing.departures import Events, Model, Stations, depart
from opendp_timeseries.smoothing.hierarchy import Hierarchy, HierarchyErrors, nonnegative
from opendp_timeseries.smoothing.matrices import FitError
from opendp_timeseries.smoothing.seasons import read_seasons
from opendp_timeseries.smoothing.workers import Pool
from tests.oracles import joint_smoothing as oracle
from tests.reconstruction.simulated import error_and_cover, week
from tests.refused import refuses
from tests.releases import release_of, signal_of
from tests.smoothing.test_everybody import count_of
from tests.smoothing.test_everybody import released as private

TREE = {"city": {"north": ["a", "b"], "south": {"river": ["c", "d", "e"], "hill": ["f"]}}}


def released(counts, rng, *, scale=15.0, groups=None, of_totals=None):
    """A model of the releases of a panel and its totals: NumPy's noise, to be reproducible."""
    keys = tuple(f"k{k}" for k in range(len(counts)))
    signal = signal_of(size=counts.shape[1], panel=keys)
    rows = [(signal, counts, scale)]
    if groups is not None:
        made = Groups.of(groups, keys)
        sums = np.array([[key in members for key in keys] for _, members in made.members]) @ counts
        rows.append((signal.after(made), sums, scale if of_totals is None else of_totals))
    noisy = [
        release_of(
            steps=np.arange(made.size),
            values=(truth + rng.normal(0, spread, truth.shape)).ravel(),
            signal=made,
            scale=spread,
            sampling_probability=1.0,
        )
        for made, truth, spread in rows
    ]
    return [replace(release, invocation="one") for release in noisy]


def rainy_days(seed, keys=12, days=62):
    """Days of a city whose stations share the weather."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(0, 0.8, keys)
    rate = 60 * size[:, None] / size.mean() * (1 - 0.3 * (np.arange(days) % 7 >= 5)) * rng.lognormal(-0.06, 0.35, days)
    return rng.poisson(rate * rng.lognormal(0, 0.08, (keys, days))).astype(float)


def hours(seed, keys=10, weeks=1, mean=11.0, giant=1.0):
    """Hours of stations, each with a course of its own, and a weather that they share."""
    rng = np.random.default_rng(seed)
    size, usual = rng.lognormal(0, 1.0, keys), week(168 * weeks)
    rates = np.array([np.roll(usual, rng.integers(-2, 3)) ** rng.uniform(0.6, 1.4) for _ in range(keys)])
    rates *= rng.lognormal(-0.06, 0.35, 7 * weeks).repeat(24)
    rates *= (mean * size / size.mean() / rates.mean(axis=1))[:, None]
    rates[0] *= giant
    return rng.poisson(rates).astype(float)


def city(keys):
    return {"city": [f"k{k}" for k in range(keys)]}


# How near it is


def test_no_station_with_people_is_nothing_at_all_hours():
    """Where noise is as large as a station's level, its size is not told from nothing; nothing is not what it is."""
    size = np.array([0.5] * 8 + [2.0] * 4)
    counts = np.random.default_rng(0).poisson(5.0 * size[:, None] * week(168) / 100).astype(float)
    found = []
    for seed in range(2):
        release = released(counts, np.random.default_rng(seed), scale=60.0, groups=city(12), of_totals=60.0)
        panel, total = ts.smooth(release, seasons=24)
        assert np.all(panel.values.reshape(12, -1).sum(axis=1) > 0.1 * counts.mean(axis=0).sum())
        assert np.allclose(panel.values.reshape(12, -1).sum(axis=0), total.values)
        of_week = panel.resample(168)
        low, high = of_week.interval(0.9)
        found.append([error_and_cover(panel, counts)[1], np.mean((low <= counts.sum(1)) & (counts.sum(1) <= high))])
    assert np.all(np.mean(found, axis=0) > 0.84)


@pytest.mark.long
def test_no_total_is_worse_than_its_own_smooth_where_stations_share_their_days():
    found = []
    for seed in range(4):
        counts, rng = rainy_days(seed), np.random.default_rng(100 + seed)
        districts = {"city": {f"d{k}": [f"k{3 * k + j}" for j in range(3)] for k in range(4)}}
        release = released(counts, rng, scale=20.0, groups=districts, of_totals=40.0)
        truths = [counts.sum(axis=0), *counts.reshape(4, 3, -1).sum(axis=1)]
        joint, alone = ts.smooth(release, seasons=7)[1], ts.smooth(release[1], seasons=7)
        for one, own, truth in zip(joint.parts, alone.parts, truths, strict=True):
            found.append((*error_and_cover(one, truth), error_and_cover(own, truth)[0]))
    errors, covers, own = np.array(found).reshape(4, 5, 3).transpose(2, 0, 1)
    assert np.all(errors.mean(axis=0) < own.mean(axis=0))
    assert np.all(errors[:, 0] < own[:, 0])
    assert 0.84 < covers.mean() < 0.97


def test_stations_are_nearer_than_each_by_itself_and_covered():
    found = []
    for seed in range(1):
        counts, rng = hours(seed, weeks=2), np.random.default_rng(seed)
        panel, total = released(counts, rng, groups=city(10))
        joint, of_all = ts.smooth([panel, total], seasons=24)
        days = joint.resample(24)
        by_day = counts.reshape(10, -1, 24).sum(axis=2)
        alone = np.concatenate([ts.smooth(part, seasons=24).values for part in panel.parts()])
        found.append(
            [
                *error_and_cover(joint, counts),
                error_and_cover(of_all, counts.sum(axis=0))[1],
                error_and_cover(days, by_day)[1],
                np.abs(alone - counts.ravel()).mean(),
            ]
        )
    error, cover, of_city, of_days, alone = np.mean(found, axis=0)
    assert error < 0.9 * alone
    assert 0.84 < cover < 0.96
    assert 0.84 < of_city < 0.96
    assert of_days > 0.84


def test_a_panel_without_totals_works_by_its_sum():
    counts = rainy_days(7)
    (panel,) = released(counts, np.random.default_rng(7), scale=20.0)
    series = ts.smooth(panel, seasons=7)
    alone = np.concatenate([ts.smooth(part, seasons=7).values for part in panel.parts()])
    assert "of all series jointly" in series.model
    assert np.abs(series.values - counts.ravel()).mean() < 0.9 * np.abs(alone - counts.ravel()).mean()
    total = series.resample(1, groups=city(12))
    error, cover = error_and_cover(total, counts.sum(axis=0))
    assert error < 20 * np.sqrt(12)
    assert cover > 0.8


# What adds up


def districts(keys):
    return {"city": {"x": [f"k{k}" for k in range(keys // 2)], "y": [f"k{k}" for k in range(keys // 2, keys)]}}


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "make", [city, districts, lambda keys: districts(keys)["city"]], ids=["city", "tree", "forest"]
)
@pytest.mark.parametrize("event", [0, 150])
def test_parts_add_up_and_nobody_is_below_zero(make, event):
    counts, rng = hours(1, keys=6), np.random.default_rng(5)
    counts[2, 50:53] += event
    groups = make(6)
    panel, totals = ts.smooth(released(counts, rng, groups=groups), seasons=24)
    parts, sums = panel.by_key(), totals.by_key()
    for name, members in Groups.of(groups, tuple(parts)).members:
        whole = sum(parts[key].values for key in members)
        assert np.allclose(whole, sums[name].values, rtol=1e-9, atol=1e-9)
    above = sum(part.values for part in parts.values()) > 0
    assert np.all(panel.values.reshape(6, -1)[:, above] >= -1e-9)
    assert ts.reconcile(panel, totals) == (panel, totals)
    assert panel.sources == totals.sources


def test_releases_come_in_any_order():
    counts = rainy_days(2)
    release = released(counts, np.random.default_rng(2), groups=city(12))
    one, other = ts.smooth(release, seasons=7), ts.smooth(release[::-1], seasons=7)
    assert [series.release for series in other] == release[::-1]
    assert np.array_equal(one[0].values, other[1].values)


@pytest.mark.long
def test_errors_of_sums_are_those_of_the_joint_fit():
    """At every step exactly, and of everything together no more than of the total by itself."""
    counts = hours(4, keys=5)
    counts[1, 30:33] += 150
    panel, total = ts.smooth(released(counts, np.random.default_rng(4), groups=city(5)), seasons=24)
    each = panel.resample(1, groups={f"k{k}": [f"k{k}"] for k in range(5)})
    assert np.allclose(each.standard_error, panel.standard_error, rtol=1e-6)
    whole = panel.resample(24, groups=city(5))
    assert np.allclose(whole.standard_error, total.resample(24).standard_error, rtol=0.02)
    apart = np.sqrt(sum(part.resample(24).standard_error ** 2 for part in panel.parts))
    assert np.all(whole.standard_error < 1.5 * apart)


# Local events


@pytest.mark.parametrize(
    "groups", [city, pytest.param(lambda keys: None, marks=pytest.mark.long)], ids=["city", "by the sum"]
)
def test_an_event_at_a_small_station_is_kept_and_covered(groups):
    shares, covered = [], []
    for seed in range(2):
        counts, rng = hours(seed, keys=6), np.random.default_rng(seed)
        station, start = int(np.argsort(counts.mean(axis=1))[2]), int(rng.integers(20, 140))
        before = counts[station, start : start + 3].sum()
        counts[station, start : start + 3] += 150
        release = released(counts, rng, groups=groups(6))
        series = ts.smooth(release if len(release) > 1 else release[0], seasons=24)
        part = (series[0] if isinstance(series, tuple) else series).parts[station]
        low, high = part.interval(0.9)
        here = slice(start, start + 3)
        shares.append((part.values[here].sum() - before) / 450)
        covered.append(np.mean((low <= counts[station])[here] & (counts[station] <= high)[here]))
        assert set(range(start, start + 3)) <= set(part.events)
    assert min(shares) > 0.6
    assert abs(np.mean(shares) - 1) < 0.12
    assert np.mean(covered) > 2 / 3


def test_an_event_spoils_no_other_station():
    errors = []
    for size in (0, 150):
        counts = hours(3, keys=6)
        truth = counts.copy()
        counts[5, 60:63] += size
        panel, _ = ts.smooth(released(counts, np.random.default_rng(3), groups=city(6)), seasons=24)
        others = np.delete(panel.values.reshape(6, -1) - truth, 5, axis=0)
        errors.append(np.abs(others[:, 58:65]).mean())
    assert errors[1] < 1.25 * errors[0] + 0.3


def test_a_station_that_is_closed_for_a_day_is_nothing_on_it():
    counts = hours(2, keys=6, weeks=2)
    station, day = int(np.argmax(counts.mean(axis=1))), slice(168, 192)
    counts[station, day] = 0.0
    panel, total = ts.smooth(released(counts, np.random.default_rng(2), groups=city(6)), seasons=24)
    part = panel.parts[station]
    low, _ = part.interval(0.9)
    assert part.values[day].sum() < 0.15 * counts[station, 144:168].sum()
    assert np.mean(low[day] < 1e-6) > 0.8
    assert len(set(part.events) - set(range(164, 196))) == 0
    assert len(set(part.events) & set(range(168, 192))) > 16
    assert all(not one.events for k, one in enumerate(panel.parts) if k != station)
    assert np.allclose(panel.values.reshape(6, -1).sum(axis=0), total.values)


@pytest.mark.long
def test_pure_noise_has_no_events():
    names = 0
    for seed, level in enumerate((0.0, 0.2, 3.0, 20.0)):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(level, (25, 60)).astype(float)
        series = ts.smooth(released(counts, rng)[0], seasons=24)
        names += sum(len(part.events) > 0 for part in series.parts)
    assert names <= 1  # of 100


@pytest.mark.long
def test_pure_noise_has_events_in_one_series_in_a_hundred_at_most():
    names, series = 0, 0
    for seed in range(16):
        rng = np.random.default_rng(1000 + seed)
        counts = rng.poisson(rng.choice([0.0, 0.3, 3.0, 30.0]), (50, 336)).astype(float)
        found = ts.smooth(released(counts, rng)[0], seasons=24)
        names, series = names + sum(len(part.events) > 0 for part in found.parts), series + len(found.parts)
    assert names <= 0.01 * series


def test_an_event_at_an_empty_station():
    counts = hours(6)
    counts[4] = 0.0
    counts[4, 40:43] = 100.0
    panel, _ = ts.smooth(released(counts, np.random.default_rng(6), groups=city(10)), seasons=24)
    part = panel.parts[4]
    low, high = part.interval(0.9)
    assert {40, 41, 42} <= set(part.events)
    assert len(part.events) <= 4
    assert np.sum((low <= counts[4])[40:43] & (counts[4] <= high)[40:43]) >= 2
    assert abs(part.values[40:43].mean() - 100) < 30
    assert np.abs(np.delete(part.values, [40, 41, 42])).mean() < 2


def test_one_giant_leaves_the_small_ones_their_counts():
    counts = hours(8, giant=300 / hours(8)[0].mean())
    panel, total = ts.smooth(released(counts, np.random.default_rng(8), groups=city(10)), seasons=24)
    errors = np.abs(panel.values.reshape(10, -1) - counts).mean(axis=1)
    assert counts[0].mean() > 2 * counts[1:].sum(axis=0).mean()
    assert errors[0] < 12  # as the noise
    assert errors[1:].mean() < 5
    low, high = (row.reshape(10, -1) for row in panel.interval(0.9))
    covered = ((low <= counts) & (counts <= high)).mean(axis=1)
    assert covered[0] > 0.8
    assert covered[1:].mean() > 0.8
    assert error_and_cover(total, counts.sum(axis=0))[1] > 0.8


@pytest.mark.long
def test_a_large_event_does_not_saturate():
    """With little noise, hundreds of people are as many as there are: 4 × 10⁴ in the logarithm of the odds."""
    counts = hours(9, keys=6)
    counts[3, 70:73] += 400
    panel, _ = ts.smooth(released(counts, np.random.default_rng(9), scale=4.0, groups=city(6)), seasons=24)
    part = panel.parts[3]
    assert {70, 71, 72} <= set(part.events)
    assert np.all(np.abs(part.values - counts[3])[70:73] < 16)
    assert np.all(part.standard_error[70:73] < 6)


# Private panels


@pytest.mark.long
def test_a_private_panel_is_smoothed_by_its_sum_and_keeps_a_local_event(monkeypatch):
    """People in 5 steps and in 40, of five keys that share the weather; 300 of the former at a small one."""
    rng, size, keys = np.random.default_rng(3), 168, tuple("abcde")
    weather = rng.lognormal(-0.06, 0.35, 7).repeat(24)
    rates = np.array([2.0, 6.0, 12.0, 30.0, 70.0])[:, None] * week(size) / week(size).mean() * weather
    groups = {5: rng.poisson(rates * 0.7).astype(float), 40: rng.poisson(rates * 0.3).astype(float)}
    groups[5][1, 80:83] += 300
    truth = sum(groups.values())
    count = count_of(size, Tiers(ends=(10, 60)), panel=keys)
    release = private({often: rows.ravel() for often, rows in groups.items()}, rng, count=count)
    series = ts.smooth(release, seasons=24)
    assert {80, 81, 82} <= set(series.parts[1].events)
    assert len(series.events) <= 4
    low, high = series.parts[1].interval(0.9)
    assert np.sum((low <= truth[1])[80:83] & (truth[1] <= high)[80:83]) >= 2
    error, cover = error_and_cover(series, truth)
    assert cover > 0.8
    total = series.resample(24, groups={"all": keys})
    assert error_and_cover(total, truth.sum(axis=0).reshape(-1, 24).sum(axis=1))[1] >= 5 / 7
    assert np.isclose(total.values.sum(), series.values.sum())
    assert series.sources == (release,)

    def refuse(*_, **__):
        raise FitError("each by itself")

    monkeypatch.setattr("opendp_timeseries.reconstruction.smooth.smooth_private_panel", refuse)
    assert error < 0.95 * error_and_cover(ts.smooth(release, seasons=24), truth)[0]


# What comes through


def test_rates_are_known_better_than_counts():
    release = released(hours(2, keys=4), np.random.default_rng(2), groups=city(4))
    counts, rates = (ts.smooth(release, seasons=24, band=band)[0] for band in ("counts", "rate"))
    assert rates.error_covers == "rate"
    assert np.mean(rates.standard_error) < np.mean(counts.standard_error)


def test_where_nothing_joint_can_be_had_each_is_smoothed_by_itself_and_reconciled(monkeypatch):
    panel, total = released(rainy_days(3), np.random.default_rng(3), groups=city(12))

    def alike(found):
        expected = ts.reconcile(*(ts.smooth(one, seasons=7) for one in (panel, total)))
        assert all(np.allclose(a.values, b.values) for a, b in zip(found, expected, strict=True))

    def refuse(*_, **__):
        raise FitError("not today")

    monkeypatch.setattr("opendp_timeseries.reconstruction.smooth.smooth_panel", refuse)
    alike(ts.smooth((panel, total), seasons=7))


def test_next_to_no_noise_gives_the_counts():
    counts = rainy_days(4)
    panel, total = ts.smooth(released(counts, np.random.default_rng(4), scale=1e-3, groups=city(12)), seasons=7)
    assert np.allclose(panel.values, counts.ravel(), atol=0.05)
    assert np.allclose(total.values, counts.sum(axis=0), atol=0.05)


@pytest.mark.parametrize("counts", [np.zeros((3, 40)), np.full((3, 40), 1e60), rainy_days(1, keys=3, days=6)])
def test_series_of_nothing_too_much_or_too_few_steps(counts):
    panel, total = ts.smooth(released(counts, np.random.default_rng(1), groups=city(3)), seasons=None)
    assert np.allclose(panel.values.reshape(3, -1).sum(axis=0), total.values)


def test_progress_is_shown(capsys):
    ts.smooth(released(rainy_days(1), np.random.default_rng(1), groups=city(12)), seasons=7, progress=True)
    assert capsys.readouterr().err.endswith("smoothed 12 of 12 series\n")


def test_what_is_not_a_panel_and_its_totals_is_refused():
    panel, total = released(rainy_days(1), np.random.default_rng(1), groups=city(12))
    refuses(r"releases.*2.*2", ts.smooth, [panel, panel])
    refuses("releases", ts.smooth, [panel, replace(total, invocation="another")])
    refuses("method='haar'", ts.smooth, [panel, total], "haar")
    refuses("release", ts.smooth, [panel, "a secret"], error=TypeError)


def test_filtered_and_sampled_panels_are_smoothed_by_themselves():
    keys, rng = ("a", "b"), np.random.default_rng(1)
    kernel = boxcar_kernel(size=96, width=3)
    for change, kept in (({"stages": (kernel,)}, np.arange(192)), ({}, np.flatnonzero(rng.random(192) < 0.7))):
        release = release_of(
            steps=kept,
            values=50 + rng.normal(0, 5, len(kept)),
            signal=signal_of(size=96, panel=keys, **change),
            scale=5.0,
            sampling_probability=1.0 if len(kept) == 192 else 0.7,
        )
        series = ts.smooth(release)
        assert "jointly" not in series.model
        assert np.array_equal(series.parts[0].values, ts.smooth(release.parts()[0]).values)


# Parts against oracles


def test_joint_errors_against_a_dense_matrix():
    rng, keys, steps = np.random.default_rng(1), "abcdef", 4
    hierarchy = Hierarchy.of(keys, [Groups.of(TREE, keys)])
    tree = [(row, parts.tolist()) for row, parts in reversed(hierarchy.branches)]
    assert tree[0][0] == hierarchy.root
    size = hierarchy.size
    own = [(root := rng.normal(size=(steps, steps))) @ root.T for _ in range(size)]
    parts, shares = rng.uniform(0.1, 1, (2, size, steps))
    for _, members in tree:
        parts[members] /= parts[members].sum(axis=0)
        shares[members] /= shares[members].sum(axis=0)
    local = rng.random((size, steps)) < np.where(np.arange(size) < len(keys), 0.3, 0.0)[:, None]
    found = HierarchyErrors(hierarchy, own, np.array([np.diag(one) for one in own]), parts, shares, local)
    expected = oracle.covariance_of_rows(tree, len(keys), own, parts, shares, local)
    dense = found.of_rows(0, size) @ np.eye(size * steps)
    assert np.allclose(dense, expected, atol=1e-12)
    weights, starts = rng.random((size, steps)), np.array([0, 1, 3])
    of_each = np.tile([0, 1, 1, 2], size)
    sums = [weights.ravel() * (of_each == k) for k in range(3)]
    known = errors.variances_of(found.of_rows(0, size), weights, starts)
    assert np.allclose(known, [side @ expected @ side for side in sums], atol=1e-12)
    some = found.of_rows(len(keys), size) @ np.eye((size - len(keys)) * steps)
    assert np.allclose(some, expected[len(keys) * steps :, len(keys) * steps :], atol=1e-12)
    assert np.allclose(found.variance().ravel(), np.diag(expected), atol=1e-12)
    by_row = [np.diag(one @ np.eye(steps)) for one in found.of_row()]
    assert np.allclose(np.ravel(by_row), np.diag(expected), atol=1e-12)
    for group, members in tree:  # parts add up, and so do their errors
        adds = np.zeros((steps, size * steps))
        for row in members:
            adds[:, row * steps : (row + 1) * steps] += np.eye(steps)
        adds[:, group * steps : (group + 1) * steps] -= np.eye(steps)
        assert np.allclose(adds @ expected, 0, atol=1e-12)


def test_chances_of_events_against_all_courses(monkeypatch):
    monkeypatch.setattr(local_events, "_MOST_CLOSED", 1.0)  # of three steps, some may be closed
    rng = np.random.default_rng(2)
    crowds, prior = rng.uniform(0.2, 1, (1, 2, 2)), np.array([0.3, 0.7])
    variance = np.array([[np.eye(2) * rng.uniform(1, 2) + 0.3 for _ in range(3)]])
    residual = rng.normal(0, 3, (1, 3, 2))
    residual[0, 1] += 8 * crowds[0, 0]
    values = rng.normal(0, 1, (1, 3, 2))
    evidence = local_events.Evidence.of(values, residual, variance, crowds)
    inverse = np.linalg.inv(variance[0])
    pull = np.array([[crowd @ inverse[t] @ residual[0, t] for crowd in crowds[0]] for t in range(3)])
    precision = np.array([[crowd @ inverse[t] @ crowd for crowd in crowds[0]] for t in range(3)])
    assert np.allclose(evidence.pull[0], pull)
    assert np.allclose(evidence.precision[0], precision)
    squares = np.array([3.0, 10, 30, 100]) ** 2 / np.median(precision, axis=0)[:, None]
    # The density of a residual with a crowd by that without, of a size that is normal and above nothing.
    grid = np.linspace(0, 60, 200_001)
    odds = np.zeros((3, 2, 4))
    for t in range(3):
        for kind in range(2):
            for k, square in enumerate(squares[kind]):
                sizes = grid * np.sqrt(square) / 10
                log = pull[t, kind] * sizes - precision[t, kind] * sizes**2 / 2 - sizes**2 / (2 * square)
                odds[t, kind, k] = np.log(np.exp(log).sum() * (sizes[1] - sizes[0]) * 2 / np.sqrt(2 * np.pi * square))
    closure = [
        multivariate_normal.logpdf(values[0, t], cov=np.eye(2))
        - multivariate_normal.logpdf(residual[0, t], cov=variance[0, t])
        for t in range(3)
    ]
    found = evidence.chances(prior, (0.3, 0.06))
    states = np.column_stack([odds.reshape(3, 8), 0.8 * np.array(closure)])
    none, some = oracle.chances(states, [*np.repeat(prior / 40, 4), 0.02], [0.75] * 8 + [0.95])
    assert np.allclose(found.none[0], none, atol=1e-4)
    assert np.allclose(found.crowd[0].reshape(3, 8), some[:, :8], atol=1e-4)
    assert np.allclose(found.closed[0], some[:, 8], atol=1e-4)


def test_a_station_that_is_closed_for_long_is_new_or_gone():
    steps, closed = 200, np.zeros((3, 200), dtype=bool)
    closed[0, 60:84] = closed[1, 100:] = closed[2, (np.arange(steps) % 24 > 6)] = True
    evidence = local_events.Evidence(np.zeros((3, steps, 1)), np.ones((3, steps, 1)), np.where(closed, 5.0, -5.0))
    chances = evidence.chances(np.ones(1), local_events.FREQUENCY)
    assert np.array_equal(chances.closed[0] > 0.5, closed[0])
    assert not chances.closed[1:].any()
    assert np.allclose(chances.none + chances.crowd.sum(axis=(2, 3)) + chances.closed, 1)


def test_counts_at_events_against_dense_conditioning():
    rng = np.random.default_rng(3)
    crowds, squares = rng.uniform(0.2, 1, (2, 3)), rng.uniform(1, 50, (2, 4))
    residual, chances = rng.normal(0, 5, (4, 3)), rng.dirichlet(np.ones(9), 4)
    prior = np.array([(root := rng.normal(size=(3, 3))) @ root.T for _ in range(4)])
    found = local_events.counts(residual, prior, prior + np.eye(3), crowds, squares, chances)
    for t in range(4):
        mean, variance = oracle.count(residual[t], prior[t], np.eye(3), crowds, squares, chances[t])
        assert np.isclose(found.mean[t], mean)
        assert np.isclose(found.variance[t], variance)


def test_the_nearest_values_that_are_not_below_zero():
    rng = np.random.default_rng(4)
    values, variances = rng.normal(1, 2, (6, 50)), rng.uniform(0.1, 3, (6, 50))
    found = nonnegative(values, variances, values.sum(axis=0))
    for t in range(50):
        total = values[:, t].sum()
        expected = oracle.nonnegative(values[:, t], variances[:, t], total) if total > 0 else values[:, t]
        assert np.allclose(found[:, t], expected, atol=1e-9)


def test_departures_of_two_tiers_against_dense_conditioning():
    """Given what was fitted on each channel: rates, counts, variances and covariances, step by step."""
    rng, steps = np.random.default_rng(6), 48
    common = np.maximum(1 + 0.9 * np.sin(np.arange(steps) / 4), 0.1)
    shape = np.stack([common / common.mean(), common**0.8 / (common**0.8).mean()])
    levels, own = np.array([[3.0, 2.0]]), np.array([[[0.8, 0.5], [0.5, 0.6]]])
    weights = np.array([[[0.5, 0.3], [0.2, 0.3]]])
    values = levels[:, :, None] * shape + rng.normal(0, 1.2, (1, 2, steps))
    stations = Stations(values, levels, np.array([1.7]), shape[None], own, weights, np.array([0.5, 0.5]))
    model = Model(read_seasons(12, None, steps), False, True, common, 0.3, slice(steps))
    found = depart(stations, model, Events.empty(1, 2, steps), Pool())
    assert not found.events.open.any()
    back, channels = stations.back[0], found.channels[0]
    assert np.allclose(np.linalg.inv(back) @ (np.eye(2) + own[0]) @ np.linalg.inv(back).T, np.eye(2))
    assert np.isclose((np.linalg.inv(back) @ levels[0] * [1, 0]).sum(), (np.linalg.inv(back) @ levels[0]).sum())
    rates = levels[0][:, None] * shape + back @ np.array([np.sqrt(common) * channel.mean for channel in channels])
    rates[1] += (2.0 - rates[1].mean()) * common / common.mean()
    covariances = [
        np.diag(np.sqrt(common)) @ (channel.joint @ np.eye(steps) - channel.level) @ np.diag(np.sqrt(common))
        for channel in channels
    ]
    mean, extra, passed = np.zeros(steps), np.zeros(steps), np.zeros((2, steps))
    for t in range(steps):
        deviation = np.sqrt(np.maximum(rates[:, t] / levels[0], 0))
        scatter = np.diag(deviation) @ own[0] @ np.diag(deviation)
        gain = scatter[1] @ np.linalg.inv(scatter + np.eye(2))
        mean[t] = rates[1, t] + gain @ (values[0, :, t] - rates[:, t])
        extra[t] = scatter[1, 1] - gain @ scatter[:, 1]
        passed[:, t] = (np.array([0, 1]) - gain) @ back
    mean += (1.7 - mean.mean()) * common / common.mean()
    expected = np.diag(extra)
    for row, covariance in zip(passed, covariances, strict=True):
        expected += np.diag(row) @ covariance @ np.diag(row)
    assert np.allclose(found.mean[0] * 0.3, mean)
    assert np.allclose(found.rates[0], rates)
    assert np.allclose(found.covariance(0) @ np.eye(steps) * 0.09, expected, atol=1e-10)
    assert np.allclose(found.variance[0] * 0.09, np.diag(expected), rtol=1e-6)


@pytest.mark.long
def test_stations_that_are_new_or_gone_are_as_near_as_others():
    size, keys = 504, tuple("abcdefgh")
    here = np.ones((8, size), dtype=bool)
    here[:3, : size // 2] = here[3:5, size // 2 :] = False
    rng, usual = np.random.default_rng(0), np.array([60.0, 20, 5, 60, 20, 30, 10, 3])[:, None]
    rates = here * usual * week(size) / week(size).mean() * rng.lognormal(-0.06, 0.35, 21).repeat(24)
    truth, count = rng.poisson(rates).astype(float), count_of(size, Tiers(ends=(10, 60)), panel=keys)
    series = ts.smooth(private({30: truth.ravel()}, rng, count=count, scale=1.0), seasons=(24, 168))
    for station in (0, 1, 3, 4):
        low, high = series.parts[station].interval(0.9)
        assert np.mean((low - 0.5 <= truth[station]) & (truth[station] <= high + 0.5)) > 0.9
        assert np.sqrt(np.mean((series.parts[station].values - truth[station]) ** 2)) < 2.5
