"""The pages of the documentation do what they say: their commands run, their specs are valid."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import pytest
from forked import Server, ask_by, run_server
from pages import Page, read_page, run_command
from report_runs import make, metrics, spec
from support import ROOT, jobgen, working_in

from jobgen.cli.main import cli
from jobgen.jobs.record import JobRecord

PAGES = [ROOT / "README.md", ROOT / "SKILL.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: guides that train with a library, by the one that they need
PROGRAMS = {
    "hugging-face": ("transformers", "accelerate"),
    "accelerate": ("accelerate",),
    "lightning": ("pytorch_lightning",),
    "own-loop": ("torch",),
}
#: what these import, which takes each process four seconds
IMPORTED = ("torch._dynamo", "jobgen.loop", "transformers.models.gpt2.modeling_gpt2")
IMPORTED += ("transformers.trainer", "accelerate", "pytorch_lightning")
#: a file that a program leaves once it has saved after step 101, and its words
SAVED = {
    "hugging-face": ("checkpoints/checkpoint-101/trainer_state.json", '"global_step": 101'),
    "accelerate": ("checkpoints/step-00000101-*.pt", ""),
    "lightning": ("checkpoints/last.ckpt", ""),
    "own-loop": ("checkpoints/step-00000101-*.pt", ""),
}
TRAINS = re.compile(r"jobgen submit job.yaml --wait|jobgen report [a-z]")


def write_runs(folder: Path) -> None:
    """Two jobs that have ended, and an array of two tasks, the first of which has begun."""
    lines = metrics(4, steps=200)
    for number in ("12345", "12399"):
        make(folder, number, ranks=4, lines=lines)
    content = spec(4, array={"values": {"lr": [1e-3, 3e-4]}})
    array = make(folder, "12400", ranks=4, lines="", content=content)
    array = JobRecord(**{**vars(array), "tasks": 2})
    array.save()
    task = array.task(0).run_dir
    task.mkdir()
    (task / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))


def write_script(folder: Path) -> None:
    """The script of README's first section."""
    name = "old.sbatch"
    (folder / name).write_text(read_page(ROOT / "README.md").files[name])


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def write_program(folder: Path) -> None:
    """A program that makes no process group, and a spec that starts it eight times."""
    (folder / "train.py").write_text("import torch\n\ntorch.nn.Linear(1, 1)\n")
    content = {"name": "train", "scheduler": "slurm", "run": {"script": "train.py"}}
    content |= {"resources": {"nodes": 2, "gpus_per_node": 4, "walltime": "1h"}}
    (folder / "job.yaml").write_text(json.dumps(content))


#: What a page's commands find in their folder, beside the files that the page itself shows.
BEFORE: Mapping[str, Callable[[Path], None]] = {
    "report": write_runs,
    "existing-scripts": write_script,
    "first-job": make_repository,
    "programs": write_program,
}


def write_files(page: Page, folder: Path) -> None:
    for name, text in page.files.items():
        (folder / name).write_text(text)


def test_programs_of_guides_are_short_enough_to_be_read() -> None:
    pages = [read_page(ROOT / "docs/guides" / f"{name}.md") for name in (*PROGRAMS, "deepspeed")]
    programs = [text for page in pages for name, text in page.files.items() if name == "train.py"]
    assert len(programs) >= 5
    assert max(text.count("\n") for text in programs) <= 70


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_commands_of_a_page_run(path: Path, tmp_path: Path) -> None:
    page = read_page(path)
    BEFORE.get(path.stem, lambda folder: None)(tmp_path)
    write_files(page, tmp_path)
    for command in page.commands:
        if command.here and not (path.stem in PROGRAMS and TRAINS.search(command.line)):
            run_command(command, tmp_path)


def test_every_command_is_run_or_marked() -> None:
    """What stands in a block of sh alone is run by nothing but .ci/run, which takes README's."""
    for path in PAGES:
        page = read_page(path)
        assert path.name == "README.md" or not [text for text, here in page.scripts if here], path
        text = path.read_text()
        assert not re.search(r"^```bash\n(?!choose_task|#!/bin/bash\n)", text, re.MULTILINE), path
        assert len(re.findall(r"^\$ ", text, re.MULTILINE)) == len(page.commands), path


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_specs_of_a_page_are_valid(path: Path, tmp_path: Path) -> None:
    page = read_page(path)
    write_files(page, tmp_path)
    with working_in(tmp_path):
        for name in page.files:
            if name.endswith(".yaml") and not name.startswith("."):
                ended = jobgen("check", name)
                assert (ended.code, "is valid" in ended.err) == (0, True), ended


def test_commands_and_options_of_the_pages_exist() -> None:
    for path in PAGES:
        page = read_page(path)
        lines = [command.line for command in page.commands]
        lines += [line for text, _ in page.scripts for line in text.splitlines()]
        used = re.findall(r"^jobgen (\w+)([^#\n]*)", "\n".join(lines), re.MULTILINE)
        used += re.findall(r"`jobgen (\w+)([^`]*)`", path.read_text())
        for command, rest in used:
            found = cli.get_command(click.Context(cli), command)
            assert found, f"{path}: {command}"
            if isinstance(found, click.Group) and rest.split():
                found = found.get_command(click.Context(found), rest.split()[0]) or found
            known = {option for param in found.params for option in param.opts} | {"--help"}
            own = re.sub(r"'[^']*'", "", rest.partition(" -- ")[0])
            asked = set(re.findall(r"(?<= )--?[a-z][a-z-]*", own))
            assert asked <= known, f"{path}: jobgen {command}{rest}"


def test_nothing_installs_a_name_that_is_not_ours() -> None:
    """The public index has no jobgen yet, and whoever takes the name would own its readers."""
    places = [*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "jobgen").rglob("*.py")]
    install = re.compile(r"(?:install|add|pipx|uvx)(?: -\S+| -c \S+)* ['\"]?jobgen\b(?! @|-)")
    found = [path for path in places if install.search(path.read_text())]
    assert not found
    assert install.search("pip install jobgen")
    assert install.search("pip install -q 'jobgen[hf]'")


def test_the_torch_that_readme_has_one_install_first_is_kept_by_its_commands() -> None:
    """Of another version, pip would take it out for the build that the index has: CUDA's."""
    (pinned,) = re.findall(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"`torch=={pinned}` instead of `torch`" in (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What the processes of the programs are forked from."""
    there = [name for name in IMPORTED if importlib.util.find_spec(name.partition(".")[0])]
    yield from run_server(there)


@pytest.fixture(scope="module")
def python(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a python3 that has imported already what the program of a guide imports."""
    folder = tmp_path_factory.mktemp("bin")
    ask, usual = shlex.join(ask_by(server)), shlex.quote(sys.executable)
    text = f'[ "$1 ${{2##*/}}" = "-u train.py" ] && exec {ask} "$@"\nexec {usual} "$@"\n'
    (folder / "python3").write_text(f"#!/bin/sh\n{text}")
    (folder / "python3").chmod(0o755)
    return folder


@pytest.mark.torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_of_a_guide_trains_and_its_report_has_the_loss(
    name: str, server: Server, python: Path, tmp_path: Path
) -> None:
    for library in PROGRAMS[name]:
        pytest.importorskip(library, reason=f"the guide is about {library}")
    page = read_page(ROOT / "docs" / "guides" / f"{name}.md")
    write_files(page, tmp_path)
    submit, report = page.commands
    run_command(submit, tmp_path, first=[python])
    text = run_command(report, tmp_path)
    assert "loss" in text
    job = re.split(" +", report.line)[2]
    with working_in(tmp_path):
        ended = jobgen("report", job, "--json")
    assert ended.code == 0, ended.err
    (run,) = json.loads(ended.out)["runs"]
    training = run["training"]
    losses = training["losses"]
    assert losses["x"] == list(range(5, 101, 5))
    assert losses["y"][-1] < 0.7 * losses["y"][0]
    assert training["rates"]["y"]
    assert run["state"] == "done"
    go_on_and_stop(name, next((tmp_path / "runs").glob("*/*/DONE")).parent, server)


def go_on_and_stop(name: str, run: Path, server: Server) -> None:
    """The program goes on where its run has ended, sees STOP after a step, saves, and ends."""
    where = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    where |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "JOBGEN_RUN_DIR": str(run)}
    (run / "STOP").touch()
    argv = ask_by(server, "train.py", "--steps", "300")
    folder = run.parents[2]
    subprocess.run(argv, cwd=folder, env={**os.environ, **where}, check=True, timeout=600)
    assert (run / "STOPPED").exists()
    pattern, words = SAVED[name]
    (file,) = run.glob(pattern)
    assert words in file.read_text(errors="replace")
    if file.suffix == ".ckpt":
        torch = pytest.importorskip("torch")
        assert torch.load(file, weights_only=False)["global_step"] == 101
