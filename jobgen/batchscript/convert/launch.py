"""From what starts a program to the launch of a spec: mode, launcher, processes, agents."""

from __future__ import annotations

import re

from jobgen.batchscript.bash import Word
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.options import MPI_LAUNCHERS, note_options
from jobgen.batchscript.convert.program import (
    Candidate,
    name_program,
    read_number,
)
from jobgen.batchscript.expand import write_field
from jobgen.batchscript.launchers import Launcher
from jobgen.batchscript.reader import Script
from jobgen.errors import Position, Problem, SpecError

SPREADING = {"ssh", "pdsh", "clush", "pbsdsh", "pbs_tmrsh"}


class ImportRefusedError(SpecError):
    """A script that cannot become a spec, with the reason."""

    def __init__(self, script: Script, line: int, message: str, hint: str = "") -> None:
        super().__init__([Problem(Position(script.path, line, 1), "", message, hint)])


class InseparableError(ImportRefusedError):
    """A program that cannot be taken out of the lines around it."""


class ImportedJob:
    """What is known of the job while its spec is made."""

    def __init__(self, script: Script, draft: Draft) -> None:
        self.script = script
        self.draft = draft
        self.late: list[str] = []  # lines that each process runs before the program
        self.path: str | None = None  # the folder of the interpreter
        nodes = draft.values.get("resources.nodes", 1)
        self.nodes: int = nodes["min"] if isinstance(nodes, dict) else nodes
        self.tasks: int = draft.values.get("tasks") or 1

    @property
    def gpus(self) -> int:
        """GPUs on each node; the most, where nodes differ."""
        gpus = self.draft.values.get("resources.gpus_per_node") or 0
        return max(gpus) if isinstance(gpus, list) else gpus

    def count(self, item: Candidate) -> int:
        """How many processes a command is started as, by its launchers alone."""
        if not item.launched:
            return 1
        names = {launcher.name for launcher in item.started.launchers}
        if item.step.loop and names & SPREADING:
            return self.nodes
        nodes = item.nodes or self.nodes
        if item.total:
            return item.total
        if item.per_node:
            return item.per_node * nodes
        if names & {"pdsh", "clush", "pbsdsh"}:
            return self.nodes
        if names & SPREADING:
            return 1
        return self.tasks * nodes

    def weigh(self, item: Candidate) -> int:
        """How many processes run the program, those that an agent starts included."""
        count = self.count(item)
        if item.torchrun or item.agent:
            return max(count, 1) * 1000
        return count


def settle_launch(job: ImportedJob, chosen: Candidate) -> None:
    """The mode, launcher and number of processes."""
    script, draft = job.script, job.draft
    variables = script.variables
    names = [launcher.name for launcher in chosen.started.launchers]
    if chosen.nodes and chosen.nodes != job.nodes:
        note = draft.check if chosen.step.loop else draft.lose
        shown, reason = (
            f"{chosen.nodes} of {job.nodes} nodes",
            "the spec's program runs on all nodes",
        )
        if chosen.nodes > job.nodes:
            note = draft.check
            shown, reason = f"{chosen.nodes} nodes", f"the directives ask for {job.nodes}"
        note(chosen.line, shown, reason)
    _settle_step_resources(job, chosen)
    note_options(job.draft, chosen)
    if chosen.torchrun:
        _settle_torchrun(job, chosen)
        return
    if chosen.agent:
        draft.put("launch.mode", "direct")
        draft.put("launch.processes_per_node", 1)
        return
    count = job.count(chosen)
    if "resources.nodes" not in draft.values and chosen.nodes and chosen.nodes > 1:
        draft.put("resources.nodes", chosen.nodes)
        job.nodes = chosen.nodes
    each = chosen.per_node or (count // job.nodes if count % job.nodes == 0 else None)
    if chosen.per_node is None and chosen.total is None:
        each = _settle_unknown_count(job, chosen) or each
    if each is None or each == 0:
        if chosen.launched and chosen.nodes in (None, job.nodes):
            draft.lose(chosen.line, f"{count} processes", f"not a multiple of {job.nodes} nodes")
        each = max(1, count // job.nodes)
    elif chosen.total and each * (chosen.nodes or job.nodes) != chosen.total:
        message = f"the spec starts {each} on each of {job.nodes} nodes"
        draft.lose(chosen.line, f"{chosen.total} processes", message)
    mpi = bool(MPI_LAUNCHERS & set(names))
    if count > 1 or job.nodes > 1 or mpi:
        draft.put("launch.mode", "direct")
        if mpi:
            draft.put("launch.launcher", "mpiexec")
        if script.scheduler == "pbs" and not mpi:
            draft.put("launch.launcher", "pbsdsh" if "pbsdsh" in names else None)
        if each != max(1, job.gpus):
            draft.put("launch.processes_per_node", each)
    elif job.gpus > 1:
        draft.put("launch.mode", "direct")
        draft.put("launch.processes_per_node", 1)
    if not chosen.launched and job.nodes > 1:
        draft.lose(
            chosen.line,
            name_program(chosen.started.program),
            f"the script runs it on the first node alone, the spec on all {job.nodes}",
        )
    for launcher in chosen.started.launchers:
        one = read_number(launcher.value("--gpus-per-task"), variables)
        bound = launcher.value("--gpu-bind") or script.value("--gpu-bind") or ""
        one = one or read_number(script.value("--gpus-per-task"), variables)
        narrow = one == 1 or re.match(r"(single:1|closest|map_gpu)", bound)
        if each > 1 and narrow and bound != "none":
            amd = "ROCR" in script.text or "rocm" in script.text.lower()
            name = "ROCR_VISIBLE_DEVICES" if amd else "CUDA_VISIBLE_DEVICES"
            # Names of GPUs, not their numbers, where Slurm gives those.
            job.late += [
                f"JOBGEN_GPUS=(${{{name}//,/ }})",
                f"export {name}=${{JOBGEN_GPUS[LOCAL_RANK]:-$LOCAL_RANK}}",
            ]


def _settle_unknown_count(job: ImportedJob, chosen: Candidate) -> int | None:
    """The processes of a node where a launcher is told a number that only the job knows."""
    for launcher in chosen.started.launchers:
        value = launcher.value("-n", "-np", "--np", "--ntasks", "-ppn", "--ppn", "--npernode")
        if value is None or launcher.name in SPREADING:
            continue
        if not job.gpus:
            message = f"how many processes start is known to the job alone: {value}"
            raise ImportRefusedError(job.script, chosen.line, message, "write the number out")
        reason = f"taken for the {job.gpus} GPUs of a node"
        job.draft.check(chosen.line, f"{launcher.name} -n {value}", reason)
        return job.gpus
    return None


def _settle_step_resources(job: ImportedJob, chosen: Candidate) -> None:
    """What srun itself asks for, where the directives do not."""
    values, variables = job.draft.values, job.script.variables
    for launcher in chosen.started.launchers:
        if launcher.name != "srun":
            continue

        def number(*names: str, of: Launcher = launcher) -> int | None:
            return read_number(of.value(*names), variables)

        gres = re.fullmatch(r"gpu(?::[\w.-]+)?:(\d{1,4})", launcher.value("--gres") or "")
        each = number("--gpus-per-node") or (int(gres[1]) if gres else None)
        nodes = number("-N", "--nodes")
        if nodes and "resources.nodes" not in values and nodes > 1:
            job.draft.put("resources.nodes", nodes)
            job.nodes = nodes
        tasks = chosen.per_node or max(1, job.count(chosen) // max(1, job.nodes))
        per_task = number("--gpus-per-task")
        each = each or (per_task * tasks if per_task else None)
        if each and "resources.gpus_per_node" not in values:
            job.draft.put("resources.gpus_per_node", each)
        cpus = number("-c", "--cpus-per-task")
        if cpus and not {"resources.cpus_per_node", "resources.cpus_per_gpu"} & values.keys():
            job.draft.put("resources.cpus_per_node", cpus * tasks)


def _settle_torchrun(job: ImportedJob, chosen: Candidate) -> None:
    draft, values, variables = job.draft, job.draft.values, job.script.variables
    agent = chosen.torchrun
    assert agent is not None

    def number(name: str) -> int | None:
        word = agent.options.get(name)
        return read_number(word.raw, variables) if word else None

    nnodes = agent.options.get("--nnodes")
    nodes = number("--nnodes")
    rank = agent.options.get("--node-rank")
    if rank and re.match(r"(\$\{ARG)?\d", write_field(variables.join(rank.raw))) and nodes != 1:
        message = "the script is submitted for each node, the spec once for all"
        draft.lose(chosen.line, f"--node-rank={rank.text}", message)
    text = variables.tell(nnodes.raw) if nnodes else None
    if "resources.nodes" not in values and nodes and nodes > 1 and job.script.scheduler:
        draft.put("resources.nodes", nodes)
        job.nodes = nodes
    if nodes and nodes < job.nodes and not nodes > 1 and job.count(chosen) > 1:
        message = f"each of {job.nodes} nodes trains alone; the spec's train together"
        draft.lose(chosen.line, name_program(chosen.started.program), message)
    elif nodes and nodes > job.nodes and not isinstance(values.get("resources.nodes"), dict):
        draft.check(chosen.line, f"--nnodes={nodes}", f"the directives ask for {job.nodes} nodes")
    elif nnodes and text is None:
        shown, reason = f"--nnodes={nnodes.text}", f"taken for the {job.nodes} of the directives"
        draft.check(chosen.line, shown, reason)
    elif text and ":" in text:
        draft.check(chosen.line, f"--nnodes={text}", "the spec's number of nodes does not change")
    _note_one_agent(job, chosen, counted=nodes == job.nodes)
    count = job.count(chosen)
    if chosen.launched and count > job.nodes and not chosen.step.loop:
        each = count // job.nodes
        message = f"the script starts {each} agents on each node; the spec starts one"
        draft.lose(chosen.line, name_program(chosen.started.program), message)
    processes = number("--nproc-per-node")
    word = agent.options.get("--nproc-per-node")
    asked = variables.tell(word.raw) if word else "1"
    if processes and processes != max(1, job.gpus):
        if not job.gpus and processes > 1 and "resources.gpus_per_node" not in values:
            draft.put("launch.processes_per_node", processes)
        else:
            draft.put("launch.processes_per_node", processes)
    elif asked not in ("gpu", "auto") and processes is None:
        if word is None:
            draft.put("launch.processes_per_node", 1 if job.gpus > 1 else None)
        elif job.gpus:
            shown = f"--nproc-per-node={word.text}"
            draft.check(chosen.line, shown, f"taken for the {job.gpus} GPUs of a node")
        else:
            raise ImportRefusedError(
                job.script,
                chosen.line,
                f"how many processes a node has is known to the job alone: {word.text}",
                "write the number out",
            )
    elif asked in ("gpu", "auto") and not job.gpus:
        raise InseparableError(
            job.script,
            chosen.line,
            f"--nproc-per-node={asked}, and the script does not say how many GPUs a node has",
            "ask for GPUs in a directive",
        )
    restarts = number("--max-restarts")
    draft.put("launch.max_restarts", restarts or None)
    backend = agent.options.get("--rdzv-backend")
    if backend and variables.tell(backend.raw) == "static":
        draft.put("launch.rendezvous", "static")
    if nnodes is None and chosen.launched and job.nodes > 1:
        message = "without --nnodes torchrun is for one node; the spec's train together"
        draft.check(chosen.line, name_program(chosen.started.program), message)
    for option in agent.options:
        if option in _TORCHRUN_LOGS:
            draft.check(chosen.line, option, "jobgen keeps a log of each rank by itself")
        elif option[0] == "$":
            name = option.strip("${}[@]")
            draft.check(chosen.line, option, f"options of torchrun that only the job knows: {name}")
        elif option not in _TORCHRUN_SAID:
            word = agent.options[option]
            shown = f"{option}={word.text}" if word else option
            draft.check(chosen.line, shown, "an option of torchrun that is not kept")


def _note_one_agent(job: ImportedJob, chosen: Candidate, *, counted: bool) -> None:
    """Say that the agent starts on the first node alone; `counted`: it is told of how many."""
    if not chosen.launched and job.nodes > 1 and not chosen.step.loop:
        reason = f"the script starts one agent, on the first node; the spec {job.nodes}, on all"
        note = job.draft.check if counted else job.draft.lose
        note(chosen.line, name_program(chosen.started.program), reason)


_TORCHRUN_LOGS = {"--log-dir", "--redirects", "--tee", "-r", "-t", "--local-ranks-filter"}
_TORCHRUN_SAID = {
    *("--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port", "-m"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--standalone", "--role"),
    *(
        "--module",
        "--no-python",
        "--use-env",
        "--max-restarts",
        "--local-addr",
        "--monitor-interval",
    ),
}


def rewrite_agent(job: ImportedJob, chosen: Candidate) -> tuple[Word, ...]:
    """The words of accelerate and its like, with jobgen's node number and address."""
    assert chosen.agent is not None
    agent, count = chosen.agent
    program = chosen.started.program
    several = job.nodes > 1
    words = list(program[:count])
    index = count
    own = {**dict.fromkeys(agent.rank, "$RANK"), **dict.fromkeys(agent.address, "$MASTER_ADDR")}
    own |= dict.fromkeys(agent.port, "$MASTER_PORT")
    missing = dict.fromkeys(own.values())
    multi = False
    while index < len(program) and program[index].text.startswith("-"):
        word = program[index]
        option, equals, _ = word.text.partition("=")
        index += 1
        if option in own or (option in agent.nodes and not several):
            if not equals and index < len(program):
                index += 1
            if option in own and (several or option in agent.port):
                missing.pop(own[option], None)
                words.append(Word(f'{option}="{own[option]}"', word.line, word.column))
            continue
        if option == "--hostfile" and several:
            raise ImportRefusedError(
                job.script,
                chosen.line,
                "deepspeed's own launcher goes to the nodes by ssh",
                "start one on each node by srun, or use torchrun",
            )
        words.append(word)
        multi = multi or option in agent.nodes
        takes = not equals and index < len(program) and not program[index].text.startswith("-")
        if takes and option not in _AGENT_FLAGS:
            words.append(program[index])
            index += 1
    _note_one_agent(job, chosen, counted=multi)
    if several:
        if chosen.launched and not multi and "--config_file" not in [word.text for word in words]:
            name = " ".join(agent.words)
            message = f"without {agent.nodes[0]} {name} is for one node; the spec's train together"
            job.draft.check(chosen.line, name_program(chosen.started.program), message)
        if agent.words == ("deepspeed",) and "--no_ssh" not in [word.text for word in words]:
            raise ImportRefusedError(
                job.script,
                chosen.line,
                "deepspeed's own launcher goes to the nodes by ssh",
                "start one on each node by srun, or use torchrun",
            )
        for value in missing:
            option = {"$RANK": agent.rank, "$MASTER_ADDR": agent.address}.get(value, agent.port)[0]
            words.insert(count, Word(f'{option}="{value}"', chosen.line, 1))
        if not multi:
            words.insert(count, Word(f"{agent.nodes[0]}={job.nodes}", chosen.line, 1))
        if agent.total:
            asked = next((w for w in words if w.text.partition("=")[0] in agent.processes), None)
            if asked is None and job.gpus:
                total = job.nodes * job.gpus
                words.insert(count, Word(f"{agent.processes[0]}={total}", chosen.line, 1))
    return (*words, *program[index:])


_AGENT_FLAGS = frozenset(
    [
        "--multi_gpu",
        "--multi-gpu",
        "--use_deepspeed",
        "--use-deepspeed",
        "--use_fsdp",
        "--use-fsdp",
        "--cpu",
        "--mps",
        "--quiet",
        "-q",
        "-m",
        "--module",
        "--no_python",
        "--no-python",
        "--tpu",
        "--same_network",
        "--no_ssh",
        "--force_multi",
        "--debug",
        "--use_megatron_lm",
        "--no_local_rank",
        "--enable_each_rank_log",
        "--autotuning",
        "-v",
        "--verbose",
        "--fsdp_offload_params",
        "--use_xpu",
        "--ipex",
        "--multi_cpu",
    ]
)
