"""What is refused: how commands and functions say so."""

import re

import pytest

from opendp_timeseries import _refusal


@pytest.fixture
def without_prose(monkeypatch):
    """Messages that say what is refused, and neither its rule nor its remedy: these may be reworded in the code."""
    spelled = _refusal.spelled
    monkeypatch.setattr(_refusal, "spelled", lambda text, spell: (spelled(text, spell) or "")[:0])


def refusal(capsys):
    """The one line that a refusal prints, and nothing else."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


#: What messages say beside the fields of a refusal: that a file or an argument is none, and where to find help.
PROSE = re.compile(r"^error: |(?<=\)) (?:must|exists|does|cannot) .*| \(choose from .*|[ ;]* see python -m .*|\s+$")


def fields(said):
    """The parameter and the value of a message without prose."""
    return PROSE.sub("", said)


def refuses(parameter, call, /, *arguments, error=ValueError, rule="", remedy="", **options):
    """Demand that a call, whose arguments are sound to make, is refused for a parameter; return the refusal.

    :param parameter: its name, or a pattern that its message holds.
    :param rule: a pattern of the rule that is broken, where a parameter has several.
    :param remedy: a pattern of what there is to do.
    """
    with pytest.raises(error) as raised:
        call(*arguments, **options)
    refused = raised.value
    assert getattr(refused, "parameter", None) == parameter or re.search(parameter, str(refused)), str(refused)
    for pattern, text in ((rule, "rule"), (remedy, "remedy")):
        assert not pattern or re.search(pattern, str(getattr(refused, text))), str(refused)
    return refused
