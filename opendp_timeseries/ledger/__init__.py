"""What has been released about one population, and what its budget still allows.

A ledger is a file. Every release is written into it before it is made, and so is spent whatever happens then; its
record follows before it is handed out. The loss of all releases together is computed from what ran, on every opening.
"""

from opendp_timeseries.ledger.book import Entry, Standing
from opendp_timeseries.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger", "Standing"]
