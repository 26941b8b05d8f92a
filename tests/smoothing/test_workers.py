"""Work that several processes do is the work that one does."""

import importlib
import math
import os
import sys
import threading
import time
from functools import partial

import pytest

from opendp_timeseries.smoothing import workers
from tests.refused import refuses


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
    for name in ("_PATIENCE", "_LONG"):
        monkeypatch.setattr(workers, name, 0.0)
    monkeypatch.setattr(workers, "_processors", lambda: 3)


def shared(function, numbers, done=None):
    with workers.Pool() as pool:
        return pool.map(function, [(number,) for number in numbers], done)


def together(number, *, home, helped):
    """At home, the first ones at once, and others as soon as somebody helps."""
    if home != os.getpid():
        helped.touch()
    until = time.monotonic() + 60
    while number > 9 and not helped.exists() and time.monotonic() < until:
        time.sleep(0.01)
    return number**2, os.getpid()


@pytest.mark.long
def test_another_process_helps_in_all_rounds(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_processors", lambda: 2)
    told, processes = [], set()
    with workers.Pool() as pool:
        for turn, done in {"first": told.append, "second": None}.items():
            function = partial(together, home=os.getpid(), helped=tmp_path / turn)
            found = pool.map(function, [(number,) for number in range(400)], done)
            assert [square for square, _ in found] == [number**2 for number in range(400)]
            assert len({pid for _, pid in found}) == 2
            processes |= {pid for _, pid in found}
    assert len(processes) == 2
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
    found = shared(function, range(60))
    assert [square for square, _ in found] == [number**2 for number in range(60)]


SCRIPTS = {
    "sleeps": "exec sleep 600",
    "exits": "exit 3",
    "echoes": "exec cat",
    "says something else": "exec yes",
    "says nothing and reads nothing": "exec 0<&- 1>&-; exec sleep 600",
    "is ready and hangs": f"printf '{workers._READY.decode()}'; exec sleep 600",
    "is ready and ends": f"printf '{workers._READY.decode()}'; exit 0",
}


@pytest.mark.skipif(os.name != "posix", reason="scripts of a shell")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=[] if name in ("sleeps", "is ready and hangs") else pytest.mark.long)
        for name, script in SCRIPTS.items()
    ],
)
def test_nobody_waits_for_what_is_no_helper(script, monkeypatch, tmp_path):
    fake = tmp_path / "python"
    starts = tmp_path / "starts"
    starts.touch()
    fake.write_text(f"#!/bin/sh\necho >>{starts}\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    start, threads = time.monotonic(), threading.active_count()
    with workers.Pool() as pool:
        for numbers in (range(40), range(2), range(12)):
            given = [(number,) for number in numbers]
            assert pool.map(slowly, given) == [(number**2, os.getpid()) for number in numbers]
    assert len(starts.read_text()) <= 2  # once for each helper, not for each round
    assert time.monotonic() - start < 100  # a sleep of 600 ends with it
    while threading.active_count() > threads and time.monotonic() < start + 200:
        time.sleep(0.01)
    assert threading.active_count() <= threads


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        *(
            (workers.subprocess, "Popen", error)
            for error in (BlockingIOError(11, ""), PermissionError(1, ""), MemoryError)
        ),
        (workers.threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_where_no_process_or_thread_can_be_started_all_is_done_here(owner, name, error, monkeypatch):
    tried = []

    def start(*_, **__):
        tried.append(error)
        raise error

    monkeypatch.setattr(owner, name, start)
    assert shared(slowly, range(9)) == [(k**2, os.getpid()) for k in range(9)]
    assert tried


@pytest.mark.parametrize("name", ["", None, "/opt/host/uwsgi", "C:/Host/EXCEL.EXE"])
def test_a_program_that_has_python_in_it_is_not_started_again(name, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(workers, "processors", lambda: 4)
    assert workers._processors() == 4
    monkeypatch.setattr(sys, "executable", name)
    assert workers._processors() == 1


def test_what_fails_fails_here(monkeypatch):
    monkeypatch.setattr(workers, "_processors", lambda: 1)
    refuses(r"math domain error|nonnegative", shared, math.sqrt, range(9, -9, -1))


def test_nothing_is_nothing():
    assert shared(slowly, []) == []
