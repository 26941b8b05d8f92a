"""Snapshots: what commands and pages say, in files beside the tests. ``pytest --update -k transcript`` writes them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Snapshots:
    """The folder of the snapshots of some tests."""

    folder: Path
    update: bool

    def agree(self, name: str, text: str) -> None:
        """Demand that a text is that of a file, or write it there."""
        path = self.folder / name  # or a path of another folder
        if self.update:
            self.folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        assert text == path.read_text(encoding="utf-8"), f"to renew {name}: python -m pytest --update -k transcript"

    def transcript(self, name: str, say: Callable[[str], str]) -> None:
        """Demand that what is said of each line stands below it, indented; comments and empty lines stay."""
        text = ""
        for line in (self.folder / name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("    "):
                said = say(line) if line and line[0] != "#" else ""
                text += f"{line}\n" + "".join(f"    {each}\n" for each in said.splitlines() if each)
        self.agree(name, text)
