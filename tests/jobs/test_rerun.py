"""What is run again, and what is not because another job does it already."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support import edited, jobgen, load

from jobgen import process
from jobgen.errors import AlreadySubmittedError, SpecError, StaleError, UsageError
from jobgen.jobs.find import find_job
from jobgen.jobs.record import JobRecord, list_reruns
from jobgen.jobs.rerun import prepare_continuation, prepare_rerun
from jobgen.jobs.run_folder import list_chain
from jobgen.jobs.status import read_state
from jobgen.jobs.submission import TOKEN, Submission, prepare_plan
from jobgen.plan.resolve import resolve
from jobgen.process import CommandResult

LONG = "resources: {nodes: 2, walltime: 2h}\n"


def end(job: JobRecord, word: str) -> None:
    folder = job.run_dir / "attempts/0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "outcome").write_text(f"{word}\n")


def record(number: str, *rerun_of: str, spec: str = "") -> JobRecord:
    """A job of Slurm that failed, whose run folder has all that a rerun needs."""
    loaded = load(edited(("resources: {nodes: 2}\n", spec or "resources: {nodes: 2}\n")))
    ready = prepare_plan(loaded, resolve(loaded, scheduler="slurm"))
    tasks = max(len(rerun_of), ready.about.tasks)
    about = (ready.about.name, "slurm", str(Path.cwd()), 1.0, ("x",))
    return keep(JobRecord(number, *about, tasks=tasks, rerun_of=rerun_of), ready)


def keep(job: JobRecord, ready: Submission) -> JobRecord:
    """Write the run folder of a job that was submitted so."""
    job.save()
    (job.run_dir / "script").write_text(ready.text)
    (job.run_dir / "job.yaml").write_text(ready.source or "")
    return job


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = CommandResult("9_0|RUNNING|None|N/A|N/A\n9_1|PENDING|None|N/A|N/A\n", 0, "")
    monkeypatch.setattr(process, "ask", lambda *_, **__: listed)


def test_tasks_that_another_rerun_does_or_has_done_are_left_out() -> None:
    array = record("7", spec="resources: {nodes: 2}\narray: {values: {lr: [1, 2, 3, 4]}}\n")
    for task, word in enumerate(("done 0", "failed 3", "failed 3", "failed 3")):
        end(array.task(task), word)
    assert prepare_rerun(array, failed=True)[0].rerun_of == ("7_1", "7_2", "7_3")

    other = record("9", "7_1", "7_2")  # runs
    replace(array, rerun_as=("9", "11")).save()  # the run folder of 11 is gone
    assert prepare_rerun(array, failed=True)[0].rerun_of == ("7_3",)
    assert prepare_rerun(array, failed=True, again=True)[0].rerun_of == ("7_1", "7_2", "7_3")
    assert [list_reruns(array.task(task)) for task in (0, 1, 3)] == [(), ("9",), ()]
    assert "\nwas rerun as 9\n" in jobgen("status", "7_1").out
    assert "\nwhat to do: it was rerun as 9: look at that first; " in jobgen("diagnose", "7").out

    third = record("12", "7_3")
    end(third.task(0), "failed 3")
    replace(array, rerun_as=("9", "12")).save()
    assert prepare_rerun(array, failed=True)[0].rerun_of == ("7_3",)
    end(third.task(0), "done 0")
    with pytest.raises(AlreadySubmittedError, match="nothing is left to rerun beside 9, 12; give"):
        prepare_rerun(array, failed=True)

    end(other.task(0), "failed 3")
    assert prepare_rerun(array, failed=True)[0].rerun_of == ("7_1",)
    replace(other, rerun_as=("13",)).save()  # and its rerun is done
    end(record("13", "9_0").task(0), "done 0")
    with pytest.raises(AlreadySubmittedError):
        prepare_rerun(array, failed=True)


def read_array(job: JobRecord) -> tuple[Submission, dict[str, object]]:
    """Prepare the rerun of what failed of a job; return it with the array of its spec."""
    (ready,) = prepare_rerun(job, failed=True)
    spec = load(ready.source or "", *ready.about.overrides).spec
    assert spec.array
    return ready, {key: value for key, value in spec.array._asdict().items() if value is not None}


def test_tasks_of_a_rerun_that_another_rerun_of_the_same_does_are_left_out() -> None:
    array = record("7", spec="resources: {nodes: 2}\narray: {values: {lr: [1, 2, 3]}}\n")
    two = "resources: {nodes: 2}\narray: {values: {lr: [1, 2]}}\n"
    first, second = record("20", "7_0", "7_1", spec=two), record("9", "7_1", "7_2", spec=two)
    for job in (*array.parts, *first.parts):
        end(job, "failed 3")
    replace(array, rerun_as=("20", "9")).save()  # 9 runs
    assert prepare_rerun(first, failed=True)[0].rerun_of == ("20_0",)
    assert prepare_rerun(first, failed=True, again=True)[0].rerun_of == ("20_0", "20_1")
    with pytest.raises(AlreadySubmittedError, match="nothing is left to rerun beside 9; give"):
        prepare_rerun(first.task(1), failed=True)
    end(second.task(0), "failed 3")
    assert prepare_rerun(first, failed=True)[0].rerun_of == ("20_0", "20_1")

    third = record("30", "20_1")  # as a rerun of 20, it has done what 9 has failed to do
    end(third.task(0), "done 0")
    replace(first, rerun_as=("30",)).save()
    with pytest.raises(AlreadySubmittedError, match="beside 20; give"):
        prepare_rerun(second.task(0), failed=True)


@pytest.mark.parametrize(
    ("written", "tasks"),
    [
        ("values: {lr: [5, 6, 7, 8]}", {"list": ({"lr": "6"}, {"lr": "7"}, {"lr": "8"})}),
        ("tasks: 4, at_once: 2", {"tasks": 3, "at_once": 2}),
    ],
)
def test_the_tasks_that_failed_keep_their_numbers(written: str, tasks: dict[str, object]) -> None:
    array = record("7", spec=f"resources: {{nodes: 2}}\narray: {{{written}}}\n")
    for task, word in enumerate(("done 0", "failed 3", "failed 3", "failed 3")):
        end(array.task(task), word)
    ready, found = read_array(array)
    assert found == tasks | {"numbers": (1, 2, 3)}

    rerun = keep(JobRecord("9", "a", "slurm", str(Path.cwd()), 1.0, ("x",), tasks=3), ready)
    for task, word in enumerate(("failed 3", "done 0", "failed 3")):
        end(rerun.task(task), word)
    _, found = read_array(rerun)
    assert found["numbers"] == (1, 3)
    if "list" in tasks:
        assert found["list"] == ({"lr": "6"}, {"lr": "8"})

    end(rerun.task(0), "done 0")
    (one,) = prepare_rerun(rerun, failed=True)
    assert (one.about.name, one.rerun_of) == ("a-2", ("9_2",))
    assert "    export JOBGEN_TASK=3\n    export SLURM_ARRAY_TASK_ID=$JOBGEN_TASK " in one.text


def test_no_task_goes_on_in_a_run_folder_and_what_else_can_be_done_works() -> None:
    """All tasks went on in the folder of the array, failed, and no command showed them."""
    spec = "resources: {nodes: 1, walltime: 2h}\non_walltime: {then: requeue}\narray: {tasks: 2}\n"
    array = record("30", spec=spec)
    for index in (0, 1):
        end(array.task(index), "failed 1")
    for job in (array, array.task(1)):
        with pytest.raises(UsageError, match="no task of an array goes on") as refused:
            prepare_continuation(job, overrides=("on_walltime.at_most=9",))
        word = re.findall("`jobgen rerun (\\S+) --failed`", str(refused.value))
        (ready,) = prepare_rerun(find_job(*word), failed=True, overrides=("on_walltime.at_most=9",))
        assert "30_1" in ready.rerun_of


def test_a_chain_goes_on_in_its_run_folder_once_all_its_jobs_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = record("20")
    end(plain, "failed 3")
    with pytest.raises(UsageError, match=r"--set on_walltime\.then=resubmit makes it one"):
        prepare_continuation(plain)

    assert prepare_continuation(
        plain, overrides=("resources.walltime=2h", "on_walltime.then=resubmit")
    ).continues

    spec = "resources: {nodes: 1, walltime: 2h}\non_walltime: {then: resubmit}\n"
    job = record("9", spec=spec)
    job.save()
    end(job, "failed 3")
    (job.run_dir / "attempts/after-9").write_text("10\n")
    listed = CommandResult("10|RUNNING|None|N/A|N/A\n", 0, "")
    monkeypatch.setattr(process, "ask", lambda *_, **__: listed)
    with pytest.raises(UsageError, match="job 9: 10 of its chain has not ended; jobgen cancel 9"):
        prepare_continuation(job)
    unknown = CommandResult("", 1, "slurm_load_jobs error: Invalid job id specified")
    asked: list[str] = []
    monkeypatch.setattr(process, "ask", lambda argv, **_: (asked.append(argv[0]), unknown)[1])
    ready = prepare_continuation(job)
    assert asked == ["squeue", "sacct"], "once each"
    assert ready.text == (job.run_dir / "script").read_text()
    assert ready.continues is not None
    assert (ready.continues.links, ready.continues.counted_from) == (("10",), 1)
    assert ready.continues.first_submitted == job.submitted
    assert "--export=ALL,JOBGEN_CHAIN=9" in ready.argv()
    queued = CommandResult("11|PENDING|None|N/A|N/A\n", 0, "")
    monkeypatch.setattr(process, "ask", lambda *_, **__: queued)
    assert read_state(replace(ready.continues, links=("10", "11"), submitted=2.0)).name == "queued"

    monkeypatch.setenv("JOBGEN_CHAIN", "9")
    with pytest.raises(UsageError, match="`jobgen rerun 9 --continue` goes on in the run folder"):
        ready.list_warnings()


def test_a_chain_that_is_done_does_not_go_on_while_its_next_job_begins_only_to_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PBS starts each job of a chain; for a moment, the last start had no outcome."""
    job = record("9", spec="resources: {nodes: 1, walltime: 2h}\non_walltime: {then: resubmit}\n")
    job.save()
    end(job, "done 0")
    (job.run_dir / "attempts/1").mkdir()
    gone = CommandResult("", 1, "slurm_load_jobs error: Invalid job id specified")
    monkeypatch.setattr(process, "ask", lambda *_, **__: gone)
    told = "there is nothing left to do, because it is done; to go further, --set another length"
    with pytest.raises(UsageError, match=f"{told}, such as run.args.steps=N"):
        prepare_continuation(job)
    longer = prepare_continuation(job, overrides=("run.args.steps=9",))
    assert longer.continues
    assert longer.continues.counted_from == 2


def test_a_chain_by_hand_does_not_go_on_while_a_later_job_of_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record of the first job knows none of the others, and their starts do."""
    job = record("9", spec="resources: {nodes: 1, walltime: 2h}\non_walltime: {then: resubmit}\n")
    job.save()
    end(job, "continued 0")
    for number, id in enumerate(("9", "10")):
        (job.run_dir / f"attempts/{number}").mkdir(exist_ok=True)
        (job.run_dir / f"attempts/{number}/job").write_text(f"{id}\n")
    listed = CommandResult("10|RUNNING|None|N/A|N/A\n", 0, "")
    monkeypatch.setattr(process, "ask", lambda *_, **__: listed)
    with pytest.raises(UsageError, match="job 9: 10 of its chain has not ended"):
        prepare_continuation(job)
    (job.run_dir / "attempts/1/job").write_text("--all\n")  # damaged, and no id
    assert list_chain(job) == ["9"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("-u -m m", "-u -m best"), ("--nodes=2", "--nodes=3"), ('main "$@"\n', "main\n")],
)
def test_an_edited_script_is_not_replaced_by_what_its_spec_renders(old: str, new: str) -> None:
    """A part of a sweep ran what was typed into the script, and its rerun what the spec said."""
    array = record("40", spec="resources: {nodes: 2}\narray: {values: {lr: [1, 2]}}\n")
    chain = record("50", spec=f"{LONG}on_walltime: {{then: resubmit}}\n")
    other = ("resources.walltime=1h",)
    for job in (array.task(0), array.task(1), chain):
        end(job, "failed 3")
    assert prepare_rerun(array.task(1), failed=True, overrides=other)
    assert prepare_continuation(chain, overrides=other).continues

    for job in (array, chain):
        script = job.run_dir / "script"
        edited = script.read_text().replace(old, new)
        script.write_text(f"{edited}{TOKEN}abc\n")
        assert [one.text for one in prepare_rerun(job)] == [edited]
        number = edited[: edited.index(new)].count("\n") + 1
        where = f"{job.id}/script, which ran, is not what its spec renders: its line {number} "
        with pytest.raises(StaleError, match=where):
            prepare_rerun(job, overrides=other)
    for task in (array, array.task(0)):
        with pytest.raises(StaleError, match="as it ran: jobgen rerun 40; for another,"):
            prepare_rerun(task, failed=True)
    with pytest.raises(StaleError):
        prepare_continuation(chain, overrides=other)
    assert prepare_continuation(chain).text == edited


def test_a_rerun_needs_the_variables_of_the_shell_that_its_job_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm took such a job, which ended at once, and qsub did not say which it lacks."""
    monkeypatch.setenv("TOKEN", "x")
    spec = "resources: {nodes: 1, walltime: 2h}\nenvironment: {from_shell: [TOKEN]}\n"
    job = record("60", spec=f"{spec}on_walltime: {{then: resubmit}}\n")
    end(job, "failed 3")
    assert prepare_rerun(job)
    monkeypatch.delenv("TOKEN")
    for prepare in (prepare_rerun, prepare_continuation):
        with pytest.raises(SpecError, match="TOKEN: not set in this shell; export it"):
            prepare(job)
    without = ("environment.from_shell=null",)
    assert prepare_continuation(job, overrides=without)


def test_what_only_its_script_waited_for_is_no_edit() -> None:
    first, second = "20261201-000045-29858", "20261201-000045-29859"
    loaded = load(edited(("nodes: 2", "walltime: 5m")))
    ready = prepare_plan(loaded, resolve(loaded), after=(f"afterany:{first}:{second}", first))
    job = keep(JobRecord("60", "a", "local", str(Path.cwd()), 1.0, ("x",)), ready)
    assert f"wait_for afterany {second}\n" in ready.text
    assert prepare_rerun(job, overrides=("resources.walltime=1h",))
