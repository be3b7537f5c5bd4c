"""Each line that the table says to type is typed by machine, and its command takes it."""

import re
import shlex
from pathlib import Path

import click
import pytest

from jobgen.cli.guesses import explain_command, explain_usage
from jobgen.cli.main import LISTED, cli
from jobgen.errors import JobgenError
from jobgen.plan.resolve import resolve
from jobgen.spec.load import load
from jobgen.spec.table import load_table

SPEC = """\
name: a
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 8, walltime: 2h}
environment: {venv: venv}
run: {script: train.py}
"""
# What stands for a word of the user's own in a line.
SAMPLES = {
    "JOB": "12",
    "JOB...": "12",
    "JOB_TASK": "12_1",
    "PORT": "8888",
    "NAME": "a",
    "PATH=VALUE": "name=b",
    "SCRIPT": "old.sbatch",
    "SCRIPT...": "old.sbatch",
    "STATE": "failed",
    "N": "2",
    "NODES": "2",
    "FILE.py": "train.py",
}
GROUPS = {"commands": LISTED}
pytestmark = pytest.mark.slow
END = re.compile(
    r"; |\n| \(| \| | <|, (?:which|for|with|and|once|as|in|or|until|when|after|of|to|then|paste)\b"
)
# What is wrong with a line whatever the spec has: what that excludes, its command says.
FAULTS = r"unexpected extra.*|No such.*|Missing param.*|unknown key.*"
# Said of options whose value is the user's to choose, or that need another key beside them.
OPEN = ("VALUE", "array.", "IMAGE")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(SPEC)
    for name in ("train.py", "old.sbatch"):
        Path(name).touch()


def list_lines(answer: str, command: str) -> list[list[str]]:
    """Return the lines to type in an answer, each as its words behind `jobgen`."""
    lines = []
    for part in re.split(r"\btype: (?=jobgen |-)", answer)[1:]:
        words = shlex.split(END.split(part)[0])
        words = words[1:] if words[0] == "jobgen" else [command, *words]
        lines.append([SAMPLES.get(word, word) for word in words])
    return lines


def refuse(words: list[str]) -> str:
    """Return why a line is refused; empty if its command takes it, and the spec its values."""
    outer = click.Context(cli, info_name="jobgen")
    if words[0].startswith("-"):
        return ""  # --version, --help
    command = cli.get_command(outer, words[0])
    if command is None:
        return "no such command"
    if "--help" in words:
        return ""
    try:
        context = command.make_context(words[0], words[1:], parent=outer)
        given = context.params.get("overrides") or ()
        if given and not any(word in text for word in OPEN for text in given):
            resolve(load("job.yaml", given))
    except (click.UsageError, JobgenError) as error:
        faults = re.search(FAULTS, str(error))
        return faults[0] if faults else ""
    return ""


def test_the_lines_for_words_are_taken():
    followed, refused = 0, {}
    context = click.Context(cli, info_name="jobgen")
    for row in load_table()["commands"]:
        for word in row.get("words", "").split()[:4]:
            for rest in ([], ["12"], ["job.yaml"]):
                answer = explain_command([word, *rest], context, GROUPS)
                for words in list_lines(answer, ""):
                    followed += 1
                    if why := refuse(words):
                        refused[f"{word} {' '.join(rest)}"] = (shlex.join(words), why)
    assert not refused
    assert followed > 800


def test_the_lines_for_options_are_taken():
    followed, refused = 0, {}
    outer = click.Context(cli, info_name="jobgen")
    for row in load_table()["prompt_options"]:
        name = re.split(r"[|']", row.get("at", "submit"))[0]
        if name in ("schema", "cancel", "forward", "jobgen"):  # the last is the group
            continue
        command = cli.get_command(outer, name)
        for word in row.get("words", "").split()[:2]:
            option = word if word[0] == "-" else f"--{word.replace('_', '-')}"
            for value in ([], ["12"], ["a=b"], ["x.sif"]):
                argv = [name, option, *value]
                try:
                    command.make_context(name, argv[1:], parent=outer)
                except click.UsageError as error:
                    answer = explain_usage(error, argv, cli)
                else:
                    continue
                for words in list_lines(answer, name):
                    followed += 1
                    if why := refuse(words):
                        refused[shlex.join(argv)] = (shlex.join(words), why)
    assert not refused
    assert followed > 100
