"""`jobgen init`: what it writes for a machine is valid, renders, and says how it came about."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from cluster_fixtures import PATIENCE, Pbs, Slurm
from jobs import JOBGEN
from jobs import jobgen as command
from saved_clusters import ACCOUNTS, program, replayed, saved
from support import jobgen, working_in

from jobgen.sites import search

SHIPPED = search.list_names()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles in an empty folder, on a machine without a scheduler."""
    work = tmp_path / "My first job"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", "/nowhere")
    # A busy machine may need more than a few seconds for what the saved commands print.
    monkeypatch.setattr("jobgen.machine.first_spec.SECONDS", PATIENCE)
    unset = ("JOBGEN_SITE_PATH", "CC_CLUSTER", "NERSC_HOST", "LMOD_SYSTEM_NAME")
    for name in (*unset, "VIRTUAL_ENV", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def init(*words: str) -> dict[str, object]:
    """The spec that it writes to job.yaml, which renders."""
    ended = jobgen("init", *words)
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert ended.err.endswith("job.yaml: written; read it, then: jobgen explain, jobgen submit\n")
    rendered = jobgen("render")
    assert rendered.code == 0, rendered.err
    found: dict[str, object] = yaml.safe_load(Path("job.yaml").read_text())
    return found


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("site", SHIPPED)
def test_what_it_writes_for_a_site_renders(site: str) -> None:
    spec = init("--site", site)
    profile = search.load(site)
    assert spec["name"] == "My-first-job"
    generic = site in ("local", "slurm-generic", "pbs-generic")
    assert spec.get("scheduler" if generic else "site") == (profile.scheduler if generic else site)
    text = Path("job.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=job.schema.json\n")
    assert not re.search(r"(?m)[ \t]+$", text)
    title = profile.title or (profile.can.title if generic else site)
    assert f"\n# A job for {title}, begun by" in text
    if profile.account.required:
        assert re.search("(?m)^# account:  +# every job here needs one", text)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("site", SHIPPED)
def test_what_is_left_to_the_user_needs_its_comment_sign_taken_off_and_a_value(site: str) -> None:
    """Every `# key:` becomes a key of the spec in the right place."""
    init("--site", site)
    values = {"account": "def-a_g", "queue": "q", "gpus_per_node": "4", "cpus_per_gpu": "8"}
    values |= {"modules": "[a]", "venv": "v", "args": "{lr: 1}"}
    if site == "lumi-g":
        values["account"] = "project_1"
    if site == "pawsey-setonix":
        values["account"] = "a-gpu"

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}: {values.get(match[2], '')}  #"

    text = Path("job.yaml").read_text()
    text = re.sub(r"(?m)^# ( *)([a-z_]+):(?: +#|$)", filled, text)
    Path("job.yaml").write_text(text)
    spec = yaml.safe_load(text)
    assert spec["environment"] == {"modules": ["a"], "venv": "v"}
    ended = jobgen("render", "--no-limits")
    assert ended.code == 0, ended.err


@pytest.mark.usefixtures("home")
def test_what_is_said_is_written() -> None:
    words = ["--site", "nci-gadi", "--account", "ab12", "--queue", "dgxa100", "--nodes", "2"]
    words += ["--gpus-per-node", "8", "--walltime", "02:00:00", "--script", "my train.py"]
    assert init(*words) == {
        "name": "My-first-job",
        "site": "nci-gadi",
        "account": "ab12",
        "queue": "dgxa100",
        "resources": {
            "nodes": 2,
            "gpus_per_node": 8,
            "walltime": "02:00:00",
        },
        "run": {"script": "my train.py"},
    }


@pytest.mark.usefixtures("home")
def test_a_queue_that_the_profile_does_not_know_is_written_with_a_warning() -> None:
    ended = jobgen("init", "--site", "nci-gadi", "--queue", "new-gpu")
    assert (ended.code, ended.out) == (0, "")
    assert "has no queue 'new-gpu'; it has gpuvolta" in ended.err
    assert yaml.safe_load(Path("job.yaml").read_text())["queue"] == "new-gpu"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--site", "alcf-polaris", "--nodes", "600"],
            "job.yaml:11:10: resources.nodes: 600 nodes: more than prod's 496 nodes",
        ),
        (
            ["--walltime", "4 hors"],
            "'4 hors' is not a duration; write walltime: 4h",
        ),
        (["--account", "a b", "--scheduler", "pbs"], "account: 'a b' is not a name that"),
        (["--site", "nowhere"], "nowhere: unknown site; `jobgen sites` lists the "),
    ],
)
def test_what_cannot_be_is_told_and_nothing_written(words: list[str], message: str) -> None:
    ended = jobgen("init", *words)
    assert (ended.code, ended.out) == (3, "")
    assert message in ended.err
    assert not Path("job.yaml").exists()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "words",
    [
        ["--site", "lumi-g", "--scheduler", "slurm"],
        ["--script", "a.py", "--module", "a"],
        ["--nodes", "0"],
    ],
)
def test_wishes_that_exclude_each_other(words: list[str]) -> None:
    assert jobgen("init", *words).code == 2
    assert not Path("job.yaml").exists()


@pytest.mark.usefixtures("home")
def test_a_file_that_is_there_is_not_replaced() -> None:
    Path("job.yaml").write_text("mine\n")
    ended = jobgen("init")
    assert ended.code == 2
    assert "job.yaml already exists; --force overwrites it" in ended.err
    assert Path("job.yaml").read_text() == "mine\n"
    Path("link.yaml").symlink_to("nowhere")
    assert jobgen("init", "link.yaml").code == 2
    assert init("--force")["scheduler"] == "local"


def test_it_finds_scheduler_account_and_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(Path(".venv/bin/activate"), "")
    Path("train.py").write_text("")
    cluster = saved(home, **{ACCOUNTS: "ml|physics\nml|ml\n"})
    with replayed(cluster, home, monkeypatch):
        spec = init()
    assert spec["scheduler"] == "slurm"
    assert spec["account"] == "ml"
    assert spec["environment"] == {"venv": ".venv"}
    assert spec["run"] == {"script": "train.py"}
    assert re.search("(?m)^account: ml  +# or physics$", Path("job.yaml").read_text())


def test_it_finds_the_site_and_an_account_of_its_form(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NERSC_HOST", "perlmutter")
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "torch")
    cluster = saved(home, **{ACCOUNTS: "m1234|m1234\nm1234|m1234_g\n"})
    with replayed(cluster, home, monkeypatch):
        spec = init()
    assert (spec["site"], spec["account"]) == ("nersc-perlmutter", "m1234")
    assert spec["environment"] == {"conda": "torch"}
    text = Path("job.yaml").read_text()
    assert "site: nersc-perlmutter         # as $NERSC_HOST is perlmutter\n" in text
    # The accounts are of this machine, not of another site.
    with replayed(cluster, home, monkeypatch):
        assert "account" not in init("--site", "cineca-leonardo", "--force")
    monkeypatch.delenv("NERSC_HOST")
    cluster = saved(home, **{ACCOUNTS: "group|group\ngroup|project_465000001\n"})
    with replayed(cluster, home, monkeypatch):
        assert init("--site", "lumi-g", "--force")["account"] == "project_465000001"


def test_a_captured_site_is_found_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with replayed(saved(home), home, monkeypatch):
        assert jobgen("sites", "capture", "--name", "our-lab").code == 0
        spec = init()
    assert spec["site"] == "our-lab"
    assert spec["resources"] == {"nodes": 1, "gpus_per_node": 4, "walltime": "1h"}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "folder", ["a-long-name-of-a-folder", "-x-", "...", "ä ö", "true", "9" * 150, 'a"b']
)
def test_the_folders_name_becomes_a_jobs_name(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(folder).mkdir()
    monkeypatch.chdir(folder)
    init()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("files", "run", "variables"),
    [
        ("src/pkg/train.py src/pkg/model.py", {"module": "pkg.train"}, {"PYTHONPATH": "src"}),
        ("pkg/__init__.py pkg/main.py pkg/run.py", {"module": "pkg.main"}, None),
        ("train.py src/pkg/train.py", {"script": "train.py"}, None),
        ("data/train.py", {"module": "jobgen.trainer"}, None),  # no package
        ("src/a/train.py src/b/train.py", {"module": "jobgen.trainer"}, None),
    ],
)
def test_the_program_of_a_package_is_found(
    files: str, run: dict[str, str], variables: dict[str, str] | None
) -> None:
    for file in files.split():
        program(Path(file), "")
    spec: Any = init()
    assert (spec["run"], spec.get("environment", {}).get("variables")) == (run, variables)


# --- on a terminal ---------------------------------------------------------------------


def typed(answers: str, *words: str, cwd: Path) -> tuple[int, str]:
    """Run it on a terminal and type the answers; its exit code and all that it shows."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*JOBGEN, "init", *words], stdin=other, stdout=other, stderr=other, cwd=cwd, close_fds=True
    )
    os.close(other)
    shown, end, left = b"", time.monotonic() + 300, answers.splitlines(keepends=True)
    while time.monotonic() < end:
        ready, _, _ = select.select([main], [], [], 0.2)
        if ready:
            try:
                got = os.read(main, 4096)
            except OSError:
                break
            if not got:
                break
            shown += got
            if left and shown.rstrip(b" ").endswith(b":"):
                os.write(main, left.pop(0).encode())
        elif process.poll() is not None:
            break
    os.close(main)
    return process.wait(120), shown.decode()


def test_on_a_terminal_it_asks_what_it_was_not_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    cwd = Path.cwd()
    code, shown = typed("project_7\n2\n\n30m\n\n", "--site", "lumi-g", cwd=cwd)
    assert code == 0, shown
    for question in ("Account that pays", "Nodes [1]", "GPUs on each node [8]", "Walltime [1h]"):
        assert question in shown
    spec = yaml.safe_load(Path("job.yaml").read_text())
    assert spec["account"] == "project_7"
    assert spec["resources"] == {"nodes": 2, "gpus_per_node": 8, "walltime": "30m"}
    assert spec["run"] == {"script": "train.py"}


def test_a_bad_answer_is_refused_at_once_and_asked_for_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    Path("fit.py").write_text("")
    answers = "gadi\nnci-gadi\n-\nvp91\nmany\n2\n4\n90\n90m\nfit.sh\n90\n\n"
    code, shown = typed(answers, cwd=Path.cwd())
    assert code == 0, shown
    assert "Known clusters: abci3, " in shown.replace("\r\n", " ")
    for refusal in (
        "unknown site 'gadi'; did you mean nci-gadi?",
        "'many' is not a number from 1",
        "'90' has no unit; write e.g. 90s, 90m or 90h",
        "'fit.sh' is not a Python file",
        "'90' is neither a file here nor the name of a Python file; write *.py",
    ):
        assert f"Error: {refusal}" in shown
    spec = yaml.safe_load(Path("job.yaml").read_text())
    assert (spec["site"], spec["account"]) == ("nci-gadi", "vp91")
    assert spec["resources"]["walltime"] == "90m"
    assert spec["run"] == {"script": "fit.py"}
    schema = json.loads(Path("job.schema.json").read_text())
    assert "copyq" in schema["properties"]["queue"].pop("examples")  # the site's own queues
    assert schema == json.loads(jobgen("schema", "job").out)


def test_what_was_told_is_not_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    words = ["--scheduler", "local", "--nodes", "1", "--gpus-per-node", "0", "--walltime", "5m"]
    code, shown = typed("", *words, "--module", "m", cwd=Path.cwd())
    assert code == 0
    assert "[" not in shown


# --- on clusters -----------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_on_a_live_cluster(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With time enough: on a busy machine a scheduler may take longer than four seconds."""
    monkeypatch.setattr("jobgen.machine.first_spec.SECONDS", PATIENCE)
    cluster: Slurm | Pbs = request.getfixturevalue(kind)
    env = {**cluster.env, "VIRTUAL_ENV": sys.prefix, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with mock.patch.dict(os.environ, env, clear=True), working_in(tmp_path):
        done = jobgen("init", "--script", "a.py")
    assert (done.code, done.out) == (0, ""), done.err
    spec = yaml.safe_load((tmp_path / "job.yaml").read_text())
    assert spec["scheduler"] == kind
    assert spec["environment"] == {"venv": sys.prefix}
    assert command("render", env=env, cwd=tmp_path).returncode == 0
