"""The Python API: what docs/reference/api.md says of it is true."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import ALLREDUCE
from support import MINIMAL, ROOT, edited

import jobgen
from jobgen.errors import SpecError, UsageError

DOC = (ROOT / "docs" / "reference" / "api.md").read_text()
EXAMPLE = re.findall(r"```python\n(.*?)```", DOC, re.S)[0]
# It fails at once, and does without torch.
BRIEF = edited(
    ("nodes: 2", "nodes: 1"), ("{module: m}", "{command: ['false']}\nlaunch: {mode: plain}")
)
PACKAGE = ast.parse((ROOT / "jobgen" / "__init__.py").read_text())


def python(program: str, cwd: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.torch
def test_the_example_runs_and_names_the_rank_that_failed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="jobs need torch")
    spec = {
        "name": "reduce",
        "scheduler": "local",
        "resources": {"nodes": 1, "walltime": "5m"},
        "launch": {"processes_per_node": 2},
        "environment": {"venv": sys.prefix},
        "run": {"script": str(ALLREDUCE), "args": {"raise-on": 3}},
    }
    Path("job.yaml").write_text(json.dumps(spec))
    said = python(EXAMPLE, tmp_path).splitlines()
    assert said[0] == "4 processes on 2 nodes"
    # On one machine the nodes have one address, and either may have the first ranks.
    assert any(re.match(r"node[01] rank 1 \| {", line) for line in said)
    assert any(re.search("FAILED with exit code 1: rank 3 on node[01]", line) for line in said)
    assert re.match("rank 3 on node[01]: RuntimeError: planted on rank 3", said[-1])
    assert Path("job.sh").read_text().startswith("#!/bin/bash\n")

    (record,) = Path("runs").glob("*/*/job.json")
    job = jobgen.find(record.parent.name)
    again = jobgen.find(str(record.parent))
    assert isinstance(job, jobgen.Job)
    assert job == again
    assert job.status().name == job.wait().name == "failed"
    lines = list(job.logs(rank=3, stderr=True))
    assert {(line.ranks, line.task) for line in lines} == {((3,), None)}
    assert {line.nodes for line in lines} in ({("node0",)}, {("node1",)})
    assert "RuntimeError: planted on rank 3" in [line.text for line in lines]
    with pytest.raises(jobgen.JobgenError, match="has already ended") as refusal:
        job.cancel()
    assert refusal.value.exit_code == 5


def test_a_bad_spec_has_all_its_problems_and_nothing_is_written() -> None:
    Path("job.yaml").write_text("name: a b\nresources: {nodes: many}\n")
    with pytest.raises(SpecError) as found:
        jobgen.submit("job.yaml")
    assert len(found.value.problems) == 3
    assert found.value.exit_code == 3
    assert os.listdir() == ["job.yaml"]


def test_what_there_is_to_note_is_a_warning_unless_it_is_asked_for() -> None:
    Path("job.yaml").write_text(BRIEF)
    Path("job.sh").write_text(jobgen.render(jobgen.resolve(jobgen.load("job.yaml"))))
    Path("job.yaml").unlink()
    ready = jobgen.prepare(Path("job.sh"))
    assert ready.text == Path("job.sh").read_text()
    with pytest.raises(UsageError, match="already has its scheduler, site and values"):
        jobgen.prepare("job.sh", overrides=["resources.nodes=2"])
    notes: list[str] = []
    job = jobgen.submit(ready, warn=notes.append)
    assert "the script may be stale" in notes[0]
    assert [*job.follow()]
    with pytest.warns(UserWarning, match="the script may be stale") as caught:
        job = jobgen.submit("job.sh")
    assert caught[0].filename == __file__
    assert [*job.follow()]


def test_many_jobs_are_looked_at_together() -> None:
    Path("job.yaml").write_text(BRIEF)
    one, other = (jobgen.submit("job.yaml", again=True) for _ in range(2))
    assert {one.wait().name, other.wait().name} == {"failed"}
    assert jobgen.list_jobs() == ([other, one], [])
    found, problems = jobgen.find_all([one.id, "nothing"])
    assert (found, len(problems)) == ([one], 1)
    report = jobgen.get_status([one, other])
    assert [each.state.name for each in report.jobs] == ["failed", "failed"]
    assert [run.state for run in jobgen.make_report([one, other]).runs] == ["failed", "failed"]
    assert [run.state for run in other.report().runs] == ["failed"]
    with pytest.raises(jobgen.JobgenError) as refusal:
        jobgen.cancel([one, other])
    assert refusal.value.exit_code == 5
    assert not jobgen.recover_submissions()


def test_the_tasks_of_an_array_are_jobs() -> None:
    me = Path.cwd()
    jobgen.Job("7", "a", "slurm", str(me), 0.0, (), tasks=3).save()
    task = jobgen.find("7").task(2)
    assert isinstance(task, jobgen.Job)
    assert (task.id, task.array) == ("7_2", "7")
    assert jobgen.find("7_2") == task
    assert not list(task.logs())
    for job, index, words in (
        (jobgen.find("7"), 3, "job 7: no task 3; 7 has tasks 0 to 2"),
        (jobgen.find("7"), -1, "job 7: no task -1; 7 has tasks 0 to 2"),
        (task, 0, "job 7_2: no task 0; 7_2 is not an array"),
    ):
        with pytest.raises(UsageError) as refusal:
            job.task(index)
        assert str(refusal.value) == words


def test_names_are_imported_when_they_are_used_and_stay_functions(tmp_path: Path) -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import jobgen\n"
        "assert set(sys.modules) - before == {'jobgen'}, set(sys.modules) - before\n"
        "import jobgen.jobs.submit, jobgen.rendering.render\n"
        "names = [getattr(jobgen, name).__name__ for name in jobgen.__all__[1:]]\n"
        "assert names == jobgen.__all__[1:], names\n"
        "assert callable(jobgen.render) and set(jobgen.__all__) <= set(dir(jobgen))\n"
        "from jobgen import *\n"
        "assert render is jobgen.render\n"
        "print(hasattr(jobgen, 'nothing'))\n"
    )
    assert python(program, tmp_path) == "False\n"


def test_the_types_are_those_of_what_is_there() -> None:
    homes = {
        alias.asname: f"{node.module}.{alias.name}"
        for node in ast.walk(PACKAGE)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jobgen.")
        for alias in node.names
    }
    assert sorted(homes) == jobgen.__all__[1:]
    for name, home in homes.items():
        assert home == f"{getattr(jobgen, name).__module__}.{name}"
        assert f"`{name}" in DOC or f"jobgen.{name}" in DOC


@pytest.mark.slow
def test_the_example_is_well_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="checks types")
    checked = f"{EXAMPLE}\nreveal_type(jobgen.render(plan))\nreveal_type(job.status().name)\n"
    example = tmp_path / "example.py"
    example.write_text(checked)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", example],
        cwd=ROOT,  # its settings, and what it remembers of jobgen
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout
    assert 'Revealed type is "str"' in ended.stdout
    assert "Literal['done']" in ended.stdout


def test_a_spec_may_be_text_or_keys_and_values_and_overrides_values() -> None:
    Path("job.yaml").write_text(MINIMAL)
    Path(".jobgen.yaml").write_text("account: theirs\n")
    data = {"name": "a", "scheduler": "local", "resources": {"nodes": 2}, "run": {"module": "m"}}
    of_file, of_text, of_data = map(jobgen.load, (Path("job.yaml"), MINIMAL, data))
    assert of_file.spec == of_text.spec == of_data.spec
    assert of_file.spec.account == "theirs"
    assert of_file.digest == of_data.digest
    tag = '#1 "best"\nof: all'
    prepared = jobgen.prepare(data, overrides={"resources.nodes": 3, "run.args.tag": tag})
    assert jobgen.load(MINIMAL, {"run.args.tag": tag}).spec.run.args == {"tag": tag}
    assert "3 nodes" in prepared.text


@pytest.mark.parametrize("is_text", [False, True])
def test_a_spec_without_a_file_is_called_the_spec(*, is_text: bool) -> None:
    Path(".jobgen.yaml").write_text("account: theirs\n")
    data: dict[str, object] = {"name": "a", "scheduler": "local", "run": {"module": "m"}}
    place = r":\d+:\d+" if is_text else ""

    def prepare(**keys: object) -> Any:
        spec = data | {"resources": {}} | keys
        return jobgen.prepare(yaml.safe_dump(spec) if is_text else spec)

    for keys, said in (
        ({"resources": {"nodes": 0}}, "resources.nodes: 0 is less than 1"),
        ({"scheduler": "slurm", "site": "local"}, "site: "),
    ):
        with pytest.raises(SpecError, match=f"^the spec{place}: {said}"):
            prepare(**keys)
    prepared = prepare(environment={"venv": "/tmp/none"}, qos="x", scheduler="slurm")
    assert re.search(f"the spec{place}: environment.venv: /tmp/none", prepared.warning)
    assert "# rendered by jobgen from: the spec\n" in prepared.text
    assert "job.yaml" not in f"{prepared.warning}{prepared.text}"


def test_what_is_kept_of_a_spec_needs_no_other_files() -> None:
    Path("base.yaml").write_text(edited(("name: a", "name: base\naccount: x"), text=BRIEF))
    Path("job.yaml").write_text("extends: base.yaml\nname: '010'\naccount: null\n")
    job = jobgen.submit("job.yaml", again=True)
    job.wait()
    kept = jobgen.load(str(job.run_dir / "job.yaml"), alone=True)
    assert kept.spec == jobgen.load("job.yaml").spec._replace(extends=None)
    assert (kept.spec.name, kept.spec.account, kept.spec.run.command) == ("010", None, ("false",))
