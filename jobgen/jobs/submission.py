"""What is to be submitted: a script, rendered just now or committed, and how."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from jobgen import process
from jobgen.errors import JobgenError, Problem, SpecError, StaleError, UsageError
from jobgen.jobs import journal
from jobgen.jobs.code import refuse_lacking
from jobgen.jobs.files import RUNS
from jobgen.jobs.record import JobRecord, folder_name
from jobgen.output import offer_line
from jobgen.plan.plan import Dependency, Plan
from jobgen.plan.requests import parse_dependency
from jobgen.rendering import header
from jobgen.rendering.check import list_scripts, read_script
from jobgen.rendering.header import Header
from jobgen.rendering.render import render
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import Scheduler
from jobgen.spec.load import LoadedSpec, load

TOKEN = "# submitted by jobgen as "  # the last line of what is submitted begins so


@dataclass(frozen=True)
class Submission:
    """A script that is ready to be handed over, from the folder that is current then."""

    text: str
    about: Header
    source: str | None = None  # the spec's text, to be kept beside the script
    warning: str = ""
    after: tuple[Dependency, ...] = ()  # what it waits for beside what the script says itself
    snapshot: bool | tuple[str, ...] | None = None  # or files to copy beside those that git tracks
    rerun_of: tuple[str, ...] = ()
    continues: JobRecord | None = None  # the job in whose run folder it goes on, as it is then
    synced: bool = False  # whether the .venv here is brought to uv.lock before

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that gets it."""
        return SCHEDULERS[self.about.scheduler]

    def argv(self, token: str = "TOKEN", *, script: str = "") -> list[str]:
        """Return the command that submits it under its own name, or from the file `script`."""
        argv = self.scheduler.submit_argv(script or self.file(token))
        if self.continues:
            first = folder_name(self.continues.id)
            argv = self.scheduler.next_argv(argv[-1], text=self.head, after="", first=first)
        if self.after:
            own = self.scheduler.dependencies(self.head)  # which the command's would replace
            waits = ",".join(filter(None, [own, *map(str, self.after)]))
            argv[1:1] = self.scheduler.after_argv(waits)
        return argv

    def file(self, token: str = "TOKEN") -> str:
        """Return what the scheduler reads: a copy under the submission's own name."""
        return str(journal.name_script(self.about.name, token, self.about.scheduler))

    @property
    def head(self) -> str:
        """The part of the script that sbatch and qsub read: up to the first command."""
        lines = self.text.splitlines(keepends=True)
        return "".join(takewhile(lambda line: line.startswith("#") or not line.strip(), lines))

    @property
    def folders(self) -> list[str]:
        """Folders that must be there before: neither sbatch nor qsub makes the output's."""
        outputs = self.scheduler.output_folders(self.head)
        return [os.path.join(RUNS, self.about.name), *dict.fromkeys(outputs)]

    def list_variables(self) -> dict[str, str]:
        """Return the variables set here that change the submission, and what each does to it."""
        return self.scheduler.interferes(self.head, os.environ)

    def list_warnings(self) -> list[str]:
        """Return what to tell the user before it is submitted.

        Raises UsageError for a variable that sends the job where jobgen cannot follow it.
        """
        if chain := os.environ.get("JOBGEN_CHAIN"):
            line = offer_line("jobgen", "rerun", chain, "--continue")
            hint = f"unset it; `{line}` goes on in the run folder of that job"
            raise UsageError(
                f"JOBGEN_CHAIN={chain} is set here, and is for sbatch and qsub; {hint}"
            )
        for name, instead in self.scheduler.can.refused.items():
            if os.environ.get(name):
                where = f"{name}={os.environ[name]} is set here, and sends the job to another"
                hint = f"jobgen cannot follow it: unset it, and {instead}"
                raise UsageError(f"{where} cluster; {hint}")
        warnings = [self.warning] if self.warning else []
        for name, what in self.list_variables().items():
            warnings.append(f"warning: {name}={os.environ[name]} is set here: it {what}")
        return warnings

    @property
    def digest(self) -> str:
        """Of what two submissions of the same have in common: the script, what it waits for."""
        waits = "".join(f"\n{dependency}" for dependency in self.after)
        return hashlib.sha256((self.text + waits).encode()).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """Return what is submitted and how, for programs."""
        return {
            "name": self.about.name,
            "scheduler": self.about.scheduler,
            "argv": self.argv(),
            "folder": os.getcwd(),
            "makes": self.folders,
            "script": self.file(),
            "sha256": hashlib.sha256(self.text.encode()).hexdigest(),
        }

    def preview(self) -> str:
        """Return the commands that would be run here, and the script."""
        lines = [f"# in {os.getcwd()}:", f"mkdir -p {offer_line(*self.folders)}"]
        lines.append(f"# write the script below to {self.file()}, then")
        lines.append(offer_line(*self.argv()))
        if self.about.jobs > 1:
            file, text = self.file(), self.head
            argv = self.scheduler.next_argv(file, text=text, after="BEFORE", first="FIRST")
            lines.append(f"{offer_line(*argv)}    # {self.about.jobs - 1} times")
        lines.append("# the script:")
        return "\n".join(lines) + "\n" + self.text


def prepare_plan(
    loaded: LoadedSpec, plan: Plan, *, after: tuple[str, ...] = (), rendered: str = ""
) -> Submission:
    """Return the script that a spec renders; raise SpecError if it could not run from here.

    `after` are jobs to wait for beside those of the spec, as `parse_dependency` reads them. What
    the plan notes is the submission's warning. A script that is `rendered` already is taken.
    """
    waits = tuple(parse_dependency(word, plan.scheduler) for word in after)
    if not plan.can.batch:  # only the script itself can wait
        requests = plan.requests._replace(after=plan.requests.after + waits)
        plan, waits = plan._replace(requests=requests), ()
    if problems := list(filter(None, map(_find_missing_script, loaded.programs()))):
        raise SpecError(problems)
    refuse_unset(loaded)
    text = rendered or render(plan)
    process.check_syntax(text, loaded.where("environment.setup"))
    about = header.read(text) or header.describe_plan(plan)
    return describe_script(text, about, loaded, warning="\n".join(plan.notes), after=waits)


def refuse_unset(loaded: LoadedSpec) -> None:
    """Raise SpecError where this shell lacks variables that its job is to have from it."""
    names = loaded.spec.environment.from_shell or ()
    if missing := [name for name in names if name not in os.environ]:
        message = f"{', '.join(missing)}: not set in this shell"
        hint = "export it before you submit"
        raise SpecError([loaded.problem("environment.from_shell", message, hint)])


def list_stale(loaded: LoadedSpec) -> Iterator[str]:
    """Yield a warning for each script beside a spec that is not what it renders today."""
    spec = Path(loaded.file)
    with suppress(JobgenError):  # such as a base that only this submission overrides
        for script in list_scripts(spec, spec.parent) if spec.is_file() else ():
            if script.compare(spec)[0].stale:
                yield f"warning: {script.path}: stale; {spec} is submitted; render the script again"


def describe_script(
    text: str, about: Header, loaded: LoadedSpec | None = None, **more: Any
) -> Submission:
    """Return a rendered script with what its header says, and its spec where that is there."""
    if loaded:
        refuse_lacking(loaded)
        more |= {"source": loaded.write_whole(), "snapshot": loaded.spec.snapshot}
        more["synced"] = _wants_uv(loaded)
    return Submission(text, about, **more)


def _find_missing_script(loaded: LoadedSpec) -> Problem | None:
    """Return what is wrong if a program's file is not here; it may lie in a container's image."""
    key, script = "run.script", loaded.spec.run.script
    if loaded.spec.run.body:
        key, script = "run.body", loaded.spec.run.body
    if loaded.spec.environment.container is not None:
        script = None
    if script and "$" not in script and not os.path.isfile(os.path.expanduser(script)):
        hint = "paths are relative to the folder you submit from"
        return loaded.problem(key, f"no such file here: {script!r}", hint)
    return None


def prepare_script(path: str, *, stale_ok: bool, after: tuple[str, ...] = ()) -> Submission:
    """Return a rendered script; raise StaleError if its spec no longer renders it.

    `after` are jobs to wait for beside those of the script.
    """
    script = read_script(Path(path))
    spec_path = script.path.parent / script.header.spec
    about, loaded, warning = script.header, None, ""
    if spec_path.is_file():
        loaded = load(spec_path, about.overrides)
        if not stale_ok and script.compare(spec_path)[0].stale:
            line = offer_line("jobgen", "check", path)
            hint = f"see `{line}`, render it again, or give --stale-ok"
            raise StaleError(f"{path}: not what {spec_path} renders today; {hint}")
    elif not stale_ok:
        warning = f"{path}: {spec_path} does not exist; the script may be stale"
    waits = tuple(parse_dependency(word, about.scheduler) for word in after)
    if waits and not SCHEDULERS[about.scheduler].can.batch:
        raise UsageError(f"{path}: a local script cannot be told to wait; submit its spec instead")
    return describe_script(script.text, about, loaded, warning=warning, after=waits)


def _wants_uv(loaded: LoadedSpec) -> bool:
    """Whether `uv sync` comes before; raise SpecError if it could not run from here."""
    if not loaded.spec.environment.uv:
        return False
    for missing, message, hint in (
        (not os.path.isfile("pyproject.toml"), "there is no pyproject.toml", "uv init makes it"),
        (not os.path.isfile("uv.lock"), "there is no uv.lock here", "uv lock makes it"),
        (shutil.which("uv") is None, "there is no uv command here", "or write venv: .venv"),
    ):
        if missing:
            raise SpecError([loaded.problem("environment.uv", message, hint)])
    return True
