"""Opening the published files."""

from __future__ import annotations

import gzip
from os import PathLike
from pathlib import Path
from typing import IO

__all__ = ["open_text"]


def open_text(path: str | PathLike[str]) -> IO[str]:
    """Open a text file for reading, through gzip if its name ends in ``.gz``."""
    path = Path(path)
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
