"""A structural model of counts per step, and its posterior given a release: level, patterns, departure.

The rate of a step is ``c f²``, or ``c f`` where the release is too noisy for that, and ``f`` is a Gaussian process: a
level; for each season a smooth pattern that repeats, and may drift; a trend if asked for; and a departure from them all
that dies away exponentially (an Ornstein–Uhlenbeck process). Kept values are the rate, behind the release's filter if
it has one, with two noises: the privacy noise, whose variance is known, and the counts' own.

Patterns are regressions on few columns, the departure has a precision matrix with few diagonals, and each is easy once
the other is given: so everything takes time that is linear in the number of steps (Rue & Held 2005, Gaussian Markov
Random Fields, 2.4). The square is linearised around the posterior mean (Gauss–Newton), and the variances are those of
the largest marginal likelihood of the linearised problem (Breslow & Clayton 1993), under weak priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.optimize import minimize
from scipy.signal import fftconvolve

from opendp_timeseries.reconstruction.banded import Banded, FitError, Tridiagonal

__all__ = ["FitError", "Observations", "Posterior", "fit"]

Array = NDArray[np.float64]

#: Most harmonics of a season, in a long series and in a short one: a week of hours has a sharp peak every morning.
_HARMONICS: Final = (24, 84)
#: Of these, the lowest may drift: those of a smooth pattern above them are too small for it to be seen.
_DRIFTING: Final = 4
#: A pattern drifts over no fewer cycles than this, and by so many half-waves at most.
_CYCLES: Final = 8
_HALF_WAVES: Final = 12
#: Half-waves of a trend.
_BENDS: Final = 12
#: Standard deviation of the normal priors of the logarithms of variances and durations.
_SPREAD: Final = 2.0
#: Kept steps times the square of the number of columns: above this, there are fewer drifting columns.
_WORK: Final = 6e8
#: Up to this work, the departure's variance is sought with the patterns integrated out; above, at their mean.
_JOINT: Final = 1e7
#: Most rounds between patterns, departure and linearisation.
_ROUNDS: Final = 8
#: Matrices of this size are factored at once, and products of so many multiplications made.
_SMALL: Final = 64
_UNSHARED: Final = 200_000
#: Where the square link turns into its tangent.
_TANGENT: Final = 0.1
#: Most steps of Gauss–Newton.
_STEPS: Final = 100
#: Share of the way that such a step goes at least, if need be.
_SHORTEST: Final = 1 / 16
#: They end as soon as f moves by no more than this; and have failed if in the end it moves by more than that.
_NEAR: Final = 1e-3
_FAR: Final = 0.05
#: Kept steps from which variances are learnt, in so many stretches; behind a filter, steps of one stretch.
_ENOUGH: Final = 16_000
_STRETCHES: Final = 8


@dataclass(frozen=True)
class Basis:
    """Columns in which level, patterns and trend are linear, and the prior variance of each.

    A column is a wave of a season, cosine or sine, times a slow cosine over the whole series if its pattern drifts
    there. A pattern that is smooth has small high harmonics: the variance of harmonic h is proportional to
    ``(1 + (h/h₀)²)⁻²``. A drift that is a random walk has variance ``∝ j⁻²`` in its j-th half-wave, and a trend that is
    a straight line and an integrated random walk ``j⁻⁴`` (Karhunen–Loève). Level and line have variance 1.
    """

    size: int  # steps of the series
    periods: tuple[float, ...]  # lengths of the seasons, in steps
    trend: bool
    most: int  # most columns, if leaving out high harmonics and those of drifts can do it

    @cached_property
    def _columns(self) -> NDArray[np.void]:
        """One row for each column: season (-1 is the level, -2 the trend), harmonic, frequency, sine, half-waves."""
        waves: list[tuple[int, int, float, bool, int]] = []
        seen: set[float] = set()
        fewest, most = _HARMONICS
        highest = min(max(self.most // max(2 * len(self.periods), 1), fewest), most)
        for season, period in enumerate(self.periods):
            for harmonic in range(1, min(highest, math.floor(period / 2)) + 1):
                frequency = harmonic / period
                if round(frequency, 12) not in seen:
                    seen.add(round(frequency, 12))
                    both = (False, True) if frequency < 0.5 else (False,)  # cosine and sine
                    waves += [(season, harmonic, frequency, sine, 0) for sine in both]
        found = [(-1, 0, 0.0, False, 0), *waves]
        if self.trend:
            found += [(-2, 0, 0.0, False, bend) for bend in range(_BENDS + 1)]  # the first is a straight line
        drifting = [wave for wave in waves if wave[1] <= _DRIFTING]
        for half_waves in range(1, _HALF_WAVES + 1):
            cycles = half_waves * _CYCLES
            more = [(*wave[:4], half_waves) for wave in drifting if cycles * self.periods[wave[0]] <= self.size]
            if len(found) + len(more) > self.most:
                break
            found += more
        names = [("season", int), ("harmonic", int), ("frequency", float), ("sine", bool), ("half_waves", int)]
        return np.array(found, dtype=names)

    def at(self, steps: NDArray[np.int64]) -> Array:
        """Return the columns at these steps, one row for each."""
        columns = self._columns
        waves, place = np.unique(columns[["frequency", "sine"]], return_inverse=True)
        turns = np.mod(np.multiply.outer(steps, waves["frequency"]), 1.0) - waves["sine"] / 4
        half_waves, bend = np.unique(columns["half_waves"], return_inverse=True)
        slow = np.cos(np.pi * np.multiply.outer((steps + 0.5) / self.size, half_waves))
        found: Array = np.cos(2 * np.pi * turns)[:, place]
        moving = columns["half_waves"] > 0
        found[:, moving] *= slow[:, bend[moving]]
        found[:, (columns["season"] == -2) & ~moving] = ((2 * steps + 1) / self.size - 1)[:, None]
        return found

    def start(self) -> Array:
        """Logarithms of the parameters before the fit: the modes of their priors."""
        season = [0.2, 3.0, 3e-3]  # variance of the pattern, harmonic h₀ from which it decays, share of its drift
        return np.log(season * len(self.periods) + [0.1] * self.trend)  # variance of the trend

    def variances(self, parameters: Array) -> tuple[Array, Array]:
        """Return the logarithm of each column's variance, and its derivatives by the parameters."""
        columns = self._columns
        log_variance, slope = np.zeros(len(columns)), np.zeros((len(columns), len(parameters)))
        for season in range(len(self.periods)):
            total, decay, drift = range(3 * season, 3 * season + 3)
            its = columns["season"] == season
            exact = its & (columns["half_waves"] == 0)
            ratio = (columns["harmonic"][its] / math.exp(parameters[decay])) ** 2
            weight, steeper = -2 * np.log1p(ratio), 4 * ratio / (1 + ratio)
            of_exact = exact[its]
            share = np.exp(weight[of_exact]) / np.exp(weight[of_exact]).sum()
            log_variance[its] = parameters[total] + weight - np.log(np.exp(weight[of_exact]).sum())
            slope[its, total], slope[its, decay] = 1.0, steeper - share @ steeper[of_exact]
            moving = its & ~exact
            log_variance[moving] += parameters[drift] - 2 * np.log(columns["half_waves"][moving])
            slope[moving, drift] = 1.0
        trend = (columns["season"] == -2) & (columns["half_waves"] > 0)
        if np.any(trend):
            log_variance[trend] = parameters[-1] - 4 * np.log(columns["half_waves"][trend])
            slope[trend, -1] = 1.0
        return log_variance, slope


@dataclass(frozen=True)
class Observations:
    """Kept values, and what is public about them."""

    size: int  # steps of the series, or of a stretch of it
    steps: NDArray[np.int64]  # kept ones
    values: Array  # there
    variance: float | Array  # of the privacy noise, everywhere or at each of them
    taps: Array | None = None  # of the filter that the rate went through, whose weights wrap around the ends
    dispersion: float = 1.0  # prior variance of a count by its rate, 1 for Poisson's: mode of a log-normal
    doubt: float = 0.5  # standard deviation of its logarithm
    first: int = 0  # where in the series the stretch begins

    def part(self) -> Observations:
        """Return what variances are learnt from: of a long release some stretches, or one if it is filtered.

        In a filtered one, kept steps near the ends see the other end, of which nothing is known before the fit, and
        which would be taken for sharp patterns: they are left out.
        """
        if self.taps is None:
            if len(self.steps) <= _ENOUGH:
                return self
            starts = np.linspace(0, len(self.steps) - _ENOUGH // _STRETCHES, _STRETCHES).astype(int)
            chosen = (starts[:, None] + np.arange(_ENOUGH // _STRETCHES)).ravel()
            variance = np.broadcast_to(self.variance, len(self.steps))[chosen]
            return replace(self, steps=self.steps[chosen], values=self.values[chosen], variance=variance)
        size = min(self.size, _ENOUGH)
        first = (self.size - size) // 2
        inside = (self.steps >= first + self.radius) & (self.steps < first + size - self.radius)
        if np.count_nonzero(inside) < min(_ENOUGH // 100, len(self.steps) / 2):
            return self
        around = np.arange(-self.radius, self.radius + 1)
        taps = np.zeros(size)
        taps[around] = self.taps[around]
        steps = self.steps[inside] - first
        return replace(self, size=size, first=first, steps=steps, values=self.values[inside], taps=taps)

    @cached_property
    def gain(self) -> float:
        """The factor by which a filter multiplies a constant."""
        return 1.0 if self.taps is None else float(self.taps.sum())

    @cached_property
    def energy(self) -> float:
        """The factor by which a filter multiplies the variance of independent counts."""
        return 1.0 if self.taps is None else float(self.taps @ self.taps)

    @cached_property
    def centred(self) -> Array:
        """The taps that matter, from the step ``radius`` before to the one ``radius`` after."""
        assert self.taps is not None
        return np.concatenate([self.taps[self.size - self.radius :], self.taps[: self.radius + 1]])

    @cached_property
    def radius(self) -> int:
        """Steps over which the filter reaches to either side; of weights that are below 10⁻⁴ together, none."""
        if self.taps is None:
            return 0
        half = self.size // 2
        both = np.abs(self.taps[:half]) + np.abs(self.taps[-np.arange(half)])
        beyond = np.cumsum(both[::-1])[::-1]
        return min(int(np.count_nonzero(beyond > 1e-4 * beyond[0])) - 1, (self.size - 1) // 2)


@dataclass(frozen=True)
class _Link:
    """Rate by f: ``unit * f²``, or ``unit * f``; f has prior mean ``mean``."""

    square: bool
    unit: float
    mean: float

    @classmethod
    def of(cls, seen: Observations, *, square: bool = True) -> _Link:
        """Return the link that fits a release: the square, if it may be that and the release is not too noisy."""
        average = float(seen.values.mean()) / seen.gain
        noise = float(np.mean(seen.variance))
        variance = noise + seen.dispersion * seen.energy * max(average, 0.0)
        error = math.sqrt(variance / len(seen.values)) / seen.gain
        if square and average > 4 * error:
            return cls(True, average, 1.0)
        moves = max(float(seen.values.var()) - noise, 0.0) / seen.gain**2  # of the rate, not of the noise
        unit = math.sqrt(max(moves, average**2, error**2))
        return cls(False, unit, average / unit)

    def rate(self, f: Array) -> Array:
        if not self.square:
            return self.unit * f
        # On the tangent below a small f, as a square would turn up again.
        above = np.maximum(f, _TANGENT)
        return self.unit * (above**2 + 2 * _TANGENT * (f - above))

    def slope(self, f: Array) -> Array:
        return self.unit * (2 * np.maximum(f, _TANGENT) if self.square else np.ones_like(f))


class _State(NamedTuple):
    """Where Gauss–Newton is: f at the nodes, the coefficients of the columns, and the departure."""

    f: Array
    coefficients: Array
    departed: Array


class _Normal(NamedTuple):
    """Normal equations of the linearised problem ``z = A(Φβ + d) + e`` at nodes: W is the precision of e."""

    band: Array  # diagonals of A'WA, the main one first
    cross: Array  # A'WAΦ
    gram: Array  # Φ'A'WAΦ
    pull: Array  # A'Wz
    push: Array  # Φ'A'Wz
    constant: float  # log density of e at z with neither β nor d
    weight: Array  # diagonal of W


@dataclass(frozen=True)
class _Model:
    seen: Observations
    basis: Basis
    link: _Link

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """Where the departure is a variable: at kept steps, or everywhere if a filter mixes them."""
        return self.seen.steps if self.seen.taps is None else np.arange(self.seen.size)

    @cached_property
    def columns(self) -> Array:
        return self.basis.at(self.nodes + self.seen.first)

    @cached_property
    def gaps(self) -> Array:
        return np.diff(self.nodes).astype(np.float64)

    def start(self) -> _State:
        """Return the prior mean."""
        size, columns = self.columns.shape
        return _State(np.full(size, self.link.mean), np.zeros(columns), np.zeros(size))

    def mean(self, reduced: _Reduced, coefficients: Array) -> Array:
        """Return f at the nodes, given the mean of the coefficients."""
        patterns = _times(self.columns, coefficients)
        return self.link.mean + patterns + _times(reduced.solved, np.append(-coefficients, 1.0))

    def linearise(self, f: Array, dispersion: float) -> _Normal:
        """Return the normal equations around ``f`` at the nodes, where counts vary by so much more than Poisson's."""
        seen, slope = self.seen, self.link.slope(f)
        shown = self.shown(f)
        around = slope * (f - self.link.mean)
        weight = 1 / (seen.variance + dispersion * seen.energy * np.maximum(shown, 0.0))
        if seen.taps is None:
            response = seen.values - shown + around
            square, pull = weight * slope**2, weight * slope * response
            band, cross, design, weighed = square[None, :], square[:, None] * self.columns, self.columns, pull
            gram = _crossed(design, cross)
        else:
            # Around the ends, where the filter reaches to the other end, its weights there are held at the last
            # estimate.
            response = seen.values - shown + self._filtered(around[:, None])[:, 0]
            design, weighed = self._filtered(slope[:, None] * self.columns), weight * response
            gram = _crossed(design, weight[:, None] * design)
            sides, every = np.zeros((seen.size, design.shape[1] + 1)), np.zeros(seen.size)
            sides[seen.steps] = weight[:, None] * np.column_stack([design, response])
            every[seen.steps] = weight
            back = slope[:, None] * fftconvolve(sides, seen.centred[::-1, None], mode="same", axes=0)
            band, cross, pull = self._band(every, slope), np.ascontiguousarray(back[:, :-1]), back[:, -1]
        constant = 0.5 * float(np.log(weight / (2 * np.pi)).sum() - weight @ response**2)
        return _Normal(band, cross, gram, pull, _crossed(design, weighed), constant, weight)

    def shown(self, f: Array) -> Array:
        """What a release without noise would show at the kept steps."""
        rate = self.link.rate(f)
        if self.seen.taps is None:
            return rate
        return np.fft.irfft(np.fft.rfft(rate) * np.fft.rfft(self.seen.taps), n=self.seen.size)[self.seen.steps]

    def advance(
        self, state: _State, normal: _Normal, reduced: _Reduced, log_variance: Array, departure: Array, most: float
    ) -> tuple[_State, Array]:
        """Go at most this share of the way to the posterior mean of the linearised problem, as far as it helps.

        Return also the whole way of f.
        """
        coefficients = reduced.evidence(log_variance)[1]
        f = self.mean(reduced, coefficients)
        whole = _State(f, coefficients, f - self.link.mean - _times(self.columns, coefficients))
        main, off, _ = _precision(self.gaps, *np.exp(departure))

        def loss(at: _State) -> float:
            misfit = normal.weight @ (self.seen.values - self.shown(at.f)) ** 2
            moves = main @ at.departed**2 + 2 * off @ (at.departed[:-1] * at.departed[1:])
            return 0.5 * float(misfit + moves + at.coefficients**2 @ np.exp(-log_variance))

        here, share = loss(state), most
        while True:
            found = _State(*(old + share * (new - old) for old, new in zip(state, whole, strict=True)))
            if share <= _SHORTEST or loss(found) <= here:
                return found, whole.f - state.f
            share /= 2

    def _filtered(self, columns: Array) -> Array:
        filtered: Array = fftconvolve(columns, self.seen.centred[:, None], mode="same", axes=0)[self.seen.steps]
        return filtered

    def _band(self, weight: Array, slope: Array) -> Array:
        """Diagonals of A'WA: ``slope_k slope_{k+m} Σ_t w_t h_{t-k} h_{t-k-m}``."""
        taps, size = self.seen.centred, self.seen.size
        band = np.zeros((len(taps), size))
        for m in range(min(len(taps), size)):
            # In full, entry k + radius is Σ_u w_(k+u) h_u h_(u-m): u runs from m - radius to radius.
            product = taps[m:] * taps[: len(taps) - m]
            full = np.zeros(size + len(taps))
            full[: size + len(product) - 1] = fftconvolve(weight, product[::-1])
            found = full[self.seen.radius : self.seen.radius + size - m]
            band[m, : size - m] = found * slope[: size - m] * slope[m:]
        return band

    def reduce(self, normal: _Normal, gaps: Array, departure: Array) -> _Reduced:
        """Integrate the departure out.

        :param departure: logarithms of its variance and its duration.
        """
        main, off, log_determinant = _precision(gaps, *np.exp(departure))
        sides = np.empty((len(normal.pull), normal.cross.shape[1] + 1), order="F")  # as LAPACK has it
        sides[:, :-1], sides[:, -1] = normal.cross, normal.pull
        factor: Tridiagonal | Banded
        if len(normal.band) == 1:
            factor = Tridiagonal.of(main + normal.band[0], off)
        else:
            band = normal.band.copy()
            band[0] += main
            band[1, :-1] += off
            factor = Banded.of(band)
        solved = factor.solve(sides)
        gram = normal.gram - _crossed(normal.cross, solved[:, :-1])
        return _Reduced(
            gram=(gram + gram.T) / 2,
            push=normal.push - _crossed(normal.cross, solved[:, -1]),
            value=normal.constant + 0.5 * float(normal.pull @ solved[:, -1] + log_determinant - factor.log_determinant),
            solved=solved,
            factor=factor,
        )


class _Reduced(NamedTuple):
    """The problem with the departure integrated out: normal equations for the coefficients alone."""

    gram: Array
    push: Array
    value: float  # log density of the data if every coefficient is zero
    solved: Array  # of the departure: what each column takes from it, and its mean if every coefficient is zero
    factor: Tridiagonal | Banded

    def variance(self, columns: Array, root: Array) -> Array:
        """Return the posterior variance at the nodes."""
        across = _times(columns - self.solved[:, :-1], root)
        found: Array = self.factor.inverse_diagonal() + np.einsum("ij,ij->i", across, across)
        return found

    def evidence(self, log_variance: Array) -> tuple[float, Array, Array]:
        """Return the log density of the data, the coefficients' mean, and R with their covariance ``R R'``."""
        root = np.exp(log_variance / 2)
        matrix = root[:, None] * self.gram * root
        matrix[np.diag_indices_from(matrix)] += 1.0
        inverse = _inverse_root(matrix)
        log_determinant = -2 * float(np.log(np.diag(inverse)).sum())
        inverse *= root
        half = inverse @ self.push
        value = self.value + 0.5 * (float(half @ half) - log_determinant)
        return value, inverse.T @ half, inverse.T


def _precision(gaps: Array, variance: float, duration: float) -> tuple[Array, Array, float]:
    """Main and next diagonal of the precision of a stationary Ornstein–Uhlenbeck process, and its log determinant."""
    decay = np.exp(-gaps / duration)
    fresh = -np.expm1(-2 * gaps / duration)
    precision = 1 / (variance * fresh)
    main = np.zeros(len(gaps) + 1)
    main[0] = 1 / variance
    main[:-1] += precision * decay**2
    main[1:] += precision
    return main, -precision * decay, -math.log(variance) * len(main) - float(np.log(fresh).sum())


# Products and factors by pieces so small that BLAS does not share them among threads: waking those takes longer, by far
# where other processes run.


def _inverse_root(matrix: Array) -> Array:
    """Return the inverse of the Cholesky factor, by halves."""
    size = len(matrix)
    if size <= _SMALL:
        lower, failed = dpotrf(matrix, lower=1, clean=1)
        if failed:
            raise FitError("the smoother lost its precision")
        inverse: Array = dtrtri(lower, lower=1)[0]
        return inverse
    first, rest = slice(size // 2), slice(size // 2, size)
    inverse = np.zeros_like(matrix)
    inverse[first, first] = _inverse_root(matrix[first, first])
    across = _crossed(matrix[first, rest], inverse[first, first].T)
    inverse[rest, rest] = _inverse_root(matrix[rest, rest] - _crossed(across.T, across.T))
    inverse[rest, first] = -_times(inverse[rest, rest], _times(across, inverse[first, first]))
    return inverse


def _crossed(left: Array, right: Array) -> Array:
    """Return ``left.T @ right``."""
    for axis, sides in ((0, _halves(left)), (1, _halves(right))):
        if len(sides) > 1:
            parts = [_crossed(side, right) if axis == 0 else _crossed(left, side) for side in sides]
            return np.concatenate(parts, axis=axis)
    total = np.zeros((left.shape[1], *right.shape[1:]))
    rows = _UNSHARED // max(total.size, 1)
    for first in range(0, len(left), rows):
        total += left[first : first + rows].T @ right[first : first + rows]
    return total


def _times(left: Array, right: Array) -> Array:
    """Return ``left @ right``."""
    if len(sides := _halves(right)) > 1:
        return np.concatenate([_times(left, side) for side in sides], axis=1)
    rows = max(_UNSHARED // max(right.size, 1), 1)
    return np.concatenate([left[first : first + rows] @ right for first in range(0, len(left), rows)])


def _halves(matrix: Array) -> list[Array]:
    """Return a matrix, or its left and its right half if it is wide."""
    width = matrix.shape[-1]
    return [matrix] if matrix.ndim == 1 or width <= _SMALL else [matrix[:, : width // 2], matrix[:, width // 2 :]]


class Posterior(NamedTuple):
    """Mean and variance of the rate at every step, and what was fitted."""

    mean: Array
    variance: Array
    dispersion: float


def fit(seen: Observations, periods: tuple[float, ...], *, trend: bool, unit: float | None = None) -> Posterior:
    """Fit the model to a release, and return the posterior of the rate.

    Where the rate comes near zero, the square is nearly flat, and some fits of it run away, one in hundreds: those are
    fitted without it.

    :param unit: of values around zero, how large they may be.
    :raises FitError: if that does not work, saying why.
    """
    basis = Basis(seen.size, periods, trend, most=int(math.sqrt(_WORK / max(len(seen.steps), seen.size / 3))))
    link = _Link.of(seen) if unit is None else _Link(False, unit, 0.0)
    try:
        return _fit(_Model(seen, basis, link))
    except FitError:
        if not link.square:
            raise
    return _fit(_Model(seen, basis, _Link.of(seen, square=False)))


def _fit(model: _Model) -> Posterior:
    seen, basis = model.seen, model.basis
    part = seen.part()
    learnt, state = _learn(model if part is seen else _Model(part, basis, model.link))
    log_variance = basis.variances(learnt.patterns)[0]
    if len(state.f) != len(model.nodes):
        state = model.start()
    most, before = 1.0, np.zeros_like(state.f)
    for _ in range(_STEPS):
        normal = model.linearise(state.f, learnt.dispersion)
        reduced = model.reduce(normal, model.gaps, learnt.departure)
        state, way = model.advance(state, normal, reduced, log_variance, learnt.departure, most)
        if np.abs(way).max() < _NEAR:
            break
        # The variance of a count follows its estimate. Where there is little other noise, whole steps can swing for
        # ever between a value that is believed and one that is not; shorter ones come to rest between them.
        if way @ before < -0.25 * (before @ before):
            most = max(most / 2, _SHORTEST)
        elif way @ before > 0.75 * (before @ before):
            most = min(1.5 * most, 1.0)
        before = way
    if np.abs(way).max() > _FAR:
        raise FitError("the fit did not converge")
    return _posterior(model, normal, learnt)


class _Learnt(NamedTuple):
    """What the evidence chose: logarithms of the parameters of departure and patterns; the dispersion."""

    departure: Array
    patterns: Array
    dispersion: float


def _learn(model: _Model) -> tuple[_Learnt, _State]:
    """Return what the evidence chose, and where the fit was by then."""
    basis = model.basis
    centre = np.array([math.log(0.03), math.log(basis.size / 100 + 1)])
    departure, patterns, state = centre, basis.start(), model.start()
    dispersion = model.seen.dispersion
    for _ in range(_ROUNDS):
        before = np.concatenate([departure, patterns, [math.log(dispersion)]])
        normal = model.linearise(state.f, dispersion)
        reduced = model.reduce(normal, model.gaps, departure)
        patterns = _fit_patterns(reduced, basis, patterns)
        log_variance = basis.variances(patterns)[0]
        _, mean, root = reduced.evidence(log_variance)
        dispersion = _fit_dispersion(model, state.f, reduced, mean, root, dispersion)
        state, _ = model.advance(state, normal, reduced, log_variance, departure, 1.0)
        departure = _fit_departure(model, normal, log_variance, mean, departure, centre)
        after = np.concatenate([departure, patterns, [math.log(dispersion)]])
        if np.abs(after - before).max() < 0.05:
            break
    return _Learnt(departure, patterns, dispersion), state


def _fit_dispersion(model: _Model, f: Array, reduced: _Reduced, mean: Array, root: Array, start: float) -> float:
    """Return the dispersion after a step of scoring: of its logarithm, whose prior is normal around Poisson's."""
    seen, slope = model.seen, model.link.slope(f)
    if seen.taps is not None:
        return start  # a filter averages the counts' own variance away
    shown = model.link.rate(f) + slope * (model.mean(reduced, mean) - f)
    spread = slope**2 * reduced.variance(model.columns, root)
    own = start * np.maximum(shown, 0.0)
    variance = seen.variance + own
    log, mode = math.log(start), math.log(seen.dispersion)
    residual = (seen.values - shown) ** 2
    rise = 0.5 * float(((residual + spread - variance) * own / variance**2).sum()) - (log - mode) / seen.doubt**2
    bend = 0.5 * float(((own / variance) ** 2 * np.maximum(1 - spread / variance, 0.1) ** 2).sum()) + 1 / seen.doubt**2
    return math.exp(min(max(log + min(max(rise / bend, -1.0), 1.0), mode - 5.0), mode + 5.0))


def _minimum(function: Callable[[Array], tuple[float, Array]], start: Array, lowest: Array, highest: Array) -> Array:
    def where_defined(point: Array) -> tuple[float, Array]:
        try:
            return function(point)
        except FitError:
            return 1e100, np.zeros(len(point))

    bounds = list(zip(lowest.tolist(), highest.tolist(), strict=True))
    found: Array = minimize(where_defined, start, jac=True, method="SLSQP", bounds=bounds, options={"maxiter": 30}).x
    return found


def _fit_patterns(reduced: _Reduced, basis: Basis, start: Array) -> Array:
    """Return the variances of patterns and trend with the largest posterior density, given the departure's."""
    if len(start) == 0:
        return start
    centre = basis.start()

    def loss(parameters: Array) -> tuple[float, Array]:
        log_variance, slope = basis.variances(parameters)
        value, mean, root = reduced.evidence(log_variance)
        # Fisher's identity: the slope of the evidence is the posterior mean of that of the log density.
        by_variance = 0.5 * ((mean**2 + (root**2).sum(axis=1)) * np.exp(-log_variance) - 1)
        away = (parameters - centre) / _SPREAD
        return 0.5 * float(away @ away) - value, away / _SPREAD - by_variance @ slope

    return _minimum(loss, start, centre - 7, centre + 7)


def _fit_departure(
    model: _Model, normal: _Normal, log_variance: Array, mean: Array, start: Array, centre: Array
) -> Array:
    """Return the departure's variance and duration with the largest posterior density, given those of patterns."""
    if len(normal.pull) * len(normal.gram) ** 2 <= _JOINT:

        def value(departure: Array) -> float:
            return model.reduce(normal, model.gaps, departure).evidence(log_variance)[0]

    else:
        # With so many steps, the coefficients are all but known: they are held at their mean.
        held = normal._replace(
            cross=np.empty((len(normal.pull), 0)),
            gram=np.empty((0, 0)),
            pull=normal.pull - _times(normal.cross, mean),
            push=np.empty(0),
            constant=normal.constant + float(mean @ normal.push) - 0.5 * float(mean @ normal.gram @ mean),
        )

        def value(departure: Array) -> float:
            return model.reduce(held, model.gaps, departure).value

    def loss(departure: Array) -> tuple[float, Array]:
        def at(point: Array) -> float:
            away = (point - centre) / _SPREAD
            return 0.5 * float(away @ away) - value(point)

        here, small = at(departure), 1e-4
        slopes = [(at(departure + small * unit) - here) / small for unit in np.eye(len(departure))]
        return here, np.array(slopes)

    # A departure that is gone after a step is how the counts vary around their rate.
    return _minimum(loss, start, np.array([centre[0] - 7, 0.0]), centre + 7)


def _posterior(model: _Model, normal: _Normal, learnt: _Learnt) -> Posterior:
    seen, basis = model.seen, model.basis
    columns = model.columns
    if seen.taps is None:
        columns = basis.at(np.arange(seen.size))
        band, pull, cross = np.zeros((1, seen.size)), np.zeros(seen.size), np.zeros((seen.size, columns.shape[1]))
        band[:, seen.steps], pull[seen.steps], cross[seen.steps] = normal.band, normal.pull, normal.cross
        normal = normal._replace(band=band, pull=pull, cross=cross)
    reduced = model.reduce(normal, np.ones(seen.size - 1), learnt.departure)
    _, mean, root = reduced.evidence(basis.variances(learnt.patterns)[0])
    f = model.link.mean + _times(columns - reduced.solved[:, :-1], mean) + reduced.solved[:, -1]
    variance = reduced.variance(columns, root)
    if not (np.all(np.isfinite(f)) and np.all(variance >= 0)):
        raise FitError("the smoother lost its precision")
    unit = model.link.unit
    if model.link.square:
        # The data were met by the square of the mean, so adding the variance would count it twice: it overstates
        # totals. The square's own variance is that of a normal variable's.
        rate, spread = np.maximum(model.link.rate(f), 0.0), unit**2 * (4 * f**2 * variance + 2 * variance**2)
    else:
        rate, spread = unit * f, unit**2 * variance
    return Posterior(rate, spread, learnt.dispersion)
