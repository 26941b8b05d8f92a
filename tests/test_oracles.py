"""Random chains, through OpenDP's own maps, against the worst pair of neighbours that slow oracles find.

Every claim is compared with a truth in 60 digits from ``tests/oracles/maps.py``: never below it, and, where the map
is exact, close above. Set ``i`` of a family is drawn from the seed ``[SEED, i]``, so that any failure can be made
again from its printed name. ``python -m tests.test_oracles 10000`` prints docs/oracles.csv.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import sys
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.design.kernels import identity_kernel
from opendp_timeseries.koga2022 import then_fourier_coefficients, then_koga2022
from opendp_timeseries.plugin.conversions import make_renyiDP_to_approxDP, make_zCDP_to_renyiDP
from tests.oracles import fourier, maps, totals

#: What maps claim is compared at any δ.
pytestmark = pytest.mark.filterwarnings("ignore::opendp_timeseries.LargeDeltaWarning")

SEED = 20221128
LISTED = 9  # steps of a signal with a gap of which every difference is listed
DISCRETE = 2.0**-42 + 1e-13  # profiles are claimed for noise smaller by this share
FLOOR = 1e-300  # below it accounting does not resolve
CLOSE = {"profile": 1e-10, "epsilon": 1e-10, "renyi": 2e-11, "rho": 1e-11, "failure": 1e-10}
CLOSE_DISTANCE = 1e-14
APPROX_DP = dp.approximate(dp.max_divergence())
FLOATS = dp.l2_distance(T=float)


@dataclass(frozen=True)
class Finding:
    """A claim of a map, the truth at the worst pair found, and, where the map is exact, the most it may claim."""

    what: str
    claim: Any
    truth: Any
    ceiling: Any = None

    @property
    def is_sound(self):
        return self.claim >= self.truth * (1 - mp.mpf(10) ** -45)

    @property
    def is_close(self):
        return self.ceiling is None or self.claim <= self.ceiling

    @property
    def excess(self):
        """Claim over truth, less one; None where double precision does not resolve the truth."""
        resolved = self.truth > 10 * FLOOR and self.claim < math.inf
        return float(mp.mpf(self.claim) / self.truth - 1) if resolved else None


# --- chains from an event log ---


@dataclass(frozen=True)
class Chain:
    """The public parameters of a release, and the points at which its loss is asked for."""

    size: int
    cap: int
    p: float
    scale: float
    epsilon: float
    alpha: float
    delta: float
    step_cap: int = 1
    gap: int = 1
    series: int = 1
    individuals: int = 1
    replaced: bool = False
    kernels: tuple[ts.Kernel, ...] = ()
    copies: int = 1

    @property
    def total(self):
        return self.size * self.series

    @property
    def filters(self):
        return [(kernel.numerators.tolist(), kernel.resolution_bits) for kernel in self.kernels]

    @property
    def signal(self):
        """The chain up to the noise."""
        chain = counted(self)
        for kernel in self.kernels:
            chain = chain >> ts.then_circulant_filter(kernel)
        return chain

    @property
    def is_flat(self):
        return all(kernel == identity_kernel(self.size) for kernel in self.kernels)

    @property
    def is_block_exact(self):
        """Whether the magnitude majorant is attained: all individuals in one block of steps."""
        one_series = not self.replaced and self.gap == 1 and (self.series == 1 or self.cap <= self.size)
        return self.is_flat or (one_series and all(maps.decreasing(taps) for taps, _ in self.filters))


def counted(chain):
    log = ts.event_log_domain(identifier="id", time="step")
    metric = dp.change_one_distance() if chain.replaced else dp.symmetric_distance()
    panel = {"by": "key", "keys": range(chain.series)} if chain.series > 1 else {}
    return (log, metric) >> ts.then_participation_count(
        ts.TimeGrid(size=chain.size),
        participation_cap=chain.cap,
        excess="drop",
        step_cap=chain.step_cap,
        gap=chain.gap,
        **panel,
    )


def differences(rng, chain):
    if chain.gap > 1:
        search = maps.every_difference_apart if chain.total <= LISTED else maps.designed_differences_apart
        apart = {"gap": chain.gap, "series": chain.series}
        caps = chain.total, chain.cap, chain.step_cap
        return search(rng, *caps, chain.individuals, replaced=chain.replaced, **apart)
    search = maps.every_difference if chain.total * chain.copies <= 6 else maps.designed_differences
    return search(rng, chain.total, chain.cap, chain.step_cap, chain.individuals, replaced=chain.replaced)


def pairs(rng, chain):
    vectors = differences(rng, chain)
    copies, p = chain.copies, maps.coin(chain.p)
    return maps.Pairs.of_differences(vectors, chain.filters, series=chain.series, copies=copies, p=p)


def some_point(rng, sensitivity):
    """Draw p, σ and the points at which to ask, extremes among them."""
    p = float(rng.choice([1.0, 0.5, 0.1, 10 ** rng.uniform(-3, 0), 10 ** rng.uniform(-12, 0)]))
    ratio = 10 ** rng.choice([rng.uniform(-1, 1), rng.uniform(-3, 6)])
    mu = 1 / ratio
    epsilon = [0.0, 10 ** rng.uniform(-4, 1.5), mu * mu / 2 + mu * rng.uniform(0, 8), mu * rng.uniform(0, 3)]
    return {
        "p": p,
        "scale": float(sensitivity * ratio),
        "epsilon": min(float(epsilon[rng.integers(4)]), 9e4),
        "alpha": float(1 + 10 ** rng.choice([rng.uniform(-1, 2), rng.uniform(-6, 3)])),
        "delta": float(10 ** rng.choice([rng.uniform(-10, -0.3), rng.uniform(-30, -0.3)])),
    }


def some_step_cap(rng):
    return int(rng.choice([1, 1, 2, 3, int(10 ** rng.uniform(0, 6))]))


def some_kernel(rng, size, bits):
    """Draw a kernel: named, signed, one-sided or the identity."""
    kind = rng.integers(6)
    if kind == 0:
        return ts.gaussian_kernel(size, 10 ** rng.uniform(-1, 1), resolution_bits=bits)
    if kind == 1:
        return ts.boxcar_kernel(size, 2 * int(rng.integers((size + 1) // 2)) + 1, resolution_bits=bits)
    if kind == 2:
        return ts.exponential_kernel(size, 10 ** rng.uniform(-1, 1), resolution_bits=bits)
    if kind == 3:
        taps = rng.integers(-8, 9, size=size) / 8
        return ts.Kernel.from_taps(taps if taps.any() else [1.0] * size, resolution_bits=bits)
    if kind == 4:
        return ts.Kernel.from_taps(0.5 ** np.arange(1, size + 1).clip(max=bits), resolution_bits=bits)
    return identity_kernel(size)


def some_kernels(rng, size):
    if rng.random() < 0.3:
        return some_kernel(rng, size, 12), some_kernel(rng, size, 12)
    return (some_kernel(rng, size, 26),)


def with_point(rng, **shape):
    """Complete a chain by noise relative to what its individuals can do."""
    steps = min(shape["cap"], shape["size"] * shape.get("series", 1))
    sensitivity = shape["individuals"] * shape["step_cap"] * math.sqrt(steps)
    return Chain(**shape, **some_point(rng, sensitivity))


def some_counts(rng):
    size = int(rng.choice([1, 2, 3, 6, 30, 300]))
    return with_point(
        rng,
        size=size,
        cap=int(rng.integers(1, size + 1)) if rng.random() < 0.8 else size + 3,
        step_cap=some_step_cap(rng),
        series=int(rng.choice([1, 1, 2])),
        individuals=int(rng.choice([1, 1, 1, 2, 3, 50])),
        replaced=bool(rng.random() < 0.4),
        copies=int(rng.choice([1, 1, 1, 3])),
    )


def some_short_filters(rng):
    size = int(rng.integers(1, 7))
    return with_point(
        rng,
        size=size,
        cap=int(rng.integers(1, size + 1)),
        step_cap=some_step_cap(rng),
        series=int(rng.choice([1, 2])) if size <= 3 else 1,
        individuals=int(rng.choice([1, 1, 2, 3])),
        replaced=bool(rng.random() < 0.4),
        copies=int(rng.choice([1, 2])) if size <= 2 else 1,
        kernels=some_kernels(rng, size),
    )


def some_long_filters(rng):
    size = int(rng.integers(7, 80))
    return with_point(
        rng,
        size=size,
        cap=int(rng.integers(1, size // 2)),
        step_cap=some_step_cap(rng),
        series=int(rng.choice([1, 1, 3])),
        individuals=int(rng.choice([1, 1, 2, 3])),
        replaced=bool(rng.random() < 0.3),
        copies=int(rng.choice([1, 1, 2])),
        kernels=some_kernels(rng, size),
    )


def some_gaps(rng):
    """Chains with a gap, with and without filters, full combs and panels among them."""
    if rng.random() < 0.7:
        series = int(rng.choice([1, 1, 2]))
        size = int(rng.integers(2, 9 // series + 1))
    else:
        series, size = int(rng.choice([1, 1, 3])), int(rng.integers(10, 80))
    gap = int(rng.integers(2, size + 1)) if size < 10 else int(rng.integers(2, min(12, size + 1)))
    most = series * (size // gap)
    return with_point(
        rng,
        size=size,
        gap=gap,
        cap=most if rng.random() < 0.3 else int(rng.integers(1, most + 2)),
        step_cap=some_step_cap(rng),
        series=series,
        individuals=int(rng.choice([1, 1, 1, 2, 3])),
        replaced=bool(rng.random() < 0.4),
        copies=int(rng.choice([1, 1, 1, 2])),
        kernels=some_kernels(rng, size) if rng.random() < 0.7 else (),
    )


def losses(space, d_in, point):
    """Return what the four measures, and the conversion of the Rényi curve, claim at a point."""

    def released(**measure):
        one = ts.then_subsampled_gaussian(point.scale, sampling_probability=point.p)
        if point.copies > 1:
            return space >> ts.then_composition([one] * point.copies, **measure)
        return space >> ts.then_subsampled_gaussian(point.scale, sampling_probability=point.p, **measure)

    def claim(**measure):
        return released(**measure).map(d_in)

    curve = released(output_measure=dp.renyi_divergence())
    rho, failure = claim(failure_probability=point.delta)
    return {
        "profile": claim(output_measure=dp.smoothed_max_divergence()).delta(point.epsilon),
        "renyi": curve.map(d_in)(point.alpha),
        "epsilon": claim(output_measure=APPROX_DP, delta=point.delta)[0],
        "rho": rho,
        "failure": failure,
        "converted": make_renyiDP_to_approxDP(curve).map(d_in).delta(point.epsilon),
    }


@dataclass(frozen=True)
class Exact:
    """Which maps are exact of the pairs at hand."""

    profile: bool = False
    renyi: bool = False
    tail: bool = False


def compare(claims, found, point, exact):
    """Set every claim beside the truth at the worst pair for it."""
    yield from compare_profile(claims, found, point, exact)
    yield from compare_renyi(claims, found, point, exact)
    yield from compare_zcdp(claims, found, point, exact)
    yield from compare_conversions(claims, found, point, exact)


def at_most(truth, what):
    return truth * (1 + mp.mpf(CLOSE[what])) + 1.01 * FLOOR


def compare_profile(claims, found, point, exact):
    scale, epsilon = point.scale, point.epsilon
    smaller = mp.mpf(scale) * (1 - mp.mpf(DISCRETE))
    pair = found.exact(found.worst_for_profile(epsilon, scale))
    most = min(mp.mpf(1), at_most(maps.profile(pair.law, epsilon, smaller), "profile"))
    close = exact.profile and pair.is_whole
    yield Finding("δ at ε", claims["profile"], maps.profile(pair.law, epsilon, scale), most if close else None)

    at, delta = claims["epsilon"], point.delta
    if at == math.inf:
        yield Finding("ε at δ", delta, mp.mpf(0), mp.mpf(0) if exact.profile else None)
        return
    pair = found.exact(found.worst_for_profile(at, scale))
    # Exact: a billionth below, δ no longer suffices.
    before = maps.profile(pair.law, at * (1 - mp.mpf(10) ** -9), smaller)
    close = exact.profile and pair.is_whole and at > 0
    yield Finding("ε at δ", delta, maps.profile(pair.law, at, scale), at_most(before, "epsilon") if close else None)


def compare_renyi(claims, found, point, exact):
    pair = found.exact(found.worst_for_renyi(point.alpha, point.scale))
    truth = maps.renyi(pair.squares, point.alpha, point.scale, found.p)
    yield Finding("Rényi", claims["renyi"], truth, at_most(truth, "renyi") if exact.renyi else None)


def compare_zcdp(claims, found, point, exact):
    rho, failure = claims["rho"], claims["failure"]
    assert rho < math.inf
    double = 2 * Fraction(point.scale) ** 2
    beyond = Fraction(rho) * double
    pair = found.exact(found.worst_for_tail(float(beyond)))
    close = exact.tail and pair.is_whole
    truth = maps.tail(pair.law, beyond)
    yield Finding("δ′ at ρ", failure, truth, at_most(truth, "failure") if close else None)
    truth = maps.real(maps.quantile(pair.law, mp.mpf(failure)) / double)
    # Where a tail is δ′ but for rounding, either of two values is right.
    strict = maps.quantile(pair.law, mp.mpf(point.delta) * (1 - mp.mpf(10) ** -9)) / double
    yield Finding("ρ at δ′", rho, truth, at_most(maps.real(strict), "rho") if close else None)


def compare_conversions(claims, found, point, exact):
    """Exact ≤ Rényi and exact ≤ approximate zCDP, converted to (ε, δ): of the truth, and of the claims."""
    law = found.exact(found.worst_for_profile(point.epsilon, point.scale)).law
    truth = maps.profile(law, point.epsilon, point.scale)
    # Approximate zCDP: Bun & Steinke (2016), off the event of probability δ′.
    rho, failure = mp.mpf(claims["rho"]), mp.mpf(claims["failure"])
    zcdp = min(mp.mpf(1), failure + (1 - failure) * maps.best_delta(lambda alpha: alpha * rho, point.epsilon))
    for name, converted in (("Rényi", claims["converted"]), ("zCDP", zcdp)):
        yield Finding(f"{name}, converted", converted, truth)
        yield Finding(f"order: {name}, converted", converted * (1 + mp.mpf(1e-9)) + 1.1 * FLOOR, claims["profile"])


def chain_losses(chain):
    return losses(chain.signal, chain.individuals, chain)


def chain_findings(rng, chain):
    claims = chain_losses(chain)
    yield from chain_comparisons(rng, chain, claims)
    yield from monotone(rng, chain, claims)


def chain_comparisons(rng, chain, claims):
    # Without a filter the block law is attained by one individual; with one, or by several, where all is kept.
    whole = (chain.is_flat and chain.individuals == 1) or (chain.is_block_exact and chain.p == 1)
    exact = Exact(profile=whole, renyi=chain.is_block_exact, tail=whole)
    yield from compare(claims, pairs(rng, chain), chain, exact)


def monotone(rng, chain, claims):
    """More individuals, a larger p, less noise or a smaller δ never lower a claim."""
    by = float(rng.choice([1.0 + 1e-9, 1.01, 3.0]))
    which = rng.choice(["d_in", "p", "1/scale", "δ"])
    worse = {
        "d_in": replace(chain, individuals=chain.individuals + 1),
        "p": replace(chain, p=min(1.0, chain.p * by)),
        "1/scale": replace(chain, scale=chain.scale / by),
        "δ": replace(chain, delta=chain.delta / by),
    }[which]
    more = chain_losses(worse)
    for name in ("profile", "epsilon", "renyi", "rho", "converted"):
        yield Finding(f"monotone in {which}: {name}", more[name] * (1 + 1e-9), claims[name])


# --- the plain ℓ2 metric ---


def l2_findings(rng):
    """Subsampling after a metric that says ℓ2 alone: integers, floats, counts and filtered counts."""
    kind = rng.choice(["integers", "floats", "counts"])
    if kind == "counts":
        chain = replace(some_short_filters(rng), series=1, copies=1)
        chain = replace(chain, kernels=chain.kernels[: rng.integers(2)])  # a second filter needs the influence
        space = chain.signal >> ts.then_lp_distance(FLOATS)
        yield from compare(losses(space, chain.individuals, chain), pairs(rng, chain), chain, Exact())
        return
    size, whole = int(rng.choice([1, 2, 5, 6, 40])), kind == "integers"
    distance = int(10 ** rng.uniform(0, 6)) if whole else float(10 ** rng.uniform(-6, 6))
    point = Chain(size=size, cap=size, **some_point(rng, distance))
    atom = dp.atom_domain(T=int) if whole else dp.atom_domain(T=float, nan=False)
    space = dp.vector_domain(atom, size=size), dp.l2_distance(T=int) if whole else FLOATS
    squares = list(maps.within_ball(distance, size, whole=whole))
    found = maps.Pairs(np.array(squares, dtype=float), lambda i: squares[i], maps.coin(point.p))
    # All of an integer distance in one step is the worst for Rényi, and for everything where all is kept. Floats
    # pay for being rounded to the noise grid.
    exact = Exact(renyi=whole, profile=whole and point.p == 1)
    yield from compare(losses(space, distance, point), found, point, exact)


# --- distances: counts, filters, Fourier coefficients, histograms ---


def distance_findings(rng):
    kind = rng.integers(3)
    if kind == 0:
        yield from norm_findings(rng)
    elif kind == 1:
        yield from fourier_findings(rng)
    else:
        yield from histogram_findings(rng)


def norm_findings(rng):
    chain = some_counts(rng) if rng.random() < 0.5 else some_short_filters(rng)
    chain = replace(chain, series=1, copies=1, kernels=chain.kernels[:1])
    vectors = differences(rng, chain)
    moved = maps.convolved_floats(vectors, chain.filters, 1)
    longest = {int(np.argmax(np.abs(moved).sum(axis=1))), int(np.argmax((moved**2).sum(axis=1)))}
    l1, l2 = maps.largest_norms([maps.convolved(vectors[i], chain.filters, 1) for i in longest])
    for name, metric, norm in (("l1", dp.l1_distance, l1), ("l2", dp.l2_distance, l2)):
        for atom in (float,) if chain.kernels else (float, int):
            space = chain.signal >> ts.then_lp_distance(metric(T=atom))
            most = mp.ceil(norm) if atom is int else norm * (1 + CLOSE_DISTANCE)
            yield Finding(
                f"{name} distance{', whole' if atom is int else ''}",
                space.map(chain.individuals),
                norm,
                most if chain.is_flat else None,
            )
    influence = chain.signal.map(chain.individuals)  # of one individual, and how many they are
    one = replace(chain, individuals=1)
    first = [maps.convolved(v, chain.filters, 1) for v in differences(rng, one)[:400]]
    _, l2 = maps.largest_norms(first)
    yield Finding("influence: l2", influence.l2, l2, l2 * (1 + CLOSE_DISTANCE) if chain.is_flat else None)
    yield Finding("influence: linf", influence.linf, max(abs(y) for image in first for y in image))
    yield Finding("influence: l0", influence.l0, max(sum(y != 0 for y in image) for image in first))


def fourier_findings(rng):
    size = int(rng.choice([1, 2, 3, 5, 8, 12, 20]))
    frequencies = int(rng.integers(1, (size + 1) // 2 + 1))
    chain = replace(some_short_filters(rng), size=size, series=1, copies=1, kernels=())
    chain = replace(chain, cap=int(rng.integers(1, size + 1)))
    if rng.random() < 0.4:
        chain = replace(chain, kernels=(some_kernel(rng, size, 12),))
    images = [
        maps.convolved(v, chain.filters, 1)
        for v in maps.designed_differences(
            rng, size, chain.cap, chain.step_cap, chain.individuals, replaced=chain.replaced
        )
    ]
    rows = [fourier.coefficients([maps.real(y) for y in image], frequencies) for image in images]
    l1, l2 = maps.largest_norms(rows)
    n = 2 * frequencies - 1
    exact = not chain.kernels and (n == size or (chain.cap == 1 and not chain.replaced))
    # The dyadic basis is off by up to 2^-31 in every entry.
    most = l2 * (1 + mp.mpf(1e-9) * size) if exact else None
    for name, norm, metric, ceiling in (("l2", l2, FLOATS, most), ("l1", l1, dp.l1_distance(T=float), None)):
        space = chain.signal >> then_fourier_coefficients(frequencies, output_metric=metric)
        yield Finding(f"Fourier: {name}", space.map(chain.individuals), norm, ceiling)


def histogram_findings(rng):
    size, individuals, replaced = int(rng.integers(1, 12)), int(rng.choice([1, 2, 3, 50])), bool(rng.random() < 0.5)
    caps = np.unique(np.minimum(rng.integers(1, 15, size=rng.integers(1, 4)), size)).tolist()
    bins = [[int(sum(steps > cap for cap in caps) == b) for b in range(len(caps) + 1)] for steps in range(1, size + 1)]
    nobody = [0] * (len(caps) + 1)
    before = [*bins, nobody]
    moves = [np.array(x) - y for x in before for y in (before if replaced else [nobody])]
    l1, l2 = maps.largest_norms([[Fraction(int(individuals * y)) for y in move] for move in moves])
    attained = not replaced or len({tuple(b) for b in bins}) > 1
    log = ts.event_log_domain(identifier="id", time="step")
    space = log, dp.change_one_distance() if replaced else dp.symmetric_distance()
    for name, norm, metric, whole in (
        ("l1", l1, dp.l1_distance(T=int), True),
        ("l1", l1, dp.l1_distance(T=float), False),
        ("l2", l2, FLOATS, False),
        ("l2", l2, dp.l2_distance(T=int), True),
    ):
        chain = space >> ts.then_participation_histogram(ts.TimeGrid(size=size), edges=caps)
        chain = chain >> ts.then_lp_distance(metric)
        most = mp.ceil(norm) if whole else norm * (1 + CLOSE_DISTANCE)
        yield Finding(
            f"histogram: {name}{', whole' if whole else ''}", chain.map(individuals), norm, most if attained else None
        )


# --- steps a gap apart ---


def gap_findings(rng):
    """Influence, profile and Rényi divergence of counts with a gap, mostly behind filters."""
    chain = some_gaps(rng)
    yield from gap_comparisons(rng, chain, chain)
    wider = replace(chain, gap=chain.gap + 1)
    # A majorant that does not fit in one series of a panel is of no use to a second filter.
    if wider.gap <= chain.size and (chain.series == 1 or len(chain.kernels) < 2):
        claims, fewer = gap_losses(chain), gap_losses(wider)
        for name in ("profile", "renyi"):
            yield Finding(f"monotone in gap: {name}", claims[name] * (1 + 1e-9), fewer[name])


def gap_comparisons(rng, chain, claimed):
    """Compare a chain with what its maps claim, or those of a chain that is taken for it."""
    influence = claimed.signal.map(chain.individuals)
    moves = differences(rng, replace(chain, individuals=1))
    floats = np.sort(np.abs(maps.convolved_floats(moves, chain.filters, chain.series)))[:, ::-1]
    longest = {int(np.argmax(floats.cumsum(axis=1)[:, j])) for j in range(floats.shape[1])}
    longest |= {int(np.argmax((floats**2).sum(axis=1)))}
    images = [maps.convolved(moves[i], chain.filters, chain.series) for i in longest]
    yield Finding("influence: l2", influence.l2, maps.largest_norms(images)[1])
    yield Finding("influence: linf", influence.linf, max(abs(y) for image in images for y in image))
    yield Finding("influence: l0", influence.l0, max(sum(y != 0 for y in image) for image in images))
    if influence.majorant is not None:
        for image in images:
            sums = itertools.accumulate(sorted(map(abs, image), reverse=True))
            values = [Fraction(value) for value in influence.majorant.values.tolist()] + [Fraction(0)] * len(image)
            ratio = [top / most for top, most in zip(sums, itertools.accumulate(values), strict=False) if top]
            if ratio:
                yield Finding("influence: majorant", 1, max(ratio))
    claims, found = gap_losses(claimed), pairs(rng, chain)
    flat = chain.is_flat and chain.total <= LISTED  # without a filter, the worst is among all that are listed
    yield next(compare_profile(claims, found, chain, Exact(profile=flat and chain.individuals == 1)))
    yield from compare_renyi(claims, found, chain, Exact(renyi=flat))


def gap_losses(chain):
    def claim(measure):
        noise = ts.then_subsampled_gaussian(chain.scale, sampling_probability=chain.p, output_measure=measure)
        if chain.copies > 1:
            noise = ts.then_composition([noise] * chain.copies, output_measure=measure)
        return (chain.signal >> noise).map(chain.individuals)

    return {
        "profile": claim(dp.smoothed_max_divergence()).delta(chain.epsilon),
        "renyi": claim(dp.renyi_divergence())(chain.alpha),
        "epsilon": math.inf,
    }


# --- totals of a panel ---

TREES = ({"x": [0, 1, 2]}, {"x": [0], "y": [1, 2]}, {"x": {"y": [0, 1], "z": [2]}})


@dataclass(frozen=True)
class Totals(Chain):
    """Totals of a panel of three series; a filter comes after them."""

    key_cap: int | None = None
    tree: int = 0

    @property
    def panel(self):
        metric = dp.change_one_distance() if self.replaced else dp.symmetric_distance()
        return (ts.event_log_domain(identifier="id", time="step"), metric) >> ts.then_participation_count(
            ts.TimeGrid(size=self.size),
            participation_cap=self.cap,
            excess="drop",
            step_cap=self.step_cap,
            by="key",
            keys=range(3),
            key_cap=self.key_cap,
        )

    @property
    def signal(self):
        chain = self.panel >> ts.then_totals(TREES[self.tree])
        for kernel in self.kernels:
            chain = chain >> ts.then_circulant_filter(kernel)
        return chain


def some_totals(rng):
    size, cap, step_cap = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    individuals = int(rng.choice([1, 1, 2]))
    return Totals(
        size=size,
        cap=cap,
        step_cap=step_cap,
        series=3,
        key_cap=[None, 1, 2][rng.integers(3)],
        tree=int(rng.integers(3)),
        individuals=individuals,
        replaced=bool(rng.random() < 0.4),
        kernels=some_kernels(rng, size)[:1] if rng.random() < 0.3 else (),
        **some_point(rng, individuals * step_cap * cap),
    )


def totals_findings(rng):
    """All four measures of totals, with and without a cap on the series of one step."""
    chain = some_totals(rng)
    yield from totals_comparisons(rng, chain, chain)


def totals_comparisons(rng, chain, claimed):
    caps = {"participation_cap": chain.cap, "step_cap": 1, "key_cap": chain.key_cap or 3}
    places = list(itertools.product(range(3), range(chain.size)))
    own = [[vector.get(place, 0) for place in places] for vector in totals.contributions(3, chain.size, **caps)]
    moves = maps.of_several(rng, chain.step_cap * np.array(own), chain.individuals, replaced=chain.replaced)
    members = ([[0, 1, 2]], [[0], [1, 2]], [[0, 1, 2], [0, 1], [2]])[chain.tree]
    rows = moves.reshape(len(moves), 3, chain.size)
    sums = np.concatenate([rows[:, group].sum(axis=1) for group in members], axis=1)
    found = maps.Pairs.of_differences(sums, chain.filters, series=len(members), copies=1, p=maps.coin(chain.p))
    # In one series at a time, of groups that have none in common, a total is as exact as a series.
    exact = chain.key_cap == 1 and chain.tree < 2 and not chain.kernels
    whole = exact and (chain.individuals == 1 or chain.p == 1) and not chain.replaced
    attained = Exact(profile=whole, renyi=exact and not chain.replaced, tail=whole)
    yield from compare(chain_losses(claimed), found, chain, attained)


# --- Algorithm 1 of the paper ---


def algorithm_findings(rng):
    chain = replace(some_short_filters(rng) if rng.random() < 0.6 else some_counts(rng), series=1, copies=1)
    chain = replace(chain, individuals=min(chain.individuals, 3), kernels=())
    if chain.size <= 6 and rng.random() < 0.7:
        kernel = some_kernel(rng, chain.size, 16)
        if kernel.l1 != 1:
            taps = np.zeros(chain.size)
            taps[:2] = [0.75, -0.25][: chain.size]
            kernel = ts.Kernel.from_taps(taps if chain.size > 1 else [1.0])
        chain = replace(chain, kernels=(kernel,))
    alpha = float(rng.choice([1.0, rng.uniform(0.05, 1)]))
    arguments = {
        "alpha": alpha,
        "sampling_probability": chain.p,
        "kernel": chain.kernels[0] if chain.kernels else None,
        "tail": str(rng.choice(["theorem 4", "sharper", "fixed pair"])),
    }
    found = pairs(rng, chain)
    rho, failure = (counted(chain) >> then_koga2022(chain.scale, **arguments)).map(chain.individuals)
    double = 2 * Fraction(chain.scale) ** 2
    beyond = Fraction(rho) * double
    pair = found.exact(found.worst_for_tail(float(beyond)))
    truth = maps.tail(pair.law, beyond)
    exact = not chain.kernels and chain.individuals == 1
    yield Finding("Algorithm 1: δ′ at ρ", failure, truth, at_most(truth, "failure") if exact else None)
    private = counted(chain) >> then_koga2022(chain.scale, **arguments, output_measure=APPROX_DP, delta=chain.delta)
    epsilon, delta = private.map(chain.individuals)
    if epsilon < math.inf:
        pair = found.exact(found.worst_for_profile(epsilon, chain.scale))
        yield Finding("Algorithm 1: ε at δ", delta, maps.profile(pair.law, epsilon, chain.scale))


# --- composed with OpenDP's own Gaussian ---


def native_findings(rng):
    chain = replace(some_counts(rng), series=1, copies=1)
    individuals = min(chain.individuals, 3)
    chain = replace(chain, individuals=individuals, scale=min(chain.scale, 1e5 * chain.step_cap))
    other = float(chain.scale * 10 ** rng.uniform(-1, 1))
    native = make_zCDP_to_renyiDP(counted(chain) >> ts.then_lp_distance(FLOATS) >> dp.m.then_gaussian(other))
    steps = min(chain.cap * (2 if chain.replaced else 1), chain.size)
    square = Fraction(individuals * chain.step_cap) ** 2
    squares, p = [square] * steps, maps.coin(chain.p)
    extra = maps.real(square * steps) / mp.mpf(other) ** 2
    curve = mp.mpf(chain.alpha) * extra / 2
    yield Finding("zCDP as Rényi", native.map(individuals)(chain.alpha), curve, curve * (1 + mp.mpf(1e-12)) + FLOOR)
    ours = chain.signal >> ts.then_subsampled_gaussian(
        chain.scale, sampling_probability=chain.p, output_measure=dp.renyi_divergence()
    )
    both = dp.c.make_composition([ours, native])
    truth = maps.renyi(squares, chain.alpha, chain.scale, p) + curve
    yield Finding("Rényi, composed", both.map(individuals)(chain.alpha), truth, at_most(truth, "renyi") + FLOOR)
    claim = make_renyiDP_to_approxDP(both).map(individuals).delta(chain.epsilon)
    law = sorted(maps.exact_law(squares, p).items())
    yield Finding("Rényi, composed and converted", claim, maps.profile(law, chain.epsilon, chain.scale, shift=extra))


def of_chains(draw):
    def findings(rng):
        return chain_findings(rng, draw(rng))

    return findings


#: Families, and how many sets each has of a hundred.
FAMILIES = {
    "counts": (of_chains(some_counts), 30),
    "short filters": (of_chains(some_short_filters), 35),
    "long filters": (of_chains(some_long_filters), 5),
    "l2": (l2_findings, 10),
    "distances": (distance_findings, 8),
    "Algorithm 1": (algorithm_findings, 7),
    "native": (native_findings, 5),
    "gaps": (gap_findings, 4),
    "totals": (totals_findings, 8),
}


def random(family, index):
    return np.random.default_rng([SEED, list(FAMILIES).index(family), index])


def search(family, sets):
    """Findings of so many parameter sets, none of them on the wrong side or, where a map is exact, far."""
    for index in range(sets):
        for finding in FAMILIES[family][0](random(family, index)):
            assert finding.is_sound, (family, index, finding)
            assert finding.is_close, (family, index, finding)
            yield finding


# --- tests ---


#: Of what takes longest, a tenth to two fifths of the sets that the long form multiplies.
FEWER = {"counts": 3, "short filters": 4, "l2": 4, "long filters": 2}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_map_is_below_the_truth_and_exact_ones_are_close(family):
    found = list(search(family, FEWER.get(family, FAMILIES[family][1])))
    assert any(finding.ceiling is not None for finding in found) or family == "l2", "something exact was compared"


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_thousands_of_parameter_sets(family):
    for _ in search(family, 40 * FAMILIES[family][1]):
        pass


#: Maps that forget or misread a parameter: how the chain looks to them.
BROKEN = {
    "one individual charged for all": lambda chain: replace(chain, individuals=1),
    "replaced charged as removed": lambda chain: replace(chain, replaced=False),
    "participation cap one too low": lambda chain: replace(chain, cap=max(chain.cap - 1, 1)),
    "step cap forgotten": lambda chain: replace(chain, step_cap=1),
    "one copy charged for all": lambda chain: replace(chain, copies=1),
    "filter forgotten": lambda chain: replace(chain, kernels=()),
    "p a millionth low": lambda chain: replace(chain, p=chain.p * (1 - 1e-6)),
    "noise a billionth large": lambda chain: replace(chain, scale=chain.scale * (1 + 1e-9)),
    "p not rounded up to the coins": lambda chain: replace(chain, p=math.floor(chain.p * 2**53) / 2**53),
    "asked at a larger ε": lambda chain: replace(chain, epsilon=chain.epsilon * (1 + 1e-6)),
    "asked at a smaller order": lambda chain: replace(chain, alpha=1 + (chain.alpha - 1) / 2),
}


def some_chains(sets):
    for index in range(sets):
        for family, draw in (("counts", some_counts), ("short filters", some_short_filters)):
            rng = random(family, index)
            yield rng, draw(rng)


@pytest.mark.parametrize("name", BROKEN)
def test_maps_that_forget_something_are_caught(name):
    seen = ((rng, chain, BROKEN[name](chain)) for rng, chain in some_chains(40))
    assert any(
        not finding.is_sound
        for rng, chain, mistaken in seen
        if mistaken != chain
        for finding in chain_comparisons(rng, chain, chain_losses(mistaken))
    )


def test_a_gap_taken_for_larger_than_it_is_is_caught():
    def caught(index):
        rng = random("gaps", index)
        chain = some_gaps(rng)
        mistaken = replace(chain, gap=min(chain.gap + 1, chain.size))
        return any(not finding.is_sound for finding in gap_comparisons(rng, chain, mistaken))

    assert any(map(caught, range(10, 40)))


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "mistake", [{"key_cap": 1}, {"tree": 1}, {"replaced": False}], ids=["one at a time", "smaller groups", "removed"]
)
def test_totals_taken_for_others_are_caught(mistake):
    def caught(index):
        rng = random("totals", index)
        chain = some_totals(rng)
        return any(not finding.is_sound for finding in totals_comparisons(rng, chain, replace(chain, **mistake)))

    assert any(map(caught, range(40)))


@pytest.mark.parametrize("name", ["profile", "renyi", "rho", "failure"])
def test_claims_a_billionth_above_an_exact_truth_are_noticed(name):
    def raised(chain):
        claims = chain_losses(chain)
        return claims | {name: claims[name] * (1 + 1e-9)}

    assert any(
        not finding.is_close
        for rng, chain in some_chains(10)
        for finding in chain_comparisons(rng, chain, raised(chain))
    )


def report(sets, *families):
    """Run the search, and return docs/oracles.csv; of some families alone, with so many sets of each."""
    start, found = time.time(), {}
    for family in families or FAMILIES:
        for finding in search(family, sets if families else sets * FAMILIES[family][1] // 100):
            kind = re.sub("(monotone|order).*", "in order and monotone", finding.what)
            found.setdefault(kind, []).append(finding)
    compared, minutes = sum(map(len, found.values())), (time.time() - start) / 60
    print(f"{sets} parameter sets, {compared} comparisons, {minutes:.0f} minutes", file=sys.stderr)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["claim", "compared", "least excess", "exact", "largest excess of these", "median excess of the others"]
    )
    for what, group in found.items():
        resolved = [finding for finding in group if finding.excess is not None]
        exact = [finding.excess for finding in resolved if finding.ceiling is not None]
        others = [finding.excess for finding in resolved if finding.ceiling is None]
        least = f"{min(finding.excess for finding in resolved):.1e}"
        largest = f"{max(exact):.1e}" if exact else "–"
        middle = f"{np.median(others):.1e}" if others else "–"
        rows.writerow([what, len(group), least, len(exact), largest, middle])
    return text.getvalue()


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    print(report(int(sys.argv[1]), *sys.argv[2:]), end="")
