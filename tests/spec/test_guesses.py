"""What newcomers guess: each guess is taken as it is meant, or told where it belongs."""

import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import complaint, load, plan_of

from jobgen.errors import JobgenError
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.fields import list_paths, read_fields
from jobgen.spec.model import JobSpec, Role
from jobgen.spec.table import fill, load_table
from jobgen.spec.words import list_synonyms

GUESSES = [
    tuple(part.strip() for part in line.rsplit(" = ", 1))
    for line in (Path(__file__).with_name("guesses.txt")).read_text().splitlines()
    if line and not line.startswith("#")
]
BASE: dict[str, Any] = {
    "name": "a",
    "scheduler": "slurm",
    "resources": {"nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 8, "walltime": "2h"},
    "run": {"script": "train.py"},
}


def write_guess(guess: str) -> str:
    """Return a good spec with a guess laid over it."""
    spec = deepcopy(BASE)
    ((path, value),) = yaml.safe_load(f"{guess}\n").items()
    *outer, last = path.split("/")
    record = spec
    for key in outer:
        record = record.setdefault(key, {})
    if path in ("run/command", "run/module"):
        del record["script"]
    record[last] = value
    return yaml.safe_dump(spec, sort_keys=False)


@cache  # several tests ask of the same guesses
def listen(text: str) -> str:
    """Return what jobgen says of a spec: its complaint, or its notes."""
    try:
        return "\n".join(resolve(load(text)).notes)
    except JobgenError as error:
        return str(error)


def test_every_guess_gets_its_hint() -> None:
    assert len(GUESSES) >= 160
    wrong = {}
    for guess, expected in GUESSES:
        said = listen(write_guess(guess))
        if (said != "") if expected == "ok" else expected not in said:
            wrong[guess] = said
    assert not wrong


def test_a_guess_is_told_of_once_and_in_one_line() -> None:
    for guess, expected in GUESSES:
        if expected != "ok":
            said = listen(write_guess(guess)).splitlines()
            extra = [line for line in said if re.search("is missing|has none of", line)]
            assert not extra, (guess, said)


@pytest.mark.parametrize("guess", ['run/script: ["a\\nb.py", c]', 'umask: "00\\n22"', 'lr: "\\0"'])
def test_a_value_that_is_no_line_leaves_its_hint_on_one(guess: str) -> None:
    said = [line for line in listen(write_guess(guess)).splitlines() if line[:4] != "    "]
    assert len(said) == 1
    assert said[0].isprintable()


def test_hints_lead_to_keys_that_there_are() -> None:
    paths = set(list_paths(JobSpec)) | {
        f"roles.{name}" for name in list_paths(Role) if not name.startswith(("run.", "launch."))
    }
    assert len(list_synonyms()) >= 250
    assert set(list_synonyms().values()) <= paths
    for record, rows in load_table()["inside"].items():
        for name, words in rows.items():
            assert f"{record}.{name}" in paths, (record, name)
            assert not set(words.split()) & {
                path.rpartition(".")[2] for path in paths if path.rpartition(".")[0] == record
            }
    said = [answer["say"] for answer in load_table()["answers"]]
    named = {path for text in said for path in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+", text)}
    assert named - {"..."} <= paths


def test_a_directive_that_a_hint_names_is_taken() -> None:
    for form, words in load_table()["options"].items():
        for word in words.split():
            option, scheduler = word.replace("_", "-"), "pbs" if "PBS" in form else "slurm"
            directive = fill(form, {"option": option, "word": word, "plain": "1"})
            resolve(
                load(yaml.safe_dump(BASE | {"scheduler": scheduler, "directives": [directive]}))
            )


def test_a_comma_or_a_missing_colon_in_braces() -> None:
    for record, said in (
        ("notify: {email: me@x.org, on: begin, end}", "a comma ends a value in {...}"),
        ("environment: {modules: cuda, gcc}", "a comma ends a value in {...}"),
        ("launch: {mode=direct, processes_per_node 4}", "write processes_per_node: 4"),
        ("environment: {container: {image: t.sif, binds: {/a: /b}}}", "write binds: ['/a:/b']"),
        ("foo:", "jobgen does not use it"),
        ("on_walltime:\n  foo:", "the choices are"),
    ):
        assert said in complaint(f"{yaml.safe_dump(BASE)}{record}\n"), record


def test_no_word_has_two_meanings() -> None:
    table = load_table()
    rows = [*(answer["words"] for answer in table["answers"]), *table["options"].values()]
    answers = [word for words in rows for word in words.split()]
    assert len(answers) == len(set(answers))
    assert not set(answers) & list_synonyms().keys()
    top = set(read_fields(JobSpec))
    assert not {word for word in list_synonyms() if word in top}


def test_the_list_of_keys_is_told_once() -> None:
    said = complaint(
        "name: a\nscheduler: slurm\nresources: {}\nrun: {script: a.py}\nreport: {xx1: 1, xx2: 2}"
    )
    assert said.count("the choices are") == 1
    assert said.count("unknown key") == 2


def test_the_program_of_a_role_is_told_as_that_of_a_job() -> None:
    said = complaint(
        "name: a\nscheduler: slurm\nresources: {nodes: 2, walltime: 1h}\n"
        "roles: {server: {nodes: 1, run: s.py}, train: {run: python train.py}}\n"
    )
    assert "write run: {script: s.py}" in said
    assert "write run: {command: [python, train.py]}" in said


@pytest.mark.parametrize("value", ["{then: requeue}", "{notice: 10m}", "2h", ""])
def test_walltime_at_the_top_names_both_keys_that_it_can_mean(value: str) -> None:
    said = complaint(f"{yaml.safe_dump(BASE, sort_keys=False)}walltime: {value}\n")
    assert "write resources.walltime for the limit, or on_walltime for what happens before" in said


def test_a_launcher_may_start_processes_where_that_is_meant() -> None:
    text = write_guess("run/command: [torchrun, --nproc-per-node, 4, train.py]")
    meant = text + "launch: {mode: direct, processes_per_node: 1}\n"
    plan = plan_of(meant, "resources.nodes=1")
    assert plan.program.command[0] == "torchrun"
    assert "starts on each of 2 nodes, but they never join" in complaint(meant)
    assert "torchrun" in complaint(text + "launch: {mode: direct}\n")


@pytest.mark.parametrize(
    "command",
    [
        "[python, train.py, --launcher, torchrun]",
        "[python, -m, mypackage.torchrun_tools]",
        "[nohup, python, train.py, srun]",
        "[bash, run.sh]",
        '[bash, -c, "cd x; exec python train.py  # no torchrun here"]',
        "[accelerate, config]",
        "[env, A=b, python, train.py]",
        "[./bin/my-trainer, --mode, mpirun]",
        "[python, train.py, --pattern, '^a|b$', --range, '0-9']",
    ],
)
def test_what_is_no_launcher(command: str) -> None:
    assert listen(write_guess(f"run/command: {command}")) == ""


def test_a_value_that_expands_is_the_shells_business() -> None:
    text = write_guess("environment/variables: {A: {value: $HOME/a, expand: true}, B: b}")
    plan = plan_of(
        text, "run.args={out: {value: ~/o, expand: true}, x: {value: -$A, expand: true}}"
    )
    script = render(plan)
    assert 'A="${HOME?}/a"' in script
    assert '--out "${HOME}/o"' in script
    assert '"-x=-${A}"' in script
    assert plan.notes == ()


@pytest.mark.parametrize(("words", "told"), [("./run", 1), ("bash, -c", 0), ("/bin/sh, -ec", 0)])
def test_code_for_a_shell_that_a_launcher_starts_is_run(words: str, told: int) -> None:
    text = write_guess(f"run/command: [srun, {words}, 'echo $(hostname); python a.py']")
    mode = "launch: {mode: plain, processes_per_node: 1}\nenvironment: {venv: v}\n"
    assert "".join(plan_of(text + mode).notes).count("nothing in it runs") == told


@pytest.mark.parametrize("key", ["constraint", "gpu_type"])
def test_a_wish_for_a_kind_of_node_that_pbs_cannot_be_told_is_warned_of(key: str) -> None:
    text = write_guess(f"resources/{key}: a100")
    assert plan_of(text).notes == ()
    (note,) = plan_of(text, scheduler="pbs").notes
    assert note.startswith("warning: job.yaml:")
    assert f": resources.{key}: " in note
    assert "the job goes without it" in note
    assert plan_of(text, scheduler="local").notes == ()


def test_a_program_without_gpus_is_told_that_torch_is_needed() -> None:
    text = "name: a\nscheduler: pbs\nresources: {walltime: 1h}\nrun: {command: [python, a.py]}\n"
    (note,) = plan_of(text).notes
    assert "whose python3 has no torch" in note
    assert plan_of(f"{text}environment: {{venv: v}}\n").notes == ()
    assert plan_of(text.replace("walltime", "gpus_per_node: 1, walltime")).notes == ()


# What is written needs something beside it, which the next message names.
NEEDS_MORE = ("cpus_per_node", "at_once", "at_most", "container: {")


def merge(spec: dict[Any, Any], new: dict[Any, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(spec.get(key), dict):
            merge(spec[key], value)
        else:
            spec[key] = value


def follow(guess: str, said: str) -> dict[str, Any] | None:
    """Return the spec with what a hint says to write; None if that is not all said."""
    match = re.search(r"(?:as in|write) (directives: \[.*\]|\w+: .+)$", said.splitlines()[0])
    text = re.sub(r"(, (or|for|that|at the|and) .*|; .*)$", "", match[1]) if match else "..."
    if re.search(r"\.\.\.|[A-Z]{4}|\bor\b|\bon: ", text):
        return None
    several = re.search(r"}, \w+: {", text) or not re.match(r"\w+: [{\[]", text)
    new = yaml.safe_load(f"{{{text}}}" if several and len(re.findall(r"\w: ", text)) > 1 else text)
    spec = yaml.safe_load(write_guess(guess))
    ((path, _),) = yaml.safe_load(f"{guess}\n").items()
    *outer, last = path.split("/")
    record = spec
    for key in outer:
        record = record[key]
    del record[last]
    merge(spec if new.keys() <= set(read_fields(JobSpec)) else record, new)
    run = spec["run"]
    if {"command", "module"} & set(run):
        run.pop("script", None)
    else:
        run.setdefault("script", "train.py")
    return {key: value for key, value in spec.items() if value != {}}


def place(guess: str, target: list[str], value: Any) -> str:
    """Return the spec of a guess with a value at another place instead."""
    ((path, _),) = yaml.safe_load(f"{guess}\n").items()
    *outer, last = path.split("/")
    spec = record = yaml.safe_load(write_guess(guess))
    for key in outer:
        record = record[key]
    if target != [*outer, last]:
        del record[last]
    record = {}
    for key in reversed(target):
        value = {key: value}
    merge(spec, value)
    if target[0] == "run" and target[1:] != ["args"]:
        spec["run"] = {key: spec["run"][key] for key in target[1:2]}
    return yaml.safe_dump({key: part for key, part in spec.items() if part != {}}, sort_keys=False)


VALUE = r"; (?:expected .*; )?write (?:e\.g\. )?([^;]+?)(?: without quotes|, |it \w.*| or .*)?$"


def test_a_value_moves_to_the_key_that_a_hint_names() -> None:
    """It is taken there, or what is wrong with it there is said with what to write."""
    moved, lost = 0, {}
    for guess, expected in GUESSES:
        said = "" if expected == "ok" else listen(write_guess(guess)).partition("\n")[0]
        ((path, value),) = yaml.safe_load(f"{guess}\n").items()
        named = re.search(r"write ((?:[a-z_]+\.)*[a-z_]+)(?:,| for | at |;|$)", said)
        near = re.search(r"did you mean '(\w+)'", said)
        here = said.partition(": ")[2].startswith(f"{path.replace('/', '.')}: unknown key")
        if not here or not (near or named):
            continue
        target = [*path.split("/")[:-1], near[1]] if near else named[1].split(".")
        if not near and target[0] not in read_fields(JobSpec):
            continue
        moved += 1
        answer = listen(place(guess, target, value))
        faults = [line for line in answer.splitlines() if not line.startswith("note: ")]
        parent = re.escape(".".join(target[:-1]))
        at = re.compile(rf" {parent}[.:\[].*(; |expected )" if parent else "; ")
        if not all(map(at.search, faults)):
            lost[guess] = (said, answer)
    assert not lost, "\n".join(f"{guess} | {lost[guess]}" for guess in lost)
    assert moved > 80


def test_a_value_that_a_hint_says_to_write_is_taken() -> None:
    followed, refused = 0, {}
    for guess, expected in GUESSES:
        said = "" if expected == "ok" else listen(write_guess(guess)).partition("\n")[0]
        ((path, _),) = yaml.safe_load(f"{guess}\n").items()
        match = re.search(VALUE, said)
        plain = match and re.fullmatch(r"(?!it$)[\w.:-]+|\[[\w., -]+\]", match[1])
        if not plain or "unknown key" in said or said.split(": ")[1] != path.replace("/", "."):
            continue
        followed += 1
        answer = listen(place(guess, path.split("/"), yaml.safe_load(match[1])))
        if any(not line.startswith("note: ") for line in answer.splitlines()):
            refused[guess] = (said, answer)
    assert not refused
    assert followed > 15


def test_what_a_hint_says_to_write_is_accepted() -> None:
    followed, refused = 0, {}
    for guess, expected in GUESSES:
        said = "" if expected == "ok" else listen(write_guess(guess))
        spec = follow(guess, said) if said else None
        if spec is None or any(name in said for name in NEEDS_MORE):
            continue
        followed += 1
        try:
            resolve(load(yaml.safe_dump(spec, sort_keys=False)))
        except JobgenError as error:
            refused[guess] = (said, str(error))
    assert not refused
    assert followed > 100
