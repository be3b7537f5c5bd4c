"""A script in two parts: what is this job's, for its reader, and what is the same for all."""

import ast
import os
import re
import shlex
import socket
import subprocess
import threading
from collections import defaultdict
from itertools import product
from pathlib import Path

import pytest
from golden import SITES as SITE_JOBS
from golden import rendered
from rendered import ALL
from support import EXAMPLES, ROOT, SITES, plan_of, shellcheck

from jobgen import schedulers
from jobgen.jobs.run_folder import read_loss
from jobgen.rendering.render import render
from jobgen.rendering.runtime import digest_text, split_script

RUNTIME = ROOT / "templates" / "runtime"
FILES = sorted(RUNTIME.glob("*.sh"))
MOST_OF_PART_1 = 70
# Of the examples, with all that is on by default.
MOST_OF_PART_2 = {"one node, slurm": 121, "slurm": 180, "pbs": 240, "local": 270}
# Not counted: what only jobs with modules have, and those of programs of one's own.
SOME = [(RUNTIME / f"{name}.sh").read_text() for name in ("modules", "worlds", "meeting")]
# By mpiexec, in direct mode, with modules; on this machine, with a program of one's own.
MOST_OF_A_SCRIPT = {"portable.pbs": 369, "hf-causal-lm.sh": 351, "tutorial-multinode.sh": 349}
MOST_FOR_RESTARTS, MOST_OF_A_VERDICT = 81, 60
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
        kind = f"one node, {plan.scheduler}" if plan.nodes.total == 1 else plan.scheduler
        most = MOST_OF_PART_2.get(kind, MOST_OF_PART_2[plan.scheduler])
        text = second.as_text()
        for part in SOME:
            text = text.replace(part, "")
        assert text.count("\n") <= most, (path.stem, site)
    for file in FILES:
        for line in file.read_text().splitlines():
            # A line a cause in faults.
            data = re.match("(faults=.)?(restart|stop|unknown|last) ", line)
            assert data or len(line) <= 100, f"{file.name}: {line}"


def test_on_failure_and_spare_nodes_cost_few_lines() -> None:
    """A spare for one node needs what jobs of several nodes have, with which it is compared."""
    job = {"name": "a", "run": {"script": "train.py"}, "launch": {"mode": "torchrun"}}
    for scheduler, mode, nodes, then in product(
        ("slurm", "pbs", "local"), ("torchrun", "direct"), (1, 2), ("", "requeue", "resubmit")
    ):
        if (scheduler, then) == ("pbs", "requeue"):
            continue
        resources = {"nodes": nodes, "gpus_per_node": 4, "walltime": "2h"}
        job |= {"scheduler": scheduler, "launch": {"mode": mode}, "resources": resources}
        on_walltime = {"on_walltime": {"then": then}} if then else {}
        plain = render(plan_of(job | on_walltime))
        kept = render(plan_of(job | on_walltime | {"on_failure": "restart"}))
        several = {"resources": resources | {"nodes": 2}}
        before = render(plan_of(job | on_walltime | several)).count("\n")
        spare = {"resources": several["resources"] | {"spare_nodes": 1}, "on_failure": "restart"}
        with_spare = render(plan_of(job | on_walltime | spare)).count("\n")
        growth = (kept.count("\n") - plain.count("\n"), with_spare - before)
        assert max(growth) <= MOST_FOR_RESTARTS, (scheduler, mode, nodes, then, growth)
    table, _, text = (RUNTIME / "restart.sh").read_text().partition("\nexport")
    judged = text.partition("judge() {")[2].partition("\n}")[0]
    assert judged.count("\n") + 2 + table.count("\n") <= MOST_OF_A_VERDICT


def test_committed_scripts_are_short() -> None:
    for path in sorted((ROOT / "examples").glob("*.*")):
        if path.suffix in (".sbatch", ".pbs", ".sh"):
            assert path.read_text().count("\n") <= MOST_OF_A_SCRIPT.get(path.name, 320), path.name


def test_part_2_is_the_same_for_all_jobs_of_a_kind() -> None:
    """Whatever the spec says, and wherever it runs: the kind alone decides."""
    sites = {site: rendered(site) for site in SITE_JOBS}
    scripts = {**ALL, **examples(), **sites}
    kinds = defaultdict(set)
    for name, script in scripts.items():
        _, second = split_script(script)
        assert second is not None, name
        assert second.digest == digest_text(second.text), name
        kind = second.text.partition("say() {")[0]
        kinds[kind].add(second.text)
    assert len(scripts) > len(kinds)
    assert [kind for kind, texts in kinds.items() if len(texts) > 1] == []


def test_a_script_has_each_function_of_the_runtime_that_it_calls() -> None:
    """Those that only some scripts have are called where `has` has found them."""
    function = re.compile(r"^(\w+)\(\) [{(]", re.MULTILINE)
    all_of_them = {name for path in FILES for name in function.findall(path.read_text())}
    begins = r"(?m)(?:^|[;&|({!]|\b(?:then|do|else|if|while|until)\b)\s*(\w+)"
    for name, script in ALL.items():
        certain = re.sub(r"if has (\w+)\b.*?; then \1\b[^\n]*", "", script)
        called = all_of_them & {*re.findall(begins, certain)}
        assert len(called) > 10, name
        assert called <= {*function.findall(script)}, (name, called - {*function.findall(script)})


def test_gpus_are_recorded_unless_the_job_wants_none_of_it() -> None:
    job = {
        "name": "a",
        "scheduler": "slurm",
        "resources": {"gpus_per_node": 1},
        "run": {"module": "m"},
    }
    assert '>>"$run_dir/usage/$node.csv"' in render(plan_of(job))
    assert "nvidia-smi" not in render(plan_of(job | {"report": {"usage": False}}))
    assert "nvidia-smi" not in render(plan_of(job | {"resources": {}}))


def test_no_value_of_a_spec_is_in_part_2() -> None:
    for name, script in ALL.items():
        _, second = split_script(script)
        assert second is not None
        for value in ("slurm-2x8", "gpt2-124m", "cuda/12.4", "NCCL_DEBUG="):
            assert value not in second.text, name


def test_the_suffix_of_each_scheduler_has_an_example() -> None:
    suffixes = {schedulers.SCHEDULERS[name].suffix for name in set(SITES.values())}
    assert suffixes <= {path.suffix for path in (ROOT / "examples").iterdir()}


@pytest.mark.slow
def test_shellcheck_is_content_with_the_files_of_the_runtime(tmp_path: Path) -> None:
    """Each alone; what another file sets or calls is not a mistake."""
    about = "# shellcheck shell=bash disable=SC2034,SC2154,SC2329,SC2120,SC2119,SC2164,SC2153"
    about += ",SC1090,SC1091\n"  # files that only a job has
    copies = []
    for path in FILES:
        copy = tmp_path / path.name
        copy.write_text(about + path.read_text())
        copies.append(copy)
    assert shellcheck(*copies) == ""


def call(program: str, *files: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that has sourced files of the runtime, nothing rendered."""
    sources = "".join(f". {RUNTIME}/{file}.sh\n" for file in ("core", *files))
    text = f"set -euo pipefail\n{sources}cd {folder}\n{program}"
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)


NO_COPY = """
    conclude() { :; }
    cp() { touch "$2"; }    # of this script, which is none
    sed() { :; }
    job_name=a
"""


def test_a_run_folder_has_an_attempt_for_each_start(tmp_path: Path) -> None:
    program = f"{NO_COPY}job_id=7; for _ in 1 2; do make_run_folder; echo $attempt; done"
    done = call(program, folder=tmp_path)
    assert done.stdout == "0\n1\n", done.stderr
    assert (tmp_path / "runs/a/7/attempts/1/job").read_text() == "7\n"


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        ("1.login|a|", "1.other|a|", True),  # of another server, on the same file system
        ("1.login|a|", "1.login|b|", True),  # another submission, as its token shows
        ("1.login|a|failed 1", "1.login|a|", True),  # by plain qsub, once the server began anew
        ("1.login|a|cancelled 143", "1.login|a|", False),  # the same job, requeued
        ("1.login|a|continued 1", "1.login|a|", False),
        ("1|a|done 0", "1|a|2", False),  # on purpose, by scontrol requeue
        ("1|a|done 0", "1|a|", True),
    ],
)
def test_a_job_whose_number_an_earlier_one_had_does_not_share_its_folder(
    tmp_path: Path, before: str, now: str, refused: bool
) -> None:
    job, script, outcome = before.split("|")
    first = tmp_path / "runs/a/1/attempts/0"
    first.mkdir(parents=True)
    for name, text in ("job", job), ("script", script), ("outcome", outcome):
        (first / name).write_text(f"{text}\n" * bool(text))
    job, script, restarts = now.split("|")
    (tmp_path / "script").write_text(f"{script}\n")
    program = f"""{NO_COPY}
        cat() {{ command cat "${{@/#bash/script}}"; }}    # $0, which this is not
        PBS_JOBID={job} SLURM_RESTART_COUNT={restarts} job_id=1; make_run_folder; echo $attempt
    """
    done = call(program, folder=tmp_path)
    assert (done.stdout, "submit this one again" in done.stderr) == ("1\n" * (not refused), refused)
    assert (first.parent / "1").exists() is not refused


def test_arguments_of_the_script_are_not_ignored(tmp_path: Path) -> None:
    done = call("main --lr 0.1", folder=tmp_path)
    said = "jobgen: error: takes no arguments: jobgen submit SPEC -- --lr 0.1\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_job_of_a_chain_works_in_the_folder_of_the_first(tmp_path: Path) -> None:
    program = f"{NO_COPY}job_id=8; make_run_folder; echo $run_dir"
    done = call(f"JOBGEN_CHAIN=7; . {RUNTIME}/chain.sh; {program}", folder=tmp_path)
    assert done.stdout == f"{tmp_path}/runs/a/7\n"


@pytest.mark.parametrize(
    ("job", "task", "own"),
    [
        ("7", "", "7"),
        ("8", "0", "7_0"),
        ("7", "1", "7_1"),  # the last has the number of all
        ("9", "1", "9"),  # of an array that has submitted this job
        ("6", "1", "6"),  # Slurm does not answer
    ],
)
def test_a_task_of_an_array_that_only_sbatch_knows_of_goes_by_its_name(
    tmp_path: Path, job: str, task: str, own: str
) -> None:
    """`scancel 7` ends all of them, and of a task squeue prints no other name."""
    program = f"""
        squeue() {{ printf '%s\n' 8:7_0 7:7_1 9:9_N/A; }}
        SLURM_JOB_ID={job} SLURM_ARRAY_TASK_ID={task}
        [[ $SLURM_JOB_ID != 6 ]] || squeue() {{ return 1; }}
        find_job; echo "$job_id"; JOBGEN_CHAIN=$job_id; . {RUNTIME}/chain.sh
    """
    done = call(program, "slurm", folder=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (f"{own}\n", "", 0)


@pytest.mark.parametrize(
    ("status", "stop", "outcome", "sentence"),
    [
        (0, "", "done 0", "DONE: all processes ended well"),
        (3, "", "failed 3", "FAILED with exit code 3"),
        (0, "SIGTERM", "cancelled 143", "ENDED by SIGTERM"),
    ],
)
def test_whatever_ends_a_job_there_is_a_sentence_and_a_record(
    tmp_path: Path, status: int, stop: str, outcome: str, sentence: str
) -> None:
    program = f"""
        find_first_error() {{ :; }}
        attempt_dir=$PWD run_dir=$PWD word='' reason='' stop='{stop}'
        printf '%4096s' '' >reserved
        conclude {status}
    """
    done = call(program, folder=tmp_path)
    assert done.returncode == int(outcome.split()[1])
    assert done.stdout == f"jobgen: {sentence}\n"
    assert (tmp_path / "outcome").read_text().split() == outcome.split()


@pytest.mark.parametrize(
    ("prints", "status", "sentence"),
    [
        (
            "pbsdsh: task 0x00000001 exit status 3",
            0,
            "DONE: the script ended with exit code 0, but",
        ),
        ("pbsdsh: task 0x00000001 exit status 0", 0, "DONE: all processes ended well"),
        ("pbsdsh: task 0x00000001 exit status 3", 4, "FAILED with exit code 4"),
    ],
)
def test_a_body_whose_tasks_failed_is_not_said_to_have_ended_well(
    tmp_path: Path, prints: str, status: int, sentence: str
) -> None:
    """And what an earlier start has printed is not taken for this one's."""
    (tmp_path / "logs/n1").mkdir(parents=True)
    (tmp_path / "logs/n1/rank-0.out").write_text("pbsdsh: task 0x00000000 exit status 9\n")
    program = f"""
        environment() {{ :; }}; program() {{ echo '{prints}'; exit {status}; }}
        find_first_error() {{ :; }}
        names=(n1) job_id=7 attempt=1 word='' reason='' stop='' child=''
        attempt_dir=$PWD run_dir=$PWD; printf '%4096s' '' >reserved
        run_job; conclude "$status"
    """
    done = call(program, "body", folder=tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[1].startswith(f"jobgen: {sentence}")
    assert ("0x00000001 exit status 3" in done.stdout) == ("but" in sentence)
    assert (tmp_path / "DONE").exists() == (status == 0)


@pytest.mark.parametrize(("status", "stop"), [(1, ""), (0, "SIGTERM")])
def test_a_job_of_slurm_that_was_preempted_says_so_and_shows_no_traceback(
    tmp_path: Path, status: int, stop: str
) -> None:
    program = f"""
        scontrol() {{    # 8: another task of the array
            printf 'JobId=%s JobName=a PreemptEligibleTime=1 PreemptTime=%s x=1\n' \
                8 2030-01-02T03:04:05 7 ${{preempted-None}}
        }}
        find_first_error() {{ reason+=": n1, see log" file=log; }}
        echo Traceback >log
        attempt_dir=$PWD run_dir=$PWD word='' reason='' stop='{stop}' SLURM_JOB_ID=7
        printf '%4096s' '' | tee reserved >again
        (preempted=2030-01-02T03:04:05; conclude {status}) || mv again reserved
        conclude {status}
    """
    ends = "ENDED by SIGTERM" if stop else "FAILED"
    usual = ends if stop else f"{ends} with exit code 1: n1, see log\nTraceback"
    done = call(program, "slurm", folder=tmp_path)
    assert done.stdout == (
        f"jobgen: {ends}: PREEMPTED: Slurm gives its nodes to another job\njobgen: {usual}\n"
    )


@pytest.mark.parametrize(
    ("scheduler", "state", "says"),
    [
        ("slurm", "RUNNING", "start 2 follows in this allocation\nstarts"),
        ("slurm", "COMPLETING", "this allocation has no node for another start"),
        ("slurm", "PENDING", "this allocation has no node for another start"),
        ("pbs", "COMPLETING", "start 2 follows in this allocation\nstarts"),
    ],
)
def test_a_start_follows_only_in_an_allocation_that_is_still_there(
    tmp_path: Path, scheduler: str, state: str, says: str
) -> None:
    """As Slurm says; no other is asked. What kills its leftovers looks for others than itself."""
    program = f"""
        scontrol() {{ printf 'JobId=%s x JobState=%s\\n' 8 COMPLETING 7 {state}; }}    # 8: a task
        judge() {{ verdict=restart good=1; }}; conclude() {{ :; }}
        echo 'timeout 30 tail -s 0.1 --pid=$old -f nodes && echo "starts${{JOBGEN_AGENT-}}"' >script
        : >nodes >avoid
        attempt_dir=$PWD run_dir=$PWD this_script=script attempt=0 SLURM_JOB_ID=7 names=(n1)
        stop='' word='' warned='' reason='' status=1 notice=0 tmp_dir=$PWD
        export JOBGEN_AGENT=$PWD
        sleep 60 >&- 2>&- & disown; export old=$!
        until grep -qzxF "JOBGEN_AGENT=$PWD" /proc/$old/environ; do :; done
        set +eu; start_again; kill $old
    """
    done = call(program, scheduler, "restart", folder=tmp_path)
    assert (done.stdout, done.stderr) == (f"jobgen: {says}\n", "")


@pytest.mark.parametrize(
    ("given", "shown"), [("", ""), ("(null)", ""), ("n7", ",n7"), ("n[7-8],x1", ",n[7-8],x1")]
)
def test_what_a_job_excludes_itself_stays_excluded(tmp_path: Path, given: str, shown: str) -> None:
    """A list on the command line, or for scontrol, replaces that of the job."""
    program = f"""
        scontrol() {{
            if [[ $1 == show ]]; then echo "   ReqNodeList=(null) ExcNodeList={given}"; fi
            if [[ $1 == update ]]; then echo "$3" >>asked; fi
        }}
        sbatch() {{ printf '%s\\n' "$@" | sed -n 's/^--exclude=/sbatch /p' >>asked; echo 8; }}
        . {RUNTIME}/chain.sh
        attempt_dir=$PWD/attempts run_dir=$PWD attempt=0 at_most=2 chain=resubmit job_id=7
        mkdir attempts; echo n3 | tee attempts/lost >avoid; this_script=x
        exclude_lost
        queue_successor
    """
    done = call(program, folder=tmp_path)
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"ExcNodeList=n3{shown}",
        f"sbatch n3{shown}",
    ], done.stderr


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("8", "8\n"),
        ("8;one", "8\n"),  # of a federation
        ("Welcome to 1\n--> 2 checks ... OK\n\n8", "8\n"),
        ("Welcome", None),
    ],
)
def test_of_what_sbatch_prints_the_next_job_is_kept(
    tmp_path: Path, printed: str, kept: str | None
) -> None:
    (tmp_path / "attempts").mkdir()
    program = f"""
        . {RUNTIME}/chain.sh
        scontrol() {{ :; }}
        sbatch() {{ echo "{printed}"; }}
        attempt_dir=$PWD run_dir=$PWD attempt=0 at_most=2 chain=resubmit job_id=7 this_script=x
        queue_successor
    """
    done = call(program, folder=tmp_path)
    successor = tmp_path / "attempts/after-7"
    assert (successor.read_text() if successor.exists() else None) == kept, done.stderr
    assert ("could not be submitted" in done.stdout) == (kept is None)


@pytest.mark.parametrize("code", [0, 1])
def test_a_lost_node_that_a_chain_excludes_is_named(tmp_path: Path, code: int) -> None:
    program = f"""
        scontrol() {{ case $1 in
            requeue) echo "Job is pending execution for job 7" >&2; return 1 ;;
            update) echo "$*" >>asked; echo "Invalid user id" >&2; return {code} ;;
        esac; }}
        sleep() {{ :; }}
        . {RUNTIME}/chain.sh
        attempt_dir=$PWD run_dir=$PWD attempt=0 at_most=2 chain=requeue job_id=7
        against='' lost_nodes=n3
        echo n3 | tee lost >avoid
        go_on
        echo "${{against:-goes on}}"
    """
    done = call(program, folder=tmp_path)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert (set(asked), len(asked)) == ({"update JobId=7 ExcNodeList=n3"}, 15 if code else 1)
    said = (
        "jobgen: n3 is excluded from now on; to allow it again: "
        "scontrol update JobId=7 ExcNodeList= && scontrol release 7"
    )
    assert done.stdout.splitlines()[1:] == [
        "jobgen: Slurm does not exclude n3: Invalid user id" if code else said,
        "goes on",
    ]
    assert done.stderr == ""


@pytest.mark.parametrize("launcher", ["srun", "watch", "alone", "body"])
def test_a_job_that_is_killed_right_after_its_signal_counts_as_cancelled(
    tmp_path: Path, launcher: str
) -> None:
    program = """
        attempt_dir=$PWD job_id=7 child=''
        timeout() { kill -KILL "$BASHPID"; }
        trap 'stop=SIGTERM && end_early && kill -KILL "$BASHPID"' TERM
        kill -TERM "$BASHPID"
        sleep 5
    """
    done = call(program, launcher, folder=tmp_path)
    assert done.returncode == -9
    assert (tmp_path / "outcome").read_text() == "cancelled 143\n"


def test_a_failure_of_which_there_is_no_file_names_none(tmp_path: Path) -> None:
    program = """
        attempt=0 attempt_dir=$PWD run_dir=$PWD names=(n1) reason=' with exit code 1'
        find_first_error
        echo "$reason"
    """
    assert call(program, folder=tmp_path).stdout == " with exit code 1\n"


@pytest.mark.parametrize(
    ("events", "kind", "named"),
    [
        ("server/node-0.ended client/failed", "", "server"),  # the client has lost it
        ("client/failed server/node-0.ended", "", "client"),
        ("server/node-0.ended client/failed", "alone", "client"),
        ("server/node-0.ended STOP client/failed", "", "client"),
        ("pool/node-1.ended client/failed pool/node-0.ended", "", "client"),
        ("pool/node-1.ended pool/node-0.ended client/failed", "", "pool"),
        ("pool/node-1.ended client/failed", "", "client"),  # its other node goes on
        ("client/node-0.ended", "", "none"),  # the last one may
    ],
)
def test_a_role_that_ends_early_is_named_though_another_fails_of_it(
    tmp_path: Path, events: str, kind: str, named: str
) -> None:
    for role, nodes in {"server": "n1", "client": "n2", "pool": "n3\nn4"}.items():
        (tmp_path / f"start-of-{role}").mkdir()
        (tmp_path / f"start-of-{role}/nodes").write_text(f"{nodes}\n")
    for second, event in enumerate(events.split()):
        path = tmp_path / (f"start-of-{event}" if "/" in event else event)
        path.write_text("1 1\n")
        os.utime(path, (second, second))
    program = f"""
        attempt_dir=$PWD run_dir=$PWD last=client
        may_end=([server]={kind} [pool]= [client]=)
        find_role ^ none
    """
    assert call(program, "roles", folder=tmp_path).stdout == f"{named}\n"


def test_srun_is_told_what_a_site_an_outer_job_or_the_first_node_would_tell_otherwise(
    tmp_path: Path,
) -> None:
    """WaitTime would have it kill who still works, and a shell of salloc lacks the CPUs."""
    program = """
        launch() { env | grep ^SLURM_ | sort; }
        export SLURM_WAIT=30 SLURM_EXPORT_ENV=NONE SLURM_GPUS=3 SLURM_MEM_PER_CPU=1
        attempt_dir=$PWD
        for SLURM_JOB_CPUS_PER_NODE in 8 '72(x2)' '72(x2),8,36' '128,36(x3)'; do
            (start_launcher && echo "$SLURM_CPUS_ON_NODE" && cat launcher.log)
        done
    """
    done = call(program, "srun", folder=tmp_path)
    told = "SLURM_EXPORT_ENV=ALL\nSLURM_WAIT=0\n"
    assert done.stdout == "".join(f"{cpus}\n{told}" for cpus in (8, 72, 8, 36)), done.stderr


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        ("Node failure on n2", "n2 is lost: Slurm says that it has failed"),
        ("Task launch for StepId=1.0 failed on node n2: x", "n2 is lost: Slurm says that it has"),
        ("n2: task 1: Exited with exit code 2\nno room", "n2: not started: no room"),
    ],
)
def test_what_srun_says_of_a_node_is_in_the_record_of_its_loss(
    tmp_path: Path, said: str, failed: str
) -> None:
    (tmp_path / "launcher.log").write_text(f"srun: error: {said}\n")
    (tmp_path / "nodes").write_text("n1\nn2\n")
    program = """
        tell_nodes() { :; }
        run_child() { status=2; }
        attempt_dir=$PWD stop='' reason=''
        run_job
        echo "$status$reason"
    """
    done = call(program, "srun", folder=tmp_path)
    nodes, words = read_loss(str(tmp_path))
    assert (nodes, done.stdout) == (["n2"], f"1: {words}\n"), done.stderr
    assert words.startswith(failed)


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        ('users:(("python3",pid={stranger},fd=3))', "taken"),
        ('users:(("python3",pid={child},fd=3))', "listens"),
        ('users:(("ray::Proxy",pid={stranger},fd=3),("python3",pid={child},fd=3))', "listens"),
        ('users:(("python3",pid={marked},fd=3))', "listens"),  # it has left its parents
        ('users:(("redis-server",pid=1,fd=3))', "listens"),  # in a container
        ("uid:1 ino:7", "taken"),  # another user's, whose processes are not shown
        ("uid:123456 ino:7", "listens"),  # nobody's here: root of a container
        ("ino:7", "listens"),  # root's: Docker's
        (None, "listens"),  # there is no ss
    ],
)
def test_a_role_listens_unless_its_port_is_seen_to_be_anothers(
    tmp_path: Path, heard: str | None, found: str
) -> None:
    program = r"""
        export JOBGEN_AGENT=$tmp_dir; sleep 60 & child=$!
        ss() { [[ -n $told ]] && echo "$told" | sed "s/{child}/$child/"; }
        readlink() { [[ $1 == /proc/1/* ]] && echo other || echo own; }
        watch_port 20000; kill "$child"
    """
    (tmp_path / "program").write_text(f". {RUNTIME}/port.sh\n{program}")
    with (
        subprocess.Popen(["sleep", "60"]) as stranger,
        subprocess.Popen(["env", f"JOBGEN_AGENT={tmp_path}", "sleep", "60"]) as marked,
    ):
        pids = {"stranger": stranger.pid, "marked": marked.pid, "child": "{child}"}
        told = heard.format(**pids) if heard else ""
        own = f"node=n1 attempt_dir={tmp_path} tmp_dir={tmp_path} told={shlex.quote(told)}"
        done = subprocess.run(
            ["bash", "-c", f"export {own}; bash -euo pipefail {tmp_path}/program; :"],
            capture_output=True,
            text=True,
        )
        stranger.kill()
        marked.kill()
    assert [name for name in ("listens", "taken") if (tmp_path / name).exists()] == [found], done
    if found == "taken":
        words = "port 20000 on n1 is in use by another program\n"
        assert (tmp_path / "taken").read_text() == words


@pytest.mark.parametrize(
    ("status", "what"),
    [
        ("HTTP/1.0 200 OK", ""),
        ("HTTP/1.1 404 Not Found", "HTTP/1.1 404 Not Found at http://127.0.0.1:{}/health"),
        ("HTTP/1.0 503 Loading\u0007", "HTTP/1.0 503 Loading at http://127.0.0.1:{}/health"),
        ("", "no answer at http://127.0.0.1:{}/health"),
    ],
)
def test_what_a_server_answers_is_said(tmp_path: Path, status: str, what: str) -> None:
    (tmp_path / "listens").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(f"{status}\r\n".encode() if status else b"")

        threading.Thread(target=answer, daemon=True).start()
        ask = f"is_ready server http 127.0.0.1:{port} /health"
        done = call(f'own=$PWD; {ask} || echo "$what"', "roles", folder=tmp_path)
    assert done.stdout == (f"{what.format(port)}\n" if what else ""), done.stderr


def test_a_file_of_before_the_job_is_called_old_and_does_not_count(tmp_path: Path) -> None:
    program = """
        this_script=$PWD/script
        is_ready server file index.bin || echo "$what"
        touch -d 2001-01-01 index.bin; touch -d 2002-02-02 script
        is_ready server file index.bin || echo "$what"
        touch index.bin; is_ready server file index.bin
    """
    said = "no file index.bin\nindex.bin is older than this job\n"
    done = call(program, "roles", folder=tmp_path)
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


@pytest.mark.parametrize(("first", "said"), [("server", "server"), ("client", "")])
def test_a_role_that_failed_before_the_last_ended_fails_the_job(
    tmp_path: Path, first: str, said: str
) -> None:
    """Both may have ended within one look; what a role does once the last has ended is its own."""
    for second, (role, name) in enumerate(
        sorted([("server", "failed"), ("client", "node-0.ended")], key=lambda one: one[0] != first)
    ):
        path = tmp_path / f"start-of-{role}" / name
        path.parent.mkdir()
        path.write_text("0 1\n")
        os.utime(path, (second, second))
    program = """
        attempt_dir=$PWD run_dir=$PWD last=client stop=''
        end_roles() { echo "ends:$1"; exit 0; }
        (exit 1) & pid_of=([server]=$!); (exit 0) & pid_of+=([client]=$!)
        until ! kill -0 "${pid_of[@]}" 2>/dev/null; do sleep 0.1; done; sleep 0.3
        watch_roles
    """
    assert call(program, "roles", folder=tmp_path).stdout == f"ends:{said}\n"


def test_a_suspension_moves_the_end_of_the_walltime(tmp_path: Path) -> None:
    """PBS stops the clock of a job that it suspends (stop_walltime of pbs_mom)."""
    program = """
        attempt_dir=$PWD jump=3600 SECONDS=0; echo 5000 >end
        sleep() { SECONDS=$((SECONDS + jump)) jump=1; }
        kill() { [[ $1 == -0 ]] || echo "told after $((SECONDS / 10 * 10)) s"; }
        remind 20
        read_clock && echo "ends at $run_end"
    """
    done = call(program, "notice", folder=tmp_path)
    assert done.stdout == "told after 3620 s\nends at 8600\n", done.stderr


def test_processes_are_told_to_end_though_slurm_does_not_answer(tmp_path: Path) -> None:
    program = """
        sleep 60 & child=$! job_id=7 stop=''
        timeout() { return 124; }
        end_job
        wait "$child" || echo $?
    """
    assert call(program, "srun", folder=tmp_path).stdout == "143\n"


def test_each_promise_in_the_docs_has_functions_and_a_proof() -> None:
    functions = {
        name for path in FILES for name in re.findall(r"(?m)^(\w+)\(\) \{", path.read_text())
    }
    text = (ROOT / "docs" / "concepts" / "the-script.md").read_text()
    table = text[text.index("| promise |") :].partition("\n\n")[0].splitlines()[2:]
    assert len(table) > 10
    for _, promise, by, proof, _ in (line.split("|") for line in table):
        named = set(re.findall(r"`(\w+)`", by))
        assert named, promise
        assert named <= functions, promise
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", proof)
        assert tests, promise
        for file, name in tests:
            assert f"def {name}(" in (ROOT / "tests" / file).read_text(), (promise, name)


def test_signals_reach_what_runs_while_it_is_waited_for(tmp_path: Path) -> None:
    program = """
        tell() { kill -TERM "$child"; }
        trap tell TERM
        work() { trap 'exit 7' TERM; : >ready; while :; do sleep 0.1; done; }
        (until [[ -e ready ]]; do sleep 0.1; done; sleep 0.5; kill -TERM $$) &
        run_child work
        echo "$status"
    """
    done = call(program, folder=tmp_path)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


def test_a_signal_that_came_before_the_child_ends_it(tmp_path: Path) -> None:
    done = call('stop=SIGTERM; run_child sleep 600; echo "$status"', folder=tmp_path)
    assert done.stdout == "143\n", done.stderr


def test_what_ends_at_once_has_its_status(tmp_path: Path) -> None:
    program = """
        kill() { sleep 0.2; builtin kill "$@"; }    # as on a machine that does much else
        run_child true; echo "$status"
        run_child false; echo "$status"
    """
    done = call(program, folder=tmp_path)
    assert done.stdout == "0\n1\n", done.stderr


TABLE = "  rank      : {} (local_rank: 0)\n  exitcode  : {} (pid: 1)\n"
LOST = "Traceback (most recent call last):\nRuntimeError: Connection closed by peer\n"
RAISED = "ConnectionResetError: reset by peer\nretrying\nTraceback:\nValueError: nine\n"


@pytest.mark.parametrize(
    ("codes", "logs", "first"),
    [
        # In the order in which they fell silent; 0 and 4 are of an earlier start.
        ({1: -15, 2: 3}, {1: "", 2: ""}, "rank 2 on n1"),
        ({1: 1, 2: 1}, {1: LOST, 2: RAISED}, "rank 2 on n1"),
        ({1: 1, 2: 1}, {2: RAISED, 1: RAISED}, "rank 2 on n1"),
        ({1: 1, 2: -9}, {2: "", 1: LOST}, "rank 2 on n1"),
        ({1: 1}, {1: LOST}, "n1"),
    ],
)
def test_the_first_error_is_not_of_a_process_that_has_only_lost_another(
    tmp_path: Path, codes: dict[int, int], logs: dict[int, str], first: str
) -> None:
    folder = tmp_path / "logs/n1"
    folder.mkdir(parents=True)
    (tmp_path / "errors").mkdir()
    (tmp_path / "nodes").write_text("n1\n")
    log = "jobgen: n1 is node 0 in start 1; x\n" + TABLE.format(0, 9) + TABLE.format(4, 9)
    log += "jobgen: n1 is node 0 in start 2; x\n"
    (folder / "agent.log").write_text(
        log + "".join(TABLE.format(rank, code) for rank, code in codes.items())
    )
    (folder / "rank-0.err").write_text("")
    for rank, text in logs.items():
        (folder / f"rank-{rank}.err").write_text(text)
        subprocess.run(["sleep", "0.02"], check=True)
    program = """
        run_dir=$PWD attempt_dir=$PWD attempt=1 names=(n1) reason=''
        set +eu
        find_first_error
        echo "$reason"
    """
    assert call(program, folder=tmp_path).stdout.startswith(f": {first}, see ")


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
    program = f"job_name=a job_id=7; umask {mask}; loosen_umask; umask"
    done = call(program, "pbs", folder=tmp_path)
    assert done.stdout == f"{loosened}\n", done.stderr


def test_a_process_that_is_left_behind_is_ended(tmp_path: Path) -> None:
    program = """
        mkdir tmp
        JOBGEN_AGENT=$PWD/tmp setsid sleep 60 & left=$!
        sleep 0.2 & shell=$!
        guard_node "$shell" "$PWD/tmp" 0 / $$
        kill -0 "$left" 2>/dev/null && echo alive
        [[ -d tmp ]] && echo there || :
    """
    done = call(program, "guard", folder=tmp_path)
    assert done.stdout == "jobgen: the shell around the agent was killed\n"


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
