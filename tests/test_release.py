"""The release is immutable, says what is public, and survives the way to a file and back."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries import Release

RELEASE = Release(steps=[2, 7], values=[9.0, -4.25], size=10, scale=1.5, sampling_probability=0.3)


def test_round_trip_through_json():
    assert Release.from_dict(json.loads(json.dumps(RELEASE.to_dict()))) == RELEASE


def test_repr_says_what_is_public_and_no_value():
    assert repr(RELEASE) == "Release(2 of 10 steps kept with probability 0.3, noise scale 1.5)"


@pytest.mark.parametrize(
    "change",
    [{"steps": [2, 8]}, {"values": [9.0, 4.25]}, {"size": 11}, {"scale": 1.0}, {"sampling_probability": 0.2}],
)
def test_equality_is_over_every_field(change):
    other = dataclasses.replace(RELEASE, **change)
    assert other != RELEASE
    assert hash(dataclasses.replace(RELEASE)) == hash(RELEASE)
    assert dataclasses.replace(RELEASE) == RELEASE


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RELEASE.scale = 0.0
    with pytest.raises(ValueError, match="read-only"):
        RELEASE.values[0] = 0.0
    source = np.array([1.0, 2.0])
    release = dataclasses.replace(RELEASE, values=source)
    source[0] = 99.0
    assert release.values[0] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": [1.5, 7]}, "without loss"),
        ({"values": ["a", "b"]}, "numbers"),
        ({"steps": [7, 2]}, "ascend"),
        ({"steps": [2, 2]}, "ascend"),
        ({"steps": [-1, 2]}, "ascend"),
        ({"steps": [2, 10]}, "ascend"),
        ({"steps": [2]}, "same length"),
        ({"size": 0}, "size"),
        ({"scale": -1.0}, "scale"),
        ({"sampling_probability": 1.5}, "sampling_probability"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(RELEASE, **change)


def test_no_kept_step_is_an_ordinary_release():
    empty = Release(steps=[], values=[], size=3, scale=1.0, sampling_probability=0.1)
    assert len(empty) == 0
    assert Release.from_dict(empty.to_dict()) == empty


def test_a_panel_comes_apart_by_key():
    panel = Release(steps=[0, 3, 4, 11], values=[1.0, 2.0, 3.0, 4.0], size=12, scale=1.5, sampling_probability=0.3)
    parts = panel.by_key(["a", "b", "c"])
    assert list(parts) == ["a", "b", "c"]
    assert parts["a"] == dataclasses.replace(panel, steps=[0, 3], values=[1.0, 2.0], size=4)
    assert parts["b"] == dataclasses.replace(panel, steps=[0], values=[3.0], size=4)
    assert parts["c"] == dataclasses.replace(panel, steps=[3], values=[4.0], size=4)
    for wrong in ([], list("abcde")):
        with pytest.raises(ValueError, match="do not divide"):
            panel.by_key(wrong)
    with pytest.raises(ValueError, match="distinct"):
        panel.by_key(["a", "a"])


def test_a_copy_cannot_be_changed_either():
    for other in (copy.deepcopy(RELEASE), pickle.loads(pickle.dumps(RELEASE))):
        assert other == RELEASE
        with pytest.raises(ValueError, match=r"WRITEABLE|read-only|writeable"):
            other.values.flags.writeable = True


# --- Panels: the keys travel with the release ---

GRID = ts.TimeGrid(size=4)
LOG = {"id": np.arange(3), "time": np.arange(3), "place": np.array(["b", "a", "a"])}


def panel(keys=("b", "a"), **more):
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    count = space >> ts.then_participation_count(GRID, participation_cap=2, by="place", keys=list(keys), **more)
    return (count >> ts.then_subsampled_gaussian(1e-6, sampling_probability=1.0))(LOG)


def test_a_release_knows_the_keys_and_the_grid_of_its_count():
    release = panel()
    assert release.keys == ("b", "a")
    assert release.grid == GRID
    parts = release.by_key()
    assert list(parts) == ["b", "a"] == list(release.by_key(["b", "a"]))
    assert np.rint(parts["b"].values).tolist() == [1, 0, 0, 0]
    assert np.rint(parts["a"].values).tolist() == [0, 1, 1, 0]
    assert release.parts() == list(parts.values())
    assert parts["a"].grid == GRID
    assert parts["a"].keys is None
    assert parts["a"].parts() == [parts["a"]]


@pytest.mark.parametrize("keys", [["a", "b"], ["b"], ["b", "c"], ["b", "a", "c"], [], [0, 1]])
def test_other_keys_than_those_of_the_count_are_refused(keys):
    with pytest.raises(ValueError, match=r"must be those of the count, in their order: \['b', 'a'\]"):
        panel().by_key(keys)


def test_without_known_keys_they_must_be_given():
    release = panel(output_metric=dp.l2_distance(T=float))
    assert release.keys is None
    with pytest.raises(ValueError, match="give the keys of the count"):
        release.by_key()
    assert list(release.by_key(["b", "a"])) == ["b", "a"]
    with pytest.raises(ValueError, match="one series"):
        RELEASE.by_key()


def test_copies_have_their_numbers_for_keys():
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    count = space >> ts.then_participation_count(GRID, participation_cap=2, by="place", keys=["b", "a"])
    noise = ts.then_subsampled_gaussian(1.0, sampling_probability=0.5)
    assert (count >> ts.then_repeat(2) >> noise)(LOG).keys == ((0, "b"), (0, "a"), (1, "b"), (1, "a"))
    single = space >> ts.then_participation_count(GRID, participation_cap=2)
    assert list((single >> ts.then_repeat(3) >> noise)(LOG).by_key(range(3))) == [0, 1, 2]


def test_a_panel_comes_back_whole_from_json_and_from_a_copy():
    release = panel()
    for again in (Release.from_dict(json.loads(json.dumps(release.to_dict()))), pickle.loads(pickle.dumps(release))):
        assert again == release
        assert hash(again) == hash(release)
        assert again.keys == ("b", "a")
    assert release != dataclasses.replace(release, provenance=None)
    with pytest.raises(ValueError, match="that of the provenance"):
        dataclasses.replace(release, size=9)


def test_minus_zero_is_zero():
    plus, minus = (dataclasses.replace(RELEASE, values=[0.0, zero]) for zero in (0.0, -0.0))
    assert plus == minus
    assert hash(plus) == hash(minus)
