"""PeMS flow: the station files as they are published, and the redistributed two-column form."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from opendp_timeseries import TimeGrid
from opendp_timeseries.koga2022.datasets import PEMS_GRID, load_flow, load_pems_station
from tests.refused import refuses

DAY = Path(__file__).parent / "data" / "d04_text_station_5min_2017_01_01.txt"
PEMS_FILE = Path(__file__).parents[2] / "data" / "pems_flow_5min_2016_janfeb.csv"
HALF_HOUR = TimeGrid(size=6, start="2017-01-01T00:00", step="5min", zone="America/Los_Angeles")


def flow_file(folder: Path, *rows: str) -> Path:
    path = folder / "flow.csv"
    path.write_text("timestamp,flow\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_station_file() -> None:
    flow = load_pems_station([DAY], 400030, HALF_HOUR)
    assert flow.tolist() == [101, 99, 104, 88, 97, 250]
    assert flow.dtype == np.int64


def test_a_step_without_flow_is_refused_or_filled() -> None:
    refuses(r"flow \(1 of 6 steps, the first of them step 2\)", load_pems_station, [DAY], 400001, HALF_HOUR)
    assert load_pems_station([DAY], 400001, HALF_HOUR, fill=5).tolist() == [12, 0, 5, 31, 7, 9]


def test_rows_off_the_grid_are_left_out_and_the_grid_decides_the_length() -> None:
    later = TimeGrid(size=4, start="2017-01-01T00:20", step="5min", zone="America/Los_Angeles")
    assert load_pems_station([DAY], 400030, later, fill=0).tolist() == [97, 250, 0, 0]
    # The grid's clock is the file's clock: on that of UTC, step 0 is eight hours earlier than the same text.
    utc = TimeGrid(size=2, start="2017-01-01T08:05+00:00", step="5min", zone="America/Los_Angeles")
    assert load_pems_station([DAY], 400030, utc).tolist() == [99, 104]
    assert PEMS_GRID.size == 1800


def test_several_days_in_any_order_plain_and_gzipped(tmp_path: Path) -> None:
    second = tmp_path / "d04_text_station_5min_2017_01_02.txt.gz"
    second.write_bytes(gzip.compress(DAY.read_bytes().replace(b"01/01/2017", b"01/02/2017")))
    two_days = TimeGrid(size=294, start="2017-01-01T00:00", step="5min", zone="America/Los_Angeles")
    flow = load_pems_station([second, DAY], 400030, two_days, fill=0)
    assert flow[:7].tolist() == [101, 99, 104, 88, 97, 250, 0]
    assert flow[287:].tolist() == [0, 101, 99, 104, 88, 97, 250]


def test_a_step_with_two_rows_is_refused() -> None:
    refuses("flow", load_pems_station, [DAY, DAY], 400030, HALF_HOUR)


@pytest.mark.parametrize("line", [
    "", "01/01/2017 00:00:00", "01/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100",
    "2017-01-01 00:00:00,400001,4,101,N,ML,.34,20,100,12",
    "13/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100,12",
    "01/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100,12.5",
    "01/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100,-1",
    "01/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100,nan",
    "01/01/2017 00:00:00,400001,4,101,N,ML,.34,20,100,1e30",
])  # fmt: skip
def test_malformed_rows_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "day.txt"
    path.write_text(DAY.read_text() + line + "\n")
    refuses("day.txt, line 13", load_pems_station, [path], 400001, HALF_HOUR, fill=0)


def test_two_columns(tmp_path: Path) -> None:
    path = flow_file(tmp_path, "2017-01-01T00:00,3", "2017-01-01 00:05:00,4.0", "2017-01-01T00:15,5")
    assert load_flow(path).tolist() == [3, 4, 5]
    assert load_flow(path, HALF_HOUR, fill=0).tolist() == [3, 4, 0, 5, 0, 0]
    refuses(r"flow \(3 of 6 steps, the first of them step 2\)", load_flow, path, HALF_HOUR)


@pytest.mark.parametrize("row", ["2017-01-01T00:00Z,3", "2017-01-01T00:00+01:00,3", "1/1/2017,3", "2017-01-01"])
def test_malformed_rows_of_two_columns(row: str, tmp_path: Path) -> None:
    refuses("flow.csv, line 3", load_flow, flow_file(tmp_path, "2017-01-01T00:00,3", row))


def test_the_hour_in_which_clocks_go_forward_is_no_gap(tmp_path: Path) -> None:
    """Local clocks skip from 2:00 to 3:00 on 12 March 2017; the grid, in UTC, has no step there."""
    path = flow_file(tmp_path, "2017-03-12T01:50,1", "2017-03-12T01:55,2", "2017-03-12T03:00,3")
    grid = TimeGrid(size=3, start="2017-03-12T01:50", step="5min", zone="America/Los_Angeles")
    assert load_flow(path, grid).tolist() == [1, 2, 3]


def test_the_redistributed_file_is_weekdays_only() -> None:
    flow = load_flow(PEMS_FILE)
    assert len(flow) == 7776
    assert flow[:1800].mean() == pytest.approx(61.14, abs=0.01)
    days = TimeGrid(size=1800, start="2016-01-04T00:00", step="5min", zone="America/Los_Angeles")
    refuses(r"flow \(360 of 1800 steps, the first of them step 1440\)", load_flow, PEMS_FILE, days)
