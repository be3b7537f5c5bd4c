"""Records that cannot lie: what is read from run folders, whoever has written there."""

import json
import os
from pathlib import Path

import pytest
from support import jobgen

from jobgen.errors import UsageError
from jobgen.jobs import record as runs
from jobgen.jobs.find import find_job
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import list_chain, read_traces
from jobgen.plan.plan import NodeGroup
from jobgen.rendering import header

JOB = JobRecord(
    id="7",
    name="a",
    scheduler="slurm",
    folder="/x",
    submitted=1.5,
    argv=("sbatch", "a b"),
    links=("8",),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str | bytes) -> Path:
    path = Path("runs/a/7/job.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def record(**changes: object) -> str:
    return json.dumps(JOB.__dict__ | changes)


def test_a_record_is_read_as_it_was_written(folder: Path) -> None:
    job = runs.parse_record(json.loads(record(folder=str(folder))))
    job.save()
    assert find_job("7") == job
    assert job.run_dir == folder / "runs/a/7"
    assert [path.name for path in job.run_dir.iterdir()] == ["job.json"]


def test_records_of_earlier_and_of_later_versions_are_read() -> None:
    old = {key: JOB.__dict__[key] for key in ("id", "name", "scheduler", "folder", "submitted")}
    job = runs.read_record(
        write(json.dumps(old | {"argv": ["sbatch", "a b"], "pid": None, "new": [1]}))
    )
    assert (job.id, job.argv, job.links, job.token) == ("7", ("sbatch", "a b"), (), "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        (record()[:60], "Unterminated string"),
        (b'{"id": "\xe9"}', "codec can't decode"),
        ("[]", "it is not a JSON object"),
        ("{}", "id is missing"),
        (record(id=7), "id is 7 and not a text"),
        (record(submitted="now"), "submitted is 'now' and not a number"),
        (record(tasks=True), "tasks is True and not a whole number"),
        (record(pid="1"), "pid is '1' and not a whole number or null"),
        (record(argv="sbatch"), "argv is 'sbatch' and not a list"),
        (record(scheduler="lsf"), "scheduler is 'lsf'"),
        ("[" * 100_000, "not the record of a job"),
    ],
)
def test_a_file_that_is_no_record_is_no_traceback(text: str | bytes, problem: str) -> None:
    write(text)
    code, out, err = jobgen("status", "7")
    assert (code, out) == (2, "")
    assert err.startswith("runs/a/7/job.json: not the record of a job: ")
    assert problem in err
    assert len(err.splitlines()) == 1


def test_a_record_elsewhere_is_refused_with_the_place_where_it_is_read() -> None:
    for place in ("other place/7", "runs/a/8"):
        Path(place).mkdir(parents=True)
        Path(place, "job.json").write_text(record())
        with pytest.raises(UsageError, match="it is of runs/a/7, and read only there"):
            find_job(place)


def test_an_empty_outcome_of_a_full_disk_is_none() -> None:
    attempt = write(record(folder=os.getcwd())).parent / "attempts/0"
    attempt.mkdir(parents=True)
    (attempt / "outcome").touch()
    assert read_traces(find_job("7")).word == ""


def test_a_task_is_linked_to_what_it_does_again_itself() -> None:
    array = JobRecord("9", "a", "slurm", "/x", 0.0, (), tasks=2, rerun_of=("7_1", "7_4"))
    assert [array.task(index).rerun_of for index in (0, 1)] == [("7_1",), ("7_4",)]
    whole = JobRecord("9", "a", "slurm", "/x", 0.0, (), tasks=2, rerun_of=("7",), rerun_as=("12",))
    assert (whole.task(1).rerun_of, whole.task(1).rerun_as) == (("7",), ())


def test_a_role_has_its_spec_and_script_in_its_own_folder(tmp_path: Path) -> None:
    job = JobRecord("12", "a", "pbs", str(tmp_path), 0.0, ())
    script = job.run_dir / "roles/server/attempts/0/script"
    script.parent.mkdir(parents=True)
    script.touch()
    assert job.roles["server"].whole_dir == job.run_dir / "roles/server"


def test_roles_come_in_the_order_of_the_file_whenever_each_has_begun(tmp_path: Path) -> None:
    job = JobRecord("12", "a", "local", str(tmp_path), 0.0, ())
    for role in ("monitor", "learner", "server"):
        (job.run_dir / f"roles/{role}/attempts/0").mkdir(parents=True)
        (job.run_dir / f"roles/{role}/attempts/0/script").touch()
    order = ("server", "learner", "monitor")
    about = header.Header("a", "a.yaml", "", "local", groups=(NodeGroup(3, 1),), roles=order)
    (job.run_dir / "plan.json").write_text(header.write_json(about))
    assert (*job.roles,) == order


@pytest.mark.parametrize(
    ("array", "tasks", "task", "shares"),
    [
        ("12", 5, "12_3", "12_1"),
        ("12", 2, "12_1", "12"),
        ("12[].pbs", 5, "12[3].pbs", "12[1].pbs"),
        ("12.pbs", 2, "12_1.pbs", "12.pbs"),
    ],
)
def test_a_task_that_shares_a_job_has_a_folder_of_its_own(
    array: str, tasks: int, task: str, shares: str
) -> None:
    whole = JobRecord(array, "a", "pbs", "/x", 0.0, (), tasks=tasks, together=2)
    one = whole.task(min(3, tasks - 1))
    assert (one.id, one.shares, one.whole_dir.name) == (task, shares, "12")
    assert one.run_dir.name == f"12_{min(3, tasks - 1)}"
    assert list_chain(one) == [shares]
