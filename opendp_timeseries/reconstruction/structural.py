"""A structural model of counts per step, and its posterior given a release: level, patterns, departure.

The rate of a step is ``c f²``, or ``c f`` where the release is too noisy for that, and ``f`` is a Gaussian process: a
level; for each season a smooth pattern that repeats, and may drift; a trend if asked for; and a departure from them all
that dies away exponentially (an Ornstein–Uhlenbeck process), and may be in proportion to the patterns. Kept values are
the rate, behind the release's filter if it has one, with two noises: the privacy noise, whose variance is known, and
the counts' own, which single events exceed.

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
from scipy.signal import fftconvolve
from scipy.sparse.linalg import LinearOperator

from opendp_timeseries.reconstruction.banded import Banded, FitError, Tridiagonal
from opendp_timeseries.reconstruction.basis import Basis
from opendp_timeseries.reconstruction.products import crossed, inverse_root, times
from opendp_timeseries.reconstruction.seasons import Season

__all__ = ["FitError", "Observations", "Posterior", "fit"]

Array = NDArray[np.float64]

#: Steps whose columns are worked out at once.
_BLOCK: Final = 4096
#: Standard deviation of the normal priors of the logarithms of variances and durations.
_SPREAD: Final = 2.0
#: Kept steps times the square of the number of columns: above this, there are fewer drifting columns.
_WORK: Final = 6e8
#: Up to this work, the departure's variance is sought with the patterns integrated out; above, at their mean.
_JOINT: Final = 1e7
#: A search ends that gains no more than this in the logarithm of the posterior density, or after so many steps.
_GAIN: Final = 2e-3
_TRIES: Final = 30
#: Most rounds between patterns, departure and linearisation.
_ROUNDS: Final = 8
#: Most nodes at which the posterior variance is worked out for the dispersion.
_SAMPLE: Final = 2_000
#: Columns are left out that together change the variance of the posterior by no more than this share.
_NEXT_TO_NOTHING: Final = 0.003
#: Where the square link turns into its tangent.
_TANGENT: Final = 0.1
#: Most steps of Gauss–Newton.
_STEPS: Final = 100
#: Share of the way that such a step goes at least, if need be.
_SHORTEST: Final = 1 / 16
#: They end as soon as f moves by no more than this; and have failed if in the end it moves by more than that.
_NEAR: Final = 1e-3
_FAR: Final = 0.05
#: How much faster than in proportion to the rate's root departures are forgotten where it is low, to choose from; and
#: by how much the logarithm of the evidence must grow for departures in proportion to the patterns.
_HASTES: Final = (0.0, 6.0)
_CLEARLY: Final = 3.0
#: Those last no longer than so much in the logarithm above the duration that is thought of first.
_PASSING: Final = 1.0
#: Before any is seen: how many single events are thought to be among the kept steps, and their mean square by that of
#: the level. Chances below which they change nothing, and the most that a value is taken to tell of its own rate.
_RARE: Final = 0.2
_LARGE: Final = 4.0
_CHANCE: Final = 0.05
_SURE: Final = 0.95
#: Kept steps from which variances are learnt, in so many stretches; behind a filter, steps of one stretch.
_ENOUGH: Final = 16_000
_STRETCHES: Final = 8


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
    """Rate by f: ``unit * f²``, or ``unit * f``; f has prior mean ``mean``, and is in units of an amplitude."""

    square: bool
    unit: float
    mean: float | Array
    amplitude: float | Array = 1.0

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
        f = f * self.amplitude
        if not self.square:
            return self.unit * f
        # On the tangent below a small f, as a square would turn up again.
        above = np.maximum(f, _TANGENT)
        return self.unit * (above**2 + 2 * _TANGENT * (f - above))

    def slope(self, f: Array) -> Array:
        slope: Array = 2 * np.maximum(f * self.amplitude, _TANGENT) if self.square else np.ones_like(f)
        return self.unit * slope * self.amplitude


class _State(NamedTuple):
    """Where Gauss–Newton is: f at the nodes, the coefficients of the columns, and the departure."""

    f: Array
    coefficients: Array
    departed: Array


class _Normal(NamedTuple):
    """Normal equations of the linearised problem ``z = A(Φβ + d) + e`` at nodes: W is the precision of e."""

    band: Array  # diagonals of A'WA, the main one first
    cross: Array | None  # A'WAΦ; None without a filter, where it is worked out as it is needed
    gram: Array | None  # Φ'A'WAΦ; None likewise
    pull: Array  # A'Wz
    push: Array  # Φ'A'Wz
    constant: float  # log density of e at z with neither β nor d
    weight: Array  # diagonal of W
    nodes: Array  # f there, around which it is linearised


@dataclass(frozen=True)
class _Model:
    seen: Observations
    basis: Basis
    link: _Link
    amplitude: Array | None = None  # to which departures are in proportion, at every step; None for none
    clock: Array | None = None  # the time by which they fade, at every step; None for the number of the step

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """Where the departure is a variable: at kept steps, or everywhere if a filter mixes them."""
        return self.seen.steps if self.seen.taps is None else np.arange(self.seen.size)

    @cached_property
    def columns(self) -> Array:
        return (self.basis.at(self.nodes + self.seen.first).T / self.here.amplitude).T

    @cached_property
    def here(self) -> _Link:
        """The link at the nodes."""
        if self.amplitude is None:
            return self.link
        amplitude = self.amplitude[self.nodes]
        return replace(self.link, mean=self.link.mean / amplitude, amplitude=amplitude)

    @cached_property
    def gaps(self) -> Array:
        return np.diff(self.nodes if self.clock is None else self.clock[self.nodes]).astype(np.float64)

    def start(self) -> _State:
        """Return the prior mean."""
        size, columns = self.columns.shape
        return _State(np.full(size, 1.0) * self.here.mean, np.zeros(columns), np.zeros(size))

    def linearise(self, f: Array, dispersion: float) -> _Normal:
        """Return the normal equations around ``f`` at the nodes, where counts vary by so much more than Poisson's."""
        seen, slope = self.seen, self.here.slope(f)
        shown = self.shown(f)
        around = slope * (f - self.here.mean)
        weight = 1 / (seen.variance + dispersion * seen.energy * np.maximum(shown, 0.0))
        cross = gram = None
        if seen.taps is None:
            response = seen.values - shown + around
            square, pull = weight * slope**2, weight * slope * response
            band, push = square[None, :], crossed(self.columns, pull[:, None])[:, 0]
        else:
            # Around the ends, where the filter reaches to the other end, its weights there are held at the last
            # estimate.
            response = seen.values - shown + self._filtered(around[:, None])[:, 0]
            design, weighed = self._filtered(slope[:, None] * self.columns), weight * response
            gram, push = crossed(design, design, weight), crossed(design, weighed[:, None])[:, 0]
            sides, every = np.zeros((seen.size, design.shape[1] + 1)), np.zeros(seen.size)
            sides[seen.steps] = weight[:, None] * np.column_stack([design, response])
            every[seen.steps] = weight
            back = slope[:, None] * fftconvolve(sides, seen.centred[::-1, None], mode="same", axes=0)
            cross, pull, band = back[:, :-1], back[:, -1], self._band(every, slope)
        constant = 0.5 * float((np.log(weight / (2 * np.pi)) - weight * response**2).sum())
        return _Normal(band, cross, gram, pull, push, constant, weight, f)

    def of_the_worthwhile(self, learnt: _Learnt, state: _State, kept_steps: int) -> tuple[_Model, _State]:
        """Leave columns out that together would change the posterior by next to nothing, with so many kept steps."""
        rate, slope = np.maximum(self.here.rate(state.f), 0.0), self.here.slope(state.f)
        weight = slope**2 / np.mean(self.seen.variance + learnt.dispersion * self.seen.energy * rate)
        energy = (self.columns.T**2 * (weight * (kept_steps / len(weight)))).sum(axis=1)
        told = energy * np.exp(self.basis.variances(learnt.patterns)[0])
        order, kept = np.argsort(told), self.basis.which.copy()
        left = order[np.cumsum(told[order]) >= _NEXT_TO_NOTHING * (told / (1 + told)).sum()]
        kept[np.delete(np.flatnonzero(kept), left)] = False
        left.sort()
        found = replace(self, basis=replace(self.basis, kept=tuple(kept.tolist())))
        # They would be worked out anew.
        found.__dict__["columns"] = np.asfortranarray(self.columns[:, left])
        return found, state._replace(coefficients=state.coefficients[left])

    def given(self, normal: _Normal, coefficients: Array) -> _Normal:
        """Return the normal equations of the departure alone, where the coefficients are these."""
        patterns = times(self.columns, coefficients)
        if normal.cross is None or normal.gram is None:
            taken = normal.band[0] * patterns
            energy = float((taken * patterns).sum())
        else:
            taken, energy = times(normal.cross, coefficients), float(coefficients @ normal.gram @ coefficients)
        constant = normal.constant + float(coefficients @ normal.push) - 0.5 * energy
        return normal._replace(pull=normal.pull - taken, constant=constant)

    def shown(self, f: Array) -> Array:
        """What a release without noise would show at the kept steps."""
        rate = self.here.rate(f)
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
        f = self.here.mean + reduced.mean(coefficients)
        departed = f - self.here.mean - times(self.columns, coefficients)
        whole = _State(f, coefficients, departed)
        main, off, _ = _precision(self.gaps, *np.exp(departure))

        def loss(at: _State) -> float:
            misfit = (normal.weight * (self.seen.values - self.shown(at.f)) ** 2).sum()
            moves = (main * at.departed**2).sum() + 2 * (off * at.departed[:-1] * at.departed[1:]).sum()
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

    def by_departure(self, reduced: _Reduced, mean: Array, root: Array, departure: Array) -> Array:
        """Return the slope of the evidence by the departure's parameters, by Fisher's identity."""
        taken = (self.columns.T - reduced.free.T).T
        departed = reduced.departed - times(taken, mean)
        spread = times(taken, root)
        own = reduced.factor.inverse_diagonal()
        square = departed**2 + own + (spread**2).sum(axis=1)
        product = departed[:-1] * departed[1:] - reduced.factor.lower * own[1:] + (spread[:-1] * spread[1:]).sum(axis=1)
        found = []
        for unit in np.eye(2):
            (main, off, log), (less, under, below) = (
                _precision(self.gaps, *np.exp(departure + small * unit)) for small in (1e-4, -1e-4)
            )
            moves = ((main - less) * square).sum() + 2 * ((off - under) * product).sum()
            found.append((log - below - moves) / 4e-4)
        return np.array(found)

    def density(self, normal: _Normal, departure: Array) -> float:
        """Return the log density of the data and the departure's parameters, if every coefficient is zero."""
        away = (departure - _centre(self.basis)) / _SPREAD
        main, off, log_determinant = _precision(self.gaps, *np.exp(departure))
        factor = _factor(normal.band, main, off)
        fitted = float((normal.pull * factor.solve(normal.pull[:, None].copy())[:, 0]).sum()) - float(away @ away)
        return normal.constant + 0.5 * (fitted + log_determinant - factor.log_determinant)

    def reduce(self, normal: _Normal, departure: Array) -> _Reduced:
        """Integrate the departure out.

        :param departure: logarithms of its variance and its duration.
        """
        main, off, log_determinant = _precision(self.gaps, *np.exp(departure))
        factor = _factor(normal.band, main, off)
        columns, sides = self.columns.T, np.empty((self.columns.shape[1] + 1, len(normal.pull)))
        if normal.cross is None:
            np.multiply(columns, normal.band[0], out=sides[:-1])
        else:
            sides[:-1] = normal.cross.T
        sides[-1] = normal.pull
        solved = factor.solve(sides.T)
        fitted = float((normal.pull * solved[:, -1]).sum())
        value = normal.constant + 0.5 * (fitted + log_determinant - factor.log_determinant)
        if normal.cross is not None:  # behind a filter
            assert normal.gram is not None
            gram = normal.gram - crossed(normal.cross, solved[:, :-1])
            push = normal.push - crossed(normal.cross, solved[:, -1:])[:, 0]
        free, departed = _free(self.columns, solved)
        if normal.cross is None:  # Φ'A'WA(Φ - S), in one product instead of two
            gram = crossed(self.columns, free, normal.band[0])
            push = normal.push - crossed(self.columns, (normal.band[0] * departed)[:, None])[:, 0]
        return _Reduced(value, (gram + gram.T) / 2, push, free, departed, factor)


class _Reduced(NamedTuple):
    """The problem with the departure integrated out: normal equations for the coefficients alone."""

    value: float  # log density of the data if every coefficient is zero
    gram: Array
    push: Array
    free: Array  # each column at the nodes, less what the departure takes of it
    departed: Array  # what the departure adds to f if every coefficient is zero
    factor: Tridiagonal | Banded  # of the departure's precision

    def mean(self, coefficients: Array) -> Array:
        """Return how far f is from its prior mean at the nodes, given the mean of the coefficients."""
        return times(self.free, coefficients) + self.departed

    def variance(self, root: Array, every: int = 1) -> Array:
        """Return the posterior variance at the nodes, or at one in so many."""
        found: Array = self.factor.inverse_diagonal()[::every]
        free = self.free[::every]
        for first in range(0, len(free), _BLOCK):
            some = slice(first, first + _BLOCK)
            found[some] += (times(free[some], root) ** 2).sum(axis=1)
        return found

    def evidence(self, log_variance: Array) -> tuple[float, Array, Array]:
        """Return the log density of the data, the coefficients' mean, and R with their covariance ``R R'``."""
        root = np.exp(log_variance / 2)
        matrix = root[:, None] * self.gram * root
        matrix[np.diag_indices_from(matrix)] += 1.0
        inverse = inverse_root(matrix)
        log_determinant = -2 * float(np.log(np.diag(inverse)).sum())
        inverse *= root
        half = inverse @ self.push
        value = self.value + 0.5 * (float(half @ half) - log_determinant)
        return value, inverse.T @ half, inverse.T


def _factor(band: Array, main: Array, off: Array) -> Tridiagonal | Banded:
    """Factor the sum of a matrix, given its diagonals, and of a tridiagonal one."""
    if len(band) == 1:
        return Tridiagonal.of(main + band[0], off)
    band = band.copy()
    band[0] += main
    band[1, :-1] += off
    return Banded.of(band)


def _free(columns: Array, solved: Array) -> tuple[Array, Array]:
    """Return the columns less what the departure takes of them, in the place of that, and what it adds to f."""
    rows = solved.T
    np.subtract(columns.T, rows[:-1], out=rows[:-1])
    return rows[:-1].T, rows[-1]


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


class Posterior(NamedTuple):
    """Mean and variance of the rate at every step, what was fitted, and the covariance behind the variances."""

    mean: Array
    variance: Array
    dispersion: float
    joint: Joint
    events: Events | None = None


def fit(seen: Observations, seasons: tuple[Season, ...], *, trend: bool, unit: float | None = None) -> Posterior:
    """Fit the model to a release, and return the posterior of the rate.

    Where the rate comes near zero, the square is nearly flat, and some fits of it run away, one in hundreds: those are
    fitted without it.

    :param unit: of values around zero, how large they may be.
    :raises FitError: if that does not work, saying why.
    """
    basis = Basis(seen.size, seasons, trend, most=int(math.sqrt(_WORK / max(len(seen.steps), seen.size / 3))))
    link = _Link.of(seen) if unit is None else _Link(False, unit, 0.0)
    model = _Model(seen, basis, link)
    try:
        found = _fit(model)
    except FitError:
        if not link.square:
            raise
        model = replace(model, link=_Link.of(seen, square=False))
        found = _fit(model)
    if unit is not None or seen.taps is not None:
        return found.posterior
    if model.link.square and seasons:
        model, found = _in_proportion(model, found)
    return _with_events(model, found)


class _Learnt(NamedTuple):
    """What the evidence chose: logarithms of the parameters of departure and patterns; the dispersion."""

    departure: Array
    patterns: Array
    dispersion: float


class _Fitted(NamedTuple):
    posterior: Posterior
    learnt: _Learnt
    evidence: float  # logarithm of the density of what was seen, and of what was learnt
    patterns: Array  # f without departures, at every step
    held: _Normal  # the departure alone, given the patterns


def _in_proportion(model: _Model, plain: _Fitted) -> tuple[_Model, _Fitted]:
    """Return the model whose departures are in proportion to the patterns, if it has far more evidence.

    On a busy day all hours grow alike. Departures may also be forgotten as fast as the rate is low: each day is then
    busy by itself, as little is left of the last one after the night.
    """
    amplitude = np.maximum(plain.patterns, _TANGENT)
    here, found = amplitude[model.nodes], (model, plain)
    held = plain.held._replace(band=plain.held.band * here**2, pull=plain.held.pull * here)
    least = _likely(model, plain.held, plain.learnt.departure) + _CLEARLY
    for haste in _HASTES:
        pace = amplitude**-haste
        scaled = replace(model, amplitude=amplitude, clock=np.cumsum(pace / pace.mean()))
        if _likely(scaled, held, plain.learnt.departure) < least:
            continue  # as it is with the same patterns, which takes little time to see
        try:
            again = _fit(scaled, plain.learnt)
        except FitError:
            continue
        if again.evidence > max(found[1].evidence, plain.evidence + _CLEARLY):
            found = scaled, again
    return found


class Events(NamedTuple):
    """Single events: counts that are beside their rate, at a few steps, by far more than counts are."""

    chance: Array  # of one, at each kept step
    share: float  # of steps that have one
    variance: float  # of their sizes

    def steps(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Kept steps that are rather one than not."""
        return kept[self.chance > 0.5]


def _with_events(model: _Model, fitted: _Fitted) -> Posterior:
    """Return the posterior where values that neither noise nor counts around their rate explain tell little of it.

    The share of such steps and the variance of their sizes are those of the largest density (an EM of two normal
    distributions of what a value is beside what the others expect). Without any, the posterior is as it was.
    """
    seen, found = model.seen, fitted.posterior
    extra = np.zeros(len(seen.steps))
    for _ in range(_ROUNDS // 2):
        rate, own = found.mean[seen.steps], seen.variance + found.dispersion * np.maximum(found.mean[seen.steps], 0.0)
        told = np.minimum(found.variance[seen.steps] / (own + extra), _SURE)  # what a value tells of its own rate
        beside = (seen.values - rate) / (1 - told)
        expected = own + (own + extra) * told / (1 - told)
        events = _events(beside**2, expected, _LARGE * max(float(rate.mean()), 0.0) ** 2)
        if not np.any(events.chance > 0.5):
            return fitted.posterior
        # The precision is the mean of those with and without an event.
        chance = np.where(events.chance > _CHANCE, events.chance, 0.0)
        before, extra = extra, own * (1 / (1 - chance * events.variance / (own + events.variance)) - 1)
        if np.all(np.abs(extra - before) < 0.1 * (own + before)):
            break
        try:
            found = _fit(replace(model, seen=replace(seen, variance=seen.variance + extra)), fitted.learnt).posterior
        except FitError:
            return fitted.posterior
    return found._replace(events=events)


def _events(square: Array, expected: Array, large: float) -> Events:
    """Return which squares are larger than expected of them, by something whose own is thought to be so large."""
    size = len(square)
    share, variance = _RARE / size, large
    for _ in range(_TRIES):
        whole = expected + variance
        odds = share / (1 - share) * np.sqrt(expected / whole)
        odds *= np.exp(np.minimum(0.5 * square * (1 / expected - 1 / whole), 500.0))
        chance = odds / (1 + odds)
        number = float(chance.sum())
        share = min((_RARE + number) / (1 + size), 0.5)
        variance = (large + float((chance * np.maximum(square - expected, 0.0)).sum())) / (1 + number)
    return Events(chance, share, variance)


def _fit(model: _Model, start: _Learnt | None = None) -> _Fitted:
    part = model.seen.part()
    of_part = model if part is model.seen else replace(model, seen=part)
    start = start or _Learnt(_centre(model.basis), model.basis.start(), model.seen.dispersion)
    learnt, state, basis = _learn(of_part, len(model.seen.steps), start)
    model = replace(model, basis=basis)
    log_variance = model.basis.variances(learnt.patterns)[0]
    if len(state.f) != len(model.nodes):
        state = model.start()
    most, before = 1.0, np.zeros_like(state.f)
    for _ in range(_STEPS):
        normal = model.linearise(state.f, learnt.dispersion)
        reduced = model.reduce(normal, learnt.departure)
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


def _learn(model: _Model, kept_steps: int, start: _Learnt) -> tuple[_Learnt, _State, Basis]:
    """Return what the evidence chose, where the fit was by then, and the columns that matter with so many steps."""
    (departure, patterns, dispersion), state = start, model.start()
    few = len(model.nodes) * model.columns.shape[1] ** 2 <= _JOINT
    searches = [_Search(), _Search()]
    for turn in range(_ROUNDS):
        before = np.concatenate([departure, patterns, [math.log(dispersion)]])
        normal = model.linearise(state.f, dispersion)
        if few:
            if turn == 0:  # at first nothing is known of the rate
                reduced, variances = model.reduce(normal, departure), model.basis.variances(patterns)[0]
                state, _ = model.advance(state, normal, reduced, variances, departure, 1.0)
                normal = model.linearise(state.f, dispersion)
            departure, patterns = _fit_together(model, normal, departure, patterns, searches[0])
        reduced = model.reduce(normal, departure)
        if not few:
            patterns = _fit_patterns(reduced, model.basis, patterns, searches[1])
        log_variance = model.basis.variances(patterns)[0]
        _, mean, root = reduced.evidence(log_variance)
        dispersion = _fit_dispersion(model, state.f, reduced, mean, root, dispersion)
        state, _ = model.advance(state, normal, reduced, log_variance, departure, 1.0)
        if not few:
            departure = _fit_departure(model, model.given(normal, mean), departure, searches[0])
        after = np.concatenate([departure, patterns, [math.log(dispersion)]])
        if np.abs(after - before).max() < 0.05:
            break
        if turn == 0:
            model, state = model.of_the_worthwhile(_Learnt(departure, patterns, dispersion), state, kept_steps)
    learnt = _Learnt(departure, patterns, dispersion)
    model, state = model.of_the_worthwhile(learnt, state, kept_steps)
    return learnt, state, model.basis


def _centre(basis: Basis) -> Array:
    """Logarithms of the departure's variance and duration before the fit."""
    return np.array([math.log(0.03), math.log(basis.size / 100 + 1)])


def _bounds(model: _Model) -> tuple[Array, Array]:
    """Return the least and the most that the logarithms of the departure's variance and duration may be.

    A departure that is gone after a step is how the counts vary around their rate. And one in proportion to the
    patterns that lasts would be the patterns themselves, which are known from the same values.
    """
    centre = _centre(model.basis)
    longest = 7 if model.amplitude is None else _PASSING
    return np.array([centre[0] - 7, 0.0]), centre + np.array([7, longest])


def _fit_dispersion(model: _Model, f: Array, reduced: _Reduced, mean: Array, root: Array, start: float) -> float:
    """Return the dispersion after a step of scoring: of its logarithm, whose prior is normal around Poisson's."""
    seen, slope = model.seen, model.here.slope(f)
    if seen.taps is not None:
        return start  # a filter averages the counts' own variance away
    shown = model.here.rate(f) + slope * (model.here.mean + reduced.mean(mean) - f)
    every = -(-len(f) // _SAMPLE)
    known = np.repeat(reduced.variance(root, every), every)[: len(f)]
    spread = slope**2 * known
    own = start * np.maximum(shown, 0.0)
    variance = seen.variance + own
    log, mode = math.log(start), math.log(seen.dispersion)
    residual = (seen.values - shown) ** 2
    rise = 0.5 * float(((residual + spread - variance) * own / variance**2).sum()) - (log - mode) / seen.doubt**2
    bend = 0.5 * float(((own / variance) ** 2 * np.maximum(1 - spread / variance, 0.1) ** 2).sum()) + 1 / seen.doubt**2
    return math.exp(min(max(log + min(max(rise / bend, -1.0), 1.0), mode - 5.0), mode + 5.0))


class _Search:
    """Minimises by BFGS between bounds, and remembers the curvature for the next function, which is much the same."""

    def __init__(self) -> None:
        self._inverse: Array | None = None

    def minimum(
        self, function: Callable[[Array], tuple[float, Array]], start: Array, lowest: Array, highest: Array
    ) -> Array:
        at, (value, slope) = start, function(start)
        inverse = np.eye(len(at)) / max(float(np.abs(slope).max()), 1.0) if self._inverse is None else self._inverse
        for _ in range(_TRIES):
            fixed = ((at <= lowest) & (slope > 0)) | ((at >= highest) & (slope < 0))
            downhill = np.where(fixed, 0.0, slope)
            way = np.where(fixed, 0.0, -inverse @ downhill)
            if way @ slope >= 0:
                inverse = np.eye(len(at)) / max(float(np.abs(slope).max()), 1.0)
                way = -inverse @ downhill
            if -way @ slope < 2 * _GAIN:
                break
            longest = share = min(1.0, 2.0 / float(np.abs(way).max()))
            for _ in range(12):
                there = np.clip(at + share * way, lowest, highest)
                try:
                    found, by = function(there)
                except FitError:
                    found, by = math.inf, slope
                if found <= value + 1e-4 * float(slope @ (there - at)):
                    break
                share *= 0.3
            else:
                break
            moved, bent = there - at, by - slope
            along = float(moved @ bent)
            if along > 1e-8:
                if self._inverse is None and share == longest:
                    inverse = np.eye(len(at)) * along / float(bent @ bent)
                across = np.eye(len(at)) - np.outer(moved, bent) / along
                inverse = across @ inverse @ across.T + np.outer(moved, moved) / along
                self._inverse = inverse
            gained, at, value, slope = value - found, there, found, by
            if gained < _GAIN:
                break
        return at


def _by_variance(log_variance: Array, mean: Array, root: Array) -> Array:
    """Return the slope of the evidence by the logarithms of the coefficients' variances.

    By Fisher's identity it is the posterior mean of the slope of the log density.
    """
    found: Array = 0.5 * ((mean**2 + (root**2).sum(axis=1)) * np.exp(-log_variance) - 1)
    return found


def _fit_together(
    model: _Model, normal: _Normal, departure: Array, patterns: Array, search: _Search
) -> tuple[Array, Array]:
    """Return the variances of departure, patterns and trend, and the duration, with the largest posterior density."""
    basis = model.basis
    centre = np.concatenate([_centre(basis), basis.start()])

    def loss(parameters: Array) -> tuple[float, Array]:
        log_variance, slope = basis.variances(parameters[2:])
        reduced = model.reduce(normal, parameters[:2])
        value, mean, root = reduced.evidence(log_variance)
        by_variance = _by_variance(log_variance, mean, root)
        if isinstance(reduced.factor, Tridiagonal):
            by_departure = model.by_departure(reduced, mean, root, parameters[:2])
        else:
            stepped = [parameters[:2] + 1e-4 * unit for unit in np.eye(2)]
            larger = [model.reduce(normal, at).evidence(log_variance)[0] for at in stepped]
            by_departure = (np.array(larger) - value) / 1e-4
        away = (parameters - centre) / _SPREAD
        return 0.5 * float(away @ away) - value, away / _SPREAD - np.append(by_departure, by_variance @ slope)

    (lowest, highest), of_patterns = _bounds(model), basis.start()
    lowest, highest = np.append(lowest, of_patterns - 7), np.append(highest, of_patterns + 7)
    found = search.minimum(loss, np.append(departure, patterns), lowest, highest)
    return found[:2], found[2:]


def _fit_patterns(reduced: _Reduced, basis: Basis, start: Array, search: _Search) -> Array:
    """Return the variances of patterns and trend with the largest posterior density, given the departure's."""
    if len(start) == 0:
        return start
    centre = basis.start()

    def loss(parameters: Array) -> tuple[float, Array]:
        log_variance, slope = basis.variances(parameters)
        value, mean, root = reduced.evidence(log_variance)
        by_variance = _by_variance(log_variance, mean, root)
        away = (parameters - centre) / _SPREAD
        return 0.5 * float(away @ away) - value, away / _SPREAD - by_variance @ slope

    return search.minimum(loss, start, centre - 7, centre + 7)


def _fit_departure(model: _Model, held: _Normal, start: Array, search: _Search) -> Array:
    """Return the departure's variance and duration with the largest posterior density, given the coefficients.

    With so many steps, these are all but known.
    """

    def loss(departure: Array) -> tuple[float, Array]:
        here, small = -model.density(held, departure), 1e-4
        return here, np.array([(-model.density(held, departure + small * unit) - here) / small for unit in np.eye(2)])

    return search.minimum(loss, start, *_bounds(model))


def _likely(model: _Model, held: _Normal, start: Array) -> float:
    """Return the largest log density of the data and the departure's parameters, given the coefficients."""
    return model.density(held, _fit_departure(model, held, start, _Search()))


def _posterior(model: _Model, normal: _Normal, learnt: _Learnt) -> _Fitted:
    basis = model.basis
    every, reduced, (value, mean, root) = _everywhere(model, normal, learnt)
    here, f, variance = every.here, every.here.mean + reduced.mean(mean), reduced.variance(root)
    if not (np.all(np.isfinite(f)) and np.all(variance >= 0)):
        raise FitError("the smoother lost its precision")
    if here.square:
        # The data were met by the square of the mean, so adding the variance would count it twice: it overstates
        # totals. The square's own variance is that of a normal variable's.
        rate, slope = np.maximum(here.rate(f), 0.0), here.unit * here.amplitude**2 * np.sqrt(4 * f**2 + 2 * variance)
    else:
        rate, slope = here.rate(f), here.unit * here.amplitude * np.ones_like(f)
    away = np.concatenate([learnt.departure - _centre(basis), learnt.patterns - basis.start()]) / _SPREAD
    patterns = (here.mean + times(every.columns, mean)) * here.amplitude
    joint = Joint(replace(model), learnt, normal.nodes, slope)
    posterior = Posterior(rate, slope**2 * variance, learnt.dispersion, joint)
    return _Fitted(posterior, learnt, value - 0.5 * float(away @ away), patterns, model.given(normal, mean))


def _everywhere(model: _Model, normal: _Normal, learnt: _Learnt) -> tuple[_Model, _Reduced, tuple[float, Array, Array]]:
    """Return model and problem at every step, and the evidence, the coefficients' mean, and R with their ``R R'``."""
    seen, every = model.seen, model
    reduced = model.reduce(normal, learnt.departure)
    evidence = reduced.evidence(model.basis.variances(learnt.patterns)[0])
    if len(model.nodes) < seen.size:  # what is known at the kept steps, at every step
        every, columns = replace(model, seen=replace(seen, steps=np.arange(seen.size))), model.columns.T
        main, off, _ = _precision(every.gaps, *np.exp(learnt.departure))
        band, sides = np.zeros((1, seen.size)), np.zeros((len(columns) + 1, seen.size))
        band[:, seen.steps], sides[-1, seen.steps] = normal.band, normal.pull
        sides[:-1, seen.steps] = columns * normal.band[0]
        factor = _factor(band, main, off)
        free, departed = _free(every.columns, factor.solve(sides.T))
        reduced = reduced._replace(free=free, departed=departed, factor=factor)
    return every, reduced, evidence


class Joint(LinearOperator):
    """The posterior covariance of the rate, whose diagonal is its variance.

    It is worked out anew for every product, so that it holds a few rows only.
    """

    def __init__(self, model: _Model, learnt: _Learnt, nodes: Array, slope: Array) -> None:
        """Keep what the fit left.

        :param nodes: f at the nodes, around which the problem was linearised.
        :param slope: of the rate by f.
        """
        super().__init__(np.float64, (len(slope), len(slope)))  # type: ignore[call-arg]  # as in errors.py
        self._fitted = model, learnt, nodes, slope

    def _matmat(self, columns: Array) -> Array:
        model, learnt, nodes, slope = self._fitted
        model = replace(model)  # the columns that it works out go with it
        _, reduced, (_, _, root) = _everywhere(model, model.linearise(nodes, learnt.dispersion), learnt)
        sides = slope[:, None] * columns
        patterns = times(reduced.free, root @ (root.T @ crossed(reduced.free, sides)))
        found: Array = slope[:, None] * (patterns + reduced.factor.solve(np.asfortranarray(sides)))
        return found

    def _adjoint(self) -> Joint:
        return self
