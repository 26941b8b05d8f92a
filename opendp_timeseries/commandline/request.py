"""What is asked of the log: a series or a panel, its totals, numbers behind means, and of individuals."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import opendp_timeseries as ts
from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.commandline.inputs import chosen, excess_of, keys_and_groups
from opendp_timeseries.plugin.mechanisms import signal_of
from opendp_timeseries.plugin.native import symmetric_distance

#: Counts are whole numbers, and nobody would call this noise.
_MIN_SCALE: Final = 1e-6
#: How many times as much of the budget goes to a level of series as to the number of individuals.
_SERIES_TO_PEOPLE: Final = 9


class Request(NamedTuple):
    """Counts of one log that are released together."""

    count: Any  # the series, or a panel of them
    groups: dict[str, Any] | None  # of a panel with a cap, whose totals are released behind the same count
    numbers: Any  # of individuals with a value, by which sums of it are divided; None for none
    people: tuple[Any, ...]  # counts of individuals, in all and for each key
    sample: dict[str, Any]  # how steps of the series are sampled

    @classmethod
    def of(cls, options: argparse.Namespace, grid: ts.TimeGrid) -> Request:
        """Make the counts that the options ask for, before any data are read."""
        unit = symmetric_distance()
        if options.period is not None:
            unit = ts.period_distance(options.period, zone=options.zone)
        space = ts.event_log_domain(**chosen(options, "identifier", "time")), unit
        panel, groups = keys_and_groups(options)
        caps = chosen(options, "step_cap", "gap", "value", "bound", "typical", "total_bound") | panel
        if options.participation_cap is not None:
            caps |= {"participation_cap": options.participation_cap, "excess": excess_of(options)}
        elif groups is not None:  # without a cap they are in the count itself
            caps, groups = caps | {"groups": groups}, None
        behind = {} if options.filter_std is None else {"kernel": ts.gaussian_kernel(grid.size, options.filter_std)}

        def counted(**caps: Any) -> Any:
            count = space >> ts.then_participation_count(grid, **caps)
            return count >> ts.then_circulant_filter(**behind) if behind else count

        count, numbers = counted(**caps), None
        if options.mean:
            numbers = counted(**caps | {"bound": 1, "typical": None, "total_bound": None})
        people = [] if not options.people else [space >> ts.then_individual_count(grid=grid)]
        if options.people_by_key or options.people_cap is not None:
            keyed = {"by": options.by, "keys": panel["keys"], "key_cap": options.people_cap}
            people.append(space >> ts.then_individual_count(**keyed, grid=grid))
        return cls(count, groups, numbers, tuple(people), chosen(options, "sampling_probability", "sampling"))

    @property
    def chains(self) -> list[Any]:
        """Return the chain of each release."""
        totals = [] if self.groups is None else [self.count >> ts.then_totals(self.groups)]
        return [self.count, *totals, *self._numbers, *self.people]

    @property
    def _numbers(self) -> list[Any]:
        return [] if self.numbers is None else [self.numbers]

    @property
    def levels(self) -> int:
        """Return how many of these, the first ones, are series or panels."""
        return len(self.chains) - len(self._numbers) - len(self.people)

    def parted(self, releases: Sequence[ts.Release]) -> tuple[list[ts.Release], list[ts.Release], list[ts.Release]]:
        """Return the releases of series, of the numbers behind means, and of numbers of individuals."""
        ends = self.levels, self.levels + len(self._numbers)
        return list(releases[: ends[0]]), list(releases[slice(*ends)]), list(releases[ends[1] :])

    @property
    def relative_scales(self) -> list[float]:
        """Noise that gives each level of series as much of the budget, and the number of individuals less."""
        levels = [1] if self.groups is None else [1, _depth(self.groups)]
        levels += [1 for _ in self._numbers]
        shares = [*levels, *(sum(levels) / _SERIES_TO_PEOPLE for _ in self.people)]
        return [chain.map(1).l2 / math.sqrt(part) for chain, part in zip(self.chains, shares, strict=True)]

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Return how each is sampled: numbers of individuals are not."""
        return [self.sample] * (len(self.chains) - len(self.people)) + [{"sampling_probability": 1.0}] * len(
            self.people
        )

    def measurement(self, scales: Sequence[float], samples: Sequence[Mapping[str, Any]], delta: float) -> Any:
        """Return the measurement with this noise."""
        stated: dict[str, Any] = {} if len(scales) > 1 else {"delta": delta}
        first, *noises = [
            ts.then_subsampled_gaussian(scale, **sample, **stated)
            for scale, sample in zip(scales, samples, strict=True)
        ]
        series = self.count >> first
        if self.groups is not None:
            totals = ts.then_totals(self.groups) >> noises.pop(0)
            series = self.count >> ts.then_composition([first, totals], delta=delta)
        beside = [chain >> noise for chain, noise in zip([*self._numbers, *self.people], noises, strict=True)]
        return ts.make_composition([series, *beside], delta=delta) if beside else series

    def within(self, epsilon: float, delta: float) -> Any:
        """Return the measurement with the least noise that keeps a budget.

        :raises ValueError: if there is none, or it would be next to none.
        """
        check.real("epsilon", epsilon, above=0.0, remedy="1 is a common choice")
        scales = self._scales(epsilon, delta)
        probability, size = self.sample["sampling_probability"], signal_of(self.count).count.grid.size
        design = f"at sampling_probability ({probability:g})"
        if probability * size < 1:
            raise Refusal(
                "sampling_probability",
                probability,
                f"keeps fewer than one of {size} steps on average",
                "choose a greater one",
            )
        if min(scales) < _MIN_SCALE:  # as where δ exceeds the probability that anything of one individual is kept
            raise Refusal(
                "epsilon",
                epsilon,
                f"and delta ({delta:g}) {design} allow a release with next to no noise, which protects nobody",
                "choose smaller ones",
            )
        return self.measurement(scales, self.samples, delta)

    def _scales(self, epsilon: float, delta: float) -> list[float]:
        if len(self.chains) == 1:
            return [ts.least_scale(self.count, epsilon=epsilon, delta=delta, **self.sample)]
        relative = self.relative_scales
        members = [
            chain >> ts.then_subsampled_gaussian(scale, **sample)
            for chain, scale, sample in zip(self.chains, relative, self.samples, strict=True)
        ]
        factor = ts.least_factor(members, epsilon=epsilon, delta=delta)
        return [factor * scale for scale in relative]


def _depth(groups: object) -> int:
    return 1 + max(map(_depth, groups.values())) if isinstance(groups, dict) else 0
