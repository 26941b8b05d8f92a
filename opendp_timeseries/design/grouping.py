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

#: Shares of the norm are whole numbers of sixteenths, so that sizes of individuals are whole numbers, too.
SHARES: Final = 16
#: The share of each level of groups, unless said otherwise; the keys have what is left.
_OF_GROUPS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Levels of a panel, each of which has every key once: the keys, and groups of them around each other.

    An individual's size is the sum over levels of their share, times the squares of the sums in each group and step.

    :param groups: at each depth, of all keys.
    :param shares: of the norm, in sixteenths: of the keys, of the groups right around them, and so on outwards.
    :raises TypeError, ValueError: naming the group, or the share.
    """

    groups: Groups
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        shares = tuple(check.integer("share of a level, in sixteenths", share, minimum=1) for share in self.shares)
        object.__setattr__(self, "shares", shares)
        keys = set(self.groups.innermost)
        for depth in range(self.depth):
            level = {name: members for name, members, level_depth in self._members() if level_depth == depth}
            if missing := sorted(map(str, keys.difference(*level.values()))):
                example = f"beside {next(iter(level))!r}"
                raise Refusal(
                    "every key", ..., "must be in a group of each level", f"put {missing[0]!r} into one {example}"
                )
        if len(shares) != self.depth + 1 or sum(shares) != SHARES:
            of = f"one for the keys and each of {self.depth} levels of groups"
            raise Refusal("shares", list(shares), f"must be, in sixteenths, {of}, and add up to {SHARES}")

    def _members(self) -> list[tuple[str, tuple[Key, ...], int]]:
        return [(*group, depth) for group, depth in zip(self.groups.members, self.groups.depths, strict=True)]

    @property
    def depth(self) -> int:
        """Number of levels of groups."""
        return max(self.groups.depths) + 1

    @classmethod
    def of(cls, tree: object, keys: Sequence[Key], shares: Sequence[float] | None = None) -> Self:
        """Read a mapping from names to keys, or to such mappings.

        :param keys: of the panel, compared as text.
        :param shares: of the norm, from the keys outwards, which add up to 1; rounded to sixteenths.
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
        """Return the shares as :meth:`of` reads them; None for those that it takes where none are given."""
        defaults = SHARES - _OF_GROUPS * self.depth, *[_OF_GROUPS] * self.depth
        return None if self.shares == defaults else [share / SHARES for share in self.shares]

    def groups_at(self, level: int) -> Groups:
        """Return the groups of a level, from 1, the innermost."""
        return Groups(tuple((name, keys) for name, keys, depth in self._members() if self.depth - depth == level))

    def size_at(self, keys: int) -> Fraction:
        """Return how large somebody is in one step at so many keys of one group at each level; at one key it is 1."""
        return Fraction(keys * self.shares[0] + keys**2 * sum(self.shares[1:]), SHARES)

    def levels(self, panel: tuple[Key, ...]) -> NDArray[np.int64]:
        """Return a row for each level: in which series each key is read, where groups come after all keys."""
        numbers = {key: number for number, key in enumerate(panel)}
        rows = np.tile(np.arange(len(panel)), (self.depth + 1, 1))
        for series, (_, keys, depth) in enumerate(self._members(), len(panel)):
            rows[self.depth - depth, [numbers[key] for key in keys]] = series
        return rows

    def weights(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the weights of levels, given those of one series: a column for each level, for each column."""
        rows = weights.tolist()
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


def _sixteenths(shares: object, depth: int) -> tuple[int, ...]:
    if shares is None:
        innermost = SHARES - _OF_GROUPS * depth
        if innermost < 1:
            raise Refusal(
                "shares", ..., f"must be given for {depth} levels of groups: of the norm, from the keys outwards"
            )
        return (innermost, *[_OF_GROUPS] * depth)
    if isinstance(shares, str) or not isinstance(shares, Sequence) or len(shares) != depth + 1:
        raise Refusal(
            "shares", shares, f"must list one share for the keys and each of {depth} levels of groups, outwards"
        )
    numbers = [check.real("share of a level", share, above=0.0, below=1.0) for share in shares]
    _, *outer = (round(number * SHARES) for number in numbers)
    sixteenths = (SHARES - sum(outer), *outer)
    if abs(math.fsum(numbers) - 1) > 1e-9 or min(sixteenths) < 1:
        raise Refusal("shares", list(shares), "must add up to 1, and each be at least a sixteenth")
    return sixteenths
