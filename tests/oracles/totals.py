"""Slow truths about totals of a panel: every vector that one individual can add, and its sums, in plain Python.

And the least-squares estimate of a tree of totals, by the normal equations of the whole system.
"""

import itertools

import numpy as np


def contributions(series, steps, *, participation_cap, step_cap, key_cap):
    """Every vector ``{(series, step): events}`` that one individual can add to a panel, with the caps as they are."""
    places = list(itertools.product(range(series), range(steps)))
    for number in range(min(participation_cap, len(places)) + 1):
        for chosen in itertools.combinations(places, number):
            at_once = [sum(step == moment for _, step in chosen) for moment in range(steps)]
            if max(at_once) <= key_cap:
                for events in itertools.product(range(1, step_cap + 1), repeat=number):
                    yield dict(zip(chosen, events, strict=True))


def differences(own, *, replaced):
    """What adding, removing or replacing one individual changes."""
    own = list(own)
    if not replaced:
        return own + [{place: -n for place, n in vector.items()} for vector in own]
    return [
        {place: x.get(place, 0) - y.get(place, 0) for place in x.keys() | y.keys()}
        for x, y in itertools.product(own, repeat=2)
    ]


def totals(vector, groups, steps):
    """The sums of a vector over the series of each group, at each step."""
    return [sum(vector.get((series, t), 0) for series in group) for group in groups for t in range(steps)]


def least_squares(groups, leaves, leaf_variance, totals, total_variance):
    """Estimates and variances of all leaves and all groups at one step, from noisy ones, by a dense inverse.

    Infinite variances are measurements that are left out.

    :param groups: of the positions of leaves.
    """
    rows = [[float(i == j) for j in range(len(leaves))] for i in range(len(leaves))]
    rows += [[float(j in group) for j in range(len(leaves))] for group in groups]
    design, noisy = np.array(rows), np.append(leaves, totals)
    precision = 1 / np.append(leaf_variance, total_variance)
    covariance = np.linalg.inv(design.T @ (precision[:, None] * design))
    estimate = covariance @ (design.T @ (precision * noisy))
    return design @ estimate, np.einsum("ij,jk,ik->i", design, covariance, design)
