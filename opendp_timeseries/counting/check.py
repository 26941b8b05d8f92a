"""A private look at a log before anything is spent: which rows would be counted, and what the caps would lose."""

import math
from dataclasses import dataclass, replace

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries.counting.engines import engine_of
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.reading import MAX_BOUND, Keys, Reading, Source, bound_in_a_step, panel_of
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weighting import Drop, Weighting, limit_steps
from opendp_timeseries.grid import Period, TimeGrid, check_grid


@dataclass(frozen=True, kw_only=True)
class LogCheck:
    """Findings of :func:`~opendp_timeseries.check_log`. **Private**: exact facts about the log, which nothing protects.

    Every row of the log is counted in ``rows``, and in at most one of the eight numbers below it, the first that holds.
    """

    rows: int
    missing_identifier: int
    """Rows of nobody: the identifier is missing."""
    unknown_identifier: int
    """Rows of nobody: the identifier is of a type that is not known, in a column of objects."""
    missing_time: int
    """Rows whose time is missing."""
    unreadable_time: int
    """Rows whose time is a text that is no time, or a number that is no step."""
    unknown_time: int
    """Rows whose time is of a type that is not known, in a column of objects."""
    off_grid: int
    """Rows before the first step or after the last."""
    unknown_key: int | None
    """Rows of a panel whose key is missing, or not listed; None for one series."""
    no_value: int | None
    """Rows of no value, where values are added up: it is missing, is no finite number, or rounds to 0 or less. None
    where rows are counted."""
    individuals: int
    """Individuals with a row on the grid."""
    individuals_over_cap: int
    """Individuals in more steps than the participation cap, of those that the gap leaves: they lose some, or weigh
    less."""
    events_lost_share: float
    """By how much the counts are too low in all, from 0 to 1: what the gap and the two caps leave out, or what smaller
    weights take away."""
    excess: str = "drop"
    """What was to become of individuals in more steps than the participation cap."""
    gap: int = 1
    """The gap that was asked for."""
    steps_within_gap: int = 0
    """Steps of individuals that the gap leaves out, over all of them."""
    events_within_gap_share: float = 0.0
    """The share of the events on the grid that are in those steps."""
    key_cap: int | None = None
    """The cap on keys that was asked for."""
    participation_cap: int | None = None
    """The cap on steps that was asked for; None if everybody counts in all of theirs."""
    step_cap: int = 1
    """The cap on events of an individual in a step, or the bound of their values, that was asked for."""
    period: Period | None = None
    """The period that was asked for; individuals are then counted in each period in which they are."""

    @property
    def without_identifier(self) -> int:
        """Rows of nobody."""
        return self.missing_identifier + self.unknown_identifier

    @property
    def without_time(self) -> int:
        """Rows of somebody, without a time that could be read."""
        return self.missing_time + self.unreadable_time + self.unknown_time

    def _share(self, causes: dict[str, int]) -> str:
        parts = [f"{number} {cause}" for cause, number in causes.items() if number]
        return f" ({sum(causes.values()) / self.rows:.1%} of all rows): {', '.join(parts)}" if parts else ""

    def __str__(self) -> str:
        what, gaps = "events" if self.no_value is None else "values", []
        capped = {
            "steps": self.participation_cap is not None,
            "keys at a time": self.key_cap is not None,
            f"{what} in a step": self.step_cap > 1 or self.participation_cap is not None,
        }
        on = [f"on {name}" for name, is_asked in capped.items() if is_asked]
        by = [f"the caps {', '.join(on[:-1])} and {on[-1]}"] if len(on) > 1 else [f"the cap {name}" for name in on]
        if self.gap > 1:
            by = ["the gap", *by]
            gaps = [
                f"{self.steps_within_gap} steps of individuals are less than {self.gap} from one that is counted, with"
                f" {self.events_within_gap_share:.1%} of the {what} on the grid"
            ]
        identifiers = {"missing": self.missing_identifier, "of a type that is not known": self.unknown_identifier}
        times = {
            "missing": self.missing_time,
            "in a form that is not read": self.unreadable_time,
            "of a type that is not known": self.unknown_time,
        }
        within = "" if self.period is None else f", each within {self.period},"
        weighs = self.excess != "drop" and self.participation_cap is not None
        taken = "left out, or weighed down," if weighs else "left out"
        lost = f"{taken} by {' and '.join(by)}" if by else "further ones of somebody who counts once in the step"
        lines = [
            "PRIVATE: do not publish",
            f"{self.rows} rows were read",
            f"{self.without_identifier} of them have no identifier{self._share(identifiers)}",
            f"{self.without_time} have no time that could be read{self._share(times)}",
            f"{self.off_grid} are off the grid",
            *([] if self.unknown_key is None else [f"{self.unknown_key} have a key that is missing or not listed"]),
            *([] if self.no_value is None else [f"{self.no_value} have no value, or one that rounds to 0 or less"]),
            f"{self.individuals} individuals{within} are on the grid",
            *gaps,
            *([f"{self.individuals_over_cap} of them are in more steps than the participation cap"] * capped["steps"]),
            f"{self.events_lost_share:.1%} of the {what} on the grid are {lost}"
            if self.individuals
            else "Nothing would be counted, with any caps",
        ]
        return "\n".join(lines)


def check_log(
    table: object,
    *,
    identifier: str,
    time: str,
    grid: TimeGrid,
    participation_cap: int | None = check.REQUIRED,
    step_cap: int = 1,
    gap: int = 1,
    by: str | None = None,
    keys: Keys | None = None,
    key_cap: int | None = None,
    value: str | None = None,
    bound: int | None = None,
    excess: str = "downweight",
    norm: str | None = None,
    period: str | int | None = None,
) -> LogCheck:
    """Look at a log before it is counted: are its rows read, and what would the gap and the caps leave out? Private.

    This is for whoever is trusted with the log, to find a wrong column, time format, zone or year before a budget is
    spent. Its numbers are exact, and no guarantee covers them: publish none, and choose no cap or grid by them that is
    then called public. Where a cap must come from the log, buy
    :func:`~opendp_timeseries.make_participation_histogram`.

    :param table: a log, as :func:`~opendp_timeseries.event_log_domain` describes them.
    :param identifier: name of the column that tells individuals apart.
    :param time: name of the column of event times.
    :param grid: the grid of the count that is planned.
    :param participation_cap: ``I``, steps per individual; None if there is none, as before a private series.
    :param step_cap: ``M``, events per individual and step.
    :param gap: least distance of two counted steps of an individual; 1 is none.
    :param by: the column that tells the series of a panel apart.
    :param keys: the series of the panel.
    :param key_cap: series of one individual at one step. Of what it leaves out only the share of events says something.
    :param value: the column that is added up, up to the ``bound`` in a step.
    :param excess: as of :func:`~opendp_timeseries.make_participation_count`, as is the next one.
    :param period: as of :func:`~opendp_timeseries.period_distance`, in the zone of the grid: an individual within each
        period is then one of the individuals here.
    :raises TypeError: for a table of an unknown kind, or a column of a type that does not serve.
    :raises ValueError: for a column that is missing, a cap below 1, or a gap below 1 or beyond the grid.

    >>> import numpy as np, opendp_timeseries as ts
    >>> log = {"id": np.array(["ann", "ann", "bob", "cy"]), "step": np.array([0, 2, 1, 9])}
    >>> grid = ts.TimeGrid(size=3)
    >>> print(ts.check_log(log, identifier="id", time="step", grid=grid, participation_cap=1, excess="drop"))
    PRIVATE: do not publish
    4 rows were read
    0 of them have no identifier
    0 have no time that could be read
    1 are off the grid
    2 individuals are on the grid
    1 of them are in more steps than the participation cap
    33.3% of the events on the grid are left out by the caps on steps and on events in a step
    """
    grid = check_grid(grid)
    within = None if period is None else Period(period, grid.zone)
    reading = Reading(
        source=Source(identifier=identifier, time=time, by=by, value=value),
        grid=grid,
        unit=Unit(period=within),
        panel=panel_of(by, keys),
        step_cap=bound_in_a_step(value, bound, step_cap),
        gap=gap,
        key_cap=key_cap,
    )
    check.required("participation_cap", participation_cap, "the cap that is planned, or None for a private series")
    everything = Drop(reading.size)
    cap = everything.cap if participation_cap is None else participation_cap
    weighting = limit_steps(cap, excess=excess, norm=norm)
    engine = engine_of(table)
    tally, steps = engine.tally(table, reading), engine.participation(table, reading)

    def total_of(reading: Reading, weighting: Weighting) -> float:
        # The key decides which steps are lost, not how many.
        counts = engine.count(table, Count(reading, weighting), bytes(16))
        return math.ldexp(int(counts.sum()), -weighting.resolution_bits)

    limit = MAX_BOUND if reading.is_sum else tally.rows + 1
    on_grid = replace(reading, step_cap=limit, gap=1, key_cap=None)
    # Of a file that was folded, there is no more of anybody in a step than the bound.
    events = total_of(on_grid, everything) if reading.is_sum else tally.counted

    def lost_share(reading: Reading, weighting: Weighting) -> float:
        return 1 - total_of(reading, weighting) / events if events else 0.0

    within_gap: dict[str, object] = {}
    if reading.gap > 1:
        near = engine.participation(table, replace(reading, gap=1)).sum() - steps.sum()
        within_gap = {
            "steps_within_gap": int(near),
            "events_within_gap_share": lost_share(replace(reading, step_cap=limit), everything),
        }
    unasked = dict.fromkeys(name for name, column in (("unknown_key", by), ("no_value", value)) if column is None)
    return LogCheck(
        **tally._asdict() | unasked | within_gap,
        period=within,
        individuals=steps.size,
        individuals_over_cap=int(np.count_nonzero(steps > weighting.cap)),
        events_lost_share=lost_share(reading, weighting),
        excess=excess,
        gap=reading.gap,
        key_cap=reading.key_cap,
        participation_cap=participation_cap,
        step_cap=reading.step_cap,
    )
