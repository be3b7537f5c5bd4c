"""`jobgen` with Toy: the registry has one more row, and the templates one more file."""

import sys

from jobgen.schedulers.registry import PACKAGES

PACKAGES["toy"] = "toy"

from jobgen.cli.main import main  # noqa: E402 - the spec takes the names of the registry
from jobgen.rendering import render  # noqa: E402

templates = sys.argv.pop(1)
render.find_template_folder = lambda: templates
main()
