"""Work that several processes do is the work that one does."""

import importlib
import math
import os
import time
from functools import partial

import pytest

from opendp_timeseries.reconstruction import workers


def slowly(number, *, home=None):
    """A square, and who worked it out; at home only, if that is given."""
    time.sleep(0.01)
    if home not in (None, os.getpid()):
        os._exit(1)
    return number**2, os.getpid()


class Foreign:
    """What cannot be read where it arrives."""

    def __reduce__(self):
        return importlib.import_module, ("no_such_module",)


def foreign(number, *, home):
    time.sleep(0.01)
    return (number**2, home) if os.getpid() == home else Foreign()


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    for name in ("_PATIENCE", "_LEFT"):
        monkeypatch.setattr(workers, name, 0.0)
    monkeypatch.setattr(workers, "_processors", lambda: 3)


@pytest.mark.long
def test_others_help():
    told = []
    found = workers.each(slowly, [(number,) for number in range(400)], told.append)
    assert [square for square, _ in found] == [number**2 for number in range(400)]
    assert {pid for _, pid in found} > {os.getpid()}
    assert told == sorted(told)
    assert told[-1] == 400 == max(told)
    assert told.count(400) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "function",
    [
        partial(slowly, home=os.getpid()),
        partial(foreign, home=os.getpid()),
        lambda number: (number**2, time.sleep(0.02)),
    ],
)
def test_what_others_do_not_finish_is_done_here(function):
    found = workers.each(function, [(number,) for number in range(60)])
    assert [square for square, _ in found] == [number**2 for number in range(60)]


def test_what_fails_fails_here(monkeypatch):
    monkeypatch.setattr(workers, "_processors", lambda: 1)
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        workers.each(math.sqrt, [(number,) for number in range(9, -9, -1)])


def test_nothing_is_nothing():
    assert workers.each(slowly, []) == []
