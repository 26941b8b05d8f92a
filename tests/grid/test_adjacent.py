"""Grids that follow each other, and how far ahead of one a time is."""

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.grid import extended, grid_over, steps_ahead
from tests.refused import refuses

BERLIN = "Europe/Berlin"


def hours(start, end, zone=BERLIN):
    return ts.TimeGrid(start=start, end=end, step="1h", zone=zone)


@pytest.mark.parametrize(
    ("end", "ahead", "steps"),
    [
        ("2024-03-31", "1d", 23),  # clocks go forward
        ("2024-03-31", "24h", 24),
        ("2024-10-27", "1d", 25),
        ("2024-10-21", "1w", 169),
        ("2024-03-31", "1w", 167),
        ("2024-03-31T12:00", "1w", 168),
        ("2024-02-01", "1mo", 29 * 24),
        ("2024-03-31T12:00", "1mo", 30 * 24),  # to the last day of April, at noon
        ("2024-03-31", 5, 5),
    ],
)
def test_a_time_ahead_is_by_the_clock(end, ahead, steps):
    assert steps_ahead(ahead, hours("2023-12-01", end)) == steps


def test_days_and_months_ahead_of_coarser_grids():
    days = ts.TimeGrid(start="2024-01-01", end="2024-02-01", step="1d", zone=BERLIN)
    assert steps_ahead("1mo", days) == 29
    assert steps_ahead("1w", days) == 7
    months = ts.TimeGrid(start="2023-01-01", size=24, step="1mo", zone=BERLIN)
    assert steps_ahead("1q", months) == 3
    assert extended(months, 3).end.startswith("2025-04-01")
    assert extended(ts.TimeGrid(size=5), 3) == ts.TimeGrid(size=8)


@pytest.mark.parametrize(
    ("ahead", "error", "match"),
    [
        ("1mo", ValueError, r"ahead \('1mo'\) must be whole steps of .* and no more time than was released: how far"),
        ("30min", ValueError, r"ahead \('30min'\) must be whole steps"),
        ("soon", ValueError, r"ahead \('soon'\) must be a whole number and a unit"),
        (0, ValueError, r"ahead \(0\) must"),
        (25, ValueError, r"ahead \(25\) must"),
        (2.5, TypeError, "ahead"),
    ],
)
def test_other_times_ahead_are_refused(ahead, error, match):
    refuses(match, steps_ahead, ahead, hours("2024-01-01", "2024-01-02"), error=error)


def test_time_ahead_of_step_numbers_or_edges_is_refused():
    refuses("needs a grid with times", steps_ahead, "1w", ts.TimeGrid(size=400))
    with pytest.raises(ValueError, match="ahead must be left out of a grid from edges"):
        extended(ts.TimeGrid.from_edges(["2024-09-02", "2024-12-21", "2025-01-06"], zone=BERLIN), 1)


def test_one_grid_over_several():
    months = [hours(f"2024-{month:02}-01", f"2024-{month + 1:02}-01") for month in (2, 3, 4)]
    together = grid_over(months)
    assert together == hours("2024-02-01", "2024-05-01")
    assert np.array_equal(together.edges(), np.unique(np.concatenate([grid.edges() for grid in months])))
    terms = [["2024-09-02", "2024-12-21", "2025-01-06"], ["2025-01-06", "2025-04-12"]]
    of_edges = grid_over([ts.TimeGrid.from_edges(edges, zone="Europe/London") for edges in terms])
    assert of_edges == ts.TimeGrid.from_edges(terms[0] + terms[1][1:], zone="Europe/London")


def test_grids_that_do_not_follow_each_other_are_refused():
    january, march = hours("2024-01-01", "2024-02-01"), hours("2024-03-01", "2024-04-01")
    refuses(r"does not begin where .* ends: give the release between them", grid_over, [january, march])
    refuses("one step and zone", grid_over, [january, hours("2024-02-01", "2024-03-01", "UTC")])
