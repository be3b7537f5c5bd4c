"""A script in two parts: what is this job's, for its reader, and what is the same for all."""

import ast
import re
import subprocess
from collections import defaultdict
from itertools import product
from pathlib import Path

import pytest
from golden import SITES as SITE_JOBS
from golden import rendered
from rendered import ALL
from support import EXAMPLES, ROOT, SITES, plan_of, shellcheck

from jobgen import schedulers
from jobgen.rendering.render import render
from jobgen.rendering.runtime import digest_text, list_features, split_script
from jobgen.rendering.view import ends_leftovers

RUNTIME = ROOT / "templates" / "runtime"
FILES = sorted(path for path in RUNTIME.rglob("*.sh") if path.name != "preflight.sh")
# Part 1 of every example; and of Part 2 what each job of a scheduler needs. Its features, such as
# modules, a chain or the watcher of use, each add a block of their own.
MOST_OF_PART_1 = 70
MOST_OF_PART_2 = {
    "one node, slurm": 177,
    "one node, pbs": 218,
    "one node, local": 233,
    "slurm": 279,
    "pbs": 394,
    "local": 400,
}
# What rendering does once for all, with what a script has.
OPTIONAL = 'optional() { if declare -F "$1" >/dev/null; then "$@"; fi; }\n'
WORDS = ("environment", "program", "find_nodes", "agent")


def examples() -> dict[str, str]:
    """The scripts of all examples, by name."""
    return {
        f"{path.stem}, {site}": render(plan_of(path.read_text(), site=site))
        for path in EXAMPLES
        for site in SITES
    }


def test_part_1_is_a_page_in_the_order_and_the_words_of_a_reader() -> None:
    for name, script in examples().items():
        first, second = split_script(script)
        assert second is not None, name
        assert first.count("\n") <= MOST_OF_PART_1, name
        places = [first.index(f"\n{word}() {{") for word in WORDS]
        assert places == sorted(places), name
        if "launch()" in first:
            assert first.index("\nlaunch() {") > places[-1], name
        for line in first.splitlines():
            assert len(line) <= 100 or line.startswith("#"), f"{name}: {line}"
    assert script.endswith('\nmain "$@"\n')


def test_part_2_is_bounded() -> None:
    for path, site in product(EXAMPLES, SITES):
        plan = plan_of(path.read_text(), site=site)
        _, second = split_script(render(plan))
        assert second is not None
        features = [RUNTIME / "features" / f"{name}.sh" for name in list_features(plan)]
        if not ends_leftovers(plan):  # then only these blocks have something run beside the job
            features.append(RUNTIME / "beside.sh")
        blocks = sum(file.read_text().count("\n") + 1 for file in features)
        kind = f"one node, {plan.scheduler}" if plan.nodes.total == 1 else plan.scheduler
        assert second.text.count("\n") - blocks <= MOST_OF_PART_2[kind], (path.stem, site)
        for line in second.text.splitlines():
            assert len(line) <= 100, line


def test_part_2_is_the_same_for_all_jobs_of_a_kind() -> None:
    """Whatever the spec says, and wherever it runs: the kind alone decides."""
    sites = {site: rendered(site) for site in SITE_JOBS}
    scripts = {**ALL, **examples(), **sites}
    kinds = defaultdict(set)
    for name, script in scripts.items():
        _, second = split_script(script)
        assert second is not None, name
        assert second.digest == digest_text(second.text), name
        kind = second.text.partition("\n\n")[0]
        kinds[kind].add(second.text)
    assert len(scripts) > len(kinds)
    assert [kind for kind, texts in kinds.items() if len(texts) > 1] == []


def test_a_script_has_each_function_of_the_runtime_that_it_calls() -> None:
    """And no call says that it is optional: it is there, or the function is not."""
    function = re.compile(r"^(\w+)\(\) \{", re.MULTILINE)
    all_of_them = {name for path in FILES for name in function.findall(path.read_text())}
    begins = r"(?m)(?:^|[;&|({!]|\b(?:then|do|else|if|while|until)\b)\s*(\w+)"
    handed_on = r"\b(?:beside|attend) (\w+)"
    for name, script in ALL.items():
        called = all_of_them & {*re.findall(begins, script), *re.findall(handed_on, script)}
        assert len(called) > 10, name
        assert called <= {*function.findall(script)}, name
        assert "optional" not in script, name


def test_nothing_is_noted_of_a_job_that_wants_none() -> None:
    job = {"name": "a", "scheduler": "slurm", "resources": {}, "run": {"module": "m"}}
    assert "note_usage() {" in render(plan_of(job))
    assert "note_usage() {" not in render(plan_of(job | {"report": {"usage": False}}))


def test_no_value_of_a_spec_is_in_part_2() -> None:
    for name, script in ALL.items():
        _, second = split_script(script)
        assert second is not None
        for value in ("slurm-2x8", "gpt2-124m", "cuda/12.4", "NCCL_DEBUG="):
            assert value not in second.text, name


def test_the_suffix_of_each_scheduler_has_an_example() -> None:
    suffixes = {schedulers.get_scheduler(name).suffix for name in set(SITES.values())}
    assert suffixes <= {path.suffix for path in (ROOT / "examples").iterdir()}


@pytest.mark.slow
def test_shellcheck_is_content_with_the_files_of_the_runtime(tmp_path: Path) -> None:
    """Each by itself; what another file sets or calls is nobody's mistake."""
    about = "# shellcheck shell=bash disable=SC2034,SC2154,SC2329,SC2120,SC2119,SC2164,SC2153\n"
    copies = []
    for path in FILES:
        copy = tmp_path / path.relative_to(RUNTIME).as_posix().replace("/", "-")
        copy.write_text(about + path.read_text())
        copies.append(copy)
    assert shellcheck(*copies) == ""


def call(program: str, *files: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that has sourced files of the runtime, nothing rendered."""
    sources = "".join(f". {RUNTIME}/{file}.sh\n" for file in ("core", *files))
    text = f"set -euo pipefail\n{OPTIONAL}{sources}cd {folder}\n{program}"
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)


def test_a_run_folder_has_an_attempt_for_each_start(tmp_path: Path) -> None:
    program = """
        conclude() { :; }
        cp() { touch "$2"; }    # of this script, which is none
        sed() { :; }
        JOB_NAME=a job_id=7
        for _ in 1 2; do make_run_folder; echo "$attempt"; done
    """
    done = call(program, "first_node/run_folder", folder=tmp_path)
    assert done.stdout == "0\n1\n", done.stderr
    assert (tmp_path / "runs/a/7/attempts/1/job").read_text() == "7\n"


@pytest.mark.parametrize(
    ("status", "stop", "outcome", "sentence"),
    [
        (0, "", "done 0", "DONE: all processes ended well"),
        (3, "", "failed 3", "FAILED with exit code 3"),
        (0, "SIGTERM", "cancelled 143", "ENDED by SIGTERM"),
        (1, "the walltime of 8 s", "failed 143", "ENDED by the walltime of 8 s"),
    ],
)
def test_whatever_ends_a_job_there_is_a_sentence_and_a_record(
    tmp_path: Path, status: int, stop: str, outcome: str, sentence: str
) -> None:
    program = f"""
        find_cause() {{ :; }}
        attempt_dir=$PWD run_dir=$PWD word='' reason='' stop='{stop}'
        printf '%4096s' '' >reserved
        conclude {status}
    """
    done = call(program, "first_node/conclude", folder=tmp_path)
    assert done.returncode == int(outcome.split()[1])
    assert done.stdout == f"jobgen: {sentence}\n"
    assert (tmp_path / "outcome").read_text().split() == outcome.split()


def test_signals_reach_what_runs_while_it_is_waited_for(tmp_path: Path) -> None:
    program = """
        stop=''
        tell() { stop=SIGTERM; kill -TERM "$child"; }
        trap tell TERM
        work() { trap 'exit 7' TERM; while :; do sleep 0.1; done; }
        (sleep 0.5; kill -TERM $$) &
        attend work
        echo "$status"
    """
    done = call(program, "each_node/attend", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


def test_what_ends_at_once_has_its_status(tmp_path: Path) -> None:
    program = """
        kill() { sleep 0.2; builtin kill "$@"; }    # as on a machine that does much else
        attend true; echo "$status"
        attend false; echo "$status"
    """
    done = call(program, "each_node/attend", folder=tmp_path)
    assert done.stdout == "0\n1\n", done.stderr


def test_exit_codes_are_those_of_the_processes_and_of_this_start(tmp_path: Path) -> None:
    (tmp_path / "logs/n1").mkdir(parents=True)
    table = "  rank      : {} (local_rank: 0)\n  exitcode  : {} (pid: 1)\n"
    log = "jobgen: n1 is node 0 of start 0; x\n" + table.format(9, 9)
    log += "jobgen: n1 is node 0 of start 1; x\n" + table.format(0, -15) + table.format(1, -9)
    (tmp_path / "logs/n1/agent.log").write_text(log + table.format(2, 3))
    program = "run_dir=$PWD attempt=1; list_exit_codes n1"
    done = call(program, "each_node/torchrun_rank", folder=tmp_path)
    assert done.stdout == "1 137\n2 3\n"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["n2: task 1: Killed", "n1: task 0: Exited with exit code 1"], "n2 137"),
        (["n1: task 0: Exited with exit code 3", "n2: task 1: Killed"], "n1 3"),
    ],
)
def test_the_first_to_end_is_the_cause_and_not_who_was_killed_for_it(
    tmp_path: Path, lines: list[str], cause: str
) -> None:
    program = """
        list_exit_codes() { :; }
        NODES=(n1 n2) attempt_dir=$PWD run_dir=$PWD status=1 first_rank=''
        : >nodes
        find_cause
        echo "$node $status"
    """
    (tmp_path / "launcher.log").write_text("".join(f"srun: error: {line}\n" for line in lines))
    (tmp_path / "failed").write_text("0 3\n")  # n1 has ended with 3, the first or the second
    done = call(program, "launcher/srun", "first_node/cause", folder=tmp_path)
    assert done.stdout == f"{cause}\n", done.stderr


@pytest.mark.parametrize(
    ("mask", "mode", "loosened"),
    [
        ("077", 0o755, "0022"),
        ("077", 0o2777, "0022"),  # what all may write to is not what they may write into
        ("077", 0o2750, "0027"),
        ("077", 0o700, "0077"),
        ("027", 0o755, "0027"),  # the user's own, and not PBS's default
        ("002", 0o700, "0002"),
    ],
)
@pytest.mark.parametrize("where", [".", "runs/a", "runs/a/7"])
def test_umask_is_loosened_as_far_as_the_folder_is_open(
    tmp_path: Path, mask: str, mode: int, loosened: str, where: str
) -> None:
    """PBS's default is 077: who may read the folder may read the logs, and nobody else may."""
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    (tmp_path / where).chmod(mode)
    program = f"JOB_NAME=a job_id=7; umask {mask}; loosen_umask; umask"
    done = call(program, "scheduler/pbs", folder=tmp_path)
    assert done.stdout == f"{loosened}\n", done.stderr


def test_a_process_that_is_left_behind_is_ended(tmp_path: Path) -> None:
    program = """
        JOBGEN_AGENT=$PWD/tmp setsid sleep 60 & left=$!
        sleep 0.2 & shell=$!
        mkdir tmp
        clean_up "$shell" "$PWD/tmp" log
        kill -0 "$left" 2>/dev/null && echo alive
        [[ -d tmp ]] && echo there || :
    """
    done = call(program, "beside", "each_node/kill_marked", "each_node/clean_up", folder=tmp_path)
    assert done.stdout == ""
    assert "the shell around the agent was killed" in (tmp_path / "log").read_text()


def test_a_job_of_a_chain_works_in_the_folder_of_the_first(tmp_path: Path) -> None:
    program = """
        conclude() { :; }
        cp() { touch "$2"; }    # of this script, which is none
        sed() { :; }
        JOB_NAME=a job_id=8 JOBGEN_CHAIN=7
        make_run_folder
        echo "$run_dir"
    """
    files = ("first_node/run_folder", "features/chain_run")
    assert call(program, *files, folder=tmp_path).stdout == f"{tmp_path}/runs/a/7\n"


# What may look for patterns in the text of a script: who parses the scripts that people have, who
# reads a directive as the scheduler does, and who splits jobgen's own at the title of Part 2.
PARSERS = {
    "batchscript",
    "schedulers",
    "rendering/runtime.py",
    "spec",
}  # its scripts are file names
SEARCHES = {"search", "match", "fullmatch", "findall", "finditer", "split", "sub"}


def test_nothing_reads_rendered_bash_back() -> None:
    """Programs are told by the header's line and plan.json; no pattern is sought in a script."""
    found = []
    for path in sorted((ROOT / "jobgen").rglob("*.py")):
        place = path.relative_to(ROOT / "jobgen").as_posix()
        if place in PARSERS or place.partition("/")[0] in PARSERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                words = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                if node.func.attr in SEARCHES and words & {"script", "rendered"}:
                    found.append(f"{place}:{node.lineno}")
    assert found == []
