"""Words that people type are answered with the line to type, or do what they do elsewhere."""

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


@pytest.fixture(autouse=True)
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("a.yaml submit --wait", "type: jobgen submit a.yaml --wait"),
        ("12 logs", "type: jobgen logs 12"),
        ("renderjob.yaml", "type: jobgen render job.yaml\n"),
        ("submit.job.yaml -N 4", "type: jobgen submit job.yaml -N 4\n"),
        ("logs12", "type: jobgen logs 12\n"),
        ("logs-f 12", "type: jobgen logs 12 -f\n"),
        ("submit--dry-run job.yaml", "type: jobgen submit job.yaml --dry-run\n"),
        ("python -m jobgen submit job.yaml", "type: jobgen submit job.yaml\n"),
        (
            "rm 12",
            "type: jobgen clean 12, which removes the run folder of a job that has ended; to end",
        ),
        ("log runs/gpt/20261129-065442-171", "type: jobgen logs 20261129-065442-171"),
        ("exec gpt-0001 nvidia-smi", "type: jobgen shell gpt-0001 -- nvidia-smi"),
        ("sacct -j 12 --format=MaxRSS", "type: jobgen report 12 --text"),
        ("create new.yaml", "type: jobgen init new.yaml"),
        ("queues nci-gadi", "type: jobgen sites show nci-gadi"),
        ("sweep a.yaml --lr 1,2", "type: jobgen submit a.yaml --set 'array.values.lr=[1, 2]'"),
        ("validate a.yaml", "type: jobgen check a.yaml"),
        ("tail 12", "type: jobgen logs -f 12"),
        ("statu 12", "type: jobgen status 12"),
        ("retry 12", "type: jobgen rerun 12"),
        ("why 12", "type: jobgen diagnose 12"),
        ("show 12", "type: jobgen status 12"),
        ("why did my job fail", "type: jobgen diagnose\n"),
        ("build", "type: jobgen render job.yaml"),
        ("convert", "type: jobgen import SCRIPT"),
        (
            "sinfo",
            "sinfo does that by itself, for what is free now; for what jobgen knows of a ",
        ),
        ("version", "type: jobgen --version"),
        ("help", "type: jobgen --help"),
        ("job.yaml", "type: jobgen submit job.yaml"),
        ("train.py", "type: jobgen submit job.yaml"),
        ("other.py", "type: jobgen init --script other.py other.yaml"),
        ("python -m pkg.other", "type: jobgen init --module pkg.other"),
        (
            "grid job.yaml",
            "a sweep is array: {values: {NAME: [...]}} in the spec; type: jobgen sub",
        ),
        ("old.pbs", "type: jobgen import old.pbs, or jobgen lint old.pbs"),
        (
            "bsub -W 4:00",
            "jobgen reads no script of LSF, and none from stdin; type: jobgen submit job.yaml -t 4",
        ),
        (
            "sweep wandb_sweep.yaml",
            "unless wandb_sweep.yaml is a spec of jobgen, write its values as array: {values: {",
        ),
        ("resume 12", "a chain that has ended goes on by jobgen rerun 12 --continue; "),
        ("redo 12 --checkpoint a.pt", "type: jobgen rerun 12; for --checkpoint: leave it out: "),
        ("qstat -f 12.pbs", "type: jobgen status 12.pbs"),
        ("fmt job.yaml", "type: jobgen check job.yaml"),
        ("make clean", "type: jobgen clean"),
        ("build job.yaml --output a.sbatch", "type: jobgen render job.yaml --output a.sbatch"),
        ("ssh 12 --node 1", "type: jobgen shell 12 --node 1"),
        ("failed", "type: jobgen list --state failed"),
        ("help submit", "type: jobgen submit --help"),
        ("config set account lab", "for all your jobs, write account: lab in ~/.config/jobgen/"),
        ("config set queue gpu", "for all jobs of a project, write queue: gpu in its .jobgen.yaml"),
        (
            "config run.script a.py",
            "for all jobs of a project, write run: {script: a.py} in its .jobgen.yaml; one job tak",
        ),
        ("env create -f e.yml", "the environment is in job.yaml"),
        ("cache", "the commands\n  write a job: init, render"),
        ("checkpoint.yaml", "type: jobgen submit checkpoint.yaml\n"),  # is no check of point.yaml
        # No letters of another word in another order: what ends a job is not what removes it.
        ("canel --all", "did you mean: jobgen cancel JOB..., with the ids"),
        ("lgos --all", "did you mean: jobgen logs, which prints all nodes' lines\n"),
        ("squeue -t CA", "type: jobgen list --state cancelled\n"),
        ("diff job.yaml s/job.sbatch", "type: jobgen check job.yaml s/job.sbatch, which compares"),
        ("tial -n 50 12", "did you mean tail? type: jobgen logs 12 | tail -n 50\n"),
        ("squeue -t PD,R", "--state takes one; for the first, type: jobgen list --state queued\n"),
        (
            "scancel -u me -t PD",
            "type: jobgen cancel JOB..., with the ids that `jobgen list --state queued` prints\n",
        ),
        ("scontrol show jobs", "type: jobgen list\n"),
        (
            "delete -f job.yaml",
            "type: jobgen cancel JOB..., with the ids that `jobgen list` prints",
        ),
        ("install torch", "jobgen installs nothing: type pip install torch, in the environment"),
        ("make install", "make install does that by itself"),
        ("make run", "type: jobgen submit job.yaml\n"),
        ("python -m pip install torch", "that is not jobgen's: python -m pip install torch; "),
        ("docker start 12", "type: jobgen rerun 12\n"),
        ("kubectl run gpt --image=a:1", "type: jobgen submit job.yaml --set "),
        ("kubectl rollout status job/gpt", "type: jobgen status gpt\n"),
        ("kubectl -n ml logs gpt", "type: jobgen logs gpt; for -n: leave it out"),
        (
            "qsub -m abe job.yaml",
            "type: jobgen submit job.yaml --set 'notify.on=[begin, end, fail]'",
        ),
        ("system prune -f", "type: jobgen clean --yes\n"),
        ("runs gc", "type: jobgen clean\n"),
    ],
)
def test_a_word_that_is_not_a_command_is_answered(line, answer):
    ended = jobgen(*line.split())
    assert ended.code == 2
    assert f"no such command {line.split()[0]!r}; {answer}" in ended.err


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("status --watch -n 5 a", "as is of use; type: jobgen status a --watch\n"),
        ("wait --interval 30 a", "as is of use; type: jobgen wait a\n"),
        ("sacct -j 4711 -o JobID,MaxRSS", "type: jobgen report 4711 --text\n"),
        ("sacct -j 4711 -o State", "type: jobgen status 4711; for -o: leave it out: columns are"),
        (
            "list --format=State",
            "jobgen list --json has all that jobgen knows; type: jobgen list\n",
        ),
        ("submit -c 8", "type: jobgen submit --set resources.cpus_per_gpu="),
        ("cancel all", "type: jobgen cancel JOB..., with the ids that `jobgen list` prints"),
        (
            "scancel -u me",
            "; scancel -u me does that by itself, for all jobs of a user; for some, ty",
        ),
        ("cancel -u me", "or, for all of a user's, scancel -u me on Slurm\n"),
        (
            "check https://a.org/job.yaml",
            "type: curl -fL https://a.org/job.yaml -o new.yaml, and then jobgen check new.yaml\n",
        ),
    ],
)
def test_what_is_not_a_job_or_a_file_is_not_taken_for_one(line, answer):
    assert answer in jobgen(*line.split()).err


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("logs --tail 7", "type: jobgen logs -f 7\n"),
        ("requeue a-1", "qrerun 7 on PBS; for another job, type: jobgen rerun a-1\n"),
        ("requeue 7", "queue, and the scheduler puts back one that runs: scontrol requeue 7 on Sl"),
        ("logs --tail 8", "type: jobgen logs | tail -n 8\n"),
        ("ssh node7", "type: jobgen shell --node node7\n"),
        ("ssh a-1", "type: jobgen shell a-1\n"),
        ("docker logs -t a-1", "type: jobgen logs a-1; for -t: "),
        ("a-1", "type: jobgen status a-1\n"),
        (
            "status 12",
            "such as 7, a-1; `jobgen list --all` has those of other folders; sacct -j 12 ",
        ),
        (
            "logs a-1-12.out",
            "such as 7, a-1; `jobgen list --all` has those of other folders; sacct -j 12",
        ),
        ("logs a-1-7.out", "that names its output; give its ID: 7\n"),
        ("status 7_0", "7 is not an array; give its ID: 7\n"),
        ("status 7[0].pbs01", "7 is not an array; give its ID: 7\n"),
        ("logs latest", "the latest is a-1; give its ID: 7\n"),
        (
            "cp a-1:out/a.pt .",
            "in its run folder, your shell does that: cp runs/a-1/7/out/a.pt .\n",
        ),
        ("cancel", "name the job to cancel; the latest is a-1 7; type: jobgen cancel 7\n"),
    ],
)
def test_a_job_of_this_folder_is_known(line, answer):
    JobRecord("7", "a-1", "slurm", os.getcwd(), 1.0, ()).save()
    assert answer in jobgen(*line.split()).err


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("compare gpt vit", "type: jobgen report gpt vit\n"),
        ("diff vit and gpt", "type: jobgen report vit gpt\n"),
        ("kill gpt vit", "type: jobgen cancel gpt vit\n"),
        ("rerun gpt --task 1", "type: jobgen rerun gpt_1\n"),
        ("rerun --task=1 gpt --failed", "type: jobgen rerun gpt_1 --failed\n"),
        ("status 7 --array-index 2", "type: jobgen status 7_2\n"),
        ("rerun gpt --task 1,2", "is named by its number; write JOB_N, such as JOB_0\n"),
        ("report gpt --rank 3", "a whole job; for one process, type: jobgen logs gpt --rank 3\n"),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "launch -c 'python train.py --lr 3' --gpus A100:8 --num-nodes 2",
            "job.yaml --gpus-per-node 8 --set resources.gpu_type=a100 --nodes 2 -- --lr 3\n",
        ),
        ("submit --wait --timeout 2h -N 4", "type: timeout 2h jobgen submit --wait -N 4\n"),
        ("ssh gpt node07", "type: jobgen shell gpt --node node07\n"),
        (
            "ssh -p 22 me@b.org",
            "by itself; to submit there, type: jobgen submit job.yaml --host b.or",
        ),
        ("tail -f old.log", "your shell does that: tail -f old.log\n"),
        (
            "submit -l walltime=1:00:00,ncpus=48,ngpus=4",
            "-per-node 4 --set resources.cpus_per_node=48\n",
        ),
        ("lint a.sh --fix -o b.sh", "to keep it, type: cp a.sh b.sh && jobgen lint --fix b.sh\n"),
        (
            "run --gpus all --shm-size 16g -v /data:/data a/b:1 python train.py",
            "image=docker://a/b:1 --set 'environ",
        ),
        ("run -n ml --no-capture-output python train.py", "--set environment.conda=ml --set env"),
        ("attach -t gpt", "type: jobgen logs -f gpt\n"),
        ("make -j 4 -C sub train", "type: cd sub && jobgen submit; for -j 4: jobgen has nothing"),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("submit --gpus 4", "type: jobgen submit -N 1 --gpus-per-node 4\n"),
        ("submit -m --set run.args.lr=1,2", "submit --set 'array.values.lr=[1, 2]'\n"),
        ("submit -m run.args.lr=1,2", "submit --set 'array.values.lr=[1, 2]'\n"),
        ("seff 12", "type: jobgen report 12 --text\n"),
        ("submit --output x", "`jobgen logs` and diagnose then lack what the script itself says, "),
        (
            "submit --output",
            "leave it out: `jobgen logs` shows what the processes print, under runs/",
        ),
        (
            "submit -e %j.err -o %j.out",
            '--set \'directives=["#SBATCH --error=%j.err", "#SBATCH --output=%j.out"]\'\n',
        ),
        ("kubectl apply -f job.yaml -o json", "for -o: leave it out: jobgen submit prints the id"),
        ("push --host me@b.org", "type: jobgen submit job.yaml --host me@b.org\n"),
        ("sky exec gpt nvidia-smi", "type: jobgen shell gpt -- nvidia-smi\n"),
        ("submit --name=a b job.yaml", "b is not a file; a value with a blank stands in quotes: "),
        ("submit --test-only", "type: jobgen render -o job.sbatch, and then sbatch --test-only"),
        ("logs --tail", "type: jobgen logs -f"),
        ("render --local", "type: jobgen render --scheduler local"),
        ("render --format pbs", "type: jobgen render --scheduler pbs"),
        ("submit --use-conda torch", "type: jobgen submit --set environment.conda=torch"),
        ("submit --conda-env torch", "type: jobgen submit --set environment.conda=torch"),
        ("submit --parameter-sweep lr", "type: jobgen submit --set 'array.values.lr=[1e-3, 3e-4]'"),
        ("check -a", "type: jobgen check --all"),
        ("render job.yaml -s pbs", "type: jobgen render job.yaml --scheduler pbs"),
        ("submit -o resources.nodes=4", "type: jobgen submit --set resources.nodes=4"),
        ("submit -w", "type: jobgen submit --wait"),
        ("lint --fix-all old.sbatch", "type: jobgen lint --fix old.sbatch"),
        ("schema --json", "type: jobgen schema job, or jobgen schema site; it prints JSON"),
        ("logs 12 -n node2", "type: jobgen logs 12 --node node2"),
        ("clean --all", "type: jobgen clean --older 1s"),
        ("list -S 2026-11-01", "no option chooses by date: the newest come first, and --limit N"),
        (
            "import a.sbatch --dry-run -o b.yaml",
            "type: jobgen import a.sbatch; it prints the spec, and writes only with -o\n",
        ),
        ("list --quiet", "redirect it with 2>/dev/null"),
        ("wait --xyzzy", "jobgen wait knows --host, --json, --then"),
        ("run train.py --lr 3", "type: jobgen submit job.yaml -- --lr 3\n"),
    ],
)
def test_a_word_that_is_not_an_option_is_answered(line, answer):
    ended = jobgen(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert answer in ended.err


@pytest.mark.parametrize(
    ("options", "directive"),
    [
        ("-N 4", "#SBATCH --nodes=4"),
        ("--nodes=4", "#SBATCH --nodes=4"),
        ("-t 30m", "#SBATCH --time=00:30:00"),
        ("--time 1-12:00:00", "#SBATCH --time=36:00:00"),
        ("-A lab", "#SBATCH --account=lab"),
        ("-p long", "#SBATCH --partition=long"),
        ("-q long", "#SBATCH --partition=long"),
        ("--queue long", "#SBATCH --partition=long"),
        ("-J b", "#SBATCH --job-name=b"),
        ("--gpus-per-node 2", "#SBATCH --gpus-per-node=2"),
    ],
)
def test_options_of_sbatch_and_qsub_set_values_of_the_spec(options, directive):
    ended = jobgen("render", *options.split())
    assert ended.code == 0, ended.err
    assert directive in ended.out.splitlines()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("-m lr=0.1,0.01", "type: jobgen submit --set 'array.values.lr=[0.1, 0.01]'\n"),
        ("submit job.yaml ++resources.nodes=3", "job.yaml --set resources.nodes=3\n"),
        ("submit job.yaml resources.nodes=4 run.args.lr=3", "=4 --set run.args.lr=3"),
        ("render job.yaml > a.sbatch", "type: jobgen render job.yaml -o a.sbatch"),
        ("init --time 4h --partition gpu -", "type: jobgen init - --walltime 4h --queue gpu"),
        ("sites add lab", "type: jobgen sites capture --name lab"),
        ("check *.yaml", "jobgen expands no patterns; `jobgen check --all`"),
        ("submit job.yaml --set resources.nodes 4", "type: jobgen submit job.yaml --set resou"),
        ("submit job.yaml --set run.args.lr = 1e-3", "job.yaml --set run.args.lr=1e-3"),
        ("submit me@host:project job.yaml", "type: jobgen submit job.yaml --host me@host:project"),
        ("check resources.nodes=4", "type: jobgen check --set resources.nodes=4"),
        ("import old.sbatch a.yaml", "type: jobgen import old.sbatch -o a.yaml\n"),
        ("import old.sbatch --site gadi", "does not, write site: nci-gadi in the spec; type: jo"),
        ("import --slurm old.sbatch", "directives say it; type: jobgen import old.sbatch\n"),
        (
            "submit -m hydra/launcher=submitit_slurm lr=1,2 seed=3",
            "'array.values.lr=[1, 2]' -- seed=3; for hydra/launcher: leave it out: jobgen does ",
        ),
        ("submit -m pkg.train lr=1", "--set run.script=null --set run.module=pkg.train -- lr=1\n"),
        ("port-forward 12 6006:8888", "type: jobgen forward 12 8888 --local-port 6006"),
        ("clean --older 30", "has no unit; write 30d for days"),
        ("forward 12 6006:8888", "type: jobgen forward 12 8888 --local-port 6006"),
        ("render --account job.yaml", "type: jobgen render --account NAME job.yaml"),
        ("qsig -s 12 991", "scancel --batch --signal=12 991 on Slurm, qsig -s 12 991 on PBS"),
        ("cancel -s 10 12", "type: scancel --batch --signal=10 12 on Slurm, qsig -s 10 12"),
        ("kill 12 -s USR1", "; type: scancel --batch --signal=USR1 12 on Slurm, qsig"),
        ("cancel -s USR1 12", "type: scancel --batch --signal=USR1 12 on Slurm, qsig -s USR1 12"),
        ("logs 3 12", "takes one job at a time; type: jobgen logs 12"),
        ("submit --env HF_TOKEN=x", "type: --set 'environment.from_shell=[HF_TOKEN]'"),
        ("submit -W 2:00", "type: jobgen submit -t 2:00:00"),
        (
            "submit --restart-times 3",
            "type: jobgen submit --set on_failure.then=restart --set on_failure.",
        ),
        ("submit jobs.yaml", "did you mean job.yaml?"),
        ("render job.yaml job.pbs", "type: jobgen render job.yaml -o job.pbs"),
        ("sites nci-gadi", "type: jobgen sites show nci-gadi"),
        ("submit --set resources.nodes=4,resources.walltime=4h", "give --set again for the next"),
        (
            "submit job.yaml --set run.args.lr=1e-4,run.args.epochs=20",
            "next; type: jobgen submit job.yaml --set run.args.lr=1e-4 --set run.args.epochs=20\n",
        ),
        ("render job.yaml --out a.sbatch", "type: jobgen render job.yaml --output a.sbatch"),
        ("status --follow 12345", "type: jobgen status --watch 12345"),
        ("render --output-dir o job.yaml", "type: jobgen render job.yaml --out-dir o"),
        ("run -d job.yaml", "no such option -d; type: jobgen submit job.yaml\n"),
        ("--nproc_per_node=4 train.py", "; type: jobgen submit job.yaml"),
        ("--nproc_per_node=4 other.py", "; type: jobgen init --script other.py other.yaml"),
        ("-V", "; type: jobgen --version"),
        ("cancel 48213,48214", "give each ID as a word: 48213 48214"),
        ("logs 12 -c rank3", "type: jobgen logs 12 --rank 3"),
        ("pjsub -L node=2 job.yaml", "for -L: write the nodes of it as -N N, their GPUs as --gpus"),
        ("submit --notify me@x.org", "type: jobgen submit --set notify.email=me@x.org\n"),
        ("submit --resume runs/gpt/12", "type: jobgen rerun 12, for a job that has ended\n"),
        (
            "restart 12 --from last.pt",
            "type: jobgen rerun 12; for --from: leave it out: the program",
        ),
        (
            "import --to pbs a.sbatch",
            "leave it out: `jobgen render --scheduler pbs` has the spec's",
        ),
        (
            "convert a.sbatch a.pbs",
            "and then jobgen render a.yaml --scheduler pbs -o a.pbs\n",
        ),
        ("new myjob", "type: jobgen init myjob.yaml\n"),
        ("submit --config-name b", "type: jobgen submit job.yaml -- --config-name=b\n"),
        ("submit --no-input -y", "--again does not; type: jobgen submit\n"),
        ("run job.yaml --detach", "no such option --detach; type: jobgen submit job.yaml\n"),
        (
            "render --scheduler torque",
            "Torque, whose directives differ, is not supported; OpenPBS and",
        ),
        ("submit job", "did you mean job.yaml?\n"),
        ("rerun 12 with more memory", "rerun 12 --set resources.memory_per_node=VALUE\n"),
        ("submit --cpu 32", "resources.cpus_per_node=32"),
        ("lint --fix --dry-run old.pbs", "type: jobgen lint old.pbs --fix\n"),
        ("clean 12 --keep-checkpoints", "type: jobgen clean 12 --keep checkpoints\n"),
        ("init --template ddp", "whose comments tell the rest; type: jobgen init"),
        ("init exp.yaml train.py", "type: jobgen init --script train.py exp.yaml\n"),
        ("-v", "type: jobgen --version\n"),
        ("render --check", "type: jobgen check\n"),
        ("check --all --strict --format junit", "; type: jobgen check --all; --format takes"),
        ("logs 12 -c 100", "type: jobgen logs 12 | head -n 100"),
        ("list -o wide", "leave it out: jobgen list prints a table"),
        ("repro train", "type: jobgen submit job.yaml"),
        ("stop everything", "type: jobgen cancel JOB..., with the ids"),
        ("render job.yaml -t 2 h", "type: jobgen render job.yaml -t 2h\n"),
        ("render job.yaml on 4 nodes", "type: jobgen render job.yaml --nodes 4\n"),
        ("render job.yaml python b.py --lr 3", "job.yaml --set run.script=b.py -- --lr 3\n"),
        ("forward 12 6006 --local 7007", "type: jobgen forward 12 6006 --local-port 7007\n"),
        ("report 12 -o", "type: jobgen report 12 -o FILE\n"),
        (
            "render job.yaml a=1 --multirun",
            "; type: jobgen render job.yaml -- a=1",
        ),
        (
            "render job.yaml lr=1,2 --multirun",
            "; type: jobgen render job.yaml --set 'array.values.lr=[1, 2]'\n",
        ),
        ("cancel job.yaml", "`jobgen submit job.yaml` starts one"),
        ("explain 12", "`jobgen status 12` shows a job"),
        ("cancel 11..15", "; of several, bash writes the ids; type: jobgen cancel {11..15}\n"),
        ("submit -time 4h", "has two dashes; type: jobgen submit --time 4h\n"),
        ("submit -N=4", "; type: jobgen submit -N 4\n"),
        ("submit job.yaml nodes 4", "type: jobgen submit job.yaml --nodes 4\n"),
        ("submit --set nodes:4", "; type: jobgen submit --set resources.nodes=4\n"),
        ("submit --set", "type: jobgen submit job.yaml --set PATH=VALUE\n"),
        ("submit --after 11,12", "; type: jobgen submit --after 11 --after 12\n"),
        ("submit job.yaml--dry-run", "; type: jobgen submit job.yaml --dry-run\n"),
        ("submit --dry-run=true job.yaml", "type: jobgen submit --dry-run job.yaml\n"),
        ("submit --json=false job.yaml", "leave it out; type: jobgen submit job.yaml\n"),
        ("submit help", "; type: jobgen submit --help\n"),
        ("submit -?", "type: jobgen submit --help\n"),
        ("render job.yaml -o job.yaml", "type: jobgen render job.yaml -o job.sbatch\n"),
        ("lint a.sh -o a.yaml", "lint writes no file; type: jobgen import a.sh -o a.yaml\n"),
        ("import a.sh --out a.yaml", "type: jobgen import a.sh -o a.yaml\n"),
        ("import a.sh --force -o job.yaml", "type: jobgen import a.sh -o new.yaml, as import over"),
        ("import --overwrite a.sh", "type: jobgen import a.sh -o new.yaml, as import over"),
        ("top --gpu 12", "leave it out: jobgen top shows them all; type: jobgen top 12\n"),
        ("logs follow 12", "type: jobgen logs 12 --follow\n"),
        ("logs 12:3", "type: jobgen logs 12 --rank 3\n"),
        ("clean 7d", "type: jobgen clean --older 7d\n"),
        ("clean --state failed", "type: jobgen clean --failed\n"),
        ("rerun failed", "type: jobgen rerun --failed\n"),
        ("cancel job 12", "type: jobgen cancel 12\n"),
        ("submit -N gpt job.yaml", "name of the job; type: jobgen submit --name gpt job.yaml\n"),
        (
            "report 11 12 --compare",
            "it compares the jobs that you name; type: jobgen report 11 12\n",
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("submit job.yaml -- --wait", "type: jobgen submit job.yaml --wait"),
        ("submit -- --lr 3 --set a=1", "type: jobgen submit --set a=1 -- --lr 3"),
        ("submit -N 2 -- --nodes=4 --lr 3", "type: jobgen submit -N 2 --nodes 4 -- --lr 3"),
        ("submit -- job.yaml", "type: jobgen submit job.yaml\n"),
        ("submit -- --lr 3 job.yaml", "type: jobgen submit job.yaml -- --lr 3"),
        ("submit -- job.yaml --lr 3", "type: jobgen submit job.yaml -- --lr 3"),
        ("check -- --name b --wait", ""),
        ("check -- --config job.yaml", ""),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("submit job.yaml ~run.args +resources.nodes=3", " --set run.args=null --set resources."),
        ("submit --requeue --scheduler pbs", "--set on_walltime.then=requeue"),
        ("submit -l select=2:ngpus=3:mem=9gb", "_per_node=9GB --nodes 2 --gpus-per-node 3\n"),
        ("submit -v A=1,B=2", "--set environment.variables.A=1 --set environment.variables.B=2\n"),
        ("srun --ntasks-per-node=2 python train.py", "-N 1 --set launch.processes_per_node=2\n"),
        ("torchrun --standalone train.py", "; type: jobgen submit job.yaml -N 1\n"),
        ("report --compare 12 13", "type: jobgen report 12 13\n"),
        ("list --name gpt", "type: jobgen status gpt\n"),
        ("diagnose --last", "leave it out: without a job, it is the latest"),
        ("clean --keep-last 5", "--older TIME sets another age"),
        ("init a b", "init writes one spec at a time"),
        ("init --slurm", "type: jobgen init new.yaml --scheduler slurm\n"),
        ("init -o b.yaml", "type: jobgen init b.yaml\n"),
        ("logs --tail 50 -f 12", "and then what comes; type: jobgen logs 12 -f\n"),
        ("list --user bob --state failed", "type: jobgen list --state failed, which lists your"),
        ("report 12 --open -o x.html", "type: jobgen report 12 -o x.html, which prints the"),
        ("clean --all -f", "type: jobgen clean --older 1s --yes\n"),
        ("submit job.yaml --force -N 4", "; type: jobgen submit job.yaml -N 4\n"),
        ("explain job.yaml --verbose -N 4", "type: jobgen explain job.yaml -N 4, which has"),
        ("render job.yaml --out-file a.sbatch", "render job.yaml --output a.sbatch\n"),
        ("submit job.yaml b.py --lr 3", "job.yaml --set run.script=b.py -- --lr 3\n"),
        ("submit job.yaml -t 2 hours", "type: jobgen submit job.yaml -t 2h\n"),
        ("submit --args.lr 3", "type: jobgen submit --set run.args.lr=3\n"),
        ("shell -n 0 12", "type: jobgen shell 12 --node 0\n"),
        ("get jobs -o json", "type: jobgen list --json\n"),
        ("cancel -u bob", "type: jobgen cancel JOB..., with the ids that"),
        ("explain a.yaml b.yaml", "type: jobgen explain a.yaml, and then jobgen explain b.yaml\n"),
        ("completion tcsh", "'fish'; it knows no other shell\n"),
        ("qstat -xf 12.pbs", "type: jobgen status 12.pbs --json\n"),
        ("submit job.yaml --chdir .", "; leave it out: the job runs in the folder you submit"),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("env A=1 python train.py --lr 1", "--set environment.variables.A=1 -- --lr 1\n"),
        ("scancel 123_[1-5]", "; type: jobgen cancel 123_{1..5}\n"),
        ("nohup jobgen submit job.yaml", "type: jobgen submit job.yaml\n"),
        ("sbatch --exclude=n7 job.yaml", "--set 'directives=[\"#SBATCH --exclude=n7\"]'\n"),
        ("sbatch --parsable job.yaml", "job.yaml; for --parsable: jobgen submit prints the id"),
        ("docker run --gpus all img python train.py", "type: jobgen submit job.yaml"),
        ("srun --jobid 12 --pty bash", "type: jobgen shell 12"),
        ("qalter -l walltime=8:00:00 12", "jobgen rerun 12 --set resources.walltime=08:00:00\n"),
        ("scontrol update jobid=12 partition=a", "type: jobgen rerun 12 --set queue=a\n"),
        ("logs 4242 node 1", "type: jobgen logs 4242 --node 1\n"),
        ("top -n 1 4242", "until Ctrl-C; type: jobgen top 4242\n"),
        ("make clean all", "type: jobgen clean\n"),
        ("scancel --name gpt", "type: jobgen cancel gpt\n"),
        (
            "qsub -W depend=afterok:1 -l walltime=1:00:00 a.yaml",
            "afterok:1 --set resources.walltime",
        ),
        ("squeue --state=R -u me", "running; for -u: jobgen list, which lists your own jobs alone"),
        (
            "kubectl delete job gpt --grace-period=0",
            "; type: jobgen cancel gpt; for --grace-period: leave it out",
        ),
        (
            "scancel -p gpu",
            "; scancel -p gpu does that by itself, for all such jobs; for some, type",
        ),
        (
            "mlflow run . -P lr=1",
            "; for an option of the program, type: jobgen submit job.yaml -- --lr 1\n",
        ),
        ("watch -n 5 nvidia-smi", "; type: jobgen top\n"),
        ("squeue -j 123 -i 5", "; type: jobgen status --watch 123\n"),
        (
            "srun -N 2 hostname",
            "; srun -N 2 hostname does that by itself; in a job that runs, type",
        ),
        ("qsub -W group_list=a job.yaml", "; type: jobgen submit job.yaml --account a\n"),
        ("qsub -W umask=022 job.yaml", "write directives: ['#PBS -W umask=022'] in the spec\n"),
        ("qsub -W block=true job.yaml", "; type: jobgen submit job.yaml --wait\n"),
        ("scontrol update nodename=n1 state=idle", "n1 state=idle does that by itself; for what"),
        (
            "scontrol update jobid=12 numnodes=4 partition=long",
            "for another job, type: jobgen rerun 12 --set resources.nodes=4 --set queue=long\n",
        ),
        ("rm -rf runs/gpt/12", "; type: jobgen clean 12 --yes\n"),
        (
            "rm -rf runs/gpt/12/a",
            "your shell does that: rm -rf runs/gpt/12/a; jobgen clean removes",
        ),
        ("tmux kill-session -t a", "; type: jobgen cancel a\n"),
        ("docker run -it ubuntu bash", "environment.container.image=docker://ubuntu\n"),
        ("sbatch -Q job.yaml", "for -Q: messages go to stderr"),
        ("qstat -t 12[]", "; type: jobgen status '12[]'; for -t: "),
        ("head -20 slurm-12.out", "; type: jobgen logs 12 | head -n 20\n"),
        ("qstat -n1 12", "; type: jobgen status 12; for -n: jobgen status shows"),
        ("squeue --start -j 12", "says when a queued job is expected to start\n"),
        ("ssh n1", "for a node of the latest job, type: jobgen shell --node n1\n"),
        (
            "accelerate launch --config_file b.yaml train.py",
            "; type: jobgen submit job.yaml; for --config_file: nodes and GPUs stand in the spec",
        ),
        ("srun -n 6 train.py", "of which the product is 6\n"),
        ("sstat -j 123.batch", "; type: jobgen top 123\n"),
        (
            "torchx run dist.ddp -j 2x3",
            "; type: jobgen submit job.yaml -N 2 --gpus-per-node 3; for",
        ),
        (
            "tmux attach",
            "a job goes on without a terminal; to see what it prints, type: jobgen logs -f",
        ),
        ("sbatch --uenv=a/b:v1 job.yaml", "#SBATCH --uenv=a/b:v1"),
        ("qsub -- /bin/sleep 9", "write run: {command: [/bin/sleep, 9]} in job.yaml; then type"),
        (
            "qsub -h job.yaml",
            "--set 'directives=[\"#SBATCH --hold\"]'; for -h: scontrol release, with the id",
        ),
        ("qsub -p -100 job.yaml", "write directives: ['#PBS -p -100'] in the spec\n"),
        ("deepspeed --include h:0,1 train.py", "; for --include: leave it out: the scheduler"),
        ("kubectl get pods -w", "; type: jobgen status --watch\n"),
        (
            "mpirun -x RANK=1 python train.py",
            "; for -x: leave it out: the script or the scheduler sets",
        ),
        (
            "qsub -v file=a job.yaml",
            "--set environment.variables.FILE=a; for -v: names in lower case",
        ),
        ("srun --jobid=123 --overlap nvidia-smi", "; type: jobgen shell 123 -- nvidia-smi\n"),
        ("qstat -Qf", "; jobgen lists your own jobs: jobgen list; qstat -Qf lists the others"),
        ("journalctl -u gpt -f", "; type: jobgen logs -f gpt\n"),
        ("watch -n 10 squeue --me", "; type: jobgen status --watch\n"),
        ("sbatch --nice job.yaml", "--set 'directives=[\"#SBATCH --nice\"]'\n"),
        ("A=1 python -m b.c", "jobgen submit b.yaml --set environment.variables.A=1\n"),
        (
            "gzip -d a",
            "; for a job that runs it, write run: {command: [gzip, -d, a]} in job.yaml\n",
        ),
        ("pbsdsh -- hostname", "; pbsdsh -- hostname does that by itself; in a job that runs"),
        ("az ml job create --file job.yaml", "; type: jobgen submit job.yaml\n"),
        (
            "az ml job show -n a",
            "; type: jobgen list, and for one job jobgen status JOB or jobgen logs",
        ),
        ("sbatch --version", "; type: jobgen --version\n"),
        ("sbatch --exclusive=user job.yaml", "#SBATCH --exclusive=user"),
        ("srun --jobid 123 -w n1 --pty top", "; type: jobgen shell 123 --node n1 -- top\n"),
        ("sbatch --gpus=rtx3090 job.yaml", "--gpus-per-node 1 --set resources.gpu_type=rtx3090\n"),
        ("scontrol show hostnames n[01-04]", "'n[01-04]' does that by itself; for what"),
        ("scontrol uhold 123", "; the scheduler does that: scontrol uhold 123\n"),
        ("scontrol update 12 TimeLimit=9:00:00", "scontrol update JobId=12 TimeLimit=9:00:00; for"),
        ("qalter -l walltime=9:00:00 12", "does that: qalter -l walltime=9:00:00 12; for another"),
        (
            "modify 12 --time 9h",
            "JobId=12 TimeLimit=9:00:00 on Slurm, qalter -l walltime=9:00:00 12",
        ),
        ("set 12 walltime=9:30:00", "type: jobgen rerun 12 --set resources.walltime=9:30:00\n"),
        (
            "qsub -l ncpus=8 job.yaml",
            "submit job.yaml --set resources.cpus_per_node=4\n",
        ),
        ("submit -N 4 -l ncpus=8", "submit -N 4 --set resources.cpus_per_node=2\n"),
        (
            "submit -l ncpus=9",
            "-l; 9 CPUs are for all nodes: give --set resources.cpus_per_node=VALUE",
        ),
        (
            "qsub -V old.sh a",
            "type: jobgen import old.sh -o old.yaml, and then jobgen submit old.yaml -- a;",
        ),
        (
            "qsub -l long job.yaml",
            "; for -l: leave it out: it is a resource of SGE, and -q NAME a queue\n",
        ),
        ("kubectl delete -f job.yaml", "; type: jobgen cancel JOB..., with the ids that"),
        ("sbatch -h", "; type: jobgen submit job.yaml --help\n"),
        (
            "docker rm -f gpt",
            "; type: jobgen clean gpt --yes, which removes the run folder of a job ",
        ),
        ("kill -9 gpt", "; type: jobgen cancel gpt; for -9: leave it out"),
        ("sh run.sh", "; type: jobgen import run.sh, or jobgen lint run.sh\n"),
        ("rm -rf runs/gpt", "; type: jobgen clean gpt --yes\n"),
        ("qselect -s Q", "; type: jobgen list --state queued\n"),
        ("docker pull a/b:1", "--set environment.container.image=docker://a/b:1\n"),
        (
            "sbatch --gres=gpu:a100:2,tmp:9G job.yaml",
            "--gpus-per-node 2 --set resources.gpu_type=a100; for --gr",
        ),
        ("docker run --gpus all a/b python c/d.py", "container.image=docker://a/b; for --gpus"),
        ("singularity exec -B a:/b e.sif python c/d.py", "container.image=e.sif --set"),
        ("dstack logs -d my-run", "; type: jobgen logs my-run; for -d: leave it out"),
        ("kubectl wait --for=condition=complete job/gpt", "; type: jobgen wait gpt\n"),
        ("squeue --states=all", "; type: jobgen list; for --states: leave it out"),
        ("fabric run train.py --lr 1", "; type: jobgen submit job.yaml -- --lr 1\n"),
        ("exit", "; jobgen has no prompt of its own to leave\n"),
        ("ssh -L 8888:n1:8888 login", "; type: jobgen forward JOB 8888 --local-port 8888\n"),
        (
            "srun --ntasks-per-node=1 torchrun --nproc_per_node=8 train.py",
            "; type: jobgen submit job.yaml -N 1 --gpus-per-node 8; for --ntasks-per",
        ),
        ("qalter -h n 12", "type: jobgen rerun 12; for -h: leave it out: only a job that is"),
        ("sky jobs logs 3 --no-follow", "type: jobgen logs 3; for --no-follow: leave it out"),
        ("ssh 12 -n node07", "type: jobgen shell 12 --node node07\n"),
        ("resubmit 12 with more memory", "rerun 12 --set resources.memory_per_node=VALUE\n"),
        ("resubmit 12 on 4 nodes", "type: jobgen rerun 12 --set resources.nodes=4\n"),
        ("/?", "type: jobgen --help\n"),
        (
            "helm install gpt ./chart",
            "type: jobgen submit job.yaml; for gpt, ./chart: jobgen submit",
        ),
        ("bjobs -l 12", "type: jobgen status 12; for -l: leave it out"),
        ("docker kill -s KILL 12", "type: jobgen cancel 12; for -s: leave it out"),
        ("docker exec -u root -w /x 12 ls", "type: jobgen shell 12 -- ls; for -u"),
        ("docker run -m 64g a:1 python train.py", "--set resources.memory_per_node=64g\n"),
        ("kubectl logs -f -c node1 12", "type: jobgen logs 12 -f --rank 1\n"),
        ("ray job submit --runtime-env e.yaml -- python train.py", "submit job.yaml; for --runt"),
        ("sbatch -O job.yaml", "type: jobgen submit job.yaml; for -O: for more processes"),
        ("submit -m 64G", "type: jobgen submit --set resources.memory_per_node=64G\n"),
        ("qsub -A a -P b job.yaml", "submit job.yaml -A a; for -P: a job has one account"),
        ("docker stop -t 30 12", "type: jobgen cancel 12; for -t: leave it out: the scheduler"),
        ("docker run --rm -it a.sif python t.py --lr 1", "=a.sif -- --lr 1; for --rm: leave"),
        ("init --template pbs", "type: jobgen init new.yaml --scheduler pbs\n"),
        ("run job.yaml -it", "start the job, and type: jobgen shell"),
        ("scancel -u me", "type: jobgen cancel JOB..., with the ids that `jobgen list` prints"),
        ("squeue -u me", "type: jobgen list"),
        ("sbatch --mem-per-cpu=4G a.yaml", "a.yaml; for --mem-per-cpu: memory is requested per"),
        (
            "sbatch -d singleton a.yaml",
            "a.yaml --set 'directives=[\"#SBATCH --dependency=singleton\"]'\n",
        ),
        ("qsub -l storage=a a.yaml", "a.yaml --set 'directives=[\"#PBS -l storage=a\"]'\n"),
        ("cp 12:last.pt .", "cp runs/*/12/last.pt ."),
        ("run -v /data:/data", "--set 'environment.container.binds=[/data:/data]'"),
        ("edit 12", "scontrol update or qalter; for another job, type: jobgen rerun 12 --set"),
        ("config", "jobgen has no settings of its own"),
        ("config --global account lab", "for all your jobs, write account: lab in ~/.config"),
        (
            "submit -I -l walltime=1:00:00",
            "; type: jobgen submit --set resources.walltime",
        ),
        ("forward 12 -L 6006:localhost:8888", "forward 12 8888 --local-port 6006"),
        ("wait 12 --timeout=30m && jobgen report", "type: timeout 30m jobgen wait 12\n"),
        ("submit --cpus-per-task 4 -C a", "--set resources.cpus_per_gpu=4"),
        ("schema", "Missing argument"),
        ("sbatch --export=ALL,A=1,B=2 job.yaml", "variables.A=1 --set environment.variables.B=2;"),
        ("qsub -l software=a -l place=b a.yaml", '#PBS -l software=a", "#PBS -l place=b"]'),
        ("qsub -pe mpi 4 job.yaml", "--set resources.cpus_per_node=4; for -pe: a slot of SGE is a"),
        ("submit --after prep:ok -N 2", "first; type: jobgen submit --after afterok:prep -N 2\n"),
        ("submit -l walltime=1h", "; type: jobgen submit --set resources.walltime=1h\n"),
        ("submit -l select=1:ngpus=4+1:ngpus=2", "the GPUs of each, such as gpus_per_node: [4, 2]"),
        ("sbatch -n 8 -N 1 --gres=gpu:8 job.yaml", "job.yaml -N 1 --gpus-per-node 8; for -n: "),
        ("srun -l -u python train.py", "; for -l: leave it out: jobgen writes the launcher's line"),
        ("uv run train.py --lr 1", "job.yaml --set environment.uv=true -- --lr 1\n"),
        (
            "conda run -p env python train.py",
            "job.yaml --set environment.conda=env --set environment.venv=null\n",
        ),
        ("docker run -p 1:2 a/b:c", "; for -p: leave it out: a job has the node's own network"),
        ("kubectl -n a get pods", "type: jobgen list; for -n: leave it out; it is a"),
        ("oc -c a logs 12", "type: jobgen logs 12; for -c: choose a process with --rank"),
        ("bsub -w done(12) job.yaml", "type: jobgen submit job.yaml --after 12\n"),
        ("flux run -n 8 -N 2 job.yaml", "type: jobgen submit job.yaml -N 2 --gpus-per-node 4; "),
        ("det e kill 12", "type: jobgen cancel 12\n"),
        ("squeue -u me", "jobgen lists your own jobs without -u me; type: jobgen list --all\n"),
        ("show site gadi", "type: jobgen sites show nci-gadi\n"),
        ("init --script train.py", "; to keep it, type: jobgen init new.yaml --script train.py\n"),
        ("init train.py --name a", "you submit; type: jobgen init new.yaml --script train.py\n"),
        ("list -t PENDING", "; type: jobgen list --state queued\n"),
        ("cancel --qos a 12", "qstat choose by other things; type: jobgen cancel 12\n"),
        ("uv run -m a.b --lr 1", "environment.uv=true -- --lr 1\n"),
        (
            "sbatch a.sbatch --task b --accelerator zero3",
            "a.yaml -- --task b --accelerator zero3\n",
        ),
        ("accelerate launch -h", "type: jobgen submit job.yaml --help\n"),
        ("docker run -p 80:80 a", "container.image=docker://IMAGE; for -p: "),
        ("cancel 12-15", "bash writes the ids; type: jobgen cancel {12..15}\n"),
        ("torchrun train.py", "jobgen starts train.py itself, on each node of the spec; type: "),
        ("qsub -cwd -pe mpi 2 job.yaml", "for -cwd: leave it out: the job runs in the folder"),
        ("sky logs c1 3", "type: jobgen logs 3\n"),
        ("sky queue c1", "type: jobgen list\n"),
        ("ray submit cluster.yaml train.py", "type: jobgen submit job.yaml\n"),
        ("ray exec cluster.yaml nvidia-smi", "type: jobgen shell -- nvidia-smi\n"),
        ("sky launch train.py --gpus 4", "job.yaml -N 1 --gpus-per-node 4; for --gpus: it is"),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("list --state NF --all", "; type: jobgen list --state 'node lost' --all\n"),
        ("list --state PD", "; type: jobgen list --state queued\n"),
        ("cancel --state PENDING", "with the ids that `jobgen list --state queued` prints\n"),
        ("cancel --state R", "with the ids that `jobgen list --state running` prints\n"),
        ("status 12345_[0-3]", "bash writes the ids; type: jobgen status 12345_{0..3}\n"),
        ("status 12345,12346 --json", "; type: jobgen status 12345 12346 --json\n"),
        (
            "logs 12345,12346",
            "logs takes one job at a time; for the first, type: jobgen logs 12345\n",
        ),
        ("cancel gpt*", "jobgen expands no patterns; type: jobgen cancel JOB..., with the ids"),
        ("status --state running", "; type: jobgen list --state running\n"),
        (
            "doctor --fix",
            "changes no file; jobgen lint --fix SCRIPT is for job scripts; type: jobgen d",
        ),
        ("-C sub submit b.yaml", "no such option -C; type: cd sub && jobgen submit b.yaml\n"),
        ("-C sub status 4711", "no such option -C; type: cd sub && jobgen status 4711\n"),
        ("submit b.yaml --chdir sub -N 4", "cd sub && jobgen submit b.yaml -N 4\n"),
        ("sbatch --export=NONE job.yaml", "'directives=[\"#SBATCH --export=NONE\"]'\n"),
        ("list all failed jobs", "(all failed jobs); type: jobgen list --state failed --all\n"),
        ("list pending --limit 3", "; type: jobgen list --state queued --limit 3\n"),
        ("list --pending --limit 3", "; type: jobgen list --limit 3 --state queued\n"),
        ("status failed", "for all such jobs, type: jobgen list --state failed\n"),
        ("cancel all failed jobs", "with the ids that `jobgen list --state failed` prints\n"),
        ("scancel -t PENDING", "with the ids that `jobgen list --state queued` prints\n"),
        (
            "logs 4711 -n 20 --err",
            "no such option -n; type: jobgen logs 4711 --stderr | tail -n 20\n",
        ),
        ("forward 4711 tensorboard", "not a whole number; type: jobgen forward 4711 6006\n"),
        ("list my jobs", "(my jobs); type: jobgen list\n"),
        ("list jobs", "(jobs); type: jobgen list\n"),
        (
            "submit on 4 gpus",
            "for 4 on each node, type: jobgen submit job.yaml --gpus-per-node 4\n",
        ),
        ("submit --seeds 1 2 3", "; type: jobgen submit --set 'array.values.seed=[1, 2, 3]'\n"),
        ("submit --all", "folder, type: for one in *.yaml; do jobgen submit $one; done\n"),
        ("forward gpt tensorboard", "; type: jobgen forward gpt 6006\n"),
        ("page --open", "; type: jobgen page --serve\n"),
        ("render job.yaml --out scripts/", "; type: jobgen render job.yaml --out-dir scripts/\n"),
        ("list --state RUNNING,PENDING", "one of these; type: jobgen list --state running\n"),
        ("submit to queue long", "; type: jobgen submit --queue long\n"),
        ("submit for 2 hours", "; type: jobgen submit --time 2h\n"),
        ("run 12 again", "; type: jobgen rerun 12\n"),
        ("rerun 12 with 4 nodes", "; type: jobgen rerun 12 --set resources.nodes=4\n"),
        (
            "run job.yaml -N 4",
            "job.yaml -N 4, or on this machine alone jobgen run job.yaml -N 4 --scheduler local\n",
        ),
        ("run train.py -N 4", "type: jobgen submit job.yaml -N 4, or in an allocation jobgen run"),
        ("run train.py", "type: jobgen submit job.yaml, or in an allocation jobgen run job.yaml\n"),
        ("logs gpt --stdout", "--stderr shows stderr; type: jobgen logs gpt\n"),
        ("shell -it 12345 bash", "the shell has your terminal; type: jobgen shell 12345\n"),
        ("submit job.yaml --cluster gadi", "; type: jobgen submit job.yaml --site nci-gadi\n"),
        (
            "submit job.yaml --priority 10",
            "sets it, by qos and queue; type: jobgen submit job.yaml\n",
        ),
        (
            "submit --timeout 3600",
            "no such option --timeout; type: jobgen submit -t 3600s\n",
        ),
        (
            "check job.yaml --fix",
            "changes no file; jobgen lint --fix SCRIPT is for job scripts; type: ",
        ),
        (
            "report --last 5",
            "jobgen report JOB..., with the ids that `jobgen list --limit 5` prints\n",
        ),
        ("logs 12345_[0-3]", "one task at a time; for the first, type: jobgen logs 12345_0\n"),
        ("forward 7007:localhost:6006 toy", "type: jobgen forward toy 6006 --local-port 7007\n"),
        ("forward 6006 toy", "the port comes last; type: jobgen forward toy 6006\n"),
        ("-f a.yaml up -d", "type: jobgen submit a.yaml; for -d: leave it out"),
        ("-n -j 8 all", "no such option -n; options stand behind a command; type `jobgen --help`"),
        (
            "submit -P a -pe mpi 16 job.yaml",
            "job.yaml --account a --set resources.cpus_per_node=16; for -pe: a slot of SGE",
        ),
        (
            "submit old.sbatch -p gpu --wait",
            "then jobgen submit old.yaml; with what was typed: jobgen submit old.yaml -p gpu --wa",
        ),
        (
            "import job.sh",
            "jobgen reads #SBATCH and #PBS; for a spec to fill in, type: jobgen init",
        ),
        ("render -", "jobgen reads a spec from a file here alone; write it into one, and give"),
        ("wait job.yaml", "; type: jobgen submit job.yaml --wait\n"),
        ("submit job.yaml a.yaml -N 4", "job.yaml -N 4, and then jobgen submit a.yaml -N 4\n"),
        ("render job.yaml a.yaml", "; type: jobgen render job.yaml a.yaml --out-dir scripts\n"),
        ("squeue -n gpt", "; type: jobgen status gpt\n"),
        (
            "import train.py -o b.yaml",
            "for one named b.yaml, type: jobgen init --script train.py b.ya",
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("show my jobs", "type: jobgen list\n"),
        ("list sites", "type: jobgen sites\n"),
        ("show lumi-g", "type: jobgen sites show lumi-g\n"),
        ("sites gadi", "type: jobgen sites show nci-gadi\n"),
        (
            "forward 4242",
            "type: jobgen forward 4242 PORT, or, if that is the port, jobgen forward J",
        ),
        ("shell 12 nvidia-smi -l 1", "type: jobgen shell 12 -- nvidia-smi -l 1\n"),
        (
            "agent sweep.yaml",
            "sweep.yaml is not here; a sweep is array: {values: {NAME: [...]}} in",
        ),
        ("make new.sbatch", "type: jobgen render job.yaml -o new.sbatch\n"),
        ("make mine.sbatch", "type: jobgen import mine.sbatch, or jobgen lint mine.sbatch\n"),
        ("logs -n 1 -f", " (--node N has those of one node); type: jobgen logs -f\n"),
        ("render -o", "type: jobgen render job.yaml -o FILE, such as job.sbatch\n"),
        ("salloc -N 2 -t 1h", "get one by salloc -N 2 -t 1:00:00 (on PBS: qsub -I), and in it"),
        ("schema", "job, site; type: jobgen schema job, for the keys of job.yaml, or jobgen sch"),
        (
            "submit --container-image nvcr.io/a/b:25",
            "type: jobgen submit --set environment.container.image=docker://nvcr.io/a/b:25\n",
        ),
        ("submit --image a.sif", "type: jobgen submit --set environment.container.image=a.sif\n"),
        ("submit job.yaml --config conf.yaml", "type: jobgen submit job.yaml -- "),
    ],
)
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


@pytest.mark.parametrize(
    ("files", "line", "answer"),
    [
        ("a.yaml conf.yaml", "submit", "the spec here is a.yaml: name that\n"),
        ("a.yaml b.yaml conf.yaml", "submit", "the specs here are a.yaml, b.yaml\n"),
        ("a.yaml b.yaml conf.yaml", "check conf.yaml", "it has lr; the specs here are a.yaml, b.y"),
        ("a.yaml conf.yaml", "check conf.yaml -N 4", "here is a.yaml: name that\n"),
        ("a.yaml conf.yaml", "import conf.yaml", "here is a.yaml; type: jobgen check a.yaml\n"),
        ("a.yaml job.yaml conf.yaml", "check conf.yaml", "the specs here are a.yaml, job.yaml\n"),
        ("a.yaml sky.yaml conf.yaml", "check conf.yaml", "the spec here is a.yaml: name that\n"),
        (
            "a.yaml b.yaml c.yaml d.yaml e.yaml f.yaml conf.yaml",
            "check conf.yaml",
            "the specs here are a.yaml, b.yaml, c.yaml, d.yaml, e.yaml, ...\n",
        ),
        (
            "a.yaml b.yaml conf.yaml",
            "submit a.yaml b.yaml conf.yaml -N 4",
            "not a spec: conf.yaml; type: jobgen submit a.yaml -N 4, and then jobgen submit b.yam",
        ),
        (
            "a.yaml b.yaml job.yaml",
            "submit a.yaml b.yaml job.yaml -N 4",
            "type: for one in a.yaml b.yaml job.yaml; do jobgen submit -N 4 $one; done\n",
        ),
        (
            "job.yaml conf.yaml",
            "submit conf.yaml job.yaml --wait",
            "not a spec: conf.yaml; type: jobgen submit job.yaml --wait\n",
        ),
        (
            "sky.yaml conf.yaml",
            "submit conf.yaml sky.yaml",
            "not a spec: conf.yaml, sky.yaml; jobgen check says what each is\n",
        ),
        (
            "a.yaml b.yaml conf.yaml",
            "render a.yaml b.yaml conf.yaml",
            "not a spec: conf.yaml; type: jobgen render a.yaml b.yaml --out-dir scripts\n",
        ),
        ("a.yaml conf.yaml", "render a.yaml conf.yaml", "conf.yaml; type: jobgen render a.yaml\n"),
        ("conf.yaml", "render conf.yaml conf.yaml", "; jobgen check says what each is\n"),
        ("a.yaml sweep.yaml", "sweep sweep.yaml", "in the spec; type: jobgen submit sweep.yaml\n"),
        ("conf.yaml", "submit", "job.yaml: No such file or directory; `jobgen init` writes a fir"),
        ("b.sbatch a.sbatch", "submit", "; `jobgen import a.sbatch -o job.yaml` makes one of a "),
        (
            "b.sbatch a.sbatch",
            "import",
            "type: jobgen import SCRIPT; here are a.sbatch, b.sbatch\n",
        ),
        ("b.sbatch a.sbatch", "lint", "type: jobgen lint a.sbatch b.sbatch\n"),
        ("a.yaml b.py", "run -d a.yaml", "no such option -d; type: jobgen submit a.yaml\n"),
        ("a.yaml train.py", "torchrun train.py", "type: jobgen submit a.yaml\n"),
        (
            "a.yaml train.py",
            "submit train.py",
            "a.yaml starts it: name that\n",
        ),
        ("a.yaml conf.yaml", "submit --config conf.yaml", "type: jobgen submit -- --config conf."),
        ("job.yaml a.sbatch", "sbatch a.sbatch conf.yaml", "type: jobgen import a.sbatch -o a.y"),
        ("job.yaml", "horovodrun --hosts a:4 train.py", "jobgen submit job.yaml; for --hosts: lea"),
        ("job.yaml", "sbatch \u2014nodes=4", "type: jobgen submit job.yaml --nodes 4\n"),
        ("job.yaml", "submit \u2014gpus-per-node 4", "; type: jobgen submit --gpus-per-node 4\n"),
        ("job.yaml", "logs 12 --tail 5 --grep x", "for --grep: type: jobgen logs 12 | grep x\n"),
        (
            "job.yaml",
            "submit --frob -- python train.py --lr 2",
            "type: jobgen submit job.yaml -- --f",
        ),
        ("c.py", "torchrun --nproc_per_node 8 c.py", "then jobgen submit job.yaml -N 1 --gpus-pe"),
        ("job.yaml", "check -v -q job.yaml", "type: jobgen explain job.yaml -q NAME, which has"),
    ],
)
def test_what_lies_in_the_folder_is_named(files, line, answer):
    sky = "num_nodes: 2\nrun: |\n  torchrun train.py\n"
    Path("job.yaml").unlink()
    for file in files.split():
        text = "import torch\n" if file.endswith(".py") else SPEC
        Path(file).write_text({"conf.yaml": "lr: 1\n", "sky.yaml": sky}.get(file, text))
    assert answer in jobgen(*line.split()).err


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("notes.md", "Ask about limits.\n", "is a text, not a job spec; the spec here is job.yaml"),
        (
            "env.yml",
            "name: t\ndependencies: [python]\n",
            "write environment: {conda: t} in a spec; ",
        ),
        (
            "env.yml",
            "dependencies: [a=1]\n",
            "a conda environment, not a job; make it by conda env ",
        ),
        ("Dockerfile", "FROM a/b:1\n", "builds an image, and is not a job spec; build it, and "),
        (
            "Makefile",
            "all:\n\tpython train.py\n",
            "is a file of make, not a job spec; the spec here ",
        ),
        (
            "Snakefile",
            "rule a: b\n",
            "is a workflow, not a job spec; the spec here is job.yaml",
        ),
        ("play.yml", "- name: a\n  hosts: all\n", "is a playbook of Ansible, not a job spec"),
        ("dvc.yaml", "stages:\n  a:\n    cmd: b\n", "is a pipeline of DVC, not a job spec"),
        ("conf.yaml", "defaults:\n  - _self_\n", "is Hydra's configuration, not a job spec"),
        ("conf.yaml", "model: a\nepochs: 2\n", "is not a job spec: it has model, epochs; the spec"),
        ("a.yaml", "job_name: a\nnodes: 2\n", "nodes: unknown key; write resources.nodes"),
        (
            "a.yaml",
            "type: task\nnodes: 2\n",
            "is a configuration of dstack, not a job spec; what its keys are called here follows\n",
        ),
        ("a.yaml", "entrypoint: a\nruntime_env: {pip: [b]}\n", "write run.command, as in run"),
        ("a.yaml", "num_nodes: 2\nrun: |\n  torchrun train.py\n", "is a task of SkyPilot, not "),
        ("a.yaml", "jobqueue:\n  slurm: {cores: 4}\n", "is the configuration of dask-jobqueue, "),
        ("a.yaml", "partition: gpu\nlog_dir: a\nuser: b\n", "log_dir: unknown key; jobgen keeps "),
    ],
)
def test_a_file_without_keys_of_a_spec_is_said_to_be_what_it_is(name, text, answer):
    Path(name).write_text(text)
    ended = jobgen("check", name)
    assert (ended.code, ended.out) == (3, "")
    assert answer in ended.err
