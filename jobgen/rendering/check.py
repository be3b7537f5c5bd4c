"""Check whether committed scripts are what their specs render today."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from pathlib import Path

from jobgen import process
from jobgen.errors import Problem, SpecError, UsageError
from jobgen.output import offer_line
from jobgen.plan.resolve import resolve
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.rendering.header import Header
from jobgen.rendering.render import find_template_folder, render
from jobgen.rendering.runtime import NUMBER, split_script
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.registry import SCRIPT_ENDS
from jobgen.spec import yaml_nodes
from jobgen.spec.load import LoadedSpec, load
from jobgen.spec.secrets import mask_text
from jobgen.spec.spelling import find_near
from jobgen.spec.table import name_new, read_here

# What a spec says, by the keys that say it.
_PARTS = {"run": "program", "roles": "program", "resources": "nodes"} | dict.fromkeys(
    ("scheduler", "site"), "place"
)
_YAML = re.compile(r"(?<!\.jobgen)\.ya?ml$")
_KEY = re.compile(r"""^["']?(\w+)["']? *: *["']?([^"'#\n]*)""", re.MULTILINE)
_DOUBTFUL = "{}: is not checked: it has neither resources nor scheduler"


class RenderedScript(NamedTuple):
    """A rendered script on disk."""

    path: Path
    text: str
    header: Header

    @property
    def spec(self) -> Path:
        """The spec that it was rendered from."""
        return self.path.parent / self.header.spec

    def compare(self, spec_path: Path) -> tuple[Compared, tuple[str, ...]]:
        """Part 1 line by line, and Part 2 by its digest: an older runtime is not a fault.

        Also returns the notes of the spec's plan.
        """
        if not spec_path.is_file():
            raise UsageError(
                f"{self.path}: there is no {spec_path}, from which it was rendered; name the spec "
                f"instead: {offer_line('jobgen', 'check', 'SPEC', '--out-dir', self.path.parent)}"
            )
        about, loaded = self.header, load(str(spec_path), self.header.overrides)
        target = {"scheduler": about.scheduler, "site": about.site}
        plan = resolve(loaded, **target, limits=about.limits, task=about.task)
        name, same = f"{spec_path} rendered now", loaded.digest == about.digest
        diff, note = self.contrast(render(plan), name, same=same)
        return Compared(str(self.path), str(spec_path), bool(diff), diff, note), plan.notes

    def contrast(self, rendered: str, name: str, *, same: bool) -> tuple[str, str]:
        """Return the diff to what a spec renders, the `same` as then, and a note on Part 2."""
        fresh, current = split_script(rendered)
        own, runtime = split_script(self.text)
        note = edits = ""
        if runtime is None or current is None:
            own, fresh = self.text, rendered
        elif not runtime.edited and runtime.number < NUMBER and runtime.digest in read_released():
            note = (
                f"{self.path}: runtime {runtime.number}, current is {current.number}: render again "
                "when convenient"
            )
            if same:  # its Part 1 is that of the older release
                fresh = own
        elif runtime.digest != current.digest or runtime.edited:
            edits = self._diff(runtime.as_text(), current.as_text(), "the runtime of this release")
            note = f"{self.path}: its Part 2 was edited; change Part 1 instead, or the spec"
        return self._diff(own, fresh, name) + edits, note

    def _diff(self, own: str, other: str, name: str) -> str:
        before, after = own.splitlines(keepends=True), other.splitlines(keepends=True)
        return mask_text("".join(difflib.unified_diff(before, after, str(self.path), name)))


class Compared(NamedTuple):
    """A script beside its spec; `diff` leads to what the spec renders today.

    `note` reports a Part 2 that is older than this release's, or was edited.
    """

    script: str
    spec: str
    stale: bool
    diff: str
    note: str


class CheckReport(NamedTuple):
    """What `jobgen check` found."""

    scripts: list[Compared]
    missing: list[str]  # on valid specs of which no script was found
    notes: list[str]  # on what valid specs may not mean
    orphans: list[str]  # on scripts whose spec does not exist
    problems: list[Problem]  # of the specs
    left_out: list[str]  # sentences on what looks like a spec

    def compare(self, script: RenderedScript, spec: Path) -> None:
        """Compare a script with what its spec renders today."""
        compared, notes = script.compare(spec)
        self.scripts.append(compared)
        self.notes.extend(notes)


def compare(paths: Iterable[str], folder: str | None, *, every: bool = False) -> CheckReport:
    """Compare scripts, and those in `folder` of each spec, with what their specs render today.

    The scripts of a spec are beside it where `folder` is None. With `every`, paths are folders, of
    which all is looked at; there a spec needs no script, and a script needs its spec.
    """
    report = CheckReport([], [], [], [], [], [])
    if every:
        paths = [file for path in paths for file in find_files(path, report.left_out)]
    for path in dict.fromkeys(paths):
        try:
            if not is_script(path):
                _check_spec(report, path, folder, every=every)
                continue
            script = read_script(Path(path))
            if every and not script.spec.is_file():
                report.orphans.append(f"{path}: its spec {script.spec} does not exist")
            else:
                report.compare(script, script.spec)
        except SpecError as error:
            report.problems.extend(error.problems)
            report.notes.extend(error.warnings)
    return report._replace(notes=[] if every else list(dict.fromkeys(report.notes)))


def _check_spec(report: CheckReport, path: str, folder: str | None, *, every: bool) -> None:
    beside = Path(folder or Path(path).parent)
    scripts = [] if every else list(list_scripts(Path(path), beside))
    for script in scripts:
        report.compare(script, Path(path))
    if not scripts:
        line, notes = _look_at(load(path, user=not every), beside)
        report.notes.extend(notes)
        report.missing.extend([] if every else [line])


def _look_at(loaded: LoadedSpec, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Say that a spec is valid, and how to render the script that is not there; and its notes.

    Raises SpecError for what its site refuses.
    """
    file = Path(loaded.file)
    notes: tuple[str, ...] = ()
    scheduler = next(iter(SCHEDULERS.values()))
    target = ["--scheduler", scheduler.name]
    if loaded.spec.site or loaded.spec.scheduler:
        plan = resolve(loaded)
        scheduler, target, notes = SCHEDULERS[plan.scheduler], [], plan.notes
    script = name_new(str(folder / file.stem), scheduler.suffix)
    line = offer_line("jobgen", "render", file, *target, "-o", script)
    return f"{file}: the spec is valid; it has no script yet; to write one: {line}", notes


def find_files(folder: str, left_out: list[str]) -> list[str]:
    """Return the rendered scripts and the specs below a folder; add what is `left_out`.

    In a repository, they are those that git knows. Others' scripts and YAML files are left alone.
    """
    tracked = process.list_tracked_files(folder)
    paths = [*_walk(folder)] if tracked is None else tracked
    scripts = list(filter(None, map(_find_script, map(Path, paths))))
    rendered = {str(script.spec) for script in scripts}
    specs = _list_specs(paths, left_out)
    new = process.list_tracked_files(folder, *process.NEW_FILES)
    left_out += map(_tell_untracked, _list_specs(new or (), []))
    return [*(str(script.path) for script in scripts), *filterfalse(rendered.__contains__, specs)]


def _tell_untracked(path: str) -> str:
    line = offer_line("git", "add", path)
    return f"{path}: is not checked: git does not know it; to have it checked: {line}"


def _walk(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "runs")
        for name in sorted(names):
            yield os.path.normpath(os.path.join(where, name))


def _find_script(path: Path) -> RenderedScript | None:
    try:
        return read_script(path) if is_script(str(path)) and path.is_file() else None
    except UsageError:
        return None


class _YamlFile(NamedTuple):
    """A file, with its outermost keys and what stands on their lines, if all else were wrong."""

    path: str
    keys: dict[str, str]

    @property
    def parts(self) -> set[str]:
        """What it says that a spec says: its keys may be spelt nearly so."""
        near = {find_near(key.lower(), _PARTS) for key in self.keys}
        return {_PARTS[key] for key in near & _PARTS.keys()}

    @property
    def base(self) -> str:
        """The file that it extends; empty if that is not there."""
        name = self.keys.get("extends", "").strip()
        base = os.path.normpath(os.path.join(os.path.dirname(self.path), name))
        return base if os.path.isfile(base) else ""

    @property
    def is_spec(self) -> bool:
        """Whether it has two parts of a spec, or extends a file; one of Kubernetes is none."""
        return "apiVersion" not in self.keys and (len(self.parts) > 1 or bool(self.base))


def _list_specs(paths: Iterable[str], doubtful: list[str]) -> list[str]:
    """Return the specs among files; say which are `doubtful`: they have only what a spec runs.

    One without a name is looked at with the specs that extend it.
    """
    files = list(map(_read_keys, filter(_YAML.search, paths)))
    bases = {file.base for file in files}
    alone = [file for file in files if "name" in file.keys or file.path not in bases]
    doubtful += (_DOUBTFUL.format(file.path) for file in alone if file.parts == {"program"})
    return [file.path for file in alone if file.is_spec]


def _read_keys(path: str) -> _YamlFile:
    try:
        items = yaml_nodes.read(path).items
    except SpecError:
        return _YamlFile(path, dict(_KEY.findall(read_here(path))))
    return _YamlFile(path, {key: node.text for key, node in items.items()})


def read_script(path: Path) -> RenderedScript:
    """Return the script in a file; raise UsageError if jobgen did not render it."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text") from None
    own_header = header.read(text)
    if own_header is None:
        spec = Path(name_new(str(path.with_suffix(""))))
        raise UsageError(
            f"{path}: was not rendered by jobgen; it has no header that says so; to check it, type:"
            f" {offer_line('jobgen', 'lint', path)}; to submit it:"
            f" {offer_line('jobgen', 'import', path, '-o', spec)}, and then"
            f" {offer_line('jobgen', 'submit', spec)}"
        )
    return RenderedScript(path, text, own_header)


def read_released() -> list[str]:
    """Return the digests of Part 2 in scripts of older runtimes, of every kind released."""
    text = Path(find_template_folder(), "released.txt").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def is_script(path: str) -> bool:
    """Whether a path on the command line is a script rather than a spec."""
    return path.endswith(SCRIPT_ENDS)


def list_scripts(spec_path: Path, folder: Path) -> Iterator[RenderedScript]:
    """Return the scripts in `folder` that were rendered from a spec with this name."""
    for path in sorted(folder.glob("*")):
        script = _find_script(path)
        if script and script.header.spec == spec_path.name:
            yield script
