"""Covariances multiply and add as the arrays that they stand for."""

import numpy as np

from opendp_timeseries.smoothing.errors import common_error, diagonal, independent


def test_products_with_integers_are_not_cut_to_integers():
    part = common_error(np.array([0.5, 0.25]))
    assert np.allclose(independent([part, part]) @ np.ones(4, dtype=int), [0.375, 0.1875, 0.375, 0.1875])


def test_an_array_is_added_from_either_side():
    covariance, array = diagonal(np.array([1.0, 2.0])), np.array([[3.0, 1.0], [1.0, 4.0]])
    for both in (covariance + array, array + covariance):
        assert np.allclose(both @ np.eye(2), [[4.0, 1.0], [1.0, 6.0]])
        assert np.allclose(both.variances(np.ones((1, 2)), np.array([0])), 12.0)
