"""The embedded event log, and a simulator of further logs."""

from opendp_timeseries.datasets.flights import load_flights
from opendp_timeseries.datasets.simulate import daily_profile, power_law, simulate_event_log

__all__ = ["daily_profile", "load_flights", "power_law", "simulate_event_log"]
