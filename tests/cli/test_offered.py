"""A line that is offered to type is, to a shell, the words that were meant."""

import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import jobgen

from jobgen.output import offer_line

SPEC = (
    "name: a\nscheduler: slurm\nresources: {nodes: 2, gpus_per_node: 4}\nrun: {script: train.py}\n"
)
SIGNS = "a é'\"$HOME`\\*?[]{}()<>|&;!#~=%-"
NAMES = st.text(SIGNS, min_size=1, max_size=8).map(lambda text: f"{text.strip()}x")
# Not Slurm's patterns, to which other rows answer.
NAMES = NAMES.filter(lambda name: "%a" not in name and "%x" not in name)
# What is typed, of a spec ODD.yaml, a script ODD.sbatch of another tool or a value ODD; what stands
# before the words that are meant, and what behind them.
LINES = [
    ("check ./ODD.yaml", "to write one: ", "jobgen render ODD.yaml -o ODD.sbatch", "\n"),
    ("submit ./ODD.sbatch", "to check it, type: ", "jobgen lint ODD.sbatch", "; to submit"),
    ("submit ./ODD.sbatch", "submit it: ", "jobgen import ODD.sbatch -o ODD.yaml", ", and then"),
    ("status ./ODD.yaml", "; `", "jobgen submit ./ODD.yaml", "` starts one"),
    ("frob ./ODD.yaml", "yaml, type: ", "jobgen submit ./ODD.yaml", "\n"),
    ("init ./ODD", "type: ", "jobgen init ./ODD.yaml", "\n"),
    ("init ./ODD.sbatch", "type: ", "jobgen import ./ODD.sbatch -o ./ODD.yaml", "\n"),
    ("render -J ./ODD.yaml", "; type: ", "jobgen render --name NAME ./ODD.yaml", "\n"),
    ("sites test ./ODD.yaml", "type: ", "jobgen check ./ODD.yaml", "\n"),
    ("submit --conda-env=ODD", "type: ", "jobgen submit --set environment.conda=ODD", "\n"),
    ("submit --args.lr=ODD", "type: ", "jobgen submit --set run.args.lr=ODD", "\n"),
    ("logs 1 --grep=ODD", "type: ", "jobgen logs 1 | grep ODD", "\n"),
    ("journalctl -u aODD", "type: ", "jobgen logs -f aODD", "\n"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_a_shell_reads_the_words_that_were_meant(words):
    assert shlex.split(offer_line(*words)) == words


@given(st.text("-a ", min_size=1).map(Path))
def test_no_path_reads_as_an_option(path):
    (word,) = shlex.split(offer_line(path))
    assert (Path(word), word.startswith("-")) == (path, False)


@pytest.mark.parametrize(("typed", "before", "meant", "behind"), LINES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
def test_an_odd_name_stands_in_an_offered_line_as_it_was_meant(typed, before, meant, behind, name):
    words = [word.replace("ODD", name) for word in typed.split()]
    files = [Path(word) for word in words if word.startswith("./")]
    for file in files:
        file.write_text(SPEC if file.suffix == ".yaml" else "#!/bin/bash\n#SBATCH -N 1\n")
    err = jobgen(*words).err
    for file in files:
        file.unlink()
    line = err[err.rindex(before) + len(before) :]
    words = shlex.split(line[: line.rindex(behind)])
    assert [word.removeprefix("./") for word in words] == [
        word.replace("ODD", name).removeprefix("./") for word in meant.split()
    ]
