"""How Sphinx makes the site of these pages: `make docs`."""

import sys
from pathlib import Path

from bisectorch import __version__

sys.path.insert(0, str(Path(__file__).parent))  # parser.py, for the page of commands

project = "Bisectorch"
copyright = "the Bisectorch authors"
release = version = __version__

extensions = ["myst_parser", "sphinx_argparse_cli"]
exclude_patterns = ["case-2017-tables.md"]  # included by case-2017.md
html_theme = "furo"
html_title = f"Bisectorch {__version__}"
html_show_sourcelink = False

# Headings are linked as GitHub links them, so that the pages read alike in both places.
myst_heading_anchors = 3
nitpicky = True
