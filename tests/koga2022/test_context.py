"""Importing the room makes its constructors available to OpenDP's Context."""

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries import koga2022
from tests.make import context_of

dp.enable_features("contrib", "honest-but-curious")


def query():
    log = {"id": np.arange(50), "time": np.arange(50) % 20}
    context = context_of(log, rho=0.5, delta=1e-6)
    return context.query()


def test_algorithm1_in_a_context():
    count = query().participation_count(ts.TimeGrid(size=20), participation_cap=1, excess="drop")
    release = count.koga2022(alpha=1.0, sampling_probability=0.5).release()
    assert (release.size, release.scale) == (20, pytest.approx(1.0, rel=1e-6))  # ρ = 1/(2σ²)


def test_fourier_coefficients_in_a_context():
    count = query().participation_count(ts.TimeGrid(size=20), participation_cap=1, excess="drop")
    assert len(count.fourier_coefficients(3).gaussian().release()) == 5


def test_what_the_room_offers():
    assert all(hasattr(koga2022, name) for name in koga2022.__all__)
    assert not set(koga2022.__all__) & set(ts.__all__)
