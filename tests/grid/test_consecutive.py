"""Consecutive grids, and how far ahead of one a time is."""

import numpy as np
import pytest

import opendp_timeseries as ts
from opendp_timeseries.grid import extend, grid_over, steps_ahead
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
        ("2024-03-30T02:00", "1d", 24),  # to 03:00, as 02:00 is skipped
        ("2024-10-26T02:00", "1d", 24),  # to the first 02:00
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
    assert extend(months, 3).end.startswith("2025-04-01")
    assert extend(ts.TimeGrid(size=5), 3) == ts.TimeGrid(size=8)
    days = ts.TimeGrid(start="2018-10-01", end="2018-11-03", step="1d", zone="America/Sao_Paulo")
    assert steps_ahead("1d", days) == 1  # to the midnight that is skipped
    assert steps_ahead("1w", extend(days, 1)) == 7  # from there


@pytest.mark.parametrize(
    ("ahead", "cause"),
    [
        ("90min", "whole steps"),
        ("2mo", "no more time"),
        ("9" * 30 + "h", "no more time"),
        ("9" * 30 + "y", "no more time"),
    ],
)
def test_a_time_ahead_is_refused_by_its_own_cause(ahead, cause):
    refuses("ahead", steps_ahead, ahead, hours("2024-01-01", "2024-02-01"), rule=f"^must be {cause}")


def test_steps_are_never_taken_from_a_grid():
    grid = ts.TimeGrid(size=5)
    assert extend(grid, 0) == grid
    refuses("ahead", extend, grid, -1)


def test_grids_of_step_numbers_are_not_joined():
    grid = ts.TimeGrid(size=5)
    assert grid_over([grid]) == grid
    refuses("grids", grid_over, [grid, grid], rule="step numbers")


def test_one_grid_over_several():
    months = [hours(f"2024-{month:02}-01", f"2024-{month + 1:02}-01") for month in (2, 3, 4)]
    together = grid_over(months)
    assert together == hours("2024-02-01", "2024-05-01")
    assert np.array_equal(together.edges(), np.unique(np.concatenate([grid.edges() for grid in months])))
    terms = [["2024-09-02", "2024-12-21", "2025-01-06"], ["2025-01-06", "2025-04-12"]]
    of_edges = grid_over([ts.TimeGrid.from_edges(edges, zone="Europe/London") for edges in terms])
    assert of_edges == ts.TimeGrid.from_edges(terms[0] + terms[1][1:], zone="Europe/London")
