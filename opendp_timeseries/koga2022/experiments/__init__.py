"""The experiments of Koga, Meehan & Chaudhuri (2022), for the notebooks: comparison, not part of the pipeline.

A :class:`Problem` is a count series with the settings at which it is released; a :class:`Method` releases it. The
series are public or generated, and errors are measured against them: nothing here protects anybody. The results are in
``docs/reproduction.md``.
"""

from opendp_timeseries.koga2022.experiments.methods import (
    Method,
    algorithm1,
    every_step,
    fourier,
    fourier_laplace,
    gaussian,
    mean_absolute_errors,
    releases,
    subsampled,
)
from opendp_timeseries.koga2022.experiments.problems import Problem, foursquare_like, from_synth, gowalla_like, pems
from opendp_timeseries.koga2022.experiments.tightness import alpha_of_chain, block_scale_lower

__all__ = [
    "Method",
    "Problem",
    "algorithm1",
    "alpha_of_chain",
    "block_scale_lower",
    "every_step",
    "foursquare_like",
    "fourier",
    "fourier_laplace",
    "from_synth",
    "gaussian",
    "gowalla_like",
    "mean_absolute_errors",
    "pems",
    "releases",
    "subsampled",
]
