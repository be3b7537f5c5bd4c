"""Check whether committed scripts are what their specs render today."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobgen import process
from jobgen.errors import Problem, SpecError, UsageError
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
from jobgen.spec.table import name_new
from jobgen.spec.yaml_nodes import Scalar


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
                f"instead: jobgen check SPEC --out-dir {self.path.parent}"
            )
        about, loaded = self.header, load(str(spec_path), self.header.overrides)
        target = {"scheduler": about.scheduler, "site": about.site}
        plan = resolve(loaded, **target, limits=about.limits, task=about.task)
        rendered = render(plan)
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
            if loaded.digest == about.digest:  # its Part 1 is that of the older release
                fresh = own
        elif runtime.digest != current.digest or runtime.edited:
            edits = self._diff(runtime.as_text(), current.as_text(), "the runtime of this release")
            note = f"{self.path}: its Part 2 was edited; change Part 1 instead, or the spec"
        diff = self._diff(own, fresh, f"{spec_path} rendered now") + edits
        return Compared(str(self.path), str(spec_path), bool(diff), diff, note), plan.notes

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
    report = CheckReport([], [], [], [], [])
    if every:
        paths = [file for path in paths for file in find_files(path)]
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
    target = f" --scheduler {scheduler.name}"
    if loaded.spec.site or loaded.spec.scheduler:
        plan = resolve(loaded)
        scheduler, target, notes = SCHEDULERS[plan.scheduler], "", plan.notes
    script = name_new(str(folder / file.stem), scheduler.suffix)
    return (
        f"{file}: the spec is valid; it has no script yet; to write one: "
        f"jobgen render {file}{target} -o {script}"
    ), notes


def find_files(folder: str) -> list[str]:
    """Return the rendered scripts and the specs below a folder, of a repository those git knows.

    Others' scripts and YAML files are left alone: a spec has name, run and resources, or extends
    another file that is there.
    """
    paths = process.list_tracked_files(folder)
    if paths is None:
        paths = [*_walk(folder)]
    scripts = list(filter(None, map(_find_script, map(Path, paths))))
    rendered = {str(script.spec) for script in scripts}
    specs = (path for path in paths if path.endswith((".yaml", ".yml")) and path not in rendered)
    return [*(str(script.path) for script in scripts), *filter(_is_spec, specs)]


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


def _is_spec(path: str) -> bool:
    try:
        items = yaml_nodes.read(path).items
    except SpecError:
        return False
    base = items.get("extends")
    if isinstance(base, Scalar) and os.path.basename(path) != ".jobgen.yaml":
        return os.path.isfile(os.path.join(os.path.dirname(path), base.text))
    return items.keys() >= {"name", "run", "resources"} and "apiVersion" not in items


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
        spec = path.with_suffix(".yaml")
        raise UsageError(
            f"{path}: was not rendered by jobgen; it has no header that says so; to check it, type:"
            f" jobgen lint {path}; to submit it: jobgen import {path} -o {spec}, and then"
            f" jobgen submit {spec}"
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
