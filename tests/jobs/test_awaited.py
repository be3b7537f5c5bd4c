"""Jobs to wait for that have ended: they are left out, or the submission is refused."""

from pathlib import Path

import pytest
from support import edited, load

from jobgen import process
from jobgen.errors import UsageError
from jobgen.jobs.awaited import find_awaited, settle_waits
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


WARNINGS: list[str] = []


def settle(scheduler: str, *after: str, spec: str = "") -> list[str]:
    loaded = load(edited(("", spec)))
    ready = prepare_plan(loaded, resolve(loaded, scheduler=scheduler), after=after)
    return list(map(str, settle_waits(ready, WARNINGS.append).after))


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


def test_pbs_would_delete_a_job_that_waits_for_one_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (settle("slurm", "99"), WARNINGS) == (["afterok:99"], []), "which has not answered"
    with monkeypatch.context() as changed:
        unknown = "slurm_load_jobs error: Invalid job id specified"
        changed.setattr(process, "ask", lambda *_, **__: CommandResult("", 1, unknown))
        assert settle("slurm", "99") == ["afterok:99"]
    assert WARNINGS == ["warning: Slurm knows no job 99, and so waits for none"]
    with pytest.raises(UsageError, match="PBS knows no job 99, and deletes one that waits for it"):
        settle("pbs", "99")
    assert settle("slurm", spec="after: [14]\n") == []
    with pytest.raises(UsageError, match="has ended; take it out of after; for a rerun, give"):
        settle("pbs", spec="after: [24]\n")


def test_the_end_of_a_chain_is_waited_for_or_the_submission_is_refused(tmp_path: Path) -> None:
    """Slurm's next job does not exist yet; PBS has all of them, and the last one ends the chain."""
    JobRecord("30", "long", "slurm", str(tmp_path), 1.0, ("x",)).save()
    groups = '"groups": [{"nodes": 1, "processes": 1}], "then": "resubmit", "at_most": 9'
    about = (
        f'# jobgen: {{"name": "long", "spec": "x", "digest": "0", "scheduler": "slurm", {groups}}}'
    )
    (tmp_path / "runs/long/30/script").write_text(f"#!/bin/bash\n{about}\n")
    for after in ("30", "afterany:30"):
        with pytest.raises(UsageError, match=r"chain, .*instead: jobgen wait"):
            settle("slurm", after)
    with pytest.raises(UsageError, match="instead: jobgen wait"):
        settle("slurm", spec="after: {afterany: [30]}\n")
    assert settle("slurm", "after:30") == ["after:30"]

    for first in ("40", "50"):
        links = (f"{first[0]}1.login", f"{first[0]}2.login")
        sent = int(first) * 1.0
        JobRecord(f"{first}.login", "far", "pbs", str(tmp_path), sent, ("x",), links=links).save()
    assert find_awaited("afterany:40:41") == ("afterany:42.login:42.login", [])
    assert find_awaited("after:40") == ("after:40.login", [])
    assert find_awaited("far") == ("52.login", [])  # PBS knows none of them
    with pytest.raises(UsageError, match=r"far 40.login ends with 42.login: write that"):
        settle("pbs", spec="after: {afterany: [40]}\n")


def test_several_jobs_take_the_option_several_times() -> None:
    with pytest.raises(UsageError, match=r"for each: --after afterok:done --after afterany:42$"):
        find_awaited("afterok:done,afterany:42")


def test_of_several_jobs_of_a_name_that_go_on_the_one_taken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in ("60", "61"):
        JobRecord(number, "two", "slurm", str(tmp_path), float(number), ("x",)).save()
    listed = CommandResult("60|RUNNING|None|N/A|N/A\n61|RUNNING|None|N/A|N/A\n", 0, "")
    monkeypatch.setattr(process, "ask", lambda *_, **__: listed)
    remark = "--after two: it waits for the latest, 61; 60 of that name goes on, too"
    assert find_awaited("afterany:two") == ("afterany:61", [remark])
    assert find_awaited("60") == ("60", [])
