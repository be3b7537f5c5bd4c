"""Run folders as jobs leave them, for tests of what is read from them."""

import os
import time
from pathlib import Path

from jobgen.diagnose import Diagnosis, diagnose
from jobgen.jobs.record import JobRecord
from jobgen.schedulers.base import State

LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.0.7]:41213"
FAILED = State("failed", "exit code 1")


class Run:
    """A run folder of two nodes with two processes each, as a job on Slurm leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = JobRecord("4711", "job", "slurm", str(folder), 0.0, ("sbatch",))
        self.job.save()
        self.write("attempts/0/nodes", "n1\nn2\n")
        self.clock = (self.job.run_dir / "attempts/0/nodes").stat().st_mtime

    def write(self, name: str, text: str, *, after: float = 0) -> None:
        """A file of the run folder, written some seconds after the beginning."""
        path = self.job.run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if after:
            os.utime(path, (self.clock + after, self.clock + after))

    def rank(self, rank: int, text: str, *, after: float, code: int = 1) -> None:
        """A process that fails: what it prints, and what its agent says of it."""
        node = f"n{1 + rank // 2}"
        self.write(f"logs/{node}/rank-{rank}.err", text, after=after)
        agent = self.job.run_dir / f"logs/{node}/agent.log"
        before = agent.read_text() if agent.exists() else f"jobgen: {node}; the rendezvous is at\n"
        table = f"  rank      : {rank} (local_rank: {rank % 2})\n  exitcode  : {code} (pid: 7)\n"
        self.write(f"logs/{node}/agent.log", before + table)

    def node(self, node: int, text: str) -> None:
        """A node whose agent fails."""
        self.write(f"logs/n{node}/agent.log", text)
        self.write(f"attempts/0/node-{node - 1}.ended", "1\n")
        self.write("attempts/0/failed", f"{node - 1} 1\n")

    def processes(self, node: int, *ended: tuple[int, int]) -> None:
        """Processes that were started directly: rank and exit code of those that have ended."""
        for rank, code in ended:
            path = self.job.run_dir / f"attempts/0/node-{node - 1}.ranks"
            before = path.read_text() if path.exists() else ""
            self.write(f"attempts/0/node-{node - 1}.ranks", f"{before}{rank} {code} n{node}\n")

    def script(self, text: str) -> None:
        """The script's output."""
        (self.folder / "job-4711.out").write_text(text)

    def diagnose(self, state: State = FAILED) -> Diagnosis:
        """What it looks like."""
        return diagnose(self.job, state, now=time.time())
