"""Names of what only the job knows, as others have them filled in: %j, {{ job_id }}, ^array_index^.

Only a text that may have one imports this.
"""

from __future__ import annotations

import re

from jobgen.errors import Position
from jobgen.spec.table import load_table
from jobgen.spec.yaml_nodes import Scalar

# {job_id}, {{ job_id }} and ${{ job_id }} of templates, but not %q{NAME} of nsys; ^array_index^ of
# PBS; variables of other tools.
_OF_TEMPLATES = (
    r"\$?\{\{ *([A-Za-z][\w.]*) *\}\}"
    r"|(?:\$(?=\{\w*[a-z])|(?<!\$)(?<!%q))\{((?=\w*(?i:job|slurm|pbs|array|app_id))[A-Za-z]\w*)\}"
    r"|\^(array_index)\^|\$\{?((?:SKYPILOT|TORCHX|LSB)_\w+)\}?"
)
_OF_SBATCH = (
    r"(?<![\d%])(%[jJ])(?![A-Za-z0-9%])|(?:(?<=[/_.-])|(?<!\S))(%A_%a)(?![A-Za-z0-9%])"
    r"|(?<=[/_.-])(%[AaNux])(?![A-Za-z0-9%])|(?<!\S)(%[ANux])(?=[/_.-])"
)
# What tells a date or a number, as in %Y-%j or %d.
_OF_OTHERS = r"%(?![jJAaNuxnt%])[-0-9.]*[A-Za-z(]"


def use_variables(text: str, name: str) -> str:
    """Return what to write for a text that has such names; empty if it has none.

    `name` is that of the job.
    """
    parts = _OF_TEMPLATES if re.search(_OF_OTHERS, text) else f"{_OF_TEMPLATES}|{_OF_SBATCH}"
    filled = re.sub(parts, _find_variable, text)
    if filled == text:
        return ""
    from jobgen.spec.words import show  # only a text that has one needs it

    meant = re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", filled.replace("${-}", name))
    line = show(Scalar(Position(""), meant, "str"))
    folder = "; $JOBGEN_RUN_DIR is the job's own folder for outputs" * ("/" in text)
    return f"{{value: {line}, expand: true}}{folder}" if "$" in meant else line


def _find_variable(match: re.Match[str]) -> str:
    word = next(filter(None, match.groups()))
    for variable, words in load_table()["job_words"].items():
        if {word, word.lower()} & {*words.split()}:
            return f"${{{variable}}}"
    return match[0]
