"""Small scripts, and what import makes of them."""

from jobgen.batchscript.convert import Imported, import_script
from jobgen.batchscript.reader import Script


def make_script(body: str, *directives: str, shell: str = "#!/bin/bash") -> Script:
    return Script("job.sbatch", "\n".join([shell, *directives, "", body, ""]))


def import_body(body: str, *directives: str) -> Imported:
    return import_script(make_script(body, *directives))
