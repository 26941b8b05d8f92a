"""What a refused command prints."""


def refusal(capsys):
    """The one line that a refusal prints, and nothing else."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    return said.err
