"""What import writes: a spec as a person would have written it, or one that keeps the body."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from importing import import_body, make_script
from support import ROOT, jobgen, plan_of, working_in

from jobgen.batchscript.convert import Imported, import_script
from jobgen.batchscript.lint import check
from jobgen.batchscript.purposes import WHY
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError
from jobgen.rendering.render import render

ONE_GPU = "#SBATCH --nodes=1 --gpus-per-node=1 --cpus-per-task=8"
TWO_NODES = "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4 --cpus-per-task=32"
EACH_GPU = "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4"
SPREAD = {"mode": "direct", "processes_per_node": 1}


def spec_of(body: str, *directives: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(import_body(body, *directives).yaml)
    return loaded


def refusal_of(script: Script) -> str:
    with pytest.raises(SpecError) as refused:
        import_script(script)
    return str(refused.value)


def kept(body: str, *directives: str) -> str:
    """Why the body of a script is kept."""
    imported = import_body(body, *directives)
    assert imported.body, imported.yaml
    assert yaml.safe_load(imported.yaml)["run"] == {"body": imported.body_file}
    (line,) = [line for line in imported.yaml.splitlines() if "The body is kept" in line]
    return line.rpartition("  (")[2].removesuffix(")")


def import_pbs(text: str) -> Imported:
    return import_script(Script("job.pbs", f"#!/bin/bash\n{text}\n"))


def test_a_script_of_two_nodes_becomes_the_spec_that_one_would_write() -> None:
    body = """\
module purge
module load cuda/12.4
source $HOME/venv/bin/activate
export NCCL_DEBUG=WARN OMP_NUM_THREADS=8
nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
head=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
export MASTER_ADDR=$head MASTER_PORT=29500
echo "starts on $head"
MODEL=gpt-small
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_backend c10d \\
    --rdzv_endpoint $head:29500 train.py --model $MODEL --lr 3e-4 --out runs/$SLURM_JOB_ID
echo done"""
    imported = import_body(body, TWO_NODES, "#SBATCH --account=abc --time=2:00:00")
    assert (
        imported.yaml
        == """\
# imported by jobgen from job.sbatch
name: job
scheduler: slurm
account: abc
resources:
  nodes: 2
  gpus_per_node: 4
  cpus_per_node: 32
  walltime: 02:00:00
environment:
  modules:
    first: purge
    load: [cuda/12.4]
  venv: $HOME/venv
  variables:
    NCCL_DEBUG: WARN
    OMP_NUM_THREADS: '8'
run:
  script: train.py
  args: [--model, gpt-small, --lr, '3e-4', --out, {value: runs/$SLURM_JOB_ID, expand: true}]
"""
    )
    assert not [left for left in imported.left if left.kind != "kept"]


@pytest.mark.parametrize(
    ("body", "directive", "run", "launch"),
    [
        ("module load a\npython t.py", ONE_GPU, {"script": "t.py"}, {"mode": "plain"}),
        ("python t.py", ONE_GPU, {"command": ["python", "t.py"]}, {"mode": "plain"}),
        ("srun python t.py", EACH_GPU, {"script": "t.py"}, {"mode": "direct"}),
        ("srun -n 2 python -m a.b", EACH_GPU, {"module": "a.b"}, SPREAD),
        ("torchrun --nproc-per-node=1 t.py", ONE_GPU, {"script": "t.py"}, None),
        (
            "$HOME/v/bin/torchrun --nproc-per-node=1 t.py",
            ONE_GPU,
            {"command": [{"value": "$HOME/v/bin/python3", "expand": True}, "t.py"]},
            None,
        ),
        (
            "conda create -n e\nsrun conda run -n e --live-stream python t.py",
            ONE_GPU,
            {"command": ["srun", "conda", "run", "-n", "e", "--live-stream", "python", "t.py"]},
            {"mode": "plain"},
        ),
        (
            "torchrun --nproc-per-node=gpu --log_dir x t.py",
            "#SBATCH --nodes=1 --gpus-per-node=4",
            {"script": "t.py"},
            None,
        ),
        (
            "torchrun --nproc-per-node=cpu --log_dir x t.py",
            ONE_GPU,
            {"command": ["torchrun", "--nproc-per-node=cpu", "--log_dir", "x", "t.py"]},
            {"mode": "plain"},
        ),
        (
            "accelerate launch --num_processes 4 t.py",
            ONE_GPU,
            {"command": ["accelerate", "launch", "--num_processes", "4", "t.py"]},
            {"mode": "plain"},
        ),
        (
            "python t.py 2>&1 | tee log",
            ONE_GPU,
            {"command": ["python", "t.py"]},
            {"mode": "plain"},
        ),
        (
            "PY=/opt/env/bin/python\n$PY t.py --x",
            ONE_GPU,
            {"command": ["/opt/env/bin/python", "t.py", "--x"]},
            {"mode": "plain"},
        ),
    ],
)  # fmt: skip
def test_a_launch_line_becomes_run_and_launch(
    body: str, directive: str, run: dict[str, Any], launch: dict[str, Any] | None
) -> None:
    spec = spec_of(body, directive)
    assert spec["run"] == run
    assert spec.get("launch") == launch


@pytest.mark.parametrize(
    "launch",
    [
        "uv run torchrun --nproc-per-node=1 t.py",
        "uv run python -m torch.distributed.run --nproc-per-node=1 t.py",
    ],
)
def test_an_agent_in_the_environment_of_uv_has_a_key_for_it(launch: str) -> None:
    spec = spec_of(launch, ONE_GPU)
    assert (spec["environment"], spec["run"]) == ({"uv": True}, {"script": "t.py"})


@pytest.mark.parametrize("before", ["", "cd project\n", "export UV_NO_SYNC=1\n"])
@pytest.mark.parametrize("runner", ["uv run", "uv run --extra gpu", "poetry run", "pixi run -e e"])
def test_an_agent_in_an_environment_without_a_key_keeps_its_words(runner: str, before: str) -> None:
    if before or runner != "uv run":
        spec = spec_of(f"{before}{runner} torchrun --nproc-per-node=1 t.py", ONE_GPU)
        words = [*runner.split(), "torchrun", "--nproc-per-node=1", "t.py"]
        assert (spec["run"]["command"], spec["launch"]) == (words, {"mode": "plain"})
        assert "uv" not in spec.get("environment", {})


@pytest.mark.parametrize("runner", ["uv run --extra gpu", "poetry run", "conda run -n e"])
def test_agents_of_two_nodes_in_such_an_environment_keep_the_body(runner: str) -> None:
    launch = f"srun {runner} torchrun --nnodes=2 --nproc-per-node=4 t.py"
    assert kept(launch, TWO_NODES) == "import does not take over what starts torchrun"


@pytest.mark.parametrize(
    ("launch", "mode"),
    [
        ("singularity exec --nv -B $SCRATCH/d:/d i.sif python t.py", "plain"),
        ("srun apptainer exec --nv i.sif python t.py", "direct"),
        ("srun pythpc fit --config a.yaml", "direct"),
    ],
)
def test_a_program_of_any_kind_keeps_its_words(launch: str, mode: str) -> None:
    spec = spec_of(launch, ONE_GPU if mode == "plain" else EACH_GPU)
    words = launch.removeprefix("srun ").split()
    command = [word["value"] if isinstance(word, dict) else word for word in spec["run"]["command"]]
    assert (command, spec["launch"]) == (words, {"mode": mode})


@pytest.mark.parametrize(
    ("launch", "directive"),
    [
        (f"python t.py {'--long-option 1 ' * 40} > log.txt 2>&1", ONE_GPU),
        ("srun torchrun --nnodes=2 --nproc-per-node=1 t.py 2>&1 | tee log.txt", TWO_NODES),
    ],
)
def test_output_to_files_goes_to_the_logs_and_is_named(launch: str, directive: str) -> None:
    imported = import_body(launch, directive)
    assert yaml.safe_load(imported.yaml)["run"]["script" if "srun" in launch else "command"]
    (check,) = [left for left in imported.left if left.kind == "check"]
    assert check.reason == "its output goes to jobgen's logs instead"


def test_a_script_that_only_srun_finds_is_left_to_srun() -> None:
    assert spec_of("srun t.sh a", ONE_GPU)["run"] == {"command": ["srun", "t.sh", "a"]}


def test_variables_of_the_launch_line_are_exported_before_it() -> None:
    late = spec_of("B=$(date)\nA=$B python t.py", ONE_GPU)
    assert late["environment"]["setup"] == "B=$(date)\nexport A=$B\n"
    assert spec_of("B=x\nA=$B python t.py", ONE_GPU)["environment"]["variables"] == {"A": "x"}
    assert WHY.LAUNCH in kept("A=1\nA=2 python t.py $A", ONE_GPU)
    told = spec_of("WORLD_SIZE=8 X=1 srun python t.py", EACH_GPU)
    assert told["environment"] == {"variables": {"X": "1"}}
    other = spec_of("export WORLD_SIZE=8\nsrun bash t.sh", TWO_NODES)  # which may read it
    assert other["run"]["command"] == ["srun", "bash", "t.sh"]
    assert other["environment"] == {"setup": "export WORLD_SIZE=8\n"}


def test_a_variable_that_only_a_condition_or_builtin_sets_keeps_the_body() -> None:
    for sets in ("[ -e big ] && SIZE=8", "read SIZE < size.txt", "SIZE=1\n[ -e big ] && SIZE=8"):
        assert "comes to" in kept(f'{sets}\npython t.py "$SIZE"', ONE_GPU)


def test_what_only_prints_is_left_out() -> None:
    imported = import_body("srun -l hostname\npython t.py\ndate", ONE_GPU)
    assert "setup" not in imported.yaml
    assert [left.kind for left in imported.left] == ["kept"] * 2


@pytest.mark.parametrize(
    "line",
    [
        "module use $STAGES",
        'eval "$__conda_setup"',
        "gcc -o a a.c",
        "IFS=, read -r -a nodes <<< $SLURM_NODELIST",
        "if [ ! -f data ]; then\n    echo missing\n    exit 1\nfi",
        "cd data || { echo missing; exit 1; }\ntar -xf data.tar || true",
        "ls data && cp data /tmp",
        "set -a\nsource .env || true\nset +a",
        ': "${DATA:?}"',
    ],
)
def test_a_line_that_no_key_says_stays_in_the_setup(line: str) -> None:
    assert line in spec_of(f"{line}\npython t.py", ONE_GPU)["environment"]["setup"]


def test_a_signal_for_a_step_is_that_of_the_scripts_own_srun() -> None:
    spec = spec_of("srun python t.py", ONE_GPU, "#SBATCH --signal=USR1@90")
    assert spec["run"] == {"command": ["srun", "python", "t.py"]}
    assert spec["directives"] == ["#SBATCH --signal=USR1@90"]
    assert WHY.SIGNAL in kept("python t.py", ONE_GPU, "#SBATCH --signal=USR1@90")
    for_bash = "#SBATCH --signal=B:USR1@90"
    assert WHY.SIGNAL in kept("srun python t.py", ONE_GPU, for_bash)


def test_a_variable_from_outside_is_named() -> None:
    imported = import_body("srun python t.py --n $N", EACH_GPU)
    assert yaml.safe_load(imported.yaml)["run"]["args"] == ["--n", {"value": "$N", "expand": True}]
    assert [(left.kind, left.text) for left in imported.left] == [("check", "$N")]
    for value in ("$N", "${N}", '"$N"'):
        imported = import_body(f'N={value}\nsrun python t.py --n "$N"', EACH_GPU)
        assert [left.reason for left in imported.left] == ["it comes from outside the script"]
    (left,) = import_body("python t.py a$N", ONE_GPU).left
    assert left.reason == "it comes from outside the script"
    assert not import_body("N=1\nN+=$N\nsrun python t.py --n $N", EACH_GPU).left


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("python t.py $arg", ["$arg"]),
        ("srun bash -c 'torchrun t.py --n ${N}'", ["$N"]),
        ("python t.py ${arg:-1} $HOME $HOSTNAME $SLURM_JOB_ID", []),
        ("read arg < a\npython t.py $arg", []),
        ("source settings.sh\npython t.py $arg", []),
        ("echo $arg", []),
        ("f() {\nlocal -n to=$1\nto=a\n}\nf arg\npython t.py $arg", []),
        ("f() {\nlocal -a arg\npython t.py ${arg[@]}\n}\nf", []),
        ("f() {\npython t.py $1\n}\nf arg\npython t.py $arg", ["$arg"]),
    ],
)
def test_a_variable_from_outside_is_named_beside_a_kept_body(body: str, names: list[str]) -> None:
    imported = import_body(f"trap x EXIT\n{body}", ONE_GPU)
    assert imported.body
    assert [left.text for left in imported.left if left.reason == WHY.FROM_OUTSIDE] == names


@pytest.mark.parametrize(
    ("directive", "kind"),
    [
        ("-l gpus=2", "check"),
        ("-l nodes=a:ppn=2:gpus=1", "check"),
        ("-l ngpus=2", ""),
        ("-l software=", "kept"),
        ("-l walltime=", "lost"),
        ("-o <path to a folder; see below>", "lost"),
    ],
)
def test_what_openpbs_lacks_and_places_to_fill_in_are_named(directive: str, kind: str) -> None:
    left = import_pbs(f"#PBS {directive}\npython t.py").left
    assert {item.kind for item in left if directive[3:] in item.text} == {kind} - {""}


def test_import_lists_all_that_it_leaves_to_jobgen() -> None:
    asked = "#PBS -N a\n#PBS -N b\n#PBS -j oe\n#PBS -k oed\n#PBS -W block=true"
    asked += "\n#PBS -l select=2:ncpus=4:ngpus=1\nM=a"
    agent = "--rdzv-backend c10d --rdzv-endpoint $M:1 --max-restarts 1 t.py"
    left = import_pbs(f"{asked}\nmpiexec -n 2 --ppn 1 torchrun --nnodes 2 {agent}").left
    assert [item.text for item in left if item.kind == "kept"] == [
        "#PBS -N a",
        "#PBS -j oe",
        "#PBS -k oed",
        "#PBS -W block=true",
        "--rdzv-backend --rdzv-endpoint",
    ]


def test_a_launcher_that_hides_exit_codes_is_told() -> None:
    imported = import_pbs("#PBS -l select=2:ncpus=4,place=scatter\ncd /a\npbsdsh -- python t.py")
    assert imported.body
    assert "lint, line 4: pbsdsh ends with 0 even if its tasks fail" in imported.yaml


def test_a_folder_whose_name_is_misspelt_is_none() -> None:
    for name, at_home in (("PBS_O_WORKDIR", False), ("PBS_0_WORKDIR", True)):
        spec = yaml.safe_load(import_pbs(f"cd ${name}\npython t.py").yaml)
        assert ("    # PBS starts" in spec.get("environment", {}).get("setup", "")) == at_home


def test_a_line_that_only_fails_is_left_out() -> None:
    imported = import_body("~\npython t.py\n~", ONE_GPU)
    assert not imported.body
    assert [left.kind for left in imported.left] == ["kept", "kept"]


def test_the_folder_of_a_file_that_pbs_writes_at_once_is_named() -> None:
    def asks(directives: str) -> bool:
        left = import_pbs(f"{directives}\ncd $PBS_O_WORKDIR\n{before}python t.py").left
        return any("its folder must exist" in item.reason for item in left)

    before = ""  # nobody makes the folder, so that it is there before the job or never
    assert not asks("#PBS -o logs/\n#PBS -j oe")
    before = "mkdir -p logs\n"

    assert asks("#PBS -o logs/\n#PBS -j oe")
    assert asks("#PBS -e /a/b.err")
    assert not asks("#PBS -o out.txt")
    assert not asks("#PBS -o logs/\n#PBS -koed")


@pytest.mark.parametrize(
    ("directive", "body", "reason"),
    [
        ("-o $PBS_JOBID.out", "python t.py", "Torque alone completes"),
        ("-o out.txt", "python t.py", ""),
        ("-l select=4:ncpus=8", "mpiexec -n 4 python t.py", "several chunks on a node"),
        ("-l select=1:ncpus=8+1:ncpus=4", "mpiexec -n 2 python t.py", ""),  # as in the script
        ("-l select=4:ncpus=8", "trap x EXIT\nmpiexec -n 4 python t.py", ""),
        ("-l select=4:ncpus=8,place=scatter", "mpiexec -n 4 python t.py", ""),
        ("-l place=excl,select=4:ncpus=8", "mpiexec -n 4 python t.py", "several chunks on a node"),
        ("-l place=free,select=4:ncpus=8", "mpiexec -n 4 python t.py", ""),
        ("-l select=1:ncpus=8", "python t.py", ""),
        ("-l select=1:host=a+1:host=b", "mpiexec -n 2 python t.py", ""),
        ("-v DATA", "python t.py", "from outside"),
        ("-v LR=3,DATA", "python t.py --lr $LR", "from outside"),
        ("-v LR=3", "python t.py --lr $LR", ""),
    ],
)
def test_a_directive_of_pbs_that_leaves_something_open_is_named(
    directive: str, body: str, reason: str
) -> None:
    imported = import_pbs(f"#PBS {directive}\ncd $PBS_O_WORKDIR\n{body}")
    checks = [left.reason for left in imported.left if left.kind == "check"]
    assert [reason in one for one in checks] == [True][: bool(reason)]


def test_a_kept_body_is_spread_as_its_script_is() -> None:
    for asked, differs in (("-n 4", False), ("-n 4 --ntasks-per-node=2", True)):
        imported = import_body("trap x EXIT\nsrun python t.py", f"#SBATCH {asked}")
        assert imported.body
        assert [left.reason == WHY.MORE_NODES for left in imported.left] == [True] * differs
        spec = yaml.safe_load(imported.yaml)
        assert ("nodes" in spec["resources"]) == differs


def test_the_group_of_a_pbs_job_is_no_account() -> None:
    asked = "#PBS -A sns\n#PBS -W group_list=cades\n#PBS -l select=1\ncd $PBS_O_WORKDIR"
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        imported = import_pbs(f"{asked}\n{body}")
        assert bool(imported.body) == ("trap" in body)
        assert yaml.safe_load(imported.yaml)["account"] == "sns"
        script = render(plan_of(yaml.safe_load(imported.yaml)))
        assert "#PBS -A sns\n" in script
        assert "#PBS -W group_list=cades\n" in script
    gadi = import_pbs("#PBS -P vp91\n#PBS -A a\n#PBS -l ncpus=4,storage=gdata/x,wd\npython t.py")
    spec = yaml.safe_load(gadi.yaml)
    assert (spec["site"], spec["account"]) == ("nci-gadi", "vp91")
    assert "#PBS -A a" in spec["directives"]


def test_a_remark_behind_a_switch_of_pbs_is_no_value() -> None:
    spec = yaml.safe_load(import_pbs("#PBS -V exports all\ncd $PBS_O_WORKDIR\npython t.py").yaml)
    assert spec["directives"] == ["#PBS -V"]


def test_a_word_among_the_resources_of_pbs_is_one_of_them() -> None:
    asked = "#PBS -l walltime=1:00:00,wd,mem=8GB,ncpus=4"
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        spec = yaml.safe_load(import_pbs(f"{asked}\n{body}").yaml)
        assert "environment" not in spec  # as the job stays in the folder of submission
        assert spec["resources"]["walltime"] == "01:00:00"


def test_of_an_option_that_is_given_again_a_kept_body_has_the_last_one() -> None:
    asked = "#SBATCH --gres=gpu:1 --gres=shard:8\n#SBATCH --nodes=1"
    imported = import_body("trap x EXIT\npython t.py", asked)
    assert [x for x in yaml.safe_load(imported.yaml)["directives"] if "gres" in x] == [
        "#SBATCH --gres=shard:8"
    ]
    assert [left.text for left in imported.left if left.kind == "kept"] == ["#SBATCH --gres gpu:1"]


def test_an_option_of_pbs_takes_the_next_word() -> None:
    imported = import_pbs("#PBS -l -walltime=1:00:00\ncd $PBS_O_WORKDIR\npython t.py")
    assert yaml.safe_load(imported.yaml)["directives"] == ["#PBS -l -walltime=1:00:00"]


def test_an_open_variable_without_quotes_may_be_several_words() -> None:
    assert kept("srun python t.py $MORE", *EACH_GPU.split("\n"))


def test_a_number_is_one_word() -> None:
    imported = import_body("N=$(wc -l < hosts)\npython t.py --n $N", ONE_GPU)
    assert {"value": "$N", "expand": True} in yaml.safe_load(imported.yaml)["run"]["command"]
    assert not imported.left


@pytest.mark.parametrize(
    "number",
    ["$(( (A + 3) / 4 ))", '"$((A * (B + (C - 1))))"', "$(($(nproc) / 2))"],
)
def test_a_sum_is_one_word_whatever_stands_in_it(number: str) -> None:
    before = f"A=$(wc -l < hosts)\nB=2\nC=$A\nN={number}"
    for word in ("--n $N", "$N", "--n=$N"):
        imported = import_body(f"{before}\npython t.py {word}", ONE_GPU)
        assert not imported.body
    assert "may split $N" in kept("N=$(ls)\npython t.py --n $N", ONE_GPU)


def test_what_a_launcher_starts_is_a_program() -> None:
    prints = "python -c 'import torch; print(torch.cuda.is_available())'"
    assert kept(f"srun {prints}\nsrun python t.py", *EACH_GPU.split("\n"))
    spec = spec_of(f"{prints}\nsrun python t.py", *EACH_GPU.split("\n"))
    assert "environment" not in spec


def test_a_count_of_nodes_that_nobody_asks_for_is_named() -> None:
    imported = import_body("n=$(wc -l < $PBS_NODEFILE)\npython t.py --n $n", "#PBS -N a")
    assert ("check", "$PBS_NODEFILE") in [(left.kind, left.text) for left in imported.left]


def test_arguments_after_the_program_are_those_of_the_spec() -> None:
    body = 'SEED=${1:-7}\nsrun python t.py --seed $SEED "${@}"'
    imported = import_body(body, EACH_GPU)
    assert yaml.safe_load(imported.yaml)["run"]["args"] == ["--seed", "7"]
    left = [(left.line, left.kind, left.text) for left in imported.left]
    assert left == [(4, "check", "SEED=${1:-7}"), (5, "lost", '"${@}"')]
    spec = spec_of("mkdir ${1:-a}\npython t.py", ONE_GPU)
    assert "set --" not in spec["environment"]["setup"]
    for optional in ("${1:-7}", "${1-}", '"${1:-$HOME/a}"', "${1:=${HOME}/a}"):
        (left,) = import_body(f"A={optional}\ntrap x EXIT\npython t.py $A", ONE_GPU).left
        assert (left.kind, left.text) == ("check", f"A={optional}")
    for needed in ("$1", "${1:?none}", "${1:-$2}", "${1:-a} $#", "${@:1}"):
        imported = import_body(f"A={needed}\ntrap x EXIT\npython t.py $A", ONE_GPU)
        assert [left.kind for left in imported.left].count("lost") == 1
    assert import_body("CUDA_VISIBLE_DEVICES=$1\ntrap x EXIT\na", ONE_GPU).left
    assert not import_body("X=$1\ntrap x EXIT\na", ONE_GPU).left


def test_an_argument_of_the_script_is_a_place_to_fill_in() -> None:
    body = """\
if [ "$#" -lt 2 ]; then
    echo "Usage: sbatch $0 MODEL SEED"
    exit 1
fi
MODEL=$1
srun python t.py --model models/$MODEL --seed "${2}" --name '$3' "${@:11}" ${10}"""
    imported = import_body(body, EACH_GPU)
    assert yaml.safe_load(imported.yaml)["run"]["args"] == (
        ["--model", "models/<1>", "--seed", "<2>", "--name", "$3", "<10>"]
    )
    lost = [left.text for left in imported.left if left.kind == "lost"]
    assert lost == ['"$#"', "MODEL=$1", '"${2}"', '"${@:11}"', "${10}"]


def test_arguments_before_the_program_keep_the_body() -> None:
    for early in ("cat > c <<EOF\n$1\nEOF", "mkdir -p $1 ${3:-a}"):
        body = f"{early}\npython t.py c"
        assert kept(body, ONE_GPU) == WHY.OF_ARGUMENTS
        kinds = [left.kind for left in import_body(body, ONE_GPU).left]
        assert kinds == ["lost", "check"][: 1 + ("3:-" in early)]


def test_a_shell_on_each_node_is_a_process_of_its_own() -> None:
    spec = spec_of("export MASTER_PORT=29500\nsrun bash run.sh --n $SLURM_NNODES", TWO_NODES)
    assert spec["launch"] == {"mode": "plain"}
    assert spec["run"] == {"command": ["bash", "run.sh", "--n", "2"]}
    assert "environment" not in spec
    assert spec_of("srun bash run.sh", EACH_GPU)["launch"] == {"mode": "direct"}
    assert "never join" in kept("srun deepspeed t.py", TWO_NODES)


@pytest.mark.parametrize(
    ("early", "main", "script"),
    [
        ("pip install x", "torchrun --nproc-per-node=1 t.py", "t.py"),
        ("python - <<EOF\nimport torch\nEOF", "python t.py", None),
        ("module load a\npython -m venv v", "python t.py", "t.py"),
    ],
)
def test_what_gets_things_ready_on_one_node_is_the_setup(
    early: str, main: str, script: str | None
) -> None:
    spec = spec_of(f"{early}\n{main}", ONE_GPU)
    assert early.splitlines()[-1] in spec["environment"]["setup"]
    assert spec["run"].get("script") == script
    spec = spec_of(f"{early}\nsrun --mpi=pmix python t.py", EACH_GPU)
    assert early.splitlines()[-1] in spec["environment"]["setup"]


@pytest.mark.parametrize(
    "early",
    [
        *("site_python 3.9", "python prepare.py", "allennlp train a.json", "./configure.sh"),
        *("cd data || exit\npython preprocess.py", "ls data && python preprocess.py"),
    ],
)
def test_a_program_that_is_not_known_to_get_things_ready_keeps_the_body(early: str) -> None:
    for main in ("python t.py", "torchrun --nproc-per-node=1 t.py", "srun ./a"):
        assert kept(f"{early}\n{main}", ONE_GPU) == WHY.SEVERAL


@pytest.mark.parametrize(
    "block",
    [
        'for d in a b; do\n    rsync -r "$d" /tmp\ndone',
        "for d in a b; do echo $d; done",
        'if [ $? -eq 0 ]; then\n    eval "$__conda_setup"\nfi',
        "if [ -d a ]; then cd a; fi",
        "case $USER in a) module load b;; esac",
        "f() { date; }",
        "(cd a && make)",
    ],
)
def test_a_block_that_does_more_than_to_print_or_end_the_job_keeps_the_body(block: str) -> None:
    assert kept(f"{block}\npython t.py", ONE_GPU) == WHY.BLOCK


@pytest.mark.parametrize(
    "line", ["bash -c '{}'", "uv run bash -lc '{}'", "apptainer run a sh -c '{}'"]
)
def test_what_a_shell_finds_in_its_words_keeps_the_body(line: str) -> None:
    own = spec_of("bash -e train.sh -g 4 -c a", ONE_GPU)  # an option of the script
    assert own["run"]["command"] == ["bash", "-e", "train.sh", "-g", "4", "-c", "a"]
    assert kept("bash -eo pipefail -c 'python t.py | sort'", ONE_GPU) == WHY.LINES
    agent = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID t.py"
    for program in (agent, "source a.sh; python t.py", "source a.sh\npython t.py"):
        assert kept(f"srun {line.format(program)}", TWO_NODES) == WHY.LINES


def test_a_folder_that_the_setup_goes_to_has_the_venv() -> None:
    for goes in ("cd a || exit", "cd a || exit 1", "cd a && ls", "cd a || { echo no; exit 1; }"):
        spec = spec_of(f"{goes}\nexport D=$PWD/d\nsource v/bin/activate\npython t.py", ONE_GPU)
        assert list(spec["environment"]) == ["setup"]


@pytest.mark.parametrize(
    "count",
    [
        *("$(wc -l < $PBS_NODEFILE)", '"`cat "${PBS_NODEFILE}" | sort | uniq | wc -l`"'),
        *("$(sort -u $PBS_NODEFILE | wc -l)", "$(uniq $PBS_NODEFILE | wc -l)"),
    ],
)
def test_nodes_that_pbs_lists_are_as_many_as_the_job_has(count: str) -> None:
    line = "mpiexec -n $N --ppn 1 python t.py"
    head = "#PBS -l select=3:ncpus=8:ngpus=4\ncd $PBS_O_WORKDIR"
    spec = yaml.safe_load(import_pbs(f"{head}\nN={count}\n{line}").yaml)
    assert spec["resources"]["nodes"] == 3
    assert spec["run"] == {"command": ["mpiexec", "-n", "3", "--ppn", "1", "python", "t.py"]}
    other = import_pbs(f"{head}\nN={count}\n{line.replace('python', 'torchrun')}")
    assert WHY.LAUNCH in other.yaml


@pytest.mark.parametrize(
    ("launcher", "is_jobgens"),
    [
        ("mpiexec -n 2 --ppn 1 --depth 32 --cpu-bind depth", True),
        ("mpirun -np 2 --hostfile $PBS_NODEFILE --map-by ppr:1:node -x MASTER_ADDR", True),
        ("pbsdsh --", True),
        ("mpiexec -n 1", False),
        ("mpiexec -n 2 -ppn 2", False),
        ("mpiexec -n 2 --ppn 1 --hosts a,b", False),
        ("mpiexec -n 2 --ppn 1 --env OMP_NUM_THREADS=4", False),
    ],
)
def test_an_agent_that_mpi_starts_on_each_node_is_jobgens(launcher: str, is_jobgens: bool) -> None:
    """As one that srun starts; but not on some of the nodes, twice, or in another environment."""
    agent = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=$M:1 t.py"
    body = f"cd $PBS_O_WORKDIR\nM=$(head -n1 $PBS_NODEFILE)\n{launcher} {agent}"
    spec = yaml.safe_load(import_pbs(f"#PBS -l select=2:ncpus=32:ngpus=4\n{body}").yaml)
    assert (spec["run"] == {"script": "t.py"}) is is_jobgens


def test_a_line_of_perl_or_python_that_is_read_leaves_nothing_behind() -> None:
    body = "H=`perl -le 'print $ENV{A}'`\necho $(python -c 'import torch; print(torch)')\n"
    line = "srun torchrun --nnodes=2 --nproc-per-node=4 --master-addr=$H t.py"
    assert "environment" not in spec_of(body + line, TWO_NODES)
    assert WHY.SETUP in kept(f"H=$(python a.py)\n{line}", TWO_NODES)


def test_the_ranks_of_an_agents_processes_are_the_agents_to_say() -> None:
    ranks = "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID\n"
    spec = spec_of(f"{ranks}srun torchrun --nnodes=2 --nproc-per-node=4 t.py", TWO_NODES)
    assert spec["run"] == {"script": "t.py"}
    assert "environment" not in spec


@pytest.mark.parametrize(
    "end",
    [
        "if [ $? -eq 0 ]; then\n  echo done\nelse\n  echo failed\n  exit 1\nfi\ndeactivate",
        "rc=$?\nif (( rc != 0 )); then date; exit $rc; fi\nexit $rc",
        "if [ -f a.pt ]; then ls -l a.pt; fi\nls out || true\nwait",
        "cd -\npopd > /dev/null",
    ],
)
def test_what_only_looks_at_the_outcome_is_not_needed(end: str) -> None:
    imported = import_body(f"python t.py\n{end}", ONE_GPU)
    assert yaml.safe_load(imported.yaml)["run"] == {"command": ["python", "t.py"]}
    assert {left.kind for left in imported.left} == {"kept"}


def test_bytes_that_are_no_utf_8_stay_in_the_body_alone(tmp_path: Path) -> None:
    head, body = b"#!/bin/bash\n", b"export A=caf\xe9\ntrap x EXIT\npython t.py \xe9\n"
    (tmp_path / "a.sbatch").write_bytes(head + b"#SBATCH --nodes=1 --comment=\xe9\n" + body)
    with working_in(tmp_path):
        ended = jobgen("import", "a.sbatch", "-o", "a.yaml")
        assert (ended.code, "--comment=?" in ended.err) == (9, True)
        assert Path("a.body.sh").read_bytes() == head + body
        assert jobgen("render", "a.yaml").code == 0
    for line in ("export A=caf\udce9", "mkdir caf\udce9", "A=caf\udce9\necho $A >a"):
        assert kept(f"{line}\npython t.py", ONE_GPU) == WHY.KEY
    assert not import_body("# caf\udce9\necho caf\udce9\npython t.py", ONE_GPU).body


def test_a_collection_of_modules_is_no_module() -> None:
    spec = spec_of("ml restore torch\npython t.py", ONE_GPU)
    assert "ml restore torch" in spec["environment"]["setup"]


def test_a_home_folder_in_a_variable_is_that_of_the_job() -> None:
    body = "D=~/x\nsrun shifter --env P=$D python t.py"
    assert {"value": "P=$HOME/x", "expand": True} in spec_of(body, EACH_GPU)["run"]["command"]


def test_values_that_add_to_a_variable_one_after_the_other_are_one() -> None:
    body = "export PATH=/a:$PATH\nexport PATH=${PATH}:/b L=/l\nexport PATH=/c:${PATH}\npython t.py"
    environment = spec_of(body, ONE_GPU)["environment"]
    assert environment["variables"]["PATH"] == {"value": "/c:/a:$PATH:/b", "expand": True}
    assert "setup" not in environment


@pytest.mark.parametrize("line", ["export PATH=$(a):$PATH", "export L=1 PATH=$(a):$PATH"])
def test_a_value_of_what_the_setup_sets_is_set_there(line: str) -> None:
    environment = spec_of(f"{line}\nexport OLD=$PATH\npython t.py", ONE_GPU)["environment"]
    assert "OLD" not in environment.get("variables", {})
    assert environment["setup"].endswith("export OLD=$PATH\n")


@pytest.mark.parametrize(
    "later", ["export PATH=/b:$PATH", "export PATH=/b", "export PATH=${PATH}x"]
)
def test_a_value_that_another_has_taken_over_stays_for_it(later: str) -> None:
    body = f"export PATH=/a:$PATH\nexport OLD=$PATH\n{later}\npython t.py"
    environment = spec_of(body, ONE_GPU)["environment"]
    assert list(environment["variables"]) == ["PATH", "OLD"]
    assert environment["variables"]["PATH"]["value"] == "/a:$PATH"
    assert later in environment["setup"]


@pytest.mark.parametrize(
    ("body", "setup"),
    [
        ("source /e/bin/activate\nmodule load cuda/12 cuDNN", ""),
        ("source /e/bin/activate\nml nccl/2.1-cuda12\nml load cuda", ""),
        ("export PYTHONPATH=/p\nsource /e/bin/activate", ""),
        ("export LD_LIBRARY_PATH=/l CUDA_HOME=/c\nsource /e/bin/activate", ""),
        ("source /e/bin/activate\nmodule load cuda python/3", "module load cuda python/3\n"),
        ("source /e/bin/activate\nmodule load cuda-quantum", "module load cuda-quantum\n"),
        ("conda activate e\nmodule load cuda", "module load cuda\n"),
        ("export PATH=/p:$PATH\nsource /e/bin/activate", "source /e/bin/activate\n"),
        ("export PYTHONHOME=/p\nsource /e/bin/activate", "source /e/bin/activate\n"),
        ("export LD_LIBRARY_PATH=/l\nconda activate e", "conda activate e\n"),
    ],
)
def test_what_a_venv_neither_has_nor_reads_may_stand_beside_it(body: str, setup: str) -> None:
    environment = spec_of(f"{body}\npython t.py", ONE_GPU)["environment"]
    assert environment.get("setup", "") == setup


def test_what_is_not_in_jobgens_order_stays_in_the_setup_as_it_is() -> None:
    body = "export PATH=/x:$PATH\nmodule load a\nulimit -n 4096\ncd work\npython t.py"
    environment = spec_of(body, ONE_GPU)["environment"]
    assert environment["variables"] == {"PATH": {"value": "/x:$PATH", "expand": True}}
    lines = environment["setup"].splitlines()
    assert lines == ["module load a", "ulimit -n 4096 || true", "cd work"]


@pytest.mark.parametrize(
    ("body", "directive", "reason"),
    [
        ("for i in 1 2; do python t.py $i; done", ONE_GPU, WHY.BLOCK),
        ("python a.py\npython b.py\npython c.py", ONE_GPU, WHY.SEVERAL),
        ("python make_a.py\npython make_b.py", ONE_GPU, WHY.SEVERAL),
        ("srun python a.py\nsrun python b.py", EACH_GPU, WHY.SEVERAL),
        ("torchrun --nnodes=2 --nproc-per-node=4 t.py", TWO_NODES, "no launcher that jobgen knows"),
        ("srun torchrun --nnodes=4 --nproc-per-node=4 t.py", TWO_NODES, WHY.LAUNCH),
        ("srun torchrun --nnodes=2 t.py", EACH_GPU, "4 torchrun agents start on each node"),
        ("mpirun -n 4 a", "#SBATCH -n 4", "may spread its tasks"),
        ("srun -N 2 -n 8 apptainer exec a.sif mpirun -n 8 python3 t.py", EACH_GPU, WHY.LAUNCH),
        ("srun -w a serve &\nsrun -w b train &\nwait", TWO_NODES, WHY.SEVERAL),
        ("for i in 1 2; do\npython t.py $i &\nwait\ndone", ONE_GPU, WHY.BLOCK),
        ("mpiexec -n 8 accelerate launch t.py", EACH_GPU, WHY.LAUNCH),
        ("srun ./wrf.sh | tee log | grep loss", EACH_GPU, WHY.LAUNCH),
        ("srun python t.py --rank $SLURM_PROCID", EACH_GPU, "of the first node and task"),
        ("export RANK=$SLURM_PROCID\nsrun python t.py", EACH_GPU, WHY.SETUP),
        ("export SLURM_CPU_BIND=x\nsrun torchrun --nnodes=2 t.py", TWO_NODES, WHY.SETUP),
        ("srun python t.py", "#SBATCH --ntasks=8", "may spread its tasks"),
        ("python $1", ONE_GPU, "the arguments of the script"),
        (
            "srun torchrun --nnodes=2 --nproc-per-node=4 $1 --lr 1",
            TWO_NODES,
            "the arguments of the script",
        ),
        ("python t.py --lr $@", ONE_GPU, "the arguments of the script"),
        ("torchrun --nproc-per-node 1 $*", ONE_GPU, "the arguments of the script"),
        ("P=$(which x)\nsrun $P python t.py", ONE_GPU, "import does not take over srun's $P"),
        ("source a\nsrun --env=$E ./a", EACH_GPU, "knows what $E comes to"),
        ("srun --env=a torchrun --nnodes=2 t.py", TWO_NODES, "take over srun's --env"),
        ("python setup.py install", ONE_GPU, "no line starts a program"),
        ("srun --container-name=a true\nsrun --container-name=a b", EACH_GPU, WHY.SEVERAL),
        ("srun python t.py *.npy", EACH_GPU, "knows what *.npy comes to"),
        ("srun python t.py --n $RANDOM", EACH_GPU, "knows what $RANDOM comes to"),
        ("source my.sh\nsrun python t.py --n $N", EACH_GPU, "knows what $N comes to"),
        ("srun accelerate launch t.py", EACH_GPU, WHY.LAUNCH),
        ("python $@", ONE_GPU, "the arguments of the script"),
        ("source my.sh\npython t.py $X/a", ONE_GPU, "knows what $X comes to"),
        ("srun python t.py < in", ONE_GPU, WHY.LAUNCH),
        ("python t.py < in", "#SBATCH --nodes=2", "on several nodes"),
        ("python t.py", "#SBATCH --nodes=2", WHY.FIRST_NODE),
        ("A=$(./a)\n$A t.py", "#SBATCH --nodes=2", WHY.BASH),
        ("set -o pipefail\npython t.py | sort > out", ONE_GPU, WHY.LAUNCH),
        ("source my.sh\nmy_program < in", ONE_GPU, WHY.LAUNCH),
        ("conda activate a && python t.py", ONE_GPU, WHY.LAUNCH),
        ("A=(a b)\npython t.py < $A", ONE_GPU, WHY.LAUNCH),
        ("python t.py --n $SLURM_NTASKS < in", ONE_GPU, WHY.LAUNCH),
        ("A=(x)\npython t.py < $A", ONE_GPU, WHY.LAUNCH),
        ("python t.py | grep x slurm-$SLURM_JOB_ID.out", ONE_GPU, WHY.LAUNCH),
        ("python t.py < in | tee {}".format("a" * 600), ONE_GPU, WHY.LAUNCH),
        ("cd a || srun python t.py", ONE_GPU, WHY.LAUNCH),
        ("trap 'touch STOP' USR1\npython t.py", ONE_GPU, WHY.BASH),
        ("python t.py", "#SBATCH --signal=B:USR1@60", WHY.SIGNAL),
        ("python t.py <(cat x)", ONE_GPU, WHY.BASH),
        ("python t.py\ncp out $HOME", ONE_GPU, WHY.AFTER),
        (
            "srun -N 2 apptainer exec i.sif torchrun --nnodes=2 t.py",
            TWO_NODES,
            "what starts torchrun",
        ),
        ("a=$b\nsource conf.sh\nsrun python t.py $a", EACH_GPU, "split $a into"),
        ("python t.py &\nwait", ONE_GPU, WHY.LAUNCH),
        ("export A=1\nA+=2\npython t.py", ONE_GPU, WHY.SETUP),
        ("X=1\nunset X\nsrun python t.py $X", EACH_GPU, "what $X comes to"),
        ("printf -v X %03d 7\npython t.py $X", ONE_GPU, WHY.BASH),
        ("if [ -f x ]; then exit; fi\npython t.py", ONE_GPU, WHY.SETUP),
        ("f() { python t.py; }\nf", ONE_GPU, WHY.BLOCK),
        ("if [ $A ]; then\npython a.py\nfi\npython t.py", ONE_GPU, WHY.BLOCK),
        (
            "if [ $A ]; then\npython prepare.py\nfi\nsrun torchrun --nnodes=2 t.py",
            TWO_NODES,
            WHY.BLOCK,
        ),
        ("python prepare.py\nif [ $A ]; then\npython t.py\nfi", ONE_GPU, WHY.BLOCK),
        ("set -a\nA=1\nset +a\npython t.py", ONE_GPU, WHY.SETUP),
        ("set -e\n[ $Z ] && A='a b'\ncat x && python t.py $A", ONE_GPU, WHY.LAUNCH),
        ("f() { echo $1; }\nexport X=$(f a)\npython t.py", ONE_GPU, WHY.BLOCK),
        (
            "srun torchrun --nnodes=2 --nproc_per_node=cpu t.py",
            TWO_NODES,
            "which number cpu is",
        ),
        ("eval 'python t.py | sort'", ONE_GPU, WHY.BASH),
        ("C='python t.py'\neval $C", ONE_GPU, WHY.BASH),
        ("E=$PWD/a\nsrun -l $E --x 1", EACH_GPU, WHY.LAUNCH),
        ("(cd a; cp b c)\npython t.py", ONE_GPU, WHY.BLOCK),
        ("while :; do date; done > log &\npython t.py", ONE_GPU, WHY.BLOCK),
        ('X=$(srun hostname)\n./a --x "$X"', ONE_GPU, WHY.SETUP),
        ("srun cp a b\npython t.py", ONE_GPU, WHY.SETUP),
        ("python t.py\nif [ -f x ]; then echo; fi > y", ONE_GPU, WHY.AFTER),
        ("python t.py\nif [ -f x ]; then echo; exit 1; fi", ONE_GPU, WHY.AFTER),
        ("python t.py\n[ -f x ] || exit 1", ONE_GPU, WHY.AFTER),
        ("python t.py\nif [ -f x ]; then cp x y; fi", ONE_GPU, WHY.BLOCK),
        ("A=1 IFS=,\npython t.py", ONE_GPU, WHY.BASH),
        ("scontrol update job=1 name=a\npython t.py", ONE_GPU, WHY.BASH),
        ("singularity exec i.sif bash <<E\npython t.py\nE", ONE_GPU, "it reads the lines below"),
        ('srun bash -c "echo \\$SLURM_PROCID $USER; ./a"', EACH_GPU, WHY.LINES),
    ],
)
def test_what_only_bash_understands_keeps_its_body(body: str, directive: str, reason: str) -> None:
    assert reason in kept(body, directive)


@pytest.mark.parametrize(
    ("before", "line", "directive"),
    [
        ("", "srun -N 1 python t.py", EACH_GPU),
        ("", "srun --mpi=pmix python t.py", EACH_GPU),
        ("", "mpirun -n 4 a", "#SBATCH -N 1 --ntasks-per-node=4"),
        ("", "horovodrun -np 4 python t.py", "#SBATCH -N 1 --ntasks-per-node=4"),
        ("export T=$(date)\n", "srun python t.py", EACH_GPU),
        ("cp -r data /tmp || true\n", "srun python t.py", EACH_GPU),
        ("", "mpiexec -n 8 python t.py", EACH_GPU),
    ],
)
def test_what_jobgen_cannot_launch_its_own_launcher_does(
    before: str, line: str, directive: str
) -> None:
    spec = spec_of(before + line, directive)
    assert spec["run"] == {"command": line.split()}
    assert spec["launch"] == {"mode": "plain", "processes_per_node": 4}
    assert spec.get("environment", {}).get("setup", "").endswith(before)


def test_what_mpirun_takes_for_slots_stays_as_it_was_asked_for() -> None:
    """Without tasks Slurm tells mpirun of a slot for each CPU of a whole node."""
    asked = "#SBATCH --nodes=2 --ntasks=2 --ntasks-per-node=1"
    imported = import_body("mpirun -n 2 a", asked)
    assert yaml.safe_load(imported.yaml)["launch"] == {"mode": "plain", "processes_per_node": 1}
    assert "#SBATCH --ntasks-per-node=1\n" in render(plan_of(yaml.safe_load(imported.yaml)))


def test_a_kept_body_is_the_script_without_its_directives(tmp_path: Path) -> None:
    text = "#!/bin/bash -l\n#SBATCH --nodes=2\n# a comment\nsrun a; srun b  # two\n"
    (tmp_path / "old.sbatch").write_text(text)
    with working_in(tmp_path):
        ended = jobgen("import", "old.sbatch", "-o", "job.yaml")
        assert ended.code == 0, ended.err
        assert Path("old.body.sh").read_text() == text.replace("#SBATCH --nodes=2\n", "")
        rendered = jobgen("render", "job.yaml")
        assert rendered.code == 0, rendered.err
        again = jobgen("import", "old.sbatch", "-o", "job.yaml")
        # Under another name, the same body is run, which stays as it is.
        other = jobgen("import", "old.sbatch", "-o", "new.yaml")
        Path("old.body.sh").write_text("changed")
        third = jobgen("import", "old.sbatch", "-o", "third.yaml")
        assert (third.code, Path("old.body.sh").read_text()) == (2, "changed")
    assert (again.code, other.code) == (2, 0)
    assert "already exists" in again.err
    assert "new.yaml: written" in other.err


# A script, and what import prints of the fault that its body keeps.
STILL_FAULTY = [
    (
        f"#!/bin/bash\n{TWO_NODES}\nexport A=1\ntorchrun --nnodes 2 t.py",
        "to fix it, write in the spec, instead of run.body:\n"
        "  environment: {variables: {A: '1'}}\n  run: {script: t.py}\n",
    ),
    (
        "#!/bin/bash\n#PBS -l select=2:ncpus=4:ngpus=2 -l place=scatter\ncd $PBS_O_WORKDIR\n"
        "torchrun --nnodes 2 --nproc-per-node 4 -m t --lr 3",
        "  run: {module: t, args: [--lr, '3']}\n  launch: {processes_per_node: 4}\n",
    ),
    (  # jobgen would keep the body with a launcher, too
        f"#!/bin/bash\n{TWO_NODES}\ntrap x EXIT\ntorchrun --nnodes 2 t.py",
        "to fix it: start it on every node, by srun or mpiexec; or ask for one node",
    ),
]


@pytest.mark.parametrize(("text", "words"), STILL_FAULTY)
def test_a_fault_that_a_kept_body_has_is_said_with_what_to_write(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "old.sh").write_text(f"{text}\n")
    with working_in(tmp_path):
        ended = jobgen("import", "old.sh", "-o", "new.yaml")
    assert "old.body.sh is the script's body as it is, and still has its fault:\n" in ended.err
    assert ": torchrun starts on the first of 2 nodes alone [first-node-only]\n" in ended.err
    assert words in ended.err
    with working_in(tmp_path):
        printed = jobgen("import", "old.sh")
    assert (printed.out + printed.err).count("torchrun starts on the first of 2 nodes alone") == 1


@pytest.mark.parametrize(
    ("line", "files"), [("python t.py", "job.yaml"), ("trap x EXIT", "job.yaml, old.body.sh")]
)
def test_what_import_writes_is_said_with_the_next_command(
    line: str, files: str, tmp_path: Path
) -> None:
    (tmp_path / "old.sh").write_text(f"#!/bin/bash\n{ONE_GPU}\n{line}\n")
    with working_in(tmp_path):
        ended = jobgen("import", "old.sh", "-o", "job.yaml")
        assert ended == (0, "", f"{files}: written; then: jobgen check, jobgen submit\n")
        assert jobgen("import", "old.sh").err in (
            "",
            "the spec runs old.body.sh; -o FILE writes it beside the spec\n",
        )


def test_a_kept_body_has_the_directives_in_their_own_words() -> None:
    asked = "#SBATCH -N 2 -n 8 --gres=gpu:a100:4 -c 8 --mem-per-cpu=4G -t 30 --signal=B:USR1@60"
    spec = spec_of("srun a &\nsrun b &\nwait", asked, "#SBATCH --exclude=n7")
    assert spec["resources"] == {
        "nodes": 2,
        "gpus_per_node": 4,
        "cpus_per_node": 32,
        "memory_per_node": "128GB",
        "walltime": "00:30:00",
        "gpu_type": "a100",
    }
    assert sorted(spec["directives"]) == [
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --exclude=n7",
        "#SBATCH --gres=gpu:a100:4",
        "#SBATCH --mem-per-cpu=4G",
        "#SBATCH --ntasks=8",
        "#SBATCH --signal=B:USR1@60",
    ]


def test_a_resource_of_pbs_that_no_profile_names_is_a_constraint() -> None:
    for asked in ("gpu_type=RTX6000", "TeslaV100-16GB=True"):
        for chunk in (f"1:{asked}:ngpus=1", f"{asked}:ngpus=1"):
            text = import_pbs(f"#PBS -l select={chunk}:mem=8gb\npython a.py").yaml
            resources = yaml.safe_load(text)["resources"]
            assert resources["constraint"] == asked
            assert (resources["gpus_per_node"], "gpu_type" in resources) == (1, False)


def test_a_body_of_pbs_starts_where_pbs_starts_it() -> None:
    (first, second) = [
        yaml.safe_load(import_pbs(f"#PBS -l select=2{more}\nmpirun a\nmpirun b").yaml)
        for more in ("", "\n#PBS -l wd")
    ]
    assert first["environment"]["setup"].startswith("cd ")
    assert "environment" not in second


@pytest.mark.parametrize(
    ("asked", "own", "joined"),
    [
        ("#PBS -e b", ["#PBS -e b"], False),
        ("#PBS -j oe\n#PBS -e b", [], True),
        ("#PBS -e b -j eo", ["#PBS -e b", "#PBS -j eo"], False),
        ("#PBS -j n", ["#PBS -j n"], False),
        ("#PBS -q a", [], True),
    ],
)
def test_errors_that_pbs_is_to_write_apart_stay_apart(
    asked: str, own: list[str], joined: bool
) -> None:
    imported = import_pbs(f"#PBS -o a\n{asked}\n#PBS -l select=1\ncd $PBS_O_WORKDIR\npython t.py")
    assert yaml.safe_load(imported.yaml)["directives"] == ["#PBS -o a", *own]
    assert ("#PBS -j oe" in render(plan_of(imported.yaml))) is joined


def test_directives_that_are_comments_tell_the_scheduler() -> None:
    text = "#!/bin/bash\n# PBS -q short\n# PBS -l walltime=1:00:00\npython t.py\n"
    assert "scheduler: pbs\n" in import_script(Script("a.sh", text)).yaml


def test_a_word_of_torque_is_true_of_each_node() -> None:
    text = "#!/bin/bash\n#PBS -l nodes=2:ppn=16:xk\ncd $PBS_O_WORKDIR\naprun -n 32 ./a\n"
    imported = import_script(Script("a.pbs", text))
    assert "constraint: xk=True\n" in imported.yaml
    assert "lost" not in {left.kind for left in imported.left}


def test_the_memory_of_torque_is_that_of_all_nodes() -> None:
    imported = import_pbs("#PBS -l nodes=2:ppn=20,mem=400GB\ncd /a\nmpiexec -np 40 ./a")
    spec = yaml.safe_load(imported.yaml)
    assert (spec["resources"]["nodes"], spec["resources"]["memory_per_node"]) == (2, "200GB")
    assert not imported.body


def test_what_openpbs_takes_of_a_node_goes_into_its_select() -> None:
    for asked, want in (("", "vmem=8gb"), (",nodes=1:ppn=2:xk", "xk=True:vmem=8gb")):
        imported = import_pbs(f"#PBS -l vmem=8gb{asked}\ncd /a\npython t.py")
        spec = yaml.safe_load(imported.yaml)
        assert (spec["resources"]["constraint"], "directives" in spec) == (want, False)
    imported = import_pbs("#PBS -l mpiprocs=2\ncd /a\npython t.py")
    assert WHY.MIXED in imported.yaml
    assert yaml.safe_load(imported.yaml)["directives"] == ["#PBS -l mpiprocs=2"]


@pytest.mark.parametrize("asked", ["procs=10", "size=48", "mppwidth=32"])
def test_what_only_torque_reads_stands_alone(asked: str) -> None:
    imported = import_pbs(f"#PBS -l {asked},mem=30gb\ncd /a\nmpirun -n 10 ./a")
    spec = yaml.safe_load(imported.yaml)
    assert (imported.body, spec["resources"]) == ("#!/bin/bash\ncd /a\nmpirun -n 10 ./a\n", {})
    assert spec["directives"] == [f"#PBS -l {asked}", "#PBS -l mem=30gb"]


@pytest.mark.parametrize("python", ["python", "python3.6"])
def test_python_whose_program_is_an_argument_keeps_the_body(python: str) -> None:
    assert kept(f"mpirun -np 4 {python} $*", ONE_GPU) == WHY.OF_ARGUMENTS


@pytest.mark.parametrize("place", ["excl", "exclhost", "scatter:exclhost"])
def test_whole_nodes_of_pbs_are_exclusive(place: str) -> None:
    asked = f"#PBS -l select=2:ncpus=4\n#PBS -l place={place}\n"
    imported = import_pbs(f"{asked}cd /a\nmpiexec -n 2 ./a")
    assert yaml.safe_load(imported.yaml)["resources"]["exclusive"] is True


def test_an_environment_of_the_folder_gone_to_is_made_there() -> None:
    for line, key in ((". v/bin/activate", "venv"), ("conda activate v/", "conda")):
        spec = spec_of(f"A=/a\ncd $A/\n{line}\npython t.py", ONE_GPU)
        assert spec["environment"][key].rstrip("/") == "/a/v"
        assert spec["run"] == {"command": ["python", "t.py"]}
        for folder in ("cd a", "cd /a\ncd b", "A=$(ls)\ncd $A"):
            setup = spec_of(f"{folder}\n{line}\npython t.py", ONE_GPU)["environment"]["setup"]
            assert setup.splitlines()[-1] == line
    late = spec_of("E=$(cat x)\nsource $E/bin/activate\npython t.py", ONE_GPU)
    assert late["environment"]["setup"].splitlines() == ["E=$(cat x)", "source $E/bin/activate"]
    assert spec_of("cd /a\nconda activate v\npython t.py", ONE_GPU)["environment"]["conda"] == "v"


@pytest.mark.parametrize(
    ("body", "at_home"),
    [
        ("cd ../src\npython t.py", False),
        ('cd "../src"\npython t.py', False),
        ("source ../v/bin/activate\ncd a\npython t.py", False),
        ("python ../t.py", False),
        ("cd a && cat ../b\npython t.py", True),
        ("# ../a\nmkdir $PBS_O_WORKDIR/../a\npython t.py", True),
        ("source a.sh\ncd ..\n", False),
        ("pushd a\ncd ..\npython t.py", True),
        ("ulimit -c 0\nmodule load a > /dev/null\ncd $PBS_O_WORKDIR\npython t.py", False),
        ("source ~/.bashrc\nmkdir -p /a $B\nconda activate c\ncd /d\npython t.py", False),
        ("mkdir a\ncd /d\npython t.py", True),
        ("conda activate ./e\ncd /d\npython t.py", True),
        ("module use a/b\ncd /d\npython t.py", True),
        ("module list > a\ncd /d\npython t.py", True),
        ("D=$(pwd)\ncd /d\npython t.py $D", True),
        ("echo in `pwd`; pwd -P\nls -d $PWD 2>/dev/null\ncd $PBS_O_WORKDIR\npython t.py", False),
        ("pwd > a\ncd /d\npython t.py", True),
        ("D=sub\ncd $D\npython t.py", True),
        ("if [ $A ]; then cd /d; fi\npython t.py", True),
    ],
)
def test_what_goes_above_its_folder_does_not_start_at_home(body: str, at_home: bool) -> None:
    for end in ("", "\ntrap x EXIT"):
        imported = import_pbs(f"#PBS -l select=1:ncpus=2\n{body}{end}")
        assert ("cd    #" in imported.yaml) == at_home


def test_a_directive_with_a_place_to_fill_in_is_left_out_beside_a_body() -> None:
    imported = import_pbs("#PBS -l storage=<yours>\n#PBS -l select=@NODES\nmpirun a\nmpirun b")
    assert "directives" not in yaml.safe_load(imported.yaml)
    assert [left.kind for left in imported.left] == ["lost", "lost"]
    for value, kept in {"<gpu-type>": False, "[rack1|rack2]": True}.items():
        imported = import_body("srun a\nsrun b", f"#SBATCH --constraint={value}")
        assert (value in imported.yaml.partition("Lost")[0]) == kept


def test_indices_of_an_array_are_those_of_the_script() -> None:
    indices = (
        ("3-9%2", "5", 7),
        ("0-4", "", 5),
        ("7-9", "9", 3),
        ("3-12:4", "11", 3),
        ("3-90:2", "7", 44),
    )
    for asked, third, tasks in indices:
        spec = spec_of("python t.py $SLURM_ARRAY_TASK_ID", ONE_GPU, f"#SBATCH --array={asked}")
        setup = spec.get("environment", {}).get("setup", "")
        shown = f"unset SLURM_ARRAY_TASK_ID JOBGEN; JOBGEN_TASK=2\n{setup}echo $SLURM_ARRAY_TASK_ID"
        ended = subprocess.run(["bash", "-c", shown], capture_output=True, text=True)
        own = spec["array"].get("numbers", [0, 0, ended.stdout.strip()])
        assert (str(own[2]), spec["array"]["tasks"]) == (third, tasks)
    for asked in ("1-33", "1-3", "2,4,9"):
        late = spec_of("export N=$SLURM_ARRAY_TASK_ID\n./a", ONE_GPU, f"#SBATCH --array={asked}")
        assert list(late["environment"]) == ["setup"]  # which comes behind the index


@pytest.mark.parametrize(
    ("asked", "read", "stays"),
    [
        ("3-9", "SLURM_ARRAY_TASK_MIN", False),
        ("0-9:3", "SLURM_ARRAY_TASK_STEP", False),
        ("3-9", "SLURM_ARRAY_JOB_ID", True),
        ("0-9", "SLURM_ARRAY_TASK_MAX", True),
    ],
)
def test_an_array_of_which_more_is_read_than_the_index(asked: str, read: str, stays: bool) -> None:
    body = f"srun a ${read}\nsrun b $SLURM_ARRAY_TASK_ID"
    spec = spec_of(body, ONE_GPU, f"#SBATCH --array={asked}")
    assert ("array" in spec) is stays
    assert (f"#SBATCH --array={asked}" in spec["directives"]) is not stays


def test_other_arrays_keep_their_directive_and_body() -> None:
    for array in ("#SBATCH --array=0-6:0", "#SBATCH --array=0-99999"):
        directives = ONE_GPU, array, "#SBATCH --output=%a.log"
        imported = import_body("python t.py $SLURM_ARRAY_TASK_ID", *directives)
        assert array in yaml.safe_load(imported.yaml)["directives"]
        assert imported.body
        assert not imported.left


def test_of_an_option_that_stands_twice_the_last_is_the_reason() -> None:
    twice = ("#SBATCH --array=0", "#SBATCH --array=4:8")
    text = import_body("./a $SLURM_ARRAY_TASK_ID", ONE_GPU, *twice).yaml
    assert f"#SBATCH --array=4:8  ({WHY.KEY})" in text


def test_an_array_of_one_task_keeps_its_directive_and_body() -> None:
    """To jobgen it is a job, in which %a and SLURM_ARRAY_JOB_ID are none."""
    for asked in ("7", "0-0", "3-3%1"):
        array = f"#SBATCH --array={asked}"
        assert kept("./a $SLURM_ARRAY_TASK_ID", ONE_GPU, array) == WHY.KEY
        assert array in spec_of("./a $SLURM_ARRAY_TASK_ID", ONE_GPU, array)["directives"]


def test_tasks_of_an_array_keep_their_numbers() -> None:
    for asked, numbers in {"5,1-3": [1, 2, 3, 5], "7,9": [7, 9], "0,1": None, "1-33": None}.items():
        spec = spec_of("./a $SLURM_ARRAY_TASK_ID", ONE_GPU, f"#SBATCH --array={asked}")
        assert spec["array"].get("numbers") == numbers
        assert "directives" not in spec


def test_cpus_of_gpus_that_no_directive_asks_for_are_kept() -> None:
    asked = "#SBATCH --cpus-per-gpu=8"
    assert spec_of("./a", "#SBATCH --nodes=1", asked)["directives"] == [asked]
    assert "directives" not in spec_of("./a", ONE_GPU.replace("task", "gpu"))


def test_a_spec_that_jobgen_refuses_is_so_for_the_launch() -> None:
    text = import_body("ls\nsleep 1\n./a '--n 1'", ONE_GPU).yaml
    assert "for line 6: ./a '--n 1'  (jobgen refuses the spec: run.command[1]" in text


def test_mail_of_all_kinds_is_asked_for_as_it_was() -> None:
    """ALL is also for a job that is put back in the queue, which no key says."""
    asked = ["#SBATCH --mail-type=ALL", "#SBATCH --mail-user=a@b.ch"]
    spec = spec_of("python t.py", ONE_GPU, *asked)
    assert spec["directives"] == asked
    assert "notify" not in spec


def test_a_folder_of_somebodys_own_comes_from_outside() -> None:
    imported = import_body('python t.py "$SAVE_DIR" "$SCRATCH/a" "$VSC_DATA/b"', ONE_GPU)
    assert [left.text for left in imported.left] == ["$SAVE_DIR"]


def test_a_place_to_fill_in_is_left_out_and_named() -> None:
    for asked in ("--account=<account>", "--nodes=NUM_NODES", "--partition=your queue"):
        imported = import_body("python t.py", f"#SBATCH {asked}")
        assert not {"account", "directives"} & yaml.safe_load(imported.yaml).keys()
        (lost,) = imported.left
        assert (lost.kind, lost.text) == ("lost", f"#SBATCH {asked}")
        place = asked.partition("=")[2].partition(" ")[0]
        assert lost.reason.startswith(place)


def test_a_place_in_braces_is_no_template() -> None:
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        imported = import_body(body, ONE_GPU, "#SBATCH -A {account_name}")
        assert bool(imported.body) == ("trap" in body)
        assert [(x.kind, x.reason) for x in imported.left] == [
            ("lost", "{account_name} is a place to fill in")
        ]


def test_an_option_without_its_value_is_a_place_to_fill_in() -> None:
    asked = ("-p\t## set", "--account=", "--nodes=", "--time=", "--gres=gpu:", "--qos= <m>")
    imported = import_body("trap x EXIT", *(f"#SBATCH {one}" for one in asked))
    places = ("--partition", "--account", "--nodes", "--time", "gpu:", "<m>")
    assert [left.reason for left in imported.left] == [f"{x} is a place to fill in" for x in places]
    assert "#SBATCH -p ## set" in imported.yaml
    assert "directives" not in yaml.safe_load(imported.yaml)
    switches = ["#SBATCH --requeue", "#SBATCH --exclusive --nice", "#SBATCH --gpu-accounting"]
    assert not import_body("trap x EXIT", *switches).left


def test_a_variable_in_place_of_a_number_is_left_out_and_named() -> None:
    imported = import_body("python t.py", "#SBATCH -N ${NODES}")
    (lost,) = [left for left in imported.left if left.kind == "lost"]
    assert lost.reason.startswith("${NODES} is a place to fill in; nothing expands it")
    assert "directives" not in yaml.safe_load(imported.yaml)


@pytest.mark.parametrize(
    ("file", "body", "name"),
    [
        ("a.b.sh", "python t.py", "a.b"),
        ("a.b.sh", "python t.py --out $SLURM_JOB_NAME", "a.b.sh"),
    ],
)
def test_a_script_without_a_name_has_its_files(file: str, body: str, name: str) -> None:
    imported = import_script(Script(file, f"#!/bin/bash\n{ONE_GPU}\n{body}\n"))
    assert yaml.safe_load(imported.yaml)["name"] == name
    assert not imported.left


def test_blanks_and_dashes_of_a_name_are_one_dash() -> None:
    names = {"a - b": "a-b", "x--y, z": "x--y-z", "a/ -%j": "a", "1 -- 2": "1-2"}
    for said, name in names.items():
        assert spec_of("python t.py", f'#SBATCH --job-name="{said}"')["name"] == name
    assert make_script("a").path == "job.sbatch"
    assert "name: train-2" in import_script(Script("train - 2.sh", "#SBATCH -N 1\na")).yaml


def test_a_name_of_other_characters_gives_way_to_the_files() -> None:
    for name, own in (("a(b)", "a-b"), ("(ツ)", "job"), ("a-%j", "a")):
        imported = import_body("python t.py", ONE_GPU, f"#SBATCH --job-name={name}")
        assert yaml.safe_load(imported.yaml)["name"] == own
        assert [(left.kind, left.line) for left in imported.left] == [("check", 3)]
    assert not import_body("python t.py", ONE_GPU, "#SBATCH --job-name=a_b.c-1").left


def test_a_chunk_without_a_number_is_one_node() -> None:
    spec = yaml.safe_load(import_pbs("#PBS -l select=mem=4gb:ncpus=2\ncd $PBS_O_WORKDIR\na").yaml)
    assert spec["resources"] == {"cpus_per_node": 2, "memory_per_node": "4GB"}


def test_what_never_happens_in_a_job_is_no_loss() -> None:
    assert not import_body("SLURM_ARRAY_TASK_ID=5\npython t.py $SLURM_ARRAY_TASK_ID", ONE_GPU).left
    spec = yaml.safe_load(import_pbs("#PBS -l select=1,place=free\ncd $PBS_O_WORKDIR\na").yaml)
    assert "directives" not in spec


def test_arguments_and_a_script_that_submits_itself_are_lost_by_name() -> None:
    imported = import_body("python t.py $1\nsbatch $0", ONE_GPU)
    noted = [(4, "lost"), (5, "check"), (5, "check")]
    assert [(left.line, left.kind) for left in imported.left] == noted


def test_a_job_that_submits_the_next_one_is_named_with_what_a_chain_is() -> None:
    (left,) = import_body("python t.py\nsbatch -J next next.sh", ONE_GPU).left
    assert (left.line, left.text) == (5, "sbatch -J next next.sh")
    assert "on_walltime: {then: resubmit}" in left.reason


@pytest.mark.parametrize("submit", ['sbatch {} "$0" "$@"', "J=$(sbatch {} job.sbatch | cut -c 9-)"])
def test_what_a_script_asks_for_that_submits_itself_is_lost_by_name(submit: str) -> None:
    body = 'if [[ -z $SLURM_JOB_ID ]]; then\nN=$1\n{}\nelse\nsrun python "$@"\nfi'
    imported = import_body(body.format(submit.format("--mem=8G --gres=gpu:$N")), ONE_GPU)
    assert [left.line for left in imported.left if left.kind == "lost"] == [6, 8]
    again = submit.format("--begin=now+1hour --dependency=afterok:$SLURM_JOB_ID")
    more = import_body(f"python t.py\n[ -f x ] || {submit.format('-N $8')}", ONE_GPU).left
    assert any("submits itself" in item.reason for item in more) == ("$0" in submit)
    left = import_body(f"python t.py\n{again}", ONE_GPU).left
    assert not any("submits itself" in item.reason for item in left)


def test_each_argument_of_a_kept_body_is_lost_once() -> None:
    body = "trap x EXIT\nA=$1\nB=$2\nC=$1/$2\nsrun python t.py $A $B $C $3"
    lost = [left.text for left in import_body(body, ONE_GPU).left if left.kind == "lost"]
    assert lost == ["A=$1", "B=$2", "$3"]


def test_arguments_that_the_script_sets_itself_are_no_loss() -> None:
    imported = import_body('set -- "$@" a\npython t.py "$@"', ONE_GPU)
    assert [left.line for left in imported.left] == [4]
    for sets in ("[ $A ] && set -- a", "if [ $A ]; then\nset -- a; fi"):
        imported = import_body(f'{sets}\npython t.py "$@"', ONE_GPU)
        assert [left.kind for left in imported.left] == ["lost"]
    block = 'if [ $A ]; then\nset -- $A\nwhile [ $# -gt 0 ]; do\necho "$1"; shift\ndone\nfi\n'
    left = import_body(f"{block}python t.py\n./b", ONE_GPU).left
    assert not [x for x in left if x.kind == "lost"]
    loop = 'for sw in "a 1" "b 2"; do\nset -- $sw\npython t.py "$1" "$2"\ndone'
    assert not import_body(loop, ONE_GPU).left


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("N=1\nwhile [[ $# -gt 0 ]]; do case $1 in -n) N=$2; shift 2;; esac; done", "check"),
        ("N=\nfor a in \"$@\"; do\ncase $a in n=*) N=${a#n=};; *) usage;; esac\ndone", "check"),
        ("N=1\nwhile getopts n: o; do\ncase $o in n) N=$OPTARG;; esac\ndone", "check"),
        ("while getopts n: o; do\ncase $o in n) N=$OPTARG;; esac\ndone", "lost"),
        ("N=\nwhile getopts n: o; do\ncase $o in n) N=$OPTARG;; esac\ndone\n"
         "if [ -z \"$N\" ]; then\necho N\nexit 1\nfi", "lost"),
        ("N=1\nfor a in \"$@\"; do\ncase $a in n=*) python t.py $a;; esac\ndone", "lost"),
    ],
)  # fmt: skip
def test_a_loop_over_options_that_all_have_a_default_loses_nothing(body: str, kind: str) -> None:
    left = import_body(f"{body}\npython t.py $N", ONE_GPU).left
    assert {one.kind for one in left} == {kind}
    assert not any(one.reason == WHY.FROM_OUTSIDE for one in left)


@pytest.mark.parametrize("line", ["while getopts e: opt; do echo $opt; done", "shift", "cd $#"])
def test_arguments_that_a_builtin_reads_are_lost_by_name(line: str) -> None:
    imported = import_body(f"{line}\npython t.py", ONE_GPU)
    assert [left.line for left in imported.left if left.kind == "lost"] == [4]


def test_what_is_only_printed_is_not_lost() -> None:
    imported = import_pbs("#PBS -q a\ncat $PBS_NODEFILE\npython t.py\necho run $1")
    assert {left.kind for left in imported.left} == {"kept"}
    assert import_pbs("#PBS -q a\necho $1 >log\npython t.py").left[0].kind == "lost"


def test_a_count_of_tasks_is_that_of_the_script() -> None:
    body = "python t.py $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT"
    imported = import_body(body, ONE_GPU, "#SBATCH --array=1-9")
    assert not imported.body
    assert not imported.left


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (make_script("python {{ script }}"), "this is a template"),
        (make_script("python t.py --lr={{lr}}"), "this is a template"),
        (make_script("python t.py", "#SBATCH -A {{ account }}"), "this is a template"),
        (make_script('python t.py "open'), "bash cannot read the script"),
        (make_script("python t.py", "#BSUB -n 4"), "a script for LSF"),
        (make_script("srun a : b", "#SBATCH -N 1", "#SBATCH hetjob"), "a heterogeneous job"),
        (make_script("srun a : b", "#SBATCH -N 1", "#SBATCH packjob"), "a heterogeneous job"),
        (Script("a.sbatch", "#!/bin/tcsh\n#SBATCH -N 1\npython t.py\n"), "tcsh runs this script"),
        (Script("a.sbatch", "#!/\n#SBATCH -N 1\npython t.py\n"), "/ runs this script"),
        (Script("a.sbatch", "#!/bin/ksh\n#SBATCH -N 1\npython t.py\n"), "ksh runs this script"),
        (Script("a.pbs", "#!/bin/env zsh\n#PBS -N a\npython t.py\n"), "zsh runs this script"),
        (Script("all.sh", "for i in 1 2; do sbatch job$i.sh; done\n"), "submits others"),
        (Script("all.sh", "for i in 1 2; do id=$(qsub job$i.pbs); done\n"), "submits others"),
    ],
)
def test_what_is_not_a_job_is_refused(script: Script, reason: str) -> None:
    assert reason in refusal_of(script)


def test_sbatch_and_qsub_want_no_blank_before_an_option() -> None:
    assert spec_of("srun python t.py", "#SBATCH-N2 -n2")["resources"]["nodes"] == 2
    spec = spec_of("cd $PBS_O_WORKDIR\npython t.py", "#PBS-q gpu", "#PBS -l select=1:ngpus=1")
    assert spec["queue"] == "gpu"


def test_a_directive_is_read_as_sbatch_reads_it() -> None:
    for line, options in (
        ("-n 1# of tasks (each)", [("--ntasks", "1")]),
        ("--comment='a # b' -n 2", [("--comment", "a # b"), ("--ntasks", "2")]),
        ("--exclusive -n 2", [("--exclusive", ""), ("--ntasks", "2")]),
        ("--exclusive user", [("--exclusive", ""), ("user", "")]),
        ("--exclude n[1,2]", [("--exclude", "n[1,2]")]),
    ):
        script = make_script("python t.py", f"#SBATCH {line}")
        assert [(item.option, item.value) for item in script.directives] == options


def test_what_only_the_line_that_submits_may_set_is_named() -> None:
    body = """\
eval a "$ONE"
[ -n "${TWO:-}" ] && b=$TWO
echo $SAID
last=$(tail x | awk '{print $NF}')
for i in $b $last; do c "$i"; done"""
    checks = [x.text for x in import_body(body, ONE_GPU).left if x.kind == "check"]
    assert checks == ["$ONE", "$TWO"]


def test_all_that_a_line_demands_of_the_one_that_submits_is_named() -> None:
    body = 'set -u\n: "${ONE:?}" "${TWO:?unset}"\npython t.py "${THREE?}" ${FOUR:+--four "$FOUR"}'
    (check,) = [x for x in import_body(body, ONE_GPU).left if x.reason == WHY.SUBMITTED]
    assert check.text == "$ONE $TWO $THREE $FOUR"
    assert "has to where it has no default" not in check.reason  # as FOUR has not


def test_a_directive_that_the_spec_refuses_is_the_reason() -> None:
    asked = "#PBS -l select=4:ncpus=1\n#PBS -l place=free\ncd $PBS_O_WORKDIR"
    assert "for line 3: #PBS -l place=free" in import_pbs(f"{asked}\nmpiexec -n 4 ./a").yaml


def test_the_index_of_an_array_may_stand_in_a_sum() -> None:
    (left,) = import_body('python t.py "$((SLURM_ARRAY_TASK_ID + 1))"', ONE_GPU).left
    assert (left.kind, left.reason) == ("lost", WHY.OF_ARRAY)


def test_an_index_that_is_not_set_is_lost_where_printing_it_ends_the_job() -> None:
    for option, lost in (("-euo pipefail", 1), ("-e", 0)):
        body = (
            f"set {option}\nI=${{SLURM_ARRAY_TASK_ID:-0}}\necho a-$SLURM_ARRAY_TASK_ID\nsrun a $I"
        )
        reasons = [left.reason for left in import_body(body, ONE_GPU).left]
        assert reasons.count(WHY.OF_ARRAY) == lost


def test_an_optional_argument_of_the_script_is_named() -> None:
    body = "D=a.yaml\nC=${1:-$D}  # or $2\npython t.py --config $C"
    for more in ("", "trap x EXIT\n"):
        left = import_body(f"{more}{body}", ONE_GPU).left
        asked = [(one.kind, one.text) for one in left if "argument" in one.reason]
        assert asked == [("check", "C=${1:-$D}")]


@pytest.mark.parametrize(
    "lines",
    [
        'if [ -n "$PBS_NODEFILE" ]; then cat $PBS_NODEFILE; fi',
        "python -c \"import torch; print('CUDA:', torch.version.cuda)\"",
        "python -c 'from a import b\nprint(b)\n'",
    ],
)
def test_lines_that_only_print_are_not_needed(lines: str) -> None:
    assert "environment" not in spec_of(f"{lines}\npython t.py", ONE_GPU)
    makes = "python -c 'import a; a.make()'"
    assert "environment" in spec_of(f"{lines}\n{makes}\npython t.py", ONE_GPU)


def test_a_job_has_no_terminal_to_hang_up_and_a_whole_path_is_the_same_everywhere() -> None:
    spec = spec_of("source /v/bin/activate\ncd /a\nnohup python /b/t.py", ONE_GPU)
    assert spec["run"] == {"script": "/b/t.py"}


def test_a_launcher_of_one_process_leaves_no_room_for_more() -> None:
    for count, rooms in (("1", None), ("4", 4)):
        asked = f"#PBS -l select=1:ncpus=4:mpiprocs=4\ncd /a\nmpiexec -n {count} ./a"
        spec = yaml.safe_load(import_pbs(asked).yaml)
        assert spec["launch"].get("processes_per_node") == rooms


def test_words_that_are_no_options_are_lost_with_the_list_that_they_end() -> None:
    imported = import_body("python t.py", "#SBATCH -n 1 of us", "#SBATCH --exclude=n[1, 2]")
    assert [(x.kind, x.line, x.reason) for x in imported.left] == [
        ("lost", line, WHY.STRAY) for line in (2, 3)
    ]
    assert "directives" not in yaml.safe_load(imported.yaml)


def test_a_place_to_fill_in_may_hold_blanks() -> None:
    imported = import_body("python t.py", ONE_GPU, "#SBATCH -N 1 -A <slurm account> -p gpu")
    assert "account" not in yaml.safe_load(imported.yaml)
    assert "directives" not in yaml.safe_load(imported.yaml)
    assert [left.kind for left in imported.left] == ["kept", "lost"]  # as -N 1 is said twice


def test_an_option_may_have_a_value_that_only_the_job_knows() -> None:
    for words in ("$D", "runs/$D"):
        for value in (
            "$(date +%s)",
            "`pwd`/$(basename $HOME)_${SLURM_JOB_NODELIST:0:9}",
            "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        ):
            imported = import_body(f"D={value}\npython t.py --out {words} --n 1", ONE_GPU)
            assert (imported.body, imported.left) == ("", ())
        for value in ("$(ls runs)", "$(date +'%F %T')"):
            assert "may split $D" in kept(f"D={value}\npython t.py --out {words}", ONE_GPU)


def test_the_guide_shows_what_import_writes(subtests: pytest.Subtests) -> None:
    page = (ROOT / "docs" / "guides" / "existing-scripts.md").read_text()
    pairs = re.findall(r"```bash\n(#!.*?)```\n\n```yaml\n(.*?)```", page, re.S)
    assert len(pairs) == 10
    for text, spec in pairs:
        with subtests.test(text.splitlines()[-1]):
            imported = import_script(Script("job.sbatch", text))
            lines = imported.yaml.splitlines()[1:]
            assert "\n".join(lines) == spec.rstrip()


def test_a_finding_of_lint_stands_beside_a_kept_launch() -> None:
    imported = import_body("torchrun --nnodes=2 --nproc-per-node=4 t.py", TWO_NODES)
    assert "torchrun starts on the first of 2 nodes alone" in imported.yaml
    text = import_body("srun python a.py\nsrun python b.py", TWO_NODES).yaml
    assert "lint" not in text  # which tells by itself what is no fault of the launch
    twice = "\n".join(["deepspeed t.py"] * 2)
    found = re.findall(r"lint, line (\d+)", import_body(twice, TWO_NODES).yaml)
    assert found == ["4"]  # the first of each kind


def test_a_finding_within_a_wrapper_stands_beside_a_kept_body(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("torchrun --nnodes=2 --nproc-per-node=4 t.py\n")
    directives = "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4"
    script = Script(
        str(tmp_path / "a.sh"), f"#!/bin/bash\n{directives}\ntrap x EXIT\nsrun ./run.sh\n"
    )
    assert "lint, line 4: srun starts 4 agents on each node" in import_script(script).yaml


def test_a_kept_body_that_looks_for_its_own_file_is_told() -> None:
    for line in ('cd "$(dirname "$0")"', 'HERE="$(dirname "${BASH_SOURCE[0]}")"'):
        (note,) = import_body(f"{line}\nexec 3>&1\npython t.py", ONE_GPU).left
        assert (note.kind, note.line, "beside the spec" in note.reason) == ("check", 4, True)
    folder = 'cd "${SLURM_SUBMIT_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"'
    assert not import_body(f"{folder}\nexec 3>&1\npython t.py", ONE_GPU).left
    (note,) = import_body("D=$(scontrol show job | grep Command)\nexec 3>&1\n$D/a", ONE_GPU).left
    assert "the script that jobgen submits" in note.reason


def test_a_variable_within_a_value_ends_where_its_name_did() -> None:
    body = "i=$SLURM_ARRAY_TASK_ID\nD=data/${i}.txt\npython t.py $D data_${i}_bin"
    run = spec_of(f'{body} "$i""x"', ONE_GPU, "#SBATCH --array=0-3")["run"]
    values = [word["value"] for word in run["command"][3:]]
    assert values == ["data_${SLURM_ARRAY_TASK_ID}_bin", "${SLURM_ARRAY_TASK_ID}x"]


def test_an_index_of_torque_is_empty_in_openpbs() -> None:
    for option, kinds in (("-J", ["lost"]), ("-t", ["check"])):  # which OpenPBS refuses
        left = import_pbs(f"#PBS {option} 0-3\ncd /a\npython t.py $PBS_ARRAYID").left
        assert [item.kind for item in left] == kinds


def test_words_of_the_body_that_lint_finds_are_named() -> None:
    for more in ("", "trap x EXIT\n"):
        body = f"{more}export B=/path/to/b\npython {{PATH_OF_CODE}}/t.py"
        left = import_body(body, ONE_GPU).left
        first = 4 + bool(more)
        assert [item.line for item in left if item.kind == "check"] == [first, first + 1]


def test_an_index_that_is_only_printed_is_no_loss() -> None:
    for line, kinds in (
        ("echo $SLURM_ARRAY_TASK_ID", []),
        ("X=$SLURM_ARRAY_TASK_ID", []),
        ("X=$SLURM_ARRAY_TASK_ID; ./a $X", ["lost"]),
        ("export X=${PBS_ARRAYID}", ["lost"]),
    ):
        imported = import_body(f"{line}\ntrap : TERM\npython t.py", ONE_GPU)
        assert [left.kind for left in imported.left] == kinds


def test_an_agent_that_python_finds_on_the_path_is_that_agent() -> None:
    spec = spec_of("python $(which torchrun) --nproc_per_node=1 t.py", ONE_GPU)
    assert spec["run"] == {"script": "t.py"}


def test_what_srun_asks_for_again_is_what_the_job_has() -> None:
    spec = spec_of("srun -p gpu -t 10 python t.py", f"{EACH_GPU} -p gpu --time=10")
    assert spec["run"] == {"script": "t.py"}
    spec = spec_of("srun -p other python t.py", f"{EACH_GPU} -p gpu")
    assert spec["run"]["command"][:3] == ["srun", "-p", "other"]


def test_a_hook_of_conda_stands_before_what_needs_it() -> None:
    body = 'eval "$(conda shell.bash hook)"\nconda deactivate || true\npython t.py'
    lines = spec_of(body, ONE_GPU)["environment"]["setup"].splitlines()
    assert lines == body.splitlines()[:2]
    body = 'eval "$(~/c/bin/conda shell.bash hook)"\nconda activate a\npython t.py'
    lines = spec_of(body, ONE_GPU)["environment"]["setup"].splitlines()
    assert lines == body.splitlines()[:2]  # of a conda that the PATH may not have


def test_variables_behind_a_conda_of_somebodys_own_are_keys() -> None:
    body = 'eval "$(/c/bin/mamba shell hook -s bash)"\nmamba activate a\n{}\npython t.py'
    environment = spec_of(body.format("export OMP_NUM_THREADS=4"), ONE_GPU)["environment"]
    assert environment["variables"] == {"OMP_NUM_THREADS": "4"}
    environment = spec_of(body.format("export PATH=/a:$PATH"), ONE_GPU)["environment"]
    assert "variables" not in environment  # conda may set it, too


def test_a_list_of_file_systems_tells_a_site_of_totals() -> None:
    imported = import_pbs("#PBS -l ncpus=12,ngpus=1\n#PBS -l storage=scratch/ab1\npython t.py")
    assert yaml.safe_load(imported.yaml)["site"] == "nci-gadi"
    imported = import_pbs("#PBS -q normal -l mem=8GB,storage=scratch/ab1\npython t.py")
    assert yaml.safe_load(imported.yaml)["site"] == "nci-gadi"
    for other in ("-q gpuvolta -l mem=8GB", "-q normal -l ncpus=12"):
        assert "site" not in yaml.safe_load(import_pbs(f"#PBS {other}\npython t.py").yaml)


def test_a_place_to_fill_in_within_a_command_is_left_to_bash() -> None:
    assert kept("X=/home/<name>/x\npython $X/t.py", ONE_GPU) == WHY.BASH


def test_an_index_in_brackets_is_an_arrays() -> None:
    imported = import_body('A=(1 2)\npython t.py "${A[SLURM_ARRAY_TASK_ID]}"', ONE_GPU)
    assert [(left.kind, left.line) for left in imported.left] == [("lost", 5)]


def test_what_line_1_says_to_the_scheduler_is_not_dropped() -> None:
    imported = import_script(
        Script("a.sh", "#!/bin/bash -eux\n#SBATCH -N1\ntrap x EXIT\npython t.py")
    )
    assert imported.body.splitlines()[1].startswith("set -eux")
    imported = import_script(Script("a.sh", "#!/bin/bash -l\n#SBATCH -N1\npython t.py"))
    assert [(left.kind, left.line) for left in imported.left] == [("check", 1)]
    imported = import_script(
        Script("a.sh", "#!/bin/bash -l\n#SBATCH -N1\ntrap x EXIT\npython t.py")
    )
    assert "reads the profile" in imported.left[0].reason


def test_a_job_that_is_sent_to_another_cluster_is_told_of() -> None:
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        imported = import_body(body, ONE_GPU, "#SBATCH --clusters=a")
        assert "--clusters" not in yaml.safe_load(imported.yaml).get("directives", [])
        assert [(left.kind, left.line) for left in imported.left] == [("lost", 3)]


def test_the_threads_of_a_chunk_are_those_of_the_program() -> None:
    for last in ("python t.py", "trap x EXIT"):
        imported = import_pbs(f"#PBS -l select=1:ncpus=8:ompthreads=4\ncd $PBS_O_WORKDIR\n{last}")
        assert yaml.safe_load(imported.yaml)["environment"]["variables"] == {"OMP_NUM_THREADS": "4"}


def test_an_option_of_a_launcher_that_jobgen_has_no_use_for_is_named() -> None:
    imported = import_body("srun -l --comment=x python t.py", EACH_GPU)
    assert [left.text for left in imported.left] == ["-l --comment"]


def test_a_container_of_one_node_is_a_program() -> None:
    spec = spec_of("docker run --gpus all image python t.py", ONE_GPU)
    assert spec["run"]["command"][:2] == ["docker", "run"]
    assert "no line starts a program" in kept("docker pull image", ONE_GPU)


def test_each_resource_of_a_line_is_kept_or_said() -> None:
    line = "#PBS -l walltime=1:00:00,nodes=10:ppn=4"
    spec = yaml.safe_load(import_pbs(f"{line}\ntrap x USR1\nmpiexec ./a").yaml)
    assert spec["directives"] == ["#PBS -l nodes=10:ppn=4"]
    imported = import_pbs("#PBS -l select=1:ncpus=2:mpiprocs=10\ncd $PBS_O_WORKDIR\npython t.py")
    checks = [left.text for left in imported.left if left.kind == "check"]
    assert checks == ["#PBS -l select=1:ncpus=2:mpiprocs=10"]
    body = "cd $PBS_O_WORKDIR\nexport N=$(grep -c . $PBS_NODEFILE)\n./a"
    asked = import_pbs(f"#PBS -l select=1:ncpus=8:mpiprocs=8\n{body}")
    checks = [left.text for left in asked.left if left.kind == "check"]
    assert checks == ["#PBS -l select=1:ncpus=8:mpiprocs=8", "$PBS_NODEFILE"]


def test_what_a_job_exports_anyway_needs_no_key() -> None:
    for value in ("ALL", "all"):
        assert spec_of("python t.py", f"#SBATCH --export={value}").keys() == {
            *("name", "scheduler", "resources", "run", "launch")
        }
    for value in ("ALL,A", "A=1", "NONE"):
        assert WHY.KEY in kept("python t.py", f"#SBATCH --export={value}")


def test_torque_has_an_option_that_nqsv_has_too() -> None:
    torque = import_pbs("#PBS -b 30\n#PBS -l walltime=1:00:00\n./a")
    assert yaml.safe_load(torque.yaml)["directives"] == ["#PBS -b 30"]
    for line in ("-T necmpi", "-l elapstim_req=100", "-b 2"):
        assert "belongs to NQSV" in refusal_of(Script("a", f"#PBS {line}\n#PBS -q a\n./a\n"))


def test_a_variable_in_single_quotes_within_a_word_is_the_setups() -> None:
    body = "S=$(sed -n 1p list)\n./a \"sample='$S'\""
    assert "export S=" in spec_of(body, ONE_GPU)["environment"]["setup"]


def test_the_file_of_a_script_is_not_that_of_the_spec() -> None:
    assert WHY.BASH in kept("python $(dirname ${0})/t.py", ONE_GPU)
    asks = "F=$(scontrol show job $SLURM_JOB_ID | grep Command= | cut -d= -f2)"
    assert WHY.BASH in kept(f"{asks}\nsource $F/a.sh\npython t.py", ONE_GPU)


def test_what_a_step_alone_has_is_read_by_the_body() -> None:
    body = "export N=$(echo $SLURM_STEP_GPUS | wc -l)\npython t.py --n $N"
    assert WHY.SETUP in kept(body, ONE_GPU)


def test_tasks_that_no_number_of_each_node_gives_stay_as_they_are() -> None:
    directives = "#SBATCH --nodes=3", "#SBATCH --ntasks=64"
    assert WHY.SHAPE in kept("mpirun python t.py", *directives)


def test_the_folder_of_submission_is_left_where_the_script_says_another() -> None:
    body = "SLURM_SUBMIT_DIR=/a\ncd $SLURM_SUBMIT_DIR\npython t.py"
    assert kept(body, ONE_GPU) == WHY.BASH
    assert kept("export SLURM_NTASKS=1\nsrun python t.py", EACH_GPU) == WHY.BASH


def test_nodes_that_are_asked_for_by_name_are_counted() -> None:
    """Slurm gives all of them, and refuses a script that asks for fewer beside them."""
    for names, nodes in (("n1,n2", 2), ("n[01-03,7],m", 5), ("n1", None), ("./hosts", None)):
        asked = f"#SBATCH --nodelist={names}"
        assert spec_of("srun -K1 python t.py", asked)["resources"].get("nodes") == nodes


def test_a_variable_that_is_exported_after_its_assignment_keeps_that() -> None:
    spec = spec_of("A=$(pwd)\nexport A\nset -x\nsrun -n1 ./a", ONE_GPU, "#SBATCH --ntasks=1")
    assert "A=$(pwd)\n" in spec["environment"]["setup"]


def test_the_index_of_an_array_of_pbs_is_known() -> None:
    text = "#PBS -J 0-9\ncd $PBS_O_WORKDIR\nsource activate x\npython t.py $PBS_ARRAY_INDEX"
    assert yaml.safe_load(import_pbs(text).yaml)["run"]["args"] == [
        {"value": "$PBS_ARRAY_INDEX", "expand": True}
    ]


def test_cpus_that_no_directive_names_are_asked_for_only_where_the_tasks_go() -> None:
    asked = "#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4"
    assert spec_of("srun python t.py", asked)["resources"] == {"gpus_per_node": 4}
    assert spec_of("python t.py", asked)["resources"]["cpus_per_node"] == 4


def test_nodes_that_sbatch_may_be_given_are_no_constant() -> None:
    body = "srun --input=none bash run.sh --nnodes $SLURM_NNODES"
    words = [spec_of(body, f"#SBATCH {asked}")["run"]["command"][-1] for asked in ("-N 2", "-c 8")]
    assert words == ["2", {"value": "$SLURM_NNODES", "expand": True}]


def test_the_nodes_of_a_list_are_as_many_as_the_job_has() -> None:
    body = "N=$(scontrol show hostnames $SLURM_JOB_NODELIST | wc -l)"
    body += "\nsrun torchrun --nnodes $N --nproc-per-node 4 t.py"
    assert spec_of(body, TWO_NODES)["run"] == {"script": "t.py"}


def test_gpus_of_its_own_has_each_task_by_the_script_s_own_launch() -> None:
    for line in ("srun -l ./a.sh", "mpirun ./a"):
        assert "each task its own GPUs" in kept(line, f"{EACH_GPU} --gpus-per-task=1")


def test_threads_are_named_where_a_script_may_call_torchrun() -> None:
    for asked, named in (("#SBATCH --nodes=1 --exclusive", 1), (ONE_GPU, 0)):
        assert import_body("srun bash a.sh", asked).yaml.count(WHY.ITS_THREADS) == named
    assert WHY.ITS_THREADS not in import_body("srun ./a", "#SBATCH --exclusive").yaml


def test_a_body_is_named_as_seen_from_the_folder_of_submission(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/a.sh").write_text("#!/bin/bash\n#SBATCH -N 1\nsrun a; srun b\n")
    with working_in(tmp_path):
        assert jobgen("import", "jobs/a.sh", "-o", "jobs/job.yaml").code == 0
        assert '"${work_dir}/jobs/a.body.sh"' in jobgen("render", "jobs/job.yaml").out


def test_tasks_that_gpus_tell_are_those_of_the_job(tmp_path: Path) -> None:
    asked = "#SBATCH --nodes=2 --gpus-per-node=4 --ntasks-per-gpu=1"
    assert kept("srun python t.py", asked) == "Slurm gives each task its own GPUs"
    (tmp_path / "a.sh").write_text(f"#!/bin/bash\n{asked}\nsrun a; srun b\n")
    with working_in(tmp_path):
        assert jobgen("import", "a.sh", "-o", "job.yaml").code == 0
        rendered = jobgen("render", "job.yaml").out
    assert "#SBATCH --ntasks-per-gpu=1" in rendered
    assert "#SBATCH --ntasks-per-node" not in rendered  # which sbatch refuses beside it
    for more in (
        "--ntasks-per-gpu=1 --gpus=4",
        "--gpus-per-task=1 --gpus=4",
        "--ntasks-per-node=4",
    ):
        imported = import_body("python t.py", f"#SBATCH --nodes=1 --gpus-per-node=4 {more}")
        assert "directives" not in yaml.safe_load(imported.yaml)
        assert [left.reason[:21] for left in imported.left] == ["here the job has one "]
    for more in ("--ntasks=4 --ntasks-per-gpu=1", "--gpus=4 --gpus-per-task=1"):
        request = make_script("srun a", f"#SBATCH -N 1 {more}").request
        assert (request.tasks, request.gpus) == (4, 4)


def test_a_variable_that_one_option_alone_sets_stays_with_it() -> None:
    asked = (
        "#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=8 --gpus-per-task=4 --mem-per-cpu=2G"
    )
    for name in ("SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU"):
        reason = kept(f"export THREADS=$((8 / {name}))\nsrun ./run.sh", asked)
        assert reason.startswith(f"${name} comes from --")
    spec_of("export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / 2))\nsrun python t.py", asked)
    assert not import_body("srun ./run.sh $SLURM_GPUS_PER_TASK", asked).body


def test_a_shell_that_pbs_is_to_take_is_bash() -> None:
    for last in ("mpirun a", "trap x EXIT"):
        imported = import_pbs(f"#PBS -l select=1\n#PBS -S /bin/sh\n{last}")
        assert yaml.safe_load(imported.yaml)["directives"] == ["#PBS -S /bin/bash"]


def test_braces_within_quotes_are_text() -> None:
    for value in ('"{{ instruction }}"', "'{{.Name}}'", "{{1,2},3}"):
        assert import_body(f"trap x EXIT\npython t.py {value}", ONE_GPU).body


def test_an_index_in_a_name_of_a_file_is_said_where_it_begins_at_another_number() -> None:
    for asked, checks in (("1-9", 1), ("0-8", 0), ("5,7,8", 1)):
        array = f"#SBATCH --array={asked} --output=a_%4a.txt"
        assert len(import_body("python t.py", ONE_GPU, array).left) == checks
    imported = import_pbs("#PBS -J 1-3\n#PBS -o a_^array_index^\npython t.py")
    assert [left.line for left in imported.left] == [3]


def test_a_script_that_runs_in_a_container_of_slurm_keeps_its_body() -> None:
    """jobgen's own would ask scontrol and srun, which an image hardly has."""
    for option in ("#SBATCH --container-image=a/b:c", "#SBATCH --container-name=c"):
        for folder in ("", 'cd "$SLURM_SUBMIT_DIR"\n', "cd /a\n"):
            assert kept(f"{folder}python t.py", ONE_GPU, option) == WHY.KEY


def test_the_folder_of_a_directive_is_gone_to_and_its_output_is_written_there() -> None:
    option = "#SBATCH -D /x --output=logs/%j.out"
    goes = "cd /x/    # as --chdir says to Slurm\n"
    for body in ("python t.py", "srun a; srun b"):
        spec = spec_of(body, ONE_GPU, option)
        assert spec["environment"]["setup"] == goes
        assert spec["directives"][0] == "#SBATCH --output=/x/logs/%j.out"
    back = 'cd "$SLURM_SUBMIT_DIR"\n'
    assert spec_of(f"{back}python t.py", ONE_GPU, option)["environment"]["setup"].endswith(back)
    assert "environment" not in spec_of("python t.py", ONE_GPU, "#SBATCH --chdir=.")


def test_the_python_of_a_module_of_python_2_stays_that() -> None:
    olds = "anaconda2/5.0", "python/2.7", "tensorflow/1.0", "tensorflow-gpu/1.13"
    news = "anaconda3/2", "tensorflow/2.1", "TensorFlow/1.15.0-Python-3.7.4"
    for module, script in {**dict.fromkeys(olds), **dict.fromkeys(news, "t.py")}.items():
        run = spec_of(f"module load {module}\npython t.py", ONE_GPU)["run"]
        assert run.get("script") == script
    assert spec_of("# python/2.7\nmodule load a\npython t.py", ONE_GPU)["run"] == {"script": "t.py"}


def test_a_shell_that_only_prints_is_no_program() -> None:
    prints = "srun bash -c 'echo $SLURM_PROCID $(hostname)'"
    assert spec_of(f"{prints}\nsrun python t.py", EACH_GPU)["run"] == {"script": "t.py"}
    assert kept("srun bash -c 'echo a > $SLURM_PROCID'\nsrun python t.py", EACH_GPU)


def test_what_does_more_than_to_look_after_the_program_keeps_the_body() -> None:
    for after in ("rm -rf /tmp/x", "echo a >> log", "kill $M", "unset A"):
        assert kept(f"python t.py\n{after}", ONE_GPU) == WHY.AFTER


@pytest.mark.parametrize("word", ["$(date)", "$((RANDOM % 7))", "$((SLURM_PROCID * 2))", "${A%.*}"])
def test_what_each_process_computes_keeps_the_body(word: str) -> None:
    assert kept(f"srun python t.py --a {word}", EACH_GPU)


def test_what_import_does_not_take_over_is_named() -> None:
    agent = "torchrun --nproc-per-node=4 --nnodes=2"
    for line, option in (
        (f"srun --container-image=x {agent} t.py", "srun's --container-image"),
        (f"srun {agent} --local-addr=x t.py", "torchrun's --local-addr"),
    ):
        assert kept(line, TWO_NODES) == f"import does not take over {option}"


def test_restarts_of_torchrun_are_those_of_the_spec() -> None:
    agent = "srun torchrun --nproc-per-node=4 --nnodes=2 --max_restarts"
    assert spec_of(f"{agent} 3 t.py", TWO_NODES)["launch"] == {"max_restarts": 3}
    assert "launch" not in spec_of(f"{agent} 0 t.py", TWO_NODES)


def test_variables_that_mpirun_gives_an_agent_are_not_dropped() -> None:
    agent = "torchrun --nproc-per-node=1 t.py"
    assert spec_of(f"mpirun -np 1 -x A {agent}", ONE_GPU)["run"] == {"script": "t.py"}
    assert "does not take over mpirun's -x" in kept(f"mpirun -np 1 -x A=b {agent}", ONE_GPU)


def test_one_thread_of_torchrun_is_said_where_jobgen_gives_another_number() -> None:
    for words, checks in (("--nproc-per-node=4", 1), ("--nproc-per-node=1", 0)):
        line = f"srun torchrun --nnodes=2 {words} t.py"
        assert len(import_body(line, TWO_NODES).left) == checks
        assert not import_body(f"export OMP_NUM_THREADS=2\n{line}", TWO_NODES).left


def test_files_of_errors_are_jobgens_own() -> None:
    for line in ("python t.py", "srun torchrun --nnodes=2 --nproc-per-node=1 t.py"):
        directive = ONE_GPU if line[0] == "p" else TWO_NODES
        assert "environment" not in spec_of(f"export TORCHELASTIC_ERROR_FILE=/x\n{line}", directive)


def test_memory_of_each_process_of_torque_is_that_of_the_node() -> None:
    imported = import_pbs("#PBS -l nodes=1:ppn=4,pmem=2gb\ncd $PBS_O_WORKDIR\npython t.py")
    assert yaml.safe_load(imported.yaml)["resources"]["memory_per_node"] == "8GB"


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("./test.sh time", True),
        ("sh train.sh", True),
        ("/opt/x/solver a.in", True),
        ("python t.py", False),
        ("singularity exec a.sif python3 -u t.py --lr 1", False),
        ("module load openmpi\npython t.py", True),
        ("Rscript compile.R", False),
    ],
)
def test_slots_of_torque_are_named_where_a_program_may_start_others(
    program: str, named: bool
) -> None:
    for ppn in (1, 20):
        imported = import_pbs(f"#PBS -l nodes=1:ppn={ppn}\ncd /a\n{program}")
        assert not imported.body
        assert (WHY.ONE_SLOT in imported.yaml) == (named and ppn > 1)


def test_nodes_that_are_unlike_are_counted_beside_a_body() -> None:
    imported = import_pbs("#PBS -l select=1:ncpus=4:host=a+1:ncpus=4:host=b\nmpiexec a")
    assert yaml.safe_load(imported.yaml)["resources"]["nodes"] == 2


def test_memory_above_the_limit_of_a_site_is_that_of_the_directive() -> None:
    asked = "#PBS -q gpuvolta\n#PBS -l ncpus=48,ngpus=4,mem=500GB,storage=scratch/a1\n#PBS -P a1"
    spec = yaml.safe_load(import_pbs(f"{asked}\npython a.py\npython b.py").yaml)
    assert "memory_per_node" not in spec["resources"]
    assert "#PBS -l mem=500GB" in spec["directives"]


def test_tabs_of_a_script_stay_lines_of_a_block() -> None:
    setup = "if [ -e x ]; then \n\techo no\n\texit 1\nfi"
    assert f"    {setup.splitlines()[1]}\n" in import_body(f"{setup}\npython t.py", ONE_GPU).yaml
    assert setup in spec_of(f"{setup}\npython t.py", ONE_GPU)["environment"]["setup"]


def test_programs_in_containers_are_several() -> None:
    runs = "singularity exec a.sif bash -c 'source a; python t.py'"
    assert kept(f"{runs}\n{runs}", ONE_GPU) == WHY.SEVERAL


@pytest.mark.parametrize(
    ("asked", "key", "value"),
    [
        ("--gpus-per-node=1 --gres=gpu:2", "gpus_per_node", 2),
        ("--gres=gpu:2 --gpus=4", "gpus_per_node", 2),
        ("--time=1 --time=2", "walltime", "00:02:00"),
    ],
)
def test_of_two_directives_that_say_otherwise_of_the_same_one_counts(
    asked: str, key: str, value: object
) -> None:
    imported = import_body("python t.py", *(f"#SBATCH {one}" for one in f"-N1 {asked}".split()))
    assert yaml.safe_load(imported.yaml)["resources"][key] == value


def test_of_the_nodes_of_pbs_a_select_counts_and_of_a_resource_the_first() -> None:
    asked = "#PBS -l nodes=2:ppn=8\n#PBS -l select=1:ncpus=4\n#PBS -l walltime=1:00:00"
    imported = import_pbs(f"{asked}\n#PBS -l walltime=2:00:00\ncd $PBS_O_WORKDIR\npython t.py")
    resources = yaml.safe_load(imported.yaml)["resources"]
    assert resources == {"cpus_per_node": 4, "walltime": "01:00:00"}
    checks = [(left.line, left.reason) for left in imported.left if left.kind == "check"]
    assert checks == [(2, WHY.MIXED), (5, WHY.RIVAL)]


def test_of_a_resource_of_pbs_that_is_given_again_the_first_counts_and_the_other_is_named() -> None:
    asked = "#PBS -l select=2:ncpus=4:mem=4gb,place=scatter\n#PBS -l walltime=02:00:00\n"
    again = "#PBS -l select=1:ngpus=2:ncpus=4\n#PBS -l walltime=00:10:00\n#PBS -N a\n#PBS -N b\n"
    same = "#PBS -l walltime=02:00:00\n"
    for body in ("mpiexec -n 2 python t.py", "trap x EXIT\nmpiexec -n 2 python t.py"):
        imported = import_pbs(f"{asked}{again}{same}cd $PBS_O_WORKDIR\n{body}")
        spec = yaml.safe_load(imported.yaml)
        assert spec["name"] == "b"
        script = render(plan_of(spec))
        assert "#PBS -l select=2:ncpus=4" in script
        assert "#PBS -l walltime=02:00:00\n" in script
        assert "ngpus" not in script
        checks = [left.text for left in imported.left if left.reason == WHY.RIVAL]
        assert checks == again.splitlines()[:2]


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("-N my job", ["-N my job"]),
        ('-N "my job"', ['-N "my job"']),
        (f"-N {'a' * 231}", [f"-N {'a' * 231}"]),
        ("-l walltime=1-00:00:00", ["-l walltime=1-00:00:00"]),
        ("-l walltime=1:00:00:00", ["-l walltime=1:00:00:00"]),
        ("-l select=1:ncpus=4,mem=4gb", ["-l mem=4gb"]),
        ("-l ncpus=4,place=pack", ["-l ncpus=4", "-l place=pack"]),
        ("-l select=1:ncpus=4 -l nodes=1:ppn=4", ["-l nodes=1:ppn=4"]),
        ("-t 0-9", ["-t 0-9"]),
        ("-d .", ["-d ."]),
        ("-m p", ["-m p"]),
        ('-M "a@b.org, c@b.org"', ['-M "a@b.org, c@b.org"']),
        ("--mem=4G", ["--mem=4G"]),
        ("-l walltime=24", ["-l walltime=24"]),
        ("-l walltime=24:00", ["-l walltime=24:00"]),
        ("-l walltime=86400", []),
        ("-l select=1:ncpus=4,walltime=24:00:00,place=pack,burst=1 -V -N a.b -q x -j oe", []),
        ("-W umask=022 -m abe -M a@b.org -k oed -r n -S /bin/bash -J 0-9 -A b -P c -h", []),
    ],
)
def test_a_directive_that_openpbs_refuses_or_few_mean_so_is_named(
    asked: str, refused: list[str]
) -> None:
    reasons = (WHY.REFUSED, WHY.STRAY, WHY.MIXED, WHY.BRIEF)
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        left = import_pbs(f"#PBS {asked}\ncd $PBS_O_WORKDIR\n{body}").left
        named = [one.text.removeprefix("#PBS ") for one in left if one.reason in reasons]
        assert named == refused


def test_what_is_said_of_a_directive_is_true_of_a_kept_body_too() -> None:
    text = "#PBS -l nodes=2:ppn=8\n#PBS -N Two Words\n#PBS -n\ntrap x EXIT\npython t.py"
    imported = import_pbs(text)
    assert "select=" not in imported.yaml
    reasons = {left.line: left.reason for left in imported.left}
    assert (reasons[3], reasons[4]) == (WHY.STRAY, WHY.REFUSED)
    (found,) = [x for x in check(Script("job.pbs", text)) if x.rule.id == "directive-variable"]
    assert (found.line, found.message) == (2, "'Words' is not an option, so PBS refuses the script")


def test_the_folder_of_torque_is_gone_to() -> None:
    spec = yaml.safe_load(import_pbs("#PBS -d /x\n#PBS -l mem=5gb\npython t.py").yaml)
    assert spec["environment"]["setup"] == "cd /x/    # as -d says to PBS\n"
    assert "directives" not in spec
    assert "environment" not in yaml.safe_load(import_pbs("#PBS -d .\npython t.py").yaml)


def test_of_a_chunk_only_what_is_lost_is_named() -> None:
    chunk = "1:ppn=4:gpus=1:TeslaV100-16GB:os=a/b:big"
    imported = import_pbs(f"#PBS -l nodes={chunk}\ncd /a\npython t.py")
    assert [left.text for left in imported.left if left.kind == "lost"] == ["os=a/b"]
    resources = yaml.safe_load(imported.yaml)["resources"]
    constraint = "TeslaV100-16GB=True:big=True"
    assert resources == {"gpus_per_node": 1, "cpus_per_node": 4, "constraint": constraint}


def test_partitions_of_a_list_are_queues() -> None:
    assert spec_of("python t.py", "#SBATCH -p a,b")["queue"] == ["a", "b"]


def test_modules_that_are_purged_by_force_are_so() -> None:
    spec = spec_of("module --force purge\nmodule load a\npython t.py", ONE_GPU)
    assert spec["environment"]["modules"] == {"first": "force-purge", "load": ["a"]}


def test_the_threads_that_pbs_tells_an_agent_are_named() -> None:
    agent = "accelerate launch t.py"
    for chunk, line, named in (
        ("ncpus=8", agent, True),
        ("ncpus=8:ompthreads=2", agent, False),
        ("ncpus=8", f"export OMP_NUM_THREADS=4\n{agent}", False),
        ("ncpus=8", "torchrun --nproc-per-node=2 t.py", True),
        ("ncpus=1", "torchrun --nproc-per-node=2 t.py", False),
        ("ncpus=8", "bash t.sh", False),
    ):
        imported = import_pbs(f"#PBS -l select=1:{chunk}:ngpus=2\ncd /a\n{line}")
        assert (WHY.CPU_THREADS in imported.yaml) is named
        assert WHY.ONE_THREAD not in imported.yaml


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        ("export H=$(scontrol show hostnames | head -n 1)", "+o pipefail"),
        ("conda list | grep -q a || conda create -n a", "+e +o pipefail"),
        ("ls | sort > a", "+e"),
        ("set -eo pipefail\nexport H=$(ls | head -n 1)", None),
    ],
)
def test_a_pipe_of_the_setup_ends_as_in_the_script(lines: str, options: str | None) -> None:
    setup = spec_of(f"{lines}\npython t.py", ONE_GPU)["environment"]["setup"]
    assert (re.findall(r"^set (.*?)  ", setup) or [None])[0] == options


@pytest.mark.parametrize(
    ("sets", "word", "args"),
    [
        ("A=(--a 'x y'  # first\n  --b $HOME/z)", '"${A[@]}"', ["--a", "x y", "--b", "$HOME/z"]),
        ("L=1\nA=()\nA+=(--l $L)", "${A[@]}", ["--l", "1"]),
        ("A=(a b)\nX=${A[$SLURM_ARRAY_TASK_ID]}", "$X", ["$X"]),
        ("X=$((2 * N))", "$X", ["$X"]),
    ],
)
def test_the_elements_of_a_plain_array_are_words(sets: str, word: str, args: list[str]) -> None:
    spec = spec_of(f"{sets}\nsrun python t.py {word}", EACH_GPU, "#SBATCH --array=0-1")
    assert [x["value"] if isinstance(x, dict) else x for x in spec["run"]["args"]] == args


@pytest.mark.parametrize(
    "sets",
    [
        "A=($(ls))",
        "A=(*.npy)",
        "A=([1]=a)",
        "A=(a)\nA[1]=b",
        "A=(a)\nif [ $B ]; then A+=(b); fi",
        "B=$(ls)\nA=(a $B)",
        "A=(a $B/c)\nB=d",
        "A=(a $HOME/c)\nexport HOME=/d",
    ],
)
def test_an_array_that_only_bash_knows_keeps_the_body(sets: str) -> None:
    assert kept(f'{sets}\nsrun python t.py "${{A[@]}}"', EACH_GPU)


def test_a_folder_before_the_program_is_the_setups() -> None:
    spec = spec_of("cd /a && torchrun --nproc-per-node=1 t.py", ONE_GPU)
    assert spec["environment"] == {"setup": "cd /a || exit\n"}
    assert spec["run"] == {"command": ["python3", "t.py"]}


@pytest.mark.parametrize(
    "line",
    [
        'cd "$PBS_O_WORKDIR" || exit 1',
        "D=$PBS_O_WORKDIR\ncd $D || { echo no; exit 1; }",
        'if [ -n "$PBS_O_WORKDIR" ]; then\n  cd "$PBS_O_WORKDIR"\nfi',
        "cd ${PBS_O_WORKDIR:-.}",
    ],
)
def test_a_way_back_to_the_folder_of_submission_is_not_needed(line: str) -> None:
    spec = yaml.safe_load(import_pbs(f"#PBS -l ncpus=2\nmodule load a\n{line}\npython t.py").yaml)
    assert spec["environment"] == {"modules": ["a"]}
    assert spec["run"] == {"script": "t.py"}


def test_variables_of_a_file_that_an_export_reads_stay_in_the_setup() -> None:
    line = "export $(grep -v '^#' .env | xargs)"
    assert line in spec_of(f"{line}\npython t.py", ONE_GPU)["environment"]["setup"]
    assert kept(f"{line}\npython t.py $KEY/a", ONE_GPU)


def test_gpus_that_srun_gives_anew_are_those_of_the_step() -> None:
    line = "export CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | cut -c 5)"
    imported = import_body(f"{line}\nsrun python t.py", ONE_GPU)
    assert "environment" not in yaml.safe_load(imported.yaml)
    assert [left.reason for left in imported.left] == [WHY.OF_SRUN]
    assert line in spec_of(f"{line}\npython t.py", ONE_GPU)["environment"]["setup"]


def test_a_launch_that_gives_ranks_by_the_environment_is_torchrun() -> None:
    agent = "python -m torch.distributed.launch --nproc_per_node=1"
    assert spec_of(f"{agent} --use_env t.py", ONE_GPU)["run"] == {"script": "t.py"}
    assert spec_of(f"{agent} t.py", ONE_GPU)["launch"] == {"mode": "plain"}


def test_what_keys_say_stays_out_of_the_setup() -> None:
    hook = "source $(conda info --base)/etc/profile.d/conda.sh"
    for body in (
        f"module load a && module load b\n{hook}\nconda activate e",
        f"module load a b && {hook} && conda activate e",
        'module load a b\neval "$(conda shell.bash hook)"\nconda activate e\necho $(conda list)',
    ):
        environment = spec_of(f"{body}\npython t.py", ONE_GPU)["environment"]
        assert environment == {"modules": ["a", "b"], "conda": "e"}
    assert spec_of("conda activate ./.c\npython t.py", ONE_GPU)["environment"] == {"conda": "./.c"}
    setup = spec_of("ls x && module load a && module load b\npython t.py", ONE_GPU)
    assert "ls x && module load a && module load b" in setup["environment"]["setup"]
    apart = spec_of("module load $A && module load b\npython t.py", ONE_GPU)["environment"]["setup"]
    assert apart == "module load $A\nmodule load b\n"


@pytest.mark.parametrize(
    ("body", "environment"),
    [
        (
            "source ~/c/conda.sh\nconda activate e\nexport A=1 CC=gcc\nunset B\nexport B=2",
            {"variables": {"A": "1"}, "setup": ["CC=gcc", "B=2"]},
        ),
        ("chmod +x a\nexport A=1\ncp a $A\nexport C=$A/b", {"variables": {"A": "1", "C": "1/b"}}),
        ("python -c 1\nexport A=1", {"setup": ["A=1"]}),
        ("export a=1\nmodule load b", {"modules": ["b"], "setup": ["a=1"]}),
        ("export a=$(which b)\nmodule load b", {"setup": ["module load b"]}),
        ("A=x\n. /usr/share/modules/init/bash\nmodule load $A", {"modules": ["x"]}),
        (
            "A=x\n. /opt/modules/3/init/bash\nmodule load $A",  # where jobgen does not look
            {"setup": ["A=x\n. /opt/modules/3/init/bash\nmodule load $A"]},
        ),
        ("source /etc/profile.d/modules.sh\nsource a.sh", {"setup": ["profile.d/modules.sh"]}),
        ("source /a/bin/activate && conda activate e", {"setup": ["/a/bin/activate"]}),
    ],
)
def test_what_order_allows_goes_into_keys(body: str, environment: dict[str, Any]) -> None:
    own = spec_of(f"{body}\npython t.py", ONE_GPU)["environment"]
    setup = own.pop("setup", "")
    lines = environment.pop("setup", [])
    assert own == environment
    assert all(line in setup for line in lines)


def test_variables_that_the_submission_may_set_are_named_and_have_their_defaults() -> None:
    asked = 'LR="${LR:-3e-4}"\nexport N=${N-8}\n: ${S:?none}\nNCCL_DEBUG=${NCCL_DEBUG:-INFO}\n'
    asked += "CONDA_DIR=${CONDA_DIR:-/a}\nCONDA_PREFIX=${CONDA_PREFIX:-/a}\n"
    for more in ("", "trap x EXIT\n"):
        imported = import_body(f"{asked}{more}python t.py --lr $LR", ONE_GPU)
        (left,) = [x for x in imported.left if x.reason == WHY.SUBMITTED]
        assert (left.line, left.text) == (4, "$LR $N $S $CONDA_DIR")
        assert bool(imported.body) == bool(more)
    spec = yaml.safe_load(import_body(f"{asked}python t.py --lr $LR", ONE_GPU).yaml)
    assert str(spec["run"]).count("3e-4") == 1
    assert spec["environment"]["variables"]["N"] == "8"
    assert "write another value where the spec has its default" in left.reason
    for other in ("S=${S:-$HOME/a}", ": ${S:?none}", "S=${S:-}"):  # has no plain default
        assert "$S" in str(spec_of(f'{other}\npython t.py "$S"', ONE_GPU)["run"])
    given = import_body('LR=${LR:-1}\npython t.py "$LR"', ONE_GPU, "#SBATCH --export=ALL,LR=3")
    assert "[python, t.py, '3']" in given.yaml
    assert not [x for x in given.left if x.kind != "kept"]
    # What a file or a condition may set has no default.
    assert "LR" in str(spec_of(f"source s.sh\n{asked}python t.py --lr $LR", ONE_GPU))
    unsure = f"if [ -f a ]; then\nLR=1\nfi\n{asked}srun python t.py --lr $LR"
    assert kept(unsure, ONE_GPU)


@pytest.mark.parametrize("body", ["srun python t.py", "trap x EXIT\nsrun a"])
def test_directives_of_another_scheduler_are_named(body: str) -> None:
    for other in ("#SBATCH --nodes=1", "#$ -cwd"):
        head = f"#PBS -N a\n#PBS -l select=1:ncpus=4\n\n# too\n{other}\n"
        left = import_pbs(f"{head}{body}").left
        assert [x.text for x in left if x.reason == WHY.OF_OTHERS] == [other]
    late = "#PBS -N a\n#PBS -q b\ncd $PBS_O_WORKDIR\ncat > b <<E\n#SBATCH -N 1\nE\npython t.py"
    assert not [left for left in import_pbs(late).left if left.reason == WHY.OF_OTHERS]


def test_a_variable_that_is_exported_from_the_beginning_is_not_set_again() -> None:
    sets = "B=$WORK/a\nO=$B/out\nexport O=$O\nmkdir -p $O  # for all\npython t.py"
    environment = spec_of(sets, ONE_GPU)["environment"]
    assert environment["variables"] == {"O": {"value": "$WORK/a/out", "expand": True}}
    assert environment["setup"] == "mkdir -p $O\n"  # without B, and the remark
    other = "O=a\nmkdir -p $O\nO=b\nexport O\nmkdir -p $O\npython t.py"
    assert "O=a" in spec_of(other, ONE_GPU)["environment"]["setup"]
    late = "source s.sh\nO=a\nmkdir $O\nexport O\npython t.py"
    assert "O=a" in spec_of(late, ONE_GPU)["environment"]["setup"]
    for line in ('mkdir "a # b"', "touch a#b", "touch ${A# b}", "cat >a <<< '1 # 2'"):
        assert line in spec_of(f"{line} # c\npython t.py", ONE_GPU)["environment"]["setup"]


def test_a_reason_is_that_of_the_line() -> None:
    assert kept("conda run python t.py", ONE_GPU) == WHY.OF_CONDA
    for says in ('echo "Usage: $0 a" >&2', "printf '%s' ${BASH_SOURCE[0]} 1>&2"):
        body = f"if [ $# -lt 1 ]; then\n{says}\nexit 1\nfi\nshift\npython t.py"
        assert "for line 8: shift" in import_body(body, ONE_GPU).yaml
    assert kept("echo $0 > a\npython t.py", ONE_GPU) == WHY.BASH
    run = 'if [ -z "$1" ]; then\nsbatch -N 1 "${BASH_SOURCE[0]}" a\nelse\npython t.py $1\nfi'
    assert "submits itself" in refusal_of(Script("job.sh", f"#!/bin/bash\n{run}\n"))
    others = 'cd $(dirname "$0")\nsbatch a.sh'
    assert "submits others" in refusal_of(Script("job.sh", f"#!/bin/bash\n{others}\n"))


@pytest.mark.parametrize(
    ("own", "itself"),
    [
        ('ME="$(realpath "$0")"\nsbatch -N 2 "$ME" --go', True),
        ('ME="$(cd "$(dirname "$0")" && pwd)/$(basename "$0")"\nsbatch --wait $ME', True),
        ("S=${BASH_SOURCE[0]}\n[ $SLURM_JOB_ID ] || jobid=$(sbatch $S)", True),
        ('N="$(basename "$0")"\nsbatch -J "$N" job.sh', False),
        ('D="$(dirname "$(realpath "$0")")"\nsbatch "$D/job.sh"', False),
    ],
)
def test_a_script_that_submits_itself_by_a_variable_does_not_submit_others(
    own: str, itself: bool
) -> None:
    refusal = refusal_of(Script("job.sh", f"#!/bin/bash\n{own}\npython t.py\n"))
    assert ("submits itself" in refusal) == itself


@pytest.mark.parametrize(
    "line",
    [
        "pip install -r requirements.txt --user -q",
        "python3 -m venv venv",
        "conda env update -f a.yml",
        "module load $A",
        "source $MODULESHOME/init/bash\nmodule load a",
        "make -j 8 mpi",
        "rm -rf out",
        "A=$(hostname -I | awk '{print $1}')\nmkdir -p $A",
        "wget a.org/b || echo none",
        "mkdir -p out && cd out",
        "[ -d out ] || mkdir out",
    ],
)
def test_a_setup_that_makes_an_environment_needs_no_set_e(line: str) -> None:
    setup = spec_of(f"{line}\npython t.py", ONE_GPU)["environment"]["setup"]
    assert setup == f"{line}\n"


@pytest.mark.parametrize(
    ("lines", "setup"),
    [
        ("source ~/.bashrc\nconda activate a", "source ~/.bashrc || true\nconda activate a"),
        ("rm a.log\ncp a b && cp c d", "rm a.log || true\ncp a b && cp c d || true"),
        ("apptainer pull a.sif docker://a", "apptainer pull a.sif docker://a || true"),
        ("cp a b\nset -e\ncp c d", "cp a b || true\ncp c d"),
        ('. "a b.sh" # or "c"', '. "a b.sh" || true'),
        ("cp 'a' c#d \"$A\"    # it's", "cp 'a' c#d \"$A\" || true"),
        ("cp a\\ b c  # it's\nmkdir -p a\\ #b", "cp a\\ b c || true\nmkdir -p a\\ #b"),
        ("sort -u $PBS_NODEFILE > hosts", "sort -u $PBS_NODEFILE > hosts"),
        ("cat $L > hosts", "cat $L > hosts || true"),
        ("conda deactivate\nmake", "conda deactivate || true\nmake"),
        ("mamba deactivate", "mamba deactivate || true"),
        ("source deactivate # a", "source deactivate || true"),
        ("conda init bash", "conda init bash || true"),
        ("deactivate\nset -e\n. deactivate", "deactivate || true\n. deactivate"),
        ('. "$HOME/c/etc/profile.d/conda.sh"\nconda activate /a\n. "/v/bin/activate"',) * 2,
    ],
)
def test_a_line_that_may_fail_says_so_itself(lines: str, setup: str) -> None:
    spec = spec_of(f"{lines}\npython t.py", ONE_GPU)
    assert spec["environment"]["setup"] == f"{setup}\n"


@pytest.mark.parametrize("line", ["cat a | tee b", "cat <<E >a\nx\nE", "ls x\nR=$?"])
def test_where_no_line_can_say_so_the_setup_does(line: str) -> None:
    setup = spec_of(f"cp a b\n{line}\nmkdir -p $R\npython t.py", ONE_GPU)["environment"]["setup"]
    assert setup.startswith("set +e ")
    assert "|| true" not in setup


def test_one_cd_says_what_several_do() -> None:
    for lines, folder in {
        "cd ~/a\ncd ./b\ncd c": "~/a/b/c",
        "cd $HOME/a/\ncd b/": "$HOME/a/b",
        "cd /a\ncd ../b": None,
        "cd a\ncd $B": None,
        "cd a || exit\ncd b": None,
    }.items():
        setup = spec_of(f"{lines}\npython t.py", ONE_GPU)["environment"]["setup"]
        assert setup == f"cd {folder}\n" if folder else setup.count("cd ") == 2
    imported = import_pbs("#PBS -l select=1:ncpus=2\ncd a\ncd b\npython t.py")
    assert yaml.safe_load(imported.yaml)["environment"]["setup"] == "cd ~/a/b\n"


def test_the_default_of_an_argument_that_never_comes_is_written_out() -> None:
    for default in ("$D", "a.yaml", "$D.yaml"):
        spec = spec_of(f"D=a\nC=${{1:-{default}}}\npython t.py -c $C", ONE_GPU)
        assert spec["run"]["command"][-1] == default.replace("$D", "a")
        assert "environment" not in spec


def test_a_launcher_of_one_process_needs_no_room_for_more_on_any_node() -> None:
    for line in ("aprun -n 1 -N 1 ./a", "mpirun -np 1 ./a"):
        spec = yaml.safe_load(import_pbs(f"#PBS -l nodes=2:ppn=16\n{line}").yaml)
        assert spec["launch"] == {"mode": "plain"}
    two = yaml.safe_load(import_pbs("#PBS -l nodes=2:ppn=16\nmpirun -np 32 ./a").yaml)
    assert two["launch"]["processes_per_node"] == 16


def test_a_path_is_no_builtin() -> None:
    for program in ("./test", "bin/time", "$HOME/sort", "./[", "/opt/a/test"):
        spec = spec_of(f"mpirun -np 2 {program} a", "#SBATCH --nodes=1 --ntasks-per-node=2")
        assert spec["run"]["command"][3] in (program, {"value": program, "expand": True})
    for command in ("/usr/bin/test a", "/bin/date", "test -f a"):
        assert "no line starts" in kept(command, ONE_GPU)


def test_what_gets_an_image_is_no_program_of_the_job() -> None:
    for line in ("apptainer pull a.sif docker://b", "singularity build a.sif a.def"):
        spec = spec_of(f"{line}\napptainer exec a.sif python t.py", ONE_GPU)
        assert spec["run"]["command"][0] == "apptainer"
        assert spec["environment"]["setup"] == f"{line} || true\n"


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (r"--container-image ghcr.io\#a/b", "ghcr.io#a/b"),
        (r"--comment=a\\b", r"a\b"),
        (r"--comment=it\'s", "it's"),
        (r"--comment=two\ words", "two words"),
        (r'--comment="a \"b\" c\#d"', 'a "b" c#d'),
        (r"--comment='a\\ b'", r"a\ b"),
    ],
)
def test_what_a_directive_escapes_stays_so(asked: str, value: str) -> None:
    (again,) = spec_of("a | b", ONE_GPU, f"#SBATCH {asked}")["directives"][:1]
    # As sbatch reads it.
    words = re.findall(r"""\\(.)|'([^'\\]*)'|"([^"\\]*)"|([^#\\'"\s])""", again.partition("=")[2])
    assert "".join(map("".join, words)) == value
    assert make_script("a", again).read_directives[0].value == value


@pytest.mark.parametrize(
    ("line", "directives", "count"),
    [
        ("srun --mpi=pmix -c 1 ./x", ("#SBATCH --ntasks-per-node=1 --cpus-per-task=8",), 1),
        ("srun --mpi=pmix -c 1 ./x", ("#SBATCH --ntasks=1 --cpus-per-task=8",), 1),
        ("srun --mpi=pmix ./x", ("#SBATCH --nodes=1 --ntasks=1 --exclusive",), 1),
        ("srun --mpi=pmix ./x", ("#SBATCH --nodes=2 --ntasks-per-node=1",), 1),
        ("srun --mpi=pmix -c 1 ./x", ("#SBATCH --nodes=1 --cpus-per-task=8",), None),
    ],
)
def test_an_own_launcher_without_a_number_has_that_of_the_directives(
    line: str, directives: tuple[str, ...], count: int | None
) -> None:
    launch = spec_of(line, *directives)["launch"]
    assert launch.get("processes_per_node") == count


@pytest.mark.parametrize(
    "line",
    ["mpibind -- ./x", "mpiexec_mpt omplace -nt 2 ./x", "mpiexec_mpt dplace -s 1 ./x"],
)
def test_launchers_of_sites_start_what_the_chunks_have_room_for(line: str) -> None:
    spec = yaml.safe_load(import_pbs(f"#PBS -l select=1:ncpus=8:mpiprocs=4\n{line}").yaml)
    assert spec["launch"] == {"mode": "plain", "processes_per_node": 4}


def test_of_a_program_that_may_start_others_nothing_else_is_said() -> None:
    (left,) = import_pbs("#PBS -l select=1:ncpus=8:mpiprocs=4\nourrun ./x").left
    assert (left.kind, left.reason) == ("check", WHY.ONE_TASK)


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ("{\nmodule load a\n} &> /dev/null", "group in { }"),
        ("[ -f a ] && { make; echo made; }", "group in { }"),
        ("case $A in a) make ;; esac", "condition"),
        ("(make)", "subshell"),
        ("for i in 1 2; do make; done", "loop"),
    ],
)
def test_the_reason_for_a_block_names_its_kind_among_others(block: str, named: str) -> None:
    assert named in kept(f"{block}\npython t.py", ONE_GPU)


@pytest.mark.parametrize(
    "asked",
    [
        "#SBATCH --nodes=1 --ntasks-per-node=16 --mem=128G",
        "#SBATCH --ntasks=16 --nodes=1",
        "#SBATCH --nodes=1 --ntasks-per-node=4 --cpus-per-task=8 --gres=gpu:4",
        "#PBS -l select=1:ncpus=16:mpiprocs=16",
        "#PBS -l nodes=1:ppn=16",
    ],
)
def test_what_a_note_on_one_task_says_keeps_the_tasks_of_the_script(asked: str) -> None:
    script = make_script("./run.sh a.in", asked)
    imported = import_script(script)
    reasons = [x.reason for x in imported.left if "run.body" in x.reason]
    assert reasons == [WHY.ONE_SLOT if "ppn" in asked else WHY.ONE_TASK]
    assert "resources.cpus_per_node" in reasons[0]
    spec = yaml.safe_load(imported.yaml)
    del spec["resources"]["cpus_per_node"], spec["launch"]
    sign, *options = asked.split(" -")
    spec |= {"run": {"body": "a.sh"}, "directives": [f"{sign} -{x}" for x in options]}
    written = Script("a", render(plan_of(spec)))
    assert all(written.value(x.option) == x.value for x in script.read_directives)
    kept = script.request.tasks, script.request.cpus
    assert (written.request.tasks, written.request.cpus) == kept


def test_dots_are_a_place_to_fill_in() -> None:
    imported = import_body("python t.py", ONE_GPU, "#SBATCH --account=....", "#SBATCH -p ...")
    assert [left.kind for left in imported.left] == ["lost", "lost"]
    assert spec_of("python t.py", ONE_GPU, "#SBATCH --comment=a...")["directives"]


@pytest.mark.parametrize(
    "line",
    [
        "conda activate your_env_name",
        "source activate yourenv",
        "source path/to/venv/bin/activate",
        "ENV=env_name\nconda activate $ENV",
        "source $HOME/your-venv/bin/activate",
    ],
)
def test_a_place_to_fill_in_is_the_name_of_no_environment(line: str) -> None:
    imported = import_body(f"module load a\n{line}\npython t.py", ONE_GPU)
    assert {left.reason for left in imported.left} == {"this is a place to fill in"}
    assert yaml.safe_load(imported.yaml)["environment"] == {"modules": ["a"]}
    for name in ("yours", "YourTTS", "my_env"):
        spec = spec_of(f"conda activate {name}\npython t.py", ONE_GPU)
        assert spec["environment"] == {"conda": name}


def test_a_name_that_torque_alone_completes_is_left_out() -> None:
    asked = "#PBS -l nodes=1:ppn=2\n#PBS -o $PBS_JOBID.out\n#PBS -e $HOME/$PBS_JOBID.err"
    for body in ("./x", "trap x EXIT\n./x"):
        imported = import_pbs(f"{asked}\n{body}")
        own = [left.text for left in imported.left if left.reason == WHY.COMPLETED]
        assert own == asked.split("\n")[1:]
        assert "JOBID" not in str(yaml.safe_load(imported.yaml))


@pytest.mark.parametrize(
    ("line", "each"),
    [
        ("mpiexec -np 3 --map-by ppr:1:node --hostfile $PBS_NODEFILE ./x", None),
        ("aprun -n 3 -N 1 ./x", None),
        ("mpiexec -n 36 ./x", 12),
        ("mpiexec -n 30 ./x", 12),
    ],
)
def test_one_process_of_each_chunk_needs_one_slot(line: str, each: int | None) -> None:
    text = import_pbs(f"#PBS -l nodes=3:ppn=12\ncd $PBS_O_WORKDIR\n{line}").yaml
    assert yaml.safe_load(text)["launch"].get("processes_per_node") == each


def test_what_a_step_tells_its_one_task_is_named_where_a_program_may_read_it(
    tmp_path: Path,
) -> None:
    asked = "#SBATCH --nodes=1 --ntasks-per-node=1 --gres=gpu:1"

    def names(line: str) -> bool:
        return WHY.NO_STEP in [left.reason for left in import_body(line, asked).left]

    with working_in(tmp_path):
        Path("own").mkdir()
        Path("single.py").touch()
        Path("train.py").write_text("import torch\n")
        Path("ranks.py").write_text('rank = os.environ.get("SLURM_PROCID")\n')
        Path("run.sh").write_text("echo $SLURM_NTASKS\n")
        assert names("srun python -u -m lib.run --a b")
        assert names("srun python ranks.py")
        assert names("srun ./run.sh")
        assert not names("srun python -m own.run")
        assert not names("srun python -m single")
        assert not names("srun python train.py")
        assert not names("srun python other.py")
        assert not names("python -m lib.run")
        assert not names("srun --mpi=pmix python -m lib.run")


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        ('export RUN="accelerate launch --num_processes 4"\n$RUN t.py', False),
        ("export GO='torchrun --nproc_per_node=4'\n\n$GO t.py --lr 1", False),
        ('export L="python -m torch.distributed.run --nproc_per_node=4"\nsrun $L t.py', False),
        ('export L="torchrun --nproc_per_node=4"\necho "$L" > cmd.txt\n$L t.py', True),
        ('export A="torchrun 1"\npython t.py', True),
        ('export DATA="torch"\npython t.py $DATA', True),
    ],
)
def test_an_export_of_the_launch_line_itself_is_not_needed(body: str, stays: bool) -> None:
    environment = spec_of(body, "#SBATCH --nodes=1 --gres=gpu:4").get("environment", {})
    assert bool({"setup", "variables"} & environment.keys()) == stays


BESIDE = 'srun --nodes=1 -w "${nodes[0]}" python3 srv.py $PORT &'


@pytest.mark.parametrize(
    ("lines", "could"),
    [
        ((BESIDE, "srun -N 1 -w ${nodes[1]} torchrun ddp.py"), "BY_ROLES"),
        (("srun --nodelist=$a \\\n  vllm serve m &", "sleep 60", "python ask.py"), "BY_ROLES"),
        (("srun -w $a python -m judge.server &", "mpirun python train.py"), "BY_ROLES"),
        (("srun -w $a train.py 0 &", "srun -w $b train.py 1 &", "wait"), ""),
        ((BESIDE, "wait"), ""),
        (("python3 srv.py &", "srun -w $b python ask.py"), ""),
        (("srun -w $a ray start \\\n  --head --block &", "python -u train.py"), "BY_RAY"),
        (("ray start --head", "srun ray start --address=$a &", "python train.py"), "BY_RAY"),
        (("# ray start --head", "python a.py", "python b.py"), ""),
    ],
)
def test_beside_a_kept_body_import_says_what_jobgen_could_start_itself(
    lines: tuple[str, ...], could: str
) -> None:
    imported = import_body("\n".join(lines), TWO_NODES)
    assert imported.body, imported.yaml
    said = [kind for kind in ("BY_RAY", "BY_ROLES") if vars(WHY)[kind] in imported.yaml]
    assert said == [could] * bool(could)


def test_of_two_numbers_of_gpus_the_one_that_does_not_count_is_named() -> None:
    for each, checks in (("1", [4]), ("a100:1", [4]), ("2", [])):
        gpus = "#SBATCH --nodes=1", "#SBATCH --gres=gpu:2", f"#SBATCH --gpus-per-node={each}"
        imported = import_body("python t.py", *gpus)
        assert [left.line for left in imported.left if "counts here" in left.reason] == checks
        assert yaml.safe_load(imported.yaml)["resources"]["gpus_per_node"] == 2


def test_what_holds_a_job_behind_its_program_is_not_left_out() -> None:
    for last in ("tail -n 9 -f log", "sleep infinity", "sleep 2h"):
        assert kept(f"./start.sh\n{last}", ONE_GPU) == WHY.AFTER
    for last in ("tail -n 9 log", "sleep 5"):
        assert not import_body(f"./start.sh\n{last}", ONE_GPU).body


@pytest.mark.parametrize("option", ["-C", "--gres", "--mail-user", "--nodelist", "--dependency"])
@pytest.mark.parametrize("empty", ['""', "''"])
def test_an_option_written_out_as_empty_asks_for_nothing(option: str, empty: str) -> None:
    asked = f"#SBATCH {option}{'=' if option[1] == '-' else ' '}{empty}"
    for body in ("python t.py", "trap x EXIT\npython t.py"):
        imported = import_body(body, ONE_GPU, asked)
        assert not [x for x in imported.left if x.kind != "kept"]
        said = str(yaml.safe_load(imported.yaml))
        assert option.replace("-C", "--constraint") not in said
    for place in (f"{asked}  # what you have", asked.rstrip(empty), '#SBATCH --nodes=""'):
        assert [x.kind for x in import_body("trap x EXIT", place).left] == ["lost"]


@pytest.mark.parametrize(
    "told",
    [
        'qsub -v PROJECT="<name>",NP=4 job.pbs',
        "run: qsub -q a -v NP=4,PROJECT=a job.pbs",
        "$ sbatch --export=ALL,PROJECT=a job.sh",
        "PROJECT=a NP=4 sbatch job.sh",
    ],
)
def test_what_a_comment_gives_to_the_submission_comes_from_outside(told: str) -> None:
    for use in ("cc $PROJECT.c\n./$PROJECT", "python t.py --p $PROJECT"):
        (left,) = import_body(f"# {told}\n{use}", ONE_GPU).left
        assert (left.text, left.reason) == ("$PROJECT", WHY.SUBMITTED)
        assert not import_body(use, ONE_GPU).left
        assert not import_body(f"# {told}\nPROJECT=b\n{use}", ONE_GPU).left


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH", "PATH"])
def test_a_folder_above_in_a_list_that_is_searched_is_none_that_the_job_needs(name: str) -> None:
    export = f"export {name}=${name}:../\n"
    for run in ("python t.py > log 2>&1 &\nwait", "python t.py"):
        own = yaml.safe_load(import_pbs(f"#PBS -l ncpus=1\n{export}{run}").yaml)
        assert WHY.AT_HOME in own["environment"]["setup"]
        own = yaml.safe_load(import_pbs(f"#PBS -l ncpus=1\n{export}{run} ../x").yaml)
        assert WHY.AT_HOME not in str(own)


LOOP = "for i in 1 2; do\n  python t.py\ndone"


@pytest.mark.parametrize(
    "body",
    [
        "n=$(awk '{print $0}' f)",
        "n=\"$(grep -v x f | awk '/a/ {print $0}')\"",
        "n=`sed 's/$0/1/' f`",
        "python t.py $(A=1; echo $A)",
        "python t.py `read A < f; echo $A`",
        'python t.py "$([ -f x ] && (A=x;\n  if [ -d $A ]; then A=$A/f; fi;\n  echo $A))"',
    ],
)
def test_what_a_substitution_quotes_or_sets_itself_comes_from_nowhere_else(body: str) -> None:
    assert not import_body(f"{body}\n{LOOP}", ONE_GPU).left
    assert import_body(f"cp $0 $A\n{body}\n{LOOP}", ONE_GPU).left


def test_shift_is_named_once() -> None:
    body = "while (($#)); do\n case $1 in\n  --a) A=$2; shift; shift ;;\n  *) shift ;;\n esac\ndone"
    left = import_body(f"{body}\npython t.py $A", ONE_GPU).left
    assert [x.text for x in left].count("shift") == 1


def test_a_program_without_srun_may_lose_cpus_of_a_node_that_is_exclusive() -> None:
    asked = "#SBATCH --exclusive --cpus-per-task=4 --gpus-per-node=4"
    for run in ("./train.sh", "python t.py", "torchrun --nproc-per-node=4 t.py"):
        reasons = [x.reason for x in import_body(run, asked).left]
        assert WHY.ALL_CPUS in reasons
        assert WHY.ALL_CPUS not in [x.reason for x in import_body(f"srun -c 4 {run}", asked).left]
        few = asked.replace("--exclusive ", "")
        assert WHY.ALL_CPUS not in [x.reason for x in import_body(run, few).left]


def test_a_file_that_brings_modules_stays_for_what_the_program_calls() -> None:
    for line in (
        "source /etc/profile",
        ". /opt/lmod/lmod/init/bash",
        "source /etc/profile.d/lmod.sh",
    ):
        own = spec_of(f"{line}\n./run.sh", ONE_GPU)
        assert own["environment"]["setup"] == f"{line}\n"
    assert "environment" not in spec_of('eval "$(conda shell.bash hook)"\n./run.sh', ONE_GPU)


def test_a_directive_that_a_blank_cuts_in_two_or_that_is_empty_is_none() -> None:
    for cut in ("-o ${A:?set A}/x.out", "--output=$(cat f)/x.out", "--comment=a, b"):
        assert "directives" not in spec_of("python t.py", ONE_GPU, f"#SBATCH {cut}")
    for empty in ("group_list=", "depend="):
        own = yaml.safe_load(import_pbs(f"#PBS -W {empty}\ncd $PBS_O_WORKDIR\n./a").yaml)
        assert "directives" not in own
    own = yaml.safe_load(import_pbs("#PBS -W group_list=a\ncd $PBS_O_WORKDIR\n./a").yaml)
    assert own["directives"] == ["#PBS -W group_list=a"]


def test_a_profiler_before_a_launcher_leaves_it_its_tasks() -> None:
    asked = "#SBATCH --nodes=2 --ntasks-per-node=4"
    for profiler in ("perf stat -e cycles", "nsys profile -o out", "strace -f", "vtune -c a --"):
        own = spec_of(f"{profiler} mpirun -np 8 ./a", asked)
        assert own["launch"] == {"mode": "plain", "processes_per_node": 4}
        assert " ".join(own["run"]["command"]) == f"{profiler} mpirun -np 8 ./a"
    assert kept("own_wrapper mpirun -np 8 ./a", asked) == WHY.FIRST_NODE


def test_a_wrapper_for_a_terminal_or_buffers_leaves_a_program_to_jobgen() -> None:
    own = spec_of("srun python t.py", EACH_GPU)
    for wrapper in ("stdbuf -oL -eL", "nohup", "nohup stdbuf -o L", "stdbuf --output=0"):
        assert spec_of(f"{wrapper} srun python t.py", EACH_GPU) == own
    assert spec_of("stdbuf -oL ./a", ONE_GPU)["run"]["command"] == ["stdbuf", "-oL", "./a"]


def test_a_gpu_of_a_kind_alone_is_one() -> None:
    for asked in ("--gpus=a100", "-G a100:1", "--gpus-per-node=a100"):
        resources = spec_of("python t.py", f"#SBATCH --nodes=1 {asked}")["resources"]
        assert resources == {"gpus_per_node": 1, "gpu_type": "a100"}


def test_gpus_of_torque_are_of_its_one_node() -> None:
    for chunk, count in (("1:ppn=4", 1), ("1:ppn=8:k80", 2)):
        text = f"#PBS -l nodes={chunk}\n#PBS -l gpus={count}\ncd $PBS_O_WORKDIR\npython t.py"
        imported = import_pbs(text)
        assert yaml.safe_load(imported.yaml)["resources"]["gpus_per_node"] == count
        assert "gpus=" in "".join(
            left.text for left in imported.left
        )  # which may be Torque's alone
    for chunk in ("2:ppn=4", "node7:ppn=4", "10"):
        own = import_pbs(f"#PBS -l nodes={chunk}\n#PBS -l gpus=2\ncd $PBS_O_WORKDIR\nmpirun ./a")
        assert "gpus_per_node" not in own.yaml
        assert "'#PBS -l gpus=2'" in own.yaml


@pytest.mark.parametrize(
    ("before", "variables"),
    [
        ("cd $A", None),  # as the job has it from elsewhere
        ("mkdir -p out/$A\nmodule load x", None),
        ("rm -rf out\nmodule load x", {"A": "1"}),
        ("conda init bash || true\nmodule load x", {"A": "1"}),
        ("cp a b\nmodule load x", None),  # a venv, say
        ("export A=2\nmkdir $A", {"A": "2"}),
    ],
)
def test_a_variable_is_set_behind_the_lines_that_read_what_it_was(
    before: str, variables: dict[str, str] | None
) -> None:
    imported = import_body(f"{before}\nexport A=1\npython t.py", "#SBATCH --gres=gpu:1")
    environment = yaml.safe_load(imported.yaml)["environment"]
    assert environment.get("variables") == variables
    assert ("export A=1" in environment["setup"]) is (variables != {"A": "1"})


def test_a_chain_by_hand_is_named_with_the_key_that_replaces_it() -> None:
    body = "python t.py\nif [ $RUN -lt 5 ]; then\nqsub -v RUN=$((RUN+1)) chain.pbs\nfi\n"
    head = "#!/bin/bash\n#PBS -l select=1:ncpus=4\ncd $PBS_O_WORKDIR\n"
    left = {one.reason: one.text for one in import_script(Script("chain.pbs", head + body)).left}
    assert left[WHY.FROM_OUTSIDE] == "$RUN"
    assert left[WHY.SUBMITS_MORE].startswith("qsub")
    maker = "#!/bin/bash\ncp $0 out/\ncat > a.sh <<E\n#SBATCH -N1\nE\nsbatch a.sh\n"
    assert "submits others" in refusal_of(Script("job.sh", maker))
