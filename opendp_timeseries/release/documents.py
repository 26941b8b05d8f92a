"""Documents of several releases of one log, with their joint guarantee."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from opendp_timeseries._json import encode, fields_of, parse_json, read_versioned, written
from opendp_timeseries._refusal import Refusal
from opendp_timeseries.accounting.adaptivity import Adaptivity
from opendp_timeseries.accounting.budget import warn_of_large_delta
from opendp_timeseries.accounting.joint import joint_loss
from opendp_timeseries.accounting.loss import Points, View
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.signal import check_extent
from opendp_timeseries.release.release import FORMAT as FORMAT_OF_ONE
from opendp_timeseries.release.release import Release, check_covered, check_parent
from opendp_timeseries.release.statement import Parent

FORMAT: Final = "opendp_timeseries releases"


class Document(NamedTuple):
    """Verified releases of a document, with their joint guarantee in words.

    :param trusted: claims of the document that it cannot prove, beyond those of any release.
    :param reworded: sentences of the document that differ from those made of its numbers, each with the latter.
    """

    releases: tuple[Release, ...]
    guarantee: str
    trusted: tuple[str, ...] = ()
    reworded: tuple[tuple[str, str], ...] = ()


def write_releases(
    releases: Sequence[Release], *, adaptivity: str = "fully adaptive", delta: float | None = None
) -> str:
    """Return several releases of one log as one JSON document with their joint guarantee.

    :param releases: with the same measure, unit of privacy, columns of identifiers and distance.
    :param adaptivity: what may depend on the output of earlier releases. If left out, everything may, and the joint
        guarantee is by basic composition: (ε, δ), or (ρ, δ′), add up. ``"adaptive"`` if queries, sampling and noise
        were fixed before the first release, as in a :func:`~opendp_timeseries.make_composition`: it is then that of
        the joint loss. ``"non-adaptive"`` is a promise that later data do not react either, as if all are of one log
        at one time: where steps are sampled, it reduces the joint loss of downweighted counts, filtered counts and
        stratified samples (see :class:`~opendp_timeseries.Programme`). The document states both.
    :param delta: of the joint guarantee, if all was fixed in advance and each release states (ε, δ); the sum of all δ
        if left out.
    :raises ValueError: if there is no release, one states less than it loses, or they do not add up.
    """
    _verify(releases)
    view, adaptivity = _joint_view(releases), Adaptivity.of(adaptivity)
    if delta is not None:
        if adaptivity is Adaptivity.FULL or view.delta is None:
            raise Refusal("delta", delta, "is for releases in (ε, δ) that were fixed in advance", "leave it out")
        view = replace(view, delta=delta)
    warn_of_large_delta(view.failure_probability if view.delta is None else view.delta, stacklevel=2)
    points = _joint_points(releases, adaptivity, view)
    document = {
        "format": FORMAT,
        "version": 1,
        "guarantee": _joint_sentence(releases, points),
        "adaptivity": str(adaptivity),
        "joint_loss": encode(points),
        "releases": [release.to_dict() for release in releases],
    }
    return written(document)


def read_releases(text: str) -> tuple[Release, ...]:
    """Read and verify a document of one release, or one by :func:`write_releases`, with its joint guarantee.

    :raises ValueError: for any other document, or if a stated loss is too low.
    """
    return read_document(text).releases


def read_document(text: str) -> Document:
    """Read and verify a document as :func:`read_releases` does; return it with its joint guarantee in words."""
    document = parse_json(text)
    if isinstance(document, dict) and document.get("format") == FORMAT_OF_ONE:
        release = Release.from_dict(document)
        release.verify()
        words = release.guarantee()
        return Document(
            (release,), words, _trusted_contents([release]), _reworded_sentences([(document["guarantee"], words)])
        )
    return read_versioned(document, FORMAT, {1: _read_1})


def _read_1(document: dict[str, Any]) -> Document:
    sentence, kind, loss, releases = fields_of(document, "the document", _FIELDS).values()
    adaptivity = Adaptivity.of(kind)
    check_extent(release.design.known_signal for release in releases)
    _verify(releases)
    view = _joint_view(releases)
    if adaptivity is not Adaptivity.FULL and view.delta is not None and len(loss) == 1 and 0.0 < loss[0][1] < 1.0:
        view = replace(view, delta=loss[0][1])
    points = _joint_points(releases, adaptivity, view)
    check_covered("joint_loss", loss, points, "the releases together give")
    words = _joint_sentence(releases, loss)
    trusted = (*_trusted_contents(releases), *_PROMISES[adaptivity])
    pairs = [
        (part["guarantee"], release.guarantee()) for part, release in zip(document["releases"], releases, strict=True)
    ]
    return Document(releases, words, trusted, _reworded_sentences([(sentence, words), *pairs]))


_FIELDS: Final[dict[str, object]] = {
    "guarantee": str,
    "adaptivity": str,
    "joint_loss": Points,
    "releases": tuple[Release, ...],
}


_FIXED: Final = "that all of it was fixed before the first release"
#: The promises of a document, by its adaptivity.
_PROMISES: Final[dict[Adaptivity, tuple[str, ...]]] = {
    Adaptivity.NONE: (_FIXED, "that no data reacted to an earlier release"),
    Adaptivity.QUERIES: (_FIXED,),
    Adaptivity.FULL: (),
}
_NUMBER: Final = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")


def _trusted_contents(releases: Sequence[Release]) -> tuple[str, ...]:
    parents = (release.stated.parent for release in releases)
    return tuple(dict.fromkeys(f"what else is in the {parent.name}" for parent in parents if parent is not None))


def _reworded_sentences(sentences: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the sentences of a document that differ from the right ones, with these; refuse different numbers."""
    for sentence, correct in sentences:
        if _NUMBER.findall(sentence) != _NUMBER.findall(correct):
            raise Refusal("guarantee", sentence, f"must agree with the numbers of the document, which give {correct!r}")
    return tuple((sentence, correct) for sentence, correct in sentences if sentence != correct)


def _verify(releases: Sequence[Release]) -> None:
    """Verify each release, and that no parent states less than the joint loss of its parts among these releases.

    That loss is a lower bound: of releases fixed in advance, whose data do not react.
    """
    parts: dict[tuple[object, int, tuple[int, int] | None], dict[Release, None]] = {}
    for release in releases:
        release.verify()
        # With a unit within a period, the parts that cover the same period add up.
        span = None if release.design.unit.replaced else release.design.count.reading.period_span
        for name in _names_of_parent(release):
            parts.setdefault((name, release.stated.distance, span), {})[release] = None
    for members in dict.fromkeys(tuple(group) for (name, *_), group in parts.items() if _has_one_parent(name, group)):
        joint = joint_loss(
            [release.design.loss(release.stated.distance) for release in members], adaptivity=Adaptivity.NONE
        )
        parents = (release.stated.parent for release in members)
        for parent in {(parent.loss, parent.measure): parent for parent in parents if parent is not None}.values():
            check_parent(parent, joint, "its parts together give")


def _names_of_parent(release: Release) -> list[object]:
    """Return the names by which parts tell their parent; what else they say of it may differ where it is wrong."""
    if (parent := release.stated.parent) is None:
        return []
    if parent.identifier is not None:
        planned = [] if parent.planned is None else [("programme", parent.planned[:16])]  # as sentences name it
        return [(parent.kind, parent.identifier), *planned]
    names: list[object] = [
        name for name in dict.fromkeys((release.composition, release.invocation)) if name is not None
    ]
    return names if parent.kind == "composition" and names else [*names, replace(parent, number=None)]


def _has_one_parent(name: object, members: Iterable[Release]) -> bool:
    """Return whether parts have one parent: those of equal Contexts or compositions if their numbers are complete."""
    if not isinstance(name, Parent):
        return True
    parts = {
        (member.stated.parent and member.stated.parent.number, member.composition or id(member)) for member in members
    }
    return len(parts) == name.parts and {number for number, _ in parts} == {*range(1, len(parts) + 1)}


def joint_guarantee(releases: Sequence[Release]) -> str:
    """Return the joint guarantee in words, as a page records it, with the whole of which all releases are parts."""
    points = _joint_points(releases, adaptivity_of(releases), _joint_view(releases))
    return f"{_joint_sentence(releases, points)}{_shared_parent(releases)}"


def is_at_once(releases: Sequence[Release]) -> bool:
    """Return whether one invocation of one composition made all releases.

    Of others, even of one count, each may follow what the last one showed.
    """
    names = {release.composition for release in releases}
    return len(names) == 1 and None not in names


def adaptivity_of(releases: Sequence[Release]) -> Adaptivity:
    """Return what may have depended on the output of earlier releases: nothing, if all were made at once."""
    return Adaptivity.NONE if is_at_once(releases) else Adaptivity.FULL


def _shared_parent(releases: Sequence[Release]) -> str:
    """Return the whole of which all releases say that they are parts, in words; nothing if they differ in it."""
    parents = {
        None if parent is None else replace(parent, number=None, parts=None, digest=None)
        for parent in (release.stated.parent for release in releases)
    }
    if len(parents) > 1:  # in one ledger, some may be of its programme
        parents = {None if parent is None else replace(parent, programme=None) for parent in parents}
    parent = parents.pop()
    if parent is None or parents:
        return ""
    # Contexts and compositions have no identifiers: two may be equal.
    share = "all" if parent.identifier is not None or is_at_once(releases) else "each"
    return f"; {share} part of {str(parent).removeprefix('in ')}"


def population_of(design: Design) -> tuple[object, ...]:
    """Return the key of a population: two releases with equal keys are about the same individuals.

    It is the unit of privacy and the column of identifiers, and that of times if the unit is within a period.
    """
    source, unit = design.count.source, design.unit
    if source is None:
        return unit, None, None
    return unit, (source.identifier, source.exact), source.time if unit.period is not None else None


def _joint_sentence(releases: Sequence[Release], points: Points) -> str:
    # Use a release with assumed caps if there is one, so that the sentence mentions the assumption.
    example = max(releases, key=lambda release: release.design.count.reading.is_assumed)
    statement = replace(example.stated, view=_joint_view(releases), loss=points, parent=None)
    return replace(example, statement=statement).guarantee()


def _joint_view(releases: Sequence[Release]) -> View:
    """Return the view of the joint loss: at the sum of all δ or δ′."""
    views = [release.stated.view for release in releases]
    keys = {(r.stated.view.measure, r.stated.distance, population_of(r.design)) for r in releases}
    if len(keys) != 1:
        units = "; ".join(sorted({r.design.unit.of(r.stated.distance) for r in releases})) or "none"
        requirement = "the same measure, unit of privacy, identifier column and distance"
        raise Refusal("releases", ..., f"must be at least one, all with {requirement}", f"found {units}")
    failure_probability = _sum_if_any([view.failure_probability for view in views])
    return replace(views[0], failure_probability=failure_probability, delta=_sum_if_any([view.delta for view in views]))


def _joint_points(releases: Sequence[Release], adaptivity: Adaptivity, view: View) -> Points:
    points = [release.stated.loss for release in releases]
    pairs = all(len(row) == 1 for row in points)
    if adaptivity is Adaptivity.FULL and not pairs:
        raise Refusal(
            "releases",
            ...,
            "must each state one pair (ε, δ) or (ρ, δ′), to add up, where they were not fixed in advance",
            "give `delta=` or `failure_probability=` to the measurements",
        )
    first, second = (_sum_up([row[0][k] for row in points]) for k in (0, 1))
    if adaptivity is Adaptivity.FULL:
        return ((first, second),)
    losses = [release.design.loss(release.stated.distance) for release in releases]
    # Without the promise, data may react: docs/proofs/several_releases.md.
    joint = view.points(joint_loss(losses, adaptivity=adaptivity))
    # By basic composition, the sum of pairs is always a bound.
    return ((first, second),) if pairs and first <= joint[0][0] and second <= joint[0][1] else joint


def _sum_if_any(numbers: Sequence[float | None]) -> float | None:
    """Return the sum of the numbers that are not None, rounded up; None if there are none."""
    values = [number for number in numbers if number is not None]
    return _sum_up(values) if values else None


def _sum_up(numbers: Sequence[float]) -> float:
    """Return the sum of numbers, rounded up."""
    # fsum rounds the exact sum to nearest; the next float up is not below it. A sum of zeros is exact.
    return math.nextafter(math.fsum(numbers), math.inf) if any(numbers) else 0.0
