"""Exact circular convolution beside NumPy's, and the stability map; run with ``pytest tests/benchmarks``."""

import numpy as np
import pytest

from opendp_timeseries.accounting import filtering
from opendp_timeseries.accounting.influence import count_influence
from opendp_timeseries.design.kernels import boxcar_kernel, gaussian_kernel
from opendp_timeseries.plugin.circulant_filter import circular_convolve

SIZE = 10**6
KERNELS = {
    "201 taps": boxcar_kernel(SIZE, 201),
    "1001 taps": boxcar_kernel(SIZE, 1001),
    "9031 taps": gaussian_kernel(SIZE, 1000),
}


def exact(counts, kernel):
    return circular_convolve(counts, kernel)


def numpy_direct(counts, kernel):
    """float64, exact under the same clamp, which it does not check; the wrap-round is included."""
    half = (kernel.support - 1) // 2
    arc = np.roll(kernel.taps, half)[: 2 * half + 1]
    signal = counts.astype(np.float64)
    return np.convolve(np.concatenate([signal[-half:], signal, signal[:half]]), arc, mode="valid")


def numpy_transform(counts, kernel):
    """One FFT, rounded: exact for small counts only."""
    product = np.fft.irfft(np.fft.rfft(counts) * np.fft.rfft(kernel.taps), len(counts))
    return np.ldexp(np.rint(np.ldexp(product, kernel.resolution_bits)), -kernel.resolution_bits)


@pytest.mark.parametrize("route", [exact, numpy_direct, numpy_transform], ids=lambda r: r.__name__)
@pytest.mark.parametrize("taps", list(KERNELS))
def test_convolution(benchmark, taps, route):
    benchmark.group = taps
    counts = np.random.default_rng(0).integers(0, 1000, SIZE)
    result = benchmark.pedantic(route, (counts, KERNELS[taps]), rounds=5, warmup_rounds=1)
    np.testing.assert_array_equal(result, circular_convolve(counts, KERNELS[taps]))


@pytest.mark.parametrize("cached", [False, True], ids=["first call", "again"])
@pytest.mark.parametrize("std", [10, 1000])
def test_stability_map(benchmark, std, cached):
    benchmark.group = "stability map"
    kernel = gaussian_kernel(SIZE, std)
    influence = count_influence(1, participation_cap=10**4, step_cap=1, size=SIZE, replaced=False)
    caches = [v for v in vars(filtering).values() if hasattr(v, "cache_clear")]

    def forget():
        if not cached:
            for cache in caches:
                cache.cache_clear()

    filtering.filtered_influence(influence, kernel)
    benchmark.pedantic(filtering.filtered_influence, (influence, kernel), setup=forget, rounds=5)
