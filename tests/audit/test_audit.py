"""No claim of a map is below what real releases show, and exact claims are not far above it.

The short form makes 2,000 releases of either log, shared among the output measures, and demands that the lower bounds
reach a tenth of an exact ε and two fifths of an exact δ(0). The long form makes 50,000, or 20,000 of several releases,
behind a gap, of people in places, of totals and of one period, and demands three fifths and three quarters. A right
package raises a false alarm in less than ``ALPHA`` = 1e-9 of the runs of all cases together, and misses a demand in
less than 1e-8, by the binomial law of the events, whose probabilities are simulated from the law of the likelihood
ratio. See :mod:`tests.audit.releases`.
"""

import pytest
from scipy.stats import binom

from tests.audit.releases import ALPHA, CASES, Finding, audit, lower, upper

BY_NAME = {case.name: case for case in CASES}


def holds(found):
    return found.epsilon <= min(found.claims.values()) and all(low <= claim for low, claim in found.deltas)


def demand(found, *, of_epsilon, of_delta):
    """Demand that no bound is above a claim, and none further below an exact one than by these factors."""
    assert holds(found), found
    claims = found.claims
    assert claims.get("exact", claims["zCDP"]) <= min(claims.values()) * (1 + 1e-9)
    if found.case.exact:
        assert found.ratio > of_epsilon, found
        low, claim = found.deltas[0]
        assert low > of_delta * claim, found


pytestmark = pytest.mark.filterwarnings("ignore::opendp_timeseries.LargeDeltaWarning")


# The others have the long form alone.
@pytest.mark.long
@pytest.mark.parametrize("name", ["p = 1", "filter", "one step of each block"])
def test_releases_are_as_private_as_claimed(name):
    demand(audit(BY_NAME[name], BY_NAME[name].runs), of_epsilon=0.1, of_delta=0.4)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_many_releases_are_as_private_as_claimed_and_not_much_more(name):
    case = BY_NAME[name]
    slow = case.joint or case.gap > 1 or case.places or case.series > 1 or case.period
    found = audit(case, 20_000 if slow else 50_000)
    assert found.runs >= 20_000
    demand(found, of_epsilon=0.6, of_delta=0.75)
    if found.case.exact:
        low, claim = found.deltas[1]
        assert low > 0.6 * claim, found


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
