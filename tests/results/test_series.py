"""A series: immutable, says what its standard error covers, and counts as an array."""

import dataclasses

import numpy as np
import pytest

from opendp_timeseries import Series, interpolate
from opendp_timeseries.reconstruction.interpolate import _through
from tests.refused import refuses
from tests.releases import panel, release_of

RELEASE = release_of(steps=[2, 7], values=[4.0, 9.0], signal=10, scale=3.0, sampling_probability=0.3)


def series(**change):
    parts = {
        "release": RELEASE,
        "values": np.arange(10.0),
        "standard_error": np.ones(10),
        "error_covers": "noise",
        "model": "a test",
    }
    return Series(**parts | change)


def test_standard_error_of_linear_interpolation():
    # σ at kept steps and beyond them, σ/√2 at a midpoint, the weights' root of
    # squares in between.
    error = interpolate(RELEASE).standard_error
    weight = np.array([0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1])
    assert np.allclose(error, 3.0 * np.hypot(weight, 1 - weight), rtol=1e-9)
    middle = release_of(steps=[0, 2], values=[4.0, 9.0], signal=3, scale=3.0, sampling_probability=0.3)
    assert interpolate(middle).standard_error[1] == pytest.approx(3.0 / np.sqrt(2), rel=1e-9)


def test_standard_error_of_nearest_is_the_noise():
    assert np.allclose(interpolate(RELEASE, "nearest").standard_error, 3.0, rtol=1e-9)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("method", ["linear", "nearest", "pchip"])
@pytest.mark.long
def test_standard_error_is_the_spread_of_repeated_noise(method):
    # Small noise on a monotone signal, where PCHIP is smooth in its values: 4,000 draws, so each of the 60
    # relative errors has standard deviation 1/√8000 = 0.011; 0.08 is beyond 7 of them, false alarm below 1e-9.
    rng = np.random.default_rng(0)
    kept = np.flatnonzero(rng.random(60) < 0.2)
    signal = kept**1.5
    errors = np.zeros((4000, 60))
    exact = release_of(steps=kept, values=signal, signal=60, scale=1e-3, sampling_probability=0.2)
    for i in range(4000):
        errors[i] = _through(exact, signal + rng.normal(0, 1e-3, len(kept)), method)
    claimed = interpolate(exact, method).standard_error
    assert np.allclose(errors.std(axis=0), claimed, rtol=0.08)


@pytest.mark.parametrize(("steps", "error"), [([], 0.0), ([4], 3.0)])
def test_standard_error_with_few_kept_steps(steps, error):
    few = release_of(steps=steps, values=[9.0] * len(steps), signal=6, scale=3.0, sampling_probability=0.3)
    assert np.allclose(interpolate(few, "pchip").standard_error, error, rtol=1e-9)


def test_clipping_does_not_shrink_the_standard_error():
    negative = dataclasses.replace(RELEASE, values=[-50.0, -60.0])
    clipped = interpolate(negative, clip_at_zero=True)
    assert np.all(clipped.values == 0)
    assert np.array_equal(clipped.standard_error, interpolate(negative).standard_error)


def test_kept_steps_are_marked():
    assert np.flatnonzero(series().kept).tolist() == [2, 7]


def test_intervals_are_normal():
    low, high = series().interval(0.95)
    assert np.allclose(high - series().values, 1.959964, atol=1e-6)
    assert np.allclose(low + high, 2 * series().values)
    refuses("confidence_level", lambda: series().interval(1))


def test_it_counts_as_an_array():
    assert np.asarray(series()).tolist() == list(range(10))
    assert np.mean(series()) == 4.5
    assert len(series()) == 10
    assert np.asarray(series(), dtype=np.float32).dtype == np.float32
    assert series()[[2, 3]].tolist() == [2, 3]
    assert list(series()) == list(range(10))
    assert (series() - np.ones(10)).tolist() == list(range(-1, 9))
    frame = pytest.importorskip("pandas").Series(series(), index=np.arange(10) * 2)
    assert frame[18] == 9.0
    assert frame.dtype == np.float64


def test_an_array_of_it_is_copied_only_where_that_is_asked_for():
    one = series()
    assert np.shares_memory(np.asarray(one), one.values)
    assert not np.asarray(one).flags.writeable
    copied = np.array(one)
    copied[0] = 99.0
    assert one.values[0] == 0.0
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert np.shares_memory(np.array(one, copy=False), one.values)
        refuses("copy", np.array, one, dtype=np.float32, copy=False)


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        series().model = "another"
    with pytest.raises(ValueError, match="read-only"):
        series().values[0] = 1.0


def test_a_panel_has_a_series_for_each_key():
    whole = panel("xy", steps=[1, 4], values=[3.0, 8.0], size=6)
    parts = [
        series(release=part, values=np.full(3, level), standard_error=np.ones(3), error_covers=covers)
        for part, level, covers in zip(whole.parts(), (3.0, 8.0), ("noise", "counts"), strict=True)
    ]
    both = series(release=whole, values=np.arange(6.0), standard_error=np.ones(6), parts=parts)
    x, y = both.by_key().values()
    assert [one.values.tolist() for one in (x, y)] == [[0, 1, 2], [3, 4, 5]]
    assert [one.release.steps.tolist() for one in (x, y)] == [[1], [1]]
    assert [one.error_covers for one in (x, y)] == ["noise", "counts"]
    changed = dataclasses.replace(both, values=-both.values, standard_error=2 * both.standard_error)
    assert changed.by_key()["y"].values.tolist() == [-3, -4, -5]
    assert changed.by_key()["y"].standard_error.tolist() == [2, 2, 2]
    refuses("parts", lambda: series(release=whole, values=np.arange(6.0), standard_error=np.ones(6), parts=parts[:1]))
    refuses("this release", lambda: series().by_key())


def test_a_total_sets_the_level_and_its_error_is_in_every_band():
    one = series(values=np.arange(10.0), standard_error=np.full(10, 0.3))
    found = one.with_total(90.0, standard_error=9.0)
    assert np.allclose(found, 2 * np.arange(10.0))
    assert np.allclose(found.standard_error, np.hypot(0.6, 0.1 * found.values))
    assert np.allclose(one.with_total(45.0).standard_error, one.standard_error)
    assert (one.levelled, found.levelled, found.with_total(9.0).levelled) == (False, True, True)
    assert repr(found) == "Series(10 steps by a test, at the level of a total; standard error of the noise)"
    for total, error, message in (
        (0.0, 1.0, r"total \(0\.0\) must"),
        (9.0, -1.0, r"standard_error \(-1\.0\) must"),
    ):
        refuses(message, one.with_total, total, error)
    refuses("a series with the sum 0", lambda: series(values=np.zeros(10)).with_total(5.0))


def test_a_total_of_a_panel_is_of_all_its_series():
    whole = panel("xy", steps=[1, 4], values=[3.0, 8.0], size=6)
    parts = [
        series(release=part, values=np.full(3, level), standard_error=np.ones(3))
        for part, level in zip(whole.parts(), (3.0, 8.0), strict=True)
    ]
    both = series(release=whole, values=np.repeat([3.0, 8.0], 3), standard_error=np.ones(6), parts=parts)
    found = both.with_total(66.0, standard_error=6.6)
    assert np.allclose(found, np.repeat([6.0, 16.0], 3))
    assert np.allclose(found.parts[1].values, 16.0)
    assert np.allclose(found.parts[1].standard_error, np.hypot(2, 1.6))
