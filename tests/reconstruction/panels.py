"""Releases of panels, as a measurement behind a count by key returns them."""

from opendp_timeseries import Release, TimeGrid
from opendp_timeseries.provenance import Provenance


def provenance(keys=None, *, size, **change):
    one = {"grid": TimeGrid(size=size), "participation_cap": 60}
    return Provenance(**one | change, panel=keys)


def panel(keys, *, steps, values, size, scale=3.0, probability=0.3, **change):
    """Return the release of a panel.

    :param size: of all series together.
    """
    keys = tuple(keys)
    made = provenance(keys, size=size // len(keys), **change)
    parts = {"steps": steps, "values": values, "size": size, "scale": scale, "sampling_probability": probability}
    return Release(**parts, provenance=made)
