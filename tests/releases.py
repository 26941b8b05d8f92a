"""Releases made by hand: of a signal of which nothing is known but its size, or of a count that is known."""

from opendp_timeseries import Release, TimeGrid
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.reading import Source
from opendp_timeseries.design.signal import Signal, UnknownSignal
from tests import make


def signal_of(*, size, stages=(), **change):
    """Return a signal of a count: of a panel, if it has keys in ``panel``.

    :param size: of one series.
    """
    source = Source(identifier="id", time="time", by="site" if "panel" in change else None)
    made = {"source": source, "grid": TimeGrid(size=size), "participation_cap": 60}
    return Signal(make.count(**made | change), tuple(stages))


def release_of(*, steps, values, signal, scale=1.0, sampling_probability=0.3, sampling="poisson"):
    """Return a release of which nothing is stated.

    :param signal: how it is made, or its size, if nothing else is known.
    """
    made = UnknownSignal(signal) if isinstance(signal, int) else signal
    design = Design(signal=made, sampling=Sampling.of(sampling_probability, sampling), scale=scale)
    return Release(steps=steps, values=values, design=design)


def panel(keys, *, steps, values, size, scale=3.0, probability=0.3):
    """Return the release of a panel.

    :param size: of all series together.
    """
    keys = tuple(keys)
    made = signal_of(size=size // len(keys), panel=keys)
    return release_of(steps=steps, values=values, signal=made, scale=scale, sampling_probability=probability)
