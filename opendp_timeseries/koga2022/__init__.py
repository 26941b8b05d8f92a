"""The paper by Koga, Meehan & Chaudhuri (2022), "Privacy Amplification by Subsampling in Time Domain".

Its bounds, its Algorithm 1, the Fourier baseline, its datasets and its experiments, for comparison; no other package
imports it. Importing it makes its constructors available to OpenDP's ``Context.query()``.
"""

from opendp_timeseries.koga2022.algorithm1 import make_koga2022, then_koga2022
from opendp_timeseries.koga2022.fourier import (
    best_frequencies,
    fourier_design,
    fourier_series,
    make_fourier_coefficients,
    then_fourier_coefficients,
)

__all__ = [
    "best_frequencies",
    "fourier_design",
    "fourier_series",
    "make_fourier_coefficients",
    "make_koga2022",
    "then_fourier_coefficients",
    "then_koga2022",
]
