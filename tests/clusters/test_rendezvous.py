"""How the agents of torchrun meet: nobody else on the network runs code in a job, and ranks follow
the scheduler's order. With torch itself."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_fixtures import PATIENCE
from jobs import Job, spec, submit
from support import plan_of

from jobgen.rendering.render import render

pytest.importorskip("torch", reason="jobs need torch")

pytestmark = pytest.mark.torch

# What another user of the network can do: ask the store for its keys, and send pickles that leave a
# file where they are loaded.
ATTACK = """
import base64, datetime, os, pickle, sys
import torch.distributed as dist

class Planted:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[2]}",)

timeout = datetime.timedelta(seconds=10)
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False, wait_for_workers=False,
                      timeout=timeout)
planted = pickle.dumps(Planted())
for key in {*store.list_keys(), "torch.rendezvous.x", "torch.rendezvous.none"}:
    if "num_member" not in key and "last_member" not in key:
        store.set(key, base64.b64encode(planted) if "rendezvous" in key else planted)
print(*store.list_keys())
"""


def attack(port: int, canary: Path) -> str:
    """Send it to the store at `port`; return the keys that the store has told."""
    argv = [sys.executable, "-c", ATTACK, str(port), str(canary)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def appears(path: Path, seconds: float) -> bool:
    """Whether it does; agents look at the rendezvous every 5 s."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not path.exists():
        time.sleep(0.2)
    return path.exists()


def run_job(folder: Path, rendezvous: str) -> tuple[Job, int]:
    """A job of two nodes that waits for a file, and the port at which they meet."""
    content = spec(
        resources={"nodes": 2, "walltime": "20m"},
        launch={"processes_per_node": 1, "rendezvous": rendezvous},
        run={"command": ["sh", "-c", f"touch {folder}/started; while sleep 0.5; do :; done"]},
    )
    job = submit(content, scheduler="local", cwd=folder)
    job.wait_for((folder / "started").exists)
    log = (job.run_dir / "logs/node0/agent.log").read_text()
    found = re.search(r"the rendezvous is at 127\.0\.0\.1:(\d+)", log)
    assert found, log
    return job, int(found[1])


@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_what_another_user_sends_to_the_rendezvous_does_not_run(
    tmp_path: Path, rendezvous: str
) -> None:
    job, port = run_job(tmp_path, rendezvous)
    try:
        keys = attack(port, tmp_path / "canary")
        assert keys.strip()
        if rendezvous == "static":
            assert not appears(tmp_path / "canary", 7)
            assert job.outcome() is None, job.everything()
        else:  # whoever reaches the port can end the job, and it says by what
            assert job.wait().startswith("failed")
            assert "posix.system is not part of a rendezvous" in job.everything()
            assert not (tmp_path / "canary").exists()
    finally:
        if not job.outcome():
            os.kill(int(read_pid(job)), 15)
            job.wait()


def read_pid(job: Job) -> str:
    """The process id of a local job's script."""
    found = re.search(r'"pid": (\d+)', (job.run_dir / "job.json").read_text())
    assert found
    return found[1]


SRUN = """#!/bin/bash
# srun as a job of two nodes sees it: the words after its options, once a node, all at once.
while [[ $1 != bash ]]; do shift; done
for node in 0 1; do
    SLURM_NODEID=$node SLURM_PROCID=$node SLURM_LOCALID=0 "$@" &
done
wait
"""


def test_ranks_follow_the_schedulers_order_from_ten_nodes_on(tmp_path: Path) -> None:
    """c10d sorts nodes by name as text: n10, n9."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {"srun": SRUN, "scontrol": "#!/bin/bash\nprintf 'n%d\\n' 9 10\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    content = spec(
        resources={"nodes": 2, "cpus_per_node": 1},
        launch={"processes_per_node": 1},
        environment={"venv": sys.prefix, "setup": "export OMP_NUM_THREADS=1"},
        run={"command": ["sh", "-c", 'echo "$RANK"']},
    )
    script = render(plan_of(content, site="slurm-generic"))
    assert "MASTER_ADDR=${names[0]}\n" in script
    # Both are this machine, where no n9 is known.
    script = script.replace("MASTER_ADDR=${names[0]}\n", "MASTER_ADDR=127.0.0.1\n")
    (tmp_path / "job.sbatch").write_text(script)
    port = 20000 + os.getpid() % 10000
    around = {"SLURM_JOB_ID": str(port), "SLURM_JOB_NODELIST": "n[9-10]"}
    env = {**os.environ, **around, "PATH": f"{tools}:{os.environ['PATH']}"}
    argv = ["bash", "job.sbatch"]
    ended = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    logs = tmp_path.glob("runs/reduce/*/logs/*/rank-*.out")
    ranks = {path.parent.name: int(path.read_text()) for path in logs}
    assert ranks == {"n9": 0, "n10": 1}
