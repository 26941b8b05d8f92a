"""The synthetic series of Koga, Meehan & Chaudhuri (2022), section "Setup" and appendix "Instantiation"."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries._validate import real

__all__ = ["Synth", "synth"]

_DURATION = 10_000  # T at relative frequency 1
_AMPLITUDE, _LEVEL, _TREND, _NOISE = 200.0, 500.0, 0.1, 100.0  # the paper's a, b, c, d
_PARTICIPATION_CAP = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Synth:
    """One synthetic series, with the settings at which the paper releases it."""

    frequency: float  #: relative sampling frequency ``f``; 1 is one step per unit of time
    signal: NDArray[np.int64]  #: int64 counts, given to a mechanism: the noiseless signal, or the noisy one, rounded
    noiseless: NDArray[np.float64]  #: float64 values ``a sin(ωt) + b + ct``, against which the paper measures errors
    participation_cap: int  #: ``I``, 100 at every frequency (``docs/concepts/amplification.md``)
    sampling_probability: float  #: ``p = 0.1 (1 − log f / 4)``
    std: float  #: standard deviation of the Gaussian kernel in steps, ``10 / (1 − log f / 4)``

    @property
    def size(self) -> int:
        """Number of time steps, ``T``."""
        return len(self.signal)


def synth(
    frequency: float = 1.0,
    noisy: bool = False,
    *,
    rng: np.random.Generator | None = None,
    angular_frequency: float = 0.01,
    logarithm_base: float = 2.0,
) -> Synth:
    """Return the paper's synthetic series at relative sampling frequency ``frequency``.

    ``x_t = 200 sin(ωt) + 500 + 0.1t`` at ``t = 0, 1/f, 2/f, …`` below 10,000, so ``T = ⌈10000 f⌉``, and with
    ``noisy`` an independent ``100 · N(0, 1)`` at every step, rounded: people add whole events before that rounding, so
    no sensitivity changes. A noisy count may be negative, as in the paper.

    The paper states neither ω nor the base of the logarithm in ``p`` and ``σ_g``; ``docs/datasets.md`` says why these.

    :param frequency: ``f``, above 0 and below ``logarithm_base⁴`` (where ``p`` would fall to 0).
    :param noisy: add the paper's observation noise.
    :param rng: source of the observation noise. The series is public: this has no part in privacy.
    :param angular_frequency: ω, in radians per unit of time.
    :param logarithm_base: base of the logarithm in ``p`` and ``σ_g``.
    :raises ValueError: if ``p`` would leave (0, 1].
    :raises TypeError: if ``noisy`` is set and ``rng`` is not given.

    >>> series = synth(1 / 4)
    >>> series.size, series.participation_cap, series.sampling_probability
    (2500, 100, 0.15)
    >>> series.signal[:4]
    array([500, 508, 517, 525])
    """
    frequency = real("frequency", frequency, above=0.0)
    omega = real("angular_frequency", angular_frequency)
    base = real("logarithm_base", logarithm_base, above=1.0)
    factor = 1.0 - math.log(frequency) / math.log(base) / 4.0
    probability = factor / 10.0
    if not 0.0 < probability <= 1.0:
        raise ValueError(
            f"frequency ({frequency:g}) gives the sampling probability {probability:g}, which must be above "
            f"0 and at most 1; choose a frequency from {base**-36:g} to less than {base**4:g}"
        )
    time = np.arange(math.ceil(_DURATION * frequency)) / frequency
    noiseless = _AMPLITUDE * np.sin(omega * time) + _LEVEL + _TREND * time
    observed = noiseless
    if noisy:
        if rng is None:
            raise TypeError("rng must be given with noisy=True; pass numpy.random.default_rng(seed)")
        observed = noiseless + _NOISE * rng.standard_normal(len(time))
    return Synth(
        frequency=frequency,
        signal=np.rint(observed).astype(np.int64),
        noiseless=noiseless,
        participation_cap=_PARTICIPATION_CAP,
        sampling_probability=probability,
        std=10.0 / factor,
    )
