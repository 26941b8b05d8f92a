"""Things that many tests need, made in one place: what they are made of is said here, and nowhere else."""

from dataclasses import fields, replace

import opendp_timeseries as ts
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weighting import Drop, capped

#: How constructors are told what becomes of those in more steps than the cap: dropped, or weighed down in a norm.
EXCESS = {"drop": {"excess": "drop"}, "l2": {"excess": "downweight"}, "l1": {"excess": "downweight", "norm": "l1"}}


def count(*, participation_cap=1, excess="drop", tiers=None, typical=None, per=None, **read):
    """Make a count of flat fields: of what is read, how individuals are weighted, and what is added up.

    Tiers are of steps at the step cap, unless a typical size is said.
    """
    weighting = capped(participation_cap, **EXCESS[excess])
    if tiers is not None:
        weighting = replace(tiers, typical=read.get("step_cap", 1) if typical is None else typical)
    return Count(Reading(**read), weighting, per)


def changed(made, **changes):
    """Make a count that differs in these fields."""
    flat = {field.name: getattr(made.reading, field.name) for field in fields(Reading)} | {"per": made.per}
    if made.cap is None:
        flat |= {"tiers": made.weighting, "typical": made.weighting.typical}
    else:
        excess = "drop" if isinstance(made.weighting, Drop) else made.weighting.norm
        flat |= {"participation_cap": made.cap, "excess": excess}
    return count(**flat | changes)


def then_total(grid, **options):
    """Make the stage that counts pairs of an individual and a step: in one number, if nothing else is said."""
    return ts.then_participation_count(grid, **{"norm": "l1", "per": "all"} | options)
