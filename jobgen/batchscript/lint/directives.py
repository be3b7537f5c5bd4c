"""Rules on what the scheduler reads: the #SBATCH and #PBS lines, and the bytes of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from jobgen.batchscript.bash import Word
from jobgen.batchscript.directives import find_request, settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.lint.rule import Fault, mark, rule
from jobgen.batchscript.purposes import FORMS, WHY
from jobgen.batchscript.readable import find_place, find_template, list_strays
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.errors import SpecError
from jobgen.output import format_count
from jobgen.plan import site_defaults
from jobgen.plan.decision import Context
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search
from jobgen.sites.profile import SiteProfile
from jobgen.spec.load import LoadedSpec


@rule("placeholder")
def _find_placeholders(script: Script) -> Iterator[Fault]:
    if template := find_template(script):
        yield Fault(template, 1, "this is a generator's template, and no script yet")
        return
    items = [(x, find_place(script, x) or "$") for x in script.read_directives]
    if places := [x for x in items if x[1][0] != "$" and x[0].option not in ("--job-name", "-N")]:
        item, place = places[0]
        more = f", and {len(places) - 1} more" if len(places) > 1 else ""
        yield mark(item, f"'{place}' is a place to fill in{more}")


NO_SHEBANG, SECRET, LINE_ENDS = rule("no-shebang")(), rule("secret")(), rule("crlf")()


def _judge_stray(script: Script, item: DirectiveOption) -> Fault:
    """Say what the scheduler makes of a word that stands in place of an option."""
    word, meant = item.option, script.find_torn(item.option)
    refuses = f", so {script.can.title} refuses the script"
    if not meant:
        return mark(item, f"'{word}' is not an option{refuses}", WHY.STRAYS)
    reads = f"'{word}' is read as {word[:2]} with the value '{word[2:]}'"
    taken = FORMS["of-file-name"].match(word)
    return mark(item, reads if taken else reads + refuses, f"write --{meant}")


@rule("directive-variable")
def _find_variables(script: Script) -> Iterator[Fault]:
    yield from (_judge_stray(script, item) for item in list_strays(script).values())
    # A name with a variable in it is ugly, and costs nothing.
    asked = {x.line: x for x in script.read_directives if x.option != "--job-name"}
    for item in asked.values():
        line = re.sub(r"\s#.*" if script.can.comments else r"(?!)", "", script.lines[item.line - 1])
        chunks = script.resource("select") or script.resource("ncpus")
        if item.option in ("-o", "-e") and not chunks:  # Torque expands these
            line = re.sub(r"\$\{?[A-Za-z_]\w*", "", line)
        if chunks and re.search(r"\s#", line[5:]):
            yield Fault(item.line, 1, "qsub takes no comment here", "write it in another line")
        if match := re.search(r"\$\{?[A-Za-z_(1-9]|`", line):
            message = f"{script.scheduler} reads '{item.text}' as it is, with the '{match[0][0]}'"
            yield Fault(item.line, match.start() + 1, message)


@rule("unset-variable")
def _find_unset(script: Script) -> Iterator[Fault]:
    for name, place in _list_unset(script, "misnamed"):
        yield mark(place, f"no scheduler sets ${name}")
    asked = " ".join(f"{script.can.sign} {item.option}" for item in script.read_directives)
    foreign = [] if FORMS["several"].search(script.text) else _list_unset(script, "of-others")
    for name, place in foreign:
        if FORMS["foreign"].fullmatch(f"{name} {asked}"):
            fix = "write the name that the scheduler sets, or the directive that it sets this for"
            yield mark(place, f"nothing sets ${name} in a job with these directives", fix)


def _list_unset(script: Script, kind: str) -> list[tuple[str, Word]]:
    """List the variables of a kind that the script does not set, where it first needs them."""
    commands = [x.command for x in script.launches[::-1] if x.command.name != "echo"]
    read = {name: x.place for x in commands for name in FORMS[kind].findall(x.active)}
    return [(name, place) for name, place in read.items() if name not in script.own_names]


@rule("late-directive")
def _find_late(script: Script) -> Iterator[Fault]:
    items = [item for item in script.directives if not item.read and item.option[0] == "-"]
    # Beside those that count they are parked; one command is the cause of all others.
    if not all(script.value(item.option) for item in items):
        more = len({item.line for item in items}) - 1
        come = f", and {more} more, come" if more else " comes"
        message = f"'{items[0].text}'{come} after the first command, in line {script.body_line}"
        fix = WHY.LATE * any(FORMS["expanded"].match(f"{x.option} {x.value}") for x in items)
        yield Fault(items[0].line, 1, message, fix)


@rule("dead-directive")
def _find_dead(script: Script) -> Iterator[Fault]:
    if dead := script.dead_directives:
        (number, text), *more = dead.items()
        none = f", like {format_count(len(more), 'other line')}, so the job has no directives"
        yield Fault(number, 1, f"'{text}' is a comment{'' if script.directives else none}")


@rule("output-folder")
def _check_output_folder(script: Script) -> Iterator[Fault]:
    if script.value("--chdir", "-d"):
        return
    for bare, (item, folder) in _list_folders(script).items():
        known = "/".join(folder.rstrip("/").split("/")[:3]) or "/"
        absent = folder[0] == "/" and not os.path.isdir(known)  # of another machine
        unknown = absent or FORMS["place"].search(folder) or FORMS["elsewhere"].search(folder)
        if not (unknown or (bare and _is_there(script, folder)) or _makes(script, bare)):
            column = script.lines[item.line - 1].find(f"{folder.rstrip('/')}/") + 1
            column = max(column, item.column)
            fix = "" if folder.rstrip("/") in item.value else WHY.OF_NAME
            does = script.can.without_output  # as measured for each scheduler
            lacks = f"there is no folder {folder!r} here" if bare else "only root writes to '/'"
            yield Fault(item.line, column, f"{lacks}, so the job {does}", fix)


def _list_folders(script: Script) -> dict[str, tuple[DirectiveOption, str]]:
    """Return the folders of the output by plain names, each with its directive and text."""
    of_line = SCHEDULERS[script.target].output_folders
    items, sign = script.read_directives, script.can.sign
    job = script.value("--job-name") or "%x"  # as Slurm puts it in, also with a / in it
    lines = [(x, f"{sign} {x.option} {x.value.replace('%x', job)}\n") for x in items]
    asked = [(x, name) for x, line in lines for name in of_line(line)]
    return {name.rstrip("/").removeprefix("./"): (item, name) for item, name in asked[::-1]}


def _is_there(script: Script, folder: str) -> bool:
    """Whether it is here, in the script's own project or used by it, or a comment makes it."""
    own = re.escape(os.path.normpath(folder))
    goes, runs = (FORMS[kind].findall(script.text) for kind in ("goes-to", "runs-file"))
    uses = "\n".join([script.text, "", "/".join(goes), *runs])
    hint = re.search(rf"(?m)^[^\"'\n]*#.*\bmkdir\b.*(?<!\w){own}(?!\w)", script.text)
    used = re.search(rf"(?ms)\A(?!.*^[^#\n]*\bmkdir\b[^\n]*{own}).*^(\./)*{own}(/|$)", uses)
    near = [Path(), *Path(script.path).resolve().parents][:4]
    return bool(hint or used) or any((x / folder).is_dir() for x in near)


def _makes(script: Script, folder: str) -> bool:
    """Whether a script makes a folder, in a job of PBS or before it submits itself, by names."""
    late = not script.can.chunks or script.value("-k") is not None
    if late and not FORMS["no-job"].search(script.text):
        return False
    made = [text for item in script.expanded if item.name == "mkdir" for text in item.texts]
    return any(f"/{text}".rstrip("/").endswith(f"/{folder}") for text in made)


@rule("site-limit")
def _find_site_faults(script: Script) -> Iterator[Fault]:
    profile = search.load(script.site) if script.site else None
    if profile is None or profile.scheduler != script.scheduler:
        return
    try:
        loaded = _make_spec(script, profile)
    except SpecError:  # what stands there is no number or name; other rules tell
        return
    # No rule is too old to be told, as each says of when it is.
    problems = site_defaults.decide(Context(loaded, profile, today="2000-01-01")).problems
    # What a profile says of nodes is said of those with GPUs; others have CPUs of their own.
    of_gpus = "!" if loaded.spec.resources.gpus_per_node else "resources.[cg]pus"
    causes = {x.path: x.message for x in reversed([*problems])}  # one finding of one cause
    for path, message in causes.items():
        item = find_request(script, path)
        if item and not re.match(of_gpus, path):
            yield mark(item, f"{script.site}: {message}")


def _make_spec(script: Script, profile: SiteProfile) -> LoadedSpec:
    """What the directives ask for, as a spec with a program that does not matter."""
    draft = Draft()
    settle(script, draft)
    if profile.slurm.queue_option == "qos":
        draft.put("queue", script.value("--qos"))
    draft.values.pop("site", None)
    queue = profile.find_queue(draft.values.get("queue"))
    if queue is not None and queue.chunk == "gpu":
        draft.put("resources.gpus_per_node", draft.values.pop("resources.nodes", 1))
    draft.values |= {"name": "a", "run.module": "a"}
    return draft.load()
