"""Things that many tests need, made in one place: what they are made of is said here, and nowhere else."""

from dataclasses import fields, replace

import opendp.prelude as dp

import opendp_timeseries as ts
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Reading
from opendp_timeseries.design.weighting import Drop, limit_steps

#: How constructors are told what becomes of those in more steps than the cap: dropped, or weighed down in a norm.
EXCESS = {"drop": {"excess": "drop"}, "l2": {"excess": "downweight"}, "l1": {"excess": "downweight", "norm": "l1"}}


def count(*, participation_cap=1, excess="drop", tiers=None, typical=None, per=None, **read):
    """Make a count of flat fields: of what is read, how individuals are weighted, and what is added up.

    Tiers are of steps at the step cap, unless a typical size is said.
    """
    weighting = limit_steps(participation_cap, **EXCESS[excess])
    if tiers is not None:
        weighting = replace(tiers, typical=read.get("step_cap", 1) if typical is None else typical)
    return Count(Reading(**read), weighting, per)


def influence_of(cap, size, *, individuals=1, step_cap=1, replaced=False, **more):
    """Make the influence of individuals who are in at most so many steps of a count."""
    return count_influence(individuals, participation_cap=cap, step_cap=step_cap, size=size, replaced=replaced, **more)


def context_of(data, shares=1, *, space=None, d_in=1, **budget):
    """Make a Context with an equal share of a budget for each of so many queries of a log of ``id`` and ``time``."""
    domain, metric = space or (ts.event_log_domain(identifier="id", time="time"), dp.symmetric_distance())
    return ts.compositor(data, (metric, d_in), dp.loss_of(**budget), split_evenly_over=shares, domain=domain)


def changed(made, **changes):
    """Make a count that differs in these fields."""
    flat = {field.name: getattr(made.reading, field.name) for field in fields(Reading)} | {"per": made.per}
    if made.cap is None:
        flat |= {"tiers": made.weighting, "typical": made.weighting.typical}
    else:
        excess = "drop" if isinstance(made.weighting, Drop) else made.weighting.norm
        flat |= {"participation_cap": made.cap, "excess": excess}
    return count(**flat | changes)


def space(metric=None, *, identifier="id", time="time"):
    """Make the space of event logs in which individuals are added or removed, unless another metric is given."""
    return ts.event_log_domain(identifier=identifier, time=time), metric or dp.symmetric_distance()


def context(log, loss=None, shares=1, *, distance=1, metric=None, time="time", **split):
    """Make a Context of a log, in equal shares if no split is given, with (ε, δ) = (1, 1e-6) if no loss is."""
    domain, metric = space(metric, time=time)
    loss = dp.loss_of(epsilon=1.0, delta=1e-6) if loss is None else loss
    split = split or {"split_evenly_over": shares}
    return ts.compositor(log, domain=domain, privacy_unit=(metric, distance), privacy_loss=loss, **split)


def then_total(grid, **options):
    """Make the stage that counts pairs of an individual and a step: in one number, if nothing else is said."""
    return ts.then_participation_count(grid, **{"norm": "l1", "per": "all"} | options)
