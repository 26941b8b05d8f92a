"""Grids that follow each other, and how far ahead of one a time is."""

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.grid import extended, grid_over, steps_ahead

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


def test_one_grid_over_several():
    months = [hours(f"2024-{month:02}-01", f"2024-{month + 1:02}-01") for month in (2, 3, 4)]
    together = grid_over(months)
    assert together == hours("2024-02-01", "2024-05-01")
    assert np.array_equal(together.edges(), np.unique(np.concatenate([grid.edges() for grid in months])))
    terms = [["2024-09-02", "2024-12-21", "2025-01-06"], ["2025-01-06", "2025-04-12"]]
    of_edges = grid_over([ts.TimeGrid.from_edges(edges, zone="Europe/London") for edges in terms])
    assert of_edges == ts.TimeGrid.from_edges(terms[0] + terms[1][1:], zone="Europe/London")
