"""Private panels with groups in one norm: keys and groups smoothed together, which add up."""

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.counting.capped_count import capped_count
from opendp_timeseries.design.grouping import Grouping
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.weights import RESOLUTION_BITS
from opendp_timeseries.smoothing.everybody import last_tier, values_at
from opendp_timeseries.smoothing.matrices import FitError
from tests.reconstruction.simulated import error_and_cover
from tests.refused import refuses
from tests.releases import release_of
from tests.smoothing.test_everybody import count_of

KEYS = tuple(f"k{k}" for k in range(8))
CITY = {"city": KEYS}
NESTED = {"city": {"north": KEYS[:3], "south": KEYS[3:]}}


def counted(tree, size, shares=None):
    grouping = None if tree is None else Grouping.of(tree, KEYS, shares)
    return count_of(size, Tiers(ends=(10, 40)), panel=KEYS, key_cap=None if tree else 1, grouping=grouping)


def events(seed, size):
    """Who was where when: people at one key at a time, who come less and more often; and how many that makes."""
    rng = np.random.default_rng(seed)
    shape = np.exp(0.9 * np.sin(np.arange(size) * 2 * np.pi / 24)) * rng.lognormal(-0.06, 0.35, size // 24).repeat(24)
    sizes = rng.lognormal(0, 0.9, len(KEYS))
    often = rng.choice([1, 3, 8, 40, 120], 4000, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    who = np.repeat(np.arange(len(often)), often)
    steps = rng.choice(size, len(who), p=shape / shape.sum())
    who, steps = np.unique(np.stack([who, steps]), axis=1)
    places = rng.choice(len(KEYS), len(who), p=sizes / sizes.sum())
    truth = np.zeros((len(KEYS), size))
    np.add.at(truth, (places, steps), 1)
    return who, places * size + steps, truth


def released(count, log, rng, scale=13.36):
    """A release with NumPy's noise, to be reproducible."""
    exact = capped_count(*log, count, bytes(16)) / 2.0**RESOLUTION_BITS
    values = exact + rng.normal(0, scale, exact.size)
    every = np.arange(exact.size)
    return release_of(steps=every, values=values, signal=Signal(count), scale=scale, sampling_probability=1.0)


@pytest.mark.long
def test_stations_and_their_city_are_nearer_together_and_add_up():
    size, nearer, covers, sums = 24 * 7, [], [], []
    for seed in range(2):
        *log, truth = events(seed, size)
        city = truth.sum(axis=0)
        rng = np.random.default_rng(seed)
        panel, grouped = (released(counted(tree, size), log, rng) for tree in (None, CITY))
        alone = ts.smooth(panel, seasons=24)
        stations, total = ts.smooth([grouped], seasons=24)
        np.testing.assert_allclose(stations.values.reshape(8, -1).sum(axis=0), total.values, rtol=1e-9)
        assert (stations.release.keys, total.release.keys) == (KEYS, ("city",))
        assert stations.sources == total.sources == (grouped,)
        together = alone.values.reshape(8, -1).sum(axis=0)
        by_total, alone_total = (np.abs(values - city).mean() for values in (total.values, together))
        nearer.append((error_and_cover(stations, truth)[0] / error_and_cover(alone, truth)[0], by_total / alone_total))
        covers.append((error_and_cover(stations, truth)[1], error_and_cover(total, city)[1]))
        sums.append(total.values.sum() / city.sum())
        # The release alone is smoothed in the same way, and errors of any sum are those of the fit.
        again = ts.smooth(grouped, seasons=24)
        assert np.array_equal(again.values, stations.values)
        of_all = again.resample(24, groups=CITY)
        assert np.mean(np.abs(of_all.values - city.reshape(-1, 24).sum(axis=1)) <= 3 * of_all.standard_error) > 0.9
    assert np.mean([station for station, _ in nearer]) < 1.02
    assert np.mean([of_city for _, of_city in nearer]) < 0.95
    assert np.all(np.mean(covers, axis=0) > 0.84)
    assert abs(np.mean(sums) - 1) < 0.1


@pytest.mark.parametrize("shares", [None, (0.5, 0.125, 0.375)])
@pytest.mark.long
def test_levels_are_in_units_of_the_whole_norm(shares):
    size = 48
    *log, truth = events(1, size)
    count, plain = counted(NESTED, size, shares), counted(None, size)
    exact, whole = (capped_count(*log, one, bytes(16)) / 2.0**RESOLUTION_BITS for one in (count, plain))
    release = release_of(
        steps=np.arange(count.size), values=exact, signal=Signal(count), scale=1.0, sampling_probability=1.0
    )
    members = [[[k] for k in range(8)], [[0, 1, 2], [3, 4, 5, 6, 7]], [[*range(8)]]]
    names = [KEYS, ("north", "south"), ("city",)]
    for level, groups in enumerate(members):
        sums = np.array([truth[group].sum(axis=0) for group in groups])
        values, noise = values_at(release, count, level)
        expected = np.array([whole.reshape(plain.shape)[:, group].sum(axis=1) for group in groups]).swapaxes(0, 1)
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-3)
        assert noise == pytest.approx((count.reading.grouping.shares[level] / 16) ** -0.5)
        last = last_tier(release, level)
        assert last.keys == names[level]
        np.testing.assert_allclose(last.values.reshape(sums.shape), sums, rtol=1e-12, atol=1e-12)
    series = ts.smooth([release], seasons=None)
    assert [one.release.keys for one in series] == names
    assert ts.interpolate(release).release.keys == KEYS


@pytest.mark.long
def test_keys_and_groups_come_each_by_itself_where_their_sum_cannot_be_fitted(monkeypatch):
    def refuse(*_, **__):
        raise FitError("each by itself")

    monkeypatch.setattr("opendp_timeseries.reconstruction.smooth.smooth_private_panel", refuse)
    *log, truth = events(2, 48)
    release = released(counted(NESTED, 48), log, np.random.default_rng(2), scale=2.0)
    stations, districts, city = ts.smooth([release], seasons=24)
    assert (stations.release.keys, districts.release.keys) == (KEYS, ("north", "south"))
    assert np.abs(city.values - truth.sum(axis=0)).mean() < 15
    assert np.array_equal(ts.smooth(release, seasons=24).values, stations.values)
    for wrong in ({"method": "haar"}, {"method": "nothing"}):
        refuses("method", ts.smooth, [release], **wrong)
    refuses("must be one panel and its totals", ts.smooth, [release, release])
