"""From jobgen's own scripts back to their spec: their structure is known."""

from __future__ import annotations

import re

from jobgen.header import Header
from jobgen.importer.directives import settle
from jobgen.importer.draft import Draft
from jobgen.importer.tasks import settle_tasks
from jobgen.script import Script
from jobgen.shell import Word
from jobgen.units import format_duration


def _found(pattern: str, script: Script) -> str | None:
    match = re.search(pattern, script.text, re.MULTILINE)
    return match[1] if match else None


def settle_own(script: Script, header: Header, draft: Draft) -> bool:
    """Put all of a rendered script into `draft`; False where somebody has changed its structure."""
    words = next((c.words[2:] for c in script.commands if c.texts[:2] == ["exec", "--"]), ())
    nodes = int(_found(r"^\(\(\$\{#nodes\[@\]\} == (\d{1,6})\)\)", script) or 0)
    if not words or not nodes:
        return False
    if words[-1].raw.startswith("${arguments[@]"):
        words = words[:-1]
    draft.put("name", header.name)
    if header.scheduler == "local":
        draft.put("resources.nodes", nodes if nodes > 1 else None)
        seconds = int(_found(r"\(\(SECONDS - begin >= (\d{1,9})\)\)", script) or 0)
        draft.put("resources.walltime", format_duration(seconds) if seconds else None)
    else:
        settle(script, draft, nodes=nodes)
    if header.site:
        draft.put("site", header.site)
    if "site" not in draft.values:
        draft.put("scheduler", header.scheduler)
    settle_tasks(script, draft)
    _environment(script, draft)
    _launch(script, draft)
    _program(script, words, draft)
    return True


def _environment(script: Script, draft: Draft) -> None:
    text = script.text.partition("\nload_environment() {\n")[2].partition("\n}\n")[0]
    user = text.partition("\n    set +eu\n")[2].rpartition("\n    set -u\n")[0]
    modules, variables = [], {}
    setup = re.search(r"^    doing=setup\n(.*?)\n    doing=$", user, re.MULTILINE | re.DOTALL)
    first = script.text.count("\n", 0, script.text.find(user)) + 1
    last = first + user[: setup.start() if setup else None].count("\n")
    for command in script.commands:
        if not first <= command.line <= last:
            continue
        if command.name == "load_module":
            modules.append(command.texts[1])
        elif command.name == "." and command.texts[1].endswith("/bin/activate"):
            draft.put("environment.venv", command.texts[1].removesuffix("/bin/activate"))
        elif command.texts[:2] == ["conda", "activate"]:
            draft.put("environment.conda", command.texts[2])
        elif command.name == "export":
            for name, word, raw in command.variables():
                variables[name] = Word(raw, word.line, word.column).text
    draft.put("environment.modules", modules or None)
    draft.put("environment.variables", variables or None)
    if setup:
        draft.put("environment.setup", setup[1])


def _launch(script: Script, draft: Draft) -> None:
    gpus = draft.values.get("resources.gpus_per_node", 0)
    count = _found(r"^    local_world_size=(\d{1,6})$", script)
    each = _found(r"^    local processes=\(([\d ]+)\)", script) if count is None else count
    processes = [int(word) for word in (each or "1").split()]
    listed = gpus if isinstance(gpus, list) else [gpus]
    if processes not in ([max(1, gpu) for gpu in listed], [max(1, listed[0])] * len(processes)):
        draft.put("launch.processes_per_node", processes[0] if count else processes)
    if "--rdzv-backend=static" in script.text:
        draft.put("launch.rendezvous", "static")
    restarts = int(_found(r" --max-restarts=(\d{1,5})\b", script) or 0)
    draft.put("launch.max_restarts", restarts or None)
    draft.put(
        "launch.interface",
        _found(r"^    export NCCL_SOCKET_IFNAME=(\S+) GLOO_SOCKET_IFNAME=\1$", script)
        or _found(r"^    export NCCL_SOCKET_IFNAME=(\S+) GLOO_SOCKET_IFNAME=", script),
    )


def _program(script: Script, words: tuple[Word, ...], draft: Draft) -> None:
    texts = [word.text for word in words]
    file = next((c.words[2].raw for c in script.commands if c.texts[:2] == ["[[", "-f"]), None)
    if texts[:3] == ["python3", "-u", "-m"] and len(texts) > 3:
        draft.put("run.module", texts[3])
        draft.put("run.args", texts[4:] or None)
    elif texts[:2] == ["python3", "-u"] and len(words) > 2 and words[2].raw == file:
        draft.put("run.script", texts[2])
        draft.put("run.args", texts[3:] or None)
    else:
        draft.put("run.command", texts)
