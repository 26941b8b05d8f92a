"""Say which release to make, before any data are touched."""

from __future__ import annotations

import argparse
import json

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries.commandline.inputs import grid_of

__all__ = ["plan"]


def plan(options: argparse.Namespace) -> str:
    """Compare designs by the error to expect, and return the table, the advice and the command of the best.

    :raises ValueError: for an option out of range, or a description of the signal that is incomplete.
    """
    found = ts.plan(
        _grid(options),
        participation_cap=options.participation_cap,
        gap=options.gap,
        step_cap=options.step_cap,
        epsilon=check.real("epsilon", options.epsilon, above=0.0, remedy="1 is a common choice"),
        delta=check.real("delta", options.delta, above=0.0, below=1.0, remedy="choose far less than 1 / individuals"),
        level=options.level,
        season_amplitudes=dict(options.season or ()) or None,
        deviation=options.deviation,
        time_scale=options.time_scale,
        sampling_probability=options.sampling_probability,
        sampling=options.sampling,
        std=options.filter_std,
    )
    if options.json:
        return json.dumps(found.to_dict(), ensure_ascii=False)
    call = found.command() or found.python()
    return f"{found}\n\nRun, with your file and its columns:\n{call}"


def _grid(options: argparse.Namespace) -> ts.TimeGrid:
    if options.start is not None and options.zone is None:
        options.zone = "UTC"
    return grid_of(options)
