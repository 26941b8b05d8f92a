"""What the experiments release: count series with the settings of the paper, public or generated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries.datasets import daily_profile, power_law, simulate_event_log
from opendp_timeseries.design.kernels import Kernel, gaussian_kernel
from opendp_timeseries.grid import TimeGrid
from opendp_timeseries.koga2022.datasets import Synth, load_flow
from opendp_timeseries.plugin import native
from opendp_timeseries.plugin.assume_participation import then_assume_participation
from opendp_timeseries.plugin.spaces import count_signal_domain

__all__ = ["Problem", "foursquare_like", "from_synth", "gowalla_like", "pems"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A count series, and the settings at which every method releases it."""

    name: str  #: for tables and figures
    signal: NDArray[np.int64]  #: int64 counts, which a method is given
    truth: NDArray[np.float64]  #: against which errors are measured: the signal itself, or what it observes
    participation_cap: int  #: ``I``, assumed of the series (the paper's Assumption 1)
    sampling_probability: float = 0.1  #: ``p``
    std: float = 10.0  #: ``σ_g`` of the paper's Gaussian filter, in steps
    epsilon: float = 0.5  #: ``ε``, of one individual added or removed
    delta: float = 1e-4  #: ``δ``

    @property
    def size(self) -> int:
        """Number of time steps, ``T``."""
        return len(self.signal)

    @property
    def kernel(self) -> Kernel:
        """The paper's filter for this series."""
        return gaussian_kernel(self.size, self.std)

    def count(self) -> native.Transformation:
        """Return the count under Assumption 1."""
        space = count_signal_domain(self.size), native.symmetric_distance()
        count: native.Transformation = space >> then_assume_participation(participation_cap=self.participation_cap)
        return count

    def scaled(self, factor: float) -> Problem:
        """Return the problem of a series ``factor`` times as heavy, in whole counts, at the same settings."""
        signal = np.rint(self.signal * factor).astype(np.int64)
        return replace(self, name=f"{factor:g} × {self.name}", signal=signal, truth=signal.astype(np.float64))


def pems(path: str | PathLike[str]) -> Problem:
    """Return the first 1,800 rows of a flow file, each a step, with the paper's PeMS settings.

    :param path: CSV file for :func:`~opendp_timeseries.koga2022.datasets.load_flow`, such as
        ``tests/data/pems_flow_5min_2016_janfeb.csv`` of the repository, which leaves out weekends and holidays.
    :raises OSError: if there is no such file.
    """
    return _tenth("PeMS", load_flow(path)[:1800])


def gowalla_like() -> Problem:
    """Return a generated series of the paper's Gowalla settings: 725 days, about 7 a day."""
    return _generated("Gowalla-like", size=725, individuals=740, period=7, depth=0.3)


def foursquare_like() -> Problem:
    """Return a generated series of the paper's Foursquare settings: 2,126 steps of 6 hours, about 14 a step."""
    return _generated("Foursquare-like", size=2126, individuals=2620, period=4, depth=0.6)


def from_synth(series: Synth) -> Problem:
    """Return the paper's synthetic series as a problem: errors are measured against the noiseless values."""
    return Problem(
        name=f"Synth, f = {series.frequency:g}",
        signal=series.signal,
        truth=series.noiseless,
        participation_cap=series.participation_cap,
        sampling_probability=series.sampling_probability,
        std=series.std,
    )


def _tenth(name: str, signal: NDArray[np.int64]) -> Problem:
    """Return the problem with the paper's ``I = ⌈T/10⌉`` for real series."""
    cap = math.ceil(len(signal) / 10)
    return Problem(name=name, signal=signal, truth=signal.astype(np.float64), participation_cap=cap)


def _generated(name: str, *, size: int, individuals: int, period: int, depth: float) -> Problem:
    """Draw a public log in which nobody exceeds ``I = ⌈T/10⌉``, the same at every call, and count it."""
    log = simulate_event_log(
        TimeGrid(size=size),
        individuals,
        power_law(participation_cap=math.ceil(size / 10), exponent=1.5),
        rng=np.random.default_rng(2022),
        profile=daily_profile(size, period, depth=depth),
    )
    return _tenth(name, np.bincount(log["time"], minlength=size))
