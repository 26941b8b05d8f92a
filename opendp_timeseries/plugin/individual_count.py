"""How many individuals there are in a log: in all, or for each key (docs/proofs/counts.md)."""

import opendp.prelude as dp

from opendp_timeseries import _validate as check
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Keys, Reading
from opendp_timeseries.design.weighting import Drop
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.participation_count import counted
from opendp_timeseries.plugin.spaces import log_of


def make_individual_count(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    grid: TimeGrid | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count distinct individuals: everybody once, however many rows they have; or once for each of some keys.

    Without a grid, no times are read, and rows without a time count like any other. With one, everybody with at least
    one row on it counts once. Rows without an identifier belong to nobody.

    With ``by``, ``keys`` and ``key_cap`` there is one number for each key, of the individuals with at least one row of
    that key. One individual is in at most ``key_cap`` of these numbers: of somebody with more keys, that many are kept,
    each equally likely, by a keyed hash as in :func:`~opendp_timeseries.make_participation_count`. Rows of other keys
    are dropped, and a key without rows has the number 0. The numbers do not add up to the number of individuals, as
    somebody with two keys is in both.

    The output is the domain ``vector_domain(atom_domain(T="i64"), size=len(keys))``, of size 1 without keys, with the
    influence metric. For noise of OpenDP's own, chain :func:`~opendp_timeseries.then_lp_distance` after it, which makes
    a plain number of one count.

    :param input_domain: as in :func:`~opendp_timeseries.make_participation_count`, as are the next three.
    :param key_cap: keys in which one individual counts, at least 1. It is public: from what is plausible for one
        individual, never from the log.
    :param grid: the period that is looked at; all of the log if left out.
    :param time: with a grid, the column of event times, of a LazyFrame only.
    :raises TypeError: for a wrong domain, metric or grid, or keys without a ``key_cap``.
    :raises ValueError: for a ``key_cap`` below 1, or without keys.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> log = {"id": np.array([7, 7, 8]), "step": np.array([0, 5, 0]), "site": np.array(["a", "b", "a"])}
    >>> people = space >> ts.then_individual_count()
    >>> people(log), people.map(1)
    ([2], Influence(l0=1, l2=1, linf=1))
    >>> places = space >> ts.then_individual_count(by="site", keys=["a", "b", "c"], key_cap=2)
    >>> places(log), places.map(1)
    ([2, 1, 0], Influence(l0=2, l2=1.41422, linf=1))
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, timed=grid is not None)
    cap = 1
    if log["panel"] is not None:
        remedy = "the most keys in which one individual counts, from what is plausible"
        check.required("key_cap", check.REQUIRED if key_cap is None else key_cap, f"choose {remedy}")
        cap = check.integer("key_cap", key_cap, minimum=1, remedy=remedy)
    elif key_cap is not None:
        raise ValueError(f"key_cap ({check.shown(key_cap)}) requires by= and keys=; leave it out without them")
    one_step = TimeGrid(size=1)  # which says nothing of times
    if grid is not None and check_grid(grid) and grid.start is not None and grid.end is not None:
        one_step = TimeGrid.from_edges([grid.start, grid.end], zone=grid.zone)
    reading = Reading(**log, grid=one_step, once_over=grid)
    return counted(input_domain, input_metric, Count(reading, Drop(cap)))


then_individual_count = then(make_individual_count)
