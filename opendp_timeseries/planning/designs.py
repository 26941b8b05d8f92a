"""Designs for one budget, side by side, with the error to expect of each, and what to do."""

from __future__ import annotations

import html
import itertools
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from opendp_timeseries import _validate as check
from opendp_timeseries._tables import html_table, text_table
from opendp_timeseries.accounting.calibrate import Budget, calibrate, large_delta
from opendp_timeseries.accounting.sampling import blocks_of, sampling_name
from opendp_timeseries.design.count import Count, Source
from opendp_timeseries.design.design import Design
from opendp_timeseries.design.kernels import gaussian_kernel, identity_kernel
from opendp_timeseries.design.signal import Signal
from opendp_timeseries.design.unit import Unit
from opendp_timeseries.grid import TimeGrid, check_grid
from opendp_timeseries.planning.errors import expected_error
from opendp_timeseries.planning.participation import Participation, fraction_left
from opendp_timeseries.planning.signal import SignalModel, described_signal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Candidate", "Plan", "plan", "variance_ratio"]

T = TypeVar("T", int, float)

_PROBABILITIES: Final = (0.1, 0.2, 0.5, 1.0)
#: Below this many kept steps on average, an expected error says little of any one release.
_MIN_KEPT: Final = 8
#: Sampling, a filter or a gap is recommended, and said to help, only where it makes the error less by this factor.
_CLEARLY: Final = 0.97
#: Where the error exceeds this share of a flat line's, the noise drowns the signal.
_DROWNED: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to release the series within the budget, and the error to expect; all errors are root mean squares."""

    name: str  #: the mechanism
    sampling_probability: float  #: ``p``; 1 keeps every step
    std: float  #: width of the Gaussian filter in steps, 0 for none
    scale: float  #: standard deviation σ of the noise
    noise: float  #: what the noise contributes to the error of the interpolated series
    bias: float  #: what the cap loses, the filter removes, and the signal does between kept steps, contribute to it
    smoothed: float  #: error of the best linear smoother that knows the covariance of the signal alone
    participation_cap: int | None = None  #: ``I``, steps per individual
    gap: int = 1  #: the least distance of two steps in which one individual is counted; 1 for any
    lost: float | None = None  #: fraction of counts that the cap loses; None if unknown

    @property
    def interpolated(self) -> float:
        """Error of linear interpolation between kept steps."""
        return math.hypot(self.noise, self.bias)

    @property
    def pair(self) -> tuple[int, int]:
        """Cap and gap."""
        return self.participation_cap or 0, self.gap

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text, for JSON."""
        return asdict(self) | {"interpolated": self.interpolated}

    def __str__(self) -> str:
        return self.name + (f", filter std {self.std:g}" if self.std else "")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan:
    """Candidates for one budget, with the errors to expect: see :func:`~opendp_timeseries.plan`.

    It prints as a table with advice and the call to run, in a notebook too.
    """

    title: str  #: the setting in words
    candidates: tuple[Candidate, ...]  #: all caps, gaps and filters, and the best of them with sampling
    design: Design  #: the recommended one, to run
    signal: SignalModel  #: what is assumed of the signal
    individuals: int  #: how many the guarantee is for
    epsilon: float  #: ε of the budget
    delta: float  #: δ of the budget
    gaps_included: frozenset[int]  #: gaps whose losses are known
    others: tuple[Candidate, ...] = ()  #: further mechanisms, which reconstruct the series in their own way

    def beside(self, *others: Candidate) -> Plan:
        """Return the plan with further mechanisms beside it, to print and draw; the advice ignores them.

        :param others: for the same setting, such as that of
            :func:`~opendp_timeseries.koga2022.fourier.fourier_design`.
        """
        return replace(self, others=self.others + others)

    @property
    def deviation(self) -> float:
        """Standard deviation of the signal around its level: the error of a flat line at the true level."""
        return self.signal.deviation

    @property
    def recommended(self) -> Candidate:
        """The plainest candidate (no sampling, filter or gap, if possible) that no other is clearly better than."""
        return _recommended(self.candidates)

    @property
    def is_drowned(self) -> bool:
        """Whether a flat line would be about as close as any candidate."""
        return bool(min(map(_smoothed, self.candidates)) > _DROWNED * self.deviation)

    def advice(self) -> str:
        """Say what to do, what to expect of it, what sampling would cost or gain, and what is unknown."""
        return "\n".join((self._recommendation(), self._expectation(), *self._on_sampling(), *self._cautions()))

    def python(self) -> str:
        """Return the Python code of the recommended design, for a ``log`` with the columns ``id`` and ``time``."""
        seasons, periods = "", ", ".join(map(_exact, self.signal.periods))
        if periods:
            seasons = f", seasons=({periods})" if len(self.signal.periods) > 1 else f", seasons={periods}"
        return f"{self.design.python(delta=self.delta)}\nseries = ts.smooth(release{seasons})"

    def command(self) -> str | None:
        """Return the recommended design's command line, with the file and its columns left to fill in.

        None where the command line does not offer it.
        """
        count, best = self.design.count, self.recommended
        if count.grid.step is None or self.individuals > 1 or count.unit.replaced:
            return None
        public = {name: (getattr(count.grid, name), None) for name in ("start", "step", "size", "zone")} | {
            "participation-cap": (count.participation_cap, None),
            "gap": (count.gap, 1),
            "step-cap": (count.step_cap, 1),
            "epsilon": (self.epsilon, None),
            "delta": (self.delta, None),
            "sampling-probability": (best.sampling_probability, 1),
            "sampling": (self.design.sampling, "poisson"),
            "filter-std": (_exact(best.std), "0"),
        }  # each with what it is if left out
        words = ["python", "-m", "opendp_timeseries", "LOG.csv", "--identifier", "ID", "--time", "TIME"]
        for name, (value, usual) in public.items():
            words += [f"--{name}", str(value)] if value != usual else []
        words += ["--season", *map(_exact, self.signal.periods)] if self.signal.periods else []
        return shlex.join(words)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in plain numbers and text, for JSON."""
        return {
            "setting": self.title,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "signal": {"level": self.signal.mean, "deviation": self.deviation},
            "recommended": self.recommended.to_dict(),
            "candidates": [each.to_dict() for each in (*self.candidates, *self.others)],
            "is_drowned": self.is_drowned,
            "advice": self.advice().splitlines(),
            "python": self.python(),
            "command": self.command(),
        }

    def _recommendation(self) -> str:
        best, level = self.recommended, self.signal.mean
        caps = f"participation cap {best.participation_cap}" + (f", gap {best.gap}" if best.gap > 1 else "")
        share = f" ({best.smoothed / level:.1%} of the level)" if level else ""
        return f"Best: {caps}, {best}, then a smoother: expected error {best.smoothed:.4g}{share}."

    def _expectation(self) -> str:
        flat = f"a flat line would err by {self.deviation:.4g}."
        if not self.is_drowned:
            return flat.capitalize()
        return f"The noise drowns the signal: {flat} Take coarser steps, a smaller cap, or a larger budget."

    def _on_sampling(self) -> Iterator[str]:
        sampled = [each for each in self.candidates if each.sampling_probability < 1]
        whole = [each for each in self.candidates if each.sampling_probability == 1]
        if not (sampled and whole):
            return
        best, every = (min(some, key=_smoothed) for some in (sampled, whole))
        if self.recommended.sampling_probability < 1:
            yield f"Sampling helps: every step would err by {every.smoothed:.4g}."
            return
        change = best.smoothed / every.smoothed - 1
        more = f"{change:.0%} more" if change >= 0.005 else "about the same"
        yield f"Sampling does not help: {best} would err by {best.smoothed:.4g}, {more}."
        line, straight = (min(some, key=_straight) for some in (sampled, whole))
        if line.interpolated < _CLEARLY * straight.interpolated:
            yield (
                f"Without a smoother it does: {line} would err by {line.interpolated:.4g}, every step by"
                f" {straight.interpolated:.4g}."
            )

    def _cautions(self) -> Iterator[str]:
        unknown = {each.gap for each in self.candidates} - self.gaps_included
        if self.recommended.lost is None:
            what = "What the cap loses" if unknown <= {1} else "What caps and gaps lose"
            yield f"{what} is not included; participation= tells."
        elif unknown:
            yield f"What a gap of {', '.join(map(str, sorted(unknown)))} loses is not included; participation= tells."
        if large := large_delta(self.delta):
            yield large
        yield from (f"{other}: expected error {other.interpolated:.4g}." for other in self.others)

    def _rows(self) -> tuple[list[str], list[list[str]], list[bool]]:
        """Header, cells, and whether a row is recommended; columns that say the same everywhere are left out."""
        best, shown = self.recommended, [*self._shown(), *self.others]
        columns = {
            "cap": ["–" if each.participation_cap is None else str(each.participation_cap) for each in shown],
            "gap": ["–" if each.participation_cap is None else str(each.gap) for each in shown],
            "design": [str(each) for each in shown],
            "lost": ["–" if each.lost is None else f"{each.lost:.1%}" for each in shown],
        }
        for name in ("scale", "noise", "bias", "interpolated", "smoothed"):
            columns[name] = [f"{getattr(each, name):.4g}" for each in shown]
        for name, value in (("cap", best.participation_cap), ("gap", best.gap), ("lost", "–")):
            if set(columns[name]) <= {str(value), "–"}:
                del columns[name]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)], [e is best for e in shown]

    def _shown(self) -> Iterable[Candidate]:
        """All candidates with the recommended cap and gap, and the best filter of each other pair."""
        best = self.recommended
        for pair, group in itertools.groupby(self.candidates, key=lambda each: each.pair):
            same = list(group)
            yield from same if pair == best.pair else [min(same, key=_smoothed)]

    def __repr__(self) -> str:
        header, rows, _ = self._rows()
        return f"{self.title}\n{text_table(header, rows)}\n{self.advice()}"

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in self.advice().splitlines())
        table, code = html_table(*self._rows()), html.escape(self.python())
        return f"<p>{html.escape(self.title)}</p>{table}{paragraphs}<pre>{code}</pre>"

    def plot(self, *, axes: Axes | None = None) -> Axes:
        """Draw the expected errors of the candidates that are printed; the recommended one's name is bold.

        :param axes: where to draw; a new figure if left out.
        :raises ImportError: without Matplotlib, naming the extra to install.
        """
        from opendp_timeseries.reconstruction.plot import new_axes

        drawn = (*self._shown(), *self.others)
        axes = new_axes(height=1.2 + 0.28 * len(drawn)) if axes is None else axes
        at = np.arange(len(drawn))
        axes.barh(at, [_straight(each) for each in drawn], height=0.62, color="0.82", label="interpolated")
        axes.barh(at, [each.noise for each in drawn], height=0.3, color="0.55", label="of which noise")
        axes.plot([_smoothed(each) for each in drawn], at, "k|", ms=11, mew=2, label="smoothed")
        axes.axvline(self.deviation, color="black", linewidth=0.8, linestyle=":", label="a flat line")
        header, rows, _ = self._rows()
        end = header.index("design")  # behind cap, gap, or both, where they differ
        labels = ["".join(f"{header[k]} {row[k]}, " for k in range(end) if row[k] != "–") + row[end] for row in rows]
        axes.set_yticks(at, labels, fontsize="small")
        axes.get_yticklabels()[drawn.index(self.recommended)].set_fontweight("bold")
        axes.invert_yaxis()
        axes.set_xlabel("expected root mean squared error, in the signal's unit\n" + self.title, fontsize="small")
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small")
        return axes


_smoothed, _straight = attrgetter("smoothed"), attrgetter("interpolated")


def _recommended(candidates: Sequence[Candidate]) -> Candidate:
    least = min(map(_smoothed, candidates))
    near = [each for each in candidates if least >= _CLEARLY * each.smoothed]
    return min(near, key=lambda each: (each.sampling_probability < 1, each.std, each.gap, each.smoothed))


def variance_ratio(sampled: Candidate, every: Candidate) -> float:
    """Return ``r = σ_p² / (p σ_1²)`` of a candidate and its like at every step: at 1 or more, sampling cannot help.

    After the best linear smoother, that is (docs/proofs/dominance.md).

    :param sampled: a candidate with sampling.
    :param every: the one with the same filter that keeps every step.
    """
    return sampled.scale**2 / (sampled.sampling_probability * every.scale**2)


def plan(
    grid: TimeGrid,
    *,
    participation_cap: int | Sequence[int],
    epsilon: float,
    delta: float,
    gap: int | Sequence[int] = 1,
    participation: Participation | Mapping[int, Participation] | None = None,
    step_cap: int = 1,
    individuals: int = 1,
    level: float | None = None,
    season_amplitudes: Mapping[float, float] | None = None,
    deviation: float | None = None,
    time_scale: float | None = None,
    proxy: ArrayLike | None = None,
    sampling_probability: float | Sequence[float] | None = None,
    sampling: str = "poisson",
    std: float | Sequence[float] = (0.0, 3.0, 10.0),
    replaced: bool = False,
) -> Plan:
    """Say which design to run within a budget, and what error to expect of it, without any private data.

    Each candidate gets the least noise that the exact privacy profile allows at (ε, δ). All caps, gaps and filters are
    compared at every step, which is the better start for a good smoother (docs/concepts/amplification.md). Sampling is
    then compared with the best cap and gap. If no sampling probability is 1, all are compared at the largest.

    The signal is a level, plus patterns that repeat, plus departures that die away exponentially (an
    Ornstein–Uhlenbeck process), plus Poisson's variance around these if the level is given: the model of
    :func:`~opendp_timeseries.smooth`. Or it is any signal with the spectrum of a public series. The error of linear
    interpolation is then exact, on average over kept sets that are drawn with a fixed public seed. So is that of the
    best linear smoother, but for the ends of long series. A smoother that must learn the model from the release errs
    more, and the more so the fewer steps there are. All errors are against the counts.

    :param grid: the grid of the count.
    :param participation_cap: ``I``, steps per individual; one, or several to compare.
    :param epsilon: ε of the budget.
    :param delta: δ of the budget.
    :param gap: the least distance of two steps in which one individual is counted; one, or several to compare. Choose
        one within which nobody comes twice. It pays off when combined with a filter.
    :param participation: who takes part how often, as far as it is public: what a cap loses then enters the error. The
        cap is chosen as if nothing were corrected afterwards. What gaps lose enters too if there is one for each gap, 1
        among them, as ``{1: …, 6: …}``.
    :param step_cap: ``M``, events per individual and step.
    :param individuals: how many the guarantee is for.
    :param level: mean count of a step; if left out, that of the participation, else unknown.
    :param season_amplitudes: the amplitude of each pattern, in counts, by its period in steps, such as ``{24: 60.0}``:
        half the way from its lowest to its highest, were it a sine.
    :param deviation: standard deviation of the departures, in counts.
    :param time_scale: steps within which departures change: their correlation at this lag is 0.37.
    :param proxy: instead of these four, a **public** series of the grid's size that resembles the private one.
    :param sampling_probability: one, or several to compare; if left out, those of 0.1, 0.2, 0.5 and 1 that keep enough.
    :param sampling: ``"poisson"``, or ``"stratified"`` for one step of each block.
    :param std: width of the Gaussian filter in steps, 0 for none; one, or several to compare.
    :param replaced: True if adjacent logs replace individuals, rather than add or remove them.
    :return: a :class:`~opendp_timeseries.planning.Plan`; print it.
    :raises TypeError: if the grid is not a :class:`~opendp_timeseries.TimeGrid`.
    :raises ValueError: for a parameter out of range, a probability that keeps fewer than 8 steps on average, or
        not exactly one description of the signal.

    >>> found = plan(TimeGrid(size=672), participation_cap=[20, 40], epsilon=1.0, delta=1e-6, level=200,
    ...     season_amplitudes={24: 90}, deviation=20, time_scale=30, sampling_probability=(0.5, 1.0), std=0.0)
    >>> print(found)
    672 steps, (ε = 1, δ = 1e-06), level 200, season 24 ± 90, departures of 20 within 30 steps
    cap  design      scale  noise  bias   interpolated  smoothed
    20   p = 0.5     14.41  12.79  26.25  29.21         14.68
    20   every step  18.89  18.89  0      18.89         12.62
    40   every step  26.72  26.72  0      26.72         14.78
    Best: participation cap 20, every step, then a smoother: expected error 12.62 (6.3% of the level).
    A flat line would err by 68.19.
    Sampling does not help: p = 0.5 would err by 14.68, 16% more.
    What the cap loses is not included; participation= tells.
    """
    check_grid(grid)
    epsilon, delta = check.real("epsilon", epsilon, above=0.0), check.real("delta", delta, above=0.0, below=1.0)
    whole = partial(check.integer, minimum=1)
    caps, gaps = _each("participation_cap", participation_cap, whole), _each("gap", gap, whole)
    individuals = whole("individuals", individuals)
    by_gap = _by_gap(participation, grid.size)
    if by_gap and level is None and proxy is None and step_cap == 1:
        level = by_gap[1].total / grid.size or None
    signal = described_signal(
        grid.size,
        level=level,
        season_amplitudes=season_amplitudes,
        deviation=deviation,
        time_scale=time_scale,
        proxy=proxy,
    )
    if by_gap and signal.mean is None:
        raise ValueError("level must be given where step_cap is more than 1: what a cap loses is a share of it")
    if sampling_probability is None:
        sampling_probability = [p for p in _PROBABILITIES if p == 1 or p * grid.size >= _MIN_KEPT]
    probabilities = _each("sampling_probability", sampling_probability, check.probability)
    for p in probabilities:
        if p < 1 and p * grid.size < _MIN_KEPT:
            few = f"keeps fewer than {_MIN_KEPT} of {grid.size} steps on average"
            raise ValueError(f"sampling_probability ({p:g}) {few}; raise it")
        if sampling_name(sampling) == "stratified":
            blocks_of(p, grid.size)  # or refuse it
    widths = _each("std", std, partial(check.real, minimum=0.0))
    source, unit = Source(identifier="id", time="time"), Unit(replaced=bool(replaced))
    every = Count(source=source, grid=grid, participation_cap=caps[0], step_cap=step_cap, unit=unit)
    kernels = {width: gaussian_kernel(grid.size, width) if width else identity_kernel(grid.size) for width in widths}

    def design(pair: tuple[int, int], p: float, width: float, scale: float = 1.0) -> Design:
        count, filters = replace(every, participation_cap=pair[0], gap=pair[1]), (kernels[width],) if width else ()
        sample = sampling if p < 1 else "poisson"
        return Design(signal=Signal(count, filters), sampling_probability=p, sampling=sample, scale=scale)

    def candidate(pair: tuple[int, int], p: float, width: float) -> Candidate:
        scale = calibrate(design(pair, p, width).law(individuals).at, Budget(epsilon=epsilon, delta=delta))
        left, unsure = 1.0, 0.0
        if by_gap:  # as far as it is known
            left, unsure = fraction_left(by_gap[1], by_gap.get(pair[1], by_gap[1]), pair[0])
            left = max(left, 1e-9)
        error = expected_error(signal.scaled(left), kernels[width], p, scale, sampling)
        missing = math.hypot(1 - left, unsure) * math.sqrt((signal.mean or 0.0) ** 2 + signal.covariance[0])
        # Of the capped series, which is `left` times the whole, this much is unresolved; of the whole, more.
        unresolved = error.smoothed**2 * (2 - left) / left
        return Candidate(
            name="every step" if p == 1 else f"p = {p:g}" + (" in blocks" if sampling == "stratified" else ""),
            sampling_probability=p,
            std=width,
            scale=scale,
            noise=error.noise,
            bias=math.hypot(error.bias, missing),
            smoothed=math.sqrt(unresolved + missing**2),
            participation_cap=pair[0],
            gap=pair[1],
            lost=1 - left if by_gap else None,
        )

    most = max(probabilities)
    pairs = itertools.product(caps, gaps)
    compared = {pair: [candidate(pair, most, width) for width in widths] for pair in pairs}
    best = _recommended(list(itertools.chain(*compared.values()))).pair
    compared[best] = [
        found if p == most else candidate(best, p, found.std) for found in compared[best] for p in probabilities
    ]
    candidates = tuple(itertools.chain(*compared.values()))
    run = _recommended(candidates)
    limits = f"at most {caps[0]} of an individual, " if len(caps) == 1 else ""
    limits += f"{gaps[0]} apart, " if len(gaps) == 1 and gaps[0] > 1 else ""
    return Plan(
        title=f"{grid.size} steps, {limits}(ε = {epsilon:g}, δ = {delta:g}), {signal.words}",
        candidates=candidates,
        design=design(run.pair, run.sampling_probability, run.std, run.scale),
        signal=signal,
        individuals=individuals,
        epsilon=epsilon,
        delta=delta,
        gaps_included=frozenset(by_gap),
    )


def _each(name: str, value: Any, checked: Callable[[str, Any], T]) -> list[T]:
    """Return one number or several as a list, each once, in the order given."""
    given = [value] if np.ndim(value) == 0 else list(value)
    if not given:
        raise ValueError(f"{name} ({check.shown(value)}) must name at least one")
    return list(dict.fromkeys(checked(name, one) for one in given))


def _by_gap(participation: Any, size: int) -> dict[int, Participation]:
    if participation is None:
        return {}
    found = dict(participation) if isinstance(participation, Mapping) else {1: participation}
    if 1 not in found or not all(isinstance(one, Participation) for one in found.values()):
        raise TypeError(
            f"participation ({type(participation).__name__}) must be a Participation, or one for each gap, such as"
            " {1: …, 6: …}"
        )
    for one in found.values():
        if one.size != size:
            raise ValueError(f"participation (size {one.size}) must be in the steps of the grid, which has {size}")
    return found


def _exact(number: float) -> str:
    """Write a number that reads back as the same float."""
    return str(int(number)) if number.is_integer() else repr(number)
