"""Ten thousand series of 720 steps with their totals, from a log to figures that add up and back, in 2 GB."""

import subprocess
import sys

import pytest

from tests.limits import PEAK

RUN = """
import numpy as np
import opendp.prelude as dp

import opendp_timeseries as ts

dp.enable_features("contrib", "honest-but-curious")
keys, rows, rng = [f"s{k:05}" for k in range(10_000)], 10**6, np.random.default_rng(0)
groups = {"city": {f"d{k}": keys[k::100] for k in range(100)}}
log = {
    "id": rng.integers(0, rows // 10, rows),
    "step": rng.integers(0, 720, rows),
    "site": np.array(keys)[np.minimum(rng.zipf(1.3, rows) - 1, 9_999)],
}
space = ts.event_log_domain(identifier="id", time="step"), dp.symmetric_distance()
count = space >> ts.then_participation_count(
    ts.TimeGrid(size=720), participation_cap=10, by="site", keys=keys, key_cap=1
)
noise = ts.then_subsampled_gaussian(8.0, sampling_probability=1 / 20, sampling="stratified")
released = (count >> ts.then_composition([noise, ts.then_totals(groups) >> noise], delta=1e-6))(log)
panel, totals = ts.reconcile(*map(ts.interpolate, released))
values = panel.values.reshape(10_000, 720)
assert np.allclose(totals.by_key()["city"].values, values.sum(axis=0), atol=1e-6)
assert np.allclose(totals.by_key()["d7"].values, values[7::100].sum(axis=0), atol=1e-6)
assert len(panel.to_frame()) == 7_200_000
written = ts.write_releases(released, adaptivity="adaptive")
assert [release.size for release in ts.read_releases(written)] == [7_200_000, 101 * 720]
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_ten_thousand_keys_take_less_than_two_gigabytes():
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", RUN + PEAK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * 10**9  # 1.2 on the machine on which it was written
