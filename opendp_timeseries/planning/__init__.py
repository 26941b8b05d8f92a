"""Choose a design without data: the expected error of a sampling probability, a filter, a cap.

Noise scales come from the exact accounting, which reads no data. The error of the reconstruction depends on how the
signal moves, which public facts describe: a few numbers, or a public series that resembles the private one. Never pass
the private series itself: a design chosen by it would reveal something about it at no charge.
"""

from opendp_timeseries.planning.designs import Candidate, Plan, plan
from opendp_timeseries.planning.participation import LevelCorrection, Participation

__all__ = ["Candidate", "LevelCorrection", "Participation", "Plan", "plan"]
