"""Files generated from the program: pages of docs, the man page and the JSON Schemas.

python docs/generate.py          # writes these pages of docs/reference, and SKILL.md
python docs/generate.py --man    # prints the man page, as in: ... | man -l -
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import click

ROOT = Path(__file__).resolve().parent.parent
RESTART = ROOT / "templates" / "runtime" / "restart.sh"
sys.path.insert(0, str(ROOT))

from jobgen import __version__
from jobgen.batchscript.lint import RULES
from jobgen.cli.editors import write_schema
from jobgen.cli.main import LISTED, cli
from jobgen.diagnose.cause import (
    ADVICE,
    APART,
    CAUSES,
    FOLDER,
    GO_ON,
    HIDDEN,
    LEFT_EARLY,
    SECTIONS,
    SILENT_NODE,
    Cause,
)
from jobgen.errors import EXIT_CODES, SpecError
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.rendering.runtime import split_script
from jobgen.schedulers import SCHEDULERS
from jobgen.sites.profile import SiteProfile
from jobgen.spec.fields import Kind, Parsed, Range, is_record, read_fields
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec, Ready, Role

ABOUT = """\
jobgen turns one short YAML file into a multi-node PyTorch job that starts on every node of a PBS or
Slurm cluster, or on this machine. It writes a batch script that you can read, commit, and run with
plain qsub or sbatch.

Commands that take a spec read job.yaml in the current folder by default.
"""
ENVIRONMENT = (
    (
        "JOBGEN_SITE_PATH",
        "Folders with site profiles, separated by colons; the last profile with a name wins.",
    ),
    (
        "XDG_CONFIG_HOME",
        "Its subfolder jobgen/sites has the user's own profiles (default: ~/.config).",
    ),
)
FILES = (
    ("job.yaml", "The spec that commands read by default."),
    (
        ".jobgen/sites/NAME.yaml",
        "A site profile of the project; it wins over one from the user, from "
        "$JOBGEN_SITE_PATH, from /etc/jobgen/sites and from jobgen itself.",
    ),
    ("runs/NAME/ID/", "A submitted job, with its logs, errors, metrics and checkpoints."),
)
SEE = "sbatch(1), qsub(1B), torchrun, https://docs.pytorch.org/docs/stable/elastic/run.html"


def man_page() -> str:
    """jobgen(1), with all commands, as roff."""
    lines = [
        '.\\" made by docs/generate.py',
        f'.TH JOBGEN 1 "" "jobgen {__version__}" "User Commands"',
        ".SH NAME",
        r"jobgen \- from one short YAML file to a multi-node PyTorch job on PBS or Slurm",
        ".SH SYNOPSIS",
        r"\fBjobgen\fR \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(ABOUT),
        ".SH COMMANDS",
    ]
    for path, command in commands(cli):
        context = click.Context(command, info_name=f"jobgen {path}")
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f'.SS "{_roff(f"jobgen {path} {usage}")}"', *_paragraphs(command.help or "")]
        for option in command.params:
            record = option.get_help_record(context)
            if record and record[1] and "--help" not in option.opts:
                lines += [".TP", rf"\fB{_roff(record[0])}\fR", _roff(record[1])]
    for heading, rows in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines.append(f".SH {heading}")
        for name, text in rows:
            lines += [".TP", rf"\fB{_roff(name)}\fR", _roff(text)]
    lines.append('.SH "EXIT STATUS"')
    for code, meaning in re.findall(r"(\d+) ([^,]+)", EXIT_CODES.replace("\n", " ")):
        lines += [".TP", rf"\fB{code}\fR", _roff(meaning.strip())]
    return "\n".join([*lines, '.SH "SEE ALSO"', _roff(SEE)]) + "\n"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, each after the one that it belongs to."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip().replace("\b\n", "").split("\n\n")):
        if number:
            yield ".PP"
        yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    """Text that roff prints as it is, on one line."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def lint_page() -> str:
    """docs/reference/lint.md: a section for each rule."""
    lines = [
        "# What `jobgen lint` finds",
        "",
        "A finding names its rule. This page says why each rule exists and how to fix what it",
        "finds. `docs/generate.py` writes it.",
    ]
    for rule in sorted(RULES, key=lambda rule: rule.id):
        fix = rule.fix[0].upper() + rule.fix[1:]
        lines += ["", f"## {rule.id}", "", f"**{rule.title}.** {rule.why}", "", f"{fix}."]
        lines += ["", f"Read more: <{rule.reference}>"]
    return "\n".join(lines) + "\n"


DIAGNOSE = """\
# What `jobgen diagnose` finds

`jobgen diagnose JOB` names the root cause of a failure and not its last symptom: the process or
node where it began, its exception and the line of the program, the evidence as `file:line`,
and what to do. [json.md](json.md) describes `--json`. The command asks the scheduler once, reads
the run folder and the job's output, and changes nothing. Its exit code is 0 whatever it finds,
because a failed job is its answer, not its own failure; it is 2 if the job does not exist.

## How it decides

1. The scheduler's report about the end counts first: a walltime, a lost node, a step that did not
   start, preemption. If it killed a process that was out of memory, jobgen names that process.
2. Next comes the process that failed first on its own, with all ranks that failed alike. Its last
   uncaught exception ended it, and jobgen also shows the exception that this one came from. If a
   program has none, in whatever language, jobgen shows the signal or the exit code, the line that
   gives the reason, and where Python stood when it crashed. These words head the diagnosis; they
   alone identify a cause from the table below, which adds what to do. Exceptions that a program
   handles and logs do not count: those in threads and destructors, those after which the process
   continued or died of a signal, and those that another rank has survived. Ranks that lost their
   connection to the process, or were stopped, count as its consequence. So do ranks with an
   exception about a lost connection or another rank, if it ended them within three seconds of an
   exception about something else. From JSON records, jobgen reads the message and the exceptions.
   Times are those of the shared file system.
3. Next comes the node with the agent that failed first, then the script.
4. If processes only waited (a collective timed out, the trainer's watchdog ended it), jobgen names
   the rank that they waited for. It finds the rank in torch's flight recorder
   (`errors/*-flight-*`, `hangs/`), in the stacks in `hangs/`, from the line of the program at which
   each rank waited, or because only this rank did not report that it waited. If none of these
   shows it, jobgen names no rank.
5. A running job is healthy as long as its logs, metrics and checkpoints grow. If it wrote nothing
   for a minute, jobgen asks its nodes, as `jobgen top` does; if all are idle, it may hang. It hangs
   if it wrote nothing for ten minutes, or for ten times its longest step if that is more. Before
   its first output, ten quiet minutes may be a slow start.
6. If all failed processes have only lost another, the cause is the missing one: the node that
   left no outcome, or the rank that exited with 0 while the others were at work.

The output of jobgen's script counts if it names a failure; its notes are not evidence.
`python benchmarks/diagnosis.py` measures how often all this is right: it diagnoses some eight
hundred jobs with planted faults, recorded on Slurm, PBS and one machine. CI requires that 95 % are
right and that no innocent node or rank is blamed.

Dumps of the flight recorder are pickles; jobgen reads them without running anything in them.

## Causes

The table does not list `exception`, any other exception that the program raised; `exit CODE`, a
process that exited without a message (-9: by signal 9); `unknown`, a failure for which jobgen can
only show the evidence; and `healthy`, no failure. The last table has what the words of such an
exception, or of a program that exited with a code, may mean; they stay the title, and jobgen adds
what to do.
"""


def diagnose_page() -> str:
    """docs/reference/causes.md: how it decides, and a table of the causes."""
    lines = [DIAGNOSE]
    slurm, pbs = (SCHEDULERS[name].advice._asdict() for name in ("slurm", "pbs"))
    words = {key: f"{slurm[key]} (Slurm), {pbs[key]} (PBS)" for key in slurm}
    words |= {"folder": FOLDER, "go_on_there": GO_ON}
    for title, causes in (
        ("The scheduler's report", SECTIONS["scheduler"]),
        ("The job script and its preflight", SECTIONS["script"]),
        ("Nodes, memory, GPUs and networks", SECTIONS["machine"]),
        ("The program, its files and packages", SECTIONS["program"]),
        ("Missing nodes and processes", (APART, HIDDEN, LEFT_EARLY, SILENT_NODE)),
    ):
        lines += [f"### {title}", "", "| cause | what it is | what to do |", "| --- | --- | --- |"]
        rows = [f"| `{one.id}` | {one.title} | {one.remedy.format(**words)} |" for one in causes]
        lines += [*dict.fromkeys(rows), ""]
    lines += ["### Other exceptions", "", "| what it is | what to do |", "| --- | --- |"]
    lines += [f"| {' | '.join(remedy.format(**words).split(': ', 1))} |" for _, remedy in ADVICE]
    return "\n".join([*lines, ""])


SITES = """\
# Sites

jobgen has profiles for these clusters; `docs/generate.py` writes this page from them. Facts from
users' scripts only cause warnings, never refusals, as do facts that are older than a year or
undated. No profile has been tried on its cluster yet. `jobgen sites show NAME` prints
queues, limits, network and sources; on the cluster, `jobgen sites check` says what has changed.
[The format](profile.md) · [write a profile for your site](../guides/site-profile.md).
"""
TRIED = """
## What three jobs get

Each profile renders three specs: two nodes with all their GPUs for an hour, one GPU for an
hour, and one node for four hours. A cell names the queue or partition (*default*: the site
chooses it); *refused* or *warned* means that the site's limits do not allow the job. *A process
gets* and *charged* refer to the first job; *site's default* means that the job requests nothing.
An empty binding leaves processes to the scheduler and torch. *Compared with* is the *site's
example* of a PyTorch job (tests/sites/published.yaml has each difference and its reason), the
*words* of documents, which a test compares, or *scripts* that users published. *Source*, *dated*
and *grade* describe the queues' limits; `sites show` has those of each fact.
"""
TODAY = "2026-11-23"


def sites_page() -> str:
    """docs/reference/sites.md: the clusters that jobgen knows, and what three jobs get on each."""
    from jobgen.sites import search
    from jobgen.sites.describe import GRADES

    head = "| site | cluster | scheduler | GPUs per node | from |"
    lines = [SITES, head, "| --- | --- | --- | --- | --- |"]
    columns = (
        "site | 2 nodes, 1 h | 1 GPU | 1 node, 4 h | a process gets | network | binding | charged"
        " | compared with | source | dated | grade"
    )
    details = [TRIED, f"| {columns} |", f"| {' | '.join(['---'] * 12)} |"]
    for name in sorted(path.stem for path in Path(search.BUILT_IN).glob("*.yaml")):
        profile = search.read(os.path.join(search.BUILT_IN, f"{name}.yaml")).profile
        if profile.verified is None:
            continue
        grade = GRADES[profile.verified]
        cells = (f"`{name}`", profile.title, profile.can.title, ", ".join(list_gpus(profile)))
        lines.append(f"| {' | '.join(cell or '' for cell in (*cells, grade))} |")
        details.append(f"| {' | '.join((f'`{name}`', *_try_site(name, profile)))} |")
    return "\n".join([*lines, *details]) + "\n"


def list_gpus(profile: SiteProfile) -> list[str]:
    """Return the GPUs of a cluster, each once, such as `4 x A100-40`."""
    from jobgen.sites.sheet import count_gpus

    queues = (profile.queues or {}).values()
    nodes = [profile.node, *(profile.gpu_types or {}).values(), *(queue.node for queue in queues)]
    gpus = (count_gpus(node) for node in nodes if node.gpu)
    return list(dict.fromkeys(words for words in gpus if words))


def describe_queues(profile: SiteProfile) -> tuple[str, str]:
    """Return the queues that a GPU job gets, and the address of what says so."""
    queues = profile.queues or {}
    open_queues = {name: queue for name, queue in queues.items() if not queue.routed_from}
    chosen = {name: queue for name, queue in open_queues.items() if queue.choose or queue.gpu_types}
    words = ", ".join(chosen) or (f"named by the job: {', '.join(open_queues)}" if queues else "")
    listed = [*(chosen or open_queues).values(), profile.every_queue]
    names = [queue.source for queue in listed]
    names += [node.source for node in (profile.node, *(profile.gpu_types or {}).values())]
    source = profile.find_source(next(filter(None, names), None))
    return words or "none is named", source.address


def describe_network(profile: SiteProfile) -> str:
    """Return the fabric, and the library that carries NCCL on it."""
    network = profile.network
    if network is None:
        return "not known"
    places: dict[str | None, str] = {
        "module": " of the site's module",
        "path": " at the site's path",
        "container": " of a container",
        "environment": " of the job's environment",
    }
    place = places.get(network.plugin_from, "")
    return f"{network.fabric}, by {network.plugin or 'what NCCL has itself'}{place}"


def describe_binding(profile: SiteProfile) -> str:
    """Return which cores and GPU a process gets; empty if the profile does not decide."""
    launch = profile.launch
    if launch is None:
        return ""
    order = ",".join(map(str, launch.devices or ()))
    parts = (
        f"GPUs {order}" if order else "",
        " ".join(text for text in launch.options if "bind" in text or "depth" in text),
        f"torchrun --numa-binding={launch.numa_binding}" if launch.numa_binding else "",
    )
    return "; ".join(filter(None, parts))


def _try_site(name: str, profile: SiteProfile) -> Iterator[str]:
    """Yield the cells of a site: what each of the three jobs gets, and where that is from."""
    from jobgen.plan.cost import estimate_cost, format_number
    from jobgen.sites.describe import GRADES

    gpus = _count_gpus(name, profile)
    jobs = ((2, gpus, "1h"), (1, 1, "1h"), (1, gpus, "4h"))
    plans = [_try_job(name, nodes=nodes, gpus=each, walltime=time) for nodes, each, time in jobs]
    yield from (words for words, _ in plans)
    plan = next((plan for _, plan in plans if plan is not None), None)
    yield _describe_share(plan) if plan else ""
    yield describe_network(profile)
    binding = describe_binding(profile)
    yield f"`{binding}`" if binding else ""
    cost = estimate_cost(plan) if plan else None
    known = cost is not None and cost.amount is not None
    yield f"{format_number(cost.amount)} {cost.unit}" if known else "not known"
    yield _describe_comparison(name, profile)
    address = describe_queues(profile)[1]
    source = next(one for one in (profile.sources or {}) if profile.sources[one].address == address)
    found = profile.find_source(source)
    yield address
    yield f"{found.dated}" if found.address else ""
    yield GRADES[found.grade] if found.address and found.grade else ""


def _count_gpus(name: str, profile: SiteProfile) -> int:
    """The GPUs of a node of the type that the job gets, or four."""
    key = "resources.gpu_type="
    asked = [value.removeprefix(key) for value in _list_wanted(name) if value.startswith(key)]
    kind = next(iter(asked), profile.gpu_type)
    chosen = [
        queue.node.gpus
        for queue in (profile.queues or {}).values()
        if queue.choose or queue.gpu_types
        if not queue.gpu_types or kind is None or kind in queue.gpu_types
    ]
    of_type = (profile.gpu_types or {}).get(kind or "")
    counts = [profile.node.gpus, of_type.gpus if of_type else None, *chosen]
    return max((count for count in counts if count), default=4)


def _try_job(name: str, *, nodes: int, gpus: int, walltime: str) -> tuple[str, Plan | None]:
    """Return what becomes of a job on a site, in a word or two, and its plan."""
    spec = {
        "name": "job",
        "resources": {"nodes": nodes, "gpus_per_node": gpus, "walltime": walltime},
        "run": {"script": "train.py"},
    }
    sizes = ("resources.nodes=", "resources.gpus_per_node=", "environment.", "run.")
    wanted = [value for value in _list_wanted(name) if not value.startswith(sizes)]
    try:
        plan = resolve(load(spec, wanted), site=name, today=TODAY)
    except SpecError as error:
        return f"refused: {error.problems[0].message.partition(' (')[0]}", None
    queue = plan.requests.queue or "default"
    doubts = [note for note in plan.notes if note.startswith("warning") and "so it may" in note]
    return (f"{queue}, warned" if doubts else queue), plan


def _list_wanted(name: str) -> list[str]:
    """The account and the like that a site asks for, as the tests write them."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from golden import SITES as WANTED

    wanted: list[str] = WANTED.get(name, [])
    return wanted


def _describe_share(plan: Plan) -> str:
    """The CPUs and memory of a process, and who decides what the job does not ask for."""
    group, node = plan.nodes.groups[0], plan.defaults.node
    whole = "the node's" if node.whole else "site's default"
    cpus = f"{group.cpus // group.processes} CPUs" if group.cpus else f"{whole} CPUs"
    if group.memory:
        return f"{cpus}, {group.memory // group.processes // 1024**2} GB"
    if node.memory_rule == "forbidden" and not node.whole:
        return f"{cpus}, the memory that comes with the GPU"
    return f"{cpus}, {whole} memory"


def _describe_comparison(name: str, profile: SiteProfile) -> str:
    import yaml

    published = yaml.safe_load((ROOT / "tests/sites/published.yaml").read_text(encoding="utf-8"))
    limits = [limit for queue in (profile.queues or {}).values() for limit in queue.limits]
    if name in published:
        return "site's example"
    if any(limit.quote for limit in (*limits, *profile.every_queue.limits)):
        return "words"
    return {"docs": "document"}.get(profile.verified or "", "scripts")


PROFILE = """\
# The site profile, key by key

`docs/generate.py` writes this page from the records that jobgen reads. A profile is one YAML
file, `NAME.yaml`; it leaves out unknown facts. [Write a profile](../guides/site-profile.md)
leads from an empty file to a profile that refuses what the site refuses; `jobgen schema site`
prints this page as JSON Schema for editors.
"""


def profile_page() -> str:
    """docs/reference/profile.md: every key of a profile, its type and its meaning."""
    lines = [PROFILE]
    for title, cls in _list_parts(SiteProfile, "The profile", {}).items():
        description = " ".join((inspect.getdoc(cls) or "").split())
        lines += [f"## {title}", "", description, "", "| key | type | meaning |"]
        lines.append("| --- | --- | --- |")
        for name, field in read_fields(cls).items():
            kinds = " or ".join(dict.fromkeys(map(_describe_kind, field.kinds)))
            meaning = field.description + (" Required." if field.required else "")
            lines.append(f"| `{name}` | {_cell([kinds])} | {_cell([meaning])} |")
        lines.append("")
    return "\n".join(lines)


def _list_parts(cls: type, title: str, known: dict[str, type]) -> dict[str, type]:
    """Return a record and those in it, lists and mappings included, each type of them once."""
    if cls not in known.values():
        known[title] = cls
        for name, field in read_fields(cls).items():
            for outer in field.kinds:
                for kind in (outer, *outer.members):
                    if is_record(kind.type):
                        _list_parts(kind.type, name, known)
    return known


SPEC = """\
# The spec, key by key

`docs/generate.py` writes this page from the model that jobgen reads specs with. Only `name`,
`resources` and `run` are required. The last two columns show what a key adds to the script of a job
with two nodes and four GPUs each: directives, or lines of Part 1. *fewer lines* means that Part 1
loses lines, and *the runtime* means that Part 2 differs. *nothing* means that the key does not
affect the script, or that the scheduler has no such option; `jobgen explain` then says so.

Keywords may be in capitals, or begin with one. A list may be a single value, or several values on
one line: `modules: cuda/12.3 nccl`, `command: python train.py --lr 3e-4`, `after: 12345`.
`container: image.sif` sets the image, `notify: me@example.org` the address. On the command line,
`--set PATH=VALUE` sets any key, as in `--set resources.nodes=4`; `null` removes one.
"""
# A value for each key, as YAML, and what else that asks for.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "name": ("gpt-web",),
    "roles": ("{server: {...}, train: {...}}", "-"),
    "resources.nodes": ("4",),
    "resources.nodes.min": ("2", "resources.nodes={min: 1, max: 4}"),
    "resources.nodes.max": ("4", "resources.nodes={min: 1, max: 3}"),
    "resources.gpus_per_node": ("8",),
    "resources.gpu_type": ("a100",),
    "resources.cpus_per_gpu": ("12",),
    "resources.cpus_per_node": ("48",),
    "resources.memory_per_node": ("180GB",),
    "resources.disk_per_node": ("100GB",),
    "resources.constraint": ("nvlink",),
    "resources.spare_nodes": ("1", "on_failure.then=restart"),
    "resources.exclusive": ("true",),
    "resources.walltime": ("04:00:00",),
    "run.module": ("package.train", "run.script=null"),
    "run.script": ("src/train.py",),
    "run.command": ("[./program, --fast]", "run.script=null"),
    "run.body": ("old.body.sh", "run.script=null"),
    "run.args": ("{lr: 3e-4}",),
    "extends": ("base.yaml", "-"),
    "site": ("nci-gadi", "-"),
    "scheduler": ("slurm", "-"),
    "account": ("vp91",),
    "queue": ("gpu",),
    "qos": ("high",),
    "reservation": ("R123",),
    "filesystems": ("[home, eagle]",),
    "environment.modules": ("[cuda/12.3]",),
    "environment.modules.first": ("purge",),
    "environment.modules.use": ("[/soft/modulefiles]",),
    "environment.modules.load": ("[cuda/12.3]",),
    "environment.container.image": ("image.sif",),
    "environment.container.runtime": ("singularity", "environment.container.image=a.sif"),
    "environment.container.binds": ("[/data]", "environment.container.image=a.sif"),
    "environment.container.options": ("[--no-home]", "environment.container.image=a.sif"),
    "environment.stage": ("$HOME/env.tar.gz",),
    "environment.venv": ("/scratch/$USER/venv",),
    "environment.uv": ("true",),
    "environment.conda": ("torch",),
    "environment.variables": ("{NCCL_DEBUG: WARN}",),
    "environment.from_shell": ("[WANDB_API_KEY]",),
    "environment.setup": ("ulimit -n 8192",),
    "launch.mode": ("ray",),
    "launch.launcher": ("mpiexec",),
    "launch.rendezvous": ("c10d",),
    "launch.processes_per_node": ("2",),
    "launch.max_restarts": ("2",),
    "launch.interface": ("hsn0",),
    "array.values": ("{lr: [1e-3, 3e-4]}",),
    "array.zip": ("{lr: [1e-3, 3e-4], seed: [0, 1]}",),
    "array.list": ("[{lr: 1e-3}, {lr: 3e-4}]",),
    "array.tasks": ("10",),
    "array.numbers": ("[3, 7]", "array.tasks=2"),
    "array.at_once": ("4", "array.tasks=10"),
    "array.together": ("4", "array.tasks=10"),
    "after.afterok": ("[12345]",),
    "after.afterany": ("[12345]",),
    "after.afternotok": ("[12345]",),
    "after.after": ("[12345]",),
    "notify.email": ("me@example.org",),
    "notify.on": ("[end, fail]",),
    "preflight": ("true",),
    "on_walltime.notice": ("10m",),
    "on_failure.then": ("restart",),
    "on_failure.at_most": ("5", "on_failure.then=restart"),
    "on_walltime.then": ("resubmit",),
    "on_walltime.at_most": ("5", "on_walltime.then=resubmit"),
    "report.metrics": ("outputs/metrics.csv",),
    "report.usage": ("false",),
    "snapshot": ("true",),
    "send": ("[train.py, configs]",),
    "directives": ("['#SBATCH --nice=100', '#PBS -r n']",),
}


def spec_page() -> str:
    """docs/reference/spec.md: every key, its type, an example, and what it becomes."""
    lines = [SPEC]
    for path, cls in list_records(JobSpec):
        description = " ".join((inspect.getdoc(cls) or "").split())
        lines += [f"## {path or 'The spec'}", "", description, ""]
        lines += ["| key | type | meaning | on Slurm | on PBS |", "| --- | --- | --- | --- | --- |"]
        for name, field in read_fields(cls).items():
            inner = f"{path}.{name}" if path else name
            kinds = " or ".join(dict.fromkeys(map(_describe_kind, field.kinds)))
            key = (
                f"`{name}: {EXAMPLES[inner][0]}`"
                if inner in EXAMPLES
                else f"[{name}](#{inner.replace('.', '')})"
            )
            effects = (_cell(_show_effect(inner, one)) for one in ("slurm", "pbs"))
            meaning = field.description + (" Required." if field.required else "")
            cells = (key.replace("|", "\\|"), kinds, meaning, *effects)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    for path, cls in (("roles.NAME", Role), ("roles.NAME.ready", Ready)):
        lines += [f"## {path}", "", inspect.getdoc(cls) or "", ""]
        lines += ["| key | type | meaning |", "| --- | --- | --- |"]
        for name, field in read_fields(cls).items():
            kinds = " or ".join(dict.fromkeys(map(_describe_kind, field.kinds)))
            required = " Required." if field.required else ""
            lines.append(f"| `{name}` | {kinds} | {field.description}{required} |")
        lines.append("")
    return "\n".join(lines)


def skill() -> str:
    """SKILL.md, for assistants that write specs: its head as it stands, all keys, all commands."""
    head = (ROOT / "SKILL.md").read_text(encoding="utf-8").partition("\n## Keys\n")[0]
    lines = [head, "## Keys", "", "| key | type | meaning |", "| --- | --- | --- |"]
    for path, cls in list_records(JobSpec):
        for name, field in read_fields(cls).items():
            kinds = " or ".join(dict.fromkeys(map(_describe_kind, field.kinds)))
            key, meaning = f"{path}.{name}" if path else name, field.description
            required = " Required." if field.required else ""
            lines.append(f"| `{key}` | {_cell([kinds])} | {_cell([meaning + required])} |")
    lines += ["", "## Commands", "", "| command | does |", "| --- | --- |"]
    for name, row in LISTED.items():
        lines.append(f"| `jobgen {name}` | {row[1]} |")
    codes = " ".join(EXIT_CODES.split())
    return "\n".join([*lines, "", f"Exit codes: {codes}."]) + "\n"


def list_records(cls: type, path: str = "") -> Iterator[tuple[str, type]]:
    """Yield a record and those in it, each with the path of its key."""
    yield path, cls
    for name, field in read_fields(cls).items():
        for kind in field.kinds:
            if is_record(kind.type):
                yield from list_records(kind.type, f"{path}.{name}" if path else name)


def _describe_kind(kind: Kind) -> str:
    rule, of_type = kind.rule, kind.type
    if isinstance(rule, Parsed):
        return ", ".join(rule.examples)
    if get_origin(of_type) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(of_type))
    if of_type is tuple:
        return f"list of: {' or '.join(map(_describe_kind, kind.members))}"
    if of_type is dict:
        return f"names, each with: {' or '.join(map(_describe_kind, kind.members))}"
    if is_record(of_type):
        return "keys"
    if isinstance(rule, Range) and of_type is int:
        return f"number from {rule.least}" + (f" to {rule.most}" if rule.most else "")
    words = {int: "number", float: "number", bool: "`true` or `false`", str: "text"}
    return words[of_type]


def _show_effect(path: str, scheduler: str) -> list[str]:
    """Return the lines that a key adds to a script, as Markdown."""
    value, *more = EXAMPLES.get(path, ("", "-"))
    if more == ["-"]:
        return []
    base = {
        "name": "job",
        "scheduler": scheduler,
        "resources": {"nodes": 2, "gpus_per_node": 4, "walltime": "2h"},
        "run": {"script": "train.py"},
    }
    without = [one for one in more if not one.startswith("run.script")]
    try:
        plans = [
            resolve(load(base, settings)) for settings in ([*more, f"{path}={value}"], without)
        ]
    except SpecError as error:
        return [f"refused: {error.problems[0].message}"]
    scripts = [render(plan) for plan in plans]
    (own, runtime), (before, runtime_before) = map(split_script, scripts)
    known = {line.strip() for line in before.splitlines()}
    added = [line for line in map(str.strip, own.splitlines()) if line and line not in known]
    added = [line for line in added if not line.startswith("# ")]
    directives = [line for line in added if line.startswith("#")]
    # First the lines that have the value itself.
    words = re.findall(r"[A-Za-z]{3,}|[0-9]+", value)
    added.sort(key=lambda line: not any(word in line for word in words))
    if directives or added:
        return [f"`{line.rstrip(chr(92)).strip()}`" for line in directives or added[:2]]
    kept = set(map(str.strip, own.splitlines()))
    if any(line not in kept and not line.startswith("# ") for line in known):
        return ["*fewer lines*"]
    assert runtime
    assert runtime_before
    return ["*nothing*" if runtime.digest == runtime_before.digest else "*the runtime*"]


def _cell(lines: list[str]) -> str:
    return "<br>".join(lines).replace("|", "\\|")


def shared() -> Iterator[tuple[str, str]]:
    """The files that an installation has below its prefix, and what is in them."""
    yield "share/man/man1/jobgen.1", man_page()
    roots: tuple[Literal["job", "site"], ...] = ("job", "site")
    for what in roots:
        yield f"share/jobgen/{what}.schema.json", write_schema(what)
    yield "share/jobgen/SKILL.md", skill()


def write_faults() -> str:
    """The file with what the verdict of a script goes by, the rows that CAUSES have made anew.

    A row is a verdict, a cause and a pattern; what stands in no cause is written there by hand.
    """
    rows: dict[str, list[str]] = {}
    for cause in CAUSES:
        if head := _find_row(cause):
            own = "" if "preflight" in cause.own else cause.own
            for pattern in filter(None, (cause.says, own)):
                rows.setdefault(head, []).append(re.sub(r"\?P<\w+>", "", pattern).replace("'", "."))
    lines = RESTART.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        head = " ".join(line.split(" ")[:2])
        if head in rows:
            lines[number] = f"{head} {'|'.join(rows.pop(head))}"
    assert not rows, f"{RESTART} has no row for {', '.join(rows)}"
    return "\n".join(lines)


def _find_row(cause: Cause) -> str:
    """The row that a cause belongs to; empty if no process says it, or if it is the program's."""
    if not {"rank", "agent"} & {*cause.where} or cause.symptom:
        return ""
    if cause.of_machine and cause.id != "port-in-use":  # each start has another port
        of_gpu = cause.id in ("gpu-busy", "driver-mismatch")
        return f"restart {'gpu-error' if of_gpu else cause.id}"
    return "unknown waited" if cause.waits and cause.id != "collective-mismatch" else ""


PAGES = {
    "lint.md": lint_page,
    "causes.md": diagnose_page,
    "profile.md": profile_page,
    "sites.md": sites_page,
    "spec.md": spec_page,
}

if __name__ == "__main__":
    if sys.argv[1:] == ["--man"]:
        print(man_page(), end="")
    else:
        for name, write in PAGES.items():
            (ROOT / "docs" / "reference" / name).write_text(write(), encoding="utf-8")
        (ROOT / "SKILL.md").write_text(skill(), encoding="utf-8")
        RESTART.write_text(write_faults(), encoding="utf-8")
