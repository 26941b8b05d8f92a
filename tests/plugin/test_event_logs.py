"""OpenDP's own LazyFrames: our chains and native Polars queries spend one budget of one Context."""

import datetime as dt

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin import participation_count as module
from tests.refused import refuses

pl = pytest.importorskip("polars")

HOURS, PEOPLE = 200, 300
GRID = ts.TimeGrid(size=HOURS, start="2020-01-01", step="1h", zone="UTC")
WHO = np.repeat(np.arange(PEOPLE), 40)
WHEN = np.arange(WHO.size) * 7 % HOURS
EXACT = dp.approximate(dp.max_divergence())


def frame(who=WHO, when=WHEN):
    start = dt.datetime(2020, 1, 1)
    times = [start + dt.timedelta(hours=int(hour)) for hour in when]
    return pl.LazyFrame({"who": who, "when": times, "other": [dt.time(0)] * len(who)})


def space(data, metric=dp.symmetric_id_distance, identifier="who"):
    identifier = pl.col(identifier) if isinstance(identifier, str) else identifier
    return dp.domain_of(data, infer=True), metric(identifier=identifier)


def context(data, loss, **split):
    unit = dp.unit_of(contributions=1, identifier="who")
    margins = [dp.polars.Margin(by=(), max_length=10**6)]
    return dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss, margins=margins, **split)


def test_one_budget_for_a_series_and_a_polars_query():
    ctx = context(frame(), dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=2)
    epsilon, delta = ctx.remaining_privacy_loss()[0]
    count = ctx.accountant.input_space >> ts.then_participation_count(GRID, participation_cap=20, time="when")

    def with_noise(scale):
        accounting = {"delta": delta, "output_measure": EXACT}
        return count >> ts.then_subsampled_gaussian(scale, sampling_probability=0.2, **accounting)

    scale = dp.binary_search_param(with_noise, d_in=1, d_out=(epsilon, delta), T=float)
    measurement = with_noise(scale)
    release = ctx(measurement)
    assert isinstance(release, ts.Release)
    assert 0.99 * epsilon < measurement.map(1)[0] <= epsilon
    assert len(ctx.remaining_privacy_loss()) == 1
    with pytest.raises(dp.OpenDPException):  # twice its share
        ctx(with_noise(scale / 2))
    query = ctx.query().truncate_per_group(1).select(dp.len(signed=True))
    rows = query.release().collect().item()
    assert abs(rows - PEOPLE) < 500
    assert ctx.remaining_privacy_loss() == []
    with pytest.raises(dp.OpenDPException):
        ctx(measurement)


# OpenDP defines the change-one distance of identifiers as half the symmetric one, whatever the sizes: two
# individuals added are at a distance of 1.
@pytest.mark.parametrize(("metric", "individuals"), [(dp.symmetric_id_distance, 1), (dp.change_one_id_distance, 2)])
def test_the_same_counts_and_the_same_map_as_of_an_event_log(monkeypatch, metric, individuals):
    monkeypatch.setattr(module, "fresh_key", lambda: bytes(16))
    data = frame()
    lazy = space(data, metric) >> ts.then_participation_count(GRID, participation_cap=9, step_cap=2, time="when")
    log = ts.event_log_domain(identifier="who", time="when"), dp.symmetric_distance()
    eager = log >> ts.then_participation_count(GRID, participation_cap=9, step_cap=2)
    assert np.array_equal(lazy(data), eager(data.collect()))
    assert [lazy.map(k) for k in range(4)] == [eager.map(k * individuals) for k in range(4)]


def build(data, *, grid=GRID, time="when", **of_space):
    return space(data, **of_space) >> ts.then_participation_count(grid, participation_cap=3, time=time)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"identifier": pl.col("who") + 1}, TypeError, "input_metric"),
        ({"identifier": pl.col("who").alias("x")}, TypeError, "input_metric"),
        ({"identifier": pl.col("^w.*$")}, TypeError, "input_metric"),
        ({"identifier": "nobody"}, ValueError, "column 'nobody'"),
        ({"identifier": "other"}, TypeError, "'other' of type"),
        ({"time": None}, TypeError, "time"),
        ({"time": "whenever"}, ValueError, "column 'whenever'"),
        ({"time": "other"}, TypeError, "'other' of type"),
        ({"grid": ts.TimeGrid(size=3)}, TypeError, "times of type datetime64[us]"),
        ({"metric": lambda identifier: dp.symmetric_distance()}, TypeError, "input_metric"),
    ],
)  # fmt: skip
def test_spaces_that_are_not_an_event_log_are_refused_at_construction(change, error, words):
    refuses(words, build, frame(), error=error, **change)


def test_an_event_log_domain_names_its_own_time(log_space):
    refuses(
        "time",
        lambda: log_space >> ts.then_participation_count(GRID, participation_cap=3, time="time"),
        error=TypeError,
    )


def test_the_column_of_a_panel_is_checked_at_construction():
    data = frame().with_columns(venue=pl.lit(1), half=pl.lit(dt.time(0)))

    def make(by):
        return space(data) >> ts.then_participation_count(GRID, participation_cap=1, time="when", by=by, keys=[1])

    assert make("venue").map(1).l2 == 1
    refuses("column 'zzz'", make, "zzz")
    refuses("'half' of type", make, "half", error=TypeError)
