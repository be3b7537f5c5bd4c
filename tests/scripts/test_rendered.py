"""Every rendered script: correct bash, the same bytes everywhere, the rules of the design."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from rendered import (
    ALL,
    SCRIPTS,
)
from support import EXAMPLES, ROOT, SITES, plan_of, shellcheck

from jobgen import __version__, schedulers
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.rendering.runtime import split_script
from jobgen.spec.load import load
from jobgen.spec.value_types import is_taken

CPUS = {"cpus_per_node": 2}


def scripts_for(scheduler: str) -> dict[str, str]:
    """The scripts for one scheduler, by name."""
    sites = [site for site, its_scheduler in SITES.items() if its_scheduler == scheduler]
    return {name: text for name, text in SCRIPTS.items() if name.endswith(tuple(sites))}


def lines_with(word: str, script: str) -> list[str]:
    """The lines that hold a word, continued lines put together, comments left out."""
    lines = script.replace("\\\n", "").splitlines()
    return [line for line in lines if word in line and not line.lstrip().startswith("#")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All scripts, as files."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, text in ALL.items():
        (folder / f"{name}.sh").write_text(text)
    return sorted(folder.iterdir())


def test_the_script_s_own_names_are_in_lower_case(files: list[Path]) -> None:
    """So none of them is a variable of the program: a spec refuses names in lower case."""
    for path in files:
        code = re.sub(r"""'[^']*'|"[^"]*"|(?m:^ *#.*$)""", "", path.read_text())
        own = {*re.findall(r"(?<![\w$<-])([A-Z][A-Z0-9_]*)(?:\[[^]\n]*\])?\+?=", code)}
        own |= {*re.findall(r"\b(?:mapfile|read) [^<\n]*?\b([A-Z]\w+)\b", code)}
        exported = {*re.findall(r"\b[A-Z]\w+", " ".join(re.findall(r"\bexport ([^;|&\n]*)", code)))}
        own = {name for name in own - exported if not is_taken(name) and name != "A"}  # a spec's
        assert all(name.startswith(("SLURM_", "PBS_", "LC_ALL", "TORCH_")) for name in own), own


def test_bash_can_parse_it(files: list[Path]) -> None:
    program = 'for file; do bash -n "$file" || echo "$file"; done'
    ended = subprocess.run(["bash", "-c", program, "-", *files], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.slow
def test_shellcheck_is_content(files: list[Path], tmp_path: Path) -> None:
    """Part 1 of each; and, as a Part 2 takes long, one whole script of those that are alike in it.

    Alike are those with the same Part 2 whose Parts 1 define the same of the names in it.
    """
    wholes: dict[tuple[str, frozenset[str]], Path] = {}
    firsts = []
    for file in files:
        first, second = split_script(file.read_text())
        assert second is not None
        firsts.append(tmp_path / file.name)
        firsts[-1].write_text(first)
        defined = set(re.findall(r"\b([A-Za-z_]\w*)(?=\+?=|\(\))", first))
        defined |= set(re.findall(r"\b(?:local|export) (\w+)", first))
        shared = defined & set(re.findall(r"[A-Za-z_]\w*", second.text))
        wholes.setdefault((second.digest, frozenset(shared)), file)
    assert shellcheck(*firsts, *wholes.values()) == ""


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
        path.with_suffix(schedulers.SCHEDULERS[scheduler].suffix).name: render(
            resolve(load(str(path)), site=site)
        ).encode()
        for path, (site, scheduler) in product(EXAMPLES, SITES.items())
    }
    assert scripts == [here, here]


def test_it_names_nothing_of_the_machine_that_rendered_it(subtests: pytest.Subtests) -> None:
    for name, script in SCRIPTS.items():
        with subtests.test(name):
            assert str(ROOT) not in script
            assert __version__ not in script


def test_it_begins_with_what_it_is_and_how_to_make_it_again(subtests: pytest.Subtests) -> None:
    for name, script in SCRIPTS.items():
        with subtests.test(name):
            lines = script.splitlines()
            assert lines[0] == "#!/bin/bash"
            assert lines[2] == "# rendered by jobgen from: job.yaml"
            assert lines[3].startswith("# to render it again: jobgen render job.yaml --s")
            # What programs read stands last, so that people come to the directives first.
            strict = next(n for n, line in enumerate(lines) if line.startswith("set -euo pipefail"))
            (facts,) = [n for n, line in enumerate(lines) if line.startswith("# jobgen: ")]
            assert facts == strict - 1
            assert json.loads(lines[facts].removeprefix("# jobgen: "))["spec"] == "job.yaml"
            directives = [n for n, line in enumerate(lines) if re.match("#(SBATCH|PBS)", line)]
            assert all(n < facts for n in directives)


def test_the_scheduler_stands_in_the_command_only_if_the_spec_lacks_it() -> None:
    text = next(path for path in EXAMPLES if path.stem == "slurm-2x8").read_text()
    again = "# to render it again: jobgen render job.yaml"
    assert f"{again}\n" in render(plan_of(text))
    assert f"{again} --scheduler pbs\n" in render(plan_of(text, scheduler="pbs"))
    assert f"{again} --site pbs-generic\n" in render(plan_of(text, site="pbs-generic"))


def test_every_node_runs_one_agent(subtests: pytest.Subtests) -> None:
    """Static unless the job is elastic, its agents restart processes, or the spec asks for c10d."""
    for name, script in SCRIPTS.items():
        with subtests.test(name):
            first, _ = split_script(script)
            (agent,) = lines_with("--nproc-per-node", first)
            assert agent.startswith("    python3 -V && exec python3 -")
            if "store_type=file" in agent:  # one node: nothing listens
                assert '--rdzv-endpoint="$tmp_dir/rendezvous" ' in agent
            elif "c10d" in agent:
                assert name.startswith(("command", "range of nodes"))
                assert ' exec python3 -c "$torchrun_c10d" ' in agent
                assert '--rdzv-conf="is_host=$((node_rank == 0)),' in agent
            else:
                assert '--node-rank="$node_rank"' in agent
                assert '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"' in agent


def test_one_node_may_meet_statically() -> None:
    text = next(path for path in EXAMPLES if path.stem == "slurm-2x8").read_text()
    script = render(plan_of(text, "resources.nodes=1", "launch.rendezvous=static"))
    (agent,) = lines_with("--nproc-per-node", script)
    assert '--node-rank="$node_rank"' in agent
    assert "MASTER_ADDR=127.0.0.1" in script
    assert "rendezvous_id" not in script


def test_nothing_relies_on_the_torchrun_command_or_on_localhost(subtests: pytest.Subtests) -> None:
    for name, script in SCRIPTS.items():
        with subtests.test(name):
            assert not lines_with("torchrun ", script)
            assert not lines_with("localhost", script)
            alone = "store_type=file" in script
            assert bool(lines_with("=127.0.0.1", script)) == (alone or name.endswith("local"))


def test_every_process_has_its_threads_and_torch_its_traps_closed(
    subtests: pytest.Subtests,
) -> None:
    for name, script in SCRIPTS.items():
        with subtests.test(name):
            assert lines_with("export OMP_NUM_THREADS", script)
            dynamic = "--rdzv-backend=c10d" in script
            assert bool(lines_with("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", script)) == dynamic


def test_srun_is_told_cpus_and_to_end_at_the_first_failure(subtests: pytest.Subtests) -> None:
    for name, script in scripts_for("slurm").items():
        if "run_node() {" not in script:
            continue
        with subtests.test(name):
            (srun,) = lines_with("exec srun ", script)
            srun = re.sub(" +", " ", srun)
            assert srun.startswith(" exec srun --kill-on-bad-exit=1 ")
            components = srun.split(" : ")
            assert len(components) == (2 if name.startswith("unequal nodes") else 1)
            for component in components:
                assert re.search(r' "?--cpus-per-task=(\d+|\$\{SLURM_CPUS_ON_NODE\}")', component)
                assert " --ntasks-per-node=1 " in component
                assert 'bash "$this_script" run_node' in component


def test_pbsdsh_starts_a_shell_that_builds_its_own_world(subtests: pytest.Subtests) -> None:
    for name, script in scripts_for("pbs").items():
        if "run_node() {" not in script:
            continue
        with subtests.test(name):
            (pbsdsh,) = lines_with("exec pbsdsh -n", script)
            assert '-n "$slot" -- /bin/bash -l "$this_script" run_node "$1"' in pbsdsh
            assert lines_with('file_mask "$(umask)"', script)


def test_the_order_of_pbs_nodes_is_that_of_the_allocation(tmp_path: Path) -> None:
    (tmp_path / "nodefile").write_text("n2\nn2\nn1\nn2\nn10\n")
    scripts = [script for script in scripts_for("pbs").values() if "exec pbsdsh" in script]
    (nodes,) = {line for script in scripts for line in lines_with('"$PBS_NODEFILE")', script)[:1]}
    (slot,) = {line for script in scripts for line in lines_with("slot=$(awk", script)}
    program = f'{nodes}\nfind_slot() {{ {slot}\n echo "${{names[$1]}} $slot"; }}\n'
    program += "for index in 0 1 2; do find_slot $index; done"
    environment = {**os.environ, "PBS_NODEFILE": str(tmp_path / "nodefile")}
    printed = subprocess.run(["bash", "-c", program], env=environment, capture_output=True)
    assert printed.stdout == b"n2 0\nn1 2\nn10 4\n"


@pytest.mark.parametrize(
    ("job_number", "port"), [("7", 20007), ("4242", 24242), ("123456", 23456), ("0089", 20089)]
)
def test_the_port_follows_from_the_jobs_number(job_number: str, port: int) -> None:
    ports = {line for script in SCRIPTS.values() for line in lines_with("MASTER_PORT=$((", script)}
    (found,) = ports
    program = f'job_number={job_number}; {found}\necho "$MASTER_PORT"'
    assert int(subprocess.check_output(["bash", "-c", program])) == port


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "local"])
def test_a_script_that_sets_up_nothing_is_bash(scheduler: str, tmp_path: Path) -> None:
    """A job of each mode on CPUs alone, whose functions have the least to say."""
    sizes = [{"nodes": nodes, "walltime": "10m", **cpus} for nodes in (1, 2) for cpus in ({}, CPUS)]
    (tmp_path / "own.sh").write_text("echo\n")
    for mode, resources in product(("ray", "plain", "direct", "torchrun", "body"), sizes):
        run = {"body": str(tmp_path / "own.sh")} if mode == "body" else {"script": "a.py"}
        job = {"name": "a", "resources": resources, "run": run}
        job |= {} if mode == "body" else {"launch": {"mode": mode}}
        script = render(plan_of(job, scheduler=scheduler))
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert done.stderr == "", (mode, resources)
        one = {"nodes": 1, "run": run, "launch": {"mode": mode}}
        job = {"name": "a", "resources": {"nodes": 2}, "roles": {"one": one, "two": one}}
        if mode != "body":
            script = render(plan_of(job, scheduler=scheduler))
            done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
            assert done.stderr == "", (mode, "roles")
