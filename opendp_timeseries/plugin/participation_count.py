"""Counts with a cap on how far one individual can reach (docs/proofs/counts.md and docs/proofs/scaling.md)."""

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.count import Count, Keys
from opendp_timeseries.design.signal import Signal, UnknownSignal
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import Period, TimeGrid, check_grid
from opendp_timeseries.plugin._opendp import signal_domain, then
from opendp_timeseries.plugin.known import Space, transformation
from opendp_timeseries.plugin.spaces import check_readable, descriptor, log_of, signal_metric, unit_of


def make_participation_count(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    participation_cap: int = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    excess: str = "scale",
    time: str | None = None,
) -> dp.Transformation:
    """Count events per time step, with every individual in full in at most ``participation_cap`` steps.

    An individual's events in one step count at most ``step_cap`` times. Rows without an identifier or time, or off the
    grid, are dropped. What becomes of somebody in ``n`` steps, more than the cap of ``I``, is decided by their own
    records and a public rule, so removing one individual changes nothing of what counts of the others:

    * ``excess="scale"``: all of their steps count, each with the weight ``√(I/n)``. That is as sensitive as dropping
      where noise is Gaussian, and loses less. With a step cap, weights bring the ℓ2 norm down to ``M√I``. Weights are
      rounded down to multiples of 2**-16, so the counts are floats on that grid.
    * ``excess="scale_l1"``: the same in ℓ1, with the weight ``I/n``, for Laplace noise.
    * ``excess="drop"``: ``I`` of the steps count in full, each equally likely, whatever the number of events in them,
      by a keyed hash of identifier and step with a fresh key for every release. So counts are whole numbers, as in the
      paper; a filter behind them lowers the noise with no gap.

    With a ``gap``, the steps of an individual are first thinned, in order: the first counts, those less than ``gap``
    steps after a counted one do not, and so on. The last is left out, too, if it is less than ``gap`` steps before the
    first around the cycle of the grid, as filters wrap around. Only then is the cap applied. Behind a filter a gap
    saves most of the noise, as nobody can pile up within the filter's width; without one it changes nothing but the
    counts.

    With ``by`` and ``keys`` the result is a panel: one series per key, one after the other, in the order of the keys.
    The participation cap then holds over the whole panel, for an individual's pairs of key and step; the gap holds
    within each series. Rows of other keys are dropped, and a key without rows has a series of zeros. With a
    ``key_cap``, an individual counts at each step in at most that many series, chosen at random with equal chances,
    before gap and participation cap are applied. With ``key_cap=1`` totals over series are as little sensitive as a
    single one: see :func:`~opendp_timeseries.make_totals`.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=grid.size)``, with whole numbers
    ``T="i64"``, or ``len(keys)`` times that size, with the influence metric, which is what amplification by subsampling
    needs. For noise of OpenDP's own, chain :func:`~opendp_timeseries.then_lp_distance` after it.

    :param input_domain: :func:`~opendp_timeseries.event_log_domain`, or the domain of a Polars LazyFrame in
        OpenDP's own Contexts.
    :param input_metric: ``dp.symmetric_distance()`` (individuals added or removed) or
        ``dp.change_one_distance()`` (replaced); :func:`~opendp_timeseries.period_distance` (within a period), with
        which caps and gap hold in each period by itself; of a LazyFrame, ``dp.symmetric_id_distance(…)``, which names
        the identifier column, or ``dp.change_one_id_distance(…)``, which costs as much as two individuals.
    :param grid: the public grid of time steps.
    :param participation_cap: ``I``, steps in which one individual counts in full; more than ``grid.size`` means
        ``grid.size``.
    :param step_cap: ``M``, events per individual and step.
    :param gap: least distance, in steps, between two steps in which one individual counts; 1 (default) is no gap.
        Choose it from what is plausible, as the cap.
    :param by: the column that tells the series of a panel apart.
    :param keys: public, never from the data: distinct strings, or distinct integers, compared with the column as text.
    :param key_cap: most series of a panel in which one individual counts at one step; by default, all of them.
    :param excess: what becomes of an individual in more steps than the cap: ``"scale"``, ``"scale_l1"`` or ``"drop"``.
    :param time: the column of event times, of a LazyFrame only: an event-log domain names its own.
    :raises TypeError: for a wrong domain, metric or grid, or a public parameter that was left out.
    :raises ValueError: for a cap below 1, a gap below 1 or above the number of steps, another ``excess``, or a step of
        the grid that lies in two periods of the metric.

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
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, periods=True)
    caps = {"participation_cap": participation_cap, "step_cap": step_cap, "gap": gap, "key_cap": key_cap}
    return counted(input_domain, input_metric, Count(**log | caps, grid=grid, excess=excess))


def counted(input_domain: dp.Domain, input_metric: dp.Metric, count: Count) -> dp.Transformation:
    """Return the transformation from a log to a count."""
    check_readable(count.by_step, input_domain)
    bits, by_step = count.resolution_bits, count.by_step

    def function(table: Any) -> NDArray[Any]:
        counts = count.totals(engine_of(table).count(table, by_step, fresh_key()))  # in units of 2**-bits
        if bits == 0:
            return counts
        # They are far below; clamped to where floats are exact, whatever the log.
        return np.ldexp(np.clip(counts, -(2**53), 2**53).astype(np.float64), -bits)

    return count_transformation((input_domain, input_metric), function, count)


def fresh_key() -> bytes:
    """Return a new secret key: one for every release. Tests replace this function to inject theirs."""
    return secrets.token_bytes(16)


def count_transformation(space: Space, function: Callable[[Any], NDArray[Any]], count: Count) -> dp.Transformation:
    """Wrap a function that returns counts, with the stability map of its caps (docs/proofs/counts.md).

    The function must let one individual change no more than the caps allow, in steps that are ``gap`` apart.
    """
    output_space = signal_domain("f64" if count.resolution_bits else "i64", count.size), signal_metric(Signal(count))
    return transformation(space, output_space, function, count.influence)


then_participation_count = then(make_participation_count)


def make_participation_total(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    grid: TimeGrid,
    *,
    participation_cap: int = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    per: TimeGrid | str | int | None = None,
    time: str | None = None,
) -> dp.Transformation:
    """Count pairs of an individual and a step: one number, or one for each of a few periods.

    It is the sum of a :func:`~opendp_timeseries.make_participation_count`, with its own cap, which can be so large that
    hardly anybody exceeds it: the noise on one number grows only with the steps of one individual.
    :meth:`.Series.with_total` brings a series to the level that it says.

    Somebody in ``n`` steps, more than the cap of ``L``, counts in each by ``L/n``, with no random choice, and so as
    ``L`` in all. Weights are rounded down to multiples of 2**-16.

    The output is the domain ``vector_domain(atom_domain(T="f64", nan=False), size=1)``, or of a number for each key and
    period, in this order, with the influence metric. One individual moves all numbers together by at most ``L·M`` in
    ℓ1, and no number by more than its steps. For one number over all keys, chain :func:`~opendp_timeseries.then_totals`
    after it, with one group.

    All other parameters are those of :func:`~opendp_timeseries.make_participation_count`. With a ``step_cap`` above 1,
    events are counted rather than pairs; with ``keys``, there is a number for each.

    :param participation_cap: ``L``, steps in which one individual counts in full. It is public, from what is plausible
        for the heaviest: noise grows with it, and a cap that many exceed makes the total too low.
    :param per: what each number is a total of: a unit of the calendar such as ``"1mo"``; so many steps, if steps are
        integers; or a grid, each of whose steps joins steps of this one. By default there is one total of all steps,
        or one for each period if the unit of privacy is within a period.
    :raises TypeError, ValueError: as there, and for a ``per`` that does not divide the grid, or that joins steps of two
        periods of the metric.

    >>> import numpy as np, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
    >>> log = {"id": np.array([1, 1, 1, 1, 2, 2]), "step": np.array([0, 1, 2, 2, 3, 3])}
    >>> total = space >> ts.then_participation_total(ts.TimeGrid(size=4), participation_cap=10)
    >>> total(log), total.map(1)
    ([4.0], Influence(l0=1, l2=4, linf=4))
    >>> by_halves = space >> ts.then_participation_total(ts.TimeGrid(size=4), participation_cap=2, per=2)
    >>> np.round(by_halves(log), 3), by_halves.map(1)  # 2/3 for each of three steps
    (array([1.333, 1.667]), Influence(l0=2, l2=2, linf=2))
    """
    log = log_of(input_domain, input_metric, by=by, keys=keys, time=time, periods=True)
    caps = {"participation_cap": participation_cap, "step_cap": step_cap, "gap": gap, "key_cap": key_cap}
    totals = _grid_of_totals(check_grid(grid), per, log["unit"])
    return counted(input_domain, input_metric, Count(**log | caps, grid=totals, pooled=grid, excess="scale_l1"))


def _grid_of_totals(grid: TimeGrid, per: TimeGrid | str | int | None, unit: Unit) -> TimeGrid:
    if isinstance(per, TimeGrid):
        return per
    period = unit.period if per is None else Period(per, grid.zone if isinstance(per, str) else None)
    starts = [0] if period is None else period.starts(grid).tolist()
    if grid.is_integer:
        if starts[1:] and grid.size % starts[1]:
            raise ValueError(f"per ({starts[1]}) must divide the {grid.size} steps of the grid")
        return TimeGrid(size=len(starts))
    # A number stands for what its period has of the grid.
    return TimeGrid.from_edges([f"{edge}Z" for edge in grid.edges()[[*starts, grid.size]]], zone=grid.zone)


then_participation_total = then(make_participation_total)


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
        raise TypeError(f"input_domain ({input_domain}) is not of counts made elsewhere; use count_signal_domain(size)")
    grid = TimeGrid(size=space.size) if grid is None else check_grid(grid)
    if grid.size != space.size:
        raise ValueError(f"grid ({grid.size} steps) must have the size of the signal ({space.size})")
    caps: dict[str, Any] = {"participation_cap": participation_cap, "step_cap": step_cap, "gap": gap}
    count = Count(**caps, source=None, grid=grid, unit=unit_of(input_metric))

    def function(signal: Any) -> NDArray[np.int64]:
        counts = np.asarray(signal)
        if not input_domain.member(counts):
            found = f"found dtype {counts.dtype} of shape {counts.shape}"  # which are public; the numbers are not
            raise TypeError(f"a count signal must be a row of {grid.size} integers, {found}")
        if counts.dtype == np.uint64:
            counts = np.minimum(counts, np.uint64(np.iinfo(np.int64).max))
        return counts.astype(np.int64)

    return count_transformation((input_domain, input_metric), function, count)


then_assume_participation = then(make_assume_participation)
