"""The paper's datasets: its synthetic series, and loaders of the formats of its public files."""

from opendp_timeseries.koga2022.datasets.checkins import (
    FOURSQUARE_GRID,
    GOWALLA_GRID,
    CheckIns,
    largest_participation,
    load_foursquare,
    load_gowalla,
)
from opendp_timeseries.koga2022.datasets.pems import PEMS_GRID, load_flow, load_pems_station
from opendp_timeseries.koga2022.datasets.synth import Synth, synth

__all__ = [
    "FOURSQUARE_GRID",
    "GOWALLA_GRID",
    "PEMS_GRID",
    "CheckIns",
    "Synth",
    "largest_participation",
    "load_flow",
    "load_foursquare",
    "load_gowalla",
    "load_pems_station",
    "synth",
]
