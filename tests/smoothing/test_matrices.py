"""Products by small pieces are products, and variances of sums those of dense inverses."""

import numpy as np
import pytest

from opendp_timeseries.smoothing.matrices import Banded, Tridiagonal, crossprod, inverse_root, matmul


@pytest.mark.parametrize("rows", [1, 53, 64, 700])
@pytest.mark.parametrize("columns", [0, 1, 33, 70])
def test_products_are_those_of_numpy(rows, columns):
    rng = np.random.default_rng(rows)
    left, right, weight = rng.normal(size=(rows, columns)), rng.normal(size=(columns, 5)), rng.random(rows)
    assert np.allclose(matmul(left, right), left @ right)
    assert np.allclose(matmul(left, right[:, 0]), left @ right[:, 0])
    assert np.allclose(crossprod(left, left), left.T @ left)
    assert np.allclose(crossprod(left, left[:, :1].sum(axis=1)), left.T @ left[:, :1].sum(axis=1))
    assert np.allclose(crossprod(left, weight[:, None] * left, symmetric=True), left.T @ (weight[:, None] * left))
    root = inverse_root(left.T @ left + np.eye(columns))
    assert np.allclose(root.T @ root, np.linalg.inv(left.T @ left + np.eye(columns)))


@pytest.mark.parametrize("width", [0, 1, 2, 7])
@pytest.mark.parametrize("size", [8, 23, 60])
def test_variances_of_sums_are_those_of_the_inverse(width, size):
    rng = np.random.default_rng(size)
    root = np.tril(np.triu(rng.normal(size=(size, size)), -width))
    matrix = root @ root.T + np.eye(size)
    inverse, weights = np.linalg.inv(matrix), rng.normal(size=size)
    bands = np.array([np.append(np.diag(matrix, -k), np.zeros(k)) for k in range(width + 1)])
    factors = [Banded.of(bands)] + ([Tridiagonal.of(bands[0].copy(), bands[1, :-1].copy())] if width == 1 else [])
    for starts in ([0], range(size), range(0, size, 5), [0, 1, size - 1], [0, size // 2, size // 2 + 1]):
        of_each = np.searchsorted(starts, np.arange(size), side="right") - 1
        sides = [weights * (of_each == k) for k in range(len(starts))]
        for factor in factors:
            found = factor.variances(weights, np.array(starts))
            assert np.allclose(found, [side @ inverse @ side for side in sides], rtol=1e-9)
            assert np.allclose(factor.inverse_diagonals()[0], np.diag(inverse))
            assert np.allclose(factor.inverse_diagonals()[1], np.diag(inverse, 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_finite_determinant(bad):
    band = np.array([[4.0, bad, 4.0], [1.0, 1.0, 0.0]])
    for factor in (Banded.of(band), Tridiagonal.of(band[0].copy(), band[1, :-1].copy())):
        assert not np.isfinite(factor.log_determinant)
