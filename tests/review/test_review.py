"""What a spec says that is right in form and can hardly be meant; `check` and `submit` say it."""

import os
import re
import time
from pathlib import Path
from textwrap import dedent

import pytest
import saved_clusters
import yaml
from support import ROOT, edited, jobgen, load, working_in

from jobgen.plan.resolve import resolve
from jobgen.review import review
from jobgen.review.settings import list_settings

BASE = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}
run: {script: train.py}
"""

SCRIPT = "run: {script: train.py}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder that has the programs."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "t.py"):
        Path(name).touch()
    Path("url.yaml").write_text("judge: {url: 'http://127.0.0.1:8765/v1'}\n")
    Path("tests").mkdir()
    Path("tests/train.py").touch()


def test_the_examples_are_meant_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for path in sorted(Path("examples").glob("*.yaml")):
        said = jobgen("check", str(path)).err.splitlines()
        own = re.compile("needs an account|venv: .* not here|up to date")  # of the user's place
        assert [line for line in said if not own.search(line)] == [], path


# Each case is a name, keys in place of the base's, and what is said of them (... is anything);
# of those of MEANT, nothing is said.
DOUBTFUL = """\
a module of CUDA for a job without GPUs
    resources: {cpus_per_node: 16, walltime: 1h}
    environment: {modules: [cuda/12.1]}
    environment.modules: loads cuda/12.1, and the job asks for no GPU; write resources.gpus
a queue of GPUs for a job without any
    resources: {cpus_per_node: 16, walltime: 1h}
    queue: gpu-a100
    queue: gpu-a100 names nodes with GPUs, and the job asks for none; write resources.gpus
modules of Python in a folder that is not here
    environment: {variables: {PYTHONPATH: 'lib:tests'}}
    environment.variables.PYTHONPATH: lib is not here; correct the path
a file that is not here, for a container
    run: {script: train.py, args: {resume: none/last.pt}}
    environment: {container: {image: docker://a, runtime: apptainer}}
    run.args: --resume none/last.pt is not here; correct the path
a file of DeepSpeed that is not here
    run: {script: train.py, args: {deepspeed: ds_conf.json}}
    --deepspeed ds_conf.json is not here; correct the path
a folder that is not here
    snapshot: [data/]
    data/ is not here; correct the path
a server at a number, which is asked at its variable
    roles:
      s: {nodes: 1, ready: {log: up}, run: {command: [a, --port, '8765']}}
      t: {run: {script: train.py, args: ['http://$S_ADDR:$S_PORT']}}
    roles.s.run: listens at port 8765, and is asked at $S_PORT; write --port $S_PORT
mail that is never sent
    directives: ['#SBATCH --mail-user=a@b.org']
    Slurm sends no mail for --mail-user alone; write --mail-type=END,FAIL too, or in place of
a program that would take longer than the job
    run: {script: train.py, args: {hours: 24}}
    --hours 24 is more than the 1 h that the job has, which ends before; write fewer
hours between checkpoints that no start has
    run: {script: train.py, args: {save-hours: 6}}
    on_walltime: {then: requeue}
    --save-hours 6 is not less than the 1 h of a start, so no start of the chain saves
parts of the data that no task takes
    run: {script: train.py, args: {num-shards: 8, shard: {value: $JOBGEN_TASK, expand: true}}}
    array: {tasks: 4}
    --num-shards is 8, and the array has 4 tasks; write 4, or another array
a server on few of the GPUs of its node
    resources: {gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    launch: {mode: plain}
    run: {command: [vllm, serve, m, --tensor-parallel-size, '2']}
    vllm takes 2 of the 4 GPUs of its node; write --tensor-parallel-size 4, or ask for 2
a folder that the first task makes
    resources: {gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    array: {values: {lr: [1, 2]}}
    environment: {setup: mkdir results}
    mkdir results fails in each task but the first, as the folder exists, and stops it
a folder that the first start makes
    resources: {gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    on_walltime: {then: requeue}
    environment: {setup: mkdir results}
    mkdir results fails in each start but the first, as the folder exists, and stops the job
a limit on the time of a CPU
    environment: {setup: ulimit -t 600}
    'ulimit -t 600' ends each process after so many seconds of its CPU time; remove it
a Python of modules for a container
    environment: {container: {image: docker://a, runtime: apptainer}, modules: [pytorch/2.5]}
    environment.modules: pytorch/2.5 is loaded outside the container, in which nothing of it is
two folders in one place of a container
    environment: {container: {image: docker://a, runtime: pyxis, binds: ['/a:/d', '/b:/d:ro']}}
    environment.container.binds: shows two folders at /d, of which the program sees one; write
results in a folder that a container only reads
    run: {script: train.py, args: {out: /o/run}}
    environment: {container: {image: docker://a, runtime: pyxis, binds: ['/a:/o:ro']}}
    /o is shown for reading alone (ro), and the program writes to --out /o/run; leave ro out
an image without PyTorch
    environment: {container: {image: 'docker://python:3.11-slim', runtime: pyxis}}
    environment.container.image: python:3.11-slim has no PyTorch; write an image that has it
a path of the nodes that the container does not see
    run: {script: train.py, args: {data: /srv/in/a}}
    environment: {container: {image: docker://a, runtime: apptainer}}
    --data /srv/in/a is not seen inside the container; add /srv/in to binds
more tasks at once than there are
    array: {values: {lr: [1, 2]}, at_once: 8}
    array.at_once: 8 is more than the 2 tasks that there are
a value that stands twice
    array: {values: {lr: [1e-3, 2e-3, 1e-3]}}
    array.values.lr: 1e-3 stands twice, so a task runs twice
a server on each node
    launch: {mode: plain}
    run: {command: [vllm, serve, some/model, --tensor-parallel-size, '8']}
    run.command: vllm serve starts a server on each of 2 nodes, and they do not join
a file of a task that is not here
    array: {values: {config: [t.py, other.yaml]}}
    run.args: --config other.yaml is not here
one GPU for all processes of a command
    run: {command: [bash, -c, 'CUDA_VISIBLE_DEVICES=0 python t.py']}
    run.command: all processes of a node see GPU 0 alone; leave CUDA_VISIBLE_DEVICES out
a server in each process
    run: {command: [vllm, serve, some/model]}
    vllm serve would start 8 servers, one in each process; ask for one node, and launch: {mode
an archive that all nodes unpack into one folder
    environment: {setup: 'tar xzf a.tgz -C data'}
    tar xzf runs on 2 nodes at a time, into one folder; run it once, before you submit
runs of W&B that are to be sent, and go with the node's disk
    environment: {variables: {WANDB_MODE: offline, WANDB_DIR: /tmp/wandb}}
    environment: /tmp/wandb is on each node's own disk, and what wandb sync is to send goes with
a line that the scheduler of the site does not read
    site: nersc-perlmutter
    account: m1
    directives: ['#SBATCH --nice=9', '#PBS -r n']
    '#PBS -r n' has no effect at nersc-perlmutter, where slurm does not read it; leave it out
a command for an image
    environment: {container: {image: docker run --gpus all a/b:1, runtime: pyxis}}
    'docker run' is a command, and image takes the image alone; write image: a/b:1
a value of OmegaConf
    run: {command: [python3, -c, import os, '--data', '${oc.env:DATA}/x']}
    '${oc.env:DATA}' is OmegaConf syntax, which nothing in the program reads
a key of OmegaConf
    run: {command: [python3, -c, import os, '--lr', '${optim.lr}']}
    '${optim.lr}' is OmegaConf syntax, which nothing in the program reads; write the value
minutes between checkpoints that no start has
    on_walltime: {then: requeue}
    run: {script: train.py, args: {save-minutes: 90}}
    --save-minutes 90 is not less than the 60 minutes of a start, so no start of the chain saves
an image that torchrun stays outside of
    run: {command: [apptainer, exec, /a/b.sif, python, t.py]}
    torchrun starts outside ... {image: /a/b.sif}}, and as run.command what runs inside: python t.py
an image of a command that is not here
    run: {command: [apptainer, exec, --nv, b.sif, python, t.py]}
    b.sif is not here; correct the path
a folder to bind that is not here
    environment: {container: {image: docker://a, runtime: apptainer, binds: ['none/data:/data']}}
    environment.container.binds: none/data is not here; correct the path
packages that each process installs
    run: {command: [bash, -c, 'pip install -e . && exec python t.py']}
    run.command: pip install runs in 8 processes at a time, into one folder; run it once
an option that is given twice
    run: {command: [python3, -c, 'import argparse; p.add_argument(", ")', --lr, 1, --lr=2]}
    run.command: gives --lr twice, and the program takes the last, 2; write it once
the CPUs of a node for each process
    environment: {setup: 'export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK'}
    $SLURM_CPUS_PER_TASK counts all CPUs of a node ... leave it out; jobgen shares them
a sweep over key=value words, beside the option that the tasks would get
    run: {script: train.py, args: [optim.lr=0.1]}
    array: {values: {optim.lr: [0.1, 1.0]}}
    array.values.optim.lr: run.args has optim.lr=..., and the tasks get --optim.lr beside it; write
a sweep over an override of Hydra, whose program is in a package
    run: {module: pkg.train}
    array: {values: {+optim.lr: [0.1, 1.0]}}
    array.values.+optim.lr: +optim.lr is an override of Hydra's, and the tasks get --+optim
a sweep of Hydra's own in each process
    run: {command: [python3, -c, import hydra, t.py, --multirun, 'lr=1,2']}
    --multirun makes each of the 8 processes run the whole sweep ... {value: KEY=$NAME, expand
two kinds of numbers
    run: {command: [python3, -c, import TrainingArguments, --bf16, 'True', --fp16, --lr, 1]}
    gives --bf16 and --fp16, and TrainingArguments takes one of them; leave one out
nodes without GPUs
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, constraint: cpu, walltime: 1h}
    resources.constraint: cpu names nodes without GPUs, and the job asks for 8; leave it out
a secret that is left to the shell
    environment: {variables: {WANDB_API_KEY: ''}}
    WANDB_API_KEY is empty, and the program gets an empty value; write environment.from_shell: [
a misspelt command
    environment: {setup: moduel load cuda}
    'moduel' is probably a misspelt command; write module, export or source
processes of mpirun without tasks
    launch: {mode: plain}
    run: {command: mpirun -np 8 python t.py}
    Slurm gives each node one task ... write launch.processes_per_node, 8 over the nodes
a GPU that a node has not
    resources: {nodes: 2, gpus_per_node: 1, walltime: 1h}
    run: {script: train.py, args: {gpu: 2}}
    --gpu 2 is no GPU of a node that has 1: they are numbered from 0; leave it out
a shell of a container
    environment: {setup: 'apptainer shell --nv /a/x.sif'}
    'apptainer shell' opens a separate shell ... write environment: {container: /a/x.sif}
a part of the job in a directive
    directives: ['#SBATCH hetjob']
    begins another part of the job, and the script starts on one
an environment that setup leaves
    environment: {conda: torch, setup: conda deactivate}
    conda deactivate leaves the environment that a key names; remove it
a switch that keeps NCCL from InfiniBand
    environment: {variables: {NCCL_IB_DISABLE: 1}}
    NCCL_IB_DISABLE switches InfiniBand off, and the 2 nodes exchange by TCP
a switch that keeps NCCL from the GPUs of the node
    environment: {setup: export NCCL_P2P_DISABLE=1}
    NCCL_P2P_DISABLE keeps the GPUs of a node from exchanging directly
an end before the notice of a chain
    run: {script: train.py, args: {max-hours: 0.8}}
    on_walltime: {then: resubmit, at_most: 3}
    --max-hours 0.8 ends the program before the notice of a start of 1 h
a switch that NCCL does not know
    environment: {variables: {NCCL_IB_DISABLE: 'True'}}
    NCCL_IB_DISABLE does not know 'True'; write 0 or 1
all GPUs by a word
    environment: {variables: {CUDA_VISIBLE_DEVICES: all}}
    CUDA_VISIBLE_DEVICES does not know 'all', and shows no GPU; leave it out
an interface for an adapter
    environment: {variables: {NCCL_IB_HCA: ib0}}
    ib0 is an interface, and NCCL_IB_HCA takes adapters; write one such as mlx5_0
the login node's PATH
    environment: {from_shell: [WANDB_API_KEY, PATH]}
    PATH is the login node's, in place of the job's own; leave it out
a notice of nearly all the time
    on_walltime: {notice: 55m}
    is more than half of the walltime: the program would be asked to stop before it has run
the GPUs of a node for torchrun's processes
    resources: {nodes: 1, gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    launch: {mode: direct, processes_per_node: 1}
    run: {command: torchrun --nproc-per-node 2 t.py}
    --nproc-per-node tells the program that it has 2 processes on a node; the job has 4; write 4
the GPUs of the job for accelerate's
    resources: {nodes: 1, gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    launch: {mode: plain}
    run: {command: accelerate launch --num_processes 1 t.py}
    --num_processes 1 is not the 4 processes of the job; write 4
more processes of mpirun than GPUs
    launch: {mode: plain}
    directives: ['#SBATCH --ntasks=16']
    run: {command: mpirun -np 16 python t.py}
    starts 16 processes by -np, and the job has 8 GPUs; write 8, unless several share a GPU
more nodes of srun than the job has
    launch: {mode: plain}
    run: {command: srun --nodes=4 python t.py}
    starts on 4 nodes by --nodes; the job has 2; write 2
the launcher of another scheduler
    scheduler: pbs
    launch: {mode: plain}
    run: {command: srun python t.py}
    srun is Slurm's, and PBS has none; write the program alone, which jobgen starts
one GPU for all processes
    run: {script: train.py, args: {device: 'cuda:0'}}
    --device cuda:0 is the same GPU in all processes of a node; leave it out
another Python than the environment's
    environment: {conda: torch}
    run: {command: /usr/bin/python3 t.py}
    /usr/bin/python3 is not the Python of torch; write python
an environment after that of a key
    environment: {conda: torch, setup: source ~/venv/bin/activate}
    activates ~/venv/bin/activate after the environment that a key names ... one of the two
a file that is to set variables
    environment: {setup: bash tests/env.sh}
    'bash tests/env.sh' runs in a separate shell, and what it sets ends there; write source
a file alone
    environment: {setup: env.sh}
    env.sh alone is looked for on PATH, and sets nothing here; write source ./env.sh
a number of another scheduler
    scheduler: pbs
    environment: {setup: 'export TASK=$SLURM_ARRAY_TASK_ID'}
    $SLURM_ARRAY_TASK_ID is Slurm's, and PBS does not set it; write JOBGEN_TASK
the same the other way round
    run: {script: train.py, args: {seed: {value: $PBS_ARRAY_INDEX, expand: true}}}
    $PBS_ARRAY_INDEX is of PBS, and Slurm does not set it; write JOBGEN_TASK
a setup that removes what other tasks have
    environment: {setup: rm -rf out}
    array: {values: {lr: [1, 2]}}
    removes out before each task, and what the other tasks have in it
nodes that are shared and not
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, exclusive: true, walltime: 1h}
    directives: ['#SBATCH --oversubscribe']
    --oversubscribe shares the nodes, which resources.exclusive wants alone; leave it out
nodes by name that are more than the job asks for
    resources: {nodes: 1, gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    directives: ['#SBATCH -w n[1-2]']
    n[1-2] are several nodes, and the job asks for one, so sbatch refuses it; write resources.nodes
a job that is only tested
    directives: ['#SBATCH --test-only']
    with --test-only, sbatch submits no such job; leave it out
a job at a terminal
    scheduler: pbs
    directives: ['#PBS -I']
    -I asks for an interactive job; leave it out
another shell
    scheduler: pbs
    directives: ['#PBS -S /bin/zsh']
    /bin/zsh would run the script, which is written for bash; leave it out
blanks in a directive
    directives: ['#SBATCH --qos = x']
    has a blank beside =, at which the option ends; write --qos=x
an option without its dashes
    directives: ['#SBATCH qos=x']
    'qos=x' has no dash before it, so it is not an option
a YAML switch for a name
    reservation: no
    reservation: 'no' is taken for a name; write one, or leave the key out
a dash of a word processor in a module
    environment: {modules: [cuda/12\u20131]}
    environment.modules: holds 'cuda/12\u20131', with a dash that only looks like -
a variable for an argument
    array: {values: {OMP_NUM_THREADS: [1, 2]}}
    its tasks get --OMP_NUM_THREADS; write environment.variables.OMP_NUM_THREADS
a type of no GPUs
    resources: {nodes: 2, gpu_type: a100, walltime: 1h}
    resources.gpu_type: has no effect, as the job asks for no GPUs; write gpus_per_node
an option of another runtime
    environment: {container: {image: docker://a, runtime: pyxis, options: [--nv]}}
    --nv is an option of Apptainer, and srun does not start with it; leave it out
variables that do not enter
    environment: {container: {image: docker://a, runtime: apptainer, options: [--cleanenv]}}
    --cleanenv keeps the job's variables out, so the processes do not find each other
an option of Docker
    environment: {container: {image: docker://a, runtime: singularity, options: --nv --ipc=host}}
    --ipc is an option of Docker, with which the container does not start; leave it out
an image for an environment file
    environment: {container: {image: docker://a, runtime: edf}}
    docker://a is an image, and edf takes the environment file that names one
a bind with =
    environment: {container: {image: train.py, runtime: apptainer, binds: ['/a=/b']}}
    /a=/b is taken for the name of one folder; write /a:/b
a bind with another mode
    environment: {container: {image: t.py, runtime: apptainer, binds: '/a:/b:R'}}
    'R' is not a mode of a bind; write /a:/b:ro, or /a:/b
a module of a command that is spelt nearly so
    run: {command: [python, -u, -m, tests.trian]}
    run.command: tests.trian is not here; did you mean tests.train?
a key that another scheduler has
    scheduler: pbs
    qos: high
    qos: has no effect on PBS here: the job goes without it; leave it out
a queue beside a reservation
    scheduler: pbs
    queue: a
    reservation: R1
    has no effect beside the reservation, which PBS asks for in its place; leave queue out
seconds for hours
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 64GB, walltime: 2s}
    2s is too short to start a program; check
seconds for minutes
    on_walltime: {notice: 5s}
    5s is too short to save anything; check the unit: m
days for hours
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 4, memory_per_node: 64GB, walltime: 365d}
    365d is hardly what you mean; check the unit: h, m
a registry as enroot does not write it
    environment: {container: {image: 'docker://a.io:5000/b/c:2', runtime: pyxis}}
    look for a.io:5000/b/c:2 on Docker Hub, unless ... write image: a.io:5000#b/c:2
an image of a registry for a file
    environment: {container: {image: 'a/b:2', runtime: apptainer}}
    a/b:2 is not here, and its runtime takes it for a file; correct the path; an image of a
a server at a number that a settings file of another role has at its own node
    roles:
      s: {nodes: 1, run: {command: [a, --port, '8765']}}
      t: {run: {script: train.py, args: {config: url.yaml}}}
    asks at 127.0.0.1:8765, its own node, and S has other nodes; write $S_ADDR:8765
a server at a number that another role asks at its own node
    roles:
      s: {nodes: 1, run: {command: [a, --port, '8765']}}
      t: {run: {script: train.py, args: {url: 'http://localhost:8765'}}}
    asks at localhost:8765, its own node, and S has other nodes; write $S_ADDR:8765
a server that another role asks at its own node
    roles:
      s: {nodes: 1, run: {command: [vllm, --port, $S_PORT]}, ready: {tcp: true}}
      t: {run: {script: train.py, args: {url: 'http://localhost:8000'}}}
    asks at localhost:8000, its own node, and the other roles have other nodes; write $S_
too many GPUs
    resources: {nodes: 2, gpus_per_node: 32, memory_per_node: 64GB, walltime: 1h}
    asks for 32 GPUs on a node; for 32 in all, write nodes: 4, gpus_per_node: 8
CPUs of a GPU for those of a node
    resources: {nodes: 2, gpus_per_node: 8, cpus_per_gpu: 64, memory_per_node: 64GB, walltime: 1h}
    asks for 512 CPUs on a node; it counts for each of the 8 GPUs of a node
a batch that the processes do not share
    run: {script: train.py, args: {global-batch-size: 100}}
    --global-batch-size 100 is not a multiple of the 8 processes; write a multiple of 8
devices of one node for those of the job
    run: {script: train.py, args: {devices: 8}}
    --devices tells the program that it has 8 GPUs on a node; the job has 4; write 4
one process for all GPUs of a node
    launch: {processes_per_node: 1}
    1 process leaves 3 of 4 GPUs on a node idle; write processes_per_node: 4
a setup that removes what a chain has saved
    on_walltime: {then: requeue}
    environment: {setup: rm -rf ckpt}
    removes ckpt before each start
an archive that tar cannot read
    environment: {stage: /scratch/env.zip}
    /scratch/env.zip is not an archive that tar unpacks; make one by conda-pack
TB for GB
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 64TB, walltime: 1h}
    asks for 65536 GiB on a node; check the unit
a value that a library does not know
    environment: {variables: {TORCH_DISTRIBUTED_DEBUG: 'true'}}
    TORCH_DISTRIBUTED_DEBUG does not know 'true'; write OFF, INFO, DETAIL
a misspelt variable
    environment: {variables: {CUDA_VISIBLE_DEVICE: '0,1,2,3'}}
    nothing reads CUDA_VISIBLE_DEVICE; did you mean CUDA_VISIBLE_DEVICES?
a server in the foreground
    environment: {setup: tensorboard --logdir runs}
    'tensorboard' never ends, and the program never starts; write & behind the line
a condition at the end of setup
    environment: {setup: '[[ -f .env ]] && . ./.env'}
    where [[ -f .env ]] is false, setup fails, and the job with it; write if [[ -f .env ]]
more tensor parallel than GPUs
    run: {script: train.py, args: {tensor-parallel-size: 16}}
    --tensor-parallel-size 16 needs more GPUs than the 8 that it has
a server for its own node alone
    resources: {nodes: 2, walltime: 1h}
    roles:
      api: {nodes: 1, run: {command: [a, --host, localhost, --port, $API_PORT]}}
      train: {nodes: 1, run: {script: t.py}}
    listens at localhost, which the other roles' nodes cannot reach; write 0.0.0.0
a chain of one
    on_walltime: {then: resubmit, at_most: 1}
    on_walltime.at_most: counts the first start too, so none follows
nodes that the job does not have
    run: {script: train.py, args: [trainer.nnodes=4]}
    trainer.nnodes tells the program that it has 4 nodes; the job has 2; write 2
another tool's template
    environment: {venv: '/s/${oc.env:USER}/v'}
    '${oc.env:USER}' does not expand: only $NAME and ${NAME} do
quotes in a value
    environment: {variables: {A: '"b"'}}
    holds its quotes: "b"; write b
a PATH of one's own
    environment: {variables: {PATH: /opt/tools/bin}}
    PATH replaces the node's own, with python and srun
a rank for all
    run: {script: train.py, args: {node-rank: 0}}
    --node-rank 0 is the same in all 8 processes; leave it out
a purge behind the modules
    environment: {modules: [cuda], setup: module purge}
    unloads what environment.modules has loaded before it; write environment.modules: {first
another folder
    environment: {setup: cd src}
    cd src: relative paths then begin in that folder, those of the program and its files too
an address for an interface
    launch: {interface: 10.0.0.1}
    is an address, and no interface has that name
a laptop's file
    run: {script: /Users/me/train.py}
    /Users/me/train.py is a path on another machine
in the background
    run: {command: [bash, -c, python t.py &]}
    the command ends in &
sudo
    run: {command: [sudo, a.out]}
    sudo asks for a password
pbsdsh on PBS
    scheduler: pbs
    launch: {mode: plain}
    run: {command: [pbsdsh, --, bash, run.sh]}
    pbsdsh ends with 0 whatever its tasks end with
an end in setup
    environment: {setup: exit 0}
    'exit' ends the script
an end in a test of setup
    environment: {setup: "if true; then\\n  exit 0\\nfi"}
    'exit 0' ends the job, and the program never starts
the program in setup
    environment: {setup: python train.py}
    starts train.py on every node, before the job does
pip on all nodes
    environment: {setup: pip install x}
    pip install runs on 2 nodes at a time, into one folder; run it once
a placeholder without a dash
    account: YourProject
    'YourProject' is a placeholder
a placeholder
    account: YOUR_ACCOUNT
    'YOUR_ACCOUNT' is a placeholder
no program
    run: {script: src/run.py}
    run.script: src/run.py is not here; correct the path; paths are relative to the folder
no body
    run: {body: a.sh}
    run.body: a.sh is not here
no venv
    environment: {venv: none/venv}
    none/venv is not here; make it, or correct the path
a venv of two roles that is not here
    resources: {walltime: 1h}
    roles:
      a: {nodes: 1, environment: {venv: no}, run: {script: t.py}}
      b: {nodes: 1, environment: {venv: no}, run: {script: t.py}}
    roles.a.environment.venv: no is not here; make it, or correct the path
a folder that is no venv
    environment: {venv: tests}
    environment.venv: tests has no bin/activate; name the folder above bin
no image
    environment: {container: {image: ./a.sif, runtime: apptainer}}
    environment.container.image: ./a.sif is not here
no script
    run: {command: [bash, none.sh]}
    none.sh is not here
what an environment is made of
    environment: {setup: conda env update -f none.yml}
    none.yml is not here
a file of setup
    environment: {setup: . none/env.sh}
    none/env.sh is not here
results on a node's own disk
    run: {script: train.py, args: {output-dir: /tmp/out}}
    /tmp/out is on each node's own disk, which is cleared after the job
an environment on a disk that the job gets
    environment: {venv: $SLURM_TMPDIR/env}
    is on each node's own disk, which is empty when the job begins ... environment.stage: ARCHIVE
directives of PBS on Slurm
    directives: ['#PBS -l gpu_type=A100']
    slurm does not read them ... resources.gpu_type for a type of GPU
a program on this machine's own disk
    run: {script: /tmp/none/train.py}
    is usually on this machine's own disk or in its memory, where other nodes do not see it; name
a version as conda has it
    environment: {modules: [cuda=12.3]}
    environment.modules: 'cuda=12.3' is how conda and pip name a version; write cuda/12.3
two directives on a line
    directives: ['#SBATCH --exclude=n1 #SBATCH --nice=5']
    '#SBATCH --nice=5' follows another on its line, where it is a comment; put it on a separate line
an agent that starts again alone
    launch: {max_restarts: 3, rendezvous: static}
    is static, so the agents of other nodes never hear of a restart; leave rendezvous out
a container within a container
    environment: {container: {image: docker://a/b, runtime: apptainer}}
    run: {command: apptainer exec --nv docker://a/b python train.py}
    apptainer exec enters a container, but environment.container has already entered one
a directive against on_walltime
    directives: ['#SBATCH --no-requeue']
    on_walltime: {then: requeue}
    --no-requeue keeps the job from starting again, which on_walltime.then wants; leave it out
output on a node's own disk
    directives: ['#SBATCH -o /tmp/%j.out']
    /tmp/%j.out is on the first node's own disk; name a folder that all nodes see
the rank of an agent
    environment: {variables: {ME: {value: $SLURM_PROCID, expand: true}}}
    $SLURM_PROCID counts the agents of torchrun, one on each node
the agents for the processes
    environment: {variables: {WORLD: {value: $SLURM_NTASKS, expand: true}}}
    $SLURM_NTASKS counts the agents of torchrun, one on each node
a container in a shell's line
    run: {command: [bash, -c, 'cd a && apptainer exec b.sif python t.py']}
    environment: {container: {image: t.py, runtime: apptainer}}
    apptainer exec enters a container, but environment.container has already entered one
a checkpoint to begin with
    run: {script: train.py, args: {resume: runs/last.pt}}
    --resume runs/last.pt is not here
libraries without those of the modules
    environment: {modules: [cuda/12.1], variables: {LD_LIBRARY_PATH: /opt/lib}}
    replaces what the modules have put into it; write /opt/lib:$LD_LIBRARY_PATH, with expand
an address that no role has
    resources: {walltime: 1h}
    roles:
      api: {nodes: 1, ready: {tcp: true}, run: {command: [a, $API_PORT]}}
      train: {nodes: 1, run: {script: t.py, args: [$API_ADDRESS]}}
    roles.train.run: nothing sets $API_ADDRESS; the roles have $API_ADDR, $API_PORT
a server at another port than the one that is asked
    roles:
      api: {nodes: 1, run: {command: [vllm, serve, m, --tp, 4]}, ready: {http: /health}}
      a: {nodes: 1, run: {script: train.py}}
    names $API_PORT nowhere, and ready asks there; let it listen at $API_PORT
a file that two jobs at a time would share
    resources: {walltime: 1h}
    roles:
      api: {nodes: 1, ready: {file: out/up}, run: {command: [a]}}
      train: {nodes: 1, run: {script: t.py}}
    roles.api.ready: names the same file for each job, and two at a time take each other's
a file of a folder that nothing names
    resources: {walltime: 1h}
    environment: {variables: {OUT: /scratch/me}}
    roles:
      api: {nodes: 1, ready: {file: $OUT/up}, run: {command: [a]}}
      train: {nodes: 1, run: {script: t.py}}
    roles.api.ready: nothing sets $OUT for the script, which looks for the file; write $JOBGEN
a port that no role listens at
    resources: {walltime: 1h}
    roles:
      api: {nodes: 1, ready: {tcp: true}, run: {command: [a, $API_PORT]}}
      train: {nodes: 1, run: {script: t.py, args: [$API_ADDR:8000]}}
    asks $API_ADDR at port 8000, and it listens at $API_PORT; write $API_ADDR:$API_PORT
a role that is asked at another's own node
    resources: {walltime: 1h}
    roles:
      api: {nodes: 1, ready: {tcp: true}, run: {command: [a, $API_PORT]}}
      train: {nodes: 1, run: {script: t.py, args: ['http://localhost:$API_PORT']}}
    asks at the port of API on its own node, and that role has other nodes; write $API_ADDR
a program that is done before the others
    roles:
      a: {nodes: 1, run: {command: [python3, -c, "import json"]}, ready: {file: a.json}}
      b: {nodes: 1, run: {script: train.py}}
    roles.a.run: writes its file and ends, and a role that ends before the last one fails
a program that is done before the others, with workers
    roles:
      a:
        nodes: 1
        run: {command: [python3, -c, "import json\\nfrom multiprocessing import Pool"]}
        ready: {file: a.json}
      b: {nodes: 1, run: {script: train.py}}
    roles.a.run: writes its file and ends, and a role that ends before the last one fails
a loop without an end that stands last
    roles:
      train: {nodes: 1, ends: alone, run: {script: train.py}}
      watch:
        nodes: 1
        run: {command: [python3, -c, "while True:\\n  for f in look():\\n    print(f)\\n"]}
    roles.watch.run: is a loop without an end, and the job ends with this role
roles that leave GPUs of the nodes that they share
    roles:
      s: {gpus: 1, nodes: 1, run: {command: a}, ready: {log: up}}
      t: {gpus: 2, nodes: 2, run: {script: train.py}}
    roles.t.gpus: is the last on its nodes, and leaves 1 of the GPUs of each idle; give it or
a pasted line that a server prints when it is ready
    roles:
      s: {nodes: 1, run: {command: a}, ready: {log: '(Press CTRL+C to quit)'}}
      t: {run: {script: train.py}}
    roles.s.ready.log: is a regular expression, in which ( ) [ ] and + do not stand for themselves
a tag that a server prints when it is ready
    roles:
      s: {nodes: 1, run: {command: a}, ready: {log: '[INFO] started'}}
      t: {run: {script: train.py}}
    roles.s.ready.log: is a regular expression, in which ( ) [ ] and + do not stand for themselves
a server that stands last
    resources: {walltime: 1h}
    roles:
      train: {nodes: 1, run: {script: t.py}}
      api: {nodes: 1, run: {command: [vllm, serve, m, --port, $API_PORT]}}
    roles.api.run: serves, and its end would be the job's, as it stands last
a server by its module that stands last
    resources: {walltime: 1h}
    roles:
      train: {nodes: 1, run: {script: t.py}}
      api: {nodes: 1, run: {command: [python3, -m, vllm.entrypoints.openai.api_server]}}
    roles.api.run: serves, and its end would be the job's, as it stands last
more processes than GPUs
    launch: {processes_per_node: 8}
    launch.processes_per_node: 8 processes share 4 GPUs on a node ... 4, unless they use gloo
fewer processes than GPUs
    launch: {processes_per_node: 2}
    2 processes leave 2 of 4 GPUs on a node idle; write processes_per_node: 4, unless each
a sweep over what all tasks share
    array: {values: {nodes: [1, 2]}}
    nodes is an argument of the program here: its tasks get --nodes; all tasks have the job's
more processes than CPUs
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 2, memory_per_node: 64GB, walltime: 1h}
    4 processes share 2 CPUs on a node; write cpus_per_node: 4 or more
more threads than CPUs
    environment: {variables: {OMP_NUM_THREADS: '16'}}
    4 processes with 16 threads share 16 CPUs on a node; write 4, or leave it out
conda without its own lines
    environment: {setup: conda activate torch}
    conda's own lines stand before it; write environment.conda: torch
MB for GB
    resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 180MB, walltime: 1h}
    180 MiB are less than 1 GiB a process; check the unit (MB, GB), or write 4GB or more
one visible GPU
    environment: {variables: {CUDA_VISIBLE_DEVICES: '0'}}
    shows 1 of the node's GPUs, and gpus_per_node is 4; leave it out, or write gpus_per_node: 1
a rendezvous in the setup
    environment: {setup: 'export MASTER_PORT=29500'}
    environment.setup: MASTER_PORT is set by the job, after its setup; remove it
numbers of devices
    resources: {gpus_per_node: [0, 1, 2, 3], cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}
    asks for 4 nodes, with 0, 1, 2, 3 GPUs; for 4 GPUs on each node write gpus_per_node: 4
the loopback interface
    launch: {interface: lo}
    is the loopback interface, which cannot reach other nodes
results that the next start does not find
    run: {script: train.py, args: {out: /tmp/results}}
    on_walltime: {then: requeue}
    /tmp/results is on each node's own disk ... {value: $JOBGEN_RUN_DIR/checkpoints, expand: true}
tasks that write into one place
    run: {script: train.py, args: {out-dir: results}}
    array: {values: {lr: [1, 2]}}
    all 2 tasks write to --out-dir results; write {value: $JOBGEN_RUN_DIR/results, expand:
an address without its @
    notify: {email: me.example.org, on: [end]}
    notify.email: 'me.example.org' has no @, so it names a user and is not an address; write it as
pip where there is no internet
    site: jsc-juwels-booster
    environment: {setup: pip install wandb}
    pip install: compute nodes of jsc-juwels-booster have no internet; run it on the login
W&B where there is no internet
    site: jsc-juwels-booster
    environment: {variables: {WANDB_PROJECT: gpt}}
    W&B: compute nodes of jsc-juwels-booster have no internet; write WANDB_MODE: offline
a path of outside the container
    run: {script: train.py, args: {data: /data/in}}
    environment: {container: {image: docker://a, runtime: apptainer, binds: [/data:/d]}}
    --data /data/in is /d/in inside the container; write /d/in
a venv outside of the container
    environment: {container: {image: docker://a, runtime: apptainer}, venv: /opt/venv}
    /opt/venv is not seen inside the container; write binds: [/opt], or leave the venv out
docker without variables
    run: {command: [docker, run, image, python, train.py]}
    docker passes no variables in, so the processes do not find each other
lines that YAML has joined
    environment:
      setup: >
        module load cuda
        export A=1
    is one line, in which 'export A=' is an argument of the command before it
a quote of a word processor
    environment: {setup: echo \u201chi\u201d}
    holds '\u201chi\u201d', with a quote that only looks like "; write "
a dash of a word processor
    run: {script: train.py, args: ['\u2013\u2013lr', '1']}
    holds '\u2013\u2013lr', with a dash that only looks like -; write -
"""


def list_cases() -> list[tuple[str, str, str]]:
    """Return the name, the spec and the words of each case."""
    cases = re.findall(r"^(\w.*)\n((?: .*\n)+) +(.*)\n", DOUBTFUL, re.MULTILINE)
    return [(name, replace_keys(dedent(keys)), words) for name, keys, words in cases]


def replace_keys(keys: str) -> str:
    """Return the base with other keys; roles are in place of run, and a site of a scheduler."""
    given = {*re.findall(r"^\w+", keys.replace("roles:", "roles:\nrun"), re.MULTILINE)}
    given |= {"scheduler"} if "site" in given else set()
    kept = [line for line in BASE.splitlines(keepends=True) if line.partition(":")[0] not in given]
    return "".join([*kept, keys])


@pytest.mark.parametrize(("name", "spec", "words"), list_cases())
def test_what_can_hardly_be_meant_is_said(name: str, spec: str, words: str) -> None:
    loaded = load(spec)
    (doubt,) = review(loaded, resolve(loaded))
    assert all(part in str(doubt) for part in words.split(" ... ")), name
    assert str(doubt).startswith("job.yaml:")


def test_nobody_is_told_to_leave_out_what_the_site_sets() -> None:
    """ncar-derecho itself switches InfiniBand off, as it has another network."""
    loaded = load(BASE.replace("scheduler: slurm", "site: ncar-derecho\naccount: a"))
    assert not [doubt for doubt in review(loaded, resolve(loaded)) if "NCCL" in str(doubt)]


@pytest.mark.parametrize(
    ("program", "serves"),
    [
        ("HTTPServer(('', port), Handler).serve_forever()\n", True),
        ("uvicorn.run(app, port=port)\n", True),
        # A port for the transfer of weights, a page beside the training, or only a mention.
        ("group = StatelessProcessGroup.create(host, port, rank, size)\ntrain()\n", False),
        ("Thread(target=server.serve_forever).start()\ntrain()\n", False),
        ("Thread(target=lambda: server.serve_forever()).start()\ntrain()\n", False),
        ("print(port)\n", False),
    ],
)
def test_a_port_alone_makes_no_server(program: str, serves: bool) -> None:
    Path("t.py").write_text(program)
    roles = "  s: {nodes: 1, run: {command: [a]}}\n"
    roles += "  t: {nodes: 1, run: {script: t.py, args: {port: $T_PORT, server: $S_ADDR}}}\n"
    loaded = load(replace_keys(f"resources: {{walltime: 1h}}\nroles:\n{roles}"))
    said = [str(one) for one in review(loaded, resolve(loaded))]
    assert any("as it stands last" in one for one in said) == serves


def test_a_role_that_is_asked_whether_it_is_ready_serves() -> None:
    Path("serve.py").write_text("run(port=os.environ['API_PORT'])\n")
    api = "api: {nodes: 1, run: {script: serve.py}, ready: {http: /health}}"
    train = "train: {nodes: 1, run: {command: [a]}}"
    for last, said in ((api, True), (train, False)):
        first = train if last is api else api
        keys = f"resources: {{walltime: 1h}}\nroles:\n  {first}\n  {last}\n"
        loaded = load(replace_keys(keys))
        assert ["as it stands last" in str(one) for one in review(loaded, resolve(loaded))] == [
            said
        ] * said


MEANT = """\
the base
a server at a number, which is asked there
    roles:
      s: {nodes: 1, ready: {log: up}, run: {command: [a, --port, '8765']}}
      t: {run: {script: train.py, args: ['$S_ADDR:8765']}}
a loop that a role leaves, which stands last
    roles:
      t: {nodes: 1, ends: alone, run: {script: train.py}}
      w: {nodes: 1, run: {command: [python3, -c, "while True:\\n  if done():\\n    break\\n"]}}
a line in regular expressions that say what they mean
    roles:
      s:
        nodes: 1
        ready: {log: '(up|ready) on \\\\(?[0-9]+s? [Uu]vicorn (.*)+'}
        run: {command: a}
      t: {run: {script: train.py}}
roles that have all GPUs of a node
    roles:
      s: {gpus: 4, run: {command: a}}
      r: {gpus: 0, run: {command: b}}
      t: {nodes: 1, run: {script: train.py}}
mail for which a directive says when
    directives: ['#SBATCH --mail-user=a@b.org', '#SBATCH --mail-type=END']
a chain of starts, each shorter than the program
    run: {script: train.py, args: {max-hours: 24}}
    on_walltime: {then: requeue}
shards of the data, in tasks that each read all
    run: {script: train.py, args: {num-shards: 8}}
    array: {values: {lr: [1, 2]}}
what an image has by itself
    run: {script: train.py, args: {tool: /usr/bin/env}}
    environment: {container: {image: docker://a, runtime: apptainer}}
variables of one command
    environment: {setup: RANK=0 python prepare.py}
minutes between checkpoints of a job without a chain
    run: {script: train.py, args: {save-minutes: 90}}
signs of a sentence
    run: {script: train.py, args: {t: 'Size \u2013 years 2020\u20132024, it\u2019s so'}}
a key of OmegaConf for a program that has it
    run: {command: [python3, -c, import hydra, 'lr=${optim.lr}']}
a script of conda that bash finds by PATH
    environment: {setup: source activate torch}
bash's own defaults
    environment:
      setup: |
        S=${TMP_DIR:-/tmp/$USER}
        export T=${HF_HOME:+a} U=${V:0:3}
    run: {command: [python3, -c, import os]}
options of a launcher, which it takes twice
    run: {command: [mpirun, -x, A, -x, B, python, -c, 'argparse; p.add_argument(', --lr, 1]}
    launch: {mode: plain}
a sweep over what the program has as an option
    run: {script: train.py, args: ['--lr=1', optim.lr=1]}
    array: {values: {lr: [1, 2]}}
tasks of Slurm for a launcher with a number of its own
    run: {command: [mpirun, -npernode, '2', python, t.py]}
    launch: {mode: plain, processes_per_node: 16}
packages that the first node installs
    run: {command: [bash, -c, 'pip install -e . && ./t']}
    launch: {mode: ray}
directives in a text that setup prints
    environment: {setup: "cat <<E\\n#SBATCH --nodes=4\\nE"}
a number of srun's own
    run: {command: [srun, --ntasks-per-node, 8, python3, t.py]}
    launch: {mode: plain}
tasks on nodes of which no CPUs are asked
    resources: {nodes: 2, walltime: 1h}
    run: {command: mpirun -np 8 ./t.py}
    launch: {mode: plain}
tasks of a directive
    run: {command: mpirun -np 8 python t.py}
    launch: {mode: plain}
    directives: ['#SBATCH --ntasks=8']
what srun starts, which is no Python
    run: {command: [srun, --ntasks-per-node=1, nvidia-smi]}
    launch: {mode: plain}
a quote of a word processor in a comment
    environment: {setup: 'export A=1  # the node\u2019s'}
directives for either scheduler
    directives: ['#SBATCH --nice=9', '#PBS -r n']
an option that adds to a list
    run: {command: [python3, -c, 'import a; add_argument(action=append)', -i, 1, -i, 2]}
processes that take two GPUs each
    run: {command: [python3, -c, 'import torch; first, other = rank * 2, rank * 2 + 1']}
    launch: {mode: direct, processes_per_node: 2}
the process's own rank, as Slurm counts it behind the program
    run: {script: train.py, args: [--rank, {value: $SLURM_PROCID, expand: true}]}
the rank of LoRA
    run: {script: train.py, args: [--rank, 128]}
a world of one by default
    run: {script: train.py, args: [--world_size, 1]}
a program in another machine's home
    run: {script: ~/train.py}
a program on another machine's disk
    run: {script: /scratch/me/train.py}
a program that setup makes
    run: {script: src/new.py}
    environment: {setup: cp /scratch/me/new.py src/new.py}
a program of a container
    run: {script: /opt/a.py}
    environment: {container: {image: 'docker://a', runtime: apptainer}}
a registry as enroot writes it
    environment: {container: {image: 'nvcr.io#nvidia/pytorch:26.01-py3', runtime: pyxis}}
an image of Docker Hub
    environment: {container: {image: 'docker://pytorch/pytorch:2.9', runtime: pyxis}}
a program in the usual folder of an image
    run: {script: /workspace/a.py}
    environment: {container: {image: 'docker://a', runtime: pyxis}}
a program in the folder of a container
    run: {script: a.py}
    environment: {container: {image: 'docker://a', runtime: apptainer, options: [--pwd, /opt]}}
a bind that each node has
    environment: {container: {image: 'docker://a', runtime: apptainer, binds: [/tmp/no/d]}}
one process a GPU
    launch: {processes_per_node: 4}
threads that fit
    environment: {variables: {OMP_NUM_THREADS: '4'}}
all GPUs
    environment: {variables: {CUDA_VISIBLE_DEVICES: '0,1,2,3'}}
unequal nodes
    resources: {gpus_per_node: [8, 2], cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}
setup of several lines
    environment:
      setup: |
        module load cuda
        export A=1
conda with its own lines
    environment:
      setup: |
        . ~/conda/etc/profile.d/conda.sh
        conda activate a
a sweep of Hydra's own in one process
    resources: {gpus_per_node: 1, cpus_per_node: 8, walltime: 1h}
    run: {command: [python3, -c, import hydra, t.py, -m, 'lr=1,2']}
float16 by an option that is off
    run: {command: [python3, -c, TrainingArguments, --bf16, --fp16, 'False']}
names that look like placeholders
    account: myproject
    queue: test
a module of an installed package
    run: {module: jobgen.trainer}
accelerate in a site's container
    resources: {gpus_per_node: 4, cpus_per_node: 8, walltime: 1h}
    launch: {mode: plain}
    run: {command: [apptainer_wrapper, exec, accelerate, launch, --num_processes=4, a.py]}
conda of a module
    environment:
      setup: |
        module load mamba
        source activate a
conda by lines of a file
    environment:
      setup: |
        . ~/cluster/setup.sh
        conda activate a
conda by its own path
    environment: {venv: /opt/conda, setup: conda activate a}
a step before, by the program
    environment: {setup: python train.py --make-split-only}
what compilers and libraries read
    environment: {variables: {CPATH: /opt/include, PYTORCH_ALLOC_CONF: 'backend:native'}}
setup of one line with &&
    environment: {setup: 'cd /x && module load cuda'}
there and back
    environment:
      setup: |
        cd src
        make
        cd ..
in a shell of its own
    environment: {setup: (cd src && make)}
results on scratch
    run: {script: train.py, args: {out: /scratch/results}}
    on_walltime: {then: requeue}
tasks with folders of their own
    run: {script: train.py, args: {out: {value: $JOBGEN_RUN_DIR/out, expand: true}}}
    array: {values: {lr: [1, 2]}}
tasks that setup tells apart
    run: {script: train.py, args: {out: results}}
    array: {values: {environment.variables.N: [1, 2]}}
    environment: {setup: export R=$N}
a variable for each task
    array: {values: {environment.variables.LR: [1, 2]}}
an address for what mpirun starts
    run: {command: [mpirun, -n, '8', ./a.out]}
    launch: {mode: plain, processes_per_node: 4}
    environment: {setup: 'export MASTER_ADDR=$(hostname)'}
W&B offline
    site: jsc-juwels-booster
    environment: {variables: {WANDB_PROJECT: gpt, WANDB_MODE: offline}}
a file that the program joins with a folder
    run: {script: train.py, args: [--data_path, /data/glue, --label_file, meta.txt]}
a checkpoint that setup makes
    run: {script: train.py, args: [--resume, a/b.pt]}
    environment: {setup: cp /data/b.pt a/b.pt}
a notice of half the time
    on_walltime: {notice: 30m}
torchrun with all GPUs
    resources: {nodes: 1, gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}
    launch: {mode: direct, processes_per_node: 1}
    run: {command: torchrun --nproc-per-node 4 t.py}
the Python of the environment
    environment: {conda: torch}
    run: {command: /opt/envs/torch/bin/python t.py}
variables of either scheduler
    environment: {setup: 'echo ${SLURM_JOB_ID:-$PBS_JOBID}'}
options of the site's own
    directives: ['#SBATCH --container-name=a']
options that Slurm takes short
    directives: ['#SBATCH --licens=a']
options of a container in a line
    environment: {container: {image: docker://a, runtime: apptainer, options: --nv -i}}
one GPU on each node
    resources: {nodes: 2, gpus_per_node: 1, walltime: 1h}
    run: {script: train.py, args: {gpu: 0}}
nodes by name
    directives: ['#SBATCH -w gpu[01,05]', '#SBATCH --nice=1']
nodes of a file
    directives: ['#SBATCH --nodelist=./hosts']
a venv under a bind
    environment:
      container: {image: docker://a, runtime: apptainer, binds: [/opt]}
      venv: /opt/venv
"""
RIGHT = {
    "the base": ("", ""),
    "a server at a number, which is asked there": (
        SCRIPT,
        "roles:\n  s: {nodes: 1, ready: {log: up}, run: {command: [a, --port, '8765']}}\n"
        "  t: {run: {script: train.py, args: ['$S_ADDR:8765']}}\n",
    ),
    "a loop that a role leaves, which stands last": (
        SCRIPT,
        "roles:\n  t: {nodes: 1, ends: alone, run: {script: train.py}}\n"
        "  w: {nodes: 1, run: {command: [python3, -c, "
        '"while True:\\n  if done():\\n    break\\n"]}}\n',
    ),
    "a line in regular expressions that say what they mean": (
        SCRIPT,
        "roles:\n  s: {nodes: 1, ready: {log: '(up|ready) on \\\\(?[0-9]+s? [Uu]vicorn (.*)+'},"
        " run: {command: a}}\n  t: {run: {script: train.py}}\n",
    ),
    "a server beside the program that stands last, which ends it": (
        SCRIPT,
        "roles:\n  s: {nodes: 1, ready: {log: up}, run: {command: [a]}}\n  t: {nodes: 1,"
        " run: {command: [bash, -c, 'vllm serve m & python3 train.py; kill $!']}}\n",
    ),
    "roles that have all GPUs of a node": (
        SCRIPT,
        "roles:\n  s: {gpus: 4, run: {command: a}}\n  r: {gpus: 0, run: {command: b}}\n"
        "  t: {nodes: 1, run: {script: train.py}}\n",
    ),
    "mail for which a directive says when": (
        "",
        "directives: ['#SBATCH --mail-user=a@b.org', '#SBATCH --mail-type=END']\n",
    ),
    "a chain of starts, each shorter than the program": (
        "train.py}",
        "train.py, args: {max-hours: 24}}\non_walltime: {then: requeue}",
    ),
    "shards of the data, in tasks that each read all": (
        "train.py}",
        "train.py, args: {num-shards: 8}}\narray: {values: {lr: [1, 2]}}",
    ),
    "what an image has by itself": (
        "train.py}",
        "train.py, args: {tool: /usr/bin/env}}\n"
        "environment: {container: {image: docker://a, runtime: apptainer}}",
    ),
    "variables of one command": ("", "environment: {setup: RANK=0 python prepare.py}\n"),
    "minutes between checkpoints of a job without a chain": (
        SCRIPT,
        "run: {script: train.py, args: {save-minutes: 90}}",
    ),
    "signs of a sentence": (
        SCRIPT,
        "run: {script: train.py, args: {t: 'Size \u2013 years 2020\u20132024, it\u2019s so'}}",
    ),
    "a key of OmegaConf for a program that has it": (
        SCRIPT,
        "run: {command: [python3, -c, import hydra, 'lr=${optim.lr}']}",
    ),
    "a script of conda that bash finds by PATH": (
        SCRIPT,
        "environment: {setup: source activate torch}\n" + SCRIPT,
    ),
    "bash's own defaults": (
        SCRIPT,
        "environment:\n  setup: |\n    S=${TMP_DIR:-/tmp/$USER}\n"
        "    export T=${HF_HOME:+a} U=${V:0:3}\n"
        "run: {command: [python3, -c, import os]}",
    ),
    "options of a launcher, which it takes twice": (
        SCRIPT,
        "run: {command: [mpirun, -x, A, -x, B, python, -c, 'argparse; p.add_argument(', --lr, 1]}\n"
        "launch: {mode: plain}",
    ),
    "a sweep over what the program has as an option": (
        SCRIPT,
        "run: {script: train.py, args: ['--lr=1', optim.lr=1]}\narray: {values: {lr: [1, 2]}}",
    ),
    "tasks of Slurm for a launcher with a number of its own": (
        SCRIPT,
        "run: {command: [mpirun, -npernode, '2', python, t.py]}\n"
        "launch: {mode: plain, processes_per_node: 16}",
    ),
    "packages that the first node installs": (
        SCRIPT,
        "run: {command: [bash, -c, 'pip install -e . && ./t']}\nlaunch: {mode: ray}",
    ),
    "directives in a text that setup prints": (
        "",
        'environment: {setup: "cat <<E\\n#SBATCH --nodes=4\\nE"}\n',
    ),
    "a number of srun's own": (
        SCRIPT,
        "run: {command: [srun, --ntasks-per-node, 8, python3, t.py]}\nlaunch: {mode: plain}",
    ),
    "tasks on nodes of which no CPUs are asked": (
        BASE.partition("{")[2],
        "nodes: 2, walltime: 1h}\nrun: {command: mpirun -np 8 ./t.py}\nlaunch: {mode: plain}\n",
    ),
    "tasks of a directive": (
        SCRIPT,
        "run: {command: mpirun -np 8 python t.py}\nlaunch: {mode: plain}\n"
        "directives: ['#SBATCH --ntasks=8']",
    ),
    "what srun starts, which is no Python": (
        SCRIPT,
        "run: {command: [srun, --ntasks-per-node=1, nvidia-smi]}\nlaunch: {mode: plain}",
    ),
    "a quote of a word processor in a comment": (
        "",
        "environment: {setup: 'export A=1  # the node\u2019s'}\n",
    ),
    "directives for either scheduler": ("", "directives: ['#SBATCH --nice=9', '#PBS -r n']\n"),
    "an option that adds to a list": (
        SCRIPT,
        "run: {command: [python3, -c, 'import a; add_argument(action=append)', -i, 1, -i, 2]}",
    ),
    "processes that take two GPUs each": (
        SCRIPT,
        "run: {command: [python3, -c, 'import torch; first, other = rank * 2, rank * 2 + 1']}\n"
        "launch: {mode: direct, processes_per_node: 2}",
    ),
    "the process's own rank, as Slurm counts it behind the program": (
        SCRIPT,
        "run: {script: train.py, args: [--rank, {value: $SLURM_PROCID, expand: true}]}",
    ),
    "the rank of LoRA": (SCRIPT, "run: {script: train.py, args: [--rank, 128]}"),
    "a world of one by default": (SCRIPT, "run: {script: train.py, args: [--world_size, 1]}"),
    "a program in another machine's home": ("train.py", "~/train.py"),
    "a program on another machine's disk": ("train.py", "/scratch/me/train.py"),
    "a program that setup makes": (
        "{script: train.py}",
        "{script: src/new.py}\nenvironment: {setup: cp /scratch/me/new.py src/new.py}",
    ),
    "a program of a container": (
        "{script: train.py}",
        "{script: /opt/a.py}\nenvironment: {container: {image: 'docker://a', runtime: apptainer}}",
    ),
    "a registry as enroot writes it": (
        "",
        "environment: {container: {image: 'nvcr.io#nvidia/pytorch:26.01-py3', runtime: pyxis}}\n",
    ),
    "an image of Docker Hub": (
        "",
        "environment: {container: {image: 'docker://pytorch/pytorch:2.9', runtime: pyxis}}\n",
    ),
    "a program in the usual folder of an image": (
        "{script: train.py}",
        "{script: /workspace/a.py}\n"
        "environment: {container: {image: 'docker://a', runtime: pyxis}}",
    ),
    "a program in the folder of a container": (
        "{script: train.py}",
        "{script: a.py}\nenvironment: {container: {image: 'docker://a', runtime: apptainer,"
        " options: [--pwd, /opt]}}",
    ),
    "a bind that each node has": (
        "",
        "environment: {container: {image: 'docker://a', runtime: apptainer, binds: [/tmp/no/d]}}\n",
    ),
    "one process a GPU": ("", "launch: {processes_per_node: 4}\n"),
    "threads that fit": ("", "environment: {variables: {OMP_NUM_THREADS: '4'}}\n"),
    "all GPUs": ("", "environment: {variables: {CUDA_VISIBLE_DEVICES: '0,1,2,3'}}\n"),
    "unequal nodes": ("nodes: 2, gpus_per_node: 4", "gpus_per_node: [8, 2]"),
    "setup of several lines": (
        "",
        "environment:\n  setup: |\n    module load cuda\n    export A=1\n",
    ),
    "conda with its own lines": (
        "",
        "environment:\n  setup: |\n    . ~/conda/etc/profile.d/conda.sh\n    conda activate a\n",
    ),
    "a sweep of Hydra's own in one process": (
        BASE.partition("{")[2],
        "gpus_per_node: 1, cpus_per_node: 8, walltime: 1h}\n"
        "run: {command: [python3, -c, import hydra, t.py, -m, 'lr=1,2']}\n",
    ),
    "float16 by an option that is off": (
        SCRIPT,
        "run: {command: [python3, -c, TrainingArguments, --bf16, --fp16, 'False']}",
    ),
    "names that look like placeholders": (
        "name: gpt",
        "name: gpt\naccount: myproject\nqueue: test",
    ),
    "a module of an installed package": ("script: train.py", "module: jobgen.trainer"),
    "accelerate in a site's container": (
        BASE[BASE.index("nodes") :],
        "gpus_per_node: 4, cpus_per_node: 8, walltime: 1h}\nlaunch: {mode: plain}\n"
        "run: {command: [apptainer_wrapper, exec, accelerate, launch, --num_processes=4, a.py]}\n",
    ),
    "conda of a module": (
        "",
        "environment:\n  setup: |\n    module load mamba\n    source activate a\n",
    ),
    "conda by lines of a file": (
        "",
        "environment:\n  setup: |\n    . ~/cluster/setup.sh\n    conda activate a\n",
    ),
    "conda by its own path": ("", "environment: {venv: /opt/conda, setup: conda activate a}\n"),
    "a step before, by the program": (
        "",
        "environment: {setup: python train.py --make-split-only}\n",
    ),
    "what compilers and libraries read": (
        "",
        "environment: {variables: {CPATH: /opt/include, PYTORCH_ALLOC_CONF: 'backend:native'}}\n",
    ),
    "setup of one line with &&": ("", "environment: {setup: 'cd /x && module load cuda'}\n"),
    "there and back": ("", "environment:\n  setup: |\n    cd src\n    make\n    cd ..\n"),
    "in a shell of its own": ("", "environment: {setup: (cd src && make)}\n"),
    "results on scratch": (
        "train.py}",
        "train.py, args: {out: /scratch/results}}\non_walltime: {then: requeue}",
    ),
    "tasks with folders of their own": (
        "train.py}",
        "train.py, args: {out: {value: $JOBGEN_RUN_DIR/out, expand: true}}}\n"
        "array: {values: {lr: [1, 2]}}",
    ),
    "tasks that setup tells apart": (
        "train.py}",
        "train.py, args: {out: results}}\n"
        "array: {values: {environment.variables.N: [1, 2]}}\nenvironment: {setup: export R=$N}\n",
    ),
    "a variable for each task": ("", "array: {values: {environment.variables.LR: [1, 2]}}\n"),
    "an address for what mpirun starts": (
        "{script: train.py}",
        "{command: [mpirun, -n, '8', ./a.out]}\nlaunch: {mode: plain, processes_per_node: 4}\n"
        "environment: {setup: 'export MASTER_ADDR=$(hostname)'}",
    ),
    "W&B offline": (
        "scheduler: slurm",
        "site: jsc-juwels-booster\n"
        "environment: {variables: {WANDB_PROJECT: gpt, WANDB_MODE: offline}}",
    ),
    "a file that the program joins with a folder": (
        "train.py}",
        "train.py, args: [--data_path, /data/glue, --label_file, meta.txt]}",
    ),
    "a checkpoint that setup makes": (
        "train.py}",
        "train.py, args: [--resume, a/b.pt]}\nenvironment: {setup: cp /data/b.pt a/b.pt}",
    ),
    "a notice of half the time": ("", "on_walltime: {notice: 30m}\n"),
    "torchrun with all GPUs": (
        BASE.partition("{")[2],
        "nodes: 1, gpus_per_node: 4, cpus_per_node: 16, walltime: 1h}\n"
        "launch: {mode: direct, processes_per_node: 1}\n"
        "run: {command: torchrun --nproc-per-node 4 t.py}",
    ),
    "the Python of the environment": (
        SCRIPT,
        "environment: {conda: torch}\nrun: {command: /opt/envs/torch/bin/python t.py}",
    ),
    "variables of either scheduler": (
        "",
        "environment: {setup: 'echo ${SLURM_JOB_ID:-$PBS_JOBID}'}\n",
    ),
    "options of the site's own": ("", "directives: ['#SBATCH --container-name=a']\n"),
    "options that Slurm takes short": ("", "directives: ['#SBATCH --licens=a']\n"),
    "options of a container in a line": (
        "",
        "environment: {container: {image: docker://a, runtime: apptainer, options: --nv -i}}\n",
    ),
    "one GPU on each node": (
        f"gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}}\n{SCRIPT}",
        "gpus_per_node: 1, walltime: 1h}\nrun: {script: train.py, args: {gpu: 0}}",
    ),
    "nodes by name": ("", "directives: ['#SBATCH -w gpu[01,05]', '#SBATCH --nice=1']\n"),
    "nodes of a file": ("", "directives: ['#SBATCH --nodelist=./hosts']\n"),
    "a venv under a bind": (
        "",
        "environment: {container: {image: docker://a, runtime: apptainer, binds: [/opt]},"
        " venv: /opt/venv}\n",
    ),
}


@pytest.mark.parametrize("case", re.findall(r"^\w.*\n(?: .*\n)*", MEANT, re.MULTILINE))
def test_nothing_is_said_of_what_is_meant(case: str) -> None:
    loaded = load(replace_keys(dedent(case.partition("\n")[2])))
    assert review(loaded, resolve(loaded)) == []


def test_where_the_scheduler_is_the_home_folder_is_the_nodes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    inside = edited(("scheduler: local", "scheduler: slurm"))

    def missing(venv: str) -> bool:
        Path("job.yaml").write_text(f"{inside}environment: {{venv: {venv}}}\n")
        return f"environment.venv: {venv} is not here" in jobgen("check").err

    venvs = ("~/envs/torch", "$HOME/torch", f"{tmp_path}/envs/torch", "/nodes/venv")
    assert not any(map(missing, venvs))  # a laptop's home folder is another
    saved_clusters.program(tmp_path / "bin" / "sbatch", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert [missing(venv) for venv in venvs] == [True, True, True, False]
    # Below it, a folder of this machine's own disk is none.
    own = "usually on this machine's own disk"
    for venv, said in ((f"{tmp_path}/envs/torch", False), ("/tmp/envs/torch", True)):
        missing(venv)
        assert (own in jobgen("check").err) == said


def test_check_and_submit_say_it_with_its_place(tmp_path: object) -> None:
    with working_in(str(tmp_path)):
        with open("job.yaml", "w") as file:
            file.write(BASE.replace("64GB", "64MB"))
        with open("train.py", "w") as file:
            file.write("from accelerate import Accelerator\nAccelerator()\n")
        for command in (["check"], ["submit", "--dry-run"]):
            code, _, err = jobgen(*command)
            assert code == 0
            assert "warning: job.yaml:3:" in err, err


def test_one_process_may_take_several_gpus() -> None:
    loaded = load(edited(("", "launch: {processes_per_node: 1}\n"), text=BASE))
    for program, said in (("import jax\n", 0), ("import openai\n", 0), ("import torch\n", 1)):
        Path("train.py").write_text(program)
        assert len(review(loaded, resolve(loaded))) == said, program


_PLAIN = "launch: {mode: plain}\n"
_ONE = f"resources: {{gpus_per_node: 4, cpus_per_node: 16}}\n{_PLAIN}"
_ANEW = (
    "on_walltime: {then: requeue}\nrun: {script: train.py, args: {overwrite_output_dir: true}}\n"
)
_SWEEP = "array: {values: {optim.lr: [1, 2]}}\n"


@pytest.mark.parametrize(
    ("program", "keys", "words"),
    [
        ("net.to('cuda')", _ONE, "1 process leaves 3 of 4 GPUs on a node idle"),
        ("net.to('cuda')\nimport workers", _ONE, ""),
        ("net.to('cuda:1')", _ONE, ""),
        ("if not args.overwrite_output_dir: find()", _ANEW, "further start begin again"),
        ("if a.overwrite:\n    rmtree(a.out)", _ANEW.replace("_output_dir", ""), "begin again"),
        ("train(resume_from_checkpoint=True)", _ANEW, ""),
        ("@hydra.main()\ndef main(c): 0", _SWEEP, "optim.lr is of Hydra, which takes no"),
        ("OmegaConf.from_cli()", _SWEEP, ""),
    ],
)
def test_what_a_program_cannot_mean_with_its_job(program: str, keys: str, words: str) -> None:
    Path("train.py").write_text(f"import torch\n{program}\n")
    base = yaml.safe_load(BASE) | yaml.safe_load(keys or "{}")
    loaded = load(yaml.safe_dump(base))
    said = [one.message for one in review(loaded, resolve(loaded))]
    assert len(said) == bool(words), said
    assert words in "".join(said)


@pytest.mark.parametrize(
    ("processes", "program"),
    [
        (8, "torch.distributed.init_process_group('gloo')"),
        (1, "torch.multiprocessing.spawn(train, nprocs=4)"),
        (1, "parts = [part.to(f'cuda:{i}') for i in range(torch.cuda.device_count())]"),
    ],
)
def test_the_program_tells_what_it_does_with_gpus(processes: int, program: str) -> None:
    spec = f"{BASE}launch: {{processes_per_node: {processes}}}\n"
    for text, said in (("", 1), (program, 0)):
        Path("train.py").write_text(f"import torch\n{text}\n")
        loaded = load(spec)
        assert ["GPU" in str(one) for one in review(loaded, resolve(loaded))] == [True] * said


def test_a_backend_for_the_cpu_beside_nccl_leaves_each_process_its_gpu() -> None:
    Path("train.py").write_text(
        "init_process_group('nccl' if torch.cuda.is_available() else 'gloo')"
    )
    loaded = load(f"{BASE}launch: {{processes_per_node: 8}}\n")
    (problem,) = review(loaded, resolve(loaded))
    assert "8 processes share 4 GPUs on a node" in str(problem)


def test_a_chain_wants_what_is_saved_in_the_run_folder() -> None:
    words = "out /scratch/a: the chain ends after a start that leaves nothing new in checkpoints/"
    save = "out: /scratch/a"
    spec = edited(
        ("train.py}", f"train.py, args: {{{save}}}}}\non_walltime: {{then: requeue}}"), text=BASE
    )
    for program, option, said in (
        ("import torch\n", save, 1),
        ("from jobgen import loop\n", save, 0),
        ("import torch\n", "out: loss.json", 0),
        ("import torch\n", "out: {value: $JOBGEN_RUN_DIR/checkpoints, expand: true}", 0),
        ("import torch, argparse\nadd_argument('--out', default='a')\nsave()", save, 1),
    ):
        Path("train.py").write_text(program)
        loaded = load(spec.replace(save, option))
        assert [words in str(one) for one in review(loaded, resolve(loaded))] == [True] * said


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.json", '{"lr": 1e-3,\n\t"on": true}', ["a.json:lr 1e-3", "a.json:on true"]),
        ("a.yaml", "lr: 1e-3\n", ["a.yaml:lr 1e-3"]),
        ("a.yaml", "pbs: {ngpus: 4}\ngpus: 1\n", ["a.yaml:gpus 1"]),
        ("a.json", '{"a": [' + '"x",\n' * 20_000 + '"x"]}', []),
        ("a.json", '{"a": [' + '"x",\n' * 5_000, []),
        ("a.json", "[" * 20_000, []),
        ("a.yaml", "a: 1\n" * 5_000 + "- b\n", []),
    ],
)
def test_a_file_that_a_program_is_given_costs_little(
    name: str, text: str, found: list[str]
) -> None:
    Path(name).write_text(text)
    start = time.process_time()
    read = list(list_settings([f"--config={name}"]))
    assert time.process_time() - start < 0.5  # of 5 s for the fault of such a file
    assert [*map(" ".join, read)] == [f"--config {name}", *found]


@pytest.mark.parametrize("option", ["save-weights", "weights-out", "init-export", "loader"])
def test_weights_that_a_program_writes_need_not_be_here(option: str) -> None:
    loaded = load(BASE.replace(SCRIPT, f"run: {{module: m, args: {{{option}: none/a.pth}}}}"))
    assert review(loaded, resolve(loaded)) == []


def test_a_fault_of_two_variables_is_said_of_both() -> None:
    text = BASE + "environment: {variables: {NCCL_SOCKET_IFNAME: lo, GLOO_SOCKET_IFNAME: lo}}\n"
    loaded = load(text)
    paths = [one.path for one in review(loaded, resolve(loaded)) if "loopback" in one.message]
    assert paths == [f"environment.variables.{name}_SOCKET_IFNAME" for name in ("NCCL", "GLOO")]


def test_a_fault_of_two_lines_of_setup_is_said_of_both() -> None:
    setup = "environment:\n  setup: |\n    export RANK=0\n    export WORLD_SIZE=1\n"
    loaded = load(BASE + setup)
    said = [one.message for one in review(loaded, resolve(loaded))]
    assert said == [f"{name} is set by the job, after its setup" for name in ("RANK", "WORLD_SIZE")]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("export A=1\nexit 0", "env.sh:2:1: 'exit' ends the script, or never ends"),
        ("exec bash", "env.sh:1:1: 'exec bash' ends the script"),
        ("module load cuda\n\ncd data", "env.sh:3:1: cd data: relative paths then begin in that"),
        ("return 1", "env.sh:1:1: 'return 1' fails the setup, which ends the job; remove it"),
        ("export A=1 RANK=0", "env.sh:1:1: RANK is set by the job, after its setup"),
        ("CUDA_VISIBLE_DEVICES=1\nexport CUDA_VISIBLE_DEVICES=0", "env.sh:2:1: CUDA_VISIBLE_DEV"),
        ("export A=1\nreturn", ""),
        ("(\n    exit 0\n)", ""),
        ('load() {\n    [ -n "$1" ] || return 1\n}\nload cuda', ""),
    ],
)
@pytest.mark.parametrize("source", ["source ./env.sh", '. "$PWD/env.sh"  # ours', "source env.sh"])
def test_lines_that_setup_sources_are_read_where_they_stand(
    source: str, lines: str, said: str
) -> None:
    Path("env.sh").write_text(lines)
    loaded = load(f"{BASE}environment:\n  setup: |\n    module load a\n    {source}\n    date\n")
    found = [str(one) for one in review(loaded, resolve(loaded))]
    assert [one.startswith(said) for one in found] == [True] * bool(said), found


def test_lines_that_activate_an_environment_are_not_the_users() -> None:
    Path("env/bin").mkdir(parents=True)
    Path("env/bin/activate").write_text("return 1\n")
    loaded = load(f"{BASE}environment: {{setup: source env/bin/activate}}\n")
    assert review(loaded, resolve(loaded)) == []


def test_a_path_that_begins_with_a_variable_is_relative_to_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENVS", str(tmp_path / "tests"))
    loaded = load(f"{BASE}environment: {{venv: $ENVS/none}}\n")
    (said,) = review(loaded, resolve(loaded))
    assert (said.message, said.hint) == ("$ENVS/none is not here", "make it, or correct the path")


def test_a_folder_that_is_here_is_not_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/corpora/a" or exists(path))
    keys = "environment: {container: {image: docker://a, runtime: apptainer}}\n"
    for folder, told in (("/corpora/a", 1), ("/corpora/b", 0)):
        loaded = load(BASE.replace("train.py", f"train.py, args: {{data: {folder}}}") + keys)
        said = [one.message for one in review(loaded, resolve(loaded))]
        assert said == [f"--data {folder} is not seen inside the container"] * told


def test_a_file_that_the_program_joins_with_a_folder_is_not_looked_for_here() -> None:
    loaded = load(BASE.replace("train.py", "train.py, args: {config: a.yml}"))
    for line, said in (("args.config", 1), ("os.path.join('configs', args.config)", 0)):
        Path("train.py").write_text(f"open({line})\n")
        assert len([*review(loaded, resolve(loaded))]) == said


def test_a_program_is_looked_for_in_few_folders() -> None:
    for index in range(700):
        Path(f"a/{index}/b").mkdir(parents=True)
    Path("a/699/b/run.py").touch()
    loaded = load(BASE.replace("train.py", "run.py"))
    before = time.perf_counter()
    (said,) = review(loaded, resolve(loaded))
    assert time.perf_counter() - before < 1
    assert "did you mean" not in said.hint
    Path("src/deep").mkdir(parents=True)
    Path("src/deep/run.py").touch()
    (said,) = review(loaded, resolve(loaded))
    assert said.hint == "did you mean src/deep/run.py?"


def test_a_command_of_this_folder_can_be_started() -> None:
    Path("a.sh").write_text("#!/bin/bash\nsleep 1\n")
    spec = edited(("{module: m}", "{command: [./a.sh]}"))
    made = "environment: {setup: chmod +x a.sh}\n"
    for mode, more, told in ((0o755, "", False), (0o644, "", True), (0o644, made, False)):
        Path("a.sh").chmod(mode)
        Path("job.yaml").write_text(spec + more)
        assert ("./a.sh is not executable; type: chmod +x ./a.sh" in jobgen("check").err) is told


def test_what_checks_find_has_words() -> None:
    room = ROOT / "jobgen/review"
    checks = "".join((room / f"{name}.py").read_text() for name in ("__init__", "files", "roles"))
    named = set(re.findall(r'yield f?"([a-z-]+)[{"]', checks))
    lines = (room / "review.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line[:3] == "say"]
    assert named == {row[1].partition(".")[0] for row in rows}  # of idle-gpus.one


@pytest.mark.parametrize(
    ("files", "more", "told"),
    [
        ((), "", True),
        (("pyproject.toml", "env/lib/python3/site-packages/a.pth"), "{venv: env}", True),
        (("pyproject.toml", "env/lib/python3/site-packages/pkg"), "{venv: env}", False),
        (("pyproject.toml",), "{conda: env}", False),
        ((), "{variables: {PYTHONPATH: src}}", False),
        ((), "{setup: cd src}", False),
        (("pkg/train.py",), "", False),
    ],
)
@pytest.mark.parametrize("run", ["module: pkg.train", "command: [python, -m, pkg.train]"])
def test_the_folder_of_a_module_is_named(
    run: str, files: tuple[str, ...], more: str, *, told: bool
) -> None:
    for file in ("src/pkg/train.py", *files):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    loaded = load(f"{BASE.replace('script: train.py', run)}environment: {more or '{}'}\n")
    said = "src/pkg/train.py is here, but Python does not look in src; write environment: {variabl"
    assert (said in " ".join(map(str, review(loaded, resolve(loaded))))) == told


@pytest.mark.parametrize("run", ["module: {}", "command: [python, -u, -m, {}]"])
@pytest.mark.parametrize("module", ["pkg.other", "src.pkg.other", "pkg.sub.other"])
def test_a_module_that_its_package_does_not_have_is_named(module: str, run: str) -> None:
    for package in ("pkg", "src/pkg"):
        Path(package).mkdir(parents=True)
        Path(package, "__init__.py").touch()
    loaded = load(BASE.replace("script: train.py", run.format(module)))
    (problem,) = review(loaded, resolve(loaded))
    assert f"the module {module} of this project is not here" in str(problem)


def test_pasted_directives_are_comments_of_yaml() -> None:
    head = "#!/bin/bash\n#SBATCH --mem=9G\n#SBATCH -p a\n# #SBATCH -t 1\n"
    Path("job.yaml").write_text(head + BASE)
    said = jobgen("check").err
    assert "job.yaml:2:1: #SBATCH --mem=9G is a comment of YAML, as is each such line, and" in said
    assert said.count("is a comment") == 1


@pytest.mark.parametrize(
    ("base", "own", "nodes", "behind"),
    [
        ("client: {nodes: 1, run: {script: t.py}}", "monitor", 3, True),
        ("client: {nodes: 1, run: {script: t.py}}", "client", 2, False),  # in its place
        ("client: {nodes: 1, ends: alone, run: {script: t.py}}", "monitor", 3, False),
        ("", "client", 2, False),  # a server alone, which is to be asked
    ],
)
def test_a_role_that_another_file_puts_behind_the_last_one_is_named(
    base: str, own: str, nodes: int, behind: bool
) -> None:
    roles = "roles:\n  server: {nodes: 1, run: {command: a}, ready: {log: up}}\n"
    Path("base.yaml").write_text(BASE.replace(f"{SCRIPT}\n", f"{roles}  {base}\n"))
    role = f"roles:\n  {own}: {{nodes: 1, run: {{script: train.py}}}}\n"
    Path("job.yaml").write_text(f"extends: base.yaml\nresources: {{nodes: {nodes}}}\n{role}")
    code, _, err = jobgen("check", "job.yaml")
    assert code == 0, err
    name = "roles.monitor.run: stands behind client of base.yaml, which fails the job now if it"
    assert [name in err, "stands behind" in err] == [behind, behind], err
