"""What is known of a chain from how it was made: its designs, and by name the stage that ends this."""

import os
import weakref

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_timeseries as ts
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.plugin._opendp import callback
from opendp_timeseries.plugin.mechanisms import foreign_stage, mechanism_of, signal_of, stated_designs
from tests import make
from tests.refused import refuses

SIZE = 12
GRID, KERNEL = ts.TimeGrid(size=SIZE), ts.gaussian_kernel(SIZE, 1.0)
LOG = {"id": np.arange(30) % 7, "time": np.arange(30) % SIZE}
NOISE = ts.then_subsampled_gaussian(3.0, sampling_probability=0.5, delta=1e-6)


def count(space, **options):
    return space >> ts.then_participation_count(GRID, **{"participation_cap": 3, "excess": "drop"} | options)


def user_stage(domain, metric, function=lambda data: data, stability=lambda d_in: d_in):
    """A stage whose author says that it stays in the same space."""
    return dp.t.make_user_transformation(domain, metric, domain, metric, function, stability)


def test_a_chain_knows_the_whole_query(log_space):
    chain = count(log_space, gap=2) >> ts.then_circulant_filter(KERNEL)
    source = Source(identifier="id", time="time")
    signal = Signal(make.count(source=source, grid=GRID, participation_cap=3, gap=2), (KERNEL,))
    assert signal_of(chain) == signal
    ((design, view),) = stated_designs(chain >> NOISE)
    assert design == Design(signal=signal, sampling=Sampling(probability=0.5), scale=3.0)
    assert view.delta == 1e-6
    assert (chain >> NOISE)(LOG).design == design
    assert design.loss(2).epsilon_delta(1e-6) == (chain >> NOISE).map(2)


def test_every_log_and_distance_makes_another_query(log_space):
    plain = count(log_space)
    for space in (
        (ts.event_log_domain(identifier="card", time="time"), log_space[1]),
        (ts.event_log_domain(identifier="id", time="left"), log_space[1]),
        (log_space[0], dp.change_one_distance()),
    ):
        elsewhere = count(space)
        assert signal_of(plain) != signal_of(elsewhere)
        with pytest.raises(dp.OpenDPException, match="signal="):
            elsewhere >> ts.make_subsampled_gaussian(*plain.output_space, 3.0, sampling_probability=0.5)


STAGES = {
    "log to log": lambda space: user_stage(*space, lambda log: log, lambda d_in: 3 * d_in) >> count_of(space),
    "count to noise": lambda space: count(space) >> user_stage(*count(space).output_space, lambda x: 2 * np.array(x)),
    "between stages": lambda space: (
        count(space) >> user_stage(*count(space).output_space) >> ts.then_circulant_filter(KERNEL)
    ),
    "OpenDP's own, of a log": lambda space: dp.t.make_identity(*space) >> count_of(space),
    "OpenDP's own, of counts": lambda space: count(space) >> dp.t.make_identity(*count(space).output_space),
}


def count_of(space):
    return count(space)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_that_is_not_ours_ends_what_is_known_and_is_named(log_space, tmp_path, name):
    chain = STAGES[name](log_space)
    stage = "make_identity" if "own" in name else "make_user_transformation"
    assert foreign_stage(chain) == stage
    refuses(f"chain.*{stage}", signal_of, chain)
    measurement = chain >> NOISE
    restated = dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(
            chain >> ts.then_subsampled_gaussian(3.0, sampling_probability=0.5, failure_probability=1e-7)
        ),
        1e-6,
    )
    ours = count(log_space) >> NOISE
    for made in (
        measurement,
        restated,
        ts.make_composition([ours, measurement]),
        chain >> ts.then_composition([NOISE]),
    ):
        refuses(f"measurement.*{stage}", stated_designs, made)
    # Nor does anything that adds up or plans.
    ledger = ts.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3)
    refuses(f"measurement.*{stage}", ledger.release, measurement, LOG)
    refuses(f"chain.*{stage}", ts.Programme.plan, [chain], epsilon=1.0, delta=1e-6, sampling_probability=0.5)
    # The loss itself is that of the maps, all of them.
    assert mechanism_of(measurement).loss(1).epsilon_delta(1e-6) == measurement.map(1)
    if name == "log to log":
        assert measurement.map(1) == ours.map(3)


def test_noise_behind_the_cast_states_a_loss_and_no_design(log_space, tmp_path):
    measurement = count(log_space) >> ts.then_lp_distance(dp.l2_distance(T=float)) >> NOISE
    assert mechanism_of(measurement).designs[0].design.signal == UnknownSignal(SIZE)
    assert measurement.map(1)[0] > 0
    refuses("measurement", stated_designs, measurement)
    release = measurement(LOG)
    for ask in (release.guarantee, release.verify, release.to_json, lambda: release.stated):
        refuses("this signal", ask)


@pytest.mark.parametrize("make_measurement", [
    lambda chain: chain,
    lambda chain: LOG,
    lambda chain: chain >> NOISE >> ts.interpolate,
    lambda chain: chain >> ts.then_subsampled_gaussian(0.0, sampling_probability=0.5),
    lambda chain: chain >> ts.then_lp_distance(dp.l1_distance(T=int)) >> dp.m.then_laplace(2.0),
    lambda chain: dp.c.make_composition([chain >> NOISE] * 2),
])  # fmt: skip
def test_what_returns_no_release_is_refused(log_space, make_measurement):
    refuses("measurement", stated_designs, make_measurement(count(log_space)))


def test_what_is_no_count_has_no_signal(log_space):
    for chain in (LOG, count(log_space) >> NOISE, count(log_space) >> ts.then_lp_distance(dp.l2_distance(T=float))):
        refuses("chain", signal_of, chain, error=TypeError)
    histogram = log_space >> ts.then_participation_histogram(GRID, edges=[2])
    refuses("chain", signal_of, histogram, error=TypeError)


def test_a_callback_holds_nothing_when_opendp_hears_that_memory_is_exhausted():
    held = []

    def function(data):
        rows = np.zeros(10)
        held.append(weakref.ref(rows))
        raise MemoryError("malloc of size 7 failed")

    with pytest.raises(MemoryError, match=r"^memory was exhausted; use a machine with more") as caught:
        callback(function)(None)
    assert held[0]() is None
    assert caught.value.__context__ is None


def test_rust_traces_no_error_unless_it_is_told_to(log_space):
    with pytest.raises(OpenDPException) as caught:
        (log_space >> ts.then_participation_count(ts.TimeGrid(size=3), participation_cap=1))({})
    assert os.environ["RUST_LIB_BACKTRACE"] != "0" or caught.value.raw_traceback == "disabled backtrace"
