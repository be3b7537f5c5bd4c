"""Arrays and sweeps: which tasks there are, what each is given, and that it arrives."""

import itertools
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, REFUSED, VALUES
from hypothesis import given
from hypothesis import strategies as st
from support import complaint, edited, exported, jobgen, load, plan_of, run_node, working_in

from jobgen import schedulers
from jobgen.errors import SpecError
from jobgen.output import format_json
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.explain import explain
from jobgen.rendering.render import render

SWEEP = """\
name: sweep
resources: {nodes: 2}
run: {script: train.py, args: {epochs: 3, lr: 1}}
environment: {variables: {DATA: base}}
array:
  values: {lr: [1e-3, 3e-4], seed: [0, 1], environment.variables.DATA: [a b]}
  at_once: 2
"""
KEYS = st.from_regex(r"[a-z][a-z_.-]{0,5}", fullmatch=True).filter(
    lambda key: (
        not re.match(r"(resources|run|environment|launch|walltime|array|notify|after)\.", key)
    )
)


def words(plan: Plan) -> list[list[str]]:
    """What each task adds to the program's words."""
    return [list(task.arguments) for task in plan.array.tasks]


def array(content: dict[str, Any], args: object = None) -> Plan:
    """The plan of a job with this array."""
    run = {"module": "m"} | ({} if args is None else {"args": args})
    job = {"name": "a", "resources": {}, "run": run, "array": content}
    return plan_of(json.dumps(job), scheduler="slurm")


@given(st.dictionaries(KEYS, st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1,
                       max_size=3))  # fmt: skip
def test_values_are_every_combination_with_the_last_varying_fastest(
    values: dict[str, list[int]],
) -> None:
    combinations = list(itertools.product(*values.values()))
    if len(combinations) == 1:
        return
    options = [f"-{key}" if len(key) == 1 else f"--{key}" for key in values]
    assert words(array({"values": values})) == [
        [word for pair in zip(options, map(str, row), strict=True) for word in pair]
        for row in combinations
    ]


@given(st.lists(KEYS, min_size=1, max_size=3, unique=True), st.integers(2, 5))
def test_zip_takes_the_first_of_all_then_the_second(keys: list[str], size: int) -> None:
    content = {key: [f"{key}{row}" for row in range(size)] for key in keys}
    options = [f"-{key}" if len(key) == 1 else f"--{key}" for key in keys]
    assert words(array({"zip": content})) == [
        [
            word
            for key, option in zip(keys, options, strict=True)
            for word in (option, f"{key}{row}")
        ]
        for row in range(size)
    ]


@given(st.lists(st.dictionaries(st.sampled_from(["lr", "seed", "wd"]), st.integers(0, 9)),
                min_size=2, max_size=5))  # fmt: skip
def test_a_task_of_a_list_keeps_what_args_say_of_what_it_leaves_out(
    tasks: list[dict[str, int]],
) -> None:
    args = {"lr": 7, "epochs": 3}
    plan = array({"list": tasks}, args)
    for task, found in zip(tasks, words(plan), strict=True):
        whole = [*plan.program.command[4:], *found]
        pairs = dict(zip(whole[::2], whole[1::2], strict=True))
        assert len(whole) == 2 * len(pairs)
        assert pairs == {f"--{key}": str(value) for key, value in {**args, **task}.items()}


def test_tasks_alone_differ_by_their_index() -> None:
    plan = array({"tasks": 3, "at_once": 2})
    assert words(plan) == [[], [], []]
    assert "export JOBGEN_TASK=$1\n" in render(plan)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        (True, ["--ab"]),
        (False, []),
        ("-1", ["--ab=-1"]),
        ([1, 2], ["--ab", "1", "2"]),
        ([], ["--ab"]),
        ("", ["--ab", ""]),
    ],
)
def test_values_become_words_as_in_args(value: object, arguments: list[str]) -> None:
    assert words(array({"values": {"ab": [value, "x"]}}))[0] == arguments
    assert words(array({"values": {"run.args.ab": [value, "x"]}}))[0] == arguments
    assert words(array({"values": {"--ab": [value, "x"]}}, {"ab": 1}))[0] == arguments


def test_arguments_that_are_a_list_come_first() -> None:
    plan = array({"values": {"ab": [1, 2]}}, ["x", "--ab", "0"])
    assert (plan.program.command[-3:], words(plan)) == (
        ("x", "--ab", "0"),
        [["--ab", "1"], ["--ab", "2"]],
    )


@pytest.mark.parametrize(
    ("scheduler", "lines"),
    [
        ("slurm", ["#SBATCH --array=0-3%2", "#SBATCH --output=%x-%A_%a.out"]),
        ("pbs", ["#PBS -J 0-3%2"]),
        ("local", ["# sweep: 4 tasks, each of 2 nodes x 1 process, for this machine alone"]),
    ],
)
def test_one_array_with_a_table_that_can_be_read(scheduler: str, lines: list[str]) -> None:
    script = render(plan_of(SWEEP, scheduler=scheduler))
    for line in lines:
        assert f"{line}\n" in script
    table = """\
        0) arguments=(--lr 1e-3 --seed 0) DATA='a b' ;;
        1) arguments=(--lr 1e-3 --seed 1) DATA='a b' ;;
        2) arguments=(--lr 3e-4 --seed 0) DATA='a b' ;;
        3) arguments=(--lr 3e-4 --seed 1) DATA='a b' ;;
"""
    assert table in script
    assert 'exec python3 -u train.py --epochs 3 ${arguments[@]+"${arguments[@]}"}\n' in script
    without = render(plan_of(SWEEP, "array=null", scheduler=scheduler))
    assert "choose_task" not in without
    assert "JOBGEN_TASK" not in without


def test_without_a_bound_there_is_none() -> None:
    plan = plan_of(SWEEP, "array.at_once=null", scheduler="slurm")
    assert "#SBATCH --array=0-3\n" in render(plan)
    here = render(plan_of(SWEEP, "array.at_once=null", scheduler="local"))
    assert "    run_tasks 4 1\n" in here  # they share this machine


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "local"])
def test_an_array_of_one_task_is_a_job(scheduler: str) -> None:
    """PBS refuses such arrays."""
    one = edited(("[1e-3, 3e-4]", "[1e-3]"), ("[0, 1]", "[5]"), text=SWEEP)
    plan = plan_of(one, scheduler=scheduler)
    script = render(plan)
    assert not re.search("^#(SBATCH --array|PBS -J)", script, re.M)
    assert "exec python3 -u train.py --epochs 3 --lr 1e-3 --seed 5\n" in script
    assert "    export JOBGEN_TASK=0\n" in script
    assert "    export DATA='a b'\n" in script
    assert "array.at_once" in plan.left_out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "5:8: array: has none of values, zip, list and tasks; give exactly one of them"),
        (
            "{tasks: 2, list: [{}]}",
            "5:16: array.tasks: is given together with list; give exactly one of",
        ),
        ("{values: {a: []}}", "5:21: array.values.a: is an empty list; give it values"),
        ("{zip: {a: [1, 2], b: [1]}}", "5:14: array.zip: has lists of different length: a 2, b 1;"),
        ("{values: {ab: [1], --ab: [2]}}", "5:33: array.values.--ab: names the same as ab"),
        (
            "{values: {resources.nodes: [1, 2]}}",
            "5:35: array.values.resources.nodes: cannot differ between the tasks of an array; argu",
        ),
        (
            "{list: [{a: 1}, {environment.variables.RANK: 1}]}",
            "5:53: array.list[1].environment.variables.RANK: cannot differ between the tasks",
        ),
        *(
            (
                f"{{values: {{{name}: [1, 2]}}}}",
                f"array.values.{name}: cannot differ between the tasks of an array; "
                "arguments, as run.args.NAME, and environment.variables.NAME can\n",
            )
            for name in ("environment.LR", "run.LR-1", "environment.variables.RANK")
        ),
        (
            "{values: {environment.variables.A: [[1]]}}",
            "5:43: array.values.environment.variables.A: is a variable, whose value cannot",
        ),
        ("{values: {a: [[1, -x]]}}", "5:21: array.values.a: a value in this list begins with '-'"),
        ("{tasks: 10001}", "5:16: array.tasks: 10001 is more than 10000"),
        (
            "{tasks: 3, numbers: [4, 7]}",
            "5:28: array.numbers: lists 2, and the number of tasks is 3; list one for each task",
        ),
        (
            "{zip: {a: [1, 2], b: [3, 4]}, numbers: [7, 7]}",
            "5:47: array.numbers: gives several tasks the number 7; give each its own",
        ),
        ("{tasks: 1, numbers: [-1]}", "5:29: array.numbers[0]: -1 is less than 0; write 0 or more"),
        ("{tasks: 2, at_once: 0}", "5:28: array.at_once: 0 is less than 1; write 1 or more"),
        ("{valus: {a: [1]}}", "5:9: array.valus: unknown key; did you mean 'values'?"),
    ],
)
def test_an_array_that_is_wrong(content: str, message: str) -> None:
    text = edited(("", f"array: {content}\n"))
    assert re.search(f"job.yaml:.*{re.escape(message)}", complaint(text) + "\n")


@pytest.mark.parametrize("kind", ["values", "zip", "list"])
def test_there_are_not_too_many_tasks(kind: str) -> None:
    """Said before they are counted out: twenty lists of ten would not fit into any memory."""
    many: Any = {f"k{index}": list(range(10)) for index in range(20)}
    if kind == "zip":
        many = {"a": list(range(10_001))}
    elif kind == "list":
        many = [{}] * 10_001
    job = {"name": "a", "resources": {}, "run": {"module": "m"}, "array": {kind: many}}
    assert re.search(
        r"(makes|has) [0-9x ]+ tasks, more than 10000; split", complaint(json.dumps(job))
    )


def test_slurm_has_no_arrays_of_unequal_nodes() -> None:
    text = edited(("{nodes: 2}", "{gpus_per_node: [2, 1], cpus_per_gpu: 1}"), text=SWEEP)
    message = "array: Slurm cannot run arrays of jobs with unequal nodes; write a script for each"
    assert message in complaint(text, scheduler="slurm")
    assert plan_of(text, scheduler="pbs").array
    assert resolve(load(text), scheduler="slurm", task=1).program.task == "1"


# --- what arrives ------------------------------------------------------------------


def run_task(job: dict[str, Any], task: int, scheduler: str) -> tuple[list[str], dict[str, str]]:
    """What the program of one task finds."""
    found = run_node({"name": "a", "resources": {}, **job}, scheduler=scheduler, task=task)
    assert "canary" not in found.files
    return found.argv[1:], found.environment


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_each_task_gets_its_own(scheduler: str) -> None:
    job = {
        "run": {"command": ["PROGRAM", "x"], "args": {"lr": 1}},
        "environment": {"variables": {"A": "base", "B": "base"}, "setup": 'export C="$A $B"'},
        "array": {"list": [{"lr": 2}, {"environment.variables.A": "own", "on": True}]},
    }
    words, environment = run_task(job, 0, scheduler)
    assert words == ["x", "--lr", "2"]
    assert [environment[key] for key in ("JOBGEN_TASK", "A", "C")] == ["0", "base", "base base"]
    words, environment = run_task(job, 1, scheduler)
    assert words == ["x", "--lr", "1", "--on"]
    assert [environment[key] for key in ("JOBGEN_TASK", "A", "C")] == ["1", "own", "own base"]


def test_a_setup_may_count_the_tasks_from_one() -> None:
    job = {
        "run": {"command": ["PROGRAM"]},
        "environment": {"setup": "export PBS_ARRAY_INDEX=$((JOBGEN_TASK + 1))"},
        "array": {"tasks": 3},
    }
    assert run_task(job, 2, "pbs")[1]["PBS_ARRAY_INDEX"] == "3"
    del job["environment"]
    assert run_task(job, 2, "pbs")[1]["PBS_ARRAY_INDEX"] == "2"


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9, unique=True))
def test_the_tasks_have_the_numbers_that_the_spec_gives_them(numbers: list[int]) -> None:
    content = {"tasks": len(numbers), "numbers": numbers}
    plan = array(content)
    found = [*plan.array.numbers] or [int(plan.program.number or -1)]
    assert found == numbers
    same = array({"tasks": len(numbers), "numbers": [*range(len(numbers))]})
    usual = array({"tasks": len(numbers)})
    assert cut_header(render(same)) == cut_header(render(usual))
    job = {"name": "a", "resources": {}, "run": {"module": "m"}, "array": content}
    last = resolve(load(json.dumps(job)), scheduler="slurm", task=len(numbers) - 1)
    assert f"    export JOBGEN_TASK={numbers[-1]}\n" in render(last)
    assert f" --task {len(numbers) - 1}\n" in render(last)


def cut_header(script: str) -> str:
    return script.partition("\nset -euo")[2]


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_a_program_finds_its_number_where_it_would_find_the_index(scheduler: str) -> None:
    job = {
        "run": {"command": ["PROGRAM"]},
        "environment": {"setup": "export SEEN=$JOBGEN_TASK"},
        "array": {"list": [{"x": 5}, {"x": 6, "environment.variables.A": "b"}], "numbers": [4, 1]},
    }
    index = {"slurm": "SLURM_ARRAY_TASK_ID", "pbs": "PBS_ARRAY_INDEX"}.get(scheduler, "JOBGEN_TASK")
    for task, number, value in ((0, "4", "5"), (1, "1", "6")):
        words, environment = run_task(job, task, scheduler)
        assert words == ["-x", value]
        assert [environment[key] for key in ("JOBGEN_TASK", "SEEN", index)] == [number] * 3
        assert environment["JOBGEN_JOB_ID"] == f"7_{task}"


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_hostile_values_arrive(scheduler: str) -> None:
    values = {f"k{index}": [value, "x"] for index, value in enumerate(HOSTILE)}
    variables = {f"environment.variables.V{n}": [value, "x"] for n, value in enumerate(HOSTILE)}
    job = {"run": {"command": ["PROGRAM"]}, "array": {"zip": {**values, **variables}}}
    words, environment = run_task(job, 0, scheduler)
    wanted = []
    for index, value in enumerate(HOSTILE):
        option = f"--k{index}"
        wanted += [f"{option}={value}"] if value.startswith("-") else [option, value]
        assert environment[f"V{index}"] == value
    assert words == wanted


@given(
    st.lists(VALUES.filter(lambda value: not REFUSED.search(value)), min_size=2, max_size=8),
    st.integers(0, 7),
)
def test_any_value_arrives(values: list[str], number: int) -> None:
    """One task of the array runs, with one of the values as an argument and one as a variable."""
    content = {"a": values, "environment.variables.V": values[::-1]}
    job = {"run": {"command": ["PROGRAM"]}, "array": {"zip": content}}
    task = number % len(values)
    words, environment = run_task(job, task, "local")
    value = values[task]
    assert words == ([f"-a={value}"] if value.startswith("-") else ["-a", value])
    assert environment["V"] == values[-1 - task]


@given(VALUES.filter(REFUSED.search))
def test_a_value_that_nobody_could_see_is_refused(value: str) -> None:
    content = {"array": {"values": {"a": [value]}}}
    with pytest.raises(SpecError, match=r"array\.values\.a\[0\]: holds the control character"):
        plan_of({"name": "a", "resources": {}, "run": {"module": "m"}, **content})


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_a_task_that_is_not_there_is_an_error(scheduler: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(render(plan_of(SWEEP, scheduler=scheduler)))
    environment = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JOB_ID": "8",
        "SLURM_ARRAY_JOB_ID": "7",
        "SLURM_ARRAY_TASK_ID": "4",
        "PBS_JOBID": "7[4].server",
        "PBS_ARRAY_INDEX": "4",
        "PBS_O_WORKDIR": str(tmp_path),
    }
    if scheduler == "local":
        environment |= {"JOBGEN_ARRAY": "7", "JOBGEN_TASK": "4"}
    argv = ["bash", str(script)]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 1
    assert "there is no task 4: this script is for an array of 0-3" in ended.stderr


# --- a script for each task ---------------------------------------------------------


def test_expand_writes_a_script_for_each_task(tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(SWEEP)
        target = ("--scheduler", "slurm")
        ended = jobgen("render", "--expand", "--out-dir", "out", *target)
        assert (ended.code, ended.out) == (0, "")
        files = sorted(path.name for path in Path("out").iterdir())
        assert files == [f"job-{task}.sbatch" for task in range(4)]
        text = Path("out/job-2.sbatch").read_text()
        assert jobgen("render", "--task", "2", *target).out == text
        assert "# to render it again: jobgen render job.yaml --scheduler slurm --task 2\n" in text
        assert "#SBATCH --job-name=sweep-2\n" in text
        assert "exec python3 -u train.py --epochs 3 --lr 3e-4 --seed 0\n" in text
        assert "    export JOBGEN_TASK=2\n" in text
        assert jobgen("check", "job.yaml", "--out-dir", "out").code == 0
        Path("job.yaml").write_text(SWEEP.replace("3e-4", "3e-5"))
        ended = jobgen("check", "job.yaml", "--out-dir", "out")
        assert (ended.code, ended.out.count("+++")) == (4, 4)


def test_names_sort_as_the_tasks(tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(edited(("", "array: {tasks: 11}\n")))
        assert jobgen("render", "--expand", "--out-dir", ".").code == 0
        names = sorted(path.name for path in Path().glob("*.sh"))
        assert names == [f"job-{task:02}.sh" for task in range(11)]
        assert Path("job-03.sh").read_text().startswith("#!/bin/bash\n# a-03: 2 nodes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--expand"], "--expand needs --out-dir"),
        (["--expand", "--task", "1", "--out-dir", "."], "--expand and --task exclude each other"),
        (["--task", "4"], "--task 4: the tasks are 0 to 3"),
        (["--task", "-1"], "-1 is less than 0"),
        (["--task", "0", "--set", "array=null"], "--task 0: job.yaml has no array"),
    ],
)
def test_tasks_that_are_not_there(tmp_path: Path, words: list[str], message: str) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(SWEEP)
        code, out, err = jobgen("render", "--scheduler", "slurm", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_expand_writes_the_script_of_a_spec_without_an_array(tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(edited())
        assert jobgen("render", "--expand", "--out-dir", ".").code == 0
        assert Path("job.sh").read_text() == jobgen("render").out


# --- what is said of it -------------------------------------------------------------


def test_explain_shows_the_table() -> None:
    loaded = load(SWEEP)
    plan = resolve(loaded, scheduler="slurm")
    found = explain(loaded, plan)
    assert "\n     2 DATA='a b' --lr 3e-4 --seed 0\n" in found.as_text()
    assert json.loads(format_json(found))["tasks"][2] == {
        "task": 2,
        "arguments": ["--lr", "3e-4", "--seed", "0"],
        "variables": {"DATA": "a b"},
    }
    (line,) = [reason for reason in found.directives if "--array" in reason.what]
    assert line.origin == ("job.yaml:6:3: array", "job.yaml:7:12: array.at_once")
    variables = {reason.what: reason for reason in found.variables}
    where = "job.yaml:6:72: array.values.environment.variables.DATA"
    assert variables["DATA=by task"].origin == (where,)
    assert {what.partition("=")[0] for what in variables} == exported(render(plan))


def test_explain_shows_the_numbers_of_tasks() -> None:
    loaded = load(SWEEP, "array.numbers=[1, 2, 5, 8]")
    plan = resolve(loaded, scheduler="slurm")
    found = explain(loaded, plan)
    assert "\n     2 JOBGEN_TASK=5 DATA='a b' --lr 3e-4 --seed 0\n" in found.as_text()
    variables = {reason.what.partition("=")[0]: reason for reason in found.variables}
    assert variables["SLURM_ARRAY_TASK_ID"].what.endswith("=1, 2, ...")
    assert variables.keys() == exported(render(plan))


def test_explain_of_one_task() -> None:
    loaded = load(SWEEP)
    one = resolve(loaded, scheduler="pbs", task=3)
    found = explain(loaded, one)
    assert found.tasks == ()
    variables = {reason.what: reason.origin for reason in found.variables}
    assert variables["DATA=a b"] == ("job.yaml:6:72: array.values.environment.variables.DATA",)
    assert variables["JOBGEN_TASK=3"] == ("job.yaml:6:3: array",)


def test_where_the_output_of_a_task_goes() -> None:
    assert schedulers.SCHEDULERS["slurm"].output_file("a", "7_3") == "a-7_3.out"
    assert schedulers.SCHEDULERS["pbs"].output_file("a", "7[3].server") == "a.o7.3"
    assert schedulers.SCHEDULERS["local"].output_file("a", "7_3") == "runs/a/7_3/job.out"


def test_a_refusal_for_its_length_is_explained() -> None:
    slurm, pbs = schedulers.SCHEDULERS["slurm"], schedulers.SCHEDULERS["pbs"]
    assert "MaxArraySize" in slurm.hint("sbatch: error: ... Invalid job array specification")
    assert "max_array_size" in pbs.hint("qsub: Array job exceeds server or queue size limit")
    assert slurm.hint("Invalid account") == pbs.hint("Unknown queue") == ""


# --- several tasks on a node --------------------------------------------------------

SHARED = """
name: a
resources: {gpus_per_node: 1, cpus_per_gpu: 12, memory_per_node: 90GB, disk_per_node: 10GB}
run: {script: train.py}
array: {tasks: 6, together: 4, at_once: 8}
"""


@pytest.mark.parametrize(
    ("together", "resources", "fault"),
    [
        (4, "memory_per_node: 90GB", ""),
        (
            4,
            "memory_per_node: 150GB",
            "memory_per_node: 4 tasks together ask for 600GB, more than the 382GB of a node"
            " (SOURCE); write a smaller array.together, or ask for less",
        ),
        (
            2,
            "disk_per_node: 300GB",
            "disk_per_node: 2 tasks together ask for 600GB, more than the 400GB of a node"
            " (SOURCE); write a smaller array.together, or ask for less",
        ),
    ],
)
def test_tasks_of_one_node_do_not_ask_for_more_than_it_has(
    together: int, resources: str, fault: str
) -> None:
    text = f"""
name: sweep
site: nci-gadi
account: vp91
queue: gpuvolta
filesystems: [scratch/vp91]
resources: {{gpus_per_node: 1, walltime: 1h, {resources}}}
run: {{script: train.py}}
array: {{tasks: 4, together: {together}}}
"""
    if fault:
        assert f"resources.{fault}" in re.sub(r"\(http.*?\)", "(SOURCE)", complaint(text))
    else:
        assert plan_of(text).nodes.asked[0].memory == 4 * 90 * 1024**2


@pytest.mark.parametrize(
    ("scheduler", "lines"),
    [
        (
            "slurm",
            ["--cpus-per-task=48", "--gpus-per-node=4", "--mem=360G", "--tmp=40G", "--array=0-1%2"],
        ),
        ("pbs", ["-l select=1:ncpus=48:ngpus=4:mem=360gb:mpiprocs=1", "-J 0-1%2"]),
    ],
)
def test_tasks_that_share_a_node_ask_for_it_together(scheduler: str, lines: list[str]) -> None:
    plan = plan_of(SHARED, scheduler=scheduler)
    script = render(plan)
    sign = "#SBATCH" if scheduler == "slurm" else "#PBS"
    assert [line for line in lines if f"{sign} {line}\n" not in script] == []
    assert "task_count=6 node_tasks=4 task_gpus=1 " in script
    assert "export OMP_NUM_THREADS=12\n" in script
    assert "--nproc-per-node=1 " in script
    assert '-l 30 --id="$CUDA_VISIBLE_DEVICES" ' in script
    alone = render(plan_of(SHARED, "array.together=1", scheduler=scheduler))
    assert (
        alone.split("# ---- Part 2")[1]
        == render(plan_of(SHARED, "array.together=null", scheduler=scheduler)).split(
            "# ---- Part 2"
        )[1]
    )


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_tasks_that_fit_one_node_are_one_job(scheduler: str) -> None:
    script = render(plan_of(SHARED, "array.together=8", scheduler=scheduler))
    assert "task_count=6 node_tasks=6 " in script
    assert not re.search(r"^#(SBATCH --array|PBS -J)", script, re.M)


def test_one_task_alone_and_those_of_this_machine_share_nothing() -> None:
    assert plan_of(SHARED, scheduler="local").left_out[-1] == "array.together"
    for script in (
        render(plan_of(SHARED, scheduler="local")),
        render(resolve(load(SHARED), scheduler="slurm", task=1)),
    ):
        assert "node_tasks" not in script


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("resources.nodes=2", "array.together: tasks that share a node run on one node each; "),
        ("launch.mode=direct", "launch.mode: tasks that share a node are started by torchrun"),
        ("launch.launcher=mpiexec", "launch.launcher: tasks that share a node are started by"),
        ("on_walltime.then=requeue", "on_walltime.then: the tasks that share a node end together"),
        ("array.at_once=1", "array.at_once: is fewer than the "),
        (
            "environment.variables.CUDA_VISIBLE_DEVICES=0",
            "environment.variables.CUDA_VISIBLE_DEVICES: each of the tasks that share a node gets",
        ),
    ],
)
def test_what_cannot_share_a_node(override: str, message: str) -> None:
    assert message in complaint(SHARED, override, scheduler="slurm")


COPY = """
find_job; echo "$job_id $JOBGEN_TASK ${CUDA_VISIBLE_DEVICES-none} ${arguments[*]}"
until [[ -e go ]]; do sleep 0.1; done
exit $((JOBGEN_TASK == 5))
"""


@pytest.mark.parametrize(
    ("scheduler", "around", "ids"),
    [
        ("slurm", {"SLURM_JOB_ID": "78", "SLURM_ARRAY_JOB_ID": "77"}, "77"),
        ("pbs", {"PBS_JOBID": "77[1].pbs"}, "77"),
    ],
)
def test_tasks_run_side_by_side_with_gpus_of_their_own(
    tmp_path: Path, scheduler: str, around: dict[str, str], ids: str
) -> None:
    spec = SHARED.replace("gpus_per_node: 1", "gpus_per_node: 2").replace("tasks: 6", "tasks: 7")
    part_1, number, runtime = re.split(
        r"(# ---- Part 2.*\n)", render(plan_of(spec, scheduler=scheduler))
    )
    runtime = runtime.replace('main "$@"\n', COPY)
    script = tmp_path / "script"
    script.write_text(part_1 + number + runtime)
    index = {"slurm": "SLURM_ARRAY_TASK_ID", "pbs": "PBS_ARRAY_INDEX"}[scheduler]
    around = around | {index: "1", "PBS_O_WORKDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    seen = {"CUDA_VISIBLE_DEVICES": "8,9,a,b,c,d,e,f"}
    started = subprocess.Popen(
        ["bash", script], cwd=tmp_path, env={**around, **seen}, stdout=subprocess.PIPE, text=True
    )
    files = [tmp_path / f"runs/a/{ids}_{task}/job.out" for task in (4, 5, 6)]
    try:
        deadline = time.monotonic() + 120
        while not all(file.exists() and len(file.read_text().splitlines()) > 1 for file in files):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        (tmp_path / "go").touch()
        out, _ = started.communicate(timeout=120)
    last = [file.read_text().splitlines()[-1] for file in files]
    shares = ["8,9", "a,b", "c,d"]
    assert last == [
        f"{ids}_{task} {task} {gpus} " for task, gpus in zip((4, 5, 6), shares, strict=True)
    ]
    assert not (tmp_path / f"runs/a/{ids}_7").exists()
    assert started.returncode == 1
    codes = re.findall(r"task (\d) ended with exit code (\d)", out)
    assert codes == [("4", "0"), ("5", "1"), ("6", "0")]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("[srun, --output, 'log/%j_%t.out', -e=log/%j.err, python3, a.py]", []),
        ("[/usr/bin/srun, '--error=log/%j_%t.err', ./tool]", []),
        ("[srun, --output, 'log/%j.out', python3, a.py, --output, 'log/%j.txt']", ["log/%j.txt"]),
        ("[./tool, --output, 'log/%j.out']", ["log/%j.out"]),
        ("[srun, ./tool, --prefix, 'log/%j']", ["log/%j"]),
    ],
)
def test_what_srun_fills_in_is_not_said_to_be_as_it_is(command: str, told: list[str]) -> None:
    head = "name: a\nresources: {walltime: 1h}\nlaunch: {mode: plain}\n"
    text = f"{head}run: {{command: {command}}}\n"
    notes = "\n".join(plan_of(text, scheduler="slurm").notes)
    assert re.findall(r"gets '(\S+)' as it is", notes) == told


def test_an_argument_that_the_tasks_replace_is_no_template() -> None:
    text = SWEEP.replace("lr: 1}", "lr: '${{ matrix.lr }}', b: '${{ matrix.b }}'}")
    notes = "\n".join(plan_of(text, scheduler="slurm").notes)
    assert "run.args.b: the program gets '${{ matrix.b }}' as it is" in notes
    assert "matrix.lr" not in notes
