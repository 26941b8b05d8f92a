"""From a release to a full series with standard errors, by a Kalman smoother.

The noise level of a release is public, so a model of the signal alone remains to be fitted: a level that
departs from, and returns to, a repeating pattern. What it fits is the release; it never sees the signal.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from opendp_timeseries import _validate as check
from opendp_timeseries.reconstruction.interpolate import interpolate
from opendp_timeseries.reconstruction.series import Series, reconstruct_parts
from opendp_timeseries.release import Release

__all__ = ["smooth"]

#: Numbers of harmonics tried, in this order, while the likelihood rises.
_HARMONICS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
#: The search ends when the likelihood has not risen so many times in a row.
_PATIENCE: Final = 2
#: Evaluations of the likelihood allowed to each fit.
MAX_EVALUATIONS: Final = 600
#: With fewer kept steps there is nothing to learn variances from.
MIN_KEPT: Final = 8

Season = float | Sequence[float] | NDArray[Any] | None


def smooth(release: Release, *, season: Season = None, trend: bool = False) -> Series:
    """Return the mean and the standard error of the signal at every step, given the release, under a model.

    Post-processing: it reads the release alone, and costs no privacy. In a chain, write ``measurement >> smooth``,
    or ``measurement >> functools.partial(smooth, season=24)``. An error there, such as a wrong season, comes only
    once the release is made, and loses it: smoothing a release that is at hand loses nothing.

    The model is a structural one (Harvey 1989; Durbin & Koopman 2012): the signal is an unknown level, plus for
    each season a Fourier series that repeats exactly, plus an autoregressive departure from both that dies
    away exponentially. The kept values are the signal plus noise of variance ``release.scale**2``, which is
    known and not estimated; steps that were not kept are missing values. What is estimated, by the largest
    likelihood, are the size of each season, the size and the duration of departures, and the number of
    harmonics. The mean and variance are then those of statsmodels' Kalman smoother. Each series of a panel is fitted
    by itself.

    The result depends on nothing but the release and the parameters; it draws no random numbers. Choose the
    parameters from what is known in public, as that the day has 288 steps.

    Intervals are as good as the model, and take the estimated variances for true: where few steps are kept or the
    signal has sudden jumps they cover less than they say. Their coverage is pointwise, not simultaneous, and what
    they cover is the signal that was measured, after caps and filters, not the log's raw counts.

    :param release: a release of the subsampled Gaussian, of one series or of a panel.
    :param season: length of the repeating pattern in steps, such as 288 for a day of 5 minutes; several, such as
        ``(24, 168)`` for a day and a week of hours; or None.
    :param trend: let the level drift smoothly, as an integrated random walk, rather than stay.
    :return: a :class:`~opendp_timeseries.Series` of ``release.size`` values in the signal's unit, whose standard error
        covers noise and signal. Where the fit does not converge, or fewer than 8 steps were kept, linear
        interpolation with ``converged=False``.
    :raises ImportError: without statsmodels, naming the extra to install.
    :raises TypeError: if a season is not a number.
    :raises ValueError: if a season is shorter than two steps.

    >>> import numpy as np
    >>> from opendp_timeseries import Release, smooth
    >>> steps = np.arange(0, 120, 3)
    >>> values = 50 + 20 * np.sin(2 * np.pi * steps / 24)
    >>> release = Release(steps=steps, values=values, size=120, scale=2.0, sampling_probability=0.3)
    >>> smooth(release, season=24)
    Series(120 steps by structural model (level, departure, season 24 with 1 harmonic); standard error of the signal)
    """
    periods, drifts, smoother = _periods(season), bool(trend), _kalman_smoother()
    return reconstruct_parts(release, lambda part: _smooth(part, periods, drifts, smoother))


def _kalman_smoother() -> Any:
    try:
        return importlib.import_module("statsmodels.tsa.statespace.kalman_smoother")
    except ImportError:
        raise ImportError("the smoother needs statsmodels; install opendp_timeseries[smooth]") from None


def _periods(season: Season) -> tuple[float, ...]:
    if season is None:
        return ()
    given: list[Any] = [season] if np.ndim(season) == 0 else list(season)  # type: ignore[arg-type]
    remedy = "a season is a number of steps, such as season=24 for a day of hours"
    for period in given:
        if isinstance(period, np.timedelta64):  # which Python would convert to a number, in whatever unit it has
            raise TypeError(f"season ({period!r}) must be a real number, not a time; {remedy}")
    return tuple(sorted({check.real("season", period, minimum=2.0, remedy=remedy) for period in given}))


class _Fit(NamedTuple):
    """Parameters (logarithms, see :class:`_Model`) and their log likelihood, penalty included."""

    parameters: NDArray[np.float64]
    likelihood: float


@dataclass(frozen=True)
class _Model:
    """The state space, in units in which the kept values have mean 0 and variance 1.

    The states are: the level; its slope if it drifts; the departure; and, for each frequency, the two
    coefficients of its wave, which do not change. Parameters are logarithms of: the departure's variance and
    its duration in steps; for each season, the variance of the coefficients of its first harmonic; and
    the variance of the slope's change over the whole series, if it drifts.

    :param variance: of the noise.
    """

    size: int
    periods: tuple[float, ...]
    harmonics: int
    drifts: bool
    variance: float
    smoother: Any

    @property
    def waves(self) -> list[tuple[int, int, float]]:
        """Season, harmonic and frequency of each wave; none twice, and none beyond half a cycle per step."""
        found: dict[float, tuple[int, int, float]] = {}
        for season, period in enumerate(self.periods):
            for harmonic in range(1, min(self.harmonics, math.floor(period / 2)) + 1):
                frequency = harmonic / period
                found.setdefault(round(frequency, 12), (season, harmonic, frequency))
        return list(found.values())

    def start(self) -> NDArray[np.float64]:
        seasons = [math.log(0.3)] * len(self.periods)
        slope = [math.log(0.1)] if self.drifts else []
        return np.array([math.log(0.3), math.log(self.size / 50 + 1), *seasons, *slope])

    def at(self, steps: NDArray[np.int64], values: NDArray[np.float64], parameters: NDArray[np.float64]) -> Any:
        """Return statsmodels' representation at ``steps``, ascending; NaN among ``values`` means missing."""
        departure, duration, *rest = np.exp(np.clip(parameters, -25.0, 25.0))
        duration = min(max(duration, 0.3), 100.0 * self.size)
        moving = 3 if self.drifts else 2
        waves = self.waves
        k, n = moving + 2 * len(waves), len(steps)
        gaps = np.diff(steps, append=steps[-1] + 1).astype(np.float64)
        decay = np.exp(-gaps / duration)

        design = np.ones((1, k, n))
        transition = np.repeat(np.eye(k)[:, :, None], n, axis=2)
        noise = np.zeros((moving, moving, n))
        prior = np.zeros(k)
        prior[0], prior[1] = 10.0, departure
        transition[1, 1], noise[1, 1] = decay, departure * (1.0 - decay**2)
        if self.drifts:
            # An integrated random walk over a gap g, from its continuous form, in time t/T.
            g, change = gaps / self.size, rest[-1]
            design[0, 2] = 0.0
            transition[0, 2] = g
            noise[0, 0], noise[2, 2] = change * g**3 / 3, change * g
            noise[0, 2] = noise[2, 0] = change * g**2 / 2
            prior[2] = 10.0
        for i, (season, harmonic, frequency) in enumerate(waves):
            angle = 2 * np.pi * np.mod(steps * frequency, 1.0)
            design[0, moving + 2 * i], design[0, moving + 2 * i + 1] = np.cos(angle), np.sin(angle)
            # Smooth patterns have small high harmonics; without this shrinkage a short release fits its noise.
            prior[moving + 2 * i : moving + 2 * i + 2] = rest[season] / harmonic**2

        space = self.smoother.KalmanSmoother(k_endog=1, k_states=k, k_posdef=moving)
        space.bind(values[:, None].copy())
        space["design"], space["obs_cov"] = design, np.array([[self.variance]])
        space["transition"], space["selection"], space["state_cov"] = transition, np.eye(k, moving), noise
        space.initialize_known(np.zeros(k), np.diag(prior))
        return space

    def fit(self, steps: NDArray[np.int64], values: NDArray[np.float64], start: NDArray[np.float64]) -> _Fit | None:
        """Return the parameters of largest penalised likelihood near ``start``; None if the search fails."""

        def loss(parameters: NDArray[np.float64]) -> float:
            try:
                likelihood = float(self.at(steps, values, parameters).loglike())
            except np.linalg.LinAlgError:
                return math.inf
            # The log variance: keeps the departure's variance off zero, where bands would be too narrow
            # (Chung et al. 2013, Psychometrika 78).
            return -(likelihood + float(np.clip(parameters[0], -25.0, 25.0)))

        found = minimize(
            loss, start, method="Nelder-Mead", options={"xatol": 0.05, "fatol": 0.01, "maxfev": MAX_EVALUATIONS}
        )
        return _Fit(found.x, -float(found.fun)) if found.success and math.isfinite(found.fun) else None

    def moments(
        self, release: Release, values: NDArray[np.float64], parameters: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the signal at every step."""
        every = np.full(self.size, np.nan)
        every[release.steps] = values
        space = self.at(np.arange(self.size), every, parameters)
        result = space.smooth(self.smoother.SMOOTHER_STATE | self.smoother.SMOOTHER_STATE_COV)
        design = space["design"][0]
        mean = np.einsum("it,it->t", design, result.smoothed_state)
        variance = np.einsum("it,ijt,jt->t", design, result.smoothed_state_cov, design)
        return mean, variance


def _smooth(release: Release, periods: tuple[float, ...], drifts: bool, smoother: Any) -> Series:
    if len(release) < MIN_KEPT:
        return _fallback(release, f"fewer than {MIN_KEPT} steps were kept")
    with np.errstate(all="ignore"):  # absurd values overflow; the next line finds them
        centre, unit = float(np.mean(release.values)), float(np.std(release.values))
    if not 1e-100 < unit < 1e100:
        return _fallback(release, "the kept values do not vary, or beyond all measure")
    values = (release.values - centre) / unit
    # A release without noise still needs a variance that arithmetic can see.
    variance = max((release.scale / unit) ** 2, 1e-8)

    def model(harmonics: int) -> _Model:
        return _Model(release.size, periods, harmonics, drifts, variance, smoother)

    best: tuple[_Model, _Fit] | None = None
    worse = 0
    for harmonics in _HARMONICS if periods else (0,):
        candidate = model(harmonics)
        fit = candidate.fit(release.steps, values, candidate.start() if best is None else best[1].parameters)
        if fit is not None and (best is None or fit.likelihood > best[1].likelihood):
            best, worse = (candidate, fit), 0
        elif (worse := worse + 1) == _PATIENCE:
            break
    if best is None:
        return _fallback(release, "the fit did not converge")
    chosen, fit = best
    mean, error = chosen.moments(release, values, fit.parameters)
    if not (np.all(np.isfinite(mean)) and np.all(error >= 0)):
        return _fallback(release, "the smoother lost its precision")
    return Series(
        release=release,
        values=centre + unit * mean,
        standard_error=unit * np.sqrt(error),
        error_covers="signal",
        model=_describe(chosen),
    )


def _describe(model: _Model) -> str:
    seasons = ", ".join(f"{period:g}" for period in model.periods)
    harmonics = "1 harmonic" if model.harmonics == 1 else f"{model.harmonics} harmonics"
    pattern = f", season {seasons} with {harmonics}" if seasons else ""
    return f"structural model (level{', trend' if model.drifts else ''}, departure{pattern})"


def _fallback(release: Release, reason: str) -> Series:
    line = interpolate(release)
    return replace(line, model=f"{line.model} ({reason})", converged=False)
