"""A description of the files of a release for data portals: a data package (https://specs.frictionlessdata.io)."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from opendp_timeseries.results.contents import Contents

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
    name: str, ends: Collection[str], tables: Mapping[str, tuple[Sequence[str], str]], content: Contents, decimal: str
) -> dict[str, Any]:
    """Return the description of a data package.

    :param name: with which the names of all files begin.
    :param ends: of their names.
    :param tables: columns and encodings, in the words of Python, by these ends.
    :param content: what the page of them says.
    :param decimal: the decimal mark of tables, which are separated by semicolons where it is a comma.
    """
    resources = []
    for end in filter(ends.__contains__, _NAMES):
        resource: dict[str, object] = {"name": _NAMES[end], "path": f"{name}{end}", "format": end.rpartition(".")[2]}
        if end in tables:
            columns, encoding = tables[end]
            fields = [_field(column, content.level, decimal) for column in columns]
            resource |= {"profile": "tabular-data-resource", "mediatype": "text/csv", "encoding": encoding}
            resource |= {"dialect": {"delimiter": ";" if decimal == "," else ","}}
            resource |= {"schema": {"fields": fields, "missingValues": [""]}}
        resources.append(resource)
    stem = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    about = {"title": content.title}
    about |= {"description": " ".join([*content.first, *content.protected, *content.near, content.cite])}
    identifier = re.sub("[^a-z0-9._-]+", "-", stem).strip("-") or "release"
    return {"profile": "data-package", "name": identifier, **about, "resources": resources}


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
