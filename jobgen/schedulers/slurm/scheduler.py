"""Slurm's syntax: sbatch, srun, squeue, scancel (man pages of Slurm 22.05 to 25.05)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from jobgen.plan.plan import NodeGroup, Plan, ShellPath
from jobgen.schedulers import base
from jobgen.spec.units import format_duration, split_memory

# Options that sbatch's variables do not say by their own name (sbatch(1), "INPUT ENVIRONMENT").
_OPTION_OF = {
    "TIMELIMIT": "time",
    "MEM_PER_NODE": "mem",
    "ARRAY_INX": "array",
    "WAIT4SWITCH": "switches",
}
_SOON = 300  # seconds in which a job starts that has nothing to wait for
# Without it a job waits forever for what cannot come true any more.
_NEVER = "--kill-on-invalid-dep=yes"


class Slurm(base.Scheduler):
    """Slurm."""

    name = "slurm"
    suffix = ".sbatch"
    advice = base.Advice(
        leave_out='leave the node out (directives: ["#SBATCH --exclude=NODE"])',
        release="`scontrol release ID`",
        go_on="requeue",
        output="--output",
        nodes="-N or --nodes",
    )
    submit_command = ("sbatch", "--parsable")
    cancel_command = "scancel"
    # 1001 unless the site says otherwise (slurm.conf(5)).
    unknown_queue, unknown_account = "nvalid partition", "Invalid account"
    too_long = (
        "Invalid job array specification",
        "the array may be too long: its indices must stay below MaxArraySize ('scontrol show"
        " config'); split it, or write a script for each task with jobgen render --expand",
    )

    def directives(self, plan: Plan) -> Sequence[str]:
        """`#SBATCH` lines; unequal nodes make a heterogeneous job, one component a shape."""
        lines = _say("--job-name=", plan.name, "the job's name in squeue", "name")
        lines += _say("--account=", plan.requests.account, "the account that pays", "account")
        for index, group in enumerate(plan.components):
            if index:
                why = "nodes of another shape form their own component"
                lines += _say("hetjob", True, why, "resources.gpus_per_node")
            if plan.requests.queue:
                queue = plan.defaults.partition or plan.requests.queue
                keys = (*base.queue_keys(plan), "site.slurm.queue_option")
                option = f"--{plan.site.slurm.queue_option}="
                lines += _say(option, queue, base.explain_queue(plan), *keys)
            lines += _write_requests(plan)
            lines += _write_resources(plan, group)
            lines += base.site_lines(plan, "#SBATCH")
            if plan.walltime.seconds is not None:
                time = format_duration(plan.walltime.seconds)
                lines += _say("--time=", time, "the job ends after this time", "resources.walltime")
            if not index:
                lines += base.array_line(plan, "#SBATCH --array=")
                lines += base.shell_line(plan, "#SBATCH", "--export=ALL,")
                why = (
                    "in the folder you submit from, which exists: sbatch creates no folder, and"
                    " without one for its output a job fails without a message"
                )
                job = "%A_%a" if plan.array.jobs > 1 else "%j"
                lines += _say(f"--output=%x-{job}.out", True, why)
                lines += _say("--open-mode=", "append", "a requeued job keeps its earlier output")
                lines += _write_mail(plan)
                lines += _write_dependency(plan)
                lines += _write_notice(plan)
        return base.merge_directives(lines, plan.requests.directives, plan.can.options)

    def launch(self, plan: Plan) -> base.LaunchPieces:
        """srun's options for each component, and the variables that hold their node lists."""
        components = plan.components
        numbers = range(len(components))
        lists = ["$SLURM_JOB_NODELIST"]
        if len(components) > 1:
            lists = [f"$SLURM_JOB_NODELIST_HET_GROUP_{index}" for index in numbers]
        return base.LaunchPieces(
            watched=False,
            node_lists=tuple(map(ShellPath, lists)),
            steps=tuple(tuple(_list_options(plan, index)) for index in numbers),
            share_cpus=components[0].cpus is None and base.count_tasks(components[0], plan) > 1,
        )

    def test_argv(self, argv: Sequence[str]) -> list[str]:
        return [argv[0], "--test-only", *argv[1:]]

    def next_argv(self, script: str, *, text: str, after: str, first: str) -> list[str]:
        """As the script of a chain submits the next job; that one waits for its own job."""
        waits = [f"--dependency=afterany:{after}"] if after else []
        return [*self.submit_command, *waits, f"--export=ALL,JOBGEN_CHAIN={first}", script]

    def read_test(self, words: str) -> str:
        """`sbatch: Job 2 to start at 2030-01-31T12:00:00 using ...`; jobs have other numbers.

        A start within minutes is not worth a word.
        """
        starts = re.findall(r"^sbatch: Job \d+ to start at (\S+)(.*)", words, re.MULTILINE)
        soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + _SOON))
        sooner = "by the queue of this moment, so it may start sooner"
        late = [f"expected to start at {at}{how}; {sooner}" for at, how in starts if at > soon]
        return "".join(late[-1:]) if starts else words

    def refuses(self, words: str) -> bool:
        """By sbatch's own marks: `sbatch: ` alone also begins its remarks."""
        return bool(re.search(r"sbatch: (error|fatal): |usage: ", words))

    def after_argv(self, dependencies: str) -> list[str]:
        """A job that waits for what cannot come true any more is cancelled, as on PBS."""
        return [f"--dependency={dependencies}", _NEVER]

    def dependencies(self, script: str) -> str:
        form = r"^#SBATCH(?:\s.*?)?\s(?:--dependency[= ]|-d ?)(\S+)"
        return "".join(re.findall(form, script, re.MULTILINE)[-1:])

    def parse_job_id(self, output: str) -> str | None:
        """`123` or `123;cluster`."""
        match = re.fullmatch(r"([1-9]\d*)(;\S+)?", output.strip(), re.ASCII)
        return match[1] if match else None

    def interferes(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """`SBATCH_*`, which win over the script, `SLURM_CLUSTERS`, and a folder with a pattern."""
        changes = {}
        for name in sorted(environment):
            prefix, _, key = name.partition("_")
            if prefix != "SBATCH" and name != "SLURM_CLUSTERS":
                continue
            option = "--" + _OPTION_OF.get(key, key).lower().replace("_", "-")
            written = re.search(rf"^#SBATCH {option}\b", script, re.MULTILINE)
            wins = " and wins over that of the script" if written else ""
            changes[name] = f"is {option} for sbatch{wins}"
        if re.search(r"%\d*[AaJjNnstux]", environment.get("PWD", "")):
            changes["PWD"] = "has a % that Slurm fills in, so the job finds no place for its output"
        return changes

    def output_file(self, name: str, job_id: str) -> str:
        return f"{name}-{job_id}.out"

    def name_parts(self, name: str, job_id: str) -> dict[str, str]:
        """sbatch(1), "FILENAME PATTERN"; a task of an array has another number as %j."""
        whole, _, index = job_id.partition("_")
        parts = {"%x": name, "%A": whole, "%a": index}
        return parts if index else parts | {"%j": whole}


def _list_options(plan: Plan, index: int) -> Iterator[str]:
    group = plan.components[index]
    tasks = base.count_tasks(group, plan)
    if len(plan.components) > 1:
        yield f"--het-group={index}"
    yield from _place_tasks(plan, group, tasks)
    # srun gives a task one CPU unless told, and from 22.05 on not by sbatch's option.
    cpus = "$SLURM_CPUS_ON_NODE" if tasks == 1 else "$cpus_per_task"
    if group.cpus is not None:
        cpus = str(max(1, group.cpus // tasks))
    yield ShellPath(f"--cpus-per-task={cpus}")
    if gpus := _gpus(group, plan):
        yield gpus
    if plan.launch.direct:
        # Ranks fill node after node. All see the step's GPUs, as NCCL wants; --gpu-bind,
        # even of none, would take CUDA_VISIBLE_DEVICES away, seen on 22.05.
        yield "--distribution=block"
    yield from plan.launch.words
    yield from plan.environment.step_options


def _place_tasks(plan: Plan, group: NodeGroup, tasks: int) -> Iterator[str]:
    """Yield the nodes of a step, with so many tasks on each."""
    place = plan.nodes.place
    nodes, count = str(group.nodes), str(group.nodes * tasks)
    if plan.nodes.fewest is not None:
        nodes = count = "$SLURM_JOB_NUM_NODES"
    if plan.nodes.spare:
        nodes, count = str(plan.nodes.total), str(plan.nodes.total * tasks)
        # The step before may not be over to Slurm, of which a node is lost. A list with a
        # slash is a file.
        yield from ("--overlap", ShellPath("--nodelist=$attempt_dir/nodes"))
    yield from (ShellPath(f"--nodes={nodes}"), ShellPath(f"--ntasks={count}"))
    yield f"--ntasks-per-node={tasks}"
    if place and not plan.nodes.spare:
        yield f"--relative={place.first}"
    if place and place.gpus is not None:
        yield "--overlap"  # roles on the same nodes see all of a node, and each takes its own GPUs


def _gpus(group: NodeGroup, plan: Plan) -> str:
    """The GPUs, in the site's words; empty if they are not asked for."""
    site, kind = plan.site.slurm, plan.requests.gpu_type
    if not group.gpus or site.gpus == "none":
        return ""
    named = f"{kind}:" if kind and site.names_gpu_type else ""
    if site.gpus == "gpus":
        return f"--gpus={named}{group.nodes * group.gpus}"
    option = "--gres=gpu:" if site.gpus == "gres" else "--gpus-per-node="
    return f"{option}{named}{group.gpus}"


_say = partial(base.write_option, "#SBATCH")


def _write_notice(plan: Plan) -> list[base.Directive]:
    why = "the loss of a node does not end the job: a spare node takes its place"
    lines = _say("--no-kill", bool(plan.nodes.spare), why, "resources.spare_nodes")
    chain = plan.walltime.chain
    if chain.then:
        why = "Slurm signals the script this many seconds before the end, or up to 60 s earlier; it"
        key = "on_walltime.notice|on_walltime"
        lines += _say("--signal=B:USR1@", chain.notice, f"{why} asks the program to stop", key)
        why = "the script may requeue the job, and so does Slurm if a node fails"
        lines += _say("--requeue", chain.then == "requeue", why, "on_walltime.then")
    return lines


def _write_nodes(plan: Plan, group: NodeGroup) -> Iterator[base.Directive]:
    """The nodes, and for sbatch the tasks on each and their CPUs."""
    left = plan.launch.body and not plan.nodes.tasks_asked  # to its author
    if not left or plan.nodes.total > 1:
        fewest = "" if plan.nodes.fewest is None else f"{plan.nodes.fewest}-"
        nodes = f"{fewest}{group.nodes}"
        yield from _say("--nodes=", nodes, "the number of nodes", *base.NODES)
    if plan.site.slurm.tasks == "batch":  # sbatch refuses what belongs to srun
        yield from _write_tasks(plan, group, left=left)


def _write_tasks(plan: Plan, group: NodeGroup, *, left: bool) -> Iterator[base.Directive]:
    """The tasks of each node and their CPUs; `left` leaves the tasks to the body."""
    tasks, why = _choose_tasks(plan, group)
    # With tasks Slurm gives the fewest of a range, on 22.05 at least.
    if plan.nodes.fewest is None and not left:
        yield from _say("--ntasks-per-node=", tasks, why, *(base.PROCESSES if tasks > 1 else ()))
    if group.cpus is not None and plan.nodes.cpus_asked:
        why = "the node's one task gets all its CPUs"
        if tasks > 1:
            why = f"the {group.cpus} CPUs of a node are shared by its tasks"
        cpus = max(1, group.cpus // tasks)
        yield from _say("--cpus-per-task=", cpus, why, *base.cpu_keys(plan))


def _choose_tasks(plan: Plan, group: NodeGroup) -> tuple[int, str]:
    tasks, roles = base.count_tasks(group, plan), plan.roles.members
    widest = max((base.count_tasks(one.plan.nodes.own[0], one.plan) for one in roles), default=0)
    if (group.cpus or 0) < widest != tasks:  # each task of a role's step takes one CPU at least
        return widest, "one task per process of the role with the most on a node"
    if plan.launch.direct or plan.launch.body:
        return tasks, "one task per process"
    return tasks, "one task on each node: torchrun's agent, which starts the processes"


def _write_resources(plan: Plan, group: NodeGroup) -> Iterator[base.Directive]:
    yield from _write_nodes(plan, group)
    why = "all processes on a node see its GPUs; each takes the one with its local rank"
    keys = ("resources.gpus_per_node", "resources.gpu_type|site.gpu_type", "site.slurm.gpus")
    gpus = _gpus(group, plan)
    yield from _say(gpus, bool(gpus), why, *keys)
    if group.memory is not None:
        memory = "{}{}".format(*split_memory(group.memory))
        yield from _say("--mem=", memory, "memory of each node", *base.memory_keys(plan))
    if plan.nodes.disk is not None:
        disk = "{}{}".format(*split_memory(plan.nodes.disk * plan.nodes.together))
        yield from _say("--tmp=", disk, "space on each node's own disk", "resources.disk_per_node")


def _write_requests(plan: Plan) -> list[base.Directive]:
    asked, site_qos = plan.requests, f"site.queues.{plan.requests.queue}.qos"
    lines = _say("--qos=", asked.qos, "the quality of service", f"qos|{site_qos}")
    why = "the reservation that it runs in"
    lines += _say("--reservation=", asked.reservation, why, "reservation")
    keys = ("resources.constraint", base.node_key(plan, "constraint"))
    lines += _say("--constraint=", asked.constraint, "the nodes must have these features", *keys)
    alone = "no other job may use the nodes"
    return lines + _say("--exclusive", asked.exclusive, alone, "resources.exclusive")


def _write_mail(plan: Plan) -> list[base.Directive]:
    if (mail := plan.requests.mail) is None:
        return []
    types = ",".join(event.upper() for event in mail.on)
    return [
        *_say("--mail-user=", mail.email, "who gets the e-mail", "notify.email"),
        *_say("--mail-type=", types, "when to send e-mail", "notify.on|notify"),
    ]


def _write_dependency(plan: Plan) -> list[base.Directive]:
    if not plan.requests.after:
        return []
    why = "if that can no longer happen, Slurm cancels the job instead of letting it wait forever"
    return [*base.after_line(plan, "#SBATCH", "--dependency="), *_say(_NEVER, True, why)]


SCHEDULER = Slurm()
