"""The release is immutable, says what is public, and survives the way to a file and back."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

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
