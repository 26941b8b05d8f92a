"""How far sums of a value are from the truth, beside one clip of everybody, the best that there is. Run with

python -m pytest tests/benchmarks/test_values.py -s --override-ini addopts=

Minutes of rides by the hour, of eight weeks, at (1, 1e-6), with every step kept. Nobody can know the best clip: an
oracle that is shown the truth chooses the cap. Takes half an hour on one core; ``TRUTH_SEEDS=2`` does less.
"""

import os
import sys
import tempfile

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

import opendp_timeseries as ts
from tests.benchmarks.test_truth import HOURS, SEEDS, bikes, check_ins, traffic
from tests.reconstruction.simulated import error_and_cover

dp.enable_features("contrib", "honest-but-curious")
BOUND = 60
CAPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: Of each: how to draw who comes when, and how long a ride is, in minutes.
LOGS = {"bikes": (bikes, 14.0), "check-ins": (check_ins, 25.0), "traffic": (traffic, 6.0)}


def rides(name, seed):
    """Minutes on the way in each hour, of rides as long as their riders' usually are, and their sums by the hour."""
    draw, minutes = LOGS[name]
    rng = np.random.default_rng(seed)
    who, step = draw(rng)
    who, step = who[step < len(HOURS)], step[step < len(HOURS)]
    usual = minutes * rng.lognormal(-0.125, 0.5, who.max() + 1)
    long = usual[who] * rng.gamma(4, 0.25, len(who))
    each = np.bincount(who * len(HOURS) + step, np.floor(long + 0.5))
    rows = np.flatnonzero(each)
    spent = np.minimum(each[rows], BOUND).astype(np.int64)  # an hour has no more, so that a larger bound cuts nothing
    who, step = np.divmod(rows, len(HOURS))
    return {"id": who, "step": step, "minutes": spent}, np.bincount(step, spent, len(HOURS))


@pytest.mark.parametrize("name", LOGS)
def test_against_one_clip_by_an_oracle(name):
    space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    grid, budget = ts.TimeGrid(size=len(HOURS)), {"epsilon": 1.0, "delta": 1e-6}
    asked = {"value": "minutes", "bound": BOUND}
    measurements = {"private series": space >> ts.then_private_series(grid, **asked, **budget)}
    for times in (5, 30):
        generous = asked | {"bound": times * BOUND}
        measurements[f"bound times {times}"] = space >> ts.then_private_series(grid, **generous, **budget)
    for cap in CAPS:
        count = space >> ts.then_participation_count(grid, participation_cap=cap, **asked)
        scale = ts.least_scale(count, sampling_probability=1.0, **budget)
        measurements[cap] = count >> ts.then_subsampled_gaussian(scale, sampling_probability=1.0, delta=1e-6)
    found = {key: [] for key in measurements}
    for seed in SEEDS:
        log, truth = rides(name, seed)
        for key, measurement in measurements.items():
            if isinstance(key, str) or seed < 2:  # caps are alike from seed to seed
                series = ts.smooth(measurement(log), seasons=(24, 168))
                found[key].append((*error_and_cover(series, truth), series.values.sum() / truth.sum() - 1))
    means = {key: np.mean(rows, axis=0) for key, rows in found.items()}
    print(f"\n{name}: mean {truth.mean():.0f} minutes")
    for key, (error, cover, level) in means.items():
        spread = np.std([row[0] for row in found[key]], ddof=1) / len(found[key]) ** 0.5
        print(f"  {key!s:16} error {error:7.1f} ± {spread:.1f}  90% intervals hold {cover:.3f}  level {level:+.3f}")
    best = min(error for key, (error, *_) in means.items() if not isinstance(key, str))
    own, cover, _ = means["private series"]
    assert own <= 0.85 * best
    assert 0.85 <= cover <= 0.995  # the level is that of all hours
    assert means["bound times 5"][0] <= 1.25 * own
    assert means["bound times 30"][0] <= 1.25 * own


def by_opendp(log, cap):
    """Sums by OpenDP's data frames: at most so many steps of each individual, the first ones."""
    frame = pl.LazyFrame(log)
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1, identifier="id"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["step"], max_groups=len(HOURS), max_length=10**6)],
    )
    capped = context.query().truncate_per_group(1, by=["step"]).truncate_num_groups(cap, by=["step"], keep="first")
    sums = capped.group_by("step").agg(pl.col("minutes").dp.sum((0, BOUND)))
    released = sums.with_keys(pl.LazyFrame({"step": HOURS})).release().collect()
    return released.sort("step")["minutes"].to_numpy()


def by_pipelinedp(log, cap):
    """Sums by PipelineDP, with Gaussian noise: at most so many steps of each individual, at random."""
    pipeline_dp = pytest.importorskip("pipeline_dp", reason="PipelineDP is not installed: pip install pipeline-dp")
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    limits = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=[pipeline_dp.Metrics.SUM],
        max_partitions_contributed=cap,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=BOUND,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    rows = list(zip(*(column.tolist() for column in log.values()), strict=True))
    sums = engine.aggregate(rows, limits, columns, public_partitions=HOURS.tolist())
    budget.compute_budgets()
    released = dict(sums)
    return np.array([released[step].sum for step in HOURS.tolist()])


def by_tumult(log, cap):
    """Sums by Tumult Analytics: at most so many steps of each individual, at random."""
    reason = "Tumult Analytics is not installed: pip install tmlt.analytics, on Python 3.10 to 3.12 with Java"
    tumult = pytest.importorskip("tmlt.analytics", reason=reason)
    pyspark = pytest.importorskip("pyspark.sql", reason=reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of whoever works for Spark
    with tempfile.TemporaryDirectory() as folder:
        spark = pyspark.SparkSession.builder.master("local[1]").config("spark.sql.warehouse.dir", folder).getOrCreate()
        rows = list(zip(*(column.tolist() for column in log.values()), strict=True))
        session = tumult.Session.from_dataframe(
            budget := tumult.ApproxDPBudget(1.0, 1e-6),
            "rides",
            spark.createDataFrame(rows, list(log)),
            protected_change=tumult.AddRowsWithID(id_column="id"),
        )
        capped = (
            tumult.QueryBuilder("rides")
            .enforce(tumult.MaxGroupsPerID("step", cap))
            .enforce(tumult.MaxRowsPerGroupPerID("step", 1))
        )
        sums = capped.groupby(tumult.KeySet.from_dict({"step": HOURS.tolist()})).sum("minutes", 0, BOUND)
        released = dict(session.evaluate(sums, budget).select("step", "minutes_sum").collect())
    return np.array([released[step] for step in HOURS.tolist()])


LIBRARIES = {"OpenDP": by_opendp, "PipelineDP": by_pipelinedp, "Tumult Analytics": by_tumult}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_beside_other_libraries_as_a_user_would_write_it(library):
    space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    grid = ts.TimeGrid(size=len(HOURS))
    measurement = space >> ts.then_private_series(grid, value="minutes", bound=BOUND, epsilon=1.0, delta=1e-6)
    log, truth = rides("bikes", 0)
    series = ts.smooth(measurement(log), seasons=(24, 168))
    own = np.abs(series.values - truth).mean()
    errors = {cap: np.abs(library(log, cap) - truth).mean() for cap in (4, 8, 16, 32)}
    print(f"\nminutes an hour, mean {truth.mean():.0f}: here {own:.0f}", {cap: round(e) for cap, e in errors.items()})
    assert own <= 0.25 * min(errors.values())


@pytest.mark.parametrize("name", LOGS)
def test_means_of_sums_and_numbers_in_one_norm(name):
    """The mean of what somebody has in an hour: sums and numbers of one composition, each with half of the norm."""
    space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    grid = ts.TimeGrid(size=len(HOURS))
    counts = [space >> ts.then_participation_count(grid, value="minutes", bound=bound) for bound in (BOUND, 1)]
    members = [count >> ts.then_subsampled_gaussian(count.map(1).l2, sampling_probability=1) for count in counts]
    factor = ts.least_factor(members, epsilon=1.0, delta=1e-6)
    both = ts.make_composition(members, factor=factor, delta=1e-6)
    rows = []
    for seed in SEEDS:
        log, truth = rides(name, seed)
        numbers = np.bincount(log["step"], log["minutes"] > 0, len(HOURS))
        means = ts.means(*(ts.smooth(one, seasons=(24, 168)) for one in both(log)))
        shown = np.isfinite(means.standard_error) & (numbers > 0)
        off = means[shown] - truth[shown] / numbers[shown]
        low, high = (end[shown] for end in means.interval(0.9))
        covered = np.mean((low - means[shown] <= -off) & (-off <= high - means[shown]))
        week = means.resample(168).values / (truth.reshape(-1, 168).sum(axis=1) / numbers.reshape(-1, 168).sum(axis=1))
        rows.append((np.abs(off).mean(), covered, shown.mean(), np.abs(week - 1).mean()))
    error, cover, shown, week = np.mean(rows, axis=0)
    print(
        f"\n{name}: means of {truth.sum() / numbers.sum():.1f} minutes, known in {shown:.0%} of hours with an error of"
        f" {error:.2f}, 90% intervals hold {cover:.3f}; means of weeks are off by {week:.1%}"
    )
    assert 0.85 <= cover <= 0.995


STATIONS = {f"s{k}": share for k, share in enumerate((0.35, 0.2, 0.15, 0.1, 0.08, 0.06, 0.04, 0.02))}


def rides_at_stations(seed, grid):
    """Minutes of rides from eight stations, and their sums by station and hour."""
    rng, hours = np.random.default_rng(seed), np.arange(grid.size)
    often = np.minimum((4 * (rng.pareto(1.6, 30_000) + 1)).astype(int), 300)
    who = np.repeat(np.arange(len(often)), often)
    weather = np.exp(np.convolve(rng.normal(0, 0.05, grid.size), 0.95 ** np.arange(200))[: grid.size])
    rate = (1 + 0.8 * np.sin(2 * np.pi * (hours - 8) / 24)) * np.where(hours // 24 % 7 > 4, 0.6, 1.0) * weather
    step, at = (rng.choice(len(p), len(who), p=p / p.sum()) for p in (rate, np.array([*STATIONS.values()])))
    usual = 14 * rng.lognormal(-0.125, 0.5, len(often))
    minutes = np.clip(np.floor(usual[who] * rng.gamma(4, 0.25, len(who)) + 0.5), 1, BOUND).astype(int)
    cells, rows = np.unique((who * len(STATIONS) + at) * grid.size + step, return_inverse=True)
    size = len(STATIONS) * grid.size
    sums = np.bincount(cells % size, np.minimum(np.bincount(rows, minutes), BOUND), size)
    log = {"id": who, "time": grid.instants()[step], "station": np.array([*STATIONS])[at], "minutes": minutes}
    return log, sums.reshape(len(STATIONS), -1)


def test_stations_that_add_up_to_their_city():
    grid = ts.TimeGrid(start="2024-03-04", step="1h", size=28 * 24, zone="UTC")
    space = ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance()
    by = {"by": "station", "keys": [*STATIONS], "groups": {"city": [*STATIONS]}}
    measurement = space >> ts.then_private_series(grid, value="minutes", bound=BOUND, **by, epsilon=1.0, delta=1e-6)
    found = []
    for seed in SEEDS:
        log, truth = rides_at_stations(seed, grid)
        stations, city = ts.smooth([measurement(log)], seasons=("1d", "1w"))
        parts = [*zip(stations.by_key().values(), truth, strict=True), (city, truth.sum(axis=0))]
        covered = []
        for part, sums in parts:
            for estimate, of in ((part, sums), (part.resample("1d"), sums.reshape(-1, 24).sum(axis=1))):
                covered.append(error_and_cover(estimate, of)[1])
        hours, days = np.reshape(covered, (-1, 2)).T
        found.append((city.values.sum() / truth.sum(), hours[:-1].mean(), hours[-1], days[:-1].mean(), days[-1]))
    ratio, *covers = np.mean(found, axis=0)
    of_ratio = np.std(found, axis=0, ddof=1)[0] / len(found) ** 0.5
    print(f"\nsums by truth {ratio:.3f} ± {of_ratio:.3f}; bands (hours, the city's, days): {np.round(covers, 3)}")
    assert abs(ratio - 1) < 0.05
    assert all(0.85 <= cover <= 0.995 for cover in covers)
