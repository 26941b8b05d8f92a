"""The embedded event log, the series of the paper, loaders of its file formats, and a simulator."""

from opendp_timeseries.datasets.checkins import (
    FOURSQUARE_GRID,
    GOWALLA_GRID,
    CheckIns,
    largest_participation,
    load_foursquare,
    load_gowalla,
)
from opendp_timeseries.datasets.flights import load_flights
from opendp_timeseries.datasets.pems import PEMS_GRID, load_flow, load_pems_station
from opendp_timeseries.datasets.simulate import daily_profile, power_law, simulate_event_log
from opendp_timeseries.datasets.synth import Synth, synth

__all__ = [
    "FOURSQUARE_GRID",
    "GOWALLA_GRID",
    "PEMS_GRID",
    "CheckIns",
    "Synth",
    "daily_profile",
    "largest_participation",
    "load_flights",
    "load_flow",
    "load_foursquare",
    "load_gowalla",
    "load_pems_station",
    "power_law",
    "simulate_event_log",
    "synth",
]
