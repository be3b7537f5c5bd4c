"""The promise, on a real Slurm and on the emulated PBS: every node, every time, or a clear end."""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Cluster, Pbs, Slurm, skip_without, wait_until
from jobs import BRISK, GLOO, JOBGEN, Job, diagnosed, jobgen, spec, submit

skip_without("torch")

pytestmark = pytest.mark.cluster


DIRECT: dict[str, object] = {"launch": {"mode": "direct", "processes_per_node": 2}}
#: for torchrun, of which each node takes a second of processor time, where a third adds nothing
TWO: dict[str, object] = {"resources": {"nodes": 2, "cpus_per_node": 2, "walltime": "5m"}}


def run(
    cluster: Cluster,
    cwd: Path,
    *options: str,
    command: Sequence[str] = JOBGEN,
    **changes: object,
) -> Job:
    target = {"scheduler": cluster.kind, "cwd": cwd, "env": cluster.env}
    return submit(spec(**changes), *options, command=command, **target)  # type: ignore[arg-type]


def test_a_plain_program_wants_neither_torch_nor_python(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    plain = {
        "environment": {"setup": f"export PATH={folder}:$PATH"},
        "launch": {"mode": "plain"},
        "run": {"command": ["bash", "-c", 'echo "$RANK of $WORLD_SIZE on $JOBGEN_NODE"']},
    }
    job = run(cluster, tmp_path, **plain)
    assert job.wait() == "done 0", job.everything()
    said = [path.read_text() for path in sorted(job.run_dir.glob("logs/*/rank-*.out"))]
    assert said == [f"{rank} of 3 on n{rank + 1}\n" for rank in range(3)]


def test_a_plain_program_alone_is_told_of_no_ranks(slurm: Cluster, tmp_path: Path) -> None:
    """By these, Lightning takes the processes of its other GPUs for started."""
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_NTASKS", "SLURM_NPROCS"]
    names += ["SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID"]
    told = f"echo {' '.join(f'${{{name}-}}' for name in names)} told"
    resources = {"nodes": 1, "walltime": "5m"}
    program = {"launch": {"mode": "plain"}, "run": {"command": ["bash", "-c", told]}}
    job = run(slurm, tmp_path, resources=resources, **program)
    assert job.wait() == "done 0", job.everything()
    (log,) = job.run_dir.glob("logs/*/rank-0.out")
    assert log.read_text() == "told\n"


def test_two_jobs_at_once_on_the_same_three_nodes_reduce_over_their_own_six_ranks(
    cluster: Cluster, tmp_path: Path
) -> None:
    mode = DIRECT if cluster.kind == "slurm" else {}  # on PBS two of torchrun
    jobs = [run(cluster, tmp_path / name, **mode) for name in "ab"]
    for job in jobs:
        assert job.wait() == "done 0", job.everything()
        ranks = job.ranks()
        assert sorted(ranks) == list(range(6))
        assert {rank["host"] for rank in ranks.values()} == {"n1", "n2", "n3"}
        assert {rank["WORLD_SIZE"] for rank in ranks.values()} == {"6"}
        assert {rank["sum"] for rank in ranks.values()} == {21.0}
        assert {rank["JOBGEN_JOB_ID"] for rank in ranks.values()} == {job.id.partition(".")[0]}
        assert (job.run_dir / "DONE").exists()
    cluster.wait(jobs[0].id)  # of a job that goes PBS would tell more
    assert diagnosed(jobs[0], cluster, tmp_path / "a")["cause"] == "healthy"
    told = jobgen("report", jobs[0].id, "--json", env=cluster.env, cwd=tmp_path / "a")
    (found,) = json.loads(told.stdout)["runs"]
    assert found["state"] == "done"
    assert [place["node"] for place in found["places"]] == ["n1", "n2", "n3"]
    assert sorted(rank for place in found["places"] for rank in place["ranks"]) == list(range(6))
    used = {use["what"]: use for use in found["uses"]}
    assert used["walltime"]["asked"] == "5 min for each start"
    assert used["walltime"]["source"] == "run folder"
    assert used["CPUs"]["asked"] == "6 CPUs"
    ports = {
        line.rpartition(":")[2]
        for job in jobs
        for line in (job.run_dir / "logs/n1/agent.log").read_text().splitlines()
        if "the rendezvous is at" in line
    }
    assert len(ports) == 2


# Processes differ, what is asked of the scheduler does not; torch itself reads rendezvous and
# interface.
STATIC = {
    "launch": {"processes_per_node": [2, 1], "rendezvous": "static", "interface": "eth0"},
    "run": GLOO,
    **TWO,
}
UNEQUAL = {
    "launch": {"processes_per_node": [2, 1, 1], "mode": "direct"},
    "resources": {"nodes": 3, "cpus_per_node": 2},
}
# GPUs differ: a heterogeneous job on Slurm, a select of two chunks on PBS.
GPUS = {
    "resources": {"gpus_per_node": [4, 4, 2], "cpus_per_gpu": 1},
    "launch": {"mode": "direct"},
}


@pytest.mark.parametrize(
    ("cluster", "changes"),
    [("slurm", STATIC), ("pbs", UNEQUAL), ("slurm", GPUS), ("pbs", GPUS)],
    ids=["slurm-static-interface", "pbs-processes", "slurm-gpus", "pbs-gpus"],
    indirect=["cluster"],
)
def test_unequal_nodes_form_one_world(
    cluster: Cluster, tmp_path: Path, changes: dict[str, Any]
) -> None:
    job = run(cluster, tmp_path, **changes)
    assert job.wait() == "done 0", job.everything()
    ranks = job.ranks()
    processes = [4, 4, 2] if changes is GPUS else changes["launch"]["processes_per_node"]
    size = sum(processes)
    assert {rank["sum"] for rank in ranks.values()} == {size * (size + 1) / 2}
    places = [(ranks[rank]["host"], int(ranks[rank]["LOCAL_RANK"])) for rank in range(size)]
    nodes = enumerate(processes, 1)
    assert places == [(f"n{node}", local) for node, count in nodes for local in range(count)]


def test_a_worker_that_raises_on_the_last_node_ends_the_job_with_its_traceback(
    slurm: Cluster, tmp_path: Path
) -> None:
    options = ("--set", "run.args.raise-on=2")
    job = run(slurm, tmp_path, *options, run=GLOO, launch={"processes_per_node": [1, 2]}, **TWO)
    job.wait_for(job.errors)
    assert slurm.wait(job.id)["JobState"] == "FAILED"  # and not by its walltime
    assert job.outcome() == "failed 1", job.everything()
    (name,) = [name for name, text in job.errors().items() if "planted on rank 2" in text]
    assert name == "n2-2.json"
    assert "RuntimeError: planted on rank 2" in (job.run_dir / "logs/n2/rank-2.err").read_text()
    said = jobgen("status", job.id, env=slurm.env, cwd=tmp_path)
    assert said.stdout.startswith("failed\n")
    found = diagnosed(job, slurm, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == ("exception", 2, "n2")
    assert found["exception"] == "RuntimeError: planted on rank 2"
    assert "allreduce.py:" in found["place"]


def test_submit_with_wait_shows_the_first_error_and_exits_7(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(spec(**DIRECT)))
    words = ("--scheduler", cluster.kind, "--wait", "--set", "run.args.exit-on=3")
    done = jobgen("submit", *words, env=cluster.env, cwd=tmp_path)
    assert done.returncode == 7
    assert len(done.stdout.splitlines()) == 1
    assert "'RANK': '0'" in done.stderr
    assert "FAILED with exit code 3: rank 3 on n2, see" in done.stderr
    found = diagnosed(Job(done.stdout.strip(), tmp_path, "reduce"), cluster, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == ("exit 3", 3, "n2")


def test_a_worker_that_dies_is_started_again_with_all_others(
    slurm: Cluster, tmp_path: Path
) -> None:
    launch = {"processes_per_node": 2, "max_restarts": 1}
    job = run(slurm, tmp_path, "--set", "run.args.die-once-on=3", launch=launch, **TWO)
    assert job.wait() == "done 0", job.everything()
    assert (job.run_dir / "died").exists()
    assert [rank["sum"] for rank in job.ranks().values()] == [10.0] * 4


def test_an_agent_that_is_killed_ends_the_job_and_leaves_no_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = run(cluster, tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go", **TWO)
    job.wait_for(lambda: len(job.ranks()) == 4)
    agents = cluster.on("n2", "pgrep", "-f", "torch.distributed.run .*--master-addr").split()
    cluster.on("n2", "kill", "-KILL", *agents)
    assert job.wait().startswith("failed"), job.everything()  # the others would wait for ever
    cluster.wait(job.id)
    assert not any(cluster.processes(r"allreduce\.py").values())
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == ("killed", None, "n2"), found


def test_worlds_that_a_wrapper_starts_on_each_node_are_no_good_end(
    pbs: Cluster, tmp_path: Path
) -> None:
    """The wrapper tells a process what torchrun would; no name of a launcher is in it."""
    # It ends once the script, which looks each second, has noted both.
    seen = "until [ $(cat $JOBGEN_RUN_DIR/attempts/0/worlds-* | grep -c ^T) = 2 ]; do sleep 1; done"
    (tmp_path / "wrapper.py").write_text(
        "import os, subprocess, sys\n"
        "own = f\"/tmp/torchelastic_{os.environ['JOBGEN_NODE']}/error.json\"\n"
        "rank = dict(os.environ, RANK='0', WORLD_SIZE='2', TORCHELASTIC_ERROR_FILE=own)\n"
        f"sys.exit(subprocess.run(['sh', '-c', '{seen}'], env=rank).returncode)\n"
    )
    job = run(pbs, tmp_path, **TWO, run={"script": str(tmp_path / "wrapper.py")})
    assert job.wait() == "failed 1", job.everything()
    assert diagnosed(job, pbs, tmp_path)["cause"] == "worlds"


@pytest.mark.parametrize(
    ("cluster", "launcher", "mode"),
    [("slurm", "auto", "torchrun"), ("pbs", "auto", "direct"), ("pbs", "mpiexec", "direct")],
    indirect=["cluster"],
)
def test_a_cancelled_job_leaves_no_process(
    cluster: Cluster, tmp_path: Path, launcher: str, mode: str
) -> None:
    launch = {"mode": mode, "launcher": launcher, "processes_per_node": 2}
    changes = _with_mpiexec(cluster, tmp_path, "hydra") if launcher == "mpiexec" else {}
    changes |= TWO if mode == "torchrun" else {}
    options = ("--set", f"run.args.sleep-until={tmp_path}/go")
    job = run(cluster, tmp_path, *options, launch=launch, **changes)
    job.wait_for(lambda: len(job.ranks()) == (4 if mode == "torchrun" else 6))
    done = jobgen("cancel", job.id, env=cluster.env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cluster.wait(job.id)
    wait_until(lambda: not any(cluster.processes(r"allreduce\.py|/script ").values()))
    said = jobgen("status", job.id, env=cluster.env, cwd=tmp_path)
    assert said.stdout.startswith("cancelled\n")
    assert diagnosed(job, cluster, tmp_path)["cause"] == "cancelled"


def test_direct_shows_the_error_of_the_rank_that_failed_first(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = run(cluster, tmp_path, "--set", "run.args.raise-on=0", **DIRECT)
    assert job.wait() == "failed 1", job.everything()
    output = _output(cluster, tmp_path, job)
    assert "FAILED with exit code 1: rank 0 on n1, see" in output
    assert "RuntimeError: planted" in output
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == ("exception", 0, "n1")


@pytest.mark.parametrize(
    ("cluster", "what"),
    [("slurm", "allreduce.py"), ("slurm", "/script run_node"), ("pbs", "/script run_node")],
    indirect=["cluster"],
)
def test_direct_job_whose_process_is_killed_ends_and_leaves_no_process(
    cluster: Cluster, tmp_path: Path, what: str
) -> None:
    job = run(cluster, tmp_path, "--set", f"run.args.sleep-until={tmp_path}/go", **DIRECT)
    job.wait_for(lambda: len(job.ranks()) == 6)
    pid = cluster.on("n2", "pgrep", "-f", what).split()[0]  # the oldest
    cluster.on("n2", "kill", "-KILL", pid)
    assert job.wait().startswith("failed"), job.everything()
    output = _output(cluster, tmp_path, job)
    assert "FAILED with exit code 137: rank " in output
    assert " on n2, see" in output
    cluster.wait(job.id)
    found = diagnosed(job, cluster, tmp_path)
    assert found["cause"] in ("exit -9", "killed"), found
    assert found["node"] == "n2"
    wait_until(lambda: not any(cluster.processes(r"allreduce\.py|/script ").values()))


def _output(cluster: Cluster, folder: Path, job: Job) -> str:
    """The job's own messages, once it has ended."""
    cluster.wait(job.id)
    (path,) = [*folder.glob("reduce-*.out"), *folder.glob("reduce.o*")]
    return path.read_text()


MPIEXEC = {"hydra": "/usr/bin/mpiexec.hydra", "openmpi": "/usr/bin/mpiexec.openmpi"}


def _with_mpiexec(cluster: Cluster, folder: Path, kind: str) -> dict[str, object]:
    """The environment of a job in which this mpiexec is the first."""
    if kind != "pals" and not Path(MPIEXEC[kind]).exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {MPIEXEC[kind]}")
        pytest.skip(f"there is no {MPIEXEC[kind]}")
    here = Path(__file__).parent / "mpiexec"
    found = here / "pals/mpiexec" if kind == "pals" else Path(MPIEXEC[kind])
    (folder / "bin").mkdir(parents=True)
    # No link: Hydra looks for the rest of itself beside its own name.
    (folder / "bin/mpiexec").write_text(f'#!/bin/sh\nexec {found} "$@"\n')
    (folder / "bin/mpiexec").chmod(0o755)
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if cluster.kind == "pbs":
        variables |= {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(here / "ssh_by_tm")}
    setup = f"PATH={folder}/bin:$PATH"
    return {"environment": {"venv": sys.prefix, "variables": variables, "setup": setup}}


@pytest.mark.parametrize(
    ("scheduler", "kind", "mode"),
    [
        ("slurm", "hydra", "torchrun"),
        ("slurm", "openmpi", "direct"),
        ("pbs", "hydra", "direct"),
        ("pbs", "pals", "direct"),
    ],
)
def test_mpiexec_starts_every_process_and_one_that_fails_ends_all(
    request: pytest.FixtureRequest, tmp_path: Path, scheduler: str, kind: str, mode: str
) -> None:
    cluster: Cluster = request.getfixturevalue(scheduler)
    processes, size = ([2, 1], 3) if mode == "torchrun" else ([2, 1, 1], 4)
    changes = _with_mpiexec(cluster, tmp_path, kind) | {
        "launch": {"mode": mode, "launcher": "mpiexec", "processes_per_node": processes},
        "resources": {"nodes": len(processes), "cpus_per_node": 2},
    }
    job = run(cluster, tmp_path / "good", **changes)
    assert job.wait() == "done 0", job.everything() + _output(cluster, tmp_path / "good", job)
    ranks = job.ranks()
    assert {rank["sum"] for rank in ranks.values()} == {size * (size + 1) / 2}
    hosts = [ranks[rank]["host"] for rank in range(size)]
    assert (hosts if mode == "direct" else sorted(hosts)) == ["n1", "n1", "n2", "n3"][:size]

    job = run(cluster, tmp_path / "bad", "--set", f"run.args.raise-on={size - 1}", **changes)
    assert job.wait() == "failed 1", job.everything()
    output = _output(cluster, tmp_path / "bad", job)
    assert f"FAILED with exit code 1: rank {size - 1} on n" in output
    wait_until(lambda: not any(cluster.processes(r"allreduce\.py|/script ").values()))


def test_an_mpirun_of_ones_own_fills_all_nodes_though_it_was_built_without_pbs(
    pbs: Cluster, tmp_path: Path
) -> None:
    changes: Any = _with_mpiexec(pbs, tmp_path, "openmpi") | {
        "launch": {"mode": "plain", "processes_per_node": 2},
        "run": {"command": ["mpiexec", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(uname -n)"]},
    }
    agent = str(Path(__file__).parent / "mpiexec/ssh_by_tm")
    changes["environment"]["variables"]["OMPI_MCA_plm_rsh_agent"] = agent
    job = run(pbs, tmp_path / "here", **changes)
    assert job.wait() == "done 0", job.everything()
    (log,) = job.run_dir.glob("logs/*/rank-0.out")
    assert sorted(log.read_text().splitlines()) == [f"{rank} n{rank // 2 + 1}" for rank in range(6)]


@pytest.mark.parametrize(
    ("cluster", "mode"),
    [("slurm", "torchrun"), ("pbs", "direct")],
    indirect=["cluster"],
)
def test_a_job_on_one_node_that_fails_has_failed(
    cluster: Cluster, tmp_path: Path, mode: str
) -> None:
    """Though pbsdsh, which starts the processes of direct mode, returns 0 whatever they do.

    torchrun makes 1 of every exit code: the process's own is for diagnose to find.
    """
    launch = {"mode": mode, "processes_per_node": 2}
    resources = {"nodes": 1, "cpus_per_node": 2}
    job = run(cluster, tmp_path, "--set", "run.args.exit-on=1", launch=launch, resources=resources)
    code = 1 if mode == "torchrun" else 3
    assert job.wait() == f"failed {code}", job.everything()
    assert f"FAILED with exit code {code}: rank 1 on n" in _output(cluster, tmp_path, job)
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["rank"]) == ("exit 3", 1)


def test_slurm_ends_a_job_whose_node_is_lost_and_the_node_is_named(
    slurm: Slurm, tmp_path: Path
) -> None:
    """Within SlurmdTimeout, which is 20 s here; a job that may be requeued would start again."""
    options = ("--set", f"run.args.sleep-until={tmp_path}/go")
    job = run(slurm, tmp_path, *options, directives=["#SBATCH --no-requeue"], **DIRECT)
    job.wait_for(lambda: len(job.ranks()) == 6)
    slurm.fail("n2")
    try:
        shown = slurm.wait(job.id)
        assert shown["JobState"] == "NODE_FAIL"
        found = diagnosed(job, slurm, tmp_path)
        assert (found["cause"], found["node"]) == ("node-lost", "n2"), found
        assert not any(slurm.processes(r"allreduce\.py").values())
    finally:
        slurm.heal("n2")


@pytest.mark.parametrize(
    ("cluster", "link_only", "mode"),
    [("pbs", False, "direct"), ("pbs", True, "torchrun")],
    ids=["pbs-power-direct", "pbs-network"],
    indirect=["cluster"],
)
def test_the_loss_of_another_node_ends_the_job_and_names_it(
    cluster: Cluster, tmp_path: Path, link_only: bool, mode: str
) -> None:
    """`tests/scripts/test_watch.py` has the time that it takes of other jobs."""
    launch = {"mode": mode, "processes_per_node": 2}
    options = ("--set", f"run.args.sleep-until={tmp_path}/go")
    job = run(cluster, tmp_path, *options, command=BRISK, launch=launch, **TWO)
    job.wait_for(lambda: len(job.ranks()) == 4)
    cluster.fail("n2", link_only=link_only)
    try:
        assert job.wait() == "failed 1", job.everything()
        (output,) = [*tmp_path.glob("reduce-*.out"), *tmp_path.glob("reduce.o*")]
        assert re.search("FAILED: n2 is lost: no sign of life for 2[0-9] s", output.read_text())
        found = diagnosed(job, cluster, tmp_path)
        assert (found["cause"], found["node"]) == ("node-lost", "n2"), found
        # Nobody can tell a node that is cut off: it looks for itself.
        wait_until(lambda: not any(cluster.processes(r"allreduce\.py").values()), every=1)
    finally:
        cluster.heal("n2")
        if not cluster.ended(job.id):
            cluster.cancel(job.id)


def test_a_busy_port_is_called_a_busy_port(pbs: Cluster, tmp_path: Path) -> None:
    held = run(pbs, tmp_path / "held", "--set", f"run.args.sleep-until={tmp_path}/go", **DIRECT)
    held.wait_for(held.ranks)
    # The next job's id is known, and with it its port, which is taken before the job starts.
    port = 20000 + (int(held.id.partition(".")[0]) + 1) % 10000
    (tmp_path / "listen.py").write_text(
        "import os, socket, time\n"
        f"taken = socket.create_server(('', {port}))\n"
        f"open('{tmp_path}/listening', 'w')\n"
        f"while not os.path.exists('{tmp_path}/go'): time.sleep(0.1)\n"
    )
    listen = f"setsid python3 {tmp_path}/listen.py >/dev/null 2>&1 </dev/null &"
    pbs.on("n1", "sh", "-c", listen)
    held.wait_for((tmp_path / "listening").exists)
    job = run(pbs, tmp_path / "busy", launch={"mode": "direct"})
    assert job.wait() == "failed 1"
    (tmp_path / "go").touch()
    log = (job.run_dir / "logs/n1/agent.log").read_text()
    assert f"port {port} on n1 is in use by another program" in log
    found = diagnosed(job, pbs, tmp_path / "busy")
    assert (found["cause"], found["node"]) == ("port-in-use", "n1"), found
    assert held.wait() == "done 0", held.everything()


def test_an_environment_that_is_not_there_is_said(slurm: Cluster, tmp_path: Path) -> None:
    job = run(slurm, tmp_path, environment={"venv": "/no/such/venv"})
    assert job.wait() == "failed 1"
    # The first node to notice ends the others, maybe before they have.
    logs = [path.read_text() for path in job.run_dir.glob("logs/*/agent.log")]
    assert any("no virtual environment on n" in log for log in logs), job.everything()
    assert diagnosed(job, slurm, tmp_path)["cause"] == "environment-missing"


def test_modules_are_loaded_on_every_node_and_one_that_is_not_there_is_named(
    slurm: Cluster, tmp_path: Path
) -> None:
    """With Environment Modules as Debian has them, and a job that inherits a loaded module."""
    if not Path("/usr/share/modules/init/bash").exists():
        assert os.environ.get("CI") != "true", "CI must have environment-modules"
        pytest.skip("there is no environment-modules")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(f"#%Module\nsetenv WITH_{name.upper()} 1\n")
    modules = {"first": "purge", "use": [f"{tmp_path}/new"], "load": ["new"]}
    command = ["sh", "-c", 'echo "${WITH_OLD-no} ${WITH_NEW-no} ${LOADEDMODULES-no}"']
    # The job is submitted by somebody who has a module loaded, which Slurm hands on.
    loaded = {"WITH_OLD": "1", "LOADEDMODULES": "old", "_LMFILES_": f"{tmp_path}/old/old"}
    loaded["MODULEPATH"] = f"{tmp_path}/old"
    environment = {"venv": sys.prefix, "modules": modules}
    changes = spec(environment=environment, run={"command": command}, **DIRECT)
    env = {**slurm.env, **loaded}
    job = submit(changes, scheduler="slurm", cwd=tmp_path / "good", env=env)
    assert job.wait() == "done 0", job.everything()
    printed = [path.read_text() for path in job.run_dir.glob("logs/*/rank-*.out")]
    assert printed == ["no 1 new\n"] * 6
    changes["environment"]["modules"]["load"] = ["new", "none"]
    job = submit(changes, scheduler="slurm", cwd=tmp_path / "bad", env=env)
    assert job.wait() == "failed 1", job.everything()
    logs = [path.read_text() for path in job.run_dir.glob("logs/*/agent.log")]
    assert any("error: module load failed on n" in log for log in logs), job.everything()
    assert diagnosed(job, slurm, tmp_path / "bad")["cause"] == "module-missing"


def test_a_job_on_fewer_nodes_than_the_script_is_for_is_refused_by_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    rendered = jobgen(
        "render", "--scheduler", cluster.kind, env=cluster.env, cwd=_with_spec(tmp_path)
    )
    (tmp_path / "job").write_text(rendered.stdout)
    fewer = "--nodes=2" if cluster.kind == "slurm" else "-lselect=2:ncpus=2:mpiprocs=1"
    cluster.wait(cluster.submit(fewer, "job", cwd=tmp_path))
    (output,) = [*tmp_path.glob("reduce-*.out"), *tmp_path.glob("reduce.o*")]
    assert "this script is for 3 nodes, the job has 2: n1 n2" in output.read_text()


def _with_spec(folder: Path) -> Path:
    (folder / "job.yaml").write_text(json.dumps(spec()))
    return folder


def test_a_sweep_is_one_array_whose_tasks_do_not_stop_each_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Four tasks, two at a time; the first fails, the others wait until they are looked at."""
    held = f"{tmp_path}/go"
    choices = [
        {"raise-on": 1},
        *({"sleep-until": held, "environment.variables.N": n} for n in "bcd"),
    ]
    job = run(
        cluster,
        tmp_path,
        resources={"nodes": 2, "cpus_per_node": 1},
        launch={"mode": "direct"},
        array={"list": choices, "at_once": 2},
    )
    tasks = [job.task(index) for index in range(4)]
    assert tasks[0].wait() == "failed 1", tasks[0].everything()
    for index in (1, 2):
        tasks[index].wait_for(lambda index=index: len(tasks[index].ranks()) == 2)

    def state(one: Job) -> str:
        said = jobgen("status", one.id, env=cluster.env, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        return said.stdout.splitlines()[0]

    assert [state(one) for one in (job, *tasks)] == [
        "running",
        "failed",
        "running",
        "running",
        "queued",
    ]
    assert not tasks[3].run_dir.exists()  # two at a time
    (tmp_path / "go").touch()
    for task in tasks[1:]:
        assert task.wait() == "done 0", task.everything()
    cluster.wait(job.id)
    assert [state(one) for one in (job, tasks[0], tasks[3])] == ["failed", "failed", "done"]
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["rank"]) == ("exception", 1)
    assert found["job"].endswith(f" {tasks[0].id}")
    for index, task in enumerate(tasks[1:], 1):
        ranks = task.ranks()
        assert {rank["sum"] for rank in ranks.values()} == {3.0}
        assert {rank["JOBGEN_TASK"] for rank in ranks.values()} == {str(index)}
        assert {rank["index"] for rank in ranks.values()} == {str(index)}
        assert {rank["JOBGEN_JOB_ID"] for rank in ranks.values()} == {task.run_dir.name}
    logs = [log for task in tasks for log in task.run_dir.glob("logs/*/agent.log")]
    ports = {re.search(r"rendezvous is at (\S+)", log.read_text())[1] for log in logs}  # type: ignore[index]
    assert len({port.rpartition(":")[2] for port in ports}) == 4
    outputs = [*tmp_path.glob("reduce-*_3.out"), *tmp_path.glob("reduce.o*.3")]
    assert len(outputs) == 1
    assert "jobgen: task 3: --sleep-until" in outputs[0].read_text()


def test_jobs_come_after_others(cluster: Cluster, tmp_path: Path) -> None:
    small = {"resources": {"nodes": 1, "cpus_per_node": 1}, **DIRECT}
    first = run(
        cluster, tmp_path / "first", "--set", f"run.args.sleep-until={tmp_path}/go", **small
    )

    def then(name: str, kind: str, parent: Job) -> Job:
        return run(cluster, tmp_path / name, "--after", f"{kind}:{parent.id}", **small)

    well, never = then("well", "afterok", first), then("never", "afternotok", first)
    begun = then("begun", "after", first)
    assert begun.wait() == "done 0", begun.everything()
    for job, name in ((well, "well"), (never, "never")):
        said = jobgen("status", job.id, env=cluster.env, cwd=tmp_path / name)
        assert said.stdout.startswith("queued\n")
        assert job.outcome() is None
    (tmp_path / "go").touch()
    assert well.wait() == "done 0", well.everything()
    assert first.outcome() == "done 0"
    # What can come true no more does not wait for ever.
    cluster.wait(never.id)
    said = jobgen("status", never.id, env=cluster.env, cwd=tmp_path / "never")
    # PBS without a history of ended jobs says nothing of what it has deleted.
    assert said.stdout.startswith({"slurm": "cancelled\n", "pbs": "unknown\n"}[cluster.kind])
    assert never.outcome() is None


def test_a_variable_of_the_submitting_shell_reaches_every_process_and_stays_nowhere(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = ["python3", "-c", "import os; print(os.environ['FROM_HERE'])"]
    content = spec(run={"command": command}, **DIRECT)
    content["environment"] = content["environment"] | {"from_shell": ["FROM_HERE"]}
    value = "4f1c-77aa-9e"
    env = cluster.env | {"FROM_HERE": value}
    job = submit(content, scheduler=cluster.kind, cwd=tmp_path, env=env)
    assert job.wait() == "done 0", job.everything()
    said = [path.read_text() for path in job.run_dir.glob("logs/*/rank-*.out")]
    assert said == [f"{value}\n"] * 6
    cluster.wait(job.id)  # the script leaves its outcome first, and then takes away what was secret
    kept = [path for path in job.run_dir.rglob("*") if path.is_file()]
    assert [path for path in kept if "logs" not in path.parts and value in path.read_text()] == []


def test_slurm_takes_what_is_asked_for_or_says_what_it_is(slurm: Cluster, tmp_path: Path) -> None:
    _with_spec(tmp_path)
    asked = ("resources.exclusive=true", "notify={email: me@x.org, on: [begin, end, fail]}")
    words = [word for each in (*asked, "qos=normal") for word in ("--set", each)]
    target = ("--scheduler", "slurm", "-o")
    jobgen("render", *target, "job.sbatch", *words, env=slurm.env, cwd=tmp_path)
    tested = slurm.run("sbatch", "--test-only", "job.sbatch", cwd=tmp_path)
    assert "to start at" in tested.stderr
    for asked_for, message in (
        ("resources.constraint=a100&nvlink", "Invalid feature specification"),
        ("reservation=maint", "Requested reservation is invalid"),
    ):
        more = ("bad.sbatch", "--set", asked_for)
        jobgen("render", *target, *more, env=slurm.env, cwd=tmp_path)
        tested = slurm.run("sbatch", "--test-only", "bad.sbatch", cwd=tmp_path, check=False)
        assert (tested.returncode, message in tested.stderr) == (1, True), tested.stderr


def test_slurm_says_at_submission_that_the_job_never_would_start(
    slurm: Cluster, tmp_path: Path
) -> None:
    _with_spec(tmp_path)
    ended = jobgen("submit", "--scheduler", "slurm", env=slurm.env, cwd=tmp_path)
    assert "test-only" not in ended.stderr, ended.stderr  # as it starts at once
    slurm.run("scancel", ended.stdout.strip())
    long = ("--set", "resources.walltime=400h")  # above the partition's; the job would only wait
    ended = jobgen("submit", "--scheduler", "slurm", *long, env=slurm.env, cwd=tmp_path)
    assert ended.returncode in (0, 5)
    assert "time limit" in ended.stderr, ended.stderr
    if ended.stdout:
        assert "warning: sbatch --test-only says that this job will not run: " in ended.stderr
        slurm.run("scancel", ended.stdout.strip())


def test_slurm_job_submitted_with_export_none_still_starts(slurm: Cluster, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(spec(**DIRECT)))
    jobgen("render", "--scheduler", "slurm", "-o", "job.sbatch", env=slurm.env, cwd=tmp_path)
    job = Job(slurm.submit("--export=NONE", "job.sbatch", cwd=tmp_path), tmp_path, "reduce")
    assert job.wait() == "done 0", job.everything()


def test_slurm_job_is_its_own_where_another_job_submits_it(slurm: Cluster, tmp_path: Path) -> None:
    """sbatch hands on the variables of the job around; srun would take them for options."""
    resources = {**spec()["resources"], "memory_per_node": "1GB"}
    (tmp_path / "job.yaml").write_text(json.dumps(spec(resources=resources, **DIRECT)))
    jobgen("render", "--scheduler", "slurm", "-o", "job.sbatch", env=slurm.env, cwd=tmp_path)
    asked = "--nodes=1 --ntasks-per-node=2 --gpus-per-node=2 --mem-per-cpu=100M"
    outer = f"#!/bin/bash\n#SBATCH {asked}\n#SBATCH hetjob\n#SBATCH {asked}\n"
    submit = "srun --cpu-bind=none --ntasks=1 --overlap sbatch --parsable job.sbatch >id.new"
    (tmp_path / "outer").write_text(f"{outer}{submit}\nmv id.new id\n")
    around = slurm.submit("outer", cwd=tmp_path)
    slurm.wait(around)
    job = Job((tmp_path / "id").read_text().strip(), tmp_path, "reduce")
    assert job.wait() == "done 0", job.everything()


def test_slurm_jobs_that_share_a_node_have_gpus_of_their_own(
    slurm: Cluster, tmp_path: Path
) -> None:
    show = f'echo "$CUDA_VISIBLE_DEVICES"; until [ -e {tmp_path}/go ]; do sleep 0.2; done'
    changes: dict[str, object] = {
        "resources": {"nodes": 1, "gpus_per_node": 2, "cpus_per_gpu": 1, "walltime": "5m"},
        "launch": {"mode": "direct"},
        "run": {"command": ["bash", "-c", show]},
    }
    jobs = [run(slurm, tmp_path / name, **changes) for name in "ab"]

    def shown(job: Job) -> dict[str, str]:
        found = {path.parent.name: path.read_text() for path in job.run_dir.glob("logs/*/*.out")}
        return {node: text.strip() for node, text in found.items() if text}

    jobs[0].wait_for(lambda: all(map(shown, jobs)))
    (tmp_path / "go").touch()
    (first, theirs), (second, others) = (next(iter(shown(job).items())) for job in jobs)
    assert first == second == "n1"
    assert sorted([*theirs.split(","), *others.split(",")]) == ["0", "1", "2", "3"]
    assert [job.wait() for job in jobs] == ["done 0", "done 0"]


def test_slurm_output_folder_of_a_directive_is_made(slurm: Cluster, tmp_path: Path) -> None:
    directives = ["#SBATCH --output=logs/deep/%j.txt"]
    job = run(slurm, tmp_path, run={"command": ["true"]}, directives=directives, **DIRECT)
    slurm.wait(job.id)
    assert "DONE" in (tmp_path / f"logs/deep/{job.id}.txt").read_text()


def test_pbs_node_file_may_repeat_full_names(pbs: Cluster, tmp_path: Path) -> None:
    """`test_nodes_of_pbs_meet_in_a_domain` has them in direct mode."""
    _with_spec(tmp_path)
    options = ("--scheduler", "pbs", "--set", "resources.nodes=2")
    jobgen("render", *options, "-o", "job.pbs", env=pbs.env, cwd=tmp_path)
    with pbs.settings(domain="cluster.test"):  # type: ignore[attr-defined]
        select = "-lselect=2:ncpus=2:mpiprocs=2"
        job = Job(pbs.submit(select, "job.pbs", cwd=tmp_path), tmp_path, "reduce")
        assert job.wait() == "done 0", job.everything()
    nodes = {rank["JOBGEN_NODE"] for rank in job.ranks().values()}
    assert nodes == {f"n{number}.cluster.test" for number in (1, 2)}


def test_pbs_walltime_ends_processes_on_all_nodes(pbs: Pbs, tmp_path: Path) -> None:
    options = ("--set", f"run.args.sleep-until={tmp_path}/go", "--set", "resources.walltime=25s")
    with pbs.settings(history=True):
        job = run(pbs, tmp_path, *options, **DIRECT)
        shown = pbs.wait(job.id)
        assert shown["Exit_status"] != 0
    assert not any(pbs.processes(r"allreduce\.py").values())
    assert diagnosed(job, pbs, tmp_path)["cause"] == "walltime"
