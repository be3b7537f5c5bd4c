"""What a spec says that is right in form and can hardly be meant: numbers, paths and characters.

`check` and `submit` ask for it; a render does not, which stays as fast as it is.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from jobgen.errors import Problem
from jobgen.output import format_count as count
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import Plan
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Resources

_GIB = 1024**2  # in KiB
# Each node has its own.
_OWN_FOLDERS = re.compile(
    r"(/tmp|/var/tmp|/dev/shm|/local\w*|\$\{?(TMPDIR|SLURM_TMPDIR|PBS_JOBFS)\}?)(/|$)"
)
# What people and word processors write for - ' and ".
_LOOK_ALIKES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
_LOOK_ALIKES |= dict.fromkeys("\u2018\u2019\u201a\u2032", "'")
_LOOK_ALIKES |= dict.fromkeys("\u201c\u201d\u201e\u2033", '"')
_LOOK_ALIKES |= {"\u00a0": " ", "\u202f": " ", "\uff0c": ",", "\uff1a": ":"}
# Commands that stand inside a line only where YAML has joined two lines.
_JOINED = re.compile(
    r"(?<![;&|({ ])(?<!then)(?<!else)(?<!do) +"
    r"(module (?:load|use|purge)|export [A-Za-z_]\w*=|source \S|conda activate|ulimit -)"
)
# A variable that a line of setup exports.
_EXPORTS = re.compile(r"""^\s*export\s+([A-Z][A-Z0-9_]*)=["']?([^\s"';`]*)""", re.MULTILINE)
_LOOPBACKS = {("NCCL_SOCKET_IFNAME", "lo"), ("GLOO_SOCKET_IFNAME", "lo")}
# A plain value, and what stands behind a number sign without a blank after it.
_EATEN = re.compile(r"""(?!- |[^#]*: )([^\s"'#|>&*!\[{][^"'\[\]{}#]*[ \t])(#\w[^#]*?)\s*$""")
# Options whose value is a place that the program writes to.
_OUTPUTS = re.compile(
    r"--?(out|output|save|checkpoint|ckpt|log|logging|result)s?([_-]?(dir|path|folder))?"
)
# What asks for the internet in setup.
_FETCHES = re.compile(
    r"\b(pip3? install|conda install|git (clone|pull)|curl|wget|(huggingface-cli|hf) download)\b"
)


# What a value is until it is filled in.
_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w -]*>|(?i:your|my)[-_ ](?i:account|project|queue|partition|e?mail|group"
    r"|allocation|user|name|env)\w*|CHANGE[-_]?ME\w*|TODO|FIXME|XXX+|(?:you|me|user|name)@example\.\w+"
    r"|/path/to/\S*"
)
# Variables and the values that those who read them know.
_VALUES = {
    "NCCL_DEBUG": "VERSION|WARN|INFO|ABORT|TRACE",
    "TORCH_DISTRIBUTED_DEBUG": "OFF|INFO|DETAIL",
    "TORCH_CPP_LOG_LEVEL": "INFO|WARNING|ERROR|FATAL|[0-3]",
    "WANDB_MODE": "online|offline|disabled|dryrun|run|shared",
    "TOKENIZERS_PARALLELISM": "true|false|on|off|yes|no|[01]",
    "PYTORCH_CUDA_ALLOC_CONF": r"\w+:.+",
    r"(OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS": r"[1-9]\d*(,\d+)*",
    r"NCCL_(IB|P2P|SHM|NET)_DISABLE|CUDA_LAUNCH_BLOCKING|\w+_OFFLINE": (
        "(?i:[01]|true|false|yes|no|on|off)"
    ),
}
# Variables that are often misspelt, beside those above.
_NAMES = (
    "NCCL_DEBUG NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME NCCL_IB_HCA NCCL_IB_DISABLE NCCL_P2P_DISABLE"
    " CUDA_VISIBLE_DEVICES OMP_NUM_THREADS PYTORCH_CUDA_ALLOC_CONF TOKENIZERS_PARALLELISM HF_HOME"
    " HF_TOKEN HF_DATASETS_CACHE TRANSFORMERS_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE WANDB_MODE"
    " WANDB_PROJECT WANDB_API_KEY WANDB_ENTITY WANDB_DIR PYTHONPATH LD_LIBRARY_PATH TORCH_HOME"
    " PYTHONUNBUFFERED CUDA_LAUNCH_BLOCKING TORCH_DISTRIBUTED_DEBUG MKL_NUM_THREADS PATH CUDA_HOME"
)
# Programs before a program that a job has no use for.
_IDLE = {
    "sudo": "asks for a password, and keeps the job's variables from the program",
    "nohup": "changes nothing in a job, which has no terminal",
    "screen": "wants a terminal, which a job does not have",
    "tmux": "wants a terminal, which a job does not have",
}
# Options of a program that differ between processes.
_OWN_RANK = re.compile(r"--?(global_|local_|node_|machine_)?rank")
_OWN_WORLD = re.compile(r"--?(master_addr|dist_url|init_method|dist_init_method|rdzv_endpoint)")
# What a program reads, and does not make.
_READ = re.compile(
    r"[^$*?\[{:]+\.(ya?ml|jsonl?|toml|txt|csv|tsv|parquet|bin|np[yz]|h5|arrow|sh|py)"
)
# Lines of setup that end the script, or start what the job is to start.
_LEAVES = re.compile(
    r"^(exit\b|exec +(?![\d<>{&])\S|return\b|sleep +inf\w*)"
    r"|(?:(?<=[;&|{] )|(?<=then )|(?<=else )|(?<=do ))exit(?: 0)?(?= *(?:$|[;&#}]))",
    re.MULTILINE,
)
_GIB_OF_A_NODE, _CPUS_OF_A_NODE, _GPUS_OF_A_NODE = 8192, 400, 16  # few nodes have more
_SHORTEST, _LONGEST = 60, 30 * 86400  # seconds: an environment hardly loads, few queues allow


def review(loaded: LoadedSpec, plan: Plan) -> list[Problem]:
    """Return what the spec can hardly mean, in the order of its lines."""
    rules = (
        _compare_processes,
        _compare_memory,
        _check_variables,
        _check_lists,
        _check_interface,
        _check_chain,
        _check_array,
        _check_packing,
        _check_internet,
        _check_container,
        _check_setup,
        _check_characters,
        _check_comments,
        _check_placeholders,
        _check_paths,
        _check_words,
    )
    plans = [role.plan for role in plan.roles.members] if plan.roles else [plan]
    parts = list(zip(loaded.programs(), plans, strict=True))
    problems = {problem for rule in rules for part in parts for problem in rule(*part)}
    return sorted(problems.union(_check_roles(loaded, plan)))


def _list_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of a command with its value: what follows its `=`, else the next word."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def _list_texts(loaded: LoadedSpec) -> Iterator[tuple[str, str]]:
    """Yield each value's place in the spec, and the rest of the line that it begins on."""
    lines = loaded.text.split("\n")
    for path, where in loaded.positions.items():
        if where.file == loaded.file and 0 < where.line <= len(lines):
            yield path, lines[where.line - 1][where.column - 1 :]


def _compare_processes(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Processes against the GPUs and CPUs of a node, and threads against its CPUs."""
    for group in dict.fromkeys(plan.nodes.groups):
        processes, gpus, cpus = group.processes, group.gpus, group.cpus
        if gpus and processes > gpus:
            message = f"{processes} processes share {gpus} GPUs on a node; NCCL takes one each"
            hint = f"write processes_per_node: {gpus}, unless they use gloo or MPS"
            yield loaded.problem("launch.processes_per_node", message, hint)
        elif 1 < processes < gpus and plan.launch.mode in ("torchrun", "direct"):
            message = (
                f"{processes} processes leave {gpus - processes} of {gpus} GPUs on a node idle"
            )
            hint = f"write processes_per_node: {gpus}, unless each takes several"
            yield loaded.problem("launch.processes_per_node", message, hint)
        if cpus and cpus > _CPUS_OF_A_NODE:
            each = bool(loaded.spec.resources.cpus_per_gpu)
            name = "cpus_per_gpu" if each else "cpus_per_node"
            hint = f"it counts for {'each of the' if each else 'all'} {gpus} GPUs of a node"
            yield loaded.problem(f"resources.{name}", f"asks for {cpus} CPUs on a node", hint)
        if gpus > _GPUS_OF_A_NODE:
            message = f"asks for {gpus} GPUs on a node"
            hint = f"for {gpus} in all write nodes: {-(-gpus // 8)}, gpus_per_node: 8"
            yield loaded.problem("resources.gpus_per_node", message, hint)
        threads = plan.environment.variables.get("OMP_NUM_THREADS", "")
        if not cpus:
            continue
        if processes > cpus and loaded.spec.resources.cpus_per_node:
            message = f"{processes} processes share {cpus} CPUs on a node"
            hint = f"write cpus_per_node: {processes} or more"
            yield loaded.problem("resources.cpus_per_node", message, hint)
        elif threads.isdecimal() and int(threads) * processes > cpus:
            message = f"{processes} processes with {threads} threads share {cpus} CPUs on a node"
            hint = f"write {max(1, cpus // processes)}, or leave it out"
            yield loaded.problem("environment.variables.OMP_NUM_THREADS", message, hint)


def _compare_memory(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Memory that a process of PyTorch cannot start in: a unit that was mistaken."""
    memory, group = loaded.spec.resources.memory_per_node, plan.nodes.groups[0]
    if memory is not None and group.gpus and memory < group.processes * _GIB:
        message = f"{memory // 1024} MiB are less than 1 GiB a process"
        yield loaded.problem("resources.memory_per_node", message, "check the unit: MB, GB")
    if memory is not None and memory > _GIB_OF_A_NODE * _GIB:
        message = f"asks for {memory // _GIB} GiB on a node"
        yield loaded.problem("resources.memory_per_node", message, "check the unit: GB, TB")
    seconds = plan.walltime.seconds
    if seconds is not None and plan.can.batch and not _SHORTEST <= seconds <= _LONGEST:
        long = f"{seconds // 86400} days are more than most queues allow"
        message = long if seconds > _LONGEST else f"{seconds} s hardly load an environment"
        yield loaded.problem("resources.walltime", message, "write hours:minutes:seconds, or 2h")


def _list_settings(loaded: LoadedSpec, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield variables with their values: the spec's own, and those that its setup exports."""
    for name, value in plan.environment.variables.items():
        yield f"environment.variables.{name}", name, value
    for name, value in _EXPORTS.findall(loaded.spec.environment.setup or ""):
        yield "environment.setup", name, value


def _check_variables(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Variables that show fewer GPUs than the job asks for, or part its processes."""
    gpus = max(group.gpus for group in plan.nodes.groups)
    for path, name, value in _list_settings(loaded, plan):
        form = next((form for names, form in _VALUES.items() if re.fullmatch(names, name)), ".*")
        if value and "$" not in value and not re.fullmatch(form, value, re.DOTALL):
            write = (
                form.replace("|", ", ")
                if re.fullmatch(r"[\w|]+", form)
                else "a number of 1 or more"
            )
            yield loaded.problem(path, f"{name} does not know {value!r}", f"write {write}")
        elif name == "PATH" and not re.search(r"\$|/bin(:|$)(?<!\w/bin)", value):
            hint = f"write {{value: {value}:$PATH, expand: true}}"
            yield loaded.problem(
                path, f"{name} replaces the node's own, with python and srun", hint
            )
        shown = len([part for part in value.split(",") if part.strip()])
        if path == "environment.setup" and re.fullmatch(r"MASTER_\w+|(LOCAL_)?RANK", name):
            yield loaded.problem(path, f"{name} is set by the job, after its setup", "remove it")
        elif name.endswith("_VISIBLE_DEVICES") and shown < gpus and "$" not in value:
            message = f"{name} shows {shown} of the {gpus} GPUs that the job asks for on a node"
            hint = f"leave it out, or write gpus_per_node: {shown}"
            yield loaded.problem(path, message, hint)
        elif (name, value) in _LOOPBACKS and plan.nodes.total > 1 and plan.can.batch:
            message = f"{name}=lo is the loopback interface, which cannot reach other nodes"
            yield loaded.problem(path, message, "leave it out, or write launch.interface")


def _check_lists(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Numbers of devices where numbers for each node are meant."""
    gpus = loaded.spec.resources.gpus_per_node
    if isinstance(gpus, tuple) and 0 in gpus[1:] and plan.launch.mode in ("torchrun", "direct"):
        message = "the processes of a node without GPUs have none, and those of the others do"
        yield loaded.problem("resources.gpus_per_node", message, "write a number for each node")
    if isinstance(gpus, tuple) and (hint := advise_on_devices(gpus)):
        message = f"asks for {len(gpus)} nodes, with {', '.join(map(str, gpus))} GPUs"
        yield loaded.problem("resources.gpus_per_node", message, hint)


def _check_interface(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    if plan.nodes.total > 1 and plan.can.batch and plan.launch.interface == "lo":
        message = "is the loopback interface, which cannot reach other nodes"
        hint = "leave it out, or name the nodes' network, as ip -brief address shows it"
        yield loaded.problem("launch.interface", message, hint)


def _check_chain(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Results that the next start of the job would not find."""
    spec, words = loaded.spec, plan.program.command
    chained = spec.on_walltime is not None and spec.on_walltime.then != "stop"
    end = "the job's next start may be elsewhere" if chained else "it goes with the job"
    for before, word in zip(("", *words), words, strict=False):
        option, _, folder = word.rpartition("=")
        written = _OUTPUTS.fullmatch(option or before)
        if _OWN_FOLDERS.match(folder) and plan.can.batch and (chained or written):
            message = f"{folder} is on each node's own disk, and {end}"
            yield loaded.problem("run.args", message, "name a folder that all nodes see")
    own = spec.environment
    image = own.container.image if own.container else None
    named = {"run.script": spec.run.script, "environment.venv": own.venv}
    for path, name in (named | {"environment.container.image": image}).items():
        made = os.path.basename(name or "") in (own.setup or "")
        if name and _OWN_FOLDERS.match(name) and plan.can.batch and not made and not own.stage:
            message = f"{name} is on this machine's own disk, and the job's nodes have others"
            yield loaded.problem(path, message, "name a folder that all nodes see")


def _check_array(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of an array that write into one place."""
    if plan.array is None:
        return
    for name in (loaded.spec.array.values or {}) if loaded.spec.array else ():
        if name in Resources._fields:
            message = f"{name} is an argument of the program here: its tasks get --{name}"
            hint = f"all tasks have the job's resources; write run.args.{name} if that is meant"
            yield loaded.problem(f"array.values.{name}", message, hint)
    for option, place in _list_options(plan.program.command):
        if _OUTPUTS.fullmatch(option) and place and "$" not in place:
            message = f"all {len(plan.array.tasks)} tasks write to {option} {place}"
            hint = "write {value: $JOBGEN_RUN_DIR/results, expand: true}"
            yield loaded.problem("run.args", message, hint)
            return


def _check_packing(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Tasks of a part of a node that are charged for all of it."""
    node, array = plan.defaults.node, plan.array
    whole = node.whole or plan.requests.exclusive
    if array is None or not whole or node.gpus is None or plan.nodes.total > 1:
        return
    (group,) = plan.nodes.asked
    fit = node.gpus // (plan.nodes.gpus or node.gpus)
    if 0 < group.gpus < node.gpus and fit > plan.nodes.together:
        tasks = f"{array.size} tasks of {count(plan.nodes.gpus, 'GPU')}"
        message = (
            f"{tasks} are charged as {array.jobs * node.gpus} GPUs, as each job has whole nodes"
        )
        yield loaded.problem("array", message, f"write together: {min(fit, array.size)}")


def _check_internet(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """What asks for the internet, on a site whose compute nodes have none."""
    own = plan.environment
    if plan.site.internet != "none":
        match = re.search(r"\b(pip3? install|conda install|conda create)\b", own.setup or "")
        if match and plan.nodes.total > 1 and not own.container:
            message = f"{match[1]} runs on {plan.nodes.total} nodes at a time, into one folder"
            yield loaded.problem("environment.setup", message, "run it once, before you submit")
        return
    where = f"compute nodes of {loaded.spec.site or 'this site'} have no internet"
    if own.setup and (match := _FETCHES.search(own.setup)):
        hint = "run it on the login node, once, before you submit"
        yield loaded.problem("environment.setup", f"{match[1]}: {where}", hint)
    names = {*own.variables, *own.from_shell}
    online = own.variables.get("WANDB_MODE", "online") == "online"
    if online and any(name.startswith("WANDB_") for name in names):
        hint = "write WANDB_MODE: offline, and run wandb sync on the login node"
        yield loaded.problem("environment", f"W&B: {where}", hint)


def _check_container(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """A venv that the container does not see, and containers that take no variables in."""
    own = loaded.spec.environment
    if own.container is not None and own.venv and own.venv.startswith("/"):
        seen = [bind.partition(":")[0] for bind in own.container.binds]
        here = [os.getcwd(), os.path.expanduser("~"), "/tmp"]
        if not any(
            os.path.commonpath([own.venv, path]) == path
            for path in [*seen, *here]
            if path[:1] == "/"
        ):
            message = f"{own.venv} is not seen inside the container"
            hint = f"write binds: [{os.path.dirname(own.venv)}], or leave the venv out"
            yield loaded.problem("environment.venv", message, hint)
    name, *words = (os.path.basename(word) for word in loaded.spec.run.command or ("",))
    takes_none = {
        "docker": not any(word.startswith(("-e", "--env")) for word in words),
        "apptainer": bool({"-e", "--cleanenv", "-c", "--contain", "-C"} & set(words)),
    }
    alias = {"podman": "docker", "singularity": "apptainer"}
    if takes_none.get(alias.get(name, name)):
        message = f"{name} takes no variables in, so the processes do not find each other"
        hint = "write environment.container, and the command that runs inside"
        yield loaded.problem("run.command", message, hint)


def _check_setup(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Lines that YAML has joined, because `setup:` is followed by > or by nothing; and conda's."""
    setup = loaded.spec.environment.setup or ""
    match = re.search(r"^\s*conda activate +([\w./$-]+)", setup, re.MULTILINE)
    before = setup[: match.start()] if match else ""
    made = loaded.spec.environment.modules or re.search(r"conda\.sh|hook|bashrc|module", before)
    if match and not made:
        message = "conda activate works only where conda's own lines stand before it"
        yield loaded.problem("environment.setup", message, f"write environment.conda: {match[1]}")
    program = loaded.spec.run.script or "\n"
    if match := _LEAVES.search(setup):
        message = f"{match[0]!r} ends the script, or never ends, before the program starts"
        yield loaded.problem("environment.setup", message, "remove it")
    elif re.search(rf"^[^#\n]*python[\d.]* (-\S+ )*{re.escape(program)}\b", setup, re.MULTILINE):
        message = f"starts {program} on every node, before the job does"
        yield loaded.problem(
            "environment.setup", message, "remove it; run.script names the program"
        )
    if "\n" not in setup.strip() and (match := _JOINED.search(setup.split(" #")[0])):
        message = f"is one line, in which {match[1]!r} is an argument of the command before it"
        yield loaded.problem("environment.setup", message, "write setup: | and a line for each")


def _check_characters(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Dashes, quotes and blanks that look like others, in what a shell or a program reads."""
    spec = loaded.spec
    texts = {
        "run.command": " ".join(spec.run.command or ()),
        "run.args": " ".join(plan.program.command),
        "run.script": spec.run.script or "",
        "environment.setup": spec.environment.setup or "",
    }
    for path, text in texts.items():
        odd = next((char for char in text if char in _LOOK_ALIKES), None)
        if odd is not None:
            start = max(0, text.index(odd) - 8)
            message = f"holds {odd!r} (U+{ord(odd):04X}), in {text[start : start + 20]!r}"
            hint = f"write {_LOOK_ALIKES[odd]!r}"
            yield loaded.problem(path, message, hint)
            return


def _check_comments(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Text behind a number sign that YAML takes for a comment, as of `tag: exp #1`."""
    for path, rest in _list_texts(loaded):
        if match := _EATEN.match(rest):
            message = f"ends before {match[2]!r}, which YAML takes for a comment"
            yield loaded.problem(path, message, f"write '{match[1]}{match[2]}'")
            return


def _check_words(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Words that a job has no use for, or that are the same in every process; misspelt names."""
    words, world = plan.program.command, plan.nodes.world_size
    name = os.path.basename(words[0]) if words else ""
    if name in _IDLE:
        yield loaded.problem("run.command", f"{name} {_IDLE[name]}", f"leave {name} out")
    elif name in ("jupyter", "jupyter-lab", "tensorboard") and world > 1 and not plan.launch.plain:
        message = f"{name} would start {world} servers, one in each process"
        yield loaded.problem("run.command", message, "ask for one node, and launch: {mode: plain}")
    for option, value in _list_options(words):
        option = option.replace("-", "_").replace("__", "--", 1)
        one = _OWN_RANK.fullmatch(option) and value.isdecimal()
        here = _OWN_WORLD.fullmatch(option) and re.search(r"localhost|127\.0\.0\.1", value)
        other = option == "--world_size" and value.isdecimal() and int(value) != world
        if world > 1 and (one or other or (here and plan.nodes.total > 1)):
            message = f"{option} {value} is the same in all {world} processes"
            hint = "leave it out; the program finds RANK, LOCAL_RANK, WORLD_SIZE and MASTER_ADDR"
            yield loaded.problem("run.args", message, hint)
    directives, sign = loaded.spec.directives, f"{plan.can.sign} "
    if (
        loaded.spec.scheduler
        and directives
        and not any(line.startswith(sign) for line in directives)
    ):
        hint = f"write {sign}..., or the key that means the same"
        yield loaded.problem("directives", f"{plan.scheduler} does not read them", hint)
    names = _NAMES.split()
    for name, value in (loaded.spec.environment.variables or {}).items():
        if len(str(value)) > 1 and str(value)[0] == str(value)[-1] and str(value)[0] in "\"'":
            path = f"environment.variables.{name}"
            yield loaded.problem(path, f"holds its quotes: {value}", f"write {str(value)[1:-1]}")
        if name in names:
            continue
        from jobgen.spec.words import find_near

        if near := find_near(name, names, cutoff=0.9):
            path = f"environment.variables.{name}"
            yield loaded.problem(path, f"nothing reads {name}", f"did you mean {near}?")


def _check_placeholders(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Words that stand for a value that is to be filled in."""
    for path, text in _list_texts(loaded):
        value = re.match(r"""["']?[^"',\]}#\n]*""", text)
        if value and (match := _PLACEHOLDER.match(value[0].strip("\"' "))):
            yield loaded.problem(path, f"{match[0]!r} stands for a value", "write your own")


def _check_paths(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Files and folders that the job reads and that are not here."""
    own = loaded.spec.environment
    setup = own.setup or ""
    moved = re.search(r"\b(cd|pushd)\b", setup)
    for path, name, text in _list_files(loaded, plan):
        made = path != "environment.setup" and os.path.basename(name) in setup
        if _is_missing(name) and not made and not (moved and not os.path.isabs(name)):
            where = "; paths are relative to the folder you submit from" * (name[:1] not in "/~")
            yield loaded.problem(path, f"{text} is not here", f"correct the path{where}")
    venv = os.path.expanduser(own.venv or "")
    if own.venv and os.path.isdir(venv) and not os.path.isfile(f"{venv}/bin/activate"):
        conda = os.path.isdir(f"{venv}/conda-meta")
        hint = f"write environment.conda: {own.venv}" if conda else "name the folder above bin"
        yield loaded.problem("environment.venv", f"{own.venv} has no bin/activate", hint)


def _list_files(loaded: LoadedSpec, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, with its place in the spec, and with what is before it."""
    own, words = loaded.spec.environment, plan.program.command
    if own.venv and own.container is None:
        yield "environment.venv", own.venv, own.venv
    if own.stage:
        yield "environment.stage", own.stage, own.stage
    if own.container and re.match(r"[./~]|.*\.(sif|sqsh|simg)$", own.container.image):
        yield "environment.container.image", own.container.image, own.container.image
    for name in re.findall(r"^(?:source|\.) +([\w./~-]+)", own.setup or "", re.MULTILINE):
        yield "environment.setup", name, name
    command = [word for word in loaded.spec.run.command or () if word[:1] != "-"]
    shell = os.path.basename(command[0]) in ("bash", "sh", "zsh") if command else False
    file = command[1] if command[1:] and (shell or "python" in command[0]) else "".join(command[:1])
    if file.endswith((".sh", ".py")) and ("/" in file or file != command[0]) and not own.container:
        yield "run.command", file, file
    for option, value in _list_options(words) if own.container is None else ():
        if option[:2] == "--" and _READ.fullmatch(value) and not _OUTPUTS.match(option):
            yield "run.args", value, f"{option} {value}"


def _is_missing(name: str) -> bool:
    """Whether a path is not on this machine, though its folder is, or would be.

    Every machine has a home folder, and this one need not be the cluster's.
    """
    path = os.path.expandvars(os.path.expanduser(name))
    if "$" in path or "://" in path or os.path.exists(path):
        return False
    folder = os.path.dirname(path)
    anywhere = ("/", os.path.expanduser("~"))
    return not os.path.isabs(path) or (folder not in anywhere and os.path.isdir(folder))


def _check_roles(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Addresses of roles that a job does not have, and a server whose end is the job's."""
    members = plan.roles.members if plan.roles else ()
    names = {member.name.upper() for member in members}
    for member in members:
        key = f"roles.{member.name}.run"
        text = f"{' '.join(member.plan.program.command)} {member.plan.environment.setup or ''}"
        for name, of, part in re.findall(
            r"\$\{?(([A-Z]\w*?)_((?:ADDR|PORT|HOST|URL|NODE|IP)\w*))", text
        ):
            known = {*member.plan.environment.variables, *os.environ, "MASTER_ADDR", "MASTER_PORT"}
            known |= {*re.findall(r"(\w+)=", text)}
            if (of not in names or part not in ("ADDR", "PORT", "HOSTS")) and name not in known:
                have = ", ".join(f"${one}_ADDR, ${one}_PORT" for one in sorted(names))
                yield loaded.problem(key, f"nothing sets ${name}", f"the roles have {have}")
        if member is members[-1] and f"${member.name.upper()}_PORT" in text:
            message = "serves, and its end would be the job's, as it stands last"
            yield loaded.problem(key, message, "put the role that is to end the job last")
