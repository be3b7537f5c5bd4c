"""What programs read: every `--json` prints one object; docs/reference/json.md has its keys."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft7Validator
from support import EXAMPLES, ROOT, jobgen

from jobgen.cli.main import cli
from jobgen.sites.profile import SiteProfile
from jobgen.sites.search import list_names
from jobgen.spec.json_schema import make_schema

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()
SECTIONS = dict(re.findall(r"^## jobgen ([a-z ]+) --json\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, groups that do something themselves included."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


WITH_JSON = sorted(
    name
    for name, command in commands(cli)
    if any("--json" in parameter.opts for parameter in command.params)
)


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a spec, a stale script of it, a job, a bad script, a profile."""
    monkeypatch.chdir(tmp_path)
    example = next(path for path in EXAMPLES if path.stem == "quickstart")
    Path("job.yaml").write_text(example.read_text())
    assert jobgen("render", "-o", "job.sh").code == 0
    Path("job.sh").write_text(Path("job.sh").read_text() + "# mine\n")
    Path("a.sbatch").write_text("#SBATCH -N 2\nsrun python a.py\nwait\n")
    Path("elsewhere.yaml").write_text(
        "name: a\nscheduler: local\nresources: {}\nenvironment: {venv: no}\nrun: {module: m}\n"
    )
    Path("mine.yaml").write_text("scheduler: pbs\nwalltime_required: true\n")
    folder = Path("runs/gpt/7")
    folder.mkdir(parents=True)
    record = {"id": "7", "name": "gpt", "scheduler": "local", "folder": str(tmp_path)}
    Path("again.yaml").write_text(
        Path("elsewhere.yaml").read_text().replace("environment: {venv: no}\n", "")
    )
    script = jobgen("render", "again.yaml").out
    (folder / "script").write_text(script)
    (folder / "job.yaml").write_text(Path("again.yaml").read_text())
    record |= {"submitted": 0.0, "argv": ["bash"], "pid": None, "started": 1}
    (folder / "job.json").write_text(json.dumps(record))


CALLS = {
    "cancel": ("cancel", "7", "--json"),
    "check": ("check", "--json"),
    "clean": ("clean", "--yes", "--json"),
    "diagnose": ("diagnose", "7", "--json"),
    "doctor": ("doctor", "elsewhere.yaml", "--json"),
    "explain": ("explain", "--json"),
    "import": ("import", "a.sbatch", "--json"),
    "init": ("init", "new.yaml", "--scheduler", "slurm", "--module", "m", "--json"),
    "lint": ("lint", "a.sbatch", "--json"),
    "list": ("list", "--json"),
    "logs": ("logs", "7", "--json"),
    "render": ("render", "again.yaml", "--json"),
    "report": ("report", "7", "--json"),
    "rerun": ("rerun", "7", "--json"),
    "sites": ("sites", "--json"),
    "sites show": ("sites", "show", "nci-gadi", "--json"),
    "sites test": ("sites", "test", "mine.yaml", "--json"),
    "status": ("status", "7", "--json"),
    "submit": ("submit", "--dry-run", "--json"),
    "top": ("top", "7", "--json"),
    "wait": ("wait", "7", "--json"),
}


def test_each_is_called_here_and_has_a_section() -> None:
    assert list(CALLS) == WITH_JSON
    assert sorted(SECTIONS) == WITH_JSON


def keys(value: Any) -> Iterator[str]:
    """All keys that jobgen chose: not a run's settings, nor a profile, which has a schema."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("profile", "settings", "varied"):
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("name", CALLS)
def test_it_is_one_object_whose_keys_are_explained(name: str) -> None:
    code, out, _ = jobgen(*CALLS[name])
    assert code == {"cancel": 5, "check": 4, "lint": 8, "doctor": 8, "wait": 7}.get(name, 0)
    data = json.loads(out)
    assert isinstance(data, dict)
    more = {"report": ["diagnose"], "list": ["status"], "wait": ["status"], "top": ["status"]}
    sections = [name, "sites", *more.get(name, [])]
    explained = set(re.findall(r"`(\w+)`", "".join(SECTIONS[of] for of in sections)))
    assert set(keys(data)) - explained == set()


@pytest.mark.usefixtures("_here")
def test_errors_are_said_on_stderr_alone() -> None:
    Path("job.yaml").write_text("name: a\nresources: {nodes: 0}\nrun: {module: m}\n")
    for command in ("explain", "submit"):
        code, out, err = jobgen(command, "--json")
        assert (code, out) == (3, "")
        assert err == "job.yaml:2:20: resources.nodes: 0 is less than 1; write 1 or more\n"
    code, out, err = jobgen("check", "--json")
    (problem,) = json.loads(out)["problems"]
    assert code == 3
    assert problem == {
        "where": {"file": "job.yaml", "line": 2, "column": 20},
        "path": "resources.nodes",
        "message": "0 is less than 1",
        "hint": "write 1 or more",
        "setting": "",
    }
    assert err == "job.yaml:2:20: resources.nodes: 0 is less than 1; write 1 or more\n"


@pytest.mark.usefixtures("_here")
def test_what_was_submitted_and_how_it_ended() -> None:
    run = "run: {command: ['true']}\n"
    Path("job.yaml").write_text(f"name: a\nscheduler: local\nresources: {{}}\n{run}")
    code, out, err = jobgen("submit", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["run_folder"] == f"runs/a/{data['id']}"
    assert f"run folder: {data['run_folder']}\n" in err
    assert Path(data["script"]).is_file()


@pytest.mark.parametrize("name", list_names())
def test_a_site_as_json_is_a_profile(name: str) -> None:
    profile = json.loads(jobgen("sites", "show", name, "--json").out)["profile"]
    Draft7Validator(json.loads(make_schema(SiteProfile, title="site"))).validate(profile)


def test_json_belongs_to_the_command_and_not_to_its_group() -> None:
    code, out, err = jobgen("sites", "--json", "show", "local")
    assert (code, out) == (2, "")
    assert "give --json to show" in err
