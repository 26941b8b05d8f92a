"""Steps that lie a gap apart, behind a filter: never below every set of them, and attained by a full comb."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from opendp_timeseries import Influence
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.kernels import Kernel, boxcar_kernel, exponential_kernel, gaussian_kernel
from tests.oracles import separated as oracle


def count(size, gap, steps, *, replaced=False, series=1, step_cap=1):
    return count_influence(
        1, participation_cap=steps, step_cap=step_cap, size=size * series, replaced=replaced, gap=gap, series=series
    )


def norms_only(influence):
    return Influence(
        l0=influence.l0, l2=influence.l2, linf=influence.linf, gap=influence.gap, replaced=influence.replaced
    )


def assert_within(moved, influence, resolution_bits):
    """Every row of whole numbers, in units of ``2**-resolution_bits``, is within the influence of one individual."""
    unit = Fraction(1, 2**resolution_bits)
    magnitudes = -np.sort(-np.abs(moved), axis=1)
    assert np.count_nonzero(magnitudes, axis=1).max() <= influence.l0
    assert int((magnitudes**2).sum(axis=1).max()) * unit**2 <= Fraction(influence.l2) ** 2
    assert int(magnitudes.max()) * unit <= Fraction(influence.linf)
    if influence.majorant is not None:
        tops = magnitudes.cumsum(axis=1).max(axis=0).tolist()
        values = [Fraction(value) for value in influence.majorant.values.tolist()]
        values += [Fraction(0)] * (len(tops) - len(values))
        assert all(top * unit <= most for top, most in zip(tops, accumulate(values), strict=False))


def kernels(size, *, seed=0, each=1):
    """Kernels of every kind: symmetric and decreasing or not, one-sided, of one sign and of both."""
    random = np.random.default_rng([seed, size])
    found = [gaussian_kernel(size, width, resolution_bits=8) for width in (0.8, 2.0)]
    found += [exponential_kernel(size, 1.5, resolution_bits=8), boxcar_kernel(size, min(3, size - (size + 1) % 2))]
    for _ in range(each):
        taps = random.integers(-9, 10, size)
        taps[0] += taps[0] == 0
        found += [Kernel(taps, 0), Kernel(np.abs(taps), 1), Kernel(-np.sort(-np.abs(taps)), 2)]
    return found


def every_move(size, gap, steps, *, replaced, series=1):
    rows = oracle.indicators(size, gap, steps) if replaced else oracle.signed(size, gap, steps)
    rows = oracle.in_series(rows, series, steps) if series > 1 else rows
    return oracle.differences(rows) if replaced else rows


def assert_no_set_exceeds_the_influence(size, gap, steps, kernel, *, replaced, series=1):
    moved = oracle.filtered(every_move(size, gap, steps, replaced=replaced, series=series), kernel.numerators.tolist())
    influence = count(size, gap, steps, replaced=replaced, series=series)
    for given in (influence, norms_only(influence)):
        assert_within(moved, filtered_influence(given, kernel, series), kernel.resolution_bits)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    ("size", "gap"), [(1, 1), (2, 2), (5, 2), (6, 2), (6, 3), (7, 3), (8, 2), (8, 3), (9, 4), (9, 9)]
)
def test_no_set_of_steps_exceeds_the_influence(size, gap, replaced):
    for kernel in kernels(size):
        for steps in range(1, size // gap + 2):
            assert_no_set_exceeds_the_influence(size, gap, steps, kernel, replaced=replaced)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("size", "gap", "series"), [(2, 2, 2), (4, 2, 2), (5, 3, 2), (3, 2, 3)])
def test_no_individual_in_a_panel_exceeds_the_influence(size, gap, series, replaced):
    for kernel in kernels(size):
        for steps in range(1, series * (size // gap) + 1):
            assert_no_set_exceeds_the_influence(size, gap, steps, kernel, replaced=replaced, series=series)
