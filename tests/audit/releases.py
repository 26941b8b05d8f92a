"""A statistical audit: lower bounds on the privacy loss from real releases, beside what the maps claim.

For two neighbouring logs ``x`` and ``x'`` and any event ``E``, an (ε, δ) claim says ``P(E) ≤ e^ε·Q(E) + δ``. Both
probabilities are estimated from releases and bounded by Clopper and Pearson (1934), which gives a lower bound on ε
at δ, and on δ at ε, that is above the truth with probability at most ``ALPHA`` over all the cases of this file.
The events are fixed in advance: likelihood ratios above stated limits (Neyman and Pearson's tests, of which one is
the best there is), the total of the noisy values, and whether anything is kept at all.

Nothing is modelled but the likelihood ratio, and a wrong one only weakens the audit. ``python -m tests.audit.releases``
prints docs/audit.csv.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import beta

import opendp_timeseries as ts
from tests import make

ALPHA = 1e-9
BATCH = 25
#: What each scale but the first takes of what is left.
SHARE = 0.75
APPROX_DP = dp.approximate(dp.max_divergence())
ZCDP = dp.approximate(dp.zero_concentrated_divergence())


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two neighbouring logs and a mechanism. ``people`` and ``others`` list the steps of each individual's events.

    :param people: the individuals who are in ``x`` and not in ``x'``; with ``others``, who are in their place in
        ``x'``, the neighbours differ by replacement.
    :param series: of a panel whose total is released: series ``k`` has its steps from ``k·size`` on.
    :param excess: what becomes of those in more than ``cap`` steps.
    :param ends: with ``"l2"``, tiers of activity but the last, the first of which is ``cap``.
    :param places: whether steps are places instead, and everybody counts once in each, in at most ``cap`` of them.
    :param period: steps of a period, if an individual within one is the unit of privacy; ``people`` are then what
        differs within one period.
    :param stays: with a period, the steps in which the first of them is in both logs, in other periods.
    :param joint: ``p`` and scale of more releases of the same signal, in one composition with its joint loss.
    :param delta: where claims of ε are compared.
    :param exact: whether the profile of this case is attained, so that a good audit must come near it.
    :param runs: releases of each log in the short form; more where few of them show anything.
    """

    name: str
    size: int
    cap: int
    p: float
    scale: float
    people: tuple[tuple[int, ...], ...]
    others: tuple[tuple[int, ...], ...] = ()
    taps: tuple[float, ...] | None = None
    step_cap: int = 1
    gap: int = 1
    series: int = 1
    excess: str = "drop"
    ends: tuple[int, ...] = ()
    places: bool = False
    period: int | None = None
    stays: tuple[int, ...] = ()
    native_scale: float | None = None
    joint: tuple[tuple[float, float], ...] = ()
    failure_probability: float = 0.05
    delta: float = 0.2
    exact: bool = True
    sampling: str = "poisson"
    runs: int = 2_000

    @property
    def distance(self) -> int:
        return len(self.people)

    @property
    def width(self) -> int:
        """Number of values of each release: of all steps, at each scale."""
        return self.size * (len(self.ends) + 1)


#: In both logs, so that nothing is empty. Their identifiers are above those of the people who differ.
BYSTANDERS = ((0, 1), (1,), (0, 0, 0))

CASES = [
    Case(name="no filter, p = 1/2", size=3, cap=3, p=0.5, scale=0.6, people=((0, 1, 2),)),
    Case(name="no filter, p = 1/10", size=6, cap=6, p=0.1, scale=0.5, people=((0, 1, 2, 3, 4, 5),), delta=0.1,
         runs=4_000),
    Case(name="p = 1", size=2, cap=2, p=1.0, scale=0.8, people=((0, 1),)),
    Case(name="step cap 3 of 50 events", size=2, cap=2, step_cap=3, p=0.5, scale=1.4, people=((0, 1) * 50,)),
    Case(name="over the cap", size=3, cap=1, p=0.5, scale=0.4, people=((0, 1, 2),), exact=False),
    Case(name="filter", size=6, cap=2, p=0.5, scale=0.4, people=((0, 1),), taps=(0.5, 0.25, 0, 0, 0, 0.25)),
    Case(name="two individuals", size=3, cap=3, p=0.5, scale=1.2, people=((0, 1, 2),) * 2),
    Case(name="replaced", size=4, cap=2, p=0.5, scale=0.7, people=((0, 1),), others=((2, 3),)),
    Case(name="one step of each block", size=4, cap=2, p=0.5, scale=0.4, people=((0, 1),), delta=0.5,
         runs=1_000, sampling="stratified"),
    Case(name="cap and gap behind a filter", size=6, cap=3, gap=2, p=0.5, scale=0.6, people=((0, 1, 2, 3, 4, 5),),
         taps=(0.5, 0.25, 0, 0, 0, 0.25)),
    Case(name="with a native Gaussian", size=3, cap=3, p=0.5, scale=1.2, people=((0, 1, 2),), native_scale=1.5,
         exact=False),
    Case(name="people in places, replaced", size=4, cap=2, p=1.0, scale=1.2, places=True, people=((0, 1, 0, 0),),
         others=((2, 3),)),
    Case(name="total of a panel", size=1, cap=3, p=0.8, scale=1.8, series=3, people=((0, 1, 2),)),
    Case(name="one period of two", size=4, cap=2, period=2, stays=(2, 3), p=0.5, scale=0.6, people=((0, 1),)),
    Case(name="scaled, in every step", size=6, cap=2, excess="l2", p=1.0, scale=1.2, people=((0, 1, 2, 3, 4, 5),)),
    Case(name="scaled, in every step, sampled", size=6, cap=2, excess="l2", p=0.5, scale=0.8,
         people=((0, 1, 2, 3, 4, 5),), exact=False),
    Case(name="private series, in every step", size=6, cap=2, excess="l2", ends=(2, 4), p=1.0, scale=1.2,
         people=((0, 1, 2, 3, 4, 5),)),
    Case(name="private series, in few steps, replaced", size=6, cap=2, excess="l2", ends=(2, 4), p=1.0, scale=1.7,
         people=((0, 1),), others=((2, 3),)),
    Case(name="two releases", size=2, cap=2, p=0.5, scale=0.9, joint=((0.9, 1.6),), people=((0, 1),)),
]  # fmt: skip


def log_of(individuals) -> dict[str, np.ndarray]:
    pairs = [(who, step) for who, steps in enumerate(individuals) for step in steps]
    who, steps = zip(*pairs, strict=True)
    return {"id": np.array(who), "time": np.array(steps), "place": np.array(steps)}


def logs(case: Case):
    nobody = ((),) * (case.distance - len(case.others))  # keeps the identifiers of the bystanders
    first, second = case.people, case.others + nobody
    if case.stays:
        first, second = ((*first[0], *case.stays), *first[1:]), ((*second[0], *case.stays), *second[1:])
    both = log_of(first + BYSTANDERS), log_of(second + BYSTANDERS)
    if case.series > 1:
        for log in both:
            log["place"], log["time"] = np.divmod(log["time"], case.size)
    return both


def apart(steps, case: Case) -> list[int]:
    """Steps of one individual that a gap leaves, by the rule. Worked out here, not by the package."""
    left: list[int] = []
    for step in sorted(set(steps)):
        if not left or step >= left[-1] + case.gap:
            left.append(step)
    return left[:-1] if len(left) > 1 and left[0] + case.size < left[-1] + case.gap else left


def measurements(case: Case) -> dict[str, tuple[dp.Measurement, dp.Measurement]]:
    """For each output measure, the case's mechanism, and one that makes several of its releases in a call.

    Counts are always the same where nobody is over the cap; then ``BATCH`` releases of one count, which is faster,
    are as independent as those of as many counts.
    """
    unit = dp.change_one_distance() if case.others else dp.symmetric_distance()
    if case.period is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.PeriodUnitWarning)
            unit = ts.period_distance(case.period)
    space = ts.event_log_domain(identifier="id", time="time"), unit
    caps = {"participation_cap": case.cap, "step_cap": case.step_cap, "gap": case.gap}
    grid = ts.TimeGrid(size=case.size)
    signal = space >> ts.then_participation_count(grid, **caps, **make.EXCESS[case.excess])
    if case.ends:
        signal = space >> ts.then_participation_count(grid, tiers=ts.Tiers(ends=case.ends, share=SHARE))
    if case.places:
        signal = space >> ts.then_individual_count(by="place", keys=list(range(case.size)), key_cap=case.cap)
    if case.series > 1:
        keys = list(range(case.series))
        panel = space >> ts.then_participation_count(grid, by="place", keys=keys, **caps, excess="drop")
        signal = panel >> ts.then_totals({"all": keys})
    if case.taps is not None:
        signal = signal >> ts.then_circulant_filter(ts.Kernel.from_taps(case.taps))

    def ours(batch, **accounting):
        space = signal.output_space
        if case.joint:
            every = [(case.p, case.scale), *case.joint]
            noise = [ts.make_subsampled_gaussian(*space, scale, sampling_probability=p) for p, scale in every]
            one = ts.make_composition(noise, **accounting)
        else:
            sample = {"sampling_probability": case.p, "sampling": case.sampling}
            one = ts.make_subsampled_gaussian(*space, case.scale, **sample, **accounting)
        return signal >> one, signal >> dp.c.make_composition([one] * batch) if batch > 1 else signal >> one

    if case.native_scale is not None:
        approximate, _ = ours(1, failure_probability=case.failure_probability)
        native = signal >> ts.then_lp_distance(dp.l2_distance(T=float)) >> dp.m.then_gaussian(case.native_scale)
        both = dp.c.make_composition([approximate, dp.c.make_approximate(native)])
        return {"zCDP": (both, both)}
    over = case.excess == "drop" and any(len(apart(steps, case)) > case.cap for steps in case.people + BYSTANDERS)
    batch = 1 if over else BATCH
    return {
        "exact": ours(batch, output_measure=APPROX_DP, delta=case.delta),
        "profile": ours(1, output_measure=dp.smoothed_max_divergence()),  # these do not compose
        "Rényi": ours(batch, output_measure=dp.renyi_divergence()),
        "zCDP": ours(batch, failure_probability=case.failure_probability),
    }


def claims(case: Case, by_measure) -> dict[str, float]:
    """ε at the case's δ as each measure claims it."""
    found = {}
    for name, (measurement, _) in by_measure.items():
        if name == "exact":
            found[name], delta = measurement.map(case.distance)
            assert delta <= case.delta
        elif name == "Rényi":
            found[name] = epsilon_of_renyi(measurement.map(case.distance), case.delta)
        else:
            if name == "zCDP":
                measurement = dp.c.make_zCDP_to_approxDP(measurement)
            found[name] = dp.c.make_fix_delta(measurement, delta=case.delta).map(case.distance)[0]
    return found


def epsilon_of_renyi(curve, delta) -> float:
    """Canonne, Kamath & Steinke (2020), Proposition 12, at the best order."""

    def at(x):
        alpha = 1 + math.exp(x)
        return curve(alpha) + (-math.log(delta) - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return float(minimize_scalar(at, bounds=(-4, 5), method="bounded").fun)


def releases(measurement, log, parts: int) -> Iterator[list]:
    """The parts of one release after another: ours, and what a native measurement adds or a composition holds."""
    while True:
        outcome = measurement(log)
        if parts > 1:
            yield from outcome if isinstance(outcome[0], list) else [outcome]
        else:
            yield from ([part] for part in (outcome if isinstance(outcome, list) else [outcome]))


def rows(measurement, log, runs: int, size: int, parts: int) -> np.ndarray:
    """Releases, one in a row: the noisy value of every step of every part, NaN where it was not kept."""
    found = np.full((runs, parts, size), np.nan)
    for row, outcome in zip(found, releases(measurement, log, parts), strict=False):
        for place, part in zip(row, outcome, strict=True):
            if isinstance(part, ts.Release):
                place[part.steps] = part.values
            else:
                place[:] = part
    return found.reshape(runs, parts * size)


def truths(case: Case, log) -> np.ndarray:
    """What is released without noise and sampling, in a row for every equally likely choice of those over the cap.

    Worked out here, not by the package.
    """
    positions = log["time"] + (case.size * log["place"] if case.series > 1 else 0)
    people: dict[tuple[int, int], Counter] = {}  # within a period, all of the grid if there are none
    for who, step, position in zip(log["id"].tolist(), log["time"].tolist(), positions.tolist(), strict=True):
        people.setdefault((who, step // (case.period or case.size)), Counter())[position] += 1
    left = [apart(steps, case) for steps in people.values()]
    cap = case.cap if case.excess == "drop" else case.size
    choices = [itertools.combinations(steps, min(cap, len(steps))) for steps in left]
    found = []
    for kept in itertools.product(*choices):
        signal = np.zeros(case.width)
        for steps, own in zip(kept, people.values(), strict=True):
            for step in steps:
                events = min(own[step], case.step_cap)
                signal[step % case.size :: case.size] += events * np.array(weights(case, len(steps)))
        smooth = sum(h * np.roll(signal, k) for k, h in enumerate(case.taps or (1.0,)))
        found.append(np.concatenate([smooth, *[smooth] * len(case.joint), *([signal] if case.native_scale else [])]))
    return np.array(found)


def weights(case: Case, number: int) -> list[float]:
    """Weights of an individual in so many steps, one event in each, at each scale. Not the package's."""
    if case.excess == "drop":
        return [1.0]
    if not case.ends:
        return [min(1.0, math.sqrt(case.cap / number))]
    # left[k] is what scale k and finer ones have of somebody's square, at each number of steps.
    scales, left, found = [*case.ends, case.size], {n: 1 / n for n in range(case.cap, case.size + 1)}, []
    number = max(number, case.cap)
    for end in reversed(scales[1:]):
        taken = {n: SHARE * left[max(n, end)] for n in left}
        found.insert(0, taken[number])
        left = {n: left[n] - taken[n] for n in left}
    return [math.sqrt(case.cap * square) for square in [left[number], *found]]


def log_density(rows: np.ndarray, centres: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Logarithm of the density of releases, up to what does not depend on the centres."""
    distances = [np.nansum(((rows - centre) / sd) ** 2, axis=1) for centre in centres]
    return logsumexp(-np.array(distances) / 2, axis=0) - math.log(len(centres))


def lower(successes: int, runs: int, alpha: float) -> float:
    return 0.0 if successes == 0 else float(beta.ppf(alpha, successes, runs - successes + 1))


def upper(successes: int, runs: int, alpha: float) -> float:
    return 1.0 if successes == runs else float(beta.isf(alpha, successes + 1, runs - successes))


@dataclass(frozen=True)
class Finding:
    """Lower bounds from ``runs`` releases of each log, beside the claims."""

    case: Case
    runs: int
    epsilon: float
    claims: dict[str, float]
    deltas: tuple[tuple[float, float], ...]  # at ε = 0 and at half of the least claim: lower bound, claim

    @property
    def ratio(self) -> float:
        return self.epsilon / min(self.claims.values())


def bounds(samples, centres, sd, limits, alpha) -> list[tuple[float, float]]:
    """For every event: a lower bound on its probability under one log, an upper bound under the other."""
    found = []
    for inside, outside in ((0, 1), (1, 0)):
        shift = centres[inside].mean(axis=0) - centres[outside].mean(axis=0)
        events = []
        for rows in samples:
            ratio = log_density(rows, centres[inside], sd) - log_density(rows, centres[outside], sd)
            total = np.nansum((rows - centres[outside].mean(axis=0)) * np.sign(shift), axis=1)
            kept = ~np.isnan(rows).all(axis=1)
            events.append([ratio > c for c in limits] + [total > np.abs(shift).sum() / 2, kept])
        for here, there in zip(events[inside], events[outside], strict=True):
            found.append((lower(here.sum(), len(here), alpha), upper(there.sum(), len(there), alpha)))
    return found


def audit(case: Case, runs: int) -> Finding:
    """Audit a case with ``runs`` releases of each of the two logs, shared among the output measures."""
    by_measure = measurements(case)
    claimed = claims(case, by_measure)
    least = min(claimed.values())
    centres = [truths(case, log) for log in logs(case)]
    scales = [case.scale, *(scale for _, scale in case.joint), *filter(None, [case.native_scale])]
    each = runs // len(by_measure)
    samples = [
        np.concatenate([rows(many, log, each, case.width, len(scales)) for _, many in by_measure.values()])
        for log in logs(case)
    ]
    sd = np.repeat(scales, case.width)
    limits = [0.0, least / 2, 0.75 * least, least]
    alpha = ALPHA / (len(CASES) * 2 * (len(limits) + 2) * 2)  # cases, directions, events, bounds
    pairs = bounds(samples, centres, sd, limits, alpha)
    epsilon = max(math.log((p - case.delta) / q) if p > case.delta else 0.0 for p, q in pairs)
    deltas = []
    if "profile" in by_measure:
        for at in (0.0, least / 2):
            claim = by_measure["profile"][0].map(case.distance).delta(at)
            deltas.append((max(p - math.exp(at) * q for p, q in pairs), claim))
    return Finding(case, len(samples[0]), max(epsilon, 0.0), claimed, tuple(deltas))


def table(per_log: int | None) -> str:
    """Return docs/audit.csv."""
    names = ("exact", "profile", "Rényi", "zCDP")
    head = [
        "case",
        "releases",
        "δ",
        "ε at least",
        *names,
        "ratio",
        "δ(0) at least",
        "claim",
        "δ(ε/2) at least",
        "claim",
    ]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(head)
    for case in CASES:
        found = audit(case, per_log or case.runs)
        cells = [case.name, f"2 × {found.runs:,}", f"{case.delta:g}", f"{found.epsilon:.3f}"]
        cells += [f"{found.claims[name]:.3f}" if name in found.claims else "–" for name in names]
        cells += [f"{found.ratio:.2f}"]
        cells += [f"{value:.4f}" for pair in found.deltas for value in pair] or ["–"] * 4
        rows.writerow(cells)
    return text.getvalue()


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    started = time.monotonic()
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else None), end="")
    print(f"{time.monotonic() - started:.0f} seconds", file=sys.stderr)
