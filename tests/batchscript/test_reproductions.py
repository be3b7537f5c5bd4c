"""What import and lint once got wrong on public scripts, each as a small script of the same shape.

The numbers are those of the findings: I1 to I13 of import, L1 to L9 of lint.
"""

import subprocess
from typing import Any

import pytest
import yaml
from importing import import_body, make_script, refusal_of, spec_of

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.lint import check
from jobgen.batchscript.reader import Script

TWO_NODES = ("#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4 --cpus-per-task=32",)


def rules_of(body: str, *directives: str) -> list[str]:
    findings = check(make_script(body, *directives))
    return [finding.rule.id for finding in findings if not finding.note]


# --- import ------------------------------------------------------------------------------


def test_i1_a_variable_that_is_not_literal_keeps_its_assignment() -> None:
    body = "OUT=$PWD/out\nmkdir -p $OUT\nTAG=$(basename a/b)\npython train.py --out $OUT --tag $TAG"
    spec = spec_of(body, "#SBATCH --gpus-per-node=1")
    assert spec["environment"]["setup"].splitlines() == [
        "export OUT=$PWD/out",
        "mkdir -p $OUT",
        "export TAG=$(basename a/b)",
    ]
    assert spec["run"]["command"][-1] == "exec python train.py --out $OUT --tag $TAG"


def test_i1_an_array_of_arguments_arrives_word_by_word() -> None:
    body = 'ARGS=(--a "two words")\nARGS+=(--lr 3)\ntorchrun --nproc-per-node=4 t.py "${ARGS[@]}"'
    spec = spec_of(body, "#SBATCH --gpus-per-node=4")
    assert spec["run"] == {"script": "t.py", "args": ["--a", "two words", "--lr", "3"]}


def test_i2_no_program_is_a_refusal_and_never_the_script_itself() -> None:
    assert "no program was recognised among: module" in refusal_of(make_script("module load cuda"))
    spec = spec_of("srun bash worker.sh 1 2", *TWO_NODES)
    assert spec["run"] == {"command": ["bash", "worker.sh", "1", "2"]}


def test_i2_the_program_of_eval_and_of_a_command_in_a_variable() -> None:
    for body in ('CMD="train.py --lr 1"\neval python $CMD', 'CMD="python train.py --lr 1"\n$CMD'):
        spec = spec_of(body, "#SBATCH --gpus-per-node=1")
        assert spec["run"] == {"script": "train.py", "args": ["--lr", "1"]}


@pytest.mark.parametrize(
    ("launch", "container"),
    [
        (
            "srun --container-image=a+1.sqsh --container-mounts=/d:/d:ro,$PWD:/w python t.py",
            {"image": "a+1.sqsh", "runtime": "pyxis", "binds": ["/d:/d:ro", "$PWD:/w"]},
        ),
        (
            "srun singularity exec --nv -B /data i.sif bash -c 'python t.py'",
            {"image": "i.sif", "runtime": "singularity", "binds": ["/data"]},
        ),
        (
            "srun apptainer run --overlay o.ext3:ro i.sif python t.py",
            {"image": "i.sif", "runtime": "apptainer", "options": ["--overlay", "o.ext3:ro"]},
        ),
        (
            "srun singularity exec --bind=.,/data:/data,/a:/b --home /h i.sif python t.py",
            {
                "image": "i.sif",
                "runtime": "singularity",
                "binds": ["/data", "/a:/b"],
                "options": ["--home", "/h"],
            },
        ),
        ("srun --environment=ngc python t.py", {"image": "ngc", "runtime": "edf"}),
        (
            "srun --container-image=i.sqsh --container-name=c true\n"
            "srun --container-name=c --container-workdir=/w python t.py",
            {"image": "i.sqsh", "runtime": "pyxis"},
        ),
        (
            "srun shifter --image=docker:a/b:1 --module=gpu python t.py",
            {"image": "a/b:1", "runtime": "podman-hpc"},
        ),
        (
            "#SBATCH --image=docker:a/b:2\nsrun shifter --env A=b --env C=d python t.py",
            {
                "image": "a/b:2",
                "runtime": "podman-hpc",
                "options": ["--env", "A=b", "--env", "C=d"],
            },
        ),
        (
            "srun docker run --rm -v /d:/d a/b:1 python t.py",
            {"image": "a/b:1", "runtime": "apptainer", "binds": ["/d"]},
        ),
        (
            "cd work\nsrun apptainer exec -B $PWD/d:/d i.sif python t.py",
            {"image": "$PWD/work/i.sif", "runtime": "apptainer", "binds": ["$PWD/work/d:/d"]},
        ),
    ],
)
def test_i3_a_container_stays_one(launch: str, container: dict[str, Any]) -> None:
    *directives, body = launch.rsplit("\n", 1) if launch.startswith("#") else [launch]
    spec = spec_of(body, *TWO_NODES, *directives)
    assert spec["environment"]["container"] == container
    elsewhere = "--container-workdir" in launch or launch.startswith("cd ")
    assert spec["run"] == ({"command": ["python", "t.py"]} if elsewhere else {"script": "t.py"})


def test_i4_the_interpreter_is_kept_and_is_not_an_option() -> None:
    spec = spec_of("PY=/opt/env/bin/python\nsrun $PY train.py --x", *TWO_NODES)
    assert spec["run"] == {"script": "train.py", "args": ["--x"]}
    assert spec["environment"]["setup"] == "export PATH=/opt/env/bin:$PATH\n"


def test_i5_a_launcher_in_a_variable_is_jobgens_own() -> None:
    body = """\
GPUS=4
LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS --nnodes $SLURM_NNODES \\
    --rdzv_backend c10d --rdzv_endpoint $(hostname):6000"
srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID train.py --lr 1"
"""
    spec = spec_of(body, *TWO_NODES)
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "1"]}
    assert "launch" not in spec


def test_i5_accelerate_stays_the_launcher_of_its_node() -> None:
    body = "srun accelerate launch --num_machines 2 --num_processes 8 --machine_rank $X t.py --lr 1"
    spec = spec_of(body, *TWO_NODES)
    assert spec["launch"] == {"mode": "direct", "processes_per_node": 1}
    command = spec["run"]["command"][-1]
    assert '--machine_rank="$RANK"' in command
    assert '--main_process_ip="$MASTER_ADDR"' in command
    assert command.endswith(" t.py --lr 1")


def test_i6_gpus_of_tasks_and_of_srun_are_those_of_the_nodes() -> None:
    asked = "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-task=1 --mem-per-gpu=10G"
    spec = spec_of("srun python train.py", asked)
    assert spec["resources"]["gpus_per_node"] == 4
    assert spec["resources"]["memory_per_node"] == "40GB"
    # Each task saw one GPU, so each process does; GPUs may have names instead of numbers.
    lines = spec["run"]["command"][-1].partition("exec ")[0]
    for visible, own in {"4,5,6": "5", "GPU-a,GPU-b": "GPU-b", "": "1"}.items():
        shown = f"CUDA_VISIBLE_DEVICES={visible} LOCAL_RANK=1\n{lines}echo $CUDA_VISIBLE_DEVICES"
        assert (
            subprocess.run(["bash", "-c", shown], capture_output=True).stdout.decode() == f"{own}\n"
        )
    spec = spec_of("srun --gpus-per-node=4 -N 2 -n 8 python train.py")
    assert spec["resources"] == {"nodes": 2, "gpus_per_node": 4}


def test_i6_gpus_beside_a_select() -> None:
    text = "#!/bin/bash\n#PBS -l select=1:ncpus=8\n#PBS -l ngpus=4\ncd /x\npython train.py --cuda\n"
    spec = yaml.safe_load(import_script(Script("job.pbs", text)).yaml)
    assert spec["resources"] == {"gpus_per_node": 4, "cpus_per_node": 8}


def test_i7_one_process_stays_one() -> None:
    spec = spec_of("python train.py", "#SBATCH --gres=gpu:2")
    assert spec["launch"] == {"mode": "direct", "processes_per_node": 1}
    # Nor does it see the variables by which it would take itself for one rank of several.
    assert spec["run"]["command"][:3] == ["env", "-u", "RANK"]


def test_i8_the_launch_with_most_processes_is_the_job_and_others_are_named() -> None:
    body = "srun -N 1 -n 1 python prepare.py\nsrun python train.py\nexit 0"
    imported = import_body(body, "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4")
    assert yaml.safe_load(imported.yaml)["run"] == {"script": "train.py"}
    assert [left.line for left in imported.left if left.kind == "lost"] == [4]


def test_i9_what_srun_and_mpiexec_start_is_not_torchruns() -> None:
    spec = spec_of("srun python train.py", "#SBATCH --nodes=2 --ntasks-per-node=4 --gres=gpu:4")
    assert spec["launch"] == {"mode": "direct"}
    text = "#PBS -l select=2:ncpus=8:mpiprocs=4\ncd /x\nmpiexec -n 8 -ppn 4 python -m mpi4py t.py\n"
    spec = yaml.safe_load(import_script(Script("job.pbs", f"#!/bin/bash\n{text}")).yaml)
    assert spec["launch"] == {"mode": "direct", "launcher": "mpiexec", "processes_per_node": 4}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (make_script("ray start --head &\npython t.py", *TWO_NODES), "starts a Ray cluster"),
        (make_script("horovodrun -np 8 python t.py", *TWO_NODES), "horovodrun"),
        (make_script("srun ./wrf.exe", *TWO_NODES), "is not Python"),
        (make_script("set x = 1\npython t.py", shell="#!/bin/tcsh"), "a script for tcsh"),
        (make_script("python t.py", "#SBATCH --account=<ACCOUNT>"), "a place to fill in: '<ACC"),
        (make_script("python {{ script }}"), "a template of Jinja"),
        (make_script('python t.py "open'), "bash cannot read the script"),
        (make_script("for x in a b; do srun python t.py $x; done", *TWO_NODES), "more than once"),
    ],
)
def test_i9_i11_what_cannot_become_a_spec_is_refused_with_its_reason(
    script: Script, reason: str
) -> None:
    assert reason in refusal_of(script)


def test_i12_assignments_of_a_branch_that_is_not_taken_do_not_count() -> None:
    body = 'MODE=a\nif [ "$MODE" = b ]; then LR=1; else LR=2; fi\npython train.py --lr $LR'
    spec = spec_of(body, "#SBATCH --gpus-per-node=1")
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "2"]}


def test_i13_arguments_of_the_script_are_named() -> None:
    imported = import_body("python train.py --lr $1", "#SBATCH --gpus-per-node=1")
    assert [left.text for left in imported.left if left.kind == "check"] == ["ARG1"]
    assert yaml.safe_load(imported.yaml)["environment"]["from_shell"] == ["ARG1"]


def test_lines_of_a_string_over_several_lines_are_counted_from_its_own() -> None:
    command = 'bash -c "\n    source ranks.sh\n    $cmd\n    "'
    body = f'cmd="python train.py --lr 1"\nsrun -l \\\n    {command}'
    imported = import_body(body, *TWO_NODES)
    spec = yaml.safe_load(imported.yaml)
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "1"]}
    assert spec["environment"]["setup"].startswith("source ranks.sh")
    assert [left for left in imported.left if left.kind == "lost"] == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SCRIPT_DIR", '"$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"', False),
        ("NODES", "$(scontrol show hostnames $SLURM_JOB_NODELIST | tr '\\n' ,)", False),
        ("NODE_COUNT", "$(scontrol show hostnames $SLURM_JOB_NODELIST | wc -l)", False),
        ("head_node_ip", "$(hostname --ip-address)", True),
        ("HEAD", "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)", True),
        ("MAIN_HOST", "${nodes_array[0]}", True),
        ("IP", "$(getent hosts n1 | awk '{print $1}')", True),
    ],
)
def test_only_what_tells_the_first_node_is_its_address(name: str, value: str, told: bool) -> None:
    spec = spec_of(f"{name}={value}\nsrun python train.py --where ${name}", *TWO_NODES)
    text = str(spec["run"])
    assert ("$MASTER_ADDR" in text) == told
    assert told or f"{name}=" in str(spec) or name == "NODE_COUNT"  # whose value is known


@pytest.mark.parametrize(
    ("launch", "variables"),
    [
        ("mpirun -np 8 -x A=1 -x MASTER_ADDR=$H -x B=$C -x PATH", ["A=1", "B=7"]),
        ("mpiexec -n 8 --ppn 4 --env A='two words'", ["A='two words'"]),
        ("mpiexec -n 8 -genv A 1 -env B 2", ["A=1", "B=2"]),
        ("srun --export=ALL,A=1", ["A=1"]),
    ],
)
def test_variables_of_the_launcher_are_kept(launch: str, variables: list[str]) -> None:
    spec = spec_of(f"C=7\n{launch} python train.py", *TWO_NODES)
    setup = spec["environment"]["setup"].splitlines()
    assert [line for line in setup if "C=7" not in line] == [f"export {one}" for one in variables]


@pytest.mark.parametrize(
    ("launch", "named"),
    [
        ("mpiexec -n 8 --ppn 4 --cpu-bind depth --depth 8", ["--cpu-bind depth", "--depth 8"]),
        ("mpirun -np 8 --bind-to none --map-by ppr:4:node --mca btl tcp", ["--mca btl tcp"]),
        ("srun torchrun --nnodes=2 --numa-binding=node", ["--numa-binding=node"]),
        ("srun torchrun --nproc-per-node=4", ["torchrun --nproc-per-node=4 train.py"]),
        ("srun --export=NONE", ["--export=NONE"]),
        ("srun singularity run i.sif", ["singularity run"]),
    ],
)
def test_options_of_a_launcher_that_are_not_kept_are_named(launch: str, named: list[str]) -> None:
    program = "python train.py" if "torchrun" not in launch else "train.py"
    imported = import_body(f"{launch} {program}", *TWO_NODES)
    assert [left.text for left in imported.left if left.kind == "check"] == named


def test_variables_of_a_container_alone_are_named_or_kept() -> None:
    launch = "srun --container-image=$I --container-mounts=$OUT_DIR:/o,$D:/d python t.py"
    imported = import_body(launch, *TWO_NODES)
    assert [left.text for left in imported.left if left.kind == "check"] == ["$D, $I, $OUT_DIR"]
    script = make_script(f"D=$(readlink -f x)\n{launch}", *TWO_NODES)
    assert "the container needs '$OUT_DIR:/o,$(readlink -f x):/d'" in refusal_of(script)


def test_a_value_is_not_put_in_before_the_script_has_set_it() -> None:
    body = 'if [ "$FAST" = 1 ]; then export MODE=a; fi\nFAST=1\npython train.py $MODE $FAST'
    assert "uses $FAST" in refusal_of(make_script(body, "#SBATCH --gpus-per-node=1"))


def test_a_number_of_processes_that_only_the_job_knows_is_not_one() -> None:
    body = "N=$(wc -l <other)\nmpiexec -n $N python train.py"
    imported = import_body(body, *TWO_NODES)
    assert yaml.safe_load(imported.yaml)["launch"]["processes_per_node"] == 4  # as many as GPUs
    assert [left.reason for left in imported.left if left.kind == "check"] == [
        "taken for the 4 GPUs of a node"
    ]
    assert "known to the job alone: $N" in refusal_of(make_script(body, "#SBATCH --nodes=2"))


def test_an_array_that_another_file_sets_cannot_be_handed_on() -> None:
    body = 'source params.sh\nsrun python train.py "${PARAMS[@]}"'
    assert "uses the array $PARAMS" in refusal_of(make_script(body, *TWO_NODES))


def test_only_the_directive_that_cannot_stay_is_lost() -> None:
    asked = (
        "#SBATCH --mail-user=me@x.org",
        "#SBATCH --ntasks-per-node=2k",
        "#SBATCH --spread-job",
    )
    imported = import_body("python train.py", *asked)
    assert yaml.safe_load(imported.yaml)["directives"] == ["#SBATCH --spread-job"]
    assert [left.text for left in imported.left if left.kind == "lost"] == [asked[1]]


def test_a_container_is_looked_for_where_the_script_has_gone() -> None:
    body = (
        "cd ..\nI=$(pwd)/a.sqsh\nM=$(pwd):$(pwd)\nsrun --container-image $I --container-mounts $M"
        " --no-container-mount-home --container-writable python t.py"
    )
    assert spec_of(body, *TWO_NODES)["environment"]["container"] == {
        "image": "$PWD/../a.sqsh",
        "runtime": "pyxis",
        "binds": ["$PWD/.."],
        "options": ["--no-container-mount-home", "--container-writable"],
    }


# --- lint --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        'ARGS="--kill-on-bad-exit=1 --cpus-per-task=32"\nsrun $ARGS python t.py',
        'ARGS=(--kill-on-bad-exit=1 -c 32)\nsrun "${ARGS[@]}" python t.py',
        "srun $SITE_ARGS python t.py",
    ],
)
def test_l1_options_in_variables_are_not_missing(body: str) -> None:
    assert rules_of(body, *TWO_NODES) == []


def test_l2_directives_of_an_inner_script_are_its_own() -> None:
    body = "N=2\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=$N\ntorchrun --nnodes=$N t.py\nEOF"
    findings = check(Script("submit.sh", f"#!/bin/bash\n{body}\n"))
    assert [(item.line, item.rule.id) for item in findings] == [(6, "first-node-only")]


def test_l3_one_partition_name_is_no_site() -> None:
    asked = ("#SBATCH -p gputest", "#SBATCH --nodes=4 --ntasks-per-node=1")
    assert "site-limit" not in rules_of("true", *asked)
    asked = (*asked, "#SBATCH --gres=gpu:gh200:4")
    (finding,) = [f for f in check(make_script("true", *asked)) if f.rule.id == "site-limit"][:1]
    assert "known by queue gputest and GPU type gh200" in finding.message


def test_l4_counting_nodes_needs_no_order() -> None:
    text = "#!/bin/bash\n#PBS -l select=2\nsort $PBS_NODEFILE | uniq | wc -l\n"
    assert check(Script("a.pbs", text)) == []


def test_l5_one_node_without_saying_so() -> None:
    body = "torchrun --nnodes=1:2 --nproc-per-node=4 --rdzv_endpoint=localhost:0 t.py"
    assert rules_of(body, "#SBATCH --gres=gpu:4") == []


def test_l6_a_program_in_a_variable() -> None:
    body = (
        "export TORCHRUN=./venv/bin/torchrun\nsrun -K1 -c 32 ${TORCHRUN} --nnodes=2 --node_rank=1 "
        "--rdzv_backend=c10d --rdzv_endpoint=$H:29500 t.py"
    )
    assert rules_of(body, *TWO_NODES) == ["ignored-node-rank", "fixed-port"]


def test_l7_accelerate_has_ports_too() -> None:
    body = 'L="accelerate launch --main_process_port 29500"\nsrun -K1 -c 32 bash -c "$L t.py"'
    assert rules_of(body, *TWO_NODES) == ["fixed-port"]


def test_l8_prose_is_no_directive() -> None:
    assert rules_of("true", "# PBS test driver \u2014 for every machine") == []


def test_l9_helpers_need_no_trap_and_a_trap_is_told_once() -> None:
    trap = "trap cleanup TERM EXIT\nsrun mkdir -p /tmp/x\nsrun rm -rf /tmp/y"
    assert rules_of(trap, *TWO_NODES) == []
    launches = "\nsrun -K1 -c 32 python a.py\nsrun -K1 -c 32 python b.py\nexit $?"
    assert rules_of(trap + launches, *TWO_NODES) == ["foreground-launch"]


def test_a_comment_switches_a_rule_off() -> None:
    body = "export MASTER_PORT=29500  # jobgen: ignore=fixed-port"
    assert rules_of(body) == []
    assert rules_of(body.replace("fixed-port", "srun-kill")) == ["fixed-port"]
