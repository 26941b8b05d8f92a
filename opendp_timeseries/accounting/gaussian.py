"""The privacy profile of the Gaussian mechanism, as a function of the squared distance ``u`` over the noise variance.

``g(u) = Φ(√u/2 − ε/√u) − e^ε Φ(−√u/2 − ε/√u)`` (Balle & Wang 2018, arXiv:1805.06530, Thm 8) is increasing, convex up
to :func:`inflection` and concave beyond. Upper bounds hold for the numbers that are computed, rounding included.
"""

import math
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from opendp_timeseries.accounting.rounding import LOWEST_BOUND

__all__ = ["MAX_EPSILON_OF_SLOPE", "gaussian_delta", "gaussian_delta_slope", "inflection"]

#: Up to here the margin of :func:`gaussian_delta_slope` covers its rounding.
MAX_EPSILON_OF_SLOPE: Final = 1e5

_SQRT2: Final = math.sqrt(2.0)
# Below this ratio the two terms of the profile agree in many digits: their difference is taken from a series in μ.
_SMALL_RATIO: Final = 2.0**-6


def gaussian_delta(epsilon: float, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an upper bound on the privacy profile of the Gaussian mechanism, at most 1, and 0 only at ``u = 0``.

    It is at most ``3e-11`` (relative) above the truth for ``ε`` up to 1e4, ``8e-11`` up to 1e5 and less close beyond,
    and at least ``1e-300``.

    :param epsilon: privacy parameter, not negative; may be infinite.
    :param u: squared distance over noise variance, not negative; may be infinite.
    """
    u = np.asarray(u, dtype=np.float64)
    # Infinities and divisions by zero are ordinary here; fmin below reads what is undefined as 1.
    with np.errstate(all="ignore"):
        ratio = np.sqrt(u)
        shift = epsilon / ratio
        a = ratio / 2 - shift
        B = ratio / 2 + shift
        # δ_G = Φ(a) − e^ε Φ(−B). Both carry the factor ½exp(−a²/2), because B² − a² = 2ε, so e^ε is never formed. What
        # is added covers the rounding, of a and B first.
        e = np.exp(-a * a / 2) / 2
        T2 = e * scipy.special.erfcx(B / _SQRT2)
        delta = e * scipy.special.erfcx(-a / _SQRT2) - T2
        delta += 2.0**-48 * ((delta + T2) * (1 + B / (1 + np.abs(a))) + delta * np.abs(a) * B)
        if np.any(above := a > 0):
            tail = scipy.special.ndtr(a) - T2
            tail += 2.0**-48 * (tail + 2 * T2 * (1 + np.abs(a) * B) + e * B)
            delta = np.where(above, tail, delta)
        if np.any(small := ratio < _SMALL_RATIO):
            delta = np.where(small, _at_small_ratio(ratio, shift, e), delta)
    # δ_G ≤ Φ(a), and Φ(−38) < 1e-315.
    delta = np.maximum(np.fmin(np.where(a < -38, 0.0, delta), 1.0), LOWEST_BOUND)
    return np.where(u > 0, delta, 0.0)


def _at_small_ratio(
    ratio: NDArray[np.float64], shift: NDArray[np.float64], e: NDArray[np.float64]
) -> NDArray[np.float64]:
    # δ_G = e·(f(y − h) − f(y + h)) with f = erfcx, y = ε/√(2u) and h = √u/(2√2): the odd terms of Taylor's series, by
    # f′ = 2yf − 2/√π and f⁽ⁿ⁺¹⁾ = 2n·f⁽ⁿ⁻¹⁾ + 2y·f⁽ⁿ⁾. For h < 2⁻⁷ the fourth term is below 1e-14 of the first. The
    # last factor covers what cancels in f′, about y² units, and the rounding in e.
    y = shift / _SQRT2
    h = ratio / (2 * _SQRT2)
    f = scipy.special.erfcx(y)
    f1 = 2 * y * f - 2 / math.sqrt(math.pi)
    f2 = 2 * f + 2 * y * f1
    f3 = 4 * f1 + 2 * y * f2
    f4 = 6 * f2 + 2 * y * f3
    f5 = 8 * f3 + 2 * y * f4
    return -2 * e * h * (f1 + h * h / 6 * (f3 + h * h / 20 * f5)) * (1 + 2.0**-48 * (4 + shift * shift))


def gaussian_delta_slope(epsilon: float, u: float) -> float:
    """Return an upper bound on the derivative of the profile in ``u > 0``: ``exp(−(ε−u/2)²/(2u)) / (2√(2πu))``.

    :param epsilon: privacy parameter, from 0 to :data:`MAX_EPSILON_OF_SLOPE`.
    """
    ratio = math.sqrt(u)
    a = epsilon / ratio - ratio / 2
    slope = math.exp(-min(a * a, 1400.0) / 2) / (2 * math.sqrt(2 * math.pi) * ratio)
    return slope * (1 + 1e-11)


def inflection(epsilon: float) -> float:
    """Return where the profile turns from convex to concave: ``u* = 2ε²/(√(1+ε²)+1)``."""
    return 2 * epsilon * (epsilon / (math.hypot(1.0, epsilon) + 1))
