"""What is made from the program: pages of docs, and the man page and JSON Schemas of the wheel.

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
sys.path.insert(0, str(ROOT))

from jobgen import __version__
from jobgen.batchscript.lint import RULES
from jobgen.cli.editors import write_schema
from jobgen.cli.main import LISTED, cli
from jobgen.diagnose import machine, missing, program, scheduler, script
from jobgen.errors import EXIT_CODES, SpecError
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.rendering.runtime import split_script
from jobgen.schedulers.advice import ADVICE
from jobgen.spec.bind import Kind, Parsed, Range, is_record, read_fields
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec

ABOUT = """\
jobgen takes one short YAML file to a multi-node PyTorch training job that starts on every node of a
PBS or Slurm cluster, or of this machine. It writes a batch script that can be read, committed, and
run with plain qsub or sbatch.

A command that takes a spec reads job.yaml in the current folder where none is named.
"""
ENVIRONMENT = (
    (
        "JOBGEN_SITE_PATH",
        "Folders with site profiles, separated by colons; of several with one name the last wins.",
    ),
    (
        "XDG_CONFIG_HOME",
        "Where jobgen/sites is looked for, for the user's own profiles; ~/.config "
        "where it is not set.",
    ),
)
FILES = (
    ("job.yaml", "The spec that is read where none is named."),
    (
        ".jobgen/sites/NAME.yaml",
        "A site profile of the project; it wins over one of the user, of "
        "$JOBGEN_SITE_PATH, of /etc/jobgen/sites and of jobgen itself.",
    ),
    ("runs/NAME/ID/", "What was submitted, its logs, errors, metrics and checkpoints."),
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
        "A finding names its rule; here is why each is a fault, and how to mend it. This page is",
        "made by `docs/generate.py`.",
    ]
    for rule in sorted(RULES, key=lambda rule: rule.id):
        fix = rule.fix[0].upper() + rule.fix[1:]
        lines += ["", f"## {rule.id}", "", f"**{rule.title}.** {rule.why}", "", f"{fix}."]
        lines += ["", f"Read on: <{rule.reference}>"]
    return "\n".join(lines) + "\n"


DIAGNOSE = """\
# What `jobgen diagnose` finds

`jobgen diagnose JOB` names the first cause of a failure and not its last symptom: the process or
node that it began with, its exception and the line of the program, what shows it as `file:line`,
and what to do. `--json` is described in [json.md](json.md). It asks the scheduler once, reads the
run folder and the job's output, and changes nothing. Its exit code is 0 whatever it finds: that the
job has failed is its answer, and no failure of its own; 2 where there is no such job.

## How it decides

1. What the scheduler says of the end counts first: a walltime, a lost node, preemption. Where it
   killed for want of memory, the killed process is named.
2. Else the process that failed first by itself. That others lost their connection to it, or were
   told to stop, follows from it. Times are those of the shared file system; where preflight has
   measured that clocks differ by more than a second, torch's own time stamps are corrected by that.
3. Else the node whose agent failed first, then the script.
4. Where processes have only waited (a collective timed out, the trainer's watchdog ended it), the
   one that they waited for is named: by torch's flight recorder (`errors/*-flight-*`, `hangs/`), by
   the stacks in `hangs/`. Where these do not tell, no process is blamed: one that alone did not say
   that it waited may have been ended before it could.
5. A job that runs is well as long as its logs, metrics and checkpoints grow. It hangs where nothing
   was written for ten minutes, or for ten times its longest step where that is more. Before its
   first words ten quiet minutes may be but a slow start.

6. Where all that failed have only lost another process, it is what is missing: the node that has
   left no word of its end, or the rank that left with 0 while the others were at work.

What jobgen's script prints counts where it names a failure; its notes are no evidence. How often
all this is right is counted: `python benchmarks/diagnosis.py` diagnoses about a hundred jobs with
planted faults, recorded on Slurm, PBS and one machine, and CI wants 95 % right and no innocent node
or rank blamed.

Dumps of the flight recorder are pickles; they are read without running anything that is in them.

## Causes

Beside these, `exception` is one that the program raised and that is not listed, `exit CODE` a
process that left without a word (-9: by signal 9), `unknown` a failure of which only the evidence
can be shown, and `healthy` none.
"""


def diagnose_page() -> str:
    """docs/reference/causes.md: how it decides, and a table of the causes."""
    lines = [DIAGNOSE]
    slurm, pbs = ADVICE["slurm"]._asdict(), ADVICE["pbs"]._asdict()
    words = {key: f"{slurm[key]} (Slurm), {pbs[key]} (PBS)" for key in slurm}
    for title, module in (
        ("The scheduler's word", scheduler),
        ("The job script and its preflight", script),
        ("Nodes, memory, GPUs and networks", machine),
        ("The program, its files and packages", program),
        ("What follows from what is missing", missing),
    ):
        lines += [f"### {title}", "", "| cause | what it is | what to do |", "| --- | --- | --- |"]
        rows = [
            f"| `{one.id}` | {one.title} | {one.remedy.format(**words)} |" for one in module.CAUSES
        ]
        lines += [*dict.fromkeys(rows), ""]
    return "\n".join(lines)


def sites_page() -> str:
    """The clusters that jobgen knows, a line each."""
    from jobgen.sites import search
    from jobgen.sites.sheet import (
        describe_binding,
        describe_network,
        describe_queues,
        list_gpus,
    )

    grades = {"docs": "documentation", "scripts": "users' scripts"}
    lines = [
        "# Sites",
        "",
        "The clusters that jobgen has profiles of; `docs/generate.py` makes this page of them.",
        "Facts from users' scripts are warnings and never refusals, and so are those older than a",
        "year. No profile has been tried on its cluster yet. `jobgen sites show NAME` has queues,",
        "limits, network and sources; `jobgen sites capture` reads what your cluster says now.",
        "",
        "| site | cluster | scheduler | GPUs of a node | from | as of |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    details = [
        "",
        "## What a GPU job gets",
        "",
        "The queues are those that jobgen chooses from by GPU type, nodes and walltime; the",
        "document beside them has their names and limits. Where NCCL's plugin is of the job's",
        "environment or of a container, the job has to bring it: header and `jobgen explain` say",
        "how. An empty binding leaves processes to the scheduler and torch; where the network is",
        "not known, NCCL may use TCP, as the script's header says.",
        "",
        "| site | queue | by which document | network | binding |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in sorted(path.stem for path in Path(search.BUILT_IN).glob("*.yaml")):
        profile = search.read(os.path.join(search.BUILT_IN, f"{name}.yaml")).profile
        if profile.verified is None:
            continue
        cells = (f"`{name}`", profile.title, profile.can.title, ", ".join(list_gpus(profile)))
        cells = (*cells, grades[profile.verified], profile.as_of)
        lines.append(f"| {' | '.join(cell or '' for cell in cells)} |")
        binding = describe_binding(profile)
        more = (f"`{name}`", *describe_queues(profile), describe_network(profile))
        details.append(f"| {' | '.join((*more, f'`{binding}`' if binding else ''))} |")
    return "\n".join([*lines, *details]) + "\n"


SPEC = """\
# The spec, key by key

`docs/generate.py` makes this page of what jobgen reads. Every key but `name`, `resources` and `run`
may be left out. The last two columns are what a key adds to the script, found by rendering a job of
two nodes with four GPUs each with it and without: directives, or lines of Part 1. Where a row says
*the runtime*, the difference is in Part 2; *nothing* means that it is not for the script, or that
the scheduler has no use for it, as `jobgen explain` says then.

A value of fixed words is read in any case. A list may be written as one value, or as one line of
several: `modules: cuda/12.3 nccl`, `command: python train.py --lr 3e-4`, `after: 12345`.
`container: image.sif` is its image, `notify: me@example.org` its address. On the command line
`--set PATH=VALUE` sets any key, such as `--set resources.nodes=4`; `null` takes one out.
"""
# A value for each key, as YAML, and what else that asks for.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "name": ("gpt-web",),
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
    "resources.exclusive": ("true",),
    "resources.walltime": ("04:00:00",),
    "run.module": ("package.train", "run.script=null"),
    "run.script": ("src/train.py",),
    "run.command": ("[./program, --fast]", "run.script=null"),
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
    "launch.mode": ("direct",),
    "launch.launcher": ("mpiexec",),
    "launch.rendezvous": ("static",),
    "launch.processes_per_node": ("2",),
    "launch.max_restarts": ("2",),
    "launch.interface": ("hsn0",),
    "array.values": ("{lr: [1e-3, 3e-4]}",),
    "array.zip": ("{lr: [1e-3, 3e-4], seed: [0, 1]}",),
    "array.list": ("[{lr: 1e-3}, {lr: 3e-4}]",),
    "array.tasks": ("10",),
    "array.at_once": ("4", "array.tasks=10"),
    "after.afterok": ("[12345]",),
    "after.afterany": ("[12345]",),
    "after.afternotok": ("[12345]",),
    "after.after": ("[12345]",),
    "notify.email": ("me@example.org",),
    "notify.on": ("[end, fail]",),
    "preflight": ("true",),
    "on_walltime.notice": ("10m",),
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
        lines.append(f"| `jobgen {name}` | {row.help} |")
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
    return {int: "number", bool: "`true` or `false`", str: "text"}[of_type]


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


PAGES = {
    "lint.md": lint_page,
    "causes.md": diagnose_page,
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
