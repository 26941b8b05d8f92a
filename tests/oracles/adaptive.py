"""What somebody gains who chooses the next release by what the last one showed, by enumeration. No package code.

Releases are of one step of one individual, kept with probability ``p`` and then at the squared distance ``u`` in units
of the noise. Which steps are kept is public and does not depend on the data. So whoever chooses by it knows the
distance so far, and the loss of a whole strategy is that of a Gaussian mechanism at a random distance.
"""

from __future__ import annotations

import math


def profile(epsilon, u):
    """δ_G(ε; √u) in double precision, which is enough from about 1e-12 on."""
    if u == 0:
        return 0.0
    m = math.sqrt(u)

    def tail(x):
        return math.erfc(x / math.sqrt(2)) / 2

    return tail(epsilon / m - m / 2) - math.exp(epsilon) * tail(epsilon / m + m / 2)


def renyi(order, p, u):
    """Rényi divergence of a release."""
    return math.log1p(p * math.expm1(order * (order - 1) * u / 2)) / (order - 1)


def worst_delta(menu, allowed, epsilon, rounds, chosen=(), distance=0.0):
    """The largest δ at ``epsilon`` of a strategy that takes releases from a menu of ``(p, u)``.

    :param allowed: whether releases may be made together.
    :param epsilon: a number, or a function of what was chosen: then δ is the mean of ``(1 − e^ε Q/P)₊`` under ``P``,
        with the ``ε`` that is stated when the strategy ends.
    """
    best = profile(epsilon(chosen) if callable(epsilon) else epsilon, distance)
    if rounds == 0:
        return best
    for p, u in menu:
        more = (*chosen, (p, u))
        if allowed(more):
            outcomes = ((p, distance + u), (1 - p, distance))
            best = max(
                best, sum(q * worst_delta(menu, allowed, epsilon, rounds - 1, more, d) for q, d in outcomes if q > 0)
            )
    return best
