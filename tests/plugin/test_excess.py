"""Every way with an excess of steps, whole: real counts of everybody there can be against the map, and every chain."""

import functools
import itertools
import math
import warnings

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.plugin.mechanisms import signal_of, stated_designs
from tests import make
from tests.make import context_of
from tests.refused import refuses

GRID, KEYS = ts.TimeGrid(size=4), ["a", "b"]
LOG = ts.event_log_domain(identifier="id", time="step")
L1, L2 = dp.l1_distance(T=float), dp.l2_distance(T=float)
TREE = {"all": KEYS}
EXCESS = ["l2", "l1", "drop", "tiers"]
UNITS = ["added", "replaced", "within two steps", "within two steps, replaced"]
CAPS = {
    "one": {}, "twice in a step": {"step_cap": 2}, "gap": {"gap": 2}, "panel": {"by": "site", "keys": KEYS},
    "panel, gap, key cap": {"by": "site", "keys": KEYS, "gap": 2, "key_cap": 1},
}  # fmt: skip
TAPS = {"smooth": [0.5, 0.25, 0.0, 0.25], "signed": [1.0, -0.5, 0.25, 0.0]}
STAGES = {
    "nothing": lambda chain: chain,
    "smooth": lambda chain: chain >> ts.then_circulant_filter(ts.Kernel.from_taps(TAPS["smooth"])),
    "signed": lambda chain: chain >> ts.then_circulant_filter(ts.Kernel.from_taps(TAPS["signed"])),
    "totals": lambda chain: chain >> ts.then_totals(TREE),
    "totals, smooth": lambda chain: STAGES["smooth"](STAGES["totals"](chain)),
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.FilterWithoutGapWarning)
        warnings.simplefilter("ignore", ts.PeriodUnitWarning)
        yield


def metric(unit):
    if "within" in unit:
        return ts.period_distance(2, replaced="replaced" in unit)
    return dp.change_one_distance() if unit == "replaced" else dp.symmetric_distance()


def tiers(caps, unit):
    """Two tiers; one where a gap leaves one of the two steps of a period."""
    return ts.Tiers(ends=() if "gap" in caps and "within" in unit else (1,), share=0.8)


def stage(excess, caps, unit="", cap=2):
    if excess == "tiers":
        return ts.then_participation_count(GRID, tiers=tiers(caps, unit), **CAPS[caps])
    return ts.then_participation_count(GRID, participation_cap=cap, **make.EXCESS[excess], **CAPS[caps])


def everybody(most, series):
    """A log of one person for every way to have up to so many events in every step of every series."""
    for events in itertools.product(range(most + 1), repeat=4 * series):
        places = np.repeat(np.arange(4 * series), events)
        yield {"id": np.ones(places.size, int), "step": places % 4, "site": np.array(KEYS)[places // 4]}


@functools.cache
def counts_of_everybody(excess, unit, caps):
    chain, series = (LOG, metric(unit)) >> stage(excess, caps, unit), 2 if "panel" in caps else 1
    logs = everybody(1 if series == 2 else CAPS[caps].get("step_cap", 1) + 1, series)
    within = [log for log in logs if "within" not in unit or len(set((log["step"] // 2).tolist())) <= 1]
    return np.unique([chain(log) for log in within], axis=0)


def matrix(after, series):
    """What stages do to the counts."""
    sums = np.kron(np.ones((1, series)), np.eye(4)) if "totals" in after else np.eye(4 * series)
    taps = next((taps for name, taps in TAPS.items() if name in after), [1, 0, 0, 0])
    return np.kron(np.eye(len(sums) // 4), np.stack([np.roll(taps, k) for k in range(4)], axis=1)) @ sums


COMBINATIONS = [
    (excess, unit, caps, after)
    for excess, unit, caps, after in itertools.product(EXCESS, UNITS, CAPS, STAGES)
    if not ("totals" in after and "panel" not in caps) and not (excess == "tiers" and after != "nothing")
]


@pytest.mark.thinned(30)
@pytest.mark.parametrize(("excess", "unit", "caps", "after"), COMBINATIONS)
def test_nobody_moves_a_real_count_further_than_the_map_says(excess, unit, caps, after):
    chain = STAGES[after]((LOG, metric(unit)) >> stage(excess, caps, unit))
    vectors = counts_of_everybody(excess, unit, caps)
    vectors = vectors @ matrix(after, vectors.shape[1] // 4).T
    if "replaced" in unit:
        vectors = (vectors[:, None] - vectors).reshape(-1, vectors.shape[1])
    moved, influence = np.abs(vectors), chain.map(1)
    assert np.count_nonzero(moved, axis=1).max() <= influence.l0
    assert moved.max() <= influence.linf
    longest = math.sqrt((moved**2).sum(axis=1).max())
    assert longest <= influence.l2 * (1 + 1e-12)
    if influence.majorant is not None:
        tops = np.cumsum(-np.sort(-moved, axis=1), axis=1).max(axis=0)
        claimed = np.cumsum(np.pad(influence.majorant.values, (0, tops.size)))[: tops.size]
        assert np.all(tops <= claimed * (1 + 1e-12))
    if after == "nothing":  # and somebody does
        assert longest > influence.l2 * (1 - 2.0**-14) * (0.9 if excess == "tiers" else 1)
    truths = {L2: longest, L1: moved.sum(axis=1).max()}
    if excess in ("l2", "tiers"):
        refuses(r"output_metric.*'l1'.*'drop'", lambda: chain >> ts.then_lp_distance(L1))
        del truths[L1]
    for norm, truth in truths.items():  # several do the most where all do the same
        cast = chain >> ts.then_lp_distance(norm)
        assert cast.map(0) == 0
        assert all(k * truth <= cast.map(k) * (1 + 1e-12) for k in (1, 3))
        assert (excess, after) != ("drop", "nothing") or cast.map(3) <= 3 * truth * (1 + 1e-12)


@pytest.mark.thinned(15)
@pytest.mark.parametrize(("excess", "unit", "caps"), list(itertools.product(EXCESS, UNITS, CAPS)))
def test_a_context_a_chain_and_a_document_agree(excess, unit, caps):
    data = {"id": np.arange(60) % 9, "step": np.arange(60) % 4, "site": np.array(KEYS)[np.arange(60) % 2]}
    space = LOG, metric(unit)
    context = context_of(data, 3, space=(LOG, space[1]), epsilon=1.0, delta=1e-6)
    (epsilon, delta), chain = context.remaining_privacy_loss()[0], space >> stage(excess, caps, unit)
    for sample in ({"p": 1.0}, {"p": 0.5}, {"p": 0.5, "sampling": "stratified"}):
        options = {"sampling_probability": sample["p"], "sampling": sample.get("sampling", "poisson")}
        if excess == "tiers" and sample["p"] < 1:
            refuses("sampling_probability", lambda: chain >> ts.then_subsampled_gaussian(4.0, delta=delta, **options))  # noqa: B023
            continue
        if excess == "tiers":
            query = context.query().private_series(GRID, tiers=tiers(caps, unit), **CAPS[caps])
        else:
            query = context.query().participation_count(GRID, participation_cap=2, **make.EXCESS[excess], **CAPS[caps])
            query = query.subsampled_gaussian(**options)
        release = query.release()
        scale = ts.least_scale(chain, epsilon=epsilon, delta=delta, **options)
        assert release.scale == scale
        measurement = chain >> ts.then_subsampled_gaussian(scale, delta=delta, **options)
        ((design, _),) = stated_designs(measurement)
        assert release.design == design
        assert design.signal == signal_of(chain)
        assert release.verify() == (measurement.map(1),)
        assert ts.Release.from_json(release.to_json()) == release
        assert np.array_equal(np.ldexp(release.values, 24), np.rint(np.ldexp(release.values, 24)))


def test_more_than_one_individual_and_several_releases():
    chain = (LOG, dp.symmetric_distance()) >> stage("l2", "one")
    many = (LOG, dp.symmetric_distance()) >> stage("tiers", "panel")
    for one in (chain, many):
        assert one.map(3).l2 == one.map(1).l2
        assert one.map(3).individuals == 3
        assert (one >> ts.then_lp_distance(L2)).map(3) == pytest.approx(3 * one.map(1).l2, rel=1e-12)
    noise = ts.then_subsampled_gaussian(4.0, sampling_probability=1)
    both = ts.make_composition([chain >> noise, many >> noise], delta=1e-6)
    data = {"id": np.arange(9), "step": np.arange(9) % 4, "site": np.array(KEYS)[np.arange(9) % 2]}
    assert [release.design.count.resolution_bits for release in both(data)] == [16, 16]
    alone = ts.make_composition([chain >> ts.then_subsampled_gaussian(4.0, sampling_probability=1)] * 2, delta=1e-6)
    assert both.map(1)[0] < alone.map(1)[0]  # √2 of the one, and 1 of the other


def test_integer_metrics_take_whole_numbers_alone():
    for excess in ("l2", "l1"):
        chain = (LOG, dp.symmetric_distance()) >> stage(excess, "one")
        with pytest.raises(TypeError, match=r"^output_metric.*'drop'"):
            chain >> ts.then_lp_distance(dp.l2_distance(T=int))
    dropped = (LOG, dp.symmetric_distance()) >> stage("drop", "one")
    assert (dropped >> ts.then_lp_distance(dp.l1_distance(T=int))).map(1) == 2


def test_a_wrong_word_is_refused():
    for wrong in ("scale", "l2", 3, ["drop"]):
        with pytest.raises(ValueError, match=r"^excess.*'downweight'.*'drop'"):
            (LOG, dp.symmetric_distance()) >> ts.then_participation_count(GRID, participation_cap=2, excess=wrong)


# --- filters and totals behind what scales ---


def test_a_filter_without_a_gap_warns_and_names_the_remedy():
    chain = (LOG, dp.symmetric_distance()) >> stage("l2", "one")
    kernel = ts.gaussian_kernel(4, 1.0)
    with pytest.warns(ts.FilterWithoutGapWarning, match=r"give the count excess='drop', or a gap=…") as caught:
        smooth = chain >> ts.then_circulant_filter(kernel)
    assert len(caught) == 1
    assert smooth.map(1).l2 == pytest.approx(chain.map(1).l2, rel=1e-3)  # as it says
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = (LOG, dp.symmetric_distance()) >> stage("l2", "gap") >> ts.then_circulant_filter(kernel)
        (LOG, dp.symmetric_distance()) >> stage("drop", "one") >> ts.then_circulant_filter(kernel)
    assert apart.map(1).l2 < 0.9 * smooth.map(1).l2


def test_a_kernel_is_rounded_to_fit_behind_what_scales_and_the_release_says_so():
    chain = (LOG, dp.symmetric_distance()) >> stage("l2", "gap", cap=1)
    fine, coarse = ts.gaussian_kernel(4, 1.0), ts.gaussian_kernel(4, 1.0, resolution_bits=16)
    by_itself, given = (chain >> ts.then_circulant_filter(kernel) for kernel in (fine, coarse))
    assert signal_of(by_itself) == signal_of(given)
    assert signal_of(by_itself).kernels == (coarse,)
    assert signal_of(by_itself).resolution_bits == 32
    assert by_itself.map(1) == given.map(1)
    log = {"id": np.array([1, 1, 2]), "step": np.array([0, 2, 2])}
    counts = np.array(chain(log))
    wanted = [sum(coarse.taps[(t - k) % 4] * counts[k] for k in range(4)) for t in range(4)]
    assert by_itself(log) == wanted
    release = (by_itself >> ts.then_subsampled_gaussian(3.0, sampling_probability=1, delta=1e-6))(log)
    assert release.design.signal.kernels == (coarse,)
    assert release.verify()
    small = ts.gaussian_kernel(4, 1.0, resolution_bits=10)  # stays as it is
    assert signal_of(chain >> ts.then_circulant_filter(small)).kernels == (small,)
    refuses("kernel resolution", lambda: by_itself >> ts.then_circulant_filter(fine))


def test_totals_are_sums_of_the_very_weights():
    chain = (LOG, dp.symmetric_distance()) >> stage("l2", "panel")
    data = {"id": np.arange(60) % 9, "step": np.arange(60) % 4, "site": np.array(KEYS)[np.arange(60) % 2]}
    panel = np.array(chain(data)).reshape(2, 4)
    totals = chain >> ts.then_totals(TREE)
    assert totals(data) == panel.sum(axis=0).tolist()
    assert panel.sum() % 1 != 0
    beyond = ts.make_totals(*chain.output_space, TREE)(np.full(8, 1e300))
    assert beyond == [2.0**37] * 4
    release = (totals >> ts.then_subsampled_gaussian(3.0, sampling_probability=1, delta=1e-6))(data)
    assert release.keys == ("all",)
    assert release.verify()


@pytest.mark.parametrize("after", ["smooth", "totals"])
def test_nothing_goes_behind_tiers_but_noise(after):
    chain = (LOG, dp.symmetric_distance()) >> stage("tiers", "panel")
    refuses("tiers", STAGES[after], chain)
