"""Numbers that pages state in tables and sentences, by routes of their own where these are cheap."""

from __future__ import annotations

import csv
import itertools
import math
import re
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import opendp_timeseries as ts
from opendp_timeseries import TimeGrid
from opendp_timeseries.accounting.budget import Budget
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.accounting.subsampled import extremal_law
from opendp_timeseries.datasets import daily_profile, load_flights
from opendp_timeseries.koga2022.bounds import least_scale_without_filter
from opendp_timeseries.koga2022.datasets import synth
from tests.releases import release_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def table(page: str, heading: str) -> list[list[float]]:
    """Rows of the table whose heading begins so, with the first number of each cell."""
    lines = (DOCS / page).read_text(encoding="utf-8").split(f"| {heading}", 1)[1].splitlines()[2:]
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    assert rows
    return [[_number(cell.replace(",", "").strip(" *")) for cell in row.strip("|").split("|")] for row in rows]


def sentence(page: str, pattern: str) -> list[float]:
    """The numbers in the groups of a pattern, which the page holds once; its spaces stand for line breaks too."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (match,) = re.finditer(pattern.replace(" ", r"\s+"), text)
    return [float(number) for number in match.groups()]


def _number(cell: str) -> float:
    match = re.search(r"[\d.]+(/[\d]+)?", cell)
    if match is None:
        return math.nan
    top, _, bottom = match.group().partition("/")
    return float(top) / float(bottom or 1)


def scale(steps: int, p: float, per_step: int = 1, epsilon: float = 0.5, delta: float = 1e-4) -> float:
    """Noise whose exact profile is (epsilon, delta): a mixture of Gaussian mechanisms (SciPy alone)."""
    kept = np.arange(1, steps + 1)
    chance = binom.pmf(kept, steps, p)

    def excess(sigma: float) -> float:
        ratio = per_step * np.sqrt(kept) / sigma
        profile = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
        return float(chance @ profile) - delta

    return float(brentq(excess, 0.5, 1e4))


SOURCE = re.compile(r"[` ]((?:tests|notebooks)/[\w/]+\.(?:py|ipynb))")


@pytest.mark.parametrize(
    "page",
    ["README.md", *(p.relative_to(ROOT).as_posix() for p in sorted(DOCS.rglob("*.md")) if "proofs" not in p.parts)],
)
def test_tables_of_numbers_name_what_makes_them(page: str) -> None:
    text = re.sub(r"(?ms)^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"))
    for section in re.split("(?m)^#+ ", text):
        for rows in re.findall(r"(?m)(?:^\|.*\n)+", section):
            cells = [cell.strip(" *") for row in rows.splitlines()[2:] for cell in row.strip("|").split("|")[1:]]
            if sum(re.match(r"[\d.,]+( |%|$)", cell) is not None for cell in cells) > 3:
                assert SOURCE.search(section), rows.splitlines()[0]
        assert [name for name in SOURCE.findall(section) if not (ROOT / name).exists()] == []


def test_tables_of_readme_are_the_records() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    with (DOCS / "near.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.reader(file))[1:]
    for record in records:
        assert f"| {' | '.join(record[2:5])} |" in text
    # What several pages say of one way of releasing traffic is the same.
    lines, smoothed = "63.7 ± 0.4", "9.8 ± 0.2"
    for name in ("README.md", "docs/comparison.md", "docs/howto/reconstruct.md"):
        assert f"| {lines} | {smoothed} |" in (ROOT / name).read_text("utf-8")
    error, noise = sentence("README.md", r"a cap of 50 makes an error of (\d+) [^|]+? deviation of ([\d.]+)\.")
    assert (error, noise) == (244, round(scale(50, 1.0, 1, 1.0, 1e-6), 1))
    last, weak = sentence(
        "docs/concepts/near-the-truth.md", r"about ([\d.]+) counts a step [^|]+? At ε = 0\.25 it is (\d+)"
    )
    assert [scale(1, 1.0, 1, epsilon, 1e-6) / 0.9**0.5 for epsilon in (1.0, 0.25)] == [
        pytest.approx(last, abs=0.06),
        pytest.approx(weak, abs=0.6),
    ]


def test_noise_of_every_month() -> None:
    from opendp_timeseries.accounting.joint import filter_order

    a = filter_order(1.0, 1e-6)  # which leaves most room for Gaussian noise, as the page's ledger
    rows = table("howto/several-releases.md", "monthly releases")
    assert [row[0] for row in rows] == [1, 4, 12, 52]
    for n, together, reacting, chosen, split, less in rows:
        assert n == 1 or less == pytest.approx(split / reacting, abs=0.05)
        assert float(f"{scale(int(30 * n), 0.2, 1, 1.0, 1e-6):.4g}") == together
        assert float(f"{scale(30, 0.2, 1, 1.0 / n, 1e-6 / n):.4g}") == split

        def excess(sigma: float, a: float = a, n: float = n) -> float:
            divergence = 30 * n * math.log1p(0.2 * math.expm1(a * (a - 1) / (2 * sigma**2))) / (a - 1)
            return (a - 1) * (divergence - 1) + a * math.log(1 - 1 / a) - math.log(a - 1) - math.log(1e-6)

        ends = together, 4 * together
        assert float(f"{brentq(excess, *ends):.4g}") == chosen
        # Of several releases of counts that scale, divergences of the best order are all that holds if data react.
        best = min(brentq(excess, *ends, args=(order,)) for order in np.linspace(0.8 * a, 1.5 * a, 100))
        assert reacting == pytest.approx(best if n > 1 else together, rel=4e-4)  # orders are on a grid
    space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    chains = [space >> ts.then_participation_count(TimeGrid(size=720), participation_cap=30)] * 12
    budget = {"epsilon": 1.0, "delta": 1e-6, "sampling_probability": 0.2}
    promised, plain = (
        ts.Programme.plan(chains, **budget, adaptivity=kind).designs[0] for kind in ("non-adaptive", "adaptive")
    )
    assert [float(f"{design.scale:.4g}") for design in (promised, plain)] == rows[2][1:3]


def test_participation_of_aircraft() -> None:
    log = load_flights()
    aircraft = np.unique(log["tailnum"], return_inverse=True)[1]
    widths = ["24h", "6h", "1h", "5min"]
    rows = table("concepts/amplification.md", "step | T |")
    for width, (_, size, largest, most, product) in zip(widths, rows, strict=True):
        grid = TimeGrid(size=int(size), start="2013-01-01T05:00", step=width, zone="UTC")
        steps = grid.steps(log["time"])
        pairs = np.sort(aircraft[steps >= 0] * grid.size + steps[steps >= 0])
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        assert np.bincount(pairs[first] // grid.size).max() == largest
        assert np.diff(first, append=len(pairs)).max() == most
        assert largest * most == product


def test_noise_of_finer_and_of_coarser_steps() -> None:
    page = "docs/concepts/amplification.md"
    coarse, fine = (synth(f) for f in (1 / 64, 1))
    said = sentence(page, r"from ([\d.]+) at f = 1/64 to ([\d.]+) at f = 1\. .+? way, from ([\d.]+) to ([\d.]+)\.\s")
    p, q = coarse.sampling_probability, fine.sampling_probability
    assert said == [pytest.approx(x, abs=0.006) for x in (scale(100, p), scale(100, q), scale(1, p), scale(100, q))]
    hour, minutes = sentence(page, r"counts per hour is ([\d.]+) for steps of an hour and ([\d.]+) for five minutes")
    assert (scale(40, 0.1), 12 * scale(40, 0.1 / 12)) == (
        pytest.approx(hour, abs=0.06),
        pytest.approx(minutes, abs=0.06),
    )
    one, ten = sentence(page, r"σ is ([\d.]+) for M = 1 and ([\d.]+) for M = 10")
    assert (scale(100, 0.1), scale(10, 0.1, 10)) == (pytest.approx(one, abs=0.006), pytest.approx(ten, abs=0.006))


def test_interpolation_error_of_each_angular_frequency() -> None:
    """From 60 draws: within 10% and 0.1 of the table, some five standard errors; the seed is fixed."""
    rng = np.random.default_rng(7)
    for omega, periods, *errors in table("datasets.md", "ω | periods"):
        assert omega * 10_000 / (2 * math.pi) == pytest.approx(periods, abs=0.51)
        for f, error in zip([1, 1 / 4, 1 / 16, 1 / 64], errors, strict=True):
            series = synth(f, angular_frequency=omega)
            steps = np.arange(series.size)
            drawn = []
            for _ in range(60):
                kept = np.flatnonzero(rng.random(series.size) < series.sampling_probability)
                line = np.interp(steps, kept, series.truth[kept])
                drawn.append(np.abs(line - series.truth).mean())
            assert np.mean(drawn) == pytest.approx(error, rel=0.1, abs=0.1)


def subsampled(
    size: int, cap: int, p: float, scale: float, *, std: float | None = None, **accounting: object
) -> dp.Measurement:
    count = (ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()) >> ts.then_participation_count(
        TimeGrid(size=size), participation_cap=cap, excess="drop"
    )
    signal = count if std is None else count >> ts.then_circulant_filter(ts.gaussian_kernel(size, std=std))
    return signal >> ts.then_subsampled_gaussian(scale, sampling_probability=p, **accounting)


def exact_epsilon(
    size: int, cap: int, p: float, scale: float, delta: float, *, people: int = 1, std: float | None = None
) -> float:
    profile = subsampled(size, cap, p, scale, std=std, output_measure=dp.smoothed_max_divergence()).map(people)
    return float(profile.epsilon(delta))


def gaussian_distance(epsilon: float, delta: float) -> float:
    """Distance over σ at which the Gaussian mechanism is (ε, δ)-private, as OpenDP converts its zCDP."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    profile = dp.c.make_zCDP_to_approxDP(space >> dp.m.then_gaussian(1.0))
    return float(brentq(lambda distance: profile.map(distance).epsilon(delta) - epsilon, 1e-3, 10.0))


def test_saving_in_the_settings_of_the_paper() -> None:
    low, high, filtered = sentence("README.md", r"without a filter \(([\d.]+) to ([\d.]+)\), .+? with one \(([\d.]+)\)")
    ratios = [scale(cap, 0.1) / least_scale_without_filter(0.5, 1e-4, cap, 0.1).scale for cap in (180, 73, 213)]
    assert (round(min(ratios), 2), round(max(ratios), 2)) == (low, high)
    paper, ours = (
        float(re.search(rf"\| {row}, with filter \| ([\d.]+)", (DOCS / "reproduction.md").read_text("utf-8"))[1])  # type: ignore[index]
        for row in ("paper", "this library")
    )
    assert round(ours / paper, 2) == filtered


def test_noise_with_and_without_sampling() -> None:
    caps = (1, 5, 20, 180)
    whole, sampled, filtered, smoothed = (row[1:] for row in table("concepts/amplification.md", "participation cap"))
    kernel = ts.gaussian_kernel(1800, std=10)
    gain = math.sqrt(sum(tap**2 for tap in kernel.taps))
    for i, cap in enumerate(caps):
        assert whole[i] == pytest.approx(scale(cap, 1.0), abs=0.006)
        assert sampled[i] == pytest.approx(scale(cap, 0.1), abs=0.006)
        assert smoothed[i] == pytest.approx(scale(cap, 1.0) * gain, rel=0.003)
        # The noise of the table, to its last digit, is what just suffices.
        step = 0.006 if filtered[i] > 1 else 0.0006
        assert exact_epsilon(1800, cap, 0.1, filtered[i] + step, 1e-4, std=10) < 0.5
        assert exact_epsilon(1800, cap, 0.1, filtered[i] - step, 1e-4, std=10) > 0.5
    assert sentence("docs/concepts/amplification.md", r"noise ([\d.]+) average to one with noise ([\d.]+)") == [
        pytest.approx(scale(180, 1.0), abs=0.006),
        pytest.approx(scale(180, 1.0) / math.sqrt(10), abs=0.06),
    ]


def test_noise_with_sampling_beside_the_mean_of_every_step() -> None:
    (row,) = table("concepts/amplification.md", "participation cap `I` | 1 | 5 | 20 | 180 | 1000")
    ratios = [scale(cap, 0.1) ** 2 / (0.1 * scale(cap, 1.0) ** 2) for cap in (1, 5, 20, 180, 1000)]
    assert row[1:] == [pytest.approx(ratio, abs=0.006) for ratio in ratios]


def test_noise_of_one_step_of_each_block() -> None:
    percent = sentence("docs/concepts/amplification.md", r"independently kept steps \(by ([\d.]+)% at \(0\.5, 0\.1\)\)")
    person = count_influence(1, participation_cap=180, step_cap=1, size=1800, replaced=False)
    budget = Budget(epsilon=0.5, delta=0.1)
    scales = [calibrate(extremal_law(person, 0.1, 1800, design).at, budget) for design in ("stratified", "poisson")]
    assert percent == [pytest.approx(100 * (scales[0] / scales[1] - 1), abs=0.06)]
    percent = sentence("docs/concepts/amplification.md", r"`excess=\"drop\"`, some ([\d.]+)% more")
    month = count_influence(1, participation_cap=30, step_cap=1, size=744, replaced=False)
    years = [[extremal_law(month, 0.2, 744, design).at(1.0)] * 12 for design in ("stratified", "poisson")]

    def least(year: list[PrivacyLoss], adaptivity: str) -> float:
        budget = Budget(epsilon=1.0, delta=1e-6)
        return calibrate(lambda factor: joint_loss(year, adaptivity=adaptivity, factor=factor), budget)

    factors = [least(year, "adaptive") for year in years]
    assert percent == [pytest.approx(100 * (factors[0] / factors[1] - 1), abs=0.6)]
    assert least(years[0], "non-adaptive") == pytest.approx(factors[1], rel=1e-6)


def test_noise_by_cap() -> None:
    (row,) = table("howto/plan.md", "participation cap")
    scales = [scale(cap, 0.1, epsilon=1.0, delta=1e-6) for cap in (10, 20, 50, 100, 200)]
    assert row[1:] == [pytest.approx(value, abs=0.06 if value > 10 else 0.006) for value in scales]
    # "by a quarter to a third where the cap doubles"
    doubled = [scales[1] / scales[0], scales[3] / scales[2], scales[4] / scales[3]]
    assert [0.22 < factor - 1 < 0.35 for factor in doubled] == [True] * 3


def test_noise_behind_a_gap() -> None:
    for std, cap, gap, l2, linf, sampled, every in table("concepts/filters.md", "filter std |"):
        space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
        count = space >> ts.then_participation_count(
            TimeGrid(size=1800), participation_cap=int(cap), gap=int(gap), excess="drop"
        )
        smooth = count >> ts.then_circulant_filter(ts.gaussian_kernel(1800, std))
        influence = smooth.map(1)
        assert (influence.l2, influence.linf) == (pytest.approx(l2, rel=4e-4), pytest.approx(linf, abs=6e-5))
        if gap * cap == 1800:  # a full comb, from the definition
            comb = np.arange(1800) % gap == 0
            distance = np.minimum(np.arange(1800), 1800 - np.arange(1800))
            taps = np.exp(-((distance / std) ** 2) / 2)
            energy = np.fft.irfft(np.fft.rfft(comb) * np.fft.rfft(taps / taps.sum()), n=1800) ** 2
            assert l2 == pytest.approx(math.sqrt(energy.sum()), rel=4e-4)
            assert every == pytest.approx(scale(1, 1.0) * math.sqrt(energy.sum()), rel=4e-4)
        for p, stated in ((0.1, sampled), (1.0, every)):
            found = ts.least_scale(smooth, epsilon=0.5, delta=1e-4, sampling_probability=p)
            assert found == pytest.approx(stated, rel=4e-4)


def test_counts_that_a_cap_leaves_out() -> None:
    within, cap, lost, scaled = sentence(
        "docs/howto/plan.md",
        r"log, (\d+)% stay within \d+ hours, but a cap of (\d+) loses (\d+)% of all counts if .+?, and (\d+)% if",
    )
    log = load_flights()
    grid = TimeGrid(start="2013-01-01T05:00", step="1h", size=8760, zone="UTC")
    aircraft, steps = np.unique(log["tailnum"], return_inverse=True)[1], grid.steps(log["time"])
    pairs = np.unique(np.column_stack([aircraft, steps])[steps >= 0], axis=0)
    hours = np.bincount(pairs[:, 0])
    assert round(100 * np.mean(hours[hours > 0] <= cap)) == within
    assert round(100 * np.maximum(hours - cap, 0).sum() / hours.sum()) == lost
    assert round(100 - 100 * np.minimum(hours, np.sqrt(cap * hours)).sum() / hours.sum()) == scaled
    said = r"a cap of (\d+) hours a year takes away (\d+)% [^|]+? in up to (\d+) hours"
    cap, lost, most = sentence("README.md", said)
    assert (round(100 * np.maximum(hours - cap, 0).sum() / hours.sum()), hours.max()) == (lost, most)


@pytest.mark.long
def test_exact_accounting_beside_zcdp() -> None:
    for p, *ratios in table("concepts/budgets.md", "participation cap"):
        for cap, ratio in zip((1, 5, 20, 180), ratios, strict=True):
            rho, failure = subsampled(1800, cap, p, 1.0, failure_probability=5e-7).map(1)
            converted = math.sqrt(2 * rho) / gaussian_distance(1.0, 1e-6 - failure)
            assert scale(cap, p, epsilon=1.0, delta=1e-6) / converted == pytest.approx(ratio, abs=0.006)


def test_noise_of_opendp_alone() -> None:
    converted, exact = sentence("docs/comparison.md", r"the noise is then ([\d.]+) at every step \(([\d.]+) with")
    assert math.sqrt(20) / gaussian_distance(0.5, 1e-4) == pytest.approx(converted, abs=0.06)
    assert scale(20, 1.0) == pytest.approx(exact, abs=0.06)


def test_a_day_and_a_person() -> None:
    sigma = [row[-1] for row in table("concepts/privacy-unit.md", "protected, with")]
    exact = [scale(steps, 1.0, epsilon=1.0, delta=1e-6) for steps in (4, 100, 1464)]
    assert sigma == [round(value, 2) for value in exact]
    (times,) = sentence("docs/concepts/privacy-unit.md", r"the noise is (\d+) times as large")
    assert round(exact[2] / exact[0]) == times
    for days, one, person in table("concepts/privacy-unit.md", "days on which"):
        # Four steps on each day, which are other steps: the noise at which they cost so much is that of the release.
        assert one == 1
        assert scale(int(4 * days), 1.0, epsilon=person - 0.005, delta=1e-6) > exact[0] * (1 - 1e-9)
        assert scale(int(4 * days), 1.0, epsilon=person + 0.005, delta=1e-6) < exact[0] * (1 + 1e-9)


def test_three_people_together() -> None:
    (stated,) = sentence("docs/start-here.md", r"for three aircraft together, ε is ([\d.]+) here")
    ratio = 3 / scale(1, 1.0, epsilon=1.0, delta=1e-6)  # a private series costs what the Gaussian mechanism does

    def excess(epsilon: float) -> float:
        return float(norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio))

    assert brentq(lambda epsilon: excess(epsilon) - 1e-6, 1.0, 10.0) == pytest.approx(stated, abs=0.05)


def test_noise_of_twelve_releases() -> None:
    said = r"noise of ([\d.]+) if \(ε, δ\) .+?, ([\d.]+) if ρ .+?, and ([\d.]+) by the"
    split, zcdp, joint = sentence("docs/comparison.md", said)
    assert split == pytest.approx(scale(30, 0.2, epsilon=1 / 12, delta=1e-6 / 12), abs=0.05)
    assert joint == pytest.approx(scale(360, 0.2, epsilon=1.0, delta=1e-6), abs=0.05)

    def delta_at(sigma: float, kept: int) -> float:
        tail = 12 * float(binom.sf(kept, 30, 0.2))
        orders = 1 + np.geomspace(0.1, 1e3, 20_000)
        exponent = (orders - 1) * (orders * 12 * kept / (2 * sigma**2) - 1) + orders * np.log1p(-1 / orders)
        return tail + float(np.min(np.exp(np.minimum(exponent, 0.0)) / (orders - 1)))

    best = min(brentq(lambda s, k=k: delta_at(s, k) - 1e-6, 20, 300) for k in (19, 20, 21))
    assert zcdp == pytest.approx(best, abs=0.05)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
def test_forecasts_from_what_is_handed_over() -> None:
    """Twenty runs of the page's 200, within five of their standard errors: the chance of a failure is below 1e-5."""
    pandas = pytest.importorskip("pandas")
    structural = pytest.importorskip("statsmodels.tsa.statespace.structural")
    rng, size, noise = np.random.default_rng(11), 672, 12.0**2
    rate = 60 * daily_profile(size + 24, 24)
    index = pandas.date_range("2024-02-05", periods=size, freq="h", tz="UTC")

    def forecast(y: object, variance: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        season = {"period": 24, "harmonics": 6}
        model = structural.UnobservedComponents(
            y, level="local level", freq_seasonal=[season], stochastic_freq_seasonal=[False]
        )
        known = {} if variance is None else {"sigma2.irregular": variance}
        ahead = (model.fit_constrained(known, disp=False) if known else model.fit(disp=False)).get_forecast(24)
        return np.asarray(ahead.predicted_mean), np.asarray(ahead.se_mean) ** 2 - (noise if known else 0.0)

    found = []
    for _ in range(20):
        counts, kept = rng.poisson(rate), np.flatnonzero(rng.random(size) < 0.2)
        values = counts[kept] + rng.normal(0, math.sqrt(noise), kept.size)
        release = release_of(steps=kept, values=values, signal=size, scale=12.0, sampling_probability=0.2)
        observed = pandas.Series(np.nan, index)
        observed.iloc[kept] = values
        ways = (
            forecast(observed, noise + max(observed.mean(), 0)),
            forecast(pandas.Series(np.asarray(ts.interpolate(release)), index)),
            forecast(pandas.Series(np.asarray(ts.smooth(release, seasons=24)), index)),
        )
        error = np.array([np.abs(mean - counts[size:]) for mean, _ in ways])
        width = norm.ppf(0.95) * np.sqrt([variance for _, variance in ways])
        found.append([error.mean(axis=1), 100 * (error <= width).mean(axis=1)])
    said = np.array(table("howto/other-tools.md", "handed over"))[:, 1:].T
    assert (np.abs(np.mean(found, axis=0) - said) < 5 * np.std(found, axis=0) / math.sqrt(20)).all()


def errors_of_a_tree(districts: int, stations: int, shares: tuple[float, float, float]) -> list[float]:
    """Errors of a station, a district and the city by the normal equations, in units of a release of stations alone."""
    leaves = np.eye(districts * stations)
    groups = np.kron(np.eye(districts), np.ones(stations))
    design = np.concatenate([leaves, groups, np.ones((1, districts * stations))])
    precision = np.repeat(shares, [len(leaves), districts, 1])
    covariance = np.linalg.inv(design.T @ (precision[:, None] * design))
    return [float(np.sqrt(row @ covariance @ row)) for row in (design[0], design[len(leaves)], design[-1])]


def test_errors_of_totals():
    page = "howto/panels.md"
    alone, apart, reconciled = (row[1:] for row in table(page, "released | station"))
    assert alone == pytest.approx(errors_of_a_tree(10, 10, (1, 0, 0)), abs=0.005)
    assert apart == pytest.approx([3**0.5] * 3, abs=0.005)
    assert reconciled == pytest.approx(errors_of_a_tree(10, 10, (1 / 3,) * 3), abs=0.005)
