"""Releases that know how they were made, as a measurement behind a count returns them."""

from opendp_timeseries.design.provenance import Provenance

from opendp_timeseries import Release, TimeGrid


def provenance(*, size, **change):
    """Return what is public of a count: of a panel, if it has keys in ``panel``.

    :param size: of one series.
    """
    return Provenance(**{"grid": TimeGrid(size=size), "participation_cap": 60} | change)


def panel(keys, *, steps, values, size, scale=3.0, probability=0.3):
    """Return the release of a panel.

    :param size: of all series together.
    """
    keys = tuple(keys)
    made = provenance(size=size // len(keys), panel=keys)
    parts = {"steps": steps, "values": values, "size": size, "scale": scale, "sampling_probability": probability}
    return Release(**parts, provenance=made)
