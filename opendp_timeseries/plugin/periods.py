"""What somebody loses in all, where the unit of privacy is within a period (docs/proofs/period_unit.md)."""

from collections.abc import Sequence

import numpy as np

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import PrivacyLoss
from opendp_timeseries.design.design import Design
from opendp_timeseries.plugin import native as dp
from opendp_timeseries.plugin.mechanisms import stated_designs
from opendp_timeseries.release.documents import population_of
from opendp_timeseries.release.release import Release


def loss_over_periods(
    releases: dp.Measurement | Release | Sequence[dp.Measurement | Release],
    *,
    periods: int | Sequence[int],
    adaptivity: str = "adaptive",
) -> PrivacyLoss:
    """Return the loss of one individual, with all that they did, who takes part in at most this many periods.

    For releases whose unit of privacy is an individual within a period (:func:`~opendp_timeseries.period_distance`),
    and whose own guarantee is for one period. Steps of different periods are different steps, so this is far less than
    the loss of as many individuals, ``measurement.map(periods)``. A gap between steps does not help here: the last step
    of a period may lie beside the first of the next.

    :param releases: measurements, or releases, of one log: one, or several that are taken together.
    :param periods: in how many periods somebody takes part at most: one number for every release, or one for each, in
        order. A number above the periods of a release stands for all of them.
    :param adaptivity: as in :func:`~opendp_timeseries.accounting.joint.joint_loss`: ``"non-adaptive"`` if all queries
        were fixed before the first release, and data do not react.
    :return: the loss, whose ``epsilon(delta)``, ``delta(epsilon)`` and the like are views.
    :raises TypeError: for anything else than measurements and releases.
    :raises ValueError: if there are none, their unit of privacy is not within a period, or not one and the same, or it
        is not known how their signal is made.

    >>> import warnings, opendp.prelude as dp, opendp_timeseries as ts
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> warnings.simplefilter("ignore", ts.PeriodUnitWarning)
    >>> day = ts.period_distance("1d", zone="UTC")
    >>> year = ts.TimeGrid(start="2023-01-01", end="2024-01-01", step="1h", zone="UTC")
    >>> log = ts.event_log_domain(identifier="id", time="time")
    >>> count = (log, day) >> ts.then_participation_count(year, participation_cap=4)
    >>> measurement = count >> ts.then_subsampled_gaussian(15.0, sampling_probability=1.0, delta=1e-6)
    >>> print([round(number, 3) for number in measurement.map(1)])  # of a day
    [0.54, 0.0]
    >>> ts.loss_over_periods(measurement, periods=7)
    PrivacyLoss(scale=15; see its delta(epsilon), epsilon(delta), renyi(alpha), …)
    >>> [round(ts.loss_over_periods(measurement, periods=k).epsilon(1e-6), 2) for k in (1, 7, 365)]
    [0.54, 1.54, 14.79]
    """
    listed = [releases] if isinstance(releases, (dp.Measurement, Release)) else list(releases)
    several: list[object] = np.asarray(periods).tolist() if np.ndim(periods) == 1 else [periods] * len(listed)
    if len(several) != len(listed):
        raise Refusal("periods", Quoted(several), f"must be one number, or one for each of {len(listed)} releases")
    losses, populations = [], {}
    for release, number in zip(listed, several, strict=True):
        times = check.integer(
            "periods", number, minimum=1, remedy="the most periods in which one individual takes part"
        )
        for design in _designs(release):
            populations[population_of(design)] = design.unit.of(1)
            losses.append(design.loss(periods=times) if design.unit.period else None)
    units = "; ".join(sorted(populations.values()))
    if len(populations) != 1 or None in losses:
        raise Refusal(
            "releases",
            ...,
            "must be at least one, and all for the same unit of privacy within a period, by the same columns",
            f"found {units or 'none'}. For one individual added or removed, their own guarantee covers all that"
            " somebody did",
        )
    return joint_loss([loss for loss in losses if loss is not None], adaptivity=adaptivity)


def _designs(release: dp.Measurement | Release) -> list[Design]:
    if isinstance(release, Release):
        return [release.design]
    if not isinstance(release, dp.Measurement):
        raise TypeRefusal("releases", Quoted(type(release).__name__), "must be a Measurement or a Release, or several")
    return [part.design for part in stated_designs(release)]
