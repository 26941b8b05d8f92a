"""How many individuals there are in a log: in all, or at each key (docs/proofs/counts.md, docs/proofs/scaling.md)."""

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import Keys, Reading
from opendp_timeseries.design.tiers import Tiers
from opendp_timeseries.design.weighting import Drop, Weighting
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import then
from opendp_timeseries.plugin.participation_count import count_of_log, tiers_of
from opendp_timeseries.plugin.spaces import log_of


def make_individual_count(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    tiers: Tiers | None = None,
    grid: TimeGrid | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count distinct individuals: everybody once, however many rows they have; or once for each of some keys.

    Without a grid, no times are read, and rows without a time count like any other. With one, everybody with at least
    one row on it counts once. Rows without an identifier belong to nobody.

    With ``by`` and ``keys`` there is one number for each key, of the individuals with at least one row of that key.
    Rows of other keys are dropped, and a key without rows has the number 0. The numbers do not add up to the number of
    individuals, as somebody with two keys is in both.

    Nobody is left out: there are a few numbers of each key, one for each of the :class:`~opendp_timeseries.Tiers`,
    which are here of keys. The last holds everybody with the same weight; in those before it, who has many keys weighs
    less. :func:`~opendp_timeseries.smooth` makes of a release of them the numbers of everybody at each key, with
    standard errors that hold for them.

    With a ``key_cap``, one individual is in at most so many of the numbers: of somebody with more keys, that many are
    kept, each equally likely, by a keyed hash as in :func:`~opendp_timeseries.make_participation_count`. So numbers are
    whole, and too low where people have more keys than that.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=…)``, of a number for each key and
    tier; with a ``key_cap`` or without keys it is of whole numbers, ``T="i64"``, and of size 1 without keys. The metric
    is the influence metric. For noise of OpenDP's own, chain :func:`~opendp_timeseries.then_lp_distance` after it,
    which makes a plain number of one count.

    :param input_domain: as in :func:`~opendp_timeseries.make_participation_count`, as are the next three.
    :param key_cap: most keys in which one individual counts, at least 1; by default, all of them. It is public: from
        what is plausible for one individual, never from the log.
    :param tiers: of numbers of keys, without a ``key_cap``; by a rule from how many keys there are if left out.
    :param grid: the period that is looked at; all of the log if left out.
    :param time: with a grid, the column of event times, of a LazyFrame only.
    :raises TypeError: for a wrong domain, metric, grid or ``tiers``.
    :raises ValueError: for a ``key_cap`` below 1, or that or tiers without keys, or both.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> log = {"id": np.array([7, 7, 8]), "step": np.array([0, 5, 0]), "site": np.array(["a", "b", "a"])}
    >>> people = space >> ts.then_individual_count()
    >>> people(log), people.map(1)
    ([2], Influence(l0=1, l2=1, linf=1))
    >>> sites = {"by": "site", "keys": ["a", "b", "c"]}
    >>> places = space >> ts.then_individual_count(**sites, tiers=ts.Tiers(ends=(1,)))
    >>> np.reshape(places(log), (2, 3)).round(3), places.map(1)  # who is at one, and who at two
    (array([[1.284, 0.447, 0.   ],
           [1.095, 0.548, 0.   ]]), Influence(l0=6, l2=1, linf=0.836...))
    >>> places = space >> ts.then_individual_count(**sites, key_cap=2)
    >>> places(log), places.map(1)
    ([2, 1, 0], Influence(l0=2, l2=1.41422, linf=1))
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, timed=grid is not None)
    for name, value in (("key_cap", key_cap), ("tiers", tiers)):
        if value is not None and log["panel"] is None:
            raise Refusal(name, value, "requires `by=` and `keys=`", "leave it out without them")
    one_step = TimeGrid(size=1)  # which says nothing of times
    if grid is not None and check_grid(grid) and grid.start is not None and grid.end is not None:
        one_step = TimeGrid.from_edges([grid.start, grid.end], zone=grid.zone)
    reading = Reading(**log, grid=one_step, once_over=grid)
    return count_of_log(input_domain, input_metric, Count(reading, _weighting(reading, key_cap, tiers)))


def _weighting(reading: Reading, key_cap: int | None, tiers: Tiers | None) -> Weighting:
    if reading.panel is None:
        return Drop(1)
    if key_cap is None:
        return tiers_of(reading, tiers)
    if tiers is not None:
        raise Refusal("tiers", tiers, "must be left out with a `key_cap`")
    remedy = "the most keys in which one individual counts, from what is plausible; or leave it out"
    return Drop(check.integer("key_cap", key_cap, minimum=1, remedy=remedy))


then_individual_count = then(make_individual_count)
