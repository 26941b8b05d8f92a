"""The notebooks: their code runs, in a quick mode, and what is committed is a clean run with its output.

Code cells are executed here rather than in a Jupyter kernel: it needs no further package, takes a fraction of the
time, and turns warnings into errors. That the committed output is that of one run from top to bottom in a fresh
kernel shows in its execution counts.
"""

import json
import re
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the notebooks draw; install opendp_timeseries[plot]")
pytest.importorskip("pandas", reason="the notebooks show tables; install opendp_timeseries[tables]")

FOLDER = Path(__file__).parents[1] / "notebooks"
PAPER = ["table2", "sampling_frequency", "alpha_against_delta", "signals", "noise_compared"]
GUIDE = ["chaining", "checking_maps", "flights", "every_month"]
#: A path of one machine, such as a traceback or a warning would leave.
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|work|opt|tmp|usr|var|Users|private)/")


def cells(name, kind="code"):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def source(cell):
    return "".join(cell["source"])


def test_these_are_all_notebooks():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(PAPER + GUIDE)


@pytest.mark.parametrize("name", PAPER + GUIDE)
def test_committed_output_is_that_of_one_clean_run(name):
    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < 1_000_000
    code = cells(name)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"display_data", "execute_result", "stream"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert not MACHINE_PATH.search(path.read_text(encoding="utf-8"))
    assert cells(name, "markdown")[0]["source"][0].startswith("# ")


@pytest.mark.long
@pytest.mark.parametrize("name", PAPER + GUIDE)
def test_code_runs_and_draws_labelled_figures(name, monkeypatch):
    matplotlib.use("agg")
    from matplotlib import pyplot

    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("OPENDP_TIMESERIES_QUICK", "1")
    pyplot.close("all")
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(cells(name), start=1):
        exec(compile(source(cell), f"{name}.ipynb, code cell {number}", "exec"), namespace)
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert len(figures) == sum(
        "image/png" in output.get("data", {}) for cell in cells(name) for output in cell["outputs"]
    )
    for figure in figures:
        assert any(axes.get_xlabel() for axes in figure.axes)
        assert any(axes.get_ylabel() for axes in figure.axes)
        # What is drawn is named in a legend, directly beside it, or in a caption under the axes.
        assert figure.legends or any(
            axes.get_legend() or axes.texts or "\n" in axes.get_xlabel() for axes in figure.axes
        )
        figure.canvas.draw()
    pyplot.close("all")


def test_errors_on_the_page_are_those_of_the_notebooks():
    page = (FOLDER.parent / "docs" / "reproduction.md").read_text(encoding="utf-8")
    shown = json.dumps([cell["outputs"] for name in PAPER for cell in cells(name)], ensure_ascii=False)
    errors = re.findall(r"\d+\.\d ± \d+\.\d", page)
    assert len(errors) > 10
    assert not [error for error in errors if error not in shown]


def test_a_path_of_one_machine_is_seen():
    for text in ('"/opt/venvs/lib/python3.11/scipy.py:3: RuntimeWarning"', "File /home/somebody/notebook.py"):
        assert MACHINE_PATH.search(text)
    assert not MACHINE_PATH.search("../../shared/data/flow.csv, and/or https://example.org/home/page")
