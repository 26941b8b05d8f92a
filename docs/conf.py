"""Sphinx configuration. Build the site with ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

import inspect
import re
import shutil
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from opendp.context import constructors
from sphinx.addnodes import desc_addname

import opendp_timeseries
import opendp_timeseries.koga2022  # registers what queries may call
from opendp_timeseries import _validate
from opendp_timeseries.plugin.context import Query

here = Path(__file__).parent

project = "opendp_timeseries"
author = copyright = "The opendp_timeseries developers"
release = version = opendp_timeseries.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

# Pages are Markdown that also reads well where the repository is browsed.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

# Notebooks live outside of docs/, and are shown with the output that they were committed with.
nb_execution_mode = "off"
(here / "notebooks").mkdir(exist_ok=True)
for notebook in (here.parent / "notebooks").glob("*.ipynb"):
    shutil.copy(notebook, here / "notebooks")

autodoc_typehints = "none"  # the :param: fields say it in words
autodoc_member_order = "bysource"

nitpicky = True  # references that lead nowhere are errors, with -W

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["widths.css", "print.css"]
html_title = f"{project} {release}"
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # a browser reads no other page from the disk

# Formulas become MathML when the site is built: browsers draw it by themselves, without a script or a network.
html_math_renderer = "mathml"


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


#: What ``then_`` forms take from the left.
SPACE = {"input_domain", "input_metric"}


def _call(parameters):
    """Return what a call must give, and … where there is more."""
    given = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY and p.default is p.empty]
    required = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default in (p.empty, _validate.REQUIRED)]
    given += [f"{p.name}=…" for p in required]
    return ", ".join(given if len(given) == len(parameters) else [*given, "…"])


def _forms(app, what, name, thing, options, lines):
    """Say in which forms a stage can be written, above the description of its constructor."""
    package, _, made = name.rpartition(".")
    short = made.removeprefix("make_")
    if short == made or not hasattr(inspect.getmodule(thing), f"then_{short}"):
        return
    room = package.replace("opendp_timeseries", "ts")
    parameters = inspect.signature(thing).parameters
    rest = [p for p in parameters.values() if p.name not in SPACE]
    left, space = ("space", "input_domain, input_metric, ") if SPACE & parameters.keys() else ("count", "")
    forms = [f"{room}.{made}({space}{_call(rest)})", f"{left} >> {room}.then_{short}({_call(rest)})"]
    if hasattr(Query, short):  # it finds the scale
        forms.append(f"context.query().{short}({_call([p for p in rest if p.name != 'scale'])})")
    elif short in constructors:
        forms.append(f"context.query().{short}({_call(rest)})")
    lines[:0] = [".. code-block:: none", "", *(f"   {form}" for form in forms), ""]
    if left == "space":  # else its then_ form has a description of its own
        lines[:0] = [f".. index:: then_{short}() (in module {package})", ""]
        app.env.domains.python_domain.note_object(f"{package}.then_{short}", "function", name)


def _links(app, what, name, thing, options, lines):
    """Make links of the pages that docstrings name."""
    lines[:] = [re.sub(r"docs/([\w/-]+)\.md", r":doc:`/\1`", line) for line in lines]


def _short_names(app, doctree, page):
    """Write the package as those who call it do."""
    for prefix in doctree.findall(desc_addname):
        if prefix.astext() == "opendp_timeseries.":
            prefix.children = [nodes.Text("ts.")]


def _sources(app, env):
    """List no source where there is none to show, as of numbers."""
    shown = env._viewcode_modules
    for module in [module for module, source in shown.items() if not source]:
        del shown[module]


def _ways_back(app, page, template, context, doctree):
    """Lead from the source to each description: Sphinx takes all of a module to be described under one name."""
    if not page.startswith("_modules/opendp_timeseries"):
        return
    parts = page.removeprefix("_modules/").split("/")
    # The module, and the packages that it is in.
    rooms = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    described = app.env.domains.python_domain.objects

    def anchor(link):
        short = next(link[1].removeprefix(f"{room}.") for room in rooms if link[1].startswith(f"{room}."))
        name = next(name for room in rooms if (name := f"{room}.{short}") in described)
        return f'#{described[name].node_id}"'

    context["body"] = re.sub(r'#(opendp_timeseries\.[\w.]+)"', anchor, context["body"])


def setup(app):
    app.connect("autodoc-process-docstring", _forms)
    app.connect("autodoc-process-docstring", _links)
    app.connect("doctree-resolved", _short_names)
    app.connect("env-updated", _sources)
    app.connect("html-page-context", _ways_back)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
