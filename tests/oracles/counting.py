"""Slow truths about steps and capped counts: plain Python, sharing no code with the package.

Times are exact fractions, people are dictionary keys, and every individual is worked out alone.
"""

import datetime as dt
import hashlib
import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from zoneinfo import ZoneInfo

UNITS = {
    "W": Fraction(604800), "D": Fraction(86400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1),
    "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9), "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15), "as": Fraction(1, 10**18),
}  # fmt: skip
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NAT = -(2**63)


def seconds(moment: dt.datetime) -> Fraction:
    """Seconds of an aware datetime from 1970."""
    elapsed = moment - EPOCH
    return Fraction(elapsed.days * 86400 + elapsed.seconds) + Fraction(elapsed.microseconds, 10**6)


def step_of(tick, unit, *, start, width, size):
    """Step of ``tick`` units from 1970 (NaT is the smallest), for a grid in seconds; -1 off the grid."""
    if tick == NAT:
        return -1
    step = (tick * UNITS[unit] - start) // width
    return int(step) if 0 <= step < size else -1


def local_seconds(clock: dt.datetime, zone: str) -> Fraction:
    """UTC seconds of a local time: its first occurrence, or, where it is skipped, shifted forward.

    Searches for the UTC instants that show ``clock``, rather than asking ``fold``.
    """
    tz, naive = ZoneInfo(zone), seconds(clock.replace(tzinfo=dt.UTC))
    candidates = set()
    for hours in (-30, 30):  # the offsets before and after any change that is near; changes are days apart
        near = (clock + dt.timedelta(hours=hours)).replace(tzinfo=dt.UTC)
        offset = near.astimezone(tz).utcoffset()
        instant = naive - Fraction(offset.days * 86400 + offset.seconds)
        shown = EPOCH + dt.timedelta(seconds=float(instant // 1))
        if shown.astimezone(tz).utcoffset() == offset:
            candidates.add(instant)
    if candidates:
        return min(candidates)
    before = (clock - dt.timedelta(days=1)).replace(tzinfo=dt.UTC).astimezone(tz).utcoffset()
    return naive - Fraction(before.days * 86400 + before.seconds)


MASK = 2**64 - 1


def mix(word):
    """SplitMix64's finaliser on a Python integer."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def hash_of(identifier, step, key):
    """The 48-bit hash by which an individual's steps are ordered."""
    if isinstance(identifier, str) and not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", identifier):
        text = hashlib.blake2b(identifier.encode(), digest_size=8, key=key[:64]).digest()
        word = int.from_bytes(text, "little")
    else:
        word = int(identifier) & MASK
    digest = hashlib.blake2b(key, digest_size=16).digest()
    first, second = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
    sequence = mix(word ^ first) + second + step * 0x9E3779B97F4A7C15
    return mix(sequence & MASK) >> 16


def rested(steps, gap, cycle):
    """What a gap leaves of the steps of one individual in one series: first come, then rest, around the cycle too."""
    left = []
    for step in sorted(set(steps)):
        if not left or step - left[-1] >= gap:
            left.append(step)
    if len(left) > 1 and left[0] + cycle - left[-1] < gap:
        left.pop()
    return left


def in_few_series(identifier, steps, key_cap, key, cycle, hashed=hash_of):
    """What a cap on the series at one step of the grid leaves: those with the smallest hashes by a key of its own."""
    other_key = key_of_choice(key)
    left = set()
    for moment in {step % cycle for step in steps}:
        here = sorted({s for s in steps if s % cycle == moment}, key=lambda s: (hashed(identifier, s, other_key), s))
        left |= set(here[:key_cap])
    return left


def key_of_choice(key):
    """The key by which series are chosen."""
    return hashlib.blake2b(key, digest_size=16, person=b"key_cap").digest()


def kept(
    identifier, steps, *, participation_cap, step_cap, key, gap=1, cycle=2**31, key_cap=None, hashed=hash_of,
    excess="drop", tiers=None, levels=None,
):  # fmt: skip
    """What is kept of one individual: ``{step: events}``, or, if nothing is dropped, in units of ``2**-16``.

    Every ``cycle`` steps are a series.

    :param steps: of their rows; or how much there is in each, of which ``step_cap`` is the bound.

    :param hashed: the hash of the engine.
    :param tiers: as :func:`in_tiers` takes them.
    :param levels: of tiers, as :func:`in_levels` takes them.
    """
    events = Counter(steps)
    few = events if key_cap is None else in_few_series(identifier, events, key_cap, key, cycle, hashed)
    left = [
        series * cycle + step
        for series in {step // cycle for step in few}
        for step in rested([step % cycle for step in few if step // cycle == series], gap, cycle)
    ]
    if excess == "drop":
        order = sorted(left, key=lambda step: (hashed(identifier, step, key), step))
        return {step: min(events[step], step_cap) for step in order[:participation_cap]}
    own = {step: min(events[step], step_cap) for step in left}
    if levels is not None:
        return in_levels(own, cycle, levels, **{"typical": step_cap} | tiers)
    if tiers is not None:
        return in_tiers(own, **{"typical": step_cap} | tiers)
    power = 2 if excess == "l2" else 1
    norm = Fraction(sum(x**power for x in own.values()))
    weight = largest(lambda w: w**power * norm <= participation_cap * step_cap**power)
    return {step: weight * x for step, x in own.items()}


def largest(holds):
    """The largest of the weights 0, 2⁻¹⁶, …, 1 for which something holds that holds below it, in units of 2⁻¹⁶."""
    low, high = 0, 2**16
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(Fraction(middle, 2**16)) else (low, middle - 1)
    return low


def amount(number, bound):
    """How much a value adds: the nearest whole number, halves up, from 0 to the bound; 0 if it is no number."""
    return 0 if number is None else max(0, min(math.floor(Fraction(number) + Fraction(1, 2)), bound))


def in_tiers(own, ends, share, most, size, typical):
    """What one individual counts as in the series of each tier, of ``size`` entries.

    :param ends: the tiers but the last.
    :param share: what each series but the first takes of what those after it left.
    :param most: in how many steps anybody can be: the last tier.
    :param typical: what there is in such a step.
    """
    norm = Fraction(sum(x * x for x in own.values()), typical**2)
    weights = tier_weights(norm, ends, share, most)
    if norm > most:
        weights = [largest(lambda w, v=own: w * w * norm <= Fraction(v, 2**16) ** 2 * most) for own in weights]
    return {series * size + step: weight * x for series, weight in enumerate(weights) for step, x in own.items()}


def tier_weights(norm, ends, share, most):
    """The weights in all tiers, in units of 2⁻¹⁶, of somebody whose squares sum to so many full steps, or fewer."""
    tiers = [*ends, most]
    row = tiers[0]
    while row < min(norm, most):
        row = min(row + max(1, row // 24), most)

    def left(series, n):
        if series == len(tiers) - 1:
            return Fraction(1, n)
        return left(series + 1, n) - Fraction(share) * left(series + 1, max(n, tiers[series + 1]))

    squares = [tiers[0] * left(k, max(row, tier)) * (Fraction(share) if k else 1) for k, tier in enumerate(tiers)]
    return [largest(lambda w, square=square: w * w <= square) for square in squares]


def in_levels(own, cycle, levels, ends, share, most, size, typical):
    """What one individual counts as in the series of each tier, which are of keys and of groups of them.

    :param levels: of the keys, and of all groups of one kind: sixteenths of the norm, and the series of each key.
    :param size: entries of each tier.
    """
    sums = [Counter() for _ in levels]
    for place, events in own.items():
        for level, (_, series) in zip(sums, levels, strict=True):
            level[series[place // cycle] * cycle + place % cycle] += events
    parts = tuple(Fraction(part, 16) for part, _ in levels)
    squares = [sum(x * x for x in level.values()) for level in sums]
    norm = sum(part * square for part, square in zip(parts, squares, strict=True)) / typical**2
    weights = level_weights(norm, parts, ends, share, most)
    return {
        tier * size + place: weight * x
        for tier, row in enumerate(weights)
        for weight, level in zip(row, sums, strict=True)
        for place, x in level.items()
    }


@cache
def level_weights(norm, parts, ends, share, most):
    """The weights at each level in each tier: of a part of the norm, and less of whoever is too large for the last."""
    weights = []
    for weight in tier_weights(norm, ends, share, most):
        row = [largest(lambda w, v=weight, part=part: w * w <= Fraction(v, 2**16) ** 2 * part) for part in parts]
        if norm > most:
            row = [largest(lambda w, v=own: w * w * norm <= Fraction(v, 2**16) ** 2 * most) for own in row]
        weights.append(row)
    return weights


def capped_counts(rows, *, size, cycle=None, period_of=lambda step: 0, **caps):
    """Counts of rows ``(identifier, step)``, one individual after the other, and one of their periods after the other.

    :param period_of: the period of a step of a series; without periods, all are in one.
    """
    cycle = cycle or size
    people = {}
    for identifier, step in rows:
        if 0 <= step < size:
            people.setdefault(identifier, {}).setdefault(period_of(step % cycle), []).append(step)
    counts = [0] * size
    for identifier, periods in people.items():
        for steps in periods.values():
            for step, events in kept(identifier, steps, cycle=cycle, **caps).items():
                counts[step] += events
    return counts


def contributions(size, participation_cap, step_cap, gap=1, period_of=lambda step: 0, periods=1):
    """Every vector that one individual can add to a count of one series, in so many periods, with caps in each."""
    for vector in itertools.product(range(step_cap + 1), repeat=size):
        entered = {}
        for step, entry in enumerate(vector):
            if entry > 0:
                entered.setdefault(period_of(step), []).append(step)
        within = all(len(steps) <= participation_cap and apart(steps, gap, size) for steps in entered.values())
        if within and len(entered) <= periods:
            yield vector


def apart(steps, gap, cycle):
    """Whether every two steps are at least a gap from each other, both ways around the cycle."""
    return all(gap <= abs(a - b) <= cycle - gap for a, b in itertools.combinations(steps, 2))


def largest_differences(size, participation_cap, step_cap, individuals, *, replaced, **within):
    """Largest (l0, l1, l2 squared, linf) of a difference, over everything that individuals can do."""
    own = set(contributions(size, participation_cap, step_cap, **within))
    one = own | {tuple(-entry for entry in vector) for vector in own}
    if replaced:
        one = {tuple(a - b for a, b in zip(x, y, strict=True)) for x in own for y in own}
    reached = {(0,) * size}
    for _ in range(individuals):
        reached = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in reached for y in one}
    return (
        max(sum(entry != 0 for entry in vector) for vector in reached),
        max(sum(map(abs, vector)) for vector in reached),
        max(sum(entry**2 for entry in vector) for vector in reached),
        max(max(map(abs, vector)) for vector in reached),
    )


def individuals(rows, keys=None, *, cap=None, key=b"", period=None):
    """Numbers of distinct people in rows ``(identifier, time, key)``: of all, or of each key within the cap.

    None is a missing identifier or time. ``period`` is a range of times; without one, times do not matter.
    """
    rows = [row for row in rows if row[0] is not None and (period is None or row[1] in period)]
    if keys is None:
        return len({who for who, _, _ in rows})
    entered = {who: {keys.index(one) for other, _, one in rows if other == who and one in keys} for who, _, _ in rows}
    counts = [0] * len(keys)
    for who, places in entered.items():
        for place in sorted(places, key=lambda place: (hash_of(who, place, key), place))[:cap]:
            counts[place] += 1
    return counts
