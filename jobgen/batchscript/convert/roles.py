"""What a script starts beside its program: a Ray on all nodes, or programs on other nodes.

Only the plain forms are read; of all others the body is kept.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from jobgen.batchscript.bash import Command, Word
from jobgen.batchscript.convert.straight import NotStraightError, group_commands
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import expand_command, follow, list_names
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rendezvous import SERVICE
from jobgen.batchscript.purposes import HEADS, PRINTS
from jobgen.batchscript.reader import Script

# What stands around such programs: asking, waiting, and looking for addresses.
_AROUND = HEADS | PRINTS | {"", "export", "declare", "let", "read", "wait", "curl", "kill", "grep"}
_PLACES = {"-w", "--nodelist", "-N", "--nodes", "--overlap", "--exact"}
_WAITS = re.compile(r"\b(kill|wait|sleep)\b|\$!")
_LIST = r"scontrol show hostnames?\b[^|)`\n]*"


def drop_ray(script: Script, draft: Draft) -> Script | None:
    """Return the script without the lines that start Ray and look for its address, if it has them.

    Raises NotStraightError where its program wants what these lines have set.
    """
    groups = group_commands(script)
    dropped = [group for group in groups if any(map(_is_ray, group))]
    around = [group for group in groups if all(item.name in _AROUND for item in group)]
    text = "\n".join(_show(group) for group in dropped)
    if text.count("--head") != 1 or "--address" not in text:
        return None
    for item in (item for group in dropped for item in group):
        if item.name not in _AROUND and not _is_ray(item):
            raise NotStraightError(item.place.line, "more than Ray starts where Ray does")
        if "--head" in item.texts:
            draft.check(item.place.line, _show([item]), "here Ray has all CPUs and GPUs of the job")
    used, sets = list_names(text), set[str]()
    for group in reversed(around):  # what Ray's lines need
        if _list_set(group) & used:
            dropped.append(group)
            used |= list_names(_show(group))
            sets |= _list_set(group)
            if group[0].name == "export":
                reason = "is set no more: ray.init() finds Ray by RAY_ADDRESS"
                draft.check(group[0].place.line, _show(group), reason)
    dropped += [x for x in around if list_names(_show(x)) & sets or x[0].name in ("sleep", "wait")]
    lines = list(script.lines)
    for group in groups:
        if group in dropped:
            _write(group, lines, "")
        elif seen := list_names(_show(group)) & sets:
            reason = f"${min(seen)} is of the lines that start Ray, and its address differs"
            raise NotStraightError(group[0].place.line, reason)
    return Script(script.path, "\n".join(lines))


def _is_ray(command: Command) -> bool:
    started = unwrap(command.words)
    texts = [word.text for word in started.program[:2]]
    plain = not started.wrapper and not started.runner and not started.assignments
    return plain and texts in (["ray", "start"], ["ray", "stop"], ["ray", "status"])


def _show(group: list[Command]) -> str:
    words = [word.raw for item in group for word in item.all_words]
    return " ".join(words + [x.operator + x.target.raw for item in group for x in item.redirects])


def _write(group: list[Command], lines: list[str], text: str) -> None:
    first, last = group[0].place.line, max(item.last_line for item in group)
    lines[first - 1 : last] = [text] + [""] * (last - first)


def _list_set(group: list[Command]) -> set[str]:
    names = {name for item in group for name, _, _ in item.variables()}
    declares = [item.texts[1] for item in group if item.name in ("export", "for")]
    return names.union(declares, *(item.list_changed() for item in group))


class Step:
    """One srun: `script` starts its program alone, `values` are those of its role."""

    script: Script

    def __init__(self, command: Command, expanded: Command, total: int) -> None:
        started = unwrap(expanded.words)
        srun, text = started.launchers[0], " ".join(word.text for word in started.program)
        self.command, self.line = command, command.place.line
        self.nodes = re.findall(r"@node\d+@", srun.value("-w", "--nodelist") or "")
        counts = [srun.value("-N", "--nodes"), srun.value("-n", "--ntasks")]
        count = min((int(one) for one in counts if one and one.isdecimal()), default=total)
        if len(self.nodes) != count:
            raise NotStraightError(self.line, "only bash knows on which nodes srun starts it")
        kept = [one for one in srun.options if one[0] not in _PLACES]
        texts = ["srun", *(shlex.quote(word) for one in kept for word in one if word)]
        words = [Word(text, self.line, 1) for text in texts]
        words += [*started.wrapper, *started.runner, *started.program]
        self.alone = _show([expanded._replace(words=tuple(words))])
        serves, port = SERVICE.search(text), re.search(r"--port[= ](\d+)", text)
        self.port = port[1] if port and serves else ""
        file = re.search(r"([\w.-]+)\.(?:py|sh)\b", text)
        stem = "server" if serves else file[1] if file else started.name
        self.name = re.sub(r"[^a-z0-9]+", "_", stem.lower())[:20].strip("_")
        self.values: dict[str, Any] = {"nodes": count}


def split_roles(script: Script, draft: Draft) -> list[Step]:
    """Return the programs that run side by side on different nodes; none if one runs alone.

    Raises NotStraightError where they share nodes, or the last one does not end the script.
    """
    total = draft.values.get("resources.nodes", 1)
    beside = any(item.name == "srun" and item.end == "&" for item in script.commands)
    if not beside or "ray start" in script.text:
        return []
    nodes = [f"@node{number}@" for number in range(total)]
    script = Script(script.path, _name_nodes(script.text, nodes))
    steps, lines = _read_steps(script, total, draft)
    if len(steps) < 2:
        return []
    if [step for step in steps if step.command.end != "&"] != steps[-1:]:
        raise NotStraightError(steps[-1].line, "one program is to end the job, after all others")
    if sorted(node for step in steps for node in step.nodes) != sorted(nodes):
        raise NotStraightError(steps[-1].line, "its programs share nodes, or leave some idle")
    for number, step in enumerate(steps):
        if step.name in [one.name for one in steps[:number]]:
            step.name += f"_{number + 1}"
    for step in steps:
        own = list(lines if step is steps[-1] else lines[: step.command.last_line])
        for other in steps[: steps.index(step) + 1]:
            _write([other.command], own, step.alone if other is step else "")
        text = "\n".join(own)
        for one in (one for one in steps if one.port):
            port = rf"(?i)(port\w*[ =][\"']?|:){one.port}\b"
            text = re.sub(port, rf"\g<1>@{one.name}_PORT@", text)
        step.script = Script(script.path, text)
    return steps


def _name_nodes(text: str, nodes: list[str]) -> str:
    """Return a script's text with names of nodes, `@node0@`, in place of what asks for them."""
    every = " ".join(nodes)
    for pattern, new in (
        (rf"(?m)^(\s*)(?:mapfile|readarray) -t (\w+) < <\({_LIST}\)", rf"\1\2=({every})"),
        (rf"\(\s*(?:\$\(|`)\s*{_LIST}(?:\)|`)\s*\)", f"({every})"),
        (rf"(?:\$\(|`)\s*{_LIST}\|\s*head\s+-(?:n\s*)?1\s*(?:\)|`)", nodes[0]),
        (r"\$\(IFS=,;?\s*echo \"(\$\{\w+\[)\*([^\"]*)\"\)", r"\1@\2"),
    ):
        text = re.sub(pattern, new, text)
    return text


def _read_steps(script: Script, total: int, draft: Draft) -> tuple[list[Step], list[str]]:
    """Return the programs, and the lines without those that wait for them or end them."""
    variables, steps, lines = script.make_variables(), list[Step](), list(script.lines)
    for group in group_commands(script):
        expanded = [expand_command(item, variables) for item in group]
        for command in group:
            follow(command, variables)
        started, text = unwrap(expanded[0].words), _show(expanded)
        step = [one.name for one in started.launchers] == ["srun"] and len(group) == 1
        if step and started.program and started.name not in PRINTS:
            steps.append(Step(group[0], expanded[0], total))
        elif steps and {x.name for x in group} <= _AROUND and _WAITS.search(text):
            if _list_set(group) and not text.endswith("=$!"):
                raise NotStraightError(group[0].place.line, "a variable is set while it waits")
            web = re.search(r"//[^\s/]+:\d+(/\S*)", text)
            if "sleep" in text and web and steps[-1].port:
                steps[-1].values["ready"] = {"http": web[1]}
            elif "sleep" in text:
                reason = f"is left out; write what tells that {steps[-1].name} is up as its ready"
                draft.check(group[0].place.line, text, reason)
            _write(group, lines, "")
    return steps, lines


def merge_roles(steps: list[Step], drafts: list[Draft], draft: Draft) -> None:
    """Put what the programs have in common into `draft`, and the rest into its roles."""
    shared = {path: x for path, x in drafts[0].values.items() if path[:4] not in ("run.", "laun")}
    shared = {path: x for path, x in shared.items() if all(y.values.get(path) == x for y in drafts)}
    draft.values.update(_put_names(shared, steps))
    for step, one in zip(steps, drafts, strict=True):
        for path in (path for path in one.values if path not in shared):
            outer, _, inner = path.partition(".")
            step.values.setdefault(outer, {})[inner] = one.values[path]
        if "command" in step.values["run"] and step.values.get("launch") == {"mode": "plain"}:
            del step.values["launch"]
        draft.put(f"roles.{step.name}", _put_names(step.values, steps))
        draft.left += [left for left in one.left if left not in draft.left]


def _put_names(values: dict[str, Any], steps: list[Step]) -> dict[str, Any]:
    text = json.dumps(values)
    for step in steps:
        name = f"${step.name.upper()}"
        text = re.sub("[, ]".join(step.nodes), f"{name}_HOSTS", text) if step.nodes[1:] else text
        text = text.replace(step.nodes[0], f"{name}_ADDR")
        text = text.replace(f"@{step.name}_PORT@", f"{name}_PORT")
    if "@node" in text:
        raise NotStraightError(1, "a program asks for a node that is not the first of a role")
    put: dict[str, Any] = json.loads(text)
    return put
