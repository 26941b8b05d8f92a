"""Sphinx configuration. Build the site with ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

import shutil
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

import opendp_timeseries

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
html_css_files = ["widths.css"]
html_title = f"{project} {release}"
html_show_sphinx = False
html_copy_source = False

# Formulas become MathML when the site is built: browsers draw it by themselves, without a script or a network.
html_math_renderer = "mathml"


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
