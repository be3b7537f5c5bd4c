"""The job in TorchX's words: its component dist.ddp, on Slurm."""

from harness import NODES, PROCESSES, PROGRAM, serve
from torchx.runner import Runner, get_runner
from torchx.specs import AppDryRunInfo


def describe(runner: Runner, words: str) -> AppDryRunInfo:
    """What it would submit."""
    arguments = ["-j", f"{NODES}x{PROCESSES}", "--cpu", "2", "--script", PROGRAM, "--", words]
    settings = {"partition": "main", "time": "10"}
    return runner.dryrun_component("dist.ddp", arguments, scheduler="slurm", cfg=settings)


def render(words: str) -> str:
    """The script."""
    with get_runner() as runner:
        return describe(runner, words).request.materialize()


def submit(words: str) -> str:
    """Submit it."""
    with get_runner() as runner:
        return runner.schedule(describe(runner, words)).rpartition("/")[2]


if __name__ == "__main__":
    serve(render, submit)
