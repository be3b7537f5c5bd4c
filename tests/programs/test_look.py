"""`jobgen check` looks into the program that a spec names, and says what it sees."""

import json
import subprocess
from pathlib import Path

import pytest
from support import jobgen, working_in

from jobgen.plan.resolve import resolve
from jobgen.programs import SEVERAL, check_program, list_doubts, look_at
from jobgen.spec.load import load

SPEC = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 4, walltime: 1h}
run: {RUN}
"""
ALONE = "import torch\nmodel.cuda()(batch).sum().backward()\n"


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
def test_the_program_is_found(run: str, rules: list[str], tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text(ALONE)
    (tmp_path / "pkg" / "train.py").write_text(ALONE)
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", run))
    with working_in(tmp_path):
        assert [remark.rule for remark in look_at(resolve(load("job.yaml")))] == rules


def test_a_program_in_plain_mode_may_start_others(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    (tmp_path / "job.yaml").write_text(
        SPEC.replace("{RUN}", "{script: train.py}") + "launch: {mode: plain}\n"
    )
    with working_in(tmp_path):
        (remark,) = look_at(resolve(load("job.yaml")))
        assert remark.message.startswith("it runs on each of the 2 nodes, and nothing in it tells")
        (tmp_path / "train.py").write_text(f"{ALONE}import subprocess\nsubprocess.run([])\n")
        assert look_at(resolve(load("job.yaml"))) == []


@pytest.mark.parametrize("command", [["submit", "--dry-run"], ["doctor", "job.yaml"]])
def test_submit_and_doctor_say_it_too(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{script: train.py}"))
    with working_in(tmp_path):
        _, out, err = jobgen(*command)
    assert "train.py:1: warning: it makes no process group" in out + err


def test_check_says_it_and_stays_at_exit_0(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{script: train.py}"))
    with working_in(tmp_path):
        code, out, err = jobgen("check")
    assert (code, out) == (0, "")
    assert "train.py:1: warning: it makes no process group, so each of the job's 8 processes" in err


def test_lint_takes_a_program_and_says_for_which_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    with working_in(tmp_path):
        code, out, err = jobgen("lint", "train.py")
        assert code == 8
        assert out.startswith("train.py:1: warning: it makes no process group")
        assert "train.py: read as the program of a job with 2 nodes of 4 processes" in err
        (finding,) = json.loads(jobgen("lint", "--json", "train.py").out)["findings"]
        assert (finding["rule"], finding["level"]) == ("no-process-group", "fault")
        assert jobgen("lint", "--format", "github", "train.py").code == 2


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


@pytest.mark.parametrize(("body", "rules"), WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("run", ["{command: [bash, run.sh]}", "{command: [./run.sh]}"])
def test_a_wrapper_is_looked_into(run: str, body: str, rules: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    for name in ("t.py", "prepare.py"):
        (tmp_path / name).write_text("import elsewhere\n")
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{body}\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", run))
    with working_in(tmp_path):
        assert [remark.rule for remark in look_at(resolve(load("job.yaml")))] == rules


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("from .model import Net", "write run: {module: src.train}"),
        ("from src.model import Net", "write environment.variables: {PYTHONPATH: .}, or run: {mod"),
        ("from model import Net", ""),
        ("try:\n    from .model import Net\nexcept ImportError:\n    from model import Net", ""),
        ("import sys\nsys.path.append('.')\nfrom src.model import Net", ""),
    ],
)
def test_a_script_imports_from_its_own_folder(line: str, answer: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/model.py").write_text("Net = 1\n")
    (tmp_path / "src/train.py").write_text(f"{line}\n{OWN}")
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{script: src/train.py}"))
    with working_in(tmp_path):
        said = " ".join(map(str, look_at(resolve(load("job.yaml")))))
        assert (answer in said) if answer else "module-missing" not in said
        (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{module: src.train}"))
        assert "Python looks" not in " ".join(map(str, look_at(resolve(load("job.yaml")))))


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
def test_one_agent_a_node_has_to_know_the_others(
    nodes: str, body: str, rules: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(f"{body}\n")
    text = SPEC.replace("{RUN}", "{command: [bash, run.sh]}").replace("nodes: 2", f"nodes: {nodes}")
    (tmp_path / "job.yaml").write_text(text + ONE_A_NODE)
    with working_in(tmp_path):
        assert [remark.rule for remark in look_at(resolve(load("job.yaml")))] == rules


def test_a_module_that_a_snapshot_leaves_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import extra\nimport torch.distributed as dist\ndist.init_process_group()"
    )
    (tmp_path / "extra.py").write_text("import torch\ntorch.cuda.set_device(local_rank)")
    with working_in(tmp_path):
        for words in (["init", "-q"], ["add", "train.py"]):
            subprocess.run(["git", *words], check=True)
        for snapshot, expected in (("true", 1), ("[extra.py]", 0), ("false", 0)):
            text = SPEC.replace("{RUN}", "{script: train.py}") + f"snapshot: {snapshot}\n"
            Path("job.yaml").write_text(text)
            err = jobgen("check").err
            assert err.count("extra.py:1: warning: git does not track it") == expected, err


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("  - {lr: 1}\n  - {lrr: 2}\n", "8:11: array.list[1].lrr: train.py in task 1: it has no"),
        ("  - {lrr: 1}\n  - {lrr: 2}\n", "7:11: array.list[0].lrr: train.py in 2 tasks: it has no"),
    ],
)
def test_an_argument_of_a_task_has_its_own_place(tasks: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import argparse\n{OWN}p = argparse.ArgumentParser()\np.add_argument('--lr')\n"
        f"args = p.parse_args()\nprint(args.lr)\n{TRAINS}"
    )
    spec = SPEC.replace("{RUN}", "{script: train.py}") + f"array:\n  list:\n{tasks}"
    (tmp_path / "job.yaml").write_text(spec)
    with working_in(tmp_path):
        assert said in jobgen("check").err


def test_a_role_on_a_part_of_a_node_has_its_own_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"{OWN}net = torch.nn.parallel.DistributedDataParallel(net)\n{TRAINS}"
    )
    with working_in(tmp_path):
        for gpus, rules in (("gpus: 1", []), ("nodes: 1", ["idle-gpus"])):
            role = f"{{{gpus}, run: {{script: train.py}}, launch: {{processes_per_node: 1}}}}"
            other = "{gpus: 3, run: {command: [serve]}}"
            text = SPEC.replace("nodes: 2", "nodes: 1") if gpus == "gpus: 1" else SPEC
            spec = text.replace("run: {RUN}\n", f"roles:\n  a: {other}\n  b: {role}\n")
            (tmp_path / "job.yaml").write_text(spec)
            plan = resolve(load("job.yaml")).roles.members[1].plan
            assert [one.rule for one in look_at(plan)] == rules


def test_the_programs_of_roles_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    roles = (
        "roles:\n  a: {nodes: 1, run: {script: train.py}}\n  b: {nodes: 1, run: {command: [./b]}}\n"
    )
    (tmp_path / "job.yaml").write_text(SPEC.replace("run: {RUN}\n", roles))
    with working_in(tmp_path):
        assert "each of the job's 4 processes runs the whole program alone" in jobgen("check").err


@pytest.mark.parametrize("module", ["pkg", "pkg.other"])
def test_a_module_that_its_package_does_not_have_is_named(module: str, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", f"{{module: {module}}}"))
    with working_in(tmp_path):
        (remark,) = look_at(resolve(load("job.yaml")))
    assert remark.rule == ("not-a-program" if module == "pkg" else "module-missing")


def test_a_wrapper_that_submits_jobs_is_found(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("set -e\nsbatch job.sh\n")
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{command: [bash, run.sh]}"))
    with working_in(tmp_path):
        (remark,) = look_at(resolve(load("job.yaml")))
    assert str(remark).startswith("run.sh:2: warning: it submits jobs")


def test_a_program_that_is_named_as_a_command_is_read(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    text = "#!/usr/bin/env python\nimport torch.distributed as d\nd.init_process_group()\n"
    program.write_text(text, newline="\r\n")
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{command: [./train.py]}"))
    with working_in(tmp_path):
        first, _ = look_at(resolve(load("job.yaml")))
        assert str(first).startswith("./train.py:1: warning: is not executable; chmod +x")
        program.chmod(0o755)
        (remark,) = look_at(resolve(load("job.yaml")))
        assert remark.rule == "line-ends"


def test_a_module_finds_its_package_from_here(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "train.py").write_text(f"from pkg.net import Net\n{ALONE}")
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{module: pkg.train}"))
    with working_in(tmp_path):
        found = look_at(resolve(load("job.yaml")))
        assert [one.rule for one in found] == ["module-missing", "no-process-group"]
        Path("pkg/net.py").write_text(
            "import torch.distributed as Net\nNet.init_process_group()\n"
            "Net.all_reduce('LOCAL_RANK')"
        )
        assert look_at(resolve(load("job.yaml"))) == []


@pytest.mark.parametrize(
    ("array", "text", "told"),
    [
        ("tasks: 4", "", True),
        ("tasks: 4", "print(os.environ['JOBGEN_TASK'])", False),
        ("tasks: 4", "print(os.environ['SLURM_ARRAY_TASK_ID'])", False),
        ("values: {lr: [1, 2]}", "", False),
    ],
)
def test_tasks_that_do_not_differ_are_named(
    array: str, text: str, told: bool, tmp_path: Path
) -> None:
    made = "import os, sys\nsys.argv\nimport torch.distributed as dist\n"
    made += "dist.init_process_group('gloo')\n"
    (tmp_path / "train.py").write_text(made + text)
    spec = SPEC.replace("{RUN}", "{script: train.py}") + f"array: {{{array}}}\n"
    (tmp_path / "job.yaml").write_text(spec)
    with working_in(tmp_path):
        rules = [remark.rule for remark in look_at(resolve(load("job.yaml")))]
    assert rules == ["same-tasks"] * told


def spoken(tmp_path: Path, text: str, run: str = "script: train.py", more: str = "") -> list[str]:
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", f"{{{run}}}") + more)
    with working_in(tmp_path):
        return [f"{remark.rule}: {remark.message}" for remark in look_at(resolve(load("job.yaml")))]


OWN = (
    "import os, sys, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
)
HF = "from transformers import Trainer, TrainingArguments\n"
TRAINS = "model(x).sum().backward()\ndist.all_reduce(loss)\n"
NOTICED = "import signal as s\ns.signal(s.SIGUSR1, save)\n"
CHAIN = "on_walltime: {then: resubmit, at_most: 3}\n"


@pytest.mark.parametrize(
    ("text", "run", "more", "said"),
    [
        (
            f"{OWN}n = sys.argv[1]\n",
            "script: train.py",
            "",
            "missing-argument: sys.argv[1] is read",
        ),
        (f"{OWN}n = sys.argv[1]\n", "script: train.py, args: ['3']", "", ""),
        (f"{OWN}if len(sys.argv) > 1: n = sys.argv[1]\n", "script: train.py", "", ""),
        (f"{OWN}input('name?')\n", "script: train.py", "", "asks: input() waits"),
        (OWN + TRAINS, "script: train.py", CHAIN, "nothing-saved: "),
        (OWN + NOTICED, "script: train.py", CHAIN, "nothing-saved: jobgen sends the program no"),
        (OWN + NOTICED, "script: train.py", "", ""),
        (OWN + NOTICED + "s.signal(s.SIGTERM, save)\n", "script: train.py", CHAIN, ""),
        (
            f"{OWN}{TRAINS}if rank == 0: torch.save(m)\n",
            "script: train.py",
            CHAIN,
            "nothing-loaded: ",
        ),
        (f"{OWN}{TRAINS}if rank == 0: torch.save(m)\ntorch.load(m)", "script: train.py", CHAIN, ""),
        (
            f"{HF}Trainer(TrainingArguments(save_strategy='no')).train()",
            "script: train.py",
            CHAIN,
            "nothing-saved: save_strategy",
        ),
        (f"{HF}Trainer().train()", "script: train.py", CHAIN, "nothing-loaded: train() is"),
        (f"{HF}Trainer().train(resume_from_checkpoint=x)", "script: train.py", CHAIN, ""),
        (
            OWN + "torch.nn.parallel.DistributedDataParallel(m)\n",
            "script: train.py",
            "launch: {mode: ray}\n",
            "no-ray: ",
        ),
        (
            OWN + "p.add_argument('--amp', type=bool).parse()",
            "script: train.py, args: [--amp, 'False']",
            "",
            "argument-is-true: type=bool takes any word for True, and the job gives --amp a no",
        ),
        (
            OWN + "p.add_argument('--amp', type=bool).parse()",
            "script: train.py, args: [--amp, 'True']",
            "",
            "",
        ),
        (
            "import os, ray\nray.init(os.environ['RAY_ADDRESS'])\n",
            "script: train.py",
            "launch: {mode: ray}\n",
            "",
        ),
    ],
)
def test_what_the_job_does_not_give_a_program(
    text: str, run: str, more: str, said: str, tmp_path: Path
) -> None:
    found = spoken(tmp_path, text, run, more)
    assert [one[: len(said)] for one in found] == [said] * bool(said)


def test_a_module_that_hides_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "random.py").touch()
    assert [one.split(":")[0] for one in spoken(tmp_path, OWN)] == ["module-hidden"]


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
def test_false_does_not_turn_off_what_is_on_by_default(
    settings: str, told: bool, tmp_path: Path
) -> None:
    options = PARSER + f"p.add_argument('--amp', {settings})\na = p.parse_args()\n"
    (tmp_path / "train.py").write_text(OWN + options)
    spec = SPEC.replace("{RUN}", "{script: train.py, args: {amp: false}}")
    (tmp_path / "job.yaml").write_text(spec)
    with working_in(tmp_path):
        loaded = load("job.yaml")
        said = list(list_doubts(loaded, resolve(loaded)))
    assert ["write no-amp: true" in one for one in said] == [True] * told


def test_a_job_of_cpus_has_no_gpu(tmp_path: Path) -> None:
    size = {"gpus": 0, "world_size": 1, "processes": 1, "nodes": 1}
    (tmp_path / "train.py").write_text("import torch\nmodel.cuda()\n")
    check = check_program(str(tmp_path / "train.py"), SEVERAL._replace(**size))
    assert [one.rule for one in check] == ["no-gpu"]


def test_a_wrapper_that_starts_a_file_that_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/bash\npython missing.py\n")
    (tmp_path / "job.yaml").write_text(SPEC.replace("{RUN}", "{command: [bash, run.sh]}"))
    with working_in(tmp_path):
        assert [one.rule for one in look_at(resolve(load("job.yaml")))] == ["not-here"]
        (tmp_path / "run.sh").write_text("#!/bin/bash\ncd /opt/code\npython missing.py\n")
        assert look_at(resolve(load("job.yaml"))) == []


def test_a_program_that_starts_itself_only_outside_of_a_launcher_is_not_blamed(
    tmp_path: Path,
) -> None:
    start = "import subprocess\nsubprocess.run(['torchrun', 't.py'])\n"
    assert [one[:12] for one in spoken(tmp_path, OWN + start)] == ["own-launcher"]
    assert spoken(tmp_path, f"{OWN}if 'LOCAL_RANK' in os.environ: exit()\n{start}") == []
    submit = f"{OWN}def submit():\n    import subprocess\n    subprocess.run(['sbatch', 'j.sh'])\n"
    assert [one[:12] for one in spoken(tmp_path, f"{submit}submit()")] == ["own-launcher"]
    assert spoken(tmp_path, f"{submit}if args.submit:\n    submit()") == []


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
        ("torch.save(model, f'{args.lr}.pt')", "array: {values: {lr: [1, 2]}}\n", []),
    ],
)
def test_tasks_that_save_to_one_place(
    save: str, array: str, rules: list[str], tmp_path: Path
) -> None:
    text = f"import torch, sys\nsys.argv\n{OWN}if dist.get_rank() == 0:\n    {save}\n"
    assert [one.split(":")[0] for one in spoken(tmp_path, text, more=array)] == rules


PARSER = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--seed', type=int)\n"
SEEDS = "array: {values: {seed: [1, 2]}}\n"
LOADS = "torch.utils.data.DataLoader(data, num_workers="
SAMPLES = "s = torch.utils.data.DistributedSampler(data)\nfor epoch in range(3): pass\n"
PRINTS = "try:\n    main()\nexcept Exception as error:\n    print(error)\n"


@pytest.mark.parametrize(
    ("text", "run", "more", "said"),
    [
        (f"{OWN}{PARSER}a = p.parse_args()\n", "", SEEDS, "unread-argument: nothing reads --seed"),
        (f"{OWN}{PARSER}a = p.parse_args()\nprint(a.seed)\n", "", SEEDS, ""),
        (f"{OWN}{PARSER}a = p.parse_args()\nrun(**vars(a))\n", "", SEEDS, ""),
        (
            OWN,
            ", args: {lr: 1}",
            "",
            "unread-argument: it reads no arguments, and the job gives it 2",
        ),
        (
            f"{OWN}os.environ.get('LR')\n",
            "",
            "array: {values: {environment.variables.RATE: [1, 2]}}\n",
            "unread-variable: it does not read RATE",
        ),
        (f"{OWN}{LOADS}16)\n", "", "", "many-workers: num_workers=16 is more than the 4 CPUs"),
        (f"{OWN}{LOADS}1)\n", "", "", ""),
        (OWN + SAMPLES, "", "", "same-order: set_epoch()"),
        (OWN + PRINTS, "", "", "swallowed: a failure is only printed"),
        (f"{OWN}{PRINTS}    raise\n", "", "", ""),
        (f"{OWN}{SAMPLES}s.set_epoch(1)\n", "", "", ""),
        (
            f"{OWN}model(x).sum().backward()\n",
            "",
            "",
            "not-wrapped: it makes a process group and shares no gradients",
        ),
    ],
)
def test_what_the_files_at_hand_show(
    text: str, run: str, more: str, said: str, tmp_path: Path
) -> None:
    found = spoken(tmp_path, text, f"script: train.py{run}", more)
    assert [one[: len(said)] for one in found] == [said] * bool(said)
