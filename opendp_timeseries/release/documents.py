"""Several releases of one log in one document, with the guarantee of all of them."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from opendp_timeseries._json import encode, fields_of, parse_json, read_versioned, written
from opendp_timeseries.accounting.calibrate import warn_of_large_delta
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import Points, View
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import check_extent
from opendp_timeseries.release.release import FORMAT as FORMAT_OF_ONE
from opendp_timeseries.release.release import Release, check_covered, check_whole

FORMAT: Final = "opendp_timeseries releases"


class Document(NamedTuple):
    """Releases that were written and verified together, with their joint guarantee in words.

    :param trusted: what the document says and cannot show, beside what no release can.
    :param reworded: sentences that stand in it in other words than its numbers are put into, each with these.
    """

    releases: tuple[Release, ...]
    guarantee: str
    trusted: tuple[str, ...] = ()
    reworded: tuple[tuple[str, str], ...] = ()


def write_releases(
    releases: Sequence[Release], *, in_advance: bool = False, data_fixed: bool = False, delta: float | None = None
) -> str:
    """Return several releases of one log as one JSON document with their joint guarantee.

    :param releases: of the same measure, unit of privacy, columns of identifiers and distance.
    :param in_advance: True if all of it, queries, sampling and noise, was fixed before the first release, as in a
        :func:`~opendp_timeseries.make_composition`. The joint guarantee is then that of the joint loss; else it is by
        basic composition: (ε, δ), or (ρ, δ′), add up. The document says which.
    :param data_fixed: a promise that later data do not react to earlier releases, as where all are of one log at one
        time. Where steps are sampled, the joint loss is less with it for counts that scale, behind filters, and for
        stratified samples (:class:`~opendp_timeseries.Programme` says where it changes nothing). The document says so.
    :param delta: of the joint guarantee, if all was fixed in advance and each states (ε, δ); the sum of all δ if left
        out.
    :raises ValueError: if there are none, one states less than it loses, or they do not add up.
    """
    _verify(releases)
    view = _total(releases)
    if delta is not None:
        if not in_advance or view.delta is None:
            raise ValueError(f"delta ({delta}) is for releases in (ε, δ) that were fixed in_advance; leave it out")
        view = replace(view, delta=delta)
    warn_of_large_delta(view.failure_probability if view.delta is None else view.delta, stacklevel=2)
    points = _joint(releases, in_advance, data_fixed, view)
    document = {
        "format": FORMAT,
        "version": 1,
        "guarantee": _together(releases, points),
        "in_advance": in_advance,
        "data_fixed": data_fixed,
        "joint_loss": encode(points),
        "releases": [release.to_dict() for release in releases],
    }
    return written(document)


def read_releases(text: str) -> tuple[Release, ...]:
    """Read back and verify one release, or what :func:`write_releases` wrote: every release, and their joint guarantee.

    :raises ValueError: for any other document, or if a loss is stated too low.
    """
    return read_document(text).releases


def read_document(text: str) -> Document:
    """Return what :func:`read_releases` does, with the joint guarantee in words."""
    document = parse_json(text)
    if isinstance(document, dict) and document.get("format") == FORMAT_OF_ONE:
        release = Release.from_dict(document)
        release.verify()
        words = release.guarantee()
        return Document((release,), words, _trusted([release]), _reworded([(document["guarantee"], words)]))
    return read_versioned(document, FORMAT, {1: _read_1})


def _read_1(document: dict[str, Any]) -> Document:
    sentence, in_advance, data_fixed, stated, releases = fields_of(document, "the document", _FIELDS).values()
    check_extent(release.design.known for release in releases)
    _verify(releases)
    view = _total(releases)
    if in_advance and view.delta is not None and len(stated) == 1 and 0.0 < stated[0][1] < 1.0:
        view = replace(view, delta=stated[0][1])
    right = _joint(releases, in_advance, data_fixed, view)
    check_covered("joint_loss", stated, right, "the releases together give")
    words = _together(releases, stated)
    trusted = (*_trusted(releases), *_PROMISES[: 1 + data_fixed if in_advance else 0])
    alone = [
        (one["guarantee"], release.guarantee()) for one, release in zip(document["releases"], releases, strict=True)
    ]
    return Document(releases, words, trusted, _reworded([(sentence, words), *alone]))


_FIELDS: Final[dict[str, Any]] = {
    "guarantee": str,
    "in_advance": bool,
    "data_fixed": bool,
    "joint_loss": Points,
    "releases": tuple[Release, ...],
}


#: What a document promises if it says ``in_advance`` and ``data_fixed``.
_PROMISES: Final = (
    "that all of it was fixed before the first release",
    "that no data reacted to an earlier release",
)
_NUMBER: Final = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")


def _trusted(releases: Sequence[Release]) -> tuple[str, ...]:
    wholes = (release.stated.whole for release in releases)
    return tuple(dict.fromkeys(f"what else is in the {whole.name}" for whole in wholes if whole is not None))


def _reworded(sentences: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the sentences of a document, with the right ones, that are in other words; refuse other numbers."""
    for sentence, right in sentences:
        if _NUMBER.findall(sentence) != _NUMBER.findall(right):
            raise ValueError(f"guarantee says {sentence!r}, and the numbers beside it say {right!r}")
    return tuple((sentence, right) for sentence, right in sentences if sentence != right)


def _verify(releases: Sequence[Release]) -> None:
    """Verify each release, and that no whole states less than those of its parts together that are here.

    As little as they can lose: what is fixed in advance, of data that do not react.
    """
    parts: dict[Any, list[Release]] = {}
    for release in releases:
        release.verify()
        if (whole := release.stated.whole) is not None:
            # Within a period, parts add up where they look at one and the same.
            span = None if release.design.unit.replaced else release.design.count.reading.period_span
            parts.setdefault((replace(whole, number=None, digest=None), release.stated.distance, span), []).append(
                release
            )
    for (whole, distance, _), found in parts.items():
        # Two Contexts, or compositions, may be alike: their parts are those of one if they are just as many.
        numbers = sorted(release.stated.whole.number or 0 for release in found if release.stated.whole is not None)
        if whole.identifier is not None or (len(numbers) == whole.parts and numbers == [*range(1, len(numbers) + 1)]):
            losses = [release.design.loss(distance) for release in found]
            check_whole(whole, joint_loss(losses, adaptive=False), "its parts together give")


def joint_guarantee(releases: Sequence[Release]) -> str:
    """Return in words what all of these guarantee together, if all of it was fixed before the first release."""
    return _together(releases, _joint(releases, in_advance=True, data_fixed=True, view=_total(releases)))


def population_of(design: Design) -> tuple[Any, ...]:
    """Return what must be equal for two releases to be about the same individuals.

    That is the unit of privacy and the columns of identifiers, and of times where the unit is within a period.
    """
    source, unit = design.count.source, design.unit
    if source is None:
        return unit, None, None
    return unit, (source.identifier, source.exact), source.time if unit.period is not None else None


def _together(releases: Sequence[Release], points: Points) -> str:
    # Among several, one whose caps were assumed says so.
    spoken = max(releases, key=lambda release: release.design.count.reading.is_assumed)
    statement = replace(spoken.stated, view=_total(releases), loss=points, whole=None)
    return replace(spoken, statement=statement).guarantee()


def _total(releases: Sequence[Release]) -> View:
    """Return the view that states the joint loss: at the sum of all δ or δ′."""
    views = [release.stated.view for release in releases]
    alike = {(r.stated.view.measure, r.stated.distance, population_of(r.design)) for r in releases}
    if len(alike) != 1:
        found = "; ".join(sorted({r.design.unit.of(r.stated.distance) for r in releases})) or "none"
        needed = "one measure, unit of privacy, identifier column and distance"
        raise ValueError(f"releases must hold at least one, all of {needed}; found {found}")
    failure_probability = _sum_up([view.failure_probability for view in views])
    return replace(views[0], failure_probability=failure_probability, delta=_sum_up([view.delta for view in views]))


def _joint(releases: Sequence[Release], in_advance: bool, data_fixed: bool, view: View) -> Points:
    points = [release.stated.loss for release in releases]
    pairs = all(len(each) == 1 for each in points)
    if not (pairs or in_advance):
        raise ValueError(
            "releases that were not fixed in advance must each state one pair (ε, δ) or (ρ, δ′), to add up: give delta="
            " or failure_probability= to the measurements"
        )
    first, second = (_sum_up([each[0][k] for each in points]) for k in (0, 1))
    if not in_advance:
        return ((first, second),)
    losses = [release.design.loss(release.stated.distance) for release in releases]
    # Without the promise, data react: docs/proofs/several_releases.md.
    joint = view.points(joint_loss(losses, adaptive=not data_fixed))
    # By basic composition, no more than the sum of pairs is ever lost.
    return ((first, second),) if pairs and first <= joint[0][0] and second <= joint[0][1] else joint


def _sum_up(numbers: Sequence[float | None]) -> Any:
    """Return the sum, rounded up; None if there is nothing to add."""
    given = [number for number in numbers if number is not None]
    # fsum rounds the exact sum to nearest; the next float up is not below it. Of nothing but zeros it is exact.
    return math.nextafter(math.fsum(given), math.inf) if any(given) else 0.0 if given else None
