"""Jobs that a user has started without jobgen: by their scripts' own plan.json they are known."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from support import jobgen, plan_of, working_in

from jobgen.errors import UsageError
from jobgen.jobs.find import find_job
from jobgen.jobs.rerun import prepare_rerun
from jobgen.jobs.submission import Submission
from jobgen.rendering import header
from jobgen.rendering.render import render

SPEC = {"name": "a", "resources": {"nodes": 2, "walltime": "10m"}, "run": {"module": "m"}}


def start(folder: Path, name: str, job_id: str, **more: object) -> None:
    """What a script leaves that has begun."""
    scheduler = "pbs" if "." in job_id else "slurm"
    script = render(plan_of(SPEC | more, scheduler=scheduler))
    about = header.read(script)
    assert about is not None
    run_dir = folder / "runs" / "a" / name
    (run_dir / "attempts/0").mkdir(parents=True)
    (run_dir / "attempts/0/job").write_text(f"{job_id}\n")
    (run_dir / "attempts/0/script").write_text(script)
    (run_dir / "attempts/0/nodes").write_text("n1\nn2\n")
    (run_dir / "attempts/0/outcome").write_text("done 0\n")
    (run_dir / "plan.json").write_text(header.write_json(about))


@pytest.mark.parametrize(("name", "job_id"), [("7", "7"), ("8", "8.server")])
def test_it_is_found_by_id_name_and_folder(tmp_path: Path, name: str, job_id: str) -> None:
    start(tmp_path, name, job_id)
    with working_in(tmp_path):
        for word in (name, "a", f"runs/a/{name}"):
            ended = jobgen("status", word)
            assert (ended.code, ended.out.splitlines()[0]) == (0, "done"), ended.err
            (tmp_path / "runs/a" / name / "job.json").unlink()
        assert job_id in jobgen("list").out
        assert jobgen("diagnose", name).code == 0


def test_a_task_of_an_array_leads_to_the_array(tmp_path: Path) -> None:
    array = {"values": {"lr": [1, 2]}}
    for index in (0, 1):
        start(tmp_path, f"7_{index}", f"7_{index}", array=array)
    with working_in(tmp_path):
        assert jobgen("status", "7").out.startswith("done\n")
        assert jobgen("status", "7_1").out.startswith("done\n")


def test_its_tasks_are_rerun_once_the_spec_is_put_where_the_refusal_says(tmp_path: Path) -> None:
    array = {"values": {"lr": [1, 2]}}
    for index in (0, 1):
        start(tmp_path, f"7_{index}", f"7_{index}", array=array)
    (tmp_path / "runs/a/7_1/attempts/0/outcome").write_text("failed 1\n")
    with working_in(tmp_path):
        (tmp_path / "job.yaml").write_text(json.dumps(SPEC | {"array": array}))
        with pytest.raises(UsageError, match=r"has no job.yaml; copy the spec there") as refused:
            prepare_rerun(find_job("7"), failed=True)
        words = shlex.split(str(refused.value).rpartition(": ")[2])
        assert words[0] == "cp"
        shutil.copy(*words[1:])
        (again,) = prepare_rerun(find_job("7"), failed=True)
        assert again.rerun_of == ("7_1",)


def test_the_same_is_not_submitted_beside_it(tmp_path: Path) -> None:
    start(tmp_path, "7", "7")
    with working_in(tmp_path):
        spec = plan_of(SPEC, scheduler="slurm")
        assert find_job("7").digest == Submission(render(spec), header.describe_plan(spec)).digest


def test_its_folder_is_known_once_a_command_has_found_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one, other = tmp_path / "one", tmp_path / "other"
    start(one, "7", "7")
    other.mkdir()
    with working_in(other):
        assert jobgen("list", "--all").out.count("\n") == 1
    with working_in(one):
        assert jobgen("list").code == 0
    start(one, "8", "8")  # and what is started there later
    with working_in(other):
        out = jobgen("list", "--all").out
    assert "../one/runs/a/7" in out
    assert "../one/runs/a/8" in out


def test_what_is_damaged_is_left_alone(tmp_path: Path) -> None:
    start(tmp_path, "7", "7")
    (tmp_path / "runs/a/7/plan.json").write_text('{"name": "b"}')
    with working_in(tmp_path):
        assert "no job '7' below ./runs" in jobgen("status", "7").err
    shutil.rmtree(tmp_path / "runs")
