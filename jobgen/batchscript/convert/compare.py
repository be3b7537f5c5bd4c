"""A script and the one that its imported spec renders, side by side."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.batchscript.bash import Word, parse
from jobgen.batchscript.convert.body import choose_program
from jobgen.batchscript.convert.directives import read_memory, read_walltime
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.program import Candidate, read_number
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.reader import Script
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec


class ComparedRow(NamedTuple):
    """One thing that a job asks for or runs, in both scripts; empty where one says nothing."""

    what: str
    script: str
    rendered: str
    verdict: str  # same, different, only in the script, only in the rendered one


def compare_scripts(script: Script, yaml: str) -> list[ComparedRow]:
    """What a script and the one rendered from its spec ask for and run."""
    node = yaml_nodes.parse(yaml, file="job.yaml")
    spec, positions = bind(node, JobSpec)
    plan = resolve(LoadedSpec(spec, "job.yaml", "", positions))
    text = render(plan)
    rendered = Script("job.sh", text)
    draft = Draft()
    draft.put("resources.nodes", script.nodes)
    draft.put("resources.gpus_per_node", script.gpus_per_node)
    tasks = script.given.get("SLURM_NTASKS")
    draft.put("tasks", int(tasks) // (script.nodes or 1) if tasks else None)
    chosen, processes = choose_program(script, draft)
    theirs, ours = _list_words(chosen, script), _list_planned(plan)
    exported = sorted(name for name, value in script.variables.values.items() if value.exported)
    arriving = [name for name in exported if re.search(rf"\b{name}=", text)]
    rows = (
        ("nodes", str(script.nodes or 1), str(plan.nodes.total)),
        ("processes", _count_processes(script, chosen, processes), str(plan.nodes.world_size)),
        ("GPUs of a node", _show(script.gpus_per_node), _show(rendered.gpus_per_node)),
        ("memory of a node", _show_memory(script), _show_memory(rendered)),
        ("walltime", _show_walltime(script), _show_walltime(rendered)),
        ("variables", " ".join(exported), " ".join(arriving)),
        ("program", _name(theirs), _name(ours)),
        ("arguments", " ".join(theirs[_count_name(theirs) :]), " ".join(ours[_count_name(ours) :])),
    )
    return [
        ComparedRow(what, left, right, _judge(left, right))
        for what, left, right in rows
        if left or right
    ]


def _judge(left: str, right: str) -> str:
    if left == right:
        return "same"
    if left and right:
        return "different"
    return "only in the script" if left else "only in the rendered one"


def _show(value: int | None) -> str:
    return str(value) if value else ""


def _show_memory(script: Script) -> str:
    text = script.value("--mem") or script.resource("mem")
    chunk = re.search(r"\bmem=(\w+)", script.resource("select") or "")
    return read_memory(text or (chunk[1] if chunk else "")) or ""


def _show_walltime(script: Script) -> str:
    scheduler = script.scheduler or "slurm"
    text = script.value("--time") or script.resource("walltime")
    return read_walltime(text or "", scheduler) or ""


def _count_processes(script: Script, chosen: Candidate, launched: int) -> str:
    """How many processes run the program, those that torchrun starts included."""
    if not chosen.torchrun:
        return str(launched)
    word = chosen.torchrun.options.get("--nproc-per-node")
    each = read_number(word.raw, script.variables) if word else 1
    return str((each or script.gpus_per_node or 1) * launched)


def _list_words(chosen: Candidate, script: Script) -> list[str]:
    words = chosen.torchrun.program if chosen.torchrun else chosen.started.program
    texts = [_put_in(word, script) for word in words]
    if chosen.torchrun and not chosen.torchrun.plain:
        texts = ["python3", *(["-m"] if chosen.torchrun.module else []), *texts]
    return _name_python(texts)


def _put_in(word: Word, script: Script) -> str:
    return script.variables.tell(word.raw) or word.text


def _list_planned(plan: Plan) -> list[str]:
    """The words of the program, out of the shell that runs it where there is one."""
    words = [str(word) for word in plan.program.command]
    if words[:1] == ["env"]:
        while words and (words[0] in ("env", "-u") or words[0].isupper()):
            words.pop(0)
    if words[:2] == ["bash", "-c"]:
        commands = [item for item in parse(words[2]) if item.words]
        last = next((item for item in commands if item.name == "exec"), commands[-1])
        words = [word.text for word in unwrap(last.words).program]
    return _name_python(words)


def _name_python(words: list[str]) -> list[str]:
    if words and re.fullmatch(r"(.*/)?python[\d.]*", words[0]):
        words = ["python3", *(word for word in words[1:2] if word != "-u"), *words[2:]]
    return words


def _count_name(words: list[str]) -> int:
    """How many words name the program: python3, -m and a module, or one."""
    if words[:1] != ["python3"]:
        return 1
    return 3 if words[1:2] == ["-m"] else 2


def _name(words: list[str]) -> str:
    return " ".join(words[: _count_name(words)])


def draw_rows(rows: list[ComparedRow]) -> str:
    """The rows as text; what is long stands on lines of its own."""
    lines = []
    for row in rows:
        if max(len(row.script), len(row.rendered)) <= 30:
            lines.append(f"{row.what:<17} {row.script:<31} {row.rendered:<31} {row.verdict}")
        else:
            lines.append(f"{row.what:<17} {row.verdict}")
            if row.verdict != "same":
                lines += [f"    script:   {row.script}", f"    rendered: {row.rendered}"]
    return "".join(f"{line.rstrip()}\n" for line in lines)
