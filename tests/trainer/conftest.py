"""Starting the trainer as users do: with torchrun, in processes of its own."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from forked import start_python

if TYPE_CHECKING:
    from jobgen.trainer.distributed.world import World

ROOT = Path(__file__).parents[2]
# A task of one's own: linear regression, over in a second.
TOY = str(ROOT / "tests" / "helpers" / "programs" / "toy_task.py")

TEXT = "the quick brown fox jumps over the lazy dog. " * 80

Start = Callable[..., "Run"]


class Run:
    """A started program, its output and the folder it works in."""

    def __init__(self, argv: Sequence[str], folder: Path, **variables: str) -> None:
        foreign = ("JOBGEN_", "TORCHELASTIC_", "PET_")
        own = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in own and not name.startswith(foreign)
        }
        self.out = folder
        self._log = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.log")
        with self._log.open("w") as stream:
            self.process = start_python(
                argv,
                cwd=folder.parent,
                env=inherited
                | {
                    "PYTHONPATH": str(ROOT),
                    "OMP_NUM_THREADS": "1",
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                }
                | variables,
                stdout=stream,
            )

    @property
    def output(self) -> str:
        """What the program has printed so far."""
        return self._log.read_text()

    def wait(self, seconds: float = 900) -> int:
        """Return the exit status once the program has ended."""
        return self.process.wait(seconds)

    def wait_for(self, seen: Callable[[], object], seconds: float = 900) -> None:
        """Return when `seen` is true; fail when the program ends or the time passes first."""
        end = time.monotonic() + seconds
        while not seen():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < end, self.output
            time.sleep(0.05)

    def pid_of(self, rank: int) -> int:
        """Return the process id that a rank has printed."""
        # Unbuffered, two ranks that print at once share a line.
        found = re.search(rf"rank {rank} of .*?pid (\d+)", self.output)
        assert found, self.output
        return int(found[1])

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """Return the metrics of one kind; a line that is being written is left out."""
        path = self.out / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
        return [line for line in lines if line["kind"] == kind]

    def losses(self) -> list[tuple[int, float]]:
        """Return step and loss of every step."""
        return [(line["step"], line["loss"]) for line in self.metrics("step")]

    def status(self) -> dict[str, Any]:
        """Return what the run says of itself."""
        status: dict[str, Any] = json.loads((self.out / "status.json").read_text())
        return status

    def end(self) -> None:
        """End the program and what it has started."""
        if self.process.poll() is None:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            for pid in children.read_text().split():
                os.kill(int(pid), 9)
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def world() -> Iterator["World"]:
    """A world of this process alone."""
    from jobgen.trainer.distributed.world import join, leave
    from jobgen.trainer.flags import parse_flags

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        yield join(parse_flags(["--device", "cpu"]))
        leave()


@pytest.fixture(scope="module")
def started() -> Iterator[list[Run]]:
    """Everything that a test module has started; it is ended with the module."""
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.end()


@pytest.fixture(scope="module")
def start(started: list[Run]) -> Start:
    """Start the trainer on a run folder, or another program, under torchrun or plainly."""

    def start(
        folder: Path,
        *arguments: object,
        processes: int | None,
        program: Sequence[str] | None = None,
        agent: Sequence[str] = ("--nnodes=1", "--rdzv-endpoint=127.0.0.1:0"),
        **variables: str,
    ) -> Run:
        torchrun: list[str] = []
        if processes is not None:
            torchrun = ["-m", "torch.distributed.run", "--rdzv-backend=c10d", *agent]
            torchrun += ["--local-addr=127.0.0.1", f"--nproc-per-node={processes}"]
        trainer = ("-m", "jobgen.trainer", "--out", str(folder))
        argv = [sys.executable, *torchrun, *(program or trainer), *map(str, arguments)]
        started.append(Run(argv, folder, **variables))
        return started[-1]

    return start
