"""Variances, durations and the smoothness of patterns with the largest evidence, and how the counts themselves vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.reconstruction.banded import FitError
from opendp_timeseries.reconstruction.basis import Basis
from opendp_timeseries.reconstruction.linearised import Learnt, Model, Normal, Reduced, Solved, State

__all__ = ["away", "fit_departure", "learn", "start"]

Array = NDArray[np.float64]

#: Value and slope of a function, and how it bends, more or less.
_Evaluated = tuple[float, Array, Callable[[], Array]]

#: Standard deviation of the normal priors of the logarithms of variances and durations.
_SPREAD: Final = 2.0
#: Up to this number of nodes times the square of that of columns, the departure's variance is sought with the patterns
#: integrated out; above, at their mean.
_JOINT: Final = 1e7
#: A search ends that gains no more than this in the logarithm of the posterior density, or after so many steps.
_GAIN: Final = 2e-3
_FIRST: Final = 0.1
_TRIES: Final = 30
#: Most rounds between patterns, departure and linearisation.
_ROUNDS: Final = 8
#: Most nodes at which the posterior variance is worked out for the dispersion.
_SAMPLE: Final = 2_000
#: Departures in proportion to the patterns last no longer than so much in the logarithm above what is thought first.
_PASSING: Final = 1.0


def start(model: Model) -> Learnt:
    """Return what is thought before the fit: the modes of the priors."""
    return Learnt(_centre(model.basis), model.basis.start(), model.seen.dispersion)


def away(basis: Basis, learnt: Learnt) -> float:
    """Return how much less likely that is than the modes, in the logarithm."""
    moved = np.concatenate([learnt.departure - _centre(basis), learnt.patterns - basis.start()]) / _SPREAD
    return 0.5 * float(moved @ moved)


def learn(model: Model, kept_steps: int, learnt: Learnt, state: State | None = None) -> tuple[Learnt, State, Model]:
    """Return what the evidence chose, where the fit was by then, and the model less what matters little.

    :param kept_steps: of the whole series.
    :param learnt: where to start.
    :param state: likewise, if something is known of the rate.
    """
    known, state = state is not None, state or model.start()
    few = len(model.nodes) * model.columns.shape[1] ** 2 <= _JOINT
    searches = _Search(), _Search()
    for turn in range(_ROUNDS):
        before, normal = learnt, model.linearise(state.f, learnt.dispersion)
        if few and not (turn or known):
            state, _ = model.advance(state, normal, model.solve(normal, learnt), learnt)
            normal = model.linearise(state.f, learnt.dispersion)
        reduced = None if few else model.reduce(normal, learnt.departure)
        learnt = _fit_patterns(model, normal, learnt, searches[0], reduced, _GAIN if turn else _FIRST)
        solved = model.solve(normal, learnt, reduced)
        learnt = learnt._replace(dispersion=_fit_dispersion(model, state.f, solved, learnt.dispersion))
        state, _ = model.advance(state, normal, solved, learnt)
        if not few:
            learnt, _ = fit_departure(model, model.given(normal, solved.mean), learnt, searches[1])
        moved = [*(learnt.departure - before.departure), *(learnt.patterns - before.patterns)]
        if max(*map(abs, moved), abs(math.log(learnt.dispersion / before.dispersion))) < 0.05:
            break
        if turn == 0:
            model, state = model.of_the_worthwhile(learnt, state, kept_steps)
    model, state = model.of_the_worthwhile(learnt, state, kept_steps)
    return learnt, state, model


def _centre(basis: Basis) -> Array:
    """Logarithms of the departure's variance and duration before the fit."""
    return np.array([math.log(0.03), math.log(basis.size / 100 + 1)])


def _bounds(model: Model) -> tuple[Array, Array]:
    """Return the least and the most that the logarithms of the departure's variance and duration may be.

    A departure that is gone after a step is how the counts vary around their rate. And one in proportion to the
    patterns that lasts would be the patterns themselves, which are known from the same values.
    """
    centre = _centre(model.basis)
    longest = 7 if model.amplitude is None else _PASSING
    return np.array([centre[0] - 7, 0.0]), centre + np.array([7, longest])


def _fit_dispersion(model: Model, f: Array, solved: Solved, before: float) -> float:
    """Return the dispersion after a step of scoring: of its logarithm, whose prior is normal around Poisson's."""
    seen, slope = model.seen, model.here.slope(f)
    if seen.taps is not None:
        return before  # a filter averages the counts' own variance away
    shown = model.here.rate(f) + slope * (model.here.mean + solved.reduced.mean(solved.mean) - f)
    every = -(-len(f) // _SAMPLE)
    known = np.repeat(solved.reduced.variance(solved.root, every), every)[: len(f)]
    spread = slope**2 * known
    own = before * np.maximum(shown, 0.0)
    variance = seen.variance + own
    log, mode = math.log(before), math.log(seen.dispersion)
    residual = (seen.values - shown) ** 2
    rise = 0.5 * float(((residual + spread - variance) * own / variance**2).sum()) - (log - mode) / seen.doubt**2
    bend = 0.5 * float(((own / variance) ** 2 * np.maximum(1 - spread / variance, 0.1) ** 2).sum()) + 1 / seen.doubt**2
    return math.exp(min(max(log + min(max(rise / bend, -1.0), 1.0), mode - 5.0), mode + 5.0))


def _fit_patterns(
    model: Model, normal: Normal, learnt: Learnt, search: _Search, reduced: Reduced | None, gain: float
) -> Learnt:
    """Return variances, duration and smoothness with the largest posterior density.

    :param reduced: the problem, if the departure's are given.
    """
    basis = model.basis
    own = 2 if reduced is None else 0
    centre, (lowest, highest) = np.append(_centre(basis), basis.start()), _bounds(model)

    def loss(parameters: Array) -> _Evaluated:
        log_variance, by_parameter = basis.variances(parameters[own:])
        problem = model.reduce(normal, parameters[:2]) if reduced is None else reduced
        value, mean, root = problem.evidence(log_variance)
        # By Fisher's identity: the posterior mean of the slope of the log density.
        precision = np.exp(-log_variance)
        left = (root**2).sum(axis=1) * precision
        slope = 0.5 * (mean**2 * precision + left - 1) @ by_parameter
        if reduced is None:
            slope = np.append(model.by_departure(Solved(problem, value, mean, root), parameters[:2]), slope)

        def bend() -> Array:
            found = np.eye(len(parameters)) / _SPREAD**2
            found[own:, own:] += 0.5 * ((1 - left[:, None]) * by_parameter).T @ ((1 - left[:, None]) * by_parameter)
            if reduced is None:
                found[:2, :2] += _information(model, normal, parameters[:2])
            return found

        moved = (parameters - centre[2 - own :]) / _SPREAD
        return 0.5 * float(moved @ moved) - value, moved / _SPREAD - slope, bend

    lowest, highest = np.append(lowest, centre[2:] - 7)[2 - own :], np.append(highest, centre[2:] + 7)[2 - own :]
    found, _ = search.minimum(loss, np.append(learnt.departure, learnt.patterns)[2 - own :], lowest, highest, gain)
    return learnt._replace(departure=found[:2] if own else learnt.departure, patterns=found[own:])


def fit_departure(model: Model, held: Normal, learnt: Learnt, search: _Search | None = None) -> tuple[Learnt, float]:
    """Return variance and duration of the departure of largest posterior density, given the coefficients, and that.

    With so many steps, these are all but known.
    """
    centre = _centre(model.basis)

    def loss(departure: Array) -> _Evaluated:
        value, slope = model.density(held, departure)
        moved = (departure - centre) / _SPREAD
        bend = lambda: _information(model, held, departure) + np.eye(2) / _SPREAD**2  # noqa: E731
        return 0.5 * float(moved @ moved) - value, moved / _SPREAD - slope, bend

    found, least = (search or _Search()).minimum(loss, learnt.departure, *_bounds(model))
    return learnt._replace(departure=found), -least


def _information(model: Model, normal: Normal, departure: Array) -> Array:
    """Return about how sharp the evidence is in the departure's parameters: as if steps were even (Whittle 1953)."""
    variance, duration = np.exp(departure).tolist()
    size, gap = len(model.nodes), float(model.gaps.mean())
    cosine = np.cos(2 * np.pi * np.arange(1, size // 2 + 1) / size)
    decay = math.exp(-gap / duration)
    width = 1 - 2 * decay * cosine + decay**2
    told = 1 / (1 + width / (variance * (1 - decay**2) * float(normal.band[0].mean())))
    by_duration = 2 * decay * gap / duration * ((cosine - decay) / width - decay / (1 - decay**2))
    both = np.array([told, told * by_duration])
    found: Array = (both[:, None] * both).sum(axis=2)
    return found


class _Search:
    """Minimises by BFGS between bounds, and remembers the curvature for the next function, which is much the same."""

    def __init__(self) -> None:
        self._inverse: Array | None = None

    def minimum(
        self, function: Callable[[Array], _Evaluated], start: Array, lowest: Array, highest: Array, gain: float = _GAIN
    ) -> tuple[Array, float]:
        """Return where the least value is, and the value.

        :param function: returns value and slope.
        """
        at, (value, slope, bend) = start, function(start)
        inverse = np.linalg.inv(bend()) if self._inverse is None else self._inverse
        for _ in range(_TRIES):
            fixed = ((at <= lowest) & (slope > 0)) | ((at >= highest) & (slope < 0))
            downhill = np.where(fixed, 0.0, slope)
            way = np.where(fixed, 0.0, -inverse @ downhill)
            if way @ slope >= 0:
                inverse = np.linalg.inv(bend())
                way = -inverse @ downhill
            if -way @ slope < 2 * gain:
                break
            share = min(1.0, 2.0 / float(np.abs(way).max()))
            for _ in range(12):
                there = np.clip(at + share * way, lowest, highest)
                try:
                    found, by, bend = function(there)
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
                across = np.eye(len(at)) - np.outer(moved, bent) / along
                inverse = across @ inverse @ across.T + np.outer(moved, moved) / along
                self._inverse = inverse
            gained, at, value, slope = value - found, there, found, by
            if gained < gain:
                break
        return at, value
