"""A δ that is too large is said where a guarantee is asked for in Python, whatever the data."""

import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts


@pytest.fixture
def count(log_space):
    return log_space >> ts.then_participation_count(ts.TimeGrid(size=10), participation_cap=2)


def composed(count, **options):
    return count >> ts.then_composition([ts.then_subsampled_gaussian(9.0, sampling_probability=0.5)], **options)


WAYS = {
    "delta": lambda count, path, delta: (
        count >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.5, delta=delta)
    ),
    "failure probability": lambda count, path, delta: (
        count >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.5, failure_probability=delta)
    ),
    "composition": lambda count, path, delta: composed(count, delta=delta),
    "programme": lambda count, path, delta: ts.Programme.plan(
        [count], epsilon=1.0, delta=delta, sampling_probability=0.5
    ),
    "ledger": lambda count, path, delta: ts.Ledger.create(path / "people.ledger", epsilon=1.0, delta=delta),
    "context": lambda count, path, delta: (
        ts.compositor(
            {"id": np.array([1]), "time": np.array([1])},
            privacy_unit=(dp.symmetric_distance(), 1),
            privacy_loss=dp.loss_of(epsilon=1.0, delta=delta),
            split_evenly_over=1,
            domain=count.input_domain,
        )
        .query()
        .participation_count(ts.TimeGrid(size=10), participation_cap=2)
        .subsampled_gaussian(sampling_probability=0.5)
    ),
}


@pytest.mark.parametrize("how", ["delta", "failure_probability"])
def test_the_delta_of_several_releases_is_their_sum(count, how):
    measurement = count >> ts.then_subsampled_gaussian(9.0, sampling_probability=0.5, **{how: 0.0004})
    releases = [measurement({"id": np.array([1, 2]), "time": np.array([3, 4])}) for _ in range(3)]
    with pytest.warns(ts.LargeDeltaWarning, match=r"δ = 0.0012 is large") as found:
        document = ts.write_releases(releases)
    assert [one.filename for one in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # not of two, nor where others read it
        ts.write_releases(releases[:2])
        ts.read_releases(document)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_large_delta_warns_where_it_is_asked_for(count, tmp_path, way):
    with pytest.warns(ts.LargeDeltaWarning, match=r"δ = 0.0011 is large.*one over the number of individuals") as found:
        made = way(count, tmp_path, 0.0011)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # not on release, nor where it is not above the threshold
        if isinstance(made, dp.Measurement):
            released = made({"id": np.array([1, 2]), "time": np.array([3, 4])})
            [release] = released if isinstance(released, list) else [released]
            ts.Release.from_json(release.to_json()).verify()
        (tmp_path / "again").mkdir()
        way(count, tmp_path / "again", 0.001)
    if isinstance(made, ts.Ledger):
        assert "δ = 0.0011 is large" in repr(made)
        assert "large" not in repr(ts.Ledger(tmp_path / "again" / "people.ledger"))
    if way in (WAYS["delta"], WAYS["programme"], WAYS["ledger"]):
        assert found[0].filename.endswith("test_large_delta.py" if way is not WAYS["delta"] else ".py")
