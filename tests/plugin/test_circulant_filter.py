"""The filter as an OpenDP transformation: exact outputs, every kind of metric, two in a row, refusals."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries.accounting.filtering import filtered_influence
from opendp_timeseries.plugin.spaces import influence_distance
from tests.make import influence_of
from tests.plugin.test_circular_convolution import exact
from tests.refused import refuses

INTEGERS = dp.vector_domain(dp.atom_domain(T="i64"), size=8)
KERNEL = ts.Kernel.from_taps([0.5, 0.25, 0, 0, 0, 0, 0, 0.25])
ONE = influence_of(2, 8)


def make(metric=None, kernel=KERNEL, domain=INTEGERS):
    return ts.make_circulant_filter(domain, metric or influence_distance(), kernel)


def test_influence_stays_influence_and_says_the_resolution():
    smooth = make()
    assert smooth.output_metric == influence_distance(KERNEL.resolution_bits)
    assert smooth.output_metric != influence_distance()
    assert smooth.map(ONE) == filtered_influence(ONE, KERNEL)
    assert smooth.map(influence_of(2, 8, individuals=0)).individuals == 0
    many = influence_of(2, 8, individuals=3)
    assert smooth.map(many).individuals == 3
    assert smooth.map(many).l2 == smooth.map(ONE).l2


def test_two_filters_in_a_row():
    first, second = ts.gaussian_kernel(8, 1.0, resolution_bits=16), ts.boxcar_kernel(8, 3, resolution_bits=16)
    once = make(kernel=first)
    twice = once >> ts.then_circulant_filter(second)
    assert twice.output_metric == influence_distance(32)
    values = [5, 0, 0, 1, 0, 0, 7, 0]
    assert [Fraction(value) for value in twice(values)] == exact(exact(values, first), second)
    assert twice.map(ONE).majorant is not None
    with pytest.raises(ValueError, match=r"^kernel resolution.*16"):
        make(kernel=ts.gaussian_kernel(8, 1.0)) >> ts.then_circulant_filter(ts.gaussian_kernel(8, 1.0))
    joined = make(kernel=ts.gaussian_kernel(8, 1.0).convolve(ts.gaussian_kernel(8, 1.0)))
    assert joined.map(ONE).l2 < make(kernel=ts.gaussian_kernel(8, 1.0)).map(ONE).l2


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"kernel": ts.gaussian_kernel(4, 1)}, ValueError, "kernel size"),
    ({"kernel": np.ones(8)}, TypeError, "kernel"),
    ({"metric": dp.linf_distance(T=float)}, TypeError, "input_metric"),
    ({"metric": dp.l1_distance(T=int)}, TypeError, "input_metric"),
    ({"metric": dp.l2_distance(T=float)}, TypeError, "input_metric"),
    ({"domain": dp.vector_domain(dp.atom_domain(T="i64"))}, ValueError, "input_domain"),
    ({"domain": dp.atom_domain(T="i64")}, TypeError, "input_domain"),
    ({"domain": dp.vector_domain(dp.atom_domain(T=bool), size=8)}, TypeError, "input_domain"),
])  # fmt: skip
def test_refusals(arguments, error, message):
    refuses(message, make, error=error, **arguments)


def test_a_distance_of_another_kind_is_refused():
    refuses("Refusal: d_in", make().map, 3.0, error=dp.OpenDPException)


# ------------------------------------------------------------------------------------------------- panels


def test_every_series_of_a_panel_is_filtered_by_itself():
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=16)
    smooth = ts.make_circulant_filter(domain, influence_distance(panel_size=2), KERNEL)
    assert list(smooth([4] + [0] * 7 + [0] * 7 + [8])) == [2, 1, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 2, 4]
    refuses("16 / 4 series", ts.make_circulant_filter, domain, influence_distance(panel_size=4), KERNEL)


def test_a_long_block_does_not_fit_one_series():
    # Why there is no majorant beyond one series: with the cycle's wrap-around the block law would be too small.
    kernel = ts.gaussian_kernel(3, 0.7, resolution_bits=12)
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=6)
    smooth = ts.make_circulant_filter(domain, influence_distance(panel_size=2), kernel)
    everything = influence_of(6, 6)
    assert smooth.map(everything).l2 >= math.sqrt(6) * (1 - 1e-12)  # all six steps stay at one
