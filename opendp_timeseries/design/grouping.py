"""Groups of a panel's keys, such as stations in a city, of which the sums are read beside the keys, in one norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from opendp_timeseries import _validate as check
from opendp_timeseries._json import fields_of
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.design.groups import Groups, Key

#: Shares of the norm are whole numbers of sixteenths, and so are sizes of individuals.
SHARES: Final = 16
#: The share of each level of groups, unless said otherwise; the keys have what is left.
_OF_GROUPS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Levels of a panel, each of which has every key once: 0, of the keys, and 1, 2, … of groups, outwards.

    An individual's size is ``Σ share(level) · Σ (sum of a group in a step)²``, over levels, and over the level's groups
    (at level 0, keys) and all steps.

    :param groups: at each level, of all keys.
    :param shares: of the norm, in sixteenths: of the keys, of the groups right around them, and so on outwards.
    :raises TypeError, ValueError: naming the group, or the share.
    """

    groups: Groups
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        shares = tuple(check.integer("share of a level, in sixteenths", share, minimum=1) for share in self.shares)
        object.__setattr__(self, "shares", shares)
        keys = set(self.groups.innermost)
        for level in range(self.level_count, 0, -1):
            members = dict(self._members(level))
            if missing := sorted(map(str, keys.difference(*members.values()))):
                example = f"beside {next(iter(members))!r}"
                raise Refusal(
                    "every key", ..., "must be in a group of each level", f"put {missing[0]!r} into one {example}"
                )
        if len(shares) != self.level_count + 1 or sum(shares) != SHARES:
            of = f"one for the keys and each of {self.level_count} levels of groups"
            raise Refusal("shares", list(shares), f"must be, in sixteenths, {of}, and add up to {SHARES}")

    def _members(self, level: int) -> list[tuple[str, tuple[Key, ...]]]:
        members = zip(self.groups.members, self.groups.depths, strict=True)
        return [group for group, depth in members if depth == self.level_count - level]

    @property
    def level_count(self) -> int:
        """Number of levels of groups."""
        return max(self.groups.depths) + 1

    @classmethod
    def of(cls, tree: object, keys: Sequence[Key], shares: Sequence[float] | None = None) -> Self:
        """Read a mapping from names to keys, or to such mappings.

        :param keys: of the panel, compared as text.
        :param shares: of the norm, from the keys outwards, which add up to 1. Those of groups are rounded to
            sixteenths, and the keys have what is left.
        :raises TypeError, ValueError: as :meth:`.Groups.of`, and for shares that do not fit.
        """
        groups = Groups.of(tree, keys)
        return cls(groups=groups, shares=_sixteenths(shares, max(groups.depths) + 1))

    def to_dict(self) -> dict[str, object]:
        """Return plain Python objects; :meth:`from_dict` reads them back exactly."""
        return {"groups": self.groups.to_dict(), "shares": list(self.shares)}

    @classmethod
    def from_dict(cls, document: object) -> Self:
        """Read back what :meth:`to_dict` wrote; TypeError or ValueError for anything else."""
        fields = fields_of(document, "grouping", {"groups": list, "shares": tuple[int, ...]})
        return cls(groups=Groups.from_dict(fields["groups"]), shares=fields["shares"])

    def fractions(self) -> list[float] | None:
        """Return the shares as :meth:`of` reads them; None for the default shares."""
        defaults = SHARES - _OF_GROUPS * self.level_count, *[_OF_GROUPS] * self.level_count
        return None if self.shares == defaults else [share / SHARES for share in self.shares]

    def groups_at(self, level: int) -> Groups:
        """Return the groups of a level from 1, the innermost, on; ValueError for one that there is not."""
        return Groups(tuple(self._members(check.integer("level", level, minimum=1, maximum=self.level_count))))

    def size_at(self, keys: int) -> Fraction:
        """Return how large somebody is in one step at so many keys of one group at each level; at one key it is 1."""
        return Fraction(keys * self.shares[0] + keys**2 * sum(self.shares[1:]), SHARES)

    def levels(self, panel: tuple[Key, ...]) -> NDArray[np.int64]:
        """Return a row for each level: in which series each key is read, where groups come after all keys."""
        numbers = {key: number for number, key in enumerate(panel)}
        rows = np.tile(np.arange(len(panel)), (self.level_count + 1, 1))
        members = zip(self.groups.members, self.groups.depths, strict=True)
        for series, ((_, keys), depth) in enumerate(members, len(panel)):
            rows[self.level_count - depth, [numbers[key] for key in keys]] = series
        return rows

    def weights(self, of_series: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the weights of levels, given those of one series: a column for each level, for each column."""
        rows = of_series.tolist()
        levels = [[math.isqrt(weight**2 * share // SHARES) for weight in row for share in self.shares] for row in rows]
        return np.array(levels, dtype=np.int64)


def grouping_of(groups: object, panel: tuple[Key, ...] | None, shares: Sequence[float] | None) -> Grouping | None:
    """Return the grouping that a constructor is asked for; None for none."""
    if groups is None:
        if shares is not None:
            raise Refusal("shares", shares, "require groups, whose levels they are of")
        return None
    if panel is None:
        raise Refusal("groups", ..., "require `by=` and `keys=`, or leave them out")
    return Grouping.of(groups, panel, shares)


def _sixteenths(shares: object, level_count: int) -> tuple[int, ...]:
    if shares is None:
        of_keys = SHARES - _OF_GROUPS * level_count
        if of_keys < 1:
            raise Refusal(
                "shares", ..., f"must be given for {level_count} levels of groups: of the norm, from the keys outwards"
            )
        return (of_keys, *[_OF_GROUPS] * level_count)
    shares = shares.tolist() if isinstance(shares, np.ndarray) else shares
    if isinstance(shares, str) or not isinstance(shares, Sequence) or len(shares) != level_count + 1:
        raise Refusal(
            "shares", shares, f"must list one share for the keys and each of {level_count} levels of groups, outwards"
        )
    numbers = [check.real("share of a level", share, above=0.0, below=1.0) for share in shares]
    _, *of_groups = (round(number * SHARES) for number in numbers)
    sixteenths = (SHARES - sum(of_groups), *of_groups)
    if abs(math.fsum(numbers) - 1) > 1e-9 or min(sixteenths) < 1:
        raise Refusal("shares", list(shares), "must add up to 1, and each be a sixteenth or more, when rounded")
    return sixteenths
