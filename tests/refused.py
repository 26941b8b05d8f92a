"""What is refused: how commands and functions say so."""

import pytest


def refusal(capsys):
    """The one line that a refusal prints, and nothing else."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err


def refuses(words, call, /, *arguments, error=ValueError, **options):
    """Demand that a call is refused in words that match, whose arguments are sound to make."""
    with pytest.raises(error, match=words):
        call(*arguments, **options)
