"""The model of the signal that a plan assumes: its covariance at each lag of the cycle, from public facts alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal

#: Where no level is given, it is unknown: this many times the signal's deviation.
_UNKNOWN_LEVEL: Final = 10.0
#: A pattern's harmonics h have variances that fall as (1 + (h / 2)²)⁻²: those of a smooth pattern.
_ROUGHNESS: Final = 2.0
_MAX_HARMONICS: Final = 24
#: A frequency of a public series is a line, part of a pattern, if its power exceeds that of its neighbours by this
#: factor. Noise does so once in about a million frequencies.
_LINE: Final = 14.0
#: This many of the lowest frequencies are not averaged; bands above have at least this many frequencies.
_RAW: Final = 4


@dataclass(frozen=True, eq=False)
class SignalModel:
    """Second moments of a signal of ``T`` steps on a cycle."""

    covariance: NDArray[np.float64]  # around the level, at the lags 0 … T−1
    lines: NDArray[np.float64]  # the part of the spectrum that belongs to patterns, which repeat exactly
    level: float  # mean square of the level
    mean: float | None = None  # the level; None if unknown
    words: str = ""  # its description
    periods: tuple[float, ...] = ()  # of its patterns, in steps
    described: Mapping[str, object] = field(default_factory=dict)  # by what it was described, for a preview
    usual: float = 1.0  # what one individual has in a usual step: one event, or a typical value

    @property
    def size(self) -> int:
        """Number of steps, ``T``."""
        return len(self.covariance)

    @property
    def deviation(self) -> float:
        """Standard deviation around the level: the error of a flat line at the true level."""
        return math.sqrt(self.covariance[0])

    @property
    def poisson(self) -> float:
        """Poisson's variance around the rate."""
        return max(self.mean or 0.0, 0.0) * self.usual

    def spectrum(self) -> NDArray[np.float64]:
        """Return the variance of each coefficient in an orthonormal Fourier basis, at the frequencies 0 … ⌊T/2⌋."""
        return np.maximum(np.fft.rfft(self.covariance).real, 0.0)

    def departures(self) -> NDArray[np.float64]:
        """Return the spectrum of the departures: without patterns, and without Poisson's variance around the rate."""
        return np.maximum(self.spectrum() - self.lines - self.poisson, 0.0)

    def rate(self) -> NDArray[np.float64]:
        """Return the spectrum without Poisson's variance around the rate."""
        return np.maximum(self.spectrum() - self.poisson, 0.0)

    def spectrum_with_level(self) -> NDArray[np.float64]:
        """Return the spectrum with the energy of the level, all of which is at frequency 0."""
        power = self.spectrum()
        power[0] += self.level * self.size
        return power

    def scaled(self, factor: float) -> SignalModel:
        """Return the signal times a factor."""
        square = factor**2
        return replace(
            self,
            covariance=self.covariance * square,
            lines=self.lines * square,
            level=self.level * square,
            mean=None if self.mean is None else self.mean * factor,
        )


def copies(size: int) -> NDArray[np.float64]:
    """Return the number of real coefficients at each frequency 0 … ⌊T/2⌋."""
    counts = np.full(size // 2 + 1, 2.0)
    counts[0] = 1.0
    if size % 2 == 0:
        counts[-1] = 1.0
    return counts


class SignalDescription(TypedDict, total=False):
    """Description of a signal by the parameters of :func:`~opendp_timeseries.plan`."""

    level: float | None
    season_amplitudes: Mapping[float, float] | None
    deviation: float | None
    time_scale: float | None
    proxy: ArrayLike | None


def described_signal(
    size: int,
    *,
    level: float | None = None,
    season_amplitudes: Mapping[float, float] | None = None,
    deviation: float | None = None,
    time_scale: float | None = None,
    proxy: ArrayLike | None = None,
    usual: float = 1.0,
) -> SignalModel:
    """Return the model of a signal from its description by the parameters of :func:`~opendp_timeseries.plan`.

    :param usual: what one individual has in a usual step: 1 for people.
    """
    if proxy is not None:
        if any(given is not None for given in (level, season_amplitudes, deviation, time_scale)):
            raise Refusal(
                "proxy", ..., "must be given alone, without `level`, `season_amplitudes`, `deviation` and `time_scale`"
            )
        return replace(_signal_of_proxy(proxy, size), usual=usual)
    if (deviation is None) != (time_scale is None):
        alone, missing = ("time_scale", "deviation") if deviation is None else ("deviation", "time_scale")
        raise Refusal(alone, ..., f"needs `{missing}`, too", f"give `{missing}`, or leave out `{alone}`")
    if season_amplitudes is None and deviation is None:
        raise Refusal(
            "the signal",
            ...,
            "must be described by how it varies",
            ("give `season_amplitudes={24: 60.0}`", "`deviation` and `time_scale`", "all three", "a public `proxy`"),
        )
    amplitudes = _amplitudes(season_amplitudes, size)
    pattern, departures = np.zeros(size), np.zeros(size)
    for period, amplitude in amplitudes.items():
        pattern += _pattern_covariance(size, period, amplitude)
    words = [f"season {period:g} ± {high:g}" for period, high in amplitudes.items()]
    if deviation is not None:
        length = check.real(
            "time_scale", time_scale, above=0.0, maximum=size, remedy="in steps, at most the grid's size"
        )
        sd = check.real("deviation", deviation, above=0.0)
        departures += _departure_covariance(size, length, sd)
        words.append(f"departures of {sd:g} within {length:g} steps")
    if level is None:
        square = _UNKNOWN_LEVEL**2 * (pattern[0] + departures[0])
    else:
        level = check.real("level", level, above=0.0)
        square = level**2
        departures[0] += level * usual  # independent individuals: each count varies like Poisson's around its rate
        words.insert(0, f"level {level:g}")
    lines = np.fft.rfft(pattern).real
    described = {"level": level, "season_amplitudes": amplitudes, "deviation": deviation, "time_scale": time_scale}
    model = SignalModel(pattern + departures, lines, square, level, ", ".join(words), tuple(amplitudes))
    return replace(model, described=described, usual=usual)


def _amplitudes(given: Mapping[float, float] | None, size: int) -> dict[float, float]:
    if given is None:
        return {}
    name, remedy = (
        "season_amplitudes",
        "such as `season_amplitudes={24: 60.0}` for a day of hours that rises and falls by 60",
    )
    if not isinstance(given, Mapping):
        raise TypeRefusal(name, given, f"must map periods in steps to amplitudes, {remedy}")
    return {
        check.real(name, period, minimum=2.0, maximum=size, remedy=f"a period, at most the grid's size; {remedy}"):
        check.real(name, amplitude, above=0.0, remedy=f"an amplitude, in counts; {remedy}")
        for period, amplitude in given.items()
    }  # fmt: skip


def _pattern_covariance(size: int, period: float, amplitude: float) -> NDArray[np.float64]:
    """Return the covariance of a smooth pattern, with each harmonic at the nearest frequency of the cycle."""
    harmonics = np.arange(1, min(_MAX_HARMONICS, math.floor(period / 2)) + 1)
    share = (1 + (harmonics / _ROUGHNESS) ** 2) ** -2.0
    share *= amplitude**2 / 2 / share.sum()  # the variance of a sine
    turns = np.rint(harmonics * size / period)
    lags = np.arange(size)
    return np.asarray(sum(v * np.cos(2 * np.pi * (k * lags % size) / size) for v, k in zip(share, turns, strict=True)))


def _departure_covariance(size: int, length: float, deviation: float) -> NDArray[np.float64]:
    """Return the covariance of an Ornstein–Uhlenbeck process on a line, wrapped around the cycle."""
    turns = np.arange(-math.ceil(20 * length / size), math.ceil(20 * length / size) + 1)
    shape = np.sum(np.exp(-np.abs(np.arange(size)[:, None] + turns * size) / length), axis=1)
    return np.asarray(deviation**2 * shape / shape[0])


def _signal_of_proxy(proxy: ArrayLike, size: int) -> SignalModel:
    values = check.reals("proxy", proxy)
    if values.shape != (size,) or not np.all(np.isfinite(values)):
        raise Refusal(
            "proxy", Quoted(f"shape {values.shape}"), f"must be a row of {size} finite numbers, one for each step"
        )
    level = float(np.mean(values))
    power = np.abs(np.fft.rfft(values - level)) ** 2 / size
    smooth, lines = _smoothed_power(power)
    # Restore the total power, so that the deviation is that of the series.
    correction = np.sum(power * copies(size)) / max(np.sum((smooth + lines) * copies(size)), np.finfo(float).tiny)
    covariance = np.fft.irfft((smooth + lines) * correction, n=size)
    model = SignalModel(covariance, lines * correction, level**2, level, "as a public series")
    return replace(model, described={"proxy": values})


def _smoothed_power(power: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Separate a periodogram's lines from its continuous part, averaged over bands of an eighth of an octave.

    Most peaks of a periodogram are due to chance. A plan that took them for properties of the signal would expect too
    small an error.
    """
    smooth, lines = power.copy(), np.zeros(len(power))
    edges = [_RAW]
    while edges[-1] < len(power):
        edges.append(max(edges[-1] + _RAW, math.ceil(edges[-1] * 2 ** (1 / 8))))
    for first, last in itertools.pairwise(edges):
        band = power[first:last]
        usual = float(np.median(band)) / math.log(2)  # the mean of exponentially distributed power
        is_line = band > _LINE * usual
        lines[first:last] = np.where(is_line, band - usual, 0.0)
        smooth[first:last] = np.mean(np.where(is_line, usual, band))
    return smooth, lines
