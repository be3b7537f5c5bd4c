"""Programs that srun starts side by side, each on other nodes: the roles of a job."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.ray import write_alone
from jobgen.batchscript.convert.straight import NotStraightError, group_commands
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import expand_command, follow
from jobgen.batchscript.launchers import Started, unwrap
from jobgen.batchscript.lint.roles import SERVICE
from jobgen.batchscript.purposes import HEADS, PRINTS
from jobgen.batchscript.reader import Script

_LIST = r"scontrol show hostnames?\b[^|)`\n]*"
_ASKS = {*HEADS, *PRINTS, "", "curl", "wget", "nc", "break", "exit", "grep", "kill", "wait", "trap"}
_WAITS = re.compile(r"\b(kill|wait|sleep)\b|\$!")
_PLACES = {"-w", "--nodelist", "-r", "--relative", "-N", "--nodes", "--overlap", "--exact"}


class Step:
    """One srun and its program: `script` starts this one alone, `values` are those of its role."""

    script: Script

    def __init__(self, command: Command, started: Started, total: int) -> None:
        srun, text = started.launchers[0], " ".join(word.text for word in started.program)
        self.command, self.line = command, command.place.line
        counts = [srun.value("-N", "--nodes"), srun.value("-n", "--ntasks")]
        count = min((int(one) for one in counts if one and one.isdecimal()), default=total)
        listed, first = srun.value("-w", "--nodelist"), srun.value("-r", "--relative") or ""
        self.nodes = re.findall(r"@node\d+@", listed or "")
        if first.isdecimal():
            self.nodes = [f"@node{int(first) + number}@" for number in range(count)]
        if (listed or first) and len(self.nodes) != count:
            raise NotStraightError(self.line, "only bash knows on which nodes srun starts it")
        kept = [one for one in srun.options if one[0] not in _PLACES]
        self.srun = ["srun", *(shlex.quote(word) for one in kept for word in one if word)]
        self.values: dict[str, Any] = {"nodes": count}
        self.serves, port = bool(SERVICE.search(text)), re.search(r"--port[= ](\d+)", text)
        self.pid, self.port = "", port[1] if port and self.serves else ""
        program = re.search(r"([\w.-]+)\.(?:py|sh)\b", text)
        stem = "server" if self.serves else program[1] if program else started.name
        self.name = re.sub(r"[^a-z0-9]+", "_", stem.lower())[:20].strip("_")

    def blank(self, lines: list[str]) -> None:
        """Take its lines out."""
        count = self.command.last_line + 1 - self.line
        lines[self.line - 1 : self.command.last_line] = [""] * count


class _Reading:
    """The steps of a script, those that it waits for to end, and the lines that only do that."""

    def __init__(self, script: Script, total: int, draft: Draft) -> None:
        self.draft, self.variables = draft, script.make_variables()
        self.steps: list[Step] = []
        self.waits: set[str] = set()  # the process ids, or "" for all
        self.lines = list(script.lines)
        for group in group_commands(script):
            expanded = [expand_command(item, self.variables) for item in group]
            for command in group:
                follow(command, self.variables)
            started = unwrap(expanded[0].words)
            text = " ".join(word.text for item in expanded for word in item.all_words)
            step = [one.name for one in started.launchers] == ["srun"] and len(group) == 1
            if step and started.program and started.name not in PRINTS:
                self.steps.append(Step(group[0], started, total))
            elif self.steps and {x.name for x in group} <= _ASKS and _WAITS.search(text):
                self._read_waiting(group, text)
                first, last = group[0].place.line, max(item.last_line for item in group)
                self.lines[first - 1 : last] = [""] * (last + 1 - first)

    def _read_waiting(self, group: list[Command], text: str) -> None:
        """Take over which step is waited for, by its end or until it is ready."""
        last = self.steps[-1]
        if "kill" in text:  # and what is waited for after that ends by it
            self.waits |= {""} if group[-1].name == "wait" and len(group[-1].words) == 1 else set()
            for step in self.steps:
                step.pid = "" if f"${step.pid}" in re.sub(r"[{}]", "", text) else step.pid
        elif group[0].name == "wait":
            self.waits |= {name.strip("${}") for name in group[0].texts[1:]} or {""}
        elif "$!" in text:
            last.pid = text.partition("=")[0]
        elif "sleep" in text:
            last = next((one for one in self.steps if "".join(one.nodes[:1]) in text), last)
            web, file = re.search(r"//[^\s/]+(/\S*)", text), re.search(r"-[efs] (\S+)", text)
            by = {"file": file[1]} if file else {"http": web[1]} if web else {"tcp": True}
            if file or last.port:
                last.values.setdefault("ready", by)
            else:
                reason = f"is left out; write what tells that {last.name} is up as its ready"
                self.draft.check(group[0].place.line, text, reason)

    def deal(self, total: int) -> list[Step]:
        """Return the steps in the order of their nodes, the last one being that which ends it."""
        front = [step for step in self.steps if step.command.end != "&"]
        ends = [x for x in self.steps if x in front or (x.pid and x.pid in self.waits)]
        if "" in self.waits:
            ends = [step for step in self.steps if not step.serves]
        if len(ends) != 1 or front not in ([], self.steps[-1:]):
            reason = "the script waits for several programs, and one of its roles ends a job"
            raise NotStraightError(self.steps[-1].line, reason)
        every = [f"@node{number}@" for number in range(total)]
        free = [node for node in every if not any(node in step.nodes for step in self.steps)]
        for step in self.steps:
            if not step.nodes:
                self.draft.check(
                    step.line, step.name, "Slurm chose its nodes; here no other has them"
                )
                step.nodes, free = free[: step.values["nodes"]], free[step.values["nodes"] :]
        if sorted(node for step in self.steps for node in step.nodes or [""]) != sorted(every):
            raise NotStraightError(ends[0].line, "its programs share nodes, or leave some idle")
        order = sorted(self.steps, key=lambda step: (step is ends[0], every.index(step.nodes[0])))
        for number, step in enumerate(order):
            if step.name in [one.name for one in order[:number]]:
                step.name += f"_{number + 1}"
            if step is not ends[0] and not step.serves:
                reason = f"has to run until {ends[0].name} ends; ends: alone lets it end before"
                self.draft.check(step.line, step.name, reason)
        return order


def split_roles(script: Script, draft: Draft) -> list[Step]:
    """Return the programs that run side by side on different nodes; none if one runs alone.

    Raises NotStraightError where they share nodes, or several end the script.
    """
    total = draft.values.get("resources.nodes", 1)
    beside = any(item.name == "srun" and item.end == "&" for item in script.commands)
    if not beside or "ray start" in script.text:
        return []
    read = _Reading(Script(script.path, _name_nodes(script.text, total)), total, draft)
    if len(read.steps) < 2:
        return []
    steps = read.deal(total)
    for step in steps:
        write_alone(step.command, read.lines, *step.srun)
        port, put = rf"(?i)(port\w*[ =][\"']?|:){step.port}\b", rf"\g<1>@{step.name}_PORT@"
        read.lines = [re.sub(port, put, line) if step.port else line for line in read.lines]
    for step in steps:
        own = list(read.lines if step is read.steps[-1] else read.lines[: step.command.last_line])
        for other in read.steps[: read.steps.index(step)]:
            other.blank(own)
        step.script = Script(script.path, "\n".join(own))
    return steps


def _name_nodes(text: str, total: int) -> str:
    """Return a script's text with names of nodes, `@node0@`, in place of what asks for them."""
    every = " ".join(f"@node{number}@" for number in range(total))
    for pattern, new in (
        (rf"(?m)^(\s*)(?:mapfile|readarray) -t (\w+) < <\({_LIST}\)", rf"\1\2=({every})"),
        (rf"\(\s*(?:\$\(|`)\s*{_LIST}(?:\)|`)\s*\)", f"({every})"),
        (rf"(?:\$\(|`)\s*{_LIST}\|\s*head\s+-(?:n\s*)?1\s*(?:\)|`)", "@node0@"),
        (r"(?:\$\(|`)hostname(?: -[sf])?(?:\)|`)", "@node0@"),
        (r"\$\(IFS=,;?\s*echo \"(\$\{\w+\[)\*([^\"]*)\"\)", r"\1@\2"),
    ):
        text = re.sub(pattern, new, text)
    return text


def merge_roles(steps: list[Step], drafts: list[Draft], draft: Draft) -> None:
    """Put what the programs have in common into `draft`, and the rest into its roles."""

    def put_names(values: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(values)
        for step in steps:
            name = f"${step.name.upper()}"
            text = (
                re.sub("[, ]".join(step.nodes), f"{name}_HOSTS", text) if step.nodes[1:] else text
            )
            text = text.replace(step.nodes[0], f"{name}_ADDR")
            text = text.replace(f"@{step.name}_PORT@", f"{name}_PORT")
        if "@node" in text:
            raise NotStraightError(1, "a program asks for a node that is not the first of a role")
        put: dict[str, Any] = json.loads(text)
        return put

    each = [one.values for one in drafts]
    shared = {path: value for path, value in each[0].items() if path[:4] not in ("run.", "laun")}
    shared = {path: x for path, x in shared.items() if all(one.get(path) == x for one in each)}
    draft.values.update(put_names(shared))
    for step, one in zip(steps, drafts, strict=True):
        for path in (path for path in one.values if path not in shared):
            outer, _, inner = path.partition(".")
            step.values.setdefault(outer, {})[inner] = one.values[path]
        if "command" in step.values["run"] and step.values.get("launch") == {"mode": "plain"}:
            del step.values["launch"]
        draft.put(f"roles.{step.name}", put_names(step.values))
        draft.left += [left for left in one.left if left not in draft.left]
