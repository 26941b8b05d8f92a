"""A structural model of counts per step, and its posterior given a release: level, patterns, departure.

The rate of a step is ``c f²``, or ``c f`` where the release is too noisy for that. ``f`` is the Gaussian process that
``smooth`` describes, whose departure is Ornstein–Uhlenbeck's. Kept values are the rate, behind the release's filter if
it has one, with two noises: the privacy noise, and the counts' own, which single events exceed. The square is
linearised around the posterior mean (Gauss–Newton), and the variances are those of the largest marginal likelihood of
the linearised problem (Breslow & Clayton 1993), under weak priors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from opendp_timeseries.smoothing import errors, evidence
from opendp_timeseries.smoothing.basis import Basis
from opendp_timeseries.smoothing.linearised import SHORTEST, TANGENT, Learnt, Link, Model, Normal, Solved, State
from opendp_timeseries.smoothing.matrices import Array, FitError, crossprod, matmul
from opendp_timeseries.smoothing.observations import Observations
from opendp_timeseries.smoothing.seasons import Season, lasts_months, with_weekends

#: Kept steps times the square of the number of columns: above this, there are fewer drifting columns.
_WORK: Final = 6e8
#: Most steps of Gauss–Newton.
_STEPS: Final = 100
#: They end as soon as f moves by no more than this; and have failed if in the end it moves by more than that.
_NEAR: Final = 1e-3
_FAR: Final = 0.05
#: How much faster than in proportion to the rate's root departures are forgotten where it is low, to choose from; and
#: by how much the logarithm of the evidence must grow for departures in proportion to the patterns.
_HASTES: Final = (0.0, 6.0)
_CLEARLY: Final = 3.0
#: How often it is seen where patterns are large, and by how much the logarithm of the evidence must grow for it.
_SIZINGS: Final = 2
_GAIN: Final = 1.0
#: How often series without any single event may show one: all that are looked at together.
_FALSE: Final = 0.01
#: Before any is seen: how many single events are thought to be among the kept steps, and their mean square by that of
#: the level. Chances below which they change nothing, and the most that a value is taken to tell of its own rate. Most
#: rounds between events and rate, and of finding both their share and their size.
_RARE: Final = 0.2
_LARGE: Final = 4.0
_CHANCE: Final = 0.05
_SURE: Final = 0.95
_ROUNDS: Final = 4
_TRIES: Final = 30


class Posterior(NamedTuple):
    """Mean and variance of the rate at every step, the dispersion, the covariance behind the variances, and events.

    The evidence is the logarithm of the density of the values and of what was learnt.
    """

    mean: Array
    variance: Array
    dispersion: float
    joint: errors.Covariance
    events: Events
    evidence: float


def fit(
    data: Observations, seasons: tuple[Season, ...], *, trend: bool, unit: float | None = None, by_phase: bool = False
) -> Posterior:
    """Fit the model to a release, and return the posterior of the rate.

    Where the rate comes near zero, the square is nearly flat, and some fits of it run away, one in hundreds: those are
    fitted without it.

    :param unit: of values around zero, how large they may be.
    :param by_phase: for totals of panels: whether patterns of longer seasons depend on the phase of the shortest,
        and weekends have days of their own.
    :raises FitError: if that does not work, saying why.
    """
    limit = int(math.sqrt(_WORK / max(len(data.steps), data.size / 3)))
    drift = lasts_months(seasons, data.size)
    if by_phase and unit is None:
        seasons = with_weekends(seasons)
    basis = Basis(data.size, seasons, trend, limit=limit, by_phase=by_phase, drift=drift)
    link = Link.of(data) if unit is None else Link(False, unit, 0.0)
    model = Model(data, basis, link)
    try:
        result = _fit(model)
    except FitError:
        if not link.square:
            raise
        model = replace(model, link=Link.of(data, square=False))
        result = _fit(model)
    if unit is not None or data.taps is not None:
        return result.posterior
    result = _with_envelope(result) if by_phase else result
    if not (result.model.link.square and seasons):
        return _with_events(result)
    proportional = _in_proportion(result)
    posterior = _with_events(proportional)
    if data.ahead and proportional is not result:
        return _ahead_of(posterior, _with_events(result), data.size - data.ahead)
    return posterior


class _Fitted(NamedTuple):
    model: Model  # less columns that matter little
    learnt: Learnt
    state: State
    posterior: Posterior
    patterns: Array  # f without departures, at every step
    departure: Normal  # the departure alone, given the patterns

    @property
    def evidence(self) -> float:
        """Logarithm of the density of what was seen, and of what was learnt."""
        return self.posterior.evidence


def _with_envelope(plain: _Fitted) -> _Fitted:
    """Return the fit whose patterns of longer seasons are larger at some phases of the shortest, if that is likelier.

    A Saturday differs from a Monday at eight, not at three. Taken to be as large at any hour, what a day has of its own
    is missed where it is large, and seen where it is nothing. How large it is shows in the fit itself. Long series are
    left as they are: their values tell it, and a further fit takes long.
    """
    best, basis = plain, plain.model.basis
    if len(basis.seasons) < 2 or plain.model.data.part() is not plain.model.data:
        return plain
    for _ in range(_SIZINGS):
        model = best.model
        again = replace(model, basis=basis.with_sizes(_power(best)))
        try:
            trial = _fit(again, best.learnt)
        except FitError:
            break
        if trial.evidence <= best.evidence:
            break
        best = trial
    return best if best.evidence > plain.evidence + _GAIN else plain


def _power(fitted: _Fitted) -> Array:
    """Return the mean square of each season's pattern at every step."""
    model = fitted.model
    solved = model.solve(model.linearise(fitted.state.f, fitted.learnt.dispersion), fitted.learnt)
    rows, of = model.basis.at(np.arange(model.basis.size)), model.basis.season_of
    return np.array(
        [
            matmul(rows[:, some], solved.mean[some]) ** 2 + (matmul(rows[:, some], solved.root[some]) ** 2).sum(axis=1)
            for some in (of == season for season in range(len(model.basis.seasons)))
        ]
    )


def _in_proportion(plain: _Fitted) -> _Fitted:
    """Return the fit whose departures are in proportion to the patterns, if it has far more evidence.

    On a busy day all hours grow alike. Departures may also be forgotten as fast as the rate is low: each day is then
    busy by itself, as little is left of the last one after the night.
    """
    model, amplitude = plain.model, np.maximum(plain.patterns, TANGENT)
    here = amplitude[model.nodes]
    departure = plain.departure._replace(band=plain.departure.band * here**2, pull=plain.departure.pull * here)
    paces = [amplitude**-haste for haste in _HASTES]
    scaled = [replace(model, amplitude=amplitude, clock=np.cumsum(pace / pace.mean())) for pace in paces]
    # With the same patterns, which takes little time to see.
    learnt, likely = zip(
        *(evidence.fit_departure(candidate, departure, plain.learnt) for candidate in scaled), strict=True
    )
    best = int(np.argmax(likely))
    if likely[best] < evidence.fit_departure(model, plain.departure, plain.learnt)[1] + _CLEARLY:
        return plain
    state = State(plain.state.f / here, plain.state.coefficients, plain.state.departed / here)
    try:
        result = _fit(scaled[best], learnt[best], state)
    except FitError:
        return plain
    return result if result.evidence > plain.evidence + _CLEARLY else plain


def _ahead_of(posterior: Posterior, plain: Posterior, last: int) -> Posterior:
    """Return a posterior that goes on as the plain fit does.

    Departures in proportion to the patterns may be in place of a part of them: while there are values that does not
    matter, but ahead the departures fade.
    """
    before = np.arange(len(posterior.mean)) < last
    mean, variance = (np.where(before, *rows) for rows in zip(posterior[:2], plain[:2], strict=True))
    joint = _GoingOn(posterior.joint, plain.joint, before.astype(np.float64))
    return posterior._replace(mean=mean, variance=variance, joint=joint)


class _GoingOn(errors.Covariance):
    """One covariance before, and another one ahead and between what is before and ahead."""

    def __init__(self, inside: errors.Covariance, plain: errors.Covariance, before: Array) -> None:
        super().__init__(len(before))
        self._inside, self._plain, self._before = inside, plain, before

    def _matmat(self, columns: Array) -> Array:
        before = self._before[:, None]
        product: Array = self._plain @ columns
        product += before * (self._inside @ (before * columns) - self._plain @ (before * columns))
        return product

    def variances(self, weights: Array, starts: NDArray[np.int64]) -> Array:
        before = weights * self._before
        of_all, plainly = (self._plain.variances(some, starts) for some in (weights, before))
        variances: Array = self._inside.variances(before, starts) + of_all - plainly
        return variances


class Events(NamedTuple):
    """Single events: counts that are beside their rate, at a few steps or none, by far more than counts are."""

    chance: Array  # of one, at each kept step
    share: float  # of steps that have one
    variance: float  # of their sizes

    def steps(self, positions: NDArray[np.int64], counts: Array) -> list[int]:
        """Kept steps that are rather one than not, if there is anybody."""
        events: list[int] = positions[(self.chance > 0.5) & (counts[positions] > 0)].tolist()
        return events


def _with_events(fitted: _Fitted) -> Posterior:
    """Return the posterior where values that neither noise nor counts around their rate explain tell little of it.

    What noise and counts may do in one step of so many is none, as the noise is known.

    The share of such steps and the variance of their sizes are those of the largest density (an EM of two normal
    distributions of what a value is beside what the others expect). Without any, the posterior is as it was.
    """
    model, learnt, state, posterior, *_ = fitted
    data = model.data
    extra = np.zeros(len(data.steps))
    for _ in range(_ROUNDS):
        rate, error = (
            posterior.mean[data.steps],
            data.variance + posterior.dispersion * np.maximum(posterior.mean[data.steps], 0.0),
        )
        gain = np.minimum(posterior.variance[data.steps] / (error + extra), _SURE)  # what a value tells of its own rate
        prediction = (rate - gain * data.values) / (1 - gain)
        counts = np.maximum(data.values, 0.0)  # of an event: there are none below zero
        expected = error + (error + extra) * gain / (1 - gain)
        beyond = np.abs(_deviates(counts, prediction, expected, posterior.dispersion)) > -ndtri(
            _FALSE / 2 / (len(data.steps) * data.among)
        )
        events = _events((counts - prediction) ** 2, expected, _LARGE * max(float(rate.mean()), 0.0) ** 2, beyond)
        if not np.any(events.chance > 0.5):
            return fitted.posterior
        # The precision is the mean of those with and without an event.
        chance = np.where(events.chance > _CHANCE, events.chance, 0.0)
        before, extra = extra, error * (1 / (1 - chance * events.variance / (error + events.variance)) - 1)
        if np.all(np.abs(extra - before) < 0.1 * (error + before)):
            break
        try:
            again = replace(model, data=replace(data, variance=data.variance + extra))
            posterior = _fit(again, learnt, state).posterior
        except FitError:
            return fitted.posterior
    return posterior._replace(events=events)


def _deviates(counts: Array, rate: Array, variance: Array, dispersion: float) -> Array:
    """Return standard normal deviates as unlikely as counts at such a rate, behind noise (their signed root).

    :param variance: of noise and counts, which scatter as a multiple of a Poisson variable.
    """
    rate = np.maximum(rate, 1e-9)
    noise = np.maximum(variance - dispersion * rate, 1e-9 * variance)
    # Where the slope of the logarithm of the moment generating function is the count: by Newton's method, from above.
    tilt = np.minimum((counts - rate) / noise, np.log(np.maximum(counts, 1e-9) / rate) / dispersion)
    tilt = np.where(counts > rate, tilt, 0.0)
    for _ in range(_TRIES):
        grown = rate * np.exp(dispersion * tilt)
        tilt = tilt - (noise * tilt + grown - counts) / (noise + dispersion * grown)
    generated = noise * tilt**2 / 2 + rate * np.expm1(dispersion * tilt) / dispersion
    deviates: Array = np.sign(tilt) * np.sqrt(2 * np.maximum(counts * tilt - generated, 0.0))
    return deviates


def _events(square: Array, expected: Array, large: float, beyond: NDArray[np.bool_]) -> Events:
    """Return which squares are larger than expected of them, by something whose own is thought to be so large.

    :param beyond: which are beyond what noise and counts may do.
    """
    size = len(square)
    share, variance = _RARE / size, large
    for _ in range(_TRIES):
        total = expected + variance
        odds = share / (1 - share) * np.sqrt(expected / total)
        odds *= np.exp(np.minimum(0.5 * square * (1 / expected - 1 / total), 500.0))
        chance = np.where(beyond, odds / (1 + odds), 0.0)
        number = float(chance.sum())
        share = min((_RARE + number) / (1 + size), 0.5)
        variance = (large + float((chance * np.maximum(square - expected, 0.0)).sum())) / (1 + number)
    return Events(chance, share, variance)


def _fit(model: Model, learnt: Learnt | None = None, state: State | None = None) -> _Fitted:
    """Fit, starting there."""
    learnt, state, model = evidence.learn(model, learnt, state)
    limit, before = 1.0, np.zeros_like(state.f)
    for _ in range(_STEPS):
        normal = model.linearise(state.f, learnt.dispersion)
        state, way = model.advance(state, normal, model.solve(normal, learnt), learnt, limit)
        if np.abs(way).max() < _NEAR:
            break
        # The variance of a count follows its estimate. Where there is little other noise, whole steps can swing for
        # ever between a value that is believed and one that is not; shorter ones come to rest between them.
        if way @ before < -0.25 * (before @ before):
            limit = max(limit / 2, SHORTEST)
        elif way @ before > 0.75 * (before @ before):
            limit = min(1.5 * limit, 1.0)
        before = way
    if np.abs(way).max() > _FAR:
        raise FitError("the fit did not converge")
    return _posterior(model, normal, learnt)


def _posterior(model: Model, normal: Normal, learnt: Learnt) -> _Fitted:
    every, wide = model.everywhere(normal)
    solved = every.solve(wide, learnt)
    (f, coefficients, departed), here, variance = every.state(solved), every.here, solved.variance()
    if not (np.all(np.isfinite(f)) and np.all(variance >= 0)):
        raise FitError("the smoother lost its precision")
    if here.square:
        # The data were met by the square of the mean, so adding the variance would count it twice: it overstates
        # totals. The square's own variance is that of a normal variable's.
        rate, slope = np.maximum(here.rate(f), 0.0), here.unit * here.amplitude**2 * np.sqrt(4 * f**2 + 2 * variance)
        # Ahead there are no data, and what is known less well than before is more in the square.
        last = model.data.size - model.data.ahead
        excess = np.maximum(variance[last:] - variance[:last].mean(), 0.0)
        rate[last:] += here.unit * (np.ones_like(f) * here.amplitude**2)[last:] * excess
    else:
        rate, slope = here.rate(f), here.unit * here.amplitude * np.ones_like(f)
    joint = _OfRate(replace(model), learnt, normal.nodes, slope)
    events = Events(np.zeros(len(model.data.steps)), 0.0, 0.0)
    density, departure = solved.value - evidence.prior(model).away(learnt.parameters), model.given(normal, coefficients)
    posterior = Posterior(rate, slope**2 * variance, learnt.dispersion, joint, events, density)
    state = State(f[model.nodes], coefficients, departed[model.nodes])
    return _Fitted(model, learnt, state, posterior, (f - departed) * here.amplitude, departure)


class _OfRate(errors.Covariance):
    """The posterior covariance of the rate, worked out anew each time: it would fill the memory.

    :param nodes: f at the nodes, around which the problem was linearised.
    :param slope: of the rate by f.
    """

    def __init__(self, model: Model, learnt: Learnt, nodes: Array, slope: Array) -> None:
        super().__init__(len(slope))
        self._model, self._learnt, self._nodes, self._slope = model, learnt, nodes, slope

    def _solved(self) -> Solved:
        model = replace(self._model)  # which is not to hold what is worked out here
        every, wide = model.everywhere(model.linearise(self._nodes, self._learnt.dispersion))
        return every.solve(wide, self._learnt)

    def _matmat(self, columns: Array) -> Array:
        reduced, _, _, root = self._solved()
        sides = self._slope[:, None] * columns
        patterns = matmul(reduced.free, root @ (root.T @ crossprod(reduced.free, sides)))
        product: Array = self._slope[:, None] * (patterns + reduced.factor.solve(np.asfortranarray(sides)))
        return product

    def variances(self, weights: Array, starts: NDArray[np.int64]) -> Array:
        reduced, _, _, root = self._solved()
        side = self._slope * weights[0]
        free = np.array([np.add.reduceat(side * column, starts) for column in reduced.free.T]).T
        variances: Array = (matmul(free, root) ** 2).sum(axis=1) + reduced.factor.variances(side, starts)
        return variances
