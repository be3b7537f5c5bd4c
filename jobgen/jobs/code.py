"""The code of a job as submitted: the commit, the differences from it, and copies."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from jobgen import process
from jobgen.errors import JobgenError, Problem, SpecError, UsageError
from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.record import JobRecord
from jobgen.output import format_count
from jobgen.records import NamedTuple
from jobgen.review.files import list_copied
from jobgen.review.subject import is_below, is_here
from jobgen.spec.load import LoadedSpec

DIFF = "code.diff"
_MOST_DIFF = 1 << 20
_MOST_COPIED = 256 << 20
_SECONDS = 10.0  # a scheduler may be asked for minutes, git in a submission may not
# What jobs leave: run folders, and their output, as sbatch and qsub are told to name it.
_OF_JOBS = re.compile(rf"\?\? ({RUNS}/|\S+(-[0-9]+(_[0-9]+)?\.out|\.[oe][0-9]+(\.[0-9]+)?)$)")
_HERE = ("--ignore-submodules=none", "--", ".")  # whatever .gitmodules says
_SYNC_SECONDS = 1800.0  # it may fetch gigabytes


class Code(NamedTuple):
    """The commit that is checked out, and the number and text of changes; empty without git."""

    commit: str = ""
    changed: int = 0
    diff: str = ""


def read_code() -> Code:
    """Return git's report about the current folder, with secrets masked."""
    from jobgen.spec.secrets import mask_text  # of no use to who only looks

    try:
        commit = _ask("rev-parse", "HEAD").strip()
        changes = [line for line in _ask("status", "--porcelain", *_HERE).splitlines() if line]
        diff = _ask("diff", "HEAD", "--submodule=diff", *_HERE) if changes else ""
    except JobgenError:  # no git, no repository, no commit, or a file system that is too slow
        return Code()
    own = [line for line in changes if not _OF_JOBS.match(line)]
    new = "".join(f"{line}\n" for line in own if line.startswith("??"))
    diff, more = new + mask_text(diff[:_MOST_DIFF]), len(diff) - _MOST_DIFF
    if more > 0:
        diff += f"\n... and {more} more characters\n"
    return Code(commit, len(own), diff)


def describe_code(job: JobRecord) -> str:
    """Return which code a job ran, such as `commit 3f2a91c0d7e1`; empty if that is not known.

    Two jobs that ran the same have the same words.
    """
    if not job.commit:
        return ""
    changes = ""
    if job.changed:
        digest = sha256(read_if_left(job.whole_dir / DIFF).encode()).hexdigest()
        changes = f" and {format_count(job.changed, 'changed file')} (diff {digest[:8]})"
    return f"commit {job.commit[:12]}{changes}"


def name_copy(name: str, token: str) -> Path:
    """Return the path of a submission's copy of the code, from the folder of submission."""
    return Path(RUNS, name, "code", token)


def copy_code(folder: Path, named: Sequence[str]) -> None:
    """Copy files that git tracks below the current folder, and those `named`, to a new folder.

    Those of submodules are among them. Raises UsageError without git if none are named, for what is
    missing, and for far too much.
    """
    files = _list_files(named)
    size = sum(os.path.getsize(path) for path in files)
    if size > _MOST_COPIED:
        hint = f"more than {_MOST_COPIED >> 20} MiB; submit from a folder with the program alone"
        raise UsageError(f"snapshot: the files take up {size >> 20} MiB; {hint}")
    if folder.parent.is_symlink():
        raise UsageError(f"{folder.parent} is a link; remove it, or the copy would land elsewhere")
    folder.mkdir(parents=True)
    for path in sorted(files):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def _list_files(named: Sequence[str]) -> set[str]:
    files = set(_list_tracked(required=not named))
    for path in map(os.path.relpath, named):
        if path.startswith("..") or not os.path.exists(path):
            raise UsageError(f"snapshot: no such file below this folder: {path!r}")
        below = (Path(path), *Path(path).rglob("*"))
        files |= {str(file) for file in below if file.is_file()}
    return files


def _list_tracked(*, required: bool) -> list[str]:
    """Return the files that git tracks, which outside of a repository are none."""
    tracked = process.list_tracked_files()
    if not tracked and required:
        raise UsageError(f"snapshot: {_describe_none(tracked)}")
    if absent := process.list_absent_submodules():
        hint = "type: git submodule update --init --recursive"
        raise UsageError(f"snapshot: submodules are not checked out: {', '.join(absent)}; {hint}")
    return tracked or []


def _describe_none(tracked: Sequence[str] | None) -> str:
    why = "this folder is not in a git repository" if tracked is None else "git tracks none here"
    return f"true copies the files that git tracks, and {why}; git add them, or name them in a list"


def refuse_lacking(loaded: LoadedSpec) -> None:
    """Raise SpecError if a job cannot start in its snapshot, which lacks all, or its program."""
    copied = list_copied(loaded.spec.snapshot)
    if loaded.spec.snapshot is True and not copied:
        raise SpecError([loaded.problem("snapshot", _describe_none(copied))])
    problems = [_find_left_out(one, copied) for one in loaded.programs() if copied]
    if any(problems):
        raise SpecError(filter(None, problems))


def _find_left_out(loaded: LoadedSpec, copied: Iterable[str]) -> Problem | None:
    """Return what is wrong if a program's file is here, and not in the copy of the code."""
    run = loaded.spec.run
    file = run.script or run.body or ""
    if _is_elsewhere(file, loaded) or is_below(os.path.normpath(file), copied):
        return None
    message = f"{file!r} is not in the snapshot, as git does not track it below this folder"
    hint = f"git add it, or write snapshot: [{file}]"
    return loaded.problem("run.script" if run.script else "run.body", message, hint)


def _is_elsewhere(file: str, loaded: LoadedSpec) -> bool:
    """Whether a program is not of this folder, or may be another's that the setup brings."""
    own = loaded.spec.environment
    brings = rf"\b(cd|pushd)\b|{re.escape(os.path.basename(file))}"
    return bool(own.container or re.search(brings, own.setup or "")) or not is_here(file)


def sync_environment() -> None:
    """Bring the .venv here to the project's uv.lock; raise UsageError with uv's words.

    The .venv is what the job activates, wherever the shell has uv put another; a lock that
    pyproject.toml has outgrown is refused, as the job would lack what was added.
    """
    argv = ["uv", "sync", "--locked"]
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": ".venv"}
    answer = process.ask(argv, environment=environment, timeout=_SYNC_SECONDS)
    if answer.code:
        raise UsageError(f"{' '.join(argv)}: {answer.words}")


def _ask(*words: str) -> str:
    return process.run(["git", *words], timeout=_SECONDS)
