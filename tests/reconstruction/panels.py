"""Releases of panels, as a measurement behind a count by key returns them."""

from types import SimpleNamespace

from opendp_timeseries import Release, TimeGrid


def provenance(keys=None, *, size, **change):
    one = {"grid": TimeGrid(size=size), "participation_cap": 60, "step_cap": 1, "caps_enforced": True, "kernels": ()}
    made = SimpleNamespace(**one | change, keys=keys)
    made.of_one_series = lambda: provenance(size=size, **change)
    return made


def panel(keys, *, steps, values, size, scale=3.0, probability=0.3, **change):
    """Return the release of a panel.

    :param size: of all series together.
    """
    keys = tuple(keys)
    made = provenance(keys, size=size // len(keys), **change)
    parts = {"steps": steps, "values": values, "size": size, "scale": scale, "sampling_probability": probability}
    return Release(**parts, provenance=made)
