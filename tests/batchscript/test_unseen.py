"""What import once got silently wrong on scripts that it was not tuned to, by class."""

import re
import subprocess

import pytest
from importing import import_body, make_script, refusal_of, spec_of

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.reader import Script

GPUS = "#SBATCH --gres=gpu:4"


def lost_of(body: str, *directives: str) -> list[str]:
    return [left.text for left in import_body(body, *directives).left if left.kind == "lost"]


def checked_of(body: str, *directives: str) -> list[str]:
    return [str(left) for left in import_body(body, *directives).left if left.kind == "check"]


# --- the program ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "agent", ["python $(which torchrun)", "/opt/env/bin/python `which torchrun`"]
)
def test_the_file_of_an_agent_is_the_agent(agent: str) -> None:
    spec = spec_of(f"srun {agent} --nproc-per-node=4 train.py --lr 1", GPUS)
    assert spec["run"] == {"script": "train.py", "args": ["--lr", "1"]}
    assert ("PATH=/opt/env/bin" in str(spec.get("environment"))) == agent.startswith("/opt")


def test_another_command_that_is_looked_for_stays_one() -> None:
    spec = spec_of("python $(which my-tool) --lr 1", "#SBATCH --gres=gpu:1")
    assert "python $(which my-tool) --lr 1" in spec["run"]["command"][-1]


@pytest.mark.parametrize(
    ("torch", "option"), [("1.13.1", "--local_rank=3"), ("2.10.0", "--local-rank=3")]
)
def test_launch_hands_on_the_local_rank(torch: str, option: str) -> None:
    body = "python -m torch.distributed.launch --nproc_per_node=4 train.py --lr 1"
    line = spec_of(body, GPUS)["run"]["command"][-1].replace("exec python3", "echo")
    fake = f"""python3() {{ command python3 - <<<"version = lambda _: '{torch}';${{2#*;}}"; }}"""
    shown = f"{fake}\nLOCAL_RANK=3\n{line}"
    ended = subprocess.run(["bash", "-c", shown], capture_output=True, text=True)
    assert ended.stdout == f"train.py {option} --lr 1\n"
    kept = spec_of(body.replace("train.py", "--use_env train.py"), GPUS)["run"]
    assert kept == {"script": "train.py", "args": ["--lr", "1"]}


def test_options_of_torchrun_in_a_variable_are_not_pythons() -> None:
    body = """if [[ $SLURM_NNODES -gt $MOST ]]; then
  MULTI="--node_rank=$SLURM_NODEID"
else
  MULTI=""
fi
srun torchrun --nproc_per_node=4 ${MULTI} train.py"""
    assert spec_of(body, GPUS)["run"]["script"] == "train.py"
    assert any("MULTI" in text for text in checked_of(body, GPUS))


@pytest.mark.parametrize("runner", ["uv run", "uv run --frozen --extra gpu --", "poetry run"])
@pytest.mark.parametrize("program", ["torchrun --nproc-per-node=4 train.py", "python train.py"])
def test_a_projects_environment_is_first_on_path(runner: str, program: str) -> None:
    spec = spec_of(f"srun -n 1 {runner} {program}", GPUS)
    assert f"$({runner.removesuffix(' --')} python -c " in spec["environment"]["setup"]
    assert "train.py" in str(spec["run"])
    assert "uv" not in str(spec["run"])


def test_an_option_of_uv_that_is_more_than_a_choice_is_refused() -> None:
    assert "no program" in refusal_of(make_script("uv run --env-file=.env python train.py", GPUS))


def test_a_command_that_starts_itself_ends() -> None:
    body = 'CMD="cd $PWD; $OTHER"\nfor node in $NODES; do ssh $node "cd $PWD; $CMD" & done; wait'
    assert refusal_of(make_script(body))


# --- what stands around the program --------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "source env.sh; srun -n 4 python train.py",
        "source env.sh && srun -n 4 python train.py",
        'srun -n 4 bash -c "source env.sh; python train.py"',
        "start() {\n  source env.sh\n  srun -n 4 python train.py\n}\nstart",
        'if [[ -n "$MODE" ]]; then\n  source env.sh\n  srun -n 4 python train.py\nfi',
    ],
)
def test_a_command_in_the_programs_own_lines_is_kept(body: str) -> None:
    spec = spec_of(body, GPUS)
    assert "source env.sh" in str(spec)


def test_what_follows_the_program_in_its_own_line_is_named() -> None:
    assert lost_of("srun -n 4 python train.py; rm -rf out", GPUS) == ["rm -rf out"]


def test_lines_before_the_program_keep_their_order() -> None:
    body = """n=0
while [[ $n -lt 2 && ! -e data ]]; do
  rsync -a $SOURCE/ data
  n=$((n + 1))
done
tar -xf data/train.tar
torchrun --nproc-per-node=4 train.py --tries $n"""
    spec = spec_of(body, GPUS)
    setup = spec["environment"]["setup"]
    assert setup.index("local n") < setup.index("rsync") < setup.index("tar -xf")
    assert "n=$IMPORTED_n" in spec["run"]["command"][-1]
    assert not lost_of(body, GPUS)


def test_a_variable_in_lower_case_reaches_the_program_from_the_setup() -> None:
    body = (
        "out=$(echo runs)/x\nmkdir -p $out\nexport mode=fast\ntorchrun --nproc-per-node=4 t.py $out"
    )
    spec = spec_of(body, GPUS)
    setup, line = spec["environment"]["setup"], spec["run"]["command"][-1]
    shown = (
        f"setup() {{\n{setup}\n}}\nmkdir() {{ :; }}; setup; echo ${{out-none}}\n"
        + line.replace("exec python3 t.py", 'echo "$(printenv mode)"')
    )
    ended = subprocess.run(["bash", "-c", shown], capture_output=True, text=True)
    assert ended.stdout == "none\nfast runs/x\n"


def test_a_folder_of_submission_that_the_script_goes_back_to_is_gone_back_to() -> None:
    body = "cd /data\ncd $SLURM_SUBMIT_DIR\nsrun python train.py"
    assert "cd $SLURM_SUBMIT_DIR" in spec_of(body)["environment"]["setup"]


@pytest.mark.parametrize("place", ["SLURM_SUBMIT_DIR", "PBS_O_WORKDIR"])
def test_a_folder_beside_that_of_submission_is_another(place: str) -> None:
    pbs = place.startswith("PBS")
    first = "#PBS -l select=1:ngpus=1" if pbs else "#SBATCH --gres=gpu:1"
    cases = {f"${place}": False, f'"${{{place}}}/"': False, f"${place}/src": True}
    for folder, kept in cases.items():
        setup = spec_of(f"cd {folder}\npython t.py", first).get("environment", {}).get("setup", "")
        assert (f"cd {folder}" in setup) == kept
        assert ("export PBS_O_WORKDIR=${PBS_O_WORKDIR:-$PWD}" in setup) == (kept and pbs)


@pytest.mark.parametrize("name", ["SLURM_SUBMIT_DIR", "PBS_O_WORKDIR"])
def test_a_folder_of_submission_that_the_script_names_itself_is_gone_to(name: str) -> None:
    setup = spec_of(f"export {name}=/data/run\ncd ${name}\nsrun python t.py")["environment"][
        "setup"
    ]
    assert re.search(rf"cd (/data/run|\${name})", setup)


def test_a_number_of_the_launch_that_is_exported_is_the_programs_too() -> None:
    body = "export COUNT=$(scontrol show hostnames | wc -l)\nmpirun -n $COUNT -perhost 1 ./train.sh"
    assert spec_of(body, "#SBATCH -N 2", GPUS)["environment"]["variables"] == {"COUNT": "2"}
    words = 'export RUN="srun -n 4"\n$RUN python t.py'
    assert "RUN" not in str(spec_of(words, "#SBATCH -n 4", GPUS))


def test_options_of_python_before_its_module() -> None:
    spec = spec_of("python -W ignore -u -m torch.distributed.run --nproc_per_node=4 t.py", GPUS)
    assert spec["run"] == {"script": "t.py"}


def test_a_quoted_assignment_is_exported() -> None:
    body = "export 'A=1 2' \"B=$HOME/x\"\nexport 'C=3'\nsrun python t.py"
    environment = spec_of(body)["environment"]
    assert environment["variables"] == {"C": "3"}
    assert environment["setup"] == "export A='1 2' B=\"$HOME/x\"\n"


@pytest.mark.parametrize(
    "first",
    ["export PATH=/opt/conda/bin:$PATH", "export CONDA_ENVS_PATH=/envs", "export MODULEPATH=/m"],
)
def test_what_a_path_leads_to_comes_after_it(first: str) -> None:
    setup = spec_of(f"{first}\nmodule load cuda\nsource activate mine\nsrun python t.py")[
        "environment"
    ]
    assert not {"modules", "conda"} & setup.keys()
    assert setup["setup"].index("module load") < setup["setup"].index("source activate mine")


def test_a_module_after_an_environment_stays_after_it() -> None:
    spec = spec_of("module load a\nsource activate mine\nmodule load b\nsrun python t.py")
    assert spec["environment"]["modules"] == ["a"]
    assert "module load b" in spec["environment"]["setup"]


def test_a_condition_that_directives_decide_is_decided() -> None:
    body = """if [ -z "$SLURM_GPUS_PER_NODE" ]; then
  EACH=1
else
  EACH=$SLURM_GPUS_PER_NODE
fi
srun torchrun --nproc-per-node=$EACH train.py"""
    assert not checked_of(body, "#SBATCH --gpus-per-node=4")


def test_an_environment_is_made_where_the_script_makes_it() -> None:
    body = "conda env create -f e.yml\nconda env list\nconda activate mine\nsrun python t.py"
    setup = spec_of(body)["environment"]["setup"]
    assert "conda env create" in setup
    assert "conda env list" not in setup


def test_what_runs_in_the_container_is_named() -> None:
    body = "mkdir -p out\nsingularity exec --nv image.sif python train.py"
    assert any("mkdir" in text and "container" in text for text in checked_of(body, GPUS))


def test_a_program_that_the_setup_runs_is_not_another_that_is_not_run() -> None:
    body = 'eval "$(conda shell.bash hook)"\npython prepare.py\ntorchrun --nproc-per-node=4 t.py'
    assert lost_of(body, GPUS) == []
    assert "python prepare.py" in spec_of(body, GPUS)["environment"]["setup"]


def test_what_the_script_has_exported_by_set_is_exported() -> None:
    body = "set -a\nsource settings.env\nset +a\nsrun python t.py"
    assert "set -a\nsource settings.env || true\nset +a" in spec_of(body)["environment"]["setup"]
    open_ = spec_of("set -a\nsource settings.env\nsrun python t.py")["environment"]["setup"]
    assert open_.endswith("set +a\n")


@pytest.mark.parametrize("body", ["alias go='python t.py'\nshopt -s expand_aliases\ngo --lr 1"])
def test_an_alias_is_no_program(body: str) -> None:
    assert "an alias" in refusal_of(make_script(body))


def test_zsh_splits_no_values() -> None:
    body = "srun python t.py data=$SETS"
    assert "zsh" in refusal_of(make_script(f"SETS='a b'\n{body}", shell="#!/usr/bin/zsh"))
    assert "data=a" in import_script(make_script(f"SETS=a\n{body}", shell="#!/bin/zsh")).yaml


@pytest.mark.parametrize(
    "lines",
    ["cp data $S/; {} python t.py", "S=$(mktemp -d); {} python t.py", "{} python t.py"],
)
def test_a_string_with_commands_outside_its_container_enters_it_by_itself(lines: str) -> None:
    enter = "apptainer exec --nv --bind $S:/data i.sif"
    spec = spec_of(
        f"srun bash -c '{lines.format(enter)}'", "#SBATCH -N 2", "#SBATCH --gpus-per-node=1"
    )
    own = lines != "{} python t.py"
    assert ("container" in spec.get("environment", {})) != own
    assert (spec["launch"]["mode"] == "plain") == own  # the node's python3 needs no torch
    assert str(spec).count("i.sif") == 1


def test_a_default_of_the_script_is_not_known_when_a_container_opens() -> None:
    body = ': "${IMAGE:=$PWD/i.sqsh}"\nsrun --container-image=$IMAGE python t.py'
    assert "the container needs $IMAGE, which only the script knows" in refusal_of(
        make_script(body, GPUS)
    )


def test_a_container_around_a_string_stays_around_it() -> None:
    spec = spec_of("srun apptainer exec i.sif bash -c 'cp a b; python t.py'", GPUS)
    assert spec["environment"]["container"]["image"] == "i.sif"
    assert "apptainer" not in str(spec["run"])


def test_what_a_container_has_no_command_for_is_named() -> None:
    body = "ALL=$(scontrol show hostnames)\nsrun apptainer exec i.sif python t.py $ALL"
    assert any("scontrol" in text and "container" in text for text in checked_of(body, GPUS))


def test_a_flag_of_singularity_does_not_take_the_image() -> None:
    spec = spec_of("srun singularity exec --nv -e image.sif python t.py", GPUS)
    assert spec["environment"]["container"]["image"] == "image.sif"
    assert spec["environment"]["container"]["options"] == ["-e"]


def test_the_first_nodes_name_is_handed_to_all() -> None:
    asked = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=1"
    line = spec_of("srun python t.py --host $HOSTNAME --at $(hostname -s)", asked)
    assert line["run"]["command"][-1].endswith("--host $MASTER_ADDR --at $MASTER_ADDR")
    body = "LOG=logs/$(hostname).txt\nsrun python t.py $LOG"
    assert any("value of its own" in text for text in checked_of(body, asked))


def test_programs_beside_one_another_stay_so() -> None:
    body = "srun -n1 server &\nsrun -n1 python t.py &\nwait"
    line = spec_of(body, "#SBATCH --gres=gpu:1")["run"]["command"][-1]
    assert line.endswith("server &\npython t.py &\nwait")


def test_declare_is_global_in_the_script_and_counts() -> None:
    spec = spec_of("declare -i STEPS=128*$N\nsrun python t.py $STEPS", GPUS)
    assert "local STEPS\ndeclare -i STEPS=128*$N" in spec["environment"]["setup"]
    assert "STEPS=$IMPORTED_STEPS" in spec["run"]["command"][-1]


def test_what_a_container_reads_when_it_starts_is_lost_inside() -> None:
    body = "export APPTAINERENV_A=1\nsrun apptainer exec --nv i.sif python t.py"
    assert lost_of(body, GPUS, "#SBATCH --ntasks-per-node=4") == ["export APPTAINERENV_A=1"]
    assert "\napptainer exec --nv i.sif" in spec_of(body, GPUS)["run"]["command"][-1]


def test_a_port_that_the_lines_choose_is_not_jobgens() -> None:
    body = """if ss -tln | grep -q ":$MASTER_PORT "; then
  MASTER_PORT=$(shuf -n 1 ports)
  export NAME=again
fi
srun python t.py --port $MASTER_PORT $NAME"""
    setup = spec_of(body, "#SBATCH --gres=gpu:1")["environment"]["setup"]
    shown = f"ss() {{ echo ':5 '; }}; shuf() {{ echo 7; }}; f() {{\n{setup}\n}}; MASTER_PORT=5\nf; "
    shown += "echo $NAME $MASTER_PORT"
    ended = subprocess.run(["bash", "-c", shown], capture_output=True, text=True)
    assert ended.stdout == "again 5\n"


@pytest.mark.parametrize("shell", ["#!/bin/bash -e", "#!/bin/bash\nset -euo pipefail"])
def test_a_program_that_fails_ends_what_follows_it(shell: str) -> None:
    body = "python t.py\ncp out.txt /somewhere"
    line = import_script(make_script(f"{body}\n", "#SBATCH -n 1", shell=shell)).yaml
    strict = "set -e" if "-e" in shell.split("\n")[0] else shell.split("\n")[1]
    assert f"{strict}\\npython t.py" in line
    assert "set -e" not in import_script(make_script(body, "#SBATCH -n 1")).yaml


def test_a_place_to_fill_in_is_no_redirection() -> None:
    refused = refusal_of(make_script("srun python /<path_to_it>/t.py --lr 1", GPUS))
    assert "a place to fill in" in refused


def test_an_option_of_time_is_not_the_programs() -> None:
    spec = spec_of("time -p srun python t.py", GPUS)
    assert "t.py" in str(spec["run"])
    assert "-p" not in str(spec["run"])


# --- directives ----------------------------------------------------------------------------


def test_options_of_sbatch_by_their_other_names() -> None:
    asked = "#SBATCH --tasks-per-node=4 --part=gpu --acc=mine"
    spec = spec_of("srun python train.py", asked, GPUS)
    assert (spec["queue"], spec["account"]) == ("gpu", "mine")
    assert spec["launch"] == {"mode": "direct"}  # a process for each GPU


def test_of_an_option_that_is_given_twice_the_last_counts() -> None:
    spec = spec_of("python t.py", "#SBATCH --gres=gpu:v100:4", "#SBATCH --gres=gpu:1")
    assert spec["resources"] == {"gpus_per_node": 1}


def test_some_options_add_to_what_was_given_before() -> None:
    asked = ("#SBATCH --mail-type=END", "#SBATCH --mail-type=FAIL")
    assert spec_of("python t.py", *asked)["notify"]["on"] == ["end", "fail"]


def test_a_directive_of_several_words_stays_one() -> None:
    spec = spec_of("python t.py", "#SBATCH --time=1:00:00 --comment 'two words'")
    assert spec["directives"] == ["#SBATCH --comment='two words'"]


def test_a_step_of_another_job_is_named() -> None:
    assert lost_of("srun --jobid=4711 python t.py") == ["--jobid=4711"]
    assert lost_of("srun --jobid=$SLURM_JOB_ID python t.py") == []


def test_no_more_nodes_than_tasks() -> None:
    asked = ("#SBATCH -N 4 -n 1", GPUS)
    body = "srun torchrun --nproc-per-node=4 t.py"
    assert "nodes" not in spec_of(body, *asked)["resources"]
    assert any("no more nodes" in text for text in checked_of(body, *asked))


@pytest.mark.parametrize("bind", ["none", "closest"])
def test_a_task_that_is_not_bound_sees_all_gpus(bind: str) -> None:
    asked = ("#SBATCH --ntasks-per-node=4 --gpus-per-task=1", f"#SBATCH --gpu-bind={bind}")
    spec = spec_of("srun python t.py", *asked)
    assert ("CUDA_VISIBLE_DEVICES" in str(spec["run"])) == (bind != "none")


def test_gpus_of_no_node_are_said_to_be_taken_for_one() -> None:
    body = "srun torchrun --nproc-per-node=2 t.py"
    assert any("--gpus=2" in text for text in checked_of(body, "#SBATCH --gpus=2"))
    assert not checked_of(body, "#SBATCH --gpus=2 --nodes=1")
    assert "nodes" not in spec_of(body, "#SBATCH --gpus=2 --nodes=1-1")["resources"]


def test_totals_over_shares_are_the_nodes() -> None:
    body = "srun python t.py"
    spec = spec_of(body, "#SBATCH --ntasks=6 --ntasks-per-node=2 --gpus-per-node=2")
    assert (spec["resources"]["nodes"], spec["resources"]["gpus_per_node"]) == (3, 2)
    asked = ("#SBATCH --gpus=8 --gpus-per-node=4",)
    assert spec_of(body, *asked)["resources"]["nodes"] == 2
    assert any("taken for 2 nodes" in text for text in checked_of(body, *asked))
    assert "nodes" not in spec_of(body, "#SBATCH --ntasks=2 --gres=gpu:2")["resources"]
    for zero in ("--ntasks=0 --ntasks-per-node=0", "--gpus=0 --gpus-per-node=0"):
        assert "nodes" not in spec_of(body, f"#SBATCH {zero}")["resources"]


def test_what_a_file_that_is_read_may_look_at_is_named() -> None:
    body = "DATA=imagenet\n{}source {}\nsrun python train_torch.py"
    assert any("DATA" in text for text in checked_of(body.format("", "./stage.sh"), GPUS))
    for exported, file in (("export DATA\n", "./stage.sh"), ("", "env/bin/activate")):
        assert not checked_of(body.format(exported, file), GPUS)


def test_the_volumes_of_shifter_are_its_own() -> None:
    body = "srun shifter -V /d:/data -V /l:/logs --image=a/b:1 python train_torch.py"
    spec = spec_of(body, GPUS, "#SBATCH --ntasks-per-node=4")
    assert spec["run"] == {"script": "train_torch.py"}
    assert spec["environment"]["container"]["binds"] == ["/d:/data", "/l:/logs"]


def test_a_port_of_an_agent_stays_one() -> None:
    line = spec_of("deepspeed --master_port=32150 train.py", GPUS)["run"]["command"]
    assert '--master_port="$MASTER_PORT"' in line[-1]


def test_variables_that_follow_from_directives_are_known_or_named() -> None:
    body = "srun python t.py --workers $SLURM_CPUS_PER_GPU --memory $SLURM_MEM_PER_GPU"
    asked = ("#SBATCH --gpus-per-node=1 --cpus-per-gpu=6",)
    assert "--workers 6" in spec_of(body, *asked)["run"]["command"][-1]
    assert any("SLURM_MEM_PER_GPU" in text for text in checked_of(body, *asked))


def test_nqsv_is_not_pbs() -> None:
    text = "#!/bin/bash\n#PBS -q gpu\n#PBS -b 2\n#PBS -l elapstim_req=1:00:00\ntorchrun t.py\n"
    assert "NQSV" in refusal_of(Script("job.pbs", text))


def test_options_of_srun_are_named_in_a_sequence_too() -> None:
    body = "srun --x11=first python a.py\nsrun python b.py"
    assert any("--x11" in text for text in checked_of(body, "#SBATCH --gres=gpu:1"))


def test_a_sequence_keeps_no_variable_of_a_launcher_unsaid() -> None:
    body = "srun --export=ALL,A=1 python a.py\nsrun python b.py"
    assert "words of their own" in refusal_of(make_script(body, "#SBATCH --gres=gpu:1"))
