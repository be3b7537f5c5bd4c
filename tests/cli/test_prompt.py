"""Words that people type are answered with the line to type, or do what they do elsewhere."""

import inspect
import os
import re
import shlex
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import jobgen as run_jobgen

from jobgen.cli.guesses import explain_command
from jobgen.cli.main import LISTED, cli
from jobgen.cli.target import SHORTCUTS, explain_error
from jobgen.errors import JobgenError
from jobgen.jobs.record import JobRecord
from jobgen.spec.fields import list_paths
from jobgen.spec.model import JobSpec
from jobgen.spec.table import load_table

SPEC = """\
name: a
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 8, walltime: 2h}
run: {script: train.py}
"""
LAB = """\
scheduler: slurm
sources: {own: https://lab.example}
node: {gpus: 4, cpus: 32, source: own}
queues:
  debug: {source: own, limits: [{nodes: [1, 1], walltime: 2h, quote: 1 node}]}
  main: {source: own, limits: [{nodes: [1, 8], walltime: 8h, quote: 8 nodes}]}
  low: {source: own, limits: [{nodes: [1, 8], walltime: 8h, quote: 8 nodes}]}
"""


# What stands in an offered line for a number that the user has to choose.
CHOSEN = {"N": "2", "PORT": "6006"}
OFFERED = re.compile(
    r"(?:(?:type|mean): (?:cd \S+ && )?|, (?:and then|or) )jobgen "
    r"((?:[^\s'\";`|<(,]|'[^']*'|\"[^\"]*\"|,(?=\S)| (?=[^|<(]))+)"
)


def jobgen(*typed):
    """Run a line; jobgen has to take the lines that the answer offers, with the files in them."""
    ended = run_jobgen(*typed)
    named = " ".join([*typed, *re.findall(r"(?:-o|init.*) (\S+\.ya?ml)", ended.err), "job.yaml"])
    for line in OFFERED.findall(ended.err):
        name, *rest = [CHOSEN.get(word, word) for word in shlex.split(line)]
        assert name in ("--version", "--help", *LISTED), ended.err
        if name in LISTED and "--help" not in rest:
            group = click.Context(cli, info_name="jobgen")
            context = cli.get_command(group, name).make_context(name, [*rest], parent=group)
            files = re.findall(r"(?<!-o )(?<!--output )\b[\w.-]+\.ya?ml\b", line)
            assert [one for one in files if one not in named and not Path(one).exists()] == []
            made = [context.params["output"]] if name == "import" else []
            assert not any(map(os.path.exists, filter(None, made)))
            paths = [one.partition("=")[0] for one in context.params.get("overrides") or ()]
            assert len({*paths}) == len(paths), line
            assert [
                path for path in paths if path not in f"{named} PATH" and is_unknown(path)
            ] == []
    return ended


def is_unknown(path):
    """Whether no value of a spec, or of a record of the user's own names, stands at a path."""
    parts, known = path.split("."), list_paths(JobSpec)
    return not any(".".join(parts[:end]) in known for end in range(1, len(parts) + 1))


TABLE = Path(__file__).with_name("prompt.txt").read_text()
SECTIONS = dict(part.split("\n", 1) for part in TABLE.split("\n## ")[1:])


def typed(test):
    """Run a test for each row of its section of prompt.txt."""
    rows = [row for row in SECTIONS[test.__name__].splitlines() if row and row[0] != "#"]
    cells = [row.replace(r"\n", "\n").split(" ->") for row in rows]
    cases = [[cell.removeprefix(" ") for cell in row] for row in cells]
    return pytest.mark.parametrize(tuple(inspect.signature(test).parameters), cases)(test)


@pytest.fixture(autouse=True)
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)


@typed
def test_a_word_that_is_not_a_command_is_answered(line, answer):
    ended = jobgen(*line.split())
    assert ended.code == 2
    assert f"no such command {line.split()[0]!r}; {answer}" in ended.err


@typed
def test_what_is_not_a_job_or_a_file_is_not_taken_for_one(line, answer):
    assert answer in jobgen(*line.split()).err


@typed
def test_a_job_of_this_folder_is_known(line, answer):
    JobRecord("7", "a-1", "slurm", os.getcwd(), 1.0, ()).save()
    assert answer in jobgen(*line.split()).err


@typed
def test_jobs_and_tasks_of_this_folder_stay_in_the_line(line, answer):
    for job, name in {"7": "gpt", "12": "vit"}.items():
        JobRecord(job, name, "slurm", os.getcwd(), 1.0, ()).save()
    assert answer in jobgen(*line.split()).err


def test_a_script_that_jobgen_did_not_render_is_compared_by_diff():
    Path("train.py").touch()
    Path("old.sbatch").write_text("#!/bin/bash\n")
    assert jobgen("render", "-o", "own.sbatch").code == 0
    for line, answer in (
        ("diff job.yaml old.sbatch", "type: jobgen render job.yaml | diff - old.sbatch\n"),
        ("diff -u old.sbatch job.yaml", "jobgen render job.yaml | diff -u - old.sbatch\n"),
        ("diff own.sbatch job.yaml", "type: jobgen check job.yaml own.sbatch, which compares"),
    ):
        assert answer in jobgen(*line.split()).err


def test_a_spec_where_a_script_is_wanted_is_answered_with_its_line():
    Path("a.sbatch").write_text("#!/bin/bash\n")
    for line, answer in (
        ("import job.yaml -o a.sh", "type: jobgen render job.yaml -o a.sh\n"),
        ("import job.yaml", "type: jobgen check job.yaml\n"),
        ("lint a.sbatch job.yaml --fix", "job.yaml, and for the rest jobgen lint a.sbatch --fix\n"),
    ):
        assert answer in jobgen(*line.split()).err


def test_a_rerun_of_a_job_that_may_run_is_answered_with_the_whole_line():
    error = JobgenError(
        "job 7 has the same script and is done: runs/a/7; give --again for another job"
    )
    assert explain_error(error, ["rerun", "7"]).endswith("type: jobgen rerun 7 --again")


def test_a_key_below_one_for_directives_is_answered():
    for key in load_table()["keys"]["directives"].split():
        ended = jobgen("check", "--set", f"{key}.output=x")
        assert ended.code == 3, ended.err
        assert "directives" in ended.err
    ended = jobgen("check", "--set", "sbatch_options=x")
    assert ended.err.count("'x' is not a directive") == 1


def test_an_id_of_a_local_job_is_taken_whole():
    job = "20261129-231819-27149"
    JobRecord(job, "a", "local", os.getcwd(), 1.0, ()).save()
    for word in (f"slurm-{job}.out", f"{job}_0"):
        assert jobgen("status", word).err.endswith(f"; give its ID: {job}\n")
    assert f"cp runs/a/{job}/out ." in jobgen("cp", f"{job}:out", ".").err


def test_a_task_that_an_array_lacks_is_not_taken_for_the_whole_array():
    JobRecord("7", "a", "slurm", os.getcwd(), 1.0, (), tasks=4).save()
    assert jobgen("cancel", "7_4").err.endswith("no job '7_4' below ./runs; 7 has tasks 0 to 3\n")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("hold gpt", "does that: scontrol hold 7 on Slurm, qhold 7 on PBS\n"),
        ("hold vit", "does that: scontrol hold JOB on Slurm"),
        ("release 12.pbs", "scontrol release 12.pbs on Slurm"),
    ],
)
def test_a_name_stands_for_the_job_or_for_its_id(line, answer):
    for job in ("7", "12"):
        JobRecord(job, {"7": "gpt"}.get(job, "other"), "slurm", os.getcwd(), 1.0, ()).save()
    assert answer in jobgen(*line.split()).err


@typed
def test_a_line_is_read_as_that_tool_reads_it(line, answer):
    Path("old.log").touch()
    Path("train.py").touch()
    Path("train.ipynb").write_text("{}")
    Path("pod.yaml").write_text("apiVersion: v1\n")
    assert answer in jobgen(*shlex.split(line)).err


@pytest.mark.parametrize("line", ["qsub -I", "cancel --all", "cancel -f", "kill", "kill all"])
def test_no_job_that_has_ended_stands_in_the_place_of_one_that_runs(line):
    JobRecord("7", "a", "slurm", os.getcwd(), 1.0, ()).save()
    assert "JOB" in jobgen(*line.split()).err


@typed
def test_a_word_that_is_not_an_option_is_answered(line, answer):
    ended = jobgen(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert answer in ended.err


@typed
def test_options_of_sbatch_and_qsub_set_values_of_the_spec(options, directive):
    ended = jobgen("render", *options.split())
    assert ended.code == 0, ended.err
    assert directive in ended.out.splitlines()


@typed
def test_words_in_the_wrong_place_are_answered(line, answer):
    assert answer in jobgen(*line.split()).err


def test_the_name_of_a_script_that_is_misspelt_is_answered():
    Path("old.sh").touch()
    for command in ("lint", "import"):
        err = jobgen(command, "odl.sh").err
        assert err.endswith("did you mean old.sh?\n")


def test_a_bad_value_is_refused_as_by_set():
    ended = jobgen("render", "-t", "4 hors")
    assert (ended.code, ended.out) == (3, "")
    assert "resources.walltime: '4 hors' is not a duration" in ended.err


def test_no_word_is_a_command_and_none_has_two_meanings():
    rows = load_table()["commands"]
    rows_alone = [row for row in rows if "matches" not in row]
    words = [word for row in rows_alone for word in row.get("words", "").split()]
    assert len(words) == len(set(words)), {word for word in words if words.count(word) > 1}
    assert not {word for row in rows for word in row.get("words", "").split()} & LISTED.keys()
    for row in rows:
        name = row.get("type", "jobgen --help").split()[1]
        names = list(LISTED) if name == "$command" else [name]
        assert all(one in LISTED or one.startswith("--") for one in names), row


def test_words_behind_two_dashes_go_to_the_program():
    ended = jobgen("render", "job.yaml", "-N", "4", "--", "--lr", "3e-4", "--nodes", "7")
    assert ended.code == 0, ended.err
    assert "train.py --lr 3e-4 --nodes 7" in ended.out
    assert "#SBATCH --nodes=4" in ended.out
    Path("job.sbatch").write_text(ended.out)
    again = jobgen("check", "job.sbatch")
    assert (again.code, again.out) == (0, "")
    explained = jobgen("explain", "--", "--lr", "3e-4").out
    assert (
        "arguments: --lr 3e-4\n      overriding those of the spec\n      from the command line"
        in explained
    )


PROGRAM = """\
import argparse
import torch.distributed as d
p = argparse.ArgumentParser()
p.add_argument("--lr")
p.add_argument("--name")
p.parse_args()
d.init_process_group()
"""


@typed
def test_an_option_of_jobgen_that_the_program_has_not_is_put_before(line, answer):
    Path("train.py").write_text(PROGRAM)
    ended = jobgen(*line.split())
    assert (ended.code, "before --;" in ended.err) == (2 if answer else 0, bool(answer))
    assert answer in ended.err


def test_an_option_that_the_program_has_comes_before_a_word_of_the_table():
    assert "roles:" in jobgen("submit", "--steps", "5").err
    Path("train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--steps', type=int)\n"
        "p.parse_args()\n"
    )
    assert "no such option --steps; type: jobgen submit -- --steps 5\n" in (
        jobgen("submit", "--steps", "5").err
    )


def test_an_empty_spec_may_be_what_a_shell_was_to_write_into():
    Path("job.yaml").write_text("")
    assert "a shell empties the file behind > before" in jobgen("render", "job.yaml").err


def test_a_program_is_started_by_its_spec():
    Path("train.py").write_text(PROGRAM)
    ended = jobgen("submit", "train.py")
    assert (ended.code, ended.out) == (3, "")
    assert "not a job spec; job.yaml starts it: name that\n" in ended.err


def test_a_pair_behind_two_dashes_is_written_as_the_option_that_the_program_has():
    Path("train.py").write_text(PROGRAM)
    assert "no argument for 'lr=1e-4', so the program ends at once; write --lr 1e-4" in (
        jobgen("check", "--", "lr=1e-4").err
    )
    mixed = jobgen("check", "--", "--lr", "1e-4", "model=vit").err
    assert "it has no option --model, so the program ends at once; it knows --lr, --name" in mixed


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("submit job.yaml lr=1e-4", "type: jobgen submit job.yaml -- --lr 1e-4\n"),
        # Taken neither as it is nor as an option.
        ("submit job.yaml a.lr=1e-4", "type: jobgen submit job.yaml -- a.lr=1e-4\n"),
    ],
)
def test_words_are_for_a_program_as_it_takes_them(line, answer):
    Path("train.py").write_text(PROGRAM)
    assert answer in jobgen(*line.split()).err


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("submit --sizes 1 2 -N 3", "type: jobgen submit -N 3 -- --sizes 1 2\n"),
        ("submit --set run.args.learning_rate=3", "; type: jobgen submit --set run.args.lr=3\n"),
        (
            "submit job.yaml -- --learning_rate=3 --alpha 1",
            "so the program ends at once; write --lr; nothing is submitted\n",
        ),
        ("submit -- --alpha x", "invalid int value: 'x', so the program ends at once; correct "),
    ],
)
def test_what_the_program_takes_otherwise_is_not_submitted(line, answer):
    numbers = (
        'p.add_argument("--alpha", type=int)\np.add_argument("--sizes", type=int, nargs="+")\n'
    )
    Path("train.py").write_text(PROGRAM.replace("p.parse", f"{numbers}p.parse"))
    ended = jobgen(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert answer in ended.err
    assert not Path("runs").exists()


def test_what_a_spec_says_and_its_program_lacks_is_a_warning():
    Path("train.py").write_text(PROGRAM)
    Path("job.yaml").write_text(SPEC.replace("train.py", "train.py, args: {rate: 3}"))
    ended = jobgen("submit")
    assert "it has no option --rate, so the program ends at once" in ended.err
    assert ended.code == 6  # handed over, where no scheduler is


def test_a_variable_keeps_the_blanks_of_its_value():
    said = jobgen("qsub", "-v", "RUNGS=1:a 2:b", "job.yaml").err
    assert "type: jobgen submit job.yaml --set 'environment.variables.RUNGS=1:a 2:b'\n" in said


@pytest.mark.parametrize("command", ["submit", "sbatch"])
def test_a_program_that_sbatch_would_wrap_is_started_by_its_spec(command):
    Path("train.py").write_text(PROGRAM)
    for words in (["--wrap=python train.py --lr 3"], ["--wrap", "python train.py --lr 3"]):
        answer = jobgen(command, *words, "-N", "3").err
        assert "; type: jobgen submit job.yaml -N 3 -- --lr 3\n" in answer
    two = jobgen("submit", "--wrap=hostname; ls").err
    assert "write run: {command: [bash, -c, 'hostname; ls']} in the spec" in two


def test_an_option_of_jobgen_that_hydra_has_not_is_put_before():
    text = "import hydra\n@hydra.main(config_path=None)\ndef main(cfg): pass\nmain()\n"
    Path("train.py").write_text(text)
    line = "type: jobgen submit job.yaml --nodes 4 -- lr=1\n"
    assert line in jobgen("submit", "job.yaml", "--", "lr=1", "--nodes", "4").err


def test_the_folder_of_a_name_is_that_name():
    JobRecord("7", "a", "slurm", os.getcwd(), 1.0, ()).save()
    for word in ("runs/a/", "./runs/a", "runs/a/7"):
        assert jobgen("diagnose", word).err == jobgen("diagnose", "7").err
    assert "no job 'runs/b' below ./runs" in jobgen("logs", "runs/b").err


def test_a_program_of_hydra_gets_its_pairs_as_they_are():
    Path("train.py").write_text("import hydra\n")
    assert "type: jobgen submit -- lr=1 a.b=2\n" in jobgen("submit", "lr=1", "a.b=2").err


@typed
def test_an_answer_keeps_what_was_typed_and_is_accepted(line, answer):
    ended = jobgen(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert answer in ended.err


def test_the_words_for_a_program_may_be_one():
    said = jobgen("submit", "--args", "--lr 1e-4").err
    assert "behind --: jobgen submit -- --lr 1e-4\n" in said


def test_check_takes_the_options_of_submit():
    Path("train.py").write_text(
        "import sys, torch.distributed as d\nd.init_process_group()\nsys.argv\n"
    )
    ended = jobgen("check", "-N", "4", "--", "--lr", "3")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "job.yaml: the spec is valid with these options\n"
    assert jobgen("check", "-t", "4 hors").code == 3
    few = jobgen("check", "--set", "launch.processes_per_node=9")
    assert "9 processes share 4 GPUs" in few.err
    for options in (["--all"], ["--out-dir", "x"], ["old.sbatch"]):
        Path("old.sbatch").write_text("#!/bin/bash\n")
        assert jobgen("check", "-N", "4", *options).code == 2


@pytest.mark.parametrize(
    ("args", "eaten"),
    [
        ("args:\n    tag: exp #1", "#1"),
        ("args:\n    tag: 'exp #1'", ""),
        ("args:\n    tag: exp  # the first", ""),
        ("args:\n    tag: exp #", ""),
        ("args: [a]  #old", ""),
    ],
)
def test_a_value_that_a_comment_cuts_is_told_of(args, eaten):
    Path("train.py").write_text("import torch.distributed as d\nd.init_process_group()\n")
    Path("job.yaml").write_text(
        SPEC.replace("{script: train.py}", f"\n  script: train.py\n  {args}")
    )
    ended = jobgen("check")
    assert ended.code == 0
    assert ("which YAML takes for a comment" in ended.err) == bool(eaten)
    if eaten:
        assert "job.yaml:7:10: run.args.tag: ends before '#1'" in ended.err
        assert "write 'exp #1'" in ended.err


TYPED = """\
-n 8 = --nodes=2
-c 12
-C a100
-d afterok:4242
-W
-f job.yaml
-l walltime=01:00:00
-l select=3:ncpus=48:ngpus=2 = --nodes=3, --gpus-per-node=2
-l mem=64gb
-v LR=1
--env LR=1
--env HOME
--export=A=1
-P proj1 = --account=proj1
-M me@example.org = --mail-user=me@example.org
--mail-type=END,FAIL = --mail-type=END
-m abe
--module pkg.train
--gpus 2 = --gpus-per-node=2
--gpus a100:2
--gres=gpu:2 = --gpus-per-node=2
--gres=gpu:v100:2
-a 0-9%2 = --array=0-9%2
--array=0-3 = --array=0-3
--requeue = --requeue
--signal=USR1@120
--exclusive = --exclusive
--mem 0 = --exclusive
--mem 64GB = --mem=64G
--walltime 1:00:00 = --time=01:00:00
--timeout-min 60 = --time=01:00:00
--nnodes 3 = --nodes=3
--nnodes 1:4
--num-nodes=3 = --nodes=3
--job-name b = --job-name=b
--standalone = --nodes=1
--cpus-per-task=12 = --cpus-per-task=48
--nproc-per-node=2
--max-restarts=3
--rdzv_backend=c10d
--lr 3e-4
--qos long = --qos=long
--reservation r = --reservation=r
--begin 18:00 = --begin=18:00
--nodelist n1 = --nodelist=n1
--exclude=n1 = --exclude=n1
--hold = --hold
--nice=100 = --nice=100
--propagate=STACK = --propagate=STACK
--fsdp_offload_params true
--image x.sif
"""


@typed
def test_options_of_another_tool_are_carried_over(line, answer):
    ended = jobgen(*line.split())
    assert ended.code == 2
    assert answer in ended.err


ROWS = [row for row in load_table()["commands"] if "type" in row and "say" not in row]
TOOLS = {word for row in ROWS for word in row.get("words", "").split()}
OPTIONS = {word for row in load_table()["prompt_options"] for word in row.get("words", "").split()}


@given(
    st.sampled_from(sorted(TOOLS)),
    st.sampled_from([*sorted(OPTIONS), "xyzzy", "-Z"]),
    st.sampled_from(["", "x7"]),
)
def test_each_option_of_another_tool_is_in_the_line_or_named_beside_it(tool, option, value):
    option = option if option[0] == "-" else f"--{option.replace('_', '-')}"
    context = click.Context(cli, info_name="jobgen")
    answer = explain_command([*f"{tool} 12 {option} {value}".split()], context, {})
    without = explain_command([tool, "12"], context, {})
    has_line = answer.startswith(f"no such command {tool!r}; type: jobgen ")
    assert not has_line or answer != without or " -" in answer


NUMBERS = [
    (name, option.opts[-1])
    for name in LISTED
    for option in cli.get_command(click.Context(cli), name).params
    if isinstance(option, click.Option) and isinstance(option.type, click.IntRange)
]


@pytest.mark.parametrize("value", ["0,1", "2-3", "last", "-7", "all"])
@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_a_number_that_is_refused_is_refused_in_plain_words(name, option, value):
    ended = jobgen(name, *(["12", "8888"] if name == "forward" else []), option, value)
    assert ended.code == 2
    assert re.search("is (not a whole number|less than|not from)", ended.err)
    assert ("leave --rank out" in ended.err) == (option == "--rank" and value == "all")


@pytest.mark.parametrize(
    "path", ["resources.nodes", "resources.gpus_per_node", "resources.walltime"]
)
def test_a_value_that_is_refused_is_named_by_the_option_that_gave_it(path):
    for name in SHORTCUTS[path][0]:
        for words in ([name, "four"], [f"{name}{'=' * (name[1] == '-')}4x"]):
            assert jobgen("check", *words).err.startswith(f"{name}: {path}: ")


@typed
def test_the_line_to_type_is_the_typed_one_put_right(line, answer):
    Path("train.py").write_text(PROGRAM)
    Path("conf.yaml").write_text("lr: 1\nepochs: 3\n")
    Path("sub").mkdir()
    Path("sub/b.yaml").write_text(SPEC)
    Path("a.ipynb").write_text("{}")
    Path("old.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\npython train.py\n")
    Path("job.sh").write_text("#!/bin/bash\n#BSUB -n 4\npython train.py\n")
    assert answer in jobgen(*line.split()).err


@pytest.mark.parametrize("typed", TYPED.splitlines())
def test_an_answer_at_the_prompt_does_what_was_asked(typed):
    """The line that an answer says is typed by machine, and is accepted."""
    Path("train.py").write_text("import torch.distributed as d\nd.init_process_group()\n")
    # With another key of CPUs the spec would refuse `cpus_per_node`.
    Path("job.yaml").write_text(SPEC.replace("cpus_per_gpu: 8, ", ""))
    words, _, directives = typed.partition(" = ")
    said = jobgen("render", *shlex.split(words)).err.partition("; ")[2]
    line = said.partition("type: ")[2] or (re.search("--set \\S+", said) or [""])[0]
    if found := re.search(r"write (directives: \[.*\]) in the spec", said):
        line = shlex.join(["--set", found[1].replace(": ", "=", 1)])
    assert line, said
    told = shlex.split(line)
    command, told = (told[1], told[2:]) if told[0] == "jobgen" else ("render", told)
    if command == "submit":
        command, told = "submit", ["--dry-run", *told]
    ended = jobgen(command, *told)
    assert ended.code == 0, ended.err
    for directive in filter(None, directives.split(", ")):
        assert f"#SBATCH {directive}" in ended.out
    assert "OPTION" not in line


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("render --set nodes=4", "--set nodes: unknown key; write resources.nodes, as in"),
        (
            "render --set resources.node=4",
            "--set resources.node: unknown key; did you mean 'nodes'?",
        ),
        ("render --set lr=1e-4", "this belongs to the program: pass it in run.args or in"),
        ("render -N 2-4", "-N: resources.nodes: expected a whole number or keys and values, got"),
        ("render -t 120", "-t: resources.walltime: '120' has no unit; write e.g. 120s, 120m or"),
        (
            "render --set resources.cpus_per_node=4",
            "of cpus_per_gpu and cpus_per_node, as by --set resources.cpus_per_gpu=null\n",
        ),
        ("render --set queue=debug -N 2 --site lab", "-N: resources.nodes: 2 nodes: more than"),
        ("render --set \"directives=['#SBATCH -H', '#SBATCH -a 1-4']\"", "N}; leave the directive"),
        (f"render --set name={'a' * 200}", f"write e.g. {'a' * 100}\n"),
    ],
)
def test_a_setting_that_is_refused_is_answered_with_what_to_type(line, answer):
    Path(".jobgen/sites").mkdir(parents=True)
    Path(".jobgen/sites/lab.yaml").write_text(LAB)
    ended = jobgen(*shlex.split(line))
    assert (ended.code, ended.out) == (3, "")
    assert answer in ended.err


def test_a_record_of_several_keys_is_left_as_it_was_typed():
    ended = jobgen("render", "--set", "array={tasks: 6, limit: 2}")
    assert (ended.code, ended.out) == (3, "")
    assert "array.limit: unknown key; did you mean" in ended.err
    assert "type:" not in ended.err


@typed
def test_what_the_folder_or_the_spec_tells_is_filled_in(line, answer):
    Path("mine.sbatch").touch()
    Path("other.yaml").touch()
    Path("sky.yaml").write_text("num_nodes: 2\nrun: python train.py\n")
    ended = jobgen(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert answer in ended.err


def test_what_is_meant_by_a_key_of_a_file_does_not_take_the_place_of_the_file():
    Path("job.yaml").write_text(SPEC.replace("scheduler: slurm", "site: gadi"))
    assert jobgen("check", "job.yaml").err.endswith("unknown site 'gadi'; did you mean nci-gadi?\n")


@pytest.mark.parametrize(
    ("array", "option", "answer"),
    [
        (
            "values: {lr: [1, 2, 3]}",
            "--array=0-2",
            "spec has 3 tasks, from 0, and jobgen submits all",
        ),
        (
            "values: {lr: [1, 2, 3]}",
            "-a 1,2",
            "render --task N` has one alone; type: jobgen submit\n",
        ),
        ("zip: {lr: [1, 2]}", "--array=0-1%1", "type: jobgen submit --set array.at_once=1\n"),
        ("tasks: 3", "--array=0-9", "type: jobgen submit --set array.tasks=10\n"),
    ],
)
def test_the_tasks_of_an_array_keep_the_values_that_the_spec_has(array, option, answer):
    Path("job.yaml").write_text(f"{SPEC}array: {{{array}}}\n")
    assert answer in jobgen("submit", *option.split()).err


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("slurm-48213.out", "for what Slurm knows of it, type: sacct -j 48213; for the end"),
        ("gpt.e1234567", "for what PBS knows of it, type: qstat -fx 1234567; for the end"),
    ],
)
def test_the_output_of_a_job_that_jobgen_did_not_submit_names_who_knows_it(file, line):
    Path(file).touch()
    err = jobgen("diagnose", file).err
    assert line in err
    assert f"tail -n 50 {file}\n" in err


def test_import_tells_what_a_script_without_directives_leaves_open():
    Path("a.sh").write_text("#!/bin/bash\npython train.py\n")
    Path("b.sh").write_text("#!/bin/bash\n#SBATCH -N 2\npython train.py\n")
    assert "a.sh has no #SBATCH or #PBS line: write scheduler and" in jobgen("import", "a.sh").err
    assert "#SBATCH" not in jobgen("import", "b.sh").err


def test_a_new_spec_has_a_name_that_is_free():
    Path("new.yaml").touch()
    Path("old.yaml").touch()
    Path("old.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\npython train.py\n")
    for line in ("init", "submit https://example.org/a.yaml"):
        assert "new2.yaml" in jobgen(*line.split()).err
    for line in ("sbatch old.sbatch", "submit old.sbatch", "convert old.sbatch --to pbs"):
        assert "import old.sbatch -o old2.yaml, and then jobgen " in jobgen(*line.split()).err


@typed
def test_what_lies_in_the_folder_is_named(files, line, answer):
    sky = "num_nodes: 2\nrun: |\n  torchrun train.py\n"
    Path("job.yaml").unlink()
    Path("runs").mkdir()  # of jobs, whose specs are records
    for file in files.split():
        text = "import torch\n" if file.endswith(".py") else SPEC
        Path(file).write_text({"conf.yaml": "lr: 1\n", "sky.yaml": sky}.get(file, text))
    assert answer in jobgen(*line.split()).err


@typed
def test_a_file_without_keys_of_a_spec_is_said_to_be_what_it_is(name, text, answer):
    Path(name).write_text(text)
    ended = jobgen("check", name)
    assert (ended.code, ended.out) == (3, "")
    assert answer in ended.err
