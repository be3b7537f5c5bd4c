"""Whatever a value holds, it arrives in the program as it is or is refused; it is never shell."""

import contextlib
import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest
from hostile import HOSTILE, REFUSED, VALUES
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, Program, edited, load, plan_of, run_node

from jobgen.errors import SpecError
from jobgen.plan.plan import ShellPath
from jobgen.rendering.render import quote, render
from jobgen.spec.commands import check_words


def run(job: dict[str, object], *, scheduler: str = "local", home: str = "/root") -> Program:
    """What the program of a job finds; nothing else is run on the way."""
    found = run_node({"name": "a", "resources": {}, **job}, scheduler=scheduler, home=home)
    assert "canary" not in found.files
    return found


def refused(job: dict[str, object], path: str, values: list[str]) -> bool:
    """Whether a job is refused for what is in `values`, each at its own place."""
    bad = [value for value in values if REFUSED.search(value)]
    if bad:
        with pytest.raises(SpecError) as caught:
            run(job)
        assert len(caught.value.problems) == len(bad)
        for problem in caught.value.problems:
            assert problem.where.line
            assert problem.path.startswith(path)
            assert problem.message.startswith("holds the control character ")
    return bool(bad)


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_hostile_values_arrive_on_every_scheduler(scheduler: str) -> None:
    variables = {f"V{index}": value for index, value in enumerate(HOSTILE)}
    job = {
        "run": {"command": ["PROGRAM", *HOSTILE], "args": HOSTILE},
        "environment": {"variables": variables},
    }
    found = run(job, scheduler=scheduler)
    assert found.argv[1:] == HOSTILE * 2
    assert variables.items() <= found.environment.items()


def is_for_program(word: str) -> bool:
    """Whether a word is not one that only a shell understands, such as `;`, which is refused."""
    return not any(check_words("args", [word]))


@given(st.lists(VALUES.filter(is_for_program), min_size=1, max_size=15))
def test_words_arrive_or_are_refused(values: list[str]) -> None:
    half = len(values) // 2
    job = {"run": {"command": ["PROGRAM", *values[:half]], "args": values[half:]}}
    if not refused(job, "run.", values):
        assert run(job).argv[1:] == values


@given(st.lists(VALUES, min_size=1, max_size=15))
def test_values_of_arguments_arrive_or_are_refused(values: list[str]) -> None:
    args = {f"key{index}": value for index, value in enumerate(values)}
    job = {"run": {"command": ["PROGRAM"], "args": args}}
    if not refused(job, "run.args.key", values):
        wanted: list[str] = []
        for key, value in args.items():  # an option's value may not look like another option
            wanted += [f"--{key}={value}"] if value.startswith("-") else [f"--{key}", value]
        assert run(job).argv[1:] == wanted


@given(st.lists(VALUES, min_size=1, max_size=15))
def test_values_of_variables_arrive_or_are_refused(values: list[str]) -> None:
    variables = {f"V{index}": value for index, value in enumerate(values)}
    job = {"run": {"command": ["PROGRAM"]}, "environment": {"variables": variables}}
    if not refused(job, "environment.variables.V", values):
        assert variables.items() <= run(job).environment.items()


@pytest.mark.parametrize("name", ["-x", "--", "a'b", "~", "$HOME", "é"])
def test_a_program_of_any_name_is_started(name: str) -> None:
    job = {"name": "a", "resources": {}, "run": {"command": [name, "x"]}}
    assert run_node(job, program=name).argv[1:] == ["x"]


def test_every_name_of_a_variable_arrives_or_is_refused() -> None:
    """Names that bash gives a meaning, and those that the script itself uses."""
    names = subprocess.run(["bash", "-c", "compgen -v"], env={}, capture_output=True, text=True)
    templates = "".join(path.read_text() for path in ROOT.glob("templates/**/*.j2"))
    candidates = {*names.stdout.split(), *re.findall(r"\b[a-z_]+\b", templates), "RANK", "HOME"}
    free = []
    for name in sorted(candidates - {"PATH", "LC_CTYPE"}):  # without PATH nothing is found at all
        text = edited(("", f"environment: {{variables: {{{name}: x}}}}\n"))
        with contextlib.suppress(SpecError):
            free += load(text).spec.environment.variables
    variables = dict.fromkeys(free, "a value")
    found = run({"run": {"command": ["PROGRAM"]}, "environment": {"variables": variables}})
    assert variables.items() <= found.environment.items()
    assert found.environment["JOBGEN_NODE"] == "node0"
    assert "HOME" in free


NAMES = ["$A", "${A}", "$NONE", "~", "~/"]
CODE = ["$(id)", "`id`", "$((1))", "$1", "$$", "$?", "{a,b}", "${A:-b}", "${A[0]}"]
SIGNS = "/a1é \n$`\\\"'*!;{}()"
PATHS = st.lists(st.sampled_from([*NAMES, *CODE, *SIGNS]), max_size=6).map("".join)


def expanded(path: str) -> str:
    """What `path` means: only $NAME, ${NAME} and a leading ~ are anything but themselves."""
    path = re.sub(r"^~(?=/|$)", "$HOME", path)
    known = {"A": "x  *", "HOME": "/home/of user"}
    name = "([A-Za-z_][A-Za-z0-9_]*)"
    return re.sub(rf"\$(?:{name}|{{{name}}})", lambda m: known.get(m[1] or m[2], ""), path)


@given(st.lists(PATHS, min_size=1, max_size=20))
def test_in_a_path_names_expand_and_nothing_else(paths: list[str]) -> None:
    words = " ".join(quote(ShellPath(path)) for path in paths)
    environment = {"A": "x  *", "HOME": "/home/of user"}
    argv = ["bash", "-c", f"printf '%s\\0' {words}"]
    found = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.split("\0")[:-1] == [expanded(path) for path in paths]


def test_a_script_is_found_where_its_path_leads(tmp_path: Path) -> None:
    script, user = "~/a b/$USER/$(touch canary)`touch canary`.py", pwd.getpwuid(os.getuid()).pw_name
    home = tmp_path / "of user"
    file = home / "a b" / user / "$(touch canary)`touch canary`.py"
    file.parent.mkdir(parents=True)
    file.touch()
    found = run({"run": {"script": script}}, home=str(home))
    assert found.argv[1:] == [str(file)]
    assert found.environment["USER"] == user


@pytest.mark.parametrize("name", ["a b", "$(touch canary)", "`touch canary`", "it's", "-v"])
def test_a_virtual_environment_is_found_where_its_path_leads(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / name / "bin/activate").write_text("export ACTIVATED=yes\n")
    job = {"run": {"command": ["PROGRAM"]}, "environment": {"venv": f"$HOME/{name}"}}
    assert run(job, home=str(tmp_path)).environment["ACTIVATED"] == "yes"


@pytest.mark.parametrize("name", ["a b", "$(touch canary)", "`touch canary`", "it's"])
def test_an_archive_and_a_folder_of_modules_are_found_where_their_paths_lead(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name / "bin").mkdir(parents=True)
    activate = "BASE=$(command -v python3) PATH=${BASH_SOURCE[0]%/*}:$PATH; export BASE PATH\n"
    (tmp_path / name / "bin/activate").write_text(activate)
    (tmp_path / name / "bin/python3").write_text('#!/bin/sh\nexec "$BASE" "$@"\n')
    (tmp_path / name / "bin/python3").chmod(0o755)
    archive = f"{name}.tar"
    subprocess.run(["tar", "-cf", archive, "-C", name, "."], cwd=tmp_path, check=True)
    environment = {"stage": f"~/{archive}", "modules": {"use": [f"$HOME/{name}"]}}
    around = {"BASH_FUNC_module%%": "() { USED=$2; export USED; }"}
    job = {"name": "a", "resources": {}, "run": {"command": ["PROGRAM"]}}
    job["environment"] = environment
    found = run_node(job, scheduler="pbs", home=str(tmp_path), around=around)
    assert found.environment["PATH"].startswith("/tmp/jobgen-")
    assert found.environment["USED"] == f"{tmp_path}/{name}"
    assert "canary" not in found.files


@given(PATHS.filter(lambda text: not set(text) & set("\n:,")), st.sampled_from(["", ":/in:ro"]))
def test_a_container_gets_its_image_and_binds_as_their_paths_lead(text: str, target: str) -> None:
    """The runtime is the program here: it is asked what it was told."""
    container = {"image": f"docker://{text}", "binds": [f"/{text}{target}", f"~/{text}{target}"]}
    option = f"--env=A={text}"  # `;` or `-a b` alone are refused, as no option
    container |= {"runtime": "apptainer", "options": [option]}
    job = {"name": "a", "resources": {}, "run": {"command": ["x"]}}
    job["environment"] = {"container": container}
    named = re.findall("[A-Za-z_][A-Za-z0-9_]*", text)  # one that is not set ends the job
    around = dict.fromkeys(named, "") | {"A": "x  *", "NONE": ""}
    argv = run_node(job, program="apptainer", home="/home/of user", around=around).argv
    binds = [argv[index + 1] for index, word in enumerate(argv) if word == "--bind"]
    for bind, start in zip(binds[-2:], ("/", "/home/of user/"), strict=True):
        where = start + expanded(f"/{text}")[1:]
        assert bind == (where + target if target else f"{where}:{where}")
    assert argv[argv.index("bash") - 2 : argv.index("bash")] == [
        option,
        expanded(f"docker://{text}"),
    ]


def test_setup_is_the_users_own_bash() -> None:
    setup = "export A='x y'\nB=$(echo $A)\nexport B  # a comment"
    found = run({"run": {"command": ["PROGRAM"]}, "environment": {"setup": setup}})
    assert (found.environment["A"], found.environment["B"]) == ("x y", "x y")


@pytest.mark.parametrize("value", [None, True, False, 1.5, ["a"], {"a": 1}, b"a", object()])
def test_a_template_that_prints_what_is_no_word_is_wrong(value: object) -> None:
    with pytest.raises(TypeError, match="no shell word"):
        quote(value)


def test_a_setup_that_fails_names_its_own_line(tmp_path: Path) -> None:
    setup = "load() {\n  cd /nowhere 2>/dev/null\n}\ntrue\nload a b"
    job = {"name": "a", "resources": {}, "environment": {"setup": setup}, "run": {"command": "x"}}
    (tmp_path / "job.sh").write_text(render(plan_of(job, scheduler="local")))
    said = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "jobgen: the setup ended at: load a b\n" in said.stdout


def test_a_command_that_a_colleague_adds_to_the_environment_ends_the_job_if_it_fails(
    tmp_path: Path,
) -> None:
    job = {"name": "a", "resources": {}, "environment": {"variables": {"A": "b"}}}
    script = render(plan_of({**job, "run": {"command": "true"}}, scheduler="local"))
    edited = script.replace("export A=b\n", "no_such_command\n    export A=b\n")
    (tmp_path / "job.sh").write_text(edited)
    said = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 127
    assert "no_such_command: command not found" in said.stdout
