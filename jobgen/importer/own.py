"""From jobgen's own scripts back to their spec: their structure is known."""

from __future__ import annotations

import re
from typing import Any

from jobgen import site as sites
from jobgen.header import Header
from jobgen.importer.containers import settle_container
from jobgen.importer.directives import settle
from jobgen.importer.draft import Draft
from jobgen.importer.tasks import settle_tasks
from jobgen.profile import Launch, SiteModules, SiteProfile
from jobgen.script import Script
from jobgen.shell import Word
from jobgen.start import OWN
from jobgen.units import format_duration


def _found(pattern: str, script: Script) -> str | None:
    match = re.search(pattern, script.text, re.MULTILINE)
    return match[1] if match else None


def settle_own(script: Script, header: Header, draft: Draft) -> bool:
    """Put all of a rendered script into `draft`; False where somebody has changed its structure."""
    words = next((c.words[2:] for c in script.commands if c.texts[:2] == ["exec", "--"]), ())
    nodes = int(_found(r"^\(\(\$\{#nodes\[@\]\} [=>]= (\d{1,6})\)\)", script) or 0)
    if not words or not nodes:
        return False
    if words[-1].raw.startswith("${arguments[@]"):
        words = words[:-1]
    site = header.site if header.site and sites.exists(header.site) else None
    draft.put("name", header.name)
    if header.scheduler == "local":
        draft.put("resources.nodes", nodes if nodes > 1 else None)
        seconds = int(_found(r"\(\(SECONDS - begin >= (\d{1,9})\)\)", script) or 0)
        draft.put("resources.walltime", format_duration(seconds) if seconds else None)
    else:
        settle(script, draft, nodes=nodes, site=site)
        draft.values.pop("tasks", None)  # one a node, or as many as there are processes
    draft.put("site", site)
    if "site" not in draft.values:
        draft.put("scheduler", header.scheduler)
    settle_tasks(script, draft)
    profile = sites.load(draft.values["site"]) if "site" in draft.values else None
    _environment(script, draft)
    _launch(script, draft)
    _start(script, draft, profile and profile.launch, OWN[header.scheduler])
    _walltime(script, draft)
    if profile is not None:
        _leave_to(profile, draft, script)
    _program(script, words, draft)
    return True


def _environment(script: Script, draft: Draft) -> None:
    text = script.text.partition("\nload_environment() {\n")[2].partition("\n}\n")[0]
    user = text.partition("\n    set +eu\n")[2].rpartition("\n    set -u\n")[0]
    modules: dict[str, Any] = {}
    variables = {}
    setup = re.search(r"^    doing=setup\n(.*?)\n    doing=$", user, re.MULTILINE | re.DOTALL)
    first = script.text.count("\n", 0, script.text.find(user)) + 1
    last = first + user[: setup.start() if setup else None].count("\n")
    for command in script.commands:
        if command.name == "load_module" and len(command.words) == 2:
            modules.setdefault("load", []).append(command.texts[1])
        elif command.texts[:2] == ["module", "use"]:
            modules.setdefault("use", []).append(command.texts[2])
        elif command.name == "module" and command.texts[-1] in ("purge", "reset"):
            modules["first"] = "force-purge" if "--force" in command.texts else command.texts[-1]
        elif not first <= command.line <= last:
            continue
        elif command.name == "." and command.texts[1].endswith("/bin/activate"):
            draft.put("environment.venv", command.texts[1].removesuffix("/bin/activate"))
        elif command.texts[:2] == ["conda", "activate"]:
            draft.put("environment.conda", command.texts[2])
        elif command.name == "export":
            for name, word, raw in command.variables():
                variables[name] = Word(raw, word.line, word.column).text
    plain = modules.get("load") if modules.keys() <= {"load"} else modules
    draft.put("environment.modules", plain or None)
    draft.put("environment.variables", variables or None)
    if setup:
        draft.put("environment.setup", setup[1])
    settle_container(script, draft)
    if "environment.stage" in draft.values:  # whose own it is
        draft.values.pop("environment.venv", None)


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
    draft.put("preflight", True if "\npreflight() {" in script.text else None)
    draft.put(
        "launch.interface",
        _found(r"^    export NCCL_SOCKET_IFNAME=(\S+) GLOO_SOCKET_IFNAME=\1$", script)
        or _found(r"^    export NCCL_SOCKET_IFNAME=(\S+) GLOO_SOCKET_IFNAME=", script),
    )


def _start(script: Script, draft: Draft, site: Launch | None, own: str) -> None:
    """What starts the processes, where it is not what the site, or jobgen, does by itself."""
    mode = "direct" if "\nrun_process() {" in script.text else "torchrun"
    launcher = _found(r"^ *(?:start_by_)?(mpiexec|pbsdsh|srun) ", script) or "local"
    torchrun = {"launch.rendezvous", "launch.max_restarts"} & draft.values.keys()
    ranged = isinstance(draft.values.get("resources.nodes"), dict)
    usual = site.family if site and not torchrun and not ranged else "torchrun"
    draft.put("launch.mode", mode if mode != usual else None)
    if launcher != "local":
        by_itself = (site.launcher if site else None) or own
        draft.put("launch.launcher", launcher if launcher != by_itself else None)


def _leave_to(profile: SiteProfile, draft: Draft, script: Script) -> None:
    """Take out what the site adds by itself, where the script shows that it has."""
    values, groups = draft.values, profile.variables
    if groups is not None and "environment.variables" in values:
        some = (groups.always, groups.one_node, groups.several_nodes)
        theirs = {(name, _braced(text)) for group in some for name, text in (group or {}).items()}
        given = values["environment.variables"].items()
        own = {name: text for name, text in given if (name, _braced(text)) not in theirs}
        values["environment.variables"] = own
        if not own:
            del values["environment.variables"]
    said = _modules(values)
    if profile.modules is not None and said == profile.modules._replace(source=None):
        for key in ("environment.modules", "environment.conda"):
            values.pop(key, None)
    if values.get("launch.interface") == profile.interface or "\nreached_at() {" in script.text:
        values.pop("launch.interface", None)
    processes = values.get("launch.processes_per_node")
    if profile.pbs.gpus == "none" and processes and "resources.gpus_per_node" not in values:
        values["resources.gpus_per_node"] = values.pop("launch.processes_per_node")


def _modules(values: dict[str, Any]) -> SiteModules:
    """The modules of a draft, as a profile has them."""
    found = values.get("environment.modules", {})
    found = found if isinstance(found, dict) else {"load": found}
    return SiteModules(
        first=found.get("first"),
        use=tuple(found.get("use", ())),
        load=tuple(found.get("load", ())),
        conda=values.get("environment.conda"),
    )


def _braced(text: str) -> str:
    """With `${NAME}` for `$NAME`, as scripts have it."""
    return re.sub(r"\$(\w+)", r"${\1}", text, flags=re.ASCII)


def _walltime(script: Script, draft: Draft) -> None:
    """What happens before its end; the directives for that follow from it."""
    notice = int(_found(r"^# Before the limit: (\d{1,9}) s before ", script) or 0)
    if not notice:
        return
    draft.put("walltime.notice", format_duration(notice))
    starts = int(
        _found(r"^out_of_starts\(\) \{ \(\(attempt \+ 1 >= (\d{1,6})\)\); \}", script) or 0
    )
    if starts:
        requeued = "#SBATCH --requeue" in script.lines
        draft.put("walltime.then", "requeue" if requeued else "resubmit")
        draft.put("walltime.at_most", starts)
    own = (f"#SBATCH --signal=B:USR1@{notice}", "#SBATCH --requeue")
    lines = [line for line in draft.values.pop("directives", []) if line not in own]
    draft.put("directives", lines or None)


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
