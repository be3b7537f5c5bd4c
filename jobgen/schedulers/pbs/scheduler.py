"""PBS's syntax: OpenPBS and PBS Pro (qsub(1B), pbs_resources(7B), qstat(1B))."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from jobgen.plan.plan import NodeGroup, Plan
from jobgen.plan.requests import list_options
from jobgen.schedulers import base
from jobgen.schedulers.pbs import qstat
from jobgen.spec.units import format_duration, split_memory

_READ_BY_QSUB = {
    "PBS_DPREFIX": "is what begins a directive for qsub, in the place of #PBS",
    "PBS_DEFAULT": "is the server for qsub",
    "PBS_SERVER": "is the server for qsub",
    "PBS_CONF_FILE": "is the configuration for qsub",
}
_MAIL = {"begin": "b", "end": "e", "fail": "a"}
_DISK = "resources.disk_per_node"
_TOTALS = re.compile(r"#PBS -l (arch|host|mem|mpiprocs|ncpus|ngpus|ompthreads|vmem|vnode)=")


class Pbs(base.Scheduler):
    """OpenPBS and PBS Pro."""

    name = "pbs"
    suffix = ".pbs"
    advice = base.Advice(
        leave_out="ask for other nodes (PBS cannot leave one out)",
        release="`qrls ID`",
        go_on="resubmit",
        output="-o and -e",
        nodes="-l select",
    )
    submit_command = ("qsub",)
    cancel_command = "qdel"
    placeholder = "^array_index^"
    unknown_queue = "Unknown queue"
    too_long = (
        "Array job exceeds",
        "the array is too long: 'qstat -Bf' and 'qstat -Qf' show max_array_size; split it, or write"
        " a script for each task with jobgen render --expand",
    )

    def directives(self, plan: Plan) -> Sequence[str]:
        """`#PBS` lines; the resources as chunks, one a host, or, by the site, as totals."""
        asked, option = plan.requests, str(plan.site.pbs.account_option)
        lines = _say("-N ", plan.name, "the job's name in qstat", "name")
        option += "" if option.endswith("=") else " "
        keys = ("account", "site.pbs.account_option")
        lines += _say(option, asked.account, "the account that pays", *keys)
        if asked.reservation:
            why = "the reservation that it runs in; on PBS, this is a queue"
            lines += _say("-q ", asked.reservation, why, "reservation")
        else:
            lines += _say("-q ", asked.queue, base.explain_queue(plan), *base.queue_keys(plan))
        lines += _write_totals(plan) if plan.site.pbs.resources == "totals" else _write_select(plan)
        if plan.walltime.seconds is not None:
            walltime = format_duration(plan.walltime.seconds)
            why = "the job ends after this time"
            lines += _say("-l walltime=", walltime, why, "resources.walltime")
        if asked.filesystems and plan.site.filesystems:
            listed = plan.site.filesystems
            text = f"-l {listed.resource}={listed.separator.join(asked.filesystems)}"
            keys = ("filesystems|site.filesystems.paths", "site.filesystems.resource")
            lines += _say(text, True, "the file systems that the job uses", *keys)
        why, spare = "else PBS ends it five minutes after it has lost a node", plan.nodes.spare > 0
        lines += _say("-W tolerate_node_failures=all", spare, why, "resources.spare_nodes")
        lines += base.array_line(plan, "#PBS -J ")
        lines += base.shell_line(plan, "#PBS", "-v ")
        apart = any("-e" in list_options(line.partition(" ")[2]) for line in asked.directives)
        lines += _say("-j oe", not apart, "one output file for stdout and stderr")
        lines += _say("-k oed", True, "it is written while the job runs, not copied at its end")
        lines += _write_mail(plan)
        lines += base.after_line(plan, "#PBS", "-W depend=")
        lines += base.site_lines(plan, "#PBS")
        return base.merge_directives(lines, asked.directives, plan.can.options)

    def launch(self, plan: Plan) -> base.LaunchPieces:
        """PBS names the nodes in a file, and may not tell which of a node's GPUs are the job's."""
        return base.LaunchPieces(watched=True, node_file=True, gpu_parts=_parts(plan))

    def after_argv(self, dependencies: str) -> list[str]:
        return ["-W", f"depend={dependencies}"]

    def dependencies(self, script: str) -> str:
        """The last `depend=` of -W."""
        form = r"^\s*#PBS(?:\s.*?)?\s-W\s*\S*\bdepend=(\S+?)(?=,\w+=|\s|$)"
        return "".join(re.findall(form, script, re.MULTILINE)[-1:])

    def next_argv(self, script: str, *, text: str, after: str, first: str) -> list[str]:
        """The `qsub` of a job that goes on where job `after` will have ended, however it did.

        All work in the run folder of the job `first`. Of several -v only the last counts, so what
        the directives in the script's `text` say by one is said again.
        """
        given = re.findall(r"^\s*#PBS\s+-v\s*(\S.*)", text, re.MULTILINE)[-1:]
        variables = ",".join([*given, f"JOBGEN_CHAIN={first.partition('.')[0]}"])
        waits = ["-W", f"depend=afterany:{after}"] if after else []
        return ["qsub", *waits, "-v", variables, script]

    def parse_job_id(self, output: str) -> str | None:
        return qstat.parse_job_id(output)

    def interferes(self, script: str, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables that qsub reads (qsub(1B)): what a directive is, and which server."""
        return {name: words for name, words in _READ_BY_QSUB.items() if name in environment}

    def output_file(self, name: str, job_id: str) -> str:
        """qsub(1B): the name, `.o` and the number, where -j oe joins both outputs."""
        number, _, index = job_id.partition(".")[0].rstrip("]").partition("[")
        return f"{name}.o{number}" + (f".{index}" if index else "")

    def name_parts(self, name: str, job_id: str) -> dict[str, str]:
        """qsub(1B): the index of a task."""
        index = job_id.partition(".")[0].rstrip("]").partition("[")[2]
        return {self.placeholder: index} if index else {}


def _parts(plan: Plan) -> tuple[int, ...]:
    """The GPUs of each node; none where nodes are the job's alone, or the spec names devices."""
    site, gpus = plan.site, [group.gpus for group in plan.nodes.asked for _ in range(group.nodes)]
    node = plan.defaults.node
    alone = site.pbs.gpus == "none" or node.whole or node.full == "always"
    alone = alone or plan.requests.exclusive
    all_of_them = node.gpus is not None and min(gpus) >= node.gpus
    if alone or all_of_them or "CUDA_VISIBLE_DEVICES" in plan.environment.variables:
        return ()
    return tuple(gpus) if any(gpus) else ()


def _format_memory(kib: int) -> str:
    number, letter = split_memory(kib)
    return f"{number}{letter.lower()}b"


_say = partial(base.write_option, "#PBS")


def _write_select(plan: Plan) -> list[base.Directive]:
    # qsub refuses a select beside totals (qsub(1B)), which a body's own directives may ask for.
    if plan.launch.body and any(map(_TOTALS.match, plan.requests.directives)):
        return []
    queue = plan.site.find_queue(plan.requests.queue)
    if queue is not None and queue.chunk == "gpu":
        chunks = f"{plan.nodes.gpus * plan.nodes.together}{_write_own(plan)}"
        why = "a chunk is one GPU in this queue, and all are on one node"
        key = f"site.queues.{plan.requests.queue}.chunk"
        return _say("-l select=", chunks, why, *base.NODES, key)
    chunks = "+".join(_write_chunk(group, plan) for group in plan.components)
    why, keys = _explain_chunks(plan)
    if plan.requests.constraint:
        keys += ("resources.constraint", "site.pbs.constraint")
    select = _say("-l select=", chunks, why, *keys)
    left = plan.launch.body and plan.program.script  # to its author
    return select if left and not plan.requests.exclusive else select + _write_place(plan)


def _explain_chunks(plan: Plan) -> tuple[str, tuple[str, ...]]:
    if plan.site.pbs.gpus == "none":
        why = "whole nodes, each with one line in the node file"
        return why, (*base.NODES, "site.pbs.gpus", "site.pbs.chunk")
    why = "one chunk per node; with mpiprocs=1, each has one line in the node file"
    if not plan.launch.direct:
        why += ", and torchrun's agent starts the processes"
    elif plan.launch.numbers:
        why = "one chunk per node; mpiexec starts mpiprocs processes on each"
    keys = (*base.NODES, *base.cpu_keys(plan), *base.memory_keys(plan))
    if plan.requests.gpu_type:
        keys += ("resources.gpu_type|site.gpu_type", "site.pbs.gpu_type")
    return why, (*keys, "site.pbs.chunk")


def _write_place(plan: Plan) -> list[base.Directive]:
    why = "each chunk on its own host: two agents on one host would share its GPUs"
    place, keys = "-l place=scatter", []
    if plan.requests.exclusive:
        why += ", and no other job there"
        place += ":exclhost"  # excl is of vnodes, and a host may have several
        keys.append("resources.exclusive")
    if plan.site.pbs.group and plan.nodes.total > 1:
        why += f"; all of one {plan.site.pbs.group}"
        place += f":group={plan.site.pbs.group}"
        keys.append("site.pbs.group")
    return _say(place, True, why, *keys)


def _write_chunk(group: NodeGroup, plan: Plan) -> str:
    site = plan.site.pbs
    own = _write_own(plan)
    if site.gpus == "none":  # whole nodes: the node file has a line for each
        return f"{group.nodes}{own}"
    chunk = str(group.nodes)
    if group.cpus is not None:
        chunk += f":ncpus={group.cpus}"
    if group.gpus:
        chunk += f":ngpus={group.gpus}"
        if plan.requests.gpu_type and site.gpu_type:
            chunk += f":{site.gpu_type}={plan.requests.gpu_type}"
    chunk += own
    if group.memory is not None:
        chunk += f":mem={_format_memory(group.memory)}"
    processes = base.count_tasks(group, plan)
    # A body says itself what its node file is to have.
    if plan.launch.body and not plan.nodes.tasks_asked:
        return chunk
    return f"{chunk}:mpiprocs={processes}"


def _write_own(plan: Plan) -> str:
    """What every chunk of this site has, beside CPUs, GPUs and memory."""
    site = plan.site.pbs
    own = "".join(f":{name}={value}" for name, value in site.chunk.items())
    if plan.requests.constraint and "=" in plan.requests.constraint:
        own += f":{plan.requests.constraint}"
    elif plan.requests.constraint and site.constraint:
        own += f":{site.constraint}={plan.requests.constraint}"
    if plan.nodes.disk is not None and site.resources == "select":
        own += f":{site.disk}={_format_memory(plan.nodes.disk * plan.nodes.together)}"
    return own


def _write_totals(plan: Plan) -> Iterator[base.Directive]:
    """`-l ncpus=`, `ngpus=` and `mem=` of the whole job (plan refuses unequal nodes here)."""
    (group,) = plan.components
    disk = plan.nodes.disk and plan.nodes.disk * plan.nodes.together
    for resource, amount, write, what, keys in (
        ("ncpus", group.cpus, str, "the whole job's CPUs", base.cpu_keys(plan)),
        ("ngpus", group.gpus or None, str, "the whole job's GPUs", ()),
        ("mem", group.memory, _format_memory, "the whole job's memory", base.memory_keys(plan)),
        (plan.site.pbs.disk, disk, _format_memory, "the nodes' own disks", (_DISK,)),
    ):
        if amount is not None:
            total, why = write(amount * group.nodes), f"{what}: {group.nodes} x {write(amount)}"
            yield from _say(f"-l {resource}=", total, why, *base.NODES, *keys, "site.pbs.resources")


def _write_mail(plan: Plan) -> list[base.Directive]:
    if (mail := plan.requests.mail) is None:
        return []
    letters = "".join(sorted(_MAIL[event] for event in mail.on))
    why = "when to send e-mail: b when it begins, e when it ends, a when PBS aborts it"
    email = _say("-M ", mail.email, "who gets the e-mail", "notify.email")
    return [*email, *_say("-m ", letters, why, "notify.on|notify")]


SCHEDULER = Pbs()
