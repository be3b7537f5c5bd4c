"""From jobgen's own scripts: the container that ranks run in, and the environment they unpack."""

from __future__ import annotations

import re

from jobgen.importer.draft import Draft
from jobgen.script import Script
from jobgen.shell import parse

_BINDS = ("--bind", "--volume")


def settle_container(script: Script, draft: Draft) -> None:
    """Put `environment.container` and `environment.stage` into `draft`."""
    for command in script.commands:
        if command.name == "die" and command.texts[1:2] == ["no packed environment on $node:"]:
            draft.put("environment.stage", command.texts[2])
    found = _entered(script) or _of_srun(script)
    if found:
        runtime, image, binds, options = found
        said: dict[str, object] = {"image": image, "runtime": runtime}
        said |= {"binds": binds} if binds else {}
        said |= {"options": options} if options else {}
        draft.put("environment.container", said)


Found = tuple[str, str, list[str], list[str]]


def _entered(script: Script) -> Found | None:
    """One that a command enters: its words are in the array `container`."""
    runtime = re.search(r"^    container=\(([\w-]+) ", script.text, re.MULTILINE)
    words = re.search(
        r"^    container\+=(\(.*\))\n    container\+=\(bash ", script.text, re.MULTILINE
    )
    if runtime is None or words is None:
        return None
    (command,) = parse(f"container {words[1][1:-1]}")
    *rest, image = command.texts[1:]
    binds: list[str] = []
    options: list[str] = []
    while rest:
        word = rest.pop(0)
        if word in _BINDS and rest and not options:
            binds.append(_one_side(rest.pop(0)))
        else:
            options.append(word)
    return runtime[1], image, binds, options


def _of_srun(script: Script) -> Found | None:
    """One that srun enters: by pyxis, or by an environment file."""
    for launch in script.launches:
        for launcher in launch.started.launchers:
            edf, image = launcher.value("--environment"), launcher.value("--container-image")
            if launcher.name != "srun" or (edf is None and image is None):
                continue
            words = launch.command.texts
            last = "--environment=" if image is None else "--container-mounts="
            at = next((i for i, word in enumerate(words) if word.startswith(last)), None)
            if at is None:
                continue
            options = words[at + 1 : words.index("bash")] if "bash" in words else []
            if image is None:
                return "edf", edf or "", [], options
            mounts = words[at].partition("=")[2].split(",")[2:]  # behind those of every job
            return "pyxis", image, [_one_side(mount) for mount in mounts], options
    return None


def _one_side(bind: str) -> str:
    """SOURCE where SOURCE:SOURCE is bound."""
    source, _, target = bind.partition(":")
    return source if source == target else bind
