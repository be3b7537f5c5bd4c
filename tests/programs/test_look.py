"""`jobgen check` looks into the program that a spec names, and says what it sees."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support import jobgen

from jobgen.plan.resolve import resolve
from jobgen.programs import SEVERAL, Remark, check_program, list_doubts, look_at
from jobgen.spec.load import load

SPEC = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 4, walltime: 1h}
run: {RUN}
"""
ALONE = "import torch\nmodel.cuda()(batch).sum().backward()\n"
SCRIPT = "{script: train.py}"
WRAPPER = "{command: [bash, run.sh]}"


def write(run: str = SCRIPT, more: str = "", **programs: str) -> None:
    """Write a spec, and programs by their names: __ for a folder, and no suffix."""
    Path("job.yaml").write_text(SPEC.replace("{RUN}", run) + more)
    for name, text in programs.items():
        path = Path(f"{name.replace('__', '/', 1)}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def look(run: str = SCRIPT, more: str = "", **programs: str) -> list[Remark]:
    """Return what is found in the program of a spec, with these programs in its folder."""
    write(run, more, **programs)
    return look_at(resolve(load("job.yaml")))


def list_rules(run: str = SCRIPT, more: str = "", **programs: str) -> list[str]:
    """Return the rules by which something is found."""
    return [remark.rule for remark in look(run, more, **programs)]


@pytest.mark.parametrize(
    ("run", "rules"),
    [
        ("{script: train.py}", ["no-process-group"]),
        ("{module: pkg.train}", ["no-process-group"]),
        ("{command: [python, -u, train.py, --lr, '1']}", ["unread-argument", "no-process-group"]),
        ("{script: other.py}", []),
        ("{module: elsewhere.train}", []),
        ("{command: [./a.out]}", []),
    ],
)
def test_the_program_is_found(run: str, rules: list[str]) -> None:
    assert list_rules(run, train=ALONE, pkg__train=ALONE) == rules


def test_a_program_in_plain_mode_may_start_others() -> None:
    plain = "launch: {mode: plain}\n"
    (remark,) = look(more=plain, train=ALONE)
    assert remark.message.startswith("it runs on each of the 2 nodes, and nothing in it tells")
    assert look(more=plain, train=f"{ALONE}import subprocess\nsubprocess.run([])\n") == []
    several = "launch: {mode: plain, processes_per_node: 2}\n"
    (remark,) = look(more=several, train=ALONE)
    assert remark.rule == "no-process-group"


@pytest.mark.parametrize("command", [["submit", "--dry-run"], ["doctor", "job.yaml"]])
def test_submit_and_doctor_say_it_too(command: list[str]) -> None:
    write(train=ALONE)
    _, out, err = jobgen(*command)
    assert "train.py:1: it makes no process group" in out + err


def test_check_says_it_and_stays_at_exit_0() -> None:
    write(train=ALONE)
    code, out, err = jobgen("check")
    assert (code, out) == (0, "")
    assert "warning: train.py:1: it makes no process group, so each of the job's 8 processes" in err


def test_lint_takes_a_program_and_says_for_which_job() -> None:
    Path("train.py").write_text(ALONE)
    code, out, err = jobgen("lint", "train.py")
    assert code == 8
    assert out.startswith("train.py:1: warning: it makes no process group")
    assert "train.py: checked as the program of a job with 2 nodes of 4 processes" in err
    (finding,) = json.loads(jobgen("lint", "--json", "train.py").out)["findings"]
    assert (finding["rule"], finding["level"]) == ("no-process-group", "fault")
    assert jobgen("lint", "--format", "github", "train.py").code == 2


@pytest.mark.parametrize(
    ("asked", "launch", "rules"),
    [
        ("--nodes=2 --ntasks-per-node=4", "srun -K1 python train.py", ["no-process-group"]),
        ("--nodes=1 --gres=gpu:4", "torchrun --nproc-per-node=4 train.py", ["no-process-group"]),
        ("--nodes=1 --gres=gpu:2", "python train.py", ["idle-gpus"]),
        ("--nodes=1 --gres=gpu:2", "cd src\npython train.py", []),
        ("--nodes=1 --gres=gpu:2", "cd $SLURM_SUBMIT_DIR\npython train.py", ["idle-gpus"]),
        ("--nodes=1 --gres=gpu:2", "cd $PROJECT/src\npython other.py", ["idle-gpus"]),
        ("--nodes=1 --gres=gpu:2", "cd $PROJECT/src\ncd ..\npython train.py", []),
        ("--nodes=1 --gres=gpu:1", "python train.py", []),
        ("--nodes=1 --gres=gpu:2", "python both.py", []),
        ("--nodes=1 -n 8 --gres=gpu:8", "python meets.py", ["idle-gpus"]),
        ("--nodes=1 -n 8 --gres=gpu:8", "srun -K1 python meets.py", ["untold-rank"]),
        ("--nodes=1 -n $N", "srun -K1 python train.py", []),
    ],
)
def test_lint_looks_into_the_program_beside_a_script(
    asked: str, launch: str, rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROJECT", os.getcwd())
    Path("src").mkdir()
    for program in ("train.py", "src/other.py"):
        Path(program).write_text(ALONE)
    wraps = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    Path("meets.py").write_text(f"{OWN}import torch\n{wraps}")
    Path("both.py").write_text(f"{ALONE}model = torch.nn.DataParallel(model)\n")
    Path("job.sbatch").write_text(f"#!/bin/bash\n#SBATCH {asked}\n{launch}\n")
    found = json.loads(jobgen("lint", "--json", "job.sbatch").out)["findings"]
    assert [item["rule"] for item in found if item["file"].endswith(".py")] == rules


WRAPPERS = {
    "torchrun": ("torchrun --nproc-per-node 4 train.py", ["own-launcher"]),
    "accelerate": ("source env.sh\naccelerate launch --multi_gpu train.py", ["own-launcher"]),
    "srun": ("srun -n 8 python train.py", ["own-launcher", "no-process-group"]),
    "the program": ("cd .\nexec python -u train.py", ["no-process-group"]),
    "a program in the background": ("python prepare.py &\necho started", ["no-wait"]),
    "a container without variables": ("docker run --gpus all i python t.py", ["container"]),
    "a container with variables": ("docker run --gpus all --env-file e i python t.py", []),
    "a program that is waited for": ("python prepare.py &\nwait", ["hidden-exit"]),
    "a program that is waited for by its id": ('python prepare.py &\np=$!\nwait "$p"', []),
    "lines that end with CR and LF": ("./prepare\r", ["line-ends"]),
    "something else": ("./prepare --all", []),
    "a rendezvous of its own": (
        "export MASTER_PORT=29500\npython t.py # which is not here",
        ["own-rendezvous"],
    ),
    "one GPU": ("CUDA_VISIBLE_DEVICES=0 ./prepare", ["visible-devices"]),
    "all GPUs": ("export CUDA_VISIBLE_DEVICES=0,1,2,3\n./prepare", []),
}


def test_what_is_said_of_a_kept_body_names_its_own_lines() -> None:
    Path("old.body.sh").write_text("#!/bin/bash\npython prepare.py &\n\nwait\n")
    remark = next(one for one in look("{body: old.body.sh}") if one.rule == "hidden-exit")
    assert remark.line == 2
    assert "the wait in line 4 " in remark.message


@pytest.mark.parametrize(("body", "rules"), WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("run", ["{command: [bash, run.sh]}", "{command: [./run.sh]}"])
def test_a_wrapper_is_looked_into(run: str, body: str, rules: list[str]) -> None:
    Path("run.sh").write_text(f"#!/bin/bash\n{body}\n")
    Path("run.sh").chmod(0o755)
    other = "import elsewhere\n"
    assert list_rules(run, train=ALONE, t=other, prepare=other) == rules


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("from .model import Net", "name the program as run.module"),
        ("from src.model import Net", "write environment.variables: {PYTHONPATH: .}, or name the"),
        ("from model import Net", ""),
        ("try:\n    from .model import Net\nexcept ImportError:\n    from model import Net", ""),
        ("import sys\nsys.path.append('.')\nfrom src.model import Net", ""),
    ],
)
def test_a_script_imports_from_its_own_folder(line: str, answer: str) -> None:
    programs = {"src__model": "Net = 1\n", "src__train": f"{line}\n{OWN}"}
    said = " ".join(map(str, look("{script: src/train.py}", **programs)))
    assert (answer in said) if answer else "module-missing" not in said
    assert "Python looks" not in " ".join(map(str, look("{module: src.train}")))


ONE_A_NODE = "launch: {mode: direct, processes_per_node: 1}\n"
MEETING = "torchrun --nnodes=2 --node-rank=$RANK --master-addr=$MASTER_ADDR --nproc-per-node=4 t.py"


@pytest.mark.parametrize(
    ("nodes", "body", "rules"),
    [
        ("1", "torchrun --standalone --nproc-per-node=4 t.py", []),
        ("2", "torchrun --standalone --nproc-per-node=4 t.py", ["own-launcher"]),
        ("2", MEETING, []),
    ],
)
def test_one_agent_a_node_has_to_know_the_others(nodes: str, body: str, rules: list[str]) -> None:
    Path("run.sh").write_text(f"{body}\n")
    write(WRAPPER, ONE_A_NODE)
    loaded = load("job.yaml", [f"resources.nodes={nodes}"])
    assert [remark.rule for remark in look_at(resolve(loaded))] == rules


def test_a_module_that_a_snapshot_leaves_out_is_named() -> None:
    train = "import extra\nimport torch.distributed as dist\ndist.init_process_group()"
    write(train=train, extra="import torch\ntorch.cuda.set_device(local_rank)")
    for words in (["init", "-q"], ["add", "train.py"]):
        subprocess.run(["git", *words], check=True)
    for snapshot, expected in (("true", 1), ("[extra.py]", 0), ("false", 0)):
        write(more=f"snapshot: {snapshot}\n")
        err = jobgen("check").err
        assert err.count("warning: extra.py:1: git does not track it") == expected, err


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("  - {lr: 1}\n  - {lrr: 2}\n", "8:11: array.list[1].lrr: train.py: it has no"),
        ("  - {lrr: 1}\n  - {lrr: 2}\n", "7:11: array.list[0].lrr: train.py: it has no"),
    ],
)
def test_an_argument_of_a_task_has_its_own_place(tasks: str, said: str) -> None:
    options = PARSER.replace("--seed", "--lr")
    train = f"{OWN}{options}args = p.parse_args()\nprint(args.lr)\n{TRAINS}"
    write(more=f"array:\n  list:\n{tasks}", train=train)
    assert said in jobgen("check").err


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ("{dist-kind: single}", "job.yaml:4:43: run.args.dist-kind: train.py: it makes a process"),
        ("{dist_kind: single}", "job.yaml:4:43: run.args.dist_kind: train.py: it makes a process"),
        ("[--dist-kind, single]", "train.py:1: it makes a process group only where"),
    ],
)
def test_an_option_that_turns_the_group_off_has_its_own_place(args: str, place: str) -> None:
    option = "p.add_argument('--dist-kind', '--dist_kind', default='ddp')\na = p.parse_args()\n"
    join = "import torch.distributed as dist\nif a.dist_kind == 'ddp':\n    "
    train = f"{PARSES}{option}{join}dist.init_process_group('nccl')\n{ALONE}"
    write(f"{{script: train.py, args: {args}}}", train=train)
    assert f"warning: {place}" in jobgen("check").err


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("launch: {max_restarts: 2}", "launch.max_restarts"),
        ("directives: ['#SBATCH --requeue']", "--requeue"),
        ("on_failure: {then: restart}", "on_failure"),
        (
            "on_walltime: {then: requeue}\non_failure: {then: restart}",
            "on_walltime and on_failure",
        ),
    ],
)
def test_what_starts_a_program_again_is_named(keys: str, named: str) -> None:
    found = look(more=f"{keys}\n", train="loss.backward()\n")
    said = [one.hint for one in found if one.rule == "nothing-saved"]
    assert said == [f"save checkpoints and load the newest, or leave {named} out"]


@pytest.mark.parametrize(("word", "rules"), [("lr=1", ["untold-rank"]), ("hydra/launcher=x", [])])
def test_a_launcher_of_hydra_tells_the_ranks(word: str, rules: list[str]) -> None:
    text = "import sys, torch.distributed as dist\nsys.argv\ndist.init_process_group('nccl')\n"
    write(f"{{script: train.py, args: [{word}]}}", train=text)
    plan = resolve(load("job.yaml", ["resources.nodes=1", "launch.mode=plain"]))
    assert [remark.rule for remark in look_at(plan)] == rules


def test_a_role_on_a_part_of_a_node_has_its_own_gpus() -> None:
    write(train=f"{OWN}net = torch.nn.parallel.DistributedDataParallel(net)\n{TRAINS}")
    for gpus, rules in (("gpus: 1", []), ("nodes: 1", ["idle-gpus"])):
        role = f"{{{gpus}, run: {{script: train.py}}, launch: {{processes_per_node: 1}}}}"
        other = "{gpus: 3, run: {command: [serve]}}"
        text = SPEC.replace("nodes: 2", "nodes: 1") if gpus == "gpus: 1" else SPEC
        spec = text.replace("run: {RUN}\n", f"roles:\n  a: {other}\n  b: {role}\n")
        Path("job.yaml").write_text(spec)
        plan = resolve(load("job.yaml")).roles.members[1].plan
        assert [one.rule for one in look_at(plan)] == rules


def test_the_programs_of_roles_are_looked_into() -> None:
    write(train=ALONE)
    roles = (
        "roles:\n  a: {nodes: 1, run: {script: train.py}}\n  b: {nodes: 1, run: {command: [./b]}}\n"
    )
    Path("job.yaml").write_text(SPEC.replace("run: {RUN}\n", roles))
    assert "each of the job's 4 processes runs the whole program alone" in jobgen("check").err


def test_a_package_that_python_cannot_start_is_named() -> None:
    (remark,) = look("{module: pkg}", pkg____init__="")
    assert remark.rule == "not-a-program"


def test_a_wrapper_that_submits_jobs_is_found() -> None:
    Path("run.sh").write_text("set -e\nsbatch job.sh\n")
    (remark,) = look(WRAPPER)
    assert str(remark).startswith("run.sh:2: warning: it submits jobs")


def test_a_program_that_is_named_as_a_command_is_read() -> None:
    text = "#!/usr/bin/env python\nimport torch.distributed as d\nd.init_process_group()\n"
    Path("train.py").write_text(text, newline="\r\n")
    assert list_rules("{command: [./train.py]}") == ["line-ends"]


def test_a_module_finds_its_package_from_here() -> None:
    run, train = "{module: pkg.train}", f"from pkg.net import Net\n{ALONE}"
    rules = list_rules(run, pkg____init__="", pkg__train=train)
    assert rules == ["module-missing", "no-process-group"]
    group = "import torch.distributed as Net\nNet.init_process_group()\n"
    assert look(run, pkg__net=f"{group}Net.all_reduce('LOCAL_RANK')") == []


def test_a_folder_beside_the_program_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold a million images, on a shared disk."""
    listed = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scan(path))
    assert list_rules(train=f"import net\n{ALONE}", data__one="", net__two="") == [
        "no-process-group"
    ]
    assert [path for path in listed if "data" in path] == []


@pytest.mark.parametrize(
    ("array", "text", "told"),
    [
        ("tasks: 4", "", True),
        ("tasks: 4", "print(os.environ['JOBGEN_TASK'])", False),
        ("tasks: 4", "print(os.environ['SLURM_ARRAY_TASK_ID'])", False),
        ("values: {lr: [1, 2]}", "", False),
    ],
)
def test_tasks_that_do_not_differ_are_named(array: str, text: str, told: bool) -> None:
    made = "import os, sys\nsys.argv\nimport torch.distributed as dist\n"
    made += "dist.init_process_group('gloo')\n"
    rules = list_rules(more=f"array: {{{array}}}\n", train=made + text)
    assert rules == ["same-tasks"] * told


@pytest.mark.parametrize("name", ["JOBGEN_TASK", "SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX"])
def test_tasks_that_get_their_number_differ(name: str) -> None:
    run = f"{{script: train.py, args: [--seed, {{value: ${name}, expand: true}}]}}"
    text = "import sys\nimport torch.distributed as dist\ndist.init_process_group(sys.argv[1])\n"
    assert list_rules(run, "array: {tasks: 4}\n", train=text) == []


def spoken(text: str, args: str = "", more: str = "") -> list[str]:
    """Return rules and messages on a program that is given these arguments."""
    found = look(f"{{script: train.py{args}}}", more, train=text)
    return [f"{remark.rule}: {remark.message}" for remark in found]


OWN = (
    "import os, sys, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
)
HF = "from transformers import Trainer, TrainingArguments\n"
TRAINS = "model(x).sum().backward()\ndist.all_reduce(loss)\n"
NOTICED = "import signal as s\ns.signal(s.SIGUSR1, save)\n"
CHAIN = "on_walltime: {then: resubmit, at_most: 3}\n"


PARSES = "import argparse\np = argparse.ArgumentParser()\n"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            f"{PARSES}p.add_argument('--ckpt-dir', default='ckpts')\nsave(x)",
            "saves in ckpts, where --ckpt-dir is not given",
        ),
        (f"{PARSES}p.add_argument('--out', default=Path('a'))\nsave()", "saves in a, where --out"),
        (
            f"{PARSES}p.add_argument('--out', default=pathlib.Path('a'))\nsave()",
            "saves in a, where --out",
        ),
        (
            f"{PARSES}p.add_argument('--resume', action='store_true')\nrun()",
            "run.args.resume: true",
        ),
        (f"{PARSES}p.add_argument('--resume', default='a.pt')", ""),
        ("import torch\ntorch.save({'a': 1}, 'last.pt')", "saves in last.pt: the chain ends"),
        ("import torch\ntorch.save(net.state_dict(), 'last.pt')", "in last.pt: the chain ends"),
        (f"{HF}TrainingArguments(output_dir='out')", "saves in out: the chain ends"),
        (f"{PARSES}p.add_argument('--ckpt-dir', default='/tmp/x')\nsave(x)", ""),
        (f"{PARSES}p.add_argument('--ckpt-dir', default='ckpts')", ""),
        ("import torch\ntorch.save(net, join(args.out, 'last.pt'))", ""),
        ("import torch\ntorch.save(net, os.environ['JOBGEN_RUN_DIR'] + '/checkpoints/a.pt')", ""),
    ],
)
def test_a_chain_wants_what_a_program_saves_by_default_there(program: str, words: str) -> None:
    found = [str(one) for one in look(more=CHAIN, train=program)]
    said = [one for one in found if "the chain ends" in one or "is not given" in one]
    assert len(said) == bool(words), found
    assert words in "".join(said)


@pytest.mark.parametrize(
    ("program", "keys", "told"),
    [
        ("ray.init(address='auto')", "", True),
        ("ray.init('auto', namespace='a')", "launch: {mode: plain}\n", True),
        ("ray.init(address='auto')", "launch: {mode: ray}\n", False),
        ("try:\n    ray.init(address='auto')\nexcept Exception:\n    ray.init()", "", False),
        ("ray.init(address='auto')", "environment: {setup: ray start --head}\n", False),
        ("# ray.init(address='auto')", "", False),
    ],
)
def test_a_ray_that_is_looked_for_has_to_be_started(program: str, keys: str, told: bool) -> None:
    found = [str(one) for one in look(more=keys, train=f"import ray\n{program}\n")]
    assert ["looks for a Ray" in one for one in found if "no-ray" in one] == [True] * told


SPAWNS = (
    "import os, torch.multiprocessing as mp\n"
    "os.environ['MASTER_ADDR'] = 'localhost'\nmp.spawn(work, nprocs=4)\n"
)
PLAIN = "launch: {mode: plain}\n"
MIRRORED = "from tensorflow.distribute import MultiWorkerMirroredStrategy\n"
TEMPORARY = f"{HF}TrainingArguments(output_dir='/tmp/out')\n"


@pytest.mark.parametrize(
    ("program", "keys", "words"),
    [
        (f"{MIRRORED}MultiWorkerMirroredStrategy()", "", "finds the others by TF_CONFIG"),
        (f"{MIRRORED}os.environ['TF_CONFIG'] = a\nMultiWorkerMirroredStrategy()", "", ""),
        (f"{MIRRORED}MultiWorkerMirroredStrategy(SlurmClusterResolver())", "", ""),
        (SPAWNS, PLAIN, "the processes of each of the 2 nodes meet at localhost"),
        (f"{SPAWNS}n = os.environ['NODE_RANK']", PLAIN, ""),
        (SPAWNS.replace("] = ", ", default"), PLAIN, ""),
        (TEMPORARY, "", "saves in /tmp/out, on each node's own disk, and it goes with the job"),
        ("import torch\ntorch.save(net, '/tmp/a.pt')", "", "saves in /tmp/a.pt, on each"),
        (f"{TEMPORARY}shutil.copytree('/tmp/out', a)", "", ""),
        (TEMPORARY.replace("/tmp", "runs"), "", ""),
    ],
)
def test_what_a_program_cannot_mean_with_its_job(program: str, keys: str, words: str) -> None:
    rules = ("no-process-group", "same-work", "slow-backend", "own-disk")
    found = [one for one in look(more=keys, train=program) if one.rule in rules]
    said = [str(one) for one in found if "runs the whole program alone" not in one.message]
    assert len(said) == bool(words), said
    assert words in "".join(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH -t 1\nsrun a\n", ["'#SBATCH --nodes=4' in it"]),
        ("#!/bin/bash\n# SBATCH lines are in the spec\nsrun a\n", []),
        ("srun a\ncat >b <<'END'\n#SBATCH --nodes=1\nEND\n", []),
    ],
)
def test_a_directive_in_a_body_has_no_effect(text: str, said: list[str]) -> None:
    Path("job.sbatch").write_text(text)
    found = [one.message for one in look("{body: job.sbatch}") if one.rule == "unread-directive"]
    assert [words in one for words, one in zip(said, found, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("type=bool, default=True", True),
        ("default=True, action=argparse.BooleanOptionalAction", True),
        ("action='store_true', default=True", True),
        ("action='store_true'", False),
        ("action='store_false', default=True", False),
    ],
)
def test_false_does_not_turn_off_what_is_on_by_default(settings: str, told: bool) -> None:
    options = PARSER + f"p.add_argument('--amp', {settings})\na = p.parse_args()\n"
    write("{script: train.py, args: {amp: false}}", train=OWN + options)
    loaded = load("job.yaml")
    said = list(list_doubts(loaded, resolve(loaded)))
    assert ["write no-amp: true" in one for one in said] == [True] * told


def test_a_package_that_the_venv_lacks_is_named_before_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    packages = Path("env/lib/python3.11/site-packages")
    (packages / "torch").mkdir(parents=True)
    config = Path("env/pyvenv.cfg")
    config.write_text("include-system-site-packages = false\n")
    imports = (
        "import os\nfrom typing import TYPE_CHECKING\nimport own\nimport torch.nn as nn\n"
        "from pandas.api import types\nif TYPE_CHECKING:\n    import numpy\n"
        "if os.environ.get('LOG'):\n    import wandb\n"
        "try:\n    import apex\nexcept ImportError:\n    pass\n"
    )

    def said(more: str = "") -> list[str]:
        environment = f"environment: {{venv: env{more}}}\n"
        write(more=environment, train=OWN + imports, own="import scipy\n")
        loaded = load("job.yaml")
        found = list_doubts(loaded, resolve(loaded))
        return [one.partition("; ")[0] for one in found if "[no-package]" in one]

    assert said() == [
        "warning: train.py:9: it imports pandas.api, which env does not have",
        "warning: own.py:1: it imports scipy, which env does not have",
    ]
    assert said(", setup: pip install pandas") == said(", variables: {PYTHONPATH: lib}") == []
    (packages / "x.pth").write_text("/home/x/pandas\n")
    assert said() == []
    (packages / "x.pth").unlink()
    config.write_text("include-system-site-packages = true\n")
    assert said() == []


def test_a_launcher_in_the_command_is_no_torchrun() -> None:
    found = look("{command: [srun, -n2, python, train.py]}", "launch: {mode: plain}\n", train=OWN)
    assert [(one.rule, one.message.split()[0]) for one in found] == [("untold-rank", "srun")]


def test_a_role_on_other_nodes_is_not_asked_at_localhost() -> None:
    write(train="import os\nurl = f\"http://localhost:{os.environ['JUDGE_PORT']}\"\nask(url)\n")
    spec = SPEC.replace("run: {RUN}\n", "").replace("nodes: 2", "nodes: 3")
    roles = "roles:\n  judge: {nodes: 1, run: {script: judge.py}}\n"
    Path("job.yaml").write_text(f"{spec}{roles}  main: {{nodes: 2, run: {{script: train.py}}}}\n")
    loaded = load("job.yaml")
    said = [one for one in list_doubts(loaded, resolve(loaded)) if "[loopback]" in one]
    assert ["JUDGE_ADDR" in one for one in said] == [True]


def test_what_turns_an_option_off_is_not_answered_by_what_turns_it_on() -> None:
    for action in ("BooleanOptionalAction", "'store_true'"):
        given = PARSER.replace("type=int", f"action={action}")
        (found,) = look(
            "{script: train.py, args: {seed: 'no'}}", train=f"{OWN}{given}p.parse_args()"
        )
        assert found.hint == "write seed: true in run.args to turn it on, or leave it out"


def test_a_job_of_cpus_has_no_gpu() -> None:
    size = {"gpus": 0, "world_size": 1, "processes": 1, "nodes": 1}
    write(train="import torch\nmodel.cuda()\n")
    check = check_program("train.py", SEVERAL._replace(**size))
    assert [one.rule for one in check] == ["no-gpu"]


def test_a_wrapper_that_starts_a_file_that_is_not_here() -> None:
    Path("run.sh").write_text("#!/bin/bash\npython missing.py\n")
    assert list_rules(WRAPPER) == ["not-here"]
    Path("run.sh").write_text("#!/bin/bash\ncd /opt/code\npython missing.py\n")
    assert look(WRAPPER) == []


def test_a_program_that_starts_itself_only_outside_of_a_launcher_is_not_blamed() -> None:
    start = "import subprocess\nsubprocess.run(['torchrun', 't.py'])\n"
    assert [one[:12] for one in spoken(OWN + start)] == ["own-launcher"]
    assert spoken(f"{OWN}if 'LOCAL_RANK' in os.environ: exit()\n{start}") == []
    submit = f"{OWN}def submit():\n    import subprocess\n    subprocess.run(['sbatch', 'j.sh'])\n"
    assert [one[:12] for one in spoken(f"{submit}submit()")] == ["own-launcher"]
    assert spoken(f"{submit}if args.submit:\n    submit()") == []


SEEDS = "array: {values: {seed: [1, 2]}}\n"
PARSER = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--seed', type=int)\n"
OUTS = "array: {values: {out: [a, b]}}\n"


@pytest.mark.parametrize(
    ("place", "array", "said"),
    [
        ("os.path.join(a.out, 'm.pt')", SEEDS, ["all 2 tasks of the array write x/m.pt"]),
        ("f'{a.out}/m.pt'", SEEDS, ["all 2 tasks of the array write x/m.pt"]),
        ("Path(a.out) / 'm.pt'", SEEDS, ["all 2 tasks of the array write x/m.pt"]),
        ("f'{a.out}/{a.seed}.pt'", SEEDS, []),
        ("os.path.join(a.out, 'm.pt')", OUTS, []),
        ("f'{a.out}/m.pt'", "array: {list: [{out: a}, {seed: 2}]}\n", []),
        ("Path(a.out) / 'm.pt'", "array: {list: [{out: y}, {out: y, seed: 2}]}\n", ["all 2 "]),
    ],
)
def test_tasks_that_save_where_an_option_says(place: str, array: str, said: list[str]) -> None:
    """What tasks have of their own tells their places apart, and the default of all does not."""
    options = "a = p.parse_args()\ndraw(a.seed)\nif dist.get_rank() == 0:\n"
    text = f"{OWN}from pathlib import Path\n{PARSER}p.add_argument('--out', default='x')\n"
    found = spoken(f"{text}{options}    torch.save(m, {place})\n", more=array)
    assert [one.removeprefix("same-place: ")[: len("".join(said))] for one in found] == said


def test_tasks_that_save_below_an_option_that_is_a_path() -> None:
    options = f"{PARSER}p.add_argument('--out', type=Path)\na = p.parse_args()\ndraw(a.seed)\n"
    text = f"{OWN}from pathlib import Path\n{options}if dist.get_rank() == 0:\n"
    shared, apart = (
        f"{text}    torch.save(m, {place})\n"
        for place in ("a.out / 'm.pt'", "a.out / f'{a.seed}.pt'")
    )
    given = ", args: {out: results}"
    assert ["results/m.pt" in one for one in spoken(shared, given, more=SEEDS)] == [True]
    assert spoken(apart, given, more=SEEDS) == []


@pytest.mark.parametrize(
    ("save", "array", "rules"),
    [
        ("torch.save(model, 'm.pt')", "array: {values: {lr: [1, 2]}}\n", ["same-place"]),
        ("torch.save(model, 'm.pt')", "", []),
        (
            "torch.save(model, os.path.join(os.environ['JOBGEN_RUN_DIR'], 'm.pt'))",
            "array: {values: {lr: [1, 2]}}\n",
            [],
        ),
        (
            "torch.save(model, 'm.pt')",
            "array: {tasks: 2}\nenvironment: {setup: 'cd $JOBGEN_TASK'}\n",
            [],
        ),
        ("torch.save(model, f'{args.lr}.pt')", "array: {values: {lr: [1, 2]}}\n", []),
    ],
)
def test_tasks_that_save_to_one_place(save: str, array: str, rules: list[str]) -> None:
    text = f"import torch, sys\nsys.argv\n{OWN}if dist.get_rank() == 0:\n    {save}\n"
    assert [one.split(":")[0] for one in spoken(text, more=array)] == rules


@pytest.mark.parametrize(
    ("text", "args", "more", "said"),
    [
        (f"{OWN}n = sys.argv[1]\n", "", "", "missing-argument: sys.argv[1] is read"),
        (f"{OWN}n = sys.argv[1]\n", ", args: ['3']", "", ""),
        (f"{OWN}if len(sys.argv) > 1: n = sys.argv[1]\n", "", "", ""),
        (f"{OWN}input('name?')\n", "", "", "asks: input() waits"),
        (OWN + TRAINS, "", CHAIN, "nothing-saved: "),
        (OWN + NOTICED, "", CHAIN, "nothing-saved: jobgen sends the program no"),
        (OWN + NOTICED, "", "", ""),
        (OWN + NOTICED + "s.signal(s.SIGTERM, save)\n", "", CHAIN, ""),
        (f"{OWN}{TRAINS}if rank == 0: torch.save(m)\n", "", CHAIN, "nothing-loaded: "),
        (
            f"{OWN}{TRAINS}if rank == 0: torch.save(m, RUN + '/checkpoints/m')\ntorch.load(m)",
            "",
            CHAIN,
            "",
        ),
        (
            f"{OWN}{TRAINS}if rank == 0: torch.save(m, PATH)\ntorch.load(m)",
            "",
            CHAIN,
            "saved-elsewhere: nothing in it names checkpoints/",
        ),
        (
            f"{HF}Trainer(TrainingArguments(save_strategy='no')).train()",
            "",
            CHAIN,
            "nothing-saved: save_strategy",
        ),
        (f"{HF}Trainer().train()", "", CHAIN, "nothing-loaded: train() is"),
        (f"{HF}Trainer().train(resume_from_checkpoint=x)", "", CHAIN, ""),
        (
            OWN + "torch.nn.parallel.DistributedDataParallel(m)\n",
            "",
            "launch: {mode: ray}\n",
            "no-ray: ",
        ),
        (
            OWN + "p.add_argument('--amp', type=bool).parse()",
            ", args: [--amp, 'False']",
            "",
            "argument-is-true: type=bool treats every value as True, and the job gives --amp a no",
        ),
        (OWN + "p.add_argument('--amp', type=bool).parse()", ", args: [--amp, 'True']", "", ""),
        ("import os, ray\nray.init(os.environ['RAY_ADDRESS'])\n", "", "launch: {mode: ray}\n", ""),
        (
            "import torch\nfrom ray import tune\n"
            "def train(cfg):\n    model = torch.nn.DataParallel(net)\n    loss.backward()\n"
            "tune.run(train, config={})\n",
            "",
            "",
            "own-processes: it starts Ray's work in each of the",
        ),
        (
            "import torch, torchft\npg = torchft.ProcessGroupNCCL()\n"
            "m = torchft.Manager(pg=pg)\nloss.backward()\n",
            "",
            "",
            "",
        ),
        (f"{OWN}{PARSER}a = p.parse_args()\n", "", SEEDS, "unread-argument: nothing reads --seed"),
        (
            f"{OWN}{PARSER}a = p.parse_args()\n".replace("--seed", "--lr"),
            "",
            SEEDS,
            "unknown-argument: it has no option --seed, so the program ends at once",
        ),
        (f"{OWN}{PARSER}a = p.parse_args()\ndraw(a.seed)\n", "", SEEDS, ""),
        (f"{OWN}{PARSER}a = p.parse_args()\n", ", args: [--seed, <1>]", "", ""),
        (
            f"{OWN}import os, sys\nos.replace(sys.argv[2], a)\n",
            ", args: [--out, 'a/{seed}.pt']",
            SEEDS,
            "same-place: --out is a/{seed}.pt in all 2 tasks of the array, as nothing fills in {s",
        ),
        (f"{OWN}import sys\nsys.argv[2].format(seed=1)\n", ", args: [-o, 'a/{seed}']", SEEDS, ""),
        (f"{OWN}import sys\nsys.argv\n", ", args: [-o, 'a/{epoch}']", SEEDS, ""),
        (
            f"{OWN}{PARSER}p.add_argument('--out')\na = p.parse_args()\n"
            "a.out = f'{a.out}/{a.seed}'\ndraw(a.seed)\n",
            ", args: {out: a}",
            SEEDS,
            "",
        ),
        (
            f"{OWN}import sys\nsys.argv\n",
            ", args: {out: a, shard_id: {value: $JOBGEN_TASK, expand: true}}",
            "array: {tasks: 4}\n",
            "",
        ),
        (f"{OWN}{PARSER}a = p.parse_args()\nrun(**vars(a))\n", "", SEEDS, ""),
        (
            OWN,
            ", args: {lr: 1}",
            "",
            "unread-argument: it reads no arguments, and the job gives it 2",
        ),
        (f"{OWN}exec(open('configurator.py').read())\n", ", args: [--lr=1]", "", ""),
        (
            f"{OWN}os.environ.get('LR')\n",
            "",
            "array: {values: {environment.variables.RATE: [1, 2]}}\n",
            "unread-variable: it does not read RATE",
        ),
        (
            f"{OWN}import tempfile\nif dist.get_rank() == 0:\n"
            "    torch.save(m, tempfile.mkdtemp() + '/m.pt')\n    torch.save(m, 'm.pt')\n",
            "",
            "",
            "",
        ),
        (
            f"{OWN}model(x).sum().backward()\n",
            "",
            "",
            "not-wrapped: it makes a process group but shares no gradients",
        ),
    ],
)
def test_what_a_program_does_not_read_or_is_not_given(
    text: str, args: str, more: str, said: str
) -> None:
    assert [one[: len(said)] for one in spoken(text, args, more)] == [said] * bool(said)


def test_a_word_with_a_colon_is_no_file_of_settings() -> None:
    assert spoken(f"{OWN}import sys\nsys.argv\n", ", args: ['http://n1:80']") == []


def test_a_module_is_looked_for_where_pythonpath_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src/pkg").mkdir(parents=True)
    Path("src/pkg/train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--wd')\np.parse_args()\n"
    )
    spec = "{name: a, scheduler: slurm, resources: {walltime: 1h}, run: {module: %s, args: {lr: 1}}"
    spec += ", environment: {variables: {PYTHONPATH: src}}}"
    for module, told in (
        ("pkg.train", "src/pkg/train.py: it has no option --lr"),
        ("pkg.trian", "pkg.trian is not here; did you mean pkg.train?"),
    ):
        Path("job.yaml").write_text(spec % module)
        assert told in jobgen("check").err
