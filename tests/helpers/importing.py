"""Small scripts, and what import makes of them."""

from typing import Any

import pytest
import yaml

from jobgen.batchscript.convert import Imported, import_script
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError


def make_script(body: str, *directives: str, shell: str = "#!/bin/bash") -> Script:
    return Script("job.sbatch", "\n".join([shell, *directives, "", body, ""]))


def import_body(body: str, *directives: str) -> Imported:
    return import_script(make_script(body, *directives))


def spec_of(body: str, *directives: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(import_body(body, *directives).yaml)
    return loaded


def refusal_of(script: Script) -> str:
    with pytest.raises(SpecError) as refused:
        import_script(script)
    return str(refused.value)
