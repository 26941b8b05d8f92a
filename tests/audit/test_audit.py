"""No claim of a map is below what real releases show, and exact claims are within a factor of 2 of it.

At least 20,000 releases of every case, shared among its output measures. A right package raises a false alarm in
less than ``ALPHA`` = 1e-9 of the runs of all cases together, and is too far from an exact claim in less than 1e-8 (as
simulated from the law of the likelihood ratio); see :mod:`tests.audit.releases`.
"""

import pytest
from scipy.stats import binom

from tests.audit.releases import ALPHA, CASES, Finding, audit, lower, upper

BY_NAME = {case.name: case for case in CASES}


def holds(found):
    return found.epsilon <= min(found.claims.values()) and all(low <= claim for low, claim in found.deltas)


@pytest.mark.parametrize("name", BY_NAME)
def test_releases_are_as_private_as_claimed_and_not_much_more(name):
    case = BY_NAME[name]
    found = audit(case, case.runs)
    assert 2 * found.runs >= 20_000
    assert holds(found), found
    claims = found.claims
    assert claims.get("exact", claims["zCDP"]) <= min(claims.values()) * (1 + 1e-9)
    if case.exact:
        assert found.ratio > 0.5, found
        (low, claim), (low_half, claim_half) = found.deltas
        assert low > 0.7 * claim
        assert low_half > 0.5 * claim_half


@pytest.mark.parametrize("name", ["no filter, p = 1/10", "p = 1"])
def test_claims_hold_of_a_few_releases(name):
    """The quick form, which tests/mutants runs on broken variants."""
    found = audit(BY_NAME[name], 2000)
    assert holds(found), found


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_many_releases_are_as_private_as_claimed(name, request):
    if "long" not in request.config.option.markexpr:
        pytest.skip("the long form; run with -m long")
    found = audit(BY_NAME[name], 50_000)
    assert holds(found), found
    if found.case.exact:
        assert found.ratio > 0.7, found


@pytest.mark.parametrize(("n", "p"), [(50, 0.1), (50, 0.5), (400, 0.01)])
def test_bounds_err_no_more_often_than_stated(n, p):
    # Exactly, by the binomial law: the chance that the bound is on the wrong side of p.
    for alpha in (0.05, 1e-3):
        weights = [float(binom.pmf(k, n, p)) for k in range(n + 1)]
        assert sum(w for k, w in enumerate(weights) if lower(k, n, alpha) > p) <= alpha
        assert sum(w for k, w in enumerate(weights) if upper(k, n, alpha) < p) <= alpha
    assert ALPHA == 1e-9


def test_a_claim_that_is_too_low_is_noticed():
    case = BY_NAME["p = 1"]
    assert holds(Finding(case, 1, epsilon=1.0, claims={"exact": 1.1, "zCDP": 2.0}, deltas=((0.1, 0.2),)))
    assert not holds(Finding(case, 1, epsilon=1.0, claims={"exact": 1.1, "zCDP": 0.9}, deltas=((0.1, 0.2),)))
    assert not holds(Finding(case, 1, epsilon=1.0, claims={"exact": 1.1}, deltas=((0.1, 0.2), (0.1, 0.09))))
