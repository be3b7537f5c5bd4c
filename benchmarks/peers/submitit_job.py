"""The job in submitit's words: a function, called once in each task; its helper says the rank."""

import submitit
from harness import NODES, PROCESSES, serve
from program import leave_word


def work(words: str) -> None:
    """What a task runs."""
    submitit.helpers.TorchDistributedEnvironment().export()
    leave_word(words)


def make_executor(words: str) -> submitit.SlurmExecutor:
    """The two nodes."""
    executor = submitit.SlurmExecutor(folder=f"{words}/submitit")
    executor.update_parameters(
        job_name="peers", nodes=NODES, ntasks_per_node=PROCESSES, cpus_per_task=1, time=10
    )
    return executor


def render(words: str) -> str:
    """The script that it would submit; the function is in a pickle beside it."""
    executor = make_executor(words)
    return executor._make_submission_file_text(executor._submitit_command_str, "peers")


def submit(words: str) -> str:
    """Submit it."""
    job = make_executor(words).submit(work, words)
    return str(job.job_id)


if __name__ == "__main__":
    serve(render, submit)
