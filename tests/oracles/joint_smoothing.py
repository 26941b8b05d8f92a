"""Panels smoothed jointly, slowly: dense matrices over all rows and steps, and every course of events by itself."""

import itertools

import numpy as np


def covariance_of_rows(tree, keys, own, parts, shares, local):
    """Covariance of the errors of all rows at all steps, as one matrix, from the definition of each error.

    :param tree: groups and the rows of their parts, the root first.
    :param own: a dense covariance for each row.
    :param parts, shares, local: by row and step.
    """
    rows, steps = parts.shape

    def unit(row):
        """What a row's own error is, of the errors of all."""
        found = np.zeros((steps, rows * steps))
        found[:, row * steps : (row + 1) * steps] = np.eye(steps)
        return found

    root = tree[0][0]
    smooth = {root: unit(root)}
    for group, members in tree:
        unexplained = sum(np.diag(1.0 - local[row]) @ unit(row) for row in members)
        for row in members:
            smooth[row] = unit(row) - np.diag(parts[row]) @ unexplained + np.diag(shares[row]) @ smooth[group]
    whole = dict(smooth)

    def events(row):
        if row < keys:
            return np.diag(local[row] * 1.0) @ unit(row)
        return sum(events(part) for group, members in tree if group == row for part in members)

    for group, _ in tree:
        whole[group] = smooth[group] + events(group)
    every = np.concatenate([whole[row] for row in range(rows)])
    middle = np.zeros((rows * steps, rows * steps))
    for row in range(rows):
        here = slice(row * steps, (row + 1) * steps)
        middle[here, here] = own[row]
    return every @ middle @ every.T


def chances(odds, begin, stay):
    """Chances of no event and of each state at each step, by going through all courses.

    :param odds: logarithms, by step and state.
    :param begin: chances of each state that it begins at a step.
    :param stay: that it goes on for one more.
    """
    steps, states = odds.shape
    total, found = 0.0, np.zeros((steps, states + 1))
    for course in itertools.product(range(states + 1), repeat=steps):
        likely, before = 1.0, 0
        for t, state in enumerate(course):
            if not before:  # nobody was there
                step = 1 - sum(begin) if state == 0 else begin[state - 1]
            else:
                step = stay[before - 1] * (state == before) + (1 - stay[before - 1]) * (state == 0)
            likely *= step * (np.exp(odds[t, state - 1]) if state else 1.0)
            before = state
        total += likely
        for t, state in enumerate(course):
            found[t, state] += likely
    return found[:, 0] / total, found[:, 1:] / total


def count(residual, prior, noise, crowds, squares, chances):
    """Mean and variance of the last tier above its prediction at one step: dense conditioning, kind by kind.

    :param prior: covariance of the deviation of the tiers from the prediction, if nobody more comes.
    :param chances: of nobody, then of each kind and size.
    """
    tiers = len(residual)
    kinds = [(0.0, np.zeros(tiers))]
    kinds += [(square, crowd) for crowd, row in zip(crowds, squares, strict=True) for square in row]
    means, variances = [], []
    for square, crowd in kinds:
        # Deviation, then the size of the crowd; both show in the values, and the last tier has the count.
        whole = np.zeros((tiers + 1, tiers + 1))
        whole[:tiers, :tiers], whole[tiers, tiers] = prior, square
        shown = np.column_stack([np.eye(tiers), crowd])
        last = shown[-1]
        gain = last @ whole @ shown.T @ np.linalg.inv(shown @ whole @ shown.T + noise)
        means.append(gain @ residual)
        variances.append(last @ whole @ last - gain @ shown @ whole @ last)
    means, variances = np.array(means), np.array(variances)
    mean = chances @ means / chances.sum()
    return mean, chances @ (variances + (means - mean) ** 2) / chances.sum()


def nonnegative(values, variances, total):
    """The nearest values that are not below zero and add up to the total, by halving what each loses."""
    low, high = 0.0, (np.abs(values).max() + total) / variances.min()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(values - middle * variances, 0).sum() > total:
            low = middle
        else:
            high = middle
    return np.maximum(values - high * variances, 0)
