"""What the page asks of jobgen, asked without a browser."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import EXAMPLES, ROOT, jobgen, working_in

from jobgen import __version__
from jobgen.page import compose
from jobgen.page.build import PYODIDE_VERSION, START, list_sources, write_licenses
from jobgen.page.form import make_form
from jobgen.sites import search
from jobgen.spec.json_schema import make_schema
from jobgen.spec.model import JobSpec

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --time=02:00:00
torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=localhost:29500 train.py --lr 3e-4
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    with working_in(tmp_path):
        yield tmp_path


def test_a_script_is_what_render_prints(folder: Path) -> None:
    for example in EXAMPLES:
        answer = compose.compose(example.read_text())
        rendered = jobgen("render", "job.yaml")
        assert (answer["script"] or "") == rendered.out, example
        assert [row["text"] for row in answer["problems"]] == rendered.err.splitlines(), example


def test_problems_are_those_of_the_command_line() -> None:
    text = "name: a\nresources: {nodes: two, walltime: 4 hors}\nrun: {modul: m}\n"
    answer = compose.compose(text)
    assert answer["script"] is None
    assert [row["text"] for row in answer["problems"]] == jobgen("render").err.splitlines()
    assert [row["path"] for row in answer["problems"]][:1] == ["resources.nodes"]


def test_a_reason_stands_at_its_line() -> None:
    text = compose.edit(START, "resources.cpus_per_gpu", "8")["text"]
    answer = compose.compose(text)
    lines = answer["script"].splitlines()
    why = {lines[row["line"] - 1]: row["why"] for row in answer["reasons"]}
    assert "#SBATCH --nodes=2" in why
    assert any("OMP_NUM_THREADS" in line for line in why)


def test_a_site_takes_the_place_of_the_scheduler_once_it_is_known() -> None:
    text = compose.edit_text(START, "site", "nersc-perl")["text"]
    assert "scheduler: slurm\n" in text
    text = compose.edit_text(text, "site", "nersc-perlmutter")["text"]
    assert "site: nersc-perlmutter\n" in text
    assert "scheduler:" not in text
    for answer in (
        compose.edit_text(text, "site", "nersc-perlmutte", "slurm"),
        compose.edit(text, "site", None, "slurm"),
    ):
        assert "scheduler: slurm\n" in answer["text"]
    assert answer["script"]


def test_an_emptied_field_leaves_its_key_out() -> None:
    arguments = json.dumps([START, "run.args", None])
    answer = json.loads(compose.answer("edit", arguments))
    assert "args" not in answer["text"]
    assert answer["script"]


def test_the_form_says_what_the_site_decides() -> None:
    text = compose.edit_text(START, "site", "alcf-polaris")["text"]
    text = compose.edit_text(text, "account", "abc")["text"]
    answer = compose.edit(text, "filesystems", "[home, eagle]")
    assert answer["decided"]["launch.launcher"]["value"] == "mpiexec"
    assert "site alcf-polaris" in answer["decided"]["launch.launcher"]["why"]
    assert "queue" in answer["decided"]


def test_the_form_has_every_key_in_words() -> None:
    schema = json.loads(make_schema(JobSpec, title="job"))
    controls = [c.path for section in make_form() for c in (*section.controls, *section.advanced)]
    assert len(controls) == len(set(controls))
    known = schema["properties"].keys()
    assert {path.partition(".")[0] for path in controls} == known
    for name, record in (("resources", "Resources"), ("run", "Run"), ("launch", "Launch")):
        keys = schema["definitions"][record]["properties"]
        assert {f"{name}.{key}" for key in keys} <= set(controls)
    labels = {c.path: c.label for s in make_form() for c in (*s.controls, *s.advanced)}
    assert labels["resources.gpus_per_node"] == "GPUs per node"
    assert labels["environment.container.image"] == "Container: image"
    assert len(set(labels.values())) == len(labels)


def test_a_script_is_linted_and_imported() -> None:
    answer = compose.read_script("job.sbatch", SCRIPT)
    assert [row["line"] for row in answer["findings"]]
    assert "nodes: 2" in answer["text"]
    assert set(answer["scripts"]) == {"slurm", "pbs"}


def test_a_site_has_a_card_with_its_queues_and_their_limits() -> None:
    card = json.loads(compose.answer("describe_site", '["lumi-g"]'))
    assert (card["scheduler"], card["node"]) == ("slurm", "8 x MI250X a node")
    assert card["grade"].startswith("documentation, 2")
    queues = {queue["name"]: queue for queue in card["queues"]}
    longest = queues["small-g"]
    assert (longest["walltime"], longest["nodes"], longest["share"]) == ("72:00:00", "1-4", 1)
    assert queues["standard-g"]["gpus"] == "8"  # no fewer, as its nodes are whole
    queues = {queue["name"]: queue for queue in compose.describe_site("nci-gadi")["queues"]}
    assert queues["gpuvolta"]["gpus"] == "4 x V100-32 a node"


def test_what_cannot_be_written_leaves_the_text_as_it_was() -> None:
    answer = compose.edit(START, "resources", "{")
    assert answer["text"] == START
    (problem,) = answer["problems"]
    assert (problem["path"], problem["text"][:20]) == ("resources", "the text is not YAML")


def test_text_of_any_characters_is_one_value() -> None:
    answer = compose.edit_text(START, "name", "x: y")
    assert answer["text"].startswith("name: 'x: y'\n")
    assert [problem["path"] for problem in answer["problems"]] == ["name"]


def test_what_is_no_yaml_has_a_problem_at_its_place_and_no_values() -> None:
    answer = compose.compose("a: [")
    assert (answer["values"], answer["script"]) == ({}, None)
    assert [problem["line"] for problem in answer["problems"]] == [1]


def test_a_script_that_no_spec_can_be_made_of_says_why() -> None:
    answer = compose.read_script("a.sh", "#!/bin/bash\n#BSUB -n 1\njulia a.jl\n")
    assert answer["text"] is None
    assert [problem["text"] for problem in answer["problems"]] == [
        "a.sh:2:1: this is a script for LSF; jobgen reads #SBATCH and #PBS"
    ]


@pytest.mark.parametrize("options", [[], ["--serve", "--out", "folder"]])
def test_the_page_is_either_written_or_shown(options: list[str]) -> None:
    ended = jobgen("page", "--pyodide", "folder", *options)
    assert (ended.code, ended.err) == (2, "give either --out DIR or --serve\n")


def test_without_pyodide_the_command_says_how_to_get_it() -> None:
    ended = jobgen("page")
    assert ended.code == 2
    assert ended.err.startswith("jobgen page needs Pyodide; get it and name its folder:\n")
    assert f"npm pack pyodide@{PYODIDE_VERSION}\n" in ended.err
    assert "jobgen page --serve --pyodide pyodide\n" in ended.err
    assert "jobgen page --out 'a b' --pyodide pyodide\n" in jobgen("page", "--out", "a b").err


def test_the_page_carries_the_licences_of_all_its_software() -> None:
    text = write_licenses()
    for words in (
        *(f"jobgen {__version__}\n", "Copyright (c) 2026 The jobgen authors", "Jinja2 3."),
        *("MarkupSafe 3.", "Pallets", "PyYAML 6.", "Kirill Simonov", "Mozilla Public License"),
    ):
        assert words in text, words


# What a browser's Python has not: processes, users, and modules about them.
BROWSER = """
import os, sys
sys.path.insert(0, sys.argv[1])
for name in ("geteuid", "getegid", "fork", "getlogin"):
    delattr(os, name)
for name in ("pwd", "grp", "fcntl", "termios", "resource"):
    sys.modules[name] = None
import subprocess
def refuse(*_, **__):
    raise OSError(138, "emscripten does not support processes.")
subprocess.Popen.__init__ = refuse
from jobgen.page import compose
from jobgen.page.build import START
assert compose.compose(START)["script"]
assert compose.compose("name: a\\nxx: 1\\npartition: b\\nrun: torchrun x.py\\n")["problems"]
assert compose.edit_text(START, "site", "nci-gadi")["values"]["site"] == "nci-gadi"
assert compose.describe_site("nci-gadi")["queues"]
assert compose.read_script("job.sbatch", open(sys.argv[2]).read())["scripts"]["pbs"]
"""


def test_what_the_page_holds_is_all_that_it_needs_in_a_browser(folder: Path) -> None:
    (folder / "job.sbatch").write_text(SCRIPT)
    held = folder / "held"
    for name, path in list_sources(set(search.list_names())):
        (held / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, held / name)
    argv = [sys.executable, "-I", "-S", "-c", BROWSER, str(held), "job.sbatch"]
    ended = subprocess.run(argv, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_job_with_roles_shows_where_each_runs(folder: Path) -> None:
    text = (ROOT / "examples" / "roles" / "grpo.yaml").read_text()
    answer = compose.compose(text.replace("name: grpo", "name: grpo\nscheduler: slurm"))
    assert answer["problems"] == []
    places = answer["places"].splitlines()
    assert [line for line in places if line.startswith("Role ")] == ["Role server", "Role train"]
    assert "starts once server is ready" in answer["places"]
