"""`jobgen forward`: a port of a job's node on this machine, by ssh to an sshd on the node."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster_fixtures import PATIENCE, Cluster, Pbs, Slurm, wait_until
from jobs import JOBGEN, jobgen, submit

PORT = 8123
CONTENT: dict[str, Any] = {
    "name": "web",
    "resources": {"nodes": 2, "cpus_per_node": 1, "walltime": "5m"},
    "launch": {"mode": "direct"},
    "environment": {"venv": sys.prefix},
    "run": {
        "command": [
            "bash",
            "-c",
            "mkdir -p $(hostname) && cd $(hostname) && hostname >index.html && "
            f"exec python3 -m http.server {PORT} --bind 127.0.0.1",
        ]
    },
}


def add_ssh(cluster: Cluster, folder: Path) -> dict[str, str]:
    """An ssh that reaches each node by an sshd of its own there; the environment that has it."""
    for name in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    sshd = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
    (folder / "sshd_config").write_text(
        f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\n"
        "PasswordAuthentication no\nPidFile none\nUsePAM no\n"
    )
    own = [f"{key}={value}" for key, value in cluster.script_env.items() if "JOBGEN" in key]
    serve = f"mkdir -p /run/sshd && exec {sshd} -i -f {folder}/sshd_config"
    (folder / "on").write_text(
        f"#!/bin/sh\nexport {' '.join(own)}\n"
        f"exec {cluster.scripts}/{cluster.kind}-on \"$1\" sh -c '{serve}'\n"
    )
    (folder / "config").write_text(
        f"Host n1 n2 n3\nProxyCommand {folder}/on %h\nIdentityFile {folder}/user\n"
        "IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "LogLevel ERROR\nBatchMode yes\n"
    )
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n'
    )
    for program in (folder / "on", folder / "bin" / "ssh"):
        program.chmod(0o755)
    return {**cluster.env, "PATH": f"{folder}/bin:{cluster.env['PATH']}"}


def get(port: int, forward: subprocess.Popen[str]) -> str:
    """What the page behind a port says, once something listens; nothing if the forward ends."""
    end = time.monotonic() + PATIENCE
    while forward.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as page:
                return str(page.read().decode())
        except OSError:
            time.sleep(0.1)
    return ""


def list_forwards(port: int) -> list[str]:
    """Command lines on this machine that forward to a port of it."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        lines += [line] if f"127.0.0.1:{port}:localhost" in line else []
    return lines


def forward_twice(scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
    job = submit(CONTENT, scheduler=scheduler, cwd=cwd, env=env)
    wait_until(lambda: len(list(cwd.glob("*/index.html"))) == 2)
    for number in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            local = free.getsockname()[1]
        words = [job.id, str(PORT), "--node", str(number), "--local-port", str(local)]
        forward = subprocess.Popen(
            [*JOBGEN, "forward", *words], env=env, cwd=cwd, stderr=subprocess.PIPE, text=True
        )
        try:
            page = get(local, forward)
        finally:
            forward.terminate()
            _, err = forward.communicate(timeout=PATIENCE)
        assert page == f"n{number + 1}\n", err
        assert f"http://127.0.0.1:{local}/ is port {PORT} of n{number + 1}" in err
        wait_until(lambda local=local: not list_forwards(local))
    printed = jobgen("forward", job.id, str(PORT), "--print", env=env, cwd=cwd).stdout
    assert printed.endswith(f":localhost:{PORT} n1\n")
    jobgen("cancel", job.id, env=env, cwd=cwd)
    wait_until(lambda: jobgen("forward", job.id, "80", env=env, cwd=cwd).returncode == 2)


def test_a_port_of_a_job_on_slurm(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    forward_twice("slurm", add_ssh(slurm, tmp_path), tmp_path / "work")


def test_a_port_of_a_job_on_pbs(pbs: Pbs, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    forward_twice("pbs", add_ssh(pbs, tmp_path), tmp_path / "work")
