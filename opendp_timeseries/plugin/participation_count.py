"""Counts of events in each step, with or without a cap (docs/proofs/counts.md and docs/proofs/scaling.md)."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.grouping import grouping_of
from opendp_timeseries.design.reading import Keys, Reading, bound_in_a_step
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.tiers import Tiers, tiers_for
from opendp_timeseries.design.weighting import Drop, Weighting, limit_steps
from opendp_timeseries.grid import Period, TimeGrid, check_grid
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin._opendp import signal_domain, then
from opendp_timeseries.plugin.mechanisms import Space, transformation
from opendp_timeseries.plugin.spaces import check_readable, descriptor, log_of, signal_metric, unit_of


def make_participation_count(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    participation_cap: int | None = None,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    value: str | None = None,
    bound: int | None = None,
    typical: int | None = None,
    total_bound: int | None = None,
    excess: str | None = None,
    norm: str | None = None,
    per: TimeGrid | str | int | None = None,
    tiers: Tiers | None = None,
    groups: Mapping[str, object] | None = None,
    shares: Sequence[float] | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count, in each step, the individuals who take part; or their events, or add up a value of these.

    An individual's events in one step count at most ``step_cap`` times. Rows without an identifier or time, or off the
    grid, are dropped. How much somebody counts who is in many steps is decided by their own records and a public rule,
    so removing one individual changes nothing of what counts of the others.

    Without a ``participation_cap``, everybody counts in all of their steps, in a few series of the whole grid, the
    :class:`~opendp_timeseries.Tiers`. The last holds everybody with the same weight: right on average, and noisy. In
    those before it, who comes often weighs less, so that they are less noisy. All weights of an individual together are
    as sensitive as one series with a cap, so one scale of noise does for all. :func:`~opendp_timeseries.smooth` makes
    of them the series of the true counts. Totals and filters need a cap.

    With a ``participation_cap`` of ``I`` there is one series. What becomes of somebody in ``n`` steps, more than ``I``:

    * ``excess="downweight"``: all of their steps count, each with the weight ``√(I/n)``. That is as sensitive as
      dropping where noise is Gaussian, and loses less. With a step cap, weights bring the ℓ2 norm down to ``M√I`` (ℓ2
      clipping of each individual's counts). Weights are rounded down to multiples of 2**-16, so the counts are floats
      on that grid.
    * ``excess="downweight"`` with ``norm="l1"``: the same in ℓ1, with the weight ``I/n``, for Laplace noise. ``per``
      then adds up steps to totals. Somebody counts as at most ``I`` in all of them together, so that the cap can be so
      large that hardly anybody exceeds it: the noise on one number grows only with the steps of one individual, and
      :meth:`.Series.with_total` brings a series to the level that it says.
    * ``excess="drop"``: ``I`` of the steps count in full, each equally likely, whatever the number of events in them,
      by a keyed hash of identifier and step with a fresh key for every release. So counts are whole numbers, as in the
      paper; a filter behind them lowers the noise with no gap.

    With a ``gap``, the steps of an individual are first thinned, in order: the first counts, those less than ``gap``
    steps after a counted one do not, and so on. The last is left out, too, if it is less than ``gap`` steps before the
    first around the cycle of the grid, as filters wrap around. Only then are they weighted. Behind a filter a gap
    saves most of the noise, as nobody can pile up within the filter's width; without one it changes nothing but the
    counts.

    With ``value`` the rows are not counted, but numbers in a column are added up, in whole units, of which one
    individual has at most the ``bound`` in one step. A number is rounded to the nearest whole one, halves up; what is
    missing, no number, not finite or less than a half adds nothing, and its row is dropped. No cell raises. Everything
    else is as for events, which are values of 1 with the bound ``step_cap``.

    With ``by`` and ``keys`` the result is a panel: one series per key, one after the other, in the order of the keys.
    The participation cap then holds over the whole panel, for an individual's pairs of key and step; the gap holds
    within each series. Rows of other keys are dropped, and a key without rows has a series of zeros. With a
    ``key_cap``, an individual counts at each step in at most that many series, chosen at random with equal chances,
    before all else. With ``key_cap=1`` totals over series are as little sensitive as a
    single one: see :func:`~opendp_timeseries.make_totals`.

    With ``groups`` of the keys, without a cap, the sums over each of them are further series, after those of the keys,
    an outer group before those in it. Nobody is left out of any: people are weighed by their squares over all levels
    together, each with its share, and somebody at one key at a time weighs in all of these as in one series. So the
    noise is that of one series, too, at all keys and groups; the larger a level's share, the less it is in counts.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=grid.size)``, with whole numbers
    ``T="i64"``, or ``len(keys)`` times that size, and that for each tier, with the influence metric, which is what
    amplification by subsampling needs. For noise of OpenDP's own, chain :func:`~opendp_timeseries.then_lp_distance`
    after a count with a cap.

    :param input_domain: :func:`~opendp_timeseries.event_log_domain`, or the domain of a Polars LazyFrame in
        OpenDP's own Contexts.
    :param input_metric: ``dp.symmetric_distance()`` (individuals added or removed) or
        ``dp.change_one_distance()`` (replaced); :func:`~opendp_timeseries.period_distance` (within a period), with
        which caps and gap hold in each period by itself; of a LazyFrame, ``dp.symmetric_id_distance(…)``, which names
        the identifier column, or ``dp.change_one_id_distance(…)``, which costs as much as two individuals.
    :param grid: the public grid of time steps.
    :param participation_cap: ``I``, steps in which one individual counts in full. It is public, from what is plausible
        for one individual, never from the log; None for tiers.
    :param step_cap: ``M``, events per individual and step.
    :param gap: least distance, in steps, between two steps in which one individual counts; 1 (default) is no gap.
        Choose it from what is plausible, as the cap.
    :param by: the column that tells the series of a panel apart.
    :param keys: public, never from the data: distinct strings, or distinct integers, compared with the column as text.
    :param key_cap: most series of a panel in which one individual counts at one step; by default, all of them.
    :param value: the column of numbers that are added up; rows are counted if left out.
    :param bound: with a value, the most of one individual in one step, in whole units: public, from what is plausible,
        and never from the log.
    :param typical: without a cap, how much somebody has in a usual step, by which tiers begin: one event, or of the
        bound 1 and its binary logarithm, or its cube root if that is more, if left out. Public; a matter of
        accuracy alone, as is the next one.
    :param total_bound: without a cap, how much one individual has at most in all steps together, by which tiers end.
        Those who have more weigh less in the last one.
    :param excess: what becomes of an individual in more steps than the cap: ``"downweight"``, unless said otherwise, or
        ``"drop"``.
    :param norm: in which people are weighed down: ``"l2"``, unless said otherwise, or ``"l1"``.
    :param per: what each number is a total of: ``"all"`` steps of the grid; a unit of the calendar such as ``"1mo"``;
        so many steps, if steps are integers; or a grid, each of whose steps joins steps of this one.
    :param tiers: of a count without a cap, public, and never from the data; by a rule from the number of steps alone if
        left out.
    :param groups: of all keys, by name: ``{"city": keys}``, or nested, ``{"city": {"north": […], "south": […]}}``, to
        one depth everywhere. Without a cap only.
    :param shares: of the norm that the keys have, the groups right around them, and so on outwards, by default
        (.8, .2) or (.6, .2, .2); those of groups are rounded to sixteenths, and the keys have what is left.
    :param time: the column of event times, of a LazyFrame only: an event-log domain names its own.
    :raises TypeError: for a wrong domain, metric or grid, or a public parameter that was left out.
    :raises ValueError: for a cap below 1, a gap below 1 or above the number of steps, an ``excess``, ``norm``, ``per``
        or ``tiers`` that does not fit, or a step that lies in two periods of the metric.

    >>> import opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2)
    >>> count.map(1)
    Influence(l0=4, l2=1.41422, linf=1)
    >>> import numpy as np
    >>> count({"id": np.array([7, 7, 8]), "step": np.array([0, 0, 2])})
    [1.0, 0.0, 1.0, 0.0]
    >>> np.round(count({"id": np.full(4, 7), "step": np.arange(4)}), 4)  # √(2/4) in each
    array([0.7071, 0.7071, 0.7071, 0.7071])
    >>> by_halves = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2, norm="l1", per=2)
    >>> np.round(by_halves({"id": np.full(3, 7), "step": np.arange(3)}), 3), by_halves.map(1)  # 2/3 for each step
    (array([1.333, 0.667]), Influence(l0=2, l2=2, linf=2))
    >>> count = space >> ts.then_participation_count(ts.TimeGrid(size=4), tiers=ts.Tiers(ends=(1,), share=0.75))
    >>> by_tier = np.reshape(count({"id": np.array([7, 7, 8]), "step": np.array([0, 3, 3])}), (2, 4))
    >>> by_tier.round(3)  # who is there once, and who twice
    array([[0.559, 0.   , 0.   , 1.46 ],
           [0.433, 0.   , 0.   , 0.866]])
    >>> count.map(1)
    Influence(l0=8, l2=1, linf=0.901...)
    >>> minutes = space >> ts.then_participation_count(ts.TimeGrid(size=4), participation_cap=2, value="min", bound=60)
    >>> minutes({"id": np.array([7, 7, 8]), "step": np.array([0, 0, 2]), "min": np.array([12.5, 30, np.nan])})
    [43.0, 0.0, 0.0, 0.0]
    >>> minutes.map(1)
    Influence(l0=4, l2=84.8529, linf=60)
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, value=value, periods=True)
    grouping = grouping_of(groups, log["panel"], shares)
    reading = Reading(
        **log, grid=grid, step_cap=bound_in_a_step(value, bound, step_cap), gap=gap, key_cap=key_cap, grouping=grouping
    )
    sizes = {"typical": typical, "total_bound": total_bound}
    weighting = _weighting(reading, participation_cap, tiers, sizes, excess=excess, norm=norm, per=per)
    return count_of_log(input_domain, input_metric, Count(reading, weighting, _grid_of_totals(grid, per)))


def _weighting(
    reading: Reading, cap: int | None, tiers: Tiers | None, sizes: Mapping[str, int | None], **options: Any
) -> Weighting:
    """Return the weighting that a constructor is asked for.

    :param sizes: what tiers go by that are not given.
    :param options: those of a count with a cap.
    """
    if cap is not None or tiers is not None:
        for name, size in sizes.items():
            if size is not None:
                what = "with a participation_cap" if tiers is None else "with tiers, which say it"
                raise Refusal(name, size, f"must be left out {what}")
    if cap is not None:
        if tiers is not None:
            raise Refusal("tiers", tiers, "must be left out with a `participation_cap`")
        excess = "downweight" if options["excess"] is None else options["excess"]
        return limit_steps(cap, excess=excess, norm=options["norm"])
    for name, value in options.items():
        if value is not None:
            raise Refusal(name, value, "requires a `participation_cap`, from what is plausible")
    return tiers_of(reading, tiers, **sizes)


def tiers_of(reading: Reading, tiers: Tiers | None, **sizes: int | None) -> Tiers:
    """Return the tiers that are given, or else those by default."""
    if tiers is not None and not isinstance(tiers, Tiers):
        raise TypeRefusal("tiers", tiers, "must be given as Tiers(ends=(10, 50))")
    return tiers_for(reading, **sizes) if tiers is None else tiers


def _grid_of_totals(grid: TimeGrid, per: TimeGrid | str | int | None) -> TimeGrid | None:
    if per is None or isinstance(per, TimeGrid):
        return per
    starts = [0] if per == "all" else Period(per, grid.zone if isinstance(per, str) else None).starts(grid).tolist()
    if grid.is_integer:
        if starts[1:] and grid.size % starts[1]:
            raise Refusal("per", Quoted(starts[1]), f"must divide the {grid.size} steps of the grid")
        return TimeGrid(size=len(starts))
    # A number stands for what its period has of the grid.
    return TimeGrid.from_edges([f"{edge}Z" for edge in grid.edges()[[*starts, grid.size]]], zone=grid.zone)


def count_of_log(input_domain: dp.Domain, input_metric: dp.Metric, count: Count) -> dp.Transformation:
    """Return the transformation from a log to a count."""
    check_readable(count.reading, input_domain)
    bits = count.resolution_bits

    def function(table: object) -> NDArray[np.int64 | np.float64]:
        counts = count.add_up(engine_of(table).count(table, count, fresh_key()))  # in units of 2**-bits
        if bits == 0:
            return counts
        # Counts are far below; sums of values stop there, where floats are exact, whatever the log.
        return np.ldexp(np.clip(counts, -(2**53), 2**53).astype(np.float64), -bits)

    return count_transformation((input_domain, input_metric), function, count)


def fresh_key() -> bytes:
    """Return a new secret key: one for every release. Tests replace this function to inject theirs."""
    return secrets.token_bytes(16)


def count_transformation(
    space: Space, function: Callable[[object], NDArray[np.int64 | np.float64]], count: Count
) -> dp.Transformation:
    """Wrap a function that returns counts, with the stability map of its caps (docs/proofs/counts.md).

    The function must let one individual change no more than the caps allow, in steps that are ``gap`` apart.
    """
    output_space = signal_domain("f64" if count.resolution_bits else "i64", count.size), signal_metric(Signal(count))
    return transformation(space, output_space, function, count.influence)


then_participation_count = then(make_participation_count)


def make_assume_participation(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    *,
    participation_cap: int = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    grid: TimeGrid | None = None,
) -> dp.Transformation:
    """Assume that no individual is in more than ``participation_cap`` steps of a count made elsewhere, ``gap`` apart.

    The numbers stay as they are. **Nothing enforces the assumption**: the guarantee of all that follows holds only if
    it is true (Koga, Meehan & Chaudhuri 2022, Assumption 1; their Proposition 1 says how the guarantee degrades where
    it is not). Where you have the event log, use :func:`~opendp_timeseries.make_participation_count`, which enforces
    its caps.

    :param input_domain: :func:`~opendp_timeseries.count_signal_domain`.
    :param input_metric: ``dp.symmetric_distance()`` or ``dp.change_one_distance()``, in individuals; with
        :func:`~opendp_timeseries.period_distance` the assumption is about each individual in each period by itself.
    :param participation_cap: ``I``, steps in which one individual may be counted.
    :param step_cap: ``M``, how often one individual may be counted in one step.
    :param gap: least distance, in steps, between two steps in which one individual is counted, around the cycle of the
        grid too; 1 (default) is no gap.
    :param grid: the public grid of the count, for records and figures; integer steps if left out.
    :raises TypeError: for a wrong domain or metric, or a cap that was left out.
    :raises ValueError: for a cap below 1, or a gap below 1 or above the number of steps.
    """
    space = descriptor(input_domain, UnknownSignal)
    if space is None:
        raise TypeRefusal(
            "input_domain", input_domain, "is not of counts made elsewhere", "use count_signal_domain(size)"
        )
    grid = TimeGrid(size=space.size) if grid is None else check_grid(grid)
    if grid.size != space.size:
        raise Refusal("grid", Quoted(f"{grid.size} steps"), f"must have the size of the signal ({space.size})")
    check.required("participation_cap", participation_cap, "choose it from what is plausible, never from the log")
    reading = Reading(source=None, grid=grid, unit=unit_of(input_metric), step_cap=step_cap, gap=gap)
    count = Count(reading, Drop(participation_cap))

    def function(signal: object) -> NDArray[np.int64]:
        counts = np.asarray(signal)
        if not input_domain.member(counts):
            shape = f"found dtype {counts.dtype} of shape {counts.shape}"  # which are public; the numbers are not
            raise TypeRefusal("a count signal", ..., f"must be a row of {grid.size} integers, {shape}")
        if counts.dtype == np.uint64:
            counts = np.minimum(counts, np.uint64(np.iinfo(np.int64).max))
        return counts.astype(np.int64)

    return count_transformation((input_domain, input_metric), function, count)


then_assume_participation = then(make_assume_participation)
