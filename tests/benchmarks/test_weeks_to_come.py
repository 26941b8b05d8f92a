"""How near forecasts are, months that are smoothed together, and the profile of the week: against true counts. Run with

python -m pytest tests/benchmarks/test_weeks_to_come.py -s --override-ini addopts=

Private series at (1, 1e-6), ten logs and releases of each kind. ``TRUTH_SEEDS=2`` does less.
"""

import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts
from tests.benchmarks.test_truth import LOGS, SEEDS

dp.enable_features("contrib", "honest-but-curious")
SPACE = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
#: A forecast may be so much worse than the mean of the last four true weeks, which nobody has.
WORSE = 1.1


def drawn(name, seed):
    """A log of whole weeks, its steps, and the lengths of a day and a week."""
    draw, size, seasons, *_ = LOGS[name]
    who, step = draw(np.random.default_rng(seed))
    size -= size % seasons[1]
    return who[step < size], step[step < size], size, seasons


def counts(who, step, size):
    return np.bincount(np.unique(who * size + step) % size, minlength=size)


def covered(series, truth, steps=slice(None)):
    low, high = (end[steps] for end in series.interval(0.9))
    return np.mean((low <= truth) & (truth <= high))


def test_a_week_ahead_is_as_good_as_true_weeks_past():
    worse = []
    for name in LOGS:
        found = []
        for seed in SEEDS:
            who, step, size, seasons = drawn(name, seed)
            week = seasons[1]
            truth = counts(who, step, size)
            past = step < size - week
            release = (SPACE >> ts.then_private_series(ts.TimeGrid(size=size - week), **BUDGET))(
                {"id": who[past], "step": step[past]}
            )
            series = ts.smooth(release, seasons=seasons, ahead=week)
            to_come, ahead = truth[-week:], slice(-week, None)
            true_weeks = truth[-5 * week : -week].reshape(4, week).mean(axis=0)
            total = ts.smooth(release, seasons=seasons, ahead=week).resample(week)
            low, high = (end[-1] for end in total.interval(0.9))
            found.append(
                (
                    np.abs(series[ahead] - to_come).mean(),
                    covered(series, to_come, ahead),
                    np.abs(true_weeks - to_come).mean(),
                    low <= to_come.sum() <= high,
                )
            )
        error, cover, of_true_weeks, of_total = np.mean(found, axis=0)
        worse.append(error > WORSE * of_true_weeks)
        print(
            f"\n{name:>12}: error of a week ahead {error:5.2f}, of the last four true weeks {of_true_weeks:5.2f};"
            f" bands cover {cover:.3f}, of the week's total {of_total:.2f}"
        )
        assert 0.8 <= cover <= 0.98
    assert np.sum(worse) <= 1
