"""Several releases as one measurement, with their joint loss; and which losses are known from how they were made."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.plugin.mechanisms import mechanism_of, stated_designs
from tests.oracles import joint as oracle
from tests.refused import refuses

SIZE = 60
LOG = {"id": np.repeat(np.arange(50), 4), "time": np.arange(200) % SIZE}
GRID = ts.TimeGrid(size=SIZE)
FLOATS = dp.l2_distance(T=float)


def count(space, cap=10, **options):
    return space >> ts.then_participation_count(GRID, participation_cap=cap, **{"excess": "drop"} | options)


def noise(scale=4.0, p=0.1, **options):
    return ts.then_subsampled_gaussian(scale, sampling_probability=p, **options)


@pytest.fixture
def members(log_space):
    filtered = count(log_space, 5) >> ts.then_circulant_filter(ts.gaussian_kernel(SIZE, 2.0))
    return [count(log_space) >> noise(delta=1e-6), filtered >> noise(1.0, 0.3), count(log_space, 20) >> noise(9.0, 1.0)]


def test_the_map_states_the_joint_loss_in_every_measure(log_space):
    releases = [(10, 1, 0.1, 4.0), (20, 1, 0.3, 9.0)]
    members = [count(log_space, cap) >> noise(scale, p) for cap, _, p, scale in releases]
    profile = ts.make_composition(members)
    assert profile.output_measure == dp.smoothed_max_divergence()
    for epsilon in (0.2, 1.0):
        truth = oracle.profile_of_counts(releases, epsilon)
        assert truth <= profile.map(1).delta(epsilon) <= truth * (1 + 1e-9)
    assert profile.map(0).delta(0.0) == 0
    epsilon, delta = ts.make_composition(members, delta=1e-6).map(1)
    assert delta == 1e-6
    assert profile.map(1).delta(epsilon) <= 1e-6 * (1 + 1e-9)
    curve = ts.make_composition(members, output_measure=dp.renyi_divergence()).map(1)
    added = dp.c.make_composition([count(log_space, c) >> noise(s, p, output_measure=dp.renyi_divergence())
                                   for c, _, p, s in releases]).map(1)  # fmt: skip
    assert curve(3.0) == pytest.approx(added(3.0), rel=1e-9)
    rho, tail = ts.make_composition(members, failure_probability=1e-6).map(1)
    parts = [count(log_space, c) >> noise(s, p, failure_probability=5e-7) for c, _, p, s in releases]
    assert rho < dp.c.make_composition(parts).map(1)[0]
    assert tail <= 1e-6


def test_less_than_what_opendp_adds_up(members):
    pairs = [ts.make_composition([member], delta=1e-6) for member in members]
    epsilon, delta = dp.c.make_composition(pairs).map(1)
    assert ts.make_composition(members, delta=delta).map(1)[0] < 0.7 * epsilon


def test_equal_releases_are_sampled_each_by_itself(log_space):
    releases = (count(log_space) >> ts.then_composition([noise(0.0)] * 3))(LOG)
    assert len({release.steps.tobytes() for release in releases}) == 3  # equal with probability below 1e-8
    truth = np.array(count(log_space)(LOG))
    for release in releases:
        assert np.array_equal(release.values, truth[release.steps])


def test_releases_say_of_which_whole_they_are_a_part(log_space, members):
    joined = ts.make_composition(members, delta=1e-6)
    for k, release in enumerate(joined(LOG)):
        whole = release.stated.parent
        assert (whole.kind, whole.number, whole.parts) == ("composition", k + 1, 3)
        assert whole.loss == joined.map(1)
        assert f"release {k + 1} of 3 in a composition with (ε = " in release.guarantee()
        # Each states its own loss, at the δ of the composition.
        assert release.stated.loss == (ts.make_composition(members[k : k + 1], delta=1e-6).map(1),)
        assert ts.Release.from_json(release.to_json()) == release
    assert all(release.stated.parent is None for release in ts.make_composition(members)(LOG))


def own_space():
    return ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()


def test_no_member_is_left_out():
    members = [count(own_space(), cap) >> noise(4.0, p) for cap, p in ((5, 0.1), (4, 0.5), (3, 0.2))]
    truth = oracle.profile_of_counts([(5, 1, 0.1, 4.0), (4, 1, 0.5, 4.0), (3, 1, 0.2, 4.0)], 0.2)
    assert truth <= ts.make_composition(members).map(1).delta(0.2) <= truth * (1 + 1e-9)


def test_distances_go_through_the_stages_before():
    # One individual is 1 in the log, and √10 in the count.
    plain = count(own_space()) >> ts.then_lp_distance(FLOATS) >> noise(4.0, 1.0)
    truth = oracle.profile_of_counts([(10, 1, 1.0, 4.0)] * 2, 0.5)
    got = ts.make_composition([plain, plain]).map(1).delta(0.5)
    assert truth <= got <= truth * (1 + 1e-9)


def test_filters_keep_their_benefit_as_all_is_fixed_beforehand():
    signal = count(own_space(), 5) >> ts.then_circulant_filter(ts.gaussian_kernel(SIZE, 2.0))
    members = [signal >> noise(1.0, 0.3)] * 3
    in_advance = joint_loss([mechanism_of(members[0]).loss(1)] * 3, adaptivity="non-adaptive")
    assert ts.make_composition(members).map(1).delta(0.5) == in_advance.delta(0.5)
    assert in_advance.delta(0.5) < joint_loss([mechanism_of(members[0]).loss(1)] * 3).delta(0.5)


def test_a_ledger_finds_every_member(members):
    found = stated_designs(ts.make_composition(members))
    assert [part.design for part in found] == [stated_designs(member)[0].design for member in members]
    assert [part.design.scale for part in found] == [4.0, 1.0, 9.0]


def test_stratified_samples_take_part(log_space):
    every = count(log_space) >> noise(4.0, 0.25, sampling="stratified")
    both = ts.make_composition([every, every], factor=2.0)
    assert both.map(1).delta(0.5) > mechanism_of(every).times(2.0).map(1).delta(0.5)
    found = [(release.sampling.stratified, release.scale, len(release)) for release in both(LOG)]
    assert found == [(True, 8.0, 15)] * 2


def test_a_loss_is_known_before_and_behind_other_stages(log_space):
    plain = mechanism_of(count(log_space) >> noise()).loss(1)
    behind = count(log_space) >> noise() >> (lambda release: release.values.sum())
    assert mechanism_of(behind).loss(1).delta(0.5) == plain.delta(0.5)
    restated = dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(count(log_space) >> noise(failure_probability=1e-7)), 1e-6
    )
    assert mechanism_of(restated).loss(1).delta(0.5) == plain.delta(0.5)
    assert mechanism_of(restated).times(2.0)(LOG).scale == 8.0
    joined = count(log_space) >> ts.then_composition([noise(), noise()])
    nested = ts.make_composition([joined, behind])
    assert nested.map(1).delta(0.5) == ts.make_composition([count(log_space) >> noise()] * 3).map(1).delta(0.5)
    outcome = nested(LOG)
    assert [type(part) for part in outcome[0]] == [ts.Release] * 2
    assert isinstance(outcome[1], float)


def test_the_histogram_of_caps_takes_part(log_space):
    histogram = log_space >> ts.then_participation_histogram(GRID, edges=[2, 5])
    gaussian = histogram >> noise(2.0, 1.0)
    both = ts.make_composition([gaussian, count(log_space) >> noise()], delta=1e-6)
    truth = oracle.profile_of_counts([(1, 1, 1.0, 2.0), (10, 1, 0.1, 4.0)], both.map(1)[0])
    assert truth == pytest.approx(1e-6, rel=1e-6)
    released, _ = both(LOG)
    assert len(released.values) == 3


def test_scales_are_multiplied_in_every_member(members):
    half = count_of = ts.make_composition(members, factor=0.5)
    assert [release.scale for release in half(LOG)] == [2.0, 0.5, 4.5]
    twice = mechanism_of(count_of).times(2.0)
    assert [release.scale for release in twice(LOG)] == [4.0, 1.0, 9.0]
    assert twice.map(1).delta(1.0) == ts.make_composition(members).map(1).delta(1.0)
    behind = ts.make_composition([members[0] >> (lambda release: release.scale)], factor=3.0)
    assert behind(LOG) == [12.0]


def test_the_least_factor(members):
    factor = ts.least_factor(members, epsilon=0.8, delta=1e-5)
    assert ts.make_composition(members, factor=factor, delta=1e-5).map(1)[0] <= 0.8
    assert ts.make_composition(members, factor=factor * (1 - 1e-8), delta=1e-5).map(1)[0] > 0.8
    pair = ts.least_factor(members, epsilon=0.8, delta=1e-5, d_in=2)
    assert pair > factor
    refuses("epsilon", ts.least_factor, members, epsilon=-1.0, delta=1e-5)


def test_signals_off_the_grid_pay_for_their_rounding():
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=5), FLOATS
    members = [space >> noise(scale, 0.5) for scale in (0.3, 0.7)]
    factor = ts.least_factor(members, epsilon=1.0, delta=1e-5, d_in=1.0)
    assert ts.make_composition(members, factor=factor, delta=1e-5).map(1.0)[0] <= 1.0


def test_what_has_no_known_loss_is_refused_by_name(log_space, members):
    laplace = count(log_space) >> ts.then_lp_distance(dp.l1_distance(T=float)) >> dp.m.then_laplace(2.0)
    gaussian = count(log_space) >> ts.then_lp_distance(FLOATS) >> dp.m.then_gaussian(2.0)
    added = dp.c.make_composition([members[0], members[0]])
    for other in (laplace, gaussian, added, dp.c.make_approximate(laplace)):
        with pytest.raises(TypeError, match=r"^measurements\[1\]"):
            ts.make_composition([members[0], other])

    # A map that states the same is no reason to believe that the loss is the same.
    def mimic(*_):
        return members[0].map(1)

    copied = dp.m.make_user_measurement(*log_space, members[0].output_measure, lambda data: 0, mimic)
    refuses("measurements[0]", ts.make_composition, [copied], error=TypeError)


def test_wrong_lists_are_refused_by_name(log_space, members):
    refuses("measurements", ts.make_composition, [])
    refuses("measurements", ts.make_composition, members[0], error=TypeError)
    refuses("measurements[1]", ts.make_composition, [members[0], 3], error=TypeError)
    with pytest.raises(TypeError, match=r"^measurements\[0\]"):
        ts.make_composition([count(log_space)])
    for domain, metric, name in (
        (ts.event_log_domain(identifier="card", time="time"), log_space[1], "input_domain"),
        (log_space[0], dp.change_one_distance(), "input_metric"),
    ):
        refuses(rf"{name} of measurements\[1\]", ts.make_composition, [members[0], count((domain, metric)) >> noise()])
    refuses("measure", ts.make_composition, members, output_measure=dp.approximate(dp.max_divergence()))
    refuses("factor", ts.make_composition, members, factor=0.0)
    refuses("a measurement without noise", ts.least_factor, [count(log_space) >> noise(0.0)], epsilon=1.0, delta=1e-6)


# --- in a Context ---


def context(log_space, loss, parts=1):
    return ts.compositor(
        LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=loss, split_evenly_over=parts
    )


@pytest.mark.parametrize("loss", [dp.loss_of(epsilon=0.8, delta=1e-6), dp.loss_of(rho=0.1, delta=1e-6)])
def test_one_query_spends_its_share_on_all(log_space, loss):
    ctx = context(log_space, loss, parts=2)
    first, delta = ctx.remaining_privacy_loss()[0]
    hourly = ts.then_participation_count(GRID, participation_cap=10)
    query = ctx.query().composition([hourly >> noise(1.0), hourly >> noise(3.0, 0.5)])
    releases = query.release()
    assert [release.scale for release in releases] == [query.param(), 3 * query.param()]
    spent = query.resolve().map(1)
    assert first * (1 - 1e-6) <= spent[0] <= first
    assert spent[1] <= delta
    # On a count that they share, and with scales as they are.
    shared = (
        ctx.query().participation_count(GRID, participation_cap=10).composition([noise(40.0), noise(50.0)], factor=1)
    )
    assert [release.scale for release in shared.release()] == [40.0, 50.0]
    assert len(ctx.remaining_privacy_loss()) == 0


def test_a_composition_in_opendps_own_context_and_on_a_lazyframe(log_space):
    unit = {"privacy_unit": (log_space[1], 1), "privacy_loss": dp.loss_of(epsilon=1.0, delta=1e-6)}
    plain = dp.Context.compositor(data=LOG, domain=log_space[0], **unit, split_evenly_over=1)
    both = ts.make_composition([count(log_space) >> noise(20.0)] * 2, delta=1e-6)
    assert len(plain(both)) == 2
    polars = pytest.importorskip("polars")
    unit["privacy_unit"] = dp.unit_of(contributions=1, identifier="id")
    lazy = ts.compositor(polars.LazyFrame(LOG), **unit, split_evenly_over=1)
    counted = ts.then_participation_count(GRID, participation_cap=10, time="time")
    assert len(lazy.log_query().composition([counted >> noise(1.0)] * 2).release()) == 2


def test_a_query_of_a_composition_refuses_what_it_cannot_do(log_space):
    ctx = context(log_space, dp.loss_of(epsilon=0.8, delta=1e-6))
    counted = ctx.query().participation_count(GRID, participation_cap=10)
    refuses("measurements", counted.composition, [noise(1.0, 0.0)])
    refuses("loss of the query", counted.composition([noise(0.1), noise(0.1)], factor=1.0).release)
    refuses("delta", counted.composition([noise(9.0)], delta=1e-3).release)
    refuses(
        "a budget in MaxDivergence",
        lambda: context(log_space, dp.loss_of(epsilon=0.8)).query().composition([count(log_space) >> noise()]),
    )
