"""A description of the files of a release for data portals: a data package (https://specs.frictionlessdata.io)."""

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Type and description of the columns of all tables; intervals hold with a probability, ``level``.
_COLUMNS: Final = {
    "key": ("string", "the place, or whatever else tells the series apart; empty for all of them"),
    "step_start": ("datetime", "start of the step, with its offset from UTC"),
    "private_count": ("number", "estimate from noisy numbers"),
    "mean": ("number", "estimate of a mean, from noisy sums and numbers"),
    "individuals": ("number", "how many individuals there are, from a noisy number"),
    "low": ("number", "lower end of the interval of {level:.0%}"),
    "high": ("number", "upper end of the interval of {level:.0%}"),
    "kept": ("string", "whether a noisy number of this step was released, or it is a forecast"),
    "people_cap": ("integer", "at how many keys an individual counts at most; empty for every key"),
}
_NAMES: Final = {
    ".csv": "series",
    "-means.csv": "means",
    "-people.csv": "individuals",
    ".json": "record",
    ".html": "page",
    ".xlsx": "workbook",
    "-means.html": "page-of-means",
    "-means.xlsx": "workbook-of-means",
}


def data_package(
    files: Mapping[str, Path],
    headers: Mapping[str, tuple[str, ...]],
    *,
    title: str,
    about: str,
    level: float,
    decimal: str,
    encodings: Mapping[str, str],
) -> dict[str, Any]:
    """Return the description of a data package.

    :param files: by the end of their names.
    :param headers: of those that are tables.
    :param about: sentences for whoever finds it.
    :param level: the probability with which intervals hold.
    :param decimal: the decimal mark of tables, which are separated by semicolons where it is a comma.
    :param encodings: of tables, in the words of Python.
    """
    resources = []
    for end, name in _NAMES.items():
        if end not in files:
            continue
        resource: dict[str, object] = {"name": name, "path": files[end].name, "format": files[end].suffix[1:]}
        if end in headers:
            fields = [_field(column, level, decimal) for column in headers[end]]
            resource |= {"profile": "tabular-data-resource", "mediatype": "text/csv", "encoding": encodings[end]}
            resource |= {"dialect": {"delimiter": ";" if decimal == "," else ","}}
            resource |= {"schema": {"fields": fields, "missingValues": [""]}}
        resources.append(resource)
    stem = unicodedata.normalize("NFKD", files[".csv"].stem).encode("ascii", "ignore").decode().lower()
    name = re.sub("[^a-z0-9._-]+", "-", stem).strip("-") or "release"
    return {"profile": "data-package", "name": name, "title": title, "description": about, "resources": resources}


def _field(name: str, level: float, decimal: str) -> dict[str, Any]:
    kind, description = _COLUMNS[name]
    field: dict[str, object] = {"name": name, "type": kind}
    if kind == "datetime":
        field["format"] = "any"
    if kind == "number" and decimal == ",":
        field["decimalChar"] = ","
    if name == "kept":
        field["constraints"] = {"enum": ["yes", "no", "forecast"]}
    return field | {"description": description.format(level=level)}
