"""Hand a script to its scheduler."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from jobgen import dependencies, header, links, process, runs, schedulers, status
from jobgen.check import read_script
from jobgen.dependencies import Dependency
from jobgen.errors import RefusedError, SpecError, StaleError, UsageError
from jobgen.loaded import load
from jobgen.plan import resolve
from jobgen.render import render
from jobgen.runs import RUNS, Job
from jobgen.schedulers.pbs import SCHEDULER as PBS


@dataclass(frozen=True)
class Submission:
    """A script that is ready to be handed over, from the folder that is current then.

    `file` is where it lies, or where it will be written first (`write`).
    """

    text: str
    name: str
    scheduler: str
    file: Path
    write: bool
    source: str | None = None  # the spec's text, to be kept beside the script
    warning: str = ""
    tasks: int = 0  # of the array that it is
    after: tuple[Dependency, ...] = ()  # what it waits for beside what the script says itself
    jobs: int = 1  # that are submitted, each to go on where the one before has ended

    @property
    def argv(self) -> list[str]:
        """The command that submits it."""
        argv = schedulers.get(self.scheduler).submit_argv(str(self.file))
        if self.after:
            scheduler = schedulers.batch(self.scheduler)
            own = scheduler.dependencies(self.text)  # which the command's would replace
            argv[1:1] = scheduler.after_argv(",".join(filter(None, [own, *map(str, self.after)])))
        return argv

    @property
    def folders(self) -> list[str]:
        """Folders that must be there before: neither sbatch nor qsub makes the output's."""
        outputs = schedulers.get(self.scheduler).output_folders(self.text)
        return [os.path.join(RUNS, self.name), *dict.fromkeys(outputs)]

    def as_dict(self) -> dict[str, object]:
        """What is submitted and how, for programs; folders that do not exist yet are made."""
        return {
            "name": self.name,
            "scheduler": self.scheduler,
            "argv": self.argv,
            "folder": os.getcwd(),
            "makes": self.folders,
            "script": str(self.file),
            "sha256": hashlib.sha256(self.text.encode()).hexdigest(),
        }

    def preview(self) -> str:
        """The commands that would be run here, and the script."""
        lines = [f"# in {os.getcwd()}:", f"mkdir -p {shlex.join(self.folders)}"]
        if self.write:
            lines.append(f"# write the script below to {self.file}, then")
        lines.append(shlex.join(self.argv))
        if self.jobs > 1:
            argv = PBS.next_argv(str(self.file), text=self.text, after="BEFORE", first="FIRST")
            lines.append(f"{shlex.join(argv)}    # {self.jobs - 1} times")
        lines.append("# the script:")
        return "\n".join(lines) + "\n" + self.text


def from_spec(
    path: str,
    *,
    scheduler: str | None,
    site: str | None,
    overrides: tuple[str, ...],
    limits: bool = True,
    after: tuple[str, ...] = (),
) -> Submission:
    """The script that a spec renders; raises SpecError where it could not run from here.

    `after` are jobs to wait for beside those of the spec, as `dependencies.parse` reads them. What
    the plan notes is the submission's warning.
    """
    loaded = load(path, overrides, user=True, target=scheduler or site)
    plan = resolve(loaded, scheduler=scheduler, site=site, limits=limits)
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
    ready = from_text(
        text,
        name=plan.name,
        scheduler=plan.scheduler,
        stem=Path(path).stem,
        source=Path(path).read_text(encoding="utf-8"),
    )
    return replace(
        ready,
        warning="\n".join(plan.notes),
        after=waits,
        tasks=len(plan.array.tasks) if plan.array else 0,
    )


def from_text(text: str, *, name: str, scheduler: str, stem: str, source: str) -> Submission:
    """A script just rendered: it goes to a file whose name carries its digest.

    So two submissions at the same time, with other settings, cannot swap scripts.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    file = Path(RUNS, name, "scripts", f"{stem}-{digest}{schedulers.get(scheduler).suffix}")
    found = header.read(text)
    jobs = found.jobs if found else 1
    return Submission(text, name, scheduler, file, write=True, source=source, jobs=jobs)


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
        script.path,
        write=False,
        source=source,
        warning=warning,
        tasks=script.header.tasks,
        after=waits,
        jobs=script.header.jobs,
    )


def submit(submission: Submission) -> tuple[Job, str]:
    """Submit from the current folder; returns the job, whose record is on disk, and a warning.

    Raises RefusedError or SchedulerUnavailableError with the scheduler's words.
    """
    for folder in submission.folders:
        os.makedirs(folder, exist_ok=True)
    if submission.write:
        runs.write_atomically(submission.file, submission.text)
    job = _start(submission) if submission.scheduler == schedulers.LOCAL else _hand_over(submission)
    job.save()
    warnings = [*_overridden(submission)]
    if submission.jobs > 1:
        found, warning = links.queue(
            str(submission.file), text=submission.text, first=job.id, jobs=submission.jobs
        )
        warnings += filter(None, [warning])
        job = replace(job, links=found)
        job.save()
    runs.write_atomically(job.run_dir / "script", submission.text)
    if submission.source is not None:
        runs.write_atomically(job.run_dir / "job.yaml", submission.source)
    return job, "\n".join(warnings)


def _overridden(submission: Submission) -> Iterator[str]:
    """What the scheduler takes from the variables here, and not from the script."""
    if submission.scheduler != schedulers.LOCAL:
        scheduler = schedulers.batch(submission.scheduler)
        for name, option in scheduler.overriding(submission.text, os.environ).items():
            value = os.environ[name]
            yield f"warning: {name}={value} is set here and wins over {option} of the script"


def _hand_over(submission: Submission) -> Job:
    argv = submission.argv
    before = {
        folder.name: len(runs.attempts(folder)) for folder in Path(RUNS, submission.name).iterdir()
    }
    try:
        output = process.run(argv)
    except RefusedError as error:
        hint = schedulers.batch(submission.scheduler).hint(str(error)) if submission.tasks else ""
        raise RefusedError(f"{error}{hint}") from None
    job_id = schedulers.batch(submission.scheduler).parse_job_id(output)
    if job_id is None:
        raise RefusedError(f"{argv[0]} printed no job id but {output[:200]!r}")
    job = _job(submission, job_id, argv)
    earlier = {name: count for name, count in before.items() if count and submission.tasks}
    return replace(job, first_attempt=before.get(job.run_dir.name, 0), earlier=earlier)


def _job(submission: Submission, job_id: str, argv: list[str], *, pid: int | None = None) -> Job:
    return Job(
        id=job_id,
        name=submission.name,
        scheduler=submission.scheduler,
        folder=os.getcwd(),
        submitted=time.time(),
        argv=tuple(argv),
        pid=pid,
        started=status.process_started(pid),
        tasks=submission.tasks,
    )


def _start(submission: Submission) -> Job:
    """Run the script at once, from a copy in the job's own folder: bash reads as it goes."""
    number = os.getpid()
    while True:
        job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{number}"
        run_dir = Path(RUNS, submission.name, job_id)
        try:
            run_dir.mkdir(parents=True)
            break
        except FileExistsError:  # this process has submitted this second already
            number += 1
    script = run_dir / "script"
    runs.write_atomically(script, submission.text)
    argv = schedulers.get(submission.scheduler).submit_argv(str(script))
    environment = {"JOBGEN_SUBMIT_ID": job_id}
    pid = process.detach(argv, environment=environment, output=str(run_dir / "job.out"))
    return _job(submission, job_id, argv, pid=pid)
