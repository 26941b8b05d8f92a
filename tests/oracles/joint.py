"""The joint loss of several releases, by enumeration and by quadrature. No package code."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from scipy.stats import norm

from tests.oracles import accounting


def joint_law(releases):
    """Law of ``Σ S_i/σ_i²``: releases are ``(law of S_i, σ_i)``, laws as of :mod:`.accounting`, sums one by one."""
    total = {mp.mpf(0): mp.mpf(1)}
    for law, scale in releases:
        longer = {}
        for value, weight in total.items():
            for square, kept in law:
                place = value + mp.mpf(square) / mp.mpf(scale) ** 2
                longer[place] = longer.get(place, 0) + weight * kept
        total = longer
    return list(total.items())


def kept_sets_law(releases):
    """The same of ``(squares, p, σ)``, over every kept set of every release."""
    return joint_law([(accounting.kept_law(squares, p), scale) for squares, p, scale in releases])


def profile_of_counts(releases, epsilon, digits=40):
    """Joint profile of ``(I, M, p, σ)``, a count's caps each: over every number of kept steps above ``10**-digits``."""
    laws = [
        ([(step_cap**2 * k, w) for k, w in accounting.binomial_law(cap, p) if w > mp.mpf(10) ** -digits], scale)
        for cap, step_cap, p, scale in releases
    ]
    return accounting.profile(joint_law(laws), epsilon, 1)


def adaptive_profile(first, squares_to_choose, p, epsilon, points=4001):
    """δ(ε) of two releases whose second query depends on the noise of the first.

    The first is a Gaussian mechanism at squared distance ``first``; after it, somebody who knows its privacy loss
    chooses one of several lists of squares, of which each is kept with probability ``p``. Variances are 1.
    """
    z = np.linspace(-9, 9, points)
    left = epsilon - (first / 2 + math.sqrt(first) * z)  # less the privacy loss, under the law of the first signal

    def profile(squares):
        total = np.zeros(points)
        for square, weight in accounting.kept_law(squares, p):
            ratio = math.sqrt(square)
            if ratio == 0:
                total += float(weight) * np.maximum(0, -np.expm1(left))
            else:
                likelier = norm.cdf(ratio / 2 - left / ratio), norm.cdf(-ratio / 2 - left / ratio)
                total += float(weight) * (likelier[0] - np.exp(left) * likelier[1])
        return total

    return float(np.trapezoid(np.max([profile(squares) for squares in squares_to_choose], axis=0) * norm.pdf(z), z))
