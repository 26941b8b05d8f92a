"""Comparison of designs for one budget, with the expected error of each, and advice."""

from __future__ import annotations

import html
import itertools
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from opendp_timeseries import _validate as check
from opendp_timeseries._refusal import Quoted, Refusal, Spelling, TypeRefusal, in_python, spelled
from opendp_timeseries._tables import html_table, text_table
from opendp_timeseries.accounting.budget import Budget, large_delta
from opendp_timeseries.accounting.calibrate import calibrate
from opendp_timeseries.accounting.loss import View
from opendp_timeseries.accounting.sampling import Sampling
from opendp_timeseries.counting import progress
from opendp_timeseries.design.count import Count
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.grouping import Grouping, grouping_of
from opendp_timeseries.design.kernels import gaussian_kernel, identity_kernel
from opendp_timeseries.design.reading import Keys, Reading, Source, bound_in_a_step, panel_of
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.tiers import Tiers, tiers_for
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.design.weighting import limit_steps
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.planning.errors import ALIKE, error_at_tiers, expected_error
from opendp_timeseries.planning.participation import Participation, participation_of, remaining_fraction
from opendp_timeseries.planning.signal import SignalModel, described_signal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T", int, float)

PRIVATE: Final = "private series"

_PROBABILITIES: Final = (0.1, 0.2, 0.5, 1.0)
#: Below this many kept steps on average, an expected error says little about a single release.
_MIN_KEPT: Final = 8
#: Sampling, a filter or a gap is recommended, and said to help, only if it reduces the error at least by this factor.
_MAX_ERROR_RATIO: Final = 0.97
#: At most this many totals are in the advice.
_MAX_TOTALS: Final = 8
#: Where the error exceeds this share of a flat line's, the noise drowns the signal.
_DROWNED_SHARE: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to release the series within the budget, with its expected error.

    All errors are root mean squares against the true counts; if a cap's loss is unknown, against the capped counts.
    """

    name: str  #: the mechanism
    sampling_probability: float  #: ``p``; 1 keeps every step
    std: float  #: width of the Gaussian filter in steps, 0 for none
    scale: float  #: standard deviation σ of the noise
    noise: float  #: contribution of the noise to the error of the interpolated series
    bias: float  #: contribution to it of the cap, the filter and the signal's changes between kept steps
    smoothed: float  #: error of the best linear smoother that knows the covariance of the signal alone
    participation_cap: int | None = None  #: ``I``, steps per individual; None where nobody has a cap
    gap: int = 1  #: the least distance of two steps in which one individual is counted; 1 for any
    excess: str = "drop"  #: treatment of an individual in more steps than the cap
    lost: float | None = None  #: fraction of counts that the cap loses; None if unknown
    totals: tuple[tuple[str, float], ...] = ()  #: smoothed errors of the totals of groups of a panel, by name
    design: Design | None = None  #: the design to run; None for mechanisms that this package's stages cannot express

    @property
    def interpolated(self) -> float:
        """Error of linear interpolation between kept steps."""
        return math.hypot(self.noise, self.bias)

    @property
    def limits(self) -> tuple[int, int]:
        """Cap and gap; a cap of 0 for none."""
        return self.participation_cap or 0, self.gap

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and text, for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "design"}
        return plain | {"interpolated": self.interpolated, "totals": dict(self.totals)}

    def __str__(self) -> str:
        return self.name + (f", filter std {self.std:g}" if self.std else "")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan:
    """Candidates for one budget, with their expected errors: see :func:`~opendp_timeseries.plan`.

    It prints as a table with advice and the call to run, in a notebook too.
    """

    title: str  #: the setting in words
    candidates: tuple[Candidate, ...]  #: all caps, gaps and filters, the best with sampling, and the private series
    signal: SignalModel  #: the assumed model of the signal
    individuals: int  #: number of individuals that the guarantee covers
    epsilon: float  #: ε of the budget
    delta: float  #: δ of the budget
    gaps_included: frozenset[int]  #: gaps whose losses are known
    mechanisms: tuple[Candidate, ...] = ()  #: further mechanisms, which reconstruct the series in their own way

    def beside(self, *mechanisms: Candidate) -> Plan:
        """Return the plan with further mechanisms, to print and draw beside the candidates; the advice ignores them.

        :param mechanisms: for the same setting, such as that of
            :func:`~opendp_timeseries.koga2022.fourier.fourier_design`.
        """
        return replace(self, mechanisms=self.mechanisms + mechanisms)

    @property
    def deviation(self) -> float:
        """Standard deviation of the signal around its level: the error of a flat line at the true level."""
        return self.signal.deviation

    @property
    def recommended(self) -> Candidate:
        """The plainest candidate (no sampling, filter or gap, if possible) whose error is nearly the least.

        Candidates whose losses are unknown are never recommended.
        """
        return _recommended([candidate for candidate in self.candidates if candidate.lost is not None])

    @property
    def design(self) -> Design:
        """The recommended design, to run."""
        return self.of(self.recommended)

    def of(self, candidate: Candidate) -> Design:
        """Return the design of a candidate.

        :raises ValueError: for a mechanism without a design.
        """
        if candidate.design is None:
            raise Refusal("candidate", Quoted(candidate), "must be one of plan.candidates, which have designs")
        return candidate.design

    @property
    def is_drowned(self) -> bool:
        """True if a flat line would be about as accurate as any candidate."""
        return bool(min(map(_smoothed, self.candidates)) > _DROWNED_SHARE * self.deviation)

    def advice(self, spell: Spelling = in_python) -> str:
        """Return advice: what to run, its expected error, the cost or gain of sampling, and what is unknown.

        :param spell: how parameters are written.
        """
        return "\n".join(spelled(line, spell) for line in self._advice())

    def python(self, candidate: Candidate | None = None) -> str:
        """Return the Python code of a design, for a ``log`` with the columns ``id`` and ``time``.

        :param candidate: which of ``candidates``; the recommended one if left out.
        """
        seasons, periods = "", ", ".join(map(_exact_text, self.signal.periods))
        if periods:
            seasons = f", seasons=({periods})" if len(self.signal.periods) > 1 else f", seasons={periods}"
        design = self.of(candidate or self.recommended)
        epsilon = self.epsilon if self.individuals == 1 else None
        return f"{design.python(epsilon=epsilon, delta=self.delta)}\nseries = ts.smooth(release{seasons})"

    def command(self, candidate: Candidate | None = None) -> str | None:
        """Return a design's command line, with the file and its columns left to fill in.

        :param candidate: which of ``candidates``; the recommended one if left out.
        :return: None where the command line does not offer it.
        """
        best = candidate or self.recommended
        design = self.of(best)
        count = design.count
        if count.grid.step is None or self.individuals > 1 or count.unit.replaced:
            return None
        if (grouping := count.reading.grouping) is not None and (
            grouping.fractions() or len(_outermost_groups(grouping)) > 1
        ):
            return None
        # Values of the flags, each with its default.
        flags = {name: (getattr(count.grid, name), None) for name in ("start", "step", "size", "zone")} | {
            "participation-cap": (best.participation_cap, None),
            "excess": (best.excess, "downweight"),
            "gap": (count.reading.gap, 1),
            **_caps_in_a_step(count),
            "epsilon": (self.epsilon, None),
            "delta": (self.delta, None),
            "sampling-probability": (best.sampling_probability, 1),
            "sampling": (design.sampling.name, "poisson"),
            "filter-std": (_exact_text(best.std), "0"),
        }
        words = ["python", "-m", "opendp_timeseries", "LOG.csv", "--identifier", "ID", "--time", "TIME"]
        for name, (value, usual) in flags.items():
            words += [f"--{name}", str(value)] if value != usual else []
        words += [] if count.panel is None else ["--by", "KEY", "--keys", "KEYS.csv"]
        if grouping is not None:
            words += ["--total", *_outermost_groups(grouping)]
            words += ["--groups", *["COLUMN"] * (grouping.level_count - 1)] if grouping.level_count > 1 else []
        words += ["--season", *map(_exact_text, self.signal.periods)] if self.signal.periods else []
        return shlex.join(words)

    def preview(self, path: str | PathLike[str] | None = None, **options: object) -> str:
        """Return the page as it would look, of made-up numbers, and write it where a path is given.

        The numbers are made up from the description of the series, and marked so everywhere; no data are read. They are
        counted, get the noise of the recommended design and are smoothed as a log is, so intervals are as wide as they
        will be, if the description is right. The page has no record and nothing to download.

        :param options: ``title``, ``unit``, ``totals`` and ``confidence_level``, as of :meth:`.Series.to_html`.
        :raises ValueError: if the plan was made without a level.
        """
        from opendp_timeseries.planning.preview import preview_of  # which takes long

        return preview_of(
            self.design, View.of(self.delta, concentrated=False), None, self.signal.described, path, options
        )

    def to_dict(self) -> dict[str, object]:
        """Return the plan in plain numbers and text, for JSON."""
        return {
            "setting": self.title,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "signal": {"level": self.signal.mean, "deviation": self.deviation},
            "recommended": self.recommended.to_dict(),
            "candidates": [candidate.to_dict() for candidate in (*self.candidates, *self.mechanisms)],
            "is_drowned": self.is_drowned,
            "advice": self.advice().splitlines(),
            "python": self.python(),
            "command": self.command(),
        }

    def _advice(self) -> Iterator[str]:
        best, level = self.recommended, self.signal.mean
        cap = "" if best.participation_cap is None else f"participation cap {best.participation_cap}, "
        cap += f"gap {best.gap}, " if best.gap > 1 else ""
        share = f" ({best.smoothed / level:.1%} of the level)" if level else ""
        place = "" if best.design is None or best.design.count.panel is None else " at each key"
        yield f"Best: {cap}{best}, then a smoother: expected error {best.smoothed:.4g}{place}{share}."
        flat = f"a flat line would err by {self.deviation:.4g}."
        drowned = f"The noise drowns the signal: {flat} Take coarser steps or a larger budget."
        yield drowned if self.is_drowned else flat.capitalize()
        yield from self._places_advice()
        yield from self._sampling_advice()
        yield from self._unknown_losses()
        if large := large_delta(self.delta):
            yield large
        yield from (f"{mechanism}: expected error {mechanism.interpolated:.4g}." for mechanism in self.mechanisms)

    def _places_advice(self) -> Iterator[str]:
        from opendp_timeseries.results.captions import events_in_words
        from opendp_timeseries.smoothing.everybody import noise_of_few

        design, level = self.design, self.signal.mean
        if design.count.panel is None:
            return
        grouping = design.count.reading.grouping
        members = {} if grouping is None else {name: len(keys) for name, keys in grouping.groups.members}
        for name, error in self.recommended.totals[:_MAX_TOTALS]:
            keys = members.get(name, len(design.count.panel))
            share = f" ({error / (level * keys):.1%} of the level)" if level else ""
            yield f"The total of {name} ({keys} key{'s' if keys > 1 else ''}): expected error {error:.4g}{share}."
        if (remaining := len(self.recommended.totals) - _MAX_TOTALS) > 0:
            yield f"There are {remaining} more totals, in totals of the candidate."
        if self.recommended.totals:
            yield ALIKE
        yield events_in_words(design.count, noise_of_few(design.count, design.scale))

    def _sampling_advice(self) -> Iterator[str]:
        sampled = [candidate for candidate in self.candidates if candidate.sampling_probability < 1]
        is_known = any(candidate.lost is not None for candidate in sampled)
        # With losses in all errors that are compared, or in none.
        alike = [candidate for candidate in self.candidates if (candidate.lost is not None) == is_known]
        sampled = [candidate for candidate in alike if candidate.sampling_probability < 1]
        complete = [candidate for candidate in alike if candidate.sampling_probability == 1]
        if not (sampled and complete):
            return
        best, error = min(sampled, key=_smoothed), min(map(_smoothed, complete))
        if self.recommended.sampling_probability < 1:
            yield f"Sampling helps: every step would err by {error:.4g}."
            return
        change = best.smoothed / error - 1
        comparison = f"{change:.0%} more" if change >= 0.005 else "about the same"
        yield f"Sampling does not help: {best} would err by {best.smoothed:.4g}, {comparison}."
        best, error = min(sampled, key=_interpolated), min(map(_interpolated, complete))
        if best.interpolated < _MAX_ERROR_RATIO * error:
            yield (
                f"Without a smoother it does: {best} would err by {best.interpolated:.4g}, every step by {error:.4g}."
            )

    def _unknown_losses(self) -> Iterator[str]:
        unknown = {candidate.gap for candidate in self.candidates} - self.gaps_included
        if not self.gaps_included:
            if len(self.candidates) > 1:
                lose = "the cap loses" if unknown <= {1} else "caps and gaps lose"
                yield f"What {lose} is not included, and is often most of the error: so no cap is recommended."
            yield (
                "How often people come is unknown; the error assumes counts spread evenly over its octaves. Say it by"
                " `participation={0.9: 20, 1.0: 500}`: 90% come at most 20 times, the heaviest 500."
            )
        elif unknown:
            yield f"What a gap of {', '.join(map(str, sorted(unknown)))} loses is not included; state `participation=`."

    def _rows(self) -> tuple[list[str], list[list[str]], list[bool]]:
        """Return header, cells, and which rows are recommended; cap, gap and lost only where they say something."""
        best, candidates = self.recommended, self._candidates_to_show()
        columns = {
            "cap": [
                "–" if candidate.participation_cap is None else str(candidate.participation_cap)
                for candidate in candidates
            ],
            "gap": ["–" if candidate.participation_cap is None else str(candidate.gap) for candidate in candidates],
            "design": [str(candidate) for candidate in candidates],
            "lost": ["–" if candidate.lost is None else f"{candidate.lost:.1%}" for candidate in candidates],
        }
        for name in ("scale", "noise", "bias", "interpolated", "smoothed"):
            columns[name] = [f"{getattr(candidate, name):.4g}" for candidate in candidates]
        caps = {candidate.participation_cap for candidate in self.candidates} - {None}
        gaps = {candidate.gap for candidate in self.candidates if candidate.participation_cap}
        for name, is_shown in (("cap", len(caps) > 1), ("gap", len(gaps) > 1), ("lost", self.gaps_included)):
            if not is_shown:
                del columns[name]
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        return list(columns), rows, [candidate is best for candidate in candidates]

    def _candidates_to_show(self) -> list[Candidate]:
        """Return those with the best cap and gap, the best filter of every other cap and gap, and mechanisms."""
        best = self.recommended.limits if self.gaps_included else _best_limits(self.candidates)
        candidates: list[Candidate] = []
        for limits, group in itertools.groupby(self.candidates, key=lambda candidate: candidate.limits):
            of_limits = list(group)
            candidates += of_limits if limits == best else [_recommended(of_limits)]
        return [*candidates, *self.mechanisms]

    def __repr__(self) -> str:
        return self.report()

    def report(self, spell: Spelling = in_python) -> str:
        """Return the candidates and the advice, with parameters as a front end writes them."""
        header, rows, _ = self._rows()
        return f"{self.title}\n{text_table(header, rows)}\n{self.advice(spell)}"

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in self.advice().splitlines())
        table, code = html_table(*self._rows()), html.escape(self.python())
        return f"<p>{html.escape(self.title)}</p>{table}{paragraphs}<pre>{code}</pre>"

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the expected errors of the candidates that are printed; the recommended one's name is bold.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.results.plot import new_axes

        candidates = self._candidates_to_show()
        axes = new_axes(height=1.2 + 0.28 * len(candidates)) if axes is None else axes
        at = np.arange(len(candidates))
        # A private series is never interpolated: a line through its last tier would only stretch the axis.
        lines = [
            (candidate.interpolated, candidate.noise) if candidate.name != PRIVATE else (np.nan, np.nan)
            for candidate in candidates
        ]
        axes.barh(at, [line for line, _ in lines], height=0.62, color="0.82", label="interpolated")
        axes.barh(at, [noise for _, noise in lines], height=0.3, color="0.55", label="of which noise")
        axes.plot([_smoothed(candidate) for candidate in candidates], at, "k|", ms=11, mew=2, label="smoothed")
        axes.axvline(self.deviation, color="black", linewidth=0.8, linestyle=":", label="a flat line")
        header, rows, _ = self._rows()
        end = header.index("design")  # behind cap, gap, or both, where they differ
        labels = ["".join(f"{header[k]} {row[k]}, " for k in range(end) if row[k] != "–") + row[end] for row in rows]
        axes.set_yticks(at, labels, fontsize="small")
        axes.get_yticklabels()[candidates.index(self.recommended)].set_fontweight("bold")
        axes.set_ylim(len(candidates) - 0.5, -0.5)
        axes.set_xlabel("expected root mean squared error, in the signal's unit\n" + self.title, fontsize="small")
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small")
        return axes


_smoothed, _interpolated = attrgetter("smoothed"), attrgetter("interpolated")


def _outermost_groups(grouping: Grouping) -> list[str]:
    groups = grouping.groups
    return [name for name, depth in zip(groups.names, groups.depths, strict=True) if depth == 0]


def _best_limits(candidates: Sequence[Candidate]) -> tuple[int, int]:
    """Return cap and gap of the best candidate with a cap, of known loss if any is; of the best if none has a cap."""
    limited = [candidate for candidate in candidates if candidate.participation_cap] or candidates
    return _recommended([candidate for candidate in limited if candidate.lost is not None] or limited).limits


def _recommended(candidates: Sequence[Candidate]) -> Candidate:
    least = min(map(_smoothed, candidates))
    near = [candidate for candidate in candidates if least >= _MAX_ERROR_RATIO * candidate.smoothed]
    return min(
        near,
        key=lambda candidate: (candidate.sampling_probability < 1, candidate.std, candidate.gap, candidate.smoothed),
    )


def variance_ratio(sampled: Candidate, complete: Candidate) -> float:
    """Return ``r = σ_p² / (p σ_1²)`` of a candidate and its counterpart at every step.

    At 1 or more, sampling cannot help the best linear smoother (docs/proofs/dominance.md).

    :param sampled: a candidate with sampling.
    :param complete: the one with the same filter that keeps every step.
    """
    return sampled.scale**2 / (sampled.sampling_probability * complete.scale**2)


@dataclass(frozen=True)
class _Comparison:
    """The setting that all designs of a plan share, in which each becomes a candidate."""

    reading: Reading
    tiers: Tiers
    budget: Budget
    individuals: int
    signal: SignalModel
    by_gap: Mapping[int, Participation]  # empty if unknown
    sampling: str

    def calibrate_design(self, signal: Signal, sampling: Sampling) -> Design:
        """Return a design with the least noise within the budget."""
        design = Design(signal=signal, sampling=sampling, scale=1.0)
        return replace(design, scale=calibrate(design.law(self.individuals).at, self.budget))

    def private_series(self) -> Candidate:
        """Return the series without a cap."""
        count, by_gap = Count(self.reading, self.tiers), self.by_gap
        design = self.calibrate_design(Signal(count), Sampling())
        often = by_gap[1] if by_gap and by_gap[1].total > 0 else participation_of({}, self.reading.grid.size)
        error = error_at_tiers(self.signal, count, design.scale, often)
        return Candidate(
            **error._asdict(), name=PRIVATE, sampling_probability=1.0, std=0.0, scale=design.scale,
            excess="downweight", lost=0.0, design=design,
        )  # fmt: skip

    def candidate_with_cap(self, limits: tuple[int, int], p: float, width: float) -> Candidate:
        """Return the better way to treat people above a cap.

        :param limits: the cap and the gap.
        :param p: the sampling probability.
        :param width: of the filter, 0 for none.
        """
        if width and limits[1] == 1:
            return self.with_excess("drop", limits, p, width)  # without a gap, a filter needs people in few steps
        # Downweighting loses less, for the same noise; but where δ is near p, sampling needs people in few steps.
        options = ("downweight",) if p == 1 else ("downweight", "drop")
        return min((self.with_excess(excess, limits, p, width) for excess in options), key=_smoothed)

    def with_excess(self, excess: str, limits: tuple[int, int], p: float, width: float) -> Candidate:
        """Return a capped count that treats people above the cap in one way."""
        (cap, gap), size, by_gap = limits, self.reading.grid.size, self.by_gap
        weighting = limit_steps(cap, excess=excess)
        count = Count(replace(self.reading, gap=gap), weighting)
        bits = {"resolution_bits": count.resolution_bits} if count.resolution_bits else {}
        kernel = gaussian_kernel(size, width, **bits) if width else identity_kernel(size)
        sampling = Sampling.of(p, self.sampling) if p < 1 else Sampling()
        design = self.calibrate_design(Signal(count, (kernel,) if width else ()), sampling)
        share, share_error = 1.0, 0.0  # of the counts that the caps leave, as if all where that is unknown
        if gap in by_gap:
            share, share_error = remaining_fraction(by_gap[1], by_gap[gap], weighting)
            share = max(share, 1e-9)
        error = expected_error(self.signal.scaled(share), kernel, sampling, design.scale)
        size_of_signal = math.sqrt((self.signal.mean or 0.0) ** 2 + self.signal.covariance[0])
        cap_error = math.hypot(1 - share, share_error) * size_of_signal
        # The smoother knows y = share·x of the counts x, and errs by e, which does not correlate with its estimate: so
        # E[ye] = E[e²], and E[(x − y + e)²] = (1 − share)² E[x²] + 2 (1/share − 1) E[ye] + E[e²].
        smoother_variance = error.smoothed**2 * (2 - share) / share
        return Candidate(
            name=sampling.words(),
            sampling_probability=p,
            std=width,
            scale=design.scale,
            noise=error.noise,
            bias=math.hypot(error.bias, cap_error),
            smoothed=math.sqrt(smoother_variance + cap_error**2),
            participation_cap=cap,
            gap=gap,
            excess=excess,
            lost=1 - share if gap in by_gap else None,
            design=design,
        )

    def candidates(
        self, limits: Sequence[tuple[int, int]], probabilities: Sequence[float], widths: Sequence[float]
    ) -> list[Candidate]:
        """Compare caps, gaps and filters at the largest sampling probability; the others at the best cap and gap."""
        largest, number = max(probabilities), len(widths) * (len(limits) + len(probabilities) - 1)
        by_limits: dict[tuple[int, int], list[Candidate]] = {cap_and_gap: [] for cap_and_gap in limits}
        for done, (cap_and_gap, width) in enumerate(itertools.product(limits, widths)):
            progress.report(done, number)
            by_limits[cap_and_gap].append(self.candidate_with_cap(cap_and_gap, largest, width))
        if by_limits:
            best, done = _best_limits(list(itertools.chain(*by_limits.values()))), len(limits) * len(widths)
            references, by_limits[best] = by_limits[best], []
            for reference, p in itertools.product(references, probabilities):
                if p != largest:
                    progress.report(done, number)
                    done += 1
                by_limits[best].append(reference if p == largest else self.candidate_with_cap(best, p, reference.std))
        return [*itertools.chain(*by_limits.values()), self.private_series()]


def plan(
    grid: TimeGrid,
    *,
    epsilon: float,
    delta: float,
    participation_cap: int | Sequence[int] | None = None,
    gap: int | Sequence[int] = 1,
    participation: Participation | Mapping[int, Participation] | Mapping[float, int] | None = None,
    step_cap: int = 1,
    value: str | None = None,
    bound: int | None = None,
    typical: int | None = None,
    total_bound: int | None = None,
    keys: Keys | None = None,
    groups: Mapping[str, object] | None = None,
    shares: Sequence[float] | None = None,
    individuals: int = 1,
    level: float | None = None,
    season_amplitudes: Mapping[float, float] | None = None,
    deviation: float | None = None,
    time_scale: float | None = None,
    proxy: ArrayLike | None = None,
    sampling_probability: float | Sequence[float] | None = None,
    sampling: str = "poisson",
    std: float | Sequence[float] | None = None,
    replaced: bool = False,
) -> Plan:
    """Recommend a design within a budget, with its expected error, without any private data.

    Each candidate gets the least noise that the exact privacy profile allows at (ε, δ). The private series
    (:func:`~opendp_timeseries.make_private_series`), which has no cap, is always a candidate. All caps, gaps and
    filters are compared at every step, which serves a good smoother best (docs/concepts/amplification.md). Sampling is
    then compared with the best cap and gap. If no sampling probability is 1, all are compared at the largest. People
    above a cap are downweighted; with a filter and no gap, their extra steps are dropped instead.

    With ``keys``, the plan is for a panel without a cap: the description of the signal is of each key, and so is the
    error. The totals of ``groups`` have an error each; half the variance of the departures is assumed common to all
    keys, like the weather's effect. If keys share less or more of it, errors are some 10% larger, or 20% smaller.

    All errors are against the true counts, including what caps lose. If nothing is known of how often people come, the
    private series is recommended: the smaller a cap, the less its noise and the greater its loss, which is unknown.

    The signal is a level, plus patterns that repeat, plus departures that die away exponentially (an
    Ornstein–Uhlenbeck process), plus Poisson's variance around these if the level is given: the model of
    :func:`~opendp_timeseries.smooth`. Or it is any signal with the spectrum of a public series. The error of linear
    interpolation is then exact, on average over samples drawn with a fixed public seed. So is that of the best linear
    smoother, except at the ends of long series. A smoother that must learn the model from the release errs more,
    especially with few steps. A private series assumes that people come at the same hours however often they come;
    where they do not, its error is up to a third larger (docs/howto/plan.md).

    :param grid: the grid of the count.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param participation_cap: ``I``, steps per individual; one, or several to compare with the private series.
    :param gap: the least distance of two steps in which one individual is counted; one, or several to compare. Choose
        one within which nobody comes twice. It pays off when combined with a filter.
    :param participation: how often people take part, as far as it is public: roughly, ``{0.9: 20, 1.0: 500}`` if 90% of
        people come at most 20 times and the heaviest 500 times, with ``level``; or a
        :class:`~opendp_timeseries.Participation`. What a cap loses then enters the error, as if nothing were corrected
        afterwards. What gaps lose enters too if there is a participation for each gap, including 1, as
        ``{1: …, 6: …}``.
    :param step_cap: people or events? With 1, each step counts the *people* in it, however many events each has. With
        ``M`` it counts *events*, at most so many of one individual in one step, with ``M`` times the noise.
    :param value: the column of numbers that are added up, in a sum without a cap; the series is then described in its
        units, and ``bound`` and ``total_bound`` are as for :func:`~opendp_timeseries.make_private_series`.
    :param typical: with a value, what one individual has in a usual step: the error goes by it. Tiers begin by it, too.
    :param keys: of a panel, public; with them, leave out the cap.
    :param groups: of all keys, as for :func:`~opendp_timeseries.make_private_series`; so too ``shares``.
    :param individuals: number of individuals that the guarantee covers.
    :param level: mean count of a step; if left out, that of the participation, else unknown.
    :param season_amplitudes: the amplitude of each pattern, in counts, by its period in steps, such as ``{24: 60.0}``:
        half the way from its lowest to its highest, were it a sine.
    :param deviation: standard deviation of the departures, in counts.
    :param time_scale: steps within which departures change: their correlation at this lag is 0.37.
    :param proxy: instead of these four, a **public** series of the grid's size that resembles the private one.
    :param sampling_probability: one, or several to compare; if left out, those of 0.1, 0.2, 0.5 and 1 that keep enough.
    :param sampling: ``"poisson"``, or ``"stratified"`` for one step of each block.
    :param std: width of the Gaussian filter in steps, 0 for none; one, or several to compare; if left out, 0, 3 and 10.
    :param replaced: True if adjacent logs replace individuals, rather than add or remove them.
    :return: a :class:`~opendp_timeseries.planning.Plan`; print it.
    :raises TypeError: if the grid is not a :class:`~opendp_timeseries.TimeGrid`.
    :raises ValueError: for a parameter out of range, a probability that keeps fewer than 8 steps on average, or
        not exactly one description of the signal.

    >>> designs = plan(TimeGrid(size=672), epsilon=1.0, delta=1e-6, participation_cap=[20, 80], level=200,
    ...     season_amplitudes={24: 90}, deviation=20, time_scale=30, participation={0.9: 20, 1.0: 200}, std=0.0,
    ...     sampling_probability=1.0)
    >>> print(designs)
    672 steps, (ε = 1, δ = 1e-06), level 200, season 24 ± 90, departures of 20 within 30 steps
    cap  design          lost   scale  noise  bias   interpolated  smoothed
    20   every step      26.0%  18.89  18.89  54.94  58.1          56.69
    80   every step      5.1%   37.79  37.79  10.69  39.27         20.27
    –    private series  0.0%   13.36  115.4  0      115.4         14.96
    Best: private series, then a smoother: expected error 14.96 (7.5% of the level).
    A flat line would err by 68.19.
    """
    check_grid(grid)
    epsilon, delta = check.real("epsilon", epsilon, above=0.0), check.real("delta", delta, above=0.0, below=1.0)
    positive_integer = partial(check.integer, minimum=1)
    caps = [] if participation_cap is None else _as_list("participation_cap", participation_cap, positive_integer)
    gaps, individuals = _as_list("gap", gap, positive_integer), positive_integer("individuals", individuals)
    if not caps:
        _check_without_cap(gaps, sampling_probability, std)
    panel = None if keys is None else panel_of("key", keys)
    if caps and panel is not None:
        raise Refusal(
            "participation_cap",
            Quoted(", ".join(map(str, caps))),
            "must be left out with `keys`: places are planned without a cap, which leaves nobody out",
        )
    step_limit = bound_in_a_step(value, bound, step_cap)
    _check_value(value, caps, typical, total_bound)
    source = Source(identifier="id", time="time", by=None if panel is None else "key", value=value)
    unit, grouping = Unit(replaced=bool(replaced)), grouping_of(groups, panel, shares)
    reading = Reading(source=source, grid=grid, unit=unit, step_cap=step_limit, panel=panel, grouping=grouping)
    tiers = tiers_for(reading, typical=typical, total_bound=total_bound)
    tiers.check_reading(reading)
    by_gap, has_level = _by_gap(participation, reading)
    if has_level and level is None and proxy is None and step_limit == 1:
        level = by_gap[1].total / grid.size / (1 if panel is None else len(panel)) or None
    signal = described_signal(
        grid.size,
        level=level,
        season_amplitudes=season_amplitudes,
        deviation=deviation,
        time_scale=time_scale,
        proxy=proxy,
        usual=1.0 if value is None else tiers.typical,
    )
    if by_gap and signal.mean is None:
        raise Refusal(
            "level",
            ...,
            "must be given where `step_cap` is above 1, for a `value`, or with shares of people: what a cap loses is a"
            " share of it",
        )
    if sampling_probability is None:
        sampling_probability = [p for p in _PROBABILITIES if p == 1 or p * grid.size >= _MIN_KEPT]
    probabilities = _as_list("sampling_probability", sampling_probability, check.probability)
    for p in probabilities:
        if p < 1 and p * grid.size < _MIN_KEPT:
            raise Refusal(
                "sampling_probability",
                Quoted(f"{p:g}"),
                f"keeps fewer than {_MIN_KEPT} of {grid.size} steps on average",
                "raise it",
            )
        Sampling.of(p, sampling).blocks(grid.size)  # or refuse it
    widths = _as_list("std", (0.0, 3.0, 10.0) if std is None else std, partial(check.real, minimum=0.0))
    comparison = _Comparison(
        reading, tiers, Budget(epsilon=epsilon, delta=delta), individuals, signal, by_gap, sampling
    )
    settings = [
        f"{grid.size} steps",
        None if panel is None else f"{len(panel)} keys",
        None if value is None else f"{value}, at most {step_limit} of one in a step and usually {tiers.typical}",
        f"events, at most {step_cap} of one in a step" if step_cap > 1 else None,
        f"cap {caps[0]}" if len(caps) == 1 else None,
        f"gap {gaps[0]}" if len(gaps) == 1 and gaps[0] > 1 else None,
        f"(ε = {epsilon:g}, δ = {delta:g})",
        signal.words,
    ]
    return Plan(
        title=", ".join(filter(None, settings)),
        candidates=tuple(comparison.candidates([*itertools.product(caps, gaps)], probabilities, widths)),
        signal=signal,
        individuals=individuals,
        epsilon=epsilon,
        delta=delta,
        gaps_included=frozenset(by_gap),
    )


def _check_without_cap(
    gaps: Sequence[int], sampling_probability: float | Sequence[float] | None, std: float | Sequence[float] | None
) -> None:
    needless = {
        "gap": gaps != [1],
        "sampling_probability": sampling_probability is not None and np.any(np.asarray(sampling_probability) != 1),
        "std": std is not None and np.any(np.asarray(std) != 0),
    }
    if name := next((name for name, is_given in needless.items() if is_given), None):
        raise Refusal(name, ..., "is for a count with a `participation_cap`", "leave it out, or give a cap")


def _check_value(value: str | None, caps: Sequence[int], typical: int | None, total_bound: int | None) -> None:
    if value is None and (typical, total_bound) != (None, None):
        name, given = ("total_bound", total_bound) if typical is None else ("typical", typical)
        raise Refusal(name, given, "requires `value=`, the column that is added up", "or leave it out")
    if value is not None and caps:
        raise Refusal(
            "participation_cap",
            Quoted(", ".join(map(str, caps))),
            "must be left out with `value`: sums are planned without a cap, which leaves nobody out",
        )
    if value is not None:
        remedy = "what one individual has in a usual step, in whole units, by which the error goes"
        check.required("typical", check.REQUIRED if typical is None else typical, remedy)


def _as_list(name: str, value: Any, parse: Callable[[str, object], T]) -> list[T]:
    """Return a number or several as a list without duplicates, in the given order."""
    items = [value] if np.ndim(value) == 0 else list(value)
    if not items:
        raise Refusal(name, value, "must name at least one")
    return list(dict.fromkeys(parse(name, item) for item in items))


def _by_gap(participation: Any, reading: Reading) -> tuple[dict[int, Participation], bool]:
    """Return the participation by gap, empty if unknown, and whether it implies the level."""
    if participation is None:
        return {}, False
    is_mapping = isinstance(participation, Mapping) and len(participation) > 0
    by_gap = dict(participation) if is_mapping else {1: participation}
    if is_mapping and all(isinstance(entry, (int, np.integer)) for entry in by_gap.values()):
        return {1: participation_of(by_gap, reading.size)}, False
    if 1 not in by_gap or not all(isinstance(entry, Participation) for entry in by_gap.values()):
        raise TypeRefusal(
            "participation",
            Quoted(type(participation).__name__),
            "must be a Participation, one for each gap, such as {1: …, 6: …}, or shares of people, such as"
            " `participation={0.9: 20, 1.0: 500}`",
        )
    for entry in by_gap.values():
        if entry.size != reading.size:
            rule = f"must have the grid's size, times the keys of a panel ({reading.size})"
            raise Refusal("participation", Quoted(f"size {entry.size}"), rule)
    return by_gap, True


def _caps_in_a_step(count: Count) -> dict[str, tuple[object, object]]:
    """Return what limits one individual in one step by its flags, each with its default."""
    if not count.reading.is_sum:
        return {"step-cap": (count.reading.step_cap, 1)}
    tiers = count.weighting
    assert isinstance(tiers, Tiers)
    return {
        "value": (count.reading.log.value, None),
        "bound": (count.reading.step_cap, None),
        "typical": (tiers.typical, None),
        "total-bound": (tiers.total_bound, None),
    }


def _exact_text(number: float) -> str:
    return repr(number).removesuffix(".0")  # parses to the same float
