"""Releases of a small log, by measurements."""

import functools
import json

import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts

GRID = ts.TimeGrid(start="2013-01-01", step="1h", size=48, zone="UTC")
SMOOTH = ts.gaussian_kernel(48, std=2)
LOG = {
    "id": np.array([1, 2, 2]),
    "time": np.array(["2013-01-01T00:30", "2013-01-02T10:00", "2013-01-02T12:00"], dtype="datetime64[m]"),
    "place": np.array(["a", "b", "a"]),
}


def count(metric=None, grid=GRID, **more):
    space = ts.event_log_domain(identifier="id", time="time"), metric or dp.symmetric_distance()
    return space >> ts.then_participation_count(
        grid, **{"participation_cap": 5, "step_cap": 2, "excess": "drop"} | more
    )


def behind(signal, scale=3.0, p=0.3, sampling="poisson", **view):
    noise = {"sampling_probability": p, "sampling": sampling} | (view or {"delta": 1e-6})
    return signal >> ts.then_subsampled_gaussian(scale, **noise)


def released(**more):
    """A release behind a filter."""
    return behind(count() >> ts.then_circulant_filter(SMOOTH), **more)(LOG)


@functools.cache
def _text():
    return released(p=1.0).to_json()


def broken(path, value):
    """Read the document of a release, in which something else stands at a place."""
    document = json.loads(_text())
    *parents, name = (int(part) if part.isdigit() else part for part in path.split())
    functools.reduce(lambda node, key: node[key], parents, document)[name] = value
    return ts.Release.from_json(json.dumps(document))
