"""Ledgers: the releases about one population, and what their budget still allows.

A ledger is a file. Every release is entered before it is made, and so its budget is spent whatever happens then; its
record follows before it is returned. The joint loss of all releases is computed from their designs, on every opening.
"""

from opendp_timeseries.ledger.book import Entry, Standing
from opendp_timeseries.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger", "Standing"]
