"""Files are written whole and together, or not at all."""

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from opendp_timeseries import _files
from opendp_timeseries._files import EARLIER, UNFINISHED, files_together

NAMES = ("a.csv", "a.png", "a.json")


@pytest.fixture
def places(tmp_path):
    return [tmp_path / name for name in NAMES]


def fill(places, text, replace=True, room=0):
    with files_together(dict.fromkeys(places, room), replace=replace) as files:
        for file in files.values():
            file.write(text)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_appear_together_and_nothing_else_stays(places, tmp_path):
    with files_together(dict.fromkeys(places, 1000)) as files:
        for file in files.values():
            file.write(b"new")
        assert not any(place.exists() for place in places)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"new")
    fill(places, b"newer")
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"newer")


def test_earlier_files_are_replaced_only_when_asked(places, tmp_path):
    places[1].write_bytes(b"earlier")
    with pytest.raises(FileExistsError, match=r"a\.png"):
        fill(places, b"new", replace=False)
    assert contents(tmp_path) == {"a.png": b"earlier"}


@pytest.mark.parametrize("at", range(3))
def test_a_file_that_appears_meanwhile_is_not_replaced(places, tmp_path, at):
    def meanwhile():
        with files_together(dict.fromkeys(places, 0)):
            places[at].write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        meanwhile()
    assert contents(tmp_path) == {NAMES[at]: b"theirs"}


def test_what_is_no_ordinary_file_is_never_replaced(places, tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"private")
    for make in (lambda: places[0].symlink_to(log), places[0].mkdir, lambda: os.mkfifo(places[0])):
        make()
        with pytest.raises(OSError, match="must not be a folder, a link or a device"):
            fill(places, b"new")
        assert log.read_bytes() == b"private"
        (places[0].rmdir if places[0].is_dir() else places[0].unlink)()


@pytest.mark.parametrize("earlier", [(), NAMES[:2]])
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
@pytest.mark.parametrize("nth", range(7))
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_whatever_fails_leaves_the_earlier_files(tmp_path, places, monkeypatch, earlier, call, nth, error):
    for name in earlier:
        (tmp_path / name).write_bytes(b"earlier")
    calls, real = iter(range(100)), getattr(os, call)

    def failing(*arguments, **options):
        if next(calls) == nth:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(_files.os, call, failing)
    everything = dict.fromkeys(NAMES, b"new")
    try:
        fill(places, b"new", room=10)
    except type(error):
        last = call == "fsync" and nth == 6  # the folder, once all is in place
        assert contents(tmp_path) == (everything if last else dict.fromkeys(earlier, b"earlier"))
    else:  # the call was made less often, or has a substitute
        assert contents(tmp_path) == everything


def test_a_full_disk_is_noticed_before_the_block_runs(places, tmp_path):
    big = 1 << 20
    script = f"""
        import pathlib, resource, signal
        import runpy
        files_together = runpy.run_path({_files.__file__!r})["files_together"]
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({big} // 2, {big} // 2))
        with files_together({{pathlib.Path({str(places[0])!r}): 10, pathlib.Path({str(places[1])!r}): {big}}}):
            print("the block ran")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert "OSError" in done.stderr
    assert "the block ran" not in done.stdout
    assert contents(tmp_path) == {}


def test_without_second_names_files_are_copied(places, tmp_path, monkeypatch):
    def none(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(_files.os, "link", none)
    fill(places, b"new", replace=False)
    fill(places, b"newer", replace=True)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"newer")
    with pytest.raises(FileExistsError), files_together({places[0].with_name("b"): 0}):
        places[0].with_name("b").write_bytes(b"theirs")
    assert places[0].with_name("b").read_bytes() == b"theirs"


def test_an_earlier_file_that_cannot_be_put_back_stays_in_its_backup(places, tmp_path, monkeypatch):
    fill(places, b"earlier")
    real, calls = os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) > 1:
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(_files.os, "replace", failing)
    with pytest.raises(OSError, match="Input/output error"):
        fill(places, b"new")
    kept = contents(tmp_path)
    assert sorted(kept.values()) == [b"earlier"] * 3 + [b"new"]
    (backup,) = (name for name in kept if name.endswith(EARLIER))
    assert kept[backup] == b"earlier"


KILLED = """
    import pathlib, runpy, signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored behind an `&` of a shell
    module, *places = map(pathlib.Path, sys.argv[1:])
    files_together = runpy.run_path(str(module))["files_together"]  # without the package, which takes long to import
    print("ready", flush=True)
    for k in range(10**9):
        with files_together(dict.fromkeys(places, 4000), replace=True) as files:
            for file in files.values():
                file.write(b"%06d" % k * 1000)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_leaves_whole_files(places, tmp_path, how):
    draw = random.Random(1)
    fill(places, b"000000" * 1000)
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), _files.__file__, *map(str, places)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        process.stdout.readline()
        time.sleep(draw.uniform(0, 0.03))
        process.send_signal(how)
        process.wait()
        process.stdout.close()
        for name, content in contents(tmp_path).items():
            if name in NAMES:
                assert len(content) == 6000
                assert content == content[:6] * 1000
            else:
                assert name.startswith(".")
                assert name.endswith((UNFINISHED, EARLIER))
        assert set(NAMES) <= set(contents(tmp_path))
        for path in tmp_path.glob(".*"):
            path.unlink()
