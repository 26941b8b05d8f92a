"""What is refused: how commands and functions say so."""

import re

import pytest


def refusal(capsys):
    """The one line that a refusal prints, and nothing else."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


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
