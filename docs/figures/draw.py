"""Draw the figures of the pages into this folder: ``python docs/figures/draw.py``. Logs are public or simulated."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries.datasets import daily_profile, load_flights, power_law, simulate_event_log

SITES = ["north", "south", "west"]
STOPS = [f"stop {k}" for k in range(20)]


def draw(folder):
    """Draw all figures: 6,000 people in two weeks, nearly half of them in one or two hours, a few in forty."""
    dp.enable_features("contrib", "honest-but-curious")
    hours = ts.TimeGrid(start="2024-03-04", step="1h", size=14 * 24, zone="Europe/London")
    days = ts.TimeGrid(start="2024-03-04", size=14, step="1d", zone="Europe/London")
    rng = np.random.default_rng(1)
    log = simulate_event_log(hours, 6000, power_law(40, exponent=1.2), rng=rng, profile=daily_profile(hours.size, 24))
    log["site"] = rng.choice(SITES, p=[0.5, 0.35, 0.15], size=len(log["time"]))
    space = ts.event_log_domain(identifier="identifier", time="time"), dp.symmetric_distance()

    def release(grid, cap, p=1.0, **panel):
        """Release with the least noise for (1, 10⁻⁶)."""
        count = space >> ts.then_participation_count(grid, participation_cap=cap, **panel)
        scale = ts.least_scale(count, epsilon=1.0, delta=1e-6, sampling_probability=p)
        return (count >> ts.then_subsampled_gaussian(scale, sampling_probability=p, delta=1e-6))(log)

    def save(figure, name):
        figure.savefig(folder / f"gallery-{name}.png")

    steps = ts.TimeGrid(start="2013-01-01T05:00", step="3h", size=2920, zone="UTC")
    aircraft = ts.event_log_domain(identifier="tailnum", time="time"), dp.symmetric_distance()
    series = ts.smooth(
        (aircraft >> ts.then_private_series(steps, epsilon=1.0, delta=1e-6))(load_flights()), seasons=("1d", "1w")
    )
    week = slice(8 * 90, 8 * 97)
    figure, axes = plt.subplots(figsize=(4.5, 2.5), dpi=200, layout="constrained")
    low, high = (end[week] for end in series.interval(0.9))
    axes.fill_between(np.arange(56) / 8, low, high, color="0.85", linewidth=0, label="90% band")
    axes.plot(np.arange(56) / 8, series.values[week], color="#0072B2", label="estimate")
    axes.set_xticks(np.arange(7) + 0.5, ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    axes.set_ylabel("aircraft per 3 hours")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    save(figure, "week")

    unit = "visitors per hour"
    save(ts.smooth(release(hours, cap=20), seasons=24).plot(unit=unit).figure, "band")
    save(ts.interpolate(release(hours, cap=20, p=0.2)).plot(unit=unit).figure, "line")
    private = space >> ts.then_private_series(hours, by="site", keys=SITES, epsilon=1.0, delta=1e-6)
    panel = ts.smooth(private(log), seasons=24)
    save(ts.plot(panel, unit=unit)["north"].figure, "panel")

    frame = ts.interpolate(release(days, cap=8)).to_frame()
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    around = [frame["value"] - frame["low"], frame["high"] - frame["value"]]
    axes.bar(frame.index.strftime("%a %d"), frame["value"], yerr=around, color="#9ecae1", capsize=3)
    axes.set_ylabel("visitors per day")
    save(figure, "days")

    log["stop"] = rng.choice(STOPS, size=len(log["time"]))
    count = space >> ts.then_participation_count(days, participation_cap=8, by="stop", keys=STOPS, key_cap=1)
    noise = ts.then_subsampled_gaussian(1.0, sampling_probability=1.0)
    members = [count >> noise, count >> ts.then_totals({"all": STOPS}) >> noise]
    factor = ts.least_factor(members, epsilon=1.0, delta=1e-6)
    noise = ts.then_subsampled_gaussian(factor, sampling_probability=1.0)
    both = count >> ts.then_composition([noise, ts.then_totals({"all": STOPS}) >> noise], delta=1e-6)
    stops, total = both(log)
    _, reconciled = ts.reconcile(ts.interpolate(stops), ts.interpolate(total))
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    added, at = stops.values.reshape(20, 14).sum(axis=0), np.arange(14)
    low, high = reconciled.interval(0.9)
    bars = {"fmt": "o"}
    axes.errorbar(
        at - 0.1, added, 1.645 * 20**0.5 * stops.scale, color="0.6", label="sum of 20 stops as released", **bars
    )
    label = "total, to which the stops now add up"
    axes.errorbar(at + 0.1, reconciled, (high - low) / 2, color="#0072B2", label=label, **bars)
    axes.set_xticks(at, frame.index.strftime("%a %d"))
    axes.set_ylabel("visitors per day")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    save(figure, "totals")

    plan = ts.plan(
        hours,
        participation_cap=[10, 20, 40, 80],
        epsilon=1.0,
        delta=1e-6,
        participation={0.9: 20, 1.0: 100},
        level=100,
        season_amplitudes={24: 60},
        deviation=10,
        time_scale=12,
    )
    save(plan.plot().figure, "plan")
    plt.close("all")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
