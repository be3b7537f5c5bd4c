"""Every rendered script: correct bash, the same bytes everywhere, the rules of the design."""

import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from support import EXAMPLES, ROOT, SITES, plan_of

from jobgen import __version__, schedulers
from jobgen.loaded import load
from jobgen.plan import resolve
from jobgen.render import render

BASE = next(path for path in EXAMPLES if path.stem == "slurm-2x8")
VARIANTS = {
    "static": ["launch.rendezvous=static"],
    "interface": ["launch.interface=hsn0"],
    "modules and venv": ["environment={modules: [a/1, b/2], venv: '~/my venv'}"],
    "modules in full": [
        "environment={modules: {first: purge, use: [$HOME/m], load: [a, 'b c']}}",
    ],
    "modules from scratch": ["environment={modules: {first: reset}, conda: ~/envs/a}"],
    "conda": ["environment={conda: base}"],
    "container": [
        "environment={container: {image: a b.sif, runtime: apptainer, binds: [$A/x, '/b:/c:ro']},"
        " venv: v, setup: 'ls', modules: [a]}",
    ],
    "podman": ["environment={container: {image: a/b:1, runtime: podman-hpc, options: [--x=$y]}}"],
    "stage": ["environment={stage: '$HOME/a b.tar.gz'}"],
    "unequal nodes": ["resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}"],
    "unequal processes": ["resources={nodes: 2}", "launch.processes_per_node=[2, 1]"],
    "all asked for": [
        "qos=high",
        "reservation=r1",
        "resources.constraint=a100&nvlink",
        "resources.exclusive=true",
        "notify={email: me@x.org, on: [begin, fail]}",
    ],
    "array": [
        "array={values: {lr: [1e-3, -1], w: [[1, 2], [], true], environment.variables.A: [a b]},"
        " at_once: 2}",
    ],
    "array of numbers": ["array.tasks=3"],
    "array of one": ["array.list=[{}]"],
    "nothing asked for": ["resources={}", "environment=null"],
    "script": ["run={script: $HOME/a b.py, args: [-x, '$(id)', 'a `b`', 'c\\']}"],
    "preflight": ["preflight=true"],
    "unequal nodes, preflight": [
        "preflight=true",
        "resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}",
        "launch.interface=hsn0",
    ],
    "notice": ["walltime={notice: 2m}"],
    "further starts": ["walltime={then: resubmit, at_most: 3}"],
    "command": ['run={command: [./train, "it\'s"]}', "launch.max_restarts=3"],
}
EXAMPLE_SCRIPTS = {
    f"{path.stem}, {site}": render(plan_of(path.read_text(), site=site))
    for path, site in product(EXAMPLES, SITES)
}
VARIANT_SCRIPTS = {
    f"{name}, {site}": render(plan_of(BASE.read_text(), *overrides, site=site))
    for (name, overrides), site in product(VARIANTS.items(), SITES)
} | {
    f"{runtime}, slurm-generic": render(plan_of(BASE.read_text(), override, scheduler="slurm"))
    for runtime in ("pyxis", "edf")
    for override in [f"environment={{container: {{image: $A/x, runtime: {runtime}}}}}"]
}
for name, override in (
    ("requeue", "walltime.then=requeue"),
    ("range of nodes", "resources.nodes={min: 2, max: 4}"),
):
    VARIANT_SCRIPTS[f"{name}, slurm-generic"] = render(
        plan_of(BASE.read_text(), override, site="slurm-generic")
    )
SCRIPTS = EXAMPLE_SCRIPTS | VARIANT_SCRIPTS
EVERY = pytest.mark.parametrize("name", SCRIPTS)
# Those below are true of scripts that start an agent on each node, by the scheduler's own launcher.
OTHER_STARTS = {
    "direct": ["launch={mode: direct}"],
    "direct, unequal nodes": [
        "launch={mode: direct}",
        "preflight=true",
        "resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}",
    ],
    "direct, array": ["launch={mode: direct}", "array.tasks=3"],
    "direct, container": [
        "launch={mode: direct}",
        "environment={container: {image: a b.sif, runtime: apptainer}}",
    ],
    "mpiexec": ["launch={launcher: mpiexec}"],
    "direct by mpiexec": ["launch={mode: direct, launcher: mpiexec}", "walltime={notice: 2m}"],
}
STARTED_OTHERWISE = {
    f"{name}, {site}": render(plan_of(BASE.read_text(), *overrides, site=site))
    for (name, overrides), site in product(OTHER_STARTS.items(), SITES)
}
ALL = SCRIPTS | STARTED_OTHERWISE


def scripts_for(scheduler: str) -> dict[str, str]:
    """The scripts for one scheduler, by name."""
    sites = [site for site, its_scheduler in SITES.items() if its_scheduler == scheduler]
    return {name: text for name, text in SCRIPTS.items() if name.endswith(tuple(sites))}


def lines_with(word: str, script: str) -> list[str]:
    """The lines that hold a word, continued lines put together, comments left out."""
    lines = script.replace("\\\n", "").splitlines()
    return [line for line in lines if word in line and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("script", ALL.values(), ids=ALL.keys())
def test_bash_can_parse_it(script: str) -> None:
    ended = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("script", ALL.values(), ids=ALL.keys())
def test_shellcheck_is_content(script: str) -> None:
    beside_python = Path(sys.executable).with_name("shellcheck")
    shellcheck = shutil.which("shellcheck") or (beside_python.exists() and str(beside_python))
    if not shellcheck:
        assert os.environ.get("CI") != "true", "CI must have shellcheck"
        pytest.skip("there is no shellcheck")
    ended = subprocess.run([shellcheck, "-"], input=script, capture_output=True, text=True)
    assert (ended.stdout, ended.returncode) == ("", 0)


def test_the_bytes_are_the_same_for_everybody(tmp_path: Path) -> None:
    """Another folder, user, time zone, locale and hash seed; all examples in one process."""
    copies = tmp_path / "some where"
    copies.mkdir()
    for path in EXAMPLES:
        shutil.copy(path, copies)
    scripts = []
    for seed, home, locale in [("1", "/home/x", "C"), ("2", "/y", "C.UTF-8")]:
        environment = {
            **{"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TZ": f"UTC+{seed}"},
            **{"PYTHONHASHSEED": seed, "HOME": home, "USER": home[-1:], "LC_ALL": locale},
            **{"HOSTNAME": f"host{seed}", "LOGNAME": home[-1:], "TMPDIR": str(tmp_path)},
        }
        for site in SITES:
            argv = [sys.executable, "-m", "jobgen", "render", "--site", site, "--out-dir", seed]
            argv += [path.name for path in EXAMPLES]
            subprocess.run(argv, cwd=copies, env=environment, check=True)
        scripts.append({path.name: path.read_bytes() for path in (copies / seed).iterdir()})
    here = {
        path.with_suffix(schedulers.get(scheduler).suffix).name: render(
            resolve(load(str(path)), site=site)
        ).encode()
        for path, (site, scheduler) in product(EXAMPLES, SITES.items())
    }
    assert scripts == [here, here]


@EVERY
def test_it_names_nothing_of_the_machine_that_rendered_it(name: str) -> None:
    assert str(ROOT) not in SCRIPTS[name]
    assert __version__ not in SCRIPTS[name]


@EVERY
def test_it_begins_with_what_it_is_and_how_to_make_it_again(name: str) -> None:
    lines = SCRIPTS[name].splitlines()
    assert lines[0] == "#!/bin/bash"
    assert lines[2] == "# rendered by jobgen from: job.yaml"
    assert re.fullmatch("# digest of what was rendered: [0-9a-f]{16}", lines[3])
    assert lines[4].startswith("# to render it again: jobgen render job.yaml --scheduler ")
    assert "set -euo pipefail" in lines
    directives = [index for index, line in enumerate(lines) if re.match("#(SBATCH|PBS)", line)]
    assert all(index < lines.index("set -euo pipefail") for index in directives)


@EVERY
def test_every_node_runs_one_agent(name: str) -> None:
    (agent,) = lines_with("torch.distributed.run", SCRIPTS[name])
    agent = agent.replace(' "${container[@]}"', "")
    assert agent.split()[:5] == ["attend", '"$marker"', "python3", "-m", "torch.distributed.run"]
    for option in (
        '--nproc-per-node="$local_world_size"',
        '--rdzv-endpoint="$head:$port"',
        '--rdzv-id="$rdzv_id"',
        '--local-addr="$address"',
    ):
        assert option in agent
    if name.startswith("static"):
        assert '--rdzv-backend=static --node-rank="$index"' in agent
    else:
        assert '--rdzv-backend=c10d --rdzv-conf="is_host=$((index == 0)),' in agent


@EVERY
def test_nothing_relies_on_the_torchrun_command_or_on_localhost(name: str) -> None:
    assert not lines_with("torchrun ", SCRIPTS[name])
    assert not lines_with("localhost", SCRIPTS[name])
    assert bool(lines_with("127.0.0.1", SCRIPTS[name])) == name.endswith("local")


@EVERY
def test_every_process_has_its_threads_and_torch_its_traps_closed(name: str) -> None:
    assert lines_with("export OMP_NUM_THREADS=", SCRIPTS[name])
    assert lines_with("export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", SCRIPTS[name])


@pytest.mark.parametrize("name", scripts_for("slurm"))
def test_srun_is_told_cpus_and_to_end_at_the_first_failure(name: str) -> None:
    (srun,) = lines_with("srun --", SCRIPTS[name])
    assert srun.startswith("srun --kill-on-bad-exit=1 ")
    components = srun.split(" : ")
    assert len(components) == (2 if name.startswith("unequal nodes") else 1)
    for component in components:
        assert re.search(r' "?--cpus-per-task=(\d+|\$\{SLURM_CPUS_ON_NODE\}") ', component)
        assert " --ntasks-per-node=1 " in component
        assert 'bash "$attempt_dir/script" node ' in component


@pytest.mark.parametrize("name", scripts_for("pbs"))
def test_pbsdsh_starts_a_shell_that_builds_its_own_world(name: str) -> None:
    (pbsdsh,) = lines_with("pbsdsh -n", SCRIPTS[name])
    assert '-n "${slots[index]}" -- /bin/bash -l "$attempt_dir/script" node ' in pbsdsh
    assert lines_with("umask 022", SCRIPTS[name])


@pytest.mark.parametrize("name", scripts_for("pbs"))
def test_the_order_of_pbs_nodes_is_that_of_the_allocation(name: str, tmp_path: Path) -> None:
    (tmp_path / "nodefile").write_text("n2\nn2\nn1\nn2\nn10\n")
    found = re.search(r"^nodes=\(\) slots=\(\)\n.*?^done.*?$", SCRIPTS[name], re.S | re.M)
    assert found
    program = f'{found[0]}\necho "${{nodes[*]}} / ${{slots[*]}}"'
    environment = {**os.environ, "PBS_NODEFILE": str(tmp_path / "nodefile")}
    printed = subprocess.run(["bash", "-c", program], env=environment, capture_output=True)
    assert printed.stdout == b"n2 n1 n10 / 0 2 4\n"


@pytest.mark.parametrize(
    ("job_number", "port"), [("7", 20007), ("4242", 24242), ("123456", 23456), ("0089", 20089)]
)
def test_the_port_follows_from_the_jobs_number(job_number: str, port: int) -> None:
    for script in SCRIPTS.values():
        assert "\nport=$((20000 + 10#$job_number % 10000))\n" in script
    program = f"job_number={job_number}; echo $((20000 + 10#$job_number % 10000))"
    assert int(subprocess.check_output(["bash", "-c", program])) == port


@EVERY
def test_logs_are_kept_for_each_node_and_rank(name: str) -> None:
    assert lines_with("$run_dir/logs/$node/agent.log", SCRIPTS[name])
    assert lines_with("logs=$JOBGEN_RUN_DIR/logs/$JOBGEN_NODE/rank-$RANK", SCRIPTS[name])
    assert lines_with('exec >>"$logs.out" 2>>"$logs.err"', SCRIPTS[name])
