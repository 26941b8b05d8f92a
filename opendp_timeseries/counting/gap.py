"""Keep the counted steps of an individual a gap apart: first come, then rest.

Of the steps of one individual in one series, in order, the first counts; those less than ``gap`` after the last that
*counts* do not; and so on. The last of those that count is then left out if it is within ``gap`` of the first around
the cycle of the grid. Proof: docs/proofs/counts.md.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


def mark_apart(steps: Ints, begins: Ints, *, gap: int, cycle: int) -> Marks:
    """Mark the steps that count, of many groups at once: one for each individual and series.

    :param steps: group after group, in ``0 … cycle - 1``, distinct and in order within each.
    :param begins: where each group begins; none is empty.
    :param gap: from 1 to ``cycle``.
    :param cycle: ``T``, number of steps of the grid, at most 2^31.

    >>> import numpy as np
    >>> mark_apart(np.array([0, 3, 4, 6, 9, 0, 5]), np.array([0, 5]), gap=3, cycle=10)
    array([ True,  True, False,  True, False,  True,  True])
    """
    lengths = np.diff(begins, append=steps.size)
    # All groups on one line, further from each other than the gap.
    line = steps + np.repeat(np.arange(begins.size) * (cycle + gap), lengths)
    marks = _first_on_line(line, gap)
    # At most one such step is so far behind the first that it is near to it around the cycle: the last.
    marks &= steps - np.repeat(steps[begins], lengths) <= cycle - gap
    return marks


def _first_on_line(line: Ints, gap: int) -> Marks:
    """Mark the first of increasing numbers, then the first at least ``gap`` after it, and so on."""
    # A number so far from the one before it is marked, whatever was before: it starts a run of its own. The second
    # of a run never is, so that only runs of three and more have to be walked.
    marks = np.ones(line.size, dtype=np.bool_)
    np.greater_equal(line[1:] - line[:-1], gap, out=marks[1:])
    starts = np.flatnonzero(marks)
    lengths = np.diff(starts, append=line.size)
    long = lengths > 2
    if long.any():
        walked = np.repeat(long, lengths)
        marks[walked] = _walk(line[walked], marks[walked], gap)
    return marks


def _walk(line: Ints, starts: Marks, gap: int) -> Marks:
    """Mark what is reached from the starts of runs, all runs at once, by doubling the stride: no loop over steps."""
    nowhere = line.size
    following = np.append(np.searchsorted(line, line + gap), nowhere)
    reached = np.append(starts, True)  # and nowhere, where every walk ends
    following[reached[following]] = nowhere  # at the start of the next run
    while (following < nowhere).any():
        reached[following[reached]] = True
        following = following[following]
    return reached[:-1]
