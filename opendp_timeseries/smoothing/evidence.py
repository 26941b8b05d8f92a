"""Variances, durations and the smoothness of patterns with the largest evidence, and how the counts themselves vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from opendp_timeseries.smoothing.linearised import Learnt, Model, Normal, Reduced, Solved, State
from opendp_timeseries.smoothing.matrices import Array, FitError

_Function = Callable[[Array], tuple[float, Array]]  # and its slope

#: Standard deviation of the normal priors of the logarithms of variances and the like, and of the departure's duration
#: in steps: noise that is a little larger than it should be looks like a departure that is gone at once.
_SPREAD: Final = 2.0
_OF_DURATION: Final = 1.0
#: Up to this number of nodes times the square of that of columns, the departure's variance is sought with the patterns
#: integrated out; above, at their mean.
_JOINT: Final = 1e7
#: A search ends that gains no more than this in the logarithm of the posterior density, in the first round no more than
#: that; or after so many steps.
_GAIN: Final = 2e-3
_FIRST: Final = 0.1
_TRIES: Final = 30
#: Most rounds between patterns, departure and linearisation.
_ROUNDS: Final = 8
#: Most nodes at which the posterior variance is worked out for the dispersion.
_SAMPLE: Final = 2_000
#: Departures in proportion to the patterns last no longer than so much in the logarithm above what is thought first.
_PASSING: Final = 1.0


class Prior(NamedTuple):
    """The prior of the logarithms of the parameters."""

    centre: Array  # their modes
    spread: Array  # their standard deviations
    lowest: Array  # the least that they may be
    highest: Array

    def away(self, parameters: Array) -> float:
        """Return how much less likely these are than the modes, in the logarithm."""
        return 0.5 * float((((parameters - self.centre) / self.spread) ** 2).sum())


def prior(model: Model) -> Prior:
    """Return the prior.

    A departure lasts a step or more: one that is gone sooner is how the counts vary around their rate. One in
    proportion to the patterns does not last long: it would be the patterns themselves, known from the same values.
    """
    centre = np.array([math.log(0.03), math.log(model.basis.size / 100 + 1), *model.basis.start()])
    spread, lowest, highest = np.full(len(centre), _SPREAD), centre - 7, centre + 7
    lowest[1] = 0.0
    if model.clock is None:
        spread[1] = _OF_DURATION
    if model.amplitude is not None:
        highest[1] = centre[1] + _PASSING
    return Prior(centre, spread, lowest, highest)


def learn(model: Model, learnt: Learnt | None, state: State | None) -> tuple[Learnt, State, Model]:
    """Return what the evidence chose, where to start to fit the whole series, and the model of it.

    Of a long series, the evidence is that of a part. Columns that matter little are left out.

    :param learnt: where to start, if not at the modes of the prior.
    :param state: likewise, if something is known of the rate.
    :raises FitError: if the rate runs away.
    """
    data, part = model.data, model.data.part()
    if part is not data:
        model, state = replace(model, data=part), None
    learnt = learnt or Learnt(prior(model).centre, model.data.dispersion)
    is_warm, state = state is not None, state or model.start()
    is_small = len(model.nodes) * model.columns.shape[1] ** 2 <= _JOINT
    searches = _Search(), _Search()
    for turn in range(_ROUNDS):
        before, normal = learnt, model.linearise(state.f, learnt.dispersion)
        if is_small and not (turn or is_warm):
            state, _ = model.advance(state, normal, model.solve(normal, learnt), learnt)
            normal = model.linearise(state.f, learnt.dispersion)
        reduced = None if is_small else model.reduce(normal, learnt.departure)
        learnt = _fit_patterns(model, normal, learnt, searches[0], reduced, _GAIN if turn else _FIRST)
        solved = model.solve(normal, learnt, reduced)
        learnt = learnt._replace(dispersion=_fit_dispersion(model, state.f, solved, learnt.dispersion))
        state, _ = model.advance(state, normal, solved, learnt)
        if not np.all(np.isfinite(state.f)):
            raise FitError("the fit ran away")
        if not is_small:
            learnt, _ = fit_departure(model, model.given(normal, solved.mean), learnt, searches[1])
        changes = [*(learnt.parameters - before.parameters), math.log(learnt.dispersion / before.dispersion)]
        if max(map(abs, changes)) < 0.05:
            break
        if turn == 0:
            model, state = model.prune(learnt, state, len(data.steps))
    model, state = model.prune(learnt, state, len(data.steps))
    if part is not data:
        model = replace(model, data=data)
        state = model.start()
    return learnt, state, model


def _fit_dispersion(model: Model, f: Array, solved: Solved, before: float) -> float:
    """Return the dispersion after a step of scoring: of its logarithm, whose prior is normal around Poisson's."""
    data, slope = model.data, model.here.slope(f)
    if data.taps is not None:
        return before  # a filter averages the counts' own variance away
    expectation = model.here.rate(f) + slope * (model.state(solved).f - f)
    every = -(-len(f) // _SAMPLE)
    spread = slope**2 * np.repeat(solved.variance(every), every)[: len(f)]
    count_variance = before * np.maximum(expectation, 0.0)
    variance = data.variance + count_variance
    log, mode = math.log(before), math.log(data.dispersion)
    residual = (data.values - expectation) ** 2
    rise = (
        0.5 * float(((residual + spread - variance) * count_variance / variance**2).sum())
        - (log - mode) / data.doubt**2
    )
    bend = (
        0.5 * float(((count_variance / variance) ** 2 * np.maximum(1 - spread / variance, 0.1) ** 2).sum())
        + 1 / data.doubt**2
    )
    return math.exp(min(max(log + min(max(rise / bend, -1.0), 1.0), mode - 5.0), mode + 5.0))


def _fit_patterns(
    model: Model, normal: Normal, learnt: Learnt, search: _Search, reduced: Reduced | None, gain: float
) -> Learnt:
    """Return the parameters with the largest density; if ``reduced`` is given, only those of the patterns change."""
    offset = 2 if reduced is None else 0  # parameters of the departure

    def evaluate(parameters: Array) -> tuple[float, Array]:
        log_variance, by_parameter = model.basis.variances(parameters[offset:])
        problem = model.reduce(normal, parameters[:2]) if reduced is None else reduced
        solved, precision = problem.given(log_variance), np.exp(-log_variance)
        # By Fisher's identity: the posterior mean of the slope of the log density.
        uncertainty = (solved.root**2).sum(axis=1) * precision
        slope = 0.5 * (solved.mean**2 * precision + uncertainty - 1) @ by_parameter
        if reduced is None:
            slope = np.append(model.by_departure(solved, parameters[:2]), slope)
        return solved.value, slope

    return _most_likely(model, learnt, slice(2 - offset, None), evaluate, search, gain)[0]


def fit_departure(model: Model, normal: Normal, learnt: Learnt, search: _Search | None = None) -> tuple[Learnt, float]:
    """Return the departure's parameters with the largest posterior density, given the coefficients, and its log."""
    return _most_likely(model, learnt, slice(2), partial(model.density, normal), search or _Search())


def _most_likely(
    model: Model, learnt: Learnt, among: slice, evaluate: _Function, search: _Search, gain: float = _GAIN
) -> tuple[Learnt, float]:
    """Return the parameters with the largest posterior density, and that, where only some of them are sought."""
    centre, spread, lowest, highest = (row[among] for row in prior(model))

    def loss(at: Array) -> tuple[float, Array]:
        value, slope = evaluate(at)
        deviation = (at - centre) / spread
        return 0.5 * float(deviation @ deviation) - value, deviation / spread - slope

    parameters = learnt.parameters.copy()
    parameters[among], least = search.minimum(loss, parameters[among], lowest, highest, gain)
    return learnt._replace(parameters=parameters), -least


class _Search:
    """Minimises by BFGS between bounds, and remembers the curvature for the next function, which is much the same."""

    def __init__(self) -> None:
        self._inverse: Array | None = None

    def minimum(
        self, function: _Function, start: Array, lowest: Array, highest: Array, gain: float
    ) -> tuple[Array, float]:
        """Return where the least value is, within so much, and the value."""
        at, (value, slope) = start, function(start)
        gentle = np.eye(len(at)) / max(float(np.abs(slope).max(initial=0.0)), 1.0)
        inverse = gentle if self._inverse is None else self._inverse
        for _ in range(_TRIES):
            fixed = ((at <= lowest) & (slope > 0)) | ((at >= highest) & (slope < 0))
            downhill = np.where(fixed, 0.0, slope)
            way = np.where(fixed, 0.0, -inverse @ downhill)
            if way @ slope >= 0:
                inverse, way = gentle, -gentle @ downhill
            if -way @ slope < 2 * gain:
                break
            longest = share = min(1.0, 2.0 / float(np.abs(way).max()))
            for _ in range(12):
                there = np.clip(at + share * way, lowest, highest)
                try:
                    trial, by = function(there)
                except FitError:
                    trial, by = math.inf, slope
                if trial <= value + 1e-4 * float(slope @ (there - at)):
                    break
                share *= 0.3
            else:
                break
            move, bent = there - at, by - slope
            along = float(move @ bent)
            if along > 1e-8:
                if self._inverse is None and share == longest:
                    inverse = np.eye(len(at)) * along / float(bent @ bent)
                across = np.eye(len(at)) - np.outer(move, bent) / along
                inverse = across @ inverse @ across.T + np.outer(move, move) / along
                self._inverse = inverse
            gained, at, value, slope = value - trial, there, trial, by
            if gained < gain:
                break
        return at, value
