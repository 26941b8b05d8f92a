"""Choosing a design without data: what error to expect of a sampling probability, a filter, a cap.

Noise scales come from the exact accounting, which reads no data. What the reconstruction adds depends on how the
signal moves, which is described by public facts: two numbers, or a public series that resembles the private one.
Nothing here may be given the private series: a design chosen by it would reveal something of it, uncharged.
"""

from opendp_timeseries.planning.caps import CapTable, NoiseByCap, noise_by_cap
from opendp_timeseries.planning.designs import Design, Plan, Setting, plan
from opendp_timeseries.planning.participation import LevelCorrection, Participation

__all__ = [
    "CapTable",
    "Design",
    "LevelCorrection",
    "NoiseByCap",
    "Participation",
    "Plan",
    "Setting",
    "noise_by_cap",
    "plan",
]
