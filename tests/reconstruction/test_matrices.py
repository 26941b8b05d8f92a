"""Products by small pieces are products."""

import numpy as np
import pytest

from opendp_timeseries.reconstruction.matrices import crossed, inverse_root, times


@pytest.mark.parametrize("rows", [1, 53, 64, 700])
@pytest.mark.parametrize("columns", [0, 1, 33, 70])
def test_products_are_those_of_numpy(rows, columns):
    rng = np.random.default_rng(rows)
    left, right, weight = rng.normal(size=(rows, columns)), rng.normal(size=(columns, 5)), rng.random(rows)
    assert np.allclose(times(left, right), left @ right)
    assert np.allclose(times(left, right[:, 0]), left @ right[:, 0])
    assert np.allclose(crossed(left, left), left.T @ left)
    assert np.allclose(crossed(left, left[:, :1].sum(axis=1)), left.T @ left[:, :1].sum(axis=1))
    assert np.allclose(crossed(left, weight[:, None] * left, symmetric=True), left.T @ (weight[:, None] * left))
    root = inverse_root(left.T @ left + np.eye(columns))
    assert np.allclose(root.T @ root, np.linalg.inv(left.T @ left + np.eye(columns)))
