"""The description of the files for data portals: of every column, and valid by its own validator where there is one."""

import csv
import json

import pytest

from opendp_timeseries.__main__ import main
from tests.commandline.trips import export_trips


@pytest.mark.parametrize(
    ("decimal", "ahead"), [pytest.param(".", ["--ahead", "2d"], marks=pytest.mark.long), (",", [])]
)
def test_a_release_is_described_for_portals(tmp_path, monkeypatch, decimal, ahead):
    monkeypatch.chdir(tmp_path)
    places = {"=Süd": "north", "Mitte": "south"}
    export_trips(tmp_path / "trips.csv", 3, 300, places, cards=100)
    flags = "--identifier card --time started --start 2024-03-01 --end 2024-03-15 --step 1d --zone Europe/London"
    flags += " --epsilon 2 --delta 1e-6 --by station --people --people-by-key --figure none --datapackage --page"
    command = ["trips.csv", *flags.split(), "--keys", *places, "--title", "Fahrgäste", "--decimal", decimal, *ahead]
    assert main([*command, "--output", "März", "--quiet"]) == 0
    described = json.loads((tmp_path / "März-datapackage.json").read_text("utf-8"))
    assert (described["name"], described["title"]) == ("marz", "Fahrgäste")
    assert "which limits what anybody can learn from them about any one individual" in described["description"]
    assert "(ε = 2, δ = 1e-06)-differential privacy" in described["description"]
    for resource in described["resources"]:
        assert (tmp_path / resource["path"]).exists()
        if "schema" in resource:
            text = (tmp_path / resource["path"]).read_text(resource["encoding"])
            assert not text.startswith("\ufeff")  # the encoding says that there is a mark
            rows = csv.reader(text.splitlines(), delimiter=resource["dialect"]["delimiter"])
            assert next(rows) == [field["name"] for field in resource["schema"]["fields"]]
    assert [resource["name"] for resource in described["resources"]] == ["series", "individuals", "record", "page"]
    again = ["--output", "März", "--quiet", "--force"]
    assert main([*command, *again]) == 0
    frictionless = pytest.importorskip("frictionless")
    report = frictionless.Package(str(tmp_path / "März-datapackage.json")).validate()
    assert report.valid, report.flatten(["type", "note"])
