"""The model around an estimate, where it is linear: patterns and a departure, seen through a filter and with noise.

Patterns are regressions on few columns, the departure has a precision matrix with few diagonals, and each is easy once
the other is given: so everything takes time that is linear in the number of steps (Rue & Held 2005, Gaussian Markov
Random Fields, 2.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.smoothing.basis import Basis
from opendp_timeseries.smoothing.matrices import Array, Banded, Tridiagonal, crossprod, inverse_root, matmul
from opendp_timeseries.smoothing.observations import Observations

#: Steps whose columns are worked out at once.
_BLOCK: Final = 4096
#: Columns are left out that together change the variance of the posterior by no more than this share.
_NEXT_TO_NOTHING: Final = 0.003
#: Where the square link turns into its tangent.
TANGENT: Final = 0.1
#: Share of the way that a step of Gauss–Newton goes at least, if need be.
SHORTEST: Final = 1 / 16


class Learnt(NamedTuple):
    """Parameters of the largest evidence: their logarithms, of which two are the departure's; and the dispersion."""

    parameters: Array
    dispersion: float

    @property
    def departure(self) -> Array:
        """Logarithms of its variance and its duration."""
        return self.parameters[:2]

    @property
    def patterns(self) -> Array:
        """Those of the parameters of patterns and trend, see :meth:`Basis.variances`."""
        return self.parameters[2:]


@dataclass(frozen=True)
class Link:
    """Rate by f: ``unit * f²``, or ``unit * f``; f has prior mean ``mean``, and is in units of an amplitude."""

    square: bool
    unit: float
    mean: float | Array
    amplitude: float | Array = 1.0

    @classmethod
    def of(cls, data: Observations, *, square: bool = True) -> Link:
        """Return the link that fits a release: the square, if it may be that and the release is not too noisy."""
        average = data.mean(data.values) / data.gain
        noise = data.mean(np.broadcast_to(data.variance, data.values.shape))
        variance = noise + data.dispersion * data.energy * max(average, 0.0)
        error = math.sqrt(variance / len(data.values)) / data.gain
        if square and average > 4 * error:
            return cls(True, average, 1.0)
        spread = data.mean((data.values - average * data.gain) ** 2)
        moves = max(spread - noise, 0.0) / data.gain**2  # of the rate, not of the noise
        unit = math.sqrt(max(moves, average**2, error**2))
        return cls(False, unit, average / unit)

    def rate(self, f: Array) -> Array:
        """Return the rate where f is this."""
        f = f * self.amplitude
        if not self.square:
            return self.unit * f
        # On the tangent below a small f, as a square would turn up again.
        above = np.maximum(f, TANGENT)
        return self.unit * (above**2 + 2 * TANGENT * (f - above))

    def slope(self, f: Array) -> Array:
        """Return the slope of the rate by f."""
        slope: Array = 2 * np.maximum(f * self.amplitude, TANGENT) if self.square else np.ones_like(f)
        return self.unit * slope * self.amplitude


class State(NamedTuple):
    """Current point of Gauss–Newton: f at the nodes, the coefficients of the columns, and the departure."""

    f: Array
    coefficients: Array
    departed: Array


class Normal(NamedTuple):
    """Normal equations of the linearised problem ``z = A(Φβ + d) + e`` at nodes: W is the precision of e."""

    band: Array  # diagonals of A'WA, the main one first
    cross: Array  # A'WAΦ
    pull: Array  # A'Wz
    push: Array  # Φ'A'Wz
    constant: float  # log density of e at z with neither β nor d
    weight: Array  # diagonal of W
    nodes: Array  # f there, around which it is linearised


@dataclass(frozen=True)
class Model:
    """Model of a release: its data, and how they depend on level, patterns and departure."""

    data: Observations
    basis: Basis
    link: Link
    amplitude: Array | None = None  # to which departures are in proportion, at every step; None for none
    clock: Array | None = None  # the time by which they fade, at every step; None for the number of the step

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """Steps at which the departure is a variable: kept steps, or all steps if a filter mixes them."""
        return self.data.steps if self.data.taps is None else np.arange(self.data.size)

    @cached_property
    def columns(self) -> Array:
        """Those of the basis at the nodes, in units of the amplitude."""
        return (self.basis.at(self.nodes + self.data.first).T / self.here.amplitude).T

    @cached_property
    def here(self) -> Link:
        """The link at the nodes."""
        if self.amplitude is None:
            return self.link
        amplitude = self.amplitude[self.nodes]
        return replace(self.link, mean=self.link.mean / amplitude, amplitude=amplitude)

    @cached_property
    def gaps(self) -> Array:
        """From each node to the next, by the clock."""
        return np.diff(self.nodes if self.clock is None else self.clock[self.nodes]).astype(np.float64)

    def start(self) -> State:
        """Return the prior mean."""
        size, columns = self.columns.shape
        return State(np.ones(size) * self.here.mean, np.zeros(columns), np.zeros(size))

    def linearise(self, f: Array, dispersion: float) -> Normal:
        """Return the normal equations around ``f`` at the nodes, where counts vary by so much more than Poisson's."""
        data, slope = self.data, self.here.slope(f)
        expectation = self.expectation(f)
        around = slope * (f - self.here.mean)
        weight = 1 / (data.variance + dispersion * data.energy * np.maximum(expectation, 0.0))
        if data.taps is None:
            response = data.values - expectation + around
            band, pull = (weight * slope**2)[None, :], weight * slope * response
            cross = (self.columns.T * band[0]).T
        else:
            # Around the ends, where the filter reaches to the other end, its weights there are held at the last
            # estimate.
            design = np.column_stack([slope[:, None] * self.columns, around])
            design = scipy.signal.fftconvolve(design, data.centred[:, None], mode="same", axes=0)[data.steps]
            response = data.values - expectation + design[:, -1]
            design[:, -1] = response
            sides, every = np.zeros((data.size, design.shape[1])), np.zeros(data.size)
            sides[data.steps], every[data.steps] = weight[:, None] * design, weight
            back = slope[:, None] * scipy.signal.fftconvolve(sides, data.centred[::-1, None], mode="same", axes=0)
            cross, pull, band = back[:, :-1], back[:, -1], self._band(every, slope)
        constant = 0.5 * float((np.log(weight / (2 * np.pi)) - weight * response**2).sum())
        return Normal(band, cross, pull, crossprod(self.columns, pull), constant, weight, f)

    def prune(self, learnt: Learnt, state: State, kept_steps: int) -> tuple[Model, State]:
        """Leave out columns whose sum would barely change the posterior, with so many kept steps."""
        rate, slope = np.maximum(self.here.rate(state.f), 0.0), self.here.slope(state.f)
        weight = slope**2 / np.mean(self.data.variance + learnt.dispersion * self.data.energy * rate)
        energy = (self.columns.T**2 * (weight * (kept_steps / len(weight)))).sum(axis=1)
        information = energy * np.exp(self.basis.variances(learnt.patterns)[0])
        order = np.argsort(information)
        columns = np.sort(
            order[np.cumsum(information[order]) >= _NEXT_TO_NOTHING * (information / (1 + information)).sum()]
        )
        model = replace(self, basis=replace(self.basis, selection=self.basis.which[columns]))
        # They would be worked out anew.
        model.__dict__["columns"] = np.asfortranarray(self.columns[:, columns])
        return model, state._replace(coefficients=state.coefficients[columns])

    def given(self, normal: Normal, coefficients: Array) -> Normal:
        """Return the normal equations of the departure alone, where the coefficients are these."""
        patterns, taken = matmul(self.columns, coefficients), matmul(normal.cross, coefficients)
        constant = normal.constant + float(coefficients @ normal.push) - 0.5 * float((taken * patterns).sum())
        return normal._replace(pull=normal.pull - taken, constant=constant)

    def expectation(self, f: Array) -> Array:
        """Return the values that a release without noise would have at the kept steps."""
        rate = self.here.rate(f)
        if self.data.taps is None:
            return rate
        return np.fft.irfft(np.fft.rfft(rate) * np.fft.rfft(self.data.taps), n=self.data.size)[self.data.steps]

    def solve(self, normal: Normal, learnt: Learnt, reduced: Reduced | None = None) -> Solved:
        """Return the posterior of the linearised problem, which may be given with the departure integrated out."""
        return (reduced or self.reduce(normal, learnt.departure)).given(self.basis.variances(learnt.patterns)[0])

    def state(self, solved: Solved) -> State:
        """Return the posterior mean."""
        f = matmul(solved.reduced.free, solved.mean) + solved.reduced.departed
        return State(self.here.mean + f, solved.mean, f - matmul(self.columns, solved.mean))

    def everywhere(self, normal: Normal) -> tuple[Model, Normal]:
        """Return model and normal equations with every step as a node; those between kept ones tell nothing."""
        data = self.data
        if len(self.nodes) == data.size:
            return self, normal
        every = replace(self, data=replace(data, steps=np.arange(data.size)))
        band, pull = np.zeros((1, data.size)), np.zeros(data.size)
        band[:, data.steps], pull[data.steps] = normal.band, normal.pull
        return every, normal._replace(band=band, pull=pull, cross=(every.columns.T * band[0]).T)

    def advance(
        self, state: State, normal: Normal, solved: Solved, learnt: Learnt, limit: float = 1.0
    ) -> tuple[State, Array]:
        """Go at most this share of the way to the posterior mean of the linearised problem, as far as it helps.

        Return also the whole way of f.
        """
        goal, precision = self.state(solved), np.exp(-self.basis.variances(learnt.patterns)[0])
        main, off, _ = _precision(self.gaps, learnt.departure)

        def loss(at: State) -> float:
            misfit = (normal.weight * (self.data.values - self.expectation(at.f)) ** 2).sum()
            moves = (main * at.departed**2).sum() + 2 * (off * at.departed[:-1] * at.departed[1:]).sum()
            return 0.5 * float(misfit + moves + at.coefficients**2 @ precision)

        here, share = loss(state), limit
        while True:
            proposal = State(*(old + share * (new - old) for old, new in zip(state, goal, strict=True)))
            if share <= SHORTEST or loss(proposal) <= here:
                return proposal, goal.f - state.f
            share /= 2

    def _band(self, weight: Array, slope: Array) -> Array:
        """Diagonals of A'WA: ``slope_k slope_{k+m} Σ_t w_t h_{t-k} h_{t-k-m}``."""
        taps, size = self.data.centred, self.data.size
        band = np.zeros((len(taps), size))
        for m in range(min(len(taps), size)):
            # In full, entry k + radius is Σ_u w_(k+u) h_u h_(u-m): u runs from m - radius to radius.
            product = taps[m:] * taps[: len(taps) - m]
            full = np.zeros(size + len(taps))
            full[: size + len(product) - 1] = scipy.signal.fftconvolve(weight, product[::-1])
            diagonal = full[self.data.radius : self.data.radius + size - m]
            band[m, : size - m] = diagonal * slope[: size - m] * slope[m:]
        return band

    def density(self, normal: Normal, departure: Array) -> tuple[float, Array]:
        """Return the log density of the data if every coefficient is zero, and its slope by the parameters."""
        value, factor, (departed,) = self._integrated(normal, departure, normal.cross.T[:0])
        return value, _by_departure(self.gaps, departure, factor, departed)

    def by_departure(self, solved: Solved, departure: Array) -> Array:
        """Return the slope of the evidence by the departure's parameters."""
        taken = (self.columns.T - solved.reduced.free.T).T
        departed, spread = solved.reduced.departed - matmul(taken, solved.mean), matmul(taken, solved.root)
        return _by_departure(self.gaps, departure, solved.reduced.factor, departed, spread)

    def reduce(self, normal: Normal, departure: Array) -> Reduced:
        """Integrate the departure out, whose parameters have these logarithms."""
        value, factor, rows = self._integrated(normal, departure, normal.cross.T)
        np.subtract(self.columns.T, rows[:-1], out=rows[:-1])
        free, departed = rows[:-1].T, rows[-1]
        gram = crossprod(normal.cross, free, symmetric=True)  # Φ'A'WA(Φ - S), in one product instead of two
        push = normal.push - crossprod(normal.cross, departed)
        return Reduced(value, (gram + gram.T) / 2, push, free, departed, factor)

    def _integrated(self, normal: Normal, departure: Array, cross: Array) -> tuple[float, Tridiagonal | Banded, Array]:
        """Return the log density if every coefficient is zero, a factor, and its solutions for rows and pull."""
        main, off, log_determinant = _precision(self.gaps, departure)
        factor: Tridiagonal | Banded
        if len(normal.band) == 1:
            factor = Tridiagonal.of(main + normal.band[0], off)
        else:
            factor = Banded.of(
                np.vstack([normal.band[0] + main, normal.band[1] + np.append(off, 0.0), normal.band[2:]])
            )
        rows = factor.solve(np.vstack([cross, normal.pull]).T).T
        fitted = float((normal.pull * rows[-1]).sum())
        return normal.constant + 0.5 * (fitted + log_determinant - factor.log_determinant), factor, rows


class Reduced(NamedTuple):
    """The problem with the departure integrated out: normal equations for the coefficients alone."""

    value: float  # log density of the data if every coefficient is zero
    gram: Array
    push: Array
    free: Array  # each column at the nodes, less what the departure takes of it
    departed: Array  # what the departure adds to f if every coefficient is zero
    factor: Tridiagonal | Banded  # of the departure's precision

    def given(self, log_variance: Array) -> Solved:
        """Return the posterior, given the logarithms of the coefficients' variances."""
        root = np.exp(log_variance / 2)
        matrix = root[:, None] * self.gram * root
        matrix.flat[:: len(matrix) + 1] += 1.0
        inverse = inverse_root(matrix)
        log_determinant = -2 * float(np.log(np.diag(inverse)).sum())
        inverse *= root
        half = inverse @ self.push
        value = self.value + 0.5 * (float(half @ half) - log_determinant)
        return Solved(self, value, inverse.T @ half, inverse.T)


class Solved(NamedTuple):
    """The posterior of the linearised problem."""

    reduced: Reduced
    value: float  # log density of the data
    mean: Array  # of the coefficients
    root: Array  # R with their covariance R R'

    def variance(self, every: int = 1) -> Array:
        """Return that of f at the nodes, or at one in so many."""
        diagonal: Array = self.reduced.factor.inverse_diagonals()[0][::every]
        free = self.reduced.free[::every]
        for first in range(0, len(free), _BLOCK):
            some = slice(first, first + _BLOCK)
            diagonal[some] += (matmul(free[some], self.root) ** 2).sum(axis=1)
        return diagonal


def _precision(gaps: Array, departure: Array) -> tuple[Array, Array, float]:
    """Main and next diagonal of the precision of a stationary Ornstein–Uhlenbeck process, and its log determinant."""
    variance, duration = np.exp(departure).tolist()
    decay = np.exp(gaps / -duration)
    fresh = -np.expm1(gaps * (-2 / duration))
    precision = 1 / (variance * fresh)
    main = np.zeros(len(gaps) + 1)
    main[0] = 1 / variance
    main[:-1] += precision * decay**2
    main[1:] += precision
    return main, -precision * decay, -math.log(variance) * len(main) - float(np.log(fresh).sum())


def _by_departure(
    gaps: Array, departure: Array, factor: Tridiagonal | Banded, mean: Array, spread: Array | None = None
) -> Array:
    """Return the slope of the evidence by the departure's parameters.

    By Fisher's identity it is the posterior mean of the slope of the departure's log density.

    :param factor: of the departure's precision, given the coefficients.
    :param mean: the departure's.
    :param spread: S with the covariance ``S S'`` that the coefficients' adds to it.
    """
    diagonal, beside = factor.inverse_diagonals()
    square, product = diagonal + mean**2, beside + mean[:-1] * mean[1:]
    if spread is not None:
        square += (spread**2).sum(axis=1)
        product += (spread[:-1] * spread[1:]).sum(axis=1)
    variance, duration = np.exp(departure).tolist()
    lapse = gaps / duration
    decay, memory, fresh = np.exp(-lapse), np.exp(-2 * lapse), -np.expm1(-2 * lapse)
    around = square[:-1] + square[1:]
    innovation = square[0] + ((memory * square[:-1] + square[1:] - 2 * decay * product) / fresh).sum()
    pulled = (memory * around - (1 + memory) * decay * product) / (variance * fresh)
    return np.array([0.5 * (innovation / variance - len(square)), (lapse / fresh * (memory - pulled)).sum()])
