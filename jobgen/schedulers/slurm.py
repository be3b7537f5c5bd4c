"""Slurm's syntax: sbatch, srun, squeue, scancel (man pages of Slurm 22.05 to 25.05)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobgen.nodes import NodeGroup
from jobgen.plan import Plan
from jobgen.program import ShellPath
from jobgen.schedulers.base import (
    NODES,
    PROCESSES,
    SHARED_FILES_LAG,
    Directive,
    after_line,
    array_line,
    cpu_keys,
    memory_keys,
    output_paths,
    queue_keys,
    site_lines,
)
from jobgen.units import format_duration, format_memory

# Of those that sbatch reads, what a script may say too.
_OPTIONS_BY_VARIABLE = (
    "ACCOUNT CONSTRAINT DISTRIBUTION EXCLUSIVE GPUS_PER_NODE GRES HINT JOB_NAME MEM_PER_NODE"
    " NETWORK OPEN_MODE PARTITION QOS REQUEUE RESERVATION SIGNAL TIMELIMIT"
)
# Without it a job waits for ever for what cannot come true any more.
_NEVER = "--kill-on-invalid-dep=yes"


class Slurm:
    """Slurm."""

    name = "slurm"
    suffix = ".sbatch"

    def directives(self, plan: Plan) -> Sequence[str]:
        """`#SBATCH` lines; unequal nodes make a heterogeneous job, one component a shape."""
        say = _directive
        lines = [say(f"--job-name={plan.name}", "what squeue calls the job", "name")]
        if plan.account:
            lines.append(say(f"--account={plan.account}", "who pays", "account"))
        for index, group in enumerate(plan.components):
            if index:
                why = "nodes of another shape are a component of their own"
                lines.append(say("hetjob", why, "resources.gpus_per_node"))
            if plan.queue:
                text = f"--{plan.site.slurm.queue_option}={plan.queue}"
                keys = (*queue_keys(plan), "site.slurm.queue_option")
                lines.append(say(text, "where it waits and runs", *keys))
            lines += _request(plan)
            lines += _resources(plan, group)
            lines += site_lines(plan, "#SBATCH")
            if plan.walltime is not None:
                time = format_duration(plan.walltime)
                lines.append(say(f"--time={time}", "then Slurm ends the job", "resources.walltime"))
            if not index:
                lines += array_line(plan, "#SBATCH --array=")
                why = (
                    "in the folder of submission, which exists: sbatch makes none, and a job whose"
                    " output has no folder fails without a word"
                )
                job = "%A_%a" if plan.array else "%j"
                lines.append(say(f"--output=%x-{job}.out", why))
                lines.append(say("--open-mode=append", "a requeue keeps what was printed before"))
                lines += _notify(plan)
                lines += _after(plan)
                lines += _before_the_end(plan)
        return [*lines, *plan.directives]

    def launch(self, plan: Plan) -> dict[str, Any]:
        """srun's options for each component, and the variables that hold their node lists."""
        components = plan.components
        steps: list[list[str]] = []
        for index, group in enumerate(components):
            options = [f"--het-group={index}"] if len(components) > 1 else []
            tasks = _tasks(group, plan)
            nodes, count = str(group.nodes), str(group.nodes * tasks)
            if plan.fewest_nodes is not None:
                nodes = count = "$SLURM_JOB_NUM_NODES"
            options += [ShellPath(f"--nodes={nodes}"), ShellPath(f"--ntasks={count}")]
            options.append(f"--ntasks-per-node={tasks}")
            # srun gives a task one CPU unless told, and from 22.05 on not by sbatch's option.
            share = "$SLURM_CPUS_ON_NODE" if tasks == 1 else "$cpus_per_task"
            cpus = share if group.cpus is None else max(1, group.cpus // tasks)
            options.append(ShellPath(f"--cpus-per-task={cpus}"))
            if group.gpus:
                options.append(_gpus(group, plan))
            if plan.start.direct:
                # Ranks fill node after node. All see the step's GPUs, as NCCL wants; --gpu-bind,
                # even of none, would take CUDA_VISIBLE_DEVICES away, seen on 22.05.
                options += ["--distribution=block", *plan.start.words]
            steps.append([*options, *plan.environment.step_options])
        lists = [ShellPath("$SLURM_JOB_NODELIST")]
        if len(components) > 1:
            lists = [
                ShellPath(f"$SLURM_JOB_NODELIST_HET_GROUP_{index}")
                for index in range(len(components))
            ]
        return {
            "steps": steps,
            "node_lists": lists,
            "one_shape": len(components) == 1,
            "tasks": _tasks(components[0], plan),
            "share_cpus": components[0].cpus is None and _tasks(components[0], plan) > 1,
            "limit": None,
            "lag": SHARED_FILES_LAG,
            "gentle": plan.start.launcher == "srun",
        }

    def submit_argv(self, script: str) -> list[str]:
        """`sbatch --parsable`."""
        return ["sbatch", "--parsable", script]

    def after_argv(self, dependencies: str) -> list[str]:
        """A job that waits for what cannot come true any more is cancelled, as on PBS."""
        return [f"--dependency={dependencies}", _NEVER]

    def dependencies(self, script: str) -> str:
        """The last of --dependency; sbatch replaces it by the command line's."""
        found = re.findall(
            r"^#SBATCH(?:\s.*?)?\s(?:--dependency[= ]|-d ?)(\S+)", script, re.MULTILINE
        )
        return found[-1] if found else ""

    def hint(self, refusal: str) -> str:
        """MaxArraySize is 1001 unless the site says otherwise (slurm.conf(5))."""
        if "Invalid job array specification" not in refusal:
            return ""
        return (
            "\nthe array may be too long: 'scontrol show config' tells MaxArraySize, which indices"
            " stay below; split it, or write a script for each task with jobgen render --expand"
        )

    def parse_job_id(self, output: str) -> str | None:
        """`123` or `123;cluster`."""
        match = re.fullmatch(r"(\d+)(;\S+)?", output.strip())
        return match[1] if match else None

    def cancel_argv(self, ids: Sequence[str]) -> list[str]:
        """`scancel`."""
        return ["scancel", *ids]

    def overriding(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """`SBATCH_*` of sbatch(1), "Input environment variables", each with its option."""
        found = {}
        for key in _OPTIONS_BY_VARIABLE.split():
            option = {"TIMELIMIT": "time", "MEM_PER_NODE": "mem"}.get(key, key)
            option = "--" + option.lower().replace("_", "-")
            if f"SBATCH_{key}" in environment and re.search(
                rf"^#SBATCH {option}\b", script, re.MULTILINE
            ):
                found[f"SBATCH_{key}"] = option
        return found

    def output_file(self, name: str, job_id: str) -> str:
        """As `directives` says it."""
        return f"{name}-{job_id}.out"

    def output_folders(self, script: str) -> list[str]:
        """Folders of --output and --error; one with a %-pattern in it is only known to Slurm."""
        found = []
        for path in output_paths(re.findall(r"^#SBATCH\s+(.+)", script, re.MULTILINE)):
            folder = os.path.dirname(path)
            if folder and "%" not in folder:
                found.append(folder)
        return found


def _tasks(group: NodeGroup, plan: Plan) -> int:
    """Tasks on each node: its processes, where nobody else starts them."""
    return group.processes if plan.start.numbers else 1


def _gpus(group: NodeGroup, plan: Plan) -> str:
    """The GPUs of each node, in the site's words."""
    number = f"{plan.gpu_type}:{group.gpus}" if plan.gpu_type else str(group.gpus)
    return f"--gres=gpu:{number}" if plan.site.slurm.gpus == "gres" else f"--gpus-per-node={number}"


def _directive(text: str, reason: str, *keys: str) -> Directive:
    return Directive(f"#SBATCH {text}", reason, *keys)


def _before_the_end(plan: Plan) -> Iterator[Directive]:
    if plan.chain is None:
        return
    why = "the script is told so many seconds before the end, and tells the program to stop"
    keys = ("walltime.notice", "walltime")
    yield _directive(f"--signal=B:USR1@{plan.chain.notice}", why, "|".join(keys))
    if plan.chain.requeues:
        why = "the script may put the job back into the queue, and so does Slurm if a node fails"
        yield _directive("--requeue", why, "walltime.then")


def _resources(plan: Plan, group: NodeGroup) -> list[Directive]:
    say = _directive
    nodes = "" if plan.fewest_nodes is None else f"{plan.fewest_nodes}-"
    nodes += str(group.nodes)
    tasks = _tasks(group, plan)
    why = "one task on each node: torchrun's agent, which starts the processes"
    if plan.start.direct:
        why = "a task for each process"
    lines = [say(f"--nodes={nodes}", "the nodes of this shape", *NODES)]
    if plan.fewest_nodes is None:  # with it Slurm gives the fewest of a range, on 22.05 at least
        lines.append(say(f"--ntasks-per-node={tasks}", why, *(PROCESSES if tasks > 1 else ())))
    if group.cpus is not None and plan.cpus_asked:
        why = "the CPUs of a node are all for its one task"
        if tasks > 1:
            why = f"the {group.cpus} CPUs of a node are shared by its tasks"
        text = f"--cpus-per-task={max(1, group.cpus // tasks)}"
        lines.append(say(text, why, *cpu_keys(plan)))
    if group.gpus:
        why = "all processes of a node see its GPUs; each takes the one of its local rank"
        keys = ("resources.gpus_per_node", "resources.gpu_type|site.gpu_type", "site.slurm.gpus")
        lines.append(say(_gpus(group, plan), why, *keys))
    if group.memory is not None:
        memory = "--mem={}{}".format(*format_memory(group.memory))
        lines.append(say(memory, "memory of each node", *memory_keys(plan)))
    return lines


def _request(plan: Plan) -> list[Directive]:
    asked, say = plan.request, _directive
    lines: list[Directive] = []
    if asked is None:
        return lines
    if asked.qos:
        lines.append(say(f"--qos={asked.qos}", "the quality of service", "qos"))
    if asked.reservation:
        text = f"--reservation={asked.reservation}"
        lines.append(say(text, "the reservation that it runs in", "reservation"))
    if asked.constraint:
        text = f"--constraint={asked.constraint}"
        lines.append(say(text, "what the nodes must have", "resources.constraint"))
    if asked.exclusive:
        why = "no other job on the nodes"
        lines.append(say("--exclusive", why, "resources.exclusive"))
    return lines


def _notify(plan: Plan) -> list[Directive]:
    notify = plan.request.notify if plan.request else None
    lines: list[Directive] = []
    if notify and notify.email:
        lines.append(_directive(f"--mail-user={notify.email}", "who gets e-mail", "notify.email"))
    if notify:
        types = ",".join(event.upper() for event in notify.on)
        lines.append(_directive(f"--mail-type={types}", "when there is e-mail", "notify.on|notify"))
    return lines


def _after(plan: Plan) -> list[Directive]:
    if not plan.after:
        return []
    why = "once that cannot come true any more, the job is cancelled and does not wait for ever"
    return [
        after_line(plan, "#SBATCH --dependency="),
        _directive(_NEVER, why),
    ]


SCHEDULER = Slurm()
