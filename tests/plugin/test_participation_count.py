"""The count as an OpenDP transformation: same counts from every table, maps of every metric, refusals."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence, Majorant
from tests.refused import refuses


def test_a_gap_is_in_the_influence_and_bounds_the_steps(log_space):
    def count(gap, space=log_space, **more):
        caps = {"participation_cap": 4, "gap": gap, "excess": "drop"}
        return space >> ts.then_participation_count(ts.TimeGrid(size=9), **caps, **more)

    replaced = log_space[0], dp.change_one_distance()
    assert count(2).map(1) == Influence(l0=4, l2=2.0, linf=1.0, gap=2, majorant=Majorant(np.ones(4)))
    assert count(np.int64(4)).map(1).l0 == 2  # of nine steps around the clock, two at most lie four apart
    assert count(4).map(3).individuals == 3
    assert count(4, by="key", keys=["a", "b"]).map(1).l0 == 4
    assert (count(4, replaced).map(1).l0, count(4, replaced).map(1).replaced) == (4, True)
    assert count(1).map(1).gap == 1


@pytest.mark.parametrize("cap", [np.int32(65536), np.int64(2), np.uint8(3), 2**80])
def test_numpy_integers_are_integers(log_space, cap):
    caps = {"participation_cap": cap, "step_cap": cap}
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=5), **caps, excess="drop")
    assert count.map(1).linf == float(cap)
    assert count.map(1).l0 == min(int(cap), 5)


@pytest.mark.parametrize(("table", "message"), [
    ({"id": np.zeros(1, "V8"), "time": np.array([0])}, "column 'id' of type .V8"),
    ({"id": np.array([1]), "time": np.zeros(1, "m8[s]")}, "column 'time' of type timedelta64"),
    ({"id": np.array([1])}, "Refusal: column 'time'"),
    ({"id": np.array([1, 2]), "time": np.array([0])}, "equally long"), ([1, 2], "a table of type list"),
])  # fmt: skip
def test_a_bad_schema_is_refused_by_name_and_type(log_space, table, message):
    count = log_space >> ts.then_participation_count(ts.TimeGrid(size=5), participation_cap=2)
    assert not log_space[0].member(table)
    refuses(message, count, table, error=dp.OpenDPException)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"participation_cap": 0}, ValueError, r"^participation_cap"),
    ({"participation_cap": True}, TypeError, "participation_cap"),
    ({"participation_cap": 2.0}, TypeError, "participation_cap"),
    ({"step_cap": -1}, ValueError, r"step_cap \(-1\)"), ({"step_cap": np.bool_(True)}, TypeError, "step_cap"),
])  # fmt: skip
def test_bad_parameters_are_refused_at_construction(log_space, changes, error, message):
    with pytest.raises(error, match=message):
        ts.make_participation_count(*log_space, ts.TimeGrid(size=5), **({"participation_cap": 2} | changes))


def test_wrong_spaces_and_grids_are_refused(log_space):
    grid = ts.TimeGrid(size=5)
    vectors = dp.vector_domain(dp.atom_domain(T="i64"), size=5)
    refuses(
        "input_domain",
        lambda: ts.make_participation_count(vectors, dp.symmetric_distance(), grid, participation_cap=2),
        error=TypeError,
    )
    refuses(
        "input_metric",
        lambda: ts.make_participation_count(log_space[0], dp.hamming_distance(), grid, participation_cap=2),
        error=TypeError,
    )
    refuses("grid", ts.make_participation_count, *log_space, 5, error=TypeError, participation_cap=2)
    for given in ({"excess": "drop"}, {"excess": "downweight"}, {"norm": "l1"}, {"per": "all"}):
        with pytest.raises(ValueError, match=rf"^{next(iter(given))} \("):
            ts.make_participation_count(*log_space, grid, **given)
    refuses(
        "tiers", lambda: ts.make_participation_count(*log_space, grid, participation_cap=2, tiers=ts.Tiers(ends=(2,)))
    )
    refuses(
        "participation_cap",
        lambda: ts.make_assume_participation(ts.count_signal_domain(5), dp.symmetric_distance()),
        error=TypeError,
    )
    assert ts.event_log_domain(identifier="id", time="time") == log_space[0]
    assert ts.event_log_domain(identifier="id", time="when") != log_space[0]
    for bad in ({"identifier": "a", "time": "a"}, {"identifier": 3, "time": "a"}):
        refuses("identifier", ts.event_log_domain, error=(TypeError, ValueError), **bad)
