"""Limits of memory and time that hold on other machines, too."""

import contextlib
import time

import numpy as np

#: Prints how many bytes of memory a process has had at most, at its end. Linux passes the highest number of
#: ``getrusage`` on to programs that a process starts, which would be that of the tests.
PEAK = """
import re
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


def pace():
    """Measure how many times as long as where limits were written a piece of work takes, of Python and of NumPy."""
    begun = time.process_time()
    sum(number % 7 for number in range(10**6))
    np.fft.fft(np.sort(np.random.default_rng(0).random(2**19)))
    return (time.process_time() - begun) / 0.1


@contextlib.contextmanager
def within(seconds):
    """Demand that a block takes less than so many seconds of a processor, or more as a processor is slower."""
    begun = time.process_time()
    yield
    taken = time.process_time() - begun
    assert taken < seconds or taken < seconds * pace()
