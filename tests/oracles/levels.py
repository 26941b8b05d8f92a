"""Levels from the means of scales: one prior at a time, from covariances of all rows and contrasts, as in kriging."""

import itertools
import math

import numpy as np
from scipy.linalg import null_space
from scipy.special import logsumexp

FALLS, LENGTHS = (-1, 0, 1), (0.5, 1)
ALWAYS, RARE = (0, 2, 8, 32, 128), -3
APART, LEAST, ROUNDS, BEFOREHAND = (0.1, 0.2, 0.4, 0.8, 1.6), 0.3, 30, 4


def covariances(ends):
    """Of the counts by how often, each with a total of variance 1."""
    found = []
    for fall, length in itertools.product(FALLS, LENGTHS):
        matrix = np.empty((len(ends), len(ends)))
        for i, here in enumerate(ends):
            for j, there in enumerate(ends):
                x = math.sqrt(3) * abs(math.log(here / there)) / length
                widths = [math.log(ends[k] / ends[k - 1]) if k else 1.0 for k in (i, j)]
                matrix[i, j] = math.prod(widths) * (here * there / ends[0] ** 2) ** -fall * (1 + x) * math.exp(-x)
        found.append(matrix / matrix.sum())
    return found


def estimate(values, covariance, weights, noise, shape):
    """Mean and variance of the total, log evidence, and counts by row beside a head of any size, of one prior."""
    own, cross = weights.T @ covariance @ weights + noise**2 * np.eye(len(values)), weights.T @ covariance.sum(axis=1)
    # Coefficients that are right for the head, and what may be added to them.
    right, beside = shape / (shape @ shape), null_space(shape[None, :])
    reduced, seen = beside.T @ own @ beside, beside.T @ values
    by_value = right + beside @ np.linalg.solve(reduced, beside.T @ (cross - own @ right))
    variance = by_value @ own @ by_value - 2 * by_value @ cross + covariance.sum()
    evidence = -(np.linalg.slogdet(reduced)[1] + seen @ np.linalg.solve(reduced, seen)) / 2
    by_row = covariance @ weights @ beside @ np.linalg.solve(reduced, seen)
    head = right @ (values - own @ beside @ np.linalg.solve(reduced, seen))
    return by_value @ values, variance, evidence, head, by_row


def level(values, ends, weights, noise):
    """Mean and variance of the total, and the shape of those counts by row that are above zero."""
    alone = noise / weights[0, -1]
    top = max(10, int(math.log2(1 + max(abs(values) / weights.max(axis=0)) / alone) + 2))
    means, variances, likely, rows = [], [], [], []
    for matrix in covariances(ends):
        for power, always in itertools.product(range(1, top + 1), ALWAYS):
            covariance = (alone * 2**power) ** 2 * matrix
            covariance[-1, -1] += (alone * always) ** 2
            mean, variance, evidence, head, by_row = estimate(values, covariance, weights, noise, weights[0])
            means.append(mean)
            variances.append(variance)
            likely.append(evidence + power * math.log(2) + (RARE if always else 0))
            by_row[0] += head
            rows.append(by_row)
    chance = np.exp(likely - logsumexp(likely))
    total, by_row = chance @ means, np.maximum(chance @ np.array(rows), 0)
    return total, chance @ variances + chance @ (np.array(means) - total) ** 2, weights.T @ by_row / by_row.sum()


def panel(values, ends, weights, noise):
    """Levels of keys and their covariance, given the level of all, as if first each were known by itself."""
    keys = len(values)
    total, variance, shape = level(values.sum(axis=0), ends, weights, noise * math.sqrt(keys))
    matrices = [apart**2 * matrix for apart in APART for matrix in covariances(ends)]
    found = []
    for row in values:
        size = max(shape @ row / (shape @ shape), LEAST * max(total, math.sqrt(variance)) / keys)
        found.append([estimate(row, size**2 * matrix, weights, noise, shape)[:3] for matrix in matrices])
    means, variances, evidence = np.moveaxis(np.array(found), 2, 0)
    often = np.full(len(matrices), 1 / len(matrices))
    for _ in range(ROUNDS):
        chance = [np.exp(row + np.log(often) - logsumexp(row + np.log(often))) for row in evidence]
        often = (np.sum(chance, axis=0) + BEFOREHAND / len(often)) / (keys + BEFOREHAND)
    levels = np.array([p @ row for p, row in zip(chance, means, strict=True)])
    own = np.array([p @ (v + (m - x) ** 2) for p, v, m, x in zip(chance, variances, means, levels, strict=True)])
    # Conditioned on their sum, which is then known to the error of the level of all.
    prior, ones = np.diag(own), np.ones(keys)
    gain = prior @ ones / (ones @ prior @ ones)
    covariance = prior - np.outer(gain, ones @ prior) + variance * np.outer(gain, gain)
    return levels + gain * (total - ones @ levels), covariance
