"""What is to be submitted: a script, rendered just now or committed, and how."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from jobgen import dependencies, header, intents, process, schedulers
from jobgen.check import read_script
from jobgen.dependencies import Dependency
from jobgen.errors import SpecError, StaleError, UsageError
from jobgen.loaded import LoadedSpec
from jobgen.plan import Plan
from jobgen.render import render
from jobgen.runs import RUNS
from jobgen.schedulers.pbs import SCHEDULER as PBS


@dataclass(frozen=True)
class Submission:
    """A script that is ready to be handed over, from the folder that is current then."""

    text: str
    name: str
    scheduler: str
    source: str | None = None  # the spec's text, to be kept beside the script
    warning: str = ""
    tasks: int = 0  # of the array that it is
    after: tuple[Dependency, ...] = ()  # what it waits for beside what the script says itself
    jobs: int = 1  # that are submitted, each to go on where the one before has ended

    def argv(self, script: str) -> list[str]:
        """The command that submits it from the file `script`."""
        argv = schedulers.get(self.scheduler).submit_argv(script)
        if self.after:
            scheduler = schedulers.batch(self.scheduler)
            own = scheduler.dependencies(self.text)  # which the command's would replace
            argv[1:1] = scheduler.after_argv(",".join(filter(None, [own, *map(str, self.after)])))
        return argv

    def file(self, token: str = "TOKEN") -> str:
        """What the scheduler reads: a copy that nobody changes, whose name is the submission's."""
        return str(intents.script_file(self.name, token, self.scheduler))

    @property
    def folders(self) -> list[str]:
        """Folders that must be there before: neither sbatch nor qsub makes the output's."""
        outputs = schedulers.get(self.scheduler).output_folders(self.text)
        return [os.path.join(RUNS, self.name), *dict.fromkeys(outputs)]

    @property
    def digest(self) -> str:
        """Of what two submissions of the same have in common: the script, what it waits for."""
        waits = "".join(f"\n{dependency}" for dependency in self.after)
        return hashlib.sha256((self.text + waits).encode()).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """What is submitted and how, for programs; folders that do not exist yet are made."""
        return {
            "name": self.name,
            "scheduler": self.scheduler,
            "argv": self.argv(self.file()),
            "folder": os.getcwd(),
            "makes": self.folders,
            "script": self.file(),
            "sha256": hashlib.sha256(self.text.encode()).hexdigest(),
        }

    def preview(self) -> str:
        """The commands that would be run here, and the script."""
        lines = [f"# in {os.getcwd()}:", f"mkdir -p {shlex.join(self.folders)}"]
        lines.append(f"# write the script below to {self.file()}, then")
        lines.append(shlex.join(self.argv(self.file())))
        if self.jobs > 1:
            argv = PBS.next_argv(self.file(), text=self.text, after="BEFORE", first="FIRST")
            lines.append(f"{shlex.join(argv)}    # {self.jobs - 1} times")
        lines.append("# the script:")
        return "\n".join(lines) + "\n" + self.text


def from_plan(loaded: LoadedSpec, plan: Plan, *, after: tuple[str, ...] = ()) -> Submission:
    """The script that a spec renders; raises SpecError where it could not run from here.

    `after` are jobs to wait for beside those of the spec, as `dependencies.parse` reads them. What
    the plan notes is the submission's warning.
    """
    waits = tuple(dependencies.parse(word, plan.scheduler) for word in after)
    if plan.scheduler == schedulers.LOCAL:  # nobody but the script can wait
        plan, waits = plan._replace(after=plan.after + waits), ()
    script = loaded.spec.run.script
    if loaded.spec.environment.container is not None:
        script = None  # it may lie in the image
    if script and "$" not in script and not os.path.isfile(os.path.expanduser(script)):
        hint = "paths are relative to the folder you submit from"
        raise SpecError([loaded.problem("run.script", f"no such file here: {script!r}", hint)])
    text = render(plan)
    process.check_syntax(text, loaded.where("environment.setup"))
    found = header.read(text)
    return Submission(
        text,
        plan.name,
        plan.scheduler,
        source=Path(loaded.file).read_text(encoding="utf-8"),
        warning="\n".join(plan.notes),
        tasks=len(plan.array.tasks) if plan.array else 0,
        after=waits,
        jobs=found.jobs if found else 1,
    )


def from_script(path: str, *, stale_ok: bool, after: tuple[str, ...] = ()) -> Submission:
    """A rendered script; raises StaleError where its spec no longer renders it.

    `after` are jobs to wait for beside those of the script.
    """
    script = read_script(Path(path))
    spec_path = script.path.parent / script.header.source
    source, warning = None, ""
    if spec_path.is_file():
        source = spec_path.read_text(encoding="utf-8")
        if not stale_ok and script.diff(spec_path):
            hint = f"see 'jobgen check {path}', render it again, or give --stale-ok"
            raise StaleError(f"{path}: is not what {spec_path} renders today; {hint}")
    elif not stale_ok:
        warning = f"{path}: {spec_path} is not there, so nobody knows if it is stale"
    name, scheduler = script.header.name, script.header.scheduler
    waits = tuple(dependencies.parse(word, scheduler) for word in after)
    if waits and scheduler == schedulers.LOCAL:
        raise UsageError(f"{path}: a local script cannot be told to wait; submit its spec instead")
    return Submission(
        script.text,
        name,
        scheduler,
        source=source,
        warning=warning,
        tasks=script.header.tasks,
        after=waits,
        jobs=script.header.jobs,
    )
