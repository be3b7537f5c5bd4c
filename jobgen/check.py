"""Whether committed scripts are what their specs render today."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobgen import header
from jobgen.errors import Problem, SpecError, UsageError
from jobgen.header import Header
from jobgen.loaded import load
from jobgen.plan import resolve
from jobgen.render import render

_SUFFIXES = (".sbatch", ".pbs", ".sh")


@dataclass(frozen=True)
class Script:
    """A rendered script on disk."""

    path: Path
    text: str
    header: Header

    def fresh(self, spec_path: Path) -> str:
        """What its spec renders today, by the command that its header names."""
        if not spec_path.is_file():
            raise UsageError(
                f"{self.path}: there is no {spec_path}, from which it was rendered; name the spec "
                f"instead: jobgen check SPEC --out-dir {self.path.parent}"
            )
        loaded = load(str(spec_path), self.header.overrides)
        plan = resolve(
            loaded,
            scheduler=self.header.scheduler,
            site=self.header.site,
            limits=self.header.limits,
            task=self.header.task,
        )
        return render(plan)

    def diff(self, spec_path: Path) -> str:
        """A unified diff from the script to what its spec renders today; empty when they agree."""
        fresh = self.fresh(spec_path)
        lines = difflib.unified_diff(
            self.text.splitlines(keepends=True),
            fresh.splitlines(keepends=True),
            str(self.path),
            f"{spec_path} rendered now",
        )
        return "".join(lines)


class Compared(NamedTuple):
    """A script beside its spec; `diff` leads to what the spec renders today."""

    script: str
    spec: str
    stale: bool
    diff: str


class Report(NamedTuple):
    """What `jobgen check` found."""

    scripts: tuple[Compared, ...]
    missing: tuple[str, ...]  # specs of which no script was found
    problems: tuple[Problem, ...]  # of the specs


def compare(paths: Iterable[str], folder: str | None) -> Report:
    """Compare scripts, and those in `folder` of each spec, with what their specs render today.

    The scripts of a spec are beside it where `folder` is None.
    """
    compared: list[Compared] = []
    missing: list[str] = []
    problems: list[Problem] = []
    for path in dict.fromkeys(paths):
        try:
            if is_script(path):
                script = read_script(Path(path))
                pairs = [(script, Path(path).parent / script.header.source)]
            else:
                beside = Path(folder) if folder else Path(path).parent
                pairs = [(found, Path(path)) for found in scripts_of(Path(path), beside)]
                if not pairs:
                    load(path)
                    missing.append(f"{path}: no script in {beside} was rendered from it")
            for script, spec in pairs:
                diff = script.diff(spec)
                compared.append(Compared(str(script.path), str(spec), bool(diff), diff))
        except SpecError as error:
            problems += error.problems
    return Report(tuple(compared), tuple(missing), tuple(problems))


def read_script(path: Path) -> Script:
    """The script in a file; raises UsageError where jobgen did not render it."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no text") from None
    found = header.read(text)
    if found is None:
        raise UsageError(f"{path}: was not rendered by jobgen; it has no header that says so")
    return Script(path, text, found)


def is_script(path: str) -> bool:
    """Whether a path on the command line is a script rather than a spec."""
    return path.endswith(_SUFFIXES)


def scripts_of(spec_path: Path, folder: Path) -> Iterator[Script]:
    """The scripts in `folder` that were rendered from a spec of this name."""
    for path in sorted(folder.glob("*")):
        if path.suffix in _SUFFIXES and path.is_file():
            try:
                script = read_script(path)
            except UsageError:
                continue
            if script.header.source == spec_path.name:
                yield script
