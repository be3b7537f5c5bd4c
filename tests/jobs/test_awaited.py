"""Jobs to wait for that have ended: they are left out, or the submission is refused."""

from pathlib import Path

import pytest
from support import edited, load

from jobgen import process
from jobgen.errors import UsageError
from jobgen.jobs.awaited import settle_waits
from jobgen.jobs.record import JobRecord
from jobgen.jobs.submission import prepare_plan
from jobgen.plan.resolve import resolve
from jobgen.process import CommandResult


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs 1 and 2 of each scheduler have ended, 3 goes on."""
    monkeypatch.chdir(tmp_path)
    for kind, number in (("slurm", "1"), ("pbs", "2")):
        for end in ("done", "failed"):
            one = JobRecord(f"{number}{len(end)}", end, kind, str(tmp_path), 1.0, ("x",))
            one.save()
            folder = one.run_dir / "attempts/0"
            folder.mkdir(parents=True)
            (folder / "outcome").write_text(f"{end} {int(end != 'done')}\n")
    unknown = "qstat: Unknown Job Id 99.login"
    monkeypatch.setattr(process, "ask", lambda *_, **__: CommandResult("", 153, unknown))


def settle(scheduler: str, *after: str, spec: str = "") -> list[str]:
    loaded = load(edited(("", spec)))
    ready = prepare_plan(loaded, resolve(loaded, scheduler=scheduler), after=after)
    return list(map(str, settle_waits(ready).after))


@pytest.mark.parametrize(("scheduler", "done", "failed"), [("slurm", 14, 16), ("pbs", 24, 26)])
def test_a_job_that_has_ended_as_it_is_to_is_not_waited_for(
    scheduler: str, done: int, failed: int
) -> None:
    met = (f"{done}", f"afterany:{failed}", f"afternotok:{failed}", f"after:{done}:{failed}")
    assert settle(scheduler, *met) == []
    for never in (f"afterok:{failed}", f"afternotok:{done}"):
        with pytest.raises(UsageError, match="so a job that waits for it never starts"):
            settle(scheduler, never)
        kind, _, job = never.partition(":")
        with pytest.raises(UsageError, match="never starts"):
            settle(scheduler, spec=f"after: {{{kind}: [{job}]}}\n")


def test_pbs_would_delete_a_job_that_waits_for_one_that_it_does_not_know() -> None:
    assert settle("slurm", "99") == ["afterok:99"]
    with pytest.raises(UsageError, match="PBS knows no job 99, and deletes one that waits for it"):
        settle("pbs", "99")
    assert settle("slurm", spec="after: [14]\n") == []
    with pytest.raises(UsageError, match="has ended; take it out of after; for a rerun, give"):
        settle("pbs", spec="after: [24]\n")
