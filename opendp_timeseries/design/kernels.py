"""Public filter kernels, with taps on a dyadic grid: what is accounted for is what is applied, exactly."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_timeseries._json import fields_of
from opendp_timeseries._refusal import Quoted, Refusal, TypeRefusal
from opendp_timeseries._validate import integer, real
from opendp_timeseries.accounting.filtering import is_symmetric_decreasing

#: Taps are multiples of 2**-26 unless asked otherwise: finer than any use of a smoother needs, and counts
#: up to 2**27 - 1 still pass an averaging filter exactly.
_RESOLUTION_BITS: Final = 26
_MAX_TOTAL: Final = 2**53
_FIELDS: Final = {"name": str, "size": int, "resolution_bits": int, "taps": tuple[tuple[int, int], ...]}


@dataclass(frozen=True, eq=False, repr=False)
class Kernel:
    """The taps of a circulant filter, ``h_t = numerators[t] * 2**-resolution_bits``: public, never read from data.

    The filter maps a signal ``x`` of ``T`` steps to ``y_t = sum_k x_k h_((t - k) mod T)``, so tap 0 is the weight of
    the same step, tap 1 that of the step before and tap ``T - 1`` that of the step after. Kernels are equal when
    ``numerators`` and ``resolution_bits`` are, whatever their names.

    :param numerators: ``T`` integers, not all zero, with magnitudes that sum to less than 2**53.
    :param resolution_bits: binary places of the taps, 0 to 40.
    :param name: how the kernel was made, such as ``gaussian std=3.0``. Where a constructor makes the same taps by this
        name, it is what :meth:`python` and :meth:`rounded` call.
    :raises TypeError, ValueError: naming the value and the rule.
    """

    numerators: NDArray[np.int64]
    resolution_bits: int
    name: str = "taps"

    def __post_init__(self) -> None:
        resolution_bits = integer("resolution_bits", self.resolution_bits, minimum=0, maximum=40)
        array = np.asarray(self.numerators)
        if array.dtype.kind not in "iu":
            raise TypeRefusal("numerators", Quoted(array.dtype), "must be integers", "see Kernel.from_taps(…)")
        if array.ndim != 1 or array.size == 0:
            raise Refusal("numerators", Quoted(f"shape {array.shape}"), "must be one row of at least one integer")
        if not array.any():
            raise Refusal(
                "all taps", ..., f"are zero at `resolution_bits` ({resolution_bits})", "raise the taps or the bits"
            )
        # Python integers: a sum of int64 magnitudes may wrap, and so may a magnitude.
        if sum(abs(q) for q in array[array != 0].tolist()) >= _MAX_TOTAL:
            raise Refusal(
                "the magnitudes of the taps",
                ...,
                f"must sum to less than 2**{53 - resolution_bits} at `resolution_bits` ({resolution_bits})",
                "scale the taps down or lower `resolution_bits`",
            )
        # An array over bytes can never be made writeable again, and so the taps stay what was accounted for.
        frozen = np.frombuffer(array.astype("<i8").tobytes(), dtype="<i8")
        object.__setattr__(self, "numerators", frozen)
        object.__setattr__(self, "resolution_bits", resolution_bits)

    @classmethod
    def from_taps(
        cls, taps: ArrayLike, *, centre: int = 0, size: int | None = None, resolution_bits: int = _RESOLUTION_BITS
    ) -> Kernel:
        """Return the kernel of any real taps, signed and asymmetric ones too.

        Each tap is rounded to the nearest multiple of ``2**-resolution_bits``, and ``l1`` is that of the taps as
        stored. It need not be 1: a gain of 2 doubles the signal and its sensitivity.

        :param taps: finite real numbers; ``taps[centre + t]`` is the weight of the step ``t`` steps before.
        :param centre: which of them is the weight of the same step: 1 of three that are symmetric.
        :param size: number of steps ``T`` of the grid, on which all other taps are zero; by default that of the taps.
        :param resolution_bits: binary places of the taps, 0 to 40.
        :raises TypeError: if the taps are complex, bools or not numbers.
        :raises ValueError: if they are not one row, not finite, all zero on the grid, or too large.

        >>> Kernel.from_taps([0.5, 0.25, 0, 0.25]).taps.tolist()
        [0.5, 0.25, 0.0, 0.25]
        >>> Kernel.from_taps([0.25, 0.5, 0.25], centre=1, size=5).taps.tolist()
        [0.5, 0.25, 0.0, 0.0, 0.25]
        """
        resolution_bits = integer("resolution_bits", resolution_bits, minimum=0, maximum=40)
        array = np.asarray(taps)
        if array.dtype.kind not in "iuf":
            raise TypeRefusal("taps", Quoted(array.dtype), "must be real numbers", "give one float for each step")
        if array.ndim != 1 or array.size == 0:
            raise Refusal("taps", Quoted(f"shape {array.shape}"), "must be one row with one number for each step")
        centre = integer("centre", centre, minimum=0, maximum=array.size - 1, remedy="it is a place in the taps")
        remedy = "leave out taps of zero"
        steps = array.size if size is None else integer("size", size, minimum=array.size, remedy=remedy)
        values = array.astype(np.float64)
        for first in np.flatnonzero(~np.isfinite(values)):
            raise Refusal(f"taps[{first}]", Quoted(values[first]), "must be finite", "give every step a finite weight")
        values = np.roll(np.append(values, np.zeros(steps - len(values))), -centre)
        with np.errstate(over="ignore"):  # clipped taps are as much too large as they are
            numerators = np.clip(np.rint(np.ldexp(values, resolution_bits)), -_MAX_TOTAL, _MAX_TOTAL)
        return cls(numerators.astype(np.int64), resolution_bits)

    def __reduce__(self) -> tuple[object, ...]:
        return Kernel, (self.numerators, self.resolution_bits, self.name)

    def to_dict(self) -> dict[str, object]:
        """Return plain Python objects, with the taps that are not zero; :meth:`from_dict` reads them back exactly."""
        at = np.flatnonzero(self.numerators)
        taps = [[int(step), int(self.numerators[step])] for step in at]
        return {"name": self.name, "size": self.size, "resolution_bits": self.resolution_bits, "taps": taps}

    @classmethod
    def from_dict(cls, document: object, size: int) -> Kernel:
        """Read back what :meth:`to_dict` wrote; TypeError or ValueError for anything else.

        :param size: what the size must be, so that a document cannot ask for any amount of memory.
        """
        fields = fields_of(document, "filter", _FIELDS)
        if fields["size"] != size:
            raise Refusal("size of the filter", Quoted(fields["size"]), f"must be the grid's ({size})")
        numerators = np.zeros(integer("size of the filter", size, minimum=1, maximum=2**31), dtype=np.int64)
        previous = -1
        for step, numerator in fields["taps"]:
            if not previous < step < size or not 0 < abs(numerator) < 2**63:
                raise Refusal(
                    "taps of the filter",
                    [step, numerator],
                    "must have a step above the one before it, and a numerator other than 0",
                )
            numerators[step], previous = numerator, step
        return cls(numerators, fields["resolution_bits"], fields["name"])

    @property
    def size(self) -> int:
        """Steps of the cycle, ``T``."""
        return len(self.numerators)

    @property
    def taps(self) -> NDArray[np.float64]:
        """The taps as float64, exactly, of shape ``(T,)``."""
        return np.ldexp(self.numerators.astype(np.float64), -self.resolution_bits)

    @cached_property
    def l1(self) -> Fraction:
        """Sum of the magnitudes of the taps, exactly: 1 for every named kernel."""
        return Fraction(int(np.abs(self.numerators).sum()), 2**self.resolution_bits)

    @cached_property
    def support(self) -> int:
        """Number of taps that are not zero."""
        return int(np.count_nonzero(self.numerators))

    @cached_property
    def is_symmetric_decreasing(self) -> bool:
        """True if ``h >= 0``, ``h_t = h_(-t)`` and ``h`` does not increase in circular distance."""
        return is_symmetric_decreasing(self.numerators)

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(b"%d:" % self.resolution_bits + self.numerators.tobytes()).digest()

    @property
    def identifier(self) -> str:
        """Name, size, resolution_bits and a digest of the taps, by which kernels are told apart."""
        digest = self._digest.hex()[:16]
        return f"{self.name}, size={self.size}, resolution_bits={self.resolution_bits}, sha256={digest}"

    def python(self) -> str:
        """Return the call that makes this kernel, after ``ts.``."""
        maker, *parameter = self.name.split()
        if maker == "identity" or self._of_name(self.resolution_bits) != self:
            return f"Kernel.from_dict({self.to_dict()!r}, {self.size})"
        if self.resolution_bits != _RESOLUTION_BITS:
            parameter.append(f"resolution_bits={self.resolution_bits}")
        return f"{maker}_kernel({', '.join([str(self.size), *parameter])})"

    def _of_name(self, resolution_bits: int) -> Kernel | None:
        """Return what a constructor makes by this kernel's name; None if there is no such name."""
        maker, _, parameter = self.name.partition(" ")
        if maker not in _NAMED:
            return None
        option, _, value = parameter.partition("=")
        options: dict[str, float] = {} if maker == "identity" else {"resolution_bits": resolution_bits}
        if value:
            options[option] = int(value) if value.isdecimal() else float(value)
        return _NAMED[maker](self.size, **options)

    def rounded(self, resolution_bits: int) -> Kernel:
        """Return this kernel with at most this many binary places; a named kernel as its constructor makes it.

        A kernel that is symmetric and decreasing stays so, and its ``l1`` is rounded down to the grid: 1 stays 1.

        >>> gaussian_kernel(8, 1.0).rounded(16) == gaussian_kernel(8, 1.0, resolution_bits=16)
        True
        """
        if self.resolution_bits <= resolution_bits:
            return self
        if self._of_name(self.resolution_bits) == self:
            return self._of_name(resolution_bits) or self
        return _rounded(self.name, self.taps, resolution_bits, self.l1 if self.is_symmetric_decreasing else None)

    def convolve(self, other: Kernel, *, resolution_bits: int = _RESOLUTION_BITS) -> Kernel:
        """Return one kernel for two filters in a row.

        Two filters one after the other need the binary places of both, which leaves little room for counts. This one
        is rounded to its own grid and accounted for as stored. If both kernels are symmetric and decreasing then so is
        the result (Wintner 1938), and its ``l1`` is the product of the two, rounded down to the grid: exactly 1 for
        named kernels.

        :param other: the other filter, on a cycle of the same size.
        :param resolution_bits: binary places of the result, 0 to 40.

        >>> twice = boxcar_kernel(8, 3).convolve(boxcar_kernel(8, 3))
        >>> twice.support, twice.l1, twice.is_symmetric_decreasing
        (5, Fraction(1, 1), True)
        """
        if other.size != self.size:
            raise Refusal("kernel sizes", Quoted(f"{self.size} and {other.size}"), "must be equal")
        product = np.fft.irfft(np.fft.rfft(self.taps) * np.fft.rfft(other.taps), n=self.size)
        decreasing = self.is_symmetric_decreasing and other.is_symmetric_decreasing
        return _rounded("convolution", product, resolution_bits, self.l1 * other.l1 if decreasing else None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self._digest == other._digest  # which is of resolution_bits too

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"Kernel({self.identifier})"


def _short(number: float) -> str:
    return repr(number).removesuffix(".0")  # which reads back exactly


def _size(size: object) -> int:
    return integer("size", size, minimum=1, remedy="give the number of steps of the grid, grid.size")


def _rounded(name: str, taps: NDArray[np.float64], resolution_bits: int, gain: Fraction | None) -> Kernel:
    """Put taps on a grid; with a gain, so that a kernel that is symmetric and decreasing stays so."""
    if gain is None:
        return Kernel.from_taps(taps, resolution_bits=resolution_bits)
    return _decreasing(name, len(taps), taps[: len(taps) // 2 + 1], resolution_bits, gain)


def _decreasing(
    name: str, size: int, weights: NDArray[np.float64], resolution_bits: int, gain: Fraction = Fraction(1)
) -> Kernel:
    """Put weights at the distances 0 … ⌊T/2⌋ on the grid, with ‖h‖₁ = ``gain`` rounded down to the grid.

    Every tap is rounded down, and the units that are left over go to the innermost taps, one each: order and symmetry
    stay, and no tap moves by more than two units.
    """
    resolution_bits = integer("resolution_bits", resolution_bits, minimum=0, maximum=40)
    units = math.floor(gain * 2**resolution_bits)
    if units < 1:
        raise Refusal("resolution_bits", resolution_bits, f"has no unit below a gain of {float(gain):g}", "raise it")
    # Rounding noise must not break the order, nor leave a negative weight.
    weights = np.minimum.accumulate(np.maximum(weights, 0.0))
    distances = np.arange(len(weights))
    copies = np.where(2 * distances % size == 0, 1, 2)  # the centre, and the antipode of an even cycle, are their own
    # A hair low, by more than the few rounding errors here, so that the sum of the floors is at most `units`.
    factor = units / math.fsum(copies * weights) * (1 - 2.0**-45)
    half = np.floor(weights * factor).astype(np.int64)
    remainder = units - int(copies @ half)  # at least 0, and at most one for each of the `size` taps
    pairs = max(remainder - 1, 0) // 2
    half[1 : pairs + 1] += 1
    half[0] += remainder - 2 * pairs  # at least 1 whenever its neighbour got 1
    return Kernel(np.concatenate([half, half[(size - 1) // 2 : 0 : -1]]), resolution_bits, name)


def gaussian_kernel(size: int, std: float, *, resolution_bits: int = _RESOLUTION_BITS) -> Kernel:
    """Gaussian kernel, taps proportional to ``exp(-d**2 / (2 std**2))`` at circular distance ``d``.

    The filter of the paper's experiments (Koga et al. 2022, appendix), with ``l1`` exactly 1.

    :param size: steps of the grid, ``T``.
    :param std: standard deviation, in steps; positive.
    :param resolution_bits: binary places of the taps, 0 to 40.

    >>> kernel = gaussian_kernel(1800, std=10)
    >>> kernel.l1, kernel.support, kernel.is_symmetric_decreasing
    (Fraction(1, 1), 109, True)
    """
    size, std = _size(size), real("std", std, above=0.0)
    with np.errstate(over="ignore"):  # a vanishing std: everything but the centre has weight 0
        weights = np.exp(-0.5 * (np.arange(size // 2 + 1) / std) ** 2)
    return _decreasing(f"gaussian std={_short(std)}", size, weights, resolution_bits)


def exponential_kernel(size: int, decay: float, *, resolution_bits: int = _RESOLUTION_BITS) -> Kernel:
    """Two-sided exponential kernel, taps proportional to ``exp(-d / decay)`` at circular distance ``d``.

    :param size: steps of the grid, ``T``.
    :param decay: distance at which the weight has fallen to 1/e, in steps; positive.
    :param resolution_bits: binary places of the taps, 0 to 40.

    >>> exponential_kernel(4, decay=1.0, resolution_bits=4).numerators.tolist()
    [9, 3, 1, 3]
    """
    size, decay = _size(size), real("decay", decay, above=0.0)
    with np.errstate(over="ignore"):
        weights = np.exp(-np.arange(size // 2 + 1) / decay)
    return _decreasing(f"exponential decay={_short(decay)}", size, weights, resolution_bits)


def boxcar_kernel(size: int, width: int, *, resolution_bits: int = _RESOLUTION_BITS) -> Kernel:
    """Moving average over ``width`` steps, centred, so ``width`` is odd.

    :param size: steps of the grid, ``T``.
    :param width: steps averaged, odd, at most ``size``.
    :param resolution_bits: binary places of the taps, 0 to 40.

    >>> boxcar_kernel(6, width=3, resolution_bits=4).numerators.tolist()
    [6, 5, 0, 0, 0, 5]
    """
    size = _size(size)
    width = integer("width", width, minimum=1, maximum=size, remedy="a moving average fits on the cycle once")
    if width % 2 == 0:
        raise Refusal("width", width, "must be odd, so that the average is centred", f"try {width + 1}")
    weights = (np.arange(size // 2 + 1) <= width // 2).astype(np.float64)
    return _decreasing(f"boxcar width={width}", size, weights, resolution_bits)


def identity_kernel(size: int) -> Kernel:
    """Kernel of the filter that changes nothing; its taps are integers (``resolution_bits`` is 0).

    :param size: steps of the grid, ``T``.

    >>> identity_kernel(3).taps.tolist()
    [1.0, 0.0, 0.0]
    """
    numerators = np.zeros(_size(size), dtype=np.int64)
    numerators[0] = 1
    return Kernel(numerators, 0, "identity")


_NAMED: Final[dict[str, Callable[..., Kernel]]] = {
    "gaussian": gaussian_kernel,
    "exponential": exponential_kernel,
    "boxcar": boxcar_kernel,
    "identity": identity_kernel,
}
