"""What Python calls are refused, and what others say, in transcripts beside the tests of each room.

In a transcript, ``>>>`` sets something up, and any other line is a call, with its words below it: in ``refusals.txt``
the type of an error, and the parameter and value that it names; in ``words.txt`` what is returned.
``pytest --update -k transcript`` writes these words anew.
"""

import datetime as dt
import math
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_timeseries as ts
from opendp_timeseries._refusal import Refusal
from tests.refused import without_prose  # noqa: F401

TRANSCRIPTS = sorted(path for name in ("refusals", "words") for path in Path(__file__).parent.glob(f"*/*/{name}.txt"))


@pytest.mark.usefixtures("without_prose")
@pytest.mark.filterwarnings("ignore::opendp_timeseries.PeriodUnitWarning")
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_each_call_is_answered_in_these_words(path, snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"dp": dp, "dt": dt, "math": math, "np": np, "ts": ts}

    def say(line):
        if line.startswith(">>> "):
            exec(line[4:], names)
            return ""
        if path.stem == "words":
            return str(eval(line, names))
        with pytest.raises((TypeError, ValueError)) as raised:
            eval(line, names)
        refused, kind = raised.value, "TypeError" if isinstance(raised.value, TypeError) else "ValueError"
        if not isinstance(refused, Refusal):
            return f"{kind}: {refused}"
        return f"{kind}: {refused.parameter}{f' ({refused.value})' * bool(refused.value)}"

    snapshot.transcript(path, say)
