"""A full series made from a release alone, with a standard error at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from opendp_timeseries import _validate as check
from opendp_timeseries.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Series"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Series:
    """One value per step, made from a release alone: post-processing, which costs no further privacy.

    :param release: what it was made from.
    :param values: float64 array of ``release.size`` values, in the signal's unit.
    :param standard_error: float64 array of the same length and unit.
    :param error_covers: what the standard error covers. ``"noise"``: only what the privacy noise at the kept
        steps does to the values; how the signal itself moves between kept steps is *not* in it.
        ``"signal"``: all that the model does not know of the signal, which includes its moves.
    :param model: how it was made, in words.
    :param converged: False if a fit did not converge, and ``model`` says what was used instead.
    :raises ValueError: if the arrays do not have the release's size.
    """

    release: Release
    values: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    error_covers: Literal["noise", "signal"]
    model: str
    converged: bool = True

    def __post_init__(self) -> None:
        for name in ("values", "standard_error"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != (self.release.size,):
                raise ValueError(f"{name} (shape {array.shape}) must have the release's size ({self.release.size})")
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which steps were kept; the others are reconstructed."""
        mask = np.zeros(self.release.size, dtype=np.bool_)
        mask[self.release.steps] = True
        return mask

    def interval(self, confidence: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper ends, at each step, of a normal interval.

        :param confidence: share of the steps that it is to cover, in (0, 1). Each step has its own interval;
            together they are no band for the whole course of the signal. See ``error_covers`` for what they
            leave out.
        """
        confidence = check.real("confidence", confidence, above=0.0, below=1.0)
        half = float(ndtri((1 + confidence) / 2)) * self.standard_error
        return self.values - half, self.values + half

    def plot(self, **options: Any) -> Axes:
        """Draw the series, its bands and the noisy values; see :func:`.plot.plot_release` for the options."""
        from opendp_timeseries.reconstruction.plot import plot_release

        return plot_release(self.release, self, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values, so that NumPy functions take a series as they take an array."""
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.values)

    def __repr__(self) -> str:
        return f"Series({len(self)} steps by {self.model}; standard error of the {self.error_covers})"
