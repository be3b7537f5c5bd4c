"""Containers of scripts, as a spec has them: image, runtime, binds and options."""

from __future__ import annotations

import re
from typing import Any

from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.launch import ImportRefusedError
from jobgen.batchscript.convert.statements import find_folder
from jobgen.batchscript.expand import list_names
from jobgen.batchscript.launchers import Started, unwrap
from jobgen.batchscript.reader import Script

_BINDS = {"-B", "--bind", "-v", "-V", "--volume", "--mount"}
_AUTOMATIC = {"--nv", "--nvccli", "--rocm", "--gpu", "--gpus=all", "--rm", "-it", "-i", "-t"}
_RUNSCRIPTS = ("singularity", "apptainer")
_BIND = re.compile(r"[^-:,\s][^:,]*(:[^:,]+){0,2}")
_PYXIS = ("--container-image", "--container-mounts", "--container-workdir", "--container-name")


def settle_container(script: Script, started: Started, draft: Draft, line: int) -> str | None:
    """Put the container that a program runs in into `draft`; the folder inside, if one is named."""
    for launcher in started.launchers:
        image = launcher.value("--container-image") or script.value("--container-image")
        name = launcher.value("--container-name")
        if launcher.name == "srun" and name and not image:
            image = _find_named(script, name)
            if image is None:
                draft.lose(line, f"--container-name={name}", "no step before it names its image")
        if launcher.name == "srun" and image:
            return _settle_pyxis(script, launcher.options, image, draft, line)
        edf = launcher.value("--environment") or script.value("--environment")
        if launcher.name == "srun" and edf:
            draft.put("environment.container", {"image": edf, "runtime": "edf"})
            return None
    if started.wrapper:
        return _settle_entered(script, started, draft, line)
    return None


def spell_container(draft: Draft) -> str:
    """What a container is told, for the variables in it."""
    container = draft.values.get("environment.container", {})
    parts = [container.get("image", ""), *container.get("binds", ()), *container.get("options", ())]
    return " ".join(parts)


def _put_in(script: Script, text: str, line: int) -> str:
    """A path with the script's own variables put in: no node knows them when a container opens."""
    for _ in range(5):
        names = list_names(text) & script.variables.assigned
        if not names:
            break
        for name in names:
            variable = script.variables.get(name)
            if not variable or not variable.fields or variable.array:
                message = f"the container needs ${name}, which only the script knows"
                raise ImportRefusedError(script, line, message, "write its value out")
            value = "".join(item.text for item in variable.fields[0])
            text = re.sub(rf"\$\{{{name}\}}|\${name}\b", lambda _, v=value: v, text)  # type: ignore[misc]
    text = re.sub(r"\$\(pwd\)|`pwd`", "$PWD", text)
    named = script.variables.assigned | set(re.findall(r"\$\{([A-Za-z_]\w*):?=", script.text))
    if re.search(r"\$\(|`", text) or list_names(text) & named:
        message = f"the container needs '{text}', which only the script knows"
        raise ImportRefusedError(script, line, message, "write its value out")
    return text


def _follow(text: str, moved: str) -> str:
    """A path of a container as it is from the folder of submission, which the script has left."""
    if not re.match(r"[/$~]", moved):
        moved = f"$PWD/{moved}"
    here = re.compile(r"(^|:)(\$PWD|\$\{PWD\}|\.)(?=[:/]|$)")
    file = "://" not in text and re.search(r"/|\.(sif|simg|img|sqsh)$", text)
    if file and not re.match(r"[/$~.]", text) and ":" not in text:
        return f"{moved}/{text}"
    return here.sub(lambda match: match[1] + moved, text)


def _find_named(script: Script, name: str) -> str | None:
    """The image of a step that has made a container of this name."""
    for step in script.steps:
        for launcher in unwrap(step.command.words).launchers:
            if launcher.value("--container-name") == name and launcher.value("--container-image"):
                return launcher.value("--container-image")
    return None


def _settle_pyxis(
    script: Script, given: tuple[tuple[str, str], ...], image: str, draft: Draft, line: int
) -> str | None:
    image, moved = _put_in(script, image, line), find_folder(script, line)
    if moved:
        image = _follow(image, moved)
    container: dict[str, Any] = {"image": image, "runtime": "pyxis"}
    values = {item.option: item.value for item in script.directives if item.read}
    values |= dict(given)
    mounts = _put_in(script, values.get("--container-mounts", ""), line)
    binds = [_follow(bind, moved) if moved else bind for bind in mounts.split(",")]
    _put_binds(container, binds, draft, line)
    options = [
        f"{option}={value}" if value else option
        for option, value in values.items()
        if option.startswith(("--container", "--no-container")) and option not in _PYXIS
    ]
    if options:
        container["options"] = options
    draft.put("environment.container", container)
    return values.get("--container-workdir")


def _settle_entered(script: Script, started: Started, draft: Draft, line: int) -> str | None:
    words = [word.text for word in started.wrapper]
    runtime = words.pop(0).rpartition("/")[2]
    container: dict[str, Any] = {}
    binds: list[str] = []
    options: list[str] = []
    folder = image = None
    while runtime != "shifter" and words and words[0].startswith("-"):
        draft.check(line, words.pop(0), "an option of the runtime's own command is not kept")
    if runtime != "shifter" and words and words.pop(0) == "run" and runtime in _RUNSCRIPTS:
        draft.check(line, f"{runtime} run", "the program is executed, the image's runscript is not")
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            image = word
            break
        if option in _BINDS or option in ("--pwd", "--cwd", "--workdir", "-w", "--image"):
            value = value if equals else words.pop(0) if words else ""
            if option in _BINDS:
                binds += value.split(",")
            elif option == "--image":
                image = value
            else:
                folder = value
        elif word not in _AUTOMATIC and not word.startswith("--module"):
            options.append(word)
            last = len(words) == 1 and runtime != "shifter"  # it is the image
            if not equals and words and not words[0].startswith("-") and not last:
                short = "HSWo" if runtime in _RUNSCRIPTS else "HSWoe"
                takes = re.fullmatch(
                    rf"-[{short}]|--(home|overlay|env|env-file|scratch|fuse-mount|network|hostname"
                    r"|security|app|entrypoint|user|name|shm-size|ipc|ulimit|device)",
                    word,
                )
                if takes:
                    options.append(words.pop(0))
    image = image or script.value("--image") or ""
    image = image.removeprefix("docker:") if runtime == "shifter" else image
    if runtime == "shifter":
        draft.lose(line, "shifter", "podman-hpc runs the image in its place")
        runtime = "podman-hpc"
    elif runtime not in ("apptainer", "singularity", "podman-hpc"):
        draft.lose(line, runtime, "apptainer runs the image in its place")
        runtime = "apptainer"
    image = _put_in(script, image, line)
    binds = [_put_in(script, bind, line) for bind in binds]
    moved = find_folder(script, line)
    if moved:
        image = _follow(image, moved)
        binds = [_follow(bind, moved) for bind in binds]
    container = {"image": image, "runtime": runtime}
    _put_binds(container, binds, draft, line)
    if options:
        container["options"] = options
    draft.put("environment.container", container)
    return folder


def _put_binds(container: dict[str, Any], binds: list[str], draft: Draft, line: int) -> None:
    good = []
    for bind in filter(None, binds):
        source, _, target = bind.partition(":")
        if source in (".", "$PWD", "$(pwd)", "${PWD}") and target in ("", source):
            continue  # always shown
        if _BIND.fullmatch(bind):
            good.append(source if source == target else bind)
        else:
            draft.lose(line, bind, "not a bind that a spec can have")
    if good:
        container["binds"] = good
