"""What a release tells a model: kept values, their noise, and the filter that the rate went through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.smoothing.matrices import Array

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
    among: int = 1  # series that are looked at together
    first: int = 0  # where in the series the stretch begins
    ahead: int = 0  # how many of the last steps are after all that was seen

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

    def mean(self, rows: Array) -> float:
        """Return the mean of numbers at kept steps, each by what noise and counts leave of its value."""
        if np.ptp(self.variance) == 0:
            return float(rows.mean())
        usual = max(float(np.average(self.values, weights=1 / self.variance)), 0.0)
        return float(np.average(rows, weights=1 / (self.variance + self.dispersion * usual)))

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
