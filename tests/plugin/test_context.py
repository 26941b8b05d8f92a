"""The Context API: OpenDP solves for the scale, splits budgets, and shares a count among queries."""

import copy
import importlib
import inspect
import math

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.context import constructors

import opendp_timeseries as ts
from opendp_timeseries.design.tiers import default_tiers
from opendp_timeseries.plugin._opendp import maker_of, then
from opendp_timeseries.plugin.context import split_budget
from tests import make
from tests.refused import refuses

SIZE = 200
GRID = ts.TimeGrid(size=SIZE)
LOG = {"id": np.repeat(np.arange(300), 4), "time": np.arange(1200) * 7 % SIZE}


def context(log_space, loss, **split):
    return dp.Context.compositor(
        data=LOG, domain=log_space[0], privacy_unit=(log_space[1], 1), privacy_loss=loss, **split
    )


def loss_of_zcdp(rho, delta):
    return dp.approximate(dp.zero_concentrated_divergence()), (rho, delta)


def test_rho_delta_budget_over_several_queries(log_space):
    ctx = context(log_space, loss_of_zcdp(0.2, 2e-6), split_evenly_over=2)
    for cap in (5, 20):
        query = ctx.query().participation_count(GRID, participation_cap=cap)
        query = query.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-6)
        release = query.release()
        direct = (
            log_space
            >> ts.then_participation_count(GRID, participation_cap=cap)
            >> ts.then_subsampled_gaussian(release.scale, sampling_probability=0.1, failure_probability=1e-6)
        )
        assert direct.map(1)[0] == pytest.approx(0.1, rel=1e-6)
        assert direct.map(1)[0] <= 0.1
    with pytest.raises(dp.OpenDPException):
        query.release()


def test_what_is_left_out_is_refused_by_name(log_space):
    ctx = context(log_space, loss_of_zcdp(0.2, 2e-6), split_evenly_over=1)
    scaled = {"scale": 3.0, "sampling_probability": 0.1, "failure_probability": 1e-7}
    # OpenDP takes a first parameter without a default for the one to search; its search then says which it was.
    refuses(
        "grid",
        lambda: ctx.query().participation_count(participation_cap=3).subsampled_gaussian(**scaled).param(),
        error=TypeError,
    )
    count = ctx.query().participation_count(GRID, participation_cap=3)
    refuses("kernel", lambda: count.circulant_filter().subsampled_gaussian(**scaled).param(), error=TypeError)
    refuses(
        "sampling_probability", lambda: count.subsampled_gaussian(failure_probability=1e-7).release(), error=TypeError
    )
    with pytest.raises(ValueError, match="Unable to cast measure from SmoothedMaxDivergence"):
        count.subsampled_gaussian(sampling_probability=0.1).release()  # OpenDP's own Context knows no default


@pytest.mark.parametrize("loss", [loss_of_zcdp(0.1, 1e-8), dp.loss_of(epsilon=1.0, delta=1e-8)])
def test_a_failure_probability_that_cannot_fit_is_named_before_any_scale(log_space, loss):
    # OpenDP's own Context answers `.param()` in (ρ, δ), and fails at `.release()`.
    ctx = make.context(LOG, loss, 2)
    query = ctx.query().participation_count(GRID, participation_cap=50)
    too_much = query.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-7)
    for ask in (too_much.param, too_much.resolve, too_much.release):
        refuses("delta", ask)
    fits = query.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-9)
    assert fits.release().scale > 0
    assert ctx.query().participation_count(GRID, participation_cap=50) is not None


@pytest.fixture
def module_of_totals():
    """A module to import anew, which has its own names again afterwards: other tests hold what it had."""
    module = importlib.import_module("opendp_timeseries.plugin.totals")
    names, registered = dict(vars(module)), dict(constructors)
    yield module
    vars(module).update(names)
    constructors.clear()
    constructors.update(registered)


def test_import_and_reload_register_once(module_of_totals):
    importlib.reload(ts)
    importlib.reload(module_of_totals)
    importlib.reload(ts)
    names = ["participation_count", "assume_participation", "totals", "subsampled_gaussian"]
    assert all(name in constructors for name in names)
    then(ts.make_participation_count)


def test_a_name_taken_by_another_package_stops_no_import(log_space, module_of_totals):
    ours = constructors.pop("totals")

    def make_totals(input_domain, input_metric, groups):
        raise AssertionError("another plugin's")

    dp.register(make_totals)
    importlib.reload(module_of_totals)
    assert constructors["totals"][0] is not ours[0]
    assert maker_of("timeseries_totals") == "opendp_timeseries.plugin.totals"
    panel = {"by": "site", "keys": ["a", "b"], "participation_cap": 5}
    query = exact(dp.loss_of(rho=1.0), log=LOG | SITES).query().participation_count(GRID, **panel)
    assert len(query.totals({"all": ["a", "b"]}).gaussian().release()) == SIZE  # ours first
    theirs = context(log_space, dp.loss_of(rho=1.0), split_evenly_over=1).query()
    theirs = theirs.participation_count(GRID, **panel)
    refuses("another plugin's", theirs.totals, {"all": ["a", "b"]}, error=AssertionError)
    assert theirs.timeseries_totals({"all": ["a", "b"]})._chain.map(1).l0 == SIZE
    del constructors["timeseries_totals"], constructors["totals"]
    importlib.reload(module_of_totals)
    assert maker_of("totals") == "opendp_timeseries.plugin.totals"


@pytest.mark.parametrize("loss", [dp.loss_of(epsilon=1.0), dp.loss_of(rho=1.0)], ids=["epsilon", "rho"])
def test_what_is_searched_for_need_not_be_a_scale(loss):
    measure = loss[0]

    def make_of_a_share(input_domain, input_metric, share):
        if not share < 0.9:
            raise ValueError(f"share ({share}) must be below 0.9")
        return dp.m.make_user_measurement(input_domain, input_metric, measure, lambda log: 0, lambda d_in: share * d_in)

    class OfC:  # has no closure, as functions of C have none
        __name__, __module__ = "make_in_c", "elsewhere"

        def __call__(self, *given): ...

    dp.register(make_of_a_share)
    dp.register(OfC())
    try:
        ctx = ts.compositor(0, (dp.absolute_distance(T=int), 1), loss, 2, domain=dp.atom_domain(T=int))
        assert ctx.query().of_a_share().param(bounds=(0.0, 0.89)) == pytest.approx(0.5)
        assert maker_of("in_c") == "elsewhere"
    finally:
        for name in ("of_a_share", "in_c"):
            constructors.pop(name, None)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("n", [2, 20, *(pytest.param(n, marks=pytest.mark.long) for n in (7, 50))])
@pytest.mark.parametrize("loss", [loss_of_zcdp(0.1, 1e-6), dp.loss_of(epsilon=1.0, delta=1e-6)])
def test_split_budgets_answer_n_queries_and_refuse_the_next(log_space, n, loss):
    # OpenDP 0.16 cannot build n = 20 of the one, nor n = 7 of the other.
    ctx = make.context(LOG, loss, n)
    assert all(spent <= whole for spent, whole in zip(ctx.accountant.map(1), loss[1], strict=True))
    assert all(spent >= whole * (1 - 1e-8) for spent, whole in zip(ctx.accountant.map(1), loss[1], strict=True))
    scale = None
    for _ in range(n):
        query = ctx.query().participation_count(GRID, participation_cap=5)
        if scale is None:
            mechanism = query.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-9)
            scale = mechanism.release().scale
        else:
            query.subsampled_gaussian(scale, sampling_probability=0.1, failure_probability=1e-9).release()
    refuses("exhausted", ctx.query)


@pytest.mark.parametrize("loss", [0.3, (0.1, 1e-6), (1.0, 1e-300)])
@pytest.mark.parametrize("parts", [1, 3, 20, 1000, [0.1, 0.2, 0.7], [5, 1]])
def test_shares_are_proportional_and_within_the_whole(loss, parts):
    weights = parts if isinstance(parts, list) else [1] * parts
    shares = split_budget(loss, weights)
    for k, whole in enumerate(loss if isinstance(loss, tuple) else (loss,)):
        values = [share[k] if isinstance(loss, tuple) else share for share in shares]
        assert whole * (1 - 2e-9) <= math.fsum(values) <= whole
        assert len(shares) > 1 or values == [whole]
        for value, weight in zip(values, weights, strict=True):
            assert value == pytest.approx(whole * weight / sum(weights), rel=2e-9)


# --- Exact accounting is what one gets without asking ---


def exact(loss=None, shares=1, log=LOG, **more):
    return make.context(log, loss, shares, **more)


def test_a_query_takes_its_own_share_by_the_exact_profile():
    ctx = exact(shares=2)
    for _ in range(2):
        epsilon, delta = ctx.remaining_privacy_loss()[0]
        query = (
            ctx.query().participation_count(GRID, participation_cap=20).subsampled_gaussian(sampling_probability=0.1)
        )
        measurement = query.resolve()
        assert measurement.map(1)[1] == delta
        assert epsilon * (1 - 1e-9) < measurement.map(1)[0] <= epsilon
        found = dp.binary_search_param(
            lambda scale: (
                make.space()
                >> ts.then_participation_count(GRID, participation_cap=20)
                >> ts.then_subsampled_gaussian(scale, sampling_probability=0.1, delta=delta)  # noqa: B023
            ),
            d_in=1,
            d_out=(epsilon, delta),
            T=float,
        )
        assert query.param() == pytest.approx(found, rel=1e-9)
        assert query.release().scale == query.param()
    refuses("exhausted", ctx.query)


def test_a_share_of_zcdp_gives_its_delta_to_the_sample():
    ctx = exact(loss_of_zcdp(0.2, 2e-6), shares=2)
    query = ctx.query().participation_count(GRID, participation_cap=20).subsampled_gaussian(sampling_probability=0.1)
    rho, attained = query.resolve().map(1)
    share, failure = ctx.remaining_privacy_loss()[0]
    assert share * (1 - 1e-12) < rho <= share
    count = make.space() >> ts.then_participation_count(GRID, participation_cap=20)

    def rho_at(scale):
        options = {"sampling_probability": 0.1, "failure_probability": failure}
        return (count >> ts.then_subsampled_gaussian(scale, **options)).map(1)[0]

    found = dp.binary_search(lambda scale: rho_at(scale) <= share, bounds=(1e-3, 1e4))
    assert query.param() == pytest.approx(found, rel=1e-9)
    assert 0 < attained <= 1e-6
    assert query.release().statement.view.failure_probability == pytest.approx(1e-6, rel=1e-8)


def test_a_share_of_zcdp_pays_for_rounding_to_the_noise_grid():
    ctx = exact(loss_of_zcdp(0.1, 1e-6))
    count = ctx.query().participation_count(GRID, participation_cap=20, excess="drop")
    query = count.circulant_filter(ts.gaussian_kernel(SIZE, 3)).subsampled_gaussian(sampling_probability=0.1)
    rho, _ = query.resolve().map(1)
    assert 0.1 * (1 - 1e-12) < rho <= 0.1


def test_a_scale_that_is_given_is_kept():
    ctx = exact()
    count = ctx.query().participation_count(GRID, participation_cap=20)
    refuses("loss of the query", count.subsampled_gaussian(0.1, sampling_probability=0.1).release)
    assert count.subsampled_gaussian(50.0, sampling_probability=0.1).release().scale == 50.0


def test_asking_for_another_view_is_possible():
    ctx = exact(shares=2)
    count = ctx.query().participation_count(GRID, participation_cap=20)
    by_zcdp = count.subsampled_gaussian(sampling_probability=0.1, failure_probability=1e-7).release().scale
    assert count.subsampled_gaussian(sampling_probability=0.1).release().scale < 0.8 * by_zcdp


def test_weights_may_be_an_array():
    ctx = make.context(LOG, distance=np.int64(1), split_by_weights=np.array([3, 1]))
    assert ctx.remaining_privacy_loss()[0][0] == pytest.approx(0.75)


def test_a_query_spends_its_share_on_one_step_of_each_block():
    ctx = make.context(LOG)
    query = ctx.query().participation_count(ts.TimeGrid(size=40), participation_cap=12)
    query = query.subsampled_gaussian(sampling_probability=0.25, sampling="stratified")
    release = query.release()
    assert release.sampling.stratified
    assert release.steps.tolist() == sorted(release.steps.tolist())
    assert (release.steps // 4).tolist() == list(range(10))
    space = make.space()
    count = space >> ts.then_participation_count(ts.TimeGrid(size=40), participation_cap=12)
    sample = {"sampling_probability": 0.25, "sampling": "stratified"}
    assert release.scale == ts.least_scale(count, epsilon=1.0, delta=1e-6, **sample)


# --- What newcomers type first ---

KEYS = {"by": "site", "keys": ["a", "b", "c"], "key_cap": 2}
SITES = {"site": np.array(["a", "b", "c"])[np.arange(1200) % 3]}
BUDGETS = {
    "ε": dp.loss_of(epsilon=1.0),
    "ε, δ": dp.loss_of(epsilon=1.0, delta=1e-6),
    "ρ": dp.loss_of(rho=0.1),
    "ρ, δ": loss_of_zcdp(0.1, 1e-6),
}
FIRST = {  # and what one individual changes: ℓ1, ℓ2 squared
    "people in places": (lambda query: query.individual_count(**KEYS), 2, 2),
    "series": (lambda query: query.participation_count(GRID, participation_cap=5, excess="drop"), 5, 5),
    "scaled": (lambda query: query.participation_count(GRID, participation_cap=5, norm="l1"), 5, 5),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("loss", "first"),
    [
        # OpenDP's search for noise in ρ takes a second.
        pytest.param(
            loss, first, marks=pytest.mark.long if "ρ" in name and (first == "series") != ("δ" in name) else []
        )
        for name, loss in BUDGETS.items()
        for first in FIRST
    ],
)
def test_any_count_meets_any_noise_that_the_budget_allows(loss, first):
    stage, l1, l2_squared = FIRST[first]
    in_rho, has_delta = "Concentrated" in str(loss[0].type), isinstance(loss[1], tuple)
    share = (loss[1][0] if has_delta else loss[1]) / 3
    ctx = exact(loss, shares=3, log=LOG | SITES)
    laplace = stage(ctx.query()).laplace().resolve()
    # ε of Laplace noise, and the ρ that follows from it: ε²/2.
    assert laplace.param == pytest.approx(l1 / math.sqrt(2 * share) if in_rho else l1 / share, rel=1e-6)
    assert np.size(ctx(laplace)) > 0
    if not in_rho and not has_delta:
        refuses("gaussian()", stage(ctx.query()).gaussian, remedy=r"`norm='l1'` or `excess='drop'`")
        return
    gaussian = stage(ctx.query()).gaussian().resolve()
    if in_rho:
        assert gaussian.param == pytest.approx(math.sqrt(l2_squared / 2 / share), rel=1e-6)
    assert np.size(ctx(gaussian)) > 0
    if has_delta:
        release = stage(ctx.query()).subsampled_gaussian(sampling_probability=1).release()
        assert 0 < release.scale <= gaussian.param * (1 + 1e-9)
        assert ctx.remaining_privacy_loss() == []


def test_what_scales_in_l2_takes_gaussian_noise_and_no_laplace():
    ctx = exact()
    for scaled in (
        ctx.query().participation_count(GRID, participation_cap=5),
        ctx.query().participation_count(GRID, participation_cap=5, gap=3).circulant_filter(ts.gaussian_kernel(SIZE, 1)),
    ):
        refuses("output_metric", scaled.laplace, rule="'l2'", remedy="'l1'.*with a δ or in ρ, Gaussian noise")
    values = np.array(ctx.query().participation_count(GRID, participation_cap=5).gaussian().release())
    assert np.array_equal(values, np.rint(values * 2.0**52) / 2.0**52)
    assert len(values) == SIZE


def test_a_private_series_takes_the_share_of_its_query():
    ctx = exact(shares=4)
    query = ctx.query().private_series(GRID)
    release = query.release()
    tiers = release.design.count.tiers
    assert tiers == default_tiers(SIZE)
    assert len(release) == release.size == SIZE * tiers.series
    assert release.stated.loss[0] == pytest.approx((0.25, 2.5e-7), rel=1e-8)
    assert "release 1 of 4 in a Context" in release.guarantee()
    options = {"by": "time", "keys": [3, 4], "key_cap": 1, "step_cap": 2, "tiers": ts.Tiers(ends=(5,))}
    refuses("by", ctx.query().private_series, GRID, **options)
    assert query.param() == release.scale
    own = ctx.query().private_series(GRID, tiers=ts.Tiers(ends=(5, 40)), step_cap=3).release().design
    assert (own.sampling.probability, own.count.tiers.ends, own.count.reading.step_cap) == (1.0, (5, 40), 3)
    rho = exact(loss_of_zcdp(0.1, 1e-6)).query().private_series(GRID)
    assert rho.resolve().map(1)[0] == pytest.approx(0.1, rel=1e-9)
    assert rho.release().stated.loss[0][0] == pytest.approx(0.1, rel=1e-9)


def test_noise_behind_a_filter_gets_the_metric_that_it_needs():
    kernel = ts.gaussian_kernel(SIZE, 3)
    ctx = exact(shares=3)
    count = ctx.query().participation_count(GRID, participation_cap=5, excess="drop")
    filtered = count.circulant_filter(kernel)
    assert filtered.laplace().param() == pytest.approx(15.0, rel=1e-6)
    assert len(filtered.gaussian().release()) == SIZE
    assert len(filtered.subsampled_gaussian(sampling_probability=0.5).release().design.signal.kernels) == 1


def test_noise_of_opendps_goes_behind_a_nested_count_and_totals():
    query = exact().query()
    nested = query.participation_count(GRID, participation_cap=5, excess="drop")
    shared = nested.compositor(split_evenly_over=3).release()
    for noise in ("laplace", "gaussian"):
        assert len(getattr(shared.query(), noise)().release()) == SIZE
    assert len(shared.query().subsampled_gaussian(sampling_probability=1).release()) == SIZE


def test_a_release_says_for_whom_and_of_what_it_is_a_part():
    ctx = exact(shares=2, distance=2)
    for number in (1, 2):
        count = ctx.query().participation_count(GRID, participation_cap=5)
        release = count.subsampled_gaussian(sampling_probability=0.5).release()
        assert release.statement.distance == 2
        assert release.verify()[0] == pytest.approx((0.5, 5e-7), rel=1e-8)
        assert "for 2 individuals added or removed" in release.guarantee()
        assert f"release {number} of 2 in a Context with (ε = 1, δ = 1e-06) in all" in release.guarantee()
    ctx = exact(shares=2)
    noise = ts.then_subsampled_gaussian(1.0, sampling_probability=1.0)
    both = ctx.query().composition([ts.then_participation_count(GRID, participation_cap=5) >> noise] * 2).release()
    assert len(both) == 2
    for release in both:  # at the δ of the share, not at each member's own
        assert release.stated.loss[0][1] == pytest.approx(5e-7, rel=1e-8)
    ts.write_releases(both, adaptivity="adaptive")


def test_a_stage_of_somebody_else_ends_what_a_release_knows(log_space):
    ctx = exact()
    twice = dp.t.make_user_transformation(*log_space, *log_space, lambda log: log, lambda d_in: 2 * d_in)
    query = ctx.query().new_with(chain=twice).participation_count(GRID, participation_cap=5)
    release = query.subsampled_gaussian(sampling_probability=0.5).release()
    for ask in (release.guarantee, release.to_json):
        refuses("this signal", ask)


NOISES = {
    "subsampled Gaussian": lambda count: count.subsampled_gaussian(sampling_probability=0.5),
    "OpenDP's Laplace": lambda count: count.laplace(scale=1000.0),
    "OpenDP's Gaussian": lambda count: count.gaussian(scale=1000.0),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("loss", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 1.0, "delta": 1e-6}, {"rho": 1.0}])
def test_a_share_is_spent_before_post_processing(loss, noise):
    if "delta" not in loss and noise is NOISES["subsampled Gaussian"]:
        return  # it always has some δ
    ctx = exact(dp.loss_of(**loss), shares=2)
    seen = []

    def careless(release):
        seen.append(release)
        raise KeyError("a slip")

    query = noise(ctx.query().participation_count(GRID, participation_cap=5, excess="drop"))
    refuses("a slip", query.new_with(chain=query._chain >> careless).release, error=KeyError)
    assert len(seen) == 1
    assert len(ctx.remaining_privacy_loss()) == 1


def test_opendps_own_context_spends_nothing_where_post_processing_fails(log_space):
    # As the page on Contexts says; if it is mended in OpenDP, the page can go.
    context = dp.Context.compositor(
        LOG, (dp.symmetric_distance(), 1), dp.loss_of(rho=1.0), split_evenly_over=2, domain=log_space[0]
    )
    seen = []

    def careless(release):
        seen.append(release)
        raise KeyError("a slip")

    count = context.query().participation_count(GRID, participation_cap=5).lp_distance(dp.l2_distance(T=float))
    query = count.gaussian(scale=1000.0)
    refuses("a slip", query.new_with(chain=query._chain >> careless).release, error=dp.OpenDPException)
    assert len(seen) == 1
    assert len(context.remaining_privacy_loss()) == 2


@pytest.mark.parametrize("make", [ts.compositor, dp.Context.compositor])
def test_opendps_truncation_of_groups_is_as_the_page_says(make):
    people, cap = 2_000, 3
    frame = pl.LazyFrame({"id": np.repeat(np.arange(people), 4), "step": np.tile(np.arange(4), people)})
    context = make(
        frame,
        dp.unit_of(contributions=1, identifier="id"),
        dp.loss_of(epsilon=2.0, delta=1e-6),
        split_evenly_over=2,
        margins=[dp.polars.Margin(by=["step"], max_length=10**6, max_groups=4, invariant="keys")],
    )

    def asked(**keep):
        query = context.query().truncate_num_groups(cap, by=["step"], **keep).truncate_per_group(1, by=["step"])
        # OpenDP's own search for the scale and the threshold takes seconds.
        return context(
            dp.m.make_private_lazyframe(
                *context.accountant.input_space,
                context.accountant.output_measure,
                query.group_by("step").agg(dp.len(signed=True)).polars_plan,
                global_scale=20.0,
                threshold=500,
            )
        )

    kept = asked(keep="first").collect()["len"].sum() / people
    assert abs(kept - (cap - 1)) < 0.1  # a step less than is asked for
    sampled = asked()
    assert context.remaining_privacy_loss() == []
    refuses("multiple fields with name", sampled.collect, error=dp.OpenDPException)


def test_it_takes_what_opendps_own_compositor_takes(log_space):
    arguments = LOG, (dp.symmetric_distance(), 1), dp.loss_of(epsilon=1.0, delta=1e-6), 2, None, log_space[0]
    ours, theirs = (inspect.signature(f).parameters for f in (ts.compositor, dp.Context.compositor))
    assert list(ours) == list(theirs)
    assert len(ts.compositor(*arguments).remaining_privacy_loss()) == 2


@pytest.mark.long
def test_a_histogram_and_one_number_meet_all_three():
    ctx = exact(shares=6)
    for count in (
        lambda: ctx.query().participation_histogram(GRID, edges=[2, 3]),
        lambda: ctx.query().individual_count(),
    ):
        assert count().laplace().param() == pytest.approx(6.0, rel=1e-6)
        assert np.size(count().laplace().release()) in (1, 3)
        assert np.size(count().gaussian().release()) in (1, 3)
        assert len(count().subsampled_gaussian(sampling_probability=1).release()) in (1, 3)


def test_a_query_without_noise_says_what_is_missing():
    query = exact(dp.loss_of(epsilon=1.0)).query().individual_count()
    for ask in (query.release, query.param, query.resolve):
        refuses("query", ask)
    assert query.resolve(allow_transformations=True).map(1).l0 == 1


def test_opendps_own_queries_point_to_the_polars_route():
    query = exact().query()
    general = {"identity", "user_measurement", "user_transformation"}
    ours = {name for name in constructors if maker_of(name).startswith("opendp_timeseries.")}
    others = set(constructors) - general - ours
    assert {"count", "count_distinct", "sum", "mean", "laplace", "gaussian", "private_pca", "np_clamp"} < others
    for name in others:
        refuses(f"{name}()", getattr(query, name))
    for name in ("select", "group_by", "filter", "quantile", "collect"):  # of Polars' own
        refuses(rf"^{name}\(\) is no stage.*howto/contexts", getattr, query, name, error=AttributeError)
    assert query.identity().individual_count().laplace().param() == pytest.approx(1.0)
    refuses("Unrecognized constructor: 'select'", lambda: query.individual_count().select, error=AttributeError)
    with pytest.raises(AttributeError):
        copy.copy(query).__nothing__  # noqa: B018


def test_a_log_query_on_a_frame_points_to_opendps_queries():
    pl = pytest.importorskip("polars")
    ctx = ts.compositor(
        pl.LazyFrame({"id": LOG["id"], "time": LOG["time"]}),
        privacy_unit=dp.unit_of(contributions=1, identifier="id"),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=2,
    )
    assert abs(ctx.log_query().individual_count().laplace().release() - 300) < 60
    refuses("count()", ctx.log_query().count, error=TypeError)
    refuses(r"is no stage.*query\(\).select\(…\) on the Con", getattr, ctx.log_query(), "select", error=AttributeError)


# --- What OpenDP would refuse in words of its own ---


@pytest.mark.parametrize(
    "loss",
    [
        *(dp.loss_of(epsilon=1.0), dp.loss_of(epsilon=1.0, delta=1e-6)),
        *(pytest.param(loss, marks=pytest.mark.long) for loss in (loss_of_zcdp(0.5, 1e-6), dp.loss_of(rho=0.5))),
    ],
    ids=str,
)
def test_noise_that_is_too_little_for_the_share_is_refused_in_words(loss):
    context = exact(loss, shares=2)
    asked = [context.query().individual_count().laplace(0.5)]
    asked += [context.query().participation_count(GRID, participation_cap=3, excess="drop").laplace(1.0)]
    if "Approximate" in str(loss[0]):
        count = context.query().participation_count(GRID, participation_cap=3)
        asked += [count.subsampled_gaussian(0.5, sampling_probability=1)]
    for query in asked:
        refuses("loss of the query", query.release)
    assert len(context.remaining_privacy_loss()) == 2
    assert isinstance(context.query().individual_count().laplace(40.0).release(), int)
    assert isinstance(context.query().individual_count().laplace().release(), int)


def test_a_share_is_exact_where_the_sum_of_all_is():
    for shares, share in ((2, 0.5), (4, 0.25), (20, 0.05)):
        ctx = exact(shares=shares)
        spent, left = ctx.accountant.map(1), ctx.remaining_privacy_loss()
        assert spent <= (1.0, 1e-6)
        assert {epsilon for epsilon, _ in left} == {share} or share * (1 - 1e-8) < left[0][0] < share
    query = exact(shares=2).query().individual_count()
    assert query.laplace().param() == pytest.approx(2.0, rel=1e-12)
    assert isinstance(query.laplace(2.0).release(), int)
