"""The constructor of step 3: what it refuses, its edges, the law of what it releases, and the figures it solves for.

Random tests state their false-alarm rate; together they raise one in less than 1e-8 runs.
"""

import csv
import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.optimize import minimize_scalar

import opendp_timeseries as ts
from opendp_timeseries.accounting.gaussian import gaussian_delta
from opendp_timeseries.accounting.influence import Influence
from opendp_timeseries.accounting.sampling import Blocks
from opendp_timeseries.design.design import noise_exponent
from opendp_timeseries.plugin import subsampled_gaussian as module
from opendp_timeseries.plugin.spaces import influence_distance
from tests.refused import refuses

ZCDP = dp.approximate(dp.zero_concentrated_divergence())
APPROX_DP = dp.approximate(dp.max_divergence())
INTEGERS = dp.vector_domain(dp.atom_domain(T="i64"), size=10)
FLOATS = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=10)
PERSON = Influence(l0=10, l2=math.sqrt(10), linf=1.0)


def make(scale=2.0, *, domain=INTEGERS, metric=None, **kwargs):
    """The measurement on ten whole numbers, unless told otherwise; approximate zCDP at δ′ = 1e-7."""
    kwargs.setdefault("sampling_probability", 0.1)
    if "output_measure" not in kwargs:
        kwargs.setdefault("failure_probability", 1e-7)
    return ts.make_subsampled_gaussian(domain, metric or influence_distance(), scale, **kwargs)


def counted(size, cap, *, step_cap=1, unit=None):
    space = ts.event_log_domain(identifier="id", time="time"), unit or dp.symmetric_distance()
    caps = {"participation_cap": cap, "step_cap": step_cap, "excess": "drop"}
    return space >> ts.then_participation_count(ts.TimeGrid(size=size), **caps)


# ---------------------------------------------------------------------------------------------- what is refused

NUMBERS = {
    "scale": [math.nan, math.inf, -1.0, True, np.bool_(True), "2", None, 2j, [2.0, 3.0]],
    "sampling_probability": [math.nan, -0.1, 2, math.nextafter(1, 2), True],
    "failure_probability": [math.nan, 0.0, 1.0, -1e-9, False],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NUMBERS.items() for value in values])
def test_a_bad_number_is_refused_by_name_and_value(name, value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    refused = refuses(name, make, error=ValueError if is_number else TypeError, **{name: value})
    assert refused.value in {repr(value), str(value), str(float(value)) if is_number else ""}


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan"), -1.0, True])
def test_delta_must_lie_strictly_between_0_and_1(delta):
    refuses("delta", make, error=(TypeError, ValueError), output_measure=APPROX_DP, delta=delta)


@pytest.mark.parametrize(("measure", "given"), [
    (ZCDP, {}), (ZCDP, {"failure_probability": 1e-7, "delta": 1e-7}), (APPROX_DP, {}),
    (APPROX_DP, {"delta": 1e-7, "failure_probability": 1e-7}), (dp.renyi_divergence(), {"delta": 1e-7}),
    (dp.renyi_divergence(), {"failure_probability": 1e-7}), (dp.smoothed_max_divergence(), {"delta": 1e-7}),
])  # fmt: skip
def test_parameters_and_output_measure_must_belong_together(measure, given):
    refuses("measure", make, output_measure=measure, **given)


@pytest.mark.parametrize("measure", [dp.max_divergence(), dp.approximate(dp.smoothed_max_divergence())])
def test_other_output_measures_are_refused(measure):
    refuses("output_measure", make, error=TypeError, output_measure=measure)


def test_the_sampling_probability_has_no_default():
    refuses(
        "sampling_probability",
        lambda: ts.make_subsampled_gaussian(INTEGERS, influence_distance(), 1.0, failure_probability=1e-7),
        error=TypeError,
    )


@pytest.mark.parametrize(("domain", "metric", "error", "message"), [
    (dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), TypeError, "input_domain"),
    (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), ValueError, "input_domain"),
    (dp.vector_domain(dp.atom_domain(T="String"), size=3), dp.symmetric_distance(), TypeError, "input_domain"),
    (dp.vector_domain(dp.atom_domain(T="f64", nan=True), size=3), dp.l2_distance(T="f64"), ValueError, "NaN"),
    (INTEGERS, dp.l1_distance(T="f64"), TypeError, r"input_metric.*dp.l2_distance"),
    (INTEGERS, dp.symmetric_distance(), TypeError, "influence_distance"),
    (INTEGERS, influence_distance(3), ValueError, "input_metric"),
])  # fmt: skip
def test_a_space_that_does_not_fit_is_refused(domain, metric, error, message):
    refuses(message, make, error=error, domain=domain, metric=metric)


@pytest.mark.parametrize("d_in", [1, 2.0, (10, 3.0, 1.0), None])
def test_a_distance_that_is_no_influence_is_refused(d_in):
    refuses("Refusal: d_in", make().map, d_in, error=(dp.OpenDPException, TypeError))


def test_numpy_scalars_are_numbers():
    plain = make(2.0, sampling_probability=0.5, failure_probability=2**-10)
    for kind in (np.float32, np.float64, np.float16):
        other = make(kind(2), sampling_probability=kind(0.5), failure_probability=kind(2**-10))
        assert other.map(PERSON) == plain.map(PERSON)
    assert make(np.int64(2), failure_probability=2**-10).map(PERSON) == make(2, failure_probability=2**-10).map(PERSON)
    assert make(np.uint8(2), sampling_probability=np.int8(1)).map(PERSON) == (1.25, 0.0)
    counts = counted(np.int32(1000), np.int64(5), step_cap=np.int32(65536))
    assert counts.map(1).linf == 65536.0  # squares of narrow integers would wrap to 0
    assert counts.map(1).l2 == pytest.approx(65536 * math.sqrt(5), rel=1e-15)


# ---------------------------------------------------------------------------------------------------- the edges


@pytest.mark.parametrize("scale", [0.0, 1e-320])
def test_no_noise_costs_infinity_and_no_distance_costs_nothing(scale):
    # Parameter searches probe scale 0, so the map answers instead of raising.
    nobody = dataclasses.replace(PERSON, individuals=0)
    assert make(scale).map(PERSON)[0] == math.inf
    assert make(scale).map(nobody) == (0.0, 0.0)
    exact = make(scale, output_measure=APPROX_DP, delta=1e-6)
    assert exact.map(PERSON) == (math.inf, 1e-6)
    assert exact.map(nobody) == (0.0, 0.0)
    assert make(scale, output_measure=dp.renyi_divergence()).map(PERSON)(2.0) == math.inf
    assert make(scale, output_measure=dp.renyi_divergence()).map(nobody)(2.0) == 0.0
    profile = make(scale, output_measure=dp.smoothed_max_divergence())
    assert profile.map(PERSON).delta(5.0) == 1.0
    assert profile.map(nobody).delta(0.0) == 0.0


def test_no_noise_releases_the_signal_itself():
    release = make(0.0, sampling_probability=1.0)(np.arange(10))
    np.testing.assert_array_equal(release.values, np.arange(10.0))


def test_everything_kept_is_the_gaussian_mechanism():
    # The values are of 50-digit arithmetic; at ε = 800 powers of e overflow.
    assert make(sampling_probability=1).map(PERSON) == (1.25, 0.0)
    profile = make(sampling_probability=1, output_measure=dp.smoothed_max_divergence())
    assert profile.map(PERSON).delta(1.0) == pytest.approx(0.352518058894887, rel=1e-9)
    renyi = make(sampling_probability=1, output_measure=dp.renyi_divergence())
    assert renyi.map(PERSON)(3.0) == pytest.approx(3 * 1.25, rel=1e-11)
    strong = Influence(l0=10, l2=40.0, linf=math.sqrt(160))
    one = make(1.0, sampling_probability=1, output_measure=dp.smoothed_max_divergence())
    assert one.map(strong).delta(800.0) == pytest.approx(0.490032664811699, rel=1e-9)
    assert len(make(sampling_probability=1)(np.arange(10))) == 10


def test_nothing_kept_costs_nothing():
    assert make(sampling_probability=0).map(PERSON) == (0.0, 0.0)
    assert make(sampling_probability=0, output_measure=APPROX_DP, delta=1e-3).map(PERSON) == (0.0, 0.0)
    assert make(sampling_probability=0, output_measure=dp.renyi_divergence()).map(PERSON)(5.0) == 0.0
    release = make(sampling_probability=0)(np.arange(10))
    assert len(release) == 0
    assert release.sampling_probability == 0.0


def test_an_empty_sample_is_released_as_such():
    # A sample drawn again until it is not empty would never be empty: 100 releases of 1 step at p = 1/2 all keep
    # it with probability 2**-100.
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=1)
    measurement = make(domain=domain, sampling_probability=0.5)
    sizes = {len(measurement([3])) for _ in range(100)}
    assert sizes == {0, 1}
    series = (measurement >> ts.interpolate)([3])
    assert len(series) == 1


def test_the_probability_is_rounded_up_to_the_coins_and_accounted_so():
    assert make(sampling_probability=1e-300)(np.arange(10)).sampling_probability == 2.0**-53
    for asked in (1e-300, 2.0**-54, 2.0**-52 * 1.1):
        stated = make(sampling_probability=asked)(np.arange(10)).sampling_probability
        assert stated >= asked
        assert stated * 2**53 == math.ceil(asked * 2**53)
        maps = [
            make(sampling_probability=p, output_measure=dp.renyi_divergence()).map(PERSON)(2.0) for p in (asked, stated)
        ]
        assert maps[0] == maps[1] > 0


# ---------------------------------------------------------------------------------------- the law of the sample


def test_a_step_is_kept_when_its_coin_is_below_the_threshold(monkeypatch):
    # The whole law: 53 fair bits, kept below the threshold, so with probability threshold / 2**53 exactly.
    threshold = math.ceil(0.1 * 2**53)
    coins = np.array([0, threshold - 1, threshold, 2**53 - 1], dtype=np.uint64) << np.uint64(11)
    for rest in (0, 2**11 - 1):  # the bits that are thrown away
        monkeypatch.setattr(module.os, "urandom", lambda n, rest=rest: (coins | np.uint64(rest)).tobytes())
        domain = dp.vector_domain(dp.atom_domain(T="i64"), size=4)
        assert make(domain=domain)([0] * 4).steps.tolist() == [0, 1]


def test_the_sample_does_not_depend_on_the_signal(monkeypatch):
    coins = np.random.default_rng(1).integers(0, 2**64, 10, dtype=np.uint64).tobytes()
    monkeypatch.setattr(module.os, "urandom", lambda n: coins[:n])
    measurement = make(sampling_probability=0.5)
    kept = measurement([0] * 10).steps
    assert 0 < len(kept) < 10
    for signal in (np.arange(10), np.full(10, -(2**63)), np.full(10, 2**63 - 1)):
        np.testing.assert_array_equal(measurement(signal).steps, kept)


def test_poisson_sampling_of_steps():
    # Sizes are binomial, not fixed, and steps are kept independently. Each of the four limits is
    # 6.4 standard deviations, a false alarm in 2e-10 runs.
    runs, size, p = 2000, 1000, 0.1
    kept = np.zeros((runs, size))
    for row in kept:
        row[module._keep_steps(size, math.ceil(p * 2**53))] = 1
    sizes, sd = kept.sum(axis=1), math.sqrt(size * p * (1 - p))
    assert abs(sizes.mean() - size * p) < 6.4 * sd / math.sqrt(runs)
    assert abs(sizes.var() - sd**2) < 6.4 * sd**2 * math.sqrt(2 / runs)  # 0 for samples of a fixed size
    for neighbours in (kept[:, 1:] * kept[:, :-1], kept[1:] * kept[:-1]):
        n = neighbours.size
        # Products that share a step are correlated: var(Σ) ≈ n·(p² − p⁴ + 2(p³ − p⁴)).
        assert abs(neighbours.sum() - n * p**2) < 6.4 * math.sqrt(n * (p**2 + 2 * p**3 - 3 * p**4))


def test_stratified_sampling_of_steps():
    # Blocks of five, the last of three steps. Every step is kept in a fifth of the runs, and offsets of neighbouring
    # blocks are independent. Each of the 39 limits is 6.8 standard deviations: a false alarm in 5e-10 runs.
    runs, blocks = 4000, Blocks(23, 5)
    kept = np.zeros((runs, 25))
    for row in kept:
        row[module._keep_one_of_each(blocks)] = 1
    assert np.all(kept[:, :20].reshape(runs, 4, 5).sum(axis=2) == 1)
    assert np.all(kept[:, 20:].sum(axis=1) <= 1)
    for found, p in ((kept[:, :23], 0.2), (kept[:, 5:25] * kept[:, :20], 0.04)):
        possible = found.sum(axis=0)[: 20 if p == 0.2 else 18]
        assert np.all(np.abs(possible - runs * p) < 6.8 * math.sqrt(runs * p * (1 - p)))
    assert abs(kept[:, 20:23].sum() - runs * 0.6) < 6.8 * math.sqrt(runs * 0.6 * 0.4)


def test_the_offset_in_a_block_is_uniform_to_the_last_bit(monkeypatch):
    # Of the words of 64 bits, the last, 2**64 − 1, is one too many for remainders of 3, and is drawn again.
    words = iter([[2**64 - 1, 5, 2**64 - 2], [2**64 - 1], [1]])
    monkeypatch.setattr(module.os, "urandom", lambda n: np.array(next(words), dtype=np.uint64).tobytes())
    assert module._keep_one_of_each(Blocks(9, 3)).tolist() == [5 % 3, 3 + (2**64 - 2) % 3, 6 + 1]
    assert next(words, None) is None


def test_a_stratified_release_says_how_it_was_sampled():
    for size, length in ((10, 3), (10, 10), (10, 1), (9, 3)):
        measurement = make(
            domain=dp.vector_domain(dp.atom_domain(T="i64"), size=size),
            sampling_probability=1 / length,
            sampling="stratified",
        )
        release = measurement(np.arange(size))
        assert release.sampling.stratified
        assert Fraction(release.sampling_probability) >= Fraction(1, length)
        assert Blocks(size, length).allow(release.steps)
    assert not make()(np.arange(10)).sampling.stratified


def test_a_design_that_does_not_fit_is_refused_at_construction():
    for given in ({"sampling": "systematic"}, {"sampling_probability": 0.3, "sampling": "stratified"}):
        refuses("sampling", make, **given)
        with pytest.raises(ValueError, match="sampling"):
            ts.least_scale(counted(10, 2), epsilon=1.0, delta=1e-6, **({"sampling_probability": 0.1} | given))


@pytest.mark.long
def test_lines_between_stratified_steps_are_nearer_to_the_papers_traffic_counts():
    # 400 releases have means of 19.12 and 20.22 with standard errors of .05 and .07: a false alarm in 1e-7 runs.
    with (Path(__file__).parents[1] / "data" / "pems_flow_5min_2016_janfeb.csv").open() as file:
        flow = np.array([int(row["flow"]) for row in csv.DictReader(file)][:1800])
    signal = (ts.count_signal_domain(1800), dp.symmetric_distance()) >> ts.then_assume_participation(
        participation_cap=180
    )
    errors = {}
    for sampling in ("poisson", "stratified"):
        measurement = signal >> ts.then_subsampled_gaussian(26.085969, sampling_probability=0.1, sampling=sampling)
        releases = [measurement(flow) for _ in range(400)]
        errors[sampling] = np.mean([np.abs(ts.interpolate(release).values - flow).mean() for release in releases])
        longest = np.array([np.diff(release.steps).max() for release in releases])
        assert np.all(longest <= 19) if sampling == "stratified" else longest.mean() > 40
    assert errors["stratified"] <= 19.4
    assert errors["poisson"] > 19.8


# ------------------------------------------------------------------------------------------------ the noise grid


@pytest.mark.parametrize("scale", [1e-290, 1e-3, 0.7, 1.0, 3.0, 2.0**20, 1e9, 1e300])
@pytest.mark.parametrize("bits", [0, 26, 52])
def test_the_noise_grid_holds_the_signal_and_is_fine_beside_the_noise(scale, bits):
    exponent = noise_exponent(scale, bits)
    assert exponent <= -bits
    assert Fraction(scale) / Fraction(2) ** exponent >= 2**24


@pytest.mark.parametrize(("scale", "bits"), [(1e-3, 0), (2.5, 0), (2.0**20, 0), (1e9, 0), (4.0, 26), (1e-4, 40)])
def test_releases_lie_on_the_grid(scale, bits):
    domain = INTEGERS if bits == 0 else FLOATS
    measurement = make(scale, domain=domain, metric=influence_distance(bits), sampling_probability=1)
    grid = Fraction(2) ** noise_exponent(scale, bits)
    for value in measurement(np.arange(10) if bits == 0 else np.arange(10) * 2.0**-bits).values.tolist():
        assert (Fraction(value) / grid).denominator == 1


@pytest.mark.parametrize("p", [1.0, 0.25])
def test_noise_has_the_stated_scale_and_no_bias(p):
    # About 10,000 signed values of an empty signal. The sample variance of a Gaussian is within
    # 6.4·√(2/n) of its own but for 2e-10, the mean within 6.4/√n. On a fine grid hardly a value is whole.
    scale = 3.0
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=round(10_000 / p))
    noise = make(scale, domain=domain, sampling_probability=p)(np.zeros(round(10_000 / p), dtype=int)).values
    n = len(noise)
    assert abs(noise.mean()) < 6.4 * scale / math.sqrt(n)
    assert abs(noise.var() / scale**2 - 1) < 6.4 * math.sqrt(2 / n)
    assert np.mean(noise == np.rint(noise)) < 0.01


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_noise_in_chunks_is_drawn_for_every_value_and_stays_in_place(monkeypatch, processors):
    # Noise of scale 1 on a grid of 2**-26, so that two of 100 draws agree with probability below 1e-4.
    monkeypatch.setattr(module, "_CHUNK", 8)
    monkeypatch.setattr(module, "processors", lambda: processors)
    for size in (0, 1, 8, 9, 16, 100):
        values = np.arange(size) * 1024.0
        noise = module._add_noise(values, 1.0, -26) - values
        assert np.all(np.abs(noise) < 512)
        assert len(set(noise.tolist())) == size
        assert np.array_equal(noise * 2**26, np.rint(noise * 2**26))


def test_a_chunk_of_noise_that_fails_fails_the_release(monkeypatch):
    # The last chunk is the only one of 3 values.
    monkeypatch.setattr(module, "_CHUNK", 8)
    monkeypatch.setattr(module, "processors", lambda: 2)
    make_gaussian = dp.m.make_gaussian

    def out_of_memory(domain, *args, **kwargs):
        if domain == dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=3):
            raise MemoryError
        return make_gaussian(domain, *args, **kwargs)

    monkeypatch.setattr(module.dp.m, "make_gaussian", out_of_memory)
    assert len(module._add_noise(np.zeros(24), 1.0, -26)) == 24
    with pytest.raises(MemoryError):
        module._add_noise(np.zeros(27), 1.0, -26)


def test_profiles_pay_for_discrete_noise():
    # The discrete Gaussian's profile is above the continuous one's, by less than σ(1 − 2**-42) makes of it.
    profile = make(sampling_probability=1, output_measure=dp.smoothed_max_divergence()).map(PERSON)
    for epsilon in (0.0, 1.0, 5.0, 40.0):  # in the last tail it makes more than the margin of the accounting
        continuous = float(gaussian_delta(epsilon, np.array([10 / 4])).item())
        deflated = float(gaussian_delta(epsilon, np.array([10 / 4 / (1 - 2.0**-42) ** 2])).item())
        assert continuous < deflated <= profile.delta(epsilon) <= continuous * (1 + 1e-9)


# -------------------------------------------------------------------------------------------------- the l2 metric


def test_an_l2_distance_allows_one_step_and_all_of_them():
    l2 = make(metric=dp.l2_distance(T="f64"))
    assert l2.map(0.0) == (0.0, 0.0)
    for influence in (Influence(l0=1, l2=2.0, linf=2.0), Influence(l0=10, l2=2.0, linf=2 / math.sqrt(10))):
        assert l2.map(2.0)[0] >= make().map(influence)[0]
    assert make(metric=dp.l2_distance(T="f64"), sampling_probability=1).map(2.0) == (0.5, 0.0)
    refuses("d_in", l2.map, float("nan"), error=dp.OpenDPException)


def test_rounding_of_arbitrary_floats_is_paid_for():
    # Two numbers on both sides of the middle between grid points are rounded a whole step apart, however close.
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=1)
    scale = 2.0**40
    measurement = make(scale, domain=domain, metric=dp.l2_distance(T="f64"), sampling_probability=1)
    step = 2.0 ** noise_exponent(scale, None)
    low, high = step / 2 * (1 - 2.0**-53), step / 2 * (1 + 2.0**-52)
    rounded = [
        make(0.0, domain=domain, metric=dp.l2_distance(T="f64"), sampling_probability=1)([x / step]).values[0]
        for x in (low, high)
    ]
    assert rounded == [0.0, 1.0]
    assert measurement.map(high - low)[0] >= (step / scale) ** 2 / 2
    # Beside a distance that matters it is nothing.
    exact = make(2.0, domain=FLOATS, metric=dp.l2_distance(T="f64"), sampling_probability=1).map(3.0)[0]
    assert 9 / 8 <= exact <= 9 / 8 * (1 + 1e-12)


def test_distances_after_rounding_to_the_grid_are_rounded_up():
    rng = np.random.default_rng(5)
    for _ in range(40):
        distance, step, size = float(rng.uniform(1, 2)), 2.0 ** -int(rng.integers(20, 40)), int(rng.integers(1, 100))
        apart = module._after_rounding(Influence(l0=1, l2=distance, linf=distance), size, step)
        assert (Fraction(apart.l2) - Fraction(distance)) ** 2 >= Fraction(step) ** 2 * size
        assert apart.linf >= apart.l2


def test_floats_of_any_size_are_released():
    measurement = make(domain=FLOATS, metric=dp.l2_distance(T="f64"), sampling_probability=1)
    signal = [0.1, -0.1, 1e308, -1e308, math.inf, -math.inf, 5e-324, 0.0, math.pi, 1e16]
    release = measurement(signal)
    assert np.all(np.isfinite(release.values))


# ---------------------------------------------------------------------------------------- figures to reproduce

EPSILON, DELTA, P = 0.5, 1e-4, 0.1
SERIES = {180: 1800, 73: 725, 213: 2126}
EXACT = {180: 26.085969, 73: 17.430531, 213: 28.209248}
RENYI = {180: 29.575792, 73: 20.087476, 213: 31.905690}
FILTERED = {180: 25.281, 20: 6.944, 5: 1.8954, 1: 0.3814}
THREE_NORMS = {180: 26.086, 20: 7.406, 5: 1.984, 1: 0.3981}


def exact_at(scale, influence, domain=INTEGERS, metric=None):
    measurement = make(
        scale, domain=domain, metric=metric, sampling_probability=P, output_measure=APPROX_DP, delta=DELTA
    )
    return measurement.map(influence)[0]


def is_least(scale, epsilon_of, rel=1e-6):
    """Whether this is the least scale at which ``epsilon_of(scale)``, which falls, is within ε."""
    return epsilon_of(scale * (1 + rel)) <= EPSILON < epsilon_of(scale * (1 - rel))


@pytest.mark.parametrize("cap", SERIES)
def test_scale_by_the_exact_profile(cap):
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=SERIES[cap])
    influence = counted(SERIES[cap], cap).map(1)
    assert is_least(EXACT[cap], lambda scale: exact_at(scale, influence, domain))


def epsilon_by_canonne_kamath_steinke(curve, delta):
    """Least ε over the orders: D_α + (log(1/δ) + (α−1)·log(1−1/α) − log α)/(α−1) (arXiv:2004.00010, Prop. 12)."""

    def at(log_order):
        alpha = 1 + math.exp(log_order)
        return curve(alpha) + (-math.log(delta) - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return minimize_scalar(at, bounds=(-3, 6), method="bounded", options={"xatol": 1e-7}).fun


@pytest.mark.thinned(3)
@pytest.mark.parametrize("cap", SERIES)
def test_scale_by_renyi_divergences(cap):
    chain = counted(SERIES[cap], cap)

    def epsilon(scale):
        measurement = chain >> ts.then_subsampled_gaussian(
            scale, sampling_probability=P, output_measure=dp.renyi_divergence()
        )
        return epsilon_by_canonne_kamath_steinke(measurement.map(1), DELTA)

    assert is_least(RENYI[cap], epsilon)


@pytest.mark.parametrize("cap", [pytest.param(cap, marks=pytest.mark.long if cap != 20 else []) for cap in FILTERED])
def test_scale_behind_the_papers_filter(cap):
    count = counted(1800, cap)
    smooth = ts.make_circulant_filter(count.output_domain, count.output_metric, ts.gaussian_kernel(1800, std=10))
    space = smooth.output_domain, smooth.output_metric
    shaped = smooth.map(count.map(1))
    norms_alone = smooth.map(dataclasses.replace(count.map(1), majorant=None))
    assert norms_alone.majorant is None
    assert is_least(FILTERED[cap], lambda scale: exact_at(scale, shaped, *space), rel=1e-3)
    assert is_least(THREE_NORMS[cap], lambda scale: exact_at(scale, norms_alone, *space), rel=1e-3)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize(("p", "people", "epsilon", "delta"), [(0.1, 1, 0.5, 1e-4), (0.5, 3, 4.0, 1e-9)])
def test_least_scale_is_what_opendps_own_search_finds(width, p, people, epsilon, delta):
    chain = counted(60, 12)
    if width:
        chain >>= ts.then_circulant_filter(ts.gaussian_kernel(60, std=width))

    def release(scale):
        return chain >> ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=delta)

    found = ts.least_scale(chain, epsilon=epsilon, delta=delta, sampling_probability=p, d_in=people)
    assert release(found).check(people, (epsilon, delta))
    assert not release(found * (1 - 1e-11)).check(people, (epsilon, delta))
    searched = dp.binary_search_param(release, d_in=people, d_out=(epsilon, delta), T=float)
    assert found == pytest.approx(searched, rel=1e-9)


@pytest.mark.filterwarnings("ignore::opendp_timeseries.LargeDeltaWarning")
@pytest.mark.parametrize(("cap", "epsilon", "delta", "p"), [
    (1, 1.0, 0.01, 0.01), (1, 1.0, 1e-6, 1e-6), (1, 1e-3, 0.5, 0.5), (3, 1.0, 1 - 0.9**3, 0.1),
    (1, 1.0, 0.1 - 1e-10, 0.1),
])  # fmt: skip
def test_a_scale_is_found_where_the_profile_is_flat(cap, epsilon, delta, p):
    # There δ is the probability that anything of one individual is kept, and hardly depends on ε.
    space = ts.event_log_domain(identifier="id", time="t"), dp.symmetric_distance()
    count = space >> ts.then_participation_count(ts.TimeGrid(size=100), participation_cap=cap)
    scale = ts.least_scale(count, epsilon=epsilon, delta=delta, sampling_probability=p)
    stated = (count >> ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=delta)).map(1)
    assert stated[0] <= epsilon
    assert stated[1] == delta
