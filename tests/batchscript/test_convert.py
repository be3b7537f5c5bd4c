"""`jobgen import`: from scripts that people have to specs."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from importing import import_body, make_script, refusal_of, spec_of
from odd_scripts import ANY_SCRIPT
from rendered import ALL as SCRIPTS
from support import ROOT, jobgen, plan_of, working_in

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError
from jobgen.rendering.render import render

FOREIGN = sorted((ROOT / "tests" / "batchscript" / "of_others").iterdir())


def test_a_script_that_jobgen_rendered_has_a_spec_already(tmp_path: Path) -> None:
    (tmp_path / "a.sbatch").write_text(next(iter(SCRIPTS.values())))
    code, out, err = jobgen("import", tmp_path / "a.sbatch")
    assert (code, out) == (2, "")
    assert re.search(r"a\.sbatch: jobgen rendered this script; its spec is \S+\.yaml\n$", err)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_a_script_of_each_style_becomes_a_spec_that_renders(path: Path) -> None:
    script = render(plan_of(import_script(Script(path.name, path.read_text())).yaml))
    ended = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_no_line_is_lost(path: Path) -> None:
    """Each word of the body is in the spec, or in the list of what is not."""
    result = import_script(Script(path.name, path.read_text()))
    everything = result.yaml + " ".join(left.text for left in result.left)
    everything = everything.replace("JOBGEN_TASK", "JOBGEN_TASK PBS_ARRAY_INDEX")  # its new name
    for line in path.read_text().splitlines()[1:]:
        words = re.findall(r"[A-Za-z_][\w./]{5,}", "" if line.startswith("#") else line)
        for word in set(words) - {"export", "source", "module", "activate"}:
            assert word.removesuffix("/bin/activate") in everything, line


# What a spec says in other words: numbers and times, and what jobgen's own scripts say.
IN_OTHER_WORDS = re.compile(
    "nodes?|ntasks|n?cpus|n?gpus?|tasks?|mem|walltime|time|select|job|name|account|partition|gres"
    "|mpiprocs|oe|wd|filesystems|storage|place|scatter|excl|per|qos|exclusive|mail|user|type|ALL"
    "|abe|depend|afterok|gb|GB|MB|[A-Za-z]"
)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_no_directive_is_lost(path: Path) -> None:
    """Each word of the directives is in the spec, or in the list of what is not."""
    result = import_script(Script(path.name, path.read_text()))
    everything = result.yaml + " ".join(left.text for left in result.left)
    for line in re.findall("^#(?:SBATCH|PBS) (.*)", path.read_text(), re.M):
        for word in re.findall(r"[A-Za-z_][\w.]*", line.partition(" #")[0]):
            assert IN_OTHER_WORDS.fullmatch(word) or word in everything, line


def test_from_slurm_to_pbs() -> None:
    result = import_body(
        "module load cuda/12.4\nsource ~/venv/bin/activate\nexport NCCL_DEBUG=WARN\n"
        "srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d train.py --lr 3e-4",
        "#SBATCH -J gpt -A vp91 -p gpu",
        "#SBATCH -N 2 --gpus-per-node=4",
        "#SBATCH --cpus-per-task=48 --mem=180G",
        "#SBATCH -t 2:00:00",
        "#SBATCH --exclusive",
    )
    assert yaml.safe_load(result.yaml) == {
        "name": "gpt",
        "scheduler": "slurm",
        "account": "vp91",
        "queue": "gpu",
        "resources": {
            "nodes": 2,
            "gpus_per_node": 4,
            "cpus_per_node": 48,
            "memory_per_node": "180GB",
            "walltime": "02:00:00",
            "exclusive": True,
        },
        "environment": {
            "modules": ["cuda/12.4"],
            "venv": "~/venv",
            "variables": {"NCCL_DEBUG": "WARN"},
        },
        "run": {"script": "train.py", "args": ["--lr", "3e-4"]},
    }
    script = render(plan_of(result.yaml, scheduler="pbs"))
    assert "#PBS -l select=2:ncpus=48:ngpus=4:mem=180gb:mpiprocs=1\n" in script


ASKED = {
    "slurm": [
        "#SBATCH --qos=high",
        "#SBATCH --reservation=r1",
        "#SBATCH -C 'a100&nvlink'",
        "#SBATCH --gres=gpu:a100:4",
        "#SBATCH --mail-user=me@x.org --mail-type=END,FAIL",
        "#SBATCH --dependency=afterok:1:2_3,afterany:4",
        "#SBATCH --kill-on-invalid-dep=yes",
    ],
    "pbs": [
        "#PBS -q r1",
        "#PBS -l select=1:ngpus=4",
        "#PBS -l place=scatter:excl",
        "#PBS -M me@x.org -m ae",
        "#PBS -W depend=afterok:1.server:2[3].server,afterany:4[]",
    ],
}


def test_what_is_asked_of_the_scheduler() -> None:
    mail = {"email": "me@x.org", "on": ["end", "fail"]}
    slurm = spec_of("python a.py", *ASKED["slurm"])
    assert (slurm["qos"], slurm["reservation"], slurm["notify"]) == ("high", "r1", mail)
    assert slurm["resources"] == {
        "constraint": "a100&nvlink",
        "gpu_type": "a100",
        "gpus_per_node": 4,
    }
    assert slurm["after"] == {"afterok": ["1", "2_3"], "afterany": ["4"]}
    pbs = spec_of("python a.py", *ASKED["pbs"])
    assert pbs["notify"] == {**mail, "on": ["fail", "end"]}
    assert pbs["resources"] == {"gpus_per_node": 4, "exclusive": True}
    assert pbs["after"] == {"afterok": ["1.server", "2[3].server"], "afterany": ["4[]"]}
    assert "directives" not in {*slurm, *pbs}


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --exclusive=user",
        "#SBATCH --dependency=afterok:1?afterany:2",
        "#SBATCH --dependency=singleton",
        "#SBATCH --dependency=after:1+10",
        "#SBATCH --kill-on-invalid-dep=yes",
        "#PBS -M a@x.org,b@x.org",
        "#PBS -W depend=beforeok:1",
        "#PBS -W umask=022",
    ],
)
def test_what_only_the_scheduler_can_say_stays_a_directive(line: str) -> None:
    spec = spec_of("python a.py", line)
    assert spec["directives"] == [line]


@pytest.mark.parametrize(
    ("line", "index"),
    [("#SBATCH -a 0-9%2", "SLURM_ARRAY_TASK_ID"), ("#PBS -J 0-9%2", "PBS_ARRAY_INDEX")],
)
def test_an_array_by_its_index(line: str, index: str) -> None:
    spec = spec_of(f"SEED=1\npython a.py --task ${index}", line)
    assert spec["array"] == {"tasks": 10, "at_once": 2}
    assert spec["run"] == {"command": ["bash", "-c", "exec python a.py --task $JOBGEN_TASK"]}
    script = render(plan_of(yaml.safe_dump(spec), scheduler="pbs"))
    assert "#PBS -J 0-9%2\n" in script


@pytest.mark.parametrize(
    ("value", "tasks", "line"),
    [
        ("1-10", 10, "export SLURM_ARRAY_TASK_ID=$((JOBGEN_TASK + 1))"),
        ("0-9:3%2", 4, "export SLURM_ARRAY_TASK_ID=$((JOBGEN_TASK * 3))"),
        ("500-17000:1000", 17, "export SLURM_ARRAY_TASK_ID=$((JOBGEN_TASK * 1000 + 500))"),
        ("0,2,5", 3, "export SLURM_ARRAY_TASK_ID=${INDICES[JOBGEN_TASK]}"),
        ("2023-2024", 2, "export SLURM_ARRAY_TASK_ID=$((JOBGEN_TASK + 2023))"),
    ],
)
def test_an_array_of_other_indices_counts_from_them(value: str, tasks: int, line: str) -> None:
    body = "python a.py --task $SLURM_ARRAY_TASK_ID"
    spec = yaml.safe_load(import_body(body, f"#SBATCH --array={value}").yaml)
    assert spec["array"]["tasks"] == tasks
    assert line in spec["environment"]["setup"]
    assert spec["run"] == {"command": ["bash", "-c", f"exec {body}"]}


@pytest.mark.parametrize("value", ["0-9%0", "0-99999", "1-5:0"])
def test_an_array_that_no_spec_can_have_stays_a_directive(value: str) -> None:
    spec = spec_of("python a.py", f"#SBATCH --array={value}")
    assert spec["directives"] == [f"#SBATCH --array={value}"]


def test_totals_of_gadi_are_divided_by_its_nodes() -> None:
    path = ROOT / "tests" / "batchscript" / "of_others" / "gadi-loop.pbs"
    spec = yaml.safe_load(import_script(Script("a.pbs", path.read_text())).yaml)
    assert spec["site"] == "nci-gadi"
    assert spec["resources"] == {
        "nodes": 2,
        "gpus_per_node": 4,
        "cpus_per_node": 48,
        "memory_per_node": "180GB",
        "walltime": "02:00:00",
    }
    assert spec["filesystems"] == ["gdata/vp91", "scratch/vp91"]
    assert "directives" not in spec


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", "01:30:00"),
        ("90:30", "01:30:30"),
        ("2:00:00", "02:00:00"),
        ("1-6", "30:00:00"),
        ("1-06:30", "30:30:00"),
        ("1-06:30:15", "30:30:15"),
    ],
)
def test_a_walltime_means_what_sbatch_takes_it_for(text: str, seconds: str) -> None:
    spec = spec_of("python a.py", f"#SBATCH --time={text}")
    assert spec["resources"] == {"walltime": seconds}


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("python a.py 1 'two words'", {"script": "a.py", "args": ["1", "two words"]}),
        ("srun python3 -u -m pkg.mod --x", {"module": "pkg.mod", "args": ["--x"]}),
        ("torchrun -m pkg.mod", {"module": "pkg.mod"}),
        ("torchrun --no-python ./prog 1", {"command": ["./prog", "1"]}),
        ("srun trainer.py --gpu", {"command": ["trainer.py", "--gpu"]}),
        ("LR=3e-4\npython a.py --lr $LR", {"script": "a.py", "args": ["--lr", "3e-4"]}),
        ("python $HOME/a.py", {"script": "$HOME/a.py"}),
        (
            'python a.py "$(date)"',
            {"command": ["bash", "-c", 'exec python a.py "$(date)"']},
        ),
        (
            "srun apptainer exec --nv x.sif python a.py",
            {"script": "a.py"},
        ),
        ("srun bash -c 'python a.py'", {"script": "a.py"}),
    ],
)
def test_the_program(command: str, run: dict[str, object]) -> None:
    assert spec_of(command, "#SBATCH -N 1")["run"] == run


def test_what_is_not_mapped_is_listed_with_its_line_and_stands_in_the_spec() -> None:
    body = "export MASTER_PORT=29500\nrm -rf tmp\nsrun python a.py --cuda\nrm -rf out"
    result = import_body(body, "#SBATCH -N 2")
    assert [(left.kind, left.line, left.text) for left in result.left] == [
        ("kept", 4, "export MASTER_PORT=29500"),
        ("lost", 5, "rm -rf tmp"),
        ("kept", 6, "srun python a.py --cuda"),
        ("lost", 7, "rm -rf out"),
    ]
    assert (
        "# Lost: here the job of this spec differs from the script.\n#   line 5: rm" in result.yaml
    )
    assert "rm -rf tmp" not in render(plan_of(result.yaml))


def test_what_one_process_does_before_and_after_its_program_is_kept() -> None:
    spec = spec_of("rm -rf tmp\npython a.py --cuda\nrm -rf out", "#SBATCH -N 1")
    assert spec["environment"] == {"setup": "rm -rf tmp || true\n"}
    assert spec["run"] == {"command": ["bash", "-c", "python a.py --cuda\nrm -rf out"]}


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("srun torchrun --nnodes=1 --nproc-per-node=4 t.py", "lost: each of 2 nodes trains alone"),
        ("srun torchrun --nnodes=4 --nproc-per-node=4 t.py", "check: the directives ask for 2"),
        ("srun torchrun --nnodes=1:4 --nproc-per-node=4 t.py", "check: the spec's number of nodes"),
        (
            "srun -n 8 torchrun --nnodes=2 --nproc-per-node=4 t.py",
            "lost: the script starts 4 agents",
        ),
        ("torchrun --nnodes=2 --nproc-per-node=4 t.py", "check: the script starts one agent"),
        ("torchrun --nproc-per-node=4 t.py", "lost: the script starts one agent"),
        ("accelerate launch t.py", "lost: the script starts one agent"),
        ("accelerate launch --num_machines 2 t.py", "check: the script starts one agent"),
        (
            "srun accelerate launch t.py",
            "check: without --num_machines accelerate launch is",
        ),
        ("srun -n 3 python t.py", "lost: not a multiple of 2 nodes"),
        ("mpirun python a.py\nmpirun python t.py", "lost: not run: run it once"),
        ("srun --container-name=c python t.py", "lost: no step before it names its image"),
        ("srun apptainer exec -B a:b:c:d i.sif python t.py", "lost: not a bind"),
        ("srun apptainer run i.sif python t.py", "check: the program is executed"),
        ("srun torchrun --nnodes=2 --numa-binding=node t.py", "check: an option of torchrun"),
    ],
)
def test_what_the_spec_starts_in_another_way_is_said(launch: str, said: str) -> None:
    result = import_body(launch, "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4")
    kind, _, reason = said.partition(": ")
    assert [left for left in result.left if left.kind == kind and left.reason.startswith(reason)]


@pytest.mark.parametrize(
    ("handler", "lost"),
    [
        ("exit 1", []),
        ("{ echo failed >&2; exit 1; }\necho done", []),
        ("{ cp -r out $HOME; exit 3; }", ["cp -r out $HOME"]),
    ],
)
def test_what_a_script_does_where_its_program_fails_comes_after_it(
    handler: str, lost: list[str]
) -> None:
    result = import_body(f"srun python t.py || {handler}", "#SBATCH --nodes=2 --gpus-per-node=4")
    assert yaml.safe_load(result.yaml)["run"] == {"script": "t.py"}
    assert [left.text for left in result.left if left.kind == "lost"] == lost


def test_what_is_said_is_said_once() -> None:
    result = import_body("python a.py $0\npython b.py", "#SBATCH --gpus-per-node=1")
    assert [left.text for left in result.left].count("$0") == 1
    result = import_body("source v/bin/activate; srun python t.py & wait", "#SBATCH --nodes=1")
    assert [left.kind for left in result.left] == ["kept"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sbatch job.sh", "submits jobs, and is none itself"),
        ("julia t.jl", "runs Julia"),
        ("python <your_script>.py", "a place to fill in"),
        ("deepspeed --hostfile=hosts t.py", "deepspeed's own launcher goes to the nodes by ssh"),
        ("deepspeed t.py", "deepspeed's own launcher goes to the nodes by ssh"),
        ("go() { srun python t.py; }\nfor i in 1 2; do go; done", "a loop starts 'python t.py'"),
    ],
)
def test_what_no_spec_can_be_made_of_is_refused_by_name(body: str, why: str) -> None:
    directives = () if body.startswith("sbatch") else ("#SBATCH --nodes=2 --gpus-per-node=4",)
    assert why in refusal_of(make_script(body, *directives))


def test_a_range_of_nodes() -> None:
    spec = spec_of("srun -n 4 python a.py", "#SBATCH -N 2-4 --gpus-per-node=2")
    assert spec["resources"] == {"nodes": {"min": 2, "max": 4}, "gpus_per_node": 2}


def test_modules_keep_their_order_where_it_matters() -> None:
    body = "module load a\nmodule unload b\nmodule load c\nconda activate d\npython a.py"
    setup = "module unload b\nmodule load c\nconda activate d\n"
    assert spec_of(body)["environment"] == {"modules": ["a"], "setup": setup}


def test_a_site_that_would_refuse_the_job_is_left_out() -> None:
    """Gadi wants the memory of every job, and this one does not say it."""
    script = "#PBS -q gpuvolta\n#PBS -l ncpus=48,ngpus=4\npython a.py\n"
    result = import_script(Script("a.pbs", script))
    assert yaml.safe_load(result.yaml)["scheduler"] == "pbs"
    assert [left.text for left in result.left if left.kind == "lost"] == ["site: nci-gadi"]


def test_the_command_prints_the_spec_or_writes_it_once(tmp_path: Path) -> None:
    with working_in(tmp_path):
        text = "#!/bin/bash\n#SBATCH -N 2\ncd /x\nsrun python a.py --gpu\nsacct\n"
        Path("a.sbatch").write_text(text)
        code, out, err = jobgen("import", "a.sbatch")
        assert (code, err) == (0, "")
        err = jobgen("import", "a.sbatch", "-v").err
        assert "Kept, or not needed.\n" in err
        assert "  a.sbatch: line 5: sacct  (of no use after the program)\n" in err
        assert jobgen("import", "a.sbatch", "-o", "job.yaml").code == 0
        assert Path("job.yaml").read_text() == out
        code, out, err = jobgen("import", "a.sbatch", "-o", "job.yaml")
        assert (code, out) == (2, "")
        assert err == "job.yaml already exists; jobgen will not overwrite it\n"
        assert jobgen("render").code == 0


@given(ANY_SCRIPT)
def test_whatever_the_script_its_spec_renders_or_it_is_refused(text: str) -> None:
    try:
        spec = import_script(Script("a.sh", text)).yaml
    except SpecError:
        return
    rendered = render(plan_of(spec)).encode()
    ended = subprocess.run(["bash", "-n"], input=rendered, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
