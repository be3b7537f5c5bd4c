"""`jobgen lint`: each fault is found in a script that has it, and none in jobgen's own."""

import contextlib
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from golden import SITES as WANTED
from hypothesis import given
from hypothesis import strategies as st
from importing import make_script
from rendered import ALL as SCRIPTS
from support import EXAMPLES, ROOT, jobgen, load

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.lint import RULES, check
from jobgen.batchscript.purposes import WHY
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render

FAULTY = ROOT / "tests" / "batchscript" / "faulty"
BAD = sorted(FAULTY.iterdir())
SRUN = "srun --kill-on-bad-exit=1 --cpus-per-task=8"
TORCHRUN = "torchrun --nnodes=2 --nproc-per-node=4"
C10D = "--rdzv-backend=c10d"
ADDRESS = "login-node-address"


LISTED = FAULTY.with_name("launches.txt").read_text()


def listed(test: Callable[..., None]) -> Any:
    """Run a test for each row of its section of launches.txt."""
    rows = LISTED.partition(f"## {test.__name__}\n")[2].partition("\n\n")[0].splitlines()
    names = tuple(inspect.signature(test).parameters)
    cells = [row.split(" | ", len(names) - 1) for row in rows]
    cases = [[re.sub(r"\\(.)", read_escape, cell) for cell in row] for row in cells]
    return pytest.mark.parametrize(names, cases)(test)


def read_escape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def rules_of(body: str, *directives: str) -> list[str]:
    """The rules that a Slurm job of two nodes with this body breaks."""
    head = "\n".join(["#!/bin/bash", "#SBATCH --nodes=2", *directives])
    return [finding.rule.id for finding in check(Script("job.sbatch", f"{head}\n\n{body}\n"))]


def test_a_script_with_one_fault_has_that_finding_alone(subtests: pytest.Subtests) -> None:
    for path in BAD:
        if path.stem == "shellcheck" and not shutil.which("shellcheck"):
            continue
        with subtests.test(path.name):
            site = "lumi-g" if path.stem == "site-limit" else None
            findings = check(Script(path.name, path.read_bytes().decode()), site)
            assert [finding.rule.id for finding in findings] == [path.stem]


def test_every_rule_has_such_a_script() -> None:
    assert sorted(rule.id for rule in RULES) == [path.stem for path in BAD]


@pytest.mark.slow
def test_nothing_is_found_in_what_jobgen_renders(subtests: pytest.Subtests) -> None:
    for name, text in SCRIPTS.items():
        with subtests.test(name):
            assert [str(finding) for finding in check(Script(name, text))] == []


@pytest.mark.slow
def test_nothing_is_found_in_any_example_on_any_site(subtests: pytest.Subtests) -> None:
    """Nor by the rules of that site, where the job is within its limits."""
    for path, (site, wanted) in product(EXAMPLES, WANTED.items()):
        with subtests.test(f"{path.stem}, {site}"):
            text = path.read_text()
            own_cpus = "cpus_per_node" in text
            fit = (key for key in wanted if not (own_cpus and "cpus_per_gpu" in key))
            loaded = load(text, *fit)
            script = Script("a", render(resolve(loaded, site=site, limits=False)))
            rules = None
            with contextlib.suppress(SpecError):
                resolve(loaded, site=site, today="2000-01-01")
                rules = site
            assert [str(finding) for finding in check(script, rules)] == []


@pytest.mark.parametrize(
    ("site", "directives", "found"),
    [
        ("lumi-g", "-p small-g --gpus-per-node=2 --mem=200G", "200GB, more than 60GB for each GPU"),
        ("lumi-g", "-p standard-g --gpus-per-node=8 -t 5-0", "120h exceeds standard-g's 48h"),
        ("lumi-g", "-p small-g --gpus-per-node=9", "9 GPUs, more than the 8 of a node"),
        ("bsc-mn5-acc", "-q acc_ehpc --gres=gpu:4 --mem=0", ""),
        ("bsc-mn5-acc", "-q acc_ehpc --gres=gpu:4 --mem=1G", ""),
        ("csc-roihu", "-p gpularge --gres=gpu:gh200:4 -c 300", "72 with each GPU"),
        ("pawsey-setonix", "-p gpu --gres=gpu:8 -c 64", ""),
        (None, "-p gpu --gpus-per-node=9 -c 1000", ""),
        ("lumi-g", "-p standard-g --gpus-per-node=8 -c 64", "more than 7 with each GPU"),
    ],
)
def test_what_a_site_refuses(site: str | None, directives: str, found: str) -> None:
    script = Script("a", f"#!/bin/bash\n#SBATCH -A project_1\n#SBATCH {directives}\ntrue\n")
    messages = [f.message for f in check(script, site) if f.rule.id == "site-limit"]
    assert bool(messages) == bool(found)
    assert found in " ".join(messages)


def test_the_first_multi_node_tutorial_for_gadi() -> None:
    """One torchrun on one of two nodes."""
    path = ROOT / "tests" / "batchscript" / "of_others" / "gadi-tutorial.pbs"
    found = check(Script("tutorial.pbs", path.read_text()))
    assert [(finding.line, finding.rule.id) for finding in found] == [
        (22, "first-node-only"),
    ]


def test_single_quotes_in_a_command_within_a_word_keep_a_tasks_variable() -> None:
    first = "sh -c 'if test $SLURM_PROCID -eq 0; then hostname; fi'"
    for inner in (f"`srun {first}`", f"$(srun {first})"):
        assert "early-expansion" not in rules_of(f"HEAD={inner}")
    assert "early-expansion" in rules_of("export N=$(printf %s $SLURM_PROCID)\nsrun ./a")


def test_a_command_in_quotes_is_one_word_without_a_module() -> None:
    assert rules_of('"python -m torch.distributed.run" a.py') == ["first-node-only"]


def test_its_successor_starts_everywhere() -> None:
    path = ROOT / "tests" / "batchscript" / "of_others" / "gadi-loop.pbs"
    found = check(Script("loop.pbs", path.read_text()))
    assert [finding.rule.id for finding in found] == ["hidden-exit"]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (f"{TORCHRUN} a.py", "first-node-only"),
        (f"N=2\n{TORCHRUN.replace('2', '$N', 1)} a.py", "first-node-only"),
        ("python -m torch.distributed.run --nnodes $SLURM_NNODES a.py", "first-node-only"),
        ("srun -c8 python a.py", "srun-kill"),
        (f"{SRUN} {TORCHRUN} {C10D} --rdzv-endpoint=$HEAD:29400 a.py", "fixed-port"),
        (f"{SRUN} {TORCHRUN} {C10D} --rdzv_endpoint=localhost:$PORT a.py", "login-node-address"),
        ("export MASTER_ADDR=127.0.0.1", "login-node-address"),
        (f'{SRUN} bash -c "python a.py --rank $SLURM_PROCID"', "early-expansion"),
        (f"mpiexec -n 2 -ppn 1 {TORCHRUN} --node-rank=$PMI_RANK a.py", "early-expansion"),
        (f"export RANK=$SLURM_PROCID\n{SRUN} ./a.sh", "early-expansion"),
        (f'CMD="{TORCHRUN} a.py"\neval $CMD', "first-node-only"),
        (f'CMD="{SRUN} vllm serve m --port 8000"\neval "$CMD"', "fixed-port"),
        (f"{SRUN} python a.py\necho end", "hidden-exit"),
        (f'C="{SRUN} python a.py"\neval "$C" |& tee log', "tee-status"),
        (f'C="{SRUN} -n $N python a.py >log &"\necho $C\neval $C', "no-wait"),
        (f'eval "{SRUN} python a.py"\necho end', "hidden-exit"),
    ],
)
def test_other_ways_to_write_a_fault(body: str, rule: str) -> None:
    assert rules_of(body) == [rule]


@pytest.mark.parametrize(
    "body",
    [
        f"{SRUN} {TORCHRUN} --rdzv-backend=c10d a.py",
        "torchrun --standalone --nnodes=1 --nproc-per-node=4 a.py",
        f"{SRUN} bash -c 'RANK=$SLURM_PROCID exec python a.py'",
        f"mpiexec -n 2 -ppn 1 bash -c '{TORCHRUN} --node-rank=$PMI_RANK a.py'",
        "export SRUN_CPUS_PER_TASK=8 SLURM_KILL_BAD_EXIT=1\nsrun python a.py",
        "srun hostname",
        'eval "$(conda shell.bash hook)"\neval "$MORE"\necho end',
        "srun -N1 -n1 -c8 python a.py",
        f"set -euo pipefail\n{SRUN} python a.py | tee log",
        "echo started | tee log",
        f"set -x -e\n{SRUN} python a.py\necho end",
        "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
        "echo 'torchrun --nnodes=2 a.py' # torchrun --nnodes=2 a.py",
        "cat <<'EOF'\ntorchrun --nnodes=2 a.py\nEOF",
        '##SBATCH --time=1\necho "# SBATCH --time=1"',
        "if head; then ray start --head; else ray start --address=$head --block; fi",
        'nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))\nall=("$nodes")',
        f"{SRUN} {TORCHRUN} {C10D} --rdzv-endpoint=$HOSTNAME:$PORT a.py",
    ],
)
def test_what_looks_like_a_fault_and_is_none(body: str) -> None:
    assert rules_of(body) == []


def test_a_template_is_one_finding() -> None:
    for line in ("#SBATCH -p {{ queue }}", "{partition}", "{% if x %}"):
        text = f"#!/bin/bash\n{line}\n#SBATCH --nodes=2\nsrun python a.py '\n"
        assert [(f.line, f.rule.id) for f in check(Script("a", text))] == [(2, "placeholder")]
    body = f"cat > c.py <<'EOF'\nprint(f'{{{{x}}}}')\nEOF\n{SRUN} python c.py"
    assert rules_of(body) == []


def test_one_node_by_its_tasks_has_no_others_to_meet() -> None:
    text = "#!/bin/bash\n#SBATCH --ntasks=2 --ntasks-per-node=2\nexport MASTER_ADDR=127.0.0.1\n"
    assert check(Script("a", text)) == []
    text = text.replace("per-node=2", "per-node=1")
    assert [f.rule.id for f in check(Script("a", text))] == ["login-node-address"]


def test_a_program_that_is_not_python_may_end_its_tasks_by_itself() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4\nsrun {}\n"
    for program in ("vasp_std", "python a.py", "./train.sh", "$PROGRAM"):
        found = [f.rule.id for f in check(Script("a", text.format(program)))]
        assert found == ([] if program == "vasp_std" else ["srun-kill"])


def test_one_task_a_node_on_one_node_is_one_task() -> None:
    text = "#!/bin/bash\n#SBATCH --ntasks=1\nsrun --ntasks=${SLURM_JOB_NUM_NODES:-1} python a.py\n"
    assert check(Script("a", text)) == []


def test_a_launch_in_variables_has_an_exit_code_too() -> None:
    for launcher in ("torchrun --standalone --nproc-per-node=4", "deepspeed --num_gpus 4"):
        body = f'L="{launcher}"\n$L a.py 2>&1 | tee log'
        text = f"#!/bin/bash\n#SBATCH --nodes=1 --gpus-per-node=4\nset -e\n{body}\n"
        assert [(f.line, f.rule.id) for f in check(Script("a", text))] == [(5, "tee-status")]


def test_a_chunk_may_be_one_gpu() -> None:
    text = "#!/bin/bash\n#PBS -q by-gpu\n#PBS -l select={}\n#PBS -l filesystems=home:eagle\ntrue\n"
    found = [check(Script("a", text.format(count)), "alcf-sophia") for count in (1, 4)]
    assert [[f.message for f in some if "GPU" in f.message] for some in found] == [[], []]


def test_directives_may_follow_comments_and_blank_lines() -> None:
    assert rules_of("true", "", "# the queue", "#SBATCH -p gpu") == []


def test_an_output_folder_that_is_there_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rules_of("true", "#SBATCH -o logs/%j.out -e logs/%j.err") == ["output-folder"]
    assert rules_of("true", "#SBATCH -o {folder}/logs/%j.out") == ["placeholder"]
    (found,) = check(make_script("true", "#SBATCH --nodes=1 --output=out/%j.log"))
    assert found.column == 28  # and not in --output
    name = "#SBATCH -J run/a -o logs/%x.out"
    (found,) = check(make_script("true", name))
    assert "'logs/run'" in found.message
    assert (found.column, found.fix) == (9, WHY.OF_NAME)
    (tmp_path / "logs").mkdir()
    assert rules_of("true", "#SBATCH -o logs/%j.out") == []
    assert rules_of("true", name) == ["output-folder"]
    (tmp_path / "logs/run").mkdir()
    assert rules_of("true", name) == []
    monkeypatch.chdir(tmp_path / "logs")  # where the script may lie in its project
    assert rules_of("true", "#SBATCH -o logs/%j.out") == []


def test_the_place_is_exact_inside_quotes_and_continued_lines() -> None:
    inner = "torchrun --nnodes=2 --rdzv-endpoint=$H:29500 --rdzv-backend=c10d a.py"
    body = f"{SRUN} \\\n    bash -c 'cd x\n  {inner}'"
    found = check(Script("a", f"#!/bin/bash\n#SBATCH -N 2\n{body}\n"))
    assert [(f.line, f.column, f.rule.id) for f in found] == [(5, 39, "fixed-port")]
    (found,) = check(Script("a", "#!/bin/bash\n#SBATCH -N 2\neval 'srun -c4 python a.py'\n"))
    assert (found.line, found.column) == (3, 7)


def test_every_rule_says_why_how_and_where_to_read_on() -> None:
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9-]+", rule.id)
        assert rule.why.endswith(".")
        assert not rule.fix.endswith(".")
        assert rule.reference.startswith("https://")


def test_the_command_prints_findings_and_exits_8() -> None:
    path = FAULTY / "srun-kill.sbatch"
    code, out, err = jobgen("lint", path)
    assert (code, err.partition(" found")[0]) == (8, "1 fault")
    assert out == (
        f"{path}:6:1: srun-kill: srun goes on when one of its tasks has failed; "
        "add --kill-on-bad-exit=1 to srun\n"
        "    By default the other tasks go on when one fails, and wait for it for minutes or hours."
        " [docs/reference/lint.md#srun-kill]\n"
    )


def test_a_good_script_exits_0(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(next(iter(SCRIPTS.values())))
    assert jobgen("lint", tmp_path / "a") == (0, "", "")


def test_json_has_the_reasons() -> None:
    code, out, _ = jobgen(
        "lint", "--json", ROOT / "tests" / "batchscript" / "faulty" / "crlf.sbatch"
    )
    (finding,) = json.loads(out)["findings"]
    assert code == 8
    assert (finding["line"], finding["rule"]) == (1, "crlf")
    keys = {"file", "line", "column", "level", "rule", "title", "message", "why", "fix", "docs"}
    keys |= {"reference"}
    assert finding.keys() == keys


@pytest.mark.parametrize("content", [None, b"\0"])
def test_what_is_no_script_is_a_usage_error(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    code, out, err = jobgen("lint", tmp_path / "a")
    assert (code, out) == (2, "")
    assert err.startswith(f"{tmp_path}/a: ")


# Scripts of pieces that readers of shell stumble over.
PIECES = st.sampled_from(
    [
        *("#!/bin/bash", "#SBATCH --nodes=2", "#PBS -l select=2:ncpus=8", "# SBATCH -N 2", "#PBS"),
        *("srun -K", "pbsdsh", "torchrun", "--nnodes=2", "$(", "${", ")", "}", "{", "((", "))"),
        *("'", '"', "`", "\\", "<<EOF", "EOF", "case x in", "esac", "for i in", "do", "done", "fi"),
        *("if", "|", "&", ";", "&&", "\n", "\r\n", " ", "=", "a=(", "bash -c", "function f {", "#"),
        *(
            "export MASTER_PORT=29500",
            "singularity exec",
            "python -m",
            "env",
            "timeout",
            "mpirun -x",
        ),
    ]
)


@given(st.lists(PIECES | st.text(max_size=6), max_size=25).map(" ".join))
def test_no_script_is_too_odd(text: str) -> None:
    lines = len(text.split("\n"))
    assert all(1 <= finding.line <= lines for finding in check(Script("a", text)))


def test_what_another_machine_has_is_no_missing_folder(tmp_path: Path) -> None:
    body = "#!/bin/bash\n#SBATCH --output={}/%j.out\npython a.py\n"
    own, missing = "/home/no-such-user", f"{tmp_path}/log"
    for folder, expected in ((own, []), (f"{own}/log", []), (missing, ["output-folder"])):
        found = check(Script("job.sbatch", body.format(folder)))
        assert [item.rule.id for item in found] == expected


def test_a_port_that_nothing_reads_is_not_the_jobs() -> None:
    head = "#!/bin/bash\n#SBATCH --gres=gpu:2\nexport MASTER_PORT=1234\n"
    agent = "torchrun --nproc_per_node=2 a.py\n"
    for top, body, expected in (
        (head, agent, False),
        (head, "python b.py\n", True),
        (head.replace("export ", ""), "python b.py\n", False),
    ):
        found = {item.rule.id for item in check(Script("job.sbatch", top + body))}
        assert ("fixed-port" in found) is expected


@listed
def test_the_dear_faults_of_launches_are_found(rule: str, directive: str, body: str) -> None:
    if rule == "shellcheck" and not shutil.which("shellcheck"):
        pytest.skip("there is no shellcheck")
    found = check(make_script(body, f"#SBATCH {directive}"))
    assert rule in [item.rule.id for item in found]


def test_a_wait_that_a_program_does_not_need_is_to_go_with_what_detaches_it() -> None:
    body = "srun -K1 ray start --head --block &\nray job submit {} -- python t.py\nwait"
    for option, fix in (("--no-wait", "leave out --no-wait and this"), ("-v", "kill its id")):
        found = check(make_script(body.format(option), "#SBATCH --nodes=1"))
        assert [fix in x.fix for x in found if x.rule.id == "endless-wait"] == [True]


def test_what_submits_others_and_is_no_job_has_no_exit_code_that_is_lost() -> None:
    body = "bash clean_locks.sh\npython make.py | tee log\nsbatch job.sh\necho submitted"
    assert check(make_script(body)) == []
    itself = make_script(f'{body}\npython t.py\nsbatch "$0"\necho done')
    assert {"hidden-exit", "tee-status"} <= {item.rule.id for item in check(itself)}


@listed
def test_launches_on_all_nodes_are_no_faults(directive: str, body: str) -> None:
    assert check(make_script(body, f"#SBATCH {directive}")) == []


def test_a_cause_is_told_once_and_srun_comes_last() -> None:
    body = "set -e\n#SBATCH --time=10\n#SBATCH --mem=1G\nsrun python t.py\nexport MASTER_PORT=29500"
    found = check(make_script(body, "#SBATCH --nodes=2 --gpus-per-node=1 --cpus-per-task=4"))
    assert [item.rule.id for item in found] == [
        "late-directive",
        "fixed-port",
        "srun-cpus",
        "srun-kill",
    ]
    assert "and 1 more" in found[0].message


def test_a_mask_says_the_cpus_of_each_task_and_a_free_one_has_all() -> None:
    asked = "#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=4"
    lines = {
        "srun -K1 --cpu-bind=v,mask_cpu=$MASKS python t.py": [],
        "srun -K1 --cpu-bind=cores python t.py": ["srun-cpus"],
        "srun -K1 --cpu-bind=none --exact python t.py": ["srun-cpus"],
        "srun -K1 --cpu-bind=none python t.py": [],
        "export SLURM_CPU_BIND=None\nsrun -K1 python t.py": [],
    }
    for line, rules in lines.items():
        findings = check(make_script(line, asked))
        assert [item.rule.id for item in findings] == rules
        assert {item.message for item in findings} <= {"srun is not told the CPUs of a task"}


@pytest.mark.parametrize(
    "step",
    [
        "python3 -m venv env",
        "bash -c 'mkdir -p d; env/bin/python -m pip install a; tar xf b -C d'",
        "uv sync",
        "./config_env_ddp.sh",
        "bash scripts/install.sh",
    ],
)
def test_a_step_that_makes_an_environment_needs_no_care(step: str) -> None:
    asked = "#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=4"
    found = check(make_script(f"set -e\nsrun {step}\nsrun -c4 -K1 python t.py", asked))
    assert [str(item) for item in found] == []


def test_a_fix_fits_its_place() -> None:
    body = "export RANK=$SLURM_PROCID\nsrun -K1 python t.py --rank $SLURM_PROCID"
    asked = "#SBATCH --nodes=2 --ntasks-per-node=1"
    first, second = (item.fix for item in check(make_script(body, asked)))
    assert first.startswith("set it inside what the launcher starts")
    assert second.startswith("put the command in single quotes")
    cut = check(make_script("python t.py \\ \n  --lr 1", "#SBATCH --nodes=1"))
    (fix,) = (item.fix for item in cut if item.rule.id == "no-command")  # one cause, told once
    assert "backslash" in fix
    cut = check(make_script("python t.py \\\n  # --n 2 \\\n  --lr 1", "#SBATCH --nodes=1"))
    assert [item.fix[:20] for item in cut if item.rule.id == "no-command"] == [
        "take the comment out"
    ]
    cut = check(make_script("python t.py \\\\\n  --lr 1", "#SBATCH --nodes=1"))
    assert [item.fix[:16] for item in cut if item.rule.id == "no-command"] == ["leave one of the"]
    body = "set -e\nif python t.py; then echo ok; fi"  # where set -e does nothing
    for text in (body, "(\n  python t.py\n) &\nwait"):
        (found,) = check(make_script(text, "#SBATCH --nodes=1"))
        assert found.rule.id == "hidden-exit"
        assert "set -e" not in found.fix
    (found,) = check(make_script("python t.py\ncp * $WORK", "#SBATCH --nodes=1"))
    assert "|| status=$?" in found.fix
    (found,) = check(make_script("for i in 1 2; do python t.py $i; done", "#SBATCH --nodes=1"))
    assert "|| status=$?" in found.fix
    (found,) = check(make_script("python t.py &\npython u.py &\nwait", "#SBATCH --nodes=1"))
    assert "|| status=$?" in found.fix
    (found,) = check(make_script("python t.py &\npython u.py &", "#SBATCH --nodes=1"))
    assert found.fix.startswith("wait for each by its id")
    agents = check(make_script("srun torchrun t.py", "#SBATCH -N4 -n 16 --ntasks-per-node=2"))
    assert [x.message[:23] for x in agents if x.rule.id == "two-agents"] == [
        "srun starts 4 agents on"
    ]
    (found,) = check(make_script("./a.sh\n./b.sh\npython t.py\ndate", "#SBATCH --nodes=1"))
    assert found.line == 6
    (found,) = check(make_script("SBATCH --nodes=1\npython t.py"))
    assert found.fix == "write #SBATCH, above the first command"
    (found,) = check(make_script("$PATH\npython t.py", "#SBATCH --nodes=1"))
    assert found.fix.startswith("leave it out")


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("pbsdsh -- bash -c 'cd /a; python t.py'", True),
        ("pbsdsh -- bash -c 'cd /a && python t.py'\nexit $?", True),
        ("for i in 0 1; do pbsdsh -n $i -- /a/train & done\nwait", True),
        ("pbsdsh -- bash -c 'python t.py; echo $? > /a/$PBS_NODENUM'", False),
        ("pbsdsh -- bash -c 'python t.py && touch /a/$PBS_NODENUM'", False),
        ("pbsdsh -- bash /a/agent.sh", False),  # which may write it, too
        ("pbsdsh -- mkdir -p /a", False),
        ("mpiexec --ppn 1 python t.py", False),
    ],
)
def test_pbsdsh_does_not_say_how_its_tasks_end(body: str, lost: bool) -> None:
    found = check(Script("a.pbs", f"#!/bin/bash\n#PBS -l select=2:ncpus=1\nset -e\n{body}\n"))
    assert ("pbsdsh-status" in [item.rule.id for item in found]) == lost


def test_what_cleans_up_is_to_run_though_a_program_fails() -> None:
    (found,) = check(make_script("python t.py\n./cleanup.sh", "#SBATCH --nodes=1"))
    assert (found.rule.id, found.fix) == ("hidden-exit", found.rule.fix)
    assert "set -e" not in found.fix  # which would leave it out


def test_a_fix_names_no_launcher_that_the_script_does_not_have() -> None:
    text = "#!/bin/bash\n#PBS -l select=2\nmpiexec -n 2 {}/a/t.py\necho $?\n"
    for begin in ("", "bash -c "):
        found = check(Script("a.pbs", text.format(begin)))
        assert [item.rule.id for item in found] == ["hidden-exit"]
        assert "srun" not in found[0].fix


def test_an_agent_that_takes_itself_for_all_is_not_to_start_on_every_node() -> None:
    for agent, words in (("deepspeed", "--hostfile"), ("torchrun", "--nnodes")):
        (found,) = check(make_script(f"{agent} t.py", "#SBATCH --nodes=2"))
        assert found.rule.id == "first-node-only"
        assert words in found.fix


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<<<<<<< HEAD\npython t.py\n>>>>>>> a", "git"),
        ("if a; then\nb\nelif if c; then\nd\nfi", "elif"),
        ("if a; then\nb", "close the"),
        ("if a; then\nb\nelse if c; then\nd\nfi fi\n)", "close the"),
    ],
)
def test_a_script_that_bash_cannot_read_is_mended_by_what_is_wrong_in_it(
    body: str, words: str
) -> None:
    (fault,) = check(make_script(body, "#SBATCH --nodes=1"))
    assert (fault.rule.id, words in fault.fix) == ("bash-syntax", True)


def test_what_fails_in_a_turn_of_a_loop_is_kept_there() -> None:
    (fault,) = check(make_script("for i in a b; do\npython t.py $i\ndone\necho", "#SBATCH -N1"))
    assert (fault.rule.id, fault.fix) == ("hidden-exit", WHY.turn)


def test_sbatch_takes_no_word_that_is_no_option() -> None:
    for asked, found in (("-N 1 node", ["node"]), ("-N 1# node", []), ("-A <my own>", [])):
        faults = check(make_script("true", f"#SBATCH {asked}"))
        faults = [fault for fault in faults if fault.rule.id == "directive-variable"]
        assert [fault.message.split("'")[1] for fault in faults] == found


def test_qsub_takes_no_comment_behind_a_directive() -> None:
    for asked, found in (("select=1:ncpus=4", ["directive-variable"]), ("nodes=1:ppn=4", [])):
        text = f"#!/bin/bash\n#PBS -l {asked}  # one node\ncd /\n"
        assert [item.rule.id for item in check(Script("a.pbs", text))] == found


def test_a_folder_of_the_project_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "#!/bin/bash\n#SBATCH --output=logs/%j.out\ntrue\n"
    for folder, found in (("other", ["output-folder"]), ("project/logs", [])):
        (tmp_path / folder).mkdir(parents=True)
        assert [item.rule.id for item in check(Script("project/jobs/a.sh", text))] == found


def test_an_agent_is_told_of_the_others_in_its_own_words() -> None:
    asked = "#SBATCH --nodes=2 --ntasks-per-node=1"
    (found,) = check(make_script("srun -K1 deepspeed --hostfile /dev/null t.py", asked))
    assert found.message == "deepspeed knows of no other node, and 2 start it"
    assert "nnodes" not in found.fix


def test_an_agent_of_one_node_waits_for_no_other_task() -> None:
    for count, rules in (("1", ["two-agents"]), ("2", ["two-agents", "srun-kill"])):
        script = make_script(f"srun torchrun --nnodes={count} t.py", "#SBATCH -N1 -n2")
        assert [item.rule.id for item in check(script) if item.rule.id != "other-nnodes"] == rules


def test_a_script_that_bash_cannot_read_ends_as_bash_does() -> None:
    found = check(make_script("python t.py\necho 'end", "#SBATCH -N1"))
    assert [item.rule.id for item in found] == ["bash-syntax"]


def test_pbs_can_start_a_script_where_it_was_submitted() -> None:
    text = "#!/bin/bash\n#PBS -l select=1\n#PBS -l wd\npython train.py\n"
    assert check(Script("a.pbs", text)) == []


def test_a_folder_by_its_whole_name_needs_none_of_submission() -> None:
    text = "#!/bin/bash\n#PBS -l select=1\n{}train.sh\n"
    for body, found in (
        ("cd $HOME/src\n./", []),
        ("cd ..\n./", ["pbs-workdir"]),
        ("", []),
        ("./", ["pbs-workdir"]),
        ("bash ", ["pbs-workdir"]),
        ("bash $HOME/src/", []),
    ):
        assert [item.rule.id for item in check(Script("a.pbs", text.format(body)))] == found


def test_a_template_of_another_language_has_one_fault() -> None:
    text = "#!/bin/bash\n#SBATCH --account={account}\n#SBATCH -N2 -n8\nsrun python t.py\n"
    assert [item.rule.id for item in check(Script("a", text))] == ["placeholder"]


def test_a_key_is_a_secret_and_its_place_is_none() -> None:
    for value, expected in (("aB3" * 12 + "==", ["secret"]), ("/home/me/1/" + "x" * 30, [])):
        text = f"#!/bin/bash\nexport NEPTUNE_API_TOKEN={value}\n"
        assert [item.rule.id for item in check(Script("a", text))] == expected


def test_torque_puts_the_job_into_its_log_and_not_into_other_options() -> None:
    for asked in ("nodes=2:ppn=4", "size=384"):
        for option, found in (
            ("-o $PBS_JOBID.log", []),
            ("-o $PBS_O_WORKDIR/log", []),
            ("-e ${HOME}/log", []),
            ("-o $(date).log", ["directive-variable"]),
            ("-M $USER@a.org", ["directive-variable"]),
        ):
            text = f"#!/bin/bash\n#PBS -l {asked}\n#PBS {option}\ncd /\n"
            assert [item.rule.id for item in check(Script("a.pbs", text))] == found


def test_directives_parked_below_the_script_are_no_fault() -> None:
    for option, found in (("--time=1:00", []), ("--mem=1G", ["late-directive"])):
        script = make_script(f"true\n#SBATCH {option}", "#SBATCH --nodes=1 --time=2:00")
        assert [item.rule.id for item in check(script)] == found


def test_a_plain_program_on_nodes_that_are_asked_for_in_totals_is_found() -> None:
    head = "#!/bin/bash\n#PBS -q gpuvolta\n#PBS -l ncpus=96,ngpus=8\n"
    text = f"{head}cd $PBS_O_WORKDIR\npython3 t.py &\nwait\n"
    rules = [finding.rule.id for finding in check(Script("a.pbs", text))]
    assert "first-node-only" in rules


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("python t.py\n#cat $PBS_NODEFILE", True),
        (
            'C="python t.py"\nif [ "$PBS_NODEFILE" ]; then uniq $PBS_NODEFILE > all; fi\neval $C',
            True,
        ),
        ("export MASTER_ADDR=$(head -1 $PBS_NODEFILE)\npython t.py", True),
        ("python t.py --hosts $(uniq $PBS_NODEFILE)", False),
        ("uniq $PBS_NODEFILE > all\npython t.py --hosts all", False),
        ("H=$(uniq $PBS_NODEFILE)\npython t.py $H", False),
        ("for h in $(cat $PBS_NODEFILE); do reach $h; done\npython t.py", False),
        ('C="mpiexec $(uniq $PBS_NODEFILE) python t.py"\neval $C\npython end.py', False),
    ],
)
def test_what_is_told_of_the_other_nodes_may_reach_them(body: str, found: bool) -> None:
    text = f"#!/bin/bash\n#PBS -l nodes=4:ppn=4\ncd $PBS_O_WORKDIR\n{body}\n"
    rules = [item.rule.id for item in check(Script("a.pbs", text))]
    assert ("first-node-only" in rules) is found


@pytest.mark.parametrize(
    ("launch", "of_chunks", "of_totals"),
    [
        ("mpiexec -n 2 --map-by ppr:1:node", "same-node-rank", "same-node-rank"),
        ("mpiexec -n 2 -N 1", "same-node-rank", "same-node-rank"),
        ("pbsdsh -u --", "same-node-rank", "same-node-rank"),
        ("pbsdsh -u", "same-node-rank", "same-node-rank"),
        ("pbsdsh --", "same-node-rank", "two-agents"),
        ("", "first-node-only", "first-node-only"),
    ],
)
def test_jobs_of_pbs_on_two_nodes(launch: str, of_chunks: str, of_totals: str) -> None:
    totals = "-q gpuvolta\n#PBS -l ncpus=96,ngpus=8"
    for asked, rule in (("-l select=2:ncpus=48:ngpus=4", of_chunks), (totals, of_totals)):
        text = f"#!/bin/bash\n#PBS {asked}\n{launch} {TORCHRUN} {{}}$PBS_O_WORKDIR/t.py\n"
        lost = ["pbsdsh-status"] if "pbsdsh" in launch else []
        assert [x.rule.id for x in check(Script("a.pbs", text.format("")))] == [*lost, rule]
        met = text.format(f"{C10D} --rdzv-endpoint=$HEAD:$PORT ")
        found = [] if rule == "same-node-rank" else [rule]
        assert [x.rule.id for x in check(Script("a.pbs", met))] == lost + found


@pytest.mark.parametrize(
    ("made", "option", "found"),
    [
        ("mkdir -p logs", "", []),
        ('mkdir -p "$HERE/logs"', "", []),
        ("mkdir -p logs", "-k oed", ["output-folder"]),
        ("true", "", ["output-folder"]),
    ],
)
def test_pbs_brings_the_output_to_a_folder_that_the_job_makes(
    made: str, option: str, found: list[str]
) -> None:
    text = f"#!/bin/bash\n#PBS -l select=1\n#PBS -o logs/ {option}\ncd $PBS_O_WORKDIR\n{made}\n"
    assert [item.rule.id for item in check(Script("a.pbs", text))] == found


def test_a_step_of_one_task_has_no_other_tasks() -> None:
    asked = "#SBATCH --nodes=5 --ntasks-per-node=1"
    for nodes, found in ((1, []), (4, ["srun-kill"])):
        body = f"srun --nodes={nodes} --ntasks-per-node=1 -w $N python t.py"
        assert rules_of(body, asked) == found


def test_an_agent_for_a_part_of_the_nodes_leaves_the_rest_to_others() -> None:
    asked = "#SBATCH --nodes=5 --ntasks-per-node=1"
    launch = "accelerate launch --num_machines 4 --machine_rank $R --main_process_ip $H t.py"
    for options, end, found in (
        ("--nodes=4 -w $N", "&\nwait", False),
        ("--nodes=4", "", False),
        ("", "&\nsrun -K1 -w $N python serve.py", False),
        ("", "", True),
    ):
        assert ("other-nnodes" in rules_of(f"srun {options} {launch} {end}", asked)) is found


def test_servers_alone_are_waited_for() -> None:
    body = "srun -K1 trl vllm-serve --model m &\nsrun -K1 python router.py &\nwait"
    assert "endless-wait" not in rules_of(body, "#SBATCH --nodes=2")


def test_a_shell_script_beside_a_script_is_looked_into(tmp_path: Path) -> None:
    agent = "torchrun --nnodes={} --nproc-per-node=2 --rdzv-backend=c10d t.py\n"
    for line, text, found in (
        ("bash run.sh", agent.format(2), ["first-node-only"]),
        ("./run.sh", f"srun -K1 {agent.format(2)}", []),
        ("srun -K1 bash run.sh", agent.format(2), []),
        ("srun -K1 bash run.sh", agent.format(4), ["other-nnodes"]),
        ("srun -K1 bash run.sh", f"if $A; then {agent.format(4)}; fi", []),
        ("source run.sh", agent.format(2), ["first-node-only"]),
        ("srun -K1 bash run.sh", "python t.py | tee log\n", ["tee-status"]),
        ("set -o pipefail\nsrun -K1 bash run.sh", "python t.py | tee log\n", ["tee-status"]),
        ("set -o pipefail\n. ./run.sh", "srun -K1 python t.py | tee log\n", []),
        ("bash sub/run.sh", agent.format(2), []),
        ("python run.py", "import os\n", ["first-node-only"]),
        ("python run.py", "subprocess.run(['srun', 'a'])\n", []),
    ):
        (tmp_path / ("run.py" if "run.py" in line else "run.sh")).write_text(text)
        head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2\n"
        findings = check(Script(str(tmp_path / "job.sbatch"), f"{head}{line}\n"))
        assert [item.rule.id for item in findings] == found
        assert all(
            item.message.endswith(", in line 1 of the file named here")
            for item in findings
            if ".sh" in line
        )


@pytest.mark.parametrize("limit", ["EOF", "'EOF'"])
def test_a_job_in_a_here_document_has_its_faults_at_their_lines(limit: str) -> None:
    job = "#!/bin/bash\n#SBATCH --nodes=$N --time=$T\nsrun python t.py --rank \\$SLURM_NODEID\ndate"
    text = f"#!/bin/bash\nfor N in 1 2; do\nsbatch <<{limit}\n{job}\nEOF\ndone\n"
    found = [(item.line, item.rule.id) for item in check(Script("a.sh", text))]
    assert found == [(6, "hidden-exit"), (6, "early-expansion"), (6, "srun-kill")]


def test_a_script_without_directives_may_be_what_each_node_runs() -> None:
    body = "torchrun --nnodes=$N --node-rank=$1 --master-addr=127.0.0.1 --master-port=$P t.py\n"
    for asked, found in (("#SBATCH --nodes=2", ["first-node-only", ADDRESS]), ("# of a node", [])):
        findings = check(Script("a.sh", f"#!/bin/bash\n{asked}\n{body}"))
        assert [item.rule.id for item in findings] == found


def test_a_script_that_submits_itself_needs_its_first_line() -> None:
    for file, found in (('"${BASH_SOURCE[0]}"', ["no-shebang"]), ("$0", ["no-shebang"]), ("b", [])):
        body = f"if [ $1 ]; then\n  python t.py\nelse\n  sbatch -t 9 {file} a\nfi\n"
        assert [item.rule.id for item in check(Script("a.sh", body))] == found


@pytest.mark.parametrize(
    ("directives", "read", "found"),
    [
        ("-J 0-3", "$PBS_ARRAYID", True),
        ("-t 0-3", "$PBS_ARRAY_INDEX", True),
        ("-J 0-3", "$SLURM_ARRAY_TASK_ID", True),
        ("-t 0-3", "$PBS_ARRAYID", False),
        ("-J 0-3", "${SLURM_ARRAY_TASK_ID:-$PBS_ARRAY_INDEX}", False),
    ],
)
def test_a_variable_of_another_scheduler_is_named(
    directives: str, read: str, *, found: bool
) -> None:
    text = f"#!/bin/bash\n#PBS {directives}\ncd $PBS_O_WORKDIR\npython t.py --seed {read}\n"
    assert [x.rule.id for x in check(Script("a", text))] == ["unset-variable"] * found


def test_a_misnamed_variable_is_named_once() -> None:
    body = "python t.py $PBS_JOB_ID\npython u.py $PBS_JOB_ID $SLURM_ARRAY_ID\nexit $?"
    found = [x for x in check(make_script(body, "#SBATCH -N1")) if x.rule.id == "unset-variable"]
    assert [item.message for item in found] == [
        "no scheduler sets $PBS_JOB_ID",
        "no scheduler sets $SLURM_ARRAY_ID",
    ]


def test_no_shell_reads_a_script_of_python() -> None:
    text = "#!/usr/bin/python\n#PBS -A <project>\nos.system('python train.py')\nquery = 1\n"
    assert [one.rule.id for one in check(Script("job.pbs", text))] == ["placeholder"]


def test_threads_that_are_not_those_of_a_task_ask_for_no_cpus() -> None:
    for body in ("srun -K1 ./a", "export OMP_NUM_THREADS=1\nsrun -K1 ./a", "srun -K1 hostname"):
        assert rules_of(body, "#SBATCH --ntasks-per-node=2 --cpus-per-task=4") == []
    threads = "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"
    for body, found in {"srun -K1 hostname": [], "srun -K1 vasp_std": ["srun-cpus"]}.items():
        assert rules_of(f"{threads}\n{body}", "#SBATCH --cpus-per-task=4") == found


def fixes_of(body: str, *directives: str) -> dict[str, str]:
    """What to write in place of what a script has at fault, by rules."""
    return {found.rule.id: found.fix for found in check(make_script(body, *directives))}


def test_a_fix_leaves_the_agent_all_gpus_and_each_task_its_variables() -> None:
    agents = "torchrun --nnodes=2 --node-rank=$SLURM_NODEID --nproc-per-node=4 {} t.py"
    each = "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4"
    own = fixes_of(f"A=b\nsrun -K1 --gpus-per-task=1 {agents.format('--master-addr=$A')}", each)
    assert own["two-agents"] == WHY.OF_TASKS
    assert own["early-expansion"] == WHY.NOT_EXPORTED
    told = fixes_of(f"export A=b\nsrun -K1 {agents.format('--master-addr=$A')}", each)
    assert "--gpus-per-task" not in told["two-agents"]
    assert "single quotes" in told["early-expansion"][:40]


def test_a_launcher_of_too_few_processes_has_its_own_fix() -> None:
    each = "#SBATCH --nodes=16 --ntasks-per-node=2"
    assert fixes_of("mpirun -np 16 ./a", each)["first-node-only"] == WHY.FEW
    assert "every node" in fixes_of("python t.py", each)["first-node-only"]


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("cd ./a\ncd ./out\npython t.py", False),
        ("cd x\nmpirun -np 2 a/out/prog", False),
        ("python ./a/out/t.py", False),
        ("a/out/prog 1", False),
        ("mkdir -p a/out\ncc a.c -o a/out/prog\na/out/prog", True),
        ("python t.py --out a/out/x", True),
        ("python t.py > a/out/x", True),
        ("cd a/output\n./a/out2/prog", True),
    ],
)
def test_a_folder_that_the_script_itself_uses_is_there(body: str, missing: bool) -> None:
    assert ("output-folder" in fixes_of(body, "#SBATCH --nodes=1 -o a/out/%j.log")) is missing


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        ("srun /work/run_array.sh", True),
        ("srun --label bash ./train.sh", True),
        ("srun -u \\\n  ./train_one.sh $SLURM_ARRAY_TASK_ID", True),
        ("export MASTER_ADDR=$(hostname)\nsrun bash ./train.sh", False),
        ("srun --mpi=pmix bash ./train.sh", False),
        ("srun python train.py", False),
    ],
)
def test_tasks_that_are_each_for_itself_need_no_end_together(body: str, alone: bool) -> None:
    asked = ("#SBATCH --nodes=1 --ntasks-per-node=4 --time=2:00:00", "#SBATCH --gpus-per-task=1")
    found = [item.rule.id for item in check(make_script(body, *asked))]
    assert ("srun-kill" in found) != alone
    assert "srun-kill" in [x.rule.id for x in check(make_script("srun ./train.sh", asked[0]))]


@pytest.mark.parametrize("loop", ["for i in a b; do", "while read i; do"])
def test_a_function_that_a_loop_calls_is_part_of_its_turns(loop: str) -> None:
    body = f"f() {{\n  python t.py $1\n  date\n}}\n{loop}\n  f $i\ndone\necho end"
    (fault,) = check(make_script(body, "#SBATCH -N1"))
    assert (fault.rule.id, fault.fix) == ("hidden-exit", WHY.turn)
    (fault,) = check(make_script(body.replace(loop, "{").replace("done", "}"), "#SBATCH -N1"))
    assert fault.fix != WHY.turn


@pytest.mark.parametrize(
    ("asked", "column"),
    [
        ("--output=./logs/%j/out_%j.txt", 18),
        ("-o %A/%a.out", 12),
        ("--error runs/%x-%j/err", 17),
        ("--output=out_%j.txt", 0),
        ("--output=%x/%j.out", 0),
        ("--comment=%j/a", 0),
    ],
)
def test_a_folder_cannot_have_the_number_of_the_job(asked: str, column: int) -> None:
    faults = check(make_script("true", "#SBATCH -N1", f"#SBATCH {asked}"))
    message = vars(WHY)["output-folder finds numbered-folder"].partition("; ")[0]
    found = [(x.line, x.column) for x in faults if x.message == message]
    assert found == [(3, column)][: bool(column)]


@pytest.mark.parametrize(
    ("body", "each", "found"),
    [
        ("srun -K1 python3 train.py fit --trainer.num_nodes 2 --trainer.gpus 2", 1, True),
        ("srun -K1 python t.py fit \\\n  --trainer.devices=4 --trainer.strategy ddp", 1, True),
        ("srun -K1 singularity exec a.sif python t.py trainer.devices=2 model=b", 1, True),
        ("srun -K1 python t.py fit --trainer.devices=2", 2, False),
        ("srun -K1 python t.py fit --trainer.devices=1", 1, False),
        ("srun -K1 python t.py fit --trainer.gpus 2 --trainer.strategy dp", 1, False),
        ("srun -K1 --ntasks-per-node=2 python t.py fit --trainer.gpus 2", 1, False),
        ("# srun python t.py fit --trainer.gpus 2\nsrun -K1 python t.py", 1, False),
        ("unset SLURM_NTASKS\nsrun -K1 python t.py fit --trainer.gpus 2", 1, False),
    ],
)
def test_lightning_needs_a_task_for_each_gpu(body: str, each: int, found: bool) -> None:
    asked = f"#SBATCH --nodes=2 --ntasks-per-node={each} --gres=gpu:4"
    faults = [x.message for x in check(make_script(body, asked)) if x.rule.id == "idle-gpus"]
    assert faults == [vars(WHY)["idle-gpus finds lone-task"].partition("; ")[0]] * found


def test_an_exit_code_that_a_quoted_text_hides_is_kept_in_that_text() -> None:
    inside = 'apptainer exec a.sif bash -c "\nsource e\npython t.py\necho end\n"'
    fix = fixes_of(inside, "#SBATCH --nodes=1")["hidden-exit"]
    assert fix.startswith("write || exit behind it, in the text that holds it")


@pytest.mark.parametrize(
    ("directive", "expanded"),
    [
        ("#SBATCH --mail-user=$EMAIL", True),
        ("#SBATCH --time=`cat limit`", True),
        ("#SBATCH -A ${GROUP}", True),
        ("#SBATCH --comment=$(date)", True),
        ("#SBATCH --mem=4G    # of $USER", False),
    ],
)
def test_a_late_directive_with_a_variable_is_not_only_to_move(
    directive: str, expanded: bool
) -> None:
    fix = fixes_of(f"set -e\n{directive}\npython t.py", "#SBATCH -N1")["late-directive"]
    assert (fix == WHY.LATE) is expanded
    torque = Script("a", "#!/bin/bash\n#PBS -l nodes=1:ppn=1\ntrue\n#PBS -o $PBS_O_WORKDIR/o\n")
    assert WHY.LATE not in [item.fix for item in check(torque)]


@pytest.mark.parametrize(
    ("body", "assigned"),
    [
        ('CMD=mpirun -np "$N" ./a\n$CMD', True),
        ("CFLAGS=-O3 -march=native\nmake", True),
        ("RUN=$MPI \\\n  -n 4 ./a", True),
        ("true; A=1 OPTS=--lr -c 1", True),
        ("OMP_NUM_THREADS=4 --lr 1", False),  # of a command that is not there
        ("python t.py \\\\\n  --lr 1", False),
    ],
)
def test_a_value_of_several_words_is_to_be_quoted(body: str, assigned: bool) -> None:
    (fault,) = check(make_script(f"set -e\n{body}", "#SBATCH --nodes=1"))  # one cause, told once
    assert (fault.rule.id, fault.fix == WHY.assigned) == ("no-command", assigned)


@pytest.mark.parametrize(
    ("listed", "turns"),
    [
        ("one", False),
        ("{3..3}", False),
        ('"${seeds[@]}"', False),
        ("$SEED", False),
        ("$SEED 2", True),
        ("$(ls)", True),
        ("a; do\nfor i in 1 2", True),
    ],
)
def test_a_loop_over_one_word_has_one_turn(listed: str, turns: bool) -> None:
    done = "done\n" * (listed.count("for") + 1)
    body = f"seeds=(2030)\nSEED=1\nfor s in {listed}\ndo\n  python t.py $s\n{done}"
    assert ("hidden-exit" in fixes_of(body, "#SBATCH -N1")) is turns


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("set -e\n# Before sbatch: mkdir -p a/out", True),
        ("true  # needs mkdir ./a/out", True),
        ("#mkdir -p a/out", True),
        ("set -e\n# Before sbatch: mkdir -p a/output", False),
        ("set -e\n# Before sbatch: mkdir -p a", False),
        ("echo '# mkdir -p a/out'", False),
        ("mkdir -p a/out  # too late", False),
    ],
)
def test_a_comment_that_tells_to_make_the_folder_is_enough(body: str, told: bool) -> None:
    assert ("output-folder" not in fixes_of(body, "#SBATCH -N1 -o a/out/%j.log")) is told


@pytest.mark.parametrize(
    ("asked", "sends"),
    [
        ("--mail-user=userid@example.org", False),
        ("--mail-user=userid@example.org\n#SBATCH --mail-type=none", False),
        ("--mail-type NONE\n#SBATCH --mail-user your_email", False),
        ("--mail-user=userid@example.org\n#SBATCH --mail-type=END", True),
        ("--mail-type=NONE\n#SBATCH -A your_account", True),
        ("--mail-type=NONE\n#SBATCH --mail-user=", True),  # which sbatch refuses
    ],
)
def test_an_address_to_which_nothing_is_sent_is_no_place(asked: str, sends: bool) -> None:
    script = make_script("true", "#SBATCH -N1", f"#SBATCH {asked}")
    assert ("placeholder" in [item.rule.id for item in check(script)]) is sends
    assert ("lost" in [left.kind for left in import_script(script).left]) is sends


@pytest.mark.parametrize(("when", "sends"), [("#PBS -m n", False), ("", True), ("#PBS -m e", True)])
def test_pbs_sends_mail_unless_it_is_told_not_to(when: str, sends: bool) -> None:
    script = Script("a", f"#!/bin/bash\n#PBS -M your_email@x.org\n{when}\ntrue\n")
    assert ("placeholder" in [item.rule.id for item in check(script)]) is sends
    assert ("lost" in [left.kind for left in import_script(script).left]) is sends


@pytest.mark.parametrize("goes", ["source activate", "conda activate", "mamba activate"])
@pytest.mark.parametrize("name", ["$ENV_NAME", '"${CONDA_NAME}"', "$venv_name"])
def test_a_variable_of_a_real_environment_is_no_place_to_fill_in(goes: str, name: str) -> None:
    variable = name.strip('"${}')
    body = f"{goes} {name}\npython t.py"
    assert "placeholder" not in rules_of(f'{variable}="learn"\n{body}')
    assert "placeholder" in rules_of(f'{variable}="your-env"\n{body}')
    assert "placeholder" in rules_of(f"{goes} {variable}\npython t.py")


@pytest.mark.parametrize("fails", [True, False])
def test_a_fix_that_keeps_exit_codes_works_in_loops_and_under_set_u(fails: bool) -> None:
    body = "set -u\nfor i in 1 2; do\n  python t.py --n $i &\ndone\nwait"
    (found,) = check(make_script(body, "#SBATCH --nodes=1"))
    _, adds, waits, ends = re.split(r"by its id: |; \.\.\.; |; (?=exit)", found.fix)
    mended = body.replace("&\n", f"& {adds}\n").replace("\nwait", f"\n{waits}\n{ends}")
    assert not check(make_script(mended, "#SBATCH --nodes=1"))
    program = "false" if fails else "true"
    run = ["bash", "-c", mended.replace("python t.py", program)]
    assert subprocess.run(run, check=False).returncode == int(fails)


def test_no_fix_reads_a_status_that_only_a_failure_sets() -> None:
    fixes = [*map(str, vars(WHY).values()), *(rule.fix for rule in RULES)]
    kept = [fix for fix in fixes if "|| status=$?" in fix]
    assert kept
    assert all("exit ${status:-0}" in fix for fix in kept)


@pytest.mark.parametrize("agent", ["torchrun", "deepspeed", "python -m torch.distributed.run"])
def test_an_agent_that_is_alone_takes_no_address_from_outside(agent: str) -> None:
    address = "export MASTER_ADDR=127.0.0.1"
    assert ADDRESS not in rules_of(f"{address}\n{agent} t.py")
    assert ADDRESS in rules_of(f"{address}\nsrun python a.py\n{agent} t.py")
    assert ADDRESS in rules_of(f"{address}\nsrun {TORCHRUN} t.py")


def test_a_launcher_of_one_process_is_not_told_of_another_launcher() -> None:
    for run in ("aprun ./a/test", "aprun -n 1 ./a", "mpirun -np 1 ./a", "python t.py"):
        script = Script("job.pbs", f"#!/bin/bash\n#PBS -l select=8:ncpus=32\n{run}\n")
        (fix,) = [x.fix for x in check(script) if x.rule.id == "first-node-only"]
        assert (fix == WHY.FEW) == (run != "python t.py")


def test_what_a_container_runs_on_one_of_several_nodes_leaves_the_others_idle() -> None:
    for run in ("exec a.sif bash run.sh", "exec --nv a.sif ./train.sh", "run a.sif sh -x go.sh"):
        assert "first-node-only" in rules_of(f"singularity {run}")
        assert "first-node-only" not in rules_of(f"srun -K -W 0 singularity {run}")
    assert "first-node-only" not in rules_of("singularity exec a.sif tar xf a.tar")
    assert "first-node-only" not in rules_of("bash run.sh")  # which may call srun


def test_a_kind_of_gpu_without_a_gpu_is_said() -> None:
    for kind in ("a100", '"(h100|h200)&gpu80g"', "v100_32", "A40|l40s"):
        asked = f"#SBATCH --constraint={kind}"
        assert "few-gpus" in rules_of("srun -K ./a", asked, "#SBATCH -p gpu")
        for more in ("--gres=gpu:1", "-G 4", "--exclusive", "--gpus-per-task=1"):
            assert "few-gpus" not in rules_of("srun -K ./a", asked, f"#SBATCH {more}")
    for kind in ("gpu", "skylake", "ib100", "a1000x", "haswell&ssd"):
        assert "few-gpus" not in rules_of("srun -K ./a", f"#SBATCH -C '{kind}'")


def test_awk_refuses_a_backslash_in_single_quotes() -> None:
    field = "awk '{print \\$2}'"
    for line in (f"a=$(ip a | {field})", f'a="$(ip a | {field})"', f"ip a | g{field}"):
        assert "unset-variable" in rules_of(f"{line}\necho $a")
    for line in (f"a=`ip a | {field}`", f'bash -c "ip a | {field}"', "awk '{print $2}' f"):
        assert "unset-variable" not in rules_of(line)
    assert "unset-variable" not in rules_of(f"bash <<EOF\nip a | {field.replace(chr(39), '')}\nEOF")


def test_a_launcher_before_blanks_is_no_value() -> None:
    for line in ("RUN=mpirun ./a", "RUN=srun python t.py", "RUN=/usr/bin/mpiexec ./a b"):
        assert "no-command" in rules_of(f"{line}\n$RUN")
        assert "no-command" in rules_of(f'{line}\neval "${{RUN}} x"')
        assert "no-command" not in rules_of(line)  # for the program's own environment
    assert "no-command" not in rules_of("RUN='mpirun ./a'\n$RUN")
    assert "no-command" not in rules_of("CC=mpicc make\n$CC a.c")


def test_a_server_that_nothing_waits_for_ends_with_the_script() -> None:
    for server in ("vllm serve a", "uvicorn a:b --port 80", "streamlit run a.py", "gunicorn a:b"):
        assert "no-wait" in rules_of(f"{server} &")
        assert "no-wait" in rules_of(f"{server} > log 2>&1 &\necho done")
        assert "no-wait" not in rules_of(f"{server} &\nwait")
        assert "no-wait" not in rules_of(server)


@pytest.mark.parametrize(
    ("asked", "message", "fix"),
    [
        ("-gres=gpu:4", "-g with the value 'res=gpu:4', so Slurm refuses the script", "--gres"),
        (
            "-n_tasks_per_node 4",
            "-n with the value '_tasks_per_node', so Slurm refuses the script",
            "--ntasks-per-node",
        ),
        ("-output=x.log", "-o with the value 'utput=x.log'", "--output"),
    ],
)
def test_a_long_option_with_one_dash_is_read_as_a_letter(
    asked: str, message: str, fix: str
) -> None:
    script = make_script("python t.py", "#SBATCH --nodes=2", f"#SBATCH {asked}")
    (fault,) = [x for x in check(script) if x.rule.id == "directive-variable"]
    assert fault.message == f"'{asked.split()[0]}' is read as {message}"
    assert fault.fix == f"write {fix}"
    (left,) = [x for x in import_script(script).left if x.line == 3]
    assert (left.kind, left.reason) == ("lost", WHY.TORN)
    assert "directive-variable" not in rules_of("true", "#SBATCH -n4 -pgpu -o%j.log -Jmem")


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("srun {} python a.py &\nsrun {} python b.py &\nwait", "CPUs"),
        ("for i in 1 2; do\n  srun {} python a.py $i &\ndone\nwait", "CPUs"),
        ("srun --exact -n1 {} python a.py &\nsrun --exact -n1 {} python b.py &\nwait", "GPUs"),
        ("srun --exact {} --gres=gpu:1 ./a &\nsrun --exact {} --gres=gpu:1 ./b &\nwait", ""),
        ("srun --overlap {} ./a &\nsrun {} ./b &\nwait", ""),
        ("srun {} ./a &\nsrun --overlap {} ./b &\nwait", ""),
        ("srun {} ./a &\nwait\nsrun {} ./b &\nwait", ""),
        ("for i in 1 2; do\n  srun {} python a.py $i &\n  wait\ndone", ""),
        ("srun {} ./a &\nwait", ""),
    ],
)
def test_a_step_in_the_background_is_told_what_to_share(body: str, taken: str) -> None:
    script = make_script(body.replace("{}", "-K1"), "#SBATCH -N1 -n4 --gres=gpu:4")
    found = [x.message for x in check(script) if x.rule.id == "step-takes-all"]
    message = f"an srun in the background takes all {taken} of its nodes, and the next one waits"
    assert found == [message] * bool(taken)
    assert import_script(script).body or body.count("srun") == 1


@pytest.mark.parametrize("last", ["echo done >> log", "cp a b", "python t.py | tee log"])
def test_a_fix_for_an_exit_code_ends_the_script_at_no_other_line(last: str) -> None:
    fixes = fixes_of(f"grep -q a b\npython t.py\n{last}", "#SBATCH -N1")
    (fix,) = [fix for rule, fix in fixes.items() if rule in ("hidden-exit", "tee-status")]
    assert "|| status=$? behind" in fix
    assert "exit ${status:-0} at the end" in fix
    assert not re.search(r"set -\w*e", fix)


@pytest.mark.parametrize("options", ["--master-addr=$A", "--nnodes=4 --rdzv-endpoint=$A:$P"])
def test_agents_are_told_all_that_they_need_to_meet(options: str) -> None:
    fix = fixes_of(f"srun -K1 torchrun {options} t.py", "#SBATCH -N2 --ntasks-per-node=1")
    assert "--rdzv-backend=c10d with the first node's address" in fix["other-nnodes"]
    assert "in place of --master-addr, --master-port and --node-rank" in fix["other-nnodes"]


@pytest.mark.parametrize(
    ("body", "idle"),
    [
        ("export CUDA_VISIBLE_DEVICES=0,1\npython t.py", True),
        ('export CUDA_VISIBLE_DEVICES="0"\ntorchrun --nproc-per-node=1 t.py', True),
        ("CUDA_VISIBLE_DEVICES=0 python a.py\npython t.py", False),
        ("CUDA_VISIBLE_DEVICES=0,1 python a.py &\nCUDA_VISIBLE_DEVICES=2,3 python b.py", False),
        ("for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i python a.py & done", False),
        ("export CUDA_VISIBLE_DEVICES=0\nunset CUDA_VISIBLE_DEVICES\npython t.py", False),
        ("export CUDA_VISIBLE_DEVICES=0\nsrun -K1 python t.py", False),  # which gives its own
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\npython t.py", False),
        ("torchpack dist-run -np 1 python t.py", True),
        ("torchpack dist-run -np 4 python t.py", False),
        ("deepspeed --include localhost:0,1 t.py", True),
        ("deepspeed --include localhost:0,1,2,3 t.py", False),
    ],
)
def test_what_sees_a_part_of_the_gpus_idles_the_others(body: str, idle: bool) -> None:
    assert ("idle-gpus" in fixes_of(body, "#SBATCH -N1 --gres=gpu:4")) is idle


@pytest.mark.parametrize(
    ("asked", "body", "meets"),
    [
        ("--gres=gpu:1", "export MASTER_PORT=29500\npython t.py", True),
        ("--gres=gpu:2", "export MASTER_PORT=29500\npython t.py", True),
        ("--gres=gpu:2 --mem=0", "export MASTER_PORT=29500\npython t.py", False),  # a whole node
    ],
)
def test_a_port_is_met_only_by_jobs_that_share_a_node(asked: str, body: str, meets: bool) -> None:
    assert ("fixed-port" in fixes_of(body, f"#SBATCH -N1 {asked}")) is meets
