"""The columns in which level, seasons and trend are linear, and how large each is before anything is seen."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.smoothing.matrices import Array
from opendp_timeseries.smoothing.seasons import Season

#: Steps whose columns are worked out at once.
_BLOCK: Final = 4096
#: Most harmonics of a season, in a long series and in a short one: a week of hours has a sharp peak every morning.
_HARMONICS: Final = (24, 84)
#: Of these, the lowest may drift: those of a smooth pattern above them are too small for it to be seen.
_DRIFTING: Final = 4
#: A pattern drifts over no fewer cycles than this, and by so many half-waves at most.
_CYCLES: Final = 8
_HALF_WAVES: Final = 12
#: Half-waves of a trend.
_BENDS: Final = 12
#: Most phases of the shortest season at which patterns of longer ones have sizes of their own; the least square of
#: these.
_PHASES: Final = 48
_FLOOR: Final = 0.5


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns in which level, patterns and trend are linear, and the prior variance of each.

    A column is a wave of a season, cosine or sine, times a slow cosine over the whole series if its pattern drifts
    there. A pattern that is smooth has small high harmonics: the variance of harmonic h is proportional to ``(1 +
    (h/h₀)²)⁻²``. By phase, that of a longer season, such as the week beside the day, is one over the days of the week,
    at any hour, and one over the hours, which is as smooth as the day's own: its harmonic is k days and h weeks, and
    its variance the product of both. A drift that is a random walk has variance ``∝ j⁻²`` in its j-th half-wave, and a
    trend that is a straight line and an integrated random walk ``j⁻⁴`` (Karhunen–Loève). Level and line have variance
    1. The level drifts likewise, if it is to.
    """

    size: int  # steps of the series
    seasons: tuple[Season, ...]
    trend: bool
    limit: int  # most columns, if leaving out high harmonics and those of drifts can do it
    selection: NDArray[np.int64] | None = None  # which of them are not too small to matter; None for all
    by_phase: bool = False  # whether patterns of longer seasons depend on the phase of the shortest
    envelope: Array | None = None  # size of longer seasons' patterns by season and phase of the shortest; None for ones
    drift: bool = False  # whether the level drifts where it has no trend

    @cached_property
    def _columns(self) -> NDArray[np.void]:
        """One row for each column: season (-1 is the level, -2 how it moves), harmonic, frequency, sine, half-waves."""
        lengths = tuple(season.length for season in self.seasons)
        plain = sum(season.size is None for season in self.seasons)
        return _columns(self.size, lengths, plain, self.trend, self._drifts, self.limit)

    @property
    def _drifts(self) -> bool:
        return self.drift and not self.trend

    def at(self, steps: NDArray[np.int64]) -> Array:
        """Return the columns at these steps, one row for each."""
        columns = self._columns[self.which]
        highest, half_waves = int(columns["harmonic"].max()), int(columns["half_waves"].max())
        values = np.ones((len(columns), len(steps)))  # column by column
        for first in range(0, len(steps), _BLOCK):
            some = steps[first : first + _BLOCK]
            # Powers of one wave are its harmonics: faster than as many cosines.
            slow = _powers(np.exp(1j * np.pi * (some + 0.5) / self.size), half_waves)
            waves = [_powers(np.exp(2j * np.pi * season.at(some)), highest) for season in self.seasons]
            rows, sizes = values[:, first : first + _BLOCK], self._sizes(some)
            for row, (its, harmonic, _, sine, bends) in zip(rows, columns.tolist(), strict=True):
                if its >= 0:
                    row[:] = waves[its][harmonic - 1].imag if sine else waves[its][harmonic - 1].real
                    row *= sizes[its]
                elif its == -2 and bends == 0:
                    row[:] = (2 * some + 1) / self.size - 1
                if bends:
                    row *= slow[bends - 1].real
        return values.T

    def _sizes(self, steps: NDArray[np.int64]) -> Array:
        """Return the size of each season's patterns at these steps."""
        sizes = np.ones((len(self.seasons), len(steps)))
        if self.envelope is not None:
            phases = self.envelope.shape[1]
            where = self.seasons[0].at(steps) * phases
            sizes[:] = [np.interp(where, np.arange(phases), row, period=phases) for row in self.envelope]
        for row, season in zip(sizes, self.seasons, strict=True):
            row *= 1.0 if season.size is None else season.size[steps]
        return sizes

    def with_sizes(self, power: Array) -> "Basis":
        """Return a basis of all columns where patterns of longer seasons are as large as this mean square says.

        :param power: by season and step.
        """
        season = self.seasons[0]
        phases = min(round(season.length), _PHASES)
        at = np.round(season.at(np.arange(self.size)) * phases).astype(np.int64) % phases
        number = np.maximum(np.bincount(at, minlength=phases), 1)
        by_phase = np.array([np.bincount(at, row, phases) / number for row in power])
        share = by_phase / np.maximum(by_phase.mean(axis=1, keepdims=True), 1e-300)
        share[0] = 1.0
        return replace(self, selection=None, envelope=np.sqrt((1 - _FLOOR) * share + _FLOOR))

    @cached_property
    def which(self) -> NDArray[np.int64]:
        """Return the numbers of the columns in use."""
        return np.arange(len(self._columns)) if self.selection is None else self.selection

    @property
    def season_of(self) -> NDArray[np.int64]:
        """The season of each column; of others it is below zero."""
        seasons: NDArray[np.int64] = self._columns["season"][self.which]
        return seasons

    def start(self) -> Array:
        """Logarithms of the parameters before the fit: the modes of their priors."""
        season = [0.2, 3.0, 3e-3]  # variance of the pattern, harmonic h₀ from which it decays, share of its drift
        return np.log(season * len(self.seasons) + [0.1] * (self.trend or self.drift))  # variance of trend or drift

    @cached_property
    def _logarithms(self) -> "_Logarithms":
        season, bends = self._columns["season"], self._columns["half_waves"]
        waves = np.flatnonzero(season >= 0)
        its, moving, trend = season[waves], (season >= 0) & (bends > 0), (season == -2) & (bends > 0)
        added = np.zeros((len(season), len(self.start())))
        added[waves, 3 * its] = added[moving, 3 * season[moving] + 2] = 1.0
        added[trend, -1:] = 1.0
        steep = np.where(trend & self.trend, 4.0, 2.0) * np.log(np.maximum(bends, 1))
        length = np.array([period.length for period in self.seasons] or [1.0])[its]
        cycles = length / length.min(initial=math.inf)
        inner = np.where(self.by_phase & (cycles >= 2), np.round(self._columns["harmonic"][waves] / cycles), 0.0)
        outer = self._columns["harmonic"][waves] - inner * cycles
        return _Logarithms(waves, its, outer**2, inner**2, (bends[waves] == 0) * 1.0, added, steep)

    def variances(self, parameters: Array) -> tuple[Array, Array]:
        """Return the logarithm of each column's variance, and its derivatives by the parameters."""
        waves, its, outer, inner, exact, added, steep = self._logarithms
        decay = np.exp(-2 * parameters[1::3])
        ratio, within = outer * decay[its], inner * (decay[0] if len(waves) else 1.0)
        share = exact / ((1 + ratio) * (1 + within)) ** 2
        total = np.bincount(its, share)
        slope, log_variance = added.copy(), added @ parameters - steep
        for by, steeper in ((3 * its + 1, 4 * ratio / (1 + ratio)), (np.ones_like(its), 4 * within / (1 + within))):
            slope[waves, by] += steeper - (np.bincount(its, share * steeper) / total)[its]
        log_variance[waves] -= 2 * (np.log1p(ratio) + np.log1p(within)) + np.log(total)[its]
        return log_variance[self.which], slope[self.which]


class _Logarithms(NamedTuple):
    """Terms of the logarithms of variances: of waves, and of all columns what is added, and less what."""

    waves: NDArray[np.int64]
    its: NDArray[np.int64]  # season
    outer: Array  # squares of the harmonic beside the nearest one of the shortest season, if that is shorter
    inner: Array  # squares of that one
    exact: Array  # 1 where it does not drift
    added: Array
    steep: Array


def _powers(wave: NDArray[np.complex128], number: int) -> list[NDArray[np.complex128]]:
    return list(accumulate(repeat(wave, number), np.multiply))


@lru_cache(maxsize=8)
def _columns(
    size: int, lengths: tuple[float, ...], plain: int, trend: bool, drift: bool, limit: int
) -> NDArray[np.void]:
    """Return the columns; those of seasons after the plain ones have sizes of their own, and do not drift."""
    waves: list[tuple[int, int, float, bool, int]] = []
    frequencies: set[float] = set()
    fewest, largest = _HARMONICS
    highest = min(max(limit // max(2 * plain, 1), fewest), largest)
    for season, length in enumerate(lengths):
        for harmonic in range(1, min(highest, math.floor(length / 2)) + 1):
            frequency = harmonic / length
            if season >= plain or round(frequency, 12) not in frequencies:
                frequencies.add(round(frequency, 12))
                both = (False, True) if frequency < 0.5 else (False,)  # cosine and sine
                waves += [(season, harmonic, frequency, sine, 0) for sine in both]
    entries = [(-1, 0, 0.0, False, 0), *waves]
    if trend:
        entries += [(-2, 0, 0.0, False, bend) for bend in range(_BENDS + 1)]  # the first is a straight line
    if drift:
        entries += [(-2, 0, 0.0, False, bend) for bend in range(1, _BENDS + 1)]
    drifting = [wave for wave in waves if wave[0] < plain and wave[1] <= _DRIFTING]
    for half_waves in range(1, _HALF_WAVES + 1):
        drifts = [(*wave[:4], half_waves) for wave in drifting if half_waves * _CYCLES * lengths[wave[0]] <= size]
        if len(entries) + len(drifts) > limit:
            break
        entries += drifts
    names = [("season", int), ("harmonic", int), ("frequency", float), ("sine", bool), ("half_waves", int)]
    columns = np.array(entries, dtype=names)
    columns.flags.writeable = False
    return columns
