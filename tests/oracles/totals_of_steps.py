"""Totals step by step: periods by Python's own calendar, variances by going through every pair of steps."""

import datetime as dt
import zoneinfo

import numpy as np


def periods(instants, step, zone):
    """Return a label of the period of every step."""
    if not isinstance(step, str):
        return np.arange(len(instants)) // step
    found = []
    for instant in instants.astype("M8[s]").astype(int).tolist():
        local = dt.datetime.fromtimestamp(instant, zoneinfo.ZoneInfo(zone))
        day = local.date()
        hours = (instant - int(instants[0].astype("M8[s]").astype(int))) // 3600
        found.append(
            {
                "1d": day.toordinal(),
                "1w": day.isocalendar()[0] * 100 + day.isocalendar()[1],
                "1mo": day.year * 12 + day.month,
                "6h": hours // 6,
                "1h": hours,
            }[step]
        )
    return np.array(found)


def sums(values, covariance, labels):
    """Return totals and their standard errors, of the labels from zero on, ascending."""
    totals, errors = [], []
    for label in sorted(set(labels.tolist()) - {-1}):
        its = [t for t in range(len(values)) if labels[t] == label]
        totals.append(sum(values[t] for t in its))
        errors.append(sum(covariance[s, t] for s in its for t in its) ** 0.5)
    return np.array(totals), np.array(errors)
