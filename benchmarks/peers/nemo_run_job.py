"""The job in NeMo-Run's words: a script under torchrun, on Slurm without a container."""

import contextlib
import io
import logging
import sys
from pathlib import Path

import nemo_run
from harness import NODES, PROCESSES, PROGRAM, serve


def make_experiment() -> nemo_run.Experiment:
    """The experiment; its folder is below NEMORUN_HOME, where a local tunnel looks for it."""
    executor = nemo_run.SlurmExecutor(
        account="none",
        partition="main",
        nodes=NODES,
        ntasks_per_node=1,
        torchrun_nproc_per_node=PROCESSES,
        cpus_per_task=2,
        time="00:10:00",
        launcher="torchrun",
        packager=nemo_run.Packager(),
    )
    return nemo_run.Experiment("peers", executor=executor)


def render(words: str) -> str:
    """The script, which it writes into the experiment's folder."""
    with contextlib.redirect_stdout(io.StringIO()), make_experiment() as experiment:
        experiment.add(nemo_run.Script(PROGRAM, entrypoint="python", args=[words]))
        experiment.dryrun(log=False, delete_exp_dir=False)
        (path,) = Path(experiment._exp_dir).glob("*_sbatch.sh")
        return path.read_text()


def submit(words: str) -> str:
    """Submit it."""
    with contextlib.redirect_stdout(sys.stderr), make_experiment() as experiment:
        experiment.add(nemo_run.Script(PROGRAM, entrypoint="python", args=[words]))
        experiment.run(detach=True, tail_logs=False)
        return str(experiment.jobs[0].handle).rpartition("/")[2]


if __name__ == "__main__":
    logging.disable()
    serve(render, submit)
