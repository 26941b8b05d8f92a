"""What is private in OpenDP is read in one file, and one message says what to do where it is gone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import opendp_timeseries

PACKAGE = Path(opendp_timeseries.__file__).parent
HOME = PACKAGE / "plugin" / "_opendp.py"
#: Attributes of OpenDP's objects that it does not promise.
PRIVATE = {"_chain", "_output_measure", "_d_in", "_d_out", "_context", "_wrap_release", "_query", "__opendp_dict__"}


def test_nobody_else_reads_what_is_private():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if path == HOME:
                continue
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "opendp":
                assert not [name.name for name in node.names if name.name.startswith("_")], path
                assert "constructors" not in [name.name for name in node.names], path
            if isinstance(node, ast.Attribute):
                assert node.attr not in PRIVATE, f"{path}:{node.lineno}"


OTHERS = ["mod._PartialConstructor", "domains._lazyframe_from_domain"]


@pytest.mark.parametrize(
    "name", ["context.constructors", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_one_message_says_what_is_gone(name):
    module, _, private = name.partition(".")
    code = f"import opendp.{module}; del opendp.{module}.{private}; import opendp_timeseries"
    # OpenDP's own modules are loaded before.
    run = subprocess.run(
        [sys.executable, "-c", f"import opendp.context; {code}"], capture_output=True, text=True, check=False
    )
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: opendp_timeseries does not fit the OpenDP that is installed (0.16"), last
    assert private in last
    assert "install opendp>=0.16,<0.17" in last
