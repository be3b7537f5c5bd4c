"""What import once lost or refused, and carries as it is, by class."""

import subprocess
from typing import Any

import pytest
import yaml
from importing import import_body, make_script, refusal_of, spec_of

from jobgen.batchscript.convert import Imported, import_script
from jobgen.batchscript.reader import Script

GPU = "#SBATCH --gres=gpu:1"


def lost_of(imported: Imported) -> list[str]:
    return [left.text for left in imported.left if left.kind == "lost"]


def import_pbs(*lines: str) -> tuple[dict[str, Any], list[str]]:
    imported = import_script(Script("job.pbs", "\n".join(["#!/bin/bash", *lines, ""])))
    return yaml.safe_load(imported.yaml), lost_of(imported)


# --- arguments of the script ---------------------------------------------------------------


def test_arguments_come_from_the_shell_that_submits() -> None:
    body = """f() { echo "$1"; }
if [ $# -lt 2 ]; then exit 1; fi
NAME=$(basename "$2" | awk '{print $1}')
export NAME
f x
torchrun --nproc-per-node=1 train.py --data "$1" --name ${2}.txt"""
    imported = import_body(body, GPU)
    spec = yaml.safe_load(imported.yaml)
    assert lost_of(imported) == []
    assert spec["environment"]["from_shell"] == ["ARG1", "ARG2"]
    setup, line = spec["environment"]["setup"], spec["run"]["command"][-1]
    assert "if [ 2 -lt 2 ]" in setup
    assert """basename "${ARG2}" | awk '{print $1}'""" in setup
    assert line.endswith('train.py --data "${ARG1}" --name ${ARG2}.txt')


def test_an_argument_with_a_default_is_not_asked_for() -> None:
    imported = import_body("python train.py --lr ${1:-0.1} --seed ${2-7}", GPU)
    spec = yaml.safe_load(imported.yaml)
    assert lost_of(imported) == []
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "0.1", "--seed", "7"]}
    assert "from_shell" not in spec.get("environment", {})


@pytest.mark.parametrize("use", ["shift", "echo $*", "getopts ab: o", 'set -- "$@" x'])
def test_arguments_that_are_moved_stay_lost(use: str) -> None:
    assert "$1" in lost_of(import_body(f"{use}\nX=$1\npython train.py $X $1", GPU))


def test_a_job_that_is_submitted_for_each_node_is_not_one_of_all() -> None:
    body = "torchrun --nnodes=2 --node_rank=$1 --master_addr=n1 --nproc_per_node=1 train.py"
    assert "--node-rank=$1" in [
        text.replace("${ARG1}", "$1") for text in lost_of(import_body(body, GPU))
    ]


# --- programs that need no PyTorch ---------------------------------------------------------


def test_a_program_without_torch_is_not_asked_for_it() -> None:
    body = "module load tensorflow\nsrun python solve.py"
    assert spec_of(body, GPU)["launch"] == {"mode": "plain"}
    several = spec_of(body, "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4")
    assert several["launch"] == {"mode": "plain", "processes_per_node": 4}
    assert "launch" not in spec_of(f"module load torch\n{body}", GPU)


def test_what_is_loaded_between_programs_is_loaded_there() -> None:
    imported = import_body("python a.py\nmodule load torch\npython b.py", GPU)
    spec = yaml.safe_load(imported.yaml)
    assert (lost_of(imported), spec["launch"]) == ([], {"mode": "plain"})
    assert spec["run"]["command"][-1] == "python a.py\nmodule load torch\npython b.py"


def test_a_binary_behind_a_script_that_binds_it_is_refused() -> None:
    asked = ("#SBATCH --nodes=2 --ntasks-per-node=4",)
    for line in ("srun ./set_gpu.sh ./solver", "srun set_affinity_gpu.sh /opt/x/solver -i in"):
        assert "is not Python" in refusal_of(make_script(line, *asked))
    assert "run" in spec_of("srun ./run.sh /data/x.bin", *asked)


# --- directives ----------------------------------------------------------------------------


def test_what_a_chunk_of_pbs_has_is_the_constraint() -> None:
    select = "#PBS -l select=2:ncpus=8:ngpus=2:gpu_model=a100:interconnect=hdr"
    spec, lost = import_pbs(select, "cd $PBS_O_WORKDIR", "python train_torch.py")
    assert spec["resources"]["constraint"] == "gpu_model=a100:interconnect=hdr"
    assert lost == ["python train_torch.py"]  # of the first node alone
    unequal = "#PBS -l select=1:ngpus=2:gpu_model=a100+1:ngpus=2:gpu_model=v100"
    assert import_pbs(unequal, "cd /x", "mpiexec -n 2 python train_torch.py")[1] == [
        "gpu_model=a100+gpu_model=v100"
    ]


def test_mail_that_a_spec_cannot_say_is_kept_verbatim() -> None:
    mail = ("#SBATCH --mail-user=me@x.org", "#SBATCH --mail-type=FAIL,TIME_LIMIT_80")
    imported = import_body("python train.py", GPU, *mail)
    spec = yaml.safe_load(imported.yaml)
    assert (lost_of(imported), spec["directives"], "notify" in spec) == ([], list(mail), False)


def test_an_account_beside_a_group_list_is_kept_verbatim() -> None:
    own = ["#PBS -A abc", "#PBS -W group_list=xyz"]
    spec, lost = import_pbs("#PBS -l select=1:ngpus=1", *own, "cd /x", "python train.py")
    assert (spec["directives"], lost) == (own, [])


# --- what came out wrong once these were carried -------------------------------------------


def test_fewer_processes_than_the_nodes_have_are_a_loss() -> None:
    lines = ("#PBS -l select=4:ngpus=4", "cd /x", "mpiexec -n 4 -ppn 4 python train_torch.py")
    assert import_pbs(*lines)[1] == ["4 processes"]
    body = "srun -N1 -n1 python train.py"
    assert lost_of(import_body(body, "#SBATCH --nodes=2 --gpus-per-node=1")) == ["1 of 2 nodes"]


def test_a_loop_that_counts_is_no_program() -> None:
    body = "for ((i = 0; i < 3; i++)); do\n  echo $i\ndone\npython train.py"
    assert spec_of(body, GPU)["run"] == {"script": "train.py"}
    assert "no program was recognised" in refusal_of(make_script(body.replace("python", "#"), GPU))


def test_what_a_later_variable_starts_comes_after_the_program() -> None:
    body = "torchrun --nproc-per-node=1 train.py\nID=$(sbatch next.sh)\nN=$(ls | wc -l)"
    asked = "#SBATCH --nodes=2 --gpus-per-node=1"
    assert "ID=$(sbatch next.sh)" in lost_of(import_body(body, asked))
    assert line_of(body, GPU).endswith(body)


# --- several commands of one node ----------------------------------------------------------


def line_of(body: str, *directives: str) -> str:
    imported = import_body(body, *directives)
    assert lost_of(imported) == []
    spec = yaml.safe_load(imported.yaml)
    assert spec["launch"].get("processes_per_node", 1) == 1
    line: str = spec["run"]["command"][-1]
    return line


def test_what_stands_around_an_agent_of_one_node_stays_there() -> None:
    body = """nvidia-smi -l > gpu.log &
BG=$!
srun torchrun --standalone --nproc_per_node=4 train.py
kill $BG
rm -rf cache"""
    line = line_of(body, "#SBATCH --gres=gpu:4")
    assert line.startswith("unset RANK LOCAL_RANK WORLD_SIZE")
    assert line.split("\n")[1:] == body.replace("srun ", "").split("\n")


def test_a_loop_around_an_agent_of_one_node_stays_one() -> None:
    body = """set -euo pipefail
export WORLD_SIZE=4 MASTER_PORT=29500
for i in 1 2; do
  srun --label accelerate launch --num_processes $WORLD_SIZE \\
    --main_process_port $MASTER_PORT train.py --fold $i
done"""
    line = line_of(body, "#SBATCH --gres=gpu:4")
    assert "unset RANK LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR\nexport WORLD_SIZE=4\n" in line
    assert "set -euo pipefail\nfor i in 1 2; do\n  accelerate launch --num_processes" in line
    several = make_script(body, "#SBATCH --nodes=2 --gpus-per-node=4")
    assert "more than once" in refusal_of(several)


@pytest.mark.parametrize(
    "line",
    [
        "srun -n 4 python a.py",
        "srun --container-image=x.sqsh python a.py",
        'srun "${OPTIONS[@]}" python a.py',
        "python a.py $(srun hostname)",
        "srun --gres=gpu:1 python a.py",
        "torchrun --nnodes=$COUNT --nproc_per_node=1 a.py",
    ],
)
def test_launchers_that_do_more_are_refused_in_a_loop(line: str) -> None:
    script = make_script(f"for i in 1 2; do\n{line} $i\ndone", "#SBATCH --gres=gpu:2")
    assert refusal_of(script)


def test_what_slurm_says_of_the_scripts_tasks_is_put_in() -> None:
    body = "python a.py --tasks $SLURM_NTASKS\npython b.py --gpus ${SLURM_GPUS_ON_NODE}"
    line = line_of(body, "#SBATCH -N 1 --ntasks-per-node=2 --gpus-per-node=4")
    assert line.split("\n")[1:] == ["python a.py --tasks 2", "python b.py --gpus 4"]


def test_several_programs_may_run_in_containers_of_their_own() -> None:
    body = "srun singularity exec --nv a.sif python a.py\nsingularity exec b.sif python b.py"
    assert line_of(body, GPU) == body.replace("srun ", "")
    assert spec_of(body, GPU)["launch"] == {"mode": "plain"}


def test_functions_are_known_where_they_are_called() -> None:
    body = """say() { echo "said $1"; }
. ./conda.sh
python -c pass
say one
conda activate two
python a.py"""
    spec = spec_of(body.replace("python -c pass", "python b.py"), GPU)
    fake = "conda() { __conda_hook; }; __conda_hook() { echo activated; }; python() { :; }"
    setup = spec["environment"]["setup"].replace(". ./conda.sh || true", fake)
    script = f"load() {{\n{setup}\n}}\nload\n" + 'export -f python\nexec bash -c "$1"'
    line = spec["run"]["command"][-1]
    ended = subprocess.run(["bash", "-c", script, "x", line], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("said one\nactivated\n", "")


def test_a_substitution_of_a_process_is_no_here_document() -> None:
    body = "mapfile -t NAMES < <(ls data)\npython train.py ${NAMES[0]}"
    assert "mapfile -t NAMES < <(ls data)" in spec_of(body, GPU)["run"]["command"][-1]


def test_options_that_are_counted_off_are_lost() -> None:
    body = "while getopts a: o; do X=$OPTARG; done\npython train.py $X"
    assert "getopts" in lost_of(import_body(body, GPU))


# --- what two further draws of unseen scripts got wrong ------------------------------------


def test_a_program_that_may_be_a_function_is_handed_on() -> None:
    setup = spec_of("mods -r old\npython a.py", GPU)["environment"]["setup"]
    assert setup.startswith("export -f $(compgen -A function")
    assert "|mods$)" in setup


def test_programs_that_only_another_file_can_know_are_refused() -> None:
    body = 'load() { source "$1"; }\nload megatron.sh\nprepare\ntrain_all 2'
    assert "may be a function" in refusal_of(make_script(body, GPU))


def test_what_one_process_is_told_of_its_world_stays() -> None:
    asked = "#SBATCH --gres=gpu:4"
    body = "export MASTER_PORT=1234 WORLD_SIZE=4\npython train.py --world $WORLD_SIZE"
    line = spec_of(body, asked)["run"]["command"][-1]
    assert line.startswith("export WORLD_SIZE=4\nexec env -u RANK -u LOCAL_RANK")
    assert "-u MASTER_ADDR python" in line
    assert "MASTER_PORT" not in line
    unknown = f"export WORLD_SIZE=$(count)\n{body.split(chr(10))[1]}"
    assert line_of(unknown, asked).split("\n", 1)[1] == unknown


def test_an_mpi_program_that_names_no_torch_is_not_asked_for_it() -> None:
    spec = spec_of("module load cuda\nmpirun -np 4 python solve.py", "#SBATCH -n 4 --gpus=4")
    assert spec["launch"] == {"mode": "plain", "launcher": "mpiexec", "processes_per_node": 4}


def test_a_script_that_sbatch_refuses_is_refused() -> None:
    script = make_script("srun python a.py", "#SBATCH --nodes=2", shell="!/bin/bash")
    assert "sbatch refuses the script" in refusal_of(script)


def test_a_name_in_angle_brackets_is_a_place_to_fill_in() -> None:
    script = make_script("source /home/<username>/venv/bin/activate\npython a.py", GPU)
    assert "a place to fill in: '<username>'" in refusal_of(script)
    assert "run" in spec_of("sed 's/<name>/x/' < in.txt > out.txt\npython a.py", GPU)


def test_one_program_with_other_arguments_is_another() -> None:
    body = 'if [ "$MODE" = a ]; then\n{0} 1\nelif [ "$MODE" = b ]; then\n{0} 2\nfi'
    body = body.format("accelerate launch --main_process_port 1 train.py --lr")
    assert line_of(body, GPU).endswith(body)
    asked = "#SBATCH --nodes=2 --gpus-per-node=1"
    assert "only the job decides" in refusal_of(make_script(body.replace("acc", "srun acc"), asked))


def test_a_function_begins_where_its_name_is() -> None:
    body = "fail()\n{\n  echo no\n  exit 1\n}\ncd data || fail\npython train.py"
    setup = spec_of(body, "#SBATCH --nodes=1 --gres=gpu:1")["environment"]["setup"]
    assert setup.startswith("fail()\n{\n  echo no\n  exit 1\n}\n")


def test_an_argument_that_nothing_needs_is_not_asked_for() -> None:
    spec = spec_of("NAME=$1\nLR=$2\npython train.py --lr $LR", GPU)
    assert spec["environment"]["from_shell"] == ["ARG2"]


def test_a_backslash_that_ends_the_file_is_no_argument() -> None:
    text = f"#!/bin/bash\n{GPU}\nmodule load torch\npython train.py --lr 1 \\"
    spec = yaml.safe_load(import_script(Script("job.sbatch", text)).yaml)
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "1"]}


def test_a_job_of_one_node_among_several_is_not_all_of_them() -> None:
    body = "conda deactivate\npython -m torch.distributed.launch --nproc_per_node=4 --nnodes=4"
    asked = ("#SBATCH --nodes=1", "#SBATCH --gres=gpu:4")
    lost = lost_of(import_body(f"{body} --node_rank=3 --use_env train.py", *asked))
    assert lost == ["--node-rank=3"]


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        ("set -- a 'b c'", ["a", "b c"]),
        ("set -eu -- a b", ["a", "b"]),
        ("set -euo pipefail\nset a b c\nshift", ["b", "c"]),
        ("set -- a b c\nshift 2\nset -e", ["c"]),
    ],
)
def test_arguments_that_a_script_gives_itself_are_those_of_the_program(
    lines: str, arguments: list[str]
) -> None:
    spec = spec_of(f'{lines}\nsrun python t.py "$@" $#', "#SBATCH --nodes=2 --gpus-per-node=1")
    assert spec["run"]["args"] == [*arguments, str(len(arguments))]


@pytest.mark.parametrize(
    "line", ["set -- $(ls)", 'set -- "$@" --lr 1', "if [ -e x ]; then set -- a; fi", "shift"]
)
def test_arguments_that_a_script_gives_itself_unseen_are_lost_by_name(line: str) -> None:
    imported = import_body(f'{line}\nsrun python t.py "$@"', "#SBATCH --gpus-per-node=1")
    assert lost_of(imported) == ["$@"]


def test_a_task_of_an_array_that_no_directive_asks_for_is_lost_by_name() -> None:
    body = "srun python t.py --task {}"
    assert lost_of(import_body(body.format("$SLURM_ARRAY_TASK_ID"), GPU)) == [
        "$SLURM_ARRAY_TASK_ID"
    ]
    for directive in ("#SBATCH --array=0-3", "#SBATCH -a 1,5", "#SBATCH --array=0-99:7%3"):
        assert lost_of(import_body(body.format("$SLURM_ARRAY_TASK_ID"), GPU, directive)) == []
    assert lost_of(import_body(body.format("${SLURM_ARRAY_TASK_ID:-0}"), GPU)) == []


def test_an_array_of_torque_is_one() -> None:
    spec, lost = import_pbs("#PBS -t 1-75%3", "#PBS -l ngpus=1", "python t.py $PBS_ARRAYID")
    assert (spec["array"], lost) == ({"tasks": 75, "at_once": 3}, [])
    assert spec["environment"]["setup"] == "export PBS_ARRAYID=$((JOBGEN_TASK + 1))\n"
    spec, lost = import_pbs("#PBS -t 0-3", "#PBS -l ngpus=1", "python t.py $PBS_ARRAYID")
    assert (spec["array"], lost) == ({"tasks": 4}, [])
    assert "$JOBGEN_TASK" in spec["run"]["command"][-1]
