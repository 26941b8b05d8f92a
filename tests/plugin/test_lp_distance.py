"""One cast to OpenDP's own distances: against everything that individuals can do, behind every stage, and refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import Influence, Majorant
from opendp_timeseries.plugin.lp_distance import l1_of, l2_of
from opendp_timeseries.plugin.spaces import influence_distance
from tests.refused import refuses

STEPS = 5
L1, L2 = dp.l1_distance(T=float), dp.l2_distance(T=float)
TREE = {"all": {"x": ["a", "b"], "y": ["c"]}}
TAPS = (0.5, 0.25, 0.0, 0.0, 0.25)
CAPS = {
    "cap": {"participation_cap": 2},
    "over half": {"participation_cap": 3, "step_cap": 2},
    "gap": {"participation_cap": 2, "gap": 2},
    "panel": {"participation_cap": 2, "keys": "abc"},
    "panel, key cap": {"participation_cap": 2, "key_cap": 1, "keys": "abc"},
    "panel, gap and key cap": {"participation_cap": 2, "gap": 2, "key_cap": 2, "step_cap": 2, "keys": "abc"},
}


def count(*, replaced=False, keys=None, **caps):
    metric = dp.change_one_distance() if replaced else dp.symmetric_distance()
    panel = {} if keys is None else {"by": "site", "keys": list(keys)}
    log = ts.event_log_domain(identifier="id", time="step")
    return (log, metric) >> ts.then_participation_count(
        ts.TimeGrid(size=STEPS), **{"participation_cap": 2, "excess": "drop"} | caps, **panel
    )


def behind(signal, stages):
    signal = signal >> ts.then_totals(TREE) if "totals" in stages else signal
    return signal >> ts.then_circulant_filter(ts.Kernel.from_taps(TAPS)) if "smooth" in stages else signal


@pytest.mark.parametrize("caps", ["cap", "over half", "panel, gap and key cap"])
def test_whole_distances_are_rounded_up(caps):
    signal = count(replaced=True, **CAPS[caps])
    for whole, exact in ((dp.l1_distance, L1), (dp.l2_distance, L2)):
        for kind in (int, "i64", "u64"):
            stated = (signal >> ts.then_lp_distance(whole(T=kind))).map(3)
            assert type(stated) is int
            assert 0 <= stated - (signal >> ts.then_lp_distance(exact)).map(3) < 1


def test_whole_distances_never_wrap():
    huge = count(step_cap=2**40)
    refuses("does not fit i32", (huge >> ts.then_lp_distance(dp.l1_distance(T="i32"))).map, 1, error=dp.OpenDPException)
    assert (huge >> ts.then_lp_distance(dp.l1_distance(T="i64"))).map(1) == 2**41


def test_a_bound_that_says_less_is_not_used():
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=9), influence_distance()

    def distances(**influence):
        casts = (ts.make_lp_distance(*space, metric) for metric in (L1, L2))
        return [cast.map(Influence(**influence)) for cast in casts]

    assert distances(l0=4, l2=math.inf, linf=3.0) == [12.0, 6.0]
    assert distances(l0=4, l2=1.0, linf=3.0, individuals=2) == [4.0, 2.0]
    assert distances(l0=4, l2=math.inf, linf=math.inf) == [math.inf, math.inf]
    assert distances(l0=4, l2=math.inf, linf=3.0, majorant=Majorant([3.0, 1.0])) == [4.0, 6.0]
    assert distances(l0=4, l2=math.inf, linf=math.inf, individuals=0) == [0.0, 0.0]


def test_distances_are_never_rounded_down():
    for linf, individuals in itertools.product(np.random.default_rng(0).uniform(0.1, 9, 60).tolist(), (1, 3, 7)):
        influence = Influence(l0=7, l2=math.inf, linf=linf, individuals=individuals)
        exact = individuals * Fraction(linf)
        assert 7 * exact <= Fraction(l1_of(influence)) <= 7 * exact * (1 + Fraction(1, 2**50))
        assert 7 * exact**2 <= Fraction(l2_of(influence)) ** 2 <= 7 * exact**2 * (1 + Fraction(1, 2**49))


# --- with OpenDP's own noise ---

LOG = {"id": np.arange(40) % 9, "step": np.arange(40) % STEPS, "site": np.array(list("abca") * 10)}


@pytest.mark.parametrize(("stages", "caps"), [("none", "cap"), ("smooth", "gap"), ("totals, smooth", "panel, key cap")])
def test_opendps_noise_goes_behind_every_stage(stages, caps):
    signal = behind(count(**CAPS[caps]), stages)
    for metric, noise, loss in ((L1, dp.m.then_laplace, lambda d: d / 2), (L2, dp.m.then_gaussian, lambda d: d**2 / 8)):
        cast = signal >> ts.then_lp_distance(metric)
        measurement = cast >> noise(2.0)
        assert measurement.map(3) == pytest.approx(loss(cast.map(3)), rel=1e-12)
        assert len(measurement(LOG)) == len(signal(LOG))


def test_numbers_pass_as_they_are(monkeypatch):
    monkeypatch.setattr("opendp_timeseries.plugin.participation_count.fresh_key", lambda: bytes(16))
    for caps, stages in (("cap", "none"), ("panel", "totals, smooth")):
        signal = behind(count(**CAPS[caps]), stages)
        for metric in (L1, L2):
            assert (signal >> ts.then_lp_distance(metric))(LOG) == signal(LOG)


def test_one_count_becomes_a_plain_number(log_space):
    people = log_space >> ts.then_individual_count()
    for kind in (int, float):
        number = people >> ts.then_lp_distance(dp.absolute_distance(T=kind))
        assert number(LOG) == 9
        assert number.map(3) == 3
    noisy = number >> dp.m.then_gaussian(1e-6)
    assert round(noisy(LOG)) == 9
    assert noisy.map(1) == pytest.approx(1 / (2 * 1e-12))
    one = log_space >> ts.then_participation_count(ts.TimeGrid(size=1), participation_cap=1, excess="drop")
    smooth = one >> ts.then_circulant_filter(ts.Kernel.from_taps([0.5]))
    half = smooth >> ts.then_lp_distance(dp.absolute_distance(T=float))
    assert (half({"id": np.arange(3), "time": np.zeros(3, int)}), half.map(1)) == (1.5, 0.5)


@pytest.mark.parametrize(("make", "metric", "message"), [
    (count, dp.linf_distance(T=float), r"output_metric.*.i64."),
    (count, dp.symmetric_distance(), r"output_metric.*dp.l1_distance"),
    (count, influence_distance(), r"output_metric.*dp.l1_distance"),
    (count, dp.l1_distance(T="f32"), "output_metric"),
    (count, dp.l2_distance(T="f32"), "output_metric"), (count, "l1", r"output_metric.*dp.l1_distance"),
    (count, dp.absolute_distance(T=int), r"output_metric.*5.*dp.l1_distance"),
    (lambda: behind(count(), "smooth"), dp.l1_distance(T=int), "output_metric"),
    (lambda: count() >> ts.then_lp_distance(L1), L2, r"input_metric.*L1Distance.*must"),
])  # fmt: skip
def test_other_distances_are_refused_by_name(make, metric, message):
    refuses(message, lambda: make() >> ts.then_lp_distance(metric), error=TypeError)


def test_no_filter_and_no_second_cast_goes_behind():
    cast = count() >> ts.then_lp_distance(L2)
    refuses("input_metric", lambda: cast >> ts.then_circulant_filter(ts.Kernel.from_taps(TAPS)), error=TypeError)
    refuses(
        "input_metric", lambda: count(keys="abc") >> ts.then_lp_distance(L2) >> ts.then_totals(TREE), error=TypeError
    )
    with pytest.raises(dp.OpenDPException, match="Refusal: d_in"):
        ts.make_lp_distance(*count().output_space, L2).map(1.0)
