"""The embedded event log, the series of the paper, and loaders of its file formats."""

from opendp_timeseries.datasets.flights import load_flights

__all__ = ["load_flights"]
